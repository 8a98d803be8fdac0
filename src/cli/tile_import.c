// SPDX-License-Identifier: Apache-2.0
/* tile_import.c - terrace tile import: pipelined TILE.MSET.
 *
 * The position of an import stands in the hash "import:<name of the source>" in the type's
 * database, so that a run that was stopped goes on from any machine.
 *
 * Invariants:
 *   (1) A position is written only after the server has answered for every tile up to it.
 *   (2) A position counts only for the source it was written for: identity and options. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/progress.h"
#include "cli/tile.h"
#include "models/tile/format.h"
#include "models/tile/value.h"

#include "base/banned.h"

enum {
    BATCH_TILES_MAX = 64,
    BATCH_BYTES = 256 * 1024,
    WINDOW = 16,         /* batches the server has not answered for */
    POSITION_EVERY = 64, /* batches */
    META_BYTES_MAX = 64 * 1024 * 1024,
};

struct seen { /* what has been imported, for the metadata; rows from the south */
    uint64_t tile_count, byte_count;
    unsigned z_min, z_max;
    uint32_t x_min, x_max, y_min, y_max; /* of level z_max */
};

struct sent { /* a command without its reply yet */
    bool is_batch;
    char position[SOURCE_POSITION_BYTES]; /* of its last tile */
    struct seen seen;                     /* with its last tile */
};

struct import {
    const struct tile_options *options;
    struct source *source;
    struct link link;
    struct progress progress;
    struct resp_out batch; /* the words of an MSET */
    size_t batch_tiles;
    struct seen seen;
    struct sent sent[WINDOW + 1];
    size_t sent_first, sent_count;
    struct sent acked; /* the last batch the server has answered for */
    bool has_acked;
    size_t unnoted_count; /* batches since the last position */
    char key[128];        /* of the position */
    char format[8];       /* of the first tile */
};

/* ---- replies ---- */

static enum rc one_reply(struct import *import, struct err *err)
{
    struct sent *sent = &import->sent[import->sent_first];
    struct reply reply;
    enum rc rc = link_reply(&import->link, &reply, err);
    if (rc != RC_OK)
        return rc;
    import->sent_first = (import->sent_first + 1) % ARRAY_LEN(import->sent);
    import->sent_count--;
    if (!sent->is_batch)
        return RC_OK;
    import->acked = *sent;
    import->has_acked = true;
    import->unnoted_count++;
    progress_at(&import->progress, sent->seen.tile_count);
    return RC_OK;
}

static enum rc replies(struct import *import, size_t left, struct err *err)
{
    enum rc rc = RC_OK;
    while (import->sent_count > left && rc == RC_OK)
        rc = one_reply(import, err);
    return rc;
}

static struct sent *sent_add(struct import *import, bool is_batch)
{
    size_t at = (import->sent_first + import->sent_count++) % ARRAY_LEN(import->sent);
    import->sent[at].is_batch = is_batch;
    return &import->sent[at];
}

/* ---- the position ---- */

static void position_add(struct import *import)
{
    struct resp_out *out = &import->link.out;
    const struct seen *seen = &import->acked.seen;
    char text[160];
    resp_add_array(out, 8);
    resp_add_text(out, "HSET");
    resp_add_text(out, import->key);
    resp_add_text(out, "source");
    resp_add_text(out, import->source->identity);
    resp_add_text(out, "at"); /* (1) */
    resp_add_text(out, import->acked.position);
    snprintf(text, sizeof text, "%" PRIu64 " %" PRIu64 " %u %u %u %u %u %u", seen->tile_count,
             seen->byte_count, seen->z_min, seen->z_max, seen->x_min, seen->x_max, seen->y_min,
             seen->y_max);
    resp_add_text(out, "seen");
    resp_add_text(out, text);
    import->unnoted_count = 0;
    sent_add(import, false);
}

