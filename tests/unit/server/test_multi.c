// SPDX-License-Identifier: Apache-2.0
#include "test.h"

#include "support/server_fix.h"

#include "base/banned.h"

/* Sends MULTI and the commands, and takes what is answered. NULL ends the list. */
static void queue(struct server_fix *fix, struct conn *conn, const char *const *words)
{
    ASSERT_STR(server_fix_call(fix, conn, "MULTI"), "+OK");
    for (; *words; words++)
        ASSERT_STR(server_fix_call(fix, conn, *words), "+QUEUED");
}
#define QUEUE(fix, conn, ...) queue(fix, conn, (const char *const[]){__VA_ARGS__, NULL})

/* ---- flags ---- */

static unsigned exec_flags(struct server_fix *fix, struct conn *conn, const char *const *words)
{
    const struct cmd *exec = cmd_find_name(fix->server->cmds, BYTES("EXEC"));
    queue(fix, conn, words);
    unsigned flags = server__call_flags(conn, exec) & (CMD_READ | CMD_WRITE | CMD_DELETES);
    ASSERT_STR(server_fix_call(fix, conn, "DISCARD"), "+OK");
    return flags;
}
#define EXEC_FLAGS(...) exec_flags(&fix, conn, (const char *const[]){__VA_ARGS__, NULL})

TEST(exec_is_as_heavy_as_its_queue)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *conn = server_fix_conn(&fix);
    ASSERT_EQ(EXEC_FLAGS("GET a") & (CMD_READ | CMD_WRITE), CMD_READ);
    ASSERT_EQ(EXEC_FLAGS("SET a 1"), CMD_WRITE);
    ASSERT_EQ(EXEC_FLAGS("DEL a"), CMD_WRITE | CMD_DELETES);
    ASSERT_EQ(EXEC_FLAGS("DEL a", "GET b"), CMD_READ | CMD_WRITE | CMD_DELETES);
    ASSERT_EQ(EXEC_FLAGS("DEL a", "SET b 1", "DEL b"), CMD_WRITE); /* one that needs room */
    ASSERT_EQ(EXEC_FLAGS("PING") & (CMD_READ | CMD_WRITE), 0);
    server_fix_done(&fix);
}

TEST(other_commands_have_their_own_flags_inside_a_multi)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *conn = server_fix_conn(&fix);
    const struct cmd *get = cmd_find_name(fix.server->cmds, BYTES("GET"));
    QUEUE(&fix, conn, "SET a 1");
    ASSERT_EQ(server__call_flags(conn, get), get->flags);
    server_fix_done(&fix);
}

TEST(a_pause_of_writes_holds_an_exec_that_writes_and_no_other)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *reader = server_fix_conn(&fix), *writer = server_fix_conn(&fix);
    struct conn *other = server_fix_conn(&fix);
    QUEUE(&fix, reader, "GET a");
    QUEUE(&fix, writer, "SET a 1");
    ASSERT_STR(server_fix_call(&fix, other, "CLIENT PAUSE 1000 WRITE"), "+OK");
    ASSERT_STR(server_fix_call(&fix, reader, "EXEC"), "*1 $-1");
    ASSERT_STR(server_fix_call(&fix, writer, "EXEC"), "");
    ASSERT_STR(server_fix_call(&fix, other, "CLIENT UNPAUSE"), "+OK");
    ASSERT_STR(server_fix_take(&fix, writer), "*1 +OK");
    server_fix_done(&fix);
}

/* ---- running ---- */

TEST(an_error_of_one_command_leaves_the_others)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *conn = server_fix_conn(&fix);
    server_fix_call(&fix, conn, "SET a x");
    QUEUE(&fix, conn, "SET b 1", "INCR a", "LPUSH a 1", "INCR b");
    ASSERT_STR(server_fix_call(&fix, conn, "EXEC"),
               "*4 +OK -ERR value is not an integer or out of range "
               "-WRONGTYPE Operation against a key holding the wrong kind of value :2");
    ASSERT_EQ(fix.server->stats.error_count, 2);
    server_fix_done(&fix);
}

