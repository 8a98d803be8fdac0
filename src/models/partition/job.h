// SPDX-License-Identifier: Apache-2.0
/* job.h - a job as one command sees it: its keys, found when they are needed, saved at the end.
 *
 *   rc = job_open(part, run, name, JOB_MUST_EXIST, &job, err);
 *   ... job_get(), job_put(), job_delete(), job_zset_add() ...      rows
 *   rc = job_save(&job, err);                                       counts of the keys that changed
 *
 * Everything happens in the command's commit; an error, RC_COLD included, ends the command, and its
 * commit is taken back. The first key that is cold asks for all keys of the job.
 *
 * Ownership: a job borrows its name; names of keys are in the arena of the command. A value that
 * was read dies with the next change. A struct part_job stays where it is while it is in use: its
 * keys point to its run.
 * Threads: the executor. */
#pragma once

#include "models/partition/info.h"
#include "models/partition/stat.h"
#include "types/key.h"

#define PART_PREFIX "elk:{"
#define PART_JOBS_KEY "elk:{}:jobs"

struct part;

enum job_key {
    JOB_META,
    JOB_PARTITIONS,
    JOB_PENDING, /* a sorted set */
    JOB_BEATS,   /* a sorted set */
    JOB_TAKEOVERS,
    JOB_COMPLETED,
    JOB_INDEX,
    JOB_DROPPED, /* intervals of partition ids */
    JOB_AGED,    /* intervals of ids that those covered */
    JOB_STATS,
    JOB_WORKERS,
    JOB_RANGES,
    JOB_HOURS,
    JOB_WORKER_MAP,
    JOB_WORKER_RMAP,
    JOB_JOBS, /* of all jobs */
    JOB_KEY_COUNT,
};

struct part_job {
    struct part *part;
    struct run run; /* the command's, as the owner of the job's keys */
    struct bytes name;
    unsigned found, changed; /* bits 1 << enum job_key */
    bool dropping;           /* PART.DROP has begun: only what is left of the archive is there */
    struct key key[JOB_KEY_COUNT];
};

/* Numbers of JOB_META, each in a field of its own. */
#define JOB_LAST_ALLOCATED BYTES("last_allocated_id")
#define JOB_LAST_PARTITION BYTES("last_partition_id")
#define JOB_MIN_ID BYTES("min_id")
#define JOB_MAX_ID BYTES("max_id")
#define JOB_FENCE BYTES("fence")
#define JOB_NEXT_BATCH BYTES("next_batch")
#define JOB_PAUSED BYTES("paused")
#define JOB_CREATED BYTES("created_at")
#define JOB_ARCHIVE BYTES("archive")
#define JOB_DROPPING BYTES("dropping")
#define JOB_AGED_COUNT BYTES("aged") /* partitions whose ids are in JOB_AGED */

enum job_open { JOB_MUST_EXIST, JOB_MAKE, JOB_DROP };
/* RC_INVALID: no name of a job; RC_REPLY "NOJOB ...": there is none. JOB_MAKE: it is made by
 * job_make() when something comes into it; RC_BUSY: it is being dropped. JOB_DROP: one that is
 * being dropped is there. */
enum rc job_open(struct part *part, const struct run *run, struct bytes name, enum job_open how,
                 struct part_job *ret_job, struct err *err) NODISCARD;
bool job_exists(const struct part_job *job);
enum rc job_make(struct part_job *job, struct err *err) NODISCARD; /* nothing if it exists */
enum rc job_save(struct part_job *job, struct err *err) NODISCARD;
/* Removes every key but JOB_META, JOB_INDEX and batches: the job is being dropped from now on. */
enum rc job_empty(struct part_job *job, struct err *err) NODISCARD;
/* Removes what job_empty() has left; batches have gone before. */
enum rc job_remove(struct part_job *job, struct err *err) NODISCARD;

/* A key of the job, or one of its own by a suffix ("completed:batch:7"). */
enum rc job_key(struct part_job *job, enum job_key which, struct key **ret_key,
                struct err *err) NODISCARD;
enum rc job_key_named(struct part_job *job, struct bytes suffix, uint8_t type, struct key *ret_key,
                      struct err *err) NODISCARD;
