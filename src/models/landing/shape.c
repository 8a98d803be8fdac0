// SPDX-License-Identifier: Apache-2.0
/* shape.c - sends batches of changes through a shape in slices, and lifts owners. */
#include "models/landing/shape_int.h"

#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"

#include "base/banned.h"

enum { LIFT_BYTES_MAX = 1024 * 1024 * 1024, PASSWORD_BYTES_MAX = 1024 };
/* ---- batches ---- */

void land_batch_init(struct land_batch *batch)
{
    *batch = (struct land_batch){0};
    arena_init(&batch->arena);
}

static void owners_free(struct land_batch *batch)
{
    for (size_t i = 0; i < batch->owner_count; i++)
        mem_free(batch->owner[i].field);
}

void land_batch_done(struct land_batch *batch)
{
    owners_free(batch);
    mem_free(batch->owner);
    arena_done(&batch->arena);
    *batch = (struct land_batch){0};
}

void land_batch_clear(struct land_batch *batch)
{
    owners_free(batch);
    arena_clear(&batch->arena);
    batch->owner_count = batch->field_count = batch->bytes = 0;
    batch->newest = batch->future = 0;
}

struct land_owner *land_batch_owner(struct land_batch *batch)
{
    if (batch->owner_count == batch->owner_cap) {
        batch->owner_cap = batch->owner_cap ? 2 * batch->owner_cap : 64;
        batch->owner = mem_realloc(batch->owner, batch->owner_cap * sizeof *batch->owner);
    }
    struct land_owner *owner = &batch->owner[batch->owner_count++];
    *owner = (struct land_owner){0};
    return owner;
}

struct land_field *land_batch_field(struct land_batch *batch, struct land_owner *owner)
{
    if (owner->field_count == owner->field_cap) {
        owner->field_cap = owner->field_cap ? 2 * owner->field_cap : 4;
        owner->field = mem_realloc(owner->field, owner->field_cap * sizeof *owner->field);
    }
    struct land_field *field = &owner->field[owner->field_count++];
    *field = (struct land_field){0};
    batch->field_count++;
    return field;
}

/* ---- small parts ---- */

void change_add(struct change_list *list, const struct sink_change *change)
{
    if (list->count == list->cap) {
        size_t cap = list->cap ? 2 * list->cap : 16;
        struct sink_change *more = arena_alloc_array(list->arena, cap, sizeof *more);
        if (list->count > 0)
            memcpy(more, list->change, list->count * sizeof *more);
        list->change = more;
        list->cap = cap;
    }
    list->change[list->count++] = *change;
}

struct bytes arena_join(struct arena *arena, struct bytes a, struct bytes separator, struct bytes b)
{
    uint8_t *to = arena_alloc(arena, a.len + separator.len + b.len + 1);
    memcpy(to, a.ptr, a.len);
    memcpy(to + a.len, separator.ptr, separator.len);
    if (b.len > 0)
        memcpy(to + a.len + separator.len, b.ptr, b.len);
    return bytes_of(to, a.len + separator.len + b.len);
}

bool cell_is_deleted(const struct sink_cell *cell)
{
    bool deleted = cell->kind == SINK_INT && cell->number != 0;
    for (size_t i = 0; cell->kind == SINK_BYTES && i < cell->bytes.len; i++) {
        uint8_t c = cell->bytes.ptr[i];
        deleted = deleted || (c != 0 && c != '0' && c != '.'); /* 0, 00, 0.0; \0 of a BIT */
    }
    return deleted;
}

void lift_rows_init(struct lift_rows *rows)
{
    *rows = (struct lift_rows){0};
    arena_init(&rows->arena);
}

void lift_rows_done(struct lift_rows *rows)
{
    mem_free(rows->row);
    arena_done(&rows->arena);
    *rows = (struct lift_rows){0};
}

