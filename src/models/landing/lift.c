// SPDX-License-Identifier: Apache-2.0
/* lift.c - what is missing here is asked of SQL, once, whoever asks.
 *
 * A lift belongs to a key. It is opened by the command that misses something, started after the
 * turn, asked by the rule's lifter, and applied here in steps; then everybody who waited runs
 * again. While it is under way nobody else asks for this key.
 *
 * Invariants:
 *   (1) A key has at most one lift.
 *   (2) Nothing is applied that SQL had before a removal landed: a lift that saw such a mark leave
 *       is stale, and asks again.
 *   (3) A field that is here, or has a mark, or whose owner has one, is left as it is.
 *   (4) LSNs given from now on are above every version that was applied.
 *   (5) A copy that went away between two steps is applied anew, from the first row: it could not
 * be called complete. */
#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/log.h"
#include "base/mem.h"
#include "models/landing/landing_int.h"
#include "types/hash.h"

#include "base/banned.h"

enum {
    LIFT_FIELDS_MAX = 4096,    /* asked for by name; more of them ask for the whole key */
    LIFT_FAILED_MS = 300,      /* a failure is the answer for so long */
    LIFT_KEEP_MS_LEAST = 1000, /* whatever `keep` says: who asked has to find it here */
    LIFT_SLOW_MS = 500,        /* one that took so long is that of all who waited for it */
};
#define NS_A_MS UINT64_C(1000000)

enum lift_state { LIFT_OPEN, LIFT_ASKED, LIFT_APPLYING, LIFT_FAILED };

struct lift {
    struct task task;
    struct work work;
    struct land_rule *rule;
    struct ns *ns;
    struct bytes key; /* owned */
    struct address address;
    uint64_t hash;
    enum lift_state state;
    bool whole;
    bool stale;          /* (2) */
    struct bytes *field; /* owned, with their bytes */
    size_t field_count, field_cap;
    struct dlist waiters;   /* of struct land_waiter */
    struct lift *list_next; /* of the open ones, or of the failed */
    uint64_t until_ns;      /* failed: forgotten then */
    /* the answer */
    struct lift_rows rows;
    size_t applied;
    bool has_copy; /* after the last step the key was here, as this object */
    uint8_t copy[KEY_ID_BYTES];
    enum rc rc;
    struct err err;
    uint64_t start_ns;
};

struct lift_name {
    const struct ns *ns;
    struct bytes key;
};

static uint64_t name_hash(const struct landing *landing, const struct lift_name *name)
{
    return XXH3_64bits_withSeed(name->key.ptr, name->key.len,
                                landing->absence_seed + name->ns->index);
}

static uint64_t lift_hash(const void *entry, void *arg)
{
    (void)arg;
    return ((const struct lift *)entry)->hash;
}

static bool lift_eq(const void *entry, const void *key, void *arg)
{
    const struct lift *lift = entry;
    const struct lift_name *name = key;
    (void)arg;
    return lift->ns == name->ns && bytes_eq(lift->key, name->key);
}

static struct lift *lift_find(const struct landing *landing, const struct ns *ns, struct bytes key)
{
    struct lift_name name = {ns, key};
    return table_find(&landing->lifts, name_hash(landing, &name), &name, NULL);
}

/* ---- absence ---- */

static uint64_t absence_hash(const struct landing *landing, const struct ns *ns, struct bytes key,
                             const struct bytes *field)
{
    struct lift_name name = {ns, key};
    uint64_t hash = name_hash(landing, &name) ^ landing->absence_epoch;
    return field ? XXH3_64bits_withSeed(field->ptr, field->len, ~hash) : hash;
}

/* Where it is, or would be. */
static struct absence *absence_slot(const struct absences *absences, uint64_t hash)
{
    size_t at = hash & (absences->cap - 1);
    while (absences->slot[at].until_ms != 0 && absences->slot[at].hash != hash)
        at = (at + 1) & (absences->cap - 1);
    return &absences->slot[at];
}

static bool is_absent(const struct landing *landing, const struct key *key,
                      const struct bytes *field)
{
    uint64_t hash = absence_hash(landing, key->ns, key->name, field);
    uint64_t until_ms = absence_slot(&landing->absences, hash)->until_ms;
    uint64_t now_ms = key->run->now_ms; /* if it went back, what was noted before is over */
    uint64_t since_ms = key->run->since_ms;
    return (until_ms > now_ms && until_ms - now_ms <= LAND_ABSENT_MS) ||
           (since_ms != 0 && until_ms >= since_ms + LAND_ABSENT_MS);
}

