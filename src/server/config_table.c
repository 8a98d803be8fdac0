// SPDX-License-Identifier: Apache-2.0
/* config_table.c - the one place where an option is described. */
#include <strings.h>

#include "server/config_int.h"
#include "types/kv.h"

#include "base/banned.h"

#define FIELD(name) \
    .offset = offsetof(struct config, name), .width = sizeof(((struct config *)0)->name)
#define KB INT64_C(1024)
#define MB (KB * 1024)
#define GB (MB * 1024)
#define TB (GB * 1024)

enum {
    UNIX_PATH_BYTES_MAX = 107, /* sun_path without its NUL */
    LIVE_NO = false,
    LIVE = true,
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
static const char *const algorithm_words[] = {
    [CONFIG_SQUEEZE_NONE] = "none", [CONFIG_SQUEEZE_GZIP] = "gzip", [CONFIG_SQUEEZE_LZ4] = "lz4",
    [CONFIG_SQUEEZE_ZSTD] = "zstd", [CONFIG_SQUEEZE_AUTO] = "auto", NULL,
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

static const struct config_row rows[] = {
    {"port", NULL, "Network", CONFIG_INT, LIVE_NO, FIELD(port), "7379", 0, UINT16_MAX,
     .help = "TCP port; 0 takes a free one"},
    {"bind", NULL, "Network", CONFIG_LIST, LIVE_NO, FIELD(bind), "127.0.0.1",
     .help = "addresses to listen on"},
    {"unixsocket", NULL, "Network", CONFIG_TEXT, LIVE_NO, FIELD(unixsocket), "", 0,
     UNIX_PATH_BYTES_MAX, .help = "path of a Unix socket to listen on as well"},
    {"unixsocketperm", NULL, "Network", CONFIG_OCTAL, LIVE_NO, FIELD(unixsocketperm), "0", 0, 0777,
     .help = "its permissions, octal; 0 leaves them to the umask"},
    {"protected-mode", NULL, "Network", CONFIG_BOOL, LIVE, FIELD(protected_mode), "yes",
     .help = "without a password only clients of this machine are let in"},
    {"requirepass", NULL, "Network", CONFIG_BYTES, LIVE, FIELD(requirepass), "", 0,
     CONFIG_VALUE_BYTES_MAX, .help = "password that AUTH asks for; none if empty"},
    {"tcp-backlog", NULL, "Network", CONFIG_INT, LIVE_NO, FIELD(tcp_backlog), "511", 0, INT32_MAX,
     .help = "connections the system keeps while they wait to be accepted"},
    {"busy-poll", NULL, "Network", CONFIG_BOOL, LIVE, FIELD(busy_poll), "yes",
     .help = "before it sleeps the executor looks for input a moment longer: answers leave sooner, "
             "and a busy server takes some percent more CPU"},
    {"tcp-keepalive", NULL, "Network", CONFIG_INT, LIVE, FIELD(tcp_keepalive_s), "300", 0,
     INT32_MAX,
     .help = "seconds after which a silent client is asked for a sign of life; 0: never"},
    {"http-port", NULL, "Network", CONFIG_INT, LIVE_NO, FIELD(http_port), "0", 0, UINT16_MAX,
     .help = "port of /metrics for Prometheus and of /tiles; 0: off"},
    {"http-bind", NULL, "Network", CONFIG_TEXT, LIVE_NO, FIELD(http_bind), "127.0.0.1", 1,
     CONFIG_LIST_TEXT_BYTES_MAX, .help = "address of the HTTP port"},
    {"http-max-age", NULL, "Network", CONFIG_INT, LIVE_NO, FIELD(http_max_age_s), "60", 0,
     INT32_MAX, .help = "seconds for which browsers and proxies may keep a tile without asking"},

    {"maxclients", NULL, "Clients", CONFIG_INT, LIVE, FIELD(maxclients), "10000", 1, 1000000,
     .help = "connections at a time; one more is refused"},
    {"timeout", NULL, "Clients", CONFIG_INT, LIVE, FIELD(timeout_s), "0", 0, INT32_MAX,
     .help = "seconds after which an idle client is closed; 0: never"},
    {"client-output-buffer-limit", NULL, "Clients", CONFIG_LIMITS, LIVE,
     FIELD(client_output_buffer_limit), "normal 0 0 0 replica 256mb 64mb 60 pubsub 32mb 8mb 60",
     .help = "a client that reads too slowly is closed: class, hard limit, soft limit, seconds "
             "above the soft one; the classes are normal, replica and pubsub"},
    {"maxmemory-clients", NULL, "Clients", CONFIG_SHARE, LIVE, FIELD(maxmemory_clients), "auto", 0,
     16 * TB,
     .help = "memory for all clients together: requests, MULTIs, replies, messages; above it the "
             "one with the most is closed. A size, a percentage of hot-memory, or 0: no limit; "
             "auto: as much as hot-memory, at least 256 MiB"},
    {"client-query-buffer-limit", NULL, "Clients", CONFIG_SIZE, LIVE,
     FIELD(client_query_buffer_limit), "1gb", MB, CONN_IN_BYTES_MAX, .help = "the largest request"},
    {"proto-max-bulk-len", NULL, "Clients", CONFIG_SIZE, LIVE, FIELD(proto_max_bulk_len), "512mb",
     MB, RESP_BULK_BYTES_MAX, .help = "the largest argument of a command"},

    {"dir", NULL, "Data", CONFIG_TEXT, LIVE_NO, FIELD(dir), "./data", 1, CONFIG_VALUE_BYTES_MAX,
     .help = "where the data is; made if it is missing"},
    {"hot-memory", "maxmemory", "Data", CONFIG_SIZE, LIVE, FIELD(hot_memory_bytes), "1gb", MB,
     16 * TB, .help = "memory for hot data; what does not fit is on disk"},
    {"maxmemory-policy", NULL, "Data", CONFIG_FIXED, LIVE, .start = "noeviction",
     .help = "noeviction, always: no key is removed because memory is short",
     .why = "argument must be 'noeviction': what does not fit in memory is on disk, and no key is "
            "ever removed for it"},
    {"durability", "appendfsync", "Data", CONFIG_WORD, LIVE, FIELD(durability), "everysec",
     .words = durability_words,
     .help = "always: a reply means on disk; everysec: synced every second; no: when the system "
             "likes"},
    {"appendonly", NULL, "Data", CONFIG_FIXED, LIVE, .start = "yes",
     .help = "yes, always: every change is in the journal before its reply leaves",
     .why = "argument must be 'yes': every change is in the journal before its reply leaves"},
    {"save", NULL, "Data", CONFIG_FIXED, LIVE, .start = "",
     .help = "empty, always: there are no snapshots, the journal and the engine hold everything",
     .why = "argument must be empty: there are no snapshots, the journal and the engine hold "
            "everything"},
    {"databases", NULL, "Data", CONFIG_FIXED, LIVE_NO, .start = "16",
     .help = "numbers that SELECT takes from the start",
     .why = "argument must be 16: the number of databases is fixed"},
    {"active-expire", NULL, "Data", CONFIG_BOOL, LIVE, FIELD(active_expire), "yes",
     .help = "keys whose time is over are removed though nobody asks for them"},
    {"engine", NULL, "Data", CONFIG_ENGINE, LIVE_NO, FIELD(engine), "rocksdb",
     .help = "what holds the data on disk: rocksdb"},
    {"engine-cache", NULL, "Data", CONFIG_SIZE, LIVE_NO, FIELD(cache_bytes), "64mb", MB, 16 * TB,
     .help = "memory for blocks of the engine, beside hot-memory"},
    {"disk-reserve", NULL, "Data", CONFIG_SIZE, LIVE_NO, FIELD(disk_reserve_bytes), "1gb", 0,
     1024 * TB, .help = "kept free on disk; below it only deleting commands run"},
    {"full-reserve", NULL, "Data", CONFIG_SIZE, LIVE_NO, FIELD(full_reserve_bytes), "64mb", 0, TB,
     .help = "held as a file, at most an eighth of the disk: for deletes when the disk is full"},
    {"flush-age", NULL, "Data", CONFIG_TIME, LIVE_NO, FIELD(flush_age_ms), "60s", 1, 86400000,
     .help = "a change is in the engine at the latest after this time"},
    {"loaders", NULL, "Data", CONFIG_INT, LIVE_NO, FIELD(loader_count), "1", 1, 64,
     .help = "threads that read cold data"},

    {"land", NULL, "Landing", CONFIG_RULES, LIVE_NO, FIELD(land), "",
     .help = "a rule of landing, one a line: name pattern sink [shape object | shape columns table "
             "T key K] [db N] [tables N] [batch N] [delay MS] [keep MS] [password-file PATH] "
             "[flush store-only] [expire delete]; see docs/landing.md"},

    {"land-dir", NULL, "Landing", CONFIG_TEXT, LIVE_NO, FIELD(land_dir), "", 0,
     CONFIG_VALUE_BYTES_MAX,
     .help = "SQLite files of rules made by LAND.RULE ADD are below it; empty: the data directory"},
    {"land-remote", NULL, "Landing", CONFIG_BOOL, LIVE_NO, FIELD(land_remote), "no",
     .help =
         "LAND.RULE ADD makes rules of remote databases, too; otherwise they stand in this file"},

    {"tile-types", NULL, "Tiles", CONFIG_TYPES, LIVE_NO, FIELD(tile_types), "",
     .help = "types of tiles and the number of the database that each is bound to, for good: "
             "imagery=1 photos=2:bare; see docs/tile.md"},
    {"tile-sqlite", NULL, "Tiles", CONFIG_TEXT, LIVE_NO, FIELD(tile_sqlite), "", 0,
     TILE_DIR_BYTES_MAX, .help = "directory of SQLite shards that tiles are persisted to"},
    {"tile-kv", NULL, "Tiles", CONFIG_TEXT, LIVE_NO, FIELD(tile_kv), "", 0, TILE_DIR_BYTES_MAX,
     .help = "directory of LMDB shards that tiles are persisted to"},
    {"tile-clear", NULL, "Tiles", CONFIG_BOOL, LIVE_NO, FIELD(tile_clear), "yes",
     .help = "a tile that is persisted is removed from the store, if it is still that version"},
    {"tile-batch", NULL, "Tiles", CONFIG_INT, LIVE_NO, FIELD(tile_batch), "100", 1, 1000000,
     .help = "tiles are persisted when so many have changed,"},
    {"tile-interval", NULL, "Tiles", CONFIG_TIME, LIVE_NO, FIELD(tile_interval_ms), "5s", 1,
     86400000, .help = "or so long after the first of them"},
    {"tile-cache", NULL, "Tiles", CONFIG_SIZE, LIVE_NO, FIELD(tile_cache_bytes), "64mb", 0, 16 * TB,
     .help = "memory for tiles read from shards, beside hot-memory"},
    {"tile-open-shards", NULL, "Tiles", CONFIG_INT, LIVE_NO, FIELD(tile_open_shards), "256", 1,
     65536, .help = "shards that are held open"},

    {"part-batch", NULL, "Partitions", CONFIG_INT, LIVE, FIELD(part_batch), "1000", 2, 100000,
     .help = "completed partitions of a packed batch"},
    {"part-algorithm", NULL, "Partitions", CONFIG_WORD, LIVE, FIELD(part_algorithm), "auto",
     .words = algorithm_words,
     .help =
         "what texts of a batch are compressed with: none, gzip, lz4, zstd; auto: the smallest, "
         "measured"},
    {"part-simple-max", NULL, "Partitions", CONFIG_INT, LIVE, FIELD(part_simple_max), "100000", 1,
     INT64_MAX, .help = "completed partitions of a job from which on they are packed"},
    {"part-compressed-max", NULL, "Partitions", CONFIG_INT, LIVE, FIELD(part_compressed_max),
     "500000", 0, INT64_MAX,
     .help = "completed partitions of a job above which part-retain is obeyed"},
    {"part-retain", NULL, "Partitions", CONFIG_TIME, LIVE, FIELD(part_retain_ms), "0s", 0,
     INT64_C(1000) * 366 * 86400000,
     .help = "packed partitions are kept for so long after they were done, their statistics for "
             "ever; 0s: for ever as well"},
    {"part-cache", NULL, "Partitions", CONFIG_SIZE, LIVE, FIELD(part_cache_bytes), "16mb", 0, TB,
     .help = "memory for opened batches"},
    {"part-cache-ttl", NULL, "Partitions", CONFIG_TIME, LIVE, FIELD(part_cache_ttl_ms), "300s", 1,
     INT64_C(366) * 86400000, .help = "an opened batch that nobody asked for is closed after it"},
    {"part-takeovers", NULL, "Partitions", CONFIG_INT, LIVE, FIELD(part_takeovers), "5", 0,
     INT32_MAX,
     .help = "a partition that was taken over from so many silent workers fails when the next one "
             "is silent; 0: never"},

    {"hash-max-listpack-entries", "hash-max-ziplist-entries", "Encodings", CONFIG_INT, LIVE,
     FIELD(hash_max_listpack_entries), "512", 0, INT64_MAX,
     .help = "OBJECT ENCODING calls a hash with more fields a hashtable"},
    {"hash-max-listpack-value", "hash-max-ziplist-value", "Encodings", CONFIG_INT, LIVE,
     FIELD(hash_max_listpack_value), "64", 0, INT64_MAX,
     .help = "the same for a hash with a longer field or value"},
    {"list-max-listpack-size", "list-max-ziplist-size", "Encodings", CONFIG_INT, LIVE,
     FIELD(list_max_listpack_size), "-2", INT32_MIN, INT32_MAX,
     .help = "taken for clients that set it: OBJECT ENCODING calls every list a quicklist, as "
             "Redis 7.0 does"},
    {"set-max-intset-entries", NULL, "Encodings", CONFIG_INT, LIVE, FIELD(set_max_intset_entries),
     "512", 0, INT64_MAX, .help = "OBJECT ENCODING calls a set of more integers a hashtable"},
    {"zset-max-listpack-entries", "zset-max-ziplist-entries", "Encodings", CONFIG_INT, LIVE,
     FIELD(zset_max_listpack_entries), "128", 0, INT64_MAX,
     .help = "OBJECT ENCODING calls a sorted set with more members a skiplist"},
    {"zset-max-listpack-value", "zset-max-ziplist-value", "Encodings", CONFIG_INT, LIVE,
     FIELD(zset_max_listpack_value), "64", 0, INT64_MAX,
     .help = "the same for a sorted set with a longer member"},

    {"notify-keyspace-events", NULL, "Watching", CONFIG_EVENTS, LIVE, FIELD(notify_keyspace_events),
     "",
     .help = "events that are published: K and E (by key, by event), then g$lshzxetmdn or A for "
             "all but m and n; none if empty"},
    {"slowlog-log-slower-than", NULL, "Watching", CONFIG_INT, LIVE,
     FIELD(slowlog_log_slower_than_us), "10000", -1, INT64_MAX,
     .help = "microseconds from which SLOWLOG remembers a command; 0: all, -1: none"},
    {"slowlog-max-len", NULL, "Watching", CONFIG_INT, LIVE, FIELD(slowlog_max_len), "128", 0,
     INT64_MAX, .help = "commands that SLOWLOG remembers"},
    {"loglevel", NULL, "Watching", CONFIG_WORD, LIVE, FIELD(loglevel), "notice",
     .words = loglevel_words, .help = "the least that is logged"},
    {"logfile", NULL, "Watching", CONFIG_TEXT, LIVE_NO, FIELD(logfile), "", 0,
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
#define ONLY(name, alias, live, value, must, reason)        \
    {name, alias,          CONFIG_GROUP_ONLY, CONFIG_FIXED, \
     live, .start = value, .help = reason,    .why = "argument must be " must ": " reason},
#include "server/config_redis.def"
#undef ONLY
#undef KEPT
};

const struct config_row *config__rows(size_t *ret_count)
{
    *ret_count = ARRAY_LEN(rows);
    return rows;
}

bool config__row_is_redis_only(const struct config_row *row)
{
    return strcmp(row->group, CONFIG_GROUP_KEPT) == 0 || strcmp(row->group, CONFIG_GROUP_ONLY) == 0;
}

static bool name_is(struct bytes name, const char *word)
{
    return word && name.len == strlen(word) &&
           strncasecmp((const char *)name.ptr, word, name.len) == 0;
}

const struct config_row *config__row_find(struct bytes name, const char **ret_name)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        bool is_alias = name_is(name, rows[i].alias);
        if (!is_alias && !name_is(name, rows[i].name))
            continue;
        if (ret_name)
            *ret_name = is_alias ? rows[i].alias : rows[i].name;
        return &rows[i];
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
    if (value == CONFIG_CLIENTS_AUTO)
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
