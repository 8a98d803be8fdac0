// SPDX-License-Identifier: Apache-2.0
/* lookup.c - from a path or an id to an entry, and the lists of a directory. */
#include "models/fs/fs_int.h"

#include "store/prefetch.h"
#include "types/number.h"

#include "base/banned.h"

/* ---- paths ---- */

enum rc fs__missing(struct fs *fs, uint64_t parent, struct bytes text, struct err *err)
{
    struct fs_entry entry;
    enum rc rc = RC_OK;
    if (parent != FS_ID_ROOT)
        rc = fs__entry_get(fs, parent, &entry, err);
    if (rc == RC_NOT_FOUND) {
        (void)err_set(err, RC_CORRUPT, "an edge leads to it, and it has no entry");
        return fs__corrupt(err, parent);
    }
    if (rc != RC_OK)
        return rc;
    fs->missing = true;
    if (parent != FS_ID_ROOT && !fs_entry_is_dir(&entry))
        return fs__refuse(err, "NOTDIR", "not a directory", text);
    return fs__refuse(err, "NOTFOUND", "no such file or directory", text);
}

/* Design, invariant 2. */
enum rc fs__dir_check(struct fs *fs, uint64_t id, struct bytes text, struct err *err)
{
    struct fs_entry entry;
    if (id == FS_ID_ROOT)
        return RC_OK;
    enum rc rc = fs__entry_get(fs, id, &entry, err);
    if (rc == RC_OK && fs_entry_is_dir(&entry))
        return RC_OK;
    return rc == RC_OK || rc == RC_NOT_FOUND ? fs__missing(fs, id, text, err) : rc;
}

/* Whether the path is in the directory of the last one, and no edge has changed since. */
static bool last_holds(const struct fs *fs, struct bytes text, struct bytes *ret_name)
{
    const struct fs_last *last = &fs->last;
    struct err why;
    if (last->len == 0 || last->changes != store_group_changes(fs->store) ||
        text.len <= last->len || text.len > FS_PATH_BYTES_MAX ||
        memcmp(text.ptr, last->path, last->len) != 0)
        return false;
    *ret_name = bytes_from(text, last->len);
    return fs_name_check(*ret_name, &why) == RC_OK;
}

static void last_set(struct fs *fs, struct bytes text, const struct fs_place *place)
{
    struct fs_last *last = &fs->last;
    last->len = 0;
    if (text.len - place->name.len > sizeof last->path)
        return;
    last->len = text.len - place->name.len;
    last->id = place->parent;
    last->changes = store_group_changes(fs->store);
    memcpy(last->path, text.ptr, last->len);
}

enum rc fs__place(struct fs *fs, struct bytes text, uint64_t past, struct fs_place *ret_place,
                  struct err *err)
{
    struct fs_path path;
    struct fs_place place = {.id = FS_ID_ROOT, .name = BYTES("")};
    struct bytes name;
    if (past == 0 && last_holds(fs, text, &place.name)) {
        place.parent = fs->last.id;
        enum rc rc = fs__edge_get(fs, place.parent, place.name, &place.id, err);
        place.id = rc == RC_OK ? place.id : 0;
        *ret_place = place;
        return rc == RC_NOT_FOUND ? RC_OK : rc;
    }
    enum rc rc = fs_path_open(text, &path, err);
    while (rc == RC_OK && fs_path_next(&path, &name)) {
        place.parent = place.id;
        place.name = name;
        place.passed = place.passed || place.id == past;
        rc = fs__edge_get(fs, place.parent, name, &place.id, err);
        if (rc != RC_NOT_FOUND)
            continue;
        if (!fs_path_is_through(&path))
            return fs__missing(fs, place.parent, text, err);
        place.id = 0;
        rc = RC_OK;
    }
    if (rc != RC_OK)
        return rc;
    if (place.parent != 0) {
        fs__hint_set(fs, text, place.name, place.parent);
        last_set(fs, text, &place);
    }
    *ret_place = place;
    return RC_OK;
}

enum rc fs__entry_at(struct fs *fs, const struct fs_place *place, struct fs_entry *ret_entry,
                     struct err *err)
{
    enum rc rc = fs__entry_get(fs, place->id, ret_entry, err);
    if (rc == RC_NOT_FOUND)
        (void)err_set(err, RC_CORRUPT, "an edge leads to it, and it has no entry");
    else if (rc != RC_OK || place->id == FS_ID_ROOT ||
             (ret_entry->parent == place->parent && bytes_eq(ret_entry->name, place->name)))
        return rc;
    else
        (void)err_set(err, RC_CORRUPT, "an edge leads to it, and it stands elsewhere");
    return fs__corrupt(err, place->id);
}