/* Without those that are over for everybody. What a command was told must stay until it has run:
 * one that asks for many grows the table; only at its limit all are forgotten. */
static void absences_rebuild(struct absences *absences, uint64_t now_ms)
{
    struct absences old = *absences;
    size_t live = 0;
    now_ms -= LAND_ABSENT_KEPT_MS;
    for (size_t i = 0; i < old.cap; i++)
        live += old.slot[i].until_ms > now_ms;
    while (4 * live > absences->cap && absences->cap < LAND_ABSENT_SLOTS_MAX)
        absences->cap *= 2;
    absences->used = 0;
    absences->slot = mem_zalloc(absences->cap * sizeof *absences->slot);
    for (size_t i = 0; 4 * live <= absences->cap && i < old.cap; i++) {
        if (old.slot[i].until_ms <= now_ms)
            continue;
        *absence_slot(absences, old.slot[i].hash) = old.slot[i];
        absences->used++;
    }
    mem_free(old.slot);
}

static void absence_note(const struct lift *lift, const struct bytes *field, uint64_t now_ms)
{
    struct landing *landing = lift->rule->landing;
    struct absences *absences = &landing->absences;
    uint64_t hash = absence_hash(landing, lift->ns, lift->key, field);
    if (2 * (absences->used + 1) > absences->cap)
        absences_rebuild(absences, now_ms);
    struct absence *slot = absence_slot(absences, hash);
    absences->used += slot->until_ms == 0;
    *slot = (struct absence){hash, now_ms + LAND_ABSENT_MS};
}

void lift_absence_over(struct landing *landing, const struct ns *ns, struct bytes key,
                       const struct bytes *field)
{
    struct absence *slot = absence_slot(&landing->absences, absence_hash(landing, ns, key, field));
    if (slot->until_ms != 0)
        slot->until_ms = 1; /* over, and still in the way of those behind it */
}

void lifts_forget_absence(struct landing *landing)
{
    landing->absence_epoch++;
}

/* ---- life ---- */

static void lift_unlist(struct lift **list, const struct lift *lift)
{
    while (*list && *list != lift)
        list = &(*list)->list_next;
    if (*list)
        *list = lift->list_next;
}

/* Nobody finds it or waits for it any more; its lifter may still have it. */
static void lift_close(struct lift *lift)
{
    struct landing *landing = lift->rule->landing;
    struct lift_name name = {lift->ns, lift->key};
    struct table_slot slot;
    task_cancel(&lift->task);
    landing__waiters_wake(&lift->waiters);
    lift_unlist(&landing->open, lift);
    lift_unlist(&landing->failed, lift);
    if (landing->wanted == lift)
        landing->wanted = NULL;
    if (table_find(&landing->lifts, lift->hash, &name, &slot) == lift)
        table_remove(&landing->lifts, lift->hash, slot);
}

static void lift_memory_free(struct lift *lift)
{
    for (size_t i = 0; i < lift->field_count; i++)
        mem_free((void *)lift->field[i].ptr);
    mem_free(lift->field);
    lift_rows_done(&lift->rows);
    mem_free((void *)lift->key.ptr);
    mem_free(lift);
}

static void lift_free(struct lift *lift)
{
    lift_close(lift);
    lift_memory_free(lift);
}

/* ---- asking: on the lifter's thread ---- */

/* A database that hangs is found to be away after seconds. Who has been waiting meanwhile has the
 * same answer: else the hundredth client would hear of it after a hundred times as long. */
static void work_lift(struct work *work, struct shape_db *db)
{
    struct lift *lift = (struct lift *)((char *)work - offsetof(struct lift, work));
    struct land_rule *rule = lift->rule;
    struct clock clock;
    clock_init(&clock);
    if (lift->start_ns < rule->lift_away_ns) {
        lift->rc = RC_IO;
        lift->err = rule->lift_away;
        return;
    }
    uint64_t start_ns = clock_mono_ns(&clock);
    lift->err.text[0] = 0;
    lift->rc = shape_lift(db, &lift->address, lift->field, lift->whole ? 0 : lift->field_count,
                          &lift->rows, &lift->err);
    uint64_t end_ns = clock_mono_ns(&clock);
    if (lift->rc == RC_IO && end_ns - start_ns >= LIFT_SLOW_MS * NS_A_MS) {
        rule->lift_away_ns = end_ns;
        rule->lift_away = lift->err;
    }
}

