// SPDX-License-Identifier: Apache-2.0
/* support_store_sim.c - events of all threads, clients and faults, in the order of a seed. */
#include "model/support_store_sim.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/mem.h"
#include "store/engine/sys.h"
#include "store/testing.h"
#include "store/turns.h"
#include "test.h"

#include "base/banned.h"

enum { HOT_SLACK_BYTES = 8 * 1024, LOG_COUNT_MAX = 4000 };

void sim_fail(const struct sim *sim, const char *file, int line, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    test_fail(file, line, "seed %llu, event %llu: %s", (unsigned long long)sim->seed,
              (unsigned long long)sim->event, text);
}

/* ---- faults ---- */

static void faults_disarm(struct sim *sim)
{
    for (int op = FILE_SIM_ANY; op <= FILE_SIM_READ; op++)
        file_sim_arm(sim->files, &(struct file_sim_fault){.op = (enum file_sim_op)op});
    for (int op = ENGINE_MEMORY_ANY; op <= ENGINE_MEMORY_REOPEN; op++)
        engine_memory_arm(sim->memory, (enum engine_memory_op)op, 0, 0, RC_OK);
    file_sim_space(sim->files, UINT64_MAX);
    sim->armed = false;
}

static void file_fault_arm(struct sim *sim)
{
    static const uint8_t ops[] = {FILE_SIM_WRITE,  FILE_SIM_WRITE,    FILE_SIM_WRITE,
                                  FILE_SIM_SYNC,   FILE_SIM_SYNC,     FILE_SIM_TRUNCATE,
                                  FILE_SIM_OPEN,   FILE_SIM_ALLOCATE, FILE_SIM_RENAME,
                                  FILE_SIM_REMOVE, FILE_SIM_SYNC_DIR, FILE_SIM_READ};
    static const char *const parts[] = {NULL, "journal", "journal", "flush"};
    struct file_sim_fault fault = {
        .op = (enum file_sim_op)ops[sim_below(sim, ARRAY_LEN(ops))],
        .count = 1 + sim_below(sim, 4),
        .times = 1 + (int64_t)sim_below(sim, 3),
        .rc = sim_below(sim, 4) ? RC_IO : RC_FULL,
        .path_part = parts[sim_below(sim, ARRAY_LEN(parts))],
    };
    if (sim_below(sim, 2))
        fault.short_bytes = sim_below(sim, 400);
    file_sim_arm(sim->files, &fault);
}

static void event_fault(struct sim *sim)
{
    if (!sim->faulty)
        return;
    sim->armed = true;
    if (sim_below(sim, 2)) {
        file_fault_arm(sim);
        return;
    }
    if (sim_below(sim, 5) == 0) {
        file_sim_space(sim->files, sim_below(sim, 64 * 1024));
        return;
    }
    if (sim_below(sim, 5) == 0) {
        engine_memory_break(sim->memory);
        return;
    }
    static const uint8_t ops[] = {ENGINE_MEMORY_GET,       ENGINE_MEMORY_ITER_OPEN,
                                  ENGINE_MEMORY_ITER_NEXT, ENGINE_MEMORY_VIEW,
                                  ENGINE_MEMORY_UNIT_OPEN, ENGINE_MEMORY_UNIT_ADD,
                                  ENGINE_MEMORY_APPLY,     ENGINE_MEMORY_APPLY_LATE,
                                  ENGINE_MEMORY_REOPEN,    ENGINE_MEMORY_APPLY_HIDDEN};
    engine_memory_arm(sim->memory, (enum engine_memory_op)ops[sim_below(sim, ARRAY_LEN(ops))],
                      1 + sim_below(sim, 8), 1 + (int64_t)sim_below(sim, 3), RC_IO);
}

static void event_faults_end(struct sim *sim)
{
    faults_disarm(sim);
}

/* ---- opening ---- */

