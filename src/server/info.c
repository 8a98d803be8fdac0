// SPDX-License-Identifier: Apache-2.0
/* info.c - writes the sections of INFO. */
#include "server/info.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/mem.h"
#include "server/scripts.h"
#include "store/turns.h"

#include "base/banned.h"

struct info { /* what the sections are made from */
    struct server *server;
    struct store_stats stats;
    uint64_t now_ms;
    const struct bytes *section; /* those that are wanted */
    size_t section_count;
    struct buf *to;
    bool failed;
};

static void add(struct info *info, const char *name, uint64_t value)
{
    info->failed = info->failed || !buf_printf(info->to, "%s:%" PRIu64 "\r\n", name, value);
}

static void add_int(struct info *info, const char *name, int64_t value)
{
    info->failed = info->failed || !buf_printf(info->to, "%s:%" PRId64 "\r\n", name, value);
}

static void add_text(struct info *info, const char *name, const char *value)
{
    info->failed = info->failed || !buf_printf(info->to, "%s:%s\r\n", name, value);
}

/* For what is zero because there is nothing of the kind here; ends with NULL. */
static void add_zeros(struct info *info, const char *const *name)
{
    for (; *name; name++)
        add(info, *name, 0);
}

static void add_ratio(struct info *info, const char *name, uint64_t part, uint64_t whole)
{
    info->failed = info->failed || !buf_printf(info->to, "%s:%.2f\r\n", name,
                                               whole ? (double)part / (double)whole : 0.0);
}

static void add_percent(struct info *info, const char *name, uint64_t part, uint64_t whole)
{
    info->failed = info->failed || !buf_printf(info->to, "%s:%.2f%%\r\n", name,
                                               whole ? 100 * (double)part / (double)whole : 0.0);
}

static void add_human(struct info *info, const char *name, uint64_t bytes)
{
    static const char unit[] = "BKMGT";
    char text[32];
    double value = (double)bytes;
    size_t i = 0;
    for (; value >= 1024 && i + 2 < sizeof unit; i++)
        value /= 1024;
    snprintf(text, sizeof text, i == 0 ? "%.0f%c" : "%.2f%c", value, unit[i]);
    add_text(info, name, text);
}

static void add_server(struct info *info)
{
    const struct server *server = info->server;
    struct utsname system = {0};
    char text[sizeof system.sysname + sizeof system.release + sizeof system.machine + 4];
    (void)uname(&system);
    snprintf(text, sizeof text, "%s %s %s", system.sysname, system.release, system.machine);
    uint64_t up_s = (info->now_ms - server->start_ms) / 1000;
    add_text(info, "redis_version", REDIS_VERSION);
    add_text(info, "redis_git_sha1", "00000000");
    add_text(info, "redis_git_dirty", "0");
    add_text(info, "redis_build_id", "0");
    add_text(info, "server_name", "terrace");
    add_text(info, "terrace_version", TERRACE_VERSION);
    add_text(info, "redis_mode", "standalone");
    add_text(info, "os", text);
    add(info, "arch_bits", 8 * sizeof(void *));
    add_text(info, "monotonic_clock", "POSIX clock_gettime");
    add_text(info, "multiplexing_api", "epoll");
    add_text(info, "atomicvar_api", "c11-builtin");
    add_text(info, "gcc_version", __VERSION__);
    add(info, "process_id", (uint64_t)getpid());
    add_text(info, "process_supervised", "no");
    add_text(info, "run_id", server->run_id);
    add(info, "tcp_port", server->port);
    add(info, "server_time_usec", info->now_ms * 1000);
    add(info, "uptime_in_seconds", up_s);
    add(info, "uptime_in_days", up_s / 86400);
    add(info, "hz", 10);
    add(info, "configured_hz", 10);
    add(info, "lru_clock", info->now_ms / 1000 & 0xffffff);
    add_text(info, "executable", "terraced");
    add_text(info, "config_file", server->config->file);
    add(info, "io_threads_active", 0);
    add_text(info, "data_dir", server->config->dir);
    add_text(info, "engine", server->config->engine->name);
}

