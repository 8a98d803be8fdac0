// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "test.h"

#include "base/banned.h"

/* What log_line() writes to standard error, as text. */
static size_t captured(enum log_level level, const char *text, char *to, size_t size)
{
    char path[512];
    snprintf(path, sizeof path, "%s/log", test_temp_dir());
    int before = dup(STDERR_FILENO);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    dup2(fd, STDERR_FILENO);
    log_line(level, "%s", text);
    dup2(before, STDERR_FILENO);
    ssize_t len = pread(fd, to, size - 1, 0);
    close(before);
    close(fd);
    ASSERT_GE(len, 0);
    to[len] = '\0';
    return (size_t)len;
}

TEST(a_line_has_time_level_and_text)
{
    char line[256];
    captured(LOG_WARN, "hello", line, sizeof line);
    /* 2024-01-01T00:00:00.000Z warn  hello */
    ASSERT_EQ(strlen(line), 24 + 1 + 6 + 5 + 1);
    ASSERT_EQ(line[10], 'T');
    ASSERT_EQ(line[23], 'Z');
    ASSERT_STR(line + 24, " warn  hello\n");
}

TEST(lines_below_the_level_are_not_written)
{
    char line[256];
    log_level_set(LOG_ERROR);
    ASSERT_EQ(log_level(), LOG_ERROR);
    ASSERT_EQ(captured(LOG_WARN, "hello", line, sizeof line), 0);
    ASSERT_GT(captured(LOG_ERROR, "hello", line, sizeof line), 0);
    log_level_set(LOG_NONE);
    ASSERT_EQ(captured(LOG_ERROR, "hello", line, sizeof line), 0);
    log_level_set(LOG_DEBUG);
    ASSERT_GT(captured(LOG_DEBUG, "hello", line, sizeof line), 0);
    log_level_set(LOG_INFO);
}

TEST(text_cannot_begin_a_second_line)
{
    char line[256];
    captured(LOG_INFO, "a\nb\x1b[31m", line, sizeof line);
    ASSERT_STR(line + 31, "a?b?[31m\n");
}

TEST(a_long_line_is_cut_and_ends_with_a_newline)
{
    char text[10000];
    char line[10000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    ASSERT_EQ(captured(LOG_INFO, text, line, sizeof line), 4096);
    ASSERT_STR(line + 4094, "x\n");
}