static enum rc open_names(struct sim *sim)
{
    static const char *const counters[MODEL_COUNTERS] = {"rows", "bytes", ""};
    enum rc rc = RC_OK;
    for (uint32_t i = 0; i < MODEL_PREFIXES && rc == RC_OK; i++)
        rc = store_prefix(sim->store, mirror_prefixes[i].space, mirror_prefixes[i].bytes,
                          &sim->prefix[i], &sim->err);
    for (uint32_t i = 0; i < MODEL_COUNTERS && rc == RC_OK; i++)
        rc = store_counter(sim->store, bytes_of(counters[i], strlen(counters[i])), &sim->counter[i],
                           &sim->err);
    if (rc == RC_OK)
        return rc;
    store_abandon(sim->store);
    sim->store = NULL;
    file_sim_process_end(sim->files);
    return rc;
}

/* Opens, whatever the faults say: after some failures they end. */
static void sim_open(struct sim *sim)
{
    for (int attempt = 0;; attempt++) {
        sim->options.seed = 1 + rand_u64(&sim->rand) / 2;
        enum rc rc = store_open(&sim->options, &sim->store, &sim->err);
        if (rc == RC_OK)
            rc = open_names(sim);
        else
            file_sim_process_end(sim->files);
        if (rc == RC_OK)
            break;
        SIM_CHECK(sim, rc == RC_IO || rc == RC_FULL, "opening gave %s: %s", rc_name(rc),
                  sim->err.text);
        SIM_CHECK(sim, sim->armed, "opening failed without a fault: %s", sim->err.text);
        sim->open_failed_count++;
        if (attempt >= 3)
            faults_disarm(sim);
    }
    sim->durable_lsn = store_durable_lsn(sim->store);
    sim->mark_max = store_flush_mark(sim->store);
}

/* The turn that failed stands in the journal after all. */
static void ghost_take(struct sim *sim)
{
    for (size_t i = 0; i < sim->ghost_count; i++) {
        const struct mirror_change *change = &sim->ghost[i];
        if (change->group >= MODEL_GROUPS_MAX)
            mirror_counter_add(&sim->model, change->group - MODEL_GROUPS_MAX, change->delta);
        else
            mirror_set(&sim->model, change->group, change->id, change->after);
        mirror_commit(&sim->model, change->lsn);
    }
}

/* What was recovered is the model at some LSN: all that was written after the end of the process,
 * at least what was durable after a power cut. */
static void recovered_check(struct sim *sim, bool power, uint64_t durable_lsn)
{
    uint64_t lsn = store_commit_lsn(sim->store);
    if (sim->ghost_lsn && lsn == sim->ghost_lsn) {
        ghost_take(sim);
    } else {
        SIM_CHECK(sim, lsn <= sim->written_lsn, "LSN %llu was recovered, but only %llu written",
                  (unsigned long long)lsn, (unsigned long long)sim->written_lsn);
        SIM_CHECK(sim, lsn >= (power ? durable_lsn : sim->written_lsn),
                  "LSN %llu was recovered, %llu was written and %llu durable (power cut: %d)",
                  (unsigned long long)lsn, (unsigned long long)sim->written_lsn,
                  (unsigned long long)durable_lsn, power);
        mirror_cut(&sim->model, lsn);
    }
    sim->ghost_lsn = 0;
    sim->ghost_count = 0;
    sim->written_lsn = lsn;
    sim->turn_mark = sim->model.log_count;
    SIM_CHECK(sim, store_last_lsn(sim->store) >= sim->lsn_max, "LSNs went back from %llu to %llu",
              (unsigned long long)sim->lsn_max, (unsigned long long)store_last_lsn(sim->store));
    for (uint32_t i = 0; i < MODEL_COUNTERS; i++)
        SIM_CHECK(sim, store_counter_get(sim->store, sim->counter[i]) == sim->model.counter[i],
                  "counter %u is %lld, not %lld", i,
                  (long long)store_counter_get(sim->store, sim->counter[i]),
                  (long long)sim->model.counter[i]);
}

/* ---- turns ---- */

