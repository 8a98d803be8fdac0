// SPDX-License-Identifier: Apache-2.0
#include "test.h"

#include <stdio.h>

#include "support/server_fix.h"
#include "types/string.h"

#include "base/banned.h"

/* A client that hears every event of keys: "event key" is pushed to it as a message. */
static struct conn *listener(struct server_fix *fix, const char *classes)
{
    struct conn *conn = server_fix_conn(fix);
    char words[64];
    snprintf(words, sizeof words, "CONFIG SET notify-keyspace-events E%s", classes);
    ASSERT_STR(server_fix_call(fix, conn, words), "+OK");
    server_fix_call(fix, conn, "PSUBSCRIBE __keyevent@0__:*");
    return conn;
}

/* What it has heard since the last time: "set a, del b". */
static const char *heard(struct server_fix *fix, struct conn *conn)
{
    static const char before[] = "__keyevent@0__:";
    char text[SERVER_FIX_TEXT_BYTES] = "";
    size_t len = 0;
    const char *at = server_fix_take(fix, conn);
    while ((at = strstr(at, "*4 $8 pmessage "))) {
        char event[64], key[64];
        at = strstr(at + strlen("*4 $8 pmessage $16 __keyevent@0__:*"), before);
        ASSERT_TRUE(at != NULL);
        ASSERT_EQ(sscanf(at + strlen(before), "%63s $%*d %63s", event, key), 2);
        int added = snprintf(text + len, sizeof text - len, "%s%s %s", len ? ", " : "", event, key);
        ASSERT_LT(len + (size_t)added, sizeof text);
        len += (size_t)added;
    }
    memcpy(fix->text, text, len + 1);
    return fix->text;
}

TEST(events_of_a_run_that_was_taken_back_are_not_told)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *conn = server_fix_conn(&fix), *ear = listener(&fix, "A");
    server_fix_call(&fix, conn, "SET b 1");
    server_fix_cool(&fix);
    server_fix_call(&fix, conn, "SET hot 1");
    heard(&fix, ear);
    server_fix_call(&fix, conn, "MULTI");
    server_fix_call(&fix, conn, "INCR hot"); /* told, and then the next one finds its key cold */
    server_fix_call(&fix, conn, "INCR b");
    ASSERT_STR(server_fix_call(&fix, conn, "EXEC"), "*2 :2 :2");
    ASSERT_STR(heard(&fix, ear), "incrby hot, incrby b");
    server_fix_done(&fix);
}

TEST(events_of_a_turn_that_could_not_be_written_are_not_told)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *conn = server_fix_conn(&fix), *ear = listener(&fix, "A");
    file_sim_arm(fix.sim, &(struct file_sim_fault){
                              .op = FILE_SIM_WRITE, .count = 1, .times = 1, .rc = RC_IO});
    ASSERT_EQ(server_fix_call(&fix, conn, "SET a 1")[0], '-');
    ASSERT_STR(heard(&fix, ear), "");
    ASSERT_STR(server_fix_call(&fix, conn, "SET a 1"), "+OK");
    ASSERT_STR(heard(&fix, ear), "set a");
    server_fix_done(&fix);
}

/* A run by hand: what it tells stays if it ends with RC_OK or RC_WAIT. */
static size_t told(struct server_fix *fix, enum rc rc)
{
    struct run run;
    struct server *server = fix->server;
    size_t before = server->effects.buf.len;
    run_begin(&run, &server->kv, kv_ns(&server->kv, 0), 0);
    server__key_changed(server, &run, BYTES("k"), KV_EVENT_GENERIC, "test", true);
    ASSERT_GT(server->effects.buf.len, before);
    ASSERT_RC(run_end(&run, rc), rc);
    return server->effects.buf.len - before;
}

TEST(what_a_run_told_stays_when_its_changes_stay)
{
    struct server_fix fix;
    server_fix_init(&fix);
    ASSERT_EQ(told(&fix, RC_COLD), 0);
    ASSERT_EQ(told(&fix, RC_INVALID), 0);
    ASSERT_EQ(told(&fix, RC_IO), 0);
    size_t one = told(&fix, RC_OK);
    ASSERT_GT(one, 0);
    ASSERT_EQ(told(&fix, RC_COLD), 0); /* and what was told before it stays as well */
    ASSERT_EQ(told(&fix, RC_WAIT), one);
    ASSERT_EQ(fix.server->effects.buf.len, 2 * one);
    server_fix_turn(&fix);
    ASSERT_EQ(fix.server->effects.buf.len, 0);
    server_fix_done(&fix);
}

