// SPDX-License-Identifier: Apache-2.0
/* config_table.c - the one place where an option is described. */
#include <strings.h>

#include "server/config_changed.h"
#include "server/config_int.h"
#include "server/models.h"
#include "types/kv.h"

#include "base/banned.h"

#define FIELD(name) OPTION_FIELD(struct config, name)
#define MB OPTION_MB
#define TB OPTION_TB

enum {
    UNIX_PATH_BYTES_MAX = 107, /* sun_path without its NUL */
    LIVE_NO = OPTION_LIVE_NO,
    LIVE = OPTION_LIVE,
};

static const char *const durability_words[] = {
    [DURABILITY_ALWAYS] = "always",
    [DURABILITY_EVERYSEC] = "everysec",
    [DURABILITY_NO] = "no",
    NULL,
};
static const char *const loglevel_words[] = {
    [CONFIG_LOG_DEBUG] = "debug",
    [CONFIG_LOG_VERBOSE] = "verbose",
    [CONFIG_LOG_NOTICE] = "notice",
    [CONFIG_LOG_WARNING] = "warning",
    NULL,
};
static const char *const sanitize_words[] = {"no", "yes", "clients", NULL};
static const char *const syslog_facility_words[] = {
    "user", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7", NULL,
};
static const char *const acl_pubsub_words[] = {"allchannels", "resetchannels", NULL};
static const char *const propagation_words[] = {"ignore", "panic", "panic-on-replicas", NULL};
static const char *const diskless_load_words[] = {"disabled", "on-empty-db", "swapdb", NULL};
static const char *const endpoint_words[] = {"ip", "hostname", "unknown-endpoint", NULL};
_Static_assert(KV_NS_START == 16, "the row \"databases\" says 16");

