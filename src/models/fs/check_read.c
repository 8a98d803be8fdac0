// SPDX-License-Identifier: Apache-2.0
/* check_read.c - all rows of a view, read once in order of keys; twice if they do not fit. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/mem.h"
#include "models/fs/check_int.h"
#include "store/engine/sys.h"
#include "types/spaces.h"

#include "base/banned.h"

struct sum { /* over hashes of (parent, name, id); in any order */
    uint64_t low, high;
};

enum way { WAY_UNKNOWN, WAY_OPEN, WAY_ROOT }; /* of a directory to the root */

struct dir {
    uint64_t id, parent;
    enum way way;
};

struct reading { /* in progress */
    struct fs_reading *to;
    struct fs_source *source;
    const _Atomic bool *stopped;
    unsigned owners, groups; /* names in the dictionaries */
    struct dir *dir;         /* in order of ids */
    size_t dir_count, dir_cap;
    struct sum inodes, edges;
    uint64_t next_id, id_max; /* what the row says, 0: it says nothing; the highest of inodes */
    bool next_id_damaged, has_far;
    uint64_t below; /* the parent of the last edge, and whether it is a directory */
    bool below_is_dir;
};

void fs__reading_init(struct fs_reading *reading)
{
    *reading = (struct fs_reading){.kind_last = FS_FOUND_ROW};
    arena_init(&reading->arena);
}

void fs__reading_done(struct fs_reading *reading)
{
    mem_free(reading->finding);
    arena_done(&reading->arena);
}

/* ---- findings ---- */

static void example_add(struct fs_check_result *seen, const struct fs_finding *finding,
                        const char *why)
{
    if (seen->example_count == FS_CHECK_EXAMPLES_MAX)
        return;
    char *to = seen->example[seen->example_count++];
    int len = (int)(finding->name.len < 60 ? finding->name.len : 60);
    if (finding->name.len > 0)
        snprintf(to, sizeof seen->example[0], "edge %" PRIu64 " \"%.*s\": %s", finding->id, len,
                 (const char *)finding->name.ptr, why);
    else
        snprintf(to, sizeof seen->example[0], "inode %" PRIu64 ": %s", finding->id, why);
}

static void found(struct reading *reading, enum fs_finding_kind kind, uint64_t id,
                  struct bytes name, const char *why)
{
    struct fs_reading *to = reading->to;
    struct fs_finding finding = {.kind = kind, .id = id, .name = name};
    to->problem_count++;
    example_add(&to->seen, &finding, why);
    if (kind == FS_FOUND_ROW)
        return;
    if (to->kept_count[kind] == FS_CHECK_FINDINGS_MAX) {
        to->kind_last = kind < to->kind_last ? kind : to->kind_last;
        return;
    }
    to->kept_count[kind]++;
    if (to->finding_count == to->finding_cap) {
        to->finding_cap = to->finding_cap ? 2 * to->finding_cap : 16;
        to->finding = mem_realloc(to->finding, to->finding_cap * sizeof *to->finding);
    }
    finding.name = arena_copy(&to->arena, name);
    to->finding[to->finding_count++] = finding;
}

/* A kind is healed only if all of those before it are: an inode without a readable entry is given
 * up only when it is known that no edge leads to it. */
static void findings_cut(struct fs_reading *to)
{
    while (to->finding_count > 0 && to->finding[to->finding_count - 1].kind > to->kind_last)
        to->finding_count--;
}

static int finding_order(const void *one, const void *other)
{
    const struct fs_finding *a = one, *b = other;
    return ((int)a->kind > (int)b->kind) - ((int)a->kind < (int)b->kind);
}

/* ---- rows in order ---- */

typedef enum rc row_fn(struct reading *reading, struct bytes key, struct bytes value,
                       struct err *err);

