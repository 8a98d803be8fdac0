// SPDX-License-Identifier: Apache-2.0
/* part_work.c - what workers do: claim, start, beat, complete, fail, release.
 *
 * Who changes a partition has to own it: the worker in its record, and its fence if he names one.
 * Each claim draws a fence that is higher than all before, so a worker that was preempted and has
 * not noticed is refused even if it has the same name. */
#include "models/partition/part.h"

#include <stdio.h>

#include "base/utf8.h"
#include "models/partition/part_int.h"
#include "types/zset.h"

#include "base/banned.h"

enum {
    FUTURE_BEATS_MAX = 100, /* looked at by one claim */
    GIVEN_UP_MAX = 1000,    /* by one claim, about */
    REASON_BYTES = 96,
};

static bool has_beat(uint8_t status)
{
    return status == PART_CLAIMED || status == PART_RUNNING;
}

enum rc part__worker_check(struct bytes worker, struct err *err)
{
    bool good = worker.len > 0 && worker.len <= PART_NAME_BYTES_MAX && utf8_is_valid(worker);
    for (size_t i = 0; good && i < worker.len; i++)
        good = worker.ptr[i] >= 0x20 && worker.ptr[i] != 0x7f;
    if (!good)
        return err_set(err, RC_INVALID,
                       "the name of a worker has 1 to %d bytes of UTF-8 without control characters",
                       PART_NAME_BYTES_MAX);
    return RC_OK;
}

/* It is nobody's any more. */
static enum rc let_go(struct part_job *job, struct part_info *info, enum part_status status,
                      struct err *err)
{
    bool running = info->status == PART_RUNNING;
    info->status = (uint8_t)status;
    info->updated_ms = (int64_t)job->run.now_ms;
    info->version++;
    enum rc rc = job_info_put(job, JOB_PARTITIONS, info, NULL, err);
    if (rc == RC_OK)
        rc = job_zset_remove(job, JOB_BEATS, info->id, err);
    if (rc == RC_OK && running)
        rc = job_running_add(job, -1, err);
    return rc;
}

/* ---- claiming ---- */

struct claiming {
    struct part_job *job;
    const struct part_claim *claim;
    part_show_fn *show;
    void *arg;
    int64_t fence;
    uint64_t fence_before; /* the last one before this claim */
    uint64_t left;
    size_t bytes; /* of records, shown */
    uint64_t takeover_count, given_up_count;
};

/* The record becomes this worker's, whoever had it. */
static enum rc claim_take(struct claiming *to, struct part_info *info, struct err *err)
{
    struct part_job *job = to->job;
    int64_t now_ms = (int64_t)job->run.now_ms;
    struct bytes json;
    enum rc rc = RC_OK;
    if (info->status == PART_PENDING)
        rc = job_zset_remove(job, JOB_PENDING, info->id, err);
    if (rc == RC_OK && info->status == PART_RUNNING)
        rc = job_running_add(job, -1, err);
    if (rc == RC_OK && to->fence == INT64_MAX)
        return err_set(err, RC_INVALID, "there are no fences left");
    if (rc == RC_OK)
        rc = job_zset_add(job, JOB_BEATS, info->id, (double)now_ms, err);
    if (rc != RC_OK)
        return rc;
    info->status = PART_CLAIMED;
    info->worker = to->claim->worker;
    info->heartbeat_ms = info->updated_ms = now_ms;
    info->version++;
    info->fence = (uint64_t)++to->fence;
    to->left--;
    rc = job_info_put(job, JOB_PARTITIONS, info, &json, err);
    if (rc != RC_OK)
        return rc;
    to->bytes += json.len;
    if (to->bytes >= PART_CLAIM_BYTES)
        to->left = 0;
    to->show(to->arg, json);
    return RC_OK;
}

/* A worker is silent: its partition becomes this one's, or fails if it has outlived too many. */
static enum rc take_over(struct claiming *to, struct part_info *info, struct err *err)
{
    uint64_t max = to->job->part->limits.takeovers_max;
    if (max == 0 || info->takeovers < max) {
        info->takeovers += info->takeovers < INT64_MAX;
        to->takeover_count++;
        return claim_take(to, info, err);
    }
    char reason[REASON_BYTES];
    int len =
        snprintf(reason, sizeof reason, "taken over %llu times, and its worker is silent again",
                 (unsigned long long)info->takeovers);
    info->error = bytes_of(reason, (size_t)len);
    info->attempts++;
    to->given_up_count++;
    return let_go(to->job, info, PART_FAILED, err);
}