TEST(a_cold_row_takes_the_whole_exec_back_once)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *conn = server_fix_conn(&fix), *other = server_fix_conn(&fix);
    server_fix_call(&fix, conn, "MSET a 1 b 1 c 1");
    server_fix_cool(&fix);
    server_fix_call(&fix, conn, "SET hot 1");
    QUEUE(&fix, conn, "INCR hot", "INCR a", "INCR b", "INCR c");
    uint64_t undone = server_fix_undone(&fix), commands = fix.server->stats.command_count;
    server_fix_send(conn, "EXEC");
    server_fix_turn(&fix);
    server_fix_send(other, "GET hot"); /* the load has not ended */
    server_fix_turn(&fix);
    ASSERT_STR(server_fix_take(&fix, other), "$1 1");
    server_fix_run(&fix);
    ASSERT_STR(server_fix_take(&fix, conn), "*4 :2 :2 :2 :2");
    ASSERT_EQ(server_fix_undone(&fix) - undone, 1);
    ASSERT_EQ(fix.server->stats.command_count - commands, 2); /* EXEC and GET */
    server_fix_done(&fix);
}

TEST(an_exec_is_written_as_a_whole_or_not)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *conn = server_fix_conn(&fix);
    QUEUE(&fix, conn, "SET a 1", "SET b 1");
    file_sim_arm(fix.sim, &(struct file_sim_fault){
                              .op = FILE_SIM_WRITE, .count = 1, .times = 1, .rc = RC_IO});
    ASSERT_EQ(server_fix_call(&fix, conn, "EXEC")[0], '-');
    ASSERT_STR(server_fix_call(&fix, conn, "EXISTS a b"), ":0");
    ASSERT_STR(server_fix_call(&fix, conn, "EXEC"), "-ERR EXEC without MULTI");
    server_fix_done(&fix);
}

TEST(a_failed_load_ends_the_multi)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *conn = server_fix_conn(&fix);
    server_fix_call(&fix, conn, "SET a 1");
    server_fix_cool(&fix);
    QUEUE(&fix, conn, "INCR a");
    engine_memory_arm(fix.memory, ENGINE_MEMORY_GET, 1, 1, RC_IO);
    ASSERT_EQ(server_fix_call(&fix, conn, "EXEC")[0], '-');
    ASSERT_FALSE(conn->multi.open);
    ASSERT_STR(server_fix_call(&fix, conn, "GET a"), "$1 1");
    server_fix_done(&fix);
}

TEST(what_cannot_be_taken_back_runs_last_and_is_answered_at_its_place)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *conn = server_fix_conn(&fix);
    server_fix_call(&fix, conn, "SET a 1");
    server_fix_cool(&fix);
    fix.config.slowlog_max_len = 128;
    QUEUE(&fix, conn, "SET b 1", "CONFIG SET slowlog-max-len 5", "INCR a",
          "CONFIG GET slowlog-max-len");
    server_fix_send(conn, "EXEC");
    server_fix_turn(&fix); /* taken back: something is cold */
    ASSERT_TRUE(conn->parked != NULL);
    ASSERT_EQ(fix.config.slowlog_max_len, 128);
    server_fix_run(&fix);
    ASSERT_EQ(fix.config.slowlog_max_len, 5);
    const char *text = server_fix_take(&fix, conn), *end = " +OK :2 *2 $15 slowlog-max-len ";
    ASSERT_TRUE(strncmp(text, "*4 +OK", 6) == 0);
    ASSERT_TRUE(strncmp(text + 6, end, strlen(end)) == 0);
    server_fix_done(&fix);
}

TEST(select_inside_an_exec_that_is_taken_back_is_taken_back)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *conn = server_fix_conn(&fix);
    server_fix_call(&fix, conn, "SELECT 1");
    server_fix_call(&fix, conn, "SET a 1");
    server_fix_call(&fix, conn, "SELECT 0");
    server_fix_cool(&fix);
    QUEUE(&fix, conn, "SELECT 1", "INCR a");
    server_fix_send(conn, "EXEC");
    server_fix_turn(&fix);
    ASSERT_TRUE(conn->parked != NULL);
    ASSERT_EQ(conn->ns->index, 0);
    server_fix_run(&fix);
    ASSERT_STR(server_fix_take(&fix, conn), "*2 +OK :2");
    ASSERT_EQ(conn->ns->index, 1);
    server_fix_done(&fix);
}

