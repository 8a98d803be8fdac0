// SPDX-License-Identifier: Apache-2.0
/* lander.c - the job that lands a rule's marks, table after table, step by step.
 *
 *   SLEEP ── due ──► GREET ► LOCK ► RETRY ► SNAPSHOT ► READ ► DURABLE ► WORK ► NOTE ─┐
 *     ▲                                         ▲                            │
 *     │                                         └──────── more marks ────────┤
 *     └── last table ◄── UNLOCK ◄──────────────────────── no more ───────────┘
 *
 * Each arrow is a commit of its own, so the process may die on any of them. A step reads or notes
 * at most LAND_STEP_FIELDS fields, unless one owner has more: an owner is read in one commit.
 *
 * Invariants (see docs/design/0003-landing.md for those of landing as a whole):
 *   (1) What is sent was read when its marks were read, and is durable when it is sent.
 *   (2) A field is noted as landed with the marks that were seen when it was read, no others.
 *   (3) `landed_lsn` only rises to the LSN at which a pass began that went through all tables.
 *   (4) What SQL does not take because it has a newer version stands among the errors, and our LSN
 *       is raised: tried again, it is the newer one. */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "models/landing/lander_int.h"
#include "store/turns.h"
#include "types/hash.h"

#include "base/banned.h"

enum {
    LOCK_TTL_MS = 30 * 1000,
    BACK_OFF_MS_MIN = 200,
    BACK_OFF_MS_MAX = 10 * 1000,
    ERROR_BACK_OFF_MS = 1000, /* doubles with every attempt */
    ERROR_BACK_OFF_MS_MAX = 3600 * 1000,
    RETRY_MARKS_MAX = 1024, /* of a table in a pass */
};
#define NS_A_MS UINT64_C(1000000)

static struct bytes rule_name(const struct lander *lander)
{
    return bytes_of(lander->rule->spec->name, strlen(lander->rule->spec->name));
}

static struct bytes token(const struct lander *lander)
{
    return bytes_of(lander->rule->landing->token, LAND_TOKEN_BYTES);
}

static uint64_t now_ns(const struct lander *lander)
{
    return clock_mono_ns(lander->rule->landing->options.clock);
}

/* ---- landing ---- */

static void work_land(struct work *work, struct shape_db *db)
{
    struct lander *lander = (struct lander *)((char *)work - offsetof(struct lander, work));
    struct clock clock;
    clock_init(&clock);
    uint64_t start_ns = clock_mono_ns(&clock);
    lander->work_err.text[0] = 0;
    lander->work_rc = shape_land(db, &lander->batch, &lander->work_stats, &lander->work_err);
    lander->work_ns = clock_mono_ns(&clock) - start_ns;
}

/* (1) */
static enum rc step_durable(struct lander *lander, struct store *store, struct err *err)
{
    if (store_durable_lsn(store) < lander->batch.newest) {
        if (store_journal_failed(store, err))
            return RC_READONLY; /* who waits for this pass is told */
        store_sync_ask(store);
        task_wait_lsn(&lander->task, lander->batch.newest);
        return RC_WAIT;
    }
    lander->batch.future = landing__future_lsn(lander->rule->landing);
    lander->state = LANDER_WORK;
    lander->work_start_ns = now_ns(lander);
    lander->work.run = work_land;
    lander->work.task = &lander->task;
    worker_give(lander->worker, &lander->work);
    task_wait_event(&lander->task);
    return RC_WAIT;
}

static void away_note(struct lander *lander)
{
    lander->status.failures++;
    lander->back_off_ms = lander->back_off_ms == 0 ? BACK_OFF_MS_MIN : 2 * lander->back_off_ms;
    if (lander->back_off_ms > BACK_OFF_MS_MAX)
        lander->back_off_ms = BACK_OFF_MS_MAX;
    if (!lander->away && !land_rule_is_missing(lander->rule)) /* else it is in the log already */
        log_warn("landing: rule %s: %s; what changes waits here", lander->rule->spec->name,
                 lander->work_err.text);
    lander->away = true;
    lander->trouble = lander->work_err;
}

