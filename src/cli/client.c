// SPDX-License-Identifier: Apache-2.0
/* client.c - sends one command to a server, or those of standard input, and prints the replies as
 * redis-cli does; of a command that makes the server send without being asked, everything that
 * comes. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/limits.h"
#include "cli/cli.h"
#include "cli/show.h"

#include "base/banned.h"

struct client {
    struct cli_server server;
    bool resp3;
    FILE *stream;
    struct show show;
};

/* What redis-cli does with a command's replies. */
enum manner {
    MANNER_REPLY,       /* there is one */
    MANNER_TEXT,        /* it is a text for people, on a terminal too */
    MANNER_MESSAGES,    /* they come until somebody ends it, after a note about that */
    MANNER_LINES,       /* the same without the note */
    MANNER_UNSUBSCRIBE, /* of RESP3 it is a push */
    MANNER_END,         /* the server ends instead of an answer */
};

static const struct {
    const char *name;
    const char *second; /* NULL: whatever follows */
    enum manner manner;
} manners[] = {
    {"info", NULL, MANNER_TEXT},
    {"lolwut", NULL, MANNER_TEXT},
    {"client", "list", MANNER_TEXT},
    {"client", "info", MANNER_TEXT},
    {"cluster", "info", MANNER_TEXT},
    {"cluster", "nodes", MANNER_TEXT},
    {"latency", "doctor", MANNER_TEXT},
    {"latency", "graph", MANNER_TEXT},
    {"memory", "doctor", MANNER_TEXT},
    {"memory", "malloc-stats", MANNER_TEXT},
    {"debug", "htstats", MANNER_TEXT},
    {"subscribe", NULL, MANNER_MESSAGES},
    {"psubscribe", NULL, MANNER_MESSAGES},
    {"ssubscribe", NULL, MANNER_MESSAGES},
    {"monitor", NULL, MANNER_LINES},
    {"unsubscribe", NULL, MANNER_UNSUBSCRIBE},
    {"punsubscribe", NULL, MANNER_UNSUBSCRIBE},
    {"sunsubscribe", NULL, MANNER_UNSUBSCRIBE},
    {"shutdown", NULL, MANNER_END},
};

static enum manner manner_of(int argc, char **argv)
{
    for (size_t i = 0; i < ARRAY_LEN(manners); i++)
        if (strcasecmp(argv[0], manners[i].name) == 0 &&
            (!manners[i].second || (argc > 1 && strcasecmp(argv[1], manners[i].second) == 0)))
            return manners[i].manner;
    return MANNER_REPLY;
}

/* ---- talking ---- */

static enum rc client_open(struct client *client, struct err *err)
{
    const char *hello[] = {"HELLO", "3"};
    int fd;
    enum rc rc = cli_connect(&client->server, &fd, err);
    if (rc != RC_OK)
        return rc;
    client->stream = fdopen(fd, "r");
    if (!client->stream) {
        err_set(err, RC_IO, "%s", strerror(errno));
        close(fd);
        return RC_IO;
    }
    client->show.stream = client->stream;
    if (!client->resp3)
        return RC_OK;
    rc = cli_send(fd, hello, ARRAY_LEN(hello), err);
    if (rc == RC_OK)
        rc = show_skip(&client->show, err);
    client->show.has_begun = false;
    return rc == RC_REPLY ? err_prefix(err, "the server refused RESP3: ") : rc;
}

/* redis-cli tells of pushes that come before the reply on a terminal only. */
static enum rc pushes_show(struct client *client, struct err *err)
{
    enum rc rc = RC_OK;
    while (rc == RC_OK && client->resp3 && show_push_is_next(&client->show))
        rc = client->show.raw ? show_skip(&client->show, err) : show_reply(&client->show, err);
    return rc;
}

/* Until the server closes the connection, or answered with an error. */
static enum rc stream_show(struct client *client, struct err *err)
{
    enum rc rc = RC_OK;
    while (rc == RC_OK && !client->show.had_error)
        rc = show_reply(&client->show, err);
    return rc;
}

static enum rc replies_show(struct client *client, enum manner manner, struct err *err)
{
    struct show *show = &client->show;
    enum rc rc;
    switch (manner) {
    case MANNER_MESSAGES:
        if (!show->raw)
            printf("Reading messages... (press Ctrl-C to quit)\n");
        return stream_show(client, err);
    case MANNER_LINES:
        return stream_show(client, err);
    case MANNER_UNSUBSCRIBE:
        return show_reply(show, err);
    case MANNER_TEXT:
        show->raw = show->no_end = true;
        return show_reply(show, err);
    case MANNER_END:
        rc = show_reply(show, err);
        return rc == RC_IO && !show->has_begun ? RC_OK : rc;
    case MANNER_REPLY:
        rc = pushes_show(client, err);
        return rc == RC_OK ? show_reply(show, err) : rc;
    }
    return RC_OK;
}

static enum rc words_say(struct client *client, int argc, char **argv, struct err *err)
{
    enum rc rc = client_open(client, err);
    if (rc == RC_OK)
        rc = cli_send(fileno(client->stream), (const char *const *)argv, (size_t)argc, err);
    return rc == RC_OK ? replies_show(client, manner_of(argc, argv), err) : rc;
}

/* ---- standard input ---- */

enum { LINE_BYTES_MAX = RESP_LINE_BYTES_MAX - 2 };

