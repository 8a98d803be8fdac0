// SPDX-License-Identifier: Apache-2.0
/* server.c - builds the server's parts, runs its turns, ends it. */
#include "server/server_int.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "models/tile/queue_lease.h"
#include "models/tile/cmd_tile.h"
#include "server/http.h"
#include "store/testing.h"
#include "store/turns.h"
#include "types/names.h"

#include "base/banned.h"

enum {
    DESCRIPTORS_KEPT = 400, /* for the store: its engine may hold 256 files open */
    DESCRIPTORS_A_SHARD = 3,
    CRON_MS = 100,
    DRAIN_MS_MAX = 5 * 1000,
    STOP_MS_MAX = 30 * 1000,        /* for tiles, and again for the flush */
    STOP_FAILING_MS_MAX = 2 * 1000, /* instead, while the store has an error */
};
#define NS_A_MS UINT64_C(1000000)
#define TURN_NS_MAX (100 * NS_A_MS) /* an idle server looks around ten times a second */

/* ---- life ---- */

static void signal_ready(struct loop_source *source, unsigned events)
{
    struct server *server = source->arg;
    struct signalfd_siginfo info;
    (void)events;
    if (read(source->fd, &info, sizeof info) != (ssize_t)sizeof info)
        return;
    if (info.ssi_signo != SIGHUP)
        server->signal_count++;
    else if (server->config->logfile[0] && !log_open(server->config->logfile))
        log_warn("could not open the log file %s again", server->config->logfile);
}

/* As many clients as the system gives descriptors for. */
static size_t clients_max(const struct config *config)
{
    struct rlimit limit;
    size_t wanted_count = config->maxclients, kept = DESCRIPTORS_KEPT;
    if (config->tile_sqlite[0] || config->tile_kv[0])
        kept += (size_t)config->tile_open_shards * DESCRIPTORS_A_SHARD;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return DESCRIPTORS_KEPT;
    rlim_t wanted = wanted_count + kept;
    if (limit.rlim_cur < wanted) {
        limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
        if (setrlimit(RLIMIT_NOFILE, &limit) != 0 && getrlimit(RLIMIT_NOFILE, &limit) != 0)
            return DESCRIPTORS_KEPT;
    }
    if (limit.rlim_cur >= wanted)
        return wanted_count;
    return limit.rlim_cur / 2 > kept ? (size_t)limit.rlim_cur - kept : (size_t)limit.rlim_cur / 2;
}

static void encodings_set(struct server *server)
{
    const struct config *config = server->config;
    server->kv.encodings =
        (struct kv_encodings){.hash_listpack_count = config->hash_max_listpack_entries,
                              .hash_listpack_bytes = config->hash_max_listpack_value,
                              .set_intset_count = config->set_max_intset_entries,
                              .zset_listpack_count = config->zset_max_listpack_entries,
                              .zset_listpack_bytes = config->zset_max_listpack_value};
}

static struct part_limits part_limits_of(const struct config *config)
{
    static const enum part_algorithm algorithm[] = {[CONFIG_SQUEEZE_NONE] = PART_NONE,
                                                    [CONFIG_SQUEEZE_GZIP] = PART_GZIP,
                                                    [CONFIG_SQUEEZE_LZ4] = PART_LZ4,
                                                    [CONFIG_SQUEEZE_ZSTD] = PART_ZSTD,
                                                    [CONFIG_SQUEEZE_AUTO] = PART_AUTO};
    return (struct part_limits){.batch = config->part_batch,
                                .algorithm = algorithm[config->part_algorithm],
                                .simple_max = config->part_simple_max,
                                .compressed_max = config->part_compressed_max,
                                .retain_ms = config->part_retain_ms,
                                .cache_bytes = config->part_cache_bytes,
                                .cache_ttl_ms = config->part_cache_ttl_ms,
                                .takeovers_max = config->part_takeovers};
}

