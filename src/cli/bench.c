// SPDX-License-Identifier: Apache-2.0
/* bench.c - terrace bench: drives a server from one thread and prints rates and latencies.
 *
 * Every connection sends a batch of `pipeline` requests, waits for all replies and sends the next.
 * The latency of a request is the time from its batch to its reply. A request is made from a
 * template that is written once: only the digits in it change. All keys begin with "bench:".
 *
 * Invariants:
 *   (1) sent_count <= request_count, and sent_count - done_count is what all connections await.
 *   (2) A connection that awaits nothing has nothing to send: the test has no more for it. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/rand.h"
#include "cli/cli.h"
#include "command/resp_out.h"

#include "base/banned.h"

enum {
    CONN_COUNT_MAX = 10000,
    PIPELINE_MAX = 10000,
    VALUE_BYTES_MAX = 64 * 1024 * 1024,
    OUT_BYTES_MAX = 1024 * 1024 * 1024, /* of a batch */
    IN_BYTES = 16 * 1024,               /* read at a time; also the longest line of a reply */
    EVENTS_MAX = 256,
    STEP_COUNT_MAX = 2,
    WORD_COUNT_MAX = 21,
    NUMBER_DIGITS = 12,
    CONNS = 50, /* where the command line has none of its own */
    PIPELINE = 16,
    ROUNDS_MIN = 20, /* of the requests of a test at most a part of so many is under way */
    SLOT_BITS = 6,   /* 64 slots for every power of two: latencies are right to 1.6 % */
    SLOT_COUNT = (64 - SLOT_BITS + 1) << SLOT_BITS,
    NS_PER_S = 1000 * 1000 * 1000,
};

/* ---- the tests ---- */

struct step {
    unsigned percent; /* of the requests */
    /* "#" is a random number of NUMBER_DIGITS digits, "=" a value of the chosen length. */
    const char *word[WORD_COUNT_MAX + 1];
};

struct bench_test {
    const char *name;
    const char *fill; /* the test whose requests are sent first, without a clock; NULL: none */
    struct step step[STEP_COUNT_MAX];
};

static const struct bench_test tests[] = {
    {"ping", NULL, {{100, {"PING"}}}},
    {"set", NULL, {{100, {"SET", "bench:key:#", "="}}}},
    {"get", "set", {{100, {"GET", "bench:key:#"}}}},
    {"incr", NULL, {{100, {"INCR", "bench:counter:#"}}}},
    {"lpush", NULL, {{100, {"LPUSH", "bench:list", "="}}}},
    {"rpush", NULL, {{100, {"RPUSH", "bench:list", "="}}}},
    {"lpop", "lpush", {{100, {"LPOP", "bench:list"}}}},
    {"rpop", "rpush", {{100, {"RPOP", "bench:list"}}}},
    {"lrange_100", "lpush", {{100, {"LRANGE", "bench:list", "0", "99"}}}},
    {"sadd", NULL, {{100, {"SADD", "bench:set", "member:#"}}}},
    {"spop", "sadd", {{100, {"SPOP", "bench:set"}}}},
    {"hset", NULL, {{100, {"HSET", "bench:hash", "field:#", "="}}}},
    {"hget", "hset", {{100, {"HGET", "bench:hash", "field:#"}}}},
    {"zadd", NULL, {{100, {"ZADD", "bench:zset", "#", "member:#"}}}},
    {"zpopmin", "zadd", {{100, {"ZPOPMIN", "bench:zset"}}}},
    {"mset", NULL, {{100, {"MSET", "bench:key:#", "=", "bench:key:#", "=", "bench:key:#",
                           "=",    "bench:key:#", "=", "bench:key:#", "=", "bench:key:#",
                           "=",    "bench:key:#", "=", "bench:key:#", "=", "bench:key:#",
                           "=",    "bench:key:#", "="}}}},
    {"mixed", "set", {{90, {"GET", "bench:key:#"}}, {10, {"SET", "bench:key:#", "="}}}},
};

