// SPDX-License-Identifier: Apache-2.0
/* flush.c - the flusher: picks units, drives their steps, serves requests between them.
 *
 * Invariants:
 *   (1) A segment is removed only after a mark at or above it was applied.
 *   (2) The counters in `base` are those of the engine at `mark`.
 *   (3) A unit does not pass the segment of a waiting view request.
 *   (4) A request is touched by nobody but its owner once `done` is set.
 *   (5) The engine stands at `mark`, or, while an apply of the unit in work may have been done all
 *       the same (`maybe_applied`), at the unit's mark. Wherever else it comes back from being
 *       opened again, nothing is flushed into it.
 * The fields under the lock are few and plain; no call into engine, journal or files is made with
 * the lock held. */
#include "store/flush/flush.h"

#include <stdio.h>
#include <time.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "store/flush/flush_int.h"

#include "base/banned.h"

enum {
    WAIT_IDLE_MS = 100,
    WAIT_BRAKED_MS = 10,
    WAIT_FAILED_MS_MIN = 100,
    WAIT_FAILED_MS_MAX = 5000,
    THREAD_NICE = 10,
    NS_PER_MS = 1000 * 1000,
    NS_PER_S = 1000 * 1000 * 1000,
    PIECE_NS_MIN = 200 * 1000, /* less is not worth a rest */
    REST_FACTOR = 7,
    REST_NS_MAX = 20 * 1000 * 1000,
    APPLY_TRIES = 2,      /* of a unit, before the engine is opened again */
    APPLY_TRIES_FULL = 4, /* the same without disk, where that seldom helps */
    REOPEN_REFUSED_MS = 2000,
    REOPEN_MS_MIN = 1000,
    REOPEN_MS_MAX = 60 * 1000,
};

enum state { STATE_PICK, STATE_SORT, STATE_BUILD, STATE_APPLY, STATE_DONE };
enum outcome { OUTCOME_IDLE, OUTCOME_WORKED, OUTCOME_BRAKED, OUTCOME_FAILED, OUTCOME_STOPPED };

struct unit { /* the unit in work */
    struct journal_sealed *segment;
    struct flush__run *run; /* one a segment */
    size_t segment_count;
    size_t sorted_count;
    struct flush__counters counters; /* changes, not values */
    struct flush__drops drops;
    struct sys_mark mark; /* as it will be */
    struct engine_unit *built;
    struct flush__merge_result result;
    bool maybe_applied;    /* an apply has failed: the engine's mark tells */
    uint32_t failed_count; /* applies that failed since the engine was opened */
};

struct flush {
    struct flush_options options; /* with dirs of our own */
    char *scratch_dir;
    char *journal_dir;
    struct clock real_clock; /* waits are real, whatever clock ages are measured with */

    /* The flusher's own. */
    enum state state;
    struct unit unit;
    struct flush__sorter *sorter; /* while a unit is sorted */
    struct flush__counters base;  /* (2) */
    uint64_t oldest_segment;      /* the first sealed one after the mark, and since when it is */
    uint64_t oldest_since_ns;
    uint32_t wait_failed_ms;
    uint32_t reopen_ms;     /* how long an engine that was opened again is left alone */
    uint64_t reopen_at_ns;  /* until then */
    uint64_t refused_at_ns; /* the same after one that found no disk and left the engine as it is */
    bool engine_unlike;     /* (5): it came back elsewhere */
    struct flush__brake brake;
    struct flush__tight tight;

    struct thread thread;
    struct flush__pace pace;
    _Atomic uint64_t mark_segment; /* shared: atomic */

    pthread_mutex_t lock; /* what follows is shared under it */
    pthread_cond_t wake;
    pthread_cond_t served;
    bool awake; /* something was asked for */
    uint64_t asked_segment;
    struct flush_request *requests; /* in order of arrival */
    struct flush_request *serving;
    struct flush_status status; /* pending_bytes is not kept here */
};

static void notify(struct flush *flush)
{
    if (flush->options.notify)
        flush->options.notify(flush->options.notify_arg);
}

static struct sys_mark mark_of(struct flush *flush)
{
    pthread_mutex_lock(&flush->lock);
    struct sys_mark mark = flush->status.mark;
    pthread_mutex_unlock(&flush->lock);
    return mark;
}

/* ---- pace ---- */

