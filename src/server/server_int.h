// SPDX-License-Identifier: Apache-2.0
/* server_int.h - what the files of server/ share.
 *
 *   server.c    life, signals, the turn          listen.c    listening sockets
 *   conn.c      a connection: bytes in and out   batch.c     parsed commands, run in the turn
 *   request.c   a command that waits, as a task  dispatch.c  what a command may do, and its limits
 *   multi.c     MULTI, EXEC, WATCH               effects.c   what leaves when a commit is safe
 *   key_waiters.c  who wants to know of a key    pubsub.c    channels and patterns
 *   client_limits.c  how much a client may hold
 *
 * Threads: the executor. */
#pragma once

#include "base/table.h"
#include "base/version.h"
#include "server/cmd.h"
#include "server/config.h"
#include "server/models.h"
#include "server/resp.h"
#include "server/server.h"
#include "store/prefetch.h"
#include "store/task.h"
#include "types/expire.h"
#include "types/guard.h"

#define REDIS_VERSION "7.0.15" /* whose protocol and answers are followed */

enum {
    BATCH_CALLS_MAX = 32,
    OUT_SPARES_MAX = 8,
    BATCH_CALLS_A_CONN = 16,
    BATCH_ARGS_MAX = 1024, /* held without an allocation */
    TURN_CALLS_MAX = 416,  /* noted; a batch more than a turn takes */
    UNSAFE_MS_MAX = 3000,  /* replies wait for a journal that fails */
};

struct unsafe_since { /* mode always: the journal fails */
    uint64_t mono_ns; /* 0: it does not */
    size_t closed_count;
};

/* ---- effects: what a command does besides rows and its reply ---- */

/* Records, each: kind(1) ‖ what the kind says. They leave when the commit is safe. */
struct effects {
    struct buf buf;
};

/* ---- waiting for changes of keys ---- */

struct waited_key;
enum waiter_kind { WAITER_WATCH, WAITER_BLOCK };
enum { WAITER_KINDS = 2 };
struct key_waiter { /* one client's interest in one key; embedded or allocated by its owner */
    struct waited_key *waited;
    enum waiter_kind kind;
    /* WAITER_WATCH: the key was there when it began; one whose time is over has been there since */
    bool existed, was_dead;
    bool *touched;                  /* WAITER_WATCH: set when the key changes */
    unsigned wants;                 /* WAITER_BLOCK: the type, as KV_EVENT_LIST */
    void *owner;                    /* struct conn (WATCH) or struct request */
    struct key_waiter *prev, *next; /* of the same key, in order of arrival */
    struct key_waiter *owner_next;  /* of the same owner */
};

/* ---- MULTI ---- */

struct queued {
    const struct cmd *cmd;
    struct bytes *argv; /* one allocation with the bytes behind it */
    size_t argc;
};
struct multi {
    bool open;
    bool refused; /* a command could not be queued: EXEC answers EXECABORT */
    struct queued *queued;
    size_t count, cap;
    size_t bytes;   /* of what is queued */
    unsigned flags; /* of all queued commands; CMD_DELETES unless one of them writes more */
    /* WATCH */
    struct key_waiter *watching; /* by owner_next */
    size_t watching_bytes;
    bool touched; /* a watched key has changed */
};

/* ---- scripts ---- */

struct conn_script {    /* what is known of the script that a client's command runs */
    unsigned flags;     /* CMD_WRITE, CMD_DELETES: it runs again as such */
    bool is_mixed;      /* it deletes, and writes as well */
    uint64_t random;    /* with which each of its runs begins */
    uint64_t run_count; /* as a request */
};

/* ---- pub/sub: what a client is subscribed to ---- */

enum sub_kind { SUB_CHANNEL, SUB_PATTERN, SUB_SHARD };
enum { SUB_KINDS = 3 };
struct subscription;
struct subs {
    struct subscription *first; /* of the client */
    size_t count[SUB_KINDS];
    size_t bytes;
};

