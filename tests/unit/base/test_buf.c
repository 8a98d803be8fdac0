// SPDX-License-Identifier: Apache-2.0
#include "base/buf.h"

#include "base/mem.h"
#include "test.h"

#include "base/banned.h"

TEST(a_new_buf_holds_no_memory_and_done_may_be_repeated)
{
    struct buf buf;
    buf_init(&buf, 100);
    ASSERT_FALSE(buf.ptr);
    ASSERT_EQ(buf_bytes(&buf).len, 0);
    buf_done(&buf);
    buf_done(&buf);
    buf_done(NULL);
}

TEST(added_bytes_stand_one_after_the_other)
{
    struct buf buf;
    buf_init(&buf, 1000000);
    for (int i = 0; i < 100000; i++) {
        uint8_t byte = (uint8_t)(i * 7);
        ASSERT_TRUE(buf_add(&buf, &byte, 1));
    }
    ASSERT_EQ(buf.len, 100000);
    for (int i = 0; i < 100000; i++)
        ASSERT_EQ(buf.ptr[i], (uint8_t)(i * 7));
    ASSERT_TRUE(buf_add(&buf, NULL, 0));
    buf_done(&buf);
}

TEST(the_limit_can_be_reached_and_not_passed)
{
    struct buf buf;
    buf_init(&buf, 10);
    ASSERT_TRUE(buf_add_bytes(&buf, BYTES("12345678")));
    ASSERT_FALSE(buf_add_bytes(&buf, BYTES("abc")));
    ASSERT_FALSE(buf_reserve(&buf, SIZE_MAX));
    ASSERT_FALSE(buf_printf(&buf, "%s", "abc"));
    ASSERT_BYTES(buf_bytes(&buf), BYTES("12345678"));
    ASSERT_TRUE(buf_printf(&buf, "%s", "ab"));
    ASSERT_BYTES(buf_bytes(&buf), BYTES("12345678ab"));
    ASSERT_FALSE(buf_add_uvarint(&buf, 1));
    ASSERT_LE(buf.cap, 10);
    buf_done(&buf);
}

TEST(printf_longer_than_its_stack_is_whole)
{
    struct buf buf;
    char text[2001];
    memset(text, 'x', 2000);
    text[2000] = '\0';
    buf_init(&buf, 2000);
    ASSERT_FALSE(buf_printf(&buf, "%sy", text));
    ASSERT_EQ(buf.len, 0);
    ASSERT_TRUE(buf_printf(&buf, "%s", text));
    ASSERT_BYTES(buf_bytes(&buf), bytes_of(text, 2000));
    buf_done(&buf);
}

TEST(cut_keeps_memory_and_shrink_gives_it_back)
{
    struct buf buf;
    buf_init(&buf, 100000);
    ASSERT_TRUE(buf_reserve(&buf, 5000));
    ASSERT_TRUE(buf_add_uvarint(&buf, 300));
    ASSERT_BYTES(buf_bytes(&buf), BYTES("\xac\x02"));
    size_t cap = buf.cap;
    buf_cut(&buf, 1);
    ASSERT_EQ(buf.len, 1);
    ASSERT_EQ(buf.cap, cap);
    buf_shrink(&buf, cap);
    ASSERT_EQ(buf.len, 0);
    ASSERT_EQ(buf.cap, cap);
    buf_shrink(&buf, 100);
    ASSERT_EQ(buf.cap, 0);
    ASSERT_FALSE(buf.ptr);
    ASSERT_ABORTS(buf_cut(&buf, 1));
    buf_done(&buf);
}

#ifdef TERRACE_FAULTS
TEST(without_memory_nothing_changes)
{
    struct buf buf;
    char text[1000];
    memset(text, 'x', sizeof text);
    buf_init(&buf, 100000);
    ASSERT_TRUE(buf_add_bytes(&buf, BYTES("abc")));
    for (int64_t n = 1; n <= 2; n++) {
        mem_fail_after(n);
        ASSERT_FALSE(buf_printf(&buf, "%.1000s", text));
        ASSERT_BYTES(buf_bytes(&buf), BYTES("abc"));
    }
    mem_fail_after(1);
    ASSERT_FALSE(buf_add(&buf, text, sizeof text));
    ASSERT_BYTES(buf_bytes(&buf), BYTES("abc"));
    mem_fail_after(-1);
    ASSERT_TRUE(buf_add(&buf, text, sizeof text));
    ASSERT_EQ(buf.len, 1003);
    buf_done(&buf);
}
#endif
