// SPDX-License-Identifier: Apache-2.0
/* part.h - partitions: ranges of ids that workers claim, process and complete.
 *
 * The model on types/: see docs/design/0005-partition-model.md for keys and invariants. A call runs
 * in the commit and the run of its command, may return RC_COLD anywhere, and then leaves nothing
 * behind. Refusals are RC_REPLY with a word in front that a program can look at: NOJOB, NOPART,
 * NOTOWNER, FENCED, NOTACTIVE.
 *
 * Ownership: arguments are borrowed. What is shown lives until the next change of the store.
 * Threads: the executor. */
#pragma once

#include "models/partition/job.h"
#include "models/partition/squeeze.h"
#include "store/task.h"

struct part;

enum {
    PART_NAME_BYTES_MAX = 255,
    PART_TEXT_BYTES_MAX = 1024 * 1024, /* of options, of an error */
    PART_CLAIM_COUNT_MAX = 10000,
    PART_CLAIM_BYTES = 16 * 1024 * 1024, /* of records; a claim ends behind it with fewer */
    PART_ALLOC_STEP = 5000,              /* partitions made in one commit */
    PART_STALE_MS = 5 * 60 * 1000,
};

struct part_limits { /* options of the server */
    uint32_t batch;  /* records of a batch */
    enum part_algorithm algorithm;
    uint64_t simple_max;     /* completed, all of them, below which nothing is packed */
    uint64_t compressed_max; /* completed above which retain_ms counts */
    uint64_t retain_ms;      /* 0: for ever */
    size_t cache_bytes;
    uint64_t cache_ttl_ms;
    uint64_t takeovers_max; /* of one partition; 0: any number */
};

struct part_options {
    struct kv *kv;
    struct tasks *tasks; /* NULL: nothing is packed but by part_pack_step() */
    const struct clock *clock;
    struct part_limits limits;
};

struct part_watch { /* since the start; for INFO and /metrics */
    uint64_t encode_count, encode_ns;
    uint64_t decode_count, decode_ns, decode_failure_count;
    uint64_t packed_count, merged_batch_count, dropped_count;
    uint64_t pack_failure_count;
    uint64_t done_count, done_us_sum;
    uint64_t done_us[64]; /* PART.DONEs that took at most 2^n microseconds */
    uint64_t cache_hit_count, cache_miss_count, cache_bytes, cache_entries;
    uint64_t verify_count, verify_bad_count; /* PART.ARCHIVE VERIFY */
    uint64_t takeover_count, given_up_count; /* from silent workers; failed after too many */
};

struct part_seen { /* the jobs of all databases, as the packer last saw them */
    char name[64]; /* cut, and what is no plain letter is _ */
    uint32_t db;
    uint64_t active, simple, packed, batches, bytes, raw_bytes, completed;
    uint64_t waiting; /* completed that wait to be packed */
};

struct part *part_new(const struct part_options *options);
void part_free(struct part *part); /* NULL is allowed */
void part_limits_set(struct part *part, const struct part_limits *limits);
void part_watch(const struct part *part, struct part_watch *ret_watch);
/* *ret_count of them; borrowed until the next turn. */
const struct part_seen *part_seen(const struct part *part, size_t *ret_count);
void part_done_took(struct part *part, uint64_t us); /* a PART.DONE, for its percentiles */

/* ---- making ---- */

struct part_new {
    int64_t id, min_id, max_id;
    struct bytes options; /* JSON; "": none */
};
/* RC_INVALID: bounds, options that are no JSON, an id that is there with another range. *ret_added:
 * how many are new. The job is made. */
enum rc part_add(struct part_job *job, const struct part_new *parts, size_t count,
                 uint64_t *ret_added, struct err *err) NODISCARD;
/* Partitions of `size` ids behind the last one allocated, up to `upto`; the last may be smaller. At
 * most PART_ALLOC_STEP of them: *ret_more. */
enum rc part_alloc(struct part_job *job, int64_t upto, int64_t size, uint64_t *ret_count,
                   bool *ret_more, struct err *err) NODISCARD;

/* ---- working ---- */

