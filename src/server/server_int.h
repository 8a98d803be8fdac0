/* server_int.h - what the files of server/ share.
 *
 *   server.c    life, signals, the turn          listen.c    listening sockets
 *   conn.c      a connection: bytes in and out   batch.c     parsed commands, run in the turn
 *   request.c   a command that waits, as a task  dispatch.c  what a command may do, and its limits
 *   multi.c     MULTI, EXEC, WATCH               effects.c   what leaves when a commit is safe
 *   listen_keys.c  who wants to know of a key    pubsub.c    channels and patterns
 *
 * Threads: the executor. */
#pragma once

#include "base/table.h"
#include "base/version.h"
#include "fs/fs.h"
#include "landing/landing.h"
#include "partition/part.h"
#include "server/cmd.h"
#include "server/config.h"
#include "server/resp.h"
#include "server/server.h"
#include "store/task.h"
#include "tile/tile.h"
#include "types/expire.h"

#define REDIS_VERSION "7.0.15" /* whose protocol and answers are followed */

enum {
    BATCH_CALLS_MAX = 32,
    OUT_SPARES_MAX = 8,
    BATCH_CALLS_A_CONN = 16,
    BATCH_ARGS_MAX = 1024, /* held without an allocation */
    TURN_CALLS_MAX = 416,  /* noted; a batch more than a turn takes */
};

/* ---- effects: what a command does besides rows and its reply ---- */

/* Records, each: kind(1) ‖ what the kind says. They leave when the commit is safe. */
struct effects {
    struct buf buf;
};

/* ---- listening for changes of keys ---- */

struct key_ear;
enum ear_kind { EAR_WATCH, EAR_BLOCK };
enum { EAR_KINDS = 2 };
struct key_listener { /* one client's interest in one key; embedded or allocated by its owner */
    struct key_ear *ear;
    enum ear_kind kind;
    /* EAR_WATCH: in which database; the key was there, or had expired, when it began */
    uint32_t index;
    bool existed, was_dead;
    bool swapped;                     /* SWAPDB has put another namespace there since */
    bool *touched;                    /* EAR_WATCH: set when the key changes */
    unsigned wants;                   /* EAR_BLOCK: the type, as KV_EVENT_LIST */
    void *owner;                      /* struct conn (WATCH) or struct request */
    struct key_listener *prev, *next; /* of the same key, in order of arrival */
    struct key_listener *owner_next;  /* of the same owner */
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
    size_t bytes;
    /* WATCH */
    struct key_listener *watching; /* by owner_next */
    bool touched;                  /* a watched key has changed */
};

/* ---- pub/sub: what a client is subscribed to ---- */

enum sub_kind { SUB_CHANNEL, SUB_PATTERN, SUB_SHARD };
enum { SUB_KINDS = 3 };
struct subscription;
struct subs {
    struct subscription *first; /* of the client */
    size_t count[SUB_KINDS];
};

/* ---- connections ---- */

struct hold { /* replies from `start` on leave when the LSN is durable */
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
    struct loop_watch watch;
    struct resp_parser parser;
    struct buf in;
    struct resp_out out;
    uint64_t out_base;
    size_t out_sent; /* of out.buf */
    struct hold *hold;
    size_t hold_count, hold_cap;
    struct conn *held_prev, *held_next; /* of those with held replies */
    struct request *parked;
    struct ns *ns;
    struct multi multi;
    struct subs subs;
    size_t batch_calls;  /* in the batch and not run */
    bool held_back;      /* it has input, and does not take its replies */
    bool parsed;         /* the parser holds a whole command that found no place in the batch */
    uint64_t turn;       /* in which it last ran a command */
    uint64_t turn_start; /* where that turn's replies begin */
    bool queued;         /* in the server's list of those with input */
    bool touched;        /* in the server's list of those with output */
    bool eof;            /* the client sends no more */
    bool quit;           /* nothing more is read or run; closed when everything is sent */
    bool broken;         /* nothing more is sent; closed at the next chance */
    bool authed;
    bool no_evict, monitor, paused;
    enum reply_mode reply_mode;
    struct conn *queued_next, *touched_next;
    struct conn *prev, *next;
    /* for CLIENT */
    uint64_t id;
    uint64_t start_ms, last_ms;
    const struct cmd *last_cmd;
    struct bytes name; /* owned */
    char peer[80], local[80];
    bool is_unix;
    uint64_t soft_since_ms; /* over its soft output limit since; 0: not */
};