static void ghost_keep(struct sim *sim)
{
    size_t count = sim->model.log_count - sim->turn_mark;
    sim->ghost_count = 0;
    for (size_t i = 0; i < count; i++) {
        sim->ghost = mem_realloc(sim->ghost, (sim->ghost_count + 1) * sizeof *sim->ghost);
        sim->ghost[sim->ghost_count++] = sim->model.log[sim->turn_mark + i];
    }
    sim->ghost_lsn = sim->lsn_max;
}

static bool read_only(struct sim *sim)
{
    struct store_stats stats;
    store_stats(sim->store, &stats);
    return stats.journal.read_only;
}

void sim_turn_end(struct sim *sim)
{
    bool before = sim->ghost_lsn != 0;
    uint64_t commit_lsn = store_commit_lsn(sim->store);
    enum rc rc = store_write(sim->store, &sim->err);
    if (rc == RC_OK) {
        SIM_CHECK(sim, store_commit_lsn(sim->store) == commit_lsn, "writing moved the LSN");
        sim->written_lsn = commit_lsn;
        sim->turn_mark = sim->model.log_count;
        return;
    }
    SIM_CHECK(sim, rc == RC_IO || rc == RC_FULL || rc == RC_READONLY, "writing gave %s: %s",
              rc_name(rc), sim->err.text);
    SIM_CHECK(sim, sim->faulty, "writing failed without a fault: %s", sim->err.text);
    sim->failed_turn_count++;
    if (!before && rc != RC_READONLY && read_only(sim))
        ghost_keep(sim);
    mirror_undo_to(&sim->model, sim->turn_mark);
    SIM_CHECK(sim, store_commit_lsn(sim->store) == sim->written_lsn,
              "a failed turn left its LSN behind");
}

static void event_write(struct sim *sim)
{
    sim_turn_end(sim);
}

/* The store may write a turn of its own to make room. */
static bool room(struct sim *sim)
{
    bool turn = sim->model.log_count > sim->turn_mark || store_turn_bytes(sim->store) > 0;
    bool is_room = store_room(sim->store);
    sim->lsn_max = store_last_lsn(sim->store);
    if (!turn)
        sim->written_lsn = store_commit_lsn(sim->store);
    return is_room;
}

static void event_client(struct sim *sim)
{
    uint64_t first = sim_below(sim, SIM_CLIENTS);
    struct client *client = &sim->client[first];
    for (uint64_t i = 1; i < SIM_CLIENTS && client->state == CLIENT_LOADING; i++)
        client = &sim->client[(first + i) % SIM_CLIENTS];
    switch (client->state) {
    case CLIENT_LOADING:
        if (sim_below(sim, 20) == 0) /* its owner went away */
            sim_client_stop(sim, client);
        else
            store_step(sim->store, STORE_STEP_LOAD);
        return;
    case CLIENT_IDLE:
        sim_client_start(sim, client);
        if (client->writes && !room(sim) && sim_below(sim, 16) > 0) {
            client->state = CLIENT_IDLE;
            return;
        }
        sim_client_attempt(sim, client);
        return;
    case CLIENT_READY:
        sim_client_attempt(sim, client);
        return;
    }
}

static void client_ready(struct load_waiter *waiter, void *arg)
{
    struct client *client = arg;
    (void)waiter;
    client->state = CLIENT_READY;
}

/* ---- between turns: these events end the turn first ---- */

static void event_poll(struct sim *sim)
{
    sim_turn_end(sim);
    store_poll(sim->store);
    if (sim->ghost_lsn && !read_only(sim))
        sim->ghost_lsn = 0;
    uint64_t durable = store_durable_lsn(sim->store), mark = store_flush_mark(sim->store);
    SIM_CHECK(sim, durable >= sim->durable_lsn && durable <= sim->written_lsn,
              "the durable LSN went from %llu to %llu, written is %llu",
              (unsigned long long)sim->durable_lsn, (unsigned long long)durable,
              (unsigned long long)sim->written_lsn);
    SIM_CHECK(sim, mark >= sim->mark_max, "the flush mark went back");
    sim->durable_lsn = durable;
    sim->mark_max = mark;
    if (sim->model.log_count > LOG_COUNT_MAX) {
        uint64_t lsn = durable;
        for (int i = 0; i < SIM_FREEZES; i++)
            if (sim->frozen[i].freeze && sim->frozen[i].lsn_min < lsn)
                lsn = sim->frozen[i].lsn_min;
        mirror_forget(&sim->model, lsn);
        sim->turn_mark = sim->model.log_count;
    }
}

