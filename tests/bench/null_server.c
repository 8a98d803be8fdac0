// SPDX-License-Identifier: Apache-2.0
/* null_server.c - the ceiling of a server on this machine: parses RESP, answers +OK, stores
 * nothing. With a number N it answers an array of N elements of 64 bytes, as LRANGE would.
 *
 * One thread, epoll, one read and one write a turn of a client, as a real server would. It is
 * stopped by a signal. It trusts its client: tools/bench_server.py. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    EVENT_COUNT_MAX = 256,
    READ_BYTES_MAX = 64 * 1024,
    REPLY_BYTES_MAX = 1024 * 1024,
    ELEMENT_BYTES = 64,
    ELEMENTS_MAX = 10 * 1000, /* of a reply, which is far below REPLY_BYTES_MAX then */
};

struct replies { /* the same one again and again */
    size_t len;  /* of one */
    size_t count;
    uint8_t bytes[REPLY_BYTES_MAX];
};

struct conn {
    int fd;
    size_t in_len;
    long args_left;   /* of the request being read; 0: none */
    size_t skip_left; /* of a bulk being skipped, its line end included */
    uint8_t in[READ_BYTES_MAX];
};

/* Parses one line or skips a part of a bulk. Returns the bytes used, 0 if a line is not complete.
 */
static size_t step(struct conn *conn, const uint8_t *ptr, size_t len, long *request_count)
{
    if (conn->skip_left > 0) {
        size_t part = conn->skip_left < len ? conn->skip_left : len;
        conn->skip_left -= part;
        if (conn->skip_left == 0 && --conn->args_left == 0)
            (*request_count)++;
        return part;
    }
    const uint8_t *end = memchr(ptr, '\n', len);
    if (!end)
        return 0;
    if (*ptr == '*') {
        conn->args_left = strtol((const char *)ptr + 1, NULL, 10);
    } else if (*ptr == '$') {
        conn->skip_left = (size_t)strtol((const char *)ptr + 1, NULL, 10) + 2;
    } else {
        (*request_count)++; /* inline */
    }
    return (size_t)(end - ptr) + 1;
}

static void replies_make(struct replies *replies, long element_count)
{
    uint8_t *at = replies->bytes;
    if (element_count == 0) {
        memcpy(at, "+OK\r\n", 5);
        at += 5;
    } else {
        at += sprintf((char *)at, "*%ld\r\n", element_count);
        for (long i = 0; i < element_count; i++)
            at += sprintf((char *)at, "$%d\r\n%0*d\r\n", ELEMENT_BYTES, ELEMENT_BYTES, 0);
    }
    replies->len = (size_t)(at - replies->bytes);
    replies->count = REPLY_BYTES_MAX / replies->len;
    for (size_t i = 1; i < replies->count; i++)
        memcpy(replies->bytes + i * replies->len, replies->bytes, replies->len);
}

/* Waits where the client is slower: it never waits for us while it reads. */
static bool bytes_write(int fd, const uint8_t *ptr, size_t len)
{
    while (len > 0) {
        ssize_t written = write(fd, ptr, len);
        if (written < 0 && errno == EAGAIN) {
            struct pollfd ready = {.fd = fd, .events = POLLOUT};
            poll(&ready, 1, -1);
            continue;
        }
        if (written <= 0)
            return false;
        ptr += written;
        len -= (size_t)written;
    }
    return true;
}

static bool conn_turn(struct conn *conn, const struct replies *replies)
{
    ssize_t got = read(conn->fd, conn->in + conn->in_len, sizeof conn->in - conn->in_len);
    if (got < 0 && errno == EAGAIN)
        return true;
    if (got <= 0)
        return false;
    conn->in_len += (size_t)got;
    long request_count = 0;
    size_t at = 0;
    while (at < conn->in_len) {
        size_t used = step(conn, conn->in + at, conn->in_len - at, &request_count);
        if (used == 0)
            break;
        at += used;
    }
    memmove(conn->in, conn->in + at, conn->in_len - at);
    conn->in_len -= at;
    for (size_t left = (size_t)request_count, part; left > 0; left -= part) {
        part = left < replies->count ? left : replies->count;
        if (!bytes_write(conn->fd, replies->bytes, part * replies->len))
            return false;
    }
    return true;
}

static int listen_on_loopback(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof addr;
    if (fd < 0 || bind(fd, (struct sockaddr *)&addr, len) != 0 || listen(fd, 512) != 0 ||
        getsockname(fd, (struct sockaddr *)&addr, &len) != 0) {
        perror("could not listen");
        exit(1);
    }
    printf("listens on 127.0.0.1:%d\n", ntohs(addr.sin_port));
    fflush(stdout);
    return fd;
}

static void accept_one(int epoll, int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return;
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct conn *conn = calloc(1, sizeof *conn);
    if (!conn)
        abort();
    conn->fd = fd;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = conn};
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

int main(int argc, char **argv)
{
    static struct replies replies;
    long element_count = argc > 1 ? strtol(argv[1], NULL, 10) : 0;
    if (element_count < 0 || element_count > ELEMENTS_MAX) {
        fprintf(stderr, "null_server [ELEMENTS], at most %d\n", ELEMENTS_MAX);
        return 2;
    }
    replies_make(&replies, element_count);
    int listener = listen_on_loopback();
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        struct epoll_event events[EVENT_COUNT_MAX];
        int count = epoll_wait(epoll, events, EVENT_COUNT_MAX, -1);
        for (int i = 0; i < count; i++) {
            struct conn *conn = events[i].data.ptr;
            if (!conn) {
                accept_one(epoll, listener);
            } else if (!conn_turn(conn, &replies)) {
                close(conn->fd);
                free(conn);
            }
        }
    }
}