struct call { /* a parsed command of a connection */
    struct conn *conn;
    const struct cmd *cmd; /* NULL: unknown */
    const struct bytes *argv;
    size_t argc;
    size_t in_start; /* where it begins in the connection's input */
};

struct request { /* a command that waits */
    struct task task;
    struct conn *conn;
    const struct cmd *cmd;
    struct bytes *argv; /* owned, with the bytes */
    size_t argc;
    struct resp_out reply;
    struct key_listener *listening; /* of a command that blocks, or builds; by owner_next */
    struct bytes turn_key;          /* whose turn it has; during a run */
    void (*give_up)(struct resp_out *reply);
    struct bytes *ahead; /* keys of the commands behind it; owned, with the bytes. NULL: none */
    size_t ahead_count;
    bool blocked;                /* it waits for keys, or for a time: cmd_block() */
    bool unblocked;              /* by CLIENT UNBLOCK */
    bool unblock_error;          /* CLIENT UNBLOCK ... ERROR */
    unsigned step;               /* of a command that waits several times */
    struct land_waiter land;     /* for a lift, or a lander's pass */
    struct tile_waiter tile;     /* for shards */
    struct request_aside *aside; /* of a command that may build something large; NULL: of others */
    void *state;                 /* of a command that goes on in many commits; NULL: none */
    void (*state_free)(void *state);
};

/* ---- the server ---- */

struct turn_call { /* a reply that has to be taken back if the turn cannot be written */
    struct conn *conn;
    uint64_t start, end; /* in the connection's output */
};

struct cmd_stats {
    uint64_t calls, usec, rejected, failed;
};

struct server_watch { /* what was last said about the store's health */
    uint64_t next_ns;
    bool read_only, disk_low, flush_failing, sweep_failing;
};

struct slowlog;
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
    struct landing *landing;
    struct part *part;
    struct fs *fs;
    struct tiles *tiles;
    struct queue_lease *queue_lease;
    struct cmd_table *cmds;
    struct loop_watch listener[LISTENERS_MAX];
    size_t listener_count;
    uint64_t accept_again_ns; /* until then nobody is accepted; 0: everybody is */
    bool accept_failing;      /* and it was logged */
    struct loop_watch signals;
    uint16_t port;
    uint64_t start_ms;
    char run_id[41]; /* of this process, as Redis has one */
    struct conn *conns;
    size_t conn_count;
    size_t conn_count_max;
    uint64_t next_conn_id;
    struct conn *queued_first, *queued_last; /* with input to look at */
    struct conn *touched;                    /* with output to look at */
    struct conn *held;                       /* with replies held back */
    uint64_t durable_seen_lsn;
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
    struct store_ahead ahead; /* keys of the batch */
    uint64_t turn;
    struct turn_call *turn_call;
    size_t turn_call_count;
    struct effects effects;  /* of the turn's commands and jobs, in the order of commits */
    size_t job_effects_from; /* where those of the sweep's step begin */
    bool collecting;         /* a command or a job runs: what it tells is kept */
    struct held_effects *held_effects, **held_effects_tail; /* durability always */
    struct table ears;                                      /* keys somebody listens for */
    size_t watch_count, block_count;
    struct aside aside_asked; /* of a command that is not a request yet: see cmd_aside() */
    uint64_t ready_seq;
    bool woken;      /* blocked commands that run before the next one */
    unsigned notify; /* mask of keyspace events; 0: none */
    struct pubsub *pubsub;
    uint64_t message_seq; /* of the last message or event that was collected */
    struct http *http;    /* NULL: no port */
    struct slowlog *slowlog;
    struct buf monitor_feed;
    size_t monitor_count;
    struct cmd_stats *cmd_stats; /* by row of commands.def */
    struct clock_steps steps;
    uint64_t now_ns;        /* of the last step */
    uint64_t conns_cron_ms; /* when clients were last looked at */
    uint64_t pause_end_ms;
    uint64_t web_warned_ms; /* when it was last told that a browser had tried */
    bool pause_writes_only;
    bool busy;                     /* another turn at once */
    bool flush_asked, evict_asked; /* to be done after the turn */
    uint64_t flush_segment;        /* what the last one asked for waits for */
    uint64_t flush_mark_seen, last_save_ms;
    unsigned signal_count;
    struct server_watch watch;
    struct {
        uint64_t connection_count, rejected_count, command_count, error_count;
        uint64_t input_bytes, output_bytes, pubsub_messages;
        uint64_t blocked_runs; /* of commands that had blocked, to see whether they can go on */
        uint64_t read_count, send_count; /* calls that moved bytes */
        uint64_t ops_sampled_count, ops_sampled_ms, ops_per_s;
        uint64_t input_sampled_bytes, input_bytes_per_s, output_sampled_bytes, output_bytes_per_s;
        uint64_t hot_bytes_peak;
    } stats;
};

