// SPDX-License-Identifier: Apache-2.0
/* record.h - row changes as they stand in a journal frame.
 *
 * Body of a turn = commits, one after the other, with consecutive LSNs:
 *   SIZE  WHAT                                   integers little-endian
 *   4     length of the records that follow
 *   n     records
 * Record:
 *   1     kind (enum record_kind); bit 7: space and group key of the record before it; bit 6: of
 *         the last one of the turn that had others; with either the fields marked * are left out
 *   1     * space
 *   v     * uvarint length of the group key
 *   g     * group key (a prefix for DROP_PREFIX, a name for COUNTER_ADD)
 *   then  PUT: uvarint suffix length, suffix, uvarint value length, value
 *         DELETE: uvarint suffix length, suffix
 *         DROP_GROUP, DROP_PREFIX: nothing
 *         COUNTER_ADD: uvarint of the zigzag code of the delta
 *
 * Ownership: decoded records borrow the body.
 * Threads: any. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

enum record_kind { /* on disk: append, never renumber; unknown = refuse */
                   RECORD_PUT = 1,
                   RECORD_DELETE = 2,
                   RECORD_DROP_GROUP = 3,
                   RECORD_DROP_PREFIX = 4,
                   RECORD_COUNTER_ADD = 5,
};
/* Commands on one object take turns between two groups, its rows and its meta row: both are named
 * once a turn. */
enum { RECORD_SAME_GROUP = 0x80, RECORD_OTHER_GROUP = 0x40, RECORD_COMMIT_HEADER_BYTES = 4 };

struct record {
    enum record_kind kind;
    uint8_t space;
    struct bytes group; /* prefix and rest, as in the engine */
    struct bytes suffix;
    struct bytes value;
    int64_t delta;
};

struct record_place { /* in a turn's body */
    size_t len;
    size_t group_offset; /* of the record that names the last record's group; SIZE_MAX: none */
    size_t other_offset; /* of the one that names the last other group */
    size_t promised;     /* bytes of room for records that are still to come */
};

/* Writes the commits of a turn; the store keeps one a turn. */
struct record_writer {
    struct buf body;
    size_t group_offset, other_offset;
    size_t promised;           /* room of the open commit that no other record takes */
    bool open;                 /* a commit */
    struct record_place begin; /* of the open one */
    uint32_t commit_count;     /* closed ones */
};

void record_writer_init(struct record_writer *writer, size_t bytes_max);
void record_writer_done(struct record_writer *writer);
void record_writer_clear(struct record_writer *writer); /* a new turn */
bool record_commit_begin(struct record_writer *writer) NODISCARD;
void record_commit_end(struct record_writer *writer);  /* an empty commit leaves nothing */
void record_commit_undo(struct record_writer *writer); /* back to before the begin */
struct record_place record_place(const struct record_writer *writer);
void record_cut(struct record_writer *writer, struct record_place place); /* what came after it */
/* The group key is prefix ‖ rest. False: the commit is over its limit or there is no memory, and
 * nothing was added. The record begins at what body.len was before the call. */
bool record_add(struct record_writer *writer, enum record_kind kind, uint8_t space,
                struct bytes prefix, struct bytes rest, struct bytes suffix, struct bytes value,
                int64_t delta) NODISCARD;
/* Takes room for one counter's record of the open commit, so that record_counter_add() cannot fail.
 * False: as record_add(). A commit may end without a record that was promised. */
bool record_counter_promise(struct record_writer *writer, struct bytes name) NODISCARD;
void record_counter_add(struct record_writer *writer, uint8_t space, struct bytes name,
                        int64_t delta);

/* Walks the commits of a turn's body. */
struct record_reader {
    const uint8_t *at;
    const uint8_t *end;
    const uint8_t *commit_end; /* NULL between commits */
    struct record_group {
        uint8_t space;
        struct bytes key; /* ptr NULL: none yet */
    } group, other;
};

void record_reader_init(struct record_reader *reader, struct bytes body);
/* RC_OK: the next commit is open; RC_NOT_FOUND: the body is at its end; RC_CORRUPT. What is left
 * of the commit before is skipped. */
enum rc record_next_commit(struct record_reader *reader, struct err *err) NODISCARD;
/* RC_OK; RC_NOT_FOUND at the end of the commit; RC_CORRUPT; RC_VERSION for an unknown kind. */
enum rc record_next(struct record_reader *reader, struct record *ret_record,
                    struct err *err) NODISCARD;
