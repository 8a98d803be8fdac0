// SPDX-License-Identifier: Apache-2.0
/* log.c - prints log lines and holds the level. */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#include "base/banned.h"

enum { LOG_LINE_BYTES_MAX = 4096 };

static _Atomic int level_now = LOG_INFO; /* shared: atomic */

void log_level_set(enum log_level level)
{
    atomic_store_explicit(&level_now, (int)level, memory_order_relaxed);
}

enum log_level log_level(void)
{
    return (enum log_level)atomic_load_explicit(&level_now, memory_order_relaxed);
}

bool log_open(const char *path)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0)
        return false;
    bool done = dup2(fd, STDERR_FILENO) >= 0;
    close(fd);
    return done;
}

static const char *level_name(enum log_level level)
{
    switch (level) {
    case LOG_DEBUG:
        return "debug";
    case LOG_INFO:
        return "info";
    case LOG_WARN:
        return "warn";
    case LOG_ERROR:
        return "error";
    case LOG_NONE:
        break;
    }
    return "none";
}

static size_t head_print(char *line, size_t size, enum log_level level)
{
    struct clock clock;
    clock_init(&clock);
    uint64_t now_ms = clock_unix_ms(&clock);
    time_t seconds = (time_t)(now_ms / 1000);
    struct tm utc;
    gmtime_r(&seconds, &utc);
    size_t len = strftime(line, size, "%Y-%m-%dT%H:%M:%S", &utc);
    return len + (size_t)snprintf(line + len, size - len, ".%03uZ %-5s ", (unsigned)(now_ms % 1000),
                                  level_name(level));
}

void log_line(enum log_level level, const char *format, ...)
{
    if (level < log_level() || level >= LOG_NONE)
        return;
    int errno_before = errno; /* logging changes nothing for its caller */
    char line[LOG_LINE_BYTES_MAX];
    size_t len = head_print(line, sizeof line, level);
    size_t text_at = len;

    va_list args;
    va_start(args, format);
    int printed = vsnprintf(line + len, sizeof line - len, format, args);
    va_end(args);
    if (printed > 0)
        len += (size_t)printed;
    if (len > sizeof line - 1)
        len = sizeof line - 1; /* the NUL's place is the newline's */
    /* What a client sent must not begin a line of its own or steer a terminal. */
    for (size_t i = text_at; i < len; i++) {
        if ((unsigned char)line[i] < ' ' || line[i] == 127)
            line[i] = '?';
    }
    line[len++] = '\n';
    ssize_t written = write(STDERR_FILENO, line, len);
    (void)written; /* there is nobody left to tell */
    errno = errno_before;
}