static void add_clients(struct info *info)
{
    uint64_t blocked = 0, timed = 0, in_max = 0, out_max = 0;
    for (const struct conn *conn = info->server->conns; conn; conn = conn->next) {
        blocked += server__conn_blocked(conn);
        timed += conn->parked && conn->parked->base.task.deadline_ns != 0;
        in_max = conn->in.cap > in_max ? conn->in.cap : in_max;
        out_max = conn->out.buf.cap > out_max ? conn->out.buf.cap : out_max;
    }
    add(info, "connected_clients", info->server->conn_count);
    add(info, "cluster_connections", 0);
    add(info, "maxclients", info->server->conn_count_max);
    add(info, "client_recent_max_input_buffer", in_max);
    add(info, "client_recent_max_output_buffer", out_max);
    add(info, "blocked_clients", blocked);
    add(info, "blocked_clients_runs", info->server->stats.blocked_runs);
    add(info, "tracking_clients", 0);
    add(info, "clients_in_timeout_table", timed);
    add(info, "tasks", tasks_count(info->server->tasks));
}

static void add_memory_scripts(struct info *info)
{
    static const char *const none[] = {
        "mem_cluster_links",     "mem_replication_backlog",       "mem_clients_slaves",
        "active_defrag_running", "mem_total_replication_buffers", NULL};
    const struct scripts *scripts = info->server->scripts;
    const struct library_set *libraries = &scripts->functions.set;
    uint64_t eval = script_vm_bytes(scripts->eval);
    uint64_t functions = script_vm_bytes(scripts->functions.vm);
    uint64_t text = scripts->text_bytes + libraries->bytes;
    add(info, "used_memory_lua", eval);
    add_human(info, "used_memory_lua_human", eval);
    add(info, "used_memory_vm_eval", eval);
    add(info, "used_memory_vm_functions", functions);
    add(info, "used_memory_vm_total", eval + functions);
    add_human(info, "used_memory_vm_total_human", eval + functions);
    add(info, "used_memory_scripts_eval", scripts->text_bytes);
    add(info, "used_memory_functions", libraries->bytes);
    add(info, "used_memory_scripts", text);
    add_human(info, "used_memory_scripts_human", text);
    add(info, "number_of_cached_scripts", scripts->by_sha.entry_count);
    add(info, "number_of_functions", libraries->by_function.entry_count);
    add(info, "number_of_libraries", libraries->count);
    add(info, "libraries_not_loaded", libraries->broken_count);
    add_zeros(info, none);
}

/* Ratios are of the process: the engine and its caches are in it, used_memory is the data only. */
static void add_memory_allocator(struct info *info, uint64_t resident)
{
    struct mem_stats mem;
    mem_stats(&mem);
    if (mem.allocated_bytes > 0) { /* a sanitizer's allocator tells nothing */
        add(info, "allocator_allocated", mem.allocated_bytes);
        add(info, "allocator_active", mem.active_bytes);
        add_ratio(info, "allocator_frag_ratio", mem.active_bytes, mem.allocated_bytes);
        add(info, "allocator_frag_bytes", mem.active_bytes - mem.allocated_bytes);
        add_ratio(info, "mem_fragmentation_ratio", resident, mem.allocated_bytes);
        add_int(info, "mem_fragmentation_bytes", (int64_t)(resident - mem.allocated_bytes));
    }
    if (mem.resident_bytes > 0) {
        add(info, "allocator_resident", mem.resident_bytes);
        add_ratio(info, "allocator_rss_ratio", mem.resident_bytes, mem.active_bytes);
        add_int(info, "allocator_rss_bytes", (int64_t)(mem.resident_bytes - mem.active_bytes));
        add_ratio(info, "rss_overhead_ratio", resident, mem.resident_bytes);
        add_int(info, "rss_overhead_bytes", (int64_t)(resident - mem.resident_bytes));
    }
#ifdef TERRACE_JEMALLOC
    add_text(info, "mem_allocator", "jemalloc");
#else
    add_text(info, "mem_allocator", "libc");
#endif
}