/* conn.c */
void server__conn_new(struct server *server, int fd, bool is_unix); /* takes the descriptor */
void server__conn_close(struct conn *conn);                         /* and frees it */
/* Closes it after the replies so far; commands behind this one do not run. */
void server__conn_quit(struct conn *conn);
/* The server ends: everything the client has sent is taken, and nothing after that. */
void server__conn_finish(struct conn *conn);
void server__conn_touch(struct conn *conn); /* its output is looked at after the turn */
void server__conn_queue(struct conn *conn); /* its input is looked at in the turn */
void server__conns_settle(struct server *server);
void server__conns_cron(struct server *server); /* idle timeouts, output limits */
uint64_t server__conn_out_end(const struct conn *conn);
/* A reply is about to be written: with a spare buffer, if there is one and the connection has none.
 */
void server__conn_out_ready(struct conn *conn);
void server__out_spares_free(struct server *server, size_t count); /* up to so many */
/* Replies from `start` on are not sent before the LSN is durable. */
void server__conn_hold(struct conn *conn, uint64_t lsn, uint64_t start);
void server__holds_look(struct server *server); /* sends what has become durable */
/* CLIENT REPLY: whether the reply of this command is for the client; once a command. */
bool server__reply_is_wanted(struct conn *conn, const struct cmd *cmd);
/* An error reply of our own. */
void server__conn_error(struct conn *conn, const char *prefix, const char *text);
/* Writes a push or a message; output limits of subscribers apply. */
void server__conn_push(struct conn *conn, struct bytes bytes);

/* batch.c */
bool server__clients(void *server, bool room);
void server__turn_end(void *server, enum rc rc, const struct err *err);

/* dispatch.c */
/* Everything between a parsed command and its handler: limits, AUTH, MULTI, pauses. */
enum rc server__dispatch(struct cmd_ctx *ctx) NODISCARD;
void server__call_stats(struct server *server, const struct cmd *cmd, uint64_t usec, enum rc rc);
void server_stats_reset(struct server *server);

/* request.c */
/* False: no memory; nothing happened. */
bool server__request_park(struct conn *conn, const struct call *call) NODISCARD;
/* These keys will be needed by the commands behind it: they are loaded along with its own. */
void server__request_ahead(struct request *request, const struct bytes *key, size_t count);
void server__request_cancel(struct request *request); /* and frees it */
void server__request_free(struct request *request);
void server__requests_done(struct server *server); /* those kept for later */
/* Arguments and their bytes in one allocation. NULL: no memory. */
struct bytes *server__args_copy(const struct bytes *argv, size_t argc);
/* CLIENT UNBLOCK; false: it does not wait for keys. */
bool server__request_unblock(struct request *request, bool error);
bool server__request_blocked(const struct request *request);
/* It waits for keys, or goes on in many commits: it may take for ever. */
bool server__request_is_long(const struct request *request);
/* Those who wait for the end of a CLIENT PAUSE run. */
void server__pause_end(struct server *server);