static enum rc rows_read(struct reading *reading, uint8_t space, row_fn *fn, struct err *err)
{
    struct fs_source *source = reading->source;
    const struct engine_ops *ops = source->engine->ops;
    uint8_t from = space, to = (uint8_t)(space + 1);
    struct engine_range range = {
        .lower = bytes_of(&from, 1), .upper = bytes_of(&to, 1), .once = true};
    struct engine_iter *iter;
    struct bytes key, value;
    enum rc rc = ops->iter_open(source->engine, source->view, &range, &iter, err);
    if (rc != RC_OK)
        return rc;
    while (rc == RC_OK && (rc = ops->iter_next(iter, &key, &value, err)) == RC_OK) {
        if (atomic_load(reading->stopped))
            rc = err_set(err, RC_TIMEOUT, "the client has gone");
        else
            rc = fn(reading, bytes_from(key, 1), value, err);
    }
    ops->iter_close(iter);
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

static void sum_add(struct sum *sum, uint64_t parent, struct bytes name, uint64_t id)
{
    enum { IDS_BYTES = 2 * FS_ID_BYTES };
    uint8_t bytes[IDS_BYTES + FS_NAME_BYTES_MAX];
    be64_put(bytes, parent);
    be64_put(bytes + FS_ID_BYTES, id);
    size_t len = name.len < FS_NAME_BYTES_MAX ? name.len : FS_NAME_BYTES_MAX;
    memcpy(bytes + IDS_BYTES, name.ptr, len);
    XXH128_hash_t hash = XXH3_128bits(bytes, IDS_BYTES + len);
    sum->low += hash.low64;
    sum->high += hash.high64;
}

/* Where the edge of an inode has to be. */
static struct bytes edge_name(const struct fs_entry *entry, const struct fs_key *key)
{
    return entry->parent == FS_ID_GRAVEYARD ? bytes_of(key->bytes, FS_ID_BYTES) : entry->name;
}

/* ---- inodes ---- */

static void special_read(struct reading *reading, uint64_t key, struct bytes value)
{
    struct fs_dict dict;
    struct err why;
    if (key == FS_KEY_NEXT_ID) {
        reading->next_id_damaged = reading->next_id == 0;
    } else if (key == FS_KEY_OWNERS || key == FS_KEY_GROUPS) {
        if (fs_dict_open(value, &dict, &why) != RC_OK)
            found(reading, FS_FOUND_DICTIONARY, key, BYTES(""), why.text);
    } else {
        found(reading, FS_FOUND_ROW, key, BYTES(""), "no such row can be");
    }
}

static void dir_add(struct reading *reading, uint64_t id, uint64_t parent)
{
    if (reading->dir_count == reading->dir_cap) {
        reading->dir_cap = reading->dir_cap ? 2 * reading->dir_cap : 1024;
        reading->dir = mem_realloc(reading->dir, reading->dir_cap * sizeof *reading->dir);
    }
    reading->dir[reading->dir_count++] = (struct dir){.id = id, .parent = parent};
}

/* Ids come in order. One far above next_id, and above all others, is not believed: next_id would
 * follow it, and leave no ids to give. */
static bool is_far(struct reading *reading, uint64_t id)
{
    uint64_t known = reading->id_max > reading->next_id ? reading->id_max : reading->next_id;
    if (id >= FS_ID_GAP && id - FS_ID_GAP > known) {
        reading->has_far = true;
        return true;
    }
    reading->id_max = id;
    return false;
}

static enum rc inode_read(struct reading *reading, struct bytes key, struct bytes value,
                          struct err *err)
{
    struct fs_check_result *seen = &reading->to->seen;
    struct fs_entry entry;
    struct err why;
    (void)err;
    if (key.len != FS_ID_BYTES) {
        found(reading, FS_FOUND_ROW, 0, BYTES(""), "a key of another length");
        return RC_OK;
    }
    uint64_t id = be64_get(key.ptr);
    struct fs_key name = fs__key(id);
    if (id == 0 || id >= FS_ID_END) {
        special_read(reading, id, value);
        return RC_OK;
    }
    seen->inodes++;
    bool far = is_far(reading, id);
    if (fs_entry_decode(value, &entry, &why) != RC_OK) {
        found(reading, FS_FOUND_INODE, id, BYTES(""), why.text);
        return RC_OK;
    }
    if (far)
        found(reading, FS_FOUND_FAR, id, BYTES(""), "its id is far above those that were given");
    if (entry.owner > reading->owners || entry.group > reading->groups)
        found(reading, FS_FOUND_INODE, id, BYTES(""), "an owner or a group that is not known");
    if (id == FS_ID_ROOT) {
        if (!fs_entry_is_dir(&entry) || entry.parent != 0 || entry.name.len > 0)
            found(reading, FS_FOUND_INODE, id, BYTES(""), "the root is no root");
        return RC_OK;
    }
    if (fs_entry_is_dir(&entry))
        dir_add(reading, id, entry.parent);
    seen->dirs += fs_entry_is_dir(&entry);
    seen->files += !fs_entry_is_dir(&entry);
    seen->bytes += entry.size < INT64_MAX - seen->bytes ? entry.size : INT64_MAX - seen->bytes;
    sum_add(&reading->inodes, entry.parent, edge_name(&entry, &name), id);
    return RC_OK;
}

/* The other direction, only if the sums differ. */
static enum rc inode_match(struct reading *reading, struct bytes key, struct bytes value,
                           struct err *err)
{
    struct fs_entry entry;
    struct err why;
    uint64_t id = key.len == FS_ID_BYTES ? be64_get(key.ptr) : 0, child;
    struct fs_key name = fs__key(id);
    if (id <= FS_ID_ROOT || id >= FS_ID_END || fs_entry_decode(value, &entry, &why) != RC_OK)
        return RC_OK;
    enum rc rc =
        fs_source_edge(reading->source, entry.parent, edge_name(&entry, &name), &child, err);
    if (rc == RC_NOT_FOUND || rc == RC_REPLY || (rc == RC_OK && child != id))
        found(reading, FS_FOUND_INODE, id, BYTES(""), "no edge leads to it");
    else if (rc != RC_OK)
        return rc;
    return RC_OK;
}

/* ---- edges ---- */

static struct dir *dir_find(const struct reading *reading, uint64_t id)
{
    size_t from = 0, to = reading->dir_count;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (reading->dir[middle].id < id)
            from = middle + 1;
        else
            to = middle;
    }
    return from < reading->dir_count && reading->dir[from].id == id ? &reading->dir[from] : NULL;
}

