// SPDX-License-Identifier: Apache-2.0
/* models.c - the list of models, and what is asked of all of them. */
#include "server/models.h"

#include "server/server_int.h"

#include "base/banned.h"

#define MODEL(name) extern const struct model name##_model;
#include "server/models.def"
#undef MODEL

const struct model *const models[CMD_MODELS_MAX] = {
#define MODEL(name) &name##_model,
#include "server/models.def"
#undef MODEL
};

enum rc models_open(struct server *server, struct err *err)
{
    const struct model_host host = {.kv = &server->kv,
                                    .tasks = server->tasks,
                                    .clock = server->clock,
                                    .dir = server->config->dir,
                                    .wake = loop_wake,
                                    .wake_arg = server->loop};
    enum rc rc = RC_OK;
    for (size_t i = 0; i < MODEL_COUNT && rc == RC_OK; i++)
        rc = models[i]->open(&host, server->config->model[i], &server->host.model[i], err);
    return rc;
}

void models_close(struct server *server)
{
    for (size_t i = MODEL_COUNT; i-- > 0;)
        if (server->host.model[i])
            models[i]->close(server->host.model[i]);
}

bool models_turn(struct server *server)
{
    bool busy = false;
    for (size_t i = 0; i < MODEL_COUNT; i++)
        if (models[i]->turn && models[i]->turn(server->host.model[i]))
            busy = true;
    return busy;
}

const struct model *models_undrained(struct server *server)
{
    const struct model *undrained = NULL;
    for (size_t i = 0; i < MODEL_COUNT; i++) /* all of them: each hears that it has to end */
        if (models[i]->drained && !models[i]->drained(server->host.model[i]))
            undrained = models[i];
    return undrained;
}

bool models_wait(struct server *server, void **waiter, struct task *task)
{
    for (size_t i = 0; i < MODEL_COUNT; i++)
        if (models[i]->wait && models[i]->wait(server->host.model[i], &waiter[i], task))
            return true;
    return false;
}

void models_wait_end(void **waiter)
{
    for (size_t i = 0; i < MODEL_COUNT; i++) {
        if (waiter[i])
            models[i]->waiter_free(waiter[i]);
        waiter[i] = NULL;
    }
}
