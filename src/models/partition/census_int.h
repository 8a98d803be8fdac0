// SPDX-License-Identifier: Apache-2.0
/* census_int.h - what census.c, verify.c and gaps.c share. */
#pragma once

#include "base/table.h"
#include "models/partition/part_int.h"

enum { CENSUS_PROBLEMS_MAX = 100 };

struct census_ids {
    int64_t *id;
    size_t count, cap;
};

struct spans { /* by min_id */
    struct part_span *span;
    size_t count, cap;
};

struct held_info {
    struct part_info info;
    struct held_info *next;
};
struct census_held {
    struct arena *arena; /* the command's */
    struct held_info *first, **last;
};

enum { CENSUS_NO_STATE = UINT8_MAX };
struct census_touch { /* an active record was changed below the cursor */
    int64_t id;
    uint32_t number; /* of the note */
    uint8_t before;  /* its state, or CENSUS_NO_STATE */
};
struct census_active {
    int64_t cursor;
    bool through, overrun;
    uint64_t count[PART_STATUS_COUNT];
    struct census_touch *touch;
    size_t touch_count, touch_cap;
    uint32_t touch_number;
};

struct part_census {
    struct part *part;
    struct part_census *next;
    struct part_census_options options;
    uint32_t db;
    struct bytes name; /* owned */
    int64_t cursor;
    bool through; /* the cursor is behind every id */
    bool overrun;
    struct census_ids late, counted; /* counted: of the late ones */
    struct census_held held;
    uint64_t held_batches;
    uint64_t batch_count, record_count;
    char **problem;
    size_t problem_count;
    /* gaps.c */
    struct spans covered, twice, unreadable, aged; /* neither overlap nor touch */
    int64_t aged_cursor;
    bool aged_through;
    struct spans result;
    bool span_more;
    /* verify.c */
    struct table sums; /* struct verify_sum */
    struct arena sums_arena;
    uint64_t *histogram;
    /* verify_active.c */
    struct census_active active;
};

void census_held_clear(struct part_census *census, struct arena *arena);
enum rc census_hold(struct part_census *census, const struct part_info *info) NODISCARD;
void census_problem_add(struct part_census *census, const char *text); /* once each */
/* Notes what err says; for PART_GAPS it is an error. */
enum rc census_problem(struct part_census *census, const struct err *err) NODISCARD;
void census_problems_free(struct part_census *census);

enum rc gaps_count(struct part_census *census, const struct part_info *info,
                   struct err *err) NODISCARD;
/* A batch that cannot be read covers some of these ids, or all. */
enum rc gaps_unreadable(struct part_census *census, int64_t min_id, int64_t max_id,
                        struct err *err) NODISCARD;
/* Some rows of what has aged out. RC_WAIT: there is more. */
enum rc gaps_aged(struct part_census *census, struct part_job *job, struct err *err) NODISCARD;
enum rc gaps_end(struct part_census *census, struct part_job *job, struct err *err) NODISCARD;

bool census_is_of(const struct part_census *census, const struct part_job *job);

/* RC_WAIT: there is more. RC_OK: the counts are exact in this commit. */
enum rc census_active_step(struct part_census *census, struct part_job *job,
                           struct err *err) NODISCARD;
void census_active_done(struct part_census *census);

void verify_init(struct part_census *census);
void verify_done(struct part_census *census);
enum rc verify_count(struct part_census *census, const struct part_info *info) NODISCARD;
enum rc verify_end(struct part_census *census, struct part_job *job, struct err *err) NODISCARD;
