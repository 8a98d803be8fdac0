// SPDX-License-Identifier: Apache-2.0
/* store.c - rows of the open commit: get, put, delete, groups, prefixes, counters. */
#include "store/rows/store_int.h"

#include "base/codec.h"
#include "base/macros.h"
#include "base/mem.h"

#include "base/banned.h"

enum { ROW_REWRITE_BYTES_MAX = 512 };

uint8_t store__space(const struct store *store, uint32_t prefix)
{
    return store->hot.prefix[prefix].space;
}

static const struct store_space *space_of(const struct store *store, uint32_t prefix)
{
    return &store->catalog.spaces.space[store__space(store, prefix)];
}

static uint32_t slot_of(const struct store *store, uint32_t prefix)
{
    ASSERT(prefix < store->hot.prefix_count);
    return store->hot.prefix[prefix].slot;
}

/* ---- arguments ---- */

/* What is wrong with a group key or a suffix. */
static enum rc group_error(const struct store *store, struct store_group group, struct bytes suffix,
                           struct err *err)
{
    const struct store_space *space = space_of(store, group.prefix);
    size_t len = store->hot.prefix[group.prefix].bytes.len + group.key.len;
    if (group.key.len > STORE_GROUP_KEY_BYTES_MAX)
        return err_set(err, RC_TOO_BIG, "a key of %zu bytes is over the limit of %d", group.key.len,
                       STORE_GROUP_KEY_BYTES_MAX);
    if (suffix.len > STORE_SUFFIX_BYTES_MAX)
        return err_set(err, RC_TOO_BIG, "an element of %zu bytes is over the limit of %d",
                       suffix.len, STORE_SUFFIX_BYTES_MAX);
    if (space->kind == SPACE_WHOLE)
        return err_set(err, RC_INVALID, "rows of space \"%s\" have no suffix", space->name);
    if (space->kind == SPACE_FIXED)
        return err_set(err, RC_INVALID, "a group key of space \"%s\" has %u bytes, not %zu",
                       space->name, space->fixed_bytes, len);
    return err_set(err, RC_TOO_BIG, "a group key of space \"%s\" has %zu bytes, over %d",
                   space->name, len, STORE_LENGTH_KEY_BYTES_MAX);
}

static inline enum rc group_check(const struct store *store, struct store_group group,
                                  struct bytes suffix, struct err *err)
{
    ASSERT(group.prefix < store->hot.prefix_count);
    const struct hot_prefix *prefix = &store->hot.prefix[group.prefix];
    if (LIKELY(group.key.len >= prefix->key_len_min && group.key.len <= prefix->key_len_max &&
               suffix.len <= prefix->suffix_len_max))
        return RC_OK;
    return group_error(store, group, suffix, err);
}

/* Whether the open commit can take changes at all. */
static enum rc commit_check(const struct store *store, struct err *err)
{
    ASSERT(store->open);
    if (UNLIKELY(store->begin_failed))
        return store->refused != RC_OK
                   ? err_set(err, store->refused, "%s", store->refused_err.text)
                   : err_set(err, RC_NOMEM, "could not allocate memory for a commit");
    if (journal_read_only(store->journal))
        return err_set(err, RC_READONLY, "%s", rc_text(RC_READONLY));
    return RC_OK;
}

static enum rc change_check(const struct store *store, struct store_group group,
                            struct bytes suffix, bool deletes, struct err *err)
{
    enum rc rc = commit_check(store, err);
    if (rc != RC_OK)
        return rc;
    if (deletes || store->begin_flags & STORE_DELETES) {
        if (UNLIKELY(store->no_room != RC_OK) && store__deletes_over(store))
            return err_set(err, store->no_room, "%s", store->no_room_to_delete_err.text);
        return group_check(store, group, suffix, err);
    }
    if (journal_disk_low(store->journal))
        return err_set(err, RC_FULL, "%s", rc_text(RC_FULL));
    if (UNLIKELY(store->no_room != RC_OK))
        return err_set(err, store->no_room, "%s", store->no_room_err.text);
    return group_check(store, group, suffix, err);
}

/* ---- cold things ---- */