static bool seen_parse(struct bytes text, struct seen *seen)
{
    char copy[160];
    if (text.len >= sizeof copy)
        return false;
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = 0;
    return sscanf(copy, "%" SCNu64 " %" SCNu64 " %u %u %u %u %u %u", &seen->tile_count,
                  &seen->byte_count, &seen->z_min, &seen->z_max, &seen->x_min, &seen->x_max,
                  &seen->y_min, &seen->y_max) == 8;
}

/* Goes on where the last run of the same source was stopped. */
static enum rc position_read(struct import *import, struct err *err)
{
    const char *const ask[] = {"HMGET", import->key, "source", "at", "seen"};
    const char *identity = import->source->identity;
    struct reply reply;
    bool is_same = false, has_seen = false;
    char at[SOURCE_POSITION_BYTES] = "";
    struct seen seen = {0};
    enum rc rc = link_ask(&import->link, ask, ARRAY_LEN(ask), &reply, err);
    for (int i = 0; i < 3 && rc == RC_OK; i++) {
        rc = link_reply(&import->link, &reply, err);
        if (rc != RC_OK || reply.kind != REPLY_BULK)
            continue;
        if (i == 0)
            is_same = bytes_eq(reply.text, bytes_of(identity, strlen(identity))); /* (2) */
        else if (i == 1)
            snprintf(at, sizeof at, "%.*s", (int)reply.text.len, (const char *)reply.text.ptr);
        else
            has_seen = seen_parse(reply.text, &seen);
    }
    if (rc != RC_OK || !is_same || !at[0] || !has_seen || import->options->again)
        return rc;
    printf("going on behind %s, with %" PRIu64 " tiles imported before\n", at, seen.tile_count);
    import->seen = seen;
    return import->source->ops->seek(import->source, at, err);
}

/* ---- tiles ---- */

static enum rc batch_send(struct import *import, struct err *err)
{
    struct resp_out *out = &import->link.out;
    if (import->batch_tiles == 0)
        return RC_OK;
    if (import->unnoted_count >= POSITION_EVERY)
        position_add(import);
    resp_add_array(out, 2 + 4 * import->batch_tiles);
    resp_add_text(out, "TILE.MSET");
    resp_add_text(out, import->options->type);
    resp_add_raw(out, buf_bytes(&import->batch.buf));
    struct sent *sent = sent_add(import, true);
    import->source->ops->position(import->source, sent->position);
    sent->seen = import->seen;
    if (import->batch.failed)
        return err_set(err, RC_NOMEM, "could not allocate memory for a batch of tiles");
    import->batch_tiles = 0;
    buf_cut(&import->batch.buf, 0);
    enum rc rc = link_send(&import->link, err);
    return rc == RC_OK ? replies(import, WINDOW - 2, err) : rc;
}

static void seen_add(struct seen *seen, struct tile_xyz place, size_t bytes)
{
    bool is_first = seen->tile_count++ == 0;
    seen->byte_count += bytes;
    if (is_first || place.z < seen->z_min)
        seen->z_min = place.z;
    if (is_first || place.z > seen->z_max) {
        seen->z_max = place.z;
        seen->x_min = seen->x_max = place.x;
        seen->y_min = seen->y_max = place.y;
    } else if (place.z == seen->z_max) {
        seen->x_min = place.x < seen->x_min ? place.x : seen->x_min;
        seen->x_max = place.x > seen->x_max ? place.x : seen->x_max;
        seen->y_min = place.y < seen->y_min ? place.y : seen->y_min;
        seen->y_max = place.y > seen->y_max ? place.y : seen->y_max;
    }
}