/* ---- connections ---- */

struct unsafe { /* replies from `start` on leave when the LSN is durable */
    uint64_t lsn;
    uint64_t start;
};

enum reply_mode { REPLY_ON, REPLY_OFF, REPLY_SKIP_NEXT, REPLY_SKIP };

/* Invariants of a connection:
 *   (1) Commands run in the order in which they came, one at a time; replies leave in that order.
 *   (2) At most one command waits (`parked`); while it does nothing behind it runs.
 *   (3) While commands of the connection are in the batch its input does not move: their arguments
 *       point into it.
 *   (4) `out` holds whole replies only. Offsets into it count from the connection's first byte:
 *       out_base is that of out.buf.ptr[0]. */
struct conn {
    struct server *server;
    struct loop_source source;
    struct resp_parser parser;
    struct buf in;
    struct resp_out out;
    uint64_t out_base;
    size_t out_sent;     /* of out.buf */
    size_t out_released; /* of out.buf: pages that were sent, and given back to the system */
    struct unsafe *unsafe;
    size_t unsafe_count, unsafe_cap;
    struct conn *unsafe_prev, *unsafe_next; /* of those with unsafe replies */
    struct request *parked;
    struct ns *ns;
    struct multi multi;
    struct conn_script script;
    struct subs subs;
    size_t batch_calls;  /* in the batch and not run */
    bool is_kept;        /* for server__batch_give_back() */
    bool throttled;      /* it has input, and does not take its replies */
    bool parsed;         /* the parser holds a whole command that found no place in the batch */
    uint64_t turn;       /* in which it last ran a command */
    uint64_t turn_start; /* where that turn's replies begin */
    bool queued;         /* in the server's list of those with input */
    bool touched;        /* in the server's list of those with output */
    bool eof;            /* the client sends no more */
    bool quit;           /* nothing more is read or run; closed when everything is sent */
    bool broken;         /* nothing more is sent; closed at the next chance */
    bool authed;
    bool no_evict, monitor;
    enum reply_mode reply_mode;
    struct conn *queued_next, *touched_next;
    struct conn *prev, *next;
    /* for CLIENT */
    uint64_t id;
    uint64_t start_ms, last_ms;
    const struct cmd *last_cmd;
    struct bytes name, lib_name, lib_ver; /* owned */
    char peer[80], local[80];
    bool is_unix;
    uint64_t soft_since_ms; /* over its soft output limit since; 0: not */
    size_t counted_bytes;   /* what the server's clients_bytes has of it */
    size_t call_start;      /* of the command that runs, in the input */
    size_t out_peak;        /* the most that waited lately */
};

struct call { /* a parsed command of a connection */
    struct conn *conn;
    const struct cmd *cmd; /* NULL: unknown */
    const struct bytes *argv;
    size_t argc;
    size_t in_start; /* where it begins in the connection's input */
};

struct request {             /* a command that waits */
    struct cmd_request base; /* what its handler sees */
    struct conn *conn;
    const struct cmd *cmd;
    struct bytes *argv; /* owned, with the bytes, of which there are argv_bytes */
    size_t argc;
    size_t argv_bytes;
    struct buf in; /* what the arguments point into if they were not copied */
    struct resp_out reply;
    struct key_waiter *listening; /* of a command that blocks, or builds; by owner_next */
    struct bytes serving_key;     /* the key that serves it; during a run */
    struct bytes *ahead; /* keys of the commands behind it; owned, with the bytes. NULL: none */
    size_t ahead_count;
    bool paused;                 /* CLIENT PAUSE holds it */
    bool blocked;                /* it waits for keys, or for a time: cmd_block() */
    bool counted;                /* when it began to: what comes later adds to that call */
    bool unblocked;              /* by CLIENT UNBLOCK */
    bool unblock_error;          /* CLIENT UNBLOCK ... ERROR */
    uint64_t run_ns;             /* of all slices of a reply */
    uint64_t since_ms;           /* when it first waited for a model; 0: it has not */
    struct request_build *build; /* of a command that may build something large; NULL: of others */
    struct cmd_long *slow;       /* of one whose reply is written in slices; NULL: of others */
};
static inline struct request *server__request(const struct cmd_ctx *ctx)
{
    return (struct request *)ctx->request;
}