static void add_memory(struct info *info)
{
    uint64_t resident = mem_resident_bytes(), used = info->stats.hot_bytes;
    uint64_t *peak = &info->server->stats.hot_bytes_peak;
    uint64_t system = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    *peak = used > *peak ? used : *peak;
    add(info, "used_memory", used);
    add_human(info, "used_memory_human", used);
    add(info, "used_memory_rss", resident);
    add_human(info, "used_memory_rss_human", resident);
    add(info, "used_memory_peak", *peak);
    add_human(info, "used_memory_peak_human", *peak);
    add_percent(info, "used_memory_peak_perc", used, *peak);
    add(info, "used_memory_dataset", used);
    add_percent(info, "used_memory_dataset_perc", used, used);
    add(info, "total_system_memory", system);
    add_human(info, "total_system_memory_human", system);
    add(info, "maxmemory", info->stats.hot_bytes_max);
    add_human(info, "maxmemory_human", info->stats.hot_bytes_max);
    add_text(info, "maxmemory_policy", "noeviction");
    add(info, "mem_clients_normal", info->server->clients_bytes);
    add(info, "maxmemory_clients",
        info->server->clients_bytes_max == UINT64_MAX ? 0 : info->server->clients_bytes_max);
    add(info, "mem_aof_buffer", info->stats.journal.unsynced_bytes);
    add(info, "lazyfree_pending_objects", 0); /* a dropped key is gone at once */
    add(info, "lazyfreed_objects", 0);
    add_memory_scripts(info);
    add_memory_allocator(info, resident);
}

/* No process is forked, and no file is ever rewritten. */
static void add_persistence_forks(struct info *info)
{
    static const char *const none[] = {"async_loading",
                                       "current_cow_peak",
                                       "current_cow_size",
                                       "current_cow_size_age",
                                       "rdb_last_cow_size",
                                       "aof_rewrite_in_progress",
                                       "aof_rewrite_scheduled",
                                       "aof_rewrites",
                                       "aof_rewrites_consecutive_failures",
                                       "aof_last_cow_size",
                                       "module_fork_in_progress",
                                       "module_fork_last_cow_size",
                                       NULL};
    add_zeros(info, none);
    add_ratio(info, "current_fork_perc", 0, 1);
    add_int(info, "aof_last_rewrite_time_sec", -1);
    add_int(info, "aof_current_rewrite_time_sec", -1);
    add_text(info, "aof_last_bgrewrite_status", "ok");
}

static void add_persistence(struct info *info)
{
    const struct journal_status *journal = &info->stats.journal;
    add(info, "loading", 0);
    add(info, "rdb_changes_since_last_save", info->stats.flush_pending_bytes);
    add(info, "rdb_bgsave_in_progress", info->stats.flush_pending_bytes > 0);
    add(info, "rdb_last_save_time", info->server->last_save_ms / 1000);
    add_text(info, "rdb_last_bgsave_status", info->stats.flush_reason[0] ? "err" : "ok");
    add(info, "rdb_saves", info->stats.flush_unit_count);
    add(info, "aof_enabled", 1);
    add(info, "aof_current_size", journal->sealed_bytes + journal->segment_bytes);
    add_text(info, "aof_last_write_status", journal->read_only ? "err" : "ok");
    add_text(info, "durability", durability_name(info->server->config->durability));
    add(info, "written_lsn", journal->written_lsn);
    add(info, "durable_lsn", journal->durable_lsn);
    add(info, "unsynced_bytes", journal->unsynced_bytes);
    add(info, "read_only", journal->read_only);
    add_text(info, "read_only_reason", journal->reason);
    add(info, "disk_free_bytes", journal->disk_free_bytes);
    add(info, "disk_low", journal->disk_low);
    add(info, "full_reserve_bytes", info->stats.full_reserve_bytes);
    add(info, "full_reserve_bytes_max", info->stats.full_reserve_bytes_max);
    add(info, "recovered_turns", info->stats.recovered_turn_count);
    add(info, "recovered_bytes", info->stats.recovered_bytes);
    add(info, "recovered_cut_turns", info->stats.recovered_cut_turn_count);
    add(info, "recovered_cut_bytes", info->stats.recovered_cut_bytes);
    add_persistence_forks(info);
}

