// SPDX-License-Identifier: Apache-2.0
/* meter.c - bytes of the hot tier by journal segment. */
#include "store/hot/meter.h"

#include <string.h>

#include "base/macros.h"
#include "base/mem.h"

#include "base/banned.h"

void meter_init(struct meter *meter, uint32_t mark)
{
    *meter = (struct meter){.mark = mark};
}

void meter_done(struct meter *meter)
{
    if (!meter)
        return;
    mem_free(meter->segment);
    *meter = (struct meter){0};
}

static uint64_t *meter_place(struct meter *meter, uint32_t segment)
{
    if (segment <= meter->mark)
        return &meter->clean_bytes;
    size_t index = segment - meter->mark - 1;
    if (index >= meter->segment_count) {
        size_t count = index + 16;
        meter->segment = mem_realloc(meter->segment, count * sizeof *meter->segment);
        memset(meter->segment + meter->segment_count, 0,
               (count - meter->segment_count) * sizeof *meter->segment);
        meter->segment_count = count;
    }
    return &meter->segment[index];
}

void meter_add(struct meter *meter, uint32_t segment, size_t bytes)
{
    *meter_place(meter, segment) += bytes;
    meter->total_bytes += bytes;
}

void meter_sub(struct meter *meter, uint32_t segment, size_t bytes)
{
    uint64_t *place = meter_place(meter, segment);
    ASSERT(*place >= bytes);
    *place -= bytes;
    meter->total_bytes -= bytes;
}

void meter_mark(struct meter *meter, uint32_t mark)
{
    if (mark <= meter->mark)
        return;
    size_t step = mark - meter->mark;
    size_t gone = step < meter->segment_count ? step : meter->segment_count;
    for (size_t i = 0; i < gone; i++)
        meter->clean_bytes += meter->segment[i];
    size_t left = meter->segment_count - gone;
    if (gone) {
        memmove(meter->segment, meter->segment + gone, left * sizeof *meter->segment);
        memset(meter->segment + left, 0, gone * sizeof *meter->segment);
    }
    meter->mark = mark;
}