/* ---- the server ---- */

struct turn_call { /* a reply that has to be taken back if the turn cannot be written */
    struct conn *conn;
    uint64_t start, end; /* in the connection's output */
};

struct cmd_stats {
    uint64_t calls, usec, rejected, failed;
};

enum { HEALTH_FILES_MAX = 16, HEALTH_NAME_BYTES = 32 };
struct server_health { /* what was last said about the store's health */
    uint64_t next_ns;
    bool read_only, disk_low, flush_failing, sweep_failing, engine_closed;
    uint64_t engine_reopen_count;
    uint64_t load_failed_count;
    char damaged[HEALTH_FILES_MAX]
                [HEALTH_NAME_BYTES]; /* files that reads have failed in, and told */
    size_t damaged_count;
};

struct slowlog;
struct scripts;
struct pubsub;
struct http;

struct server {
    struct loop *loop;
    struct store *store;
    const struct clock *clock;
    struct config *config;
    struct tasks *tasks;
    struct kv kv;
    struct expire *expire;
    struct cmd_table *cmds;
    struct cmd_host host; /* what handlers get */
    struct loop_source listener[LISTENERS_MAX];
    size_t listener_count;
    uint64_t accept_again_ns; /* until then nobody is accepted; 0: everybody is */
    bool accept_failing;      /* and it was logged */
    struct loop_source signals;
    uint16_t port;
    uint64_t start_ms;
    char run_id[41]; /* of this process, as Redis has one */
    struct conn *conns;
    size_t conn_count;
    size_t conn_count_max;
    uint64_t clients_bytes;     /* what all connections hold, as they were last counted */
    uint64_t clients_bytes_max; /* maxmemory-clients */
    uint64_t next_conn_id;
    struct conn *queued_first, *queued_last; /* with input to look at */
    struct conn *touched;                    /* with output to look at */
    struct conn *unsafe;                     /* with replies that are not safe yet */
    uint64_t durable_seen_lsn;
    struct unsafe_since unsafe_since;
    struct buf out_spare[OUT_SPARES_MAX]; /* empty, of connections that have sent large replies */
    size_t out_spare_count;
    struct request *spare; /* kept for the next ones; linked by task.next */
    size_t spare_count;
    /* the batch */
    struct call call[BATCH_CALLS_MAX];
    size_t call_count, call_next;
    size_t batch_max; /* of the next one: 1 .. BATCH_CALLS_MAX */
    struct bytes *arg;
    size_t arg_count, arg_cap;
    struct store_prefetch_list prefetch; /* keys of the batch */
    uint64_t turn;
    struct turn_call *turn_call;
    size_t turn_call_count;
    struct effects effects; /* of the turn's runs, in the order of commits */
    struct unsafe_effects *unsafe_effects, **unsafe_effects_tail; /* durability always */
    struct table waited_keys;                                     /* keys somebody listens for */
    size_t watch_count, block_count;
    uint64_t ready_seq;
    bool woken;      /* blocked commands that run before the next one */
    unsigned notify; /* mask of keyspace events; 0: none */
    struct pubsub *pubsub;
    uint64_t message_seq; /* of the last message or event that was collected */
    struct http *http;    /* NULL: no port */
    struct slowlog *slowlog;
    struct scripts *scripts;
    bool is_script_busy; /* busy.c: the loop runs inside a script */
    struct buf monitor_feed;
    size_t monitor_count;
    struct cmd_stats *cmd_stats; /* by row of commands.def */
    struct clock_steps steps;
    uint64_t now_ns;        /* of the last step */
    uint64_t now_ms;        /* of the turn; commands that run directly see it */
    uint64_t conns_cron_ms; /* when clients were last looked at */
    uint64_t pause_end_ms;
    uint64_t web_warned_ms; /* when it was last told that a browser had tried */
    bool pause_writes_only;
    bool busy;                     /* another turn at once */
    bool flush_asked, evict_asked; /* to be done after the turn */
    uint64_t flush_segment;        /* what the last one asked for waits for */
    uint64_t flush_mark_seen, last_save_ms;
    unsigned signal_count;
    struct server_health health;
    struct {
        uint64_t connection_count, rejected_count, command_count, error_count;
        uint64_t input_bytes, output_bytes, pubsub_messages;
        /* clients that were closed */
        uint64_t output_limit_count, query_limit_count, evicted_client_count;
        uint64_t long_slice_count, long_again_count; /* of long replies; those that began again */
        uint64_t blocked_runs; /* of commands that had blocked, to see whether they can go on */
        uint64_t read_count, send_count; /* calls that moved bytes */
        uint64_t ops_sampled_count, ops_sampled_ms, ops_per_s;
        uint64_t input_sampled_bytes, input_bytes_per_s, output_sampled_bytes, output_bytes_per_s;
        uint64_t hot_bytes_peak;
    } stats;
};

