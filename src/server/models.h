// SPDX-License-Identifier: Apache-2.0
/* models.h - the numbers of the models: cmd.model, cmd_host.model, cmd_request.waiter. */
#pragma once

enum model_id {
#define MODEL(name) MODEL_##name,
#include "server/models.def"
#undef MODEL
    MODEL_COUNT,
};