static bool want_copy(struct store *store, struct bytes bytes, struct bytes *ret_copy)
{
    uint8_t *copy = arena_try_alloc(&store->want_arena, bytes.len);
    if (copy && bytes.len)
        memcpy(copy, bytes.ptr, bytes.len);
    *ret_copy = bytes_of(copy, bytes.len);
    return copy != NULL;
}

enum rc store__cold(struct store *store, struct store_group group, struct bytes suffix,
                    enum store_want_kind kind, uint64_t row_count, struct err *err)
{
    struct store_want_row want = {.kind = kind, .prefix = group.prefix, .row_count = row_count};
    if (!want_copy(store, group.key, &want.key) || !want_copy(store, suffix, &want.suffix))
        return err_set(err, RC_NOMEM, "could not allocate memory to ask for a cold row");
    if (store->want_count == store->want_cap) {
        store->want_cap = store->want_cap ? store->want_cap * 2 : 16;
        store->want = mem_realloc(store->want, store->want_cap * sizeof *store->want);
    }
    store->want[store->want_count++] = want;
    return RC_COLD;
}

bool store__cold_injected(struct store *store)
{
    if (LIKELY(store->cold_inject == 0))
        return false;
    if (--store->cold_inject > 0)
        return false;
    store->cold_injected_count++;
    return true;
}

/* ---- groups ---- */

struct hot_group *store__group(struct store *store, uint32_t prefix, struct bytes key)
{
    uint32_t slot = slot_of(store, prefix);
    struct hot_group *group = hot_group_get(&store->hot, slot, key);
    if (!group)
        group = hot_group_add(&store->hot, slot, key, hot_hash(&store->hot, slot, key),
                              store->hot.slot[slot].complete);
    return group;
}

enum rc store__group_find(struct store *store, struct store_group group,
                          struct hot_group **ret_group)
{
    uint32_t slot = slot_of(store, group.prefix);
    *ret_group = hot_group_get(&store->hot, slot, group.key);
    if (!*ret_group && !store->hot.slot[slot].complete)
        return RC_COLD;
    return RC_OK;
}

struct store_group_state store_group_state(struct store *store, struct store_group group)
{
    struct hot_group *found;
    if (store__group_find(store, group, &found) == RC_COLD)
        return (struct store_group_state){0};
    if (!found)
        return (struct store_group_state){.complete = true};
    return (struct store_group_state){.known = true,
                                      .complete = tree_complete(&found->tree),
                                      .row_count = tree_live(&found->tree)};
}

/* ---- reading ---- */

enum rc store__unpack(struct store *store, struct store_group group, struct bytes suffix,
                      struct bytes packed, struct bytes *ret_value, struct err *err)
{
    if (!space_unpack(space_of(store, group.prefix), group.key, suffix, packed, &store->value,
                      ret_value))
        return err_set(err, RC_NOMEM, "could not allocate memory for a value");
    return RC_OK;
}

/* The form that is in the hot tier. */
static enum rc value_pack(struct store *store, uint32_t prefix, struct bytes key,
                          struct bytes suffix, struct bytes value, struct bytes *ret_packed,
                          struct err *err)
{
    if (!space_pack(space_of(store, prefix), key, suffix, value, &store->pack, ret_packed))
        return err_set(err, RC_NOMEM, "could not allocate memory for a value");
    return RC_OK;
}

