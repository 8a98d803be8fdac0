#include "server/server_int.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"

#include "base/banned.h"

enum {
    LISTEN_BACKLOG = 511,
    ACCEPTS_A_TURN = 256,
    DESCRIPTORS_KEPT = 400, /* for the store: its engine may hold 256 files open */
    DRAIN_MS_MAX = 5 * 1000,
    FLUSH_MS_MAX = 30 * 1000,
};
#define NS_A_MS UINT64_C(1000000)
#define TURN_NS_MAX (1000 * NS_A_MS) /* an idle server looks at its store once a second */

/* ---- accepting ---- */

static void client_refuse(struct server *server, int fd)
{
    static const char text[] = "-ERR max number of clients reached\r\n";
    ssize_t sent = send(fd, text, sizeof text - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)sent; /* it is closed anyway */
    close(fd);
    server->stats.rejected_count++;
}

static void listener_ready(struct loop_watch *watch, unsigned events)
{
    struct server *server = watch->arg;
    (void)events;
    for (int i = 0; i < ACCEPTS_A_TURN; i++) {
        int fd = accept4(watch->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
                log_warn("could not accept a connection: %s", strerror(errno));
            return;
        }
        if (server->conn_count >= server->conn_count_max) {
            client_refuse(server, fd);
            continue;
        }
        const int on = 1;
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
        server__conn_new(server, fd);
    }
}

static enum rc socket_listen(const struct addrinfo *address, int *ret_fd, struct err *err)
{
    const int on = 1;
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return err_set(err, RC_IO, "could not make a socket: %s", strerror(errno));
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, LISTEN_BACKLOG) == 0) {
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
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address = {0};
    socklen_t len = sizeof address;
    if (getsockname(fd, &address.any, &len) != 0)
        return 0;
    return ntohs(address.any.sa_family == AF_INET6 ? address.v6.sin6_port : address.v4.sin_port);
}

static enum rc server_listen(struct server *server, struct err *err)
{
    const struct options *config = server->config;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *address = NULL;
    char port[8];
    int fd = -1;

    snprintf(port, sizeof port, "%u", config->port);
    int found = getaddrinfo(config->bind, port, &hints, &address);
    if (found != 0)
        return err_set(err, RC_INVALID, "could not understand the address \"%s\": %s", config->bind,
                       gai_strerror(found));
    enum rc rc = socket_listen(address, &fd, err);
    freeaddrinfo(address);
    if (rc != RC_OK)
        return err_prefix(err, "could not listen on %s:%s: ", config->bind, port);
    server->port = socket_port(fd);
    server->listener =
        (struct loop_watch){.fd = fd, .events = LOOP_READ, .ready = listener_ready, .arg = server};
    return loop_add(server->loop, &server->listener, err);
}

static void listener_close(struct server *server)
{
    if (server->listener.fd < 0)
        return;
    loop_del(server->loop, &server->listener);
    close(server->listener.fd);
    server->listener.fd = -1;
}

/* ---- life ---- */

static void signal_ready(struct loop_watch *watch, unsigned events)
{
    struct server *server = watch->arg;
    struct signalfd_siginfo info;
    (void)events;
    if (read(watch->fd, &info, sizeof info) == (ssize_t)sizeof info)
        server->signal_count++;
}

/* As many clients as the system gives descriptors for. */
static size_t clients_max(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return DESCRIPTORS_KEPT;
    rlim_t wanted = SERVER_CLIENTS_MAX + DESCRIPTORS_KEPT;
    if (limit.rlim_cur < wanted) {
        limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
        if (setrlimit(RLIMIT_NOFILE, &limit) != 0 && getrlimit(RLIMIT_NOFILE, &limit) != 0)
            return DESCRIPTORS_KEPT;
    }
    if (limit.rlim_cur >= wanted)
        return SERVER_CLIENTS_MAX;
    return limit.rlim_cur / 2 > DESCRIPTORS_KEPT ? (size_t)limit.rlim_cur - DESCRIPTORS_KEPT
                                                 : (size_t)limit.rlim_cur / 2;
}

