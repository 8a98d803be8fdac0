// SPDX-License-Identifier: Apache-2.0
/* metrics.c - writes /metrics. */
#include "server/metrics.h"

#include <inttypes.h>

#include "base/mem.h"
#include "server/http.h"
#include "server/server_int.h"
#include "store/turns.h"

#include "base/banned.h"

struct metrics {
    struct buf *to;
    bool failed; /* no memory: nothing more is written */
};

/* What comes before the values of a name. */
static void head(struct metrics *to, const char *name, const char *type, const char *help)
{
    to->failed = to->failed || !statistic_head(to->to, name, type, help);
}

static void value_add(struct metrics *to, const char *name, const char *type, const char *help,
                      uint64_t value)
{
    head(to, name, type, help);
    to->failed = to->failed || !buf_printf(to->to, "terrace_%s %" PRIu64 "\n", name, value);
}

static void gauge(struct metrics *metrics, const char *name, const char *help, uint64_t value)
{
    value_add(metrics, name, "gauge", help, value);
}

/* Prometheus wants counters to end in _total. */
static void counter(struct metrics *metrics, const char *name, const char *help, uint64_t value)
{
    value_add(metrics, name, "counter", help, value);
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
    head(to, "keys", "gauge", "Keys of a namespace.");
    for (size_t i = 0; i < kv->ns_count; i++)
        if (kv_ns(kv, i))
            to->failed = to->failed || !buf_printf(to->to, "terrace_keys{db=\"%zu\"} %" PRId64 "\n",
                                                   i, ns_key_count(kv_ns(kv, i)));
}

static void add_commands(struct metrics *to, const struct server *server)
{
    size_t count;
    const struct cmd *cmd = cmd_list(&count);
    head(to, "command_calls_total", "counter", "Calls of a command.");
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

static void add_http(struct metrics *to, const struct http *http)
{
    struct http_stats stats;
    http_stats(http, &stats);
    const struct {
        unsigned status;
        uint64_t count;
    } line[] = {{200, stats.ok},        {304, stats.not_modified}, {400, stats.bad},
                {404, stats.not_found}, {405, stats.not_allowed},  {503, stats.unavailable}};
    head(to, "http_replies_total", "counter", "Replies of the HTTP port.");
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
    add_commands(&metrics, server);
    if (server->http)
        add_http(&metrics, server->http);
    for (size_t m = 0; m < MODEL_COUNT; m++)
        for (size_t i = 0; i < models[m]->statistics_count; i++)
            metrics.failed = metrics.failed || !statistics_metrics(&models[m]->statistics[i],
                                                                   server->host.model[m], to);
    return !metrics.failed;
}
