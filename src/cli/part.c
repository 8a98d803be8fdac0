// SPDX-License-Identifier: Apache-2.0
/* part.c - terrace part run: workers of a job, as the example that shows the protocol.
 *
 *   claim -> start -> run the command, with a beat every now and then -> done, or fail
 *
 * Each worker is a process with a connection of its own: one that is killed shows what happens to
 * its partition. The parent draws how far the job is.
 *
 * Nothing goes on working behind the back of the job: a command is a process group, which the
 * parent kills if its worker was killed, and its shell dies with the worker even without a parent;
 * workers stop when the parent is gone. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/signals.h"
#include "cli/cli.h"

#include "base/banned.h"

enum {
    WORKERS_MAX = 1000,
    WORDS_MAX = 64, /* of a reply */
    LINE_BYTES = 4096,
    COMMAND_BYTES_MAX = 1024 * 1024,
    IDLE_MS = 100, /* between two claims that got nothing */
    DRAW_MS = 100,
    WAIT_MS_MIN = 50, /* between two tries to reach a server that went away */
    WAIT_MS_MAX = 1000,
    AWAY_MS = 60 * 1000,
    BAR_WIDTH = 40,
};
#define NS_A_MS UINT64_C(1000000)

struct run { /* what the command line says */
    struct cli_server server;
    const char *job, *exec;
    int workers;
    int64_t stale_ms, retries, away_ms;
    _Atomic pid_t *running; /* shared by the processes: of each worker, its command; 0: none */
};

/* ---- talking ---- */

struct reply { /* flat: all strings and numbers of it, as texts */
    char *word[WORDS_MAX];
    size_t count;
    bool is_error;
};

struct link {
    const struct run *run;
    FILE *stream; /* NULL: it has to be opened */
    struct reply reply;
    struct clock clock;
    int64_t away_ms_max; /* how long a server that went away is tried for; 0: not at all */
    int64_t wait_ms;     /* before the next try; 0: it is there */
    uint64_t away_ns;    /* since when it is not */
    bool tells;          /* that it is away, and that it is back */
    bool (*pause)(void *arg, int64_t ms); /* false: no try any more */
    void *pause_arg;
};

static void reply_clear(struct reply *reply)
{
    for (size_t i = 0; i < reply->count; i++)
        mem_free(reply->word[i]);
    *reply = (struct reply){0};
}

static void link_close(struct link *link)
{
    reply_clear(&link->reply);
    if (link->stream)
        fclose(link->stream);
    link->stream = NULL;
}

static void word_add(struct reply *reply, const char *text, size_t len)
{
    if (reply->count == WORDS_MAX)
        return;
    char *word = mem_alloc(len + 1);
    memcpy(word, text, len);
    word[len] = 0;
    reply->word[reply->count++] = word;
}

static enum rc closed(struct err *err)
{
    return err_set(err, RC_IO, "the server closed the connection");
}

static enum rc bulk_read(struct link *link, long long len, struct err *err)
{
    if (len < 0)
        return RC_OK;
    if (len > RESP_BULK_BYTES_MAX)
        return err_set(err, RC_INVALID, "the server announced a reply of %lld bytes", len);
    char *bytes = mem_try_alloc((size_t)len + 2);
    if (!bytes)
        return err_set(err, RC_NOMEM, "could not allocate %lld bytes for the reply", len);
    bool whole = fread(bytes, 1, (size_t)len + 2, link->stream) == (size_t)len + 2;
    if (whole)
        word_add(&link->reply, bytes, (size_t)len);
    mem_free(bytes);
    return whole ? RC_OK : closed(err);
}

/* Arrays are flat here: what is left to read is a number of elements. */
static enum rc reply_read(struct link *link, struct err *err)
{
    char line[LINE_BYTES];
    enum rc rc = RC_OK;
    for (long long left = 1; rc == RC_OK && left > 0; left--) {
        if (!fgets(line, sizeof line, link->stream))
            return closed(err);
        size_t len = strcspn(line, "\r\n");
        line[len] = 0;
        long long number = len > 0 ? strtoll(line + 1, NULL, 10) : 0;
        switch (line[0]) {
        case '-':
            link->reply.is_error = true;
            word_add(&link->reply, line + 1, len - 1);
            break;
        case '+':
        case ':':
            word_add(&link->reply, line + 1, len - 1);
            break;
        case '$':
            rc = bulk_read(link, number, err);
            break;
        case '*':
            left += number > 0 ? number : 0;
            break;
        default:
            return err_set(err, RC_INVALID, "the server does not speak RESP2");
        }
    }
    return rc;
}