static void event_journal(struct sim *sim)
{
    store_step(sim->store, STORE_STEP_JOURNAL);
}

static void event_flush(struct sim *sim)
{
    store_step(sim->store, STORE_STEP_FLUSH);
}

static void event_load(struct sim *sim)
{
    store_step(sim->store, STORE_STEP_LOAD);
}

static void event_clock(struct sim *sim)
{
    clock_advance_ms(&sim->clock, sim_below(sim, sim_below(sim, 10) ? 3 : 2500));
}

static void event_evict_all(struct sim *sim)
{
    sim_turn_end(sim);
    store_evict_all(sim->store);
}

static void event_flush_ask(struct sim *sim)
{
    sim_turn_end(sim);
    store_flush_ask(sim->store);
}

static void event_sync_ask(struct sim *sim)
{
    store_sync_ask(sim->store);
}

static void event_settings(struct sim *sim)
{
    engine_memory_cold(sim->memory, sim_below(sim, 2));
    store_durability_set(sim->store, (enum durability)sim_below(sim, 3));
    sim_turn_end(sim);
    uint64_t lsn = store_last_lsn(sim->store) + sim_below(sim, 20);
    SIM_CHECK(sim, store_lsn_raise(sim->store, lsn, &sim->err) == RC_OK, "%s", sim->err.text);
    SIM_CHECK(sim, store_last_lsn(sim->store) == lsn, "the LSN was not raised");
}

/* Works until nothing is dirty, held or on its way, and looks whether the limit is kept. */
static void event_memory(struct sim *sim)
{
    struct store_stats stats;
    if (sim->armed)
        return;
    sim_turn_end(sim);
    for (int i = 0; i < SIM_CLIENTS; i++)
        sim_client_stop(sim, &sim->client[i]);
    store_flush_ask(sim->store);
    for (int i = 0, idle = 0;; i++) {
        bool worked = store_step(sim->store, STORE_STEP_JOURNAL);
        worked = store_step(sim->store, STORE_STEP_FLUSH) || worked;
        worked = store_step(sim->store, STORE_STEP_LOAD) || worked;
        worked = store_poll(sim->store) || worked;
        store_stats(sim->store, &stats);
        if (stats.dirty_bytes == 0 && stats.loads_in_flight == 0 && i > 8)
            break;
        if (worked)
            idle = 0;
        if (!worked) {
            /* What was taken back may stay dirty for want of a frame, but not for want of room. A
             * journal that a fault made read-only is tried again in a second. Looking for room may
             * itself seal a segment, whose flush is waited for. */
            if (room(sim) && !stats.journal.read_only && stats.loads_in_flight == 0 && i > 8 &&
                ++idle > 2)
                break;
            clock_advance_ms(&sim->clock, 1000);
        }
        SIM_CHECK(sim, i < 20000, "%llu bytes stay dirty: %s %s",
                  (unsigned long long)stats.dirty_bytes, stats.flush_reason, stats.journal.reason);
    }
    for (int i = 0; i < 4; i++)
        store_poll(sim->store);
    store_stats(sim->store, &stats);
    SIM_CHECK(sim, stats.pinned_bytes == 0, "%llu bytes stay pinned without a waiter",
              (unsigned long long)stats.pinned_bytes);
    SIM_CHECK(sim, stats.hot_bytes <= sim->options.hot_memory_bytes + HOT_SLACK_BYTES,
              "%llu bytes are hot, %zu allowed, %llu entries", (unsigned long long)stats.hot_bytes,
              sim->options.hot_memory_bytes, (unsigned long long)stats.hot_entry_count);
}