enum rc server_new(const struct server_options *options, struct server **ret_server,
                   struct err *err)
{
    struct server *server = mem_zalloc(sizeof *server);
    server->loop = options->loop;
    server->store = options->store;
    server->clock = options->clock;
    server->config = options->config;
    server->listener.fd = -1;
    server->start_ms = clock_unix_ms(server->clock);
    server->conn_count_max = clients_max();
    server->tasks = tasks_new(&(struct tasks_options){.store = server->store,
                                                      .clock = server->clock,
                                                      .durability = server->config->durability,
                                                      .wake = loop_wake,
                                                      .wake_arg = server->loop});
    server->signals = (struct loop_watch){
        .fd = options->signal_fd, .events = LOOP_READ, .ready = signal_ready, .arg = server};
    enum rc rc = ns_init(&server->ns, server->store, server->clock, &server->ids,
                         BYTES(NS_NAME_DEFAULT), err);
    if (rc == RC_OK)
        rc = loop_add(server->loop, &server->signals, err);
    if (rc == RC_OK)
        rc = server_listen(server, err);
    if (rc != RC_OK) {
        server_free(server);
        return rc;
    }
    *ret_server = server;
    return RC_OK;
}

void server_free(struct server *server)
{
    if (!server)
        return;
    listener_close(server);
    while (server->conns)
        server__conn_close(server->conns);
    loop_del(server->loop, &server->signals);
    tasks_free(server->tasks);
    while (server->spare) {
        struct request *request = server->spare;
        server->spare = request->next;
        resp_out_done(&request->reply);
        mem_free(request);
    }
    ns_done(&server->ns);
    mem_free(server);
}

uint16_t server_port(const struct server *server)
{
    return server->port;
}

/* ---- running ---- */

/* Waits for what comes, then a turn: commands, one journal frame, replies. */
static enum rc server_turn(struct server *server, uint64_t timeout_ns, struct err *err)
{
    enum rc rc = loop_wait(server->loop, server->busy ? 0 : timeout_ns, err);
    if (rc != RC_OK)
        return rc;
    server->busy = false;
    if (tasks_turn(server->tasks))
        server->busy = true;
    server__conns_settle(server);
    server__watch(server);
    return RC_OK;
}

/* No new requests; those that are here are answered. */
static enum rc server_drain(struct server *server, struct err *err)
{
    uint64_t end_ns = clock_mono_ns(server->clock) + DRAIN_MS_MAX * NS_A_MS;
    listener_close(server);
    for (struct conn *conn = server->conns; conn; conn = conn->next)
        conn->quit = true;
    while (clock_mono_ns(server->clock) < end_ns && server->signal_count < 2) {
        for (struct conn *conn = server->conns, *next; conn; conn = next) {
            next = conn->next;
            if (conn->request_count == 0 && conn->out.len == 0)
                server__conn_close(conn);
        }
        if (!server->conns && tasks_count(server->tasks) == 0)
            return RC_OK;
        enum rc rc = server_turn(server, 10 * NS_A_MS, err);
        if (rc != RC_OK)
            return rc;
    }
    log_warn("%zu connections were closed before their replies were taken", server->conn_count);
    return RC_OK;
}

/* What is flushed need not be read from the journal by the next start. */
static enum rc server_flush(struct server *server, struct err *err)
{
    uint64_t end_ns = clock_mono_ns(server->clock) + FLUSH_MS_MAX * NS_A_MS;
    uint64_t segment = store_flush_ask(server->store);
    while (store_flush_mark(server->store) < segment) {
        if (clock_mono_ns(server->clock) >= end_ns || server->signal_count >= 2) {
            log_warn("not everything was flushed; the next start reads it from the journal");
            return RC_OK;
        }
        enum rc rc = server_turn(server, 100 * NS_A_MS, err);
        if (rc != RC_OK)
            return rc;
    }
    log_info("everything is flushed");
    return RC_OK;
}

enum rc server_run(struct server *server, struct err *err)
{
    enum rc rc = RC_OK;
    while (rc == RC_OK && server->signal_count == 0) {
        uint64_t next_ns = tasks_next_ns(server->tasks);
        rc = server_turn(server, next_ns < TURN_NS_MAX ? next_ns : TURN_NS_MAX, err);
    }
    if (rc != RC_OK)
        return rc;
    log_info("stopping: finishing requests, then flushing");
    rc = server_drain(server, err);
    if (rc != RC_OK)
        return rc;
    return server_flush(server, err);
}