typedef void part_show_fn(void *arg, struct bytes json);

struct part_claim {
    struct bytes worker;
    uint64_t count;
    int64_t stale_ms;
    const int64_t *id; /* these and no others */
    size_t id_count;
    bool force; /* whoever holds them */
};
/* Shows the records that the worker has now; maybe none. Those of silent workers come first: behind
 * pending ones they would wait for the end of the job. One that was taken over too often fails. */
enum rc part_claim(struct part_job *job, const struct part_claim *claim, part_show_fn *show,
                   void *arg, struct err *err) NODISCARD;

struct part_hold { /* who says so */
    struct bytes worker;
    int64_t id;
    bool has_fence;
    uint64_t fence;
};
/* After part_start() ... part_delete(), of one partition or of several: job_save(). */
enum rc part_start(struct part_job *job, const struct part_hold *hold, struct err *err) NODISCARD;
enum rc part_beat(struct part_job *job, const struct part_hold *hold, struct err *err) NODISCARD;
/* Saves the job. duration_ms: or PART_DURATION_NONE. *ret_done: false if this worker had completed
 * it before. */
enum rc part_done(struct part_job *job, const struct part_hold *hold, int64_t duration_ms,
                  bool *ret_done, struct err *err) NODISCARD;
enum rc part_fail(struct part_job *job, const struct part_hold *hold, struct bytes error,
                  struct err *err) NODISCARD;
enum rc part_release(struct part_job *job, const struct part_hold *hold, struct err *err) NODISCARD;

/* After RC_COLD of one of several: what the others will need of their rows. */
void part_want(struct part_job *job, const int64_t *id, size_t count);

/* ---- people ---- */

/* A failed one becomes pending; *ret_done false: it is not failed. */
enum rc part_retry(struct part_job *job, int64_t id, bool *ret_done, struct err *err) NODISCARD;
struct part_retry {
    int64_t from;   /* where it goes on */
    uint64_t count; /* those that became pending */
    bool one_commit;
};
/* All failed ones, some in this commit: *ret_more. A commit ends where a row is cold, unless it is
 * the only one. */
enum rc part_retry_all(struct part_job *job, struct part_retry *retry, bool *ret_more,
                       struct err *err) NODISCARD;
/* Takes an active one out; *ret_done false: there is none. */
enum rc part_delete(struct part_job *job, int64_t id, bool *ret_done, struct err *err) NODISCARD;
/* The job, which was opened for JOB_DROP, and everything of it. It is gone for everybody with the
 * first commit; *ret_more: call it again, there are batches left. */
enum rc part_drop(struct part_job *job, bool *ret_more, struct err *err) NODISCARD;
enum rc part_pause(struct part_job *job, bool paused, struct err *err) NODISCARD;

/* ---- the archive ---- */

/* Packs everything that is completed, some in this commit, until *ret_more is false. */
struct part_compact {
    bool begun;
    int64_t from;
    uint64_t packed;
};
enum rc part_compact_step(struct part_job *job, struct part_compact *state, bool *ret_more,
                          struct err *err) NODISCARD;

/* A census: all completed records, some in each step's commit, exact at its last one however many
 * are completed meanwhile. */
struct part_census;
enum part_census_kind { PART_VERIFY, PART_GAPS };
enum part_span_kind {
    PART_MISSING,    /* covered by nothing */
    PART_TWICE,      /* covered more than once */
    PART_UNREADABLE, /* batches that cannot be read cover some of it, or all */
    PART_AGED,       /* covered by partitions that part-retain has dropped */
    PART_UNKNOWN,    /* covered by nothing, or by such of which it was not noted */
};
struct part_span {
    int64_t min_id, max_id;
    enum part_span_kind kind;
};
struct part_census_options {
    enum part_census_kind kind;
    bool has_from, has_to;
    int64_t from, to; /* PART_GAPS */
};
struct part_census_result {
    uint64_t batch_count, record_count;
    const char *const *problem; /* PART_VERIFY */
    size_t problem_count;
    const struct part_span *span; /* PART_GAPS, by min_id */
    size_t span_count;
    bool span_more; /* these are the first ones */
};
struct part_census *part_census_new(struct part_job *job,
                                    const struct part_census_options *options);