static const struct bench_test *test_find(const char *name, size_t len)
{
    for (size_t i = 0; i < ARRAY_LEN(tests); i++)
        if (strlen(tests[i].name) == len && strncasecmp(tests[i].name, name, len) == 0)
            return &tests[i];
    return NULL;
}

/* ---- what a run knows ---- */

struct request { /* a step, written */
    struct resp_out out;
    size_t number_at[WORD_COUNT_MAX];
    size_t number_count;
};

struct conn {
    int fd;
    bool waits_to_send;
    uint64_t awaited_count; /* replies of the batch */
    uint64_t items_left;    /* of the reply being read */
    uint64_t skip_bytes;    /* of its bulk, with the line end */
    uint64_t begin_ns;
    struct buf out;
    size_t out_sent;
    uint8_t *in;
    size_t in_len;
};

struct bench {
    struct cli_server server;
    uint64_t conn_count, pipeline, request_count, value_bytes, number_max;
    int epoll_fd;
    struct clock clock;
    struct rand rand;
    struct conn *conn;

    /* of the test that runs */
    const struct bench_test *test;
    struct request request[STEP_COUNT_MAX];
    uint64_t sent_count, done_count, error_count, latency_ns_max;
    char error_text[256]; /* the first */
    uint64_t slot[SLOT_COUNT];
};

/* ---- latencies ---- */

static size_t slot_of(uint64_t ns)
{
    if (ns >> SLOT_BITS == 0)
        return (size_t)ns;
    unsigned shift = 63u - (unsigned)__builtin_clzll(ns) - SLOT_BITS;
    return ((size_t)shift << SLOT_BITS) + (size_t)(ns >> shift);
}

static uint64_t slot_ns(size_t slot) /* the largest that falls into it */
{
    if (slot >> (SLOT_BITS + 1) == 0)
        return slot;
    unsigned shift = (unsigned)(slot >> SLOT_BITS) - 1;
    uint64_t top = (slot & ((1u << SLOT_BITS) - 1)) + (1u << SLOT_BITS);
    return ((top + 1) << shift) - 1;
}

static double latency_ms(const struct bench *bench, double share)
{
    double want = share * (double)bench->done_count;
    uint64_t count = 0;
    for (size_t i = 0; i < SLOT_COUNT; i++) {
        count += bench->slot[i];
        if (count > 0 && (double)count >= want) {
            uint64_t ns = slot_ns(i);
            return (double)(ns < bench->latency_ns_max ? ns : bench->latency_ns_max) / 1e6;
        }
    }
    return 0;
}

/* ---- requests ---- */

static void word_add(struct request *request, const char *word, struct bytes value)
{
    if (strcmp(word, "=") == 0) {
        resp_add_bulk(&request->out, value);
        return;
    }
    const char *number = strchr(word, '#');
    if (!number) {
        resp_add_text(&request->out, word);
        return;
    }
    char text[64];
    int front = (int)(number - word);
    snprintf(text, sizeof text, "%.*s%0*d", front, word, NUMBER_DIGITS, 0);
    resp_add_text(&request->out, text);
    request->number_at[request->number_count++] = request->out.buf.len - 2 - NUMBER_DIGITS;
}

static enum rc request_write(struct request *request, const struct step *step, struct bytes value,
                             struct err *err)
{
    size_t count = 0;
    while (step->word[count])
        count++;
    resp_out_cut(&request->out, 0);
    request->number_count = 0;
    if (count == 0)
        return RC_OK;
    resp_add_array(&request->out, count);
    for (size_t i = 0; i < count; i++)
        word_add(request, step->word[i], value);
    return request->out.failed ? err_set(err, RC_NOMEM, "a request does not fit into memory")
                               : RC_OK;
}

