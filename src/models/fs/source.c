// SPDX-License-Identifier: Apache-2.0
/* source.c - reads edges and entries from the open commit or from a frozen view. */
#include "models/fs/source.h"

#include <stdlib.h>

#include "base/mem.h"
#include "models/fs/fs_int.h"
#include "store/turns.h"
#include "types/spaces.h"

#include "base/banned.h"

enum {
    SOURCE_KEY_BYTES_MAX = 16 * 1024,
    DENSE_FACTOR = 4, /* inodes are read in order if at most this many rows are met for one */
};

void fs_source_init_commit(struct fs_source *source, struct fs *fs)
{
    *source = (struct fs_source){.fs = fs};
}

void fs_source_init_view(struct fs_source *source, struct store *store,
                         const struct engine_view *view)
{
    *source = (struct fs_source){
        .engine = store_engine(store), .view = view, .spaces = store_spaces(store)};
    buf_init(&source->key, SOURCE_KEY_BYTES_MAX);
    buf_init(&source->end, SOURCE_KEY_BYTES_MAX);
    buf_init(&source->value, SIZE_MAX);
}

void fs_source_done(struct fs_source *source)
{
    if (!source || source->fs)
        return;
    buf_done(&source->key);
    buf_done(&source->end);
    buf_done(&source->value);
}

/* ---- one row ---- */

static enum rc no_memory(struct err *err)
{
    return err_set(err, RC_NOMEM, "could not allocate memory for a key");
}

static enum rc view_get(struct fs_source *source, uint8_t space, uint64_t id, struct bytes suffix,
                        struct err *err)
{
    struct fs_key key = fs__key(id);
    source->key.len = source->value.len = 0;
    if (!space_key_add(source->spaces, space, bytes_of(key.bytes, FS_ID_BYTES), suffix,
                       &source->key))
        return no_memory(err);
    return source->engine->ops->get(source->engine, source->view, buf_bytes(&source->key),
                                    ENGINE_TIER_ALL, &source->value, err);
}

enum rc fs_source_entry(struct fs_source *source, uint64_t id, struct fs_entry *ret_entry,
                        struct err *err)
{
    if (source->fs)
        return fs__entry_get(source->fs, id, ret_entry, err);
    enum rc rc = view_get(source, SPACE_INODE, id, BYTES(""), err);
    if (rc == RC_NOT_FOUND && id == FS_ID_ROOT) {
        fs_entry_root(0, ret_entry);
        return RC_OK;
    }
    if (rc == RC_OK && fs_entry_decode(buf_bytes(&source->value), ret_entry, err) != RC_OK)
        return fs__corrupt(err, id);
    return rc;
}

enum rc fs_source_edge(struct fs_source *source, uint64_t parent, struct bytes name,
                       uint64_t *ret_child, struct err *err)
{
    if (source->fs)
        return fs__edge_get(source->fs, parent, name, ret_child, err);
    enum rc rc = view_get(source, SPACE_EDGE, parent, name, err);
    if (rc == RC_OK && fs_edge_decode(buf_bytes(&source->value), ret_child, err) != RC_OK)
        return fs__corrupt(err, parent);
    return rc;
}

static enum rc path_missing(struct fs_source *source, uint64_t parent, struct bytes text,
                            struct err *err)
{
    struct fs_entry entry;
    enum rc rc = fs_source_entry(source, parent, &entry, err);
    if (rc == RC_OK && !fs_entry_is_dir(&entry))
        return fs__refuse(err, "NOTDIR", "not a directory", text);
    if (rc == RC_OK || rc == RC_NOT_FOUND)
        return fs__refuse(err, "NOTFOUND", "no such file or directory", text);
    return rc;
}

