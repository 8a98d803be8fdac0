// SPDX-License-Identifier: Apache-2.0
/* squeeze.c - gzip, lz4 and zstd behind one call. */
#include "models/partition/squeeze.h"

#include <lz4.h>
#include <lz4hc.h>
#include <zlib.h>
#include <zstd.h>

#include "base/limits.h"

#include "base/banned.h"

enum {
    GZIP_WINDOW = 15 + 16, /* zlib: the largest window, with gzip's header */
    GZIP_LEVEL = 9,
    ZSTD_LEVEL = 12,
    GZIP_ROOM = 64,
};
_Static_assert((uint64_t)PART_FRAME_BYTES_MAX < LZ4_MAX_INPUT_SIZE, "lz4 takes it in one block");

static const char *const names[] = {[PART_NONE] = "none",
                                    [PART_GZIP] = "gzip",
                                    [PART_LZ4] = "lz4",
                                    [PART_ZSTD] = "zstd",
                                    [PART_AUTO] = "auto"};

const char *part_algorithm_name(enum part_algorithm algorithm)
{
    return (size_t)algorithm < ARRAY_LEN(names) ? names[algorithm] : NULL;
}

bool part_algorithm_parse(struct bytes name, enum part_algorithm *ret_algorithm)
{
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (names[i] && bytes_eq(name, bytes_of(names[i], strlen(names[i])))) {
            *ret_algorithm = (enum part_algorithm)i;
            return true;
        }
    return false;
}

static enum rc no_room(size_t bytes, struct err *err)
{
    return err_set(err, RC_TOO_BIG, "could not reserve %zu bytes for a partition batch", bytes);
}

static enum rc gzip_pack(struct bytes raw, struct buf *to, struct err *err)
{
    z_stream stream = {0};
    if (deflateInit2(&stream, GZIP_LEVEL, Z_DEFLATED, GZIP_WINDOW, 9, Z_DEFAULT_STRATEGY) != Z_OK)
        return err_set(err, RC_NOMEM, "could not start gzip");
    size_t bound = deflateBound(&stream, (uLong)raw.len) + GZIP_ROOM;
    if (!buf_reserve(to, bound)) {
        deflateEnd(&stream);
        return no_room(bound, err);
    }
    stream.next_in = (Bytef *)(uintptr_t)raw.ptr;
    stream.avail_in = (uInt)raw.len;
    stream.next_out = to->ptr + to->len;
    stream.avail_out = (uInt)bound;
    int end = deflate(&stream, Z_FINISH);
    to->len += end == Z_STREAM_END ? bound - stream.avail_out : 0;
    deflateEnd(&stream);
    return end == Z_STREAM_END ? RC_OK : err_set(err, RC_NOMEM, "gzip failed with %d", end);
}

static enum rc lz4_pack(struct bytes raw, struct buf *to, struct err *err)
{
    size_t bound = (size_t)LZ4_compressBound((int)raw.len);
    if (!buf_reserve(to, bound))
        return no_room(bound, err);
    int len = LZ4_compress_HC((const char *)raw.ptr, (char *)to->ptr + to->len, (int)raw.len,
                              (int)bound, LZ4HC_CLEVEL_DEFAULT);
    if (len <= 0)
        return err_set(err, RC_NOMEM, "lz4 failed");
    to->len += (size_t)len;
    return RC_OK;
}

static enum rc zstd_pack(struct bytes raw, struct buf *to, struct err *err)
{
    size_t bound = ZSTD_compressBound(raw.len);
    if (!buf_reserve(to, bound))
        return no_room(bound, err);
    size_t len = ZSTD_compress(to->ptr + to->len, bound, raw.ptr, raw.len, ZSTD_LEVEL);
    if (ZSTD_isError(len))
        return err_set(err, RC_NOMEM, "zstd failed: %s", ZSTD_getErrorName(len));
    to->len += len;
    return RC_OK;
}

enum rc squeeze(enum part_algorithm algorithm, struct bytes raw, struct buf *to, struct err *err)
{
    if (raw.len > PART_FRAME_BYTES_MAX)
        return err_set(err, RC_TOO_BIG, "a partition batch of %zu bytes is over the limit of %d",
                       raw.len, PART_FRAME_BYTES_MAX);
    switch (algorithm) {
    case PART_NONE:
        return buf_add_bytes(to, raw) ? RC_OK : no_room(raw.len, err);
    case PART_GZIP:
        return gzip_pack(raw, to, err);
    case PART_LZ4:
        return lz4_pack(raw, to, err);
    case PART_ZSTD:
        return zstd_pack(raw, to, err);
    case PART_AUTO:
        break;
    }
    return err_set(err, RC_INVALID, "unknown algorithm %d", (int)algorithm);
}