static void answer_note(struct lander *lander)
{
    if (lander->away)
        log_info("landing: rule %s: the database is back", lander->rule->spec->name);
    lander->away = false;
    lander->back_off_ms = 0;
    lander->trouble.text[0] = 0;
}

static void landed_note(struct lander *lander)
{
    answer_note(lander);
    lander->status.batches++;
    lander->status.landed_rows += lander->work_stats.row_count;
    lander->status.refused_rows += lander->work_stats.refused_count;
    lander->status.sql_ns += lander->work_ns;
    lander->pass_rows += lander->work_stats.row_count;
}

static enum rc step_work(struct lander *lander)
{
    if (!work_is_done(lander->worker, &lander->work)) {
        task_wait_event(&lander->task);
        return RC_WAIT;
    }
    if (lander->work_rc != RC_OK) {
        away_note(lander);
        lander->pass_failed = true;
        land_batch_clear(&lander->batch);
        return lander__step_to(lander, LANDER_UNLOCK);
    }
    landed_note(lander);
    presence_answered(lander->rule, lander->work_start_ns);
    lander->note_owner = lander->note_field = 0;
    if (lander->work_stats.newer > lander->rule->landing->raise_lsn) /* (4) */
        lander->rule->landing->raise_lsn = lander->work_stats.newer;
    return lander__step_to(lander, LANDER_NOTE);
}

/* ---- noting ---- */

static uint64_t error_next_ms(uint64_t now_ms, uint64_t attempts)
{
    uint64_t wait_ms = ERROR_BACK_OFF_MS;
    for (uint64_t i = 1; i < attempts && wait_ms < ERROR_BACK_OFF_MS_MAX; i++)
        wait_ms *= 2;
    return now_ms + (wait_ms < ERROR_BACK_OFF_MS_MAX ? wait_ms : ERROR_BACK_OFF_MS_MAX);
}

/* If the clock went back it is due as well: nothing waits longer than that. */
static bool is_due(uint64_t next_ms, uint64_t now_ms)
{
    return next_ms <= now_ms || next_ms - now_ms > ERROR_BACK_OFF_MS_MAX;
}

static void retry_note(struct lander *lander, uint64_t next_ms)
{
    struct retry *retry = &lander->retry[lander->table];
    if (next_ms < retry->due_ms)
        retry->due_ms = next_ms;
    if (next_ms < retry->next_ms) /* a walk that is not through may have passed it */
        retry->next_ms = next_ms;
}

static enum rc error_note(struct lander *lander, const struct dirty_table *table,
                          const struct mark_seen *seen, bool removed, uint64_t version,
                          const char *reason, struct err *err)
{
    struct dirty_error error = {.attempts = 0};
    struct bytes value;
    struct key key;
    enum rc rc = dirty_open(table, DIRTY_ERROR, &key, err);
    if (rc == RC_OK)
        rc = hash_field(&key, seen->entry, &value, err);
    if (rc == RC_OK)
        rc = dirty_error_parse(value, &error, err);
    if (rc != RC_OK && rc != RC_NOT_FOUND && rc != RC_CORRUPT)
        return rc;
    error.removed = removed;
    error.version = version;
    error.attempts++;
    error.next_ms = error_next_ms(table->run.now_ms, error.attempts);
    snprintf(error.reason, sizeof error.reason, "%s", reason);
    retry_note(lander, error.next_ms);
    return dirty_error_put(table, seen->entry, &error, err);
}

/* (2): what was seen goes, whether it has landed or stands among the errors from now on. */
struct removal {
    struct bytes entry[DIRTY_ERROR + 1][LAND_STEP_FIELDS + 1];
    uint64_t version[DIRTY_ERROR + 1][LAND_STEP_FIELDS + 1];
    size_t count[DIRTY_ERROR + 1];
};

