// SPDX-License-Identifier: Apache-2.0
/* connect.c - which server a command line means, and a connection to it. */
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/bytes.h"
#include "cli/cli.h"
#include "command/resp_out.h"

#include "base/banned.h"

void cli_server_init(struct cli_server *server)
{
    const char *password = getenv("TERRACE_AUTH");
    *server = (struct cli_server){.host = "127.0.0.1", .port = "7379"};
    if (password && password[0])
        server->password = password;
}

bool cli_server_option(struct cli_server *server, const char *name, const char *value)
{
    const struct {
        const char *name;
        const char **to;
    } options[] = {
        {"-h", &server->host},     {"-p", &server->port},     {"-s", &server->socket},
        {"-a", &server->password}, {"--user", &server->user}, {"--db", &server->db},
    };
    for (size_t i = 0; i < ARRAY_LEN(options); i++) {
        if (strcmp(name, options[i].name) != 0)
            continue;
        *options[i].to = value;
        return true;
    }
    return false;
}

bool cli_digits(struct bytes text, int64_t *ret_number)
{
    int64_t number = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9' || __builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, text.ptr[i] - '0', &number))
            return false;
    }
    *ret_number = number;
    return text.len > 0;
}

enum rc cli_number(const char *option, const char *text, int64_t min, int64_t max,
                   int64_t *ret_number, struct err *err)
{
    if (cli_digits(bytes_of(text, strlen(text)), ret_number) && *ret_number >= min &&
        *ret_number <= max)
        return RC_OK;
    return err_set(err, RC_INVALID, "%s takes a number from %" PRId64 " to %" PRId64 ", not \"%s\"",
                   option, min, max, text);
}

/* ---- the first words ---- */

enum rc cli_send_bytes(int fd, struct bytes bytes, struct err *err)
{
    while (bytes.len > 0) {
        ssize_t sent = send(fd, bytes.ptr, bytes.len, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return err_set(err, RC_IO, "could not send the command: %s", strerror(errno));
        bytes = bytes_from(bytes, (size_t)sent);
    }
    return RC_OK;
}

enum rc cli_send(int fd, const char *const word[], size_t count, struct err *err)
{
    struct resp_out out;
    resp_out_init(&out, SIZE_MAX);
    resp_add_array(&out, count);
    for (size_t i = 0; i < count; i++)
        resp_add_text(&out, word[i]);
    enum rc rc = out.failed ? err_set(err, RC_NOMEM, "could not allocate memory for a command")
                            : cli_send_bytes(fd, buf_bytes(&out.buf), err);
    resp_out_done(&out);
    return rc;
}

/* Words that are answered by a short line, behind which nothing comes. `what` is refused if the
 * line is an error. */
static enum rc words_say(int fd, const char *const word[], size_t count, const char *what,
                         struct err *err)
{
    char line[ERR_TEXT_BYTES];
    size_t len = 0;
    bool good = true;
    enum rc rc = cli_send(fd, word, count, err);
    if (rc != RC_OK)
        return rc;
    while (good && len < sizeof line && (len == 0 || line[len - 1] != '\n')) {
        ssize_t got = recv(fd, line + len, sizeof line - len, 0);
        good = got > 0 || (got < 0 && errno == EINTR);
        len += got > 0 ? (size_t)got : 0;
    }
    if (!good)
        return err_set(err, RC_IO, "the server closed the connection");
    if (line[0] == '+')
        return RC_OK;
    while (len > 1 && (line[len - 1] == '\n' || line[len - 1] == '\r'))
        len--;
    return err_set(err, RC_INVALID, "the server refused the %s: %.*s", what, (int)len - 1,
                   line + 1);
}

static enum rc first_words_say(const struct cli_server *server, int fd, struct err *err)
{
    const char *auth[] = {"AUTH", server->password}, *select[] = {"SELECT", server->db};
    const char *auth_user[] = {"AUTH", server->user, server->password};
    enum rc rc = RC_OK;
    if (server->password)
        rc = server->user ? words_say(fd, auth_user, ARRAY_LEN(auth_user), "password", err)
                          : words_say(fd, auth, ARRAY_LEN(auth), "password", err);
    if (rc == RC_OK && server->db)
        rc = words_say(fd, select, ARRAY_LEN(select), "database", err);
    return rc;
}

/* ---- the connection ---- */

static enum rc unix_connect(const char *path, int *ret_fd, struct err *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = strlen(path);
    if (len >= sizeof address.sun_path)
        return err_set(err, RC_INVALID, "the path of a socket has at most %zu bytes",
                       sizeof address.sun_path - 1);
    memcpy(address.sun_path, path, len);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof address) == 0) {
        *ret_fd = fd;
        return RC_OK;
    }
    err_set(err, RC_IO, "could not connect to \"%s\": %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return RC_IO;
}

static enum rc tcp_connect(const char *host, const char *port, int *ret_fd, struct err *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *address = NULL;
    int64_t number;
    enum rc rc = cli_number("-p", port, 1, UINT16_MAX, &number, err);
    if (rc != RC_OK) /* getaddrinfo() takes the low bits of a larger one */
        return rc;
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
    *ret_fd = fd;
    return RC_OK;
}

enum rc cli_connect(const struct cli_server *server, int *ret_fd, struct err *err)
{
    int fd = -1;
    enum rc rc = server->socket ? unix_connect(server->socket, &fd, err)
                                : tcp_connect(server->host, server->port, &fd, err);
    if (rc != RC_OK)
        return rc;
    rc = first_words_say(server, fd, err);
    if (rc != RC_OK)
        close(fd);
    else
        *ret_fd = fd;
    return rc;
}
