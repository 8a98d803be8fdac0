// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

#include "test.h"

#ifdef TERRACE_JEMALLOC
#include <jemalloc/jemalloc.h>
#endif

#include "base/banned.h"

TEST(nothing_is_a_pointer_that_can_be_freed)
{
    void *ptr = mem_alloc(0);
    ASSERT_TRUE(ptr);
    ptr = mem_realloc(ptr, 0);
    ASSERT_TRUE(ptr);
    mem_free(ptr);
    ptr = mem_zalloc(0);
    ASSERT_TRUE(ptr);
    mem_free(ptr);
    ptr = mem_dup(NULL, 0);
    ASSERT_TRUE(ptr);
    mem_free(ptr);
    ptr = mem_try_alloc(0);
    ASSERT_TRUE(ptr);
    mem_free(ptr);
    mem_free(NULL);
}

TEST(zeroed_and_copied_memory_holds_what_it_should)
{
    uint8_t *zero = mem_zalloc(1000);
    for (int i = 0; i < 1000; i++)
        ASSERT_EQ(zero[i], 0);
    char *copy = mem_dup("hello", 6);
    ASSERT_STR(copy, "hello");
    mem_free(zero);
    mem_free(copy);
}

TEST(aligned_memory_is_aligned)
{
    for (int i = 0; i < 50; i++) {
        void *ptr = mem_alloc_aligned(64, 64);
        ASSERT_EQ((uintptr_t)ptr % 64, 0);
        mem_free(ptr);
    }
}

TEST(a_hostile_size_fails_and_leaves_the_old_block)
{
    ASSERT_FALSE(mem_try_alloc(SIZE_MAX));
    char *ptr = mem_dup("x", 2);
    ASSERT_FALSE(mem_try_realloc(ptr, SIZE_MAX - 4096));
    ASSERT_STR(ptr, "x");
    mem_free(ptr);
}

TEST(size_classes_are_four_to_a_doubling)
{
    const size_t expected[] = {8,   16,  32,  48,  64,  80,  96,  112, 128, 160,
                               192, 224, 256, 320, 384, 448, 512, 640, 768};
    size_t bytes = 0;
    for (size_t i = 0; i < ARRAY_LEN(expected); i++) {
        for (; bytes <= expected[i]; bytes++)
            ASSERT_EQ(mem_class_bytes(bytes), expected[i]);
    }
    ASSERT_EQ(mem_class_bytes(32768), 32768);
    ASSERT_EQ(mem_class_bytes(32769), 40960);
    ASSERT_EQ(mem_class_bytes(SIZE_MAX), SIZE_MAX);
}

#ifdef TERRACE_JEMALLOC
TEST(size_classes_are_those_of_jemalloc)
{
    for (size_t bytes = 1; bytes < 100000; bytes++)
        ASSERT_EQ(mem_class_bytes(bytes), nallocx(bytes, 0));
    for (size_t bytes = 100000; bytes < (size_t)1 << 40; bytes += bytes / 37) {
        ASSERT_EQ(mem_class_bytes(bytes), nallocx(bytes, 0));
        ASSERT_EQ(mem_class_bytes(mem_class_bytes(bytes)), nallocx(nallocx(bytes, 0), 0));
        ASSERT_EQ(mem_class_bytes(mem_class_bytes(bytes) + 1), nallocx(nallocx(bytes, 0) + 1, 0));
    }
}
#endif

TEST(resident_bytes_grow_when_memory_is_touched)
{
    enum { BYTES_MORE = 32 * 1024 * 1024 };
    size_t before = mem_resident_bytes();
    ASSERT_GT(before, 0);
    char *ptr = mem_alloc(BYTES_MORE);
    memset(ptr, 1, BYTES_MORE);
    ASSERT_GE(mem_resident_bytes(), before + BYTES_MORE / 2);
    ASSERT_LE(mem_anonymous_bytes(), mem_resident_bytes());
    ASSERT_GE(mem_anonymous_bytes(), BYTES_MORE / 2);
    mem_free(ptr);
    mem_trim();
}

#ifdef TERRACE_FAULTS
TEST(the_nth_try_fails_and_only_that_one)
{
    mem_fail_after(3);
    int64_t count = mem_try_count();
    for (int i = 1; i <= 5; i++) {
        void *ptr = i % 2 ? mem_try_alloc(10) : mem_try_realloc(NULL, 10);
        ASSERT_EQ(ptr == NULL, i == 3);
        mem_free(ptr);
    }
    ASSERT_EQ(mem_try_count(), count + 5);
    mem_fail_after(1);
    mem_free(mem_alloc(10)); /* not a try: neither fails nor counts */
    mem_fail_after(-1);
    void *ptr = mem_try_alloc(10);
    ASSERT_TRUE(ptr);
    mem_free(ptr);
}
#endif
