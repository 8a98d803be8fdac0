// SPDX-License-Identifier: Apache-2.0
/* metrics.c - writes /metrics, except for tiles and partitions. */
#include "server/metrics.h"

#include <inttypes.h>

#include "base/mem.h"
#include "server/http.h"
#include "server/metrics_int.h"
#include "server/server_int.h"
#include "store/turns.h"

#include "base/banned.h"

void metrics__head(struct metrics *to, const char *name, const char *type, const char *help)
{
    to->failed = to->failed || !buf_printf(to->to, "# HELP terrace_%s %s\n# TYPE terrace_%s %s\n",
                                           name, help, name, type);
}

void metrics__add(struct metrics *to, const char *name, const char *type, const char *help,
                  uint64_t value)
{
    metrics__head(to, name, type, help);
    to->failed = to->failed || !buf_printf(to->to, "terrace_%s %" PRIu64 "\n", name, value);
}

static void gauge(struct metrics *metrics, const char *name, const char *help, uint64_t value)
{
    metrics__add(metrics, name, "gauge", help, value);
}

/* Prometheus wants counters to end in _total. */
static void counter(struct metrics *metrics, const char *name, const char *help, uint64_t value)
{
    metrics__add(metrics, name, "counter", help, value);
}

static void add_clients(struct metrics *to, const struct server *server)
{
    gauge(to, "uptime_seconds", "Since the start.", (server->now_ms - server->start_ms) / 1000);
    gauge(to, "clients_connected", "Connections.", server->conn_count);
    gauge(to, "clients_max", "Most connections allowed.", server->conn_count_max);
    gauge(to, "tasks", "Commands and jobs that wait or run.", tasks_count(server->tasks));
    counter(to, "connections_total", "Connections accepted.", server->stats.connection_count);
    counter(to, "connections_rejected_total", "Connections refused.", server->stats.rejected_count);
    counter(to, "commands_total", "Commands answered.", server->stats.command_count);
    counter(to, "errors_total", "Error replies.", server->stats.error_count);
    counter(to, "input_bytes_total", "Bytes from clients.", server->stats.input_bytes);
    counter(to, "output_bytes_total", "Bytes to clients.", server->stats.output_bytes);
    counter(to, "keyspace_hits_total", "Reads that found their key.", server->kv.counts.hit_count);
    counter(to, "keyspace_misses_total", "Reads that did not.", server->kv.counts.miss_count);
    counter(to, "expired_keys_total", "Keys removed because their time was over.",
            server->kv.counts.expired_count);
    counter(to, "pubsub_messages_total", "Messages published.", server->stats.pubsub_messages);
}

static void add_hot(struct metrics *to, const struct store_stats *stats)
{
    gauge(to, "resident_bytes", "Resident memory of the process.", mem_resident_bytes());
    gauge(to, "hot_bytes", "Memory of the hot tier.", stats->hot_bytes);
    gauge(to, "hot_bytes_max", "hot-memory.", stats->hot_bytes_max);
    gauge(to, "hot_dirty_bytes", "Hot and not flushed.", stats->dirty_bytes);
    gauge(to, "hot_pinned_bytes", "Held for waiting commands.", stats->pinned_bytes);
    gauge(to, "hot_entries", "Rows and groups in the table.", stats->hot_entry_count);
    counter(to, "evicted_rows_total", "Rows that left memory.", stats->evicted_row_count);
    counter(to, "cold_reads_total", "Reads that had to wait for the engine.", stats->cold_count);
    counter(to, "loads_total", "Loads from the engine.", stats->load_count);
    counter(to, "loads_failed_total", "Loads that failed.", stats->load_failed_count);
    gauge(to, "loads_in_flight", "Loads that are being read.", stats->loads_in_flight);
    counter(to, "commits_total", "Commits.", stats->commit_count);
    counter(to, "turns_total", "Turns written.", stats->turn_count);
}

