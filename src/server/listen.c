// SPDX-License-Identifier: Apache-2.0
/* listen.c - where clients come in: TCP addresses and a Unix socket. */
#include "server/server_int.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"

#include "base/banned.h"

enum {
    ACCEPTS_A_TURN = 256,
    /* Bytes that the kernel holds for a client before it may send them. What it holds beyond the
     * client's window is sent when the client makes room, on the client's processor and time; what
     * we hold is sent on ours. */
    UNSENT_BYTES = 32 * 1024,
    KEEPALIVE_PROBES = 3, /* a peer that answers none of them is gone */
};
#define ACCEPT_PAUSE_NS UINT64_C(100000000)

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_un path;
    struct sockaddr_storage room;
};

/* ---- accepting ---- */

static void client_refuse(struct server *server, int fd, const char *text)
{
    ssize_t sent = send(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)sent; /* it is closed anyway */
    close(fd);
    server->stats.rejected_count++;
}

static bool is_loopback(const union address *address)
{
    if (address->any.sa_family == AF_INET)
        return (ntohl(address->v4.sin_addr.s_addr) >> 24) == 127;
    if (address->any.sa_family != AF_INET6)
        return true;
    const struct in6_addr *in6 = &address->v6.sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(in6) || (IN6_IS_ADDR_V4MAPPED(in6) && in6->s6_addr[12] == 127);
}

static const char protected_text[] =
    "-DENIED Terrace is running in protected mode because protected mode is enabled and no "
    "password is set for the default user. In this mode connections are only accepted from the "
    "loopback interface. To connect from other computers set a password with the requirepass "
    "option, or turn protected-mode off if only trusted computers can reach this port.\r\n";