enum rc lift_row_add(struct lift_rows *to, struct bytes field, struct bytes value, uint64_t version,
                     struct err *err)
{
    if (to->arena.total_bytes + field.len + value.len > LIFT_BYTES_MAX)
        return err_set(err, RC_TOO_BIG, "the database holds more than %d bytes of this key",
                       LIFT_BYTES_MAX);
    if (to->count == to->cap) {
        size_t cap = to->cap ? 2 * to->cap : 16;
        to->row = mem_realloc(to->row, cap * sizeof *to->row);
        to->cap = cap;
    }
    uint8_t *copy = arena_try_alloc(&to->arena, field.len + value.len + 1);
    if (!copy)
        return err_set(err, RC_NOMEM, "could not allocate %zu bytes for a value", value.len);
    memcpy(copy, field.ptr, field.len);
    if (value.len > 0)
        memcpy(copy + field.len, value.ptr, value.len);
    to->row[to->count++] = (struct lift_row){.field = bytes_of(copy, field.len),
                                             .value = bytes_of(copy + field.len, value.len),
                                             .version = version};
    if (version > to->newest)
        to->newest = version;
    return RC_OK;
}

/* ---- life ---- */

/* The first line. */
static enum rc password_read(const char *path, char to[PASSWORD_BYTES_MAX], struct err *err)
{
    to[0] = 0;
    if (path[0] == 0)
        return RC_OK;
    FILE *file = fopen(path, "re");
    if (!file)
        return err_set(err, RC_INVALID, "could not read the password file %s: %s", path,
                       strerror(errno));
    bool good = fgets(to, PASSWORD_BYTES_MAX, file) != NULL;
    fclose(file);
    if (!good)
        return err_set(err, RC_INVALID, "the password file %s is empty", path);
    to[strcspn(to, "\r\n")] = 0;
    return RC_OK;
}

enum rc shape_open(const struct rule_spec *spec, struct identity *identity,
                   struct shape_db **ret_db, struct err *err)
{
    char password[PASSWORD_BYTES_MAX];
    struct sink *sink = NULL;
    enum rc rc = password_read(spec->password_file, password, err);
    if (rc != RC_OK && spec->is_stored) { /* a restored backup has no such file */
        log_warn("landing: rule %s: %s; without it until the next start", spec->name, err->text);
        rc = RC_OK;
    }
    if (rc == RC_OK)
        rc = sink_open(spec->sink, password, &sink, err);
    if (rc != RC_OK)
        return rc;
    struct shape_db *db = mem_zalloc(sizeof *db);
    db->spec = spec;
    db->sink = sink;
    db->identity = identity;
    if (identity)
        sink_greet_set(sink, shape__greet, db);
    *ret_db = db;
    return RC_OK;
}

static void tables_forget(struct shape_db *db)
{
    object_forget(db);
    columns_forget(db);
}

void shape_close(struct shape_db *db)
{
    if (!db)
        return;
    tables_forget(db);
    sink_close(db->sink);
    mem_free(db);
}

void shape_interrupt(struct shape_db *db)
{
    sink_interrupt(db->sink);
}

const char *shape_name(const struct shape_db *db)
{
    return sink_name(db->sink);
}

/* ---- which database ---- */

/* Around all that may connect. A file is made only if the rule has never had one. */
void shape__begin(struct shape_db *db)
{
    char ours[IDENTITY_DIGITS + 1] = "";
    if (db->identity)
        identity_get(db->identity, ours);
    sink_make_set(db->sink, !ours[0]);
}

enum rc shape__end(struct shape_db *db, enum rc rc, const struct err *err)
{
    char ours[IDENTITY_DIGITS + 1] = "";
    if (db->identity)
        identity_get(db->identity, ours);
    if (rc == RC_IO && ours[0] && sink_is_missing(db->sink))
        identity_miss(db->identity, err);
    return rc;
}

/* A database that was dropped and made again answers by the connection of the old one: it is asked
 * who it is. */
enum rc shape_ping(struct shape_db *db, struct err *err)
{
    char ours[IDENTITY_DIGITS + 1] = "";
    shape__begin(db);
    enum rc rc = sink_ping(db->sink, err);
    if (db->identity)
        identity_get(db->identity, ours);
    if (rc == RC_OK && ours[0])
        rc = shape__greet(db, err);
    return shape__end(db, rc, err);
}

/* ---- landing ---- */

static enum rc changes_make(struct shape_db *db, const struct slice *slice, size_t count,
                            struct change_list *list, struct err *err)
{
    return db->spec->shape == LAND_OBJECT ? object_changes(db, slice, count, list, err)
                                          : columns_changes(db, slice, count, list, err);
}

