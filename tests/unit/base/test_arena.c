// SPDX-License-Identifier: Apache-2.0
#include "base/arena.h"

#include "base/mem.h"
#include "base/rand.h"
#include "test.h"

#include "base/banned.h"

TEST(pieces_are_aligned_and_do_not_overlap)
{
    struct arena arena;
    struct rand rand;
    struct bytes piece[2000];
    arena_init(&arena);
    rand_init_seed(&rand, 4);
    for (size_t i = 0; i < ARRAY_LEN(piece); i++) {
        size_t len = rand_below(&rand, i % 50 == 0 ? 100000 : 200);
        uint8_t *ptr = arena_alloc(&arena, len);
        ASSERT_EQ((uintptr_t)ptr % 16, 0);
        memset(ptr, (int)(i % 251), len);
        piece[i] = bytes_of(ptr, len);
    }
    for (size_t i = 0; i < ARRAY_LEN(piece); i++) {
        for (size_t j = 0; j < piece[i].len; j++)
            ASSERT_EQ(piece[i].ptr[j], i % 251);
    }
    arena_done(&arena);
    ASSERT_EQ(arena.total_bytes, 0);
    arena_done(NULL);
}

TEST(a_large_piece_does_not_waste_the_room_of_the_newest_chunk)
{
    struct arena arena;
    arena_init(&arena);
    uint8_t *first = arena_alloc(&arena, 16);
    arena_alloc(&arena, 1000000);
    ASSERT_EQ((uint8_t *)arena_alloc(&arena, 16) - first, 16);
    arena_done(&arena);
}

TEST(clear_keeps_one_chunk_of_ordinary_size)
{
    struct arena arena;
    arena_init(&arena);
    arena_clear(&arena);
    ASSERT_EQ(arena.total_bytes, 0);
    for (int i = 0; i < 1000; i++)
        arena_alloc(&arena, 1000);
    arena_alloc(&arena, 5000000);
    ASSERT_GT(arena.total_bytes, 6000000);
    arena_clear(&arena);
    ASSERT_GT(arena.total_bytes, 0);
    ASSERT_LE(arena.total_bytes, 65536);
    size_t kept = arena.total_bytes;
    arena_alloc(&arena, 1000);
    ASSERT_EQ(arena.total_bytes, kept);
    arena_done(&arena);

    arena_alloc(&arena, 5000000); /* the only chunk is a large one */
    arena_clear(&arena);
    ASSERT_EQ(arena.total_bytes, 0);
    arena_done(&arena);
}

TEST(copies_are_equal_and_elsewhere)
{
    struct arena arena;
    arena_init(&arena);
    struct bytes text = BYTES("a\0b");
    struct bytes copy = arena_copy(&arena, text);
    ASSERT_BYTES(copy, text);
    ASSERT_NE(copy.ptr, text.ptr);
    ASSERT_EQ(arena_copy(&arena, BYTES("")).len, 0);
    arena_done(&arena);
}

TEST(hostile_sizes_fail_or_stop_the_process)
{
    struct arena arena;
    arena_init(&arena);
    ASSERT_FALSE(arena_try_alloc(&arena, SIZE_MAX));
    ASSERT_FALSE(arena_try_alloc(&arena, PTRDIFF_MAX));
    ASSERT_ABORTS(arena_alloc_array(&arena, SIZE_MAX / 2, 3));
    arena_done(&arena);
}

#ifdef TERRACE_FAULTS
TEST(a_failed_try_leaves_the_arena_usable)
{
    struct arena arena;
    arena_init(&arena);
    mem_fail_after(1);
    ASSERT_FALSE(arena_try_alloc(&arena, 10));
    ASSERT_EQ(arena.total_bytes, 0);
    ASSERT_TRUE(arena_try_alloc(&arena, 10));
    mem_fail_after(1);
    ASSERT_FALSE(arena_try_alloc(&arena, 100000));
    ASSERT_TRUE(arena_try_alloc(&arena, 10));
    mem_fail_after(-1);
    arena_done(&arena);
}
#endif
