// SPDX-License-Identifier: Apache-2.0
/* flush_brake.c - whether the flusher waits because the engine is behind, or has to go on although
 * it is. */
#include "store/flush/flush_int.h"

#include "base/clock.h"

#include "base/banned.h"

#define STUCK_NS (UINT64_C(2) * 1000 * 1000 * 1000)

bool flush__braked(struct flush__brake *brake, const struct flush_options *options,
                   const struct engine_pressure *pressure)
{
    uint64_t now_ns = clock_mono_ns(options->clock);

    if (pressure->l0_file_count <= options->l0_file_count_max &&
        pressure->debt_bytes <= options->debt_bytes_max) {
        *brake = (struct flush__brake){0};
        return false;
    }
    if (!brake->on || pressure->l0_file_count < brake->l0_file_count ||
        pressure->debt_bytes < brake->debt_bytes)
        *brake = (struct flush__brake){.on = true,
                                       .since_ns = now_ns,
                                       .l0_file_count = pressure->l0_file_count,
                                       .debt_bytes = pressure->debt_bytes,
                                       .error_count = pressure->error_count};
    if (pressure->failed || pressure->error_count > brake->error_count)
        brake->failing = true;
    brake->error_count = pressure->error_count; /* an engine that was opened again begins at 0 */
    return !brake->failing || now_ns - brake->since_ns < STUCK_NS;
}