static enum rc requests_write(struct bench *bench, struct err *err)
{
    uint8_t *value = mem_try_alloc(bench->value_bytes);
    if (!value)
        return err_set(err, RC_NOMEM, "could not allocate %" PRIu64 " bytes", bench->value_bytes);
    for (uint64_t i = 0; i < bench->value_bytes; i++)
        value[i] = (uint8_t)('a' + i % 26);
    enum rc rc = RC_OK;
    for (size_t i = 0; i < STEP_COUNT_MAX && rc == RC_OK; i++)
        rc = request_write(&bench->request[i], &bench->test->step[i],
                           bytes_of(value, bench->value_bytes), err);
    mem_free(value);
    return rc;
}

static void number_put(uint8_t to[NUMBER_DIGITS], uint64_t number)
{
    for (int i = NUMBER_DIGITS; i-- > 0; number /= 10)
        to[i] = (uint8_t)('0' + number % 10);
}

static bool request_add(struct bench *bench, struct buf *out)
{
    const struct step *step = bench->test->step;
    bool second = step[0].percent < 100 && rand_below(&bench->rand, 100) >= step[0].percent;
    const struct request *request = &bench->request[second];
    size_t at = out->len;
    if (!buf_add_bytes(out, buf_bytes(&request->out.buf)))
        return false;
    for (size_t i = 0; i < request->number_count; i++)
        number_put(out->ptr + at + request->number_at[i],
                   rand_below(&bench->rand, bench->number_max));
    return true;
}

/* ---- a connection ---- */

static void conn_watch(struct bench *bench, struct conn *conn, bool to_send)
{
    if (conn->waits_to_send == to_send)
        return;
    struct epoll_event event = {.events = EPOLLIN | (to_send ? EPOLLOUT : 0), .data.ptr = conn};
    conn->waits_to_send = to_send;
    ASSERT(epoll_ctl(bench->epoll_fd, EPOLL_CTL_MOD, conn->fd, &event) == 0);
}

static enum rc conn_send(struct bench *bench, struct conn *conn, struct err *err)
{
    while (conn->out_sent < conn->out.len) {
        ssize_t sent = send(conn->fd, conn->out.ptr + conn->out_sent,
                            conn->out.len - conn->out_sent, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno != EAGAIN)
            return err_set(err, RC_IO, "the server closed the connection: %s", strerror(errno));
        if (sent < 0)
            break;
        conn->out_sent += (size_t)sent;
    }
    conn_watch(bench, conn, conn->out_sent < conn->out.len);
    return RC_OK;
}

static enum rc batch_send(struct bench *bench, struct conn *conn, struct err *err)
{
    uint64_t left = bench->request_count - bench->sent_count; /* (1) */
    conn->awaited_count = left < bench->pipeline ? left : bench->pipeline;
    conn->items_left = 1;
    conn->out_sent = 0;
    buf_cut(&conn->out, 0);
    for (uint64_t i = 0; i < conn->awaited_count; i++)
        if (!request_add(bench, &conn->out))
            return err_set(err, RC_NOMEM, "a batch does not fit into memory");
    bench->sent_count += conn->awaited_count;
    conn->begin_ns = clock_mono_ns(&bench->clock);
    return conn_send(bench, conn, err);
}

static void reply_done(struct bench *bench, struct conn *conn, uint64_t now_ns)
{
    uint64_t ns = now_ns - conn->begin_ns;
    bench->slot[slot_of(ns)]++;
    if (ns > bench->latency_ns_max)
        bench->latency_ns_max = ns;
    bench->done_count++;
    conn->awaited_count--;
    conn->items_left = 1;
}

/* Of a length; -1: it is none, or over what a reply can have. */
static int64_t line_number(const uint8_t *at, const uint8_t *end)
{
    int64_t number = 0;
    const uint8_t *from = at;
    for (; at < end && *at >= '0' && *at <= '9'; at++) {
        number = 10 * number + (*at - '0');
        if (number > RESP_BULK_BYTES_MAX)
            return -1;
    }
    return at > from ? number : -1;
}

