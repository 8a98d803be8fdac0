// SPDX-License-Identifier: Apache-2.0
/* heal.c - REPAIR: a finding of a view is looked at in the rows of now, and what is still wrong is
 * put right. The table of what becomes of what is in the design. Counters are not kept here: the
 * last reading sets them. */
#include <inttypes.h>
#include <stdio.h>

#include "base/mem.h"
#include "models/fs/check_int.h"

#include "base/banned.h"

#define LOST_AND_FOUND "lost+found"

struct heal {
    struct fs *fs;
    uint64_t now_ms;
    bool changed;
    uint64_t far; /* ids from here on were not given by us */
};

enum look { LOOK_GONE, LOOK_DAMAGED, LOOK_GOOD };

/* An entry as it is; only what is not its own fault is an error. */
static enum rc entry_look(struct heal *heal, uint64_t id, enum look *ret_look,
                          struct fs_entry *ret_entry, struct err *err)
{
    struct fs *fs = heal->fs;
    enum rc rc = fs__entry_get(fs, id, ret_entry, err);
    *ret_look = rc == RC_OK ? LOOK_GOOD : rc == RC_NOT_FOUND ? LOOK_GONE : LOOK_DAMAGED;
    if (rc == RC_OK)
        ret_entry->name = arena_copy(&fs->arena, ret_entry->name);
    return rc == RC_NOT_FOUND || rc == RC_REPLY ? RC_OK : rc;
}

static enum rc entry_put(struct heal *heal, uint64_t id, const struct fs_entry *entry,
                         struct err *err)
{
    heal->changed = true;
    return fs__entry_put(heal->fs, id, entry, err);
}

static enum rc edge_put(struct heal *heal, uint64_t parent, struct bytes name, uint64_t id,
                        struct err *err)
{
    heal->changed = true;
    return fs__edge_put(heal->fs, parent, name, id, err);
}

static enum rc edge_delete(struct heal *heal, uint64_t parent, struct bytes name, struct err *err)
{
    heal->changed = true;
    return fs__edge_delete(heal->fs, parent, name, err);
}

/* What stands for an entry that was lost. */
static void entry_rebuild(const struct heal *heal, bool is_dir, struct fs_entry *ret_entry)
{
    fs_entry_root(heal->now_ms, ret_entry);
    if (is_dir)
        return;
    ret_entry->mode = 0644;
    ret_entry->flags = 0;
}

/* ---- /lost+found ---- */

static enum rc lost_dir(struct heal *heal, uint64_t *ret_id, struct err *err)
{
    struct fs *fs = heal->fs;
    struct fs_entry entry;
    uint64_t id;
    enum rc rc = fs__edge_get(fs, FS_ID_ROOT, BYTES(LOST_AND_FOUND), &id, err);
    if (rc == RC_OK)
        rc = fs__entry_get(fs, id, &entry, err);
    if (rc == RC_OK && !fs_entry_is_dir(&entry))
        return err_set(err, RC_REPLY, "NOTDIR /" LOST_AND_FOUND " is a file: move it away");
    if (rc == RC_NOT_FOUND) {
        rc = fs__id_new(fs, heal->now_ms, &id, err);
        entry_rebuild(heal, true, &entry);
        entry.parent = FS_ID_ROOT;
        entry.name = BYTES(LOST_AND_FOUND);
        if (rc == RC_OK)
            rc = edge_put(heal, FS_ID_ROOT, entry.name, id, err);
        if (rc == RC_OK)
            rc = entry_put(heal, id, &entry, err);
    }
    *ret_id = id;
    return rc;
}

static enum rc lost_add(struct heal *heal, uint64_t id, const struct fs_entry *entry,
                        struct err *err)
{
    struct fs_entry lost = *entry;
    char name[32];
    int len = snprintf(name, sizeof name, "#%" PRIu64, id);
    enum rc rc = lost_dir(heal, &lost.parent, err);
    lost.name = bytes_of(name, (size_t)len);
    if (rc == RC_OK)
        rc = edge_put(heal, lost.parent, lost.name, id, err);
    if (rc == RC_OK)
        rc = entry_put(heal, id, &lost, err);
    return rc;
}

/* ---- edges ---- */

static struct bytes own_name(struct heal *heal, uint64_t id, const struct fs_entry *entry)
{
    struct fs_key key = fs__key(id);
    return entry->parent == FS_ID_GRAVEYARD
               ? arena_copy(&heal->fs->arena, bytes_of(key.bytes, FS_ID_BYTES))
               : entry->name;
}