static void client_accept(struct server *server, int fd, const union address *address)
{
    const struct config *config = server->config;
    bool is_unix = address->any.sa_family == AF_UNIX;
    if (server->conn_count >= server->conn_count_max) {
        client_refuse(server, fd, "-ERR max number of clients reached\r\n");
        return;
    }
    if (config->protected_mode && config->requirepass.len == 0 && !is_loopback(address)) {
        client_refuse(server, fd, protected_text);
        return;
    }
    if (!is_unix) {
        const int on = 1, idle = (int)config->tcp_keepalive_s, every = idle / 3 > 0 ? idle / 3 : 1;
        const int unsent = UNSENT_BYTES, probes = KEEPALIVE_PROBES;
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
        if (idle > 0) {
            (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
            (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
            (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof every);
            (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
        }
    }
    server__conn_new(server, fd, is_unix);
}

/* ---- no descriptors, no memory ---- */

static void listeners_watch(struct server *server, unsigned events)
{
    for (size_t i = 0; i < server->listener_count; i++)
        loop_mod(server->loop, &server->listener[i], events);
}

/* Whoever knocks stays in the queue, and the loop would call us without end. */
static void accepting_pause(struct server *server, int error)
{
    listeners_watch(server, 0);
    server->accept_again_ns = clock_mono_ns(server->clock) + ACCEPT_PAUSE_NS;
    if (!server->accept_failing)
        log_warn("could not accept a connection, others wait until it is possible: %s",
                 strerror(error));
    server->accept_failing = true;
}

void server__accept_again(struct server *server)
{
    if (server->accept_again_ns == 0)
        return;
    server->accept_again_ns = 0;
    listeners_watch(server, LOOP_READ);
}

void server__accept_cron(struct server *server)
{
    if (server->accept_again_ns != 0 && clock_mono_ns(server->clock) >= server->accept_again_ns)
        server__accept_again(server);
}

/* accept() gave no connection; errno says why. */
static void accept_failed(struct server *server)
{
    switch (errno) {
    case EAGAIN:
        if (server->accept_failing)
            log_info("connections are accepted again");
        server->accept_failing = false;
        return;
    case EINTR:
    case ECONNABORTED:
        return;
    default:
        accepting_pause(server, errno);
    }
}

static void listener_ready(struct loop_source *source, unsigned events)
{
    struct server *server = source->arg;
    (void)events;
    for (int i = 0; i < ACCEPTS_A_TURN; i++) {
        union address address = {0};
        socklen_t len = sizeof address;
        int fd = accept4(source->fd, &address.any, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            accept_failed(server);
            return;
        }
        client_accept(server, fd, &address);
    }
}

static enum rc socket_bind(const struct sockaddr *address, socklen_t len, int *ret_fd,
                           struct err *err)
{
    const int on = 1;
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return err_set(err, RC_IO, "could not make a socket: %s", strerror(errno));
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (address->sa_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    if (bind(fd, address, len) == 0) {
        *ret_fd = fd;
        return RC_OK;
    }
    enum rc rc = errno == EADDRINUSE ? RC_BUSY : RC_IO;
    (void)err_set(err, rc, "%s", strerror(errno));
    close(fd);
    return rc;
}

static uint16_t socket_port(int fd)
{
    union address address = {0};
    socklen_t len = sizeof address;
    if (getsockname(fd, &address.any, &len) != 0)
        return 0;
    return ntohs(address.any.sa_family == AF_INET6 ? address.v6.sin6_port : address.v4.sin_port);
}

/* ---- ports ---- */

static enum rc name_bind(const char *host, const char *port, int family, int *ret_fd,
                         struct err *err)
{
    struct addrinfo hints = {
        .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE, .ai_family = family};
    struct addrinfo *address = NULL;
    int found = getaddrinfo(host, port, &hints, &address);
    if (found != 0)
        return err_set(err, RC_INVALID, "%s", gai_strerror(found));
    enum rc rc = socket_bind(address->ai_addr, address->ai_addrlen, ret_fd, err);
    freeaddrinfo(address);
    return rc;
}

/* "-::1" as in Redis: an address that need not be there. "*" and "::*": everywhere. */
static enum rc port_bind(const char *name, unsigned number, struct ports *ports, struct err *err)
{
    bool optional = name[0] == '-';
    const char *host = name + optional;
    char port[8];
    int fd = -1;
    int family = strcmp(host, "*") == 0 ? AF_INET : strcmp(host, "::*") == 0 ? AF_INET6 : AF_UNSPEC;
    /* With port 0 all addresses share the one that the first got. */
    snprintf(port, sizeof port, "%u", ports->port ? ports->port : number);
    enum rc rc = name_bind(family == AF_UNSPEC ? host : NULL, port, family, &fd, err);
    if (rc == RC_IO && optional)
        return RC_OK;
    if (rc == RC_INVALID)
        return err_prefix(err, "could not understand the address \"%s\": ", name);
    if (rc != RC_OK)
        return err_prefix(err, "could not listen on %s:%s: ", name, port);
    ports->port = socket_port(fd);
    ports->fd[ports->count++] = fd;
    return RC_OK;
}

static enum rc http_bind(const struct config *config, struct ports *ports, struct err *err)
{
    char port[8];
    snprintf(port, sizeof port, "%u", config->http_port);
    enum rc rc = name_bind(config->http_bind, port, AF_UNSPEC, &ports->http_fd, err);
    if (rc == RC_INVALID)
        return err_prefix(err, "could not understand http-bind \"%s\": ", config->http_bind);
    if (rc != RC_OK)
        return err_prefix(err, "could not listen for HTTP on %s:%s: ", config->http_bind, port);
    return RC_OK;
}

enum rc ports_bind(const struct config *config, struct ports *ret_ports, struct err *err)
{
    enum rc rc = RC_OK;
    *ret_ports = (struct ports){.http_fd = -1};
    if (config->bind.count >= LISTENERS_MAX)
        return err_set(err, RC_INVALID, "bind has more than %d addresses", LISTENERS_MAX - 1);
    for (size_t i = 0; rc == RC_OK && i < config->bind.count; i++)
        rc = port_bind(config->bind.text[i], config->port, ret_ports, err);
    if (rc == RC_OK && config->http_port != 0)
        rc = http_bind(config, ret_ports, err);
    if (rc != RC_OK)
        ports_close(ret_ports);
    return rc;
}

void ports_close(struct ports *ports)
{
    while (ports->count > 0)
        close(ports->fd[--ports->count]);
    if (ports->http_fd >= 0)
        close(ports->http_fd);
    ports->http_fd = -1;
}

/* ---- listening ---- */

static enum rc listener_add(struct server *server, int fd, struct err *err)
{
    if (listen(fd, (int)server->config->tcp_backlog) != 0) {
        enum rc rc = errno == EADDRINUSE ? RC_BUSY : RC_IO;
        (void)err_set(err, rc, "%s", strerror(errno));
        close(fd);
        return rc;
    }
    struct loop_source *source = &server->listener[server->listener_count];
    *source =
        (struct loop_source){.fd = fd, .events = LOOP_READ, .ready = listener_ready, .arg = server};
    enum rc rc = loop_add(server->loop, source, err);
    if (rc != RC_OK)
        close(fd);
    else
        server->listener_count++;
    return rc;
}

static enum rc unix_listen(struct server *server, struct err *err)
{
    const char *path = server->config->unixsocket;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = -1;
    if (strlen(path) >= sizeof address.sun_path)
        return err_set(err, RC_INVALID, "the path of unixsocket has more than %zu bytes",
                       sizeof address.sun_path - 1);
    memcpy(address.sun_path, path, strlen(path));
    struct stat stat;
    if (lstat(path, &stat) == 0 && S_ISSOCK(stat.st_mode))
        (void)unlink(path); /* of a server that was killed */
    enum rc rc = socket_bind((struct sockaddr *)&address, sizeof address, &fd, err);
    if (rc == RC_OK && server->config->unixsocketperm != 0 &&
        chmod(path, (mode_t)server->config->unixsocketperm) != 0) {
        rc = err_set(err, RC_IO, "%s", strerror(errno));
        close(fd);
    } else if (rc == RC_OK) {
        rc = listener_add(server, fd, err);
    }
    if (rc != RC_OK)
        return err_prefix(err, "could not listen on %s: ", path);
    return RC_OK;
}

enum rc server__listen(struct server *server, struct ports *ports, struct err *err)
{
    const char *path = server->config->unixsocket;
    server->port = ports->port;
    while (ports->count > 0) {
        enum rc rc = listener_add(server, ports->fd[--ports->count], err);
        if (rc != RC_OK)
            return err_prefix(err, "could not listen on port %u: ", server->port);
    }
    return path[0] ? unix_listen(server, err) : RC_OK;
}

void server__listen_end(struct server *server)
{
    for (size_t i = 0; i < server->listener_count; i++) {
        loop_del(server->loop, &server->listener[i]);
        close(server->listener[i].fd);
    }
    if (server->listener_count > 0 && server->config->unixsocket[0])
        (void)unlink(server->config->unixsocket);
    server->listener_count = 0;
}