/* line[0 .. len) with its line end. */
static enum rc line_take(struct bench *bench, struct conn *conn, const uint8_t *line, size_t len,
                         struct err *err)
{
    int64_t number = line_number(line + 1, line + len);
    conn->items_left--;
    switch (line[0]) {
    case '+':
    case ':':
        return RC_OK;
    case '-':
        if (bench->error_count++ == 0)
            snprintf(bench->error_text, sizeof bench->error_text, "%.*s", (int)len - 3, line + 1);
        return RC_OK;
    case '$':
        conn->skip_bytes = number >= 0 ? (uint64_t)number + 2 : 0;
        return RC_OK;
    case '*':
        conn->items_left += number > 0 ? (uint64_t)number : 0;
        return RC_OK;
    default:
        return err_set(err, RC_INVALID, "the server does not speak RESP2");
    }
}

static enum rc conn_parse(struct bench *bench, struct conn *conn, uint64_t now_ns, struct err *err)
{
    size_t at = 0;
    while (at < conn->in_len) {
        if (conn->skip_bytes > 0) {
            uint64_t have = conn->in_len - at;
            uint64_t skip = have < conn->skip_bytes ? have : conn->skip_bytes;
            conn->skip_bytes -= skip;
            at += skip;
        } else {
            const uint8_t *line = conn->in + at;
            const uint8_t *end = memchr(line, '\n', conn->in_len - at);
            if (!end)
                break;
            size_t len = (size_t)(end + 1 - line);
            if (conn->awaited_count == 0 || len < 3)
                return err_set(err, RC_INVALID, "the server sent what nobody asked for");
            enum rc rc = line_take(bench, conn, line, len, err);
            if (rc != RC_OK)
                return rc;
            at += len;
        }
        if (conn->skip_bytes == 0 && conn->items_left == 0)
            reply_done(bench, conn, now_ns);
    }
    if (at == 0 && conn->in_len == IN_BYTES)
        return err_set(err, RC_INVALID, "the server does not speak RESP2");
    conn->in_len -= at;
    memmove(conn->in, conn->in + at, conn->in_len);
    return RC_OK;
}