/* One transaction; newer NULL: a check. A table that has gone, or has other columns than it had, is
 * looked at again once. */
static enum rc slices_send(struct shape_db *db, const struct slice *slice, size_t count,
                           int64_t *newer, struct err *err)
{
    enum rc rc = RC_OK;
    for (int attempt = 0; attempt < 2; attempt++) {
        struct arena arena;
        arena_init(&arena);
        struct change_list list = {.arena = &arena};
        rc = changes_make(db, slice, count, &list, err);
        if (rc == RC_OK && list.count > 0)
            rc = newer ? sink_land(db->sink, list.change, list.count, newer, err)
                       : sink_check(db->sink, list.change, list.count, err);
        arena_done(&arena);
        if (rc == RC_OK || rc == RC_IO || rc == RC_NOMEM || rc == RC_NEWER)
            return rc;
        tables_forget(db);
        if (rc != RC_NOT_FOUND)
            break;
    }
    return rc;
}

static size_t slice_size(const struct slice *slice)
{
    return slice->to - slice->from + slice->sweep;
}

const char *shape_reason(struct land_batch *batch, const struct err *err)
{
    const char *text = err->text[0] ? err->text : "the database refuses it";
    return (const char *)arena_copy(&batch->arena, bytes_of(text, strlen(text) + 1)).ptr;
}

/* A single field, or the sweep, that the database refuses. */
static void slice_refuse(struct land_batch *batch, const struct slice *slice, const struct err *err)
{
    const char *reason = shape_reason(batch, err);
    if (slice->sweep)
        slice->owner->refused = reason;
    for (size_t i = slice->from; i < slice->to; i++)
        slice->owner->field[i].refused = reason;
}

/* Lands the slices together. RC_INVALID, RC_NOT_FOUND, RC_NEWER: they are refused. */
static enum rc slices_try(struct shape_db *db, const struct land_batch *batch,
                          const struct slice *slice, size_t count, struct shape_stats *stats,
                          struct err *err)
{
    int64_t newer = 0;
    enum rc rc = slices_send(db, slice, count, &newer, err);
    stats->statement_count++;
    if (rc != RC_NEWER)
        return rc;
    if ((uint64_t)newer > batch->future)
        return err_set(err, rc,
                       "the database holds a version that is more than a day ahead of the clock");
    if ((uint64_t)newer > stats->newer)
        stats->newer = (uint64_t)newer;
    return err_set(err, rc, "the database holds a newer version of this row");
}

/* The row of a key has one version, so it lands once: first those fields are found that would be
 * refused. */
static enum rc columns_split(struct shape_db *db, struct land_batch *batch,
                             const struct slice *slice, struct shape_stats *stats, struct err *err)
{
    struct land_owner *owner = slice->owner;
    struct err last = {0};
    size_t bad_count = 0;
    for (size_t i = slice->from; i < slice->to; i++) {
        struct slice one = {.owner = owner, .from = i, .to = i + 1};
        if (owner->field[i].unlandable) {
            bad_count += owner->field[i].refused != NULL;
            continue;
        }
        enum rc rc = slices_send(db, &one, 1, NULL, &last);
        if (rc == RC_IO || rc == RC_NOMEM) {
            *err = last;
            return rc;
        }
        owner->field[i].refused = rc == RC_OK ? NULL : shape_reason(batch, &last);
        bad_count += rc != RC_OK;
    }
    if (bad_count == slice->to - slice->from && !slice->sweep)
        return RC_OK;
    enum rc rc = slices_try(db, batch, slice, 1, stats, &last); /* leaves out what is refused */
    if (rc == RC_IO || rc == RC_NOMEM)
        *err = last;
    else if (rc != RC_OK)
        slice_refuse(batch, slice, &last);
    return rc == RC_IO || rc == RC_NOMEM ? rc : RC_OK;
}