/* conn.c */
/* Takes the descriptor. -1: there is none, and nothing is read or sent. Whoever made the connection
 * puts requests into conn->in, calls server__conn_queue(), and takes server__conn_out(). */
void server__conn_new(struct server *server, int fd, bool is_unix);
void server__conn_close(struct conn *conn); /* and frees it */
/* Between commands: it is closed after the turn; until then it takes nothing that others could
 * have. What has ended has happened, and its events leave. */
void server__conn_end(struct conn *conn);
/* Closes it after the replies so far; commands behind this one do not run. */
void server__conn_quit(struct conn *conn);
/* The server ends: everything the client has sent is taken, and nothing after that. */
void server__conn_finish(struct conn *conn);
/* The input goes to who waits with arguments of so many bytes in it: they need not be copied.
 * False: they are not most of it, or others of the batch point into it. */
bool server__conn_in_take(struct conn *conn, size_t arg_bytes, struct buf *ret_in) NODISCARD;
void server__conn_touch(struct conn *conn); /* its output is looked at after the turn */
void server__conn_queue(struct conn *conn); /* its input is looked at in the turn */
/* Those that were touched: sends, ends who is over, says what the loop listens for. */
void server__conns_update(struct server *server);
void server__conns_cron(struct server *server); /* idle timeouts, output limits */
/* Replies that may leave now, and that so many bytes of them have left. */
struct bytes server__conn_out(const struct conn *conn);
void server__conn_out_sent(struct conn *conn, size_t bytes);
uint64_t server__conn_out_end(const struct conn *conn);
/* A reply is about to be written: with a spare buffer, if there is one and the connection has none.
 */
void server__conn_out_ready(struct conn *conn);
void server__out_spares_free(struct server *server, size_t count); /* up to so many */
/* Replies from `start` on are not sent before the LSN is durable. */
void server__conn_unsafe(struct conn *conn, uint64_t lsn, uint64_t start);
void server__unsafe_look(struct server *server); /* sends what has become durable */
/* CLIENT REPLY: whether the reply of this command is for the client; once a command. */
bool server__reply_is_wanted(struct conn *conn, const struct cmd *cmd);
/* An error reply of our own. */
void server__conn_error(struct conn *conn, const char *prefix, const char *text);
/* Writes a push or a message; output limits of subscribers apply. */
void server__conn_push(struct conn *conn, struct bytes bytes);

void server__conn_send(struct conn *conn); /* what may leave now */