static const struct option rows_first[] = {
    {"port", NULL, "Network", &option_int, LIVE_NO, FIELD(port), "7379", 0, UINT16_MAX,
     .help = "TCP port; 0 takes a free one"},
    {"bind", NULL, "Network", &option_list, LIVE_NO, FIELD(bind), "127.0.0.1",
     .help = "addresses to listen on"},
    {"unixsocket", NULL, "Network", &option_text, LIVE_NO, FIELD(unixsocket), "", 0,
     UNIX_PATH_BYTES_MAX, .help = "path of a Unix socket to listen on as well"},
    {"unixsocketperm", NULL, "Network", &option_octal, LIVE_NO, FIELD(unixsocketperm), "0", 0, 0777,
     .help = "its permissions, octal; 0 leaves them to the umask"},
    {"protected-mode", NULL, "Network", &option_bool, LIVE, FIELD(protected_mode), "yes",
     .help = "without a password only clients of this machine are let in"},
    {"requirepass", NULL, "Network", &option_bytes, LIVE, FIELD(requirepass), "", 0,
     CONFIG_VALUE_BYTES_MAX, .help = "password that AUTH asks for; none if empty"},
    {"tcp-backlog", NULL, "Network", &option_int, LIVE_NO, FIELD(tcp_backlog), "511", 0, INT32_MAX,
     .help = "connections the system keeps while they wait to be accepted"},
    {"busy-poll", NULL, "Network", &option_bool, LIVE, FIELD(busy_poll), "yes",
     .help = "before it sleeps the executor looks for input a moment longer: answers leave sooner, "
             "and a busy server takes some percent more CPU",
     .changed = config__busy_poll_changed},
    {"tcp-keepalive", NULL, "Network", &option_int, LIVE, FIELD(tcp_keepalive_s), "300", 0,
     INT32_MAX,
     .help = "seconds after which a silent client is asked for a sign of life; 0: never"},
    {"http-port", NULL, "Network", &option_int, LIVE_NO, FIELD(http_port), "0", 0, UINT16_MAX,
     .help = "port of /metrics for Prometheus and of /tiles; 0: off"},
    {"http-bind", NULL, "Network", &option_text, LIVE_NO, FIELD(http_bind), "127.0.0.1", 1,
     CONFIG_LIST_TEXT_BYTES_MAX, .help = "address of the HTTP port"},
    {"http-max-age", NULL, "Network", &option_int, LIVE_NO, FIELD(http_max_age_s), "60", 0,
     INT32_MAX, .help = "seconds for which browsers and proxies may keep a tile without asking"},

    {"maxclients", NULL, "Clients", &option_int, LIVE, FIELD(maxclients), "10000", 1, 1000000,
     .help = "connections at a time; one more is refused", .changed = config__maxclients_changed,
     .possible = config__maxclients_possible},
    {"timeout", NULL, "Clients", &option_int, LIVE, FIELD(timeout_s), "0", 0, INT32_MAX,
     .help = "seconds after which an idle client is closed; 0: never"},
    {"client-output-buffer-limit", NULL, "Clients", &config__limits, LIVE,
     FIELD(client_output_buffer_limit), "normal 0 0 0 replica 256mb 64mb 60 pubsub 32mb 8mb 60",
     .help = "a client that reads too slowly is closed: class, hard limit, soft limit, seconds "
             "above the soft one; the classes are normal, replica and pubsub"},
    {"maxmemory-clients", NULL, "Clients", &option_share, LIVE, FIELD(maxmemory_clients), "auto", 0,
     16 * TB,
     .help = "memory for all clients together: requests, MULTIs, replies, messages; above it the "
             "one with the most is closed. A size, a percentage of hot-memory, or 0: no limit; "
             "auto: as much as hot-memory, at least 256 MiB",
     .changed = config__clients_memory_changed},
    {"client-query-buffer-limit", NULL, "Clients", &option_size, LIVE,
     FIELD(client_query_buffer_limit), "1gb", MB, CONN_IN_BYTES_MAX, .help = "the largest request"},
    {"proto-max-bulk-len", NULL, "Clients", &option_size, LIVE, FIELD(proto_max_bulk_len), "512mb",
     MB, RESP_BULK_BYTES_MAX, .help = "the largest argument of a command",
     .changed = config__bulk_changed},

    {"busy-reply-threshold", "lua-time-limit", "Scripts", &option_int, LIVE,
     FIELD(busy_reply_threshold_ms), "5000", 0, INT32_MAX,
     .help = "milliseconds after which a script that still runs makes others hear BUSY, and can be "
             "killed; 0: never"},
    {"lua-memory", NULL, "Scripts", &option_size, LIVE, FIELD(lua_memory_bytes), "256mb", 8 * MB,
     TB,
     .help = "memory of the interpreter of scripts, and as much for that of functions: texts, "
             "values, everything",
     .changed = config__lua_memory_changed},

    {"dir", NULL, "Data", &option_text, LIVE_NO, FIELD(dir), "./data", 1, CONFIG_VALUE_BYTES_MAX,
     .help = "where the data is; made if it is missing"},
    {"hot-memory", "maxmemory", "Data", &option_size, LIVE, FIELD(hot_memory_bytes), "1gb", MB,
     16 * TB, .help = "memory for hot data; what does not fit is on disk",
     .changed = config__hot_memory_changed},
    {"maxmemory-policy", NULL, "Data", &option_fixed, LIVE, .start = "noeviction",
     .help = "noeviction, always: no key is removed because memory is short",
     .why = "argument must be 'noeviction': what does not fit in memory is on disk, and no key is "
            "ever removed for it"},
    {"durability", "appendfsync", "Data", &option_word, LIVE, FIELD(durability), "everysec",
     .words = durability_words,
     .help = "always: a reply means on disk; everysec: synced every second; no: when the system "
             "likes",
     .changed = config__durability_changed},
    {"appendonly", NULL, "Data", &option_fixed, LIVE, .start = "yes",
     .help = "yes, always: every change is in the journal before its reply leaves",
     .why = "argument must be 'yes': every change is in the journal before its reply leaves"},
    {"save", NULL, "Data", &option_fixed, LIVE, .start = "",
     .help = "empty, always: there are no snapshots, the journal and the engine hold everything",
     .why = "argument must be empty: there are no snapshots, the journal and the engine hold "
            "everything"},
    {"databases", NULL, "Data", &option_fixed, LIVE_NO, .start = "16",
     .help = "numbers that SELECT takes from the start",
     .why = "argument must be 16: the number of databases is fixed"},
    {"active-expire", NULL, "Data", &option_bool, LIVE, FIELD(active_expire), "yes",
     .help = "keys whose time is over are removed though nobody asks for them",
     .changed = config__active_expire_changed},
    {"engine", NULL, "Data", &config__engine, LIVE_NO, FIELD(engine), "rocksdb",
     .help = "what holds the data on disk: rocksdb"},
    {"engine-cache", NULL, "Data", &option_size, LIVE_NO, FIELD(cache_bytes), "64mb", MB, 16 * TB,
     .help = "memory for blocks of the engine, beside hot-memory"},
    {"disk-reserve", NULL, "Data", &option_size, LIVE_NO, FIELD(disk_reserve_bytes), "1gb", 0,
     1024 * TB, .help = "kept free on disk; below it only deleting commands run"},
    {"full-reserve", NULL, "Data", &option_size, LIVE_NO, FIELD(full_reserve_bytes), "64mb", 0, TB,
     .help = "held as a file, at most an eighth of the disk: for deletes when the disk is full"},
    {"flush-age", NULL, "Data", &option_time, LIVE_NO, FIELD(flush_age_ms), "60s", 1, 86400000,
     .help = "a change is in the engine at the latest after this time"},
    {"loaders", NULL, "Data", &option_int, LIVE_NO, FIELD(loader_count), "1", 1, 64,
     .help = "threads that read cold data"},
};

