// SPDX-License-Identifier: Apache-2.0
/* tile_dir.c - the tiles of a directory: z/x/y.ext, in the order of numbers. Positions are the same
 * three. A file metadata.json beside the levels, an object of texts, is the metadata. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/limits.h"
#include "base/mem.h"
#include "cli/tile_source.h"

#include "base/banned.h"

enum { NAME_BYTES_MAX = 255, METADATA_BYTES_MAX = 16 * 1024 * 1024 };

struct entry { /* of a directory */
    uint32_t number;
    char *name; /* owned */
};

struct entries { /* in the order of numbers */
    struct entry *at;
    size_t count, cap, next;
};

struct dir {
    struct source source;
    char *path;
    struct entries z, x, y;
    struct buf data;
    bool seeks; /* until the position was passed */
    uint32_t seek[3];
    uint32_t last[3];
};

static struct files *files_of_disk(void)
{
    return (struct files *)(uintptr_t)&files_real; /* nothing is written to it */
}

/* ---- directories ---- */

static void entries_clear(struct entries *entries)
{
    for (size_t i = 0; i < entries->count; i++)
        mem_free(entries->at[i].name);
    entries->count = entries->next = 0;
}

static void entries_done(struct entries *entries)
{
    entries_clear(entries);
    mem_free(entries->at);
}

struct listing {
    struct dir *dir;
    struct entries *to;
    const char *path;
    bool are_files;
};

static bool digits_read(const char *text, const char **ret_end, uint32_t *ret_number)
{
    char *end;
    if (*text < '0' || *text > '9')
        return false;
    unsigned long long number = strtoull(text, &end, 10);
    *ret_end = end;
    *ret_number = (uint32_t)number;
    return number <= UINT32_MAX && end - text <= 10;
}

static enum rc entry_add(const char *name, void *arg, struct err *err)
{
    struct listing *listing = arg;
    struct entries *to = listing->to;
    const char *end;
    uint32_t number;
    size_t len = strlen(name);
    (void)err;
    bool is_tile =
        digits_read(name, &end, &number) && (*end == 0 || (listing->are_files && *end == '.'));
    if (!is_tile) {
        if (listing->are_files) /* beside directories anything may lie */
            source__bad(&listing->dir->source, "%s/%s is named like no tile", listing->path, name);
        return RC_OK;
    }
    if (to->count == to->cap) {
        to->cap = to->cap ? 2 * to->cap : 64;
        to->at = mem_realloc(to->at, to->cap * sizeof *to->at);
    }
    char *copy = mem_alloc(len + 1);
    memcpy(copy, name, len + 1);
    to->at[to->count++] = (struct entry){number, copy};
    return RC_OK;
}

static int entry_cmp(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    return x->number != y->number ? (x->number < y->number ? -1 : 1) : strcmp(x->name, y->name);
}

static enum rc entries_read(struct dir *dir, struct entries *to, const char *path, bool are_files,
                            struct err *err)
{
    struct listing listing = {dir, to, path, are_files};
    entries_clear(to);
    enum rc rc = files_list(files_of_disk(), path, entry_add, &listing, err);
    if (to->count > 0)
        qsort(to->at, to->count, sizeof *to->at, entry_cmp);
    return rc;
}

static const struct entry *current(const struct entries *entries)
{
    return entries->next > 0 && entries->next <= entries->count ? &entries->at[entries->next - 1]
                                                                : NULL;
}

/* ---- the walk ---- */

/* Whether everything of an entry comes before the position that is sought. */
static bool is_passed(const struct dir *dir, unsigned depth)
{
    const uint32_t now[] = {current(&dir->z)->number, depth > 0 ? current(&dir->x)->number : 0,
                            depth > 1 ? current(&dir->y)->number : 0};
    for (unsigned i = 0; dir->seeks && i <= depth; i++)
        if (now[i] != dir->seek[i])
            return now[i] < dir->seek[i];
    return dir->seeks && depth == 2; /* the place itself is behind us */
}

/* The next file, in whichever directory. RC_NOT_FOUND at the end. */
static enum rc file_next(struct dir *dir, char path[PATH_BYTES_MAX], struct err *err)
{
    enum rc rc = RC_OK;
    for (;;) {
        if (dir->y.next < dir->y.count) {
            dir->y.next++;
            if (is_passed(dir, 2))
                continue;
            snprintf(path, PATH_BYTES_MAX, "%s/%s/%s/%s", dir->path, current(&dir->z)->name,
                     current(&dir->x)->name, current(&dir->y)->name);
            return RC_OK;
        }
        if (dir->x.next < dir->x.count) {
            dir->x.next++;
            if (is_passed(dir, 1))
                continue;
            snprintf(path, PATH_BYTES_MAX, "%s/%s/%s", dir->path, current(&dir->z)->name,
                     current(&dir->x)->name);
            rc = entries_read(dir, &dir->y, path, true, err);
        } else if (dir->z.next < dir->z.count) {
            dir->z.next++;
            uint32_t z = current(&dir->z)->number;
            if (is_passed(dir, 0) || z < dir->source.filter.level_from ||
                z > dir->source.filter.level_to)
                continue;
            snprintf(path, PATH_BYTES_MAX, "%s/%s", dir->path, current(&dir->z)->name);
            rc = entries_read(dir, &dir->x, path, false, err);
        } else {
            return RC_NOT_FOUND;
        }
        if (rc != RC_OK)
            return rc;
    }
}