/* There are no replicas, no defragmentation, no tracking, no io threads, no eviction of keys. */
static void add_stats_none(struct info *info)
{
    static const char *const none[] = {"total_net_repl_input_bytes",
                                       "total_net_repl_output_bytes",
                                       "sync_full",
                                       "sync_partial_ok",
                                       "sync_partial_err",
                                       "total_eviction_exceeded_time",
                                       "current_eviction_exceeded_time",
                                       "latest_fork_usec",
                                       "total_forks",
                                       "migrate_cached_sockets",
                                       "slave_expires_tracked_keys",
                                       "active_defrag_hits",
                                       "active_defrag_misses",
                                       "active_defrag_key_hits",
                                       "active_defrag_key_misses",
                                       "total_active_defrag_time",
                                       "current_active_defrag_time",
                                       "tracking_total_keys",
                                       "tracking_total_items",
                                       "tracking_total_prefixes",
                                       "unexpected_error_replies",
                                       "dump_payload_sanitizations",
                                       "io_threaded_reads_processed",
                                       "io_threaded_writes_processed",
                                       NULL};
    add_zeros(info, none);
    add_ratio(info, "instantaneous_input_repl_kbps", 0, 1);
    add_ratio(info, "instantaneous_output_repl_kbps", 0, 1);
}

static void add_stats(struct info *info)
{
    const struct server *server = info->server;
    add(info, "total_connections_received", server->stats.connection_count);
    add(info, "client_query_buffer_limit_disconnections", server->stats.query_limit_count);
    add(info, "client_output_buffer_limit_disconnections", server->stats.output_limit_count);
    add(info, "total_commands_processed", server->stats.command_count);
    add(info, "instantaneous_ops_per_sec", server->stats.ops_per_s);
    add(info, "total_net_input_bytes", server->stats.input_bytes);
    add(info, "total_net_output_bytes", server->stats.output_bytes);
    add_ratio(info, "instantaneous_input_kbps", server->stats.input_bytes_per_s, 1024);
    add_ratio(info, "instantaneous_output_kbps", server->stats.output_bytes_per_s, 1024);
    add(info, "reply_slices", server->stats.long_slice_count);
    add(info, "replies_begun_again", server->stats.long_again_count);
    add(info, "rejected_connections", server->stats.rejected_count);
    add(info, "evicted_clients", server->stats.evicted_client_count);
    add(info, "expired_keys", server->kv.counts.expired_count);
    add(info, "evicted_keys", 0);
    add(info, "keyspace_hits", server->kv.counts.hit_count);
    add(info, "keyspace_misses", server->kv.counts.miss_count);
    add(info, "pubsub_channels", pubsub_topic_count(server->pubsub, SUB_CHANNEL));
    add(info, "pubsub_patterns", pubsub_topic_count(server->pubsub, SUB_PATTERN));
    add(info, "pubsubshard_channels", pubsub_topic_count(server->pubsub, SUB_SHARD));
    add(info, "pubsub_messages", server->stats.pubsub_messages);
    add(info, "total_error_replies", server->stats.error_count);
    add(info, "total_reads_processed", server->stats.read_count);
    add(info, "total_writes_processed", server->stats.send_count);
    add(info, "commits", info->stats.commit_count);
    add(info, "turns", info->stats.turn_count);
    add_stats_none(info);
}

static void add_replication(struct info *info)
{
    add_text(info, "role", "master");
    add(info, "connected_slaves", 0);
    add_text(info, "master_failover_state", "no-failover");
    add_text(info, "master_replid", info->server->run_id);
    add_text(info, "master_replid2", "0000000000000000000000000000000000000000");
    add(info, "master_repl_offset", info->stats.journal.written_lsn);
    add_int(info, "second_repl_offset", -1);
    add(info, "repl_backlog_active", 0);
    add(info, "repl_backlog_first_byte_offset", 0);
    add(info, "repl_backlog_histlen", 0);
}

