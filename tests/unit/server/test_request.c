// SPDX-License-Identifier: Apache-2.0
#include "test.h"

#include <stdio.h>

#include "support/server_fix.h"

#include "base/banned.h"

/* ---- loads ---- */

TEST(a_failed_load_is_the_error_of_the_command_that_waits)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *conn = server_fix_conn(&fix);
    server_fix_call(&fix, conn, "SET a 1");
    server_fix_cool(&fix);
    engine_memory_arm(fix.memory, ENGINE_MEMORY_GET, 1, 1, RC_IO);
    ASSERT_EQ(server_fix_call(&fix, conn, "GET a")[0], '-');
    ASSERT_STR(server_fix_call(&fix, conn, "GET a"), "$1 1");
    server_fix_done(&fix);
}

TEST(a_failed_load_of_a_key_ahead_is_not_the_error_of_the_command_that_waits)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *conn = server_fix_conn(&fix);
    server_fix_call(&fix, conn, "MSET a 1 b 2");
    server_fix_cool(&fix);
    engine_memory_arm(fix.memory, ENGINE_MEMORY_GET, 2, 1, RC_IO);
    server_fix_send(conn, "GET a");
    server_fix_send(conn, "GET b");
    server_fix_run(&fix);
    ASSERT_STR(server_fix_take(&fix, conn), "$1 1 $1 2");
    server_fix_done(&fix);
}

TEST(a_load_that_goes_on_failing_is_the_error_of_each_command_and_of_no_other)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *conn = server_fix_conn(&fix);
    server_fix_call(&fix, conn, "MSET a 1 b 2");
    server_fix_cool(&fix);
    engine_memory_arm(fix.memory, ENGINE_MEMORY_GET, 1, -1, RC_IO);
    server_fix_send(conn, "GET a");
    server_fix_send(conn, "PING");
    server_fix_send(conn, "GET b");
    server_fix_run(&fix);
    const char *text = server_fix_take(&fix, conn), *pong = strstr(text, " +PONG -");
    ASSERT_EQ(text[0], '-');
    ASSERT_TRUE(pong != NULL);
    ASSERT_EQ(fix.server->stats.error_count, 2);
    engine_memory_arm(fix.memory, ENGINE_MEMORY_GET, 0, 0, RC_OK);
    server_fix_done(&fix);
}

/* A command that waits is counted by the run that ends it. */
TEST(a_command_that_waited_is_one_call_and_one_hit)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *conn = server_fix_conn(&fix);
    server_fix_call(&fix, conn, "SET a 1");
    server_fix_cool(&fix);
    uint64_t commands = fix.server->stats.command_count;
    ASSERT_STR(server_fix_call(&fix, conn, "GET a"), "$1 1");
    ASSERT_EQ(fix.server->stats.command_count - commands, 1);
    ASSERT_EQ(fix.server->kv.counts.hit_count, 1);
    ASSERT_EQ(fix.server->kv.counts.miss_count, 0);
    server_fix_done(&fix);
}

TEST(a_read_of_a_key_of_another_type_is_a_hit_as_in_redis)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *conn = server_fix_conn(&fix);
    server_fix_call(&fix, conn, "RPUSH l x");
    ASSERT_EQ(server_fix_call(&fix, conn, "GET l")[0], '-');
    ASSERT_EQ(fix.server->kv.counts.hit_count, 1);
    server_fix_cool(&fix);
    ASSERT_EQ(server_fix_call(&fix, conn, "GET l")[0], '-');
    ASSERT_EQ(fix.server->kv.counts.hit_count, 2);
    ASSERT_EQ(fix.server->kv.counts.miss_count, 0);
    server_fix_done(&fix);
}

/* ---- blocking ---- */

