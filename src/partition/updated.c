/* Reading updated_at, which a batch can tell in three ways (archive_int.h). */
#include "base/macros.h"
#include "partition/archive_int.h"
#include "partition/column_int.h"

#include "base/banned.h"

/* More records of a worker in 256 than this are cheaper read all at once. Gaps have exceptions,
 * which each single look has to pass. */
enum { DURATION_GETS_MAX = 10, GAP_GETS_MAX = 2 };

/* Follows one worker from the start of the 512 to the position. */
static int64_t by_worker_get(const struct part_batch *batch, size_t position)
{
    const struct column *worker = batch->column[PART_COLUMN_WORKER];
    const struct column *duration = batch->column[PART_COLUMN_DURATION];
    const struct column *gap = batch->column[PART_COLUMN_UPDATED];
    size_t block = position / PART_WORKER_BLOCK, at = block * PART_WORKER_BLOCK;
    int64_t wanted = column_get(worker, position);
    int64_t workers[COLUMN_SYNC], durations[COLUMN_SYNC], gaps[COLUMN_SYNC];

    if (wanted < 0 || (uint64_t)wanted >= batch->frame.worker_count)
        return 0; /* the record is refused for its worker */
    int64_t updated = column_get(batch->column[PART_COLUMN_FIRST],
                                 block * batch->frame.worker_count + (size_t)wanted);
    for (; at <= position; at += COLUMN_SYNC) {
        size_t count = position - at + 1 < COLUMN_SYNC ? position - at + 1 : COLUMN_SYNC;
        size_t matches = 0;
        column_read(worker, at, count, workers);
        for (size_t i = 0; i < count; i++)
            matches += workers[i] == wanted;
        bool all_durations = matches > DURATION_GETS_MAX, all_gaps = matches > GAP_GETS_MAX;
        if (all_durations)
            column_read(duration, at, count, durations);
        if (all_gaps)
            column_read(gap, at, count, gaps);
        for (size_t i = 0; i < count && matches; i++) {
            if (workers[i] != wanted)
                continue;
            int64_t took = all_durations ? durations[i] : column_get(duration, at + i);
            updated = wrap_add(updated, all_gaps ? gaps[i] : column_get(gap, at + i));
            updated = wrap_add(updated, part__duration_s(took, batch->unit_ms));
            matches--;
        }
    }
    return updated;
}

int64_t part__updated_get(const struct part_batch *batch, size_t position)
{
    if (batch->updated_mode == UPDATED_BY_WORKER)
        return by_worker_get(batch, position);
    int64_t updated = column_get(batch->column[PART_COLUMN_UPDATED], position);
    if (batch->updated_mode == UPDATED_FROM_START)
        updated = wrap_add(
            updated, part__duration_s(column_get(batch->column[PART_COLUMN_DURATION], position),
                                      batch->unit_ms));
    return updated;
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