TEST(a_command_that_could_not_be_queued_aborts_the_exec)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *conn = server_fix_conn(&fix);
    QUEUE(&fix, conn, "SET a 1");
    ASSERT_EQ(server_fix_call(&fix, conn, "GET")[0], '-');
    ASSERT_STR(server_fix_call(&fix, conn, "EXEC"),
               "-EXECABORT Transaction discarded because of previous errors.");
    ASSERT_STR(server_fix_call(&fix, conn, "EXISTS a"), ":0");
    server_fix_done(&fix);
}

TEST(a_blocking_command_in_an_exec_does_not_wait)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *conn = server_fix_conn(&fix);
    QUEUE(&fix, conn, "BLPOP l 0", "SET a 1");
    ASSERT_STR(server_fix_call(&fix, conn, "EXEC"), "*2 *-1 +OK");
    server_fix_done(&fix);
}

/* ---- WATCH ---- */

TEST(an_exec_does_not_run_when_a_watched_key_has_changed)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *conn = server_fix_conn(&fix), *other = server_fix_conn(&fix);
    ASSERT_STR(server_fix_call(&fix, conn, "WATCH a"), "+OK");
    QUEUE(&fix, conn, "SET b 1");
    server_fix_call(&fix, other, "SET a 1");
    ASSERT_STR(server_fix_call(&fix, conn, "EXEC"), "*-1");
    ASSERT_EQ(fix.server->watch_count, 0);
    QUEUE(&fix, conn, "SET b 1"); /* the next one watches nothing */
    server_fix_call(&fix, other, "SET a 2");
    ASSERT_STR(server_fix_call(&fix, conn, "EXEC"), "*1 +OK");
    server_fix_done(&fix);
}

TEST(a_change_that_was_taken_back_does_not_stop_an_exec)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *conn = server_fix_conn(&fix), *other = server_fix_conn(&fix);
    server_fix_call(&fix, other, "SET cold 1");
    server_fix_cool(&fix);
    server_fix_call(&fix, other, "SET a 1");
    QUEUE(&fix, other, "INCR a", "INCR cold");
    ASSERT_STR(server_fix_call(&fix, conn, "WATCH a"), "+OK");
    QUEUE(&fix, conn, "GET a");
    server_fix_send(other, "EXEC");
    server_fix_turn(&fix);
    server_fix_hang_up(other); /* its EXEC has changed the key, was taken back, and never ends */
    server_fix_turn(&fix);
    ASSERT_STR(server_fix_call(&fix, conn, "EXEC"), "*1 $1 1");
    server_fix_done(&fix);
}

TEST(a_watched_key_whose_time_is_over_has_changed)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *conn = server_fix_conn(&fix);
    server_fix_call(&fix, conn, "SET a 1 PX 10");
    ASSERT_STR(server_fix_call(&fix, conn, "WATCH a"), "+OK");
    QUEUE(&fix, conn, "SET b 1");
    clock_advance_ms(&fix.clock, 20);
    ASSERT_STR(server_fix_call(&fix, conn, "EXEC"), "*-1");
    server_fix_done(&fix);
}

TEST(a_watched_cold_key_is_loaded_and_has_not_changed)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *conn = server_fix_conn(&fix);
    server_fix_call(&fix, conn, "SET a 1");
    server_fix_cool(&fix);
    ASSERT_STR(server_fix_call(&fix, conn, "WATCH a b"), "+OK");
    server_fix_cool(&fix);
    QUEUE(&fix, conn, "INCR a");
    ASSERT_STR(server_fix_call(&fix, conn, "EXEC"), "*1 :2");
    server_fix_done(&fix);
}
