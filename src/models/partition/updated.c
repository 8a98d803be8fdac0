// SPDX-License-Identifier: Apache-2.0
/* updated.c - reading updated_at, which a batch can tell in three ways (archive_int.h). */
#include "base/macros.h"
#include "base/mem.h"
#include "models/partition/archive_int.h"
#include "models/partition/column_int.h"

#include "base/banned.h"

struct wanted { /* records of one of the 512, at ascending positions */
    const uint32_t *position;
    size_t count;
    size_t block; /* which 512 */
};

static void memory_free(void *pointer)
{
    mem_free(*(void **)pointer);
}

/* Follows one worker from the start of the 512; all that is wanted is of that worker. */
static void worker_follow(const struct part_batch *batch, const struct wanted *wanted,
                          int64_t worker, int64_t *to)
{
    int64_t codes[COLUMN_SYNC], gap[PART_WORKER_BLOCK], duration[PART_WORKER_BLOCK];
    uint32_t mine[PART_WORKER_BLOCK] = {0};
    size_t mine_count = 0, end = (size_t)wanted->position[wanted->count - 1] + 1, done = 0;
    if (worker < 0 || (uint64_t)worker >= batch->frame.worker_count) {
        memset(to, 0, wanted->count * sizeof *to); /* they are refused for their worker */
        return;
    }
    for (size_t at = wanted->block * PART_WORKER_BLOCK; at < end; at += COLUMN_SYNC) {
        size_t count = end - at < COLUMN_SYNC ? end - at : COLUMN_SYNC;
        column_read(batch->column[PART_COLUMN_WORKER], at, count, codes);
        for (size_t i = 0; i < count; i++) {
            mine[mine_count] = (uint32_t)(at + i);
            mine_count += codes[i] == worker;
        }
    }
    column_gather(batch->column[PART_COLUMN_UPDATED], mine, mine_count, gap);
    column_gather(batch->column[PART_COLUMN_DURATION], mine, mine_count, duration);
    int64_t updated = column_get(batch->column[PART_COLUMN_FIRST],
                                 wanted->block * batch->frame.worker_count + (size_t)worker);
    for (size_t i = 0; i < mine_count; i++) {
        updated = wrap_add(updated, gap[i]);
        updated = wrap_add(updated, part__duration_s(duration[i], batch->unit_ms));
        if (done < wanted->count && wanted->position[done] == mine[i])
            to[done++] = updated;
    }
    /* Columns that are damaged under a good checksum need not say the same twice. */
    memset(to + done, 0, (wanted->count - done) * sizeof *to);
}

/* Follows all of them. */
static void workers_follow(const struct part_batch *batch, const struct wanted *wanted, int64_t *to)
{
    CLEANUP(memory_free) int64_t *last = mem_alloc(batch->frame.worker_count * sizeof *last);
    int64_t updated[COLUMN_SYNC];
    size_t end = (size_t)wanted->position[wanted->count - 1] + 1, done = 0;
    for (size_t at = wanted->block * PART_WORKER_BLOCK; at < end; at += COLUMN_SYNC) {
        size_t count = end - at < COLUMN_SYNC ? end - at : COLUMN_SYNC;
        part__updated_read(batch, at, count, last, updated);
        while (done < wanted->count && wanted->position[done] < at + count) {
            to[done] = updated[wanted->position[done] - at];
            done++;
        }
    }
}

static void by_worker_gather(const struct part_batch *batch, const uint32_t *position, size_t count,
                             const int64_t *worker, int64_t *to)
{
    for (size_t i = 0; i < count;) {
        struct wanted wanted = {.position = position + i, .block = position[i] / PART_WORKER_BLOCK};
        bool one = true;
        for (size_t at = i; at < count && position[at] / PART_WORKER_BLOCK == wanted.block; at++) {
            one = one && worker[at] == worker[i];
            wanted.count++;
        }
        if (one)
            worker_follow(batch, &wanted, worker[i], to + i);
        else
            workers_follow(batch, &wanted, to + i);
        i += wanted.count;
    }
}

void part__updated_gather(const struct part_batch *batch, const uint32_t *position, size_t count,
                          const int64_t *worker, int64_t *to)
{
    int64_t duration[PART_READ_PART];
    ASSERT(count <= PART_READ_PART);
    if (batch->updated_mode == UPDATED_BY_WORKER) {
        by_worker_gather(batch, position, count, worker, to);
        return;
    }
    column_gather(batch->column[PART_COLUMN_UPDATED], position, count, to);
    if (batch->updated_mode != UPDATED_FROM_START)
        return;
    column_gather(batch->column[PART_COLUMN_DURATION], position, count, duration);
    for (size_t i = 0; i < count; i++)
        to[i] = wrap_add(to[i], part__duration_s(duration[i], batch->unit_ms));
}

void part__updated_read(const struct part_batch *batch, size_t from, size_t count, int64_t *last,
                        int64_t *to)
{
    int64_t durations[COLUMN_SYNC], workers[COLUMN_SYNC];
    ASSERT(count <= COLUMN_SYNC);
    column_read(batch->column[PART_COLUMN_UPDATED], from, count, to);
    if (batch->updated_mode == UPDATED_SELF)
        return;
    column_read(batch->column[PART_COLUMN_DURATION], from, count, durations);
    if (batch->updated_mode == UPDATED_BY_WORKER) {
        size_t worker_count = batch->frame.worker_count;
        column_read(batch->column[PART_COLUMN_WORKER], from, count, workers);
        if (from % PART_WORKER_BLOCK == 0)
            column_read(batch->column[PART_COLUMN_FIRST], from / PART_WORKER_BLOCK * worker_count,
                        worker_count, last);
        for (size_t i = 0; i < count; i++) {
            if ((uint64_t)workers[i] >= worker_count)
                continue; /* the record is refused for its worker */
            int64_t *end = &last[workers[i]];
            *end = wrap_add(*end, to[i]);
            to[i] = *end = wrap_add(*end, part__duration_s(durations[i], batch->unit_ms));
        }
        return;
    }
    for (size_t i = 0; i < count; i++)
        to[i] = wrap_add(to[i], part__duration_s(durations[i], batch->unit_ms));
}
