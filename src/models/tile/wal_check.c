// SPDX-License-Identifier: Apache-2.0
/* wal_check.c - a write-ahead log of SQLite, frame by frame; integers big-endian:
 *
 *   OFFSET  SIZE  WHAT
 *   0       4     magic 0x377f0682, or ..83: checksums are of big-endian words
 *   4       4     format
 *   8       4     size of a page
 *   12      4     number of the checkpoint
 *   16      8     salts
 *   24      8     checksum of these 24 bytes
 *   then frames:
 *   0       4     number of the page
 *   4       4     a commit: pages of the file after it; 0: it goes on
 *   8       8     salts: those of the header, or the frame is of an earlier log
 *   16      8     checksum of the bytes 0 to 7 and of the page, going on from the frame before
 *   24      ..    the page */
#include "models/tile/wal_check.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/codec.h"
#include "base/mem.h"

#include "base/banned.h"

enum {
    WAL_HEADER_BYTES = 32,
    WAL_SUMMED_BYTES = 24, /* of the header */
    FRAME_HEADER_BYTES = 24,
    FRAME_SUMMED_BYTES = 8, /* of a frame's header */
    SALTS_BYTES = 8,
    PAGE_BYTES_MIN = 512,
    PAGE_BYTES_MAX = 65536,
    TRIES = 3,
};
#define WAL_MAGIC UINT32_C(0x377f0682)

struct wal {
    int fd;
    uint64_t bytes;
    uint32_t page_bytes;
    bool big_endian;
    uint8_t salts[SALTS_BYTES];
    uint32_t sum[2];
    uint8_t *frame;
};

static void sum_add(struct wal *wal, const uint8_t *at, size_t len)
{
    for (size_t i = 0; i + 8 <= len; i += 8) {
        uint32_t a = wal->big_endian ? be32_get(at + i) : le32_get(at + i);
        uint32_t b = wal->big_endian ? be32_get(at + i + 4) : le32_get(at + i + 4);
        wal->sum[0] += a + wal->sum[1];
        wal->sum[1] += b + wal->sum[0];
    }
}

static bool sum_is(const struct wal *wal, const uint8_t *at)
{
    return be32_get(at) == wal->sum[0] && be32_get(at + 4) == wal->sum[1];
}

static bool header_is_whole(struct wal *wal, const uint8_t header[WAL_HEADER_BYTES])
{
    uint32_t magic = be32_get(header);
    wal->big_endian = magic & 1;
    wal->page_bytes = be32_get(header + 8);
    memcpy(wal->salts, header + 16, SALTS_BYTES);
    sum_add(wal, header, WAL_SUMMED_BYTES);
    return (magic & ~1u) == WAL_MAGIC && sum_is(wal, header + WAL_SUMMED_BYTES) &&
           wal->page_bytes >= PAGE_BYTES_MIN && wal->page_bytes <= PAGE_BYTES_MAX &&
           (wal->page_bytes & (wal->page_bytes - 1)) == 0;
}

/* Frames behind the first that is wrong count only if they have the header's salts. A commit that
 * just ends is being written, or was. */
static enum wal_state frames_look(struct wal *wal)
{
    size_t frame_bytes = FRAME_HEADER_BYTES + (size_t)wal->page_bytes;
    bool wrong = false, torn = false, open = false, commit = false;
    for (uint64_t at = WAL_HEADER_BYTES; at + frame_bytes <= wal->bytes; at += frame_bytes) {
        if (pread(wal->fd, wal->frame, frame_bytes, (off_t)at) != (ssize_t)frame_bytes)
            break;
        bool ours = memcmp(wal->frame + 8, wal->salts, SALTS_BYTES) == 0;
        if (commit && ours)
            return WAL_DAMAGED; /* a commit that was begun after one that is not whole */
        if (!wrong) {
            sum_add(wal, wal->frame, FRAME_SUMMED_BYTES);
            sum_add(wal, wal->frame + FRAME_HEADER_BYTES, wal->page_bytes);
            wrong = !ours || !sum_is(wal, wal->frame + 16);
        }
        bool commits = be32_get(wal->frame + 4) != 0;
        torn = torn || (wrong && (ours || open));
        commit = commit || (wrong && ours && commits);
        open = !wrong && !commits;
    }
    return torn ? WAL_TORN : WAL_WHOLE;
}

static enum wal_state wal_look(int fd, uint64_t bytes)
{
    uint8_t header[WAL_HEADER_BYTES];
    struct wal wal = {.fd = fd, .bytes = bytes};
    if (bytes < WAL_HEADER_BYTES || pread(fd, header, sizeof header, 0) != (ssize_t)sizeof header)
        return bytes == 0 ? WAL_EMPTY : WAL_TORN;
    if (!header_is_whole(&wal, header)) /* it is written and synced before the first frame */
        return bytes > WAL_HEADER_BYTES ? WAL_DAMAGED : WAL_TORN;
    wal.frame = mem_alloc(FRAME_HEADER_BYTES + (size_t)wal.page_bytes);
    enum wal_state state = frames_look(&wal);
    mem_free(wal.frame);
    return state;
}

enum rc wal_check(const char *path, enum wal_state *ret_state, struct err *err)
{
    struct stat before, after;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    *ret_state = WAL_EMPTY;
    if (fd < 0)
        return errno == ENOENT ? RC_OK : err_set(err, RC_IO, "\"%s\": %s", path, strerror(errno));
    enum rc rc = RC_OK;
    for (int i = 0; i < TRIES && rc == RC_OK; i++) { /* somebody may be writing it */
        if (fstat(fd, &before) != 0)
            rc = err_set(err, RC_IO, "\"%s\": %s", path, strerror(errno));
        else
            *ret_state = wal_look(fd, (uint64_t)before.st_size);
        if (rc != RC_OK || (fstat(fd, &after) == 0 && before.st_size == after.st_size &&
                            before.st_mtim.tv_sec == after.st_mtim.tv_sec &&
                            before.st_mtim.tv_nsec == after.st_mtim.tv_nsec))
            break;
        *ret_state = WAL_WHOLE; /* it lives */
    }
    close(fd);
    return rc;
}