/* server.c */
void server__sweep_set(struct server *server); /* whether keys expire by themselves just now */

/* request_aside.c */
void server__request_aside_free(struct request_aside *aside); /* NULL is allowed */

/* effects.c */
void effects_init(struct effects *effects);
void effects_done(struct effects *effects);
/* The hooks of struct kv_hooks. */
void server__key_changed(void *server, struct ns *ns, struct bytes key, enum kv_event kind,
                         const char *event, bool exists);
void server__ns_flushed(void *server, struct ns *ns, bool swapped);
/* PUBLISH from a command: leaves with its commit. */
void server__publish_later(struct server *server, enum sub_kind kind, struct bytes channel,
                           struct bytes message);
/* The command ended well: watchers and blocked clients hear of what was collected from `from`. */
void server__effects_touch(struct server *server, size_t from);
/* The commit is safe: messages leave, and the list is emptied. */
void server__effects_deliver(struct server *server, struct effects *effects);
/* Those of the turn's direct calls, at once (lsn 0) or when the LSN is durable. */
void server__effects_leave(struct server *server, uint64_t lsn);
void server__effects_held_look(struct server *server);
void server__effects_held_done(struct server *server);
/* Around the attempts of a job that changes keys, as struct expire_options wants it. */
void server__job_enter(void *server);
void server__job_leave(void *server, enum rc rc);
void server__job_safe(void *server, enum rc rc);
void server__listening_update(struct server *server); /* kv.listening follows who is interested */

/* listen_keys.c */
void server__ears_init(struct server *server);
void server__ears_done(struct server *server);
/* RC_NOMEM. The listener belongs to its owner's list from here on. */
enum rc server__ear_add(struct server *server, struct ns *ns, struct bytes key, enum ear_kind kind,
                        void *owner, struct key_listener **list, struct err *err) NODISCARD;
void server__ears_free(struct server *server, struct key_listener **list);
bool server__ear_has(struct server *server, enum ear_kind kind, const void *owner, struct ns *ns,
                     struct bytes key);
void server__ear_touch(struct server *server, struct ns *ns, struct bytes key, enum kv_event class,
                       bool exists);
void server__ear_touch_ns(struct server *server, struct ns *ns, bool swapped);
/* Changes were taken back: who blocks looks again whether there is something. */
void server__ears_wake(struct server *server);
/* It has run and found nothing: the turns it has go to the next. True: one came back at once, and
 * it has to run again. */
bool server__turns_pass(struct server *server, const struct key_listener *list);
/* The key whose turn it has, of several the one that was filled first. False: none. */
bool server__turn_key(const struct key_listener *list, struct bytes *ret_key);
bool server__turn_is_others(struct server *server, const struct request *request, struct ns *ns,
                            struct bytes key);
struct bytes server__ear_key(const struct key_listener *listener, struct ns **ret_ns);

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

/* cmd/cmd_tile_plain.c */
/* The handler; in a database of tiles, that of plain commands on them. */
enum rc server__cmd_run(struct cmd_ctx *ctx) NODISCARD;

/* cmd/cmd_connection.c */
enum rc server__client_name_set(struct cmd_ctx *ctx, struct bytes name) NODISCARD;

/* slowlog.c */
struct slowlog *slowlog_new(void);
void slowlog_free(struct slowlog *slowlog);
void slowlog_note(struct server *server, const struct conn *conn, const struct bytes *argv,
                  size_t argc, uint64_t usec);

/* monitor.c */
void monitor_feed(struct server *server, const struct conn *conn, const struct bytes *argv,
                  size_t argc);
void monitor_deliver(struct server *server);

/* watch.c: once a second, says in the log what has become wrong with the store, or right again. */
void server__watch(struct server *server);
/* listen.c */
enum rc server__listen(struct server *server, struct err *err) NODISCARD;
void server__listen_end(struct server *server);
/* Accepting stops when there are no descriptors: until a connection was closed, or for a moment. */
void server__accept_again(struct server *server);
void server__accept_cron(struct server *server);