bool flush__go_on(struct flush__pace *pace)
{
    bool hurry = atomic_load_explicit(&pace->hurry, memory_order_relaxed);
    uint64_t now_ns = hurry ? 0 : clock_thread_cpu_ns();
    if (!hurry && now_ns - pace->piece_ns >= PIECE_NS_MIN) {
        uint64_t rest_ns = REST_FACTOR * (now_ns - pace->piece_ns);
        pace->piece_ns = now_ns;
        if (rest_ns > REST_NS_MAX)
            rest_ns = REST_NS_MAX;
        atomic_fetch_add_explicit(&pace->rest_count, 1, memory_order_relaxed);
        nanosleep(&(struct timespec){.tv_nsec = (long)rest_ns}, NULL);
    }
    return !atomic_load_explicit(&pace->stop, memory_order_relaxed);
}

void flush_hurry(struct flush *flush)
{
    atomic_store_explicit(&flush->pace.hurry, true, memory_order_relaxed);
}

/* ---- a unit's life ---- */

static void unit_runs_remove(struct flush *flush)
{
    for (size_t i = 0; i < flush->unit.sorted_count; i++) {
        enum rc rc = files_remove(flush->options.files, flush->unit.run[i].path, NULL);
        (void)rc; /* scratch files are overwritten or removed at the next open */
    }
    flush->unit.sorted_count = 0;
}

static void unit_built_close(struct flush *flush)
{
    if (flush->unit.built)
        flush->options.engine->ops->unit_close(flush->unit.built);
    flush->unit.built = NULL;
}

static void unit_clear(struct flush *flush)
{
    struct unit *unit = &flush->unit;
    unit_built_close(flush);
    unit_runs_remove(flush);
    mem_free(unit->segment);
    mem_free(unit->run);
    flush__counters_done(&unit->counters);
    flush__drops_done(&unit->drops);
    *unit = (struct unit){0};
    flush__sorter_free(flush->sorter);
    flush->sorter = NULL;
}

/* The segments are sorted from the first one again. */
static void unit_sort_again(struct flush *flush)
{
    unit_built_close(flush);
    unit_runs_remove(flush);
    flush__counters_done(&flush->unit.counters);
    flush__drops_done(&flush->unit.drops);
    flush__drops_init(&flush->unit.drops);
    flush->sorter = flush__sorter_new();
    flush->state = STATE_SORT;
}

/* ---- PICK ---- */

struct pick { /* what there is to choose from */
    uint64_t mark_segment;
    uint64_t asked_segment; /* by flush_ask() or a view request */
    uint64_t cap_segment;   /* (3) */
    uint64_t pending_bytes;
    size_t pending_count;
    struct journal_sealed first;
};

static void pick_look(struct flush *flush, struct pick *pick)
{
    *pick = (struct pick){.cap_segment = UINT64_MAX};
    pthread_mutex_lock(&flush->lock);
    pick->mark_segment = flush->status.mark.segment;
    pick->asked_segment = flush->asked_segment;
    for (struct flush_request *request = flush->requests; request; request = request->next) {
        if (request->kind != FLUSH_REQUEST_VIEW)
            continue;
        if (request->segment > pick->asked_segment)
            pick->asked_segment = request->segment;
        if (request->segment < pick->cap_segment)
            pick->cap_segment = request->segment;
    }
    pthread_mutex_unlock(&flush->lock);

    struct journal_sealed sealed;
    uint64_t after = pick->mark_segment;
    for (; journal_sealed_next(flush->options.journal, after, &sealed); after = sealed.number) {
        if (pick->pending_count++ == 0)
            pick->first = sealed;
        pick->pending_bytes += sealed.bytes;
    }
}

/* Between units. Who asks or requests in the meantime is seen under the lock; flush_hurry() comes
 * again with every turn of the executor while too much pends. */
static void pace_choose(struct flush *flush, const struct pick *pick)
{
    pthread_mutex_lock(&flush->lock);
    bool hurry = flush->options.manual || flush->asked_segment > pick->mark_segment ||
                 flush->requests ||
                 pick->pending_bytes > flush_hurry_bytes(flush->options.unit_bytes);
    atomic_store_explicit(&flush->pace.hurry, hurry, memory_order_relaxed);
    pthread_mutex_unlock(&flush->lock);
    flush->pace.piece_ns = clock_thread_cpu_ns();
}

/* Runs and files of a unit stand beside its segments until it is in: with little disk a unit is one
 * segment, which the reserve has room for. */
static bool is_tight(struct flush *flush)
{
    return flush_disk_full(flush) || !reserve_is_whole(flush->options.reserve);
}

static bool pick_is_due(struct flush *flush, const struct pick *pick)
{
    if (pick->pending_count == 0)
        return false;
    uint64_t now_ns = clock_mono_ns(flush->options.clock);
    if (flush->oldest_segment != pick->first.number) {
        flush->oldest_segment = pick->first.number;
        flush->oldest_since_ns = now_ns;
    }
    return pick->pending_bytes >= flush->options.unit_bytes ||
           pick->pending_count >= FLUSH_RUN_COUNT_MAX ||
           pick->asked_segment >= pick->first.number ||
           (now_ns - flush->oldest_since_ns) / NS_PER_MS >= flush->options.age_ms_max;
}

