/* lander.c - the job that lands a rule's marks, table after table, step by step.
 *
 *   SLEEP ── due ──► LOCK ► RETRY ► SNAPSHOT ► READ ► DURABLE ► WORK ► NOTE ─┐
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
 *   (3) `landed_lsn` only rises to the LSN at which a pass began that went through all tables. */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "landing/landing_int.h"
#include "types/hash.h"

#include "base/banned.h"

enum {
    LOCK_TTL_MS = 30 * 1000,
    OWNER_FIELDS_MAX = 65536, /* of one owner in one transaction */
    BATCH_BYTES_MAX = 8 * 1024 * 1024,
    BACK_OFF_MS_MIN = 200,
    BACK_OFF_MS_MAX = 10 * 1000,
    ERROR_BACK_OFF_MS = 1000, /* doubles with every attempt */
    ERROR_BACK_OFF_MS_MAX = 3600 * 1000,
    MANY_MARKS_BATCHES = 10, /* then landing does not wait for its delay */
};
#define NS_A_MS UINT64_C(1000000)

enum lander_state {
    LANDER_SLEEP,
    LANDER_LOCK,
    LANDER_RETRY,
    LANDER_SNAPSHOT,
    LANDER_READ,
    LANDER_DURABLE,
    LANDER_WORK,
    LANDER_NOTE,
    LANDER_UNLOCK,
};

struct lander {
    struct task task;
    struct task renew; /* keeps the lock while SQL works */
    struct work work;
    struct land_rule *rule;
    struct worker *worker;
    enum lander_state state;
    bool asleep, kicked;
    bool renew_wanted, renew_started;
    uint64_t due_ns;
    uint32_t table;
    /* the pass */
    uint64_t pass_lsn, pass_start_ns, pass_number;
    uint64_t pass_rows;
    bool pass_failed;  /* the database is away */
    bool pass_held_up; /* something was left out: a table was locked by another */
    /* the table */
    enum dirty_part source;
    struct buf cursor; /* the last entry that was looked at */
    bool foreign;      /* the snapshot holds entries of other rules */
    bool at_end;
    /* a large owner that is landed in several batches */
    bool expanding;
    uint64_t expand_version;
    struct buf expand_after;
    /* the batch */
    struct land_batch batch;
    size_t note_owner, note_field;
    enum rc work_rc;
    struct err work_err;
    struct shape_stats work_stats;
    uint64_t work_ns;
    /* results */
    uint64_t landed_lsn;
    uint64_t back_off_ms;
    bool away;
    struct err trouble;
    struct land_status status;
};

static struct dirty_table table_of(const struct lander *lander)
{
    return land_rule_table(lander->rule, lander->table);
}

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

/* The next step, in a later turn. */
static enum rc step_to(struct lander *lander, enum lander_state state)
{
    lander->state = state;
    return RC_WAIT;
}

/* ---- reading: the fields of one owner ---- */

