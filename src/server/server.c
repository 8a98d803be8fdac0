// SPDX-License-Identifier: Apache-2.0
/* server.c - builds the server's parts, runs its turns, ends it. */
#include "server/server_int.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "server/http.h"
#include "server/scripts.h"
#include "store/testing.h"
#include "store/turns.h"
#include "types/names.h"

#include "base/banned.h"

enum {
    DESCRIPTORS_KEPT = 400, /* for the store: its engine may hold 256 files open */
    CRON_MS = 100,
    DRAIN_MS_MAX = 5 * 1000,
    STOP_MS_MAX = 30 * 1000,        /* for models, and again for the flush */
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

size_t server__clients_max(const struct config *config)
{
    struct rlimit limit;
    size_t wanted_count = config->maxclients, kept = DESCRIPTORS_KEPT;
    for (size_t i = 0; i < MODEL_COUNT; i++)
        kept += models[i]->descriptors ? models[i]->descriptors(config->model[i]) : 0;
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

void server__encodings_set(struct server *server)
{
    const struct config *config = server->config;
    server->kv.encodings =
        (struct kv_encodings){.hash_listpack_count = config->hash_max_listpack_entries,
                              .hash_listpack_bytes = config->hash_max_listpack_value,
                              .set_intset_count = config->set_max_intset_entries,
                              .zset_listpack_count = config->zset_max_listpack_entries,
                              .zset_listpack_bytes = config->zset_max_listpack_value};
}

/* What CONFIG GET shows is what holds. */
static void clients_limit(struct server *server)
{
    server->conn_count_max = server__clients_max(server->config);
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
    server__encodings_set(server);
    server->kv.string_bytes_max = server->config->proto_max_bulk_len;
    server->kv.hooks = (struct kv_hooks){.told = &server->effects.buf,
                                         .end = server__run_end,
                                         .changed = server__key_changed,
                                         .flushed = server__ns_flushed,
                                         .arg = server};
    return names_open(&server->kv, err);
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
    server->host =
        (struct cmd_host){.block = server__block, .key_try = server__key_try, .cmds = server->cmds};
    server->cmd_stats = mem_zalloc(cmd_count * sizeof *server->cmd_stats);
    server->pubsub = pubsub_new();
    server->slowlog = slowlog_new();
    server->scripts = scripts_new(server);
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
        rc = functions_open(&server->scripts->functions, server->scripts, err);
    if (rc == RC_OK)
        rc = models_open(server, err);
    if (rc == RC_OK) {
        server->expire = expire_new(&(struct expire_options){
            .kv = &server->kv, .tasks = server->tasks, .safe = server__sweep_safe, .arg = server});
        expire_active_set(server->expire, server->config->active_expire);
        loop_spin_set(server->loop, server->config->busy_poll);
        server__waiting_update(server);
        config_listen(server->config, server__option_changed, server);
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
    config_listen(server->config, NULL, NULL);
    expire_free(server->expire);
    models_close(server);
    tasks_free(server->tasks);
    server__requests_done(server);
    server__unsafe_effects_done(server);
    server__waiters_done(server);
    effects_done(&server->effects);
    buf_done(&server->monitor_feed);
    server__out_spares_free(server, OUT_SPARES_MAX);
    scripts_free(server->scripts);
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
    if (models_turn(server))
        server->busy = true;
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

/* What models have left to do stays in the store: the next start goes on. */
static enum rc server_models(struct server *server, struct err *err)
{
    uint64_t begin_ns = clock_mono_ns(server->clock);
    const struct model *undrained;
    while ((undrained = models_undrained(server))) {
        if (stop_is_over(server, begin_ns)) {
            log_warn("%s", undrained->undrained);
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
        rc = server_models(server, err);
    if (rc != RC_OK)
        return rc;
    return server_flush(server, err);
}
