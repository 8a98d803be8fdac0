// SPDX-License-Identifier: Apache-2.0
#include "test.h"

#include "support/server_fix.h"

#include "base/banned.h"

TEST(replies_of_a_pipeline_are_in_order)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *conn = server_fix_conn(&fix);
    server_fix_send(conn, "SET a 1");
    server_fix_send(conn, "INCR a");
    server_fix_send(conn, "NOSUCH");
    server_fix_send(conn, "GET a");
    server_fix_turn(&fix);
    ASSERT_STR(server_fix_take(&fix, conn),
               "+OK :2 -ERR unknown command 'NOSUCH', with args beginning with:  $1 2");
    server_fix_done(&fix);
}

/* A run that finds something cold is taken back; the run after the last load is the last one. */
static void waits(struct server_fix *fix, struct conn *conn, const char *words, int times,
                  const char *reply)
{
    server_fix_cool(fix);
    uint64_t before = server_fix_undone(fix);
    ASSERT_STR(server_fix_call(fix, conn, words), reply);
    ASSERT_EQ(server_fix_undone(fix) - before, times);
}

TEST(a_cold_command_runs_once_more_than_it_waits)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *conn = server_fix_conn(&fix);
    server_fix_call(&fix, conn, "SET a 1");
    server_fix_call(&fix, conn, "SET b 2");
    server_fix_call(&fix, conn, "HSET h f 1 g 2");
    waits(&fix, conn, "GET a", 1, "$1 1");
    waits(&fix, conn, "MGET a b", 1, "*2 $1 1 $1 2");
    waits(&fix, conn, "INCR a", 1, ":2");
    waits(&fix, conn, "HGET h g", 2, "$1 2"); /* the row of the key says where its fields are */
    waits(&fix, conn, "HSET h f 3", 2, ":0");
    waits(&fix, conn, "HGETALL h", 2, "*4 $1 f $1 3 $1 g $1 2");
    server_fix_done(&fix);
}

TEST(keys_of_one_batch_are_loaded_together)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *conn = server_fix_conn(&fix);
    server_fix_call(&fix, conn, "MSET a 1 b 2 c 3");
    server_fix_cool(&fix);
    uint64_t before = server_fix_undone(&fix);
    server_fix_send(conn, "GET a");
    server_fix_send(conn, "GET b");
    server_fix_send(conn, "INCR c");
    server_fix_run(&fix);
    ASSERT_STR(server_fix_take(&fix, conn), "$1 1 $1 2 :4");
    ASSERT_EQ(server_fix_undone(&fix) - before, 1);
    server_fix_done(&fix);
}

TEST(commands_behind_a_waiting_one_run_after_it)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *conn = server_fix_conn(&fix), *other = server_fix_conn(&fix);
    server_fix_call(&fix, conn, "SET a 1");
    server_fix_cool(&fix);
    server_fix_send(conn, "PING");
    server_fix_send(conn, "GET a");
    server_fix_send(conn, "SET b 2");
    server_fix_send(conn, "GET b");
    server_fix_turn(&fix);
    ASSERT_TRUE(conn->parked != NULL);
    ASSERT_STR(server_fix_call(&fix, other, "PING"), "+PONG");
    server_fix_run(&fix);
    ASSERT_TRUE(conn->parked == NULL);
    ASSERT_STR(server_fix_take(&fix, conn), "+PONG $1 1 +OK $1 2");
    server_fix_done(&fix);
}

TEST(while_one_waits_nothing_behind_it_has_happened)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *conn = server_fix_conn(&fix), *other = server_fix_conn(&fix);
    server_fix_call(&fix, conn, "SET a 1");
    server_fix_cool(&fix);
    server_fix_send(conn, "GET a");
    server_fix_send(conn, "SET new 2");
    for (int i = 0; i < 3; i++) /* nothing is loaded */
        server_fix_turn(&fix);
    server_fix_send(other, "DBSIZE");
    server_fix_turn(&fix);
    ASSERT_STR(server_fix_take(&fix, other), ":1");
    ASSERT_STR(server_fix_take(&fix, conn), "");
    server_fix_run(&fix);
    ASSERT_STR(server_fix_take(&fix, conn), "$1 1 +OK");
    server_fix_done(&fix);
}