static void add_cpu_time(struct info *info, const char *name, struct timeval time)
{
    char text[32];
    snprintf(text, sizeof text, "%lld.%06ld", (long long)time.tv_sec, (long)time.tv_usec);
    add_text(info, name, text);
}

static void add_cpu(struct info *info)
{
    struct rusage usage = {0};
    (void)getrusage(RUSAGE_SELF, &usage);
    add_cpu_time(info, "used_cpu_sys", usage.ru_stime);
    add_cpu_time(info, "used_cpu_user", usage.ru_utime);
    (void)getrusage(RUSAGE_CHILDREN, &usage);
    add_cpu_time(info, "used_cpu_sys_children", usage.ru_stime);
    add_cpu_time(info, "used_cpu_user_children", usage.ru_utime);
    (void)getrusage(RUSAGE_THREAD, &usage);
    add_cpu_time(info, "used_cpu_sys_main_thread", usage.ru_stime);
    add_cpu_time(info, "used_cpu_user_main_thread", usage.ru_utime);
}

static void add_cluster(struct info *info)
{
    add(info, "cluster_enabled", 0);
}

static void add_commandstats(struct info *info)
{
    size_t count;
    const struct cmd *cmd = cmd_list(&count);
    for (size_t i = 0; i < count; i++) {
        const struct cmd_stats *stats = &info->server->cmd_stats[i];
        char name[CMD_NAME_BYTES];
        if (stats->calls == 0)
            continue;
        (void)cmd_name_lower(&cmd[i], name);
        info->failed = info->failed || !buf_printf(info->to,
                                                   "cmdstat_%s:calls=%" PRIu64 ",usec=%" PRIu64
                                                   ",usec_per_call=%.2f,rejected_calls=%" PRIu64
                                                   ",failed_calls=%" PRIu64 "\r\n",
                                                   name, stats->calls, stats->usec,
                                                   (double)stats->usec / (double)stats->calls,
                                                   stats->rejected, stats->failed);
    }
}

static void add_tiers_hot(struct info *info)
{
    const struct store_stats *stats = &info->stats;
    add(info, "hot_bytes", stats->hot_bytes);
    add(info, "hot_bytes_max", stats->hot_bytes_max);
    add(info, "hot_dirty_bytes", stats->dirty_bytes);
    add(info, "hot_pinned_bytes", stats->pinned_bytes);
    add(info, "hot_entries", stats->hot_entry_count);
    add(info, "evicted_blocks", stats->evicted_block_count);
    add(info, "evicted_rows", stats->evicted_row_count);
    add(info, "cold_reads", stats->cold_count);
    add(info, "cold_injected", stats->cold_injected_count);
    add(info, "builds", info->server->kv.build_count);
    add(info, "builds_again", info->server->kv.build_again_count);
    add(info, "loads", stats->load_count);
    add(info, "load_rows", stats->load_row_count);
    add(info, "loads_failed", stats->load_failed_count);
    add(info, "loads_in_flight", stats->loads_in_flight);
    add(info, "loads_preempted", stats->preempted_count);
    add(info, "undos", stats->undo_count);
}