/* A key that is not in the table of an incomplete prefix: the engine may know without a disk. */
static enum rc row_probe(struct store *store, struct store_group group, struct hot_row **ret_row,
                         struct err *err)
{
    const struct hot_prefix *prefix = &store->hot.prefix[group.prefix];
    if (store->options.always_cold)
        return store__cold(store, group, bytes_of("", 0), STORE_WANT_ROW, 0, err);
    store->key.len = 0;
    store->value.len = 0;
    uint8_t space = prefix->space;
    if (!buf_add(&store->key, &space, 1) || !buf_add_bytes(&store->key, prefix->bytes) ||
        !buf_add_bytes(&store->key, group.key))
        return err_set(err, RC_NOMEM, "could not allocate memory for a key");
    enum rc rc = store->engine->ops->get(store->engine, NULL, buf_bytes(&store->key),
                                         ENGINE_TIER_MEMORY, &store->value, err);
    if (rc == RC_NOT_FOUND)
        return rc;
    if (rc != RC_OK) /* not in the engine's memory, or an error the loader will meet again */
        return store__cold(store, group, bytes_of("", 0), STORE_WANT_ROW, 0, err);
    struct bytes packed;
    rc = value_pack(store, group.prefix, group.key, bytes_of("", 0), buf_bytes(&store->value),
                    &packed, err);
    if (rc != RC_OK)
        return rc;
    *ret_row = hot_row_new(prefix->slot, group.key, packed, false, 0);
    if (!*ret_row)
        return err_set(err, RC_NOMEM, "could not allocate memory for a row");
    hot_row_swap(&store->hot, *ret_row, hot_hash(&store->hot, prefix->slot, group.key));
    return RC_OK;
}

static enum rc row_get(struct store *store, struct store_group group, struct bytes *ret_packed,
                       struct err *err)
{
    uint32_t slot = slot_of(store, group.prefix);
    struct hot_row *row = hot_row_get(&store->hot, slot, group.key);
    if (!row) {
        if (store->hot.slot[slot].complete)
            return RC_NOT_FOUND;
        enum rc rc = row_probe(store, group, &row, err);
        if (rc != RC_OK)
            return rc;
    }
    if (!(row->value_bits & HOT_ROW_REF))
        row->value_bits |= HOT_ROW_REF;
    if (row->value_bits & HOT_ROW_TOMB)
        return RC_NOT_FOUND;
    *ret_packed = hot_row_value(row);
    return RC_OK;
}

/* Names the row of the cursor: its position is where the search for this row ends. */
static void cursor_name(struct store *store, struct hot_group *group, struct bytes suffix)
{
    store->cursor.group = group;
    store->cursor.change = store->change_count;
    store->cursor.has_suffix = suffix.len <= STORE_CURSOR_BYTES;
    if (store->cursor.has_suffix) {
        store->cursor.suffix_len = suffix.len;
        if (suffix.len > 0)
            memcpy(store->cursor.suffix, suffix.ptr, suffix.len);
    }
}

/* Seeks by the path hint of this row, if there is one that is still good. */
static bool path_hint_seek(struct store *store, const struct hot_group *group, struct bytes suffix,
                           struct tree_pos *pos)
{
    uint32_t end = store->path_hints.next + STORE_PATH_HINT_LOOKS;
    if (store->path_hints.shape != store->shape_count)
        return false;
    for (uint32_t i = store->path_hints.next; i < store->path_hints.count && i < end; i++) {
        const struct store_path_hint *hint = &store->path_hints.hint[i];
        if (hint->group != group || hint->suffix_len != suffix.len ||
            !bytes_eq(bytes_of(hint->suffix, suffix.len), suffix))
            continue;
        store->path_hints.next = i + 1;
        if (!group->tree.root)
            return false;
        tree_seek_path(&group->tree, suffix, hint->path, hint->known, hint->slot, pos);
        return true;
    }
    return false;
}

/* Sets the cursor to where a search for this row ends. */
static struct tree_pos *row_seek(struct store *store, struct hot_group *group, struct bytes suffix)
{
    struct tree_pos *pos = &store->cursor.pos;
    bool good = store->cursor.group == group && store->cursor.change == store->change_count;
    const struct block *before = good ? pos->block : NULL;
    if (!before || !store->cursor.near || !tree_seek_near(&group->tree, suffix, pos)) {
        if (!path_hint_seek(store, group, suffix, pos))
            tree_seek(&group->tree, suffix, pos);
        store->cursor.near = before && before == pos->block;
    }
    cursor_name(store, group, suffix);
    return pos;
}

void store__cursor_set(struct store *store, struct hot_group *group, const struct tree_pos *pos,
                       struct bytes suffix)
{
    memcpy(store->cursor.pos.path, pos->path, group->tree.height * sizeof pos->path[0]);
    store->cursor.pos.block = pos->block;
    store->cursor.pos.index = pos->index;
    store->cursor.pos.exact = true;
    store->cursor.near = false;
    cursor_name(store, group, suffix);
}

