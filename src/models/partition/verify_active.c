// SPDX-License-Identifier: Apache-2.0
/* verify_active.c - PART.ARCHIVE VERIFY: that counts by state are those of the active records.
 *
 * Invariants:
 *   (1) Records with ids below the cursor have been counted by the state they had when it passed.
 *   (2) A record below the cursor that is changed is noted with its state before; of several notes
 *       of an id the first one has the state it was counted by. A commit that is taken back leaves
 *       a note that is still true.
 *   (3) At the end every id that was noted is counted by the state it has then, in the commit that
 *       compares. */
#include <stdlib.h>

#include "base/mem.h"
#include "models/partition/census_int.h"
#include "models/partition/idwalk.h"

#include "base/banned.h"

enum {
    STEP_ROWS = 1000, /* of one commit */
    STEP_BYTES = 16 * 1024 * 1024,
    TOUCH_STEP = 10 * 1000,
    TOUCHES_MAX = 4 * 1000 * 1000, /* ids */
};

/* ---- what is changed meanwhile ---- */

static int touch_cmp(const void *a, const void *b)
{
    const struct census_touch *x = a, *y = b;
    if (x->id != y->id)
        return x->id > y->id ? 1 : -1;
    return (x->number > y->number) - (x->number < y->number);
}

/* Of each id the first note, by id. */
static void touches_unite(struct census_active *active)
{
    size_t kept = 0;
    if (active->touch_count > 1)
        qsort(active->touch, active->touch_count, sizeof *active->touch, touch_cmp);
    for (size_t i = 0; i < active->touch_count; i++)
        if (kept == 0 || active->touch[kept - 1].id != active->touch[i].id)
            active->touch[kept++] = active->touch[i];
    active->touch_count = kept;
}

static void touch_add(struct census_active *active, int64_t id, uint8_t before)
{
    if (active->touch_count == active->touch_cap) {
        touches_unite(active);
        if (2 * active->touch_count >= active->touch_cap) {
            active->touch_cap = active->touch_cap ? 2 * active->touch_cap : 64;
            active->touch = mem_realloc(active->touch, active->touch_cap * sizeof *active->touch);
        }
    }
    active->overrun = active->overrun || active->touch_count >= TOUCHES_MAX;
    if (!active->overrun)
        active->touch[active->touch_count++] =
            (struct census_touch){.id = id, .number = active->touch_number++, .before = before};
}

/* The state of a record; CENSUS_NO_STATE: there is none. */
static enum rc state_of(struct part_job *job, int64_t id, uint8_t *ret_state, struct err *err)
{
    struct part_info info;
    enum rc rc = job_info(job, JOB_PARTITIONS, id, &info, err);
    *ret_state = rc == RC_OK ? info.status : CENSUS_NO_STATE;
    return rc == RC_NOT_FOUND || rc == RC_CORRUPT ? RC_OK : rc; /* a damaged one was not counted */
}

enum rc census_touched(struct part_job *job, int64_t id, bool is_new, struct err *err)
{
    uint8_t before = CENSUS_NO_STATE;
    bool known = is_new;
    enum rc rc = RC_OK;
    for (struct part_census *census = job->part->census; rc == RC_OK && census;
         census = census->next) {
        struct census_active *active = &census->active;
        if (!census_is_of(census, job) || !(active->through || id < active->cursor))
            continue;
        if (!known)
            rc = state_of(job, id, &before, err);
        known = true;
        if (rc == RC_OK)
            touch_add(active, id, before);
    }
    return rc;
}

/* ---- counting ---- */

static void count_add(struct census_active *to, const uint64_t count[PART_STATUS_COUNT])
{
    for (size_t i = 0; i < PART_STATUS_COUNT; i++)
        to->count[i] += count[i];
}

static enum rc page_count(struct part_census *census, struct part_job *job, struct err *err)
{
    CLEANUP(idwalk_done) struct idwalk walk = {0};
    struct census_active *active = &census->active;
    uint64_t count[PART_STATUS_COUNT] = {0};
    struct bytes json;
    struct key *key;
    int64_t id;
    size_t bytes = 0;
    enum rc rc = job_key(job, JOB_PARTITIONS, &key, err);
    if (rc != RC_OK)
        return rc;
    idwalk_init(&walk, key, active->cursor);
    walk.steps_max = STEP_ROWS;
    while (bytes < STEP_BYTES) {
        struct part_info info;
        rc = idwalk_next(&walk, &id, &json, err);
        if (rc != RC_OK)
            break;
        bytes += json.len;
        struct job_field field = job_field(id);
        rc = job_info_read(job, JOB_PARTITIONS, job_field_bytes(&field), json, &info, err);
        if (rc == RC_OK)
            count[info.status]++;
        else if (rc == RC_CORRUPT)
            rc = census_problem(census, err);
        if (rc != RC_OK)
            return rc;
    }
    if (rc != RC_OK && rc != RC_NOT_FOUND && rc != RC_WAIT)
        return rc;
    count_add(active, count);
    active->through = rc == RC_NOT_FOUND || walk.ended;
    active->cursor = walk.next_id;
    return RC_OK;
}

/* Some of those that were changed meanwhile, counted anew. */
static enum rc touches_count(struct part_census *census, struct part_job *job, struct err *err)
{
    struct census_active *active = &census->active;
    uint64_t count[PART_STATUS_COUNT] = {0}; /* differences, which wrap */
    touches_unite(active);
    size_t part = active->touch_count < TOUCH_STEP ? active->touch_count : TOUCH_STEP;
    size_t before = active->touch_count - part;
    for (size_t i = before; i < active->touch_count; i++) {
        const struct census_touch *touch = &active->touch[i];
        uint8_t state;
        enum rc rc = state_of(job, touch->id, &state, err);
        if (rc == RC_COLD)
            for (; i < active->touch_count; i++)
                job_want(job, JOB_PARTITIONS, &active->touch[i].id, 1);
        if (rc != RC_OK)
            return rc;
        if (touch->before != CENSUS_NO_STATE)
            count[touch->before]--;
        if (state != CENSUS_NO_STATE)
            count[state]++;
    }
    count_add(active, count);
    active->touch_count = before;
    return RC_OK;
}

enum rc census_active_step(struct part_census *census, struct part_job *job, struct err *err)
{
    struct census_active *active = &census->active;
    enum rc rc;
    if (active->overrun)
        return err_set(err, RC_BUSY, "too many partitions are changed meanwhile: try again");
    if (!active->through)
        rc = page_count(census, job, err);
    else
        rc = touches_count(census, job, err);
    if (rc != RC_OK)
        return rc;
    return active->through && active->touch_count == 0 ? RC_OK : RC_WAIT;
}

void census_active_done(struct part_census *census)
{
    mem_free(census->active.touch);
}
