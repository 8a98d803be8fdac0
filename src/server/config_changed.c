// SPDX-License-Identifier: Apache-2.0
/* config_changed.c - what CONFIG SET does beside the new value. */
#include "server/config_changed.h"

#include "server/config_int.h"
#include "server/server_int.h"
#include "store/turns.h"

#include "server/scripts.h"

#include "base/banned.h"

void server__option_changed(void *arg, const struct option *row)
{
    struct server *server = arg;
    size_t model = config__row_model(row);
    if (row->changed && model == MODEL_COUNT)
        row->changed(server, server->config);
    else if (row->changed)
        row->changed(server->host.model[model], server->config->model[model]);
}

void config__durability_changed(void *arg, const void *config)
{
    struct server *server = arg;
    tasks_durability_set(server->tasks, ((const struct config *)config)->durability);
}

void config__hot_memory_changed(void *arg, const void *config)
{
    struct server *server = arg;
    store_hot_memory_set(server->store, ((const struct config *)config)->hot_memory_bytes);
    server->clients_bytes_max = config_clients_bytes(config);
}

void config__lua_memory_changed(void *arg, const void *config)
{
    const struct server *server = arg;
    (void)config;
    scripts_memory_set(server->scripts);
}

void config__clients_memory_changed(void *arg, const void *config)
{
    struct server *server = arg;
    server->clients_bytes_max = config_clients_bytes(config);
}

void config__maxclients_changed(void *arg, const void *config)
{
    struct server *server = arg;
    server->conn_count_max = server__clients_max(config);
}

enum rc config__maxclients_possible(const void *config, struct err *err)
{
    size_t most = server__clients_max(config);
    if (most >= ((const struct config *)config)->maxclients)
        return RC_OK;
    return err_set(err, RC_INVALID,
                   "The operating system is not able to handle the specified number of clients, "
                   "try with %zu",
                   most);
}

void config__events_changed(void *arg, const void *config)
{
    struct server *server = arg;
    server->notify = ((const struct config *)config)->notify_keyspace_events;
    server__waiting_update(server);
}

void config__bulk_changed(void *arg, const void *config)
{
    struct server *server = arg;
    server->kv.string_bytes_max = ((const struct config *)config)->proto_max_bulk_len;
    for (struct conn *conn = server->conns; conn; conn = conn->next)
        conn->parser.bulk_bytes_max = (int64_t)server->kv.string_bytes_max;
}

void config__loglevel_changed(void *server, const void *config)
{
    (void)server;
    log_level_set(config_log_level(config));
}

void config__encodings_changed(void *server, const void *config)
{
    (void)config;
    server__encodings_set(server);
}

void config__busy_poll_changed(void *arg, const void *config)
{
    struct server *server = arg;
    loop_spin_set(server->loop, ((const struct config *)config)->busy_poll);
}

void config__active_expire_changed(void *server, const void *config)
{
    (void)config;
    server__sweep_set(server);
}
