/* watch.c - how many entries the dirty tables hold, for who cannot read the store.
 *
 * /metrics and INFO are answered outside commits and cannot wait for something cold. A job reads
 * the counts once a second while there are rules; counting along with the marks would drift, since
 * a mark may replace another, and a command that is undone has marked nothing. */
#include "base/mem.h"
#include "landing/landing_int.h"

#include "base/banned.h"

#define WATCH_NS UINT64_C(1000000000)

struct land_watch {
    struct task task;
    struct landing *landing;
    struct land_count *count, *next; /* those that are shown, those that are being read */
    size_t count_count, cap;
    bool failed;
};

/* Rules of one database share its tables: the first that has the table stands for all. */
static bool is_another_s(const struct landing *landing, const struct land_rule *rule,
                         uint32_t table)
{
    for (const struct land_rule *at = landing->rules; at != rule; at = at->next)
        if (at->ns == rule->ns && table < at->spec->tables)
            return true;
    return false;
}

static void room_make(struct land_watch *watch)
{
    size_t wanted = 0;
    for (const struct land_rule *rule = watch->landing->rules; rule; rule = rule->next)
        wanted += rule->spec->tables;
    if (wanted <= watch->cap)
        return;
    watch->count = mem_realloc(watch->count, wanted * sizeof *watch->count);
    watch->next = mem_realloc(watch->next, wanted * sizeof *watch->next);
    watch->cap = wanted;
}

static enum rc counts_read(struct land_watch *watch, struct err *err)
{
    struct landing *landing = watch->landing;
    size_t count = 0;
    room_make(watch);
    for (const struct land_rule *rule = landing->rules; rule; rule = rule->next) {
        for (uint32_t n = 0; n < rule->spec->tables; n++) {
            struct land_count *to = &watch->next[count];
            if (is_another_s(landing, rule, n))
                continue;
            *to = (struct land_count){.db = rule->spec->db, .table = n};
            enum rc rc = land_rule_backlog(rule, n, &to->marked, &to->saving, &to->errors, err);
            if (rc != RC_OK)
                return rc;
            count++;
        }
    }
    struct land_count *shown = watch->count;
    watch->count = watch->next;
    watch->next = shown;
    watch->count_count = count;
    return RC_OK;
}

static enum rc watch_run(struct task *task, struct store *store, struct err *err)
{
    struct land_watch *watch = (struct land_watch *)task;
    struct landing *landing = watch->landing;
    (void)store;
    if (!landing->rules) {
        watch->count_count = 0;
        return RC_OK;
    }
    landing__enter(landing);
    enum rc rc = watch->failed ? RC_OK : counts_read(watch, err);
    watch->failed = false;
    if (rc != RC_COLD) { /* what cannot be read now is tried again */
        task_wait_until(task, clock_mono_ns(landing->options.clock) + WATCH_NS);
        rc = RC_WAIT;
    }
    return landing__leave(landing, rc);
}

/* There is no rule, and the next one starts it again; or a load failed. */
static void watch_done(struct task *task, enum rc rc, const struct err *err)
{
    struct land_watch *watch = (struct land_watch *)task;
    (void)err;
    watch->failed = rc != RC_OK;
    if (watch->landing->rules)
        task_start(watch->landing->options.tasks, task);
}

void watch_start(struct landing *landing)
{
    struct land_watch *watch = landing->watch;
    if (!watch) {
        watch = landing->watch = mem_zalloc(sizeof *watch);
        watch->landing = landing;
        watch->task.run = watch_run;
        watch->task.done = watch_done;
        watch->task.flags = TASK_JOB;
    }
    if (watch->task.state == TASK_IDLE)
        task_start(landing->options.tasks, &watch->task);
}

void watch_end(struct landing *landing)
{
    struct land_watch *watch = landing->watch;
    if (!watch)
        return;
    task_cancel(&watch->task);
    mem_free(watch->count);
    mem_free(watch->next);
    mem_free(watch);
    landing->watch = NULL;
}

const struct land_count *landing_counts(const struct landing *landing, size_t *ret_count)
{
    *ret_count = landing->watch ? landing->watch->count_count : 0;
    return landing->watch ? landing->watch->count : NULL;
}
