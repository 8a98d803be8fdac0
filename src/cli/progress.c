// SPDX-License-Identifier: Apache-2.0
/* progress.c - draws the bar of a long subcommand. */
#include "cli/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/banned.h"

enum { BAR_CHARS = 30, EVERY_NS = 100 * 1000 * 1000 };
#define NS_PER_S 1e9

void progress_begin(struct progress *progress, const char *what, uint64_t total,
                    uint64_t begin_count)
{
    *progress = (struct progress){.what = what, .total = total, .begin_count = begin_count};
    progress->is_on = isatty(STDERR_FILENO);
    clock_init(&progress->clock);
    progress->begin_ns = progress->shown_ns = clock_mono_ns(&progress->clock);
}

static void draw(struct progress *progress, uint64_t count, uint64_t now_ns)
{
    double seconds = (double)(now_ns - progress->begin_ns) / NS_PER_S;
    double rate = seconds > 0 ? (double)(count - progress->begin_count) / seconds : 0;
    fputs("\r\x1b[K", stderr);
    if (progress->total > 0) {
        char bar[BAR_CHARS + 1];
        double share = (double)count / (double)progress->total;
        share = share > 1 ? 1 : share;
        size_t full = (size_t)(share * BAR_CHARS);
        memset(bar, '.', BAR_CHARS);
        memset(bar, '#', full);
        bar[BAR_CHARS] = 0;
        fprintf(stderr, "[%s] %3.0f %%  ", bar, share * 100);
    }
    fprintf(stderr, "%" PRIu64 " %s, %.0f/s", count, progress->what, rate);
    if (progress->total > count && rate > 0)
        fprintf(stderr, ", %.0f s left", (double)(progress->total - count) / rate);
    fflush(stderr);
}

void progress_at(struct progress *progress, uint64_t count)
{
    if (!progress->is_on)
        return;
    uint64_t now_ns = clock_mono_ns(&progress->clock);
    if (now_ns - progress->shown_ns < EVERY_NS)
        return;
    progress->shown_ns = now_ns;
    draw(progress, count, now_ns);
}

void progress_end(struct progress *progress, uint64_t count)
{
    if (!progress->is_on)
        return;
    draw(progress, count, clock_mono_ns(&progress->clock));
    fputc('\n', stderr);
    progress->is_on = false;
}
