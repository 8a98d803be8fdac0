// SPDX-License-Identifier: Apache-2.0
/* tile_export.c - terrace tile export: pages of keys from TILE.RANGE, the tiles from TILE.GET, so
 * that what the destination has no place for is counted and told. */
#include <inttypes.h>
#include <stdio.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "cli/progress.h"
#include "cli/tile.h"
#include "cli/tile_dest.h"

#include "base/banned.h"

enum { PAGE_TILES = 256 };

struct export
{
    const struct tile_options *options;
    struct link link;
    struct dest *dest;
    struct progress progress;
    char identity[256];
    char prefix[TILEKEY_TEXT_BYTES]; /* everything that is wanted is below it */
    char key[PAGE_TILES][TILEKEY_TEXT_BYTES];
    size_t key_count;
    char last[TILEKEY_TEXT_BYTES]; /* of the page */
    uint64_t tile_count, byte_count;
    struct { /* of tiles that were written: what was not */
        uint64_t epochs, providers, times;
        uint64_t older; /* whole tiles: a place has one, the newest */
    } dropped;
    bool has_place;
    struct tile_xyz place; /* of the last */
};

/* ---- which ---- */

/* The smallest subtree that holds the box. */
static void prefix_find(struct export *export)
{
    const struct tile_filter *filter = &export->options->filter;
    struct tile_span span = tile_filter_span(filter, TILE_LEVEL_MAX);
    struct err ignored;
    uint64_t low = 0, high = 0;
    unsigned level = 0;
    if (!filter->has_bbox)
        return;
    struct tile_xyz from = {TILE_LEVEL_MAX, span.x_from, span.y_from},
                    to = {TILE_LEVEL_MAX, span.x_to, span.y_to};
    if (tilekey_from_xyz(from, TILE_ROWS_TMS, &low, &ignored) != RC_OK ||
        tilekey_from_xyz(to, TILE_ROWS_TMS, &high, &ignored) != RC_OK)
        return;
    while (level < filter->level_from &&
           tilekey_ancestor(low, level + 1) == tilekey_ancestor(high, level + 1))
        level++;
    tilekey_print(tilekey_ancestor(low, level), export->prefix);
}

/* The next page of keys; fewer are kept than were given where a box is wanted. */
static enum rc page_ask(struct export *export, const char *after, bool *ret_end, struct err *err)
{
    const struct tile_options *options = export->options;
    char from[4], to[4], count[8];
    const char *word[16] = {"TILE.RANGE", options->type, export->prefix};
    size_t words = 3;
    struct reply reply;
    snprintf(from, sizeof from, "%u", options->filter.level_from);
    snprintf(to, sizeof to, "%u", options->filter.level_to);
    snprintf(count, sizeof count, "%d", PAGE_TILES);
    word[words++] = "LEVEL";
    word[words++] = from;
    word[words++] = to;
    word[words++] = "COUNT";
    word[words++] = count;
    if (options->ms) {
        word[words++] = "TM";
        word[words++] = options->ms;
        word[words++] = options->ms;
    }
    if (after) {
        word[words++] = "AFTER";
        word[words++] = after;
    }
    enum rc rc = link_ask(&export->link, word, words, &reply, err);
    int64_t left = rc == RC_OK && reply.kind == REPLY_ARRAY ? reply.number : 0;
    export->key_count = 0;
    *ret_end = left < PAGE_TILES;
    for (; left > 0 && rc == RC_OK; left--) {
        rc = link_reply(&export->link, &reply, err);
        if (rc != RC_OK || reply.kind != REPLY_BULK || reply.text.len >= TILEKEY_TEXT_BYTES ||
            export->key_count == PAGE_TILES)
            continue;
        char *key = export->key[export->key_count++];
        memcpy(key, reply.text.ptr, reply.text.len);
        key[reply.text.len] = 0;
        memcpy(export->last, key, reply.text.len + 1);
    }
    return rc;
}

static bool place_of(const struct export *export, const char *key, struct tile_xyz *ret_place)
{
    uint64_t packed;
    struct err ignored;
    if (tilekey_parse(bytes_of(key, strcspn(key, ":")), &packed, &ignored) != RC_OK)
        return false;
    *ret_place = tilekey_to_xyz(packed, TILE_ROWS_TMS);
    return tile_filter_takes(&export->options->filter, *ret_place);
}

/* ---- their data ---- */