static void lift_ask(struct lift *lift)
{
    lift->state = LIFT_ASKED;
    lift->stale = false;
    lift->applied = 0;
    lift->start_ns = clock_mono_ns(lift->rule->landing->options.clock);
    lift_rows_done(&lift->rows);
    lift_rows_init(&lift->rows);
    lift->work.run = work_lift;
    lift->work.task = &lift->task;
    lift->rule->lifts++;
    worker_give(lift->rule->lifter, &lift->work);
}

/* ---- applying ---- */

/* (3) */
static enum rc row_apply(struct lift *lift, const struct dirty_table *table,
                         const struct lift_row *row, struct err *err)
{
    const struct run *run = &table->run;
    struct land_rule *rule = lift->rule;
    struct buf *entry = &rule->landing->entry;
    const struct bytes pair[2] = {row->field, row->value};
    struct bytes value;
    struct key key;
    struct err ignored;
    bool marked;
    if (address_check_field(&lift->address, row->field, &ignored) != RC_OK)
        return RC_OK; /* not one of ours */
    buf_cut(entry, 0);
    if (!address_entry_add(&lift->address, row->field, entry))
        return err_set(err, RC_NOMEM, "could not allocate memory for an entry");
    enum rc rc = dirty_find(table, buf_bytes(entry), &marked, NULL, err);
    if (rc != RC_OK || marked)
        return rc;
    rc = key_write(run, lift->key, KEY_ANY, &key, err);
    if (rc == RC_OK && key.exists && key.meta.type != TYPE_HASH)
        return RC_OK;
    if (rc == RC_OK)
        rc = hash_field(&key, row->field, &value, err);
    if (rc != RC_NOT_FOUND)
        return rc;
    rule->lifted_rows++;
    return hash_set(run, lift->key, pair, 1, NULL, err);
}

/* All rows are here: the hash is complete, and may go again after `keep`, which is counted from the
 * landing of its marks if it has any. */
static enum rc whole_apply(struct lift *lift, const struct dirty_table *table,
                           struct bytes owner_part, struct err *err)
{
    struct key key;
    bool marked = false;
    enum rc rc = key_write(&table->run, lift->key, KEY_ANY, &key, err);
    if (rc != RC_OK || !key.exists || key.meta.type != TYPE_HASH)
        return rc;
    bool keep = lift->rule->spec->keep_ms > 0 && key.meta.expire_ms == 0;
    if (keep)
        rc = dirty_find_owner(table, owner_part, &marked, err);
    if (rc != RC_OK)
        return rc;
    keep = keep && !marked;
    uint64_t keep_ms = lift->rule->spec->keep_ms;
    if (keep_ms < LIFT_KEEP_MS_LEAST)
        keep_ms = LIFT_KEEP_MS_LEAST;
    if (keep)
        key.meta.expire_ms = key.run->now_ms + keep_ms;
    if (lift->whole)
        return hash_whole_set(&key, err);
    return keep && !key.whole ? key_save(&key, BYTES(""), err) : RC_OK;
}

/* A copy whose time is over and that has not landed must not be buried by what comes. */
static enum rc dead_outlives(const struct lift *lift, const struct dirty_table *table,
                             struct bytes owner_part, struct err *err)
{
    struct key key;
    struct bytes extra;
    bool marked = false;
    enum rc rc = key_write(&table->run, lift->key, KEY_ANY, &key, err);
    if (rc == RC_OK && key.dead)
        rc = dirty_find_owner(table, owner_part, &marked, err);
    if (rc != RC_OK || !marked)
        return rc;
    rc = key_extra_copy(&key, &extra, err);
    key.exists = true;
    key.dead = false;
    key.meta.expire_ms = key.run->now_ms + LAND_ABSENT_MS;
    return rc == RC_OK ? key_save(&key, extra, err) : rc;
}