static bool edge_name_is_good(uint64_t parent, struct bytes name, uint64_t child)
{
    struct fs_key key = fs__key(child);
    struct err why;
    if (parent == FS_ID_GRAVEYARD)
        return bytes_eq(name, bytes_of(key.bytes, FS_ID_BYTES));
    return fs_name_check(name, &why) == RC_OK;
}

static enum rc edge_read(struct reading *reading, struct bytes key, struct bytes value,
                         struct err *err)
{
    struct err why;
    uint64_t child;
    (void)err;
    if (key.len <= FS_ID_BYTES) {
        found(reading, FS_FOUND_ROW, 0, BYTES(""), "an edge without a name");
        return RC_OK;
    }
    uint64_t parent = be64_get(key.ptr);
    struct bytes name = bytes_from(key, FS_ID_BYTES);
    if (parent == FS_KEY_MOUNTS) {
        reading->to->seen.mounts++;
        return RC_OK;
    }
    reading->to->seen.edges++;
    reading->to->seen.graves += parent == FS_ID_GRAVEYARD;
    if (parent != reading->below) {
        reading->below = parent;
        reading->below_is_dir =
            parent == FS_ID_ROOT || parent == FS_ID_GRAVEYARD || dir_find(reading, parent) != NULL;
    }
    if (fs_edge_decode(value, &child, &why) != RC_OK) {
        found(reading, FS_FOUND_EDGE, parent, name, why.text);
        return RC_OK;
    }
    if (!edge_name_is_good(parent, name, child))
        found(reading, FS_FOUND_EDGE, parent, name, "a name that can not be");
    if (!reading->below_is_dir)
        found(reading, FS_FOUND_BELOW, parent, name, "what it is in is no directory");
    sum_add(&reading->edges, parent, name, child);
    return RC_OK;
}

static enum rc edge_match(struct reading *reading, struct bytes key, struct bytes value,
                          struct err *err)
{
    struct fs_entry entry;
    struct err why;
    uint64_t child, parent = key.len > FS_ID_BYTES ? be64_get(key.ptr) : FS_KEY_MOUNTS;
    if (parent == FS_KEY_MOUNTS || fs_edge_decode(value, &child, &why) != RC_OK)
        return RC_OK;
    struct bytes name = bytes_from(key, FS_ID_BYTES);
    struct fs_key own = fs__key(child);
    enum rc rc = fs_source_entry(reading->source, child, &entry, err);
    if (rc == RC_NOT_FOUND)
        found(reading, FS_FOUND_EDGE, parent, name, "it leads to no inode");
    else if (rc == RC_REPLY)
        found(reading, FS_FOUND_EDGE, parent, name, "it leads to an inode that is damaged");
    else if (rc != RC_OK)
        return rc;
    else if (entry.parent != parent || !bytes_eq(edge_name(&entry, &own), name))
        found(reading, FS_FOUND_EDGE, parent, name, "its inode stands elsewhere");
    return RC_OK;
}

/* ---- circles ---- */

static void circles_find(struct reading *reading)
{
    for (size_t i = 0; i < reading->dir_count; i++) {
        struct dir *dir = &reading->dir[i];
        while (dir && dir->way == WAY_UNKNOWN) {
            dir->way = WAY_OPEN;
            dir = dir_find(reading, dir->parent);
        }
        if (dir && dir->way == WAY_OPEN)
            found(reading, FS_FOUND_CIRCLE, dir->id, BYTES(""), "it is in a circle of directories");
        dir = &reading->dir[i];
        while (dir && dir->way == WAY_OPEN) {
            dir->way = WAY_ROOT;
            dir = dir_find(reading, dir->parent);
        }
    }
}