static void add_disk(struct metrics *to, const struct store_stats *stats)
{
    const struct journal_status *journal = &stats->journal;
    counter(to, "journal_bytes_total", "Bytes written to the journal.", journal->byte_count);
    counter(to, "journal_syncs_total", "fdatasync calls.", journal->sync_count);
    counter(to, "journal_sync_failures_total", "fdatasync calls that failed.",
            journal->sync_failure_count);
    gauge(to, "journal_unsynced_bytes", "Written and not synced.", journal->unsynced_bytes);
    gauge(to, "journal_read_only", "1: the journal cannot be written.", journal->read_only);
    gauge(to, "disk_free_bytes", "Free on the disk of the data.", journal->disk_free_bytes);
    gauge(to, "disk_low", "1: less free than disk-reserve, or full-reserve is in use.",
          journal->disk_low);
    gauge(to, "full_reserve_bytes", "Held for a full disk.", stats->full_reserve_bytes);
    counter(to, "flush_units_total", "Units flushed.", stats->flush_unit_count);
    counter(to, "flush_rows_total", "Rows flushed.", stats->flush_row_count);
    counter(to, "flush_failures_total", "Flushes that failed.", stats->flush_failure_count);
    gauge(to, "flush_pending_bytes", "Journal bytes not flushed.", stats->flush_pending_bytes);
    gauge(to, "flush_braked", "1: the flush waits for compaction.", stats->flush_braked);
    gauge(to, "engine_disk_bytes", "Files of the engine.", stats->engine.disk_bytes);
    gauge(to, "engine_cache_bytes", "Cache of the engine.", stats->engine.cache_bytes);
    gauge(to, "engine_closed", "1: it had an error and could not be opened again yet.",
          stats->engine_closed);
    counter(to, "engine_reopens_total", "Times it was opened again after an error.",
            stats->engine_reopen_count);
    gauge(to, "engine_l0_files", "Files of level 0.", stats->pressure.l0_file_count);
    gauge(to, "engine_debt_bytes", "What compaction has to do.", stats->pressure.debt_bytes);
}

static void add_keys(struct metrics *to, const struct kv *kv)
{
    metrics__head(to, "keys", "gauge", "Keys of a namespace.");
    for (size_t i = 0; i < kv->ns_count; i++)
        if (kv_ns(kv, i))
            to->failed = to->failed || !buf_printf(to->to, "terrace_keys{db=\"%zu\"} %" PRId64 "\n",
                                                   i, ns_key_count(kv_ns(kv, i)));
}

static void add_fs(struct metrics *to, const struct fs *fs)
{
    struct fs_counts counts = fs_counts(fs);
    gauge(to, "fs_files", "Files, those of removed subtrees included.", (uint64_t)counts.files);
    gauge(to, "fs_directories", "Directories, alike.", (uint64_t)counts.dirs);
    gauge(to, "fs_bytes", "Sizes of files.", (uint64_t)counts.bytes);
    gauge(to, "fs_graves", "Removed subtrees that still have rows.", (uint64_t)counts.graves);
    counter(to, "fs_swept_inodes_total", "Inodes of removed subtrees swept.", counts.swept_count);
}

static void add_commands(struct metrics *to, const struct server *server)
{
    size_t count;
    const struct cmd *cmd = cmd_list(&count);
    metrics__head(to, "command_calls_total", "counter", "Calls of a command.");
    for (size_t i = 0; i < count; i++) {
        char name[CMD_NAME_BYTES];
        if (server->cmd_stats[i].calls == 0)
            continue;
        (void)cmd_name_lower(&cmd[i], name);
        to->failed =
            to->failed ||
            !buf_printf(to->to, "terrace_command_calls_total{command=\"%s\"} %" PRIu64 "\n", name,
                        server->cmd_stats[i].calls);
    }
}

/* ---- landing ---- */

#define OF_STATUS(member) offsetof(struct land_status, member)
#define NO_DIVISOR 1
static const struct {
    const char *name, *type, *help;
    size_t member;    /* of struct land_status, a uint64_t */
    uint64_t divisor; /* nanoseconds to microseconds */
} land_metrics[] = {
    {"landing_rows_total", "counter", "Rows landed.", OF_STATUS(landed_rows), NO_DIVISOR},
    {"landing_refused_rows_total", "counter", "Rows the database refused.", OF_STATUS(refused_rows),
     NO_DIVISOR},
    {"landing_rows_per_second", "gauge", "Rows a second of the last pass that landed any.",
     OF_STATUS(rows_per_s), NO_DIVISOR},
    {"landing_batches_total", "counter", "Batches landed; rows by batches is their size.",
     OF_STATUS(batches), NO_DIVISOR},
    {"landing_failures_total", "counter", "Batches that found the database away.",
     OF_STATUS(failures), NO_DIVISOR},
    {"landing_sql_microseconds_total", "counter", "Time of SQL in batches.", OF_STATUS(sql_ns),
     1000},
    {"landing_lifts_total", "counter", "Queries for what was not here.", OF_STATUS(lifts),
     NO_DIVISOR},
    {"landing_lifted_rows_total", "counter", "Fields they brought.", OF_STATUS(lifted_rows),
     NO_DIVISOR},
    {"landing_lift_failures_total", "counter", "Lifts that failed.", OF_STATUS(lift_failures),
     NO_DIVISOR},
    {"landing_lift_microseconds_total", "counter", "Time of lifts.", OF_STATUS(lift_ns), 1000},
    {"landing_hits_total", "counter", "Lookups answered here.", OF_STATUS(hits), NO_DIVISOR},
    {"landing_misses_total", "counter", "Lookups that needed a lift.", OF_STATUS(misses),
     NO_DIVISOR},
    {"landing_absent_total", "counter", "Lookups of what SQL is known not to have.",
     OF_STATUS(absences), NO_DIVISOR},
};