/* A tree was changed at the cursor: of all positions it alone is still good, for what is near. */
static void cursor_changed(struct store *store)
{
    store->cursor.change = ++store->change_count;
    store->cursor.has_suffix = false;
    store->shape_count += store->cursor.group->tree.reshaped;
    store->cursor.group->tree.reshaped = false;
}

/* The cursor's position, if it is of this very row and nothing has changed since. */
static struct tree_pos *cursor_find(struct store *store, struct store_group group,
                                    struct bytes suffix)
{
    const struct hot_group *found = store->cursor.group;
    if (!found || store->cursor.change != store->change_count || !store->cursor.has_suffix ||
        !bytes_eq(bytes_of(store->cursor.suffix, store->cursor.suffix_len), suffix) ||
        hot_head_slot(&found->head) != slot_of(store, group.prefix) ||
        !bytes_eq(hot_group_key(found), group.key))
        return NULL;
    return &store->cursor.pos;
}

/* A row of a group. *ret_pos: where it is or would be; NULL: there is no group yet. */
static enum rc tree_get(struct store *store, struct store_group group, struct bytes suffix,
                        struct bytes *ret_packed, struct tree_pos **ret_pos, struct err *err)
{
    struct hot_group *found;
    *ret_pos = NULL;
    if (store__group_find(store, group, &found) == RC_COLD) {
        store->cold_count++;
        return store__cold(store, group, suffix, STORE_WANT_ROW, 0, err);
    }
    if (!found)
        return RC_NOT_FOUND;
    const struct tree_pos *pos = *ret_pos = row_seek(store, found, suffix);
    if (pos->exact) {
        struct entry entry = block_entry(pos->block, pos->index);
        pos->block->ref = 1;
        if (entry.flags & ENTRY_TOMB)
            return RC_NOT_FOUND;
        *ret_packed = entry.value;
        return RC_OK;
    }
    if (tree_complete(&found->tree))
        return RC_NOT_FOUND;
    struct tree_pos place = *pos;
    tree_to_entry(&found->tree, &place);
    if (!tree_gap(&found->tree, &place))
        return RC_NOT_FOUND;
    store->cold_count++;
    return store__cold(store, group, suffix, STORE_WANT_ROW, 0, err);
}

enum rc store_get(struct store *store, struct store_group group, struct bytes suffix,
                  struct bytes *ret_value, struct err *err)
{
    struct bytes packed;
    enum rc rc = store_get_packed(store, group, suffix, &packed, err);
    if (rc != RC_OK)
        return rc;
    return store__unpack(store, group, suffix, packed, ret_value, err);
}

enum rc store_get_packed(struct store *store, struct store_group group, struct bytes suffix,
                         struct bytes *ret_packed, struct err *err)
{
    enum rc rc = group_check(store, group, suffix, err);
    if (rc != RC_OK)
        return rc;
    if (store__cold_injected(store))
        return RC_COLD;
    if (space_of(store, group.prefix)->kind == SPACE_WHOLE) {
        rc = row_get(store, group, ret_packed, err);
        store->cold_count += rc == RC_COLD;
        return rc;
    }
    struct tree_pos *pos;
    return tree_get(store, group, suffix, ret_packed, &pos, err);
}

/* ---- changing, without a record ---- */

/* Writes into the row that is there, if it was read a moment ago and takes as many bytes: no
 * memory, no search. A longer one is not copied. */
static bool row_rewrite(struct store *store, uint32_t slot, struct bytes key, struct bytes packed)
{
    struct hot_row *row = hot_row_seen(&store->hot, slot, key);
    if (!row || (row->value_bits & (HOT_ROW_LEN | HOT_ROW_TOMB)) != packed.len ||
        packed.len > ROW_REWRITE_BYTES_MAX)
        return false;
    size_t offset = store->keep.len;
    if (!buf_add_bytes(&store->keep, hot_row_value(row)))
        return false;
    hot_row_rewrite(&store->hot, row, packed, store->stamp);
    struct undo *undo = store__undo_add(store, UNDO_ROW_VALUE);
    undo->as.row_value.row = row;
    undo->as.row_value.keep_offset = offset;
    return true;
}