TEST(nothing_behind_a_quit_runs)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *conn = server_fix_conn(&fix), *other = server_fix_conn(&fix);
    server_fix_send(conn, "QUIT");
    server_fix_send(conn, "SET a 1");
    server_fix_turn(&fix);
    ASSERT_STR(server_fix_take(&fix, conn), "+OK");
    server_fix_turn(&fix);
    ASSERT_FALSE(server_fix_has(&fix, conn));
    ASSERT_STR(server_fix_call(&fix, other, "EXISTS a"), ":0");
    server_fix_done(&fix);
}

TEST(a_turn_that_cannot_be_written_turns_replies_of_reads_and_writes_into_errors)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *conn = server_fix_conn(&fix), *reader = server_fix_conn(&fix);
    server_fix_call(&fix, conn, "SET a 1");
    file_sim_arm(fix.sim, &(struct file_sim_fault){
                              .op = FILE_SIM_WRITE, .count = 1, .times = 1, .rc = RC_IO});
    server_fix_send(conn, "PING");
    server_fix_send(conn, "SET a 2");
    server_fix_send(conn, "ECHO x");
    server_fix_send(conn, "SELECT 1");
    server_fix_send(reader, "GET a");
    server_fix_turn(&fix);
    ASSERT_STR(server_fix_take(&fix, conn),
               "+PONG -ERR could not use \"db/journal/0000000000000001.seg\": simulated fault "
               "$1 x +OK");
    ASSERT_EQ(server_fix_take(&fix, reader)[0], '-'); /* it may have seen what is not there */
    ASSERT_STR(server_fix_call(&fix, reader, "GET a"), "$1 1");
    server_fix_done(&fix);
}

TEST(a_reply_over_the_limit_closes_the_connection_and_what_was_done_stays)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *conn = server_fix_conn(&fix), *other = server_fix_conn(&fix);
    server_fix_call(&fix, other, "SETRANGE a 999 x");
    fix.config.client_output_buffer_limit[CONFIG_CLIENT_NORMAL].hard_bytes = 500;
    server_fix_send(conn, "GETSET a short");
    server_fix_send(conn, "SET b 1");
    server_fix_turn(&fix);
    ASSERT_FALSE(server_fix_has(&fix, conn));
    ASSERT_EQ(fix.server->stats.output_limit_count, 1);
    ASSERT_STR(server_fix_call(&fix, other, "GET a"), "$5 short");
    ASSERT_STR(server_fix_call(&fix, other, "EXISTS b"), ":0");
    server_fix_done(&fix);
}

TEST(a_held_row_is_settled_before_another_key_and_at_the_end_of_the_batch)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *conn = server_fix_conn(&fix);
    server_fix_call(&fix, conn, "RPUSH l a");
    server_fix_call(&fix, conn, "RPUSH m a");
    server_fix_send(conn, "RPUSH l b");
    server_fix_send(conn, "RPUSH l"); /* an error of a command on the key leaves what is held */
    server_fix_send(conn, "RPUSH m b");
    server_fix_send(conn, "RPUSH m c");
    server_fix_send(conn, "RPUSH m d");
    server_fix_send(conn, "RPUSH m");
    server_fix_turn(&fix);
    ASSERT_FALSE(fix.server->kv.held.row.is);
    ASSERT_STR(server_fix_take(&fix, conn),
               ":2 -ERR wrong number of arguments for 'rpush' command "
               ":2 :3 :4 -ERR wrong number of arguments for 'rpush' command");
    ASSERT_STR(server_fix_call(&fix, conn, "LRANGE l 0 -1"), "*2 $1 a $1 b");
    ASSERT_STR(server_fix_call(&fix, conn, "LRANGE m 0 -1"), "*4 $1 a $1 b $1 c $1 d");
    server_fix_done(&fix);
}

TEST(durability_always_holds_replies_until_the_turn_is_on_disk)
{
    struct server_fix fix;
    server_fix_init_with(&fix, "durability always");
    struct conn *conn = server_fix_conn(&fix), *reader = server_fix_conn(&fix);
    server_fix_send(conn, "SET a 1");
    server_fix_send(reader, "GET a");
    server_fix_turn(&fix);
    server_fix_turn(&fix);
    ASSERT_STR(server_fix_take(&fix, conn), "");
    ASSERT_STR(server_fix_take(&fix, reader), "");
    server_fix_sync(&fix);
    server_fix_turn(&fix);
    ASSERT_STR(server_fix_take(&fix, conn), "+OK");
    ASSERT_STR(server_fix_take(&fix, reader), "$1 1");
    server_fix_done(&fix);
}