/* Up to `max` ids of a sorted set with a score of at most `most`, in its order. */
static enum rc ids_read(struct part_job *job, enum job_key which, double most, bool reverse,
                        int64_t *id, size_t max, size_t *ret_count, struct err *err)
{
    CLEANUP(zset_walk_done) struct zset_walk walk = {0};
    struct zset_item item;
    struct key *key;
    *ret_count = 0;
    enum rc rc = job_key(job, which, &key, err);
    if (rc != RC_OK || !key->exists)
        return rc;
    rc = zset_walk_init(&walk, key, zset_span_by_score(), reverse, err);
    while (rc == RC_OK && *ret_count < max) {
        rc = zset_walk_next(&walk, &item, err);
        if (rc == RC_OK && (reverse ? item.score <= most : item.score > most))
            break;
        if (rc == RC_OK && !job_field_read(item.member, &id[*ret_count]))
            return err_set(err, RC_CORRUPT, "%.*s has a member that is no id", (int)key->name.len,
                           (const char *)key->name.ptr);
        *ret_count += rc == RC_OK;
    }
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

/* A record that one of the sorted sets names. */
static enum rc info_of(struct part_job *job, int64_t id, bool pending, struct part_info *ret_info,
                       struct err *err)
{
    enum rc rc = job_info(job, JOB_PARTITIONS, id, ret_info, err);
    bool wrong =
        rc == RC_OK && (pending ? ret_info->status != PART_PENDING : !has_beat(ret_info->status));
    if (rc == RC_NOT_FOUND || wrong)
        return err_set(err, RC_CORRUPT, "partition %lld of job %.*s is listed as %s and is not",
                       (long long)id, (int)job->name.len, (const char *)job->name.ptr,
                       pending ? "pending" : "claimed");
    return rc;
}

static enum rc claim_some(struct claiming *to, bool pending, double most, struct err *err)
{
    size_t count = 0;
    int64_t *id = arena_alloc_array(to->job->run.arena, to->left, sizeof *id);
    enum rc rc = ids_read(to->job, pending ? JOB_PENDING : JOB_BEATS, most, false, id, to->left,
                          &count, err);
    for (size_t i = 0; rc == RC_OK && i < count && to->left > 0; i++) {
        struct part_info info;
        rc = info_of(to->job, id[i], pending, &info, err);
        if (rc == RC_OK && info.fence <= to->fence_before) /* not one that this claim has taken */
            rc = pending ? claim_take(to, &info, err) : take_over(to, &info, err);
        if (rc == RC_COLD)
            part_want(to->job, id + i, count - i);
    }
    return rc;
}

/* The clock has gone back: a heartbeat of the future counts as one of now, or its partition would
 * not become stale for as long. */
static enum rc future_beats(struct part_job *job, struct err *err)
{
    int64_t id[FUTURE_BEATS_MAX];
    size_t count;
    double now_ms = (double)job->run.now_ms;
    enum rc rc = ids_read(job, JOB_BEATS, now_ms, true, id, FUTURE_BEATS_MAX, &count, err);
    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        struct part_info info;
        rc = info_of(job, id[i], false, &info, err);
        if (rc == RC_COLD)
            part_want(job, id + i, count - i);
        if (rc != RC_OK)
            break;
        info.heartbeat_ms = (int64_t)job->run.now_ms;
        rc = job_info_put(job, JOB_PARTITIONS, &info, NULL, err);
        if (rc == RC_OK)
            rc = job_zset_add(job, JOB_BEATS, id[i], now_ms, err);
    }
    return rc;
}

/* Others take the place of those that fail. */
static enum rc claim_stale(struct claiming *to, int64_t before_ms, struct err *err)
{
    uint64_t given_up;
    enum rc rc = future_beats(to->job, err);
    do {
        given_up = to->given_up_count;
        if (rc == RC_OK)
            rc = claim_some(to, false, (double)before_ms, err);
    } while (rc == RC_OK && to->left > 0 && to->given_up_count > given_up &&
             to->given_up_count < GIVEN_UP_MAX);
    return rc;
}