enum rc fs_source_path(struct fs_source *source, struct bytes text, uint64_t *ret_id,
                       struct fs_entry *ret_entry, struct err *err)
{
    struct fs_path path;
    struct bytes name;
    uint64_t id = FS_ID_ROOT;
    enum rc rc = fs_path_open(text, &path, err);
    while (rc == RC_OK && fs_path_next(&path, &name)) {
        uint64_t parent = id;
        rc = fs_source_edge(source, parent, name, &id, err);
        if (rc == RC_NOT_FOUND)
            return path_missing(source, parent, text, err);
    }
    if (rc == RC_OK)
        rc = fs_source_entry(source, id, ret_entry, err);
    if (rc == RC_NOT_FOUND) {
        (void)err_set(err, RC_CORRUPT, "an edge leads to it, and it has no entry");
        return fs__corrupt(err, id);
    }
    *ret_id = id;
    return rc;
}

/* ---- a page of a directory ---- */

void fs_dir_page_init(struct fs_dir_page *page)
{
    *page = (struct fs_dir_page){0};
    arena_init(&page->arena);
}

void fs_dir_page_done(struct fs_dir_page *page)
{
    mem_free(page->item);
    arena_done(&page->arena);
}

static enum rc item_add(struct fs_dir_page *page, uint64_t dir, struct bytes name,
                        struct bytes value, struct err *err)
{
    uint64_t id;
    if (fs_edge_decode(value, &id, err) != RC_OK || fs_name_check(name, err) != RC_OK)
        return fs__corrupt(err, dir);
    if (page->count == page->cap) {
        page->cap = page->cap ? 2 * page->cap : 4;
        page->item = mem_realloc(page->item, page->cap * sizeof *page->item);
    }
    page->item[page->count++] =
        (struct fs_dir_item){.name = arena_copy(&page->arena, name), .id = id};
    return RC_OK;
}

static enum rc commit_edges(struct fs_source *source, uint64_t dir, struct bytes after,
                            struct fs_dir_page *page, struct err *err)
{
    CLEANUP(store_walk_done) struct store_walk walk;
    struct fs_key key = fs__key(dir);
    struct bytes name, value;
    enum rc rc = RC_OK;
    store_walk_init(&walk, source->fs->store, fs__edges(source->fs, &key), false);
    if (after.len > 0)
        rc = store_walk_seek(&walk, after, err);
    while (rc == RC_OK && page->count < FS_DIR_PAGE_ITEMS) {
        rc = store_walk_next(&walk, &name, &value, err);
        if (rc == RC_OK && !bytes_eq(name, after))
            rc = item_add(page, dir, name, value, err);
    }
    return rc;
}

/* source->key and source->end are the range. */
static enum rc range_open(struct fs_source *source, bool one_group, struct engine_iter **ret_iter,
                          struct err *err)
{
    struct engine_range range = {
        .lower = buf_bytes(&source->key), .upper = buf_bytes(&source->end), .one_group = one_group};
    return source->engine->ops->iter_open(source->engine, source->view, &range, ret_iter, err);
}

static enum rc view_edges(struct fs_source *source, uint64_t dir, struct bytes after,
                          struct fs_dir_page *page, struct err *err)
{
    const struct engine_ops *ops = source->engine->ops;
    struct fs_key id = fs__key(dir);
    struct engine_iter *iter;
    struct bytes key, value, group = bytes_of(id.bytes, FS_ID_BYTES);
    source->key.len = source->end.len = 0;
    bool fits =
        space_group_range_add(source->spaces, SPACE_EDGE, group, &source->key, &source->end);
    if (fits && after.len > 0) { /* the first key behind it */
        source->key.len = 0;
        fits = space_key_add(source->spaces, SPACE_EDGE, group, after, &source->key) &&
               buf_add(&source->key, "", 1);
    }
    if (!fits)
        return no_memory(err);
    enum rc rc = range_open(source, true, &iter, err);
    if (rc != RC_OK)
        return rc;
    while (rc == RC_OK && page->count < FS_DIR_PAGE_ITEMS) {
        rc = ops->iter_next(iter, &key, &value, err);
        if (rc == RC_OK)
            rc = item_add(page, dir, bytes_from(key, 1 + FS_ID_BYTES), value, err);
    }
    ops->iter_close(iter);
    return rc;
}

/* ---- the inodes of a page ---- */