static enum rc link_open(struct link *link, struct err *err)
{
    int fd;
    enum rc rc = cli_connect(&link->run->server, &fd, err);
    if (rc != RC_OK)
        return rc;
    link->stream = fdopen(fd, "r");
    if (link->stream)
        return RC_OK;
    close(fd);
    return err_set(err, RC_IO, "%s", strerror(errno));
}

/* Before the next try; longer from try to try. False: there is none, for the reason in `err`. */
static bool away_wait(struct link *link, struct err *err)
{
    uint64_t now_ns = clock_mono_ns(&link->clock);
    if (link->away_ms_max == 0)
        return false;
    if (link->wait_ms == 0) {
        link->away_ns = now_ns;
        link->wait_ms = WAIT_MS_MIN;
        if (link->tells)
            cli_fail("%s; trying again", err->text);
    }
    if ((int64_t)((now_ns - link->away_ns) / NS_A_MS) >= link->away_ms_max) {
        err_prefix(err, "the server has been away for %" PRId64 " ms: ", link->away_ms_max);
        return false;
    }
    if (!link->pause(link->pause_arg, link->wait_ms))
        return false;
    link->wait_ms = 2 * link->wait_ms < WAIT_MS_MAX ? 2 * link->wait_ms : WAIT_MS_MAX;
    return true;
}

static void is_back(struct link *link)
{
    if (link->wait_ms > 0 && link->tells)
        cli_fail("the server is back");
    link->wait_ms = 0;
}

/* Sends words, ended by NULL, and reads the reply. An error reply is RC_OK: see reply.is_error. A
 * connection that is gone is made again, and the words are sent again: the second time they change
 * nothing, or are refused. A partition whose claim or start was answered to nobody becomes stale.
 */
static enum rc ask(struct link *link, struct err *err, const char *const *word)
{
    size_t count = 0;
    while (word[count])
        count++;
    for (;;) {
        reply_clear(&link->reply);
        enum rc rc = link->stream ? RC_OK : link_open(link, err);
        if (rc == RC_OK)
            rc = cli_send(fileno(link->stream), word, count, err);
        if (rc == RC_OK)
            rc = reply_read(link, err);
        if (rc == RC_OK)
            is_back(link);
        if (rc != RC_IO)
            return rc;
        link_close(link);
        if (!away_wait(link, err))
            return rc;
    }
}

/* ---- a partition ---- */

struct work {
    char id[24], min[24], max[24], fence[24];
    int64_t attempts;
};

static bool number_take(const json_t *json, const char *name, char to[24])
{
    const json_t *value = json_object_get(json, name);
    if (!json_is_integer(value))
        return false;
    snprintf(to, 24, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    return true;
}

static bool work_parse(const char *text, struct work *work)
{
    char attempts[24];
    json_t *json = json_loads(text, 0, NULL);
    bool good = json && number_take(json, "partition_id", work->id) &&
                number_take(json, "min_id", work->min) && number_take(json, "max_id", work->max) &&
                number_take(json, "fence", work->fence) && number_take(json, "attempts", attempts);
    work->attempts = good ? strtoll(attempts, NULL, 10) : 0;
    json_decref(json);
    return good;
}

/* The command with {id}, {min} and {max} as numbers. */
static char *command_make(const char *text, const struct work *work)
{
    const struct {
        const char *name, *value;
    } place[] = {{"{id}", work->id}, {"{min}", work->min}, {"{max}", work->max}};
    struct buf to;
    bool good = true;
    buf_init(&to, COMMAND_BYTES_MAX);
    while (good && *text) {
        size_t i = 0;
        while (i < ARRAY_LEN(place) && strncmp(text, place[i].name, strlen(place[i].name)) != 0)
            i++;
        bool is_place = i < ARRAY_LEN(place);
        good =
            is_place ? buf_add(&to, place[i].value, strlen(place[i].value)) : buf_add(&to, text, 1);
        text += is_place ? strlen(place[i].name) : 1;
    }
    good = good && buf_add(&to, "", 1);
    if (good)
        return (char *)to.ptr;
    buf_done(&to);
    return NULL;
}

/* ---- a worker ---- */

struct worker {
    const struct run *run;
    _Atomic pid_t *running;
    struct link link;
    struct clock clock;
    char name[128];
    sigset_t signals; /* SIGCHLD, SIGTERM, SIGINT unless it is ignored: blocked, and waited for */
    bool stopping;
};

static enum rc say(struct worker *worker, const char *command, const struct work *work,
                   struct err *err)
{
    return ask(&worker->link, err,
               (const char *const[]){command, worker->run->job, worker->name, work->id, "FENCE",
                                     work->fence, NULL});
}

/* Waits for a signal at most so long; SIGTERM and SIGINT end the worker. */
static void pause_ms(struct worker *worker, int64_t ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * (long)NS_A_MS};
    int signal = sigtimedwait(&worker->signals, NULL, &time);
    worker->stopping = worker->stopping || signal == SIGTERM || signal == SIGINT;
}

