// SPDX-License-Identifier: Apache-2.0
/* log.h - lines to standard error: time, level, text.
 *
 * Layers below server/ fill struct err and log nothing above debug.
 * Threads: any; a line is one write. The level is the one file-scope variable of the project. */
#pragma once

#include <stdbool.h>

#include "base/macros.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR, LOG_NONE };

void log_level_set(enum log_level level);
enum log_level log_level(void);
/* Lines go to the end of this file from now on (standard error is redirected). False: it could not
 * be opened, and nothing has changed. */
bool log_open(const char *path) NODISCARD;
void log_line(enum log_level level, const char *format, ...) PRINTF_LIKE(2, 3);

#define log_debug(...) log_line(LOG_DEBUG, __VA_ARGS__)
#define log_info(...) log_line(LOG_INFO, __VA_ARGS__)
#define log_warn(...) log_line(LOG_WARN, __VA_ARGS__)
#define log_error(...) log_line(LOG_ERROR, __VA_ARGS__)