TEST(a_command_of_many_commits_tells_each_thing_once)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *conn = server_fix_conn(&fix), *ear = listener(&fix, "Am");
    fix.server->kv.build_rows_min = 2; /* the result is built in commits of a few rows */
    server_fix_call(&fix, conn, "SADD s 1 2 3 4 5");
    heard(&fix, ear);
    uint64_t hits = fix.server->kv.counts.hit_count, misses = fix.server->kv.counts.miss_count;
    ASSERT_STR(server_fix_call(&fix, conn, "SUNIONSTORE d s missing"), ":5");
    ASSERT_EQ(fix.server->kv.build_count, 1);
    ASSERT_EQ(fix.server->kv.counts.hit_count - hits, 1);
    ASSERT_EQ(fix.server->kv.counts.miss_count - misses, 1);
    ASSERT_STR(heard(&fix, ear), "keymiss missing, sunionstore d");
    server_fix_done(&fix);
}

TEST(hits_and_misses_are_counted_by_the_last_run)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *conn = server_fix_conn(&fix), *ear = listener(&fix, "m");
    server_fix_call(&fix, conn, "SET b 1");
    server_fix_cool(&fix);
    ASSERT_STR(server_fix_call(&fix, conn, "MGET missing b other"), "*3 $-1 $1 1 $-1");
    ASSERT_EQ(fix.server->kv.counts.hit_count, 1);
    ASSERT_EQ(fix.server->kv.counts.miss_count, 2);
    ASSERT_STR(heard(&fix, ear), "keymiss missing, keymiss other");
    server_fix_done(&fix);
}

TEST(an_error_counts_what_was_read_and_tells_no_change)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *conn = server_fix_conn(&fix), *ear = listener(&fix, "A");
    server_fix_call(&fix, conn, "SET a x");
    heard(&fix, ear);
    ASSERT_EQ(server_fix_call(&fix, conn, "INCR a")[0], '-');
    ASSERT_EQ(server_fix_call(&fix, conn, "LPUSH a 1")[0], '-');
    ASSERT_STR(heard(&fix, ear), "");
    server_fix_done(&fix);
}

TEST(durability_always_holds_messages_until_their_turn_is_durable)
{
    struct server_fix fix;
    server_fix_init_with(&fix, "durability always");
    struct conn *conn = server_fix_conn(&fix), *ear = listener(&fix, "A");
    server_fix_send(conn, "SET a 1");
    server_fix_send(conn, "PUBLISH c m");
    server_fix_turn(&fix);
    server_fix_send(conn, "SET b 1");
    server_fix_turn(&fix);
    ASSERT_STR(heard(&fix, ear), "");
    server_fix_sync(&fix);
    server_fix_turn(&fix);
    ASSERT_STR(heard(&fix, ear), "set a, set b");
    ASSERT_TRUE(fix.server->unsafe_effects == NULL);
    server_fix_done(&fix);
}

TEST(messages_of_a_later_turn_do_not_overtake_held_ones)
{
    struct server_fix fix;
    server_fix_init_with(&fix, "durability always");
    struct conn *conn = server_fix_conn(&fix), *sub = server_fix_conn(&fix);
    server_fix_call(&fix, sub, "SUBSCRIBE c");
    server_fix_send(conn, "SET a 1");
    server_fix_send(conn, "PUBLISH c 1");
    server_fix_turn(&fix);
    ASSERT_STR(server_fix_take(&fix, sub), "");
    server_fix_sync(&fix);
    server_fix_send(conn, "PUBLISH c 2"); /* of a turn that has nothing to wait for */
    server_fix_turn(&fix);
    ASSERT_STR(server_fix_take(&fix, sub), "*3 $7 message $1 c $1 1 *3 $7 message $1 c $1 2");
    server_fix_done(&fix);
}