enum rc squeeze_best(enum part_algorithm wished, struct bytes raw, struct buf *to,
                     enum part_algorithm *ret_algorithm, struct err *err)
{
    enum part_algorithm first = wished, last = wished, best = PART_NONE;
    size_t start = to->len;
    CLEANUP(buf_done) struct buf trial;
    buf_init(&trial, (size_t)2 * PART_FRAME_BYTES_MAX);

    if (wished == PART_AUTO) {
        first = PART_GZIP;
        last = PART_ZSTD;
    }
    enum rc rc = squeeze(PART_NONE, raw, to, err);
    for (enum part_algorithm each = first; rc == RC_OK && each <= last; each++) {
        buf_cut(&trial, 0);
        rc = squeeze(each, raw, &trial, err);
        if (rc != RC_OK || trial.len >= to->len - start)
            continue;
        best = each;
        buf_cut(to, start);
        if (!buf_add_bytes(to, buf_bytes(&trial)))
            rc = no_room(trial.len, err);
    }
    if (rc == RC_OK)
        *ret_algorithm = best;
    return rc;
}

static enum rc damaged(enum part_algorithm algorithm, struct err *err)
{
    return err_set(err, RC_CORRUPT, "could not decompress a partition batch: damaged %s data",
                   names[algorithm]);
}

static enum rc gzip_unpack(struct bytes packed, uint8_t *to, size_t raw_len, struct err *err)
{
    z_stream stream = {.next_in = (Bytef *)(uintptr_t)packed.ptr, .avail_in = (uInt)packed.len};
    if (inflateInit2(&stream, GZIP_WINDOW) != Z_OK)
        return err_set(err, RC_NOMEM, "could not start gunzip");
    stream.next_out = to;
    stream.avail_out = (uInt)raw_len;
    int end = inflate(&stream, Z_FINISH);
    bool whole = end == Z_STREAM_END && stream.avail_out == 0 && stream.avail_in == 0;
    inflateEnd(&stream);
    return whole ? RC_OK : damaged(PART_GZIP, err);
}

enum rc unsqueeze(enum part_algorithm algorithm, struct bytes packed, uint8_t *to, size_t raw_len,
                  struct err *err)
{
    if (packed.len > PART_FRAME_BYTES_MAX || raw_len > PART_FRAME_BYTES_MAX)
        return err_set(err, RC_CORRUPT, "a partition batch claims %zu bytes", raw_len);
    switch (algorithm) {
    case PART_NONE:
        if (packed.len != raw_len)
            return err_set(err, RC_CORRUPT, "a partition batch has %zu bytes, not %zu", packed.len,
                           raw_len);
        memcpy(to, packed.ptr, raw_len);
        return RC_OK;
    case PART_GZIP:
        return gzip_unpack(packed, to, raw_len, err);
    case PART_LZ4: {
        int len = LZ4_decompress_safe((const char *)packed.ptr, (char *)to, (int)packed.len,
                                      (int)raw_len);
        return len >= 0 && (size_t)len == raw_len ? RC_OK : damaged(algorithm, err);
    }
    case PART_ZSTD: {
        size_t len = ZSTD_decompress(to, raw_len, packed.ptr, packed.len);
        return !ZSTD_isError(len) && len == raw_len ? RC_OK : damaged(algorithm, err);
    }
    case PART_AUTO:
        break;
    }
    return err_set(err, RC_VERSION, "unknown algorithm %d", (int)algorithm);
}

enum rc unsqueeze_gzip(struct bytes packed, struct buf *to, struct err *err)
{
    z_stream stream = {.next_in = (Bytef *)(uintptr_t)packed.ptr, .avail_in = (uInt)packed.len};
    enum rc rc = RC_OK;
    int end = Z_OK;
    if (packed.len > PART_FRAME_BYTES_MAX)
        return no_room(packed.len, err);
    if (inflateInit2(&stream, GZIP_WINDOW) != Z_OK)
        return err_set(err, RC_NOMEM, "could not start gunzip");
    while (end != Z_STREAM_END) {
        const size_t piece = (size_t)16 * 1024;
        if (!buf_reserve(to, piece)) {
            rc = no_room(to->len + piece, err);
            break;
        }
        stream.next_out = to->ptr + to->len;
        stream.avail_out = (uInt)piece;
        end = inflate(&stream, Z_NO_FLUSH);
        to->len += piece - stream.avail_out;
        if (end != Z_OK && end != Z_STREAM_END) {
            rc = damaged(PART_GZIP, err);
            break;
        }
    }
    if (rc == RC_OK && stream.avail_in != 0)
        rc = err_set(err, RC_CORRUPT, "%u bytes follow the gzip data", stream.avail_in);
    inflateEnd(&stream);
    return rc;
}