static bool worker_pause(void *arg, int64_t ms)
{
    struct worker *worker = arg;
    if (!worker->stopping)
        pause_ms(worker, ms);
    return !worker->stopping;
}

/* The process dies with the one that made it, `maker`, or has died already. */
static bool die_with(pid_t maker, int signal)
{
    return prctl(PR_SET_PDEATHSIG, signal) == 0 && getppid() == maker;
}

static pid_t command_start(struct worker *worker, const char *text)
{
    char *argv[] = {(char *)"/bin/sh", (char *)"-c", (char *)text, NULL};
    pid_t maker = getpid(), pid = fork();
    if (pid != 0)
        return pid;
    sigset_t none;
    sigemptyset(&none);
    setpgid(0, 0); /* what it starts itself goes with it */
    atomic_store(worker->running, getpid());
    if (die_with(maker, SIGKILL) && sigprocmask(SIG_SETMASK, &none, NULL) == 0)
        execv(argv[0], argv);
    _exit(127);
}

/* Whether it has ended. Until it is reaped nobody else can have its number, so the parent forgets
 * it before. */
static bool command_ended(struct worker *worker, pid_t pid, int *ret_status, struct err *err)
{
    siginfo_t info = {0};
    if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
        err_set(err, RC_IO, "could not wait for a command: %s", strerror(errno));
        return true;
    }
    if (info.si_pid != pid)
        return false;
    atomic_store(worker->running, 0);
    if (waitpid(pid, ret_status, 0) != pid)
        err_set(err, RC_IO, "could not wait for a command: %s", strerror(errno));
    return true;
}

/* Runs it to its end, and beats meanwhile. *ret_lost: somebody else has the partition now. */
static enum rc command_wait(struct worker *worker, pid_t pid, const struct work *work,
                            int *ret_status, bool *ret_lost, struct err *err)
{
    uint64_t every_ns = (uint64_t)worker->run->stale_ms / 3 * NS_A_MS;
    uint64_t beat_ns = clock_mono_ns(&worker->clock) + every_ns;
    enum rc rc = RC_OK;
    *ret_lost = false;
    struct err waiting = {0};
    while (!command_ended(worker, pid, ret_status, &waiting)) {
        uint64_t now_ns = clock_mono_ns(&worker->clock);
        if (worker->stopping || *ret_lost || rc != RC_OK)
            kill(-pid, SIGTERM);
        pause_ms(worker, beat_ns > now_ns ? (int64_t)((beat_ns - now_ns) / NS_A_MS) + 1 : 1);
        if (rc != RC_OK || clock_mono_ns(&worker->clock) < beat_ns)
            continue;
        rc = say(worker, "PART.BEAT", work, err);
        *ret_lost = rc == RC_OK && worker->link.reply.is_error;
        beat_ns = clock_mono_ns(&worker->clock) + every_ns;
    }
    if (waiting.rc != RC_OK) { /* how it ended is not known: it is not completed */
        *err = waiting;
        return waiting.rc;
    }
    return rc;
}

