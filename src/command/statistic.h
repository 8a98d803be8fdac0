// SPDX-License-Identifier: Apache-2.0
/* statistic.h - figures that are counted: rows that INFO and /metrics are made from.
 *
 * Ownership: rows are constants; the owner of a set (the server, or a model's object) is asked for
 * its values each time.
 * Threads: the executor. */
#pragma once

#include "base/buf.h"

enum { STATISTIC_LABELS_BYTES = 384 };

enum statistic_kind {
    STATISTIC_GAUGE,
    STATISTIC_COUNTER, /* its name in /metrics ends in _total, as Prometheus wants it */
};

struct statistic {
    const char *info;   /* its name in INFO; NULL: it is not there */
    const char *metric; /* its name in /metrics, without "terrace_"; NULL: it is not there */
    enum statistic_kind kind;
    const char *help;
    size_t offset;    /* of the uint64_t in what read() fills */
    uint64_t divisor; /* what is shown is the value by this; 0: the value */
};

struct statistics {      /* rows that are read together */
    const char *section; /* of INFO; NULL: they are not there */
    const char *title;   /* of the section; NULL: the set before has begun it */
    const struct statistic *row;
    size_t row_count;
    size_t bytes; /* of what read() fills */
    /* The values of the n-th thing that has them, and its labels: "db=\"0\"". False: there is none.
     * Those without labels have one thing. */
    bool (*read)(void *owner, size_t n, void *values, char labels[STATISTIC_LABELS_BYTES]);
    const char *labels; /* their names, for people; NULL: there are none */
    /* Whether /metrics has them now; NULL: always. */
    bool (*is_shown)(void *owner);
    /* /metrics: what is no single number, behind the rows. NULL: nothing. False: no memory. */
    bool (*add)(void *owner, struct buf *to);
};

/* The rows of a set in INFO, and in /metrics. False: no memory. */
bool statistics_info(const struct statistics *set, void *owner, struct buf *to) NODISCARD;
bool statistics_metrics(const struct statistics *set, void *owner, struct buf *to) NODISCARD;
/* What comes before the values of a name in /metrics; "terrace_" is put in front of it. */
bool statistic_head(struct buf *to, const char *name, const char *type, const char *help) NODISCARD;
