// SPDX-License-Identifier: Apache-2.0
/* statistic.c - writes statistics as INFO and as Prometheus's text format have them. */
#include "command/statistic.h"

#include <inttypes.h>

#include "base/mem.h"

#include "base/banned.h"

static uint64_t value_of(const struct statistic *row, const void *values)
{
    uint64_t value;
    memcpy(&value, (const char *)values + row->offset, sizeof value);
    return value / (row->divisor ? row->divisor : 1);
}

bool statistics_info(const struct statistics *set, void *owner, struct buf *to)
{
    char labels[STATISTIC_LABELS_BYTES] = "";
    void *values = mem_zalloc(set->bytes);
    bool good = set->read(owner, 0, values, labels);
    ASSERT(good); /* what has labels is not in INFO */
    for (size_t i = 0; good && i < set->row_count; i++)
        if (set->row[i].info)
            good = buf_printf(to, "%s:%" PRIu64 "\r\n", set->row[i].info,
                              value_of(&set->row[i], values));
    mem_free(values);
    return good;
}

bool statistic_head(struct buf *to, const char *name, const char *type, const char *help)
{
    return buf_printf(to, "# HELP terrace_%s %s\n# TYPE terrace_%s %s\n", name, help, name, type);
}

static bool metric_add(const struct statistics *set, const struct statistic *row, void *owner,
                       void *values, struct buf *to)
{
    char labels[STATISTIC_LABELS_BYTES] = "";
    bool good = statistic_head(to, row->metric,
                               row->kind == STATISTIC_COUNTER ? "counter" : "gauge", row->help);
    for (size_t n = 0; good && set->read(owner, n, values, labels); n++) {
        uint64_t value = value_of(row, values);
        good = labels[0]
                   ? buf_printf(to, "terrace_%s{%s} %" PRIu64 "\n", row->metric, labels, value)
                   : buf_printf(to, "terrace_%s %" PRIu64 "\n", row->metric, value);
    }
    return good;
}

bool statistics_metrics(const struct statistics *set, void *owner, struct buf *to)
{
    if (set->is_shown && !set->is_shown(owner))
        return true;
    void *values = mem_zalloc(set->bytes);
    bool good = true;
    for (size_t i = 0; good && i < set->row_count; i++)
        if (set->row[i].metric)
            good = metric_add(set, &set->row[i], owner, values, to);
    mem_free(values);
    return good && (!set->add || set->add(owner, to));
}
