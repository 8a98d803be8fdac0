// SPDX-License-Identifier: Apache-2.0
/* models.c - what the server asks of all models. */
#include "server/server_int.h"

#include "base/banned.h"

bool models_wait(struct server *server, void **waiter, struct task *task)
{
    return landing_wait(server->landing, &waiter[MODEL_landing], task) ||
           tiles_wait(server->tiles, &waiter[MODEL_tile], task);
}

void models_wait_end(struct server *server, void **waiter)
{
    (void)server;
    land_waiter_free(waiter[MODEL_landing]);
    tile_waiter_free(waiter[MODEL_tile]);
    waiter[MODEL_landing] = waiter[MODEL_tile] = NULL;
}
