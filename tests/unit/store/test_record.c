// SPDX-License-Identifier: Apache-2.0
#include "store/journal/record.h"

#include "base/codec.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/rand.h"
#include "test.h"

#include "base/banned.h"

static const struct bytes none = {0};

static bool put(struct record_writer *writer, struct bytes group, struct bytes suffix,
                struct bytes value)
{
    return record_add(writer, RECORD_PUT, 7, none, group, suffix, value, 0);
}

static void expect(struct record_reader *reader, enum record_kind kind, struct bytes group,
                   struct bytes suffix, struct bytes value)
{
    struct record record;
    struct err err = {0};
    ASSERT_OK(record_next(reader, &record, &err), &err);
    ASSERT_EQ(record.kind, kind);
    ASSERT_EQ(record.space, 7);
    ASSERT_BYTES(record.group, group);
    ASSERT_BYTES(record.suffix, suffix);
    ASSERT_BYTES(record.value, value);
}

/* Reads everything; the first code that is not an expected end. */
static enum rc read_all(struct bytes body, size_t *ret_count)
{
    struct record_reader reader;
    struct record record;
    struct err err = {0};
    enum rc rc;

    *ret_count = 0;
    record_reader_init(&reader, body);
    while ((rc = record_next_commit(&reader, &err)) == RC_OK) {
        while ((rc = record_next(&reader, &record, &err)) == RC_OK)
            ++*ret_count;
        if (rc != RC_NOT_FOUND)
            return rc;
    }
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

TEST(every_kind_comes_back_as_it_was_added)
{
    struct record_writer writer;
    struct record_reader reader;
    struct record record;
    struct err err = {0};

    record_writer_init(&writer, 1000);
    ASSERT_TRUE(record_commit_begin(&writer));
    ASSERT_TRUE(put(&writer, BYTES("g"), BYTES("s"), BYTES("v")));
    ASSERT_TRUE(record_add(&writer, RECORD_DELETE, 7, BYTES("a"), BYTES("b"), BYTES("s"), none, 0));
    ASSERT_TRUE(record_add(&writer, RECORD_DROP_GROUP, 7, BYTES("ab"), BYTES("c"), none, none, 0));
    ASSERT_TRUE(record_add(&writer, RECORD_DROP_PREFIX, 7, BYTES("p"), none, none, none, 0));
    ASSERT_TRUE(record_add(&writer, RECORD_COUNTER_ADD, 7, none, BYTES("keys"), none, none, -300));
    record_commit_end(&writer);
    ASSERT_EQ(writer.commit_count, 1);

    record_reader_init(&reader, buf_bytes(&writer.body));
    ASSERT_OK(record_next_commit(&reader, &err), &err);
    expect(&reader, RECORD_PUT, BYTES("g"), BYTES("s"), BYTES("v"));
    expect(&reader, RECORD_DELETE, BYTES("ab"), BYTES("s"), none);
    expect(&reader, RECORD_DROP_GROUP, BYTES("abc"), none, none);
    expect(&reader, RECORD_DROP_PREFIX, BYTES("p"), none, none);
    ASSERT_OK(record_next(&reader, &record, &err), &err);
    ASSERT_EQ(record.kind, RECORD_COUNTER_ADD);
    ASSERT_BYTES(record.group, BYTES("keys"));
    ASSERT_EQ(record.delta, -300);
    ASSERT_RC(record_next(&reader, &record, &err), RC_NOT_FOUND);
    ASSERT_RC(record_next_commit(&reader, &err), RC_NOT_FOUND);
    record_writer_done(&writer);
}

TEST(a_put_of_the_same_group_is_written_without_it)
{
    struct record_writer writer;
    struct record_reader reader;
    struct err err = {0};

    record_writer_init(&writer, 1000);
    ASSERT_TRUE(record_commit_begin(&writer));
    ASSERT_TRUE(put(&writer, BYTES("group"), BYTES("s"), BYTES("v")));
    size_t before = writer.body.len;
    ASSERT_TRUE(
        record_add(&writer, RECORD_PUT, 7, BYTES("gr"), BYTES("oup"), BYTES("t"), BYTES("w"), 0));
    ASSERT_EQ(writer.body.len - before, 5);
    ASSERT_TRUE(record_add(&writer, RECORD_DELETE, 7, BYTES("group"), none, BYTES("u"), none, 0));
    ASSERT_EQ(writer.body.len - before, 8);
    ASSERT_TRUE(record_add(&writer, RECORD_DELETE, 8, BYTES("group"), none, BYTES("u"), none, 0));
    ASSERT_GT(writer.body.len - before, 12);
    record_commit_end(&writer);

    record_reader_init(&reader, buf_bytes(&writer.body));
    ASSERT_OK(record_next_commit(&reader, &err), &err);
    expect(&reader, RECORD_PUT, BYTES("group"), BYTES("s"), BYTES("v"));
    expect(&reader, RECORD_PUT, BYTES("group"), BYTES("t"), BYTES("w"));
    expect(&reader, RECORD_DELETE, BYTES("group"), BYTES("u"), none);
    record_writer_done(&writer);
}

/* What every command on a list writes: an element, the meta row, sometimes a counter. */
static bool add_push(struct record_writer *writer, bool counts)
{
    bool good = record_commit_begin(writer) && put(writer, BYTES("rows"), BYTES("s"), BYTES("v")) &&
                put(writer, BYTES("meta"), none, BYTES("m"));
    if (good && counts)
        good = record_add(writer, RECORD_COUNTER_ADD, 7, BYTES("keys"), none, none, none, 1);
    return good;
}

TEST(two_groups_are_named_once_a_turn)
{
    struct record_writer writer;
    struct record_reader reader;
    struct err err = {0};

    record_writer_init(&writer, 1000);
    for (int i = 0; i < 3; i++) {
        size_t before = writer.body.len;
        ASSERT_TRUE(add_push(&writer, false));
        record_commit_end(&writer);
        ASSERT_EQ(writer.body.len - before, i == 0 ? 25 : 13);
    }
    record_reader_init(&reader, buf_bytes(&writer.body));
    for (int i = 0; i < 3; i++) {
        ASSERT_OK(record_next_commit(&reader, &err), &err);
        expect(&reader, RECORD_PUT, BYTES("rows"), BYTES("s"), BYTES("v"));
        expect(&reader, RECORD_PUT, BYTES("meta"), none, BYTES("m"));
    }
    record_writer_done(&writer);
}

TEST(a_third_group_takes_the_place_of_the_older_one)
{
    struct record_writer writer;
    struct record_reader reader;
    struct record record;
    struct err err = {0};

    record_writer_init(&writer, 1000);
    for (int i = 0; i < 3; i++) {
        ASSERT_TRUE(add_push(&writer, true));
        record_commit_end(&writer);
    }
    record_reader_init(&reader, buf_bytes(&writer.body));
    for (int i = 0; i < 3; i++) {
        ASSERT_OK(record_next_commit(&reader, &err), &err);
        expect(&reader, RECORD_PUT, BYTES("rows"), BYTES("s"), BYTES("v"));
        expect(&reader, RECORD_PUT, BYTES("meta"), none, BYTES("m"));
        ASSERT_OK(record_next(&reader, &record, &err), &err);
        ASSERT_EQ(record.kind, RECORD_COUNTER_ADD);
        ASSERT_BYTES(record.group, BYTES("keys"));
    }
    record_writer_done(&writer);
}

TEST(a_group_that_was_taken_back_is_named_again)
{
    struct record_writer writer;
    struct record_reader reader;
    struct err err = {0};

    record_writer_init(&writer, 1000);
    ASSERT_TRUE(record_commit_begin(&writer));
    ASSERT_TRUE(put(&writer, BYTES("kept"), none, none));
    record_commit_end(&writer);
    ASSERT_TRUE(add_push(&writer, false));
    record_commit_undo(&writer);
    ASSERT_TRUE(record_commit_begin(&writer));
    ASSERT_TRUE(put(&writer, BYTES("kept"), none, none));
    struct record_place place = record_place(&writer);
    ASSERT_TRUE(put(&writer, BYTES("rows"), none, none));
    record_cut(&writer, place);
    ASSERT_TRUE(put(&writer, BYTES("rows"), none, none));
    ASSERT_TRUE(put(&writer, BYTES("kept"), none, none));
    record_commit_end(&writer);

    record_reader_init(&reader, buf_bytes(&writer.body));
    ASSERT_OK(record_next_commit(&reader, &err), &err);
    expect(&reader, RECORD_PUT, BYTES("kept"), none, none);
    ASSERT_OK(record_next_commit(&reader, &err), &err);
    expect(&reader, RECORD_PUT, BYTES("kept"), none, none);
    expect(&reader, RECORD_PUT, BYTES("rows"), none, none);
    expect(&reader, RECORD_PUT, BYTES("kept"), none, none);
    record_writer_done(&writer);
}

TEST(an_empty_commit_leaves_nothing_and_undo_takes_back)
{
    struct record_writer writer;

    record_writer_init(&writer, 1000);
    ASSERT_TRUE(record_commit_begin(&writer));
    record_commit_end(&writer);
    ASSERT_EQ(writer.body.len, 0);
    ASSERT_EQ(writer.commit_count, 0);
    ASSERT_TRUE(record_commit_begin(&writer));
    ASSERT_TRUE(put(&writer, BYTES("a"), none, none));
    record_commit_end(&writer);
    size_t len = writer.body.len;
    ASSERT_TRUE(record_commit_begin(&writer));
    ASSERT_TRUE(put(&writer, BYTES("b"), none, none));
    record_commit_undo(&writer);
    ASSERT_EQ(writer.body.len, len);
    ASSERT_EQ(writer.commit_count, 1);
    record_writer_clear(&writer);
    ASSERT_EQ(writer.body.len, 0);
    ASSERT_EQ(writer.commit_count, 0);
    record_writer_done(&writer);
    record_writer_done(NULL);
}

TEST(a_full_writer_refuses_and_changes_nothing)
{
    struct record_writer writer;

    record_writer_init(&writer, 100);
    ASSERT_TRUE(record_commit_begin(&writer));
    ASSERT_TRUE(put(&writer, BYTES("a"), none, BYTES("0123456789")));
    size_t len = writer.body.len;
    uint8_t value[100] = {0};
    ASSERT_FALSE(put(&writer, BYTES("b"), none, bytes_of(value, sizeof value)));
    ASSERT_EQ(writer.body.len, len);
    record_writer_done(&writer);
    record_writer_init(&writer, 3);
    ASSERT_FALSE(record_commit_begin(&writer));
    record_writer_done(&writer);
}

/* Puts rows until there is no room. */
static void fill(struct record_writer *writer)
{
    uint8_t value[64] = {0};
    size_t len = sizeof value;
    while (len > 0)
        if (!put(writer, BYTES("rows"), none, bytes_of(value, len)))
            len--;
}

TEST(a_counter_that_was_promised_has_room_in_a_full_commit)
{
    struct record_writer writer;
    struct record_reader reader;
    struct record record;
    struct err err = {0};

    record_writer_init(&writer, 1000);
    ASSERT_TRUE(record_commit_begin(&writer));
    ASSERT_TRUE(record_counter_promise(&writer, BYTES("keys")));
    struct record_place place = record_place(&writer);
    ASSERT_TRUE(record_counter_promise(&writer, BYTES("taken back")));
    fill(&writer);
    record_cut(&writer, place);
    ASSERT_TRUE(record_counter_promise(&writer, BYTES("expires")));
    ASSERT_TRUE(record_counter_promise(&writer, BYTES("never added")));
    fill(&writer);
    ASSERT_FALSE(record_counter_promise(&writer, BYTES("one too many")));
    record_counter_add(&writer, 7, BYTES("keys"), INT64_MIN);
    record_counter_add(&writer, 7, BYTES("expires"), INT64_MAX);
    record_commit_end(&writer);
    ASSERT_TRUE(writer.body.len <= 1000);

    record_reader_init(&reader, buf_bytes(&writer.body));
    ASSERT_OK(record_next_commit(&reader, &err), &err);
    enum rc rc = record_next(&reader, &record, &err);
    while (rc == RC_OK && record.kind == RECORD_PUT)
        rc = record_next(&reader, &record, &err);
    ASSERT_OK(rc, &err);
    ASSERT_BYTES(record.group, BYTES("keys"));
    ASSERT_TRUE(record.delta == INT64_MIN);
    ASSERT_OK(record_next(&reader, &record, &err), &err);
    ASSERT_BYTES(record.group, BYTES("expires"));
    ASSERT_TRUE(record.delta == INT64_MAX);
    ASSERT_RC(record_next(&reader, &record, &err), RC_NOT_FOUND);
    record_writer_done(&writer);
}

TEST(long_keys_and_values_come_back)
{
    static uint8_t key[STORE_GROUP_KEY_BYTES_MAX + STORE_PREFIX_BYTES_MAX];
    struct record_writer writer;
    struct record_reader reader;
    struct err err = {0};
    struct bytes long_value = bytes_of(mem_zalloc(1000000), 1000000);

    memset(key, 'k', sizeof key);
    record_writer_init(&writer, 4000000);
    ASSERT_TRUE(record_commit_begin(&writer));
    for (int i = 0; i < 2; i++)
        ASSERT_TRUE(record_add(&writer, RECORD_PUT, 7, bytes_of(key, 255),
                               bytes_of(key + 255, sizeof key - 255), BYTES("s"), long_value, 0));
    record_commit_end(&writer);
    ASSERT_LT(writer.body.len, 2000000 + sizeof key + 40);
    record_reader_init(&reader, buf_bytes(&writer.body));
    ASSERT_OK(record_next_commit(&reader, &err), &err);
    for (int i = 0; i < 2; i++)
        expect(&reader, RECORD_PUT, bytes_of(key, sizeof key), BYTES("s"), long_value);
    mem_free((void *)long_value.ptr);
    record_writer_done(&writer);
}

TEST(an_unknown_kind_is_refused)
{
    struct record_reader reader;
    struct record record;
    struct err err = {0};
    uint8_t body[] = {3, 0, 0, 0, 6, 0, 0};

    record_reader_init(&reader, bytes_of(body, sizeof body));
    ASSERT_OK(record_next_commit(&reader, &err), &err);
    ASSERT_RC(record_next(&reader, &record, &err), RC_VERSION);
    body[4] = 0;
    record_reader_init(&reader, bytes_of(body, sizeof body));
    ASSERT_OK(record_next_commit(&reader, &err), &err);
    ASSERT_RC(record_next(&reader, &record, &err), RC_VERSION);
}

static enum rc read_hex(const uint8_t *records, size_t len)
{
    uint8_t body[64];
    size_t count;
    le32_put(body, (uint32_t)len);
    memcpy(body + 4, records, len);
    return read_all(bytes_of(body, len + 4), &count);
}

TEST(what_breaks_a_limit_is_corrupt)
{
    /* Group key, suffix and value over their limits; a shared group that nobody named. */
    ASSERT_RC(read_hex((uint8_t[]){1, 0, 0xff, 0xff, 0xff, 0x7f}, 6), RC_CORRUPT);
    ASSERT_RC(read_hex((uint8_t[]){1, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f}, 8), RC_CORRUPT);
    ASSERT_RC(read_hex((uint8_t[]){1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f}, 9), RC_CORRUPT);
    ASSERT_RC(read_hex((uint8_t[]){0x81, 0, 0}, 3), RC_CORRUPT);
    ASSERT_RC(read_hex((uint8_t[]){0x41, 0, 0}, 3), RC_CORRUPT);
    ASSERT_RC(read_hex((uint8_t[]){1, 0, 1, 'g', 0, 0, 0x41, 0, 0}, 9), RC_CORRUPT);
    ASSERT_RC(read_hex((uint8_t[]){1, 0, 1, 'g', 0, 0, 0xc1, 0, 0}, 9), RC_VERSION);
    ASSERT_RC(read_hex((uint8_t[]){3, 0, 0, 3, 0, 0, 0x43}, 7), RC_CORRUPT);
    ASSERT_RC(read_hex((uint8_t[]){3, 0, 0, 0x83}, 4), RC_CORRUPT);
    ASSERT_RC(read_hex((uint8_t[]){3}, 1), RC_CORRUPT);
    ASSERT_RC(read_hex((uint8_t[]){5, 0, 0, 0x80}, 4), RC_CORRUPT);
    ASSERT_RC(read_hex((uint8_t[]){3, 0, 0}, 3), RC_OK);
    size_t count;
    ASSERT_RC(read_all(BYTES("\0\0\0\0"), &count), RC_CORRUPT);
    ASSERT_RC(read_all(BYTES("\1\0\0"), &count), RC_CORRUPT);
    ASSERT_RC(read_all(BYTES("\2\0\0\0\1"), &count), RC_CORRUPT);
    ASSERT_RC(read_all(none, &count), RC_OK);
}

/* The copy is exactly as large as the input, so a sanitizer sees a read past it. */
TEST(no_change_of_a_byte_reads_out_of_bounds)
{
    struct record_writer writer;
    size_t count;

    record_writer_init(&writer, 1000);
    for (int i = 0; i < 3; i++) {
        ASSERT_TRUE(record_commit_begin(&writer));
        ASSERT_TRUE(put(&writer, BYTES("group"), BYTES("s"), BYTES("value")));
        ASSERT_TRUE(put(&writer, BYTES("group"), BYTES("t"), BYTES("value")));
        ASSERT_TRUE(record_add(&writer, RECORD_COUNTER_ADD, 1, none, BYTES("n"), none, none, i));
        record_commit_end(&writer);
    }
    for (size_t at = 0; at < writer.body.len; at++) {
        for (int byte = 0; byte < 256; byte++) {
            uint8_t *copy = mem_dup(writer.body.ptr, writer.body.len);
            copy[at] = (uint8_t)byte;
            enum rc rc = read_all(bytes_of(copy, writer.body.len), &count);
            ASSERT_TRUE(rc == RC_OK || rc == RC_CORRUPT || rc == RC_VERSION);
            mem_free(copy);
        }
        uint8_t *cut = mem_dup(writer.body.ptr, at);
        enum rc rc = read_all(bytes_of(cut, at), &count);
        ASSERT_TRUE(rc == RC_OK || rc == RC_CORRUPT);
        mem_free(cut);
    }
    record_writer_done(&writer);
}

TEST(skipping_a_commit_lands_on_the_next)
{
    struct record_writer writer;
    struct record_reader reader;
    struct err err = {0};

    record_writer_init(&writer, 1000);
    for (int i = 0; i < 3; i++) {
        ASSERT_TRUE(record_commit_begin(&writer));
        ASSERT_TRUE(put(&writer, bytes_of(&"abc"[i], 1), none, none));
        ASSERT_TRUE(put(&writer, BYTES("x"), none, none)); /* named in the first one only */
        record_commit_end(&writer);
    }
    record_reader_init(&reader, buf_bytes(&writer.body));
    for (int i = 0; i < 3; i++) {
        ASSERT_OK(record_next_commit(&reader, &err), &err);
        expect(&reader, RECORD_PUT, bytes_of(&"abc"[i], 1), none, none);
    }
    ASSERT_RC(record_next_commit(&reader, &err), RC_NOT_FOUND);
    record_writer_done(&writer);
}