static void removal_add(struct removal *removal, enum dirty_part part, struct bytes entry,
                        uint64_t version)
{
    size_t *count = &removal->count[part];
    if (version == 0)
        return;
    ASSERT(*count <= LAND_STEP_FIELDS);
    removal->entry[part][*count] = entry;
    removal->version[part][(*count)++] = version;
}

static void seen_remove(struct removal *removal, const struct mark_seen *seen, bool refused)
{
    removal_add(removal, DIRTY_MARKED, seen->entry, seen->marked);
    removal_add(removal, DIRTY_SAVING, seen->entry, seen->saving);
    if (!refused)
        removal_add(removal, DIRTY_ERROR, seen->entry, seen->error);
}

static enum rc removal_do(const struct dirty_table *table, struct removal *removal, struct err *err)
{
    enum rc rc = RC_OK;
    for (enum dirty_part part = DIRTY_MARKED; rc == RC_OK && part <= DIRTY_ERROR; part++) {
        rc = dirty_remove_many(table, part, removal->entry[part], removal->version[part],
                               removal->count[part], err);
        removal->count[part] = 0;
    }
    return rc;
}

static enum rc field_note(struct lander *lander, const struct dirty_table *table,
                          const struct land_owner *owner, const struct land_field *field,
                          struct removal *removal, struct err *err)
{
    struct mark_seen seen = field->seen;
    seen_remove(removal, &seen, field->refused != NULL);
    if (!field->refused)
        return RC_OK;
    struct buf *entry = &lander->rule->landing->entry;
    buf_cut(entry, 0);
    if (!seen.entry.ptr && !address_entry_add(&owner->address, field->name, entry))
        return err_set(err, RC_NOMEM, "could not allocate memory for an entry");
    if (!seen.entry.ptr) /* it came with its owner's mark */
        seen.entry = buf_bytes(entry);
    return error_note(lander, table, &seen, !field->here, field->version, field->refused, err);
}

/* `keep`: what has landed may go after a while. */
static enum rc keep_set(struct lander *lander, const struct dirty_table *table,
                        const struct land_owner *owner, struct err *err)
{
    struct buf *part = &lander->rule->landing->owner;
    struct key key;
    struct bytes extra;
    bool marked;
    buf_cut(part, 0);
    if (!address_entry_add(&owner->address, BYTES(""), part))
        return err_set(err, RC_NOMEM, "could not allocate memory for an entry");
    enum rc rc = dirty_find_owner(table, buf_bytes(part), &marked, err);
    if (rc == RC_OK)
        rc = landing__key_find(&table->run, owner->key, &key, err);
    if (rc != RC_OK || marked || !key.exists)
        return rc;
    rc = key_extra_copy(&key, &extra, err);
    key.meta.expire_ms = key.run->now_ms + lander->rule->spec->keep_ms;
    return rc == RC_OK ? key_save(&key, extra, err) : rc;
}

static enum rc owner_note(struct lander *lander, const struct dirty_table *table,
                          const struct land_owner *owner, struct removal *removal, struct err *err)
{
    enum rc rc = RC_OK;
    if (owner->sweep)
        seen_remove(removal, &owner->seen, owner->refused != NULL);
    if (owner->sweep && owner->refused)
        rc = error_note(lander, table, &owner->seen, !owner->exists, owner->owner_version,
                        owner->refused, err);
    if (lander->rule->spec->keep_ms == 0 || !owner->exists)
        return rc;
    if (rc == RC_OK)
        rc = removal_do(table, removal, err); /* it is asked whether marks are left */
    return rc == RC_OK ? keep_set(lander, table, owner, err) : rc;
}

/* Something of the owner was removed: an answer that SQL gave before still has it, and with the
 * mark nothing here says that it is gone. What was set is here, and a lift leaves it as it is. */
static bool owner_loses(const struct land_owner *owner)
{
    bool loses = owner->owner_version > 0 || !owner->exists;
    for (size_t i = 0; !loses && i < owner->field_count; i++)
        loses = !owner->field[i].here;
    return loses;
}