/* Whether the edge that the entry names leads to it. */
static enum rc has_own_edge(struct heal *heal, uint64_t id, const struct fs_entry *entry,
                            bool *ret_has, bool *ret_taken, struct err *err)
{
    uint64_t child = 0;
    enum rc rc = fs__edge_get(heal->fs, entry->parent, own_name(heal, id, entry), &child, err);
    *ret_has = rc == RC_OK && child == id;
    *ret_taken = rc == RC_REPLY || (rc == RC_OK && child != id);
    return rc == RC_NOT_FOUND || rc == RC_REPLY ? RC_OK : rc;
}

/* The entry is not there, or damaged. */
static enum rc edge_rebuild(struct heal *heal, uint64_t parent, struct bytes name, uint64_t id,
                            enum look look, struct err *err)
{
    struct fs_entry entry;
    bool has;
    enum rc rc = fs__has_children(heal->fs, id, &has, err);
    if (rc != RC_OK)
        return rc;
    if (id >= heal->far || (!has && (look == LOOK_GONE || parent == FS_ID_GRAVEYARD))) {
        rc = edge_delete(heal, parent, name, err);
        return rc == RC_OK ? fs__entry_delete(heal->fs, id, err) : rc;
    }
    entry_rebuild(heal, has, &entry);
    entry.parent = parent;
    entry.name = parent == FS_ID_GRAVEYARD ? BYTES("lost") : name;
    return entry_put(heal, id, &entry, err);
}

static enum rc heal_edge(struct heal *heal, uint64_t parent, struct bytes name, struct err *err)
{
    struct fs_entry entry;
    struct err why;
    enum look look;
    uint64_t id;
    bool has, taken;
    enum rc rc = fs__edge_get(heal->fs, parent, name, &id, err);
    if (rc == RC_NOT_FOUND)
        return RC_OK;
    struct fs_key key = fs__key(rc == RC_OK ? id : 0);
    bool good = parent == FS_ID_GRAVEYARD
                    ? bytes_eq(name, bytes_of(key.bytes, FS_ID_BYTES))
                    : parent < FS_ID_END && fs_name_check(name, &why) == RC_OK;
    if (rc == RC_REPLY || (rc == RC_OK && !good))
        return edge_delete(heal, parent, name, err);
    if (rc == RC_OK)
        rc = entry_look(heal, id, &look, &entry, err);
    if (rc != RC_OK)
        return rc;
    if (look != LOOK_GOOD)
        return edge_rebuild(heal, parent, name, id, look, err);
    if (entry.parent == parent && bytes_eq(own_name(heal, id, &entry), name))
        return RC_OK;
    rc = has_own_edge(heal, id, &entry, &has, &taken, err);
    if (rc != RC_OK)
        return rc;
    if (has)
        return edge_delete(heal, parent, name, err);
    entry.parent = parent;
    if (parent != FS_ID_GRAVEYARD)
        entry.name = name;
    return entry_put(heal, id, &entry, err);
}

/* An edge below a file, or below nothing. */
static enum rc heal_below(struct heal *heal, uint64_t parent, struct bytes name, struct err *err)
{
    struct fs_entry entry, above;
    enum look look;
    uint64_t id;
    if (parent >= FS_ID_END) /* heal_edge() was here before */
        return RC_OK;
    enum rc rc = fs__edge_get(heal->fs, parent, name, &id, err);
    if (rc == RC_NOT_FOUND)
        return RC_OK;
    if (rc == RC_OK)
        rc = entry_look(heal, parent, &look, &above, err);
    if (rc != RC_OK)
        return rc;
    if (look == LOOK_GOOD && fs_entry_is_dir(&above))
        return RC_OK;
    if (look != LOOK_GOOD && parent < heal->far) { /* a directory; no edge has brought it back */
        entry_rebuild(heal, true, &above);
        return lost_add(heal, parent, &above, err);
    }
    rc = edge_delete(heal, parent, name, err);
    if (rc == RC_OK)
        rc = entry_look(heal, id, &look, &entry, err);
    if (rc == RC_OK && look == LOOK_GOOD && entry.parent == parent)
        rc = lost_add(heal, id, &entry, err);
    return rc;
}

/* ---- inodes ---- */

