// SPDX-License-Identifier: Apache-2.0
#include "test.h"

#include <stdio.h>

#include "support/server_fix.h"

#include "base/banned.h"

/* What a command finds in a database behind the store comes from a thread. */
static const char *call_and_wait(struct server_fix *fix, struct conn *conn, const char *words)
{
    const char *text = server_fix_call(fix, conn, words);
    while (text[0] == 0) {
        ASSERT_OK(loop_wait(fix->loop, UINT64_MAX, &fix->err), &fix->err);
        server_fix_run(fix);
        text = server_fix_take(fix, conn);
    }
    return text;
}

TEST(a_command_does_not_wait_for_what_the_one_before_it_wanted)
{
    struct server_fix fix;
    char config[512];
    snprintf(config, sizeof config, "land one user:* sqlite:%s/one.db shape columns table t key id",
             test_temp_dir());
    server_fix_init_with(&fix, config);
    struct conn *conn = server_fix_conn(&fix);
    server_fix_call(&fix, conn, "SET cold 1");
    server_fix_cool(&fix);
    server_fix_call(&fix, conn, "RPUSH list 1");
    ASSERT_STR(call_and_wait(&fix, conn, "EXISTS user:1"), ":0");
    clock_advance_ms(&fix.clock, 60 * 1000);           /* that it is not there may have changed */
    server_fix_send(conn, "BITOP AND to user:1 list"); /* asks for user:1, and fails */
    server_fix_send(conn, "GET cold");
    server_fix_turn(&fix);
    ASSERT_TRUE(conn->parked != NULL);
    ASSERT_TRUE(conn->parked->since_ms == 0); /* GET waits for its own row, and for no model */
    server_fix_run(&fix);
    ASSERT_STR(server_fix_take(&fix, conn),
               "-WRONGTYPE Operation against a key holding the wrong kind of value $1 1");
    server_fix_done(&fix);
}