static struct land_field *field_find(struct land_owner *owner, struct bytes name)
{
    size_t low = 0, high = owner->field_count; /* in order of names: both walks come in order */
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = bytes_cmp(owner->field[middle].name, name);
        if (order == 0)
            return &owner->field[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static int field_order(const void *one, const void *other)
{
    const struct land_field *a = one, *b = other;
    return bytes_cmp(a->name, b->name);
}

static void seen_set(struct mark_seen *seen, enum dirty_part part, uint64_t version)
{
    if (part == DIRTY_MARKED)
        seen->marked = version;
    else
        seen->saving = version;
}

/* One mark of the owner. */
static enum rc mark_take(struct lander *lander, struct land_owner *owner, enum dirty_part part,
                         struct bytes entry, struct bytes value, struct err *err)
{
    struct land_batch *batch = &lander->batch;
    struct land_entry parts;
    bool removed;
    uint64_t version;
    enum rc rc = entry_parse(entry, &batch->arena, &parts, err);
    if (rc != RC_OK)
        return rc;
    if (!dirty_mark_parse(value, &removed, &version))
        return err_set(err, RC_CORRUPT, "a dirty table holds a mark without a version");
    if (version > batch->newest)
        batch->newest = version;
    if (parts.field.len == 0) {
        if (!owner->seen.entry.ptr)
            owner->seen.entry = arena_copy(&batch->arena, entry);
        seen_set(&owner->seen, part, version);
        if (version > owner->owner_version)
            owner->owner_version = version;
        return RC_OK;
    }
    struct land_field *field = field_find(owner, parts.field);
    if (!field) {
        if (owner->field_count >= OWNER_FIELDS_MAX) {
            lander->pass_held_up = lander->kicked = true; /* the next pass has it */
            return RC_OK;
        }
        field = land_batch_field(batch, owner);
        field->seen.entry = arena_copy(&batch->arena, entry);
        field->name = arena_copy(&batch->arena, parts.field);
    }
    seen_set(&field->seen, part, version);
    if (version > field->version)
        field->version = version;
    return RC_OK;
}

static enum rc marks_read(struct lander *lander, struct land_owner *owner, enum dirty_part part,
                          struct bytes owner_part, struct err *err)
{
    CLEANUP(store_walk_done) struct store_walk walk;
    struct dirty_table table = table_of(lander);
    struct bytes entry, value;
    struct key key;
    enum rc rc = dirty_open(&table, part, &key, err);
    if (rc != RC_OK || !key.exists)
        return rc;
    store_walk_init(&walk, table.ns->kv->store, key_rows(&key), false);
    rc = store_walk_seek(&walk, owner_part, err);
    while (rc == RC_OK) {
        rc = store_walk_next(&walk, &entry, &value, err);
        if (rc == RC_OK && !bytes_start_with(entry, owner_part))
            return RC_OK;
        if (rc == RC_OK)
            rc = mark_take(lander, owner, part, entry, value, err);
    }
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

static enum rc value_take(struct lander *lander, struct land_field *field, struct bytes value,
                          struct err *err)
{
    struct land_batch *batch = &lander->batch;
    uint8_t *copy = arena_try_alloc(&batch->arena, value.len + 1);
    if (!copy)
        return err_set(err, RC_NOMEM, "could not allocate %zu bytes for a value", value.len);
    if (value.len > 0)
        memcpy(copy, value.ptr, value.len);
    field->value = bytes_of(copy, value.len);
    field->here = true;
    batch->bytes += value.len;
    return RC_OK;
}

/* The values of marked fields, and the attempts that failed before. All cold ones are asked for. */
static enum rc values_read(struct lander *lander, struct land_owner *owner, const struct key *key,
                           struct err *err)
{
    struct dirty_table table = table_of(lander);
    bool cold = false;
    for (size_t i = 0; i < owner->field_count; i++) {
        struct land_field *field = &owner->field[i];
        struct bytes value;
        enum rc rc = owner->exists ? hash_field(key, field->name, &value, err) : RC_NOT_FOUND;
        if (rc == RC_OK)
            rc = value_take(lander, field, value, err);
        if (rc == RC_OK || rc == RC_NOT_FOUND)
            rc = dirty_version(&table, DIRTY_ERROR, field->seen.entry, &field->seen.error, err);
        cold = cold || rc == RC_COLD;
        if (rc != RC_OK && rc != RC_NOT_FOUND && rc != RC_COLD)
            return rc;
    }
    return cold ? RC_COLD : RC_OK;
}

/* Every field that is here, from `expand_after` on, at the version of the owner's mark. *ret_all:
 * none is left. */
static enum rc owner_expand(struct lander *lander, struct land_owner *owner, const struct key *key,
                            bool *ret_all, struct err *err)
{
    CLEANUP(store_walk_done) struct store_walk walk;
    struct land_batch *batch = &lander->batch;
    struct bytes name, value, after = buf_bytes(&lander->expand_after);
    size_t marked = owner->field_count;
    *ret_all = true;
    if (!owner->exists)
        return RC_OK;
    store_walk_init(&walk, key->ns->kv->store, key_rows(key), false);
    enum rc rc = store_walk_seek(&walk, after, err);
    while (rc == RC_OK) {
        rc = store_walk_next(&walk, &name, &value, err);
        if (rc != RC_OK || (after.len > 0 && bytes_eq(name, after)))
            continue;
        if (owner->field_count >= marked + OWNER_FIELDS_MAX || batch->bytes > BATCH_BYTES_MAX) {
            *ret_all = false;
            return RC_OK;
        }
        struct land_field *field = land_batch_field(batch, owner);
        field->name = arena_copy(&batch->arena, name);
        field->version = owner->owner_version;
        rc = value_take(lander, field, value, err);
    }
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

/* A field that was marked and is one of all fields as well is landed once, at the newer version. */
static void fields_merge(struct land_batch *batch, struct land_owner *owner)
{
    size_t count = 0;
    qsort(owner->field, owner->field_count, sizeof *owner->field, field_order);
    for (size_t i = 0; i < owner->field_count; i++) {
        struct land_field *last = count > 0 ? &owner->field[count - 1] : NULL;
        const struct land_field *field = &owner->field[i];
        if (!last || !bytes_eq(last->name, field->name)) {
            owner->field[count++] = *field;
            continue;
        }
        batch->field_count--;
        if (!last->seen.entry.ptr)
            last->seen = field->seen;
        if (field->version > last->version)
            last->version = field->version;
    }
    owner->field_count = count;
}

static enum rc owner_whole(struct lander *lander, struct land_owner *owner, const struct key *key,
                           struct err *err)
{
    struct land_batch *batch = &lander->batch;
    struct dirty_table table = table_of(lander);
    bool all;
    /* Rows of an earlier part would be older than a newer mark, and swept: start over. */
    if (lander->expanding && lander->expand_version != owner->owner_version)
        buf_cut(&lander->expand_after, 0);
    enum rc rc = owner_expand(lander, owner, key, &all, err);
    if (rc != RC_OK)
        return rc;
    /* Fields that changed after the mark are in it as they are now. */
    uint64_t last_lsn = store_last_lsn(key->ns->kv->store);
    if (last_lsn > batch->newest)
        batch->newest = last_lsn;
    owner->sweep = all;
    lander->expanding = !all;
    lander->expand_version = owner->owner_version;
    if (!all) {
        struct bytes last = owner->field[owner->field_count - 1].name;
        buf_cut(&lander->expand_after, 0);
        if (!buf_add_bytes(&lander->expand_after, last))
            return err_set(err, RC_NOMEM, "could not allocate memory for a field's name");
        fields_merge(batch, owner);
        return RC_OK;
    }
    buf_cut(&lander->expand_after, 0);
    fields_merge(batch, owner);
    rc = dirty_version(&table, DIRTY_ERROR, owner->seen.entry, &owner->seen.error, err);
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

/* Everything that is marked of one owner, with its values. */
static enum rc owner_read(struct lander *lander, const struct land_entry *parts,
                          struct bytes owner_part, struct err *err)
{
    struct land_batch *batch = &lander->batch;
    struct land_owner *owner = land_batch_owner(batch);
    struct key key;
    CLEANUP(buf_done) struct buf name;
    buf_init(&name, KEY_BYTES_MAX);
    owner->address = parts->address;
    owner->address.spec = lander->rule->spec;
    owner->table = lander->table;
    if (!address_key_add(&owner->address, &name))
        return err_set(err, RC_NOMEM, "could not allocate memory for a key");
    owner->key = arena_copy(&batch->arena, buf_bytes(&name));
    enum rc rc = address_of(lander->rule->spec, owner->key, &owner->address, err);
    if (rc == RC_OK)
        rc = landing__key_find(lander->rule->ns, owner->key, &key, err);
    if (rc != RC_OK)
        return rc;
    owner->exists = key.exists && key.meta.type == TYPE_HASH;
    rc = marks_read(lander, owner, DIRTY_SAVING, owner_part, err);
    if (rc == RC_OK)
        qsort(owner->field, owner->field_count, sizeof *owner->field, field_order);
    if (rc == RC_OK)
        rc = marks_read(lander, owner, DIRTY_MARKED, owner_part, err);
    if (rc == RC_OK)
        rc = values_read(lander, owner, &key, err);
    if (rc == RC_OK && owner->owner_version > 0)
        return owner_whole(lander, owner, &key, err);
    if (rc == RC_OK)
        fields_merge(batch, owner);
    return rc;
}

/* ---- reading: the table ---- */

static bool batch_is_full(const struct lander *lander)
{
    const struct land_batch *batch = &lander->batch;
    return batch->field_count >= lander->rule->spec->batch || batch->bytes >= BATCH_BYTES_MAX ||
           (lander->expanding && batch->owner_count > 0);
}

/* An owner that could not be read leaves nothing in the batch. */
static void batch_cut(struct land_batch *batch, size_t owner_count)
{
    while (batch->owner_count > owner_count) {
        struct land_owner *owner = &batch->owner[--batch->owner_count];
        batch->field_count -= owner->field_count;
        mem_free(owner->field);
    }
}

struct read_state {        /* of one step */
    struct buf owner_part; /* entries that begin like this have been looked at */
    bool has_owner;
    bool cold;
    size_t before; /* fields in the batch when the step began */
};

/* Another rule's entry, or one that is too new for this pass. */
static bool is_skipped(struct lander *lander, struct bytes entry, struct bytes value,
                       struct land_entry *ret_parts)
{
    bool removed;
    uint64_t version;
    if (!land_rule_has_entry(lander->rule, entry, ret_parts)) {
        lander->foreign = lander->foreign || lander->source == DIRTY_SAVING;
        return true;
    }
    return lander->source == DIRTY_MARKED && dirty_mark_parse(value, &removed, &version) &&
           version > lander->pass_lsn;
}

static enum rc entry_read(struct lander *lander, struct read_state *state, struct bytes entry,
                          struct bytes value, struct err *err)
{
    struct land_entry parts;
    if (is_skipped(lander, entry, value, &parts))
        return RC_OK;
    struct bytes owner_part = entry_owner_part(entry, lander->rule->spec->shape);
    buf_cut(&state->owner_part, 0);
    if (!buf_add_bytes(&state->owner_part, owner_part))
        return err_set(err, RC_NOMEM, "could not allocate memory for an entry");
    state->has_owner = true;
    size_t owners = lander->batch.owner_count;
    enum rc rc = owner_read(lander, &parts, buf_bytes(&state->owner_part), err);
    if (rc == RC_COLD || rc == RC_INVALID || rc == RC_CORRUPT)
        batch_cut(&lander->batch, owners);
    if (rc == RC_INVALID || rc == RC_CORRUPT) {
        /* Nobody but us writes these tables; it stays where it can be looked at. */
        log_warn("landing: rule %s: an entry cannot be read: %s", lander->rule->spec->name,
                 err->text);
        return RC_OK;
    }
    return rc;
}

static bool step_is_full(const struct lander *lander, const struct read_state *state)
{
    return batch_is_full(lander) || lander->batch.field_count >= state->before + LAND_STEP_FIELDS;
}

/* From the cursor on, owner by owner. RC_NOT_FOUND: that was the last entry. */
static enum rc entries_read(struct lander *lander, struct read_state *state, struct buf *cursor,
                            struct err *err)
{
    CLEANUP(store_walk_done) struct store_walk walk;
    struct dirty_table table = table_of(lander);
    struct bytes entry, value;
    struct key key;
    enum rc rc = dirty_open(&table, lander->source, &key, err);
    if (rc != RC_OK)
        return rc;
    if (!key.exists)
        return RC_NOT_FOUND;
    store_walk_init(&walk, table.ns->kv->store, key_rows(&key), false);
    rc = store_walk_seek(&walk, buf_bytes(cursor), err);
    while (rc == RC_OK) {
        rc = store_walk_next(&walk, &entry, &value, err);
        if (rc != RC_OK)
            return rc;
        bool seen = (cursor->len > 0 && bytes_eq(entry, buf_bytes(cursor))) ||
                    (state->has_owner && bytes_start_with(entry, buf_bytes(&state->owner_part)));
        if (!seen && step_is_full(lander, state))
            return RC_OK;
        if (!seen)
            rc = entry_read(lander, state, entry, value, err);
        if (rc == RC_COLD) { /* the others are asked for as well */
            state->cold = true;
            rc = RC_OK;
        }
        if (rc == RC_OK && lander->expanding)
            return RC_OK; /* met again: the cursor stays before it */
        buf_cut(cursor, 0);
        if (rc == RC_OK && !buf_add_bytes(cursor, entry))
            rc = err_set(err, RC_NOMEM, "could not allocate memory for an entry");
    }
    return rc;
}

static enum rc step_read(struct lander *lander, struct err *err)
{
    CLEANUP(buf_done) struct buf cursor;
    struct read_state state = {.before = lander->batch.field_count};
    size_t owners = lander->batch.owner_count;
    bool expanding = lander->expanding;
    buf_init(&cursor, STORE_SUFFIX_BYTES_MAX);
    buf_init(&state.owner_part, STORE_SUFFIX_BYTES_MAX);
    enum rc rc = RC_NOMEM;
    if (buf_add_bytes(&cursor, buf_bytes(&lander->cursor)))
        rc = entries_read(lander, &state, &cursor, err);
    buf_done(&state.owner_part);
    if (state.cold)
        rc = RC_COLD;
    if (rc != RC_OK && rc != RC_NOT_FOUND) {
        batch_cut(&lander->batch, owners);
        lander->expanding = expanding;
        return rc;
    }
    lander->at_end = rc == RC_NOT_FOUND;
    buf_cut(&lander->cursor, 0);
    if (!buf_add_bytes(&lander->cursor, buf_bytes(&cursor)))
        return err_set(err, RC_NOMEM, "could not allocate memory for an entry");
    if (!lander->at_end && !batch_is_full(lander))
        return RC_WAIT; /* the batch goes on in the next turn */
    return step_to(lander, lander->batch.owner_count > 0 ? LANDER_DURABLE : LANDER_NOTE);
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
static enum rc step_durable(struct lander *lander, struct store *store)
{
    if (store_durable_lsn(store) < lander->batch.newest) {
        store_sync_ask(store);
        task_wait_lsn(&lander->task, lander->batch.newest);
        return RC_WAIT;
    }
    lander->state = LANDER_WORK;
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
    if (!lander->away)
        log_warn("landing: rule %s: %s; what changes waits here", lander->rule->spec->name,
                 lander->work_err.text);
    lander->away = true;
    lander->trouble = lander->work_err;
}

static void landed_note(struct lander *lander)
{
    if (lander->away)
        log_info("landing: rule %s: the database is back", lander->rule->spec->name);
    lander->away = false;
    lander->back_off_ms = 0;
    lander->trouble.text[0] = 0;
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
        return step_to(lander, LANDER_UNLOCK);
    }
    landed_note(lander);
    lander->note_owner = lander->note_field = 0;
    return step_to(lander, LANDER_NOTE);
}

/* ---- noting ---- */

static uint64_t error_next_ms(uint64_t now_ms, uint64_t attempts)
{
    uint64_t wait_ms = ERROR_BACK_OFF_MS;
    for (uint64_t i = 1; i < attempts && wait_ms < ERROR_BACK_OFF_MS_MAX; i++)
        wait_ms *= 2;
    return now_ms + (wait_ms < ERROR_BACK_OFF_MS_MAX ? wait_ms : ERROR_BACK_OFF_MS_MAX);
}

static enum rc error_note(const struct dirty_table *table, const struct mark_seen *seen,
                          bool removed, uint64_t version, const char *reason, struct err *err)
{
    struct dirty_error error = {.attempts = 0};
    struct bytes value;
    struct key key;
    uint64_t now_ms = table->ns->kv->now_ms;
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
    error.next_ms = error_next_ms(now_ms, error.attempts);
    snprintf(error.reason, sizeof error.reason, "%s", reason);
    return dirty_error_put(table, seen->entry, &error, err);
}

/* (2): what was seen goes, whether it has landed or stands among the errors from now on. */
static enum rc seen_remove(const struct dirty_table *table, const struct mark_seen *seen,
                           bool with_error, struct err *err)
{
    enum rc rc = RC_OK;
    if (seen->marked)
        rc = dirty_remove(table, DIRTY_MARKED, seen->entry, seen->marked, err);
    if (rc == RC_OK && seen->saving)
        rc = dirty_remove(table, DIRTY_SAVING, seen->entry, seen->saving, err);
    if (rc == RC_OK && with_error && seen->error)
        rc = dirty_remove(table, DIRTY_ERROR, seen->entry, seen->error, err);
    return rc;
}

static enum rc field_note(struct lander *lander, const struct land_owner *owner,
                          const struct land_field *field, struct err *err)
{
    struct dirty_table table = table_of(lander);
    struct mark_seen seen = field->seen;
    enum rc rc = RC_OK;
    if (field->refused) {
        struct buf *entry = &lander->rule->landing->entry;
        buf_cut(entry, 0);
        if (!seen.entry.ptr && !address_entry_add(&owner->address, field->name, entry))
            return err_set(err, RC_NOMEM, "could not allocate memory for an entry");
        if (!seen.entry.ptr) /* it came with its owner's mark */
            seen.entry = buf_bytes(entry);
        rc = error_note(&table, &seen, !field->here, field->version, field->refused, err);
    }
    return rc == RC_OK && field->seen.entry.ptr ? seen_remove(&table, &seen, !field->refused, err)
                                                : rc;
}

/* `keep`: what has landed may go after a while. */
static enum rc keep_set(struct lander *lander, const struct land_owner *owner, struct err *err)
{
    struct dirty_table table = table_of(lander);
    struct buf *part = &lander->rule->landing->owner;
    struct key key;
    struct bytes extra;
    bool marked;
    if (lander->rule->spec->keep_ms == 0 || !owner->exists)
        return RC_OK;
    buf_cut(part, 0);
    if (!address_entry_add(&owner->address, BYTES(""), part))
        return err_set(err, RC_NOMEM, "could not allocate memory for an entry");
    enum rc rc = dirty_find_owner(&table, buf_bytes(part), &marked, err);
    if (rc == RC_OK)
        rc = landing__key_find(lander->rule->ns, owner->key, &key, err);
    if (rc != RC_OK || marked || !key.exists)
        return rc;
    rc = key_extra_copy(&key, &extra, err);
    key.meta.expire_ms = key.ns->kv->now_ms + lander->rule->spec->keep_ms;
    return rc == RC_OK ? key_save(&key, extra, err) : rc;
}

static enum rc owner_note(struct lander *lander, const struct land_owner *owner, struct err *err)
{
    struct dirty_table table = table_of(lander);
    enum rc rc = RC_OK;
    if (owner->sweep && owner->refused)
        rc = error_note(&table, &owner->seen, !owner->exists, owner->owner_version, owner->refused,
                        err);
    if (rc == RC_OK && owner->sweep)
        rc = seen_remove(&table, &owner->seen, !owner->refused, err);
    lift_stale(lander->rule->landing, lander->rule->ns, owner->key);
    return rc == RC_OK ? keep_set(lander, owner, err) : rc;
}

/* Some fields; RC_WAIT: there are more. */
static enum rc batch_note(struct lander *lander, size_t *at_owner, size_t *at_field,
                          struct err *err)
{
    const struct land_batch *batch = &lander->batch;
    size_t noted = 0;
    for (; *at_owner < batch->owner_count; (*at_owner)++, *at_field = 0) {
        const struct land_owner *owner = &batch->owner[*at_owner];
        for (; *at_field < owner->field_count; (*at_field)++) {
            if (noted++ == LAND_STEP_FIELDS)
                return RC_WAIT;
            enum rc rc = field_note(lander, owner, &owner->field[*at_field], err);
            if (rc != RC_OK)
                return rc;
        }
        enum rc rc = owner_note(lander, owner, err);
        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}

/* What the snapshot holds of others waits for them; ours goes on from the table itself. */
static enum rc table_go_on(struct lander *lander)
{
    land_batch_clear(&lander->batch);
    if (!lander->at_end)
        return step_to(lander, LANDER_READ);
    if (lander->source == DIRTY_SAVING && lander->foreign) {
        lander->source = DIRTY_MARKED;
        buf_cut(&lander->cursor, 0);
        return step_to(lander, LANDER_READ);
    }
    return step_to(lander, LANDER_UNLOCK);
}

static enum rc step_note(struct lander *lander, struct err *err)
{
    size_t owner = lander->note_owner, field = lander->note_field;
    enum rc rc = batch_note(lander, &owner, &field, err);
    if (rc != RC_OK && rc != RC_WAIT)
        return rc;
    lander->note_owner = owner;
    lander->note_field = field;
    return rc == RC_WAIT ? RC_WAIT : table_go_on(lander);
}

/* ---- the other steps ---- */

static enum rc renew_run(struct task *task, struct store *store, struct err *err)
{
    struct lander *lander = (struct lander *)((char *)task - offsetof(struct lander, renew));
    struct landing *landing = lander->rule->landing;
    (void)store;
    if (!lander->renew_wanted)
        return RC_OK;
    landing__enter(landing);
    struct dirty_table table = table_of(lander);
    enum rc rc = dirty_lock(&table, rule_name(lander), token(lander), LOCK_TTL_MS, false, err);
    task_wait_until(task, now_ns(lander) + LOCK_TTL_MS / 3 * NS_A_MS);
    if (rc != RC_COLD)
        rc = RC_WAIT; /* lost, or not renewed: versions keep what lands right */
    return landing__leave(landing, rc);
}

static void renew_done(struct task *task, enum rc rc, const struct err *err)
{
    struct lander *lander = (struct lander *)((char *)task - offsetof(struct lander, renew));
    (void)rc;
    (void)err;
    lander->renew_started = false;
}

static enum rc step_lock(struct lander *lander, struct err *err)
{
    struct dirty_table table = table_of(lander);
    /* The store has one process: a lock that is there at our start is that of a dead one. */
    bool take_over = lander->pass_number == 0;
    enum rc rc = dirty_lock(&table, rule_name(lander), token(lander), LOCK_TTL_MS, take_over, err);
    if (rc == RC_BUSY) {
        lander->pass_held_up = true;
        return step_to(lander, LANDER_UNLOCK);
    }
    return rc == RC_OK ? step_to(lander, LANDER_RETRY) : rc;
}

/* Entries that were refused and are due again are marked anew, with this commit's version. */
static enum rc step_retry(struct lander *lander, struct err *err)
{
    CLEANUP(store_walk_done) struct store_walk walk;
    struct dirty_table table = table_of(lander);
    struct bytes entry, value;
    struct key key;
    enum rc rc = dirty_open(&table, DIRTY_ERROR, &key, err);
    if (rc != RC_OK)
        return rc;
    if (!key.exists)
        return step_to(lander, LANDER_SNAPSHOT);
    struct kv *kv = table.ns->kv;
    store_walk_init(&walk, kv->store, key_rows(&key), false);
    while ((rc = store_walk_next(&walk, &entry, &value, err)) == RC_OK) {
        struct land_entry parts;
        struct dirty_error error;
        if (!land_rule_has_entry(lander->rule, entry, &parts) ||
            dirty_error_parse(value, &error, err) != RC_OK || error.next_ms > kv->now_ms)
            continue;
        struct bytes copy = arena_copy(&kv->arena, entry);
        rc = dirty_mark(&table, copy, error.removed, err);
        if (rc != RC_OK)
            return rc;
    }
    return rc == RC_NOT_FOUND ? step_to(lander, LANDER_SNAPSHOT) : rc;
}

static enum rc step_snapshot(struct lander *lander, struct err *err)
{
    struct dirty_table table = table_of(lander);
    bool has;
    enum rc rc = dirty_snapshot(&table, &has, err);
    if (rc != RC_OK)
        return rc;
    land_batch_clear(&lander->batch);
    buf_cut(&lander->cursor, 0);
    buf_cut(&lander->expand_after, 0);
    lander->expanding = lander->foreign = false;
    lander->source = DIRTY_SAVING;
    return step_to(lander, has ? LANDER_READ : LANDER_UNLOCK);
}

static void pass_end(struct lander *lander)
{
    struct land_rule *rule = lander->rule;
    uint64_t now = now_ns(lander), ns = now - lander->pass_start_ns;
    if (!lander->pass_failed)
        lander->away = false;
    if (!lander->pass_failed && !lander->pass_held_up) { /* (3) */
        lander->landed_lsn = lander->pass_lsn;
        lander->status.oldest_ms = rule->marked_since_ms;
    }
    if (lander->pass_rows > 0)
        lander->status.rows_per_s = lander->pass_rows * 1000 * NS_A_MS / (ns + 1);
    lander->status.last_pass_ms = ns / NS_A_MS;
    lander->pass_number++;
    lander->due_ns = now + (lander->away ? lander->back_off_ms : rule->spec->delay_ms) * NS_A_MS;
    lander->state = LANDER_SLEEP;
    lander->renew_wanted = false;
    landing__waiters_wake(&rule->landing->pass_waiters);
}

static enum rc step_unlock(struct lander *lander, struct err *err)
{
    struct dirty_table table = table_of(lander);
    enum rc rc = dirty_unlock(&table, rule_name(lander), token(lander), err);
    if (rc != RC_OK && rc != RC_BUSY)
        return rc;
    if (!lander->pass_failed && ++lander->table < lander->rule->spec->tables)
        return step_to(lander, LANDER_LOCK);
    pass_end(lander);
    return RC_WAIT;
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
    return step_to(lander, LANDER_LOCK);
}

/* ---- the task ---- */

static enum rc step(struct lander *lander, struct store *store, struct err *err)
{
    switch (lander->state) {
    case LANDER_SLEEP:
        return step_sleep(lander, store);
    case LANDER_LOCK:
        return step_lock(lander, err);
    case LANDER_RETRY:
        return step_retry(lander, err);
    case LANDER_SNAPSHOT:
        return step_snapshot(lander, err);
    case LANDER_READ:
        return step_read(lander, err);
    case LANDER_DURABLE:
        return step_durable(lander, store);
    case LANDER_WORK:
        return step_work(lander);
    case LANDER_NOTE:
        return step_note(lander, err);
    case LANDER_UNLOCK:
        return step_unlock(lander, err);
    }
    return RC_OK;
}

static enum rc job_run(struct task *task, struct store *store, struct err *err)
{
    struct lander *lander = (struct lander *)task;
    lander->asleep = false;
    landing__enter(lander->rule->landing);
    return landing__leave(lander->rule->landing, step(lander, store, err));
}

/* Only errors end it: the store could not read or write. What was done in this turn is undone. */
static void job_done(struct task *task, enum rc rc, const struct err *err)
{
    struct lander *lander = (struct lander *)task;
    struct tasks *tasks = lander->rule->landing->options.tasks;
    log_warn("landing: rule %s: %s", lander->rule->spec->name,
             err->text[0] ? err->text : rc_text(rc));
    lander->trouble = *err;
    lander->status.failures++;
    lander->state = LANDER_SLEEP;
    lander->pass_failed = true;
    lander->renew_wanted = false;
    lander->pass_number++;
    lander->due_ns = now_ns(lander) + BACK_OFF_MS_MAX / 10 * NS_A_MS;
    land_batch_clear(&lander->batch);
    landing__waiters_wake(&lander->rule->landing->pass_waiters);
    task_start(tasks, task);
}

enum rc lander_new(struct land_rule *rule, struct lander **ret_lander, struct err *err)
{
    struct worker *worker;
    enum rc rc = worker_new(rule->spec, &worker, err);
    if (rc != RC_OK)
        return rc;
    struct lander *lander = mem_zalloc(sizeof *lander);
    lander->rule = rule;
    lander->worker = worker;
    land_batch_init(&lander->batch);
    buf_init(&lander->cursor, STORE_SUFFIX_BYTES_MAX);
    buf_init(&lander->expand_after, STORE_SUFFIX_BYTES_MAX);
    lander->task.run = job_run;
    lander->task.done = job_done;
    lander->task.flags = TASK_JOB | TASK_DELETES;
    lander->renew.run = renew_run;
    lander->renew.done = renew_done;
    lander->renew.flags = TASK_JOB | TASK_DELETES;
    task_start(rule->landing->options.tasks, &lander->task); /* what a run before us has left */
    *ret_lander = lander;
    return RC_OK;
}

void lander_free(struct lander *lander)
{
    if (!lander)
        return;
    worker_free(lander->worker);
    task_cancel(&lander->task);
    task_cancel(&lander->renew);
    land_batch_done(&lander->batch);
    buf_done(&lander->cursor);
    buf_done(&lander->expand_after);
    mem_free(lander);
}

void lander_kick(struct lander *lander)
{
    lander->kicked = true;
    if (!lander->asleep)
        return;
    lander->asleep = false;
    task_cancel(&lander->task);
    task_start(lander->rule->landing->options.tasks, &lander->task);
}

void lander_marked(struct lander *lander)
{
    bool many = lander->rule->marks >= MANY_MARKS_BATCHES * (uint64_t)lander->rule->spec->batch;
    if (many && lander->asleep && !lander->away)
        lander_kick(lander);
}

/* ---- for people ---- */

bool lander_is_through(const struct lander *lander, uint64_t lsn)
{
    return lander->landed_lsn >= lsn;
}

uint64_t lander_pass_number(const struct lander *lander)
{
    return lander->pass_number;
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