/* Lands the slices together, or in halves. */
static enum rc slices_land(struct shape_db *db, struct land_batch *batch, struct slice *slice,
                           size_t count, struct shape_stats *stats, struct err *err)
{
    enum rc rc = slices_try(db, batch, slice, count, stats, err);
    if (rc == RC_OK || rc == RC_IO || rc == RC_NOMEM)
        return rc;
    if (count > 1) {
        rc = slices_land(db, batch, slice, count / 2, stats, err);
        return rc == RC_OK
                   ? slices_land(db, batch, slice + count / 2, count - count / 2, stats, err)
                   : rc;
    }
    if (db->spec->shape == LAND_COLUMNS && slice->to - slice->from > 1 && rc != RC_NEWER)
        return columns_split(db, batch, slice, stats, err);
    if (slice_size(slice) == 1 || db->spec->shape == LAND_COLUMNS) {
        slice_refuse(batch, slice, err);
        return RC_OK;
    }
    /* What is swept is older than the fields: they come first. */
    size_t middle = slice->from + (slice->to - slice->from) / 2;
    if (slice->sweep)
        middle = slice->to;
    struct slice half[2] = {{slice->owner, slice->from, middle, false},
                            {slice->owner, middle, slice->to, slice->sweep}};
    rc = slices_land(db, batch, &half[0], 1, stats, err);
    return rc == RC_OK ? slices_land(db, batch, &half[1], 1, stats, err) : rc;
}

enum rc shape_land(struct shape_db *db, struct land_batch *batch, struct shape_stats *ret_stats,
                   struct err *err)
{
    struct slice *slice = mem_alloc((batch->owner_count + 1) * sizeof *slice);
    *ret_stats = (struct shape_stats){0};
    for (size_t i = 0; i < batch->owner_count; i++) {
        struct land_owner *owner = &batch->owner[i];
        slice[i] = (struct slice){owner, 0, owner->field_count, owner->sweep};
    }
    enum rc rc = RC_OK;
    shape__begin(db);
    if (batch->owner_count > 0)
        rc = slices_land(db, batch, slice, batch->owner_count, ret_stats, err);
    rc = shape__end(db, rc, err);
    for (size_t i = 0; rc == RC_OK && i < batch->owner_count; i++) {
        const struct land_owner *owner = &batch->owner[i];
        ret_stats->refused_count += owner->refused != NULL;
        for (size_t f = 0; f < owner->field_count; f++) {
            ret_stats->refused_count += owner->field[f].refused != NULL;
            ret_stats->row_count += owner->field[f].refused == NULL;
        }
    }
    mem_free(slice);
    return rc;
}

/* ---- lifting ---- */

static enum rc owner_lift(struct shape_db *db, const struct address *address,
                          const struct bytes *field, size_t field_count, struct lift_rows *to,
                          struct err *err)
{
    enum rc rc = RC_OK;
    for (int attempt = 0; attempt < 2; attempt++) {
        to->count = 0;
        rc = db->spec->shape == LAND_OBJECT ? object_lift(db, address, field, field_count, to, err)
                                            : columns_lift(db, address, to, err);
        if (rc != RC_NOT_FOUND)
            return rc;
        tables_forget(db);
    }
    return err_set(err, RC_IO, "a table of \"%s\" changed while it was read", shape_name(db));
}

enum rc shape_lift(struct shape_db *db, const struct address *address, const struct bytes *field,
                   size_t field_count, struct lift_rows *to, struct err *err)
{
    shape__begin(db);
    return shape__end(db, owner_lift(db, address, field, field_count, to, err), err);
}

/* ---- explaining ---- */

enum rc shape_explain(struct shape_db *db, struct land_batch *batch, struct buf *to,
                      struct err *err)
{
    struct arena arena;
    arena_init(&arena);
    struct change_list list = {.arena = &arena};
    enum rc rc = RC_OK;
    db->explaining = true;
    for (size_t i = 0; rc == RC_OK && i < batch->owner_count; i++) {
        struct land_owner *owner = &batch->owner[i];
        struct slice slice = {owner, 0, owner->field_count, owner->sweep};
        rc = changes_make(db, &slice, 1, &list, err);
    }
    for (size_t i = 0; rc == RC_OK && i < list.count; i++)
        rc = sink_change_text(db->sink, &list.change[i], to, err);
    if (rc == RC_OK && batch->owner_count > 0)
        rc = db->spec->shape == LAND_OBJECT
                 ? object_lift_text(db, &batch->owner[0].address, to, err)
                 : columns_lift_text(db, &batch->owner[0].address, to, err);
    db->explaining = false;
    tables_forget(db);
    arena_done(&arena);
    return rc;
}