static void add_tiers(struct info *info)
{
    const struct store_stats *stats = &info->stats;
    add_tiers_hot(info);
    add(info, "journal_segment", stats->journal.segment_number);
    add(info, "journal_segment_bytes", stats->journal.segment_bytes);
    add(info, "journal_frames", stats->journal.frame_count);
    add(info, "journal_bytes", stats->journal.byte_count);
    add(info, "journal_syncs", stats->journal.sync_count);
    add(info, "journal_sync_failures", stats->journal.sync_failure_count);
    add(info, "journal_sealed", stats->journal.sealed_count);
    add(info, "journal_sealed_bytes", stats->journal.sealed_bytes);
    add(info, "flush_mark", store_flush_mark(info->server->store));
    add(info, "flush_units", stats->flush_unit_count);
    add(info, "flush_rows", stats->flush_row_count);
    add(info, "flush_range_deletes", stats->flush_range_delete_count);
    add(info, "flush_failures", stats->flush_failure_count);
    add(info, "flush_pending_bytes", stats->flush_pending_bytes);
    add(info, "flush_braked", stats->flush_braked);
    add_text(info, "flush_reason", stats->flush_reason);
    add(info, "engine_rows_estimate", stats->engine.row_count_estimate);
    add(info, "engine_disk_bytes", stats->engine.disk_bytes);
    add(info, "engine_cache_bytes", stats->engine.cache_bytes);
    add(info, "engine_index_bytes", stats->engine.index_bytes);
    add(info, "engine_units", stats->engine.unit_count);
    add(info, "engine_l0_files", stats->pressure.l0_file_count);
    add(info, "engine_debt_bytes", stats->pressure.debt_bytes);
    add(info, "engine_compacting", stats->pressure.compacting);
    add_text(info, "engine_state",
             stats->engine_closed     ? "closed"
             : stats->pressure.failed ? "failed"
                                      : "ok");
    add(info, "engine_reopens", stats->engine_reopen_count);
    add(info, "engine_went_back", stats->engine.back_count);
}

/* Whether the section is wanted; then it is begun. */
static bool section_begin(struct info *info, const char *name, const char *title, bool on_demand)
{
    bool wanted = info->section_count == 0 && !on_demand;
    for (size_t i = 0; i < info->section_count; i++)
        wanted = wanted || cmd_arg_is(info->section[i], name) ||
                 cmd_arg_is(info->section[i], "all") ||
                 cmd_arg_is(info->section[i], "everything") ||
                 (cmd_arg_is(info->section[i], "default") && !on_demand);
    if (wanted)
        info->failed =
            info->failed || !buf_printf(info->to, "%s# %s\r\n", info->to->len ? "\r\n" : "", title);
    return wanted;
}

static void add_models(struct info *info)
{
    for (size_t m = 0; m < MODEL_COUNT; m++)
        for (size_t i = 0; i < models[m]->statistics_count; i++) {
            const struct statistics *set = &models[m]->statistics[i];
            if (set->section && section_begin(info, set->section, set->title, false))
                info->failed =
                    info->failed || !statistics_info(set, info->server->host.model[m], info->to);
        }
}

static void add_keyspace(struct info *info)
{
    const struct kv *kv = &info->server->kv;
    for (size_t i = 0; i < kv->ns_count; i++) {
        const struct ns *ns = kv_ns(kv, i);
        if (ns && ns_key_count(ns) > 0)
            info->failed =
                info->failed ||
                !buf_printf(info->to, "db%zu:keys=%" PRId64 ",expires=%" PRId64 ",avg_ttl=0\r\n", i,
                            ns_key_count(ns), ns_expire_count(ns));
    }
}

/* Not in the default answer: the sections that are long. */
static const struct {
    const char *name;
    const char *title;
    void (*add)(struct info *info);
    bool on_demand;
} sections[] = {
    {"server", "Server", add_server, false},
    {"clients", "Clients", add_clients, false},
    {"memory", "Memory", add_memory, false},
    {"persistence", "Persistence", add_persistence, false},
    {"stats", "Stats", add_stats, false},
    {"replication", "Replication", add_replication, false},
    {"cpu", "CPU", add_cpu, false},
    {"tiers", "Tiers", add_tiers, false},
    {NULL, NULL, add_models, false}, /* begins sections itself */
    {"commandstats", "Commandstats", add_commandstats, true},
    {"cluster", "Cluster", add_cluster, false},
    {"keyspace", "Keyspace", add_keyspace, false},
};

bool info_add(struct server *server, const struct bytes *section, size_t section_count,
              struct buf *to)
{
    struct info info = {.server = server,
                        .now_ms = clock_unix_ms(server->clock),
                        .section = section,
                        .section_count = section_count,
                        .to = to};
    store_stats(server->store, &info.stats);
    for (size_t i = 0; i < ARRAY_LEN(sections); i++)
        if (!sections[i].name ||
            section_begin(&info, sections[i].name, sections[i].title, sections[i].on_demand))
            sections[i].add(&info);
    return !info.failed;
}
