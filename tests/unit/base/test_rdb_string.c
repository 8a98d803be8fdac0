// SPDX-License-Identifier: Apache-2.0
#include "base/rdb_string.h"

#include "base/codec.h"
#include "base/crc64.h"
#include "base/rand.h"
#include "test.h"

#include "base/banned.h"

/* What redis-server 7.0.15 answered to FUNCTION DUMP, for a library with 321 times the letter a:
 * an opcode, its code by LZF, the version, a CRC. */
static const uint8_t dump[] = {
    0xf5, 0xc3, 0x40, 0x47, 0x41, 0x87, 0x1f, 0x23, 0x21, 0x6c, 0x75, 0x61, 0x20, 0x6e, 0x61,
    0x6d, 0x65, 0x3d, 0x6c, 0x0a, 0x72, 0x65, 0x64, 0x69, 0x73, 0x2e, 0x72, 0x65, 0x67, 0x69,
    0x73, 0x74, 0x65, 0x72, 0x5f, 0x66, 0x75, 0x6e, 0x63, 0x08, 0x74, 0x69, 0x6f, 0x6e, 0x28,
    0x27, 0x66, 0x27, 0x2c, 0xe0, 0x00, 0x0c, 0x0a, 0x29, 0x20, 0x72, 0x65, 0x74, 0x75, 0x72,
    0x6e, 0x20, 0x27, 0x61, 0xe0, 0xff, 0x00, 0xe0, 0x33, 0x00, 0x05, 0x27, 0x20, 0x65, 0x6e,
    0x64, 0x29, 0x0a, 0x00, 0x8a, 0x67, 0x17, 0x14, 0x13, 0xc7, 0x36, 0x80};

TEST(a_dump_of_redis_is_read)
{
    CLEANUP(buf_done) struct buf code;
    buf_init(&code, 1024);
    struct bytes at = bytes_of(dump + 1, sizeof dump - 1);
    ASSERT_EQ(crc64(0, dump, sizeof dump - 8), le64_get(dump + sizeof dump - 8));
    ASSERT_TRUE(rdb_string_get(&at, &code));
    ASSERT_EQ(at.len, 10);
    struct bytes head = BYTES("#!lua name=l\nredis.register_function('f',function() return 'aaaa");
    struct bytes tail = BYTES("aaa' end)");
    ASSERT_EQ(code.len, 391);
    ASSERT_BYTES(bytes_of(code.ptr, head.len), head);
    ASSERT_BYTES(bytes_of(code.ptr + code.len - tail.len, tail.len), tail);
}

TEST(every_length_comes_back_in_the_shortest_form)
{
    static const struct {
        uint64_t length;
        size_t bytes;
    } cases[] = {{0, 1},          {63, 1},         {64, 2},         {16383, 2}, {16384, 5},
                 {UINT32_MAX, 5}, {1ull << 32, 9}, {UINT64_MAX, 9}, {12345, 2}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CLEANUP(buf_done) struct buf buf;
        buf_init(&buf, 64);
        uint64_t length;
        ASSERT_TRUE(rdb_length_put(&buf, cases[i].length));
        ASSERT_EQ(buf.len, cases[i].bytes);
        struct bytes at = buf_bytes(&buf);
        ASSERT_TRUE(rdb_length_get(&at, &length));
        ASSERT_EQ(length, cases[i].length);
        ASSERT_EQ(at.len, 0);
        for (size_t len = 0; len < buf.len; len++) {
            at = bytes_of(buf.ptr, len);
            ASSERT_FALSE(rdb_length_get(&at, &length));
            ASSERT_EQ(at.len, len);
        }
    }
}

TEST(a_string_comes_back_and_none_that_is_cut)
{
    CLEANUP(buf_done) struct buf buf, back;
    buf_init(&buf, 1 << 20);
    buf_init(&back, 1 << 20);
    uint8_t data[20000];
    memset(data, 'x', sizeof data);
    for (size_t len = 0; len <= sizeof data; len = 3 * len + 1) {
        buf_cut(&buf, 0);
        buf_cut(&back, 0);
        ASSERT_TRUE(rdb_string_put(&buf, bytes_of(data, len)));
        struct bytes at = buf_bytes(&buf);
        ASSERT_TRUE(rdb_string_get(&at, &back));
        ASSERT_BYTES(buf_bytes(&back), bytes_of(data, len));
        at = bytes_of(buf.ptr, buf.len - 1);
        ASSERT_FALSE(rdb_string_get(&at, &back));
    }
}

TEST(integers_are_read_as_their_digits)
{
    static const struct {
        struct bytes stored, text;
    } cases[] = {{BYTES_INIT("\xc0\xff"), BYTES_INIT("-1")},
                 {BYTES_INIT("\xc0\x7f"), BYTES_INIT("127")},
                 {BYTES_INIT("\xc1\x00\x80"), BYTES_INIT("-32768")},
                 {BYTES_INIT("\xc2\xff\xff\xff\x7f"), BYTES_INIT("2147483647")}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CLEANUP(buf_done) struct buf back;
        buf_init(&back, 64);
        struct bytes at = cases[i].stored;
        ASSERT_TRUE(rdb_string_get(&at, &back));
        ASSERT_BYTES(buf_bytes(&back), cases[i].text);
        at = bytes_of(cases[i].stored.ptr, cases[i].stored.len - 1);
        ASSERT_FALSE(rdb_string_get(&at, &back));
    }
}

TEST(hostile_strings_are_refused)
{
    static const struct bytes cases[] = {
        BYTES_INIT(""),
        BYTES_INIT("\x82"),                                 /* no such length */
        BYTES_INIT("\xc4"),                                 /* no such form */
        BYTES_INIT("\x81\xff\xff\xff\xff\xff\xff\xff\xff"), /* longer than everything */
        BYTES_INIT(
            "\xc3\x02\x81\x7f\xff\xff\xff\xff\xff\xff\xff\x00\x61"), /* two bytes for all that */
        BYTES_INIT("\xc3\x02\x02\x20\x00"),     /* a copy from before the beginning */
        BYTES_INIT("\xc3\x02\x05\x00\x61"),     /* one byte where five were promised */
        BYTES_INIT("\xc3\x03\x02\x02\x61\x61"), /* three literals, of which two are there */
        BYTES_INIT("\xc3\x01\x05\xe0"),         /* a copy without its length */
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CLEANUP(buf_done) struct buf back;
        buf_init(&back, 1 << 20);
        struct bytes at = cases[i];
        ASSERT_FALSE(rdb_string_get(&at, &back));
        ASSERT_EQ(at.len, cases[i].len);
    }
}

TEST(random_bytes_are_read_or_refused_within_bounds)
{
    struct rand rand;
    rand_init_seed(&rand, 3);
    for (int i = 0; i < 100000; i++) {
        CLEANUP(buf_done) struct buf back;
        uint8_t data[40];
        buf_init(&back, 4096);
        size_t len = rand_below(&rand, sizeof data);
        rand_bytes(&rand, data, len);
        if (len > 0 && i % 2)
            data[0] = 0xc3;
        struct bytes at = bytes_of(data, len);
        bool good = rdb_string_get(&at, &back);
        ASSERT_TRUE(good || at.len == len);
        ASSERT_LE(back.len, 4096);
    }
}
