// SPDX-License-Identifier: Apache-2.0
/* server_fix.c - makes the server in memory, runs its turns, and gives connections their input. */
#include "support/server_fix.h"

#include <stdio.h>

#include "store/testing.h"
#include "store/turns.h"
#include "test.h"
#include "types/spaces.h"

#include "base/banned.h"

enum { TURNS_MAX = 1000 };

static void store_start(struct server_fix *fix)
{
    struct store_options options = {.dir = "db",
                                    .spaces = types_spaces,
                                    .space_count = TYPES_SPACE_COUNT,
                                    .engine = &engine_memory_ops,
                                    .engine_memory = fix->memory,
                                    .files = file_sim_files(fix->sim),
                                    .clock = &fix->clock,
                                    .seed = 1,
                                    .hot_memory_bytes = 64 << 20,
                                    .durability = fix->config.durability,
                                    .always_cold = true,
                                    .manual = true};
    ASSERT_OK(store_open(&options, &fix->store, &fix->err), &fix->err);
}

void server_fix_init_with(struct server_fix *fix, const char *config)
{
    struct ports none = {.http_fd = -1};
    *fix = (struct server_fix){.sim = file_sim_new(), .memory = engine_memory_new()};
    clock_init_manual(&fix->clock, 1700000000000);
    clock_advance_ms(&fix->clock, 1); /* a monotonic time of 0 means none */
    config_init(&fix->config, file_sim_files(fix->sim));
    struct bytes lines = bytes_of(config, strlen(config));
    ASSERT_OK(config_parse(&fix->config, lines, "the test", &fix->err), &fix->err);
    ASSERT_OK(loop_open(&fix->loop, &fix->err), &fix->err);
    store_start(fix);
    ASSERT_OK(server_new(&(struct server_options){.loop = fix->loop,
                                                  .store = fix->store,
                                                  .clock = &fix->clock,
                                                  .config = &fix->config,
                                                  .ports = &none,
                                                  .signal_fd = -1},
                         &fix->server, &fix->err),
              &fix->err);
    server_fix_run(fix);
}

void server_fix_init(struct server_fix *fix)
{
    server_fix_init_with(fix, "");
}

void server_fix_done(struct server_fix *fix)
{
    server_free(fix->server);
    ASSERT_OK(store_close(fix->store, &fix->err), &fix->err);
    loop_close(fix->loop);
    config_done(&fix->config);
    engine_memory_free(fix->memory);
    file_sim_free(fix->sim);
}

/* ---- clients ---- */

struct conn *server_fix_conn(struct server_fix *fix)
{
    server__conn_new(fix->server, -1, true);
    return fix->server->conns; /* the newest is the first */
}

bool server_fix_has(const struct server_fix *fix, const struct conn *conn)
{
    const struct conn *at = fix->server->conns;
    while (at && at != conn)
        at = at->next;
    return at != NULL;
}

void server_fix_send_bytes(struct conn *conn, struct bytes bytes)
{
    ASSERT_TRUE(buf_add_bytes(&conn->in, bytes));
    server__conn_queue(conn);
    conn->server->busy = true;
}

void server_fix_send(struct conn *conn, const char *words)
{
    CLEANUP(buf_done) struct buf body, request;
    size_t count = 0;
    buf_init(&body, SIZE_MAX);
    buf_init(&request, SIZE_MAX);
    for (const char *at = words; *at; count++) {
        size_t len = strcspn(at, " ");
        ASSERT_TRUE(buf_printf(&body, "$%zu\r\n%.*s\r\n", len, (int)len, at));
        at += len + (at[len] == ' ');
    }
    ASSERT_TRUE(buf_printf(&request, "*%zu\r\n", count));
    ASSERT_TRUE(buf_add_bytes(&request, buf_bytes(&body)));
    server_fix_send_bytes(conn, buf_bytes(&request));
}

void server_fix_hang_up(struct conn *conn)
{
    conn->eof = conn->broken = true;
    server__conn_touch(conn);
}

/* ---- time ---- */

void server_fix_turn(struct server_fix *fix)
{
    server__turn(fix->server);
}

void server_fix_load(struct server_fix *fix)
{
    while (store_step(fix->store, STORE_STEP_LOAD))
        continue;
}

void server_fix_sync(struct server_fix *fix)
{
    while (store_step(fix->store, STORE_STEP_JOURNAL))
        continue;
}

void server_fix_run(struct server_fix *fix)
{
    int left = TURNS_MAX;
    do {
        ASSERT_GT(left--, 0);
        server__turn(fix->server);
    } while (store_step(fix->store, STORE_STEP_LOAD) || fix->server->busy);
}

void server_fix_cool(struct server_fix *fix)
{
    uint64_t segment = store_flush_ask(fix->store);
    for (int i = 0; i < TURNS_MAX && store_flush_mark(fix->store) < segment; i++) {
        store_step(fix->store, STORE_STEP_JOURNAL);
        store_step(fix->store, STORE_STEP_FLUSH);
        store_poll(fix->store);
    }
    ASSERT_GE(store_flush_mark(fix->store), segment);
    store_evict_all(fix->store);
}

/* ---- replies ---- */

const char *server_fix_take(struct server_fix *fix, struct conn *conn)
{
    struct bytes out = server__conn_out(conn);
    size_t len = 0;
    ASSERT_LT(out.len, sizeof fix->text);
    for (size_t i = 0; i < out.len; i++)
        if (out.ptr[i] != '\r')
            fix->text[len++] = out.ptr[i] == '\n' ? ' ' : (char)out.ptr[i];
    fix->text[len > 0 ? len - 1 : 0] = 0;
    server__conn_out_sent(conn, out.len);
    server__conn_touch(conn); /* the next turn sees it */
    return fix->text;
}

const char *server_fix_call(struct server_fix *fix, struct conn *conn, const char *words)
{
    server_fix_send(conn, words);
    server_fix_run(fix);
    return server_fix_take(fix, conn);
}

uint64_t server_fix_undone(struct server_fix *fix)
{
    struct store_stats stats;
    store_stats(fix->store, &stats);
    return stats.undo_count;
}