static void event_check(struct sim *sim)
{
    store_check(sim->store);
}

/* ---- freeze ---- */

static uint32_t group_of(const struct sim *sim, uint8_t space, struct bytes key, uint32_t last)
{
    for (uint32_t n = 0; n < sim->model.group_count; n++) {
        uint32_t i = (last + n) % (uint32_t)sim->model.group_count;
        const struct mirror_group *group = &sim->model.group[i];
        const struct mirror_prefix *prefix = &mirror_prefixes[group->prefix];
        if (prefix->space == space && key.len == prefix->bytes.len + group->key.len &&
            bytes_start_with(key, prefix->bytes) &&
            bytes_eq(bytes_from(key, prefix->bytes.len), group->key))
            return i;
    }
    sim_fail(sim, __FILE__, __LINE__, "the view holds a group that nobody made");
}

static void view_row_check(struct sim *sim, struct bytes key, struct bytes value, uint32_t *last)
{
    uint8_t space;
    struct bytes group, suffix;
    bool exact;
    enum rc rc = space_key_split(store_spaces(sim->store), key, &space, &group, &suffix, &sim->err);
    SIM_CHECK(sim, rc == RC_OK, "%s", sim->err.text);
    *last = group_of(sim, space, group, *last);
    size_t id = mirror_suffix_place(&sim->model, suffix, &exact);
    const struct mirror_value *expected =
        exact ? mirror_get(&sim->model, *last, (uint16_t)id) : NULL;
    SIM_CHECK(sim, expected, "the view holds a row of group %u, id %zu, that is not in the model",
              *last, id);
    SIM_CHECK(sim, bytes_eq(value, mirror_value_bytes(&sim->model, *expected, 0)),
              "the view holds another value for group %u, id %zu", *last, id);
}

static enum rc view_counter_check(struct bytes name, int64_t value, void *arg, struct err *err)
{
    struct sim *sim = arg;
    uint32_t number;
    enum rc rc = store_counter(sim->store, name, &number, err);
    for (uint32_t i = 0; i < MODEL_COUNTERS && rc == RC_OK; i++)
        SIM_CHECK(sim, sim->counter[i] != number || value == sim->model.counter[i],
                  "counter %u is %lld in the view, not %lld", i, (long long)value,
                  (long long)sim->model.counter[i]);
    return rc;
}

/* False: the engine failed, as it was told to. */
static bool view_check(struct sim *sim, struct engine_view *view)
{
    struct engine *engine = store_engine(sim->store);
    struct engine_range range = {.lower = BYTES("\x01")};
    struct engine_iter *iter;
    struct bytes key, value;
    uint64_t count = 0;
    uint32_t last = 0;
    enum rc rc = engine->ops->iter_open(engine, view, &range, &iter, &sim->err);
    if (rc == RC_OK) {
        while ((rc = engine->ops->iter_next(iter, &key, &value, &sim->err)) == RC_OK) {
            view_row_check(sim, key, value, &last);
            count++;
        }
        engine->ops->iter_close(iter);
    }
    if (rc == RC_NOT_FOUND)
        rc = sys_counters_walk(engine, view, view_counter_check, sim, &sim->err);
    if (rc != RC_OK) {
        /* Also after the faults: the engine may have been opened again. */
        SIM_CHECK(sim, sim->faulty, "a view could not be read: %s", sim->err.text);
        return false;
    }
    SIM_CHECK(sim, count == mirror_row_count(&sim->model), "the view has %llu rows, not %llu",
              (unsigned long long)count, (unsigned long long)mirror_row_count(&sim->model));
    return true;
}

static void freeze_end(struct sim *sim, struct frozen *frozen)
{
    store_freeze_end(sim->store, frozen->freeze);
    frozen->freeze = NULL;
}