static enum rc work_fail(struct worker *worker, const struct work *work, const char *why,
                         struct err *err)
{
    const char *job = worker->run->job;
    enum rc rc = ask(&worker->link, err,
                     (const char *const[]){"PART.FAIL", job, worker->name, work->id, why, "FENCE",
                                           work->fence, NULL});
    if (rc == RC_OK && work->attempts < worker->run->retries)
        rc = ask(&worker->link, err, (const char *const[]){"PART.RETRY", job, work->id, NULL});
    return rc;
}

static enum rc work_end(struct worker *worker, const struct work *work, int status,
                        uint64_t start_ns, struct err *err)
{
    char text[64];
    if (worker->stopping)
        return ask(
            &worker->link, err,
            (const char *const[]){"PART.RELEASE", worker->run->job, worker->name, work->id, NULL});
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        uint64_t ms = (clock_mono_ns(&worker->clock) - start_ns) / NS_A_MS;
        snprintf(text, sizeof text, "%" PRIu64, ms);
        return ask(&worker->link, err,
                   (const char *const[]){"PART.DONE", worker->run->job, worker->name, work->id,
                                         "FENCE", work->fence, "DURATION", text, NULL});
    }
    if (WIFSIGNALED(status))
        snprintf(text, sizeof text, "the command was ended by signal %d", WTERMSIG(status));
    else
        snprintf(text, sizeof text, "the command ended with status %d", WEXITSTATUS(status));
    return work_fail(worker, work, text, err);
}

static enum rc work_do(struct worker *worker, const struct work *work, struct err *err)
{
    char *command = command_make(worker->run->exec, work);
    uint64_t start_ns = clock_mono_ns(&worker->clock);
    bool lost = false;
    int status = 0;
    if (!command)
        return err_set(err, RC_TOO_BIG, "the command is too long");
    enum rc rc = say(worker, "PART.START", work, err);
    if (rc != RC_OK || worker->link.reply.is_error) {
        mem_free(command);
        return rc; /* refused: somebody else has it */
    }
    pid_t pid = command_start(worker, command);
    mem_free(command);
    if (pid < 0)
        return work_fail(worker, work, "the command could not be started", err);
    rc = command_wait(worker, pid, work, &status, &lost, err);
    return rc == RC_OK && !lost ? work_end(worker, work, status, start_ns, err) : rc;
}

static const char *stat_of(const struct reply *reply, const char *name)
{
    for (size_t i = 0; i + 1 < reply->count; i += 2)
        if (strcmp(reply->word[i], name) == 0)
            return reply->word[i + 1];
    return "0";
}

static int64_t stat_number(const struct reply *reply, const char *name)
{
    return strtoll(stat_of(reply, name), NULL, 10);
}

static enum rc stats_ask(struct link *link, const struct run *run, struct err *err)
{
    enum rc rc = ask(link, err, (const char *const[]){"PART.STATS", run->job, NULL});
    if (rc == RC_OK && link->reply.is_error)
        return err_set(err, RC_INVALID, "%s", link->reply.word[0]);
    return rc;
}

/* Nothing is pending, and nobody has one that may come back. */
static enum rc is_over(struct worker *worker, bool *ret_over, struct err *err)
{
    enum rc rc = stats_ask(&worker->link, worker->run, err);
    const struct reply *reply = &worker->link.reply;
    *ret_over = rc == RC_OK && stat_number(reply, "pending") == 0 &&
                stat_number(reply, "claimed") == 0 && stat_number(reply, "running") == 0;
    return rc;
}

static enum rc worker_loop(struct worker *worker, struct err *err)
{
    char stale[24];
    bool over = false;
    enum rc rc = RC_OK;
    snprintf(stale, sizeof stale, "%" PRId64, worker->run->stale_ms);
    while (rc == RC_OK && !worker->stopping && !over) {
        struct work work;
        rc = ask(&worker->link, err,
                 (const char *const[]){"PART.CLAIM", worker->run->job, worker->name, "STALE", stale,
                                       NULL});
        if (rc == RC_OK && worker->link.reply.is_error)
            return err_set(err, RC_INVALID, "%s", worker->link.reply.word[0]);
        if (rc == RC_OK && worker->link.reply.count == 0) {
            rc = is_over(worker, &over, err);
            if (rc == RC_OK && !over)
                pause_ms(worker, IDLE_MS);
            continue;
        }
        if (rc == RC_OK && !work_parse(worker->link.reply.word[0], &work))
            return err_set(err, RC_INVALID, "the server gave a record that is none");
        if (rc == RC_OK)
            rc = work_do(worker, &work, err);
    }
    return rc;
}