static void add_rule(struct metrics *to, const char *name, const struct land_rule *rule,
                     uint64_t value)
{
    to->failed = to->failed || !buf_printf(to->to, "terrace_%s{rule=\"%s\"} %" PRIu64 "\n", name,
                                           land_rule_spec(rule)->name, value);
}

static uint64_t status_value(const struct land_rule *rule, size_t metric)
{
    struct land_status status;
    uint64_t value;
    land_rule_status(rule, &status);
    memcpy(&value, (const char *)&status + land_metrics[metric].member, sizeof value);
    return value / land_metrics[metric].divisor;
}

static void add_landing_rules(struct metrics *to, const struct server *server)
{
    const struct landing *landing = server->landing;
    struct land_rule *rule = NULL;
    for (size_t i = 0; i < ARRAY_LEN(land_metrics); i++) {
        metrics__head(to, land_metrics[i].name, land_metrics[i].type, land_metrics[i].help);
        while ((rule = landing_rule_next(landing, rule)))
            add_rule(to, land_metrics[i].name, rule, status_value(rule, i));
    }
    metrics__head(to, "landing_failing", "gauge",
                  "1: the database is away, or the last pass failed.");
    while ((rule = landing_rule_next(landing, rule))) {
        struct land_status status;
        land_rule_status(rule, &status);
        add_rule(to, "landing_failing", rule, status.trouble[0] != 0);
    }
    metrics__head(to, "landing_missing", "gauge",
                  "1 while the database that a rule has landed in is gone.");
    while ((rule = landing_rule_next(landing, rule)))
        add_rule(to, "landing_missing", rule, land_rule_is_missing(rule));
    metrics__head(to, "landing_oldest_dirty_milliseconds", "gauge",
                  "For how long the oldest change of this run has been waiting.");
    while ((rule = landing_rule_next(landing, rule))) {
        struct land_status status;
        uint64_t now_ms = server->now_ms;
        land_rule_status(rule, &status);
        bool waits = status.oldest_ms != 0 && status.oldest_ms < now_ms;
        add_rule(to, "landing_oldest_dirty_milliseconds", rule,
                 waits ? now_ms - status.oldest_ms : 0);
    }
}

/* Dirty tables belong to a database: all its rules share them. */
static void add_landing_tables(struct metrics *to, const struct server *server)
{
    static const struct {
        const char *name, *help;
        size_t member;
    } part[] = {
        {"landing_dirty_entries", "Changes that wait in a dirty table.",
         offsetof(struct land_count, marked)},
        {"landing_saving_entries", "Changes that are being landed.",
         offsetof(struct land_count, saving)},
        {"landing_error_entries", "Changes the database refused.",
         offsetof(struct land_count, errors)},
    };
    size_t count;
    const struct land_count *table = landing_counts(server->landing, &count);
    for (size_t i = 0; i < ARRAY_LEN(part); i++) {
        metrics__head(to, part[i].name, "gauge", part[i].help);
        for (size_t n = 0; n < count; n++) {
            uint64_t value;
            memcpy(&value, (const char *)&table[n] + part[i].member, sizeof value);
            to->failed = to->failed ||
                         !buf_printf(to->to, "terrace_%s{db=\"%u\",table=\"%u\"} %" PRIu64 "\n",
                                     part[i].name, table[n].db, table[n].table, value);
        }
    }
}

static void add_http(struct metrics *to, const struct http *http)
{
    struct http_stats stats;
    http_stats(http, &stats);
    const struct {
        unsigned status;
        uint64_t count;
    } line[] = {{200, stats.ok},        {304, stats.not_modified}, {400, stats.bad},
                {404, stats.not_found}, {405, stats.not_allowed},  {503, stats.unavailable}};
    metrics__head(to, "http_replies_total", "counter", "Replies of the HTTP port.");
    for (size_t i = 0; i < ARRAY_LEN(line); i++)
        to->failed = to->failed ||
                     !buf_printf(to->to, "terrace_http_replies_total{status=\"%u\"} %" PRIu64 "\n",
                                 line[i].status, line[i].count);
}

bool metrics_add(struct server *server, struct buf *to)
{
    struct metrics metrics = {.to = to};
    struct store_stats stats;
    store_stats(server->store, &stats);
    gauge(&metrics, "up", "The server answers.", 1);
    add_clients(&metrics, server);
    add_hot(&metrics, &stats);
    add_disk(&metrics, &stats);
    add_keys(&metrics, &server->kv);
    add_fs(&metrics, server->fs);
    add_commands(&metrics, server);
    if (server->http)
        add_http(&metrics, server->http);
    if (landing_rule_next(server->landing, NULL)) {
        add_landing_rules(&metrics, server);
        add_landing_tables(&metrics, server);
    }
    metrics__add_part(&metrics, server);
    metrics__add_tile(&metrics, server);
    return !metrics.failed;
}
