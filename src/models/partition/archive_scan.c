// SPDX-License-Identifier: Apache-2.0
/* archive_scan.c - filters over the packed columns.
 *
 * A block of 256 records has a mask of those still wanted. Each column the filter names clears
 * bits; a block without any is left at once, so a column is read only where those before it found
 * something. What the frame's header excludes costs nothing. */
#include "base/macros.h"
#include "base/mem.h"
#include "models/partition/archive_int.h"
#include "models/partition/bits.h"
#include "models/partition/column_int.h"

#include "base/banned.h"

enum { MASK_WORDS = COLUMN_SYNC / 64 };

static void memory_free(void *pointer)
{
    mem_free(*(void **)pointer);
}

struct mask {
    uint64_t word[MASK_WORDS];
};

static bool mask_is_empty(const struct mask *mask)
{
    uint64_t any = 0;
    for (size_t i = 0; i < MASK_WORDS; i++)
        any |= mask->word[i];
    return any == 0;
}

/* Keeps what lies within the bounds. */
static void mask_within(struct mask *mask, const int64_t *values, size_t count, int64_t min,
                        int64_t max)
{
    uint64_t span = (uint64_t)max - (uint64_t)min;
    for (size_t from = 0; from < count; from += 64) {
        size_t part = count - from < 64 ? count - from : 64;
        uint64_t word = 0;
        for (size_t i = 0; i < part; i++)
            word |= (uint64_t)((uint64_t)values[from + i] - (uint64_t)min <= span) << i;
        mask->word[from / 64] &= word;
    }
}

static void mask_statuses(struct mask *mask, const int64_t *values, size_t count, unsigned statuses)
{
    for (size_t i = 0; i < count; i++)
        if ((uint64_t)values[i] >= PART_STATUS_COUNT || !(statuses >> values[i] & 1))
            mask->word[i / 64] &= ~(UINT64_C(1) << i % 64);
}

/* The column of ids can be searched: in order, and nothing in it wraps. */
static bool ids_ascend(const struct frame *frame)
{
    return frame->flags & FRAME_ASCENDING && wrap_sub(frame->id_max, frame->id_min) >= 0;
}

/* The index of a worker in the frame's list; SIZE_MAX: it has no record here. */
static size_t worker_find(const struct frame *frame, uint32_t worker)
{
    size_t low = 0, high = frame->worker_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (frame->worker[middle] < worker)
            low = middle + 1;
        else
            high = middle;
    }
    return low < frame->worker_count && frame->worker[low] == worker ? low : SIZE_MAX;
}

struct scan { /* the filter in terms of this batch */
    const struct part_filter *filter;
    int64_t *last;        /* of every worker, if updated_at is told by worker */
    size_t updated_ready; /* records before this have been through part__updated_read() */
    size_t worker_index;
    int64_t id_min, id_max; /* as the columns have them */
    int64_t updated_min, updated_max;
};

/* Reading by worker has to begin where the 512 of the block begin, unless it has been there. */
static void updated_read(const struct part_batch *batch, struct scan *scan, size_t from,
                         size_t count, int64_t *to)
{
    size_t start = from - from % PART_WORKER_BLOCK;
    if (batch->updated_mode == UPDATED_BY_WORKER) {
        if (scan->updated_ready > start && scan->updated_ready <= from)
            start = scan->updated_ready;
        while (start < from) {
            size_t part = COLUMN_SYNC - start % COLUMN_SYNC;
            if (part > from - start)
                part = from - start;
            part__updated_read(batch, start, part, scan->last, to);
            start += part;
        }
    }
    part__updated_read(batch, from, count, scan->last, to);
    scan->updated_ready = from + count;
}

static void block_scan(const struct part_batch *batch, struct scan *scan, size_t from, size_t count,
                       struct mask *mask)
{
    const struct part_filter *filter = scan->filter;
    int64_t values[COLUMN_SYNC];
    for (size_t i = 0; i < MASK_WORDS; i++)
        mask->word[i] =
            i * 64 >= count ? 0 : bits_mask(count - i * 64 < 64 ? (unsigned)(count - i * 64) : 64);
    if (filter->has_worker) {
        column_read(batch->column[PART_COLUMN_WORKER], from, count, values);
        mask_within(mask, values, count, (int64_t)scan->worker_index, (int64_t)scan->worker_index);
        if (mask_is_empty(mask))
            return;
    }
    if (filter->statuses) {
        column_read(batch->column[PART_COLUMN_STATUS], from, count, values);
        mask_statuses(mask, values, count, filter->statuses);
        if (mask_is_empty(mask))
            return;
    }
    if (filter->has_id) {
        column_read(batch->column[PART_COLUMN_ID], from, count, values);
        mask_within(mask, values, count, scan->id_min, scan->id_max);
        if (mask_is_empty(mask))
            return;
    }
    if (filter->has_updated) {
        updated_read(batch, scan, from, count, values);
        mask_within(mask, values, count, scan->updated_min, scan->updated_max);
    }
}

