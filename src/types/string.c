// SPDX-License-Identifier: Apache-2.0
/* string.c - plain and chunked strings: read, set, edited in place. */
#include "types/string.h"

#include <math.h>

#include "base/codec.h"
#include "types/number.h"

#include "base/banned.h"

enum {
    LENGTH_BYTES = 8,
    SUFFIX_BYTES = 4,
    EMBSTR_BYTES_MAX = 44, /* Redis's */
    WANT_ROWS_MAX = 4,     /* cold chunks are asked for one by one up to here, then as a range */
    /* BITFIELD may begin in the last byte below the limit. */
    LEN_MAX = STRING_BYTES_MAX + STRING_CHUNK_BYTES,
};

/* ---- chunks ---- */

static const uint8_t zeros[STRING_CHUNK_BYTES];

struct chunk_suffix {
    uint8_t bytes[SUFFIX_BYTES];
};

static struct chunk_suffix suffix_of(uint64_t chunk)
{
    struct chunk_suffix suffix;
    ASSERT(chunk < LEN_MAX / STRING_CHUNK_BYTES);
    be32_put(suffix.bytes, (uint32_t)chunk);
    return suffix;
}

static uint64_t chunk_count(uint64_t len)
{
    return (len + STRING_CHUNK_BYTES - 1) / STRING_CHUNK_BYTES;
}

/* Bytes of a chunk in a string of this length. */
static size_t chunk_len(uint64_t len, uint64_t chunk)
{
    uint64_t rest = len - chunk * STRING_CHUNK_BYTES;
    return rest < STRING_CHUNK_BYTES ? (size_t)rest : STRING_CHUNK_BYTES;
}

/* What is stored of a chunk, at most len_max bytes; nothing if there is no row. */
static enum rc chunk_get(const struct key *key, uint64_t chunk, size_t len_max,
                         struct bytes *ret_row, struct err *err)
{
    struct chunk_suffix suffix = suffix_of(chunk);
    enum rc rc = store_get(key->ns->kv->store, key_rows(key),
                           bytes_of(suffix.bytes, sizeof suffix.bytes), ret_row, err);
    if (rc == RC_NOT_FOUND) {
        *ret_row = BYTES("");
        return RC_OK;
    }
    if (rc == RC_OK && ret_row->len > len_max)
        return err_set(err, RC_CORRUPT,
                       "row %u of a string has %zu bytes, at most %zu belong there",
                       (unsigned)chunk, ret_row->len, len_max);
    return rc;
}

static enum rc chunk_put(const struct key *key, uint64_t chunk, struct bytes row, struct err *err)
{
    struct chunk_suffix suffix = suffix_of(chunk);
    enum rc rc = key_may_change(key, err);
    if (rc != RC_OK)
        return rc;
    return store_put(key->ns->kv->store, key_rows(key), bytes_of(suffix.bytes, sizeof suffix.bytes),
                     row, err);
}

static void chunks_want(const struct key *key, uint64_t chunk, uint64_t count)
{
    struct store *store = key->ns->kv->store;
    for (uint64_t end = chunk + count; chunk < end; chunk++) {
        struct chunk_suffix suffix = suffix_of(chunk);
        struct bytes at = bytes_of(suffix.bytes, sizeof suffix.bytes);
        if (count > WANT_ROWS_MAX) {
            store_want_rows(store, key_rows(key), at, count);
            return;
        }
        store_want(store, key_rows(key), at, STORE_WANT_ROW);
    }
}

static enum rc length_save(struct key *key, uint64_t len, struct err *err)
{
    uint8_t extra[LENGTH_BYTES];
    be64_put(extra, len);
    return key_save(key, bytes_of(extra, sizeof extra), err);
}

/* ---- reading ---- */

enum rc string_len(const struct key *key, uint64_t *ret_len, struct err *err)
{
    struct bytes extra = key->meta.extra;
    if (!key->exists) {
        *ret_len = 0;
        return RC_OK;
    }
    ASSERT(string_is(key));
    bool plain = key->meta.type == TYPE_STRING;
    uint64_t len = plain ? extra.len : extra.len == LENGTH_BYTES ? be64_get(extra.ptr) : 0;
    if (UNLIKELY(plain != (len <= STRING_PLAIN_BYTES_MAX) || len > LEN_MAX)) /* (1) */
        return err_set(err, RC_CORRUPT, "the length of a string is damaged");
    *ret_len = len;
    return RC_OK;
}

