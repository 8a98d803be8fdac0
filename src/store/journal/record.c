// SPDX-License-Identifier: Apache-2.0
/* record.c - encodes and decodes the commits of a turn; see record.h for the drawing.
 *
 * Adding a record is on the path of every write: room is reserved once for the worst case and the
 * fields are written directly. Reading trusts nothing: every length is checked against the bytes
 * that are there and against base/limits.h.
 *
 * Invariant: while a commit is open the body has `promised` bytes of memory behind its end. */
#include "store/journal/record.h"

#include "base/codec.h"
#include "base/limits.h"

#include "base/banned.h"

enum {
    RECORD_GROUP_BYTES_MAX = STORE_PREFIX_BYTES_MAX + STORE_GROUP_KEY_BYTES_MAX,
    RECORD_FIXED_BYTES_MAX = 2 + 3 * UVARINT_BYTES_MAX, /* all of a record but its bytes */
    RECORD_BODY_KEEP_BYTES = 4 * 1024 * 1024, /* memory that a writer keeps between turns */
};

static void writer_start(struct record_writer *writer)
{
    writer->group_offset = writer->other_offset = SIZE_MAX;
    writer->promised = 0;
    writer->open = false;
    writer->commit_count = 0;
}

void record_writer_init(struct record_writer *writer, size_t bytes_max)
{
    ASSERT(bytes_max <= UINT32_MAX); /* a commit's length is a u32 */
    buf_init(&writer->body, bytes_max);
    writer_start(writer);
}

void record_writer_done(struct record_writer *writer)
{
    if (!writer)
        return;
    buf_done(&writer->body);
    writer_start(writer);
}

void record_writer_clear(struct record_writer *writer)
{
    buf_shrink(&writer->body, RECORD_BODY_KEEP_BYTES);
    writer_start(writer);
}

bool record_commit_begin(struct record_writer *writer)
{
    ASSERT(!writer->open && writer->promised == 0);
    if (!buf_reserve(&writer->body, RECORD_COMMIT_HEADER_BYTES))
        return false;
    writer->open = true;
    writer->begin = record_place(writer);
    writer->body.len += RECORD_COMMIT_HEADER_BYTES;
    return true;
}

void record_commit_end(struct record_writer *writer)
{
    ASSERT(writer->open);
    size_t len = writer->body.len - writer->begin.len - RECORD_COMMIT_HEADER_BYTES;

    if (len == 0) {
        record_commit_undo(writer);
        return;
    }
    le32_put(writer->body.ptr + writer->begin.len, (uint32_t)len);
    writer->promised = 0;
    writer->open = false;
    writer->commit_count++;
}

static void writer_cut(struct record_writer *writer, struct record_place place)
{
    buf_cut(&writer->body, place.len);
    writer->group_offset = place.group_offset;
    writer->other_offset = place.other_offset;
    writer->promised = place.promised;
}

void record_commit_undo(struct record_writer *writer)
{
    if (!writer->open)
        return;
    writer_cut(writer, writer->begin);
    writer->open = false;
}

struct record_place record_place(const struct record_writer *writer)
{
    return (struct record_place){.len = writer->body.len,
                                 .group_offset = writer->group_offset,
                                 .other_offset = writer->other_offset,
                                 .promised = writer->promised};
}

void record_cut(struct record_writer *writer, struct record_place place)
{
    ASSERT(writer->open);
    ASSERT(writer->begin.len < place.len && place.len <= writer->body.len);
    writer_cut(writer, place);
}

/* Most lengths are below 128, and a call is dearer than the byte. */
static inline uint8_t *number_put(uint8_t *at, uint64_t value)
{
    if (LIKELY(value < 0x80)) {
        *at = (uint8_t)value;
        return at + 1;
    }
    return at + uvarint_put(at, value);
}

static inline uint8_t *bytes_put(uint8_t *at, struct bytes bytes)
{
    bytes_move(at, bytes.ptr, bytes.len);
    return at + bytes.len;
}

/* Whether the record at the offset names this space and group key. */
static inline bool group_is_at(const struct record_writer *writer, size_t offset, uint8_t space,
                               struct bytes prefix, struct bytes rest)
{
    if (offset == SIZE_MAX)
        return false;
    const uint8_t *at = writer->body.ptr + offset + 1;
    if (*at++ != space)
        return false;
    uint64_t len = *at;
    if (LIKELY(len < 0x80))
        at++;
    else if (!uvarint_get(&at, writer->body.ptr + writer->body.len, &len))
        return false;
    if (len != prefix.len + rest.len)
        return false;
    /* Most keys of a turn differ at their ends. */
    if (rest.len >= 8 && bytes_word(at + len - 8, 8) != bytes_word(rest.ptr + rest.len - 8, 8))
        return false;
    return bytes_eq_at(at + prefix.len, rest.ptr, rest.len) &&
           bytes_eq_at(at, prefix.ptr, prefix.len);
}