/* The segments of the next unit into unit->segment, at least one. */
static void pick_segments(struct flush *flush, const struct pick *pick)
{
    struct unit *unit = &flush->unit;
    struct journal_sealed sealed;
    uint64_t bytes = 0, after = pick->mark_segment;
    size_t count = 0, cap = 0;
    bool tight = is_tight(flush);

    while (journal_sealed_next(flush->options.journal, after, &sealed)) {
        bool over = count >= (tight ? 1 : FLUSH_RUN_COUNT_MAX) ||
                    sealed.number > pick->cap_segment ||
                    bytes + sealed.bytes > flush->options.unit_bytes;
        if (over && count > 0)
            break;
        if (count == cap) {
            cap = cap ? cap * 2 : 16;
            unit->segment = mem_realloc(unit->segment, cap * sizeof *unit->segment);
        }
        unit->segment[count++] = sealed;
        bytes += sealed.bytes;
        after = sealed.number;
    }
    unit->segment_count = count;
}

static void unit_begin(struct flush *flush)
{
    struct unit *unit = &flush->unit;
    const struct journal_sealed *last = &unit->segment[unit->segment_count - 1];
    unit->mark = mark_of(flush);
    unit->mark.segment = last->number;
    for (size_t i = 0; i < unit->segment_count; i++)
        if (unit->segment[i].last_lsn > unit->mark.lsn)
            unit->mark.lsn = unit->segment[i].last_lsn;
    unit->run = mem_zalloc(unit->segment_count * sizeof *unit->run);
    flush__drops_init(&unit->drops);
    flush->sorter = flush__sorter_new();
    flush->state = STATE_SORT;
}

static enum outcome step_pick(struct flush *flush)
{
    struct pick pick;
    pick_look(flush, &pick);
    if (!pick_is_due(flush, &pick))
        return OUTCOME_IDLE;
    pick_segments(flush, &pick);
    if (flush->unit.segment_count == 0) {
        unit_clear(flush);
        return OUTCOME_IDLE;
    }
    pace_choose(flush, &pick);
    unit_begin(flush);
    return OUTCOME_WORKED;
}

/* ---- SORT, BUILD, APPLY, DONE ---- */

static enum rc sort_one(struct flush *flush, struct err *err)
{
    struct unit *unit = &flush->unit;
    size_t index = unit->sorted_count;
    struct flush__run *run = &unit->run[index];
    char segment[PATH_BYTES_MAX];
    segment_path(segment, flush->journal_dir, unit->segment[index].number);
    int len = snprintf(run->path, sizeof run->path, "%s/run-%04zu", flush->scratch_dir, index);
    if (len < 0 || (size_t)len >= sizeof run->path)
        return err_set(err, RC_INVALID, "the path \"%s\" is too long", flush->scratch_dir);
    run->segment_index = (uint32_t)index;

    const struct flush__sort_job job = {
        .files = flush->options.files,
        .spaces = flush->options.spaces,
        .segment_path = segment,
        .sealed = unit->segment[index],
        .uuid = unit->mark.uuid,
        .pace = &flush->pace,
    };
    CLEANUP(flush__counters_done) struct flush__counters counters = {0};
    CLEANUP(flush__drops_done) struct flush__drops drops;
    flush__drops_init(&drops);
    enum rc rc = flush__sort(flush->sorter, &job, run, &counters, &drops, err);
    if (rc != RC_OK)
        return rc;
    flush__counters_merge(&unit->counters, &counters);
    flush__drops_merge(&unit->drops, &drops);
    unit->sorted_count++;
    return RC_OK;
}

static enum rc step_sort(struct flush *flush, struct err *err)
{
    enum rc rc = sort_one(flush, err);
    if (rc != RC_OK)
        return rc;
    if (flush->unit.sorted_count == flush->unit.segment_count) {
        flush__sorter_free(flush->sorter);
        flush->sorter = NULL;
        flush->state = STATE_BUILD;
    }
    return RC_OK;
}

/* Mark and counters: the rows of space 0, which stand before all others. */
static enum rc sys_rows_put(struct flush *flush, struct err *err)
{
    const struct engine_ops *ops = flush->options.engine->ops;
    struct unit *unit = &flush->unit;
    CLEANUP(buf_done) struct buf key;
    CLEANUP(buf_done) struct buf value;
    buf_init(&key, PATH_BYTES_MAX);
    buf_init(&value, PATH_BYTES_MAX);