enum rc string_get_run(const struct key *key, uint64_t from, uint64_t end, struct bytes *ret_run,
                       struct err *err)
{
    uint64_t len;
    enum rc rc = string_len(key, &len, err);
    if (rc != RC_OK)
        return rc;
    ASSERT(from < end);
    ASSERT(end <= len);
    if (key->meta.type == TYPE_STRING) {
        *ret_run = bytes_of(key->meta.extra.ptr + from, end - from);
        return RC_OK;
    }
    uint64_t chunk = from / STRING_CHUNK_BYTES;
    struct bytes row;
    rc = chunk_get(key, chunk, chunk_len(len, chunk), &row, err);
    if (rc == RC_COLD)
        chunks_want(key, chunk + 1, chunk_count(end) - chunk - 1);
    if (rc != RC_OK)
        return rc;
    size_t at = from % STRING_CHUNK_BYTES;
    size_t run_len = chunk_len(end, chunk) - at;
    *ret_run = at < row.len ? bytes_from(row, at) : bytes_of(zeros, run_len);
    if (ret_run->len > run_len)
        ret_run->len = run_len;
    return RC_OK;
}

enum rc string_get_range(const struct key *key, uint64_t from, uint64_t end,
                         struct bytes *ret_value, struct err *err)
{
    struct bytes run = BYTES("");
    enum rc rc = from < end ? string_get_run(key, from, end, &run, err) : RC_OK;
    if (rc != RC_OK)
        return rc;
    if (LIKELY(run.len == end - from)) {
        *ret_value = run;
        return RC_OK;
    }
    uint8_t *value = arena_try_alloc(key->run->arena, end - from);
    if (!value)
        return err_set(err, RC_NOMEM, "could not allocate %zu bytes for a value",
                       (size_t)(end - from));
    for (uint64_t at = from;;) {
        memcpy(value + (at - from), run.ptr, run.len);
        at += run.len;
        if (at == end)
            break;
        rc = string_get_run(key, at, end, &run, err);
        if (rc != RC_OK)
            return rc;
    }
    *ret_value = bytes_of(value, end - from);
    return RC_OK;
}

enum rc string_get(const struct key *key, struct bytes *ret_value, struct err *err)
{
    struct bytes extra = key->meta.extra;
    if (LIKELY(key->exists && key->meta.type == TYPE_STRING &&
               extra.len <= STRING_PLAIN_BYTES_MAX)) { /* almost always: GET hangs on it */
        *ret_value = extra;
        return RC_OK;
    }
    uint64_t len;
    enum rc rc = string_len(key, &len, err);
    if (rc != RC_OK)
        return rc;
    return string_get_range(key, 0, len, ret_value, err);
}

const char *string_encoding(const struct key *key)
{
    int64_t number;
    if (key->meta.type != TYPE_STRING || key->meta.extra.len > EMBSTR_BYTES_MAX)
        return "raw";
    return number_int(key->meta.extra, &number) ? "int" : "embstr";
}

/* ---- a new value ---- */

/* Rows that would hold nothing but zeros are left out. */
static enum rc chunks_put(const struct key *key, uint64_t first, struct bytes part, struct err *err)
{
    enum rc rc = RC_OK;
    for (uint64_t chunk = 0; rc == RC_OK && chunk < chunk_count(part.len); chunk++) {
        struct bytes row =
            bytes_of(part.ptr + chunk * STRING_CHUNK_BYTES, chunk_len(part.len, chunk));
        if (memcmp(row.ptr, zeros, row.len) != 0)
            rc = chunk_put(key, first + chunk, row, err);
    }
    return rc;
}

static enum rc chunks_set(struct key *key, struct bytes value, uint64_t expire_ms, struct err *err)
{
    if (value.len > STRING_BYTES_MAX)
        return err_set(err, RC_INVALID, STRING_TOO_LONG);
    enum rc rc = key_replace(key, TYPE_STRING_CHUNKED, err);
    if (rc == RC_OK)
        rc = chunks_put(key, 0, value, err);
    if (rc != RC_OK)
        return rc;
    key->meta.expire_ms = expire_ms;
    return length_save(key, value.len, err);
}

enum rc string_set(struct key *key, struct bytes value, uint64_t expire_ms, struct err *err)
{
    if (expire_ms == STRING_KEEP_DEADLINE)
        expire_ms = key->exists ? key->meta.expire_ms : 0;
    else if (UNLIKELY(expire_ms != 0 && expire_ms <= key->run->now_ms))
        return key_remove(key, err);
    if (UNLIKELY(value.len > STRING_PLAIN_BYTES_MAX))
        return chunks_set(key, value, expire_ms, err);
    if (!key->exists || key->meta.type != TYPE_STRING) {
        enum rc rc = key_replace(key, TYPE_STRING, err);
        if (rc != RC_OK)
            return rc;
    }
    key->meta.expire_ms = expire_ms;
    return key_save(key, value, err);
}