static int worker_run(const struct run *run, int number, pid_t parent)
{
    struct worker worker = {.run = run, .running = &run->running[number - 1]};
    struct err err = {0};
    char host[64] = "worker";
    clock_init(&worker.clock);
    worker.link = (struct link){.run = run,
                                .clock = worker.clock,
                                .away_ms_max = run->away_ms,
                                .pause = worker_pause,
                                .pause_arg = &worker};
    sigemptyset(&worker.signals);
    sigaddset(&worker.signals, SIGCHLD);
    sigaddset(&worker.signals, SIGTERM);
    if (!signal_is_ignored(SIGINT))
        sigaddset(&worker.signals, SIGINT);
    sigprocmask(SIG_BLOCK, &worker.signals, NULL);
    if (!die_with(parent, SIGTERM))
        return 1;
    gethostname(host, sizeof host - 1);
    snprintf(worker.name, sizeof worker.name, "%s-%d-%d", host, (int)getpid(), number);
    enum rc rc = worker_loop(&worker, &err);
    link_close(&worker.link);
    return rc == RC_OK ? 0 : cli_fail("worker %s: %s", worker.name, err.text);
}

/* ---- the parent ---- */

static void draw(const struct reply *reply, bool terminal, uint64_t begun, uint64_t ms)
{
    uint64_t done = (uint64_t)stat_number(reply, "completed");
    uint64_t all = done + (uint64_t)stat_number(reply, "pending") +
                   (uint64_t)stat_number(reply, "claimed") +
                   (uint64_t)stat_number(reply, "running") + (uint64_t)stat_number(reply, "failed");
    size_t filled = all > 0 ? (size_t)(done * BAR_WIDTH / all) : 0;
    if (!terminal)
        return;
    printf("\r[");
    for (size_t i = 0; i < BAR_WIDTH; i++)
        putchar(i < filled ? '#' : ' ');
    printf("] %" PRIu64 "/%" PRIu64 "  %" PRIu64 "/s  failed %s ", done, all,
           ms > 0 ? (done - begun) * 1000 / ms : 0, stat_of(reply, "failed"));
    fflush(stdout);
}

static int summary(const struct reply *reply, bool terminal)
{
    int64_t left = stat_number(reply, "pending") + stat_number(reply, "claimed") +
                   stat_number(reply, "running") + stat_number(reply, "failed");
    if (terminal)
        printf("\n");
    printf("%s completed, %s failed, %" PRId64 " left\n", stat_of(reply, "completed"),
           stat_of(reply, "failed"), left - stat_number(reply, "failed"));
    return left == 0 ? 0 : 1;
}

/* Reaps those that have ended, and what one that was killed has left; how many still live. */
static int children_look(const struct run *run, pid_t *child)
{
    int alive = 0;
    for (int i = 0; i < run->workers; i++) {
        int status;
        if (child[i] > 0 && waitpid(child[i], &status, WNOHANG) == child[i]) {
            child[i] = 0;
            pid_t left = atomic_exchange(&run->running[i], 0);
            if (left > 0)
                kill(-left, SIGKILL);
        }
        alive += child[i] > 0;
    }
    return alive;
}

static bool parent_pause(void *arg, int64_t ms)
{
    (void)arg;
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * (long)NS_A_MS}, NULL);
    return true;
}

static int parent_run(const struct run *run, struct link *link, pid_t *child)
{
    struct err err = {0};
    bool terminal = isatty(STDOUT_FILENO);
    uint64_t start_ns = clock_mono_ns(&link->clock), begun = 0;
    bool first = true;
    for (;;) {
        int alive = children_look(run, child);
        if (stats_ask(link, run, &err) != RC_OK)
            return cli_fail("%s", err.text);
        if (first)
            begun = (uint64_t)stat_number(&link->reply, "completed");
        first = false;
        draw(&link->reply, terminal, begun, (clock_mono_ns(&link->clock) - start_ns) / NS_A_MS);
        if (alive == 0)
            return summary(&link->reply, terminal);
        (void)parent_pause(NULL, DRAW_MS);
    }
}