/* (5): what steps before this one have brought is still here. */
static bool copy_is_same(const struct lift *lift, const struct key *key)
{
    return key->exists == lift->has_copy &&
           (!key->exists || memcmp(key->meta.id, lift->copy, KEY_ID_BYTES) == 0);
}

static enum rc copy_note(struct lift *lift, const struct run *run, struct err *err)
{
    struct key key;
    enum rc rc = key_write(run, lift->key, KEY_ANY, &key, err);
    if (rc != RC_OK)
        return rc;
    lift->has_copy = key.exists;
    if (key.exists)
        memcpy(lift->copy, key.meta.id, KEY_ID_BYTES);
    return RC_OK;
}

/* Up to a step of them. All that is cold is asked for at once. */
static enum rc step_apply(struct lift *lift, const struct dirty_table *table, size_t *at,
                          struct err *err)
{
    bool cold = false;
    for (size_t n = 0; n < LAND_STEP_FIELDS && *at < lift->rows.count; n++, (*at)++) {
        enum rc rc = row_apply(lift, table, &lift->rows.row[*at], err);
        cold = cold || rc == RC_COLD;
        if (rc != RC_OK && rc != RC_COLD)
            return rc;
    }
    return cold ? RC_COLD : RC_OK;
}

/* A step of them. The owner's mark says that all of SQL is older than what is here. */
static enum rc rows_apply(struct lift *lift, const struct run *run, size_t *at, struct err *err)
{
    struct land_rule *rule = lift->rule;
    struct dirty_table table = land_rule_table(rule, run, address_table(rule->spec, lift->key));
    struct buf *owner = &rule->landing->owner;
    struct key key;
    bool marked;
    buf_cut(owner, 0);
    if (!address_entry_add(&lift->address, BYTES(""), owner))
        return err_set(err, RC_NOMEM, "could not allocate memory for an entry");
    enum rc rc = dirty_find(&table, buf_bytes(owner), &marked, NULL, err);
    if (rc == RC_OK)
        rc = dead_outlives(lift, &table, buf_bytes(owner), err);
    if (rc == RC_OK)
        rc = key_write(run, lift->key, KEY_ANY, &key, err);
    if (rc == RC_OK && *at > 0 && !copy_is_same(lift, &key))
        *at = 0;
    if (rc == RC_OK && marked)
        *at = lift->rows.count;
    if (rc == RC_OK)
        rc = step_apply(lift, &table, at, err);
    bool more = *at < lift->rows.count;
    if (rc == RC_OK && !more)
        rc = whole_apply(lift, &table, buf_bytes(owner), err);
    if (rc == RC_OK)
        rc = copy_note(lift, run, err);
    return rc == RC_OK && more ? RC_WAIT : rc;
}

static enum rc lift_apply(struct lift *lift, const struct run *run, struct err *err)
{
    struct landing *landing = lift->rule->landing;
    /* It is not a change of the key: nobody hears of it. */
    struct run quiet = run_as(run, lift->ns, landing);
    quiet.flags |= RUN_QUIET;
    size_t at = lift->applied;
    if (lift->rows.newest > store_last_lsn(run->kv->store)) { /* (4) */
        if (lift->rows.newest > landing->raise_lsn)
            landing->raise_lsn = lift->rows.newest;
        return RC_WAIT;
    }
    enum rc rc = landing__sink_note(lift->rule, run, err);
    if (rc == RC_OK)
        rc = rows_apply(lift, &quiet, &at, err);
    if (rc == RC_OK || rc == RC_WAIT)
        lift->applied = at;
    return rc;
}

/* (4) between turns. */
static void lsn_raise(struct landing *landing)
{
    struct err err;
    uint64_t lsn = landing->raise_lsn;
    landing->raise_lsn = 0;
    if (lsn > 0 && store_lsn_raise(landing->kv->store, lsn, &err) != RC_OK)
        log_warn("landing: the database holds a version of the future: %s", err.text);
}

static enum rc lift_run(struct task *task, struct store *store, struct err *err)
{
    struct lift *lift = (struct lift *)task;
    struct landing *landing = lift->rule->landing;
    struct run run;
    (void)store;
    if (lift->state == LIFT_ASKED && !work_is_done(lift->rule->lifter, &lift->work)) {
        task_wait_event(task);
        return RC_WAIT;
    }
    if (lift->stale) { /* (2) */
        lift_ask(lift);
        task_wait_event(task);
        return RC_WAIT;
    }
    lift->state = LIFT_APPLYING;
    if (lift->rc != RC_OK) {
        *err = lift->err;
        return lift->rc;
    }
    if (lift->rows.newest > landing__future_lsn(landing))
        return err_set(err, RC_INVALID,
                       "the database holds a version of this key that is more than a day ahead");
    run_begin(&run, landing->kv, lift->ns, RUN_NO_LIFT);
    return run_end(&run, lift_apply(lift, &run, err));
}