static bool kind_shares_group(enum record_kind kind)
{
    return kind == RECORD_PUT || kind == RECORD_DELETE || kind == RECORD_COUNTER_ADD;
}

/* RECORD_SAME_GROUP, RECORD_OTHER_GROUP, or 0: the record has to name its group. */
static uint8_t group_flag(const struct record_writer *writer, enum record_kind kind, uint8_t space,
                          struct bytes prefix, struct bytes rest)
{
    if (!kind_shares_group(kind))
        return 0;
    if (group_is_at(writer, writer->group_offset, space, prefix, rest))
        return RECORD_SAME_GROUP;
    return group_is_at(writer, writer->other_offset, space, prefix, rest) ? RECORD_OTHER_GROUP : 0;
}

bool record_add(struct record_writer *writer, enum record_kind kind, uint8_t space,
                struct bytes prefix, struct bytes rest, struct bytes suffix, struct bytes value,
                int64_t delta)
{
    ASSERT(writer->open);
    ASSERT(prefix.len + rest.len <= RECORD_GROUP_BYTES_MAX);
    ASSERT(suffix.len <= STORE_SUFFIX_BYTES_MAX);
    ASSERT(value.len <= STORE_VALUE_BYTES_MAX);

    uint8_t flag = group_flag(writer, kind, space, prefix, rest);
    size_t group_bytes = flag ? 0 : prefix.len + rest.len;
    size_t more = RECORD_FIXED_BYTES_MAX + group_bytes + suffix.len + value.len + writer->promised;
    if (UNLIKELY(writer->body.cap - writer->body.len < more) && !buf_reserve(&writer->body, more))
        return false;

    uint8_t *start = writer->body.ptr + writer->body.len;
    uint8_t *at = start;
    *at++ = (uint8_t)(kind | flag);
    if (flag != RECORD_SAME_GROUP) {
        size_t named = flag ? writer->other_offset : writer->body.len;
        writer->other_offset = writer->group_offset;
        writer->group_offset = named;
    }
    if (!flag) {
        *at++ = space;
        at = number_put(at, prefix.len + rest.len);
        at = bytes_put(at, prefix);
        at = bytes_put(at, rest);
    }
    switch (kind) {
    case RECORD_PUT:
        at = number_put(at, suffix.len);
        at = bytes_put(at, suffix);
        at = number_put(at, value.len);
        at = bytes_put(at, value);
        break;
    case RECORD_DELETE:
        at = number_put(at, suffix.len);
        at = bytes_put(at, suffix);
        break;
    case RECORD_COUNTER_ADD:
        at = number_put(at, zigzag_encode(delta));
        break;
    case RECORD_DROP_GROUP:
    case RECORD_DROP_PREFIX:
        break;
    }
    writer->body.len += (size_t)(at - start);
    return true;
}

bool record_counter_promise(struct record_writer *writer, struct bytes name)
{
    ASSERT(writer->open);
    size_t promised = writer->promised + RECORD_FIXED_BYTES_MAX + name.len;
    if (!buf_reserve(&writer->body, promised))
        return false;
    writer->promised = promised;
    return true;
}

void record_counter_add(struct record_writer *writer, uint8_t space, struct bytes name,
                        int64_t delta)
{
    const struct bytes none = bytes_of("", 0);
    size_t bytes = RECORD_FIXED_BYTES_MAX + name.len;
    ASSERT(writer->promised >= bytes);
    writer->promised -= bytes;
    bool added = record_add(writer, RECORD_COUNTER_ADD, space, name, none, none, none, delta);
    ASSERT(added);
}

void record_reader_init(struct record_reader *reader, struct bytes body)
{
    *reader = (struct record_reader){.at = body.ptr, .end = body.ptr + body.len};
}

enum rc record_next_commit(struct record_reader *reader, struct err *err)
{
    struct record skipped; /* it may name a group for those that follow */
    enum rc rc = reader->commit_end ? RC_OK : RC_NOT_FOUND;
    while (rc == RC_OK)
        rc = record_next(reader, &skipped, err);
    if (rc != RC_NOT_FOUND)
        return rc;
    reader->commit_end = NULL;
    size_t left = (size_t)(reader->end - reader->at);
    if (left == 0)
        return RC_NOT_FOUND;
    if (left < RECORD_COMMIT_HEADER_BYTES)
        return err_set(err, RC_CORRUPT, "a commit's header is cut after %zu bytes", left);

