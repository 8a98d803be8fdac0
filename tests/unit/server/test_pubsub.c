// SPDX-License-Identifier: Apache-2.0
#include "test.h"

#include "support/server_fix.h"

#include "base/banned.h"

TEST(a_subscription_is_answered_as_each_protocol_has_it)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *two = server_fix_conn(&fix), *three = server_fix_conn(&fix);
    struct conn *other = server_fix_conn(&fix);
    ASSERT_EQ(server_fix_call(&fix, three, "HELLO 3")[0], '%');
    ASSERT_STR(server_fix_call(&fix, two, "SUBSCRIBE c d"),
               "*3 $9 subscribe $1 c :1 *3 $9 subscribe $1 d :2");
    ASSERT_STR(server_fix_call(&fix, three, "PSUBSCRIBE c*"), ">3 $10 psubscribe $2 c* :1");
    ASSERT_STR(server_fix_call(&fix, other, "PUBLISH c m"), ":2");
    ASSERT_STR(server_fix_take(&fix, two), "*3 $7 message $1 c $1 m");
    ASSERT_STR(server_fix_take(&fix, three), ">4 $8 pmessage $2 c* $1 c $1 m");
    ASSERT_STR(server_fix_call(&fix, two, "UNSUBSCRIBE"),
               "*3 $11 unsubscribe $1 d :1 *3 $11 unsubscribe $1 c :0");
    ASSERT_STR(server_fix_call(&fix, three, "PUNSUBSCRIBE nosuch"),
               ">3 $12 punsubscribe $6 nosuch :1");
    server_fix_done(&fix);
}

TEST(messages_arrive_in_the_order_in_which_they_were_published)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *sub = server_fix_conn(&fix), *one = server_fix_conn(&fix);
    struct conn *other = server_fix_conn(&fix);
    server_fix_call(&fix, sub, "SUBSCRIBE c");
    server_fix_call(&fix, other, "CONFIG SET notify-keyspace-events EA");
    server_fix_call(&fix, sub, "SUBSCRIBE __keyevent@0__:set");
    server_fix_send(one, "PUBLISH c 1");
    server_fix_send(one, "SET k v"); /* events are messages, too */
    server_fix_send(one, "PUBLISH c 2");
    server_fix_send(other, "PUBLISH c 3");
    server_fix_turn(&fix);
    ASSERT_STR(server_fix_take(&fix, sub),
               "*3 $7 message $1 c $1 1 *3 $7 message $18 __keyevent@0__:set $1 k "
               "*3 $7 message $1 c $1 2 *3 $7 message $1 c $1 3");
    server_fix_done(&fix);
}

TEST(a_message_comes_once_for_every_channel_and_pattern_that_it_matches)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *sub = server_fix_conn(&fix), *other = server_fix_conn(&fix);
    server_fix_call(&fix, sub, "SUBSCRIBE news");
    server_fix_call(&fix, sub, "SUBSCRIBE news"); /* twice is once */
    server_fix_call(&fix, sub, "PSUBSCRIBE n*");
    server_fix_call(&fix, sub, "PSUBSCRIBE x*");
    server_fix_call(&fix, sub, "PSUBSCRIBE ?ews");
    ASSERT_STR(server_fix_call(&fix, other, "PUBLISH news m"), ":3");
    const char *text = server_fix_take(&fix, sub);
    ASSERT_TRUE(strncmp(text, "*3 $7 message $4 news $1 m ", 27) == 0);
    ASSERT_TRUE(strstr(text, "*4 $8 pmessage $2 n* $4 news $1 m") != NULL);
    ASSERT_TRUE(strstr(text, "*4 $8 pmessage $4 ?ews $4 news $1 m") != NULL);
    ASSERT_TRUE(strstr(text, "x*") == NULL);
    server_fix_done(&fix);
}

TEST(shard_channels_are_others_than_channels)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *sub = server_fix_conn(&fix), *other = server_fix_conn(&fix);
    server_fix_call(&fix, sub, "SSUBSCRIBE c");
    ASSERT_STR(server_fix_call(&fix, other, "PUBLISH c m"), ":0");
    ASSERT_STR(server_fix_take(&fix, sub), "");
    ASSERT_STR(server_fix_call(&fix, other, "SPUBLISH c m"), ":1");
    ASSERT_STR(server_fix_take(&fix, sub), "*3 $8 smessage $1 c $1 m");
    server_fix_done(&fix);
}

/* Messages leave at the end of the turn: who subscribes before that came after the message. */
TEST(who_subscribes_after_a_message_was_published_does_not_get_it)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *early = server_fix_conn(&fix), *publisher = server_fix_conn(&fix);
    struct conn *late = server_fix_conn(&fix);
    server_fix_call(&fix, early, "SUBSCRIBE c");
    server_fix_send(publisher, "PUBLISH c 1");
    server_fix_send(late, "SUBSCRIBE c");
    server_fix_turn(&fix);
    ASSERT_STR(server_fix_take(&fix, early), "*3 $7 message $1 c $1 1");
    ASSERT_STR(server_fix_take(&fix, late), "*3 $9 subscribe $1 c :1");
    ASSERT_STR(server_fix_call(&fix, publisher, "PUBLISH c 2"), ":1 :2");
    ASSERT_STR(server_fix_take(&fix, late), "*3 $7 message $1 c $1 2");
    server_fix_done(&fix);
}