/* ---- the end ---- */

static void absences_note(const struct lift *lift)
{
    uint64_t now_ms = clock_unix_ms(lift->rule->landing->options.clock);
    if (lift->stale) /* a mark left after the last row was applied */
        return;
    if (lift->whole) {
        if (!lift->has_copy)
            absence_note(lift, NULL, now_ms);
        return;
    }
    for (size_t i = 0; i < lift->field_count; i++) {
        bool found = false;
        for (size_t r = 0; r < lift->rows.count && !found; r++)
            found = bytes_eq(lift->rows.row[r].field, lift->field[i]);
        if (!found)
            absence_note(lift, &lift->field[i], now_ms);
    }
}

static void lift_done(struct task *task, enum rc rc, const struct err *err)
{
    struct lift *lift = (struct lift *)task;
    struct land_rule *rule = lift->rule;
    struct landing *landing = rule->landing;
    rule->lift_ns += clock_mono_ns(landing->options.clock) - lift->start_ns;
    if (rc == RC_OK) {
        presence_answered(rule, lift->start_ns);
        absences_note(lift);
        lift_free(lift);
        return;
    }
    rule->lift_failures++;
    lift->rc = rc;
    lift->err = *err;
    lift->state = LIFT_FAILED;
    lift->until_ns = clock_mono_ns(landing->options.clock) + LIFT_FAILED_MS * NS_A_MS;
    lift->list_next = landing->failed;
    landing->failed = lift;
    landing__waiters_wake(&lift->waiters);
}

/* ---- wanting ---- */

static void field_add(struct lift *lift, struct bytes field)
{
    for (size_t i = 0; i < lift->field_count; i++)
        if (bytes_eq(lift->field[i], field))
            return;
    if (lift->field_count == LIFT_FIELDS_MAX) {
        lift->whole = true;
        return;
    }
    if (lift->field_count == lift->field_cap) {
        lift->field_cap = lift->field_cap ? 2 * lift->field_cap : 4;
        lift->field = mem_realloc(lift->field, lift->field_cap * sizeof *lift->field);
    }
    lift->field[lift->field_count++] = bytes_of(mem_dup(field.ptr, field.len), field.len);
}

static struct lift *lift_open(struct land_rule *rule, const struct key *key)
{
    struct landing *landing = rule->landing;
    struct err err;
    struct lift *lift = mem_zalloc(sizeof *lift);
    lift->rule = rule;
    lift->ns = key->ns;
    lift->key = bytes_of(mem_dup(key->name.ptr, key->name.len), key->name.len);
    lift->hash = name_hash(landing, &(struct lift_name){key->ns, key->name});
    enum rc rc = address_of(rule->spec, lift->key, &lift->address, &err);
    ASSERT(rc == RC_OK); /* the caller has asked */
    lift_rows_init(&lift->rows);
    lift->task.run = lift_run;
    lift->task.done = lift_done;
    lift->task.flags = TASK_JOB | TASK_WRITES;
    lift->list_next = landing->open;
    landing->open = lift;
    table_insert(&landing->lifts, lift->hash, lift);
    return lift;
}

/* The answer of a lift that failed a moment ago; RC_OK: it is forgotten. */
static enum rc failure_answer(struct lift *lift, struct err *err)
{
    if (clock_mono_ns(lift->rule->landing->options.clock) >= lift->until_ns) {
        lift_free(lift);
        return RC_OK;
    }
    const char *text = lift->err.text[0] ? lift->err.text : rc_text(lift->rc);
    return err_set(err, RC_REPLY, "LANDDOWN rule %s cannot be asked for this key: %s",
                   lift->rule->spec->name, text);
}