enum rc string_add_int(struct key *key, int64_t delta, int64_t *ret_sum, struct err *err)
{
    int64_t value = 0;
    if (key->exists && (key->meta.type != TYPE_STRING || !number_int(key->meta.extra, &value)))
        return err_set(err, RC_INVALID, "value is not an integer or out of range");
    if (__builtin_add_overflow(value, delta, &value))
        return err_set(err, RC_INVALID, "increment or decrement would overflow");
    char text[NUMBER_INT_BYTES];
    size_t len = number_int_text(text, value);
    *ret_sum = value;
    return string_set(key, bytes_of(text, len), STRING_KEEP_DEADLINE, err);
}

enum rc string_add_float(struct key *key, long double delta, struct bytes *ret_text,
                         struct err *err)
{
    long double value = 0;
    struct bytes old = BYTES("");
    uint64_t len;
    enum rc rc = string_len(key, &len, err);
    if (rc == RC_OK && len < NUMBER_LONG_DOUBLE_BYTES)
        rc = string_get_range(key, 0, len, &old, err);
    if (rc != RC_OK)
        return rc;
    if (key->exists && !number_long_double(old, &value))
        return err_set(err, RC_INVALID, "value is not a valid float");
    value += delta;
    if (isnan(value) || isinf(value))
        return err_set(err, RC_INVALID, "increment would produce NaN or Infinity");
    char *text = arena_alloc(key->run->arena, NUMBER_LONG_DOUBLE_BYTES);
    *ret_text = bytes_of(text, number_long_double_text(text, value));
    return string_set(key, *ret_text, STRING_KEEP_DEADLINE, err);
}

/* ---- changing bytes here and there ---- */

/* A plain string is one chunk too, that string_edit_end() stores. */
static void window_fill(struct string_edit *edit, uint64_t chunk, struct bytes row)
{
    if (row.len)
        memcpy(edit->bytes, row.ptr, row.len);
    memset(edit->bytes + row.len, 0, chunk_len(edit->len, chunk) - row.len);
    edit->chunk = chunk;
}

enum rc string_edit_begin(struct string_edit *edit, struct key *key, uint64_t len_min,
                          struct err *err)
{
    enum rc rc = string_len(key, &edit->stored_len, err);
    if (rc != RC_OK)
        return rc;
    edit->key = key;
    edit->len = len_min > edit->stored_len ? len_min : edit->stored_len;
    edit->chunk = UINT64_MAX;
    edit->dirty = false;
    edit->stored_count = 0;
    if (key->exists && key->meta.type == TYPE_STRING_CHUNKED)
        edit->stored_count = chunk_count(edit->stored_len);
    bool chunked = edit->len > STRING_PLAIN_BYTES_MAX;
    if (edit->len == edit->stored_len)
        return RC_OK;
    if (!key->exists)
        return key_create(key, chunked ? TYPE_STRING_CHUNKED : TYPE_STRING, err);
    if (!chunked || key->meta.type == TYPE_STRING_CHUNKED)
        return RC_OK;
    window_fill(edit, 0, key->meta.extra);
    edit->dirty = true;
    key->meta.type = TYPE_STRING_CHUNKED;
    return store_group_new(key->ns->kv->store, key_rows(key), err); /* (1): it never had rows */
}

static enum rc window_store(struct string_edit *edit, struct err *err)
{
    uint64_t chunk = edit->chunk;
    if (!edit->dirty)
        return RC_OK;
    edit->dirty = false;
    if (edit->stored_count <= chunk)
        edit->stored_count = chunk + 1;
    return chunk_put(edit->key, chunk, bytes_of(edit->bytes, chunk_len(edit->len, chunk)), err);
}

/* whole: all of it will be overwritten. */
static enum rc window_move(struct string_edit *edit, uint64_t chunk, bool whole, struct err *err)
{
    struct bytes row = BYTES("");
    enum rc rc = RC_OK;
    if (edit->chunk == chunk)
        return RC_OK;
    if (edit->key->meta.type == TYPE_STRING) {
        window_fill(edit, chunk, edit->key->meta.extra);
        return RC_OK;
    }
    rc = window_store(edit, err);
    if (rc == RC_OK && chunk < edit->stored_count && !whole)
        rc = chunk_get(edit->key, chunk, chunk_len(edit->len, chunk), &row, err);
    if (rc == RC_OK)
        window_fill(edit, chunk, row);
    return rc;
}

enum rc string_edit_at(struct string_edit *edit, uint64_t at, uint8_t **ret_byte, struct err *err)
{
    ASSERT(at < edit->len);
    enum rc rc = window_move(edit, at / STRING_CHUNK_BYTES, false, err);
    if (rc == RC_OK)
        *ret_byte = edit->bytes + at % STRING_CHUNK_BYTES;
    return rc;
}