/* A line with its end, which is added where the last has none. RC_NOT_FOUND: there is no more. */
static enum rc line_read(struct buf *line, struct err *err)
{
    int c;
    buf_cut(line, 0);
    while ((c = getc(stdin)) != EOF && c != '\n') {
        uint8_t byte = (uint8_t)c;
        if (line->len == LINE_BYTES_MAX || !buf_add(line, &byte, 1))
            return err_set(err, RC_TOO_BIG, "a line of standard input has at most %d bytes",
                           LINE_BYTES_MAX);
    }
    if (c == EOF && line->len == 0)
        return RC_NOT_FOUND;
    return buf_add(line, "\r\n", 2)
               ? RC_OK
               : err_set(err, RC_NOMEM, "could not allocate memory for a line");
}

/* How the replies to a line are shown: its first two words say it. */
static enum manner line_manner(struct bytes line)
{
    char text[64] = "", word[2][sizeof text] = {"", ""};
    memcpy(text, line.ptr, line.len < sizeof text ? line.len : sizeof text - 1);
    sscanf(text, "%63s %63s", word[0], word[1]);
    return manner_of(2, (char *[]){word[0], word[1]});
}

/* The server takes a line for a command, with the quotes of redis-cli ("inline"). */
static enum rc line_say(struct client *client, struct bytes line, struct err *err)
{
    struct show *show = &client->show;
    bool raw = show->raw;
    if (line.ptr[0] == '*') /* the server would wait for an array */
        return err_set(err, RC_INVALID, "a command of standard input begins with its name");
    enum rc rc = cli_send_bytes(fileno(client->stream), line, err);
    if (rc == RC_OK)
        rc = replies_show(client, line_manner(line), err);
    show->raw = raw;
    show->no_end = show->has_begun = false;
    return rc;
}

/* Every line is a command, a blank one is none; all on one connection. */
static enum rc lines_say(struct client *client, struct err *err)
{
    struct buf line;
    bool any = false;
    enum rc rc;
    buf_init(&line, RESP_LINE_BYTES_MAX);
    while ((rc = line_read(&line, err)) == RC_OK) {
        struct bytes text = buf_bytes(&line);
        while (text.len > 0 && isspace(text.ptr[0]))
            text = bytes_from(text, 1);
        if (text.len == 0)
            continue;
        if (!any)
            rc = client_open(client, err);
        any = true;
        if (rc == RC_OK)
            rc = line_say(client, text, err);
        if (rc != RC_OK)
            break;
    }
    buf_done(&line);
    if (rc == RC_NOT_FOUND)
        rc = any ? RC_OK : err_set(err, RC_INVALID, "a command is missing; try: terrace help");
    return rc;
}

/* ---- the command line ---- */

/* Takes an option, with its value, from argv[*at]. RC_NOT_FOUND: it is a word. */
static enum rc option_take(struct client *client, int argc, char **argv, int *at, struct err *err)
{
    const char *name = argv[*at];
    const char *value = *at + 1 < argc ? argv[*at + 1] : NULL;
    if (name[0] != '-')
        return RC_NOT_FOUND;
    if (strcmp(name, "-3") == 0) {
        client->resp3 = true;
        *at += 1;
        return RC_OK;
    }
    if (!cli_server_option(&client->server, strcmp(name, "-n") == 0 ? "--db" : name, value))
        return err_set(err, RC_INVALID, "unknown option \"%s\"; try: terrace help", name);
    if (!value)
        return err_set(err, RC_INVALID, "%s needs a value", name);
    *at += 2;
    return RC_OK;
}

/* Takes the options behind the word argv[0] away; *argc counts what is left. */
static enum rc options_take_behind(struct client *client, int *argc, char **argv, struct err *err)
{
    for (int i = 1; i < *argc;) {
        int next = i;
        enum rc rc = option_take(client, *argc, argv, &next, err);
        if (rc != RC_OK && rc != RC_NOT_FOUND)
            return rc;
        if (rc == RC_NOT_FOUND) {
            i++;
            continue;
        }
        memmove(argv + i, argv + next, (size_t)(*argc - next) * sizeof *argv);
        *argc -= next - i;
    }
    return RC_OK;
}

/* *at: where the command stands, or *argc: there is none; *argc: without the options behind it. */
static enum rc args_parse(struct client *client, int *argc, char **argv, int *at, struct err *err)
{
    enum rc rc = RC_OK;
    while (rc == RC_OK && *at < *argc)
        rc = option_take(client, *argc, argv, at, err);
    if (rc == RC_OK && isatty(STDIN_FILENO))
        return err_set(err, RC_INVALID, "a command is missing; try: terrace help");
    if (rc != RC_NOT_FOUND)
        return rc; /* RC_OK: standard input has them */
    char **command = argv + *at;
    if (strcasecmp(command[0], "ping") != 0 && strcasecmp(command[0], "info") != 0)
        return RC_OK;
    int word_count = *argc - *at;
    rc = options_take_behind(client, &word_count, command, err);
    *argc = *at + word_count;
    return rc;
}

int cli_client(int argc, char **argv)
{
    struct client client = {.show.raw = !isatty(STDOUT_FILENO)};
    struct err err = {0};
    int at = 0;
    cli_server_init(&client.server);
    enum rc rc = args_parse(&client, &argc, argv, &at, &err);
    if (rc == RC_OK)
        rc = at == argc ? lines_say(&client, &err) : words_say(&client, argc - at, argv + at, &err);
    if (client.stream)
        fclose(client.stream);
    if (rc != RC_OK)
        return cli_fail("%s", err.text);
    return client.show.had_error ? 1 : 0;
}