/* ---- ids ---- */

static bool id_parse(struct bytes text, uint64_t *ret_id)
{
    int64_t number;
    if (!number_int(text, &number) || number <= 0 || (uint64_t)number >= FS_ID_END)
        return false;
    *ret_id = (uint64_t)number;
    return true;
}

static enum rc no_inode(struct fs *fs, struct bytes target, struct err *err)
{
    fs->missing = true;
    return fs__refuse(err, "NOTFOUND", "no such inode", target);
}

/* Design, invariant 5: what was cut off from the root is not there. */
static enum rc reaches_root(struct fs *fs, uint64_t parent, struct bytes target, struct err *err)
{
    struct fs_entry entry;
    for (size_t depth = 0; parent != FS_ID_ROOT; depth++) {
        enum rc rc =
            parent == FS_ID_GRAVEYARD ? RC_NOT_FOUND : fs__entry_get(fs, parent, &entry, err);
        if (rc == RC_NOT_FOUND)
            return no_inode(fs, target, err);
        if (rc != RC_OK)
            return rc;
        if (depth > FS_DEPTH_MAX)
            return fs__refuse(err, "RESOURCE", "too far from the root", target);
        parent = entry.parent;
    }
    return RC_OK;
}

static enum rc by_id(struct fs *fs, struct bytes target, uint64_t *ret_id,
                     struct fs_entry *ret_entry, struct err *err)
{
    uint64_t id;
    if (!id_parse(target, &id))
        return err_set(err, RC_INVALID, "neither a path, which begins with a slash, nor an id");
    enum rc rc = fs__entry_get(fs, id, ret_entry, err);
    if (rc == RC_NOT_FOUND)
        return no_inode(fs, target, err);
    if (rc == RC_OK && id != FS_ID_ROOT) {
        ret_entry->name = arena_copy(&fs->arena, ret_entry->name); /* others are read now */
        rc = reaches_root(fs, ret_entry->parent, target, err);
    }
    *ret_id = id;
    return rc;
}

enum rc fs__target(struct fs *fs, struct bytes target, uint64_t *ret_id, struct fs_entry *ret_entry,
                   struct err *err)
{
    struct fs_place place = {0};
    arena_clear(&fs->arena);
    fs->missing = false;
    if (target.len > 0 && target.ptr[0] != '/')
        return by_id(fs, target, ret_id, ret_entry, err);
    enum rc rc = fs__place(fs, target, 0, &place, err);
    if (rc != RC_OK)
        return rc;
    if (place.id == 0)
        return fs__missing(fs, place.parent, target, err);
    *ret_id = place.id;
    return fs__entry_at(fs, &place, ret_entry, err);
}

/* ---- attributes ---- */

static enum rc path_of(struct fs *fs, const struct fs_stat *stat, struct bytes *ret_path,
                       struct err *err)
{
    struct fs_entry entry = stat->entry;
    uint64_t id = stat->id;
    size_t bytes = 0, count = 0;
    struct part {
        struct bytes name;
        struct part *below;
    } *top = NULL;
    for (; id != FS_ID_ROOT; count++) {
        struct part *part = arena_alloc(&fs->arena, sizeof *part);
        *part = (struct part){arena_copy(&fs->arena, entry.name), top};
        bytes += 1 + entry.name.len;
        top = part;
        id = entry.parent;
        enum rc rc = fs__entry_get(fs, id, &entry, err);
        if (rc != RC_OK)
            return rc;
    }
    uint8_t *text = arena_alloc(&fs->arena, bytes + 1), *at = text;
    for (const struct part *part = top; part; part = part->below) {
        *at++ = '/';
        memcpy(at, part->name.ptr, part->name.len);
        at += part->name.len;
    }
    if (at == text)
        *at++ = '/';
    *ret_path = bytes_of(text, (size_t)(at - text));
    return RC_OK;
}

static enum rc names_read(struct fs *fs, struct fs_stat *stat, struct err *err)
{
    enum rc rc = RC_OK;
    stat->owner = stat->group = BYTES("");
    if (stat->entry.owner == 0 && stat->entry.group == 0)
        return RC_OK;
    stat->entry.name = arena_copy(&fs->arena, stat->entry.name);
    if (stat->entry.owner != 0)
        rc = fs__dict_name(fs, FS_KEY_OWNERS, stat->entry.owner, &stat->owner, err);
    if (rc == RC_OK && stat->entry.group != 0)
        rc = fs__dict_name(fs, FS_KEY_GROUPS, stat->entry.group, &stat->group, err);
    return rc;
}

