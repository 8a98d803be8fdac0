// SPDX-License-Identifier: Apache-2.0
/* models.h - the list of models (models.def), and what the server asks of all of them.
 *
 * The number of a model is its place in the list: cmd.model, cmd_host.model, cmd_request.waiter.
 *
 * Threads: the executor, but for the list, which is constant. */
#pragma once

#include "command/model.h"

enum model_id {
#define MODEL(name) MODEL_##name,
#include "server/models.def"
#undef MODEL
    MODEL_COUNT,
};
_Static_assert((int)MODEL_COUNT <= (int)CMD_NO_MODEL, "every model has a place");

extern const struct model *const models[CMD_MODELS_MAX];

struct server;

/* Opens them in order. After an error models_close() closes those that are open. */
enum rc models_open(struct server *server, struct err *err) NODISCARD;
void models_close(struct server *server);
bool models_turn(struct server *server); /* true: another turn at once */
/* A model that has something left to do; NULL: none has. */
const struct model *models_undrained(struct server *server);
/* After RC_COLD of the last run: whether a model is being asked; it wakes the task. */
bool models_wait(struct server *server, void **waiter, struct task *task);
void models_wait_end(void **waiter);