enum rc lift_need(struct land_rule *rule, const struct key *key, const struct bytes *field,
                  struct err *err)
{
    struct landing *landing = rule->landing;
    struct address address;
    struct err ignored;
    if (address_of(rule->spec, key->name, &address, &ignored) != RC_OK ||
        (field && address_check_field(&address, *field, &ignored) != RC_OK))
        return RC_OK; /* it could not have landed */
    if (is_absent(landing, key, NULL) || (field && is_absent(landing, key, field))) {
        rule->absences++;
        return RC_OK;
    }
    struct lift *lift = lift_find(landing, key->ns, key->name);
    if (lift && lift->state == LIFT_FAILED) {
        enum rc rc = failure_answer(lift, err);
        if (rc != RC_OK)
            return rc;
        lift = NULL;
    }
    if (!lift) {
        lift = lift_open(rule, key);
        rule->misses++;
    }
    if (lift->state == LIFT_OPEN && field && rule->spec->shape == LAND_OBJECT)
        field_add(lift, *field);
    else if (lift->state == LIFT_OPEN)
        lift->whole = true; /* shape columns has one row for all fields */
    landing->wanted = lift;
    landing->wanted_run = landing->kv->run_seq;
    return RC_COLD;
}

static void stale_set(void *entry, void *arg)
{
    struct lift *lift = entry;
    if (lift->ns == arg && (lift->state == LIFT_ASKED || lift->state == LIFT_APPLYING))
        lift->stale = true;
}

void lift_stale(struct landing *landing, const struct ns *ns, struct bytes key)
{
    struct lift *lift = lift_find(landing, ns, key);
    if (lift)
        stale_set(lift, (void *)ns);
}

void lifts_stale(struct landing *landing, const struct ns *ns)
{
    uint64_t cursor = 0;
    do
        cursor = table_scan(&landing->lifts, cursor, stale_set, (void *)ns);
    while (cursor != 0);
}

bool landing_wait(struct landing *landing, void **waiter, struct task *task)
{
    struct lift *lift = landing->wanted_run == landing->kv->run_seq ? landing->wanted : NULL;
    landing->wanted = NULL;
    if (!lift || lift->state == LIFT_FAILED)
        return false;
    landing__waiter_add(&lift->waiters, waiter, task);
    return true;
}

void lifts_start(struct landing *landing)
{
    lsn_raise(landing);
    while (landing->open) {
        struct lift *lift = landing->open;
        landing->open = lift->list_next;
        lift->list_next = NULL;
        task_start(landing->options.tasks, &lift->task); /* before the worker can post it */
        lift_ask(lift);
    }
    uint64_t now_ns = landing->failed ? clock_mono_ns(landing->options.clock) : 0;
    for (struct lift *lift = landing->failed, *next; lift; lift = next) {
        next = lift->list_next;
        if (now_ns >= lift->until_ns)
            lift_free(lift);
    }
}

void lifts_init(struct landing *landing)
{
    table_init(&landing->lifts, lift_hash, lift_eq, NULL);
    landing->absences.cap = LAND_ABSENT_SLOTS;
    landing->absences.slot = mem_zalloc(LAND_ABSENT_SLOTS * sizeof *landing->absences.slot);
    landing->absence_seed = rand_u64(&landing->kv->rand);
}

struct lift_pick {
    const struct land_rule *rule;
    struct lift *found;
};

static void lift_pick(void *entry, void *arg)
{
    struct lift_pick *pick = arg;
    struct lift *lift = entry;
    if (lift->rule == pick->rule)
        pick->found = lift;
}

void lifts_rule_gone(struct land_rule *rule)
{
    uint64_t cursor = 0;
    for (;;) {
        struct lift_pick pick = {.rule = rule};
        cursor = table_scan(&rule->landing->lifts, cursor, lift_pick, &pick);
        if (pick.found) {
            lift_close(pick.found);
            pick.found->list_next = rule->left_lifts;
            rule->left_lifts = pick.found;
            cursor = 0; /* from the start: the table has changed */
        } else if (cursor == 0) {
            return;
        }
    }
}

void lifts_rule_free(struct land_rule *rule)
{
    while (rule->left_lifts) {
        struct lift *lift = rule->left_lifts;
        rule->left_lifts = lift->list_next;
        lift_memory_free(lift);
    }
}

void lifts_done(struct landing *landing) /* rules are gone, and with them their lifts */
{
    table_done(&landing->lifts);
    mem_free(landing->absences.slot);
}