    for (size_t i = 0; i < unit->counters.count; i++) {
        const struct flush__counter *counter = &unit->counters.at[i];
        struct bytes name = bytes_of(counter->name, counter->name_len);
        if (counter->value == 0)
            continue;
        int64_t count =
            (int64_t)((uint64_t)flush__counters_get(&flush->base, name) + (uint64_t)counter->value);
        buf_cut(&key, 0);
        buf_cut(&value, 0);
        if (!sys_counter_add(name, count, &key, &value))
            return err_set(err, RC_NOMEM, "could not allocate a counter");
        enum rc rc = ops->unit_put(unit->built, buf_bytes(&key), buf_bytes(&value), err);
        if (rc != RC_OK)
            return rc;
    }
    buf_cut(&key, 0);
    buf_cut(&value, 0);
    if (!sys_mark_add(&unit->mark, &key, &value))
        return err_set(err, RC_NOMEM, "could not allocate the mark");
    return ops->unit_put(unit->built, buf_bytes(&key), buf_bytes(&value), err);
}

static bool mark_eq(const struct sys_mark *a, const struct sys_mark *b)
{
    return memcmp(a->uuid, b->uuid, sizeof a->uuid) == 0 && a->incarnation == b->incarnation &&
           a->segment == b->segment && a->lsn == b->lsn;
}

/* An apply that failed may have been done all the same. */
static enum rc apply_look(struct flush *flush, bool *ret_applied, struct err *err)
{
    struct sys_mark mark;
    enum rc rc = sys_mark_get(flush->options.engine, NULL, &mark, err);
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return rc;
    *ret_applied = rc == RC_OK && mark_eq(&mark, &flush->unit.mark);
    return RC_OK;
}

static enum rc unit_build(struct flush *flush, struct err *err)
{
    struct unit *unit = &flush->unit;
    const struct flush__merge_job job = {
        .files = flush->options.files,
        .engine = flush->options.engine,
        .spaces = flush->options.spaces,
        .run = unit->run,
        .run_count = unit->segment_count,
        .drops = &unit->drops,
        .pace = &flush->pace,
    };
    bool runs_bad = false;
    enum rc rc = flush->options.engine->ops->unit_open(flush->options.engine, &unit->built, err);
    if (rc == RC_OK)
        rc = sys_rows_put(flush, err);
    if (rc == RC_OK)
        rc = flush__merge(&job, unit->built, &unit->result, &runs_bad, err);
    if (rc != RC_OK)
        unit_built_close(flush);
    if (runs_bad)
        unit_sort_again(flush);
    return rc;
}

static enum rc step_build(struct flush *flush, struct err *err)
{
    if (flush->unit.maybe_applied) {
        bool applied;
        enum rc rc = apply_look(flush, &applied, err);
        if (rc != RC_OK)
            return rc;
        if (applied) {
            flush->state = STATE_DONE;
            return RC_OK;
        }
    }
    enum rc rc = unit_build(flush, err);
    if (rc == RC_OK)
        flush->state = STATE_APPLY;
    return rc;
}

static enum rc step_apply(struct flush *flush, struct err *err)
{
    struct unit *unit = &flush->unit;
    enum rc rc = flush->options.engine->ops->unit_apply(unit->built, err);
    unit_built_close(flush);
    if (rc == RC_OK) {
        flush->state = STATE_DONE;
        return RC_OK;
    }
    bool applied = false;
    unit->maybe_applied = true; /* what does not show now may show when it is opened again */
    unit->failed_count++;
    if (apply_look(flush, &applied, NULL) == RC_OK && applied) {
        flush->state = STATE_DONE;
        return RC_OK;
    }
    flush->state = STATE_BUILD;
    return rc;
}

/* Files that cannot be removed now are removed with those of the next unit, or at the next open. */
static enum rc step_done(struct flush *flush, struct err *err)
{
    struct unit *unit = &flush->unit;
    flush__counters_merge(&flush->base, &unit->counters); /* (2) */
    uint64_t segment = unit->mark.segment;
    pthread_mutex_lock(&flush->lock);
    flush->status.mark = unit->mark;
    flush->status.unit_count++;
    flush->status.row_count += unit->result.row_count;
    flush->status.range_delete_count += unit->result.range_delete_count;
    flush->status.disk_full = false;
    flush->status.reason[0] = '\0';
    pthread_mutex_unlock(&flush->lock);
    flush->wait_failed_ms = WAIT_FAILED_MS_MIN;
    atomic_store_explicit(&flush->mark_segment, segment, memory_order_release);
    unit_clear(flush);
    flush->state = STATE_PICK;
    notify(flush);
    return journal_remove(flush->options.journal, segment, err); /* (1) */
}