/* CONFIG SET: what has to happen beside the new value. */
static void config_changed(void *arg, const struct config *config, const char *name)
{
    struct server *server = arg;
    if (strcmp(name, "durability") == 0) {
        tasks_durability_set(server->tasks, config->durability);
    } else if (strcmp(name, "hot-memory") == 0) {
        store_hot_memory_set(server->store, config->hot_memory_bytes);
        server->clients_bytes_max = config_clients_bytes(config);
    } else if (strcmp(name, "maxmemory-clients") == 0) {
        server->clients_bytes_max = config_clients_bytes(config);
    } else if (strcmp(name, "maxclients") == 0) {
        server->conn_count_max = clients_max(config);
    } else if (strcmp(name, "notify-keyspace-events") == 0) {
        server->notify = config->notify_keyspace_events;
        server__waiting_update(server);
    } else if (strcmp(name, "proto-max-bulk-len") == 0) {
        server->kv.string_bytes_max = config->proto_max_bulk_len;
        for (struct conn *conn = server->conns; conn; conn = conn->next)
            conn->parser.bulk_bytes_max = (int64_t)config->proto_max_bulk_len;
    } else if (strcmp(name, "loglevel") == 0) {
        log_level_set(config_log_level(config));
    } else if (strstr(name, "-max-listpack-") || strstr(name, "-max-intset-")) {
        encodings_set(server);
    } else if (strncmp(name, "part-", strlen("part-")) == 0) {
        struct part_limits limits = part_limits_of(config);
        part_limits_set(server->part, &limits);
    } else if (strcmp(name, "busy-poll") == 0) {
        loop_spin_set(server->loop, config->busy_poll);
    } else if (strcmp(name, "active-expire") == 0) {
        server__sweep_set(server);
    }
}

/* CONFIG SET: what the system cannot do is refused before anything is changed. */
static enum rc config_possible(void *arg, const struct config *next, const char *name,
                               struct err *err)
{
    (void)arg;
    if (strcmp(name, "maxclients") != 0 || clients_max(next) >= next->maxclients)
        return RC_OK;
    return err_set(err, RC_INVALID,
                   "The operating system is not able to handle the specified number of clients, "
                   "try with %zu",
                   clients_max(next));
}

/* What CONFIG GET shows is what holds. */
static void clients_limit(struct server *server)
{
    server->conn_count_max = clients_max(server->config);
    if (server->conn_count_max >= server->config->maxclients)
        return;
    log_warn("maxclients is %zu, not %u: the system gives no more descriptors (ulimit -n)",
             server->conn_count_max, (unsigned)server->config->maxclients);
    server->config->maxclients = (uint32_t)server->conn_count_max;
}

/* A pause stops it too: the sweep writes. */
void server__sweep_set(struct server *server)
{
    expire_active_set(server->expire, server->config->active_expire && server->pause_end_ms == 0);
}

static enum rc databases_open(struct server *server, struct err *err)
{
    kv_init(&server->kv, server->store, server->clock);
    encodings_set(server);
    server->kv.string_bytes_max = server->config->proto_max_bulk_len;
    server->kv.hooks = (struct kv_hooks){.told = &server->effects.buf,
                                         .end = server__run_end,
                                         .changed = server__key_changed,
                                         .flushed = server__ns_flushed,
                                         .arg = server};
    return names_open(&server->kv, err);
}

static enum rc landing_open(struct server *server, struct err *err)
{
    const struct config_list *rules = &server->config->land;
    server->landing =
        landing_new(&(struct landing_options){.kv = &server->kv,
                                              .tasks = server->tasks,
                                              .clock = server->clock,
                                              .dir = server->config->dir,
                                              .land_dir = server->config->land_dir,
                                              .land_remote = server->config->land_remote});
    for (size_t i = 0; i < rules->count; i++) {
        struct rule_spec *spec;
        struct bytes text = bytes_of(rules->text[i], strlen(rules->text[i]));
        enum rc rc = rule_parse_text(text, &spec, err);
        if (rc == RC_OK)
            rc = landing_rule_add(server->landing, spec, true, err);
        if (rc != RC_OK)
            return err_prefix(err, "land %s: ", rules->text[i]);
    }
    return landing_rules_load(server->landing, err);
}

