// SPDX-License-Identifier: Apache-2.0
/* check.c - FS.CHECK step by step: the reading thread, the counters, the healing. */
#include "models/fs/check_int.h"

#include "base/mem.h"

#include "base/banned.h"

enum {
    HEAL_STEP = 16,     /* findings a commit */
    CHECK_ROUNDS = 100, /* readings; each but the last has healed something */
};

struct fs_check {
    struct fs *fs;
    bool repair;
    struct check_job *job; /* NULL: the findings are being healed */
    struct fs_reading reading;
    size_t healed_at; /* findings before it are healed */
    uint64_t round_count, changed_count;
    struct fs_check_result result;
};

/* ---- reading ---- */

struct check_job {
    struct fs_job job;
    struct fs_reading reading;
};

static enum rc job_read(struct fs_job *job, struct fs_source *source, struct err *err)
{
    struct check_job *check = (struct check_job *)job;
    return fs__check_read(source, &job->stopped, &check->reading, err);
}

static void job_free(struct fs_job *job)
{
    fs__reading_done(&((struct check_job *)job)->reading);
    mem_free(job);
}

static void reading_start(struct fs_check *check)
{
    struct check_job *job = mem_zalloc(sizeof *job);
    job->job.read = job_read;
    job->job.free = job_free;
    fs__reading_init(&job->reading);
    fs_job_start(check->fs, &job->job);
    check->job = job;
    check->round_count++;
}

struct fs_check *fs_check_new(struct fs *fs, bool repair)
{
    struct fs_check *check = mem_zalloc(sizeof *check);
    check->fs = fs;
    check->repair = repair;
    fs__reading_init(&check->reading);
    reading_start(check);
    return check;
}

void fs_check_free(void *arg)
{
    struct fs_check *check = arg;
    if (check->job)
        fs_job_end(&check->job->job);
    fs__reading_done(&check->reading);
    mem_free(check);
}

const struct fs_check_result *fs_check_result(const struct fs_check *check)
{
    return &check->result;
}

/* ---- counters ---- */

/* What they were off in the view they are off now, unless another REPAIR came between. */
static enum rc counters_check(struct fs_check *check, uint64_t lsn, struct err *err)
{
    struct fs *fs = check->fs;
    const struct fs_check_result *seen = &check->reading.seen;
    const struct fs_counts *counts = &check->reading.counts;
    const struct {
        uint32_t number;
        uint64_t real;
        int64_t told;
    } counter[] = {{fs->file_count, seen->files, counts->files},
                   {fs->dir_count, seen->dirs, counts->dirs},
                   {fs->bytes, seen->bytes, counts->bytes},
                   {fs->graves, seen->graves, counts->graves}};
    check->result.counters = FS_COUNTERS_CHANGING;
    if (fs->repair_lsn > lsn)
        return RC_OK;
    check->result.counters = FS_COUNTERS_EXACT;
    enum rc rc = RC_OK;
    for (size_t i = 0; rc == RC_OK && i < ARRAY_LEN(counter); i++) {
        int64_t delta = (int64_t)(counter[i].real - (uint64_t)counter[i].told);
        if (delta == 0)
            continue;
        check->result.counters = check->repair ? FS_COUNTERS_REPAIRED : FS_COUNTERS_WRONG;
        if (!check->repair)
            continue;
        fs->repair_lsn = store_lsn(fs->store);
        rc = store_counter_add(fs->store, counter[i].number, delta, err);
    }
    return rc;
}

/* ---- steps ---- */

static void result_take(struct fs_check *check)
{
    uint64_t repaired = check->result.repaired;
    const struct fs_reading *reading = &check->reading;
    if (check->round_count == 1) {
        check->result = reading->seen;
        check->result.problems = reading->problem_count;
    }
    check->result.inodes = reading->seen.inodes;
    check->result.edges = reading->seen.edges;
    check->result.files = reading->seen.files;
    check->result.dirs = reading->seen.dirs;
    check->result.bytes = reading->seen.bytes;
    check->result.graves = reading->seen.graves;
    check->result.mounts = reading->seen.mounts;
    check->result.left = reading->problem_count;
    check->result.repaired = repaired;
}

/* RC_OK: this was the last reading. */
static enum rc reading_end(struct fs_check *check, struct task *task, struct err *err)
{
    enum rc rc = fs_job_result(&check->job->job, task, err);
    if (rc == RC_WAIT)
        return rc;
    struct fs_reading empty = check->reading;
    uint64_t lsn = check->job->job.lsn;
    check->reading = check->job->reading;
    check->job->reading = empty;
    fs_job_end(&check->job->job);
    check->job = NULL;
    if (rc != RC_OK)
        return rc;
    result_take(check);
    check->healed_at = check->changed_count = 0;
    if (check->repair && check->reading.finding_count > 0 && check->round_count < CHECK_ROUNDS)
        return RC_WAIT;
    return counters_check(check, lsn, err);
}

/* Nothing of a step is kept but rows, if it is taken back. */
static enum rc heal_step(struct fs_check *check, struct err *err)
{
    const struct fs_reading *reading = &check->reading;
    uint64_t changed_count = 0;
    size_t at = check->healed_at;
    for (; at < reading->finding_count && at < check->healed_at + HEAL_STEP; at++) {
        bool changed = false;
        enum rc rc = fs__heal(check->fs, &reading->finding[at], clock_unix_ms(check->fs->clock),
                              &changed, err);
        if (rc != RC_OK)
            return rc;
        changed_count += changed;
    }
    check->healed_at = at;
    check->changed_count += changed_count;
    check->result.repaired += changed_count;
    return RC_OK;
}

enum rc fs_check_step(struct fs_check *check, struct task *task, struct err *err)
{
    if (check->job)
        return reading_end(check, task, err);
    enum rc rc = heal_step(check, err);
    if (rc != RC_OK)
        return rc;
    if (check->healed_at < check->reading.finding_count)
        return RC_WAIT;
    if (check->changed_count == 0)
        check->round_count = CHECK_ROUNDS; /* nothing more can be done: a last look for counters */
    reading_start(check);
    return RC_WAIT;
}
