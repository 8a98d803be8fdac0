// SPDX-License-Identifier: Apache-2.0
/* lander_read.c - what a batch holds: everything that is marked of some owners, as it is now. */
#include "models/landing/lander_int.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "types/hash.h"

#include "base/banned.h"

enum {
    OWNER_FIELDS_MAX = 65536, /* of one owner in one transaction */
    BATCH_BYTES_MAX = 8 * 1024 * 1024,
};

/* ---- reading: the fields of one owner ---- */

static int field_order(const void *one, const void *other)
{
    const struct land_field *a = one, *b = other;
    return bytes_cmp(a->name, b->name);
}

static void fields_sort(struct land_owner *owner)
{
    if (owner->field_count > 1)
        qsort(owner->field, owner->field_count, sizeof *owner->field, field_order);
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
    if (owner->field_count >= OWNER_FIELDS_MAX) {
        lander->pass_held_up = lander->kicked = true; /* the next pass has it */
        return RC_OK;
    }
    struct land_field *field = land_batch_field(batch, owner);
    field->seen.entry = arena_copy(&batch->arena, entry);
    field->name = arena_copy(&batch->arena, parts.field);
    seen_set(&field->seen, part, version);
    field->version = version;
    return RC_OK;
}

static enum rc marks_read(struct lander *lander, const struct run *run, struct land_owner *owner,
                          enum dirty_part part, struct bytes owner_part, struct err *err)
{
    CLEANUP(store_walk_done) struct store_walk walk = {0};
    struct dirty_table table = lander__table(lander, run);
    struct bytes entry, value;
    struct key key;
    enum rc rc = dirty_open(&table, part, &key, err);
    if (rc != RC_OK || !key.exists)
        return rc;
    store_walk_init(&walk, run->kv->store, key_rows(&key), false);
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

/* Names are checked at the write, but those that come with a whole key: RENAME and COPY are O(1).
 */
static void field_check(struct lander *lander, const struct land_owner *owner,
                        struct land_field *field)
{
    struct err err = {0};
    field->unlandable = address_check_field(&owner->address, field->name, &err) != RC_OK;
    if (field->unlandable && field->here)
        field->refused = shape_reason(&lander->batch, &err);
}

/* The values of marked fields, and the attempts that failed before. All cold ones are asked for. */
static enum rc values_read(struct lander *lander, struct land_owner *owner, const struct key *key,
                           struct err *err)
{
    struct dirty_table table = lander__table(lander, key->run);
    struct key errors;
    bool cold = false;
    enum rc rc = dirty_open(&table, DIRTY_ERROR, &errors, err);
    if (rc != RC_OK)
        return rc;
    for (size_t i = 0; i < owner->field_count; i++) {
        struct land_field *field = &owner->field[i];
        struct bytes value;
        rc = owner->exists ? hash_field(key, field->name, &value, err) : RC_NOT_FOUND;
        if (rc == RC_OK)
            rc = value_take(lander, field, value, err);
        field_check(lander, owner, field);
        if (rc == RC_OK || rc == RC_NOT_FOUND)
            rc = dirty_version_in(&errors, DIRTY_ERROR, field->seen.entry, &field->seen.error, err);
        cold = cold || rc == RC_COLD;
        if (rc != RC_OK && rc != RC_NOT_FOUND && rc != RC_COLD)
            return rc;
    }
    return cold ? RC_COLD : RC_OK;
}

/* Every field that is here, from `expand_after` on, as it is now and at the version of now: what it
 * was set to after the owner's mark may have landed with an earlier part of the owner. *ret_rest:
 * the last that was taken, if others are left; otherwise empty. At least one is taken, whatever the
 * marked fields have brought into the batch. */
static enum rc owner_expand(struct lander *lander, struct land_owner *owner, const struct key *key,
                            struct bytes *ret_rest, struct err *err)
{
    CLEANUP(store_walk_done) struct store_walk walk = {0};
    struct land_batch *batch = &lander->batch;
    struct bytes name, value, after = buf_bytes(&lander->expand_after);
    size_t marked = owner->field_count;
    uint64_t now = store_commit_lsn(key->ns->kv->store);
    *ret_rest = BYTES("");
    if (!owner->exists)
        return RC_OK;
    store_walk_init(&walk, key->ns->kv->store, key_rows(key), false);
    enum rc rc = store_walk_seek(&walk, after, err);
    while (rc == RC_OK) {
        rc = store_walk_next(&walk, &name, &value, err);
        if (rc != RC_OK || (after.len > 0 && bytes_eq(name, after)))
            continue;
        size_t taken = owner->field_count - marked;
        struct bytes last = taken > 0 ? owner->field[owner->field_count - 1].name : BYTES("");
        /* Not behind a field without a name, which comes first, with RENAME and COPY only. */
        if (last.len > 0 && (taken >= OWNER_FIELDS_MAX || batch->bytes > BATCH_BYTES_MAX)) {
            *ret_rest = last;
            return RC_OK;
        }
        struct land_field *field = land_batch_field(batch, owner);
        field->name = arena_copy(&batch->arena, name);
        field->version = now > owner->owner_version ? now : owner->owner_version;
        rc = value_take(lander, field, value, err);
        field_check(lander, owner, field);
    }
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

static void seen_join(struct mark_seen *seen, const struct mark_seen *more)
{
    if (!seen->entry.ptr)
        seen->entry = more->entry;
    seen->marked = seen->marked ? seen->marked : more->marked;
    seen->saving = seen->saving ? seen->saving : more->saving;
    seen->error = seen->error ? seen->error : more->error;
}

/* A field that was marked twice, or is one of all fields as well, is landed once, at the newer
 * version. */
static void fields_merge(struct land_batch *batch, struct land_owner *owner)
{
    size_t count = 0;
    fields_sort(owner);
    for (size_t i = 0; i < owner->field_count; i++) {
        struct land_field *last = count > 0 ? &owner->field[count - 1] : NULL;
        const struct land_field *field = &owner->field[i];
        if (!last || !bytes_eq(last->name, field->name)) {
            owner->field[count++] = *field;
            continue;
        }
        batch->field_count--;
        batch->bytes -= field->value.len;
        seen_join(&last->seen, &field->seen);
        if (field->version > last->version)
            last->version = field->version;
    }
    owner->field_count = count;
}

static enum rc owner_whole(struct lander *lander, struct land_owner *owner, const struct key *key,
                           struct err *err)
{
    struct land_batch *batch = &lander->batch;
    struct dirty_table table = lander__table(lander, key->run);
    struct bytes rest;
    /* Rows of an earlier part would be older than a newer mark, and swept: start over. */
    if (!lander->expanding || lander->expand_version != owner->owner_version)
        buf_cut(&lander->expand_after, 0);
    enum rc rc = owner_expand(lander, owner, key, &rest, err);
    if (rc != RC_OK)
        return rc;
    /* Fields that changed after the mark are in it as they are now. */
    uint64_t commit_lsn = store_commit_lsn(key->ns->kv->store);
    if (commit_lsn > batch->newest)
        batch->newest = commit_lsn;
    owner->sweep = rest.len == 0;
    lander->expanding = !owner->sweep;
    lander->expand_version = owner->owner_version;
    buf_cut(&lander->expand_after, 0);
    if (!buf_add_bytes(&lander->expand_after, rest))
        return err_set(err, RC_NOMEM, "could not allocate memory for a field's name");
    fields_merge(batch, owner);
    /* The sweep gives every row of the owner this version at least: landed again, after a kill,
     * none of them must be older than that. */
    for (size_t i = 0; i < owner->field_count; i++)
        if (owner->field[i].version < owner->owner_version)
            owner->field[i].version = owner->owner_version;
    if (!owner->sweep)
        return RC_OK;
    rc = dirty_version(&table, DIRTY_ERROR, owner->seen.entry, &owner->seen.error, err);
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

/* Everything that is marked of one owner, with its values. */
static enum rc owner_read(struct lander *lander, const struct run *run,
                          const struct land_entry *parts, struct bytes owner_part, struct err *err)
{
    struct land_batch *batch = &lander->batch;
    struct land_owner *owner = land_batch_owner(batch);
    struct key key;
    CLEANUP(buf_done) struct buf name;
    buf_init(&name, KEY_BYTES_MAX);
    owner->address = parts->address;
    owner->address.spec = lander->rule->spec;
    owner->table = lander->table;
    owner->time_ms = (int64_t)run->now_ms;
    if (!address_key_add(&owner->address, &name))
        return err_set(err, RC_NOMEM, "could not allocate memory for a key");
    owner->key = arena_copy(&batch->arena, buf_bytes(&name));
    enum rc rc = address_of(lander->rule->spec, owner->key, &owner->address, err);
    if (rc == RC_OK)
        rc = landing__key_find(run, owner->key, &key, err);
    if (rc != RC_OK)
        return rc;
    owner->exists = key.exists && key.meta.type == TYPE_HASH;
    rc = marks_read(lander, run, owner, DIRTY_SAVING, owner_part, err);
    if (rc == RC_OK)
        rc = marks_read(lander, run, owner, DIRTY_MARKED, owner_part, err);
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
        for (size_t i = 0; i < owner->field_count; i++)
            batch->bytes -= owner->field[i].value.len;
        mem_free(owner->field);
    }
}

struct read_state { /* of one step */
    const struct run *run;
    struct buf owner_part; /* entries that begin like this have been looked at */
    bool has_owner;
    bool cold;
    size_t before; /* fields in the batch when the step began */
};

/* The table grows while it is walked, and a writer who is faster than the database must not keep
 * the walk from its end. But a mark that is newer than the pass may stand for an older change of
 * the same field, which the pass has to land. So newer ones are taken, as many as there were marks
 * when the walk began and some; the others wait for the next pass. */
static bool is_too_new(struct lander *lander, struct bytes value)
{
    bool removed;
    uint64_t version;
    if (lander->source != DIRTY_MARKED || !dirty_mark_parse(value, &removed, &version) ||
        version <= lander->pass_lsn)
        return false;
    if (lander->newer_left == 0)
        return true;
    lander->newer_left--;
    return false;
}

/* Another rule's entry, or one that is too new for this pass. */
static bool is_skipped(struct lander *lander, const struct run *run, struct bytes entry,
                       struct bytes value, struct land_entry *ret_parts)
{
    if (!land_rule_has_entry(lander->rule, run, entry, ret_parts)) {
        lander->table_too = lander->table_too || lander->source == DIRTY_SAVING;
        return true;
    }
    return is_too_new(lander, value);
}

static enum rc entry_read(struct lander *lander, struct read_state *state, struct bytes entry,
                          struct bytes value, struct err *err)
{
    struct land_entry parts;
    if (is_skipped(lander, state->run, entry, value, &parts)) {
        lander->expanding =
            false; /* what was being expanded has changed, and waits with its mark */
        return RC_OK;
    }
    struct bytes owner_part = entry_owner_part(entry, lander->rule->spec->shape);
    buf_cut(&state->owner_part, 0);
    if (!buf_add_bytes(&state->owner_part, owner_part))
        return err_set(err, RC_NOMEM, "could not allocate memory for an entry");
    state->has_owner = true;
    size_t owners = lander->batch.owner_count;
    enum rc rc = owner_read(lander, state->run, &parts, buf_bytes(&state->owner_part), err);
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
    CLEANUP(store_walk_done) struct store_walk walk = {0};
    struct dirty_table table = lander__table(lander, state->run);
    struct bytes entry, value;
    struct key key;
    enum rc rc = dirty_open(&table, lander->source, &key, err);
    if (rc != RC_OK)
        return rc;
    if (!key.exists)
        return RC_NOT_FOUND;
    if (cursor->len == 0)
        lander->newer_left = key.meta.count + MANY_MARKS_BATCHES * lander->rule->spec->batch;
    store_walk_init(&walk, state->run->kv->store, key_rows(&key), false);
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

enum rc lander__read(struct lander *lander, const struct run *run, struct err *err)
{
    CLEANUP(buf_done) struct buf cursor;
    struct read_state state = {.run = run, .before = lander->batch.field_count};
    size_t owners = lander->batch.owner_count;
    bool expanding = lander->expanding;
    uint64_t newer_left = lander->newer_left;
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
        lander->newer_left = newer_left;
        return rc;
    }
    lander->at_end = rc == RC_NOT_FOUND;
    buf_cut(&lander->cursor, 0);
    if (!buf_add_bytes(&lander->cursor, buf_bytes(&cursor)))
        return err_set(err, RC_NOMEM, "could not allocate memory for an entry");
    if (!lander->at_end && !batch_is_full(lander))
        return RC_WAIT; /* the batch goes on in the next turn */
    return lander__step_to(lander, lander->batch.owner_count > 0 ? LANDER_DURABLE : LANDER_NOTE);
}