static void part_start_up(struct server *server)
{
    server->part = part_new(&(struct part_options){.kv = &server->kv,
                                                   .tasks = server->tasks,
                                                   .clock = server->clock,
                                                   .limits = part_limits_of(server->config),
                                                   .safe = server__packer_safe,
                                                   .arg = server});
}

static enum rc tiles_start(struct server *server, struct err *err)
{
    const struct config *config = server->config;
    return tiles_open(&(struct tiles_options){.kv = &server->kv,
                                              .tasks = server->tasks,
                                              .clock = server->clock,
                                              .types = (const char *const *)config->tile_types.text,
                                              .type_count = config->tile_types.count,
                                              .data_dir = config->dir,
                                              .sqlite_dir = config->tile_sqlite,
                                              .kv_dir = config->tile_kv,
                                              .clear = config->tile_clear,
                                              .batch_count = config->tile_batch,
                                              .interval_ms = config->tile_interval_ms,
                                              .cache_bytes = config->tile_cache_bytes,
                                              .open_shards = config->tile_open_shards,
                                              .command = cmd_tile_plain,
                                              .wake = loop_wake,
                                              .wake_arg = server->loop},
                      &server->tiles, err);
}

static void run_id_draw(char to[41])
{
    static const char digits[] = "0123456789abcdef";
    struct rand rand;
    uint8_t bytes[40];
    rand_init_os(&rand);
    rand_bytes(&rand, bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++)
        to[i] = digits[bytes[i] & 15];
    to[40] = 0;
}

static void server_parts_init(struct server *server)
{
    size_t cmd_count;
    const struct cmd *cmds = cmd_list(&cmd_count);
    server->cmds = cmd_table_new(cmds, cmd_count);
    server->cmd_stats = mem_zalloc(cmd_count * sizeof *server->cmd_stats);
    server->pubsub = pubsub_new();
    server->slowlog = slowlog_new();
    server->turn = 1;
    server->batch_max = BATCH_CALLS_MAX;
    server->turn_call = mem_alloc(TURN_CALLS_MAX * sizeof *server->turn_call);
    server->arg = mem_alloc(BATCH_ARGS_MAX * sizeof *server->arg);
    server->arg_cap = BATCH_ARGS_MAX;
    server->unsafe_effects_tail = &server->unsafe_effects;
    effects_init(&server->effects);
    buf_init(&server->monitor_feed, MONITOR_FEED_BYTES_MAX);
    server__waiters_init(server);
    server->tasks = tasks_new(&(struct tasks_options){.store = server->store,
                                                      .clock = server->clock,
                                                      .durability = server->config->durability,
                                                      .wake = loop_wake,
                                                      .wake_arg = server->loop,
                                                      .clients = server__clients,
                                                      .turn_end = server__turn_end,
                                                      .clients_arg = server});
}

enum rc server_new(const struct server_options *options, struct server **ret_server,
                   struct err *err)
{
    struct server *server = mem_zalloc(sizeof *server);
    server->loop = options->loop;
    server->store = options->store;
    server->clock = options->clock;
    clock_steps_init(&server->steps, server->clock);
    server->config = options->config;
    server->now_ms = clock_unix_ms(server->clock);
    server->start_ms = server->last_save_ms = server->now_ms;
    clients_limit(server);
    server->clients_bytes_max = config_clients_bytes(server->config);
    server->notify = server->config->notify_keyspace_events;
    run_id_draw(server->run_id);
    server_parts_init(server);
    server->signals = (struct loop_source){
        .fd = options->signal_fd, .events = LOOP_READ, .ready = signal_ready, .arg = server};
    enum rc rc = databases_open(server, err);
    if (rc == RC_OK)
        rc = landing_open(server, err);
    if (rc == RC_OK)
        rc = fs_open(&(struct fs_options){.store = server->store,
                                          .tasks = server->tasks,
                                          .clock = server->clock,
                                          .wake = loop_wake,
                                          .wake_arg = server->loop},
                     &server->fs, err);
    if (rc == RC_OK)
        rc = tiles_start(server, err);
    if (rc == RC_OK) {
        part_start_up(server);
        server->expire = expire_new(&(struct expire_options){
            .kv = &server->kv, .tasks = server->tasks, .safe = server__sweep_safe, .arg = server});
        queue_lease_start(server->tiles);
        server->host = (struct cmd_host){.block = server__block,
                                         .key_try = server__key_try,
                                         .cmds = server->cmds,
                                         .model = {[MODEL_landing] = server->landing,
                                                   [MODEL_fs] = server->fs,
                                                   [MODEL_tile] = server->tiles,
                                                   [MODEL_partition] = server->part}};
        expire_active_set(server->expire, server->config->active_expire);
        loop_spin_set(server->loop, server->config->busy_poll);
        server__waiting_update(server);
        config_listen(server->config, config_possible, config_changed, server);
        rc = loop_add(server->loop, &server->signals, err);
    }
    if (rc == RC_OK)
        rc = server__listen(server, options->ports, err);
    if (rc == RC_OK && options->ports->http_fd >= 0)
        rc = http_open(server, &options->ports->http_fd, &server->http, err);
    if (rc != RC_OK) {
        server_free(server);
        return rc;
    }
    *ret_server = server;
    return RC_OK;
}