TEST(blocked_clients_are_served_in_the_order_in_which_they_came)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *first = server_fix_conn(&fix), *second = server_fix_conn(&fix);
    struct conn *pusher = server_fix_conn(&fix);
    ASSERT_STR(server_fix_call(&fix, first, "BLPOP l 0"), "");
    ASSERT_STR(server_fix_call(&fix, second, "BLPOP l 0"), "");
    ASSERT_STR(server_fix_call(&fix, pusher, "RPUSH l x"), ":1");
    ASSERT_STR(server_fix_take(&fix, first), "*2 $1 l $1 x");
    ASSERT_STR(server_fix_take(&fix, second), "");
    ASSERT_STR(server_fix_call(&fix, pusher, "RPUSH l y z"), ":2");
    ASSERT_STR(server_fix_take(&fix, second), "*2 $1 l $1 y");
    ASSERT_STR(server_fix_call(&fix, pusher, "LRANGE l 0 -1"), "*1 $1 z");
    server_fix_done(&fix);
}

TEST(a_blocked_client_is_served_before_the_next_command_of_the_batch)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *popper = server_fix_conn(&fix), *pusher = server_fix_conn(&fix);
    ASSERT_STR(server_fix_call(&fix, popper, "BLPOP l 0"), "");
    server_fix_send(pusher, "RPUSH l x");
    server_fix_send(pusher, "LLEN l");
    server_fix_turn(&fix);
    ASSERT_STR(server_fix_take(&fix, pusher), ":1 :0");
    ASSERT_STR(server_fix_take(&fix, popper), "*2 $1 l $1 x");
    server_fix_done(&fix);
}

TEST(a_blocked_client_gives_up_at_its_time_and_not_before)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *conn = server_fix_conn(&fix);
    ASSERT_STR(server_fix_call(&fix, conn, "BLPOP l 0.5"), "");
    clock_advance_ms(&fix.clock, 499);
    server_fix_run(&fix);
    ASSERT_STR(server_fix_take(&fix, conn), "");
    clock_advance_ms(&fix.clock, 1);
    server_fix_run(&fix);
    ASSERT_STR(server_fix_take(&fix, conn), "*-1");
    ASSERT_EQ(fix.server->block_count, 0);
    server_fix_done(&fix);
}

TEST(the_command_of_a_connection_that_goes_is_cancelled)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *conn = server_fix_conn(&fix), *other = server_fix_conn(&fix);
    size_t tasks = tasks_count(fix.server->tasks);
    ASSERT_STR(server_fix_call(&fix, conn, "BLPOP l 0"), "");
    ASSERT_EQ(tasks_count(fix.server->tasks), tasks + 1);
    server_fix_hang_up(conn);
    server_fix_turn(&fix);
    ASSERT_FALSE(server_fix_has(&fix, conn));
    ASSERT_EQ(tasks_count(fix.server->tasks), tasks);
    ASSERT_EQ(fix.server->block_count, 0);
    ASSERT_STR(server_fix_call(&fix, other, "RPUSH l x"), ":1");
    ASSERT_STR(server_fix_call(&fix, other, "LLEN l"), ":1");
    server_fix_done(&fix);
}

TEST(a_command_that_loads_goes_with_its_connection)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *conn = server_fix_conn(&fix), *other = server_fix_conn(&fix);
    server_fix_call(&fix, conn, "SET a 1");
    server_fix_cool(&fix);
    server_fix_send(conn, "INCR a");
    server_fix_turn(&fix);
    server_fix_hang_up(conn);
    server_fix_turn(&fix);
    ASSERT_FALSE(server_fix_has(&fix, conn));
    ASSERT_STR(server_fix_call(&fix, other, "GET a"), "$1 1");
    server_fix_done(&fix);
}

TEST(client_unblock_ends_the_waiting_with_a_timeout_or_an_error)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *conn = server_fix_conn(&fix), *other = server_fix_conn(&fix);
    char words[64];
    ASSERT_STR(server_fix_call(&fix, conn, "BLPOP l 0"), "");
    snprintf(words, sizeof words, "CLIENT UNBLOCK %d", (int)conn->id);
    ASSERT_STR(server_fix_call(&fix, other, words), ":1");
    ASSERT_STR(server_fix_take(&fix, conn), "*-1");
    ASSERT_STR(server_fix_call(&fix, other, words), ":0");
    ASSERT_STR(server_fix_call(&fix, conn, "BLPOP l 0"), "");
    snprintf(words, sizeof words, "CLIENT UNBLOCK %d ERROR", (int)conn->id);
    ASSERT_STR(server_fix_call(&fix, other, words), ":1");
    ASSERT_STR(server_fix_take(&fix, conn), "-UNBLOCKED client unblocked via CLIENT UNBLOCK");
    server_fix_done(&fix);
}