/* Some fields; RC_WAIT: there are more. All that is cold is asked for at once. */
static enum rc batch_note(struct lander *lander, const struct run *run, size_t *at_owner,
                          size_t *at_field, struct err *err)
{
    struct landing *landing = lander->rule->landing;
    const struct land_batch *batch = &lander->batch;
    struct dirty_table table = lander__table(lander, run);
    struct removal removal = {.count = {0}};
    size_t noted = 0;
    enum rc rc = RC_OK;
    for (; *at_owner < batch->owner_count; (*at_owner)++, *at_field = 0) {
        const struct land_owner *owner = &batch->owner[*at_owner];
        lift_absence_over(landing, lander->rule->ns, owner->key, NULL);
        if (owner_loses(owner))
            lift_stale(landing, lander->rule->ns, owner->key);
        for (; *at_field < owner->field_count && noted < LAND_STEP_FIELDS; (*at_field)++, noted++) {
            const struct land_field *field = &owner->field[*at_field];
            lift_absence_over(landing, lander->rule->ns, owner->key, &field->name);
            rc = field_note(lander, &table, owner, field, &removal, err);
            if (rc != RC_OK)
                return rc;
        }
        if (noted++ >= LAND_STEP_FIELDS) {
            rc = removal_do(&table, &removal, err);
            return rc == RC_OK ? RC_WAIT : rc;
        }
        rc = owner_note(lander, &table, owner, &removal, err);
        if (rc != RC_OK)
            return rc;
    }
    return removal_do(&table, &removal, err);
}

/* What the snapshot holds of others waits for them; ours goes on from the table itself. So does
 * what was marked since a snapshot that an earlier pass has left: this pass stands for all of it
 * (3). If another rule has made a snapshot of the table meanwhile, what we did not see is there. */
static enum rc table_go_on(struct lander *lander)
{
    const uint64_t *snapshots = &lander->rule->landing->snapshots[lander->table];
    land_batch_clear(&lander->batch);
    if (!lander->at_end)
        return lander__step_to(lander, LANDER_READ);
    if (lander->source == DIRTY_SAVING && lander->table_too) {
        lander->source = DIRTY_MARKED;
        lander->snapshots_seen = *snapshots;
        buf_cut(&lander->cursor, 0);
        return lander__step_to(lander, LANDER_READ);
    }
    bool moved = lander->source == DIRTY_MARKED && lander->snapshots_seen != *snapshots;
    return lander__step_to(lander, moved ? LANDER_SNAPSHOT : LANDER_UNLOCK);
}

static enum rc step_note(struct lander *lander, const struct run *run, struct err *err)
{
    size_t owner = lander->note_owner, field = lander->note_field;
    enum rc rc = landing__sink_note(lander->rule, run, err);
    if (rc == RC_OK)
        rc = batch_note(lander, run, &owner, &field, err);
    if (rc != RC_OK && rc != RC_WAIT)
        return rc;
    lander->note_owner = owner;
    lander->note_field = field;
    return rc == RC_WAIT ? RC_WAIT : table_go_on(lander);
}

/* ---- the other steps ---- */

static void lander_run_begin(const struct lander *lander, struct run *run)
{
    const struct land_rule *rule = lander->rule;
    run_begin(run, rule->landing->kv, rule->ns, RUN_NO_LIFT);
    run->model = rule->landing;
}

static enum rc renew_run(struct task *task, struct store *store, struct err *err)
{
    struct lander *lander = (struct lander *)((char *)task - offsetof(struct lander, renew));
    struct run run;
    (void)store;
    if (!lander->renew_wanted)
        return RC_OK;
    lander_run_begin(lander, &run);
    struct dirty_table table = lander__table(lander, &run);
    enum rc rc = RC_OK;
    if (lander->state > LANDER_LOCK)
        rc = dirty_lock(&table, rule_name(lander), token(lander), LOCK_TTL_MS, false, err);
    task_wait_until(task, now_ns(lander) + LOCK_TTL_MS / 3 * NS_A_MS);
    if (rc != RC_COLD)
        rc = RC_WAIT; /* lost, or not renewed: versions keep what lands right */
    return run_end(&run, rc);
}