void server_free(struct server *server)
{
    if (!server)
        return;
    http_close(server->http);
    server__listen_end(server);
    while (server->conns)
        server__conn_close(server->conns);
    loop_del(server->loop, &server->signals);
    config_listen(server->config, NULL, NULL, NULL);
    if (server->tiles)
        queue_lease_end(server->tiles);
    expire_free(server->expire);
    part_free(server->part);
    landing_free(server->landing);
    fs_close(server->fs);
    tiles_close(server->tiles);
    tasks_free(server->tasks);
    server__requests_done(server);
    server__unsafe_effects_done(server);
    server__waiters_done(server);
    effects_done(&server->effects);
    buf_done(&server->monitor_feed);
    server__out_spares_free(server, OUT_SPARES_MAX);
    pubsub_free(server->pubsub);
    slowlog_free(server->slowlog);
    cmd_table_free(server->cmds);
    mem_free(server->cmd_stats);
    mem_free(server->turn_call);
    mem_free(server->arg);
    kv_done(&server->kv);
    mem_free(server);
}

const char *server_version(void)
{
    return TERRACE_VERSION;
}

uint16_t server_port(const struct server *server)
{
    return server->port;
}

/* ---- running ---- */

/* What happened a second since the last sample. */
static uint64_t rate(uint64_t value, uint64_t *sampled, uint64_t ms)
{
    uint64_t per_s = (value - *sampled) * 1000 / ms;
    *sampled = value;
    return per_s;
}

static void stats_sample(struct server *server, uint64_t now_ms)
{
    uint64_t ms = now_ms - server->stats.ops_sampled_ms;
    server->stats.ops_per_s =
        rate(server->stats.command_count, &server->stats.ops_sampled_count, ms);
    server->stats.input_bytes_per_s =
        rate(server->stats.input_bytes, &server->stats.input_sampled_bytes, ms);
    server->stats.output_bytes_per_s =
        rate(server->stats.output_bytes, &server->stats.output_sampled_bytes, ms);
    server->stats.ops_sampled_ms = now_ms;
}

/* A tenth of a second, as often as turns allow. */
static void server_cron(struct server *server)
{
    uint64_t now_ms = clock_unix_ms(server->clock);
    server->now_ms = now_ms;
    if (server->pause_end_ms != 0 && now_ms >= server->pause_end_ms)
        server__pause_end(server);
    server__accept_cron(server);
    if (now_ms - server->stats.ops_sampled_ms < CRON_MS)
        return;
    stats_sample(server, now_ms);
    if (store_flush_mark(server->store) != server->flush_mark_seen) {
        server->flush_mark_seen = store_flush_mark(server->store);
        server->last_save_ms = now_ms;
    }
    server__conns_cron(server);
    server__health(server);
}

/* What commands have asked the store for that cannot happen while a commit is open. */
static void asked_do(struct server *server)
{
    if (server->flush_asked)
        server->flush_segment = store_flush_ask(server->store);
    if (server->evict_asked)
        store_evict_all(server->store);
    server->flush_asked = server->evict_asked = false;
    server->busy = true;
}