/* RC_NOT_FOUND: it is no tile, or is not wanted. */
static enum rc tile_read(struct dir *dir, const char *path, struct source_tile *ret_tile,
                         struct err *err)
{
    struct source *source = &dir->source;
    struct tile_xyz place = {current(&dir->z)->number, current(&dir->x)->number,
                             current(&dir->y)->number};
    uint64_t count = place.z <= TILE_LEVEL_MAX ? UINT64_C(1) << place.z : 0;
    if (place.x >= count || place.y >= count) {
        source__bad(source, "%s: there is no such place", path);
        return RC_NOT_FOUND;
    }
    if (source->rows == TILE_ROWS_XYZ)
        place.y = (uint32_t)(count - 1 - place.y);
    if (!tile_filter_takes(&source->filter, place))
        return RC_NOT_FOUND;
    buf_cut(&dir->data, 0);
    enum rc rc = files_read_all(files_of_disk(), path, &dir->data, err);
    if (rc != RC_OK)
        return rc == RC_NOT_FOUND ? RC_IO : rc;
    if (dir->data.len == 0) {
        source__bad(source, "%s has no data", path);
        return RC_NOT_FOUND;
    }
    *ret_tile = (struct source_tile){place, buf_bytes(&dir->data)};
    return RC_OK;
}

static enum rc dir_next(struct source *source, struct source_tile *ret_tile, struct err *err)
{
    struct dir *dir = (struct dir *)source;
    char path[PATH_BYTES_MAX];
    for (;;) {
        enum rc rc = file_next(dir, path, err);
        if (rc != RC_OK)
            return rc;
        dir->last[0] = current(&dir->z)->number;
        dir->last[1] = current(&dir->x)->number;
        dir->last[2] = current(&dir->y)->number;
        rc = tile_read(dir, path, ret_tile, err);
        if (rc != RC_NOT_FOUND)
            return rc;
    }
}

static void dir_position(const struct source *source, char to[SOURCE_POSITION_BYTES])
{
    const struct dir *dir = (const struct dir *)source;
    snprintf(to, SOURCE_POSITION_BYTES, "%" PRIu32 "/%" PRIu32 "/%" PRIu32, dir->last[0],
             dir->last[1], dir->last[2]);
}

static enum rc dir_seek(struct source *source, const char *position, struct err *err)
{
    struct dir *dir = (struct dir *)source;
    dir->seeks = true;
    if (sscanf(position, "%" SCNu32 "/%" SCNu32 "/%" SCNu32, &dir->seek[0], &dir->seek[1],
               &dir->seek[2]) == 3)
        return RC_OK;
    return err_set(err, RC_INVALID, "\"%s\" is no place in a directory of tiles", position);
}

static enum rc dir_count(struct source *source, uint64_t *ret_count, struct err *err)
{
    (void)source;
    (void)err;
    *ret_count = 0; /* to know it is to read every directory */
    return RC_OK;
}

/* ---- metadata.json ---- */

static void member_give(const char *name, json_t *value,
                        void (*fn)(void *arg, struct bytes name, struct bytes value), void *arg)
{
    char *text = json_is_string(value) ? NULL : json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    const char *from = text ? text : json_string_value(value);
    if (from)
        fn(arg, bytes_of(name, strlen(name)), bytes_of(from, strlen(from)));
    free(text);
}

static enum rc dir_metadata(struct source *source,
                            void (*fn)(void *arg, struct bytes name, struct bytes value), void *arg,
                            struct err *err)
{
    struct dir *dir = (struct dir *)source;
    CLEANUP(buf_done) struct buf text;
    char path[PATH_BYTES_MAX];
    json_error_t error;
    const char *name;
    json_t *value;
    buf_init(&text, METADATA_BYTES_MAX);
    snprintf(path, sizeof path, "%s/metadata.json", dir->path);
    enum rc rc = files_read_all(files_of_disk(), path, &text, err);
    if (rc != RC_OK)
        return rc == RC_NOT_FOUND ? RC_OK : rc;
    json_t *json = json_loadb((const char *)text.ptr, text.len, 0, &error);
    if (!json_is_object(json)) {
        json_decref(json);
        return err_set(err, RC_INVALID, "\"%s\" is no JSON object", path);
    }
    json_object_foreach(json, name, value) member_give(name, value, fn, arg);
    json_decref(json);
    return RC_OK;
}

static void dir_close(struct source *source)
{
    struct dir *dir = (struct dir *)source;
    entries_done(&dir->z);
    entries_done(&dir->x);
    entries_done(&dir->y);
    buf_done(&dir->data);
    mem_free(dir->path);
    mem_free(dir);
}

static const struct source_ops ops = {
    .next = dir_next,
    .position = dir_position,
    .seek = dir_seek,
    .count = dir_count,
    .metadata = dir_metadata,
    .close = dir_close,
};

enum rc source__dir_open(const char *path, struct source **ret_source, struct err *err)
{
    struct dir *dir = mem_zalloc(sizeof *dir);
    size_t len = strlen(path);
    dir->source.ops = &ops;
    dir->path = mem_alloc(len + 1);
    memcpy(dir->path, path, len + 1);
    buf_init(&dir->data, SOURCE_TILE_BYTES_MAX);
    enum rc rc = len + 3 * (size_t)(NAME_BYTES_MAX + 1) < PATH_BYTES_MAX
                     ? entries_read(dir, &dir->z, path, false, err)
                     : err_set(err, RC_INVALID, "the path is too long");
    if (rc == RC_OK && dir->z.count == 0)
        rc = err_set(err, RC_INVALID, "\"%s\" is no directory of tiles: it has no z/x/y.ext", path);
    if (rc != RC_OK) {
        dir_close(&dir->source);
        return rc;
    }
    *ret_source = &dir->source;
    return RC_OK;
}