static void renew_done(struct task *task, enum rc rc, const struct err *err)
{
    struct lander *lander = (struct lander *)((char *)task - offsetof(struct lander, renew));
    (void)rc;
    (void)err;
    lander->renew_started = false;
}

static void pass_end(struct lander *lander)
{
    struct land_rule *rule = lander->rule;
    uint64_t now = now_ns(lander), ns = now - lander->pass_start_ns;
    if (!lander->pass_failed)
        lander->away = false;
    if (!lander->pass_failed && !lander->pass_held_up) { /* (3) */
        lander->landed_lsn = lander->pass_lsn;
        lander->landed_start_ns = lander->pass_start_ns;
        lander->status.oldest_ms = rule->marked_since_ms;
    }
    if (lander->pass_rows > 0)
        lander->status.rows_per_s = lander->pass_rows * 1000 * NS_A_MS / (ns + 1);
    lander->status.last_pass_ms = ns / NS_A_MS;
    lander->due_ns = now + (lander->away ? lander->back_off_ms : rule->spec->delay_ms) * NS_A_MS;
    lander->state = LANDER_SLEEP;
    lander->renew_wanted = false;
    landing__waiters_wake(&rule->landing->pass_waiters);
}

/* A table without anything is passed by without a lock: a rule at rest writes nothing. */
static enum rc table_is_empty(const struct dirty_table *table, bool *ret_empty, struct err *err)
{
    *ret_empty = true;
    for (enum dirty_part part = DIRTY_MARKED; part <= DIRTY_ERROR; part++) {
        struct key key;
        enum rc rc = dirty_open(table, part, &key, err);
        if (rc != RC_OK)
            return rc;
        *ret_empty = *ret_empty && !key.exists;
    }
    return RC_OK;
}

static enum rc table_next(struct lander *lander)
{
    if (!lander->pass_failed && ++lander->table < lander->rule->spec->tables)
        return lander__step_to(lander, LANDER_LOCK);
    pass_end(lander);
    return RC_WAIT;
}

static enum rc step_lock(struct lander *lander, const struct run *run, struct err *err)
{
    struct dirty_table table = lander__table(lander, run);
    bool empty;
    enum rc empty_rc = table_is_empty(&table, &empty, err);
    if (empty_rc != RC_OK || empty)
        return empty_rc == RC_OK ? table_next(lander) : empty_rc;
    /* The store has one process: a lock that is there before our first one is that of a dead one.
     */
    uint64_t bit = UINT64_C(1) << lander->table;
    bool take_over = !(lander->locked_before & bit);
    enum rc rc = dirty_lock(&table, rule_name(lander), token(lander), LOCK_TTL_MS, take_over, err);
    if (rc == RC_BUSY) {
        lander->pass_held_up = true;
        return lander__step_to(lander, LANDER_UNLOCK);
    }
    if (rc != RC_OK)
        return rc;
    lander->locked_before |= bit;
    lander->retried = 0;
    return lander__step_to(lander, LANDER_RETRY);
}

struct retry_step { /* over some entries, in one commit */
    struct lander *lander;
    struct dirty_table table;
    struct land_rows rows;
    uint64_t next_ms;
    size_t marked;
};

static enum rc entry_retry(void *arg, struct bytes entry, struct bytes value, struct err *err)
{
    struct retry_step *step = arg;
    struct lander *lander = step->lander;
    const struct run *run = &step->table.run;
    struct land_entry parts;
    struct dirty_error error;
    struct err ignored;
    if (!land_rule_has_entry(lander->rule, run, entry, &parts) ||
        dirty_error_parse(value, &error, &ignored) != RC_OK)
        return RC_OK;
    if (!is_due(error.next_ms, run->now_ms)) {
        step->next_ms = error.next_ms < step->next_ms ? error.next_ms : step->next_ms;
        return RC_OK;
    }
    step->marked++;
    return dirty_mark(&step->table, entry, error.removed, NULL, err);
}

