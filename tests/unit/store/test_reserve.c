// SPDX-License-Identifier: Apache-2.0
#include "store/journal/reserve.h"

#include "base/file_sim.h"
#include "test.h"

#include "base/banned.h"

enum { MIB = 1024 * 1024 };

static struct file_sim *disk_new(uint64_t bytes)
{
    struct file_sim *sim = file_sim_new();
    ASSERT_RC(files_make_dir(file_sim_files(sim), "d", NULL), RC_OK);
    file_sim_space(sim, bytes);
    return sim;
}

static struct reserve *open_of(struct file_sim *sim, uint64_t bytes)
{
    return reserve_open(&(struct reserve_options){file_sim_files(sim), "d", bytes});
}

static uint64_t free_of(struct file_sim *sim)
{
    uint64_t bytes = 0;
    ASSERT_RC(files_free_bytes(file_sim_files(sim), "d", &bytes, NULL), RC_OK);
    return bytes;
}

TEST(a_reserve_is_at_most_an_eighth_of_the_disk)
{
    struct file_sim *sim = disk_new(80 * MIB);
    struct reserve *reserve = open_of(sim, 64 * MIB);
    ASSERT_EQ(reserve_size(reserve), 10 * MIB);
    ASSERT_TRUE(reserve_is_whole(reserve));
    ASSERT_EQ(free_of(sim), 70 * MIB);
    reserve_close(reserve);
    file_sim_free(sim);
}

TEST(what_is_taken_is_free_and_comes_back_only_with_room_on_top)
{
    struct file_sim *sim = disk_new(80 * MIB);
    struct reserve *reserve = open_of(sim, 8 * MIB);
    ASSERT_EQ(reserve_take(reserve, 3 * MIB, 4 * MIB), 3 * MIB);
    ASSERT_EQ(reserve_take(reserve, 3 * MIB, 4 * MIB), 1 * MIB);
    ASSERT_EQ(reserve_take(reserve, 3 * MIB, 4 * MIB), 0);
    ASSERT_EQ(free_of(sim), 76 * MIB);
    file_sim_space(sim, 7 * MIB); /* it misses 4, and wants 4 on top */
    ASSERT_FALSE(reserve_fill(reserve));
    file_sim_space(sim, 8 * MIB);
    ASSERT_TRUE(reserve_fill(reserve));
    ASSERT_EQ(free_of(sim), 4 * MIB);
    reserve_close(reserve);
    file_sim_free(sim);
}

TEST(a_start_finds_what_was_left)
{
    struct file_sim *sim = disk_new(80 * MIB);
    struct reserve *reserve = open_of(sim, 8 * MIB);
    ASSERT_EQ(reserve_take(reserve, 5 * MIB, 0), 5 * MIB);
    reserve_close(reserve);
    reserve = open_of(sim, 0); /* switched off */
    ASSERT_EQ(reserve_bytes(reserve), 0);
    ASSERT_TRUE(reserve_is_whole(reserve));
    reserve_close(reserve);
    file_sim_free(sim);
}

TEST(what_was_given_and_is_free_at_the_end_is_held_again)
{
    struct file_sim *sim = disk_new(80 * MIB);
    struct reserve *reserve = open_of(sim, 8 * MIB);
    ASSERT_EQ(reserve_take(reserve, 6 * MIB, 0), 6 * MIB);
    ASSERT_EQ(free_of(sim), 78 * MIB);
    reserve_close(reserve);
    ASSERT_EQ(free_of(sim), 72 * MIB);
    file_sim_free(sim);
}

TEST(a_disk_that_is_full_from_the_start_has_a_reserve_later)
{
    struct file_sim *sim = disk_new(80 * MIB);
    struct file_sim_fault full = {.op = FILE_SIM_OPEN, .count = 2, .times = 1, .rc = RC_FULL};
    file_sim_arm(sim, &full); /* no room for its name */
    struct reserve *reserve = open_of(sim, 8 * MIB);
    ASSERT_FALSE(reserve_is_whole(reserve));
    ASSERT_EQ(reserve_bytes(reserve), 0);
    ASSERT_TRUE(reserve_fill(reserve));
    ASSERT_EQ(reserve_bytes(reserve), 8 * MIB);
    reserve_close(reserve);
    file_sim_free(sim);
}

