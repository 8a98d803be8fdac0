/* part_int.h - what the files of the model share. */
#pragma once

#include "partition/part.h"

struct part {
    struct part_options options;
    struct part_limits limits;
    struct kv *kv;
    struct buf json; /* a record in construction */
};

/* The id is in no layer and may be made; RC_NOT_FOUND says so. RC_OK: it is there, with this range.
 */
enum rc part__find(struct part_job *job, int64_t id, struct part_info *ret_info,
                   struct err *err) NODISCARD;
/* A completed record, wherever it is. RC_NOT_FOUND. */
enum rc part__archived(struct part_job *job, int64_t id, struct part_info *ret_info,
                       struct err *err) NODISCARD;
/* RC_INVALID: no name of a worker. */
enum rc part__worker_check(struct bytes worker, struct err *err) NODISCARD;
/* A record has been completed: there may be something to pack. */
void part__completed(struct part_job *job, int64_t id);