/* ---- requests ---- */

static enum rc request_view(struct flush *flush, struct flush_request *request, struct err *err)
{
    struct engine *engine = flush->options.engine;
    return engine->ops->view_open(engine, &request->view, err);
}

/* The last segment that the journal has sealed. */
static uint64_t sealed_last(struct flush *flush)
{
    struct journal_sealed sealed;
    uint64_t last = mark_of(flush).segment;
    for (uint64_t after = last; journal_sealed_next(flush->options.journal, after, &sealed);
         after = sealed.number)
        last = sealed.number;
    return last;
}

static enum rc request_backup(struct flush *flush, struct flush_request *request, struct err *err)
{
    const struct flush__backup_job job = {
        .files = flush->options.files,
        .journal = flush->options.journal,
        .journal_dir = flush->journal_dir,
        .engine = flush->options.engine,
        .mark_segment = mark_of(flush).segment,
        .segment = request->segment,
        .to_dir = request->backup_dir,
    };
    return flush__backup(&job, err);
}

static bool request_is_due(const struct flush_request *request, uint64_t mark_segment,
                           uint64_t last_segment)
{
    switch (request->kind) {
    case FLUSH_REQUEST_VIEW:
        return mark_segment >= request->segment;
    case FLUSH_REQUEST_BACKUP:
        return last_segment >= request->segment;
    }
    return false;
}

static void request_unlink(struct flush *flush, struct flush_request *request)
{
    struct flush_request **link = &flush->requests;
    while (*link && *link != request)
        link = &(*link)->next;
    if (*link)
        *link = request->next;
}

static void request_end(struct flush *flush, struct flush_request *request, enum rc rc,
                        const struct err *err)
{
    pthread_mutex_lock(&flush->lock);
    request_unlink(flush, request);
    request->rc = rc;
    request->err = *err;
    request->mark = flush->status.mark;
    flush->serving = NULL;
    atomic_store_explicit(&request->done, true, memory_order_release); /* (4) */
    pthread_cond_broadcast(&flush->served);
    pthread_mutex_unlock(&flush->lock);
}

/* Serves one request whose time has come; false: there is none. */
static bool requests_serve(struct flush *flush)
{
    uint64_t last_segment = sealed_last(flush);
    pthread_mutex_lock(&flush->lock);
    struct flush_request *request = flush->requests;
    while (request && !request_is_due(request, flush->status.mark.segment, last_segment))
        request = request->next;
    flush->serving = request;
    pthread_mutex_unlock(&flush->lock);
    if (!request)
        return false;

    struct err err = {0};
    enum rc rc = RC_INVALID;
    switch (request->kind) {
    case FLUSH_REQUEST_VIEW:
        rc = request_view(flush, request, &err);
        break;
    case FLUSH_REQUEST_BACKUP:
        rc = request_backup(flush, request, &err);
        break;
    }
    request_end(flush, request, rc, &err);
    notify(flush);
    return true;
}

static void requests_fail(struct flush *flush, const struct err *err)
{
    for (;;) {
        pthread_mutex_lock(&flush->lock);
        struct flush_request *request = flush->requests;
        flush->serving = request; /* its owner waits */
        pthread_mutex_unlock(&flush->lock);
        if (!request)
            return;
        request_end(flush, request, err->rc, err);
    }
}

void flush_request(struct flush *flush, struct flush_request *request)
{
    atomic_store_explicit(&request->done, false, memory_order_relaxed);
    request->view = NULL;
    request->next = NULL;
    pthread_mutex_lock(&flush->lock);
    request->mark = flush->status.mark; /* until it is done: the mark it was made at */
    struct flush_request **link = &flush->requests;
    while (*link)
        link = &(*link)->next;
    *link = request;
    flush->awake = true;
    flush_hurry(flush);
    pthread_cond_signal(&flush->wake);
    pthread_mutex_unlock(&flush->lock);
}

void flush_request_take_back(struct flush *flush, struct flush_request *request)
{
    pthread_mutex_lock(&flush->lock);
    while (flush->serving == request)
        pthread_cond_wait(&flush->served, &flush->lock);
    request_unlink(flush, request);
    pthread_mutex_unlock(&flush->lock);
}

void flush_ask(struct flush *flush, uint64_t segment)
{
    pthread_mutex_lock(&flush->lock);
    if (segment > flush->asked_segment)
        flush->asked_segment = segment;
    flush->awake = true;
    flush_hurry(flush);
    pthread_cond_signal(&flush->wake);
    pthread_mutex_unlock(&flush->lock);
}

