// SPDX-License-Identifier: Apache-2.0
/* packer.c - the job that packs, drops what has aged out, and looks at how far jobs are.
 *
 * Invariants:
 *   (1) What it knows of a job is a hint: rows decide. A job it has not heard of since the start is
 *       found in the list of jobs; one that is gone is forgotten.
 *   (2) A step that changed rows ends the task, and done() starts the next one. */
#include "base/log.h"
#include "base/mem.h"
#include "models/partition/part_int.h"

#include "base/banned.h"

enum {
    SLEEP_MS = 1000,
    RETAIN_MS_MIN = 1000,
    RETAIN_MS_MAX = 60 * 1000,
    SEEN_MAX = 256, /* jobs that are shown */
};
#define NS_A_MS UINT64_C(1000000)

enum work { WORK_NONE, WORK_LOOK, WORK_PACK, WORK_RETAIN, WORK_DROP };

struct known { /* a job */
    uint32_t db;
    struct bytes name; /* owned */
    bool due;          /* to be looked at */
    bool dropping;     /* PART.DROP has begun */
    bool passing;
    struct pack_pass pass;
    uint64_t stuck; /* completed when the last pass could not go on; 0: it could */
    bool retaining;
    int64_t retain_from;
    uint64_t retain_ms; /* when it is looked at next */
    struct part_seen seen;
    struct known *next;
};

struct packer {
    struct task task;
    struct part *part;
    struct known *first;
    bool scanned;      /* the lists of jobs have been read */
    uint64_t watch_ms; /* when all jobs are looked at next */
    bool told;         /* that a step failed */
    bool asleep, failed;
    struct part_seen *seen;
    size_t seen_count;
};

/* ---- known jobs ---- */

static struct known *known_find(struct packer *packer, uint32_t db, struct bytes name)
{
    for (struct known *known = packer->first; known; known = known->next)
        if (known->db == db && bytes_eq(known->name, name))
            return known;
    struct known *known = mem_zalloc(sizeof *known);
    known->db = db;
    known->name = bytes_of(mem_dup(name.ptr, name.len), name.len);
    known->seen.db = db;
    for (size_t i = 0; i < name.len && i < sizeof known->seen.name - 1; i++) {
        uint8_t byte = name.ptr[i];
        bool plain = byte > ' ' && byte < 0x7f && byte != '"' && byte != '\\';
        known->seen.name[i] = plain ? (char)byte : '_';
    }
    known->next = packer->first;
    packer->first = known;
    return known;
}

static void known_forget(struct packer *packer, struct known *known)
{
    struct known **at = &packer->first;
    while (*at != known)
        at = &(*at)->next;
    *at = known->next;
    mem_free((void *)known->name.ptr);
    mem_free(known);
}

static void wake(struct packer *packer)
{
    if (!packer->asleep)
        return;
    packer->asleep = false;
    task_cancel(&packer->task);
    task_start(packer->part->options.tasks, &packer->task);
}

void packer_kick(struct packer *packer, const struct part_job *job)
{
    if (!packer)
        return;
    struct known *known = known_find(packer, job->run.ns->index, job->name);
    if (known->due || known->passing)
        return;
    if (known->stuck > 0 &&
        job->key[JOB_COMPLETED].meta.count < known->stuck + job->part->limits.batch)
        return;
    known->due = true;
    wake(packer);
}

void packer_drop(struct packer *packer, const struct part_job *job)
{
    if (!packer)
        return;
    known_find(packer, job->run.ns->index, job->name)->dropping = true;
    wake(packer);
}

void packer_know(struct packer *packer, const struct part_job *job)
{
    if (packer)
        (void)known_find(packer, job->run.ns->index, job->name);
}

void packer_look(struct packer *packer)
{
    if (!packer)
        return;
    for (struct known *known = packer->first; known; known = known->next) {
        known->due = true;
        known->retain_ms = 0;
        known->stuck = 0;
    }
    wake(packer);
}

static enum rc name_note(void *arg, struct bytes name, struct err *err)
{
    struct packer *packer = arg;
    (void)err;
    known_find(packer, packer->seen->db, name)->due = true;
    return RC_OK;
}

/* Once: jobs from before the start. */
static enum rc scan(struct packer *packer, const struct run *run, struct err *err)
{
    enum rc rc = RC_OK;
    for (size_t i = 0; rc == RC_OK && i < run->kv->ns_count; i++) {
        struct run one = run_with(run, kv_ns(run->kv, i), 0);
        packer->seen->db = (uint32_t)i;
        if (one.ns)
            rc = part_jobs(packer->part, &one, name_note, packer, err);
    }
    packer->scanned = rc == RC_OK;
    return rc;
}

/* ---- one job ---- */