/* RC_OK: those were the last. RC_WAIT: there are more behind step->rows.after. */
static enum rc entries_retry(struct retry_step *step, struct err *err)
{
    struct key key;
    enum rc rc = dirty_open(&step->table, DIRTY_ERROR, &key, err);
    if (rc != RC_OK || !key.exists)
        return rc;
    return landing__rows_walk(&step->rows, &key, entry_retry, step, err);
}

/* Entries that were refused and are due again are marked anew, with this commit's version. */
static enum rc step_retry(struct lander *lander, const struct run *run, struct err *err)
{
    struct retry *retry = &lander->retry[lander->table];
    bool begins = retry->after.len == 0;
    if (retry->due_ms == UINT64_MAX || !is_due(retry->due_ms, run->now_ms))
        return lander__step_to(lander, LANDER_SNAPSHOT);
    struct retry_step step = {.lander = lander,
                              .table = lander__table(lander, run),
                              .rows.after = arena_copy(run->arena, buf_bytes(&retry->after)),
                              .next_ms = begins ? UINT64_MAX : retry->next_ms};
    enum rc rc = entries_retry(&step, err);
    if (rc != RC_OK && rc != RC_WAIT)
        return rc;
    buf_cut(&retry->after, 0);
    if (rc == RC_WAIT && !buf_add_bytes(&retry->after, step.rows.after))
        return err_set(err, RC_NOMEM, "could not allocate memory for an entry");
    retry->next_ms = step.next_ms;
    lander->retried += step.marked;
    if (rc == RC_OK)
        retry->due_ms = retry->next_ms;
    else if (lander->retried < RETRY_MARKS_MAX)
        return RC_WAIT;
    else
        lander->kicked = true; /* the others with the next pass */
    return lander__step_to(lander, LANDER_SNAPSHOT);
}

static enum rc step_snapshot(struct lander *lander, const struct run *run, struct err *err)
{
    struct dirty_table table = lander__table(lander, run);
    bool has, left;
    enum rc rc = dirty_snapshot(&table, &has, &left, err);
    if (rc != RC_OK)
        return rc;
    land_batch_clear(&lander->batch);
    buf_cut(&lander->cursor, 0);
    buf_cut(&lander->expand_after, 0);
    lander->expanding = false;
    if (has && !left)
        lander->rule->landing->snapshots[lander->table]++;
    lander->table_too = left; /* then the table itself comes after it, too */
    lander->source = DIRTY_SAVING;
    return lander__step_to(lander, has ? LANDER_READ : LANDER_UNLOCK);
}

static enum rc step_unlock(struct lander *lander, const struct run *run, struct err *err)
{
    struct dirty_table table = lander__table(lander, run);
    enum rc rc = dirty_unlock(&table, rule_name(lander), token(lander), err);
    return rc == RC_OK || rc == RC_BUSY ? table_next(lander) : rc;
}

static void work_greet(struct work *work, struct shape_db *db)
{
    struct lander *lander = (struct lander *)((char *)work - offsetof(struct lander, work));
    lander->work_err.text[0] = 0;
    lander->work_rc = shape_ping(db, &lander->work_err);
}

/* Every pass asks, also one without marks: a database that is away, or is not the one that the rule
 * has landed in, is told of before somebody relies on it. Who empties the store does. */