/* The numbers of a tile behind its data: epoch, provider, and its time if it has one. */
static enum rc numbers_read(struct export *export, int64_t count, struct err *err)
{
    enum rc rc = RC_OK;
    for (int64_t i = 0; i < count && rc == RC_OK; i++) {
        struct reply reply;
        rc = link_reply(&export->link, &reply, err);
        if (rc != RC_OK || reply.kind != REPLY_INT)
            continue;
        export->dropped.epochs += i == 0 && reply.number != 0;
        export->dropped.providers += i == 1 && reply.number != 0;
    }
    return rc;
}

static enum rc tile_write(struct export *export, const char *key, struct tile_xyz place,
                          struct err *err)
{
    struct reply reply;
    enum rc rc = link_reply(&export->link, &reply, err);
    if (rc != RC_OK || reply.kind != REPLY_ARRAY || reply.number < 1) /* deleted meanwhile */
        return rc;
    int64_t rest = reply.number - 1;
    rc = link_reply(&export->link, &reply, err);
    if (rc == RC_OK && reply.kind == REPLY_BULK) {
        bool is_same = export->has_place && export->place.z == place.z &&
                       export->place.x == place.x && export->place.y == place.y;
        export->tile_count++;
        export->byte_count += reply.text.len;
        export->dropped.times += strchr(key, ':') != NULL;
        export->dropped.older += is_same; /* keys come in the order of their times */
        export->has_place = true;
        export->place = place;
        rc = export->dest->ops->put(export->dest, place, reply.text, err);
    }
    return rc == RC_OK ? numbers_read(export, rest, err) : rc;
}

static enum rc page_write(struct export *export, struct err *err)
{
    struct resp_out *out = &export->link.out;
    struct tile_xyz place[PAGE_TILES];
    size_t count = 0;
    for (size_t i = 0; i < export->key_count; i++)
        if (place_of(export, export->key[i], &place[count]))
            memmove(export->key[count++], export->key[i], TILEKEY_TEXT_BYTES);
    if (count == 0)
        return RC_OK;
    for (size_t i = 0; i < count; i++) {
        resp_add_array(out, 4);
        resp_add_text(out, "TILE.GET");
        resp_add_text(out, export->options->type);
        resp_add_text(out, export->key[i]);
        resp_add_text(out, "META");
    }
    enum rc rc = link_send(&export->link, err);
    for (size_t i = 0; i < count && rc == RC_OK; i++)
        rc = tile_write(export, export->key[i], place[i], err);
    progress_at(&export->progress, export->tile_count);
    return rc;
}

static enum rc tiles_write(struct export *export, struct err *err)
{
    const char *after = export->dest->goes_on ? export->dest->after : NULL;
    bool end = false;
    enum rc rc = RC_OK;
    while (!end && rc == RC_OK) {
        rc = page_ask(export, after, &end, err);
        if (rc == RC_OK)
            rc = page_write(export, err);
        if (rc == RC_OK && export->key_count > 0)
            rc = export->dest->ops->note(export->dest, export->last, err);
        after = export->last;
    }
    return rc;
}

static enum rc metadata_write(struct export *export, struct err *err)
{
    const char *const ask[] = {"HGETALL", "metadata"};
    struct reply reply;
    enum rc rc = link_ask(&export->link, ask, ARRAY_LEN(ask), &reply, err);
    int64_t left = rc == RC_OK && reply.kind == REPLY_ARRAY ? reply.number : 0;
    for (; left >= 2 && rc == RC_OK; left -= 2) {
        CLEANUP(buf_done) struct buf name;
        buf_init(&name, 64 * (size_t)1024);
        rc = link_reply(&export->link, &reply, err);
        bool kept = rc == RC_OK && reply.kind == REPLY_BULK && buf_add_bytes(&name, reply.text);
        if (rc == RC_OK)
            rc = link_reply(&export->link, &reply, err);
        if (rc == RC_OK && kept && reply.kind == REPLY_BULK)
            rc = export->dest->ops->metadata(export->dest, buf_bytes(&name), reply.text, err);
    }
    return rc;
}

/* ---- all of it ---- */

static bool ends_with(const char *path, const char *end)
{
    size_t len = strlen(path), end_len = strlen(end);
    return len > end_len && strcasecmp(path + len - end_len, end) == 0;
}