void server__turn(struct server *server)
{
    server->busy = false;
    if (tasks_turn(server->tasks))
        server->busy = true;
    landing_turn(server->landing);
    if (tiles_turn(server->tiles))
        server->busy = true;
    fs_turn(server->fs);
    if (server->flush_asked || server->evict_asked)
        asked_do(server);
    server__unsafe_look(server);
    server__unsafe_effects_look(server);
    if (server->http)
        http_durable(server->http, store_durable_lsn(server->store));
    if (server->monitor_count > 0)
        monitor_deliver(server);
    server__conns_update(server);
    if (server__clients_over(server)) {
        server__clients_obey(server);
        server__conns_update(server);
    }
    server_cron(server);
}

/* Waits for what comes, then a turn. */
static enum rc server_turn(struct server *server, uint64_t timeout_ns, struct err *err)
{
    enum rc rc = loop_wait(server->loop, server->busy ? 0 : timeout_ns, err);
    if (rc == RC_OK)
        server__turn(server);
    return rc;
}

/* No new requests; those that are here are answered. */
static enum rc server_drain(struct server *server, struct err *err)
{
    uint64_t end_ns = clock_mono_ns(server->clock) + DRAIN_MS_MAX * NS_A_MS;
    server__listen_end(server);
    for (struct conn *conn = server->conns; conn; conn = conn->next) {
        server__conn_finish(conn); /* what was sent is run and answered */
        if (server__conn_blocked(conn))
            conn->broken = true; /* it would wait for ever */
    }
    while (clock_mono_ns(server->clock) < end_ns && server->signal_count < 2) {
        if (!server->conns)
            return RC_OK;
        enum rc rc = server_turn(server, 10 * NS_A_MS, err);
        if (rc != RC_OK)
            return rc;
    }
    log_warn("%zu connections were closed before their replies were taken", server->conn_count);
    return RC_OK;
}

/* Whether a step of stopping has taken long enough; what it leaves is done by the next start. */
static bool stop_is_over(struct server *server, uint64_t begin_ns)
{
    struct err why;
    bool failing = store_flush_failed(server->store, &why);
    uint64_t ms_max = failing ? STOP_FAILING_MS_MAX : STOP_MS_MAX;
    return clock_mono_ns(server->clock) - begin_ns >= ms_max * NS_A_MS || server->signal_count >= 2;
}

/* What is not persisted stays in the store: the next start goes on. */
static enum rc server_tiles(struct server *server, struct err *err)
{
    uint64_t begin_ns = clock_mono_ns(server->clock);
    while (!tiles_drained(server->tiles)) {
        if (stop_is_over(server, begin_ns)) {
            log_warn("not all tiles were persisted; the next start goes on");
            return RC_OK;
        }
        enum rc rc = server_turn(server, 100 * NS_A_MS, err);
        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}

/* What is flushed need not be read from the journal by the next start. */
static enum rc server_flush(struct server *server, struct err *err)
{
    uint64_t begin_ns = clock_mono_ns(server->clock);
    uint64_t segment = store_flush_ask(server->store);
    while (store_flush_mark(server->store) < segment) {
        if (stop_is_over(server, begin_ns)) {
            log_warn("not everything was flushed; the next start reads it from the journal");
            return RC_OK;
        }
        enum rc rc = server_turn(server, 100 * NS_A_MS, err);
        if (rc != RC_OK)
            return rc;
    }
    log_info("everything is flushed");
    return RC_OK;
}

enum rc server_run(struct server *server, struct err *err)
{
    enum rc rc = RC_OK;
    while (rc == RC_OK && server->signal_count == 0) {
        uint64_t next_ns = tasks_next_ns(server->tasks);
        rc = server_turn(server, next_ns < TURN_NS_MAX ? next_ns : TURN_NS_MAX, err);
    }
    if (rc != RC_OK)
        return rc;
    log_info("stopping: finishing requests, then flushing");
    rc = server_drain(server, err);
    if (rc == RC_OK)
        rc = server_tiles(server, err);
    if (rc != RC_OK)
        return rc;
    return server_flush(server, err);
}