/* Those that were named and can be had; the others are left out. */
static enum rc claim_named(struct claiming *to, int64_t stale_before_ms, struct err *err)
{
    const struct part_claim *claim = to->claim;
    enum rc rc = RC_OK;
    for (size_t i = 0; rc == RC_OK && i < claim->id_count && to->left > 0; i++) {
        struct part_info info;
        rc = job_info(to->job, JOB_PARTITIONS, claim->id[i], &info, err);
        if (rc == RC_NOT_FOUND) {
            rc = RC_OK;
            continue;
        }
        if (rc == RC_OK && info.fence > to->fence_before)
            continue; /* named twice */
        bool stale = rc == RC_OK && has_beat(info.status) && info.heartbeat_ms <= stale_before_ms;
        if (rc == RC_OK && claim->force)
            info.takeovers = 0;
        if (rc == RC_OK && (info.status == PART_PENDING || claim->force))
            rc = claim_take(to, &info, err);
        else if (rc == RC_OK && stale)
            rc = take_over(to, &info, err);
        if (rc == RC_COLD)
            part_want(to->job, claim->id + i, claim->id_count - i);
    }
    return rc;
}

enum rc part_claim(struct part_job *job, const struct part_claim *claim, part_show_fn *show,
                   void *arg, struct err *err)
{
    struct bytes paused;
    struct claiming to = {
        .job = job, .claim = claim, .show = show, .arg = arg, .left = claim->count};
    int64_t before_ms = (int64_t)job->run.now_ms - claim->stale_ms;
    enum rc rc = part__worker_check(claim->worker, err);
    if (rc == RC_OK)
        rc = job_get(job, JOB_META, JOB_PAUSED, &paused, err);
    if (rc != RC_NOT_FOUND)
        return rc; /* a paused job gives out nothing */
    rc = job_number(job, JOB_FENCE, &to.fence, err);
    to.fence_before = (uint64_t)to.fence;
    if (rc == RC_OK && claim->id_count > 0)
        rc = claim_named(&to, before_ms, err);
    else if (rc == RC_OK)
        rc = claim_stale(&to, before_ms, err);
    if (rc == RC_OK && claim->id_count == 0 && to.left > 0)
        rc = claim_some(&to, true, 1e300, err);
    if (rc == RC_OK && (uint64_t)to.fence > to.fence_before)
        rc = job_number_put(job, JOB_FENCE, to.fence, err);
    if (rc == RC_OK)
        rc = job_save(job, err);
    job->part->watch.takeover_count += rc == RC_OK ? to.takeover_count : 0;
    job->part->watch.given_up_count += rc == RC_OK ? to.given_up_count : 0;
    return rc;
}

/* ---- owning ---- */

static enum rc not_owner(struct part_job *job, const struct part_info *info, struct err *err)
{
    if (!has_beat(info->status))
        return err_set(err, RC_REPLY, "NOTACTIVE partition %lld of job %.*s is %s",
                       (long long)info->id, (int)job->name.len, (const char *)job->name.ptr,
                       part_status_name(info->status));
    return err_set(err, RC_REPLY, "NOTOWNER partition %lld of job %.*s belongs to %.*s",
                   (long long)info->id, (int)job->name.len, (const char *)job->name.ptr,
                   (int)info->worker.len, (const char *)info->worker.ptr);
}

static enum rc fence_check(const struct part_hold *hold, const struct part_info *info,
                           struct err *err)
{
    if (!hold->has_fence || hold->fence == info->fence)
        return RC_OK;
    return err_set(err, RC_REPLY, "FENCED partition %lld has fence %llu, not %llu",
                   (long long)info->id, (unsigned long long)info->fence,
                   (unsigned long long)hold->fence);
}

/* The active record, if it is this worker's. RC_NOT_FOUND: it is not active. */
static enum rc owned(struct part_job *job, const struct part_hold *hold, struct part_info *ret_info,
                     struct err *err)
{
    enum rc rc = job_info(job, JOB_PARTITIONS, hold->id, ret_info, err);
    if (rc != RC_OK)
        return rc;
    if (!has_beat(ret_info->status) || !bytes_eq(ret_info->worker, hold->worker))
        return not_owner(job, ret_info, err);
    return fence_check(hold, ret_info, err);
}

static enum rc no_part(struct part_job *job, int64_t id, struct err *err)
{
    return err_set(err, RC_REPLY, "NOPART there is no active partition %lld in job %.*s",
                   (long long)id, (int)job->name.len, (const char *)job->name.ptr);
}

static enum rc must_own(struct part_job *job, const struct part_hold *hold,
                        struct part_info *ret_info, struct err *err)
{
    enum rc rc = owned(job, hold, ret_info, err);
    return rc == RC_NOT_FOUND ? no_part(job, hold->id, err) : rc;
}