static void event_freeze(struct sim *sim)
{
    struct frozen *frozen = &sim->frozen[sim_below(sim, SIM_FREEZES)];
    sim_turn_end(sim);
    if (frozen->freeze)
        return;
    enum rc rc = store_freeze_start(sim->store, &frozen->freeze, &sim->err);
    SIM_CHECK(sim, rc == RC_OK, "a freeze could not be started: %s", sim->err.text);
    frozen->lsn_min = sim->written_lsn;
    frozen->wait = sim_below(sim, 4);
    if (sim_below(sim, 10) == 0) /* taken back at once */
        freeze_end(sim, frozen);
}

static void event_freeze_look(struct sim *sim)
{
    struct frozen *frozen = &sim->frozen[sim_below(sim, SIM_FREEZES)];
    struct engine_view *view;
    uint64_t lsn;
    if (!frozen->freeze)
        return;
    enum rc rc = store_freeze_ready(frozen->freeze, &view, &lsn, &sim->err);
    if (rc == RC_WAIT || (rc == RC_OK && frozen->wait-- > 0))
        return;
    if (rc != RC_OK) {
        SIM_CHECK(sim, sim->faulty, "a freeze failed: %s", sim->err.text);
        freeze_end(sim, frozen);
        return;
    }
    SIM_CHECK(sim, lsn >= frozen->lsn_min && lsn <= sim->written_lsn,
              "a view of LSN %llu, frozen at %llu, written %llu", (unsigned long long)lsn,
              (unsigned long long)frozen->lsn_min, (unsigned long long)sim->written_lsn);
    mirror_shift(&sim->model, lsn);
    sim->freeze_count += view_check(sim, view);
    mirror_shift(&sim->model, UINT64_MAX);
    freeze_end(sim, frozen);
}

/* ---- crashes ---- */

static void stats_take(struct sim *sim)
{
    struct store_stats stats;
    store_stats(sim->store, &stats);
    sim->evicted_count += stats.evicted_block_count + stats.evicted_row_count;
    sim->purged_count += stats.purged_count;
    sim->load_count += stats.load_count;
    sim->unit_count += stats.flush_unit_count;
    sim->preempted_count += stats.preempted_count;
    sim->reopen_count += stats.engine_reopen_count;
}

static void store_end(struct sim *sim, bool close)
{
    stats_take(sim);
    for (int i = 0; i < SIM_FREEZES; i++)
        if (sim->frozen[i].freeze)
            freeze_end(sim, &sim->frozen[i]);
    for (int i = 0; i < SIM_CLIENTS; i++)
        sim_client_stop(sim, &sim->client[i]);
    if (close) {
        enum rc rc = store_close(sim->store, &sim->err);
        SIM_CHECK(sim, rc == RC_OK || sim->faulty, "closing failed: %s", sim->err.text);
    } else {
        store_abandon(sim->store);
    }
    sim->store = NULL;
}

void sim_crash(struct sim *sim, enum sim_crash kind)
{
    bool power = kind == SIM_CRASH_POWER || kind == SIM_CRASH_TORN;
    if (kind == SIM_CRASH_CLOSE)
        sim_turn_end(sim);
    else
        mirror_undo_to(&sim->model, sim->turn_mark); /* what was not written is gone */
    uint64_t durable_lsn = store_durable_lsn(sim->store);
    store_end(sim, kind == SIM_CRASH_CLOSE);
    if (power)
        file_sim_power_cut(sim->files, kind == SIM_CRASH_TORN, &sim->rand);
    else
        file_sim_process_end(sim->files);
    clock_advance_ms(&sim->clock, 1 + sim_below(sim, 1000));
    sim_open(sim);
    recovered_check(sim, power, durable_lsn);
    sim->crash_count++;
}

static void event_crash(struct sim *sim)
{
    static const uint8_t kinds[] = {SIM_CRASH_TORN,  SIM_CRASH_TORN, SIM_CRASH_TORN,
                                    SIM_CRASH_POWER, SIM_CRASH_KILL, SIM_CRASH_KILL,
                                    SIM_CRASH_KILL,  SIM_CRASH_CLOSE};
    if (sim_below(sim, 2))
        faults_disarm(sim);
    sim_crash(sim, (enum sim_crash)kinds[sim_below(sim, ARRAY_LEN(kinds))]);
    if (sim_below(sim, 6) == 0) {
        faults_disarm(sim);
        sim_verify_all(sim);
    }
}