/* ---- a pause ---- */

TEST(a_pause_holds_commands_until_its_time_is_over)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *conn = server_fix_conn(&fix), *other = server_fix_conn(&fix);
    ASSERT_STR(server_fix_call(&fix, other, "CLIENT PAUSE 1000"), "+OK");
    ASSERT_STR(server_fix_call(&fix, conn, "SET a 1"), "");
    clock_advance_ms(&fix.clock, 999);
    server_fix_run(&fix);
    ASSERT_STR(server_fix_take(&fix, conn), "");
    ASSERT_EQ(ns_key_count(kv_ns(&fix.server->kv, 0)), 0);
    clock_advance_ms(&fix.clock, 1);
    server_fix_turn(&fix); /* sees the time */
    server_fix_run(&fix);
    ASSERT_STR(server_fix_take(&fix, conn), "+OK");
    server_fix_done(&fix);
}

TEST(a_pause_of_writes_lets_reads_through_and_ends_at_once_when_told)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *conn = server_fix_conn(&fix), *other = server_fix_conn(&fix);
    ASSERT_STR(server_fix_call(&fix, other, "CLIENT PAUSE 1000 WRITE"), "+OK");
    ASSERT_STR(server_fix_call(&fix, conn, "GET a"), "$-1");
    ASSERT_STR(server_fix_call(&fix, conn, "SET a 1"), "");
    ASSERT_STR(server_fix_call(&fix, other, "CLIENT UNPAUSE"), "+OK");
    ASSERT_STR(server_fix_take(&fix, conn), "+OK");
    server_fix_done(&fix);
}

/* ---- a run that becomes a request ---- */

TEST(a_run_that_becomes_a_request_is_taken_back_and_counts_nothing)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *conn = server_fix_conn(&fix);
    fix.server->kv.build_rows_min = 2; /* slices of two elements */
    ASSERT_STR(server_fix_call(&fix, conn, "RPUSH l a b c d e"), ":5");
    uint64_t undone = server_fix_undone(&fix), commands = fix.server->stats.command_count;
    ASSERT_STR(server_fix_call(&fix, conn, "LRANGE l 0 -1"), "*5 $1 a $1 b $1 c $1 d $1 e");
    ASSERT_EQ(fix.server->stats.long_slice_count, 2);
    ASSERT_EQ(server_fix_undone(&fix) - undone, 1);
    ASSERT_EQ(fix.server->stats.command_count - commands, 1);
    ASSERT_EQ(fix.server->kv.counts.hit_count, 1);
    server_fix_done(&fix);
}

/* A reply that begins again must not go on where the one before it stood: its first slice may find
 * nothing in memory, and then keeps its place, which is the beginning. */
TEST(a_reply_that_begins_again_and_finds_its_first_row_cold_is_whole)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *conn = server_fix_conn(&fix), *other = server_fix_conn(&fix);
    fix.server->kv.build_rows_min = 2; /* slices of two elements */
    ASSERT_STR(server_fix_call(&fix, other, "ZADD z 1 a 2 b 3 c 4 d 5 e"), ":5");
    server_fix_send(conn, "ZUNION 1 z");
    while (fix.server->stats.long_slice_count < 2)
        server_fix_turn(&fix);
    server_fix_send(other, "ZADD z 6 f");
    server_fix_turn(&fix);
    ASSERT_STR(server_fix_take(&fix, other), ":1");
    ASSERT_STR(server_fix_take(&fix, conn), "");
    server_fix_cool(&fix);
    server_fix_run(&fix);
    ASSERT_STR(server_fix_take(&fix, conn), "*6 $1 a $1 b $1 c $1 d $1 e $1 f");
    ASSERT_EQ(fix.server->stats.long_again_count, 1);
    server_fix_done(&fix);
}