static enum rc item_entry(struct fs_source *source, struct fs_dir_item *item, struct err *err)
{
    enum rc rc = fs_source_entry(source, item->id, &item->entry, err);
    if (rc == RC_NOT_FOUND) {
        (void)err_set(err, RC_CORRUPT, "an edge leads to it, and it has no entry");
        return fs__corrupt(err, item->id);
    }
    item->entry.name = item->name;
    return rc;
}

static int id_order(const void *one, const void *other)
{
    uint64_t a = (*(struct fs_dir_item *const *)one)->id;
    uint64_t b = (*(struct fs_dir_item *const *)other)->id;
    return (a > b) - (a < b);
}

/* In order of ids, with one iterator: files of a directory were mostly made one after the other. */
static enum rc entries_pass(struct fs_source *source, struct fs_dir_item **item, size_t count,
                            struct err *err)
{
    const struct engine_ops *ops = source->engine->ops;
    struct fs_key first = fs__key(item[0]->id), last = fs__key(item[count - 1]->id + 1);
    struct engine_iter *iter;
    struct bytes key, value;
    source->key.len = source->end.len = 0;
    if (!space_key_add(source->spaces, SPACE_INODE, bytes_of(first.bytes, FS_ID_BYTES), BYTES(""),
                       &source->key) ||
        !space_key_add(source->spaces, SPACE_INODE, bytes_of(last.bytes, FS_ID_BYTES), BYTES(""),
                       &source->end))
        return no_memory(err);
    enum rc rc = range_open(source, false, &iter, err);
    if (rc != RC_OK)
        return rc;
    size_t at = 0;
    while (at < count && (rc = ops->iter_next(iter, &key, &value, err)) == RC_OK) {
        uint64_t id = key.len == 1 + FS_ID_BYTES ? be64_get(key.ptr + 1) : 0;
        if (id < item[at]->id)
            continue;
        if (id > item[at]->id)
            break;
        if (fs_entry_decode(value, &item[at]->entry, err) != RC_OK) {
            rc = fs__corrupt(err, id);
            break;
        }
        item[at]->entry.name = item[at]->name;
        at++;
    }
    ops->iter_close(iter);
    if (rc == RC_NOT_FOUND)
        rc = RC_OK;
    for (; rc == RC_OK && at < count; at++) /* two lead to one inode, or one to none */
        rc = item_entry(source, item[at], err);
    return rc;
}

static enum rc page_entries(struct fs_source *source, struct fs_dir_page *page, struct err *err)
{
    struct fs_dir_item *item[FS_DIR_PAGE_ITEMS];
    enum rc rc = RC_OK;
    if (!source->fs && page->count > 1) {
        for (size_t i = 0; i < page->count; i++)
            item[i] = &page->item[i];
        qsort(item, page->count, sizeof *item, id_order);
        if (item[page->count - 1]->id - item[0]->id < DENSE_FACTOR * page->count)
            return entries_pass(source, item, page->count, err);
    }
    bool cold = false; /* all of a page are asked for before the command waits */
    for (size_t i = 0; rc == RC_OK && i < page->count; i++) {
        rc = item_entry(source, &page->item[i], err);
        cold = cold || rc == RC_COLD;
        rc = rc == RC_COLD ? RC_OK : rc;
    }
    return rc == RC_OK && cold ? RC_COLD : rc;
}

enum rc fs_source_page(struct fs_source *source, uint64_t dir, struct bytes after,
                       struct fs_dir_page *page, struct err *err)
{
    uint8_t name[FS_NAME_BYTES_MAX]; /* `after` may be a name of this very page */
    ASSERT(after.len <= sizeof name);
    if (after.len > 0)
        memcpy(name, after.ptr, after.len);
    after = bytes_of(name, after.len);
    page->count = 0;
    arena_clear(&page->arena);
    enum rc rc = source->fs ? commit_edges(source, dir, after, page, err)
                            : view_edges(source, dir, after, page, err);
    page->more = rc == RC_OK;
    if (rc == RC_OK || rc == RC_NOT_FOUND)
        rc = page_entries(source, page, err);
    source->row_count += page->count;
    return rc;
}