static enum rc conn_ready(struct bench *bench, struct conn *conn, uint32_t events, struct err *err)
{
    enum rc rc = RC_OK;
    if (events & EPOLLOUT)
        rc = conn_send(bench, conn, err);
    if (rc != RC_OK || !(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
        return rc;
    ssize_t got = read(conn->fd, conn->in + conn->in_len, IN_BYTES - conn->in_len);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return RC_OK;
    if (got <= 0)
        return err_set(err, RC_IO, "the server closed the connection%s%s",
                       bench->error_count ? ": " : "", bench->error_text);
    conn->in_len += (size_t)got;
    rc = conn_parse(bench, conn, clock_mono_ns(&bench->clock), err);
    if (rc == RC_OK && conn->awaited_count == 0 && bench->sent_count < bench->request_count)
        rc = batch_send(bench, conn, err);
    return rc;
}

/* ---- a test ---- */

static enum rc requests_run(struct bench *bench, const struct bench_test *test, struct err *err)
{
    struct epoll_event event[EVENTS_MAX];
    bench->test = test;
    bench->sent_count = bench->done_count = bench->error_count = bench->latency_ns_max = 0;
    bench->error_text[0] = 0;
    memset(bench->slot, 0, sizeof bench->slot);
    enum rc rc = requests_write(bench, err);
    for (uint64_t i = 0; i < bench->conn_count && rc == RC_OK; i++)
        if (bench->sent_count < bench->request_count)
            rc = batch_send(bench, &bench->conn[i], err);
    while (rc == RC_OK && bench->done_count < bench->request_count) {
        int count = epoll_wait(bench->epoll_fd, event, EVENTS_MAX, -1);
        if (count < 0 && errno != EINTR)
            return err_set(err, RC_IO, "could not wait for the server: %s", strerror(errno));
        for (int i = 0; i < count && rc == RC_OK; i++)
            rc = conn_ready(bench, event[i].data.ptr, event[i].events, err);
    }
    if (rc == RC_OK && bench->error_count > 0)
        rc = err_set(err, RC_INVALID, "%" PRIu64 " of %" PRIu64 " replies are errors: %s",
                     bench->error_count, bench->done_count, bench->error_text);
    return rc;
}

static enum rc test_run(struct bench *bench, const struct bench_test *test, struct err *err)
{
    enum rc rc = RC_OK;
    if (test->fill)
        rc = requests_run(bench, test_find(test->fill, strlen(test->fill)), err);
    uint64_t begin_ns = clock_mono_ns(&bench->clock);
    if (rc == RC_OK)
        rc = requests_run(bench, test, err);
    if (rc != RC_OK)
        return rc;
    uint64_t ns = clock_mono_ns(&bench->clock) - begin_ns;
    printf("%-10s %10.0f requests/s   p50 %.3f ms   p99 %.3f ms   p99.9 %.3f ms\n", test->name,
           (double)bench->done_count * NS_PER_S / (double)(ns > 0 ? ns : 1), latency_ms(bench, 0.5),
           latency_ms(bench, 0.99), latency_ms(bench, 0.999));
    fflush(stdout);
    return RC_OK;
}

static enum rc all_run(struct bench *bench, struct err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(tests); i++) {
        enum rc rc = test_run(bench, &tests[i], err);
        if (rc != RC_OK)
            return err_prefix(err, "%s: ", tests[i].name);
    }
    return RC_OK;
}

static enum rc list_run(struct bench *bench, const char *list, struct err *err)
{
    for (const char *at = list; *at;) {
        size_t len = strcspn(at, ",");
        const struct bench_test *test = test_find(at, len);
        ASSERT(test != NULL);
        enum rc rc = test_run(bench, test, err);
        if (rc != RC_OK)
            return err_prefix(err, "%s: ", test->name);
        at += len + (at[len] == ',');
    }
    return RC_OK;
}

/* ---- begin and end ---- */

static enum rc conn_open(struct bench *bench, struct conn *conn, struct err *err)
{
    enum rc rc = cli_connect(&bench->server, &conn->fd, err);
    if (rc != RC_OK)
        return rc;
    int on = 1;
    setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = conn};
    if (fcntl(conn->fd, F_SETFL, O_NONBLOCK) != 0 ||
        epoll_ctl(bench->epoll_fd, EPOLL_CTL_ADD, conn->fd, &event) != 0)
        return err_set(err, RC_IO, "could not watch a connection: %s", strerror(errno));
    conn->in = mem_alloc(IN_BYTES);
    return RC_OK;
}

static enum rc bench_open(struct bench *bench, struct err *err)
{
    clock_init(&bench->clock);
    rand_init_seed(&bench->rand, 1);
    for (size_t i = 0; i < STEP_COUNT_MAX; i++)
        resp_out_init(&bench->request[i].out, OUT_BYTES_MAX);
    bench->conn = mem_zalloc(bench->conn_count * sizeof *bench->conn);
    for (uint64_t i = 0; i < bench->conn_count; i++) {
        bench->conn[i].fd = -1;
        buf_init(&bench->conn[i].out, OUT_BYTES_MAX);
    }
    bench->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (bench->epoll_fd < 0)
        return err_set(err, RC_IO, "could not make an epoll: %s", strerror(errno));
    enum rc rc = RC_OK;
    for (uint64_t i = 0; i < bench->conn_count && rc == RC_OK; i++)
        rc = conn_open(bench, &bench->conn[i], err);
    return rc;
}