static int run_all(struct run *run)
{
    struct link link = {.run = run, .tells = true, .pause = parent_pause};
    struct err err = {0};
    pid_t parent = getpid();
    pid_t *child = mem_zalloc((size_t)run->workers * sizeof *child);
    size_t shared_bytes = (size_t)run->workers * sizeof *run->running;
    enum rc rc = RC_OK;
    clock_init(&link.clock);
    run->running =
        mmap(NULL, shared_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (run->running == MAP_FAILED)
        rc = err_set(&err, RC_NOMEM, "could not allocate %zu bytes", shared_bytes);
    if (rc == RC_OK)
        rc = stats_ask(&link, run, &err);
    link.away_ms_max = run->away_ms; /* it was there */
    for (int i = 0; rc == RC_OK && i < run->workers; i++) {
        child[i] = fork();
        if (child[i] == 0) {
            fclose(link.stream);
            _exit(worker_run(run, i + 1, parent));
        }
        if (child[i] < 0)
            rc = err_set(&err, RC_IO, "could not start a worker: %s", strerror(errno));
    }
    int code = rc == RC_OK ? parent_run(run, &link, child) : cli_fail("%s", err.text);
    link_close(&link);
    mem_free(child);
    if (run->running != MAP_FAILED)
        munmap(run->running, shared_bytes);
    return code;
}

/* ---- the command line ---- */

void cli_part_help(void)
{
    printf(
        "  terrace part run JOB --exec 'COMMAND {min} {max}' [--workers 1] [--stale 300000]\n"
        "      [--retries 0] [--away 60000] [the same options]\n"
        "      claims partitions of a job, runs the command for each ({id}, {min} and {max} are\n"
        "      numbers), completes them, in processes of their own, until nothing is left. A "
        "server\n"
        "      that goes away is tried again for --away milliseconds\n");
}

/* RC_NOT_FOUND: there is no such option. */
static enum rc option_take(struct run *run, const char *name, const char *value, struct err *err)
{
    int64_t workers = run->workers;
    const struct {
        const char *name;
        int64_t *to, min, max;
    } numbers[] = {{"--workers", &workers, 1, WORKERS_MAX},
                   {"--stale", &run->stale_ms, 30, INT32_MAX},
                   {"--retries", &run->retries, 0, INT32_MAX},
                   {"--away", &run->away_ms, 0, INT32_MAX}};
    enum rc rc = RC_NOT_FOUND;
    if (strcmp(name, "--exec") == 0) {
        run->exec = value;
        return RC_OK;
    }
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        if (strcmp(name, numbers[i].name) == 0)
            rc = cli_number(name, value, numbers[i].min, numbers[i].max, numbers[i].to, err);
    run->workers = (int)workers;
    return rc == RC_NOT_FOUND && cli_server_option(&run->server, name, value) ? RC_OK : rc;
}

int cli_part(int argc, char **argv)
{
    struct run run = {.workers = 1, .stale_ms = INT64_C(5) * 60 * 1000, .away_ms = AWAY_MS};
    struct err err = {0};
    cli_server_init(&run.server);
    if (argc < 2 || strcmp(argv[1], "run") != 0)
        return cli_fail("part takes: run JOB --exec 'COMMAND {min} {max}' [--workers N] ...");
    for (int i = 2; i < argc; i++) {
        if (argv[i][0] != '-' && !run.job) {
            run.job = argv[i];
            continue;
        }
        enum rc rc = i + 1 < argc ? option_take(&run, argv[i], argv[i + 1], &err) : RC_NOT_FOUND;
        if (rc == RC_NOT_FOUND)
            return cli_fail("part run: \"%s\" is no option, or has no value", argv[i]);
        if (rc != RC_OK)
            return cli_fail("%s", err.text);
        i++;
    }
    if (!run.job || !run.exec)
        return cli_fail("part run needs a job and --exec 'COMMAND {min} {max}'");
    signal(SIGCHLD, SIG_DFL); /* ignored, which is inherited, no command would tell how it ended */
    return run_all(&run);
}