static enum rc tile_add(struct import *import, const struct source_tile *tile, struct err *err)
{
    char key[TILEKEY_TEXT_BYTES];
    struct tile_value value;
    if (!tile_value_of_source(import->options, tile->data, &value) || value.data.len == 0) {
        source__bad(import->source,
                    "%u/%" PRIu32 "/%" PRIu32 " (row from the south) has no such header",
                    tile->place.z, tile->place.x, tile->place.y);
        return RC_OK;
    }
    size_t len = tile_key_of(import->options, tile->place, key);
    resp_add_bulk(&import->batch, bytes_of(key, len));
    resp_add_int_text(&import->batch, (int64_t)value.epoch);
    resp_add_int_text(&import->batch, (int64_t)value.provider);
    resp_add_bulk(&import->batch, value.data);
    import->batch_tiles++;
    if (!import->format[0])
        snprintf(import->format, sizeof import->format, "%s", tile_format_of(value.data)->ext);
    seen_add(&import->seen, tile->place, value.data.len);
    bool is_full = import->batch_tiles == BATCH_TILES_MAX || import->batch.buf.len >= BATCH_BYTES;
    return is_full ? batch_send(import, err) : RC_OK;
}

static enum rc tiles_send(struct import *import, struct err *err)
{
    struct source *source = import->source;
    struct source_tile tile;
    enum rc rc;
    while ((rc = source->ops->next(source, &tile, err)) == RC_OK) {
        rc = tile_add(import, &tile, err);
        if (rc != RC_OK)
            return rc;
    }
    if (rc != RC_NOT_FOUND)
        return rc;
    rc = batch_send(import, err);
    return rc == RC_OK ? replies(import, 0, err) : rc;
}

/* ---- metadata ---- */

struct metadata {
    struct resp_out words;
    size_t count; /* of names and values */
    bool has_name, has_format, has_minzoom, has_maxzoom, has_bounds;
};

static void pair_add(void *arg, struct bytes name, struct bytes value)
{
    struct metadata *metadata = arg;
    if (metadata->words.buf.len + value.len > META_BYTES_MAX)
        return;
    metadata->has_name = metadata->has_name || bytes_eq(name, BYTES("name"));
    metadata->has_format = metadata->has_format || bytes_eq(name, BYTES("format"));
    metadata->has_minzoom = metadata->has_minzoom || bytes_eq(name, BYTES("minzoom"));
    metadata->has_maxzoom = metadata->has_maxzoom || bytes_eq(name, BYTES("maxzoom"));
    metadata->has_bounds = metadata->has_bounds || bytes_eq(name, BYTES("bounds"));
    resp_add_bulk(&metadata->words, name);
    resp_add_bulk(&metadata->words, value);
    metadata->count += 2;
}

static void text_add(struct metadata *metadata, const char *name, const char *value)
{
    pair_add(metadata, bytes_of(name, strlen(name)), bytes_of(value, strlen(value)));
}

/* What the source does not say is known from its tiles. */
static void metadata_complete(const struct import *import, struct metadata *metadata)
{
    const struct seen *seen = &import->seen;
    double south_west[4], north_east[4];
    char text[128];
    if (!metadata->has_name)
        text_add(metadata, "name", import->options->type);
    if (!metadata->has_format && import->format[0])
        text_add(metadata, "format", import->format);
    snprintf(text, sizeof text, "%u", seen->z_min);
    if (!metadata->has_minzoom)
        text_add(metadata, "minzoom", text);
    snprintf(text, sizeof text, "%u", seen->z_max);
    if (!metadata->has_maxzoom)
        text_add(metadata, "maxzoom", text);
    tile_bounds((struct tile_xyz){seen->z_max, seen->x_min, seen->y_min}, south_west);
    tile_bounds((struct tile_xyz){seen->z_max, seen->x_max, seen->y_max}, north_east);
    snprintf(text, sizeof text, "%.7g,%.7g,%.7g,%.7g", south_west[0], south_west[1], north_east[2],
             north_east[3]);
    if (!metadata->has_bounds)
        text_add(metadata, "bounds", text);
}