/* ---- opening the engine again ---- */

/* A lack of disk is no damage: without room a reopen seldom helps, so only a unit that is refused
 * again and again is worth one. With room, what has failed before is. */
static bool reopen_is_due(struct flush *flush)
{
    struct engine *engine = flush->options.engine;
    struct engine_pressure pressure = {0};
    bool full = flush_disk_full(flush);
    uint64_t now_ns = clock_mono_ns(flush->options.clock);

    if (!engine->ops->reopen)
        return false;
    engine->ops->pressure(engine, &pressure);
    if (pressure.closed || flush->engine_unlike)
        return true;
    if (now_ns < flush->refused_at_ns)
        return false;
    if (flush->unit.failed_count >= (full ? APPLY_TRIES_FULL : APPLY_TRIES))
        return true;
    return pressure.failed && !full && now_ns >= flush->reopen_at_ns;
}

/* (5) */
static enum rc reopen_look(struct flush *flush, struct err *err)
{
    struct sys_mark mark, own = mark_of(flush);
    enum rc rc = sys_mark_get(flush->options.engine, NULL, &mark, err);
    if (rc == RC_NOT_FOUND)
        mark = (struct sys_mark){0};
    else if (rc != RC_OK)
        return rc;
    if (mark.segment == own.segment && mark.lsn == own.lsn)
        return RC_OK;
    if (flush->unit.maybe_applied && mark_eq(&mark, &flush->unit.mark))
        return RC_OK;
    return err_set(err, RC_CORRUPT,
                   "the engine was opened again and stands at segment %llu, where it stood at %llu",
                   (unsigned long long)mark.segment, (unsigned long long)own.segment);
}

/* An engine that fails again soon is left alone for longer and longer. */
static void reopen_pause(struct flush *flush)
{
    uint64_t now_ns = clock_mono_ns(flush->options.clock);
    bool soon = now_ns < flush->reopen_at_ns + (uint64_t)flush->reopen_ms * NS_PER_MS;
    flush->reopen_ms = soon ? 2 * flush->reopen_ms : REOPEN_MS_MIN;
    if (flush->reopen_ms > REOPEN_MS_MAX)
        flush->reopen_ms = REOPEN_MS_MAX;
    flush->reopen_at_ns = now_ns + (uint64_t)flush->reopen_ms * NS_PER_MS;
}

/* *ret_refused: the engine was not closed, and can be used as before. */
static enum rc reopen(struct flush *flush, bool *ret_refused, struct err *err)
{
    struct engine *engine = flush->options.engine;
    struct err gone = {0};

    err_set(&gone, RC_IO, "the engine had an error and is opened again");
    requests_fail(flush, &gone);
    enum rc rc = engine->ops->reopen(engine, err);
    bool opened = rc == RC_OK;
    if (rc == RC_OK)
        rc = reopen_look(flush, err);
    flush->engine_unlike = opened && rc != RC_OK;
    if (rc == RC_OK) {
        flush->unit.failed_count = 0;
        reopen_pause(flush);
    }
    struct engine_pressure pressure = {0};
    engine->ops->pressure(engine, &pressure);
    *ret_refused = !opened && !pressure.closed;
    if (*ret_refused)
        flush->refused_at_ns =
            clock_mono_ns(flush->options.clock) + (uint64_t)REOPEN_REFUSED_MS * NS_PER_MS;
    pthread_mutex_lock(&flush->lock);
    flush->status.reopen_count += opened;
    if (opened)
        snprintf(flush->status.reopen_reason, sizeof flush->status.reopen_reason, "%s",
                 flush->status.reason[0] ? flush->status.reason : "a compaction failed");
    flush->status.engine_closed = pressure.closed;
    pthread_mutex_unlock(&flush->lock);
    notify(flush);
    return rc;
}

/* ---- steps ---- */

/* RC_OK: go on. RC_BUSY: the engine has to catch up first. RC_IO: it never will. */
static enum rc brake(struct flush *flush, struct err *err)
{
    struct engine_pressure pressure = {0};
    flush->options.engine->ops->pressure(flush->options.engine, &pressure);
    bool braked = flush__braked(&flush->brake, &flush->options, &pressure);
    pthread_mutex_lock(&flush->lock);
    bool changed = flush->status.braked != braked;
    flush->status.braked = braked;
    pthread_mutex_unlock(&flush->lock);
    if (changed)
        notify(flush);
    if (braked && pressure.failed)
        return err_set(err, RC_IO,
                       "the engine stopped compacting after an error of its own; it will be "
                       "opened again");
    return braked ? RC_BUSY : RC_OK;
}

