/* client.c - sends one command to a server and prints the reply as redis-cli does; of a command
 * that makes the server send without being asked, everything that comes. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/bytes.h"
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

/* *at: where the command stands; *argc: without the options behind it. */
static enum rc args_parse(struct client *client, int *argc, char **argv, int *at, struct err *err)
{
    enum rc rc = RC_OK;
    while (rc == RC_OK && *at < *argc)
        rc = option_take(client, *argc, argv, at, err);
    if (rc == RC_OK)
        return err_set(err, RC_INVALID, "a command is missing; try: terrace help");
    if (rc != RC_NOT_FOUND)
        return rc;
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
        rc = client_open(&client, &err);
    if (rc == RC_OK)
        rc = cli_send(fileno(client.stream), (const char *const *)(argv + at), (size_t)(argc - at),
                      &err);
    if (rc == RC_OK)
        rc = replies_show(&client, manner_of(argc - at, argv + at), &err);
    if (client.stream)
        fclose(client.stream);
    if (rc != RC_OK)
        return cli_fail("%s", err.text);
    return client.show.had_error ? 1 : 0;
}