static void bench_close(struct bench *bench)
{
    for (uint64_t i = 0; bench->conn && i < bench->conn_count; i++) {
        if (bench->conn[i].fd >= 0)
            close(bench->conn[i].fd);
        buf_done(&bench->conn[i].out);
        mem_free(bench->conn[i].in);
    }
    for (size_t i = 0; i < STEP_COUNT_MAX; i++)
        resp_out_done(&bench->request[i].out);
    if (bench->epoll_fd >= 0)
        close(bench->epoll_fd);
    mem_free(bench->conn);
}

/* Takes an option and its value from argv[0] and argv[1]. */
static enum rc option_set(struct bench *bench, const char *name, const char *value, struct err *err)
{
    const struct {
        const char *name;
        uint64_t *to;
        int64_t max;
    } numbers[] = {
        {"-c", &bench->conn_count, CONN_COUNT_MAX},
        {"-P", &bench->pipeline, PIPELINE_MAX},
        {"-n", &bench->request_count, INT64_MAX},
        {"-d", &bench->value_bytes, VALUE_BYTES_MAX},
        {"-r", &bench->number_max, INT64_C(1000000000000)},
    };
    if (cli_server_option(&bench->server, name, value))
        return RC_OK;
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        if (strcmp(name, numbers[i].name) != 0)
            continue;
        int64_t number = 0;
        enum rc rc = cli_number(name, value, 1, numbers[i].max, &number, err);
        *numbers[i].to = (uint64_t)number;
        return rc;
    }
    return err_set(err, RC_INVALID, "unknown option \"%s\"; try: terrace help", name);
}

static uint64_t between(uint64_t low, uint64_t value, uint64_t high)
{
    return value < low ? low : value > high ? high : value;
}

/* A few requests that are all sent at once measure how long the last of them waits for the others.
 */
static void load_choose(struct bench *bench)
{
    uint64_t under_way = bench->request_count / ROUNDS_MIN;
    if (bench->conn_count == 0)
        bench->conn_count = between(1, under_way, CONNS);
    if (bench->pipeline == 0)
        bench->pipeline = between(1, under_way / bench->conn_count, PIPELINE);
}

static enum rc names_check(const char *list, struct err *err)
{
    for (const char *at = list; *at;) {
        size_t len = strcspn(at, ",");
        if (!test_find(at, len))
            return err_set(err, RC_INVALID, "test \"%.*s\" is unknown; try: terrace help", (int)len,
                           at);
        at += len + (at[len] == ',');
    }
    return RC_OK;
}

void cli_bench_tests_print(void)
{
    for (size_t i = 0; i < ARRAY_LEN(tests); i++)
        printf("%s%s", i == 0 ? "" : " ", tests[i].name);
}

int cli_bench(int argc, char **argv)
{
    struct err err = {0};
    struct bench *bench = mem_zalloc(sizeof *bench); /* too large for a stack frame */
    *bench = (struct bench){
        .request_count = 100000, .value_bytes = 64, .number_max = 100000, .epoll_fd = -1};
    const char *list = NULL;
    enum rc rc = RC_OK;
    int at = 1;
    cli_server_init(&bench->server);
    for (; at < argc && argv[at][0] == '-' && rc == RC_OK; at += 2)
        rc = at + 1 < argc ? option_set(bench, argv[at], argv[at + 1], &err)
                           : err_set(&err, RC_INVALID, "%s needs a value", argv[at]);
    if (rc == RC_OK && at + 1 < argc)
        rc = err_set(&err, RC_INVALID, "tests are one word: a,b,c");
    else if (rc == RC_OK && at < argc)
        list = argv[at];
    if (rc == RC_OK && list)
        rc = names_check(list, &err);
    load_choose(bench);
    if (rc == RC_OK)
        rc = bench_open(bench, &err);
    if (rc == RC_OK)
        rc = list ? list_run(bench, list, &err) : all_run(bench, &err);
    bench_close(bench);
    mem_free(bench);
    return rc == RC_OK ? 0 : cli_fail("%s", err.text);
}