static enum outcome state_step(struct flush *flush, struct err *err)
{
    enum rc rc = RC_OK;
    bool refused = false;
    if ((flush->state == STATE_PICK || flush->state == STATE_BUILD) && reopen_is_due(flush)) {
        rc = reopen(flush, &refused, err);
        if (!refused)
            return rc == RC_OK ? OUTCOME_WORKED : OUTCOME_FAILED;
    }
    switch (flush->state) {
    case STATE_PICK:
        if (requests_serve(flush))
            return OUTCOME_WORKED;
        return step_pick(flush);
    case STATE_SORT:
        rc = step_sort(flush, err);
        break;
    case STATE_BUILD:
        rc = brake(flush, err);
        if (rc == RC_BUSY)
            return OUTCOME_BRAKED;
        if (rc == RC_OK)
            rc = step_build(flush, err);
        break;
    case STATE_APPLY:
        rc = step_apply(flush, err);
        break;
    case STATE_DONE:
        rc = step_done(flush, err);
        break;
    }
    if (rc == RC_WAIT)
        return OUTCOME_STOPPED;
    return rc == RC_OK ? OUTCOME_WORKED : OUTCOME_FAILED;
}

/* There is no disk for the unit. It is begun again with one segment, unless the engine may have it.
 */
static void unit_full(struct flush *flush)
{
    uint64_t bytes = RESERVE_PIECE_BYTES;
    if (flush->unit.segment_count > 0) /* its run and its files; not more, others might take it */
        bytes += 2 * flush->unit.segment[0].bytes;
    flush__tight_full(&flush->options, bytes, flush_disk_full(flush));
    if (flush->unit.maybe_applied || flush->unit.segment_count < 2 || flush->state == STATE_DONE)
        return;
    unit_clear(flush);
    flush->state = STATE_PICK;
}

static enum outcome step(struct flush *flush)
{
    struct err err = {0};
    uint64_t cpu_ns = clock_thread_cpu_ns();
    enum outcome outcome = state_step(flush, &err);
    if (outcome == OUTCOME_FAILED && err.rc == RC_FULL)
        unit_full(flush);
    flush__tight_look(&flush->tight, &flush->options);
    cpu_ns = clock_thread_cpu_ns() - cpu_ns;

    pthread_mutex_lock(&flush->lock);
    bool had_reason = flush->status.reason[0] != '\0';
    flush->status.cpu_ns += cpu_ns;
    flush->status.working = flush->state != STATE_PICK;
    if (outcome == OUTCOME_FAILED) {
        flush->status.failure_count++;
        snprintf(flush->status.reason, sizeof flush->status.reason, "%s", err.text);
        flush->status.disk_full = flush->status.disk_full || err.rc == RC_FULL;
    } else if (outcome == OUTCOME_IDLE) { /* nothing is left that could not be flushed */
        flush->status.reason[0] = '\0';
    }
    bool changed = had_reason != (flush->status.reason[0] != '\0');
    pthread_mutex_unlock(&flush->lock);

    if (outcome == OUTCOME_FAILED)
        log_debug("could not flush, trying again: %s", err.text);
    if (changed)
        notify(flush);
    return outcome;
}

void flush_step(struct flush *flush, bool *ret_worked)
{
    ASSERT(flush->options.manual);
    *ret_worked = step(flush) == OUTCOME_WORKED;
}

/* ---- the thread ---- */

/* Waits, until it is woken if that is allowed, or the flusher is closed. */
static void thread_wait(struct flush *flush, uint32_t wait_ms, bool wakes)
{
    uint64_t until_ns = clock_mono_ns(&flush->real_clock) + (uint64_t)wait_ms * NS_PER_MS;
    const struct timespec until = {
        .tv_sec = (time_t)(until_ns / NS_PER_S),
        .tv_nsec = (long)(until_ns % NS_PER_S),
    };
    pthread_mutex_lock(&flush->lock);
    while (!atomic_load(&flush->pace.stop) && !(wakes && flush->awake))
        if (pthread_cond_timedwait(&flush->wake, &flush->lock, &until) != 0)
            break;
    if (wakes)
        flush->awake = false;
    pthread_mutex_unlock(&flush->lock);
}