void string_edit_want(const struct string_edit *edit, uint64_t from, uint64_t end)
{
    uint64_t chunk = from / STRING_CHUNK_BYTES, chunk_end = chunk_count(end);
    if (chunk_end > edit->stored_count)
        chunk_end = edit->stored_count;
    if (chunk < chunk_end)
        chunks_want(edit->key, chunk, chunk_end - chunk);
}

enum rc string_edit_end(struct string_edit *edit, struct err *err)
{
    struct key *key = edit->key;
    bool grown = edit->len > edit->stored_len;
    if (!grown && !edit->dirty)
        return RC_OK;
    bool plain = key->meta.type == TYPE_STRING;
    enum rc rc = plain ? window_move(edit, 0, false, err) : window_store(edit, err);
    if (rc != RC_OK)
        return rc;
    if (plain)
        return key_save(key, bytes_of(edit->bytes, edit->len), err);
    return grown ? length_save(key, edit->len, err) : RC_OK;
}

/* Only the first and the last chunk are read. */
enum rc string_write(struct key *key, uint64_t at, struct bytes part, struct err *err)
{
    struct string_edit edit;
    if (part.len == 0)
        return RC_OK;
    uint64_t max = key->ns->kv->string_bytes_max;
    if (at > max || part.len > max - at)
        return err_set(err, RC_INVALID, STRING_TOO_LONG);
    uint64_t end = at + part.len;
    enum rc rc = string_edit_begin(&edit, key, end, err);
    while (rc == RC_OK && part.len > 0) {
        uint64_t chunk = at / STRING_CHUNK_BYTES;
        size_t offset = at % STRING_CHUNK_BYTES;
        size_t len = chunk_len(end, chunk) - offset;
        rc = window_move(&edit, chunk, len == chunk_len(edit.len, chunk), err);
        if (rc == RC_COLD)
            string_edit_want(&edit, end - 1, end);
        if (rc != RC_OK)
            return rc;
        memcpy(edit.bytes + offset, part.ptr, len);
        edit.dirty = true;
        at += len;
        part = bytes_from(part, len);
    }
    return rc == RC_OK ? string_edit_end(&edit, err) : rc;
}

/* ---- built aside ---- */

uint64_t string_cost_rows(uint64_t len)
{
    enum { COST_BYTES = 1024 }; /* as much as a small row */
    return len / COST_BYTES;
}

enum rc string_build_put(const struct build *build, uint64_t at, struct bytes part, struct err *err)
{
    ASSERT(at % STRING_CHUNK_BYTES == 0);
    return chunks_put(&build->key, at / STRING_CHUNK_BYTES, part, err);
}

enum rc string_build_end(struct build *build, struct key *key, uint64_t len, uint64_t expire_ms,
                         struct err *err)
{
    ASSERT(len > STRING_PLAIN_BYTES_MAX);
    enum rc rc = build_adopt(build, key, err);
    if (rc != RC_OK)
        return rc;
    key->meta.expire_ms = expire_ms;
    return length_save(key, len, err);
}

static enum rc value_piece(struct bytes value, struct build *build, struct err *err)
{
    struct build_piece piece = build_piece(build);
    uint64_t from = piece.has_after ? be64_get(piece.after.ptr) : 0;
    uint64_t end = value.len - from > piece.bytes_max ? from + piece.bytes_max : value.len;
    uint8_t at[sizeof end];
    enum rc rc = string_build_put(build, from, bytes_of(value.ptr + from, end - from), err);
    if (rc != RC_OK)
        return rc;
    be64_put(at, end);
    return build_piece_end(build, 0, bytes_of(at, sizeof at), end == value.len, err);
}

enum rc string_set_build(struct key *key, struct bytes value, uint64_t expire_ms,
                         struct build *build, struct err *err)
{
    uint64_t kept_ms = key->exists ? key->meta.expire_ms : 0;
    bool is_over = expire_ms != 0 && expire_ms <= key->run->now_ms;
    if (is_over || value.len <= STRING_PLAIN_BYTES_MAX || value.len > STRING_BYTES_MAX ||
        !build_wanted(build, key->run, string_cost_rows(value.len)))
        return string_set(key, value, expire_ms, err);
    enum rc rc = build_step(build, key->run, TYPE_STRING_CHUNKED, 0, err);
    if (rc != RC_OK)
        return rc;
    if (build->phase == BUILD_FILLING)
        return value_piece(value, build, err);
    return string_build_end(build, key, value.len,
                            expire_ms == STRING_KEEP_DEADLINE ? kept_ms : expire_ms, err);
}

void string_want_window(const struct key *key, uint64_t at)
{
    struct chunk_suffix suffix = suffix_of(at / STRING_CHUNK_BYTES);
    if (key->exists && key->meta.type == TYPE_STRING_CHUNKED)
        store_want(key->ns->kv->store, key_rows(key), bytes_of(suffix.bytes, sizeof suffix.bytes),
                   STORE_WANT_WINDOW);
}
