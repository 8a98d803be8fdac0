// SPDX-License-Identifier: Apache-2.0
/* flush_run.c - runs: files of sorted changes, written and read. */
#include "store/flush/flush_int.h"

#include "base/mem.h"

#include "base/banned.h"

enum rc flush__run_writer_open(struct files *files, const char *path,
                               struct flush__run_writer *ret_writer, struct err *err)
{
    struct flush__run_writer writer = {0};
    enum rc rc =
        file_open(files, path, FILE_WRITE | FILE_CREATE | FILE_TRUNCATE, &writer.file, err);
    if (rc != RC_OK)
        return rc;
    writer.buf = mem_alloc(FLUSH_RUN_WRITE_BYTES);
    *ret_writer = writer;
    return RC_OK;
}

void flush__run_writer_close(struct flush__run_writer *writer)
{
    if (!writer)
        return;
    file_close(writer->file);
    mem_free(writer->buf);
    *writer = (struct flush__run_writer){0};
}

static enum rc run_write(struct flush__run_writer *writer, struct bytes bytes, struct err *err)
{
    enum rc rc = file_write(writer->file, writer->offset, bytes, err);
    if (rc != RC_OK)
        return rc;
    writer->offset += bytes.len;
    return RC_OK;
}

static enum rc run_write_out(struct flush__run_writer *writer, struct err *err)
{
    if (writer->len == 0)
        return RC_OK;
    enum rc rc = run_write(writer, bytes_of(writer->buf, writer->len), err);
    if (rc != RC_OK)
        return rc;
    writer->len = 0;
    return RC_OK;
}

enum rc flush__run_add(struct flush__run_writer *writer, const uint8_t *row, struct err *err)
{
    size_t len = flush__row_len(row);
    writer->row_count++;
    if (LIKELY(len <= FLUSH_RUN_WRITE_BYTES - writer->len)) {
        memcpy(writer->buf + writer->len, row, len);
        writer->len += len;
        return RC_OK;
    }
    enum rc rc = run_write_out(writer, err);
    if (rc != RC_OK)
        return rc;
    if (len > FLUSH_RUN_WRITE_BYTES)
        return run_write(writer, bytes_of(row, len), err);
    memcpy(writer->buf, row, len);
    writer->len = len;
    return RC_OK;
}

enum rc flush__run_end(struct flush__run_writer *writer, struct flush__run *run, struct err *err)
{
    enum rc rc = run_write_out(writer, err);
    if (rc != RC_OK)
        return rc;
    run->bytes = writer->offset;
    run->row_count = writer->row_count;
    return RC_OK;
}

enum rc flush__cursor_open(struct files *files, const struct flush__run *run,
                           struct flush__cursor *ret_cursor, struct err *err)
{
    struct flush__cursor cursor = {
        .run_bytes = run->bytes,
        .order_base = (uint64_t)run->segment_index << 32,
    };
    enum rc rc = file_open(files, run->path, FILE_READ, &cursor.file, err);
    if (rc != RC_OK)
        return rc;
    cursor.cap = FLUSH_RUN_READ_BYTES;
    cursor.buf = mem_alloc(cursor.cap);
    *ret_cursor = cursor;
    return RC_OK;
}

void flush__cursor_close(struct flush__cursor *cursor)
{
    if (!cursor)
        return;
    file_close(cursor->file);
    mem_free(cursor->buf);
    *cursor = (struct flush__cursor){.ended = true};
}

static enum rc cursor_damaged(const struct flush__cursor *cursor, struct err *err)
{
    return err_set(err, RC_CORRUPT, "the run \"%s\" is damaged at %llu", cursor->file->path,
                   (unsigned long long)cursor->row_offset);
}

/* Brings `need` bytes of the current row into the buffer. */
static enum rc cursor_fill(struct flush__cursor *cursor, size_t need, struct err *err)
{
    size_t have = cursor->end - cursor->at;
    if (need > cursor->cap) {
        uint8_t *buf = mem_try_realloc(cursor->buf, need);
        if (!buf)
            return err_set(err, RC_NOMEM, "could not allocate %zu bytes for a key", need);
        cursor->buf = buf;
        cursor->cap = need;
    }
    memmove(cursor->buf, cursor->buf + cursor->at, have);
    cursor->at = 0;
    cursor->end = have;

    size_t len;
    enum rc rc = file_read(cursor->file, cursor->row_offset + have, cursor->buf + have,
                           cursor->cap - have, &len, err);
    if (rc != RC_OK)
        return rc;
    cursor->end += len;
    return cursor->end >= need ? RC_OK : cursor_damaged(cursor, err);
}

/* The row begins in the buffer; its whole is there unless it is longer than a buffer. */
static enum rc cursor_row(struct flush__cursor *cursor, struct err *err)
{
    enum rc rc;
    if (cursor->end - cursor->at < FLUSH_ROW_HEADER_BYTES) {
        rc = cursor_fill(cursor, FLUSH_ROW_HEADER_BYTES, err);
        if (rc != RC_OK)
            return rc;
    }
    const uint8_t *row = cursor->buf + cursor->at;
    size_t key_end = FLUSH_ROW_HEADER_BYTES + flush__row_key_len(row);
    cursor->row_len = flush__row_len(row);
    cursor->kind = flush__row_kind(row);
    if (cursor->row_len > cursor->run_bytes - cursor->row_offset || cursor->kind > FLUSH_DELETE)
        return cursor_damaged(cursor, err);

    size_t need = cursor->row_len <= FLUSH_RUN_READ_BYTES ? cursor->row_len : key_end;
    if (cursor->end - cursor->at < need) {
        rc = cursor_fill(cursor, need, err);
        if (rc != RC_OK)
            return rc;
        row = cursor->buf + cursor->at;
    }
    cursor->key = bytes_of(row + FLUSH_ROW_HEADER_BYTES, key_end - FLUSH_ROW_HEADER_BYTES);
    cursor->order = cursor->order_base | flush__row_ordinal(row);
    return RC_OK;
}

enum rc flush__cursor_next(struct flush__cursor *cursor, struct err *err)
{
    cursor->row_offset += cursor->row_len;
    if (cursor->row_len <= cursor->end - cursor->at)
        cursor->at += cursor->row_len;
    else
        cursor->at = cursor->end = 0; /* the rest of a large value is passed over */
    cursor->row_len = 0;

    if (cursor->row_offset == cursor->run_bytes) {
        cursor->ended = true;
        return RC_OK;
    }
    return cursor_row(cursor, err);
}

enum rc flush__cursor_value(struct flush__cursor *cursor, struct buf *large,
                            struct bytes *ret_value, struct err *err)
{
    size_t key_end = FLUSH_ROW_HEADER_BYTES + cursor->key.len;
    size_t value_len = cursor->row_len - key_end;
    if (cursor->row_len <= cursor->end - cursor->at) {
        *ret_value = bytes_of(cursor->buf + cursor->at + key_end, value_len);
        return RC_OK;
    }
    buf_cut(large, 0);
    if (!buf_reserve(large, value_len))
        return err_set(err, RC_NOMEM, "could not allocate %zu bytes for a value", value_len);
    size_t len;
    enum rc rc =
        file_read(cursor->file, cursor->row_offset + key_end, large->ptr, value_len, &len, err);
    if (rc != RC_OK)
        return rc;
    if (len != value_len)
        return cursor_damaged(cursor, err);
    *ret_value = bytes_of(large->ptr, value_len);
    return RC_OK;
}