static void *thread_main(void *arg)
{
    struct flush *flush = arg;
    setpriority(PRIO_PROCESS, (id_t)gettid(), THREAD_NICE); /* where it is refused: as it is */

    while (!atomic_load(&flush->pace.stop)) {
        enum outcome outcome = step(flush);
        switch (outcome) {
        case OUTCOME_WORKED:
        case OUTCOME_STOPPED:
            break;
        case OUTCOME_IDLE:
            flush->wait_failed_ms = WAIT_FAILED_MS_MIN;
            thread_wait(flush, WAIT_IDLE_MS, true);
            break;
        case OUTCOME_BRAKED:
            thread_wait(flush, WAIT_BRAKED_MS, false);
            break;
        case OUTCOME_FAILED:
            thread_wait(flush, flush->wait_failed_ms, false);
            flush->wait_failed_ms *= 2;
            if (flush->wait_failed_ms > WAIT_FAILED_MS_MAX)
                flush->wait_failed_ms = WAIT_FAILED_MS_MAX;
            break;
        }
    }
    return NULL;
}

/* ---- open and close ---- */

static enum rc base_add(struct bytes name, int64_t value, void *arg, struct err *err)
{
    return flush__counters_add(arg, name, value, err);
}

static struct flush *flush_new(const struct flush_options *options)
{
    struct flush *flush = mem_zalloc(sizeof *flush);
    flush->options = *options;
    flush->scratch_dir = mem_dup(options->scratch_dir, strlen(options->scratch_dir) + 1);
    flush->journal_dir = mem_dup(options->journal_dir, strlen(options->journal_dir) + 1);
    flush->options.scratch_dir = flush->scratch_dir;
    flush->options.journal_dir = flush->journal_dir;
    flush->status.mark = options->mark;
    flush->wait_failed_ms = WAIT_FAILED_MS_MIN;
    flush->reopen_ms = REOPEN_MS_MIN;
    clock_init(&flush->real_clock);
    atomic_init(&flush->pace.stop, false);
    atomic_init(&flush->pace.hurry, false);
    atomic_init(&flush->mark_segment, options->mark.segment);
    pthread_mutex_init(&flush->lock, NULL);
    thread_cond_init(&flush->wake);
    pthread_cond_init(&flush->served, NULL);
    return flush;
}

enum rc flush_open(const struct flush_options *options, struct flush **ret_flush, struct err *err)
{
    struct flush *flush = flush_new(options);
    enum rc rc = flush_scratch_empty(options->files, flush->scratch_dir, err);
    if (rc == RC_OK)
        rc = sys_counters_walk(options->engine, NULL, base_add, &flush->base, err);
    if (rc == RC_OK && !options->manual)
        rc = thread_start(&flush->thread, "flusher", thread_main, flush, err);
    if (rc != RC_OK) {
        flush_close(flush);
        return rc;
    }
    *ret_flush = flush;
    return RC_OK;
}

void flush_close(struct flush *flush)
{
    if (!flush)
        return;
    pthread_mutex_lock(&flush->lock);
    atomic_store(&flush->pace.stop, true);
    pthread_cond_signal(&flush->wake);
    pthread_mutex_unlock(&flush->lock);
    thread_join(&flush->thread);

    struct err err = {0};
    err_set(&err, RC_IO, "the flusher was closed");
    requests_fail(flush, &err);
    unit_clear(flush);
    flush__counters_done(&flush->base);
    pthread_cond_destroy(&flush->served);
    pthread_cond_destroy(&flush->wake);
    pthread_mutex_destroy(&flush->lock);
    mem_free(flush->scratch_dir);
    mem_free(flush->journal_dir);
    mem_free(flush);
}

/* ---- getters ---- */

void flush_status(struct flush *flush, struct flush_status *ret_status)
{
    pthread_mutex_lock(&flush->lock);
    *ret_status = flush->status;
    pthread_mutex_unlock(&flush->lock);
    ret_status->rest_count = atomic_load_explicit(&flush->pace.rest_count, memory_order_relaxed);
    struct journal_sealed sealed;
    uint64_t after = ret_status->mark.segment;
    ret_status->pending_bytes = 0;
    for (; journal_sealed_next(flush->options.journal, after, &sealed); after = sealed.number)
        ret_status->pending_bytes += sealed.bytes;
}

bool flush_disk_full(struct flush *flush)
{
    pthread_mutex_lock(&flush->lock);
    bool full = flush->status.disk_full;
    pthread_mutex_unlock(&flush->lock);
    return full;
}

bool flush_failed(struct flush *flush, struct err *ret_why)
{
    pthread_mutex_lock(&flush->lock);
    bool failed = flush->status.reason[0] != 0;
    if (failed)
        (void)err_set(ret_why, flush->status.disk_full ? RC_FULL : RC_IO, "%s",
                      flush->status.reason);
    pthread_mutex_unlock(&flush->lock);
    return failed;
}

uint64_t flush_mark_segment(const struct flush *flush)
{
    return atomic_load_explicit(&flush->mark_segment, memory_order_acquire);
}