static enum rc row_put_packed(struct store *store, uint32_t prefix, struct bytes key,
                              struct bytes packed, bool tomb, struct err *err)
{
    uint32_t slot = slot_of(store, prefix);
    if (!tomb && row_rewrite(store, slot, key, packed))
        return RC_OK;
    struct hot_row *row = hot_row_new(slot, key, packed, tomb, store->stamp);
    if (!row)
        return err_set(err, RC_NOMEM, "could not allocate %zu bytes for a row",
                       key.len + packed.len);
    struct undo *undo = store__undo_add(store, UNDO_ROW);
    undo->as.row.new = row;
    undo->as.row.old = hot_row_swap(&store->hot, row, hot_hash(&store->hot, slot, key));
    return RC_OK;
}

enum rc store__row_put(struct store *store, uint32_t prefix, struct bytes key, struct bytes value,
                       bool tomb, struct err *err)
{
    struct bytes packed = value;
    enum rc rc = RC_OK;
    if (!tomb)
        rc = value_pack(store, prefix, key, bytes_of("", 0), value, &packed, err);
    return rc == RC_OK ? row_put_packed(store, prefix, key, packed, tomb, err) : rc;
}

static void tree_undo_add(struct store *store, struct hot_group *group, size_t offset,
                          struct bytes suffix, struct tree_old old)
{
    struct undo *undo = store__undo_add(store, UNDO_TREE);
    undo->as.tree.group = group;
    undo->as.tree.suffix_offset = offset;
    undo->as.tree.suffix_len = suffix.len;
    undo->as.tree.old = old;
}

enum rc store__tree_put(struct store *store, uint32_t prefix, struct bytes key, struct bytes suffix,
                        size_t offset, struct bytes value, struct tree_pos *pos, struct err *err)
{
    struct bytes packed;
    enum rc rc = value_pack(store, prefix, key, suffix, value, &packed, err);
    if (rc != RC_OK)
        return rc;
    struct hot_group *group = pos ? store->cursor.group : store__group(store, prefix, key);
    if (!pos)
        pos = row_seek(store, group, suffix);
    struct tree_old old;
    rc = tree_put_at(&group->tree, &store->hot.meter, store->stamp, suffix, packed, pos,
                     &store->keep, &old);
    if (rc != RC_OK)
        return err_set(err, rc, "could not allocate memory for a row of %zu bytes",
                       suffix.len + packed.len);
    cursor_changed(store);
    tree_undo_add(store, group, offset, suffix, old);
    return RC_OK;
}

enum rc store__tree_delete(struct store *store, uint32_t prefix, struct bytes key,
                           struct bytes suffix, size_t offset, struct tree_pos *pos,
                           struct err *err)
{
    struct hot_group *group = pos ? store->cursor.group : store__group(store, prefix, key);
    if (!pos)
        pos = row_seek(store, group, suffix);
    struct tree_old old;
    enum rc rc = tree_delete_at(&group->tree, &store->hot.meter, store->stamp, suffix, pos,
                                &store->keep, &old);
    if (rc == RC_NOMEM)
        return err_set(err, rc, "could not allocate memory for a deleted row");
    if (rc != RC_OK)
        return rc;
    cursor_changed(store);
    if (!group->tree.root) /* no block is left to carry the stamp */
        hot_group_stamp(&store->hot, group, store->stamp);
    tree_undo_add(store, group, offset, suffix, old);
    return RC_OK;
}

uint64_t store_group_changes(const struct store *store)
{
    return store->change_count;
}

void store__group_drop(struct store *store, uint32_t prefix, struct bytes key)
{
    struct hot_group *group = store__group(store, prefix, key);
    struct undo *undo = store__undo_add(store, UNDO_GROUP_DROP);
    undo->as.group_drop.group = group;
    undo->as.group_drop.tree = group->tree;
    tree_init(&group->tree, true);
    hot_group_stamp(&store->hot, group, store->stamp);
    store__trees_changed(store);
}