/* ---- working ---- */

static enum rc beat(struct part_job *job, struct part_info *info, struct err *err)
{
    info->heartbeat_ms = (int64_t)job->run.now_ms;
    enum rc rc = job_info_put(job, JOB_PARTITIONS, info, NULL, err);
    if (rc == RC_OK)
        rc = job_zset_add(job, JOB_BEATS, info->id, (double)info->heartbeat_ms, err);
    return rc;
}

enum rc part_start(struct part_job *job, const struct part_hold *hold, struct err *err)
{
    struct part_info info;
    enum rc rc = must_own(job, hold, &info, err);
    if (rc == RC_OK && info.status == PART_CLAIMED) {
        info.status = PART_RUNNING;
        info.updated_ms = (int64_t)job->run.now_ms;
        info.version++;
        rc = job_running_add(job, 1, err);
    }
    if (rc == RC_OK)
        rc = beat(job, &info, err);
    return rc;
}

enum rc part_beat(struct part_job *job, const struct part_hold *hold, struct err *err)
{
    struct part_info info;
    enum rc rc = must_own(job, hold, &info, err);
    return rc == RC_OK ? beat(job, &info, err) : rc;
}

/* Not active: this worker may have completed it and not heard of it. */
static enum rc done_before(struct part_job *job, const struct part_hold *hold, struct err *err)
{
    struct part_info info;
    enum rc rc = part__archived(job, hold->id, &info, err);
    if (rc == RC_NOT_FOUND)
        return no_part(job, hold->id, err);
    if (rc == RC_OK && !bytes_eq(info.worker, hold->worker))
        return not_owner(job, &info, err);
    return rc == RC_OK ? fence_check(hold, &info, err) : rc;
}

static int64_t duration_of(const struct part_job *job, const struct part_info *info, int64_t said)
{
    int64_t since_ms = (int64_t)job->run.now_ms - info->updated_ms;
    int64_t duration_ms = said >= 0 ? said : since_ms > 0 ? since_ms : 0;
    return duration_ms < PART_DURATION_MS_MAX ? duration_ms : PART_DURATION_MS_MAX;
}

enum rc part_done(struct part_job *job, const struct part_hold *hold, int64_t duration_ms,
                  bool *ret_done, struct err *err)
{
    struct part_info info;
    enum rc rc = owned(job, hold, &info, err);
    *ret_done = rc == RC_OK;
    if (rc == RC_NOT_FOUND)
        return done_before(job, hold, err);
    if (rc != RC_OK)
        return rc;
    bool running = info.status == PART_RUNNING;
    info.duration_ms = duration_of(job, &info, duration_ms);
    info.status = PART_COMPLETED;
    info.updated_ms = (int64_t)job->run.now_ms;
    info.version++;
    part_info_archive(&info);
    rc = job_info_delete(job, info.id, err);
    if (rc == RC_OK)
        rc = job_zset_remove(job, JOB_BEATS, info.id, err);
    if (rc == RC_OK)
        rc = job_info_put_new(job, JOB_COMPLETED, &info, err);
    if (rc == RC_OK)
        rc = job_stats_add(job, &info, running ? -1 : 0, err);
    if (rc == RC_OK)
        rc = job_save(job, err);
    if (rc == RC_OK)
        part__completed(job, info.id);
    return rc;
}

enum rc part_fail(struct part_job *job, const struct part_hold *hold, struct bytes error,
                  struct err *err)
{
    struct part_info info;
    if (error.len > PART_TEXT_BYTES_MAX || !utf8_is_valid(error))
        return err_set(err, RC_INVALID, "an error is UTF-8 of at most %d bytes",
                       PART_TEXT_BYTES_MAX);
    enum rc rc = must_own(job, hold, &info, err);
    if (rc != RC_OK)
        return rc;
    info.error = error;
    info.attempts++;
    return let_go(job, &info, PART_FAILED, err);
}

enum rc part_release(struct part_job *job, const struct part_hold *hold, struct err *err)
{
    struct part_info info;
    enum rc rc = must_own(job, hold, &info, err);
    if (rc != RC_OK)
        return rc;
    info.worker = BYTES("");
    info.heartbeat_ms = PART_TIME_NONE;
    rc = let_go(job, &info, PART_PENDING, err);
    if (rc == RC_OK)
        rc = job_zset_add(job, JOB_PENDING, info.id, (double)info.id, err);
    return rc;
}