/* RC_NOT_FOUND: it is gone. */
static enum rc known_open(struct packer *packer, const struct run *run, const struct known *known,
                          struct part_job *job, struct err *err)
{
    struct run one = run_with(run, kv_ns(run->kv, known->db), 0);
    if (!one.ns)
        return RC_NOT_FOUND;
    enum rc rc = job_open(packer->part, &one, known->name, JOB_DROP, job, err);
    return rc == RC_REPLY || rc == RC_INVALID ? RC_NOT_FOUND : rc;
}

static enum rc seen_update(struct known *known, struct part_job *job, struct err *err)
{
    const struct part_limits *limits = &job->part->limits;
    struct part_counts counts;
    enum rc rc = part_counts(job, &counts, err);
    if (rc != RC_OK)
        return rc;
    struct part_seen *seen = &known->seen;
    bool packs = counts.packed > 0 || counts.simple >= limits->simple_max;
    seen->active = counts.pending + counts.claimed + counts.running + counts.failed;
    seen->simple = counts.simple;
    seen->packed = counts.packed;
    seen->batches = counts.batches;
    seen->bytes = counts.bytes;
    seen->raw_bytes = counts.raw_bytes;
    seen->completed = counts.stat.completed;
    seen->waiting = packs ? counts.simple : 0;
    return RC_OK;
}

static enum rc work_look(struct known *known, struct part_job *job, struct err *err)
{
    bool due;
    enum rc rc = pack_is_due(job, &due, err);
    if (rc == RC_OK && due)
        rc = pack_begin(job, false, &known->pass, err);
    if (rc != RC_OK)
        return rc;
    known->due = false;
    known->passing = due;
    return RC_OK;
}

static enum rc work_pack(struct known *known, struct part_job *job, struct err *err)
{
    struct pack_pass pass = known->pass;
    enum pack_end end;
    enum rc rc = pack_step(job, &pass, &end, err);
    if (rc != RC_OK)
        return rc;
    known->pass = pass;
    if (end == PACK_STEP)
        return RC_OK;
    known->passing = false;
    uint64_t simple = job_count(job, JOB_COMPLETED);
    bool stuck = simple >= job->part->limits.batch;
    known->stuck = stuck ? simple : 0;
    return RC_OK;
}

static enum rc work_retain(struct known *known, struct part_job *job, struct err *err)
{
    int64_t from = known->retain_from;
    enum pack_end end;
    enum rc rc = pack_retain(job, &from, &end, err);
    if (rc != RC_OK)
        return rc;
    known->retain_from = end == PACK_OVER ? 0 : from;
    known->retaining = end == PACK_STEP;
    return RC_OK;
}

static enum rc work_drop(struct known *known, struct part_job *job, struct err *err)
{
    bool more;
    known->dropping = true;
    return part_drop(job, &more, err); /* a job that is gone is forgotten at the next look */
}

static uint64_t retain_every_ms(const struct part_limits *limits)
{
    uint64_t every = limits->retain_ms / 10;
    return every < RETAIN_MS_MIN ? RETAIN_MS_MIN : every > RETAIN_MS_MAX ? RETAIN_MS_MAX : every;
}

static enum work work_of(const struct packer *packer, const struct run *run, struct known *known)
{
    const struct part *part = packer->part;
    if (known->dropping)
        return WORK_DROP;
    if (known->passing)
        return WORK_PACK;
    if (known->due)
        return WORK_LOOK;
    if (part->limits.retain_ms > 0 && run->now_ms >= known->retain_ms) {
        known->retain_ms = run->now_ms + retain_every_ms(&part->limits);
        known->retaining = true;
        known->retain_from = 0;
    }
    return known->retaining ? WORK_RETAIN : WORK_NONE;
}

/* What cannot be read does not stop the other jobs, nor this one for ever. */
static void known_give_up(struct packer *packer, struct known *known, const struct err *err)
{
    if (known->passing || known->retaining || known->dropping)
        log_warn("partitions of job %.*s could not be packed or dropped, trying again later: %s",
                 (int)known->name.len, (const char *)known->name.ptr, err->text);
    packer->part->watch.pack_failure_count++;
    known->due = known->passing = known->retaining = known->dropping = false;
    known->stuck = 0;
}

static enum rc known_work(struct packer *packer, const struct run *run, struct known *known,
                          enum work work, struct err *err)
{
    struct part_job job;
    enum rc rc = known_open(packer, run, known, &job, err);
    if (rc == RC_NOT_FOUND) {
        known_forget(packer, known);
        return RC_OK;
    }
    if (rc == RC_OK && job.dropping)
        rc = work_drop(known, &job, err);
    else if (rc == RC_OK && work == WORK_DROP)
        known->dropping = false; /* what began it was taken back */
    else if (rc == RC_OK && work == WORK_LOOK)
        rc = work_look(known, &job, err);
    else if (rc == RC_OK && work == WORK_PACK)
        rc = work_pack(known, &job, err);
    else if (rc == RC_OK)
        rc = work_retain(known, &job, err);
    if (rc == RC_CORRUPT || rc == RC_VERSION || rc == RC_TOO_BIG || rc == RC_INVALID) {
        known_give_up(packer, known, err);
        if (rc == RC_CORRUPT && work == WORK_RETAIN)
            return rc; /* its changes have to go */
    }
    return rc;
}