void store__prefix_drop(struct store *store, uint32_t prefix)
{
    struct undo *undo = store__undo_add(store, UNDO_PREFIX_DROP);
    undo->as.prefix_drop.prefix = prefix;
    undo->as.prefix_drop.slot = hot_prefix_drop(&store->hot, prefix, store->stamp);
    store->prefix_drop_count++;
    store__trees_changed(store);
}

void store__counter_add(struct store *store, uint32_t counter, int64_t delta)
{
    struct undo *undo = store__undo_add(store, UNDO_COUNTER);
    undo->as.counter.counter = counter;
    undo->as.counter.delta = delta;
    store->counter[counter].value += delta;
}

/* ---- changing, with a record ---- */

static enum rc commit_too_big(struct err *err)
{
    return err_set(err, RC_TOO_BIG, "the commit is over its limit of %d bytes, or memory is out",
                   STORE_COMMIT_BYTES_MAX);
}

static enum rc record_change(struct store *store, enum record_kind kind, struct store_group group,
                             struct bytes suffix, struct bytes value,
                             struct record_place *ret_place, struct err *err)
{
    const struct hot_prefix *prefix = &store->hot.prefix[group.prefix];
    *ret_place = record_place(&store->writer);
    if (!record_add(&store->writer, kind, prefix->space, prefix->bytes, group.key, suffix, value,
                    0))
        return commit_too_big(err);
    return RC_OK;
}

static enum rc put_check(const struct store *store, struct store_group group, struct bytes suffix,
                         struct bytes value, struct err *err)
{
    enum rc rc = change_check(store, group, suffix, false, err);
    if (rc == RC_OK && UNLIKELY(value.len > STORE_VALUE_BYTES_MAX))
        return err_set(err, RC_TOO_BIG, "a value of %zu bytes is over the limit of %d", value.len,
                       STORE_VALUE_BYTES_MAX);
    return rc;
}

/* What was checked. pos: of the row, or NULL. */
static enum rc put_at(struct store *store, struct store_group group, struct bytes suffix,
                      struct bytes value, struct tree_pos *pos, struct err *err)
{
    struct record_place mark;
    enum rc rc = record_change(store, RECORD_PUT, group, suffix, value, &mark, err);
    if (rc != RC_OK)
        return rc;
    if (space_of(store, group.prefix)->kind == SPACE_WHOLE) {
        rc = store__row_put(store, group.prefix, group.key, value, false, err);
    } else {
        /* From here on the record's copies: the arguments may be borrowed from the very block that
         * is about to move. */
        const struct buf *body = &store->writer.body;
        size_t offset = body->len - value.len - uvarint_len(value.len) - suffix.len;
        suffix = bytes_of(body->ptr + offset, suffix.len);
        value = bytes_of(body->ptr + body->len - value.len, value.len);
        rc = store__tree_put(store, group.prefix, group.key, suffix, offset, value, pos, err);
    }
    if (rc != RC_OK)
        record_cut(&store->writer, mark);
    return rc;
}

enum rc store_put(struct store *store, struct store_group group, struct bytes suffix,
                  struct bytes value, struct err *err)
{
    enum rc rc = put_check(store, group, suffix, value, err);
    if (rc != RC_OK)
        return rc;
    return put_at(store, group, suffix, value, cursor_find(store, group, suffix), err);
}

enum rc store_put_packed(struct store *store, struct store_group group, struct bytes value,
                         struct bytes packed, struct err *err)
{
    struct record_place mark;
    ASSERT(space_of(store, group.prefix)->kind == SPACE_WHOLE);
    enum rc rc = put_check(store, group, bytes_of("", 0), value, err);
    if (rc == RC_OK)
        rc = record_change(store, RECORD_PUT, group, bytes_of("", 0), value, &mark, err);
    if (rc != RC_OK)
        return rc;
    rc = row_put_packed(store, group.prefix, group.key, packed, false, err);
    if (rc != RC_OK)
        record_cut(&store->writer, mark);
    return rc;
}