/* ---- verifying everything ---- */

void sim_client_finish(struct sim *sim, struct client *client)
{
    for (int i = 0; client->state != CLIENT_IDLE; i++) {
        client->attempt_count = 0;
        if (client->state == CLIENT_READY)
            sim_client_attempt(sim, client);
        SIM_CHECK(sim, i < 100000, "a transaction does not end");
        if (client->state != CLIENT_LOADING)
            continue;
        store_step(sim->store, STORE_STEP_LOAD);
        sim_turn_end(sim);
        store_poll(sim->store);
    }
}

/* The flusher opens an engine again that a fault has closed. */
static void engine_heal(struct sim *sim)
{
    struct store_stats stats;
    store_stats(sim->store, &stats);
    for (int i = 0; stats.pressure.closed; i++) {
        SIM_CHECK(sim, i < 1000, "the engine stays closed");
        store_step(sim->store, STORE_STEP_FLUSH);
        store_stats(sim->store, &stats);
    }
}

void sim_verify_all(struct sim *sim)
{
    struct client *client = &sim->client[0];
    ASSERT(!sim->armed);
    sim_turn_end(sim);
    engine_heal(sim);
    for (uint32_t i = 0; i < sim->model.group_count; i++) {
        const struct mirror_group *group = &sim->model.group[i];
        sim_client_stop(sim, client);
        client->state = CLIENT_READY;
        client->op_count = 1;
        client->writes = client->take_back = false;
        client->attempt_count = 0;
        client->waiter.ticket = 0;
        client->op[0] = (struct op){.kind = group->whole ? OP_GET : OP_WALK,
                                    .group = i,
                                    .reverse = sim_below(sim, 2),
                                    .count = UINT32_MAX};
        sim_client_finish(sim, client);
    }
    for (uint32_t i = 0; i < MODEL_COUNTERS; i++)
        SIM_CHECK(sim, store_counter_get(sim->store, sim->counter[i]) == sim->model.counter[i],
                  "counter %u differs", i);
    store_check(sim->store);
}

void sim_finish(struct sim *sim)
{
    faults_disarm(sim);
    sim_verify_all(sim);
    event_memory(sim);
    sim_verify_all(sim);
}

/* ---- the scheduler ---- */

struct event_kind {
    uint32_t weight;
    void (*run)(struct sim *sim);
};

static const struct event_kind event_kinds[SIM_EVENT_KINDS] = {
    {5000, event_client},  {800, event_write},     {1000, event_poll},      {900, event_journal},
    {3000, event_flush},   {1000, event_load},     {200, event_clock},      {40, event_evict_all},
    {60, event_flush_ask}, {20, event_sync_ask},   {10, event_settings},    {6, event_memory},
    {10, event_check},     {10, event_freeze},     {60, event_freeze_look}, {8, event_crash},
    {20, event_fault},     {30, event_faults_end},
};

/* For some hundred events some things happen more often than others: a slow disk, a busy loader,
 * a flusher that does not come to its turn. */
static void mood_draw(struct sim *sim)
{
    static const uint8_t factors[] = {1, 4, 4, 4, 4, 16};
    sim->weight_sum = 0;
    for (size_t i = 0; i < SIM_EVENT_KINDS; i++) {
        sim->weight[i] = event_kinds[i].weight * factors[sim_below(sim, ARRAY_LEN(factors))];
        sim->weight_sum += sim->weight[i];
    }
    for (size_t i = 0; i < SIM_FOCUS; i++)
        sim->focus[i] = (uint32_t)(sim->model.tree_first +
                                   sim_below(sim, sim->model.group_count - sim->model.tree_first));
    sim->mood_end = sim->event + 50 + sim_below(sim, 600);
}