/* ---- watching ---- */

static enum rc seen_all(struct packer *packer, const struct run *run, struct err *err)
{
    size_t count = 0;
    bool dropping = false;
    struct known *next;
    for (struct known *known = packer->first; known; known = next) {
        struct part_job job;
        next = known->next;
        enum rc rc = known_open(packer, run, known, &job, err);
        if (rc == RC_OK && job.dropping)
            known->dropping = true;
        else if (rc == RC_OK)
            rc = seen_update(known, &job, err);
        dropping = dropping || known->dropping;
        if (rc == RC_COLD)
            return rc;
        if (rc == RC_NOT_FOUND)
            known_forget(packer, known);
        else if (count < SEEN_MAX)
            packer->seen[count++] = known->seen;
    }
    packer->part->may_drop = dropping;
    packer->seen_count = count;
    packer->watch_ms = run->now_ms + SLEEP_MS;
    return RC_OK;
}

const struct part_seen *part_seen(const struct part *part, size_t *ret_count)
{
    *ret_count = part->packer ? part->packer->seen_count : 0;
    return part->packer ? part->packer->seen : NULL;
}

/* ---- the job ---- */

static enum rc step(struct packer *packer, const struct run *run, struct err *err)
{
    if (!packer->scanned)
        return scan(packer, run, err);
    if (!packer->failed) {
        for (struct known *known = packer->first; known; known = known->next) {
            enum work work = work_of(packer, run, known);
            if (work != WORK_NONE)
                return known_work(packer, run, known, work, err);
        }
        if (run->now_ms >= packer->watch_ms || packer->watch_ms > run->now_ms + SLEEP_MS)
            return seen_all(packer, run, err);
    }
    part_cache_tidy(&packer->part->cache, run->now_ms);
    packer->failed = false;
    packer->asleep = true;
    task_wait_until(&packer->task, clock_mono_ns(packer->part->options.clock) + SLEEP_MS * NS_A_MS);
    return RC_WAIT;
}

static enum rc job_run(struct task *task, struct store *store, struct err *err)
{
    struct packer *packer = (struct packer *)task;
    (void)store;
    packer->asleep = false;
    struct run run;
    run_begin(&run, packer->part->kv, NULL, RUN_NO_LIFT);
    return run_end(&run, step(packer, &run, err));
}

static void job_done(struct task *task, enum rc rc, const struct err *err)
{
    struct packer *packer = (struct packer *)task;
    (void)err; /* what is wrong with one job was logged; the journal tells of itself */
    packer->asleep = false;
    packer->failed = rc != RC_OK;
    if (packer->failed)
        for (struct known *known = packer->first; known; known = known->next)
            known->pass.from = 0; /* its turn may have been taken back */
    if (packer->failed && !packer->told)
        log_warn("the packing of completed partitions could not go on: %s", rc_text(rc));
    packer->told = packer->failed;
    task_start(packer->part->options.tasks, task);
}

struct packer *packer_new(struct part *part)
{
    if (!part->options.tasks)
        return NULL;
    struct packer *packer = mem_zalloc(sizeof *packer);
    packer->part = part;
    packer->seen = mem_zalloc(SEEN_MAX * sizeof *packer->seen);
    packer->task.run = job_run;
    packer->task.done = job_done;
    packer->task.flags = TASK_JOB | TASK_WRITES;
    task_start(part->options.tasks, &packer->task);
    return packer;
}

void packer_free(struct packer *packer)
{
    if (!packer)
        return;
    task_cancel(&packer->task);
    while (packer->first)
        known_forget(packer, packer->first);
    mem_free(packer->seen);
    mem_free(packer);
}

/* ---- PART.ARCHIVE COMPACT ---- */

enum rc part_compact_step(struct part_job *job, struct part_compact *state, bool *ret_more,
                          struct err *err)
{
    struct pack_pass pass;
    enum pack_end end;
    enum rc rc = pack_begin(job, true, &pass, err);
    if (rc != RC_OK)
        return rc;
    pass.from = state->begun ? state->from : 0;
    pass.packed = state->packed;
    rc = pack_step(job, &pass, &end, err);
    if (rc != RC_OK)
        return rc;
    *state = (struct part_compact){.begun = true, .from = pass.from, .packed = pass.packed};
    *ret_more = end == PACK_STEP;
    return RC_OK;
}