enum rc store_put_tell(struct store *store, struct store_group group, struct bytes suffix,
                       struct bytes value, bool *ret_new, struct err *err)
{
    struct bytes packed;
    struct tree_pos *pos;
    ASSERT(space_of(store, group.prefix)->kind != SPACE_WHOLE);
    enum rc rc = put_check(store, group, suffix, value, err);
    if (rc != RC_OK)
        return rc;
    if (store__cold_injected(store))
        return RC_COLD;
    rc = tree_get(store, group, suffix, &packed, &pos, err);
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return rc;
    *ret_new = rc == RC_NOT_FOUND;
    return put_at(store, group, suffix, value, pos, err);
}

static enum rc row_delete(struct store *store, struct store_group group, struct err *err)
{
    uint32_t slot = slot_of(store, group.prefix);
    struct hot_row *row = hot_row_get(&store->hot, slot, group.key);
    if (row ? row->value_bits & HOT_ROW_TOMB : store->hot.slot[slot].complete)
        return RC_NOT_FOUND;
    struct record_place mark;
    enum rc rc =
        record_change(store, RECORD_DELETE, group, bytes_of("", 0), bytes_of("", 0), &mark, err);
    if (rc != RC_OK)
        return rc;
    rc = store__row_put(store, group.prefix, group.key, bytes_of("", 0), true, err);
    if (rc != RC_OK)
        record_cut(&store->writer, mark);
    return rc;
}

enum rc store_delete(struct store *store, struct store_group group, struct bytes suffix,
                     struct err *err)
{
    enum rc rc = change_check(store, group, suffix, true, err);
    if (rc != RC_OK)
        return rc;
    if (space_of(store, group.prefix)->kind == SPACE_WHOLE)
        return row_delete(store, group, err);
    struct hot_group *found;
    struct tree_pos *pos = cursor_find(store, group, suffix);
    if (!pos && store__group_find(store, group, &found) == RC_OK && !found)
        return RC_NOT_FOUND;
    struct record_place mark;
    rc = record_change(store, RECORD_DELETE, group, suffix, bytes_of("", 0), &mark, err);
    if (rc != RC_OK)
        return rc;
    size_t offset = store->writer.body.len - suffix.len;
    suffix = bytes_of(store->writer.body.ptr + offset, suffix.len); /* as in store_put() */
    rc = store__tree_delete(store, group.prefix, group.key, suffix, offset, pos, err);
    if (rc != RC_OK)
        record_cut(&store->writer, mark);
    return rc;
}

enum rc store_group_new(struct store *store, struct store_group group, struct err *err)
{
    enum rc rc = change_check(store, group, bytes_of("", 0), false, err);
    if (rc != RC_OK)
        return rc;
    uint32_t slot = slot_of(store, group.prefix);
    uint64_t hash = hot_hash(&store->hot, slot, group.key);
    if (!hot_group_find(&store->hot, slot, group.key, hash))
        hot_group_add(&store->hot, slot, group.key, hash, true);
    return RC_OK;
}