enum rc fs_stat(struct fs *fs, struct bytes target, bool with_path, struct fs_stat *ret_stat,
                struct err *err)
{
    struct fs_stat stat = {.path = BYTES("")};
    enum rc rc = fs__target(fs, target, &stat.id, &stat.entry, err);
    if (rc == RC_OK)
        rc = names_read(fs, &stat, err);
    if (rc == RC_OK && with_path && target.ptr[0] == '/')
        stat.path = target;
    else if (rc == RC_OK && with_path)
        rc = path_of(fs, &stat, &stat.path, err);
    if (rc == RC_OK)
        *ret_stat = stat;
    return rc;
}

enum rc fs_stat_try(struct fs *fs, struct bytes path, bool *ret_found, struct fs_stat *ret_stat,
                    struct err *err)
{
    enum rc rc = fs_stat(fs, path, true, ret_stat, err);
    *ret_found = rc == RC_OK;
    return rc == RC_REPLY && fs->missing ? RC_OK : rc;
}

/* ---- a directory ---- */

static enum rc page_read(struct fs *fs, struct store_walk *walk, struct fs_page *page,
                         size_t count_max, struct err *err)
{
    struct bytes name, value;
    enum rc rc;
    while ((rc = store_walk_next(walk, &name, &value, err)) == RC_OK) {
        if (page->count == count_max) {
            page->more = true;
            page->next = name;
            return RC_OK;
        }
        uint64_t id;
        if (fs_edge_decode(value, &id, err) != RC_OK)
            return fs__corrupt(err, be64_get(walk->group.key.ptr));
        page->entry[page->count++] = (struct fs_page_entry){name, id};
    }
    (void)fs;
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

enum rc fs_list(struct fs *fs, struct bytes path, struct bytes from, size_t count_max,
                struct fs_page *ret_page, struct err *err)
{
    CLEANUP(store_walk_done) struct store_walk walk = {0};
    struct fs_entry entry = {0};
    struct fs_page page = {0};
    uint64_t id = 0;
    enum rc rc = fs__target(fs, path, &id, &entry, err);
    if (rc != RC_OK)
        return rc;
    if (!fs_entry_is_dir(&entry))
        return fs__refuse(err, "NOTDIR", "not a directory", path);
    struct fs_key *key = arena_alloc(&fs->arena, sizeof *key);
    *key = fs__key(id);
    page.entry = arena_alloc_array(&fs->arena, count_max, sizeof *page.entry);
    store_walk_init(&walk, fs->store, fs__edges(fs, key), false);
    if (from.len > 0)
        rc = store_walk_seek(&walk, from, err);
    if (rc == RC_OK)
        rc = page_read(fs, &walk, &page, count_max, err);
    if (rc == RC_OK)
        *ret_page = page;
    return rc;
}

enum { WARM_STEP = 16 };

enum rc fs_list_warm(struct fs *fs, const struct fs_page *page, struct err *err)
{
    enum rc cold = RC_OK;
    for (size_t at = 0; at < page->count; at += WARM_STEP) {
        struct fs_key key[WARM_STEP];
        struct store_group group[WARM_STEP];
        size_t count = page->count - at < WARM_STEP ? page->count - at : WARM_STEP;
        for (size_t i = 0; i < count; i++) {
            key[i] = fs__key(page->entry[at + i].id);
            group[i] = fs__inode(fs, &key[i]);
        }
        store_prefetch(fs->store, group, count);
        for (size_t i = 0; i < count; i++) {
            struct bytes value;
            enum rc rc = store_get(fs->store, group[i], BYTES(""), &value, err);
            if (rc == RC_COLD)
                cold = rc; /* all are asked for before the command waits */
            else if (rc != RC_OK && rc != RC_NOT_FOUND)
                return rc;
        }
    }
    return cold;
}

enum rc fs_list_stat(struct fs *fs, const struct fs_page_entry *entry, struct fs_stat *ret_stat,
                     struct err *err)
{
    struct fs_stat stat = {.id = entry->id, .path = BYTES("")};
    enum rc rc = fs__entry_get(fs, entry->id, &stat.entry, err);
    if (rc == RC_NOT_FOUND) {
        (void)err_set(err, RC_CORRUPT, "an edge leads to it, and it has no entry");
        return fs__corrupt(err, entry->id);
    }
    if (rc == RC_OK)
        rc = names_read(fs, &stat, err);
    if (rc == RC_OK)
        *ret_stat = stat;
    return rc;
}
