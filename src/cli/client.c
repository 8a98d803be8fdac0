/* client.c - sends one command to a server and prints the reply as redis-cli does. */
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "cli/print.h"
#include "server/resp_out.h"

#include "base/banned.h"

enum { LINE_BYTES_MAX = 64 * 1024, DEPTH_MAX = 16, INDENT = 3 };

struct client {
    struct cli_server server;
    FILE *stream;
    bool raw;       /* not for a terminal: bulks as they are */
    bool had_error; /* the reply, or a part of it, was an error */
};

void cli_server_init(struct cli_server *server)
{
    const char *password = getenv("TERRACE_AUTH");
    *server = (struct cli_server){.host = "127.0.0.1", .port = "7379"};
    if (password && password[0])
        server->password = password;
}

bool cli_server_option(struct cli_server *server, const char *name, const char *value)
{
    if (strcmp(name, "-h") == 0)
        server->host = value;
    else if (strcmp(name, "-p") == 0)
        server->port = value;
    else if (strcmp(name, "-a") == 0)
        server->password = value;
    else if (strcmp(name, "--user") == 0)
        server->user = value;
    else
        return false;
    return true;
}

static bool all_send(int fd, struct bytes bytes)
{
    while (bytes.len > 0) {
        ssize_t sent = send(fd, bytes.ptr, bytes.len, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return false;
        bytes = bytes_of(bytes.ptr + sent, bytes.len - (size_t)sent);
    }
    return true;
}

/* The reply is a short line; nothing comes behind it. */
static enum rc auth_say(const struct cli_server *server, int fd, struct err *err)
{
    struct resp_out out;
    char line[ERR_TEXT_BYTES];
    size_t len = 0;
    resp_out_init(&out, SIZE_MAX);
    resp_add_array(&out, server->user ? 3 : 2);
    resp_add_text(&out, "AUTH");
    if (server->user)
        resp_add_text(&out, server->user);
    resp_add_text(&out, server->password);
    bool good = !out.failed && all_send(fd, buf_bytes(&out.buf));
    resp_out_done(&out);
    while (good && len < sizeof line && (len == 0 || line[len - 1] != '\n')) {
        ssize_t got = recv(fd, line + len, sizeof line - len, 0);
        good = got > 0 || (got < 0 && errno == EINTR);
        len += got > 0 ? (size_t)got : 0;
    }
    if (!good)
        return err_set(err, RC_IO, "the server closed the connection");
    if (line[0] == '+')
        return RC_OK;
    return err_set(err, RC_INVALID, "the server refused the password: %.*s",
                   (int)strcspn(line, "\r\n") - 1, line + 1);
}

enum rc cli_connect(const struct cli_server *server, int *ret_fd, struct err *err)
{
    const char *host = server->host, *port = server->port;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *address = NULL;
    int found = getaddrinfo(host, port, &hints, &address);
    if (found != 0)
        return err_set(err, RC_INVALID, "could not find \"%s:%s\": %s", host, port,
                       gai_strerror(found));
    int fd = -1, error = 0;
    for (const struct addrinfo *at = address; at && fd < 0; at = at->ai_next) {
        fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd >= 0 && connect(fd, at->ai_addr, at->ai_addrlen) == 0)
            break;
        error = errno;
        if (fd >= 0)
            close(fd);
        fd = -1;
    }
    freeaddrinfo(address);
    if (fd < 0)
        return err_set(err, RC_IO, "could not connect to %s:%s: %s", host, port, strerror(error));
    enum rc rc = server->password ? auth_say(server, fd, err) : RC_OK;
    if (rc != RC_OK)
        close(fd);
    else
        *ret_fd = fd;
    return rc;
}

static enum rc client_connect(struct client *client, struct err *err)
{
    int fd;
    enum rc rc = cli_connect(&client->server, &fd, err);
    if (rc != RC_OK)
        return rc;
    client->stream = fdopen(fd, "r+");
    return client->stream ? RC_OK : err_set(err, RC_IO, "%s", strerror(errno));
}

static enum rc client_send(struct client *client, int argc, char **argv, struct err *err)
{
    struct resp_out out;
    resp_out_init(&out, SIZE_MAX);
    resp_add_array(&out, (size_t)argc);
    for (int i = 0; i < argc; i++)
        resp_add_text(&out, argv[i]);
    bool sent = !out.failed && fwrite(out.buf.ptr, 1, out.buf.len, client->stream) == out.buf.len &&
                fflush(client->stream) == 0;
    resp_out_done(&out);
    return sent ? RC_OK : err_set(err, RC_IO, "could not send the command: %s", strerror(errno));
}