/* ---- all of it ---- */

/* A row of the space of inodes that is none, into source->value; empty if it is not there. */
static enum rc special_get(struct fs_source *source, uint64_t which, struct err *err)
{
    struct fs_key key = fs__key(which);
    source->key.len = source->value.len = 0;
    if (!space_key_add(source->spaces, SPACE_INODE, bytes_of(key.bytes, FS_ID_BYTES), BYTES(""),
                       &source->key))
        return err_set(err, RC_NOMEM, "could not allocate memory for a key");
    enum rc rc = source->engine->ops->get(source->engine, source->view, buf_bytes(&source->key),
                                          ENGINE_TIER_ALL, &source->value, err);
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

static enum rc dict_count(struct reading *reading, uint64_t which, unsigned *ret_count,
                          struct err *err)
{
    struct fs_dict dict = {0};
    struct err why;
    enum rc rc = special_get(reading->source, which, err);
    if (rc == RC_OK && fs_dict_open(buf_bytes(&reading->source->value), &dict, &why) != RC_OK)
        dict.count = FS_DICT_NAMES_MAX; /* a finding of its own */
    *ret_count = dict.count;
    return rc;
}

static enum rc next_id_look(struct reading *reading, struct err *err)
{
    struct err why;
    enum rc rc = special_get(reading->source, FS_KEY_NEXT_ID, err);
    if (rc == RC_OK &&
        fs_next_id_decode(buf_bytes(&reading->source->value), &reading->next_id, &why) != RC_OK)
        reading->next_id = 0;
    return rc;
}

/* The row is behind the ids that are used, or is not there. */
static bool next_id_is_wrong(const struct reading *reading)
{
    if (reading->next_id > 0)
        return reading->next_id <= reading->id_max;
    return reading->next_id_damaged || reading->has_far || reading->id_max >= FS_ID_FIRST;
}

static bool sums_differ(const struct reading *reading)
{
    return reading->inodes.low != reading->edges.low || reading->inodes.high != reading->edges.high;
}

/* Counters of the view, which are those of the same moment as its rows. */
static enum rc counter_read(struct bytes name, int64_t value, void *arg, struct err *err)
{
    struct fs_counts *counts = arg;
    (void)err;
    if (bytes_eq(name, BYTES(FS_COUNTER_FILES)))
        counts->files = value;
    else if (bytes_eq(name, BYTES(FS_COUNTER_DIRS)))
        counts->dirs = value;
    else if (bytes_eq(name, BYTES(FS_COUNTER_BYTES)))
        counts->bytes = value;
    else if (bytes_eq(name, BYTES(FS_COUNTER_GRAVES)))
        counts->graves = value;
    return RC_OK;
}

static enum rc all_read(struct reading *reading, struct err *err)
{
    const struct fs_source *source = reading->source;
    enum rc rc =
        sys_counters_walk(source->engine, source->view, counter_read, &reading->to->counts, err);
    if (rc == RC_OK)
        rc = dict_count(reading, FS_KEY_OWNERS, &reading->owners, err);
    if (rc == RC_OK)
        rc = dict_count(reading, FS_KEY_GROUPS, &reading->groups, err);
    if (rc == RC_OK)
        rc = next_id_look(reading, err);
    if (rc == RC_OK)
        rc = rows_read(reading, SPACE_INODE, inode_read, err);
    if (rc == RC_OK)
        rc = rows_read(reading, SPACE_EDGE, edge_read, err);
    if (rc == RC_OK && (sums_differ(reading) || reading->to->problem_count > 0)) {
        rc = rows_read(reading, SPACE_EDGE, edge_match, err);
        if (rc == RC_OK)
            rc = rows_read(reading, SPACE_INODE, inode_match, err);
    }
    if (rc != RC_OK)
        return rc;
    circles_find(reading);
    if (next_id_is_wrong(reading))
        found(reading, FS_FOUND_NEXT_ID, reading->id_max + 1, BYTES(""), "ids would be used twice");
    return RC_OK;
}

enum rc fs__check_read(struct fs_source *source, const _Atomic bool *stopped, struct fs_reading *to,
                       struct err *err)
{
    struct reading reading = {
        .to = to, .source = source, .stopped = stopped, .below = FS_KEY_NEXT_ID};
    enum rc rc = all_read(&reading, err);
    if (to->finding_count > 1)
        qsort(to->finding, to->finding_count, sizeof *to->finding, finding_order);
    findings_cut(to);
    mem_free(reading.dir);
    return rc;
}