struct bytes job_key_name(const struct part_job *job, struct bytes suffix); /* in the arena */
/* For messages: the name of a key. */
const char *job_key_suffix(enum job_key which);

/* ---- rows of hashes ---- */

/* RC_NOT_FOUND: no such key or field. */
enum rc job_get(struct part_job *job, enum job_key which, struct bytes field,
                struct bytes *ret_value, struct err *err) NODISCARD;
enum rc job_put(struct part_job *job, enum job_key which, struct bytes field, struct bytes value,
                struct err *err) NODISCARD;
/* The same of a field that is known not to be there: nothing is read. */
enum rc job_put_new(struct part_job *job, enum job_key which, struct bytes field,
                    struct bytes value, struct err *err) NODISCARD;
/* The field is there. */
enum rc job_delete(struct part_job *job, enum job_key which, struct bytes field,
                   struct err *err) NODISCARD;
/* 0 where there is none. RC_CORRUPT: it is no number. */
enum rc job_number(struct part_job *job, struct bytes field, int64_t *ret_value,
                   struct err *err) NODISCARD;
enum rc job_number_put(struct part_job *job, struct bytes field, int64_t value,
                       struct err *err) NODISCARD;
uint64_t job_count(struct part_job *job, enum job_key which); /* of a key that was found */

/* ---- JOB_PENDING and JOB_BEATS ---- */

/* What comes into JOB_PENDING is not in it. */
enum rc job_zset_add(struct part_job *job, enum job_key which, int64_t id, double score,
                     struct err *err) NODISCARD;
/* The id is in it. */
enum rc job_zset_remove(struct part_job *job, enum job_key which, int64_t id,
                        struct err *err) NODISCARD;

/* ---- ids as fields ---- */

struct job_field {
    uint8_t text[20];
    size_t len;
};
struct job_field job_field(int64_t id);
static inline struct bytes job_field_bytes(const struct job_field *field)
{
    return bytes_of(field->text, field->len);
}
bool job_field_read(struct bytes field, int64_t *ret_id);

/* After RC_COLD: the rows of these ids will be needed as well, of a hash of records or of a sorted
 * set. They are waited for together; one after the other each would undo all before it. */
void job_want(struct part_job *job, enum job_key which, const int64_t *id, size_t count);

/* ---- records ---- */

/* A record of JOB_PARTITIONS or JOB_COMPLETED, its texts in the command's arena, with what
 * JOB_TAKEOVERS counts. RC_NOT_FOUND. */
enum rc job_info(struct part_job *job, enum job_key which, int64_t id, struct part_info *ret_info,
                 struct err *err) NODISCARD;
/* The same of a row that was read, without JOB_TAKEOVERS. */
enum rc job_info_read(struct part_job *job, enum job_key which, struct bytes field,
                      struct bytes json, struct part_info *ret_info, struct err *err) NODISCARD;
/* A record that is known not to be there. */
enum rc job_info_put_new(struct part_job *job, enum job_key which, const struct part_info *info,
                         struct err *err) NODISCARD;
/* ret_json (may be NULL): as clients see it, until the next one. */
enum rc job_info_put(struct part_job *job, enum job_key which, const struct part_info *info,
                     struct bytes *ret_json, struct err *err) NODISCARD;
/* Of JOB_PARTITIONS; it is there. */
enum rc job_info_delete(struct part_job *job, int64_t id, struct err *err) NODISCARD;

/* ---- statistics ---- */

/* Zeros where there is no row. */
enum rc job_stat(struct part_job *job, enum job_key which, struct bytes field,
                 struct part_stat *ret_stat, struct err *err) NODISCARD;
enum rc job_stat_put(struct part_job *job, enum job_key which, struct bytes field,
                     const struct part_stat *stat, struct err *err) NODISCARD;
#define JOB_STAT_ALL BYTES("global")
/* Counts a completed record in every row it belongs to; `running`: how many fewer are running. */
enum rc job_stats_add(struct part_job *job, const struct part_info *info, int running,
                      struct err *err) NODISCARD;
/* Changes how many are running. */
enum rc job_running_add(struct part_job *job, int delta, struct err *err) NODISCARD;
