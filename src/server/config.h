// SPDX-License-Identifier: Apache-2.0
/* config.h - every option of terraced. Rows (command/option.h), the server's in config_table.c and
 * a model's in its folder, say name, kind, default, limits, whether it can change while the server
 * runs, and what it is for. The command line, the configuration file, CONFIG and
 * docs/configuration.md are made from them.
 *
 *   terraced [FILE | -] [--name value ...] [-]
 *
 * The file is read first, standard input ("-") next, the command line last: the later wins.
 *
 * Ownership: the caller owns the struct; its strings and lists are its own. They die with the next
 * config_set(), so whoever keeps one copies it.
 * Threads: the executor; before it starts, any. */
#pragma once

#include <stdio.h>

#include "base/file.h"
#include "base/log.h"
#include "command/command.h"
#include "command/option.h"
#include "store/turns.h"

enum config_client_class { /* of client-output-buffer-limit */
                           CONFIG_CLIENT_NORMAL,
                           CONFIG_CLIENT_REPLICA,
                           CONFIG_CLIENT_PUBSUB,
                           CONFIG_CLIENT_CLASSES,
};

struct config_output_limit {
    uint64_t hard_bytes; /* 0: none */
    uint64_t soft_bytes; /* 0: none */
    uint64_t soft_s;     /* above soft_bytes for longer than this: closed */
};

enum config_notify { /* of notify_keyspace_events, beside enum kv_event */
                     CONFIG_NOTIFY_KEYSPACE = 1 << 16, /* K */
                     CONFIG_NOTIFY_KEYEVENT = 1 << 17, /* E */
                     CONFIG_NOTIFY_MODULE = 1 << 18,   /* d; never sent: there are no modules */
};

enum config_loglevel {
    CONFIG_LOG_DEBUG,
    CONFIG_LOG_VERBOSE,
    CONFIG_LOG_NOTICE,
    CONFIG_LOG_WARNING,
};

enum config_kept { /* options of Redis that mean nothing here */
#define KEPT(id, ...) CONFIG_KEPT_##id,
#define ONLY(...)
#include "server/config_redis.def"
#undef ONLY
#undef KEPT
                   CONFIG_KEPT_COUNT,
};

union config_slot {
    bool yes;
    int64_t number;
    char *text;
    struct bytes bytes;
};

struct config {
    /* network */
    uint16_t port;           /* 0: any free one */
    struct option_list bind; /* at least one */
    char *unixsocket;        /* path; "": none */
    uint32_t unixsocketperm; /* 0: what the umask leaves */
    bool protected_mode;
    struct bytes requirepass; /* owned; may hold NUL; empty: none */
    uint32_t tcp_backlog;
    uint32_t tcp_keepalive_s; /* 0: off */
    bool busy_poll;
    uint32_t busy_reply_threshold_ms;
    size_t lua_memory_bytes; /* of each interpreter */
    uint16_t http_port;      /* 0: off */
    char *http_bind;
    uint32_t http_max_age_s;

    /* clients */
    uint32_t maxclients;
    uint32_t timeout_s; /* 0: never */
    struct config_output_limit client_output_buffer_limit[CONFIG_CLIENT_CLASSES];
    int64_t maxmemory_clients; /* bytes; 0: no limit; negative: percent of hot-memory, or AUTO */
    uint64_t client_query_buffer_limit; /* bytes */
    uint64_t proto_max_bulk_len;        /* bytes */

    /* data */
    char *dir;
    size_t hot_memory_bytes;
    enum durability durability;
    uint64_t disk_reserve_bytes;
    uint64_t full_reserve_bytes;
    const struct engine_ops *engine;
    size_t cache_bytes;
    uint32_t loader_count;
    uint64_t flush_age_ms;
    bool active_expire;

    /* what OBJECT ENCODING answers */
    uint64_t hash_max_listpack_entries, hash_max_listpack_value;
    uint64_t set_max_intset_entries;
    uint64_t zset_max_listpack_entries, zset_max_listpack_value;
    int32_t list_max_listpack_size; /* entries; negative: a size class */

    /* watching */
    unsigned notify_keyspace_events;    /* enum kv_event, enum config_notify */
    int64_t slowlog_log_slower_than_us; /* negative: off; 0: every command */
    uint64_t slowlog_max_len;
    enum config_loglevel loglevel;
    char *logfile; /* "": standard error */

    union config_slot kept[CONFIG_KEPT_COUNT];

    /* not options */
    char *file;                  /* absolute; "": none was given */
    struct files *files;         /* where files are read and rewritten */
    void *model[CMD_MODELS_MAX]; /* the options of each model: model.options_bytes, owned */
    void (*changed)(void *arg, const struct option *row); /* config_listen() */
    void *changed_arg;
};

void config_init(struct config *config, struct files *files); /* the defaults; NULL: real files */
void config_done(struct config *config);

/* What the command line asks for. CONFIG_WISH_VERSION is answered by main.c. */
enum config_wish {
    CONFIG_WISH_RUN,
    CONFIG_WISH_HELP,
    CONFIG_WISH_VERSION,
    CONFIG_WISH_MARKDOWN, /* docs/configuration.md */
    CONFIG_WISH_EXAMPLE,  /* terrace.conf.example */
};

/* The file, standard input and the command line, as far as argv names them. RC_INVALID: an unknown
 * option, a missing or a wrong value; RC_NOT_FOUND, RC_IO: a file. The text says where and what. */
enum rc config_load(struct config *config, int argc, char **argv, enum config_wish *ret_wish,
                    struct err *err) NODISCARD;
/* The lines of a configuration file; `source` is its name in errors. */
enum rc config_parse(struct config *config, struct bytes text, const char *source,
                     struct err *err) NODISCARD;
void config_print(enum config_wish wish, FILE *to);

/* From now on config_set() asks option.possible(), and calls `changed` for every option that has
 * changed, after all of them have been. NULL: it does not. */
void config_listen(struct config *config, void (*changed)(void *arg, const struct option *row),
                   void *arg);
/* CONFIG SET: all pairs or none. The text of RC_INVALID is Redis's. */
enum rc config_set(struct config *config, const struct bytes *name_value, size_t pair_count,
                   struct err *err) NODISCARD;
/* CONFIG GET: every name and alias that matches a pattern, once, in the order of the table. A name
 * that was asked for as such is given back as it was spelled. */
void config_get(const struct config *config, const struct bytes *pattern, size_t pattern_count,
                void (*fn)(void *arg, struct bytes name, struct bytes value), void *arg);
/* CONFIG REWRITE: keeps comments, order and lines that did not change. */
enum rc config_rewrite(const struct config *config, struct err *err) NODISCARD;

enum log_level config_log_level(const struct config *config);
/* maxmemory-clients as a number of bytes; UINT64_MAX: no limit. */
uint64_t config_clients_bytes(const struct config *config);
const char *durability_name(enum durability durability);