/* client_limits.c */
/* How many bytes more may wait for the client: the bound of its next reply. */
size_t server__conn_out_room(const struct conn *conn);
/* What waits is over client-output-buffer-limit, or has been over the soft one for too long. */
bool server__conn_out_over(struct conn *conn);
/* Closes it for so many bytes of replies: counted and logged. */
void server__conn_out_end_over(struct conn *conn, size_t bytes);
size_t server__conn_bytes(const struct conn *conn); /* everything it holds */
size_t server__multi_bytes(const struct multi *multi);
/* What it holds has changed. */
void server__conn_count(struct conn *conn);
/* Between commands: the clients that hold the most are closed until all of them together are within
 * maxmemory-clients. */
void server__clients_obey(struct server *server);
static inline bool server__clients_over(const struct server *server)
{
    return UNLIKELY(server->clients_bytes > server->clients_bytes_max);
}

/* batch.c */
bool server__clients(void *server, bool room);
void server__turn_end(void *server, enum rc rc, const struct err *err);

/* A script is busy: what is behind it goes back to the inputs, but for its own connection's. */
void server__batch_give_back(struct server *server, const struct conn *of_script);

/* dispatch.c */
/* Everything between a parsed command and its handler: limits, AUTH, MULTI, pauses. */
enum rc server__dispatch(struct cmd_ctx *ctx) NODISCARD;
/* The flags of a command; EXEC reads, writes and deletes as what is queued does. */
unsigned server__call_flags(const struct conn *conn, const struct cmd *cmd);

/* The handler, or what a guard of the database has in its place. */
static inline enum rc server__cmd_run(struct cmd_ctx *ctx)
{
    const struct key_guard *guard = ctx->run->ns->name_guard;
    if (LIKELY(!guard) || !guard->command)
        return ctx->cmd->run(ctx);
    return guard->command(guard->model, ctx);
}

/* execute.c */
/* Runs a command in the commit that is open, with ctx->run begun: RC_COLD, RC_WAIT, or how it
 * ended. The caller commits or undoes, ends the run, and notes it. */
enum rc server__execute(struct cmd_ctx *ctx) NODISCARD;
/* A command inside another's run: one that EXEC has queued, or that a script calls. */
struct nested {
    const struct cmd *cmd;
    const struct bytes *argv;
    size_t argc;
    struct resp_out *reply;
    bool late;            /* cmd_ctx.late */
    uint64_t message_seq; /* cmd_ctx.message_seq */
    /* how it ended */
    uint64_t usec;
    enum rc rc;
};
/* Runs it. Its own fault (RC_OK, nested->rc is the code): it is taken back alone, and its error is
 * the reply. Others: the whole run is taken back. */
enum rc server__nested(const struct cmd_ctx *ctx, struct nested *nested) NODISCARD;
/* The command of ctx has run to an end: statistics and the slow log. */
void server__call_note(const struct cmd_ctx *ctx, uint64_t usec, enum rc rc);
/* A call has been run; `more`: a part of one that is counted already. */
void server__call_stats(struct server *server, const struct cmd *cmd, bool more, uint64_t usec,
                        enum rc rc);
/* The error as a reply; who writes it for good counts it. */
void RARE server__error_add(struct resp_out *reply, enum rc rc, const struct err *err);
void server_stats_reset(struct server *server);

/* request.c */
enum rc server__block(struct cmd_ctx *ctx, const struct cmd_blocking *wait) NODISCARD;
bool server__key_try(const struct cmd_ctx *ctx, const struct bytes *key, size_t n,
                     struct bytes *ret_key);
/* A command of the batch has to wait: rc RC_COLD: for what its run, which was taken back, has found
 * cold; RC_WAIT: it runs again, as a request. `ahead`: keys that commands behind it will need,
 * which are loaded along with its own. False: no memory; nothing happened. */
bool server__request_park(const struct call *call, enum rc rc, const struct bytes *ahead,
                          size_t ahead_count) NODISCARD;