void sim_event(struct sim *sim)
{
    if (sim->event >= sim->mood_end)
        mood_draw(sim);
    uint64_t at = sim_below(sim, sim->weight_sum);
    size_t kind = 0;
    while (at >= sim->weight[kind])
        at -= sim->weight[kind++];
    sim->event++;
    event_kinds[kind].run(sim);
}

/* ---- life ---- */

/* The largest groups begin full, some times larger than the hot tier. */
static void groups_fill(struct sim *sim)
{
    struct client *client = &sim->client[0];
    for (uint32_t i = (uint32_t)sim->model.tree_first; i < sim->model.group_count; i++) {
        for (uint32_t id = 0; id < 2048 && sim->model.group[i].id_count == 2048; id += 16) {
            sim_client_start(sim, client);
            client->op_count = 1;
            client->take_back = false;
            client->op[0] = (struct op){.kind = OP_FILL,
                                        .group = i,
                                        .id = (uint16_t)id,
                                        .count = 8 + (uint32_t)sim_below(sim, 8),
                                        .value = mirror_value_draw(&sim->model, &sim->rand, i)};
            sim_client_attempt(sim, client);
            sim_turn_end(sim);
            while (!room(sim)) {
                store_step(sim->store, STORE_STEP_JOURNAL);
                store_step(sim->store, STORE_STEP_FLUSH);
                store_poll(sim->store);
            }
        }
    }
}

static void sim_begin(struct sim *sim, uint64_t seed)
{
    *sim = (struct sim){.seed = seed, .files = file_sim_new(), .memory = engine_memory_new()};
    rand_init_seed(&sim->rand, seed);
    clock_init_manual(&sim->clock, 1700000000000);
    mirror_init(&sim->model, &sim->rand);
    sim->options = (struct store_options){
        .dir = "db",
        .spaces = mirror_spaces,
        .space_count = MODEL_SPACES,
        .engine = &engine_memory_ops,
        .engine_memory = sim->memory,
        .files = file_sim_files(sim->files),
        .clock = &sim->clock,
        .hot_memory_bytes = 4 * 1024 * 1024,
        .segment_bytes = 4096,
        .flush_unit_bytes = 8192,
        .manual = true,
    };
    for (int i = 0; i < SIM_CLIENTS; i++)
        sim->client[i].waiter = (struct load_waiter){.ready = client_ready, .arg = &sim->client[i]};
}

static void sim_start(struct sim *sim)
{
    mood_draw(sim);
    sim_open(sim);
    sim->written_lsn = store_commit_lsn(sim->store);
}

void sim_init_quiet(struct sim *sim, uint64_t seed)
{
    sim_begin(sim, seed);
    sim_start(sim);
}

void sim_init(struct sim *sim, uint64_t seed)
{
    sim_begin(sim, seed);
    struct store_options *options = &sim->options;
    sim->faulty = sim_below(sim, 5) < 3;
    options->hot_memory_bytes = (16 + sim_below(sim, 49)) * 1024;
    options->segment_bytes = 1024 + sim_below(sim, 3 * 1024);
    options->flush_unit_bytes = 2048 + sim_below(sim, 14 * 1024);
    options->flush_age_ms = 1 + sim_below(sim, 60000);
    options->disk_reserve_bytes = sim_below(sim, 2) ? 0 : sim_below(sim, 16 * 1024);
    options->durability = (enum durability)sim_below(sim, 3);
    options->always_cold = sim_below(sim, 2);
    options->purge_count = sim_below(sim, 4) ? 1 + (uint32_t)sim_below(sim, 40) : 0;
    engine_memory_cold(sim->memory, sim_below(sim, 2));
    sim_start(sim);
    groups_fill(sim);
}

void sim_done(struct sim *sim)
{
    if (sim->store) {
        mirror_undo_to(&sim->model, sim->turn_mark);
        store_end(sim, false);
    }
    for (int i = 0; i < SIM_CLIENTS; i++)
        load_waiter_done(&sim->client[i].waiter);
    engine_memory_free(sim->memory);
    file_sim_free(sim->files);
    mirror_done(&sim->model);
    mem_free(sim->ghost);
}
