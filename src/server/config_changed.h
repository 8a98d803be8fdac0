// SPDX-License-Identifier: Apache-2.0
/* config_changed.h - what has to happen when CONFIG SET has changed an option of the server's:
 * option.changed() and option.possible().
 *
 * Threads: the executor. */
#pragma once

#include "base/err.h"

void config__durability_changed(void *server, const void *config);
void config__hot_memory_changed(void *server, const void *config);
void config__lua_memory_changed(void *server, const void *config);
void config__clients_memory_changed(void *server, const void *config);
void config__maxclients_changed(void *server, const void *config);
enum rc config__maxclients_possible(const void *config, struct err *err) NODISCARD;
void config__events_changed(void *server, const void *config);
void config__bulk_changed(void *server, const void *config);
void config__loglevel_changed(void *server, const void *config);
void config__encodings_changed(void *server, const void *config);
void config__busy_poll_changed(void *server, const void *config);
void config__active_expire_changed(void *server, const void *config);