TEST(who_unsubscribes_after_a_message_was_published_gets_it_first)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *publisher = server_fix_conn(&fix), *sub = server_fix_conn(&fix);
    server_fix_call(&fix, sub, "SUBSCRIBE c");
    server_fix_send(publisher, "PUBLISH c 1");
    server_fix_send(sub, "UNSUBSCRIBE c");
    server_fix_run(&fix);
    ASSERT_STR(server_fix_take(&fix, sub), "*3 $7 message $1 c $1 1 *3 $11 unsubscribe $1 c :0");
    server_fix_done(&fix);
}

TEST(a_held_message_reaches_who_unsubscribes_before_it_is_durable)
{
    struct server_fix fix;
    server_fix_init_with(&fix, "durability always");
    struct conn *publisher = server_fix_conn(&fix), *sub = server_fix_conn(&fix);
    server_fix_call(&fix, sub, "SUBSCRIBE c");
    server_fix_send(publisher, "SET a 1");
    server_fix_send(publisher, "PUBLISH c 1");
    server_fix_turn(&fix);
    server_fix_send(sub, "UNSUBSCRIBE c");
    for (int i = 0; i < 3; i++)
        server_fix_turn(&fix);
    ASSERT_STR(server_fix_take(&fix, sub), "");
    server_fix_sync(&fix);
    server_fix_run(&fix);
    ASSERT_STR(server_fix_take(&fix, sub), "*3 $7 message $1 c $1 1 *3 $11 unsubscribe $1 c :0");
    server_fix_done(&fix);
}

TEST(a_publish_of_a_turn_that_could_not_be_written_is_not_delivered)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *sub = server_fix_conn(&fix), *conn = server_fix_conn(&fix);
    server_fix_call(&fix, sub, "SUBSCRIBE c");
    file_sim_arm(fix.sim, &(struct file_sim_fault){
                              .op = FILE_SIM_WRITE, .count = 1, .times = 1, .rc = RC_IO});
    server_fix_send(conn, "SET a 1");
    server_fix_send(conn, "PUBLISH c m");
    server_fix_turn(&fix);
    ASSERT_STR(server_fix_take(&fix, sub), "");
    ASSERT_TRUE(strstr(server_fix_take(&fix, conn), ":1") == NULL); /* nor counted */
    server_fix_done(&fix);
}

TEST(in_an_exec_a_subscription_gets_what_is_published_behind_it)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *conn = server_fix_conn(&fix);
    ASSERT_EQ(server_fix_call(&fix, conn, "HELLO 3")[0], '%');
    server_fix_call(&fix, conn, "MULTI");
    server_fix_call(&fix, conn, "PUBLISH c 1");
    server_fix_call(&fix, conn, "SUBSCRIBE c");
    server_fix_call(&fix, conn, "PUBLISH c 2");
    ASSERT_STR(server_fix_call(&fix, conn, "EXEC"),
               "*3 :0 >3 $9 subscribe $1 c :1 :1 >3 $7 message $1 c $1 2");
    server_fix_done(&fix);
}

TEST(a_subscriber_that_does_not_read_is_closed_at_its_limit)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *sub = server_fix_conn(&fix), *conn = server_fix_conn(&fix);
    fix.config.client_output_buffer_limit[CONFIG_CLIENT_PUBSUB] =
        (struct config_output_limit){.hard_bytes = 200};
    server_fix_call(&fix, sub, "SUBSCRIBE c");
    server_fix_turn(&fix);
    for (int i = 0; i < 20 && server_fix_has(&fix, sub); i++)
        server_fix_call(&fix, conn, "PUBLISH c 0123456789");
    ASSERT_FALSE(server_fix_has(&fix, sub));
    ASSERT_EQ(fix.server->stats.output_limit_count, 1);
    ASSERT_STR(server_fix_call(&fix, conn, "PUBLISH c m"), ":0");
    server_fix_done(&fix);
}

TEST(a_client_that_goes_takes_its_subscriptions_with_it)
{
    struct server_fix fix;
    server_fix_init(&fix);
    struct conn *sub = server_fix_conn(&fix), *other = server_fix_conn(&fix);
    server_fix_call(&fix, sub, "SUBSCRIBE c");
    server_fix_call(&fix, sub, "PSUBSCRIBE *");
    ASSERT_STR(server_fix_call(&fix, other, "PUBSUB NUMSUB c"), "*2 $1 c :1");
    server_fix_hang_up(sub);
    server_fix_turn(&fix);
    ASSERT_EQ(pubsub_topic_count(fix.server->pubsub, SUB_CHANNEL), 0);
    ASSERT_EQ(pubsub_topic_count(fix.server->pubsub, SUB_PATTERN), 0);
    ASSERT_STR(server_fix_call(&fix, other, "PUBLISH c m"), ":0");
    server_fix_done(&fix);
}