/* Few rows, all known: point deletes cost the engine less than a range. */
static enum rc group_drop_points(struct store *store, struct store_group group,
                                 const struct hot_group *found, struct err *err)
{
    struct tree_pos pos;
    tree_seek_first(&found->tree, &pos);
    for (bool more = tree_to_entry(&found->tree, &pos); more;
         more = tree_next(&found->tree, &pos)) {
        struct entry entry = block_entry(pos.block, pos.index);
        struct record_place mark;
        if (entry.flags & ENTRY_TOMB)
            continue;
        enum rc rc =
            record_change(store, RECORD_DELETE, group, entry.suffix, bytes_of("", 0), &mark, err);
        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}

enum rc store_group_drop(struct store *store, struct store_group group, struct err *err)
{
    enum rc rc = change_check(store, group, bytes_of("", 0), true, err);
    if (rc != RC_OK)
        return rc;
    if (space_of(store, group.prefix)->kind == SPACE_WHOLE)
        return row_delete(store, group, err);
    struct hot_group *found;
    bool known = store__group_find(store, group, &found) == RC_OK;
    if (known && (!found || (tree_complete(&found->tree) && tree_live(&found->tree) == 0)))
        return RC_NOT_FOUND;
    struct record_place mark = record_place(&store->writer);
    if (known && tree_complete(&found->tree) &&
        tree_live(&found->tree) <= STORE_DROP_POINT_ROWS_MAX) {
        rc = group_drop_points(store, group, found, err);
    } else {
        struct record_place here;
        rc = record_change(store, RECORD_DROP_GROUP, group, bytes_of("", 0), bytes_of("", 0), &here,
                           err);
    }
    if (rc != RC_OK) {
        record_cut(&store->writer, mark);
        return rc;
    }
    store__group_drop(store, group.prefix, group.key);
    return RC_OK;
}

enum rc store_prefix_drop(struct store *store, uint32_t prefix, struct err *err)
{
    enum rc rc = commit_check(store, err);
    if (rc != RC_OK)
        return rc;
    const struct hot_prefix *what = &store->hot.prefix[prefix];
    const struct hot_slot *slot = &store->hot.slot[slot_of(store, prefix)];
    if (slot->complete && slot->entry_count == 0)
        return RC_OK; /* it is known to be empty */
    if (store->prefix_drop_count >= STORE_TURN_PREFIX_DROPS_MAX)
        return err_set(err, RC_TOO_BIG, "over %d prefixes dropped in one turn",
                       STORE_TURN_PREFIX_DROPS_MAX);
    if (!record_add(&store->writer, RECORD_DROP_PREFIX, what->space, what->bytes, bytes_of("", 0),
                    bytes_of("", 0), bytes_of("", 0), 0))
        return commit_too_big(err);
    store__prefix_drop(store, prefix);
    return RC_OK;
}

/* ---- counters ---- */

enum rc store_counter(struct store *store, struct bytes name, uint32_t *ret_counter,
                      struct err *err)
{
    for (size_t i = 0; i < store->counter_count; i++) {
        if (bytes_eq(store->counter[i].name, name)) {
            *ret_counter = (uint32_t)i;
            return RC_OK;
        }
    }
    if (name.len > STORE_COUNTER_NAME_BYTES_MAX || store->counter_count >= STORE_COUNTERS_MAX)
        return err_set(err, RC_TOO_BIG,
                       "a counter's name is over %d bytes, or there are %d counters",
                       STORE_COUNTER_NAME_BYTES_MAX, STORE_COUNTERS_MAX);
    size_t count = store->counter_count + 1;
    store->counter = mem_realloc(store->counter, count * sizeof *store->counter);
    store->changed_counter =
        mem_realloc(store->changed_counter, count * sizeof *store->changed_counter);
    store->counter[count - 1] =
        (struct store_counter){.name = bytes_of(mem_dup(name.ptr, name.len), name.len)};
    store->counter_count = count;
    *ret_counter = (uint32_t)(count - 1);
    return RC_OK;
}

enum rc store_counter_add(struct store *store, uint32_t counter, int64_t delta, struct err *err)
{
    ASSERT(counter < store->counter_count);
    enum rc rc = commit_check(store, err);
    if (rc != RC_OK)
        return rc;
    struct store_counter *what = &store->counter[counter];
    int64_t sum, value;
    if (__builtin_add_overflow(what->value, delta, &value) ||
        __builtin_add_overflow(what->commit_delta, delta, &sum))
        return err_set(err, RC_INVALID, "counter \"%.*s\" would overflow", (int)what->name.len,
                       (const char *)what->name.ptr);
    if (delta == 0)
        return RC_OK;
    bool listed = false;
    for (size_t i = 0; i < store->changed_counter_count; i++)
        listed = listed || store->changed_counter[i] == counter;
    if (!listed && !record_counter_promise(&store->writer, what->name))
        return commit_too_big(err);
    if (!listed)
        store->changed_counter[store->changed_counter_count++] = counter;
    what->value = value;
    what->commit_delta = sum;
    return RC_OK;
}

int64_t store_counter_get(const struct store *store, uint32_t counter)
{
    ASSERT(counter < store->counter_count);
    return store->counter[counter].value;
}

bool store_counter_name(const struct store *store, uint32_t counter, struct bytes *ret_name)
{
    if (counter >= store->counter_count)
        return false;
    *ret_name = store->counter[counter].name;
    return true;
}