static enum rc dict_names(struct heal *heal, uint64_t which, unsigned *ret_count, struct err *err)
{
    struct fs_key key = fs__key(which);
    struct fs_dict dict = {0};
    struct bytes value;
    struct err why;
    enum rc rc = store_get(heal->fs->store, fs__inode(heal->fs, &key), BYTES(""), &value, err);
    if (rc == RC_OK && fs_dict_open(value, &dict, &why) != RC_OK)
        dict.count = FS_DICT_NAMES_MAX;
    *ret_count = dict.count;
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

static enum rc owners_heal(struct heal *heal, uint64_t id, struct fs_entry *entry, struct err *err)
{
    unsigned owners, groups;
    enum rc rc = dict_names(heal, FS_KEY_OWNERS, &owners, err);
    if (rc == RC_OK)
        rc = dict_names(heal, FS_KEY_GROUPS, &groups, err);
    if (rc != RC_OK || (entry->owner <= owners && entry->group <= groups))
        return rc;
    entry->owner = entry->owner <= owners ? entry->owner : 0;
    entry->group = entry->group <= groups ? entry->group : 0;
    return entry_put(heal, id, entry, err);
}

/* No edge has told where it was. */
static enum rc damaged_heal(struct heal *heal, uint64_t id, struct err *err)
{
    struct fs_entry entry;
    bool has;
    enum rc rc = RC_OK;
    if (id != FS_ID_ROOT)
        rc = fs__has_children(heal->fs, id, &has, err);
    if (rc != RC_OK)
        return rc;
    entry_rebuild(heal, true, &entry);
    if (id == FS_ID_ROOT)
        return entry_put(heal, id, &entry, err);
    if (has && id < heal->far)
        return lost_add(heal, id, &entry, err);
    heal->changed = true;
    return fs__entry_delete(heal->fs, id, err);
}

/* An inode with an id that was not given: it takes that of the edge which stands in its place and
 * leads nowhere, or a new one. What is below it is met again, below nothing. */
static enum rc heal_far(struct heal *heal, uint64_t id, struct err *err)
{
    struct fs *fs = heal->fs;
    struct fs_entry entry, other;
    enum look look;
    uint64_t child = 0, to = 0;
    enum rc rc = entry_look(heal, id, &look, &entry, err);
    if (rc != RC_OK || look != LOOK_GOOD || id < heal->far)
        return rc;
    struct bytes name = own_name(heal, id, &entry);
    rc = fs__edge_get(fs, entry.parent, name, &child, err);
    bool own = rc == RC_OK && child == id;
    look = LOOK_GOOD;
    if (rc == RC_OK && child < heal->far)
        rc = entry_look(heal, child, &look, &other, err);
    if (rc == RC_OK && look != LOOK_GOOD)
        to = child;
    else if (rc == RC_OK || rc == RC_NOT_FOUND || rc == RC_REPLY)
        rc = fs__id_new(fs, heal->now_ms, &to, err);
    if (rc == RC_OK && own)
        rc = edge_delete(heal, entry.parent, name, err);
    if (rc == RC_OK && own)
        rc = edge_put(heal, entry.parent, own_name(heal, to, &entry), to, err);
    if (rc == RC_OK)
        rc = entry_put(heal, to, &entry, err);
    return rc == RC_OK ? fs__entry_delete(fs, id, err) : rc;
}

static enum rc heal_inode(struct heal *heal, uint64_t id, struct err *err)
{
    struct fs_entry entry, above;
    enum look look;
    bool has, taken;
    enum rc rc = entry_look(heal, id, &look, &entry, err);
    if (rc != RC_OK || look == LOOK_GONE)
        return rc;
    if (look == LOOK_DAMAGED ||
        (id == FS_ID_ROOT && (!fs_entry_is_dir(&entry) || entry.parent != 0 || entry.name.len > 0)))
        return damaged_heal(heal, id, err);
    rc = owners_heal(heal, id, &entry, err);
    if (rc == RC_OK && id == FS_ID_ROOT)
        return RC_OK;
    if (rc == RC_OK)
        rc = has_own_edge(heal, id, &entry, &has, &taken, err);
    if (rc != RC_OK || has)
        return rc;
    look = LOOK_GOOD;
    above.flags = FS_DIRECTORY;
    if (entry.parent != FS_ID_GRAVEYARD)
        rc = entry_look(heal, entry.parent, &look, &above, err);
    if (rc != RC_OK)
        return rc;
    if (taken || look != LOOK_GOOD || !fs_entry_is_dir(&above))
        return lost_add(heal, id, &entry, err);
    return edge_put(heal, entry.parent, own_name(heal, id, &entry), id, err);
}

static enum rc heal_circle(struct heal *heal, uint64_t id, struct err *err)
{
    struct fs_entry entry = {0}, above = {0};
    enum look look;
    enum rc rc = entry_look(heal, id, &look, &entry, err);
    uint64_t at = entry.parent;
    bool closed = false;
    for (size_t i = 0; rc == RC_OK && look == LOOK_GOOD && !closed && i <= FS_DEPTH_MAX; i++) {
        closed = at == id;
        if (at <= FS_ID_ROOT)
            return RC_OK;
        rc = entry_look(heal, at, &look, &above, err);
        at = above.parent;
    }
    if (rc != RC_OK || !closed)
        return rc;
    rc = edge_delete(heal, entry.parent, entry.name, err);
    return rc == RC_OK ? lost_add(heal, id, &entry, err) : rc;
}

/* ---- the other rows ---- */

/* The names that can be read; who has another one gets none. */
static enum rc heal_dictionary(struct heal *heal, uint64_t which, struct err *err)
{
    struct fs *fs = heal->fs;
    struct fs_key key = fs__key(which);
    struct fs_dict dict;
    struct bytes value;
    struct err why;
    enum rc rc = store_get(fs->store, fs__inode(fs, &key), BYTES(""), &value, err);
    if (rc == RC_NOT_FOUND || (rc == RC_OK && fs_dict_open(value, &dict, &why) == RC_OK))
        return RC_OK;
    if (rc != RC_OK)
        return rc;
    uint8_t *copy = arena_alloc(&fs->arena, value.len + 1);
    size_t at = 1, count = 0;
    memcpy(copy, value.ptr, value.len);
    while (count < FS_DICT_NAMES_MAX && at < value.len && copy[at] < value.len - at) {
        at += 1u + copy[at];
        count++;
    }
    copy[0] = (uint8_t)count;
    heal->changed = true;
    return store_put(fs->store, fs__inode(fs, &key), BYTES(""), bytes_of(copy, at), err);
}

static enum rc heal_next_id(struct heal *heal, uint64_t least, struct err *err)
{
    struct fs *fs = heal->fs;
    struct fs_key key = fs__key(FS_KEY_NEXT_ID);
    struct bytes value;
    struct err why;
    uint64_t next;
    uint8_t bytes[FS_ID_BYTES];
    enum rc rc = store_get(fs->store, fs__inode(fs, &key), BYTES(""), &value, err);
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return rc;
    if (rc == RC_OK && fs_next_id_decode(value, &next, &why) == RC_OK && next >= least)
        return RC_OK;
    le64_put(bytes, least < FS_ID_FIRST ? FS_ID_FIRST : least);
    heal->changed = true;
    return store_put(fs->store, fs__inode(fs, &key), BYTES(""), bytes_of(bytes, sizeof bytes), err);
}

/* Where ids are that were not given. The row is healed before all others. */
static enum rc far_find(struct heal *heal, struct err *err)
{
    struct fs_key key = fs__key(FS_KEY_NEXT_ID);
    struct bytes value;
    struct err why;
    uint64_t next;
    enum rc rc = store_get(heal->fs->store, fs__inode(heal->fs, &key), BYTES(""), &value, err);
    heal->far = FS_ID_END;
    if (rc == RC_OK && fs_next_id_decode(value, &next, &why) == RC_OK)
        heal->far = next + FS_ID_GAP;
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

enum rc fs__heal(struct fs *fs, const struct fs_finding *finding, uint64_t now_ms,
                 bool *ret_changed, struct err *err)
{
    struct heal heal = {.fs = fs, .now_ms = now_ms};
    arena_clear(&fs->arena);
    enum rc rc = far_find(&heal, err);
    if (rc != RC_OK)
        return rc;
    switch (finding->kind) {
    case FS_FOUND_DICTIONARY:
        rc = heal_dictionary(&heal, finding->id, err);
        break;
    case FS_FOUND_FAR:
        rc = heal_far(&heal, finding->id, err);
        break;
    case FS_FOUND_EDGE:
        rc = heal_edge(&heal, finding->id, finding->name, err);
        break;
    case FS_FOUND_BELOW:
        rc = heal_below(&heal, finding->id, finding->name, err);
        break;
    case FS_FOUND_INODE:
        rc = heal_inode(&heal, finding->id, err);
        break;
    case FS_FOUND_CIRCLE:
        rc = heal_circle(&heal, finding->id, err);
        break;
    case FS_FOUND_NEXT_ID:
        rc = heal_next_id(&heal, finding->id, err);
        break;
    case FS_FOUND_ROW:
        break;
    }
    *ret_changed = heal.changed;
    return rc;
}