void part_census_free(void *census);
/* RC_WAIT: there is more. RC_OK: the result is there. */
enum rc part_census_step(struct part_census *census, struct part_job *job,
                         struct err *err) NODISCARD;
struct part_census_result part_census_result(const struct part_census *census);

/* Completed records from an id on as bytes for elsewhere. */
enum part_transfer { PART_CONTAINER, PART_FRAME };
struct part_export {
    enum part_transfer form;
    unsigned row_bytes; /* of a container: 25 or 29 */
    int64_t from;
    uint64_t count;
};
struct part_exported {
    struct bytes bytes; /* in the command's arena; "" if there is nothing */
    uint64_t count;
    int64_t next;        /* 0: that was all */
    uint64_t lost_count; /* records of which the container has no place for a field */
};
enum rc part_export(struct part_job *job, const struct part_export *wanted,
                    struct part_exported *ret_exported, struct err *err) NODISCARD;
/* Takes in what part_export() or the original wrote: completed records. Those that are there with
 * the same range are passed over. The workers are sorted. */
struct part_import_worker {
    int64_t number;
    struct bytes name;
};
enum rc part_import(struct part_job *job, struct bytes bytes, struct part_import_worker *worker,
                    size_t worker_count, uint64_t *ret_added, struct err *err) NODISCARD;

/* ---- looking ---- */

/* Active, completed, packed; RC_NOT_FOUND. Aged out: what is known of its range, saying so. */
enum rc part_get(struct part_job *job, int64_t id, part_show_fn *show, void *arg,
                 struct err *err) NODISCARD;

enum { PART_LIST_AGED = 1 << PART_STATUS_COUNT };
struct part_list {
    unsigned statuses; /* bits 1 << status, PART_LIST_AGED; 0: any */
    int64_t id_min, id_max;
    bool has_worker, has_updated, has_stale;
    struct bytes worker;
    int64_t updated_min_s, updated_max_s;
    int64_t stale_ms;
    bool archived; /* completed ones too; they are as well if `statuses` names them */
    bool strict;   /* a batch that cannot be read is an error */
    uint64_t count;
    int64_t cursor; /* the first id to look at */
};
/* Shows a page in order of ids. *ret_cursor: where to go on; 0: that was all. Where a batch cannot
 * be read, and might have something, stands what is known of it instead of its records:
 *   {"unreadable":"<key>","from_id":21,"to_id":40,"records":20,"error":"<why>"}
 * Where partitions have aged out stand the ids among which they were, if `statuses` asks for that
 * or `archived` and nothing else does:
 *   {"aged_out":true,"from_id":1,"to_id":20} */
enum rc part_list(struct part_job *job, const struct part_list *list, part_show_fn *show, void *arg,
                  int64_t *ret_cursor, struct err *err) NODISCARD;

struct part_counts { /* of a job, now */
    uint64_t pending, claimed, running, failed;
    uint64_t simple;                            /* completed and not packed */
    uint64_t packed, batches, bytes, raw_bytes; /* raw: as they were as JSON */
    uint64_t dropped;
    bool paused;
    struct part_stat stat;
};
enum rc part_counts(struct part_job *job, struct part_counts *ret_counts,
                    struct err *err) NODISCARD;
/* Rows of JOB_WORKERS, JOB_RANGES or JOB_HOURS, in order of their names. */
typedef void part_stat_fn(void *arg, struct bytes name, const struct part_stat *stat);
enum rc part_stats(struct part_job *job, enum job_key which, part_stat_fn *show, void *arg,
                   struct err *err) NODISCARD;
enum rc part_histogram(struct part_job *job, uint64_t ret_count[STAT_BUCKET_COUNT],
                       struct err *err) NODISCARD;
/* The names of all jobs of the run's database. */
typedef enum rc part_name_fn(void *arg, struct bytes name, struct err *err);
enum rc part_jobs(struct part *part, const struct run *run, part_name_fn *show, void *arg,
                  struct err *err) NODISCARD;