void server__request_cancel(struct request *request); /* and frees it */
void server__request_free(struct request *request);
void server__requests_done(struct server *server); /* those kept for later */
/* Arguments and their bytes in one allocation. NULL: no memory. */
struct bytes *server__args_copy(const struct bytes *argv, size_t argc);
size_t server__args_bytes(const struct bytes *argv, size_t argc); /* of such a copy */
/* CLIENT UNBLOCK; false: it does not wait for keys. */
bool server__request_unblock(struct request *request, bool error);
/* As Redis counts it: a command of the client waits for keys, or for the end of a pause. */
bool server__conn_blocked(const struct conn *conn);
/* It waits for keys or for a pause's end, or goes on in many commits: it may take for ever. */
bool server__request_is_long(const struct request *request);
/* Those who wait for the end of a CLIENT PAUSE run. */
void server__pause_end(struct server *server);

/* server.c */
/* Commands, one journal frame, replies; whoever calls it has waited for what comes. */
void server__turn(struct server *server);
void server__sweep_set(struct server *server); /* whether keys expire by themselves just now */
/* As many clients as are wanted, or as the system gives descriptors for. */
size_t server__clients_max(const struct config *config);
void server__encodings_set(struct server *server); /* OBJECT ENCODING, from the options */

/* config_changed.c: CONFIG SET has changed an option */
void server__option_changed(void *server, const struct option *row);

/* request_build.c */
void server__request_build_free(struct request_build *build); /* NULL is allowed */
/* From now on *touched is set when a key of the command changes, or its database is emptied or
 * swapped; but for the argument `target_arg`. 0: for all keys. */
enum rc server__request_watch(struct request *request, size_t target_arg, bool *touched,
                              struct err *err) NODISCARD;

/* request_long.c */
void server__request_long_free(struct cmd_long *slow); /* NULL is allowed */
/* Before every run: the reply is empty; what slices have written is kept for the next one. */
void server__request_reply_begin(struct request *request);
/* A turn was taken back: replies in slices may have read what has not happened. */
void server__requests_touch(struct server *server);

/* effects.c */
void effects_init(struct effects *effects);
void effects_done(struct effects *effects);
/* The hooks of struct kv_hooks. */
void server__run_end(void *server, const struct run *run, enum rc rc);
void server__key_changed(void *server, const struct run *run, struct bytes key, enum kv_event kind,
                         const char *event, bool exists);
void server__ns_flushed(void *server, struct ns *ns, bool swapped);
/* SWAPDB: what a watched key becomes. It lives, its time is over, or (neither) it is not there. */
void server__key_swapped(struct server *server, struct ns *ns, struct bytes key, bool exists,
                         bool dead);
/* PUBLISH from a command: leaves with its commit. */
void server__publish_later(struct server *server, enum sub_kind kind, struct bytes channel,
                           struct bytes message);
/* A run ended well: watchers and blocked clients hear of what was collected from `from`. */
void server__effects_touch(struct server *server, size_t from);
/* The commit is safe: messages leave, and the list is emptied. */
void server__effects_deliver(struct server *server, struct effects *effects);
/* Those of the turn's direct calls, at once (lsn 0) or when the LSN is durable. */
void server__effects_leave(struct server *server, uint64_t lsn);
void server__unsafe_effects_look(struct server *server);
void server__unsafe_effects_done(struct server *server);
void server__sweep_safe(void *server, enum rc rc);  /* expire_options.safe */
void server__waiting_update(struct server *server); /* kv.listening follows who is interested */

/* key_waiters.c */
void server__waiters_init(struct server *server);
void server__waiters_done(struct server *server);
/* RC_NOMEM. The waiter belongs to its owner's list from here on. */
enum rc server__waiter_add(struct server *server, struct ns *ns, struct bytes key,
                           enum waiter_kind kind, void *owner, struct key_waiter **list,
                           struct err *err) NODISCARD;
