// SPDX-License-Identifier: Apache-2.0
/* dirty.h - what has changed and has not landed: hashes that any client can look at.
 *
 *   slug-persist:{dirtyKey:N}           entry (address.h) -> UPDATE:<LSN> or REMOVE:<LSN>
 *   slug-persist:{dirtyKey:N}:saving    the same, being landed
 *   slug-persist:{dirtyKey:N}:error     entry -> {"op", "version", "attempts", "error", "next_ms"}
 *   slug-persist:{dirtyKey:N}:lock      rule -> <owner token>:<Unix ms until which it holds>
 *
 * They stand in the database of their rules, which share them. Everything here happens inside the
 * caller's run, and past the guard that keeps clients from writing them.
 *
 * Invariants:
 *   (1) A mark is removed only together with the version its remover has seen.
 *   (2) A lock is renewed and released by its owner only; an owner that let it run out has lost it.
 *
 * Ownership: names are in the struct dirty, and never change. A struct dirty_table is of one run;
 * it must stay where it is as long as a key that was opened by it is used.
 * Threads: the executor. */
#pragma once

#include "types/key.h"
#include "types/number.h"

enum dirty_part { DIRTY_MARKED, DIRTY_SAVING, DIRTY_ERROR, DIRTY_LOCK };
enum { DIRTY_PARTS = 4, DIRTY_TABLES_MAX = 64, DIRTY_NAME_BYTES = 40, DIRTY_REASON_BYTES = 256 };

struct dirty {
    const void *model; /* whose the tables are: landing */
    char name[DIRTY_TABLES_MAX][DIRTY_PARTS][DIRTY_NAME_BYTES];
    uint8_t name_len[DIRTY_TABLES_MAX][DIRTY_PARTS];
    /* All but the last digits of the LSN that was written last: the next ones begin alike. */
    uint64_t lsn_high;
    char lsn_text[NUMBER_INT_BYTES];
    size_t lsn_len;
};
struct dirty_table { /* one of them, of one database */
    struct dirty *dirty;
    struct run run; /* landing's: its own hashes are not landed, nor refused to it */
    uint32_t number;
};

void dirty_init(struct dirty *dirty, const void *model);
/* The table of the database ns, in this run. */
struct dirty_table dirty_table(struct dirty *dirty, const struct run *run, struct ns *ns,
                               uint32_t number);
struct bytes dirty_name(const struct dirty_table *table, enum dirty_part part);

/* The version is the open commit's LSN. *ret_new: there was no such mark. */
enum rc dirty_mark(const struct dirty_table *table, struct bytes entry, bool removed, bool *ret_new,
                   struct err *err) NODISCARD;
/* RC_OK, RC_NOT_FOUND, RC_COLD. part: not the lock. */
enum rc dirty_version(const struct dirty_table *table, enum dirty_part part, struct bytes entry,
                      uint64_t *ret_version, struct err *err) NODISCARD;
/* The same of a part that dirty_open() has opened in this commit. */
enum rc dirty_version_in(const struct key *open, enum dirty_part part, struct bytes entry,
                         uint64_t *ret_version, struct err *err) NODISCARD;
/* Whether any of the three knows the entry; the newest version (may be NULL). */
enum rc dirty_find(const struct dirty_table *table, struct bytes entry, bool *ret_found,
                   uint64_t *ret_version, struct err *err) NODISCARD;
/* Whether any of the three has an entry that begins like this. */
enum rc dirty_find_owner(const struct dirty_table *table, struct bytes owner_part, bool *ret_found,
                         struct err *err) NODISCARD;
/* Removes the entry if it still has this version (1). */
enum rc dirty_remove(const struct dirty_table *table, enum dirty_part part, struct bytes entry,
                     uint64_t version, struct err *err) NODISCARD;
/* The same for many: the table's own row is written once. `entry` is used up. */
enum rc dirty_remove_many(const struct dirty_table *table, enum dirty_part part,
                          struct bytes *entry, const uint64_t *version, size_t count,
                          struct err *err) NODISCARD;
/* Whatever their versions: the caller has read them in this commit (1). */
enum rc dirty_take_many(const struct dirty_table *table, enum dirty_part part,
                        const struct bytes *entry, size_t count, struct err *err) NODISCARD;
/* The table as a hash, to walk through; may not exist. The key points into the table. */
enum rc dirty_open(const struct dirty_table *table, enum dirty_part part, struct key *ret_key,
                   struct err *err) NODISCARD;
/* What is marked becomes what is being saved. *ret_has: there is something in `:saving`; a table
 * that is being saved already is left as it is (*ret_left), and so is what is marked. */
enum rc dirty_snapshot(const struct dirty_table *table, bool *ret_has, bool *ret_left,
                       struct err *err) NODISCARD;

struct dirty_error {
    bool removed;
    uint64_t version;
    uint64_t attempts;
    uint64_t next_ms;
    char reason[DIRTY_REASON_BYTES];
};
enum rc dirty_error_put(const struct dirty_table *table, struct bytes entry,
                        const struct dirty_error *error, struct err *err) NODISCARD;
/* The value of another table's entry, as it is. */
enum rc dirty_error_copy(const struct dirty_table *table, struct bytes entry, struct bytes value,
                         struct err *err) NODISCARD;
/* RC_CORRUPT: somebody wrote something else there. */
enum rc dirty_error_parse(struct bytes value, struct dirty_error *ret_error,
                          struct err *err) NODISCARD;
/* The number behind the colon. */
bool dirty_mark_parse(struct bytes value, bool *ret_removed, uint64_t *ret_version);

/* RC_BUSY: another holds it. Taken again by the same owner it is renewed. take_over: the caller
 * knows that whoever holds it is not alive. */
enum rc dirty_lock(const struct dirty_table *table, struct bytes rule, struct bytes token,
                   uint64_t ttl_ms, bool take_over, struct err *err) NODISCARD;
/* RC_BUSY: it is not ours (any more); nothing happens. */
enum rc dirty_unlock(const struct dirty_table *table, struct bytes rule, struct bytes token,
                     struct err *err) NODISCARD;
