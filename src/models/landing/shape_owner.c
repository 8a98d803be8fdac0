// SPDX-License-Identifier: Apache-2.0
/* shape_owner.c - the table terrace_tables of a database: whose the tables of shape object are, and
 * which database it is. The first writer of a row wins: its version is always 1, and an equal
 * version changes nothing.
 *
 *   NAME          PAIR
 *   app_region    app&region     in lower case; no name has a & in it
 *   &sink         32 hex digits  the identity of the database (identity.h) */
#include "models/landing/shape_int.h"

#include "base/rand.h"

#include "base/banned.h"

enum { OWNER_NAME, OWNER_PAIR, OWNER_VERSION, OWNER_COLUMNS };
static struct sink_column owner_column[OWNER_COLUMNS] = {
    [OWNER_NAME] = {.name = BYTES_INIT("name"), .type = SINK_KEY},
    [OWNER_PAIR] = {.name = BYTES_INIT("pair"), .type = SINK_TEXT},
    [OWNER_VERSION] = {.name = BYTES_INIT(LAND_COLUMN_VERSION), .type = SINK_BIGINT},
};
static const struct sink_table owners_table = {.name = BYTES_INIT("terrace_tables"),
                                               .column = owner_column,
                                               .column_count = OWNER_COLUMNS,
                                               .version = OWNER_VERSION};
#define IDENTITY_NAME "&sink"

struct pair_answer {
    struct arena *arena;
    bool found;
    struct bytes pair;
};

static enum rc pair_row(void *arg, const struct sink_cell *cell, struct err *err)
{
    struct pair_answer *answer = arg;
    (void)err;
    answer->found = true;
    answer->pair =
        cell[0].kind == SINK_BYTES ? arena_copy(answer->arena, cell[0].bytes) : BYTES("");
    return RC_OK;
}

enum rc owner_get(struct shape_db *db, struct bytes name, struct arena *arena,
                  struct bytes *ret_pair, struct err *err)
{
    static const size_t wanted[] = {OWNER_PAIR};
    struct pair_answer answer = {.arena = arena};
    const struct sink_query query = {.table = &owners_table,
                                     .column = wanted,
                                     .column_count = 1,
                                     .where = OWNER_NAME,
                                     .value = &name,
                                     .value_count = 1};
    enum rc rc = sink_select(db->sink, &query, pair_row, &answer, err);
    if (rc != RC_OK)
        return rc;
    *ret_pair = answer.pair;
    return answer.found ? RC_OK : RC_NOT_FOUND;
}

static enum rc row_put(struct shape_db *db, struct bytes name, struct bytes pair, struct err *err)
{
    static const size_t column[] = {OWNER_NAME, OWNER_PAIR, OWNER_VERSION};
    static const enum sink_use use[] = {SINK_SET, SINK_SET, SINK_SET};
    const struct sink_cell cell[] = {cell_bytes(name), cell_bytes(pair), cell_int(1)};
    const struct sink_change change = {.table = &owners_table,
                                       .kind = SINK_UPSERT,
                                       .upsert = {.column = column,
                                                  .use = use,
                                                  .column_count = OWNER_COLUMNS,
                                                  .cell = cell,
                                                  .row_count = 1}};
    enum rc rc = sink_land(db->sink, &change, 1, NULL, err);
    return rc == RC_NEWER ? RC_OK : rc;
}

/* A table that is made anew was dropped under a connection that was greeted: the database is still
 * the same one. */
enum rc owner_put(struct shape_db *db, struct bytes name, struct bytes pair, struct err *err)
{
    char identity[IDENTITY_DIGITS + 1] = "";
    enum rc rc = sink_create(db->sink, &owners_table, err);
    if (db->identity)
        identity_get(db->identity, identity);
    if (rc == RC_OK && identity[0])
        rc = row_put(db, BYTES(IDENTITY_NAME), bytes_of(identity, strlen(identity)), err);
    return rc == RC_OK ? row_put(db, name, pair, err) : rc;
}

static enum rc identity_make(struct shape_db *db, struct arena *arena, struct bytes *ret_pair,
                             struct err *err)
{
    static const char hex[] = "0123456789abcdef";
    char digits[IDENTITY_DIGITS];
    struct rand rand;
    rand_init_os(&rand);
    rand_bytes(&rand, digits, sizeof digits);
    for (size_t i = 0; i < sizeof digits; i++)
        digits[i] = hex[digits[i] & 15];
    enum rc rc = sink_create(db->sink, &owners_table, err);
    if (rc == RC_OK)
        rc = row_put(db, BYTES(IDENTITY_NAME), bytes_of(digits, sizeof digits), err);
    return rc == RC_OK ? owner_get(db, BYTES(IDENTITY_NAME), arena, ret_pair, err) : rc;
}

enum rc shape__greet(void *arg, struct err *err)
{
    struct shape_db *db = arg;
    struct arena arena;
    struct bytes pair = BYTES("");
    char found[IDENTITY_DIGITS + 1] = "", ours[IDENTITY_DIGITS + 1];
    arena_init(&arena);
    identity_get(db->identity, ours);
    enum rc rc = owner_get(db, BYTES(IDENTITY_NAME), &arena, &pair, err);
    if (rc == RC_NOT_FOUND)
        rc = ours[0] ? RC_OK : identity_make(db, &arena, &pair, err);
    if (rc == RC_OK && pair.len <= IDENTITY_DIGITS)
        memcpy(found, pair.ptr, pair.len);
    arena_done(&arena);
    return rc == RC_OK ? identity_meet(db->identity, found, sink_name(db->sink), err) : rc;
}