/* A name that everybody takes for a file's is no directory to be made. */
static enum rc path_check(const char *path, struct err *err)
{
    static const char *const ends[] = {".pmtiles", ".mbtiles", ".gpkg", ".sqlite", ".db",   ".g3db",
                                       ".zip",     ".tar",     ".tgz",  ".gz",     ".tif",  ".tiff",
                                       ".json",    ".geojson", ".pbf",  ".mvt",    ".png",  ".jpg",
                                       ".jpeg",    ".webp",    ".vrt",  ".cog",    ".avif", ".7z"};
    struct stat stat_of;
    if (stat(path, &stat_of) == 0 && S_ISDIR(stat_of.st_mode))
        return RC_OK;
    for (size_t i = 0; i < ARRAY_LEN(ends); i++)
        if (ends_with(path, ends[i]))
            return err_set(
                err, RC_INVALID,
                "\"%s\": tiles are exported to MBTiles, a name that ends in .mbtiles, or "
                "to a directory z/x/y.ext, a name without such an ending; %s is not "
                "supported",
                path, ends[i]);
    return RC_OK;
}

static enum rc dest_open(struct export *export, struct err *err)
{
    const struct tile_options *options = export->options;
    const struct tile_filter *filter = &options->filter;
    size_t len = strlen(options->path);
    snprintf(export->identity, sizeof export->identity,
             "%.31s %u-%u %d %.9g,%.9g,%.9g,%.9g %d %.20s", options->type, filter->level_from,
             filter->level_to, filter->has_bbox, filter->west, filter->south, filter->east,
             filter->north, options->rows, options->ms ? options->ms : "");
    if (len > 8 && strcmp(options->path + len - 8, ".mbtiles") == 0)
        return dest_mbtiles_open(options->path, export->identity, options->again, &export->dest,
                                 err);
    enum rc rc = path_check(options->path, err);
    if (rc != RC_OK)
        return rc;
    return dest_dir_open(options->path, export->identity, options->again, options->rows,
                         &export->dest, err);
}

static enum rc export_run(struct export *export, struct err *err)
{
    const struct tile_options *options = export->options;
    const char *const count[] = {"TILE.COUNT", options->type, export->prefix};
    struct reply reply;
    prefix_find(export);
    enum rc rc = tile_link_open(&export->link, options, err);
    if (rc == RC_OK)
        rc = link_ask(&export->link, count, ARRAY_LEN(count), &reply, err);
    if (rc == RC_OK)
        rc = dest_open(export, err);
    if (rc != RC_OK)
        return rc;
    if (export->dest->goes_on)
        printf("going on behind %s\n", export->dest->after);
    bool is_all = tile_filter_is_all(&options->filter) && !options->ms && !export->dest->goes_on;
    progress_begin(&export->progress, "tiles exported",
                   is_all && reply.kind == REPLY_INT ? (uint64_t)reply.number : 0, 0);
    rc = tiles_write(export, err);
    if (rc == RC_OK)
        rc = metadata_write(export, err);
    if (rc == RC_OK)
        rc = export->dest->ops->finish(export->dest, err);
    progress_end(&export->progress, export->tile_count);
    return rc;
}

static void dropped_say(const struct export *export)
{
    size_t len = strlen(export->options->path);
    bool mbtiles = len > 8 && strcmp(export->options->path + len - 8, ".mbtiles") == 0;
    const struct {
        const char *what;
        uint64_t count;
    } line[] = {{"the epoch", export->dropped.epochs},
                {"the provider", export->dropped.providers},
                {"the time", export->dropped.times}};
    for (size_t i = 0; i < ARRAY_LEN(line); i++)
        if (line[i].count > 0)
            printf("not exported: %s of %" PRIu64 " tiles; %s has no place for it\n", line[i].what,
                   line[i].count, mbtiles ? "MBTiles" : "a directory");
    if (export->dropped.older > 0)
        printf("not exported: %" PRIu64 " tiles with a newer one at the same place\n",
               export->dropped.older);
}

int tile_export(const struct tile_options *options)
{
    struct export *export = mem_zalloc(sizeof *export);
    struct err err = {0};
    char size[32];
    int code = 0;
    export->options = options;
    export->link.fd = -1;
    enum rc rc = export_run(export, &err);
    if (rc != RC_OK && export->tile_count > 0)
        code = cli_fail("%s; the same command goes on behind what was exported", err.text);
    else if (rc != RC_OK)
        code = cli_fail("%s", err.text);
    else
        printf("exported %" PRIu64 " tiles, %s, to %s\n", export->tile_count,
               tile_size_text(size, export->byte_count), options->path);
    dropped_say(export);
    link_close(&export->link);
    dest_close(export->dest);
    mem_free(export);
    return code;
}