static bool record_matches(const struct part_record *record, const struct part_filter *filter)
{
    if (filter->statuses && !(filter->statuses >> record->status & 1))
        return false;
    if (filter->has_worker && record->worker != filter->worker)
        return false;
    if (filter->has_id && (record->id < filter->id_min || record->id > filter->id_max))
        return false;
    return !filter->has_updated || (record->updated_s >= filter->updated_min_s &&
                                    record->updated_s <= filter->updated_max_s);
}

static size_t records_scan(const struct part_batch *batch, const struct part_filter *filter,
                           size_t *position, uint32_t *positions, size_t max)
{
    size_t found = 0, at = *position;
    for (; at < batch->frame.count && found < max; at++)
        if (record_matches(&batch->records[at], filter))
            positions[found++] = (uint32_t)at;
    *position = at;
    return found;
}

/* What the header and the ends of an ascending id column tell; false: nothing can match. */
static bool scan_narrow(const struct part_batch *batch, struct scan *scan, size_t *from,
                        size_t *end)
{
    const struct part_filter *filter = scan->filter;
    const struct frame *frame = &batch->frame;
    *end = frame->count;
    if (filter->has_updated && filter->updated_max_s < filter->updated_min_s)
        return false;
    scan->updated_min = wrap_sub(filter->updated_min_s, frame->base_s);
    scan->updated_max = wrap_sub(filter->updated_max_s, frame->base_s);
    if (filter->has_worker) {
        scan->worker_index = worker_find(frame, filter->worker);
        if (scan->worker_index == SIZE_MAX)
            return false;
    }
    if (!filter->has_id)
        return true;
    if (filter->id_max < filter->id_min || filter->id_max < frame->id_min ||
        filter->id_min > frame->id_max)
        return false;
    int64_t low = filter->id_min > frame->id_min ? filter->id_min : frame->id_min;
    int64_t high = filter->id_max < frame->id_max ? filter->id_max : frame->id_max;
    scan->id_min = wrap_sub(low, frame->id_min);
    scan->id_max = wrap_sub(high, frame->id_min);
    if (ids_ascend(frame)) {
        const struct column *ids = batch->column[PART_COLUMN_ID];
        size_t first = column_lower_bound(ids, scan->id_min);
        if (first > *from)
            *from = first;
        if (scan->id_max < INT64_MAX)
            *end = column_lower_bound(ids, scan->id_max + 1);
    }
    return true;
}

size_t part_batch_scan(const struct part_batch *batch, const struct part_filter *filter,
                       size_t *position, uint32_t *positions, size_t max)
{
    struct scan scan = {.filter = filter};
    size_t found = 0, from = *position, end;
    if (batch->records)
        return records_scan(batch, filter, position, positions, max);
    if (!scan_narrow(batch, &scan, &from, &end)) {
        *position = batch->frame.count;
        return 0;
    }
    CLEANUP(memory_free) int64_t *last = NULL;
    if (filter->has_updated && batch->updated_mode == UPDATED_BY_WORKER)
        last = mem_alloc(batch->frame.worker_count * sizeof *last);
    scan.last = last;
    while (from < end) {
        /* Up to the next sync point, so that deltas are summed up once. */
        size_t count = COLUMN_SYNC - from % COLUMN_SYNC;
        struct mask mask;
        if (count > end - from)
            count = end - from;
        block_scan(batch, &scan, from, count, &mask);
        for (size_t i = 0; i < MASK_WORDS; i++) {
            for (uint64_t word = mask.word[i]; word; word &= word - 1) {
                size_t at = from + i * 64 + (size_t)__builtin_ctzll(word);
                if (found == max) {
                    *position = at;
                    return found;
                }
                positions[found++] = (uint32_t)at;
            }
        }
        from += count;
    }
    *position = batch->frame.count;
    return found;
}

bool part_batch_find(const struct part_batch *batch, int64_t id, size_t *ret_position)
{
    const struct part_filter filter = {.has_id = true, .id_min = id, .id_max = id};
    size_t position = 0;
    uint32_t found;
    if (id < batch->frame.id_min || id > batch->frame.id_max)
        return false;
    int64_t value = wrap_sub(id, batch->frame.id_min);
    if (!batch->records && ids_ascend(&batch->frame)) {
        position = column_lower_bound(batch->column[PART_COLUMN_ID], value);
        if (position == batch->frame.count ||
            column_get(batch->column[PART_COLUMN_ID], position) != value)
            return false;
        *ret_position = position;
        return true;
    }
    if (part_batch_scan(batch, &filter, &position, &found, 1) == 0)
        return false;
    *ret_position = found;
    return true;
}