/* Otherwise a file that cannot be had would refuse every write, as a full disk does. */
TEST(a_store_goes_on_without_a_reserve_that_cannot_be_made)
{
    const enum file_sim_op op[] = {FILE_SIM_OPEN, FILE_SIM_ALLOCATE, FILE_SIM_TRUNCATE,
                                   FILE_SIM_SYNC};
    for (size_t i = 0; i < sizeof op / sizeof *op; i++) {
        struct file_sim *sim = disk_new(80 * MIB);
        struct file_sim_fault fault = {.op = op[i], .count = 1, .times = -1, .rc = RC_IO};
        file_sim_arm(sim, &fault);
        struct reserve *reserve = open_of(sim, 8 * MIB);
        ASSERT_EQ(reserve_bytes(reserve), 0);
        ASSERT_TRUE(reserve_is_whole(reserve));
        ASSERT_TRUE(reserve_fill(reserve));
        reserve_return(reserve);
        reserve_untake(reserve, 8 * MIB);
        ASSERT_EQ(reserve_take(reserve, MIB, 0), 0);
        reserve_close(reserve);
        file_sim_arm(sim, &(struct file_sim_fault){.op = op[i]});
        reserve = open_of(sim, 8 * MIB); /* the next start tries again */
        ASSERT_EQ(reserve_bytes(reserve), 8 * MIB);
        reserve_close(reserve);
        file_sim_free(sim);
    }
}

TEST(what_was_taken_comes_back_a_part_at_a_time)
{
    struct file_sim *sim = disk_new(80 * MIB);
    struct reserve *reserve = open_of(sim, 8 * MIB);
    uint64_t all = reserve_take(reserve, UINT64_MAX, 0);
    ASSERT_EQ(all, 8 * MIB);
    reserve_untake(reserve, 2 * MIB);
    ASSERT_EQ(reserve_bytes(reserve), 2 * MIB);
    ASSERT_FALSE(reserve_is_whole(reserve));
    ASSERT_TRUE(reserve_fill(reserve));
    reserve_close(reserve);
    ASSERT_TRUE(reserve_is_whole(NULL));
    ASSERT_EQ(reserve_take(NULL, 1, 0), 0);
    file_sim_free(sim);
}

/* Writers would be let in with a piece of free disk, and be refused by the next one. */
TEST(what_is_returned_does_not_make_a_reserve_whole_without_room_on_top)
{
    struct file_sim *sim = disk_new(80 * MIB);
    struct reserve *reserve = open_of(sim, 8 * MIB);
    ASSERT_EQ(reserve_take(reserve, 3 * MIB, 0), 3 * MIB);
    file_sim_space(sim, 6 * MIB);
    reserve_return(reserve);
    ASSERT_EQ(reserve_bytes(reserve), 8 * MIB - RESERVE_PIECE_BYTES);
    ASSERT_FALSE(reserve_is_whole(reserve));
    file_sim_space(sim, 8 * MIB);
    ASSERT_TRUE(reserve_fill(reserve));
    reserve_close(reserve);
    file_sim_free(sim);
}

TEST(what_a_start_has_taken_makes_a_reserve_whole_again)
{
    struct file_sim *sim = disk_new(80 * MIB);
    struct reserve *reserve = open_of(sim, 8 * MIB);
    file_sim_space(sim, 1 * MIB);
    ASSERT_EQ(reserve_take(reserve, 3 * MIB, 0), 3 * MIB);
    reserve_untake(reserve, 3 * MIB);
    ASSERT_TRUE(reserve_is_whole(reserve));
    ASSERT_EQ(free_of(sim), 1 * MIB);
    reserve_close(reserve);
    file_sim_free(sim);
}

TEST(a_reserve_is_written_where_the_file_system_allocates_nothing_ahead)
{
    struct file_sim *sim = disk_new(80 * MIB);
    struct file_sim_fault none = {
        .op = FILE_SIM_ALLOCATE, .count = 1, .times = -1, .rc = RC_INVALID};
    file_sim_arm(sim, &none);
    struct reserve *reserve = open_of(sim, 8 * MIB);
    ASSERT_TRUE(reserve_is_whole(reserve));
    ASSERT_EQ(reserve_bytes(reserve), 8 * MIB);
    ASSERT_EQ(free_of(sim), 72 * MIB);
    ASSERT_EQ(reserve_take(reserve, 3 * MIB, 0), 3 * MIB);
    ASSERT_EQ(free_of(sim), 75 * MIB);
    ASSERT_TRUE(reserve_fill(reserve));
    ASSERT_EQ(free_of(sim), 72 * MIB);
    reserve_close(reserve);
    file_sim_free(sim);
}