static const struct option rows_last[] = {
    {"hash-max-listpack-entries", "hash-max-ziplist-entries", "Encodings", &option_int, LIVE,
     FIELD(hash_max_listpack_entries), "512", 0, INT64_MAX,
     .help = "OBJECT ENCODING calls a hash with more fields a hashtable",
     .changed = config__encodings_changed},
    {"hash-max-listpack-value", "hash-max-ziplist-value", "Encodings", &option_int, LIVE,
     FIELD(hash_max_listpack_value), "64", 0, INT64_MAX,
     .help = "the same for a hash with a longer field or value",
     .changed = config__encodings_changed},
    {"list-max-listpack-size", "list-max-ziplist-size", "Encodings", &option_int, LIVE,
     FIELD(list_max_listpack_size), "-2", INT32_MIN, INT32_MAX,
     .help = "taken for clients that set it: OBJECT ENCODING calls every list a quicklist, as "
             "Redis 7.0 does"},
    {"set-max-intset-entries", NULL, "Encodings", &option_int, LIVE, FIELD(set_max_intset_entries),
     "512", 0, INT64_MAX, .help = "OBJECT ENCODING calls a set of more integers a hashtable",
     .changed = config__encodings_changed},
    {"zset-max-listpack-entries", "zset-max-ziplist-entries", "Encodings", &option_int, LIVE,
     FIELD(zset_max_listpack_entries), "128", 0, INT64_MAX,
     .help = "OBJECT ENCODING calls a sorted set with more members a skiplist",
     .changed = config__encodings_changed},
    {"zset-max-listpack-value", "zset-max-ziplist-value", "Encodings", &option_int, LIVE,
     FIELD(zset_max_listpack_value), "64", 0, INT64_MAX,
     .help = "the same for a sorted set with a longer member",
     .changed = config__encodings_changed},

    {"notify-keyspace-events", NULL, "Watching", &config__events, LIVE,
     FIELD(notify_keyspace_events), "",
     .help = "events that are published: K and E (by key, by event), then g$lshzxetmdn or A for "
             "all but m and n; none if empty",
     .changed = config__events_changed},
    {"slowlog-log-slower-than", NULL, "Watching", &option_int, LIVE,
     FIELD(slowlog_log_slower_than_us), "10000", -1, INT64_MAX,
     .help = "microseconds from which SLOWLOG remembers a command; 0: all, -1: none"},
    {"slowlog-max-len", NULL, "Watching", &option_int, LIVE, FIELD(slowlog_max_len), "128", 0,
     INT64_MAX, .help = "commands that SLOWLOG remembers"},
    {"loglevel", NULL, "Watching", &option_word, LIVE, FIELD(loglevel), "notice",
     .words = loglevel_words, .help = "the least that is logged",
     .changed = config__loglevel_changed},
    {"logfile", NULL, "Watching", &option_text, LIVE_NO, FIELD(logfile), "", 0,
     CONFIG_VALUE_BYTES_MAX, .help = "where the log goes; standard error if empty"},

#define KEPT(id, name, alias, kind, live, start, min, max, words, why) \
    {name,  alias, CONFIG_GROUP_KEPT,                                  \
     kind,  live,  FIELD(kept[CONFIG_KEPT_##id].number),               \
     start, min,   max,                                                \
     words, why},
#define ONLY(...)
#include "server/config_redis.def"
#undef ONLY
#undef KEPT

#define KEPT(...)
#define ONLY(name, alias, live, value, must, reason)         \
    {name, alias,          CONFIG_GROUP_ONLY, &option_fixed, \
     live, .start = value, .help = reason,    .why = "argument must be " must ": " reason},
#include "server/config_redis.def"
#undef ONLY
#undef KEPT
};

/* The models' stand between those of the server: see config__row(). */
struct option_rows {
    const struct option *row;
    size_t count;
    size_t model; /* MODEL_COUNT: the server's */
};
enum { TABLES = MODEL_COUNT + 2 };

static struct option_rows table_at(size_t index)
{
    if (index == 0)
        return (struct option_rows){rows_first, ARRAY_LEN(rows_first), MODEL_COUNT};
    if (index == TABLES - 1)
        return (struct option_rows){rows_last, ARRAY_LEN(rows_last), MODEL_COUNT};
    return (struct option_rows){models[index - 1]->options, models[index - 1]->option_count,
                                index - 1};
}

const struct option *config__row(size_t index)
{
    for (size_t i = 0; i < TABLES; i++) {
        struct option_rows table = table_at(i);
        if (index < table.count)
            return &table.row[index];
        index -= table.count;
    }
    return NULL;
}

/* The table that the row is in; *ret_before: how many rows stand before it in others. */
static struct option_rows table_of(const struct option *row, size_t *ret_before)
{
    *ret_before = 0;
    for (size_t i = 0;; i++) {
        ASSERT(i < TABLES);
        struct option_rows table = table_at(i);
        if (row >= table.row && row < table.row + table.count)
            return table;
        *ret_before += table.count;
    }
}

size_t config__row_index(const struct option *row)
{
    size_t before;
    struct option_rows table = table_of(row, &before);
    return before + (size_t)(row - table.row);
}

size_t config__row_model(const struct option *row)
{
    size_t ignored;
    return table_of(row, &ignored).model;
}

void *config__field(const struct option *row, const struct config *config)
{
    size_t model = config__row_model(row);
    const void *options = model == MODEL_COUNT ? config : config->model[model];
    return (uint8_t *)(uintptr_t)options + row->offset;
}

enum rc config__row_set(const struct option *row, struct config *config, const struct bytes *word,
                        size_t word_count, struct err *err)
{
    const struct option_kind *kind = row->kind;
    if (word_count == 0 || (word_count > 1 && !kind->many))
        return err_set(err, RC_INVALID, "wrong number of arguments");
    for (size_t i = 0; i < word_count; i++)
        if (!kind->zeros && word[i].len > 0 && memchr(word[i].ptr, 0, word[i].len))
            return err_set(err, RC_INVALID, "argument must not contain a zero byte");
    return kind->set(row, config__field(row, config), word, word_count, err);
}

void config__row_text(const struct option *row, const struct config *config,
                      enum option_style style, struct buf *to)
{
    row->kind->text(row, config__field(row, config), style, to);
}

bool config__row_is_redis_only(const struct option *row)
{
    return strcmp(row->group, CONFIG_GROUP_KEPT) == 0 || strcmp(row->group, CONFIG_GROUP_ONLY) == 0;
}

static bool name_is(struct bytes name, const char *word)
{
    return word && name.len == strlen(word) &&
           strncasecmp((const char *)name.ptr, word, name.len) == 0;
}

const struct option *config__row_find(struct bytes name, const char **ret_name)
{
    const struct option *row;
    for (size_t i = 0; (row = config__row(i)); i++) {
        bool is_alias = name_is(name, row->alias);
        if (!is_alias && !name_is(name, row->name))
            continue;
        if (ret_name)
            *ret_name = is_alias ? row->alias : row->name;
        return row;
    }
    return NULL;
}

const char *durability_name(enum durability durability)
{
    return durability_words[durability];
}

uint64_t config_clients_bytes(const struct config *config)
{
    const int64_t value = config->maxmemory_clients;
    const uint64_t hot_bytes = config->hot_memory_bytes;
    if (value == OPTION_SHARE_AUTO)
        return hot_bytes > CLIENTS_AUTO_BYTES_MIN ? hot_bytes : CLIENTS_AUTO_BYTES_MIN;
    if (value < 0)
        return (uint64_t)((double)hot_bytes / 100 * (double)-value);
    return value > 0 ? (uint64_t)value : UINT64_MAX;
}

enum log_level config_log_level(const struct config *config)
{
    switch (config->loglevel) {
    case CONFIG_LOG_DEBUG:
    case CONFIG_LOG_VERBOSE:
        return LOG_DEBUG;
    case CONFIG_LOG_NOTICE:
        return LOG_INFO;
    case CONFIG_LOG_WARNING:
        break;
    }
    return LOG_WARN;
}
