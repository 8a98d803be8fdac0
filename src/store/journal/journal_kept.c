// SPDX-License-Identifier: Apache-2.0
/* journal_kept.c - a copy of what is written and not yet synced, in chunks that are used again.
 *
 * Memory: chunks hold at most what `unsynced_bytes_max` allows, a segment header more, and a part
 * of a chunk at each end of the two segments. Free chunks are kept for the next turns, together
 * with those in use up to half of that: under a load of large values memory that was given back and
 * taken again was a seventh of the executor's time. When nothing is left to sync all but a few are
 * given back, or they would stay resident after every burst. */
#include "store/journal/journal_int.h"

#include "base/mem.h"

#include "base/banned.h"

enum { KEPT_IOV_MAX = 64 };

static struct kept_chunk *chunk_take(struct journal *journal)
{
    struct kept_chunk *chunk = journal->chunk_free;
    if (chunk) {
        journal->chunk_free = chunk->next;
        journal->chunk_free_count--;
    } else {
        chunk = mem_alloc(sizeof *chunk);
    }
    chunk->next = NULL;
    chunk->from = 0;
    chunk->to = 0;
    return chunk;
}

static void chunk_give(struct journal *journal, struct kept_chunk *chunk)
{
    size_t bytes = journal->kept_bytes + (journal->chunk_free_count + 1) * sizeof *chunk;
    if (journal->chunk_free_count >= KEPT_CHUNKS_FREE_MAX &&
        bytes > journal->options.unsynced_bytes_max / 2) {
        mem_free(chunk);
        return;
    }
    chunk->next = journal->chunk_free;
    journal->chunk_free = chunk;
    journal->chunk_free_count++;
}

static void chunks_shrink(struct journal *journal, size_t count)
{
    while (journal->chunk_free_count > count) {
        struct kept_chunk *chunk = journal->chunk_free;
        journal->chunk_free = chunk->next;
        journal->chunk_free_count--;
        mem_free(chunk);
    }
}

void journal__chunks_done(struct journal *journal)
{
    chunks_shrink(journal, 0);
}

void journal__kept_add(struct journal *journal, struct kept *kept, struct bytes bytes)
{
    journal->kept_bytes += bytes.len;
    while (bytes.len > 0) {
        if (!kept->last || kept->last->to == KEPT_CHUNK_BYTES) {
            struct kept_chunk *chunk = chunk_take(journal);
            if (kept->last)
                kept->last->next = chunk;
            else
                kept->first = chunk;
            kept->last = chunk;
        }
        struct kept_chunk *last = kept->last;
        size_t len = KEPT_CHUNK_BYTES - last->to;
        if (len > bytes.len)
            len = bytes.len;
        memcpy(last->bytes + last->to, bytes.ptr, len);
        last->to += len;
        bytes = bytes_from(bytes, len);
    }
}

void journal__kept_drop(struct journal *journal, struct kept *kept, uint64_t bytes)
{
    ASSERT(bytes <= journal->kept_bytes);
    journal->kept_bytes -= bytes;
    while (kept->first) {
        struct kept_chunk *first = kept->first;
        size_t len = first->to - first->from;
        if (len > bytes) {
            first->from += bytes;
            return;
        }
        bytes -= len;
        kept->first = first->next;
        chunk_give(journal, first);
    }
    kept->last = NULL;
    ASSERT(bytes == 0);
    if (journal->kept_bytes == 0)
        chunks_shrink(journal, KEPT_CHUNKS_FREE_MAX);
}

void journal__kept_done(struct journal *journal, struct kept *kept)
{
    while (kept->first) {
        struct kept_chunk *first = kept->first;
        journal->kept_bytes -= first->to - first->from;
        kept->first = first->next;
        chunk_give(journal, first);
    }
    kept->last = NULL;
}

enum rc journal__kept_write(const struct kept *kept, struct file *file, uint64_t offset,
                            struct err *err)
{
    const struct kept_chunk *chunk = kept->first;

    while (chunk) {
        struct iovec iov[KEPT_IOV_MAX];
        uint64_t bytes = 0;
        int count = 0;
        for (; chunk && count < KEPT_IOV_MAX; chunk = chunk->next) {
            size_t len = chunk->to - chunk->from;
            iov[count++] = (struct iovec){(void *)(chunk->bytes + chunk->from), len};
            bytes += len;
        }
        enum rc rc = file_writev(file, offset, iov, count, err);
        if (rc != RC_OK)
            return rc;
        offset += bytes;
    }
    return RC_OK;
}