void server__waiters_free(struct server *server, struct key_waiter **list);
bool server__waiter_has(struct server *server, enum waiter_kind kind, const void *owner,
                        struct ns *ns, struct bytes key);
void server__waiters_touch(struct server *server, struct ns *ns, struct bytes key,
                           enum kv_event class, bool exists);
void server__waiters_touch_ns(struct server *server, struct ns *ns, bool swapped);
void server__waiters_swap(struct server *server, struct ns *ns, struct bytes key, bool exists,
                          bool dead);
/* Before SWAPDB: looks what watched keys of the two databases will be, and notes it as effects.
 * RC_COLD. */
enum rc server__waiters_look(struct server *server, const struct run *run, struct ns *one,
                             struct ns *other, struct err *err) NODISCARD;
/* Changes were taken back: who blocks looks again whether there is something. */
void server__waiters_wake(struct server *server);
/* It has run and found nothing: the turns it has go to the next. True: one came back at once, and
 * it has to run again. */
bool server__serving_pass(struct server *server, const struct key_waiter *list);
/* The key whose turn it has, of several the one that was filled first. False: none. */
bool server__serving_key(const struct key_waiter *list, struct bytes *ret_key);
bool server__serving_is_others(struct server *server, const struct request *request, struct ns *ns,
                               struct bytes key);
struct bytes server__waiter_key(const struct key_waiter *waiter, struct ns **ret_ns);

/* multi.c */
void server__multi_end(struct conn *conn);  /* the queue and WATCH are forgotten */
void server__multi_want(struct conn *conn); /* names the keys of everything queued */
/* Queues the command; the reply is written. */
enum rc server__multi_queue(struct cmd_ctx *ctx) NODISCARD;
bool server__is_own_fault(enum rc rc); /* the command's; memory and disk are nobody's */

/* pubsub.c */
struct pubsub *pubsub_new(void);
void pubsub_free(struct pubsub *pubsub);
void server__subs_done(struct conn *conn);
size_t pubsub_topic_count(const struct pubsub *pubsub, enum sub_kind kind);
size_t pubsub_receivers(struct server *server, enum sub_kind kind, struct bytes channel);
/* To those who were subscribed before the message got its number. */
void pubsub_deliver(struct server *server, enum sub_kind kind, uint64_t seq, struct bytes channel,
                    struct bytes message);

/* cmd/cmd_connection.c */
enum rc server__client_name_set(struct cmd_ctx *ctx, struct bytes name) NODISCARD;
/* A word without spaces that CLIENT LIST shows; `what` begins the text of the error. */
enum rc server__client_word_set(struct cmd_ctx *ctx, const char *what, struct bytes word,
                                struct bytes *to) NODISCARD;

/* slowlog.c */
struct slowlog *slowlog_new(void);
void slowlog_free(struct slowlog *slowlog);
void RARE slowlog_note(struct server *server, const struct conn *conn, const struct bytes *argv,
                       size_t argc, uint64_t usec);

/* cmd/cmd_eval.c: whether a command that runs a script may write. */
bool server__script_writes(struct server *server, const struct cmd *cmd, const struct bytes *argv,
                           size_t argc);
/* busy.c: whether a connection's input may be read while a script is busy. */
bool server__busy_reads(const struct conn *conn);

/* monitor.c */
void monitor_feed_lua(struct server *server, const struct conn *conn, const struct bytes *argv,
                      size_t argc);
void monitor_feed(struct server *server, const struct conn *conn, const struct bytes *argv,
                  size_t argc);
void monitor_deliver(struct server *server);

/* health.c: once a second, says in the log what has become wrong with the store, or right again. */
void server__health(struct server *server);
/* listen.c */
enum rc server__listen(struct server *server, struct ports *ports, struct err *err) NODISCARD;
void server__listen_end(struct server *server);
/* Accepting stops when there are no descriptors: until a connection was closed, or for a moment. */
void server__accept_again(struct server *server);
void server__accept_cron(struct server *server);