static enum rc step_greet(struct lander *lander, const struct run *run, struct err *err)
{
    if (!lander->asked) {
        lander->asked = true;
        lander->work_start_ns = now_ns(lander);
        lander->work.run = work_greet;
        lander->work.task = &lander->task;
        worker_give(lander->worker, &lander->work);
    }
    if (!work_is_done(lander->worker, &lander->work)) {
        task_wait_event(&lander->task);
        return RC_WAIT;
    }
    lander->asked = false;
    if (lander->work_rc != RC_OK) {
        lander->pass_failed = true;
        away_note(lander);
        pass_end(lander);
        return RC_WAIT;
    }
    enum rc rc = landing__sink_note(lander->rule, run, err);
    if (rc != RC_OK)
        return rc;
    answer_note(lander);
    presence_answered(lander->rule, lander->work_start_ns);
    return lander__step_to(lander, LANDER_LOCK);
}

static enum rc step_sleep(struct lander *lander, struct store *store)
{
    struct land_rule *rule = lander->rule;
    uint64_t now = now_ns(lander);
    if (now < lander->due_ns && !lander->kicked) {
        lander->asleep = true;
        task_wait_until(&lander->task, lander->due_ns);
        return RC_WAIT;
    }
    lander->kicked = false;
    lander->table = 0;
    lander->pass_lsn = store_last_lsn(store);
    lander->pass_start_ns = now;
    lander->pass_rows = 0;
    lander->pass_failed = lander->pass_held_up = false;
    if (lander->status.oldest_ms == 0)
        lander->status.oldest_ms = rule->marked_since_ms;
    rule->marked_since_ms = 0;
    rule->marks = 0;
    lander->renew_wanted = true;
    if (!lander->renew_started) {
        lander->renew_started = true;
        task_start(rule->landing->options.tasks, &lander->renew);
    }
    bool is_greeted = lander->greeted;
    lander->greeted = false;
    return lander__step_to(lander, is_greeted ? LANDER_LOCK : LANDER_GREET);
}

/* ---- the task ---- */

static enum rc step(struct lander *lander, const struct run *run, struct err *err)
{
    switch (lander->state) {
    case LANDER_SLEEP:
        return step_sleep(lander, run->kv->store);
    case LANDER_GREET:
        return step_greet(lander, run, err);
    case LANDER_LOCK:
        return step_lock(lander, run, err);
    case LANDER_RETRY:
        return step_retry(lander, run, err);
    case LANDER_SNAPSHOT:
        return step_snapshot(lander, run, err);
    case LANDER_READ:
        return lander__read(lander, run, err);
    case LANDER_DURABLE:
        return step_durable(lander, run->kv->store, err);
    case LANDER_WORK:
        return step_work(lander);
    case LANDER_NOTE:
        return step_note(lander, run, err);
    case LANDER_UNLOCK:
        return step_unlock(lander, run, err);
    }
    return RC_OK;
}

static enum rc job_run(struct task *task, struct store *store, struct err *err)
{
    struct lander *lander = (struct lander *)task;
    struct run run;
    (void)store;
    lander->asleep = false;
    lander_run_begin(lander, &run);
    return run_end(&run, step(lander, &run, err));
}

/* Only errors end it: the store could not read or write. What was done in this turn is undone. */
static void job_done(struct task *task, enum rc rc, const struct err *err)
{
    struct lander *lander = (struct lander *)task;
    struct tasks *tasks = lander->rule->landing->options.tasks;
    if (strcmp(lander->trouble.text, err->text) != 0) /* else it is in the log already */
        log_warn("landing: rule %s: %s", lander->rule->spec->name,
                 err->text[0] ? err->text : rc_text(rc));
    lander->trouble = *err;
    lander->status.failures++;
    lander->state = LANDER_SLEEP;
    lander->pass_failed = true;
    lander->renew_wanted = false;
    lander->due_ns = now_ns(lander) + BACK_OFF_MS_MAX / 10 * NS_A_MS;
    land_batch_clear(&lander->batch);
    landing__waiters_wake(&lander->rule->landing->pass_waiters);
    task_start(tasks, task);
}

