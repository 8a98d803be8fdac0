// SPDX-License-Identifier: Apache-2.0
/* tile_verify.c - terrace tile verify: whether the server has every tile of a source, byte by byte
 * the same. Of a batch only hashes are kept until the answers are there. */
#include <inttypes.h>
#include <stdio.h>
#include <xxhash.h>

#include "cli/progress.h"
#include "cli/tile.h"
#include "models/tile/value.h"

#include "base/banned.h"

enum { BATCH_TILES_MAX = 64, SHOWN_MAX = 10 };

struct expected {
    struct tile_xyz place;
    size_t len;
    uint64_t hash;
};

struct verify {
    const struct tile_options *options;
    struct source *source;
    struct link link;
    struct progress progress;
    struct expected batch[BATCH_TILES_MAX];
    size_t batch_count;
    uint64_t tile_count, missing_count, other_count;
};

static void problem_show(const struct verify *verify, const struct expected *expected,
                         const char *what)
{
    char key[TILEKEY_TEXT_BYTES];
    if (verify->missing_count + verify->other_count > SHOWN_MAX)
        return;
    tile_key_of(verify->options, expected->place, key);
    printf("%s (%u/%" PRIu32 "/%" PRIu32 ", row from the south): %s\n", key, expected->place.z,
           expected->place.x, expected->place.y, what);
}

static void compare(struct verify *verify, const struct expected *expected,
                    const struct reply *reply)
{
    if (reply->kind != REPLY_BULK) {
        verify->missing_count++;
        problem_show(verify, expected, "is not there");
    } else if (reply->text.len != expected->len ||
               XXH3_64bits(reply->text.ptr, reply->text.len) != expected->hash) {
        verify->other_count++;
        problem_show(verify, expected, "is another");
    }
}

static enum rc batch_check(struct verify *verify, struct err *err)
{
    struct resp_out *out = &verify->link.out;
    struct reply reply;
    if (verify->batch_count == 0)
        return RC_OK;
    resp_add_array(out, 2 + verify->batch_count);
    resp_add_text(out, "TILE.MGET");
    resp_add_text(out, verify->options->type);
    for (size_t i = 0; i < verify->batch_count; i++) {
        char key[TILEKEY_TEXT_BYTES];
        size_t len = tile_key_of(verify->options, verify->batch[i].place, key);
        resp_add_bulk(out, bytes_of(key, len));
    }
    enum rc rc = link_send(&verify->link, err);
    if (rc == RC_OK)
        rc = link_reply(&verify->link, &reply, err);
    for (size_t i = 0; i < verify->batch_count && rc == RC_OK; i++) {
        rc = link_reply(&verify->link, &reply, err);
        if (rc == RC_OK)
            compare(verify, &verify->batch[i], &reply);
    }
    verify->tile_count += verify->batch_count;
    verify->batch_count = 0;
    progress_at(&verify->progress, verify->tile_count);
    return rc;
}

static enum rc tiles_check(struct verify *verify, struct err *err)
{
    struct source *source = verify->source;
    struct source_tile tile;
    enum rc rc;
    while ((rc = source->ops->next(source, &tile, err)) == RC_OK) {
        struct tile_value value;
        if (!tile_value_of_source(verify->options, tile.data, &value)) {
            source__bad(source, "%u/%" PRIu32 "/%" PRIu32 " has no such header", tile.place.z,
                        tile.place.x, tile.place.y);
            continue;
        }
        verify->batch[verify->batch_count++] = (struct expected){
            tile.place, value.data.len, XXH3_64bits(value.data.ptr, value.data.len)};
        rc = verify->batch_count == BATCH_TILES_MAX ? batch_check(verify, err) : RC_OK;
        if (rc != RC_OK)
            return rc;
    }
    return rc == RC_NOT_FOUND ? batch_check(verify, err) : rc;
}

static enum rc verify_run(struct verify *verify, struct err *err)
{
    const struct tile_options *options = verify->options;
    uint64_t total = 0;
    enum rc rc = source_open(options->path, &options->filter, options->rows, &verify->source, err);
    if (rc == RC_OK)
        rc = tile_link_open(&verify->link, options, err);
    if (rc == RC_OK)
        rc = verify->source->ops->count(verify->source, &total, err);
    if (rc != RC_OK)
        return rc;
    progress_begin(&verify->progress, "tiles compared", total, 0);
    rc = tiles_check(verify, err);
    progress_end(&verify->progress, verify->tile_count);
    return rc;
}

int tile_verify(const struct tile_options *options)
{
    struct verify verify = {.options = options, .link.fd = -1};
    struct err err = {0};
    int code = 0;
    enum rc rc = verify_run(&verify, &err);
    if (rc != RC_OK)
        code = cli_fail("%s", err.text);
    else if (verify.missing_count + verify.other_count > 0)
        code = cli_fail("of %" PRIu64 " tiles %" PRIu64 " are missing and %" PRIu64 " are others",
                        verify.tile_count, verify.missing_count, verify.other_count);
    else if (verify.source->bad_count > 0)
        code = cli_fail("%" PRIu64 " tiles are there; %" PRIu64 " of the source are none: %s",
                        verify.tile_count, verify.source->bad_count, verify.source->bad_text);
    else
        printf("all %" PRIu64 " tiles are there and the same\n", verify.tile_count);
    link_close(&verify.link);
    source_close(verify.source);
    return code;
}