static enum rc line_read(struct client *client, char line[LINE_BYTES_MAX], struct err *err)
{
    if (!fgets(line, LINE_BYTES_MAX, client->stream))
        return err_set(err, RC_IO, "the server closed the connection");
    size_t len = strcspn(line, "\r\n");
    if (len == 0 || line[len] != '\r')
        return err_set(err, RC_INVALID, "the server does not speak RESP");
    line[len] = 0;
    return RC_OK;
}

static enum rc bulk_print(struct client *client, long long len, struct err *err)
{
    if (len < 0) {
        printf(client->raw ? "\n" : "(nil)\n");
        return RC_OK;
    }
    if (len > RESP_BULK_BYTES_MAX)
        return err_set(err, RC_INVALID, "the server announced a reply of %lld bytes", len);
    uint8_t *bytes = mem_try_alloc((size_t)len + 2);
    if (!bytes)
        return err_set(err, RC_NOMEM, "could not allocate %lld bytes for the reply", len);
    bool whole = fread(bytes, 1, (size_t)len + 2, client->stream) == (size_t)len + 2;
    if (whole && client->raw)
        fwrite(bytes, 1, (size_t)len, stdout);
    else if (whole)
        print_quoted(bytes_of(bytes, (size_t)len), SIZE_MAX);
    mem_free(bytes);
    putchar('\n');
    return whole ? RC_OK : err_set(err, RC_IO, "the server closed the connection");
}

static enum rc reply_print(struct client *client, int depth, struct err *err);

static enum rc array_print(struct client *client, long long count, int depth, struct err *err)
{
    if (count <= 0)
        printf(count < 0 ? "(nil)\n" : "(empty array)\n");
    if (depth == DEPTH_MAX)
        return err_set(err, RC_INVALID, "the reply is nested too deep");
    for (long long i = 0; i < count; i++) {
        if (!client->raw)
            printf("%*s%lld) ", i == 0 ? 0 : INDENT * depth, "", i + 1);
        enum rc rc = reply_print(client, depth + 1, err);
        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}

static enum rc reply_print(struct client *client, int depth, struct err *err)
{
    char *line = mem_alloc(LINE_BYTES_MAX);
    enum rc rc = line_read(client, line, err);
    if (rc != RC_OK) {
        mem_free(line);
        return rc;
    }
    char *end = NULL;
    long long number = strtoll(line + 1, &end, 10);
    switch (line[0]) {
    case '+':
        printf("%s\n", line + 1);
        break;
    case '-':
        client->had_error = true;
        printf("(error) %s\n", line + 1);
        break;
    case ':':
        printf(client->raw ? "%lld\n" : "(integer) %lld\n", number);
        break;
    case '$':
        rc = bulk_print(client, number, err);
        break;
    case '*':
        rc = array_print(client, number, depth, err);
        break;
    default:
        rc = err_set(err, RC_INVALID, "the server does not speak RESP2");
    }
    mem_free(line);
    return rc;
}

/* Takes what says which server from argv[*at]. */
static bool option_take(struct client *client, int argc, char **argv, int *at)
{
    if (*at + 1 >= argc || !cli_server_option(&client->server, argv[*at], argv[*at + 1]))
        return false;
    *at += 2;
    return true;
}

int cli_client(int argc, char **argv)
{
    struct client client = {.raw = !isatty(STDOUT_FILENO)};
    struct err err = {0};
    int at = 0;
    cli_server_init(&client.server);
    while (option_take(&client, argc, argv, &at))
        continue;
    if (at >= argc || argv[at][0] == '-')
        return cli_fail("a command is missing; try: terrace help");
    char **command = argv + at;
    bool is_short = strcasecmp(command[0], "ping") == 0 || strcasecmp(command[0], "info") == 0;
    if (strcasecmp(command[0], "info") == 0)
        client.raw = true; /* text for people */
    for (int i = at + 1; is_short && i < argc;) {
        int next = i;
        if (!option_take(&client, argc, argv, &next)) {
            i++;
            continue;
        }
        memmove(argv + i, argv + next, (size_t)(argc - next) * sizeof *argv);
        argc -= next - i;
    }
    enum rc rc = client_connect(&client, &err);
    if (rc == RC_OK)
        rc = client_send(&client, argc - at, command, &err);
    if (rc == RC_OK)
        rc = reply_print(&client, 0, &err);
    if (client.stream)
        fclose(client.stream);
    if (rc != RC_OK)
        return cli_fail("%s", err.text);
    return client.had_error ? 1 : 0;
}