    uint32_t len = le32_get(reader->at);
    if (len == 0)
        return err_set(err, RC_CORRUPT, "a commit is empty");
    if (len > left - RECORD_COMMIT_HEADER_BYTES)
        return err_set(err, RC_CORRUPT, "a commit of %u bytes goes past the end of its turn", len);
    reader->at += RECORD_COMMIT_HEADER_BYTES;
    reader->commit_end = reader->at + len;
    return RC_OK;
}

static enum rc read_number(struct record_reader *reader, const char *what, uint64_t *ret_value,
                           struct err *err)
{
    if (LIKELY(reader->at < reader->commit_end && *reader->at < 0x80)) {
        *ret_value = *reader->at++;
        return RC_OK;
    }
    if (!uvarint_get(&reader->at, reader->commit_end, ret_value))
        return err_set(err, RC_CORRUPT, "a record's %s is cut or no number", what);
    return RC_OK;
}

static enum rc read_bytes(struct record_reader *reader, const char *what, size_t len_max,
                          struct bytes *ret_bytes, struct err *err)
{
    uint64_t len = 0;
    enum rc rc = read_number(reader, what, &len, err);
    if (rc != RC_OK)
        return rc;
    if (len > len_max)
        return err_set(err, RC_CORRUPT, "a record's %s has %llu bytes, over its limit", what,
                       (unsigned long long)len);
    if (len > (size_t)(reader->commit_end - reader->at))
        return err_set(err, RC_CORRUPT, "a record's %s goes past the end of its commit", what);
    *ret_bytes = bytes_of(reader->at, (size_t)len);
    reader->at += len;
    return RC_OK;
}

/* Space and group key: named by this record, or by an earlier one. */
static enum rc read_group(struct record_reader *reader, enum record_kind kind, uint8_t flag,
                          struct err *err)
{
    size_t len_max =
        kind == RECORD_COUNTER_ADD ? STORE_COUNTER_NAME_BYTES_MAX : RECORD_GROUP_BYTES_MAX;
    if (flag == RECORD_SAME_GROUP) {
        if (!kind_shares_group(kind) || !reader->group.key.ptr || reader->group.key.len > len_max)
            return err_set(err, RC_CORRUPT, "a record of kind %d shares a group key", (int)kind);
        return RC_OK;
    }
    struct record_group group = reader->other;
    if (flag) {
        if (!kind_shares_group(kind) || !group.key.ptr || group.key.len > len_max)
            return err_set(err, RC_CORRUPT, "a record of kind %d shares an old group key",
                           (int)kind);
    } else {
        if (reader->at == reader->commit_end)
            return err_set(err, RC_CORRUPT, "a record's space is cut");
        group.space = *reader->at++;
        enum rc rc = read_bytes(reader, "group key", len_max, &group.key, err);
        if (rc != RC_OK)
            return rc;
    }
    reader->other = reader->group;
    reader->group = group;
    return RC_OK;
}

enum rc record_next(struct record_reader *reader, struct record *ret_record, struct err *err)
{
    ASSERT(reader->commit_end);
    if (reader->at == reader->commit_end)
        return RC_NOT_FOUND;

    uint8_t first = *reader->at++;
    uint8_t flag = first & (RECORD_SAME_GROUP | RECORD_OTHER_GROUP);
    struct record record = {.kind = first & ~flag};
    if (record.kind < RECORD_PUT || record.kind > RECORD_COUNTER_ADD ||
        flag == (RECORD_SAME_GROUP | RECORD_OTHER_GROUP))
        return err_set(err, RC_VERSION, "a record has the unknown kind %d", (int)first);
    enum rc rc = read_group(reader, record.kind, flag, err);
    if (rc != RC_OK)
        return rc;
    record.space = reader->group.space;
    record.group = reader->group.key;

    uint64_t code = 0;
    if (record.kind == RECORD_PUT || record.kind == RECORD_DELETE)
        rc = read_bytes(reader, "suffix", STORE_SUFFIX_BYTES_MAX, &record.suffix, err);
    if (rc == RC_OK && record.kind == RECORD_PUT)
        rc = read_bytes(reader, "value", STORE_VALUE_BYTES_MAX, &record.value, err);
    if (rc == RC_OK && record.kind == RECORD_COUNTER_ADD)
        rc = read_number(reader, "delta", &code, err);
    if (rc != RC_OK)
        return rc;
    record.delta = zigzag_decode(code);
    *ret_record = record;
    return RC_OK;
}