enum rc lander_new(struct land_rule *rule, struct lander **ret_lander, struct err *err)
{
    struct worker *worker;
    enum rc rc = worker_new(rule->spec, &rule->identity, &worker, err);
    if (rc != RC_OK)
        return rc;
    struct lander *lander = mem_zalloc(sizeof *lander);
    lander->rule = rule;
    lander->worker = worker;
    land_batch_init(&lander->batch);
    buf_init(&lander->cursor, STORE_SUFFIX_BYTES_MAX);
    buf_init(&lander->expand_after, STORE_SUFFIX_BYTES_MAX);
    for (size_t i = 0; i < LAND_TABLES_MAX; i++)
        buf_init(&lander->retry[i].after, STORE_SUFFIX_BYTES_MAX);
    lander->task.run = job_run;
    lander->task.done = job_done;
    lander->task.flags = TASK_JOB | TASK_WRITES | TASK_DELETES;
    lander->renew.run = renew_run;
    lander->renew.done = renew_done;
    lander->renew.flags = TASK_JOB | TASK_WRITES | TASK_DELETES;
    *ret_lander = lander;
    return RC_OK;
}

void lander_greeted(struct lander *lander)
{
    lander->greeted = true;
}

void lander_start(struct lander *lander)
{
    task_start(lander->rule->landing->options.tasks, &lander->task); /* a run before us left it */
}

void lander_stop(struct lander *lander)
{
    worker_stop(lander->worker);
    task_cancel(&lander->task);
    task_cancel(&lander->renew);
}

bool lander_has_ended(struct lander *lander)
{
    return worker_has_ended(lander->worker);
}

void lander_free(struct lander *lander)
{
    if (!lander)
        return;
    lander_stop(lander);
    worker_free(lander->worker);
    land_batch_done(&lander->batch);
    buf_done(&lander->cursor);
    buf_done(&lander->expand_after);
    for (size_t i = 0; i < LAND_TABLES_MAX; i++)
        buf_done(&lander->retry[i].after);
    mem_free(lander);
}

void lander_kick(struct lander *lander, uint64_t lsn, uint64_t since_ns)
{
    if (lander->state != LANDER_SLEEP && !lander->pass_failed && lander->pass_lsn >= lsn &&
        lander->pass_start_ns >= since_ns)
        return;
    if (since_ns > 0 && lander_is_through(lander, lsn, since_ns))
        return;
    lander->kicked = true;
    if (!lander->asleep)
        return;
    lander->asleep = lander->pass_failed = false; /* what the next pass finds counts */
    task_cancel(&lander->task);
    task_start(lander->rule->landing->options.tasks, &lander->task);
}

void lander_retry(struct lander *lander)
{
    for (size_t i = 0; i < LAND_TABLES_MAX; i++) {
        lander->retry[i].due_ms = 0;
        buf_cut(&lander->retry[i].after, 0);
    }
    lander_kick(lander, UINT64_MAX, 0);
}

void lander_marked(struct lander *lander)
{
    bool many = lander->rule->marks >= MANY_MARKS_BATCHES * (uint64_t)lander->rule->spec->batch;
    if (many && lander->asleep && !lander->away)
        lander_kick(lander, UINT64_MAX, 0);
}

/* ---- for people ---- */

bool lander_is_through(const struct lander *lander, uint64_t lsn, uint64_t since_ns)
{
    return lander->landed_lsn >= lsn && lander->landed_start_ns >= since_ns;
}

const char *lander_trouble(const struct lander *lander)
{
    return lander->pass_failed && lander->trouble.text[0] ? lander->trouble.text : NULL;
}

const char *lander_sink(const struct lander *lander)
{
    return worker_name(lander->worker);
}

void lander_status(const struct lander *lander, struct land_status *to)
{
    uint64_t since_ms = lander->rule->marked_since_ms;
    *to = lander->status;
    if (to->oldest_ms == 0 || (since_ms != 0 && since_ms < to->oldest_ms))
        to->oldest_ms = since_ms;
    to->away = lander->away;
    snprintf(to->trouble, sizeof to->trouble, "%s", lander->trouble.text);
}
