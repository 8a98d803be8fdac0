// SPDX-License-Identifier: Apache-2.0
/* idwalk.h - the rows of a hash whose fields are ids, in order of the numbers.
 *
 * Rows are in order of their texts: 1, 10, 100, 101, 11, 2. Among texts of one length that is the
 * order of the numbers, so a walk goes from length to length and jumps over longer and shorter
 * texts by seeking. In a dense run of ids that is less than a seek an id; but to come to long ids
 * from short ones takes a seek for every ten of them. So a walk may say when it has looked enough.
 *
 * Ownership: the key is borrowed for the walk's life, and stays where it is.
 * Threads: the executor. */
#pragma once

#include "types/key.h"

struct idwalk {
    struct store_walk rows;
    const struct key *key;
    int64_t next_id;    /* the least that may come */
    bool ended, sought; /* rows stand behind the last id given */
    size_t mixed;       /* of this many digits: longer ones stand between them, each is sought */
    size_t steps;       /* rows looked at */
    size_t steps_max;   /* 0: any number */
};

/* From the least id at or above this one. The key was found; it need not exist. */
void idwalk_init(struct idwalk *walk, const struct key *key, int64_t from);
void idwalk_done(struct idwalk *walk);
/* RC_NOT_FOUND: there is no more. RC_WAIT: steps_max; RC_WAIT and RC_COLD: ids below next_id have
 * been passed. RC_CORRUPT: a field is no id. The value is borrowed until the
 * next change; changes between two calls are seen. */
enum rc idwalk_next(struct idwalk *walk, int64_t *ret_id, struct bytes *ret_value,
                    struct err *err) NODISCARD;