static enum rc metadata_send(struct import *import, struct err *err)
{
    struct metadata metadata = {0};
    struct reply reply;
    struct resp_out *out = &import->link.out;
    resp_out_init(&metadata.words, SIZE_MAX);
    enum rc rc = import->source->ops->metadata(import->source, pair_add, &metadata, err);
    if (rc == RC_OK && import->seen.tile_count > 0)
        metadata_complete(import, &metadata);
    if (rc == RC_OK && metadata.count > 0) {
        resp_add_array(out, 2 + metadata.count);
        resp_add_text(out, "HSET");
        resp_add_text(out, "metadata");
        resp_add_raw(out, buf_bytes(&metadata.words.buf));
        rc = link_send(&import->link, err);
        if (rc == RC_OK)
            rc = link_reply(&import->link, &reply, err);
    }
    resp_out_done(&metadata.words);
    return rc;
}

/* ---- all of it ---- */

static enum rc finish(struct import *import, struct err *err)
{
    const char *const forget[] = {"DEL", import->key};
    const char *const sync[] = {"TILE.SYNC"};
    struct reply reply;
    enum rc rc = metadata_send(import, err);
    if (rc == RC_OK)
        rc = link_ask(&import->link, forget, ARRAY_LEN(forget), &reply, err);
    if (rc == RC_OK && import->options->sync)
        rc = link_ask(&import->link, sync, ARRAY_LEN(sync), &reply, err);
    return rc;
}

/* The server goes on without us: what it has answered for is noted, if it still listens. */
static void stopped(struct import *import, const struct err *why)
{
    struct err ignored;
    if (why->rc != RC_IO && import->has_acked && replies(import, 0, &ignored) == RC_OK) {
        position_add(import);
        if (link_send(&import->link, &ignored) == RC_OK)
            (void)!replies(import, 0, &ignored);
    }
    progress_end(&import->progress, import->acked.seen.tile_count);
}

static enum rc import_run(struct import *import, struct err *err)
{
    const struct tile_options *options = import->options;
    const char *name = strrchr(options->path, '/');
    uint64_t total = 0;
    snprintf(import->key, sizeof import->key, "import:%.100s",
             name && name[1] ? name + 1 : options->path);
    enum rc rc = source_open(options->path, &options->filter, options->rows, &import->source, err);
    if (rc == RC_OK)
        rc = tile_link_open(&import->link, options, err);
    if (rc == RC_OK)
        rc = position_read(import, err);
    if (rc == RC_OK)
        rc = import->source->ops->count(import->source, &total, err);
    if (rc != RC_OK)
        return rc;
    resp_out_init(&import->batch, SIZE_MAX);
    progress_begin(&import->progress, "tiles imported", total, import->seen.tile_count);
    rc = tiles_send(import, err);
    if (rc == RC_OK)
        rc = finish(import, err);
    if (rc != RC_OK)
        stopped(import, err);
    else
        progress_end(&import->progress, import->seen.tile_count);
    resp_out_done(&import->batch);
    return rc;
}

int tile_import(const struct tile_options *options)
{
    struct import *import = mem_zalloc(sizeof *import);
    struct err err = {0};
    char size[32];
    int code = 0;
    import->options = options;
    import->link.fd = -1;
    enum rc rc = import_run(import, &err);
    if (rc != RC_OK && import->has_acked)
        code = cli_fail("%s; %" PRIu64 " tiles were imported: the same command goes on with them",
                        err.text, import->acked.seen.tile_count);
    else if (rc != RC_OK)
        code = cli_fail("%s", err.text);
    else
        printf("imported %" PRIu64 " tiles, %s, into %s\n", import->seen.tile_count,
               tile_size_text(size, import->seen.byte_count), options->type);
    if (rc == RC_OK && import->source->bad_count > 0)
        code = cli_fail("%" PRIu64 " were left out; the first: %s", import->source->bad_count,
                        import->source->bad_text);
    link_close(&import->link);
    source_close(import->source);
    mem_free(import);
    return code;
}
