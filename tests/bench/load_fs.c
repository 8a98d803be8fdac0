// SPDX-License-Identifier: Apache-2.0
/* load_fs.c - sends one command again and again: tools/bench_fs.py is too slow for that itself.
 *
 *   load_fs PORT conns=C pipeline=P count=N [first=K] [range=R] WORD...
 *
 * In words, %n is the number of the command, from first on; %d the same divided by 1000; %r a
 * random number below range, %q that divided by 1000; all with nine digits. Prints one line: ops N
 * seconds S errors E. The server is trusted to answer in order and in RESP2. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    CONNS_MAX = 1024,
    WORDS_MAX = 16,
    WORD_BYTES = 512,
    IN_BYTES = 1 << 20,
    OUT_BYTES = 1 << 20
};

struct conn {
    int fd;
    int awaited;        /* replies of the batch */
    int64_t items_left; /* of the reply that is being read */
    int64_t skip;       /* bytes of its bulk, with the line end */
    size_t in_len;
    char *in;
};

struct load {
    int conn_count, pipeline, word_count;
    uint64_t first, count, range, sent, done, errors, rand;
    const char *word[WORDS_MAX];
    struct conn conn[CONNS_MAX];
    char *out;
};

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static uint64_t rand_next(struct load *load)
{
    load->rand ^= load->rand << 13;
    load->rand ^= load->rand >> 7;
    load->rand ^= load->rand << 17;
    return load->rand;
}

static size_t word_write(const char *word, uint64_t number, uint64_t random, char to[WORD_BYTES])
{
    size_t len = 0;
    for (const char *at = word; *at; at++) {
        if (*at != '%') {
            to[len++] = *at;
            continue;
        }
        at++;
        uint64_t value = *at == 'n'   ? number
                         : *at == 'd' ? number / 1000
                         : *at == 'r' ? random
                                      : random / 1000;
        len += (size_t)snprintf(to + len, WORD_BYTES - len, "%09llu", (unsigned long long)value);
    }
    return len;
}

static void batch_send(struct load *load, struct conn *conn)
{
    size_t len = 0;
    for (int i = 0; i < load->pipeline && load->sent < load->count; i++) {
        uint64_t random = rand_next(load) % load->range, number = load->first + load->sent;
        len += (size_t)snprintf(load->out + len, OUT_BYTES - len, "*%d\r\n", load->word_count);
        for (int w = 0; w < load->word_count; w++) {
            char word[WORD_BYTES];
            size_t word_len = word_write(load->word[w], number, random, word);
            len += (size_t)snprintf(load->out + len, OUT_BYTES - len, "$%zu\r\n%.*s\r\n", word_len,
                                    (int)word_len, word);
        }
        load->sent++;
        conn->awaited++;
    }
    for (size_t at = 0; at < len;) {
        ssize_t sent = send(conn->fd, load->out + at, len - at, MSG_NOSIGNAL);
        if (sent <= 0)
            fail("send");
        at += (size_t)sent;
    }
}

/* Takes whole lines and bulks; what is left moves to the front. */
static void replies_read(struct load *load, struct conn *conn)
{
    size_t at = 0;
    ssize_t got = recv(conn->fd, conn->in + conn->in_len, IN_BYTES - conn->in_len, 0);
    if (got <= 0)
        fail("recv");
    conn->in_len += (size_t)got;
    while (at < conn->in_len) {
        if (conn->skip > 0) {
            size_t part = conn->in_len - at;
            part = part < (size_t)conn->skip ? part : (size_t)conn->skip;
            at += part;
            conn->skip -= (int64_t)part;
            if (conn->skip > 0)
                break;
        } else {
            char *end = memchr(conn->in + at, '\n', conn->in_len - at);
            if (!end)
                break;
            char kind = conn->in[at];
            int64_t number = strtoll(conn->in + at + 1, NULL, 10);
            at = (size_t)(end - conn->in) + 1;
            if (conn->items_left == 0)
                conn->items_left = 1;
            if (kind == '-' && load->errors++ == 0)
                fprintf(stderr, "%.100s\n", end - 40 > conn->in ? end - 40 : conn->in);
            if (kind == '*' && number > 0)
                conn->items_left += number;
            if (kind == '$' && number >= 0) {
                conn->skip = number + 2;
                continue;
            }
        }
        if (--conn->items_left == 0) {
            conn->awaited--;
            load->done++;
        }
    }
    memmove(conn->in, conn->in + at, conn->in_len - at);
    conn->in_len -= at;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void conns_open(struct load *load, int port, int epoll)
{
    for (int i = 0; i < load->conn_count; i++) {
        struct sockaddr_in to = {.sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)port),
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        struct conn *conn = &load->conn[i];
        int one = 1;
        conn->fd = socket(AF_INET, SOCK_STREAM, 0);
        conn->in = malloc(IN_BYTES);
        if (conn->fd < 0 || connect(conn->fd, (struct sockaddr *)&to, sizeof to) != 0)
            fail("connect");
        setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = conn};
        epoll_ctl(epoll, EPOLL_CTL_ADD, conn->fd, &event);
    }
}

int main(int argc, char **argv)
{
    static struct load load = {
        .conn_count = 1, .pipeline = 1, .count = 1, .range = 1, .rand = 88172645463325252u};
    int epoll = epoll_create1(0);
    load.out = malloc(OUT_BYTES);
    for (int i = 2; i < argc; i++) {
        char *equals = strchr(argv[i], '=');
        uint64_t value = equals ? strtoull(equals + 1, NULL, 10) : 0;
        if (equals && strncmp(argv[i], "conns=", 6) == 0)
            load.conn_count = (int)value;
        else if (equals && strncmp(argv[i], "pipeline=", 9) == 0)
            load.pipeline = (int)value;
        else if (equals && strncmp(argv[i], "count=", 6) == 0)
            load.count = value;
        else if (equals && strncmp(argv[i], "first=", 6) == 0)
            load.first = value;
        else if (equals && strncmp(argv[i], "range=", 6) == 0)
            load.range = value;
        else if (load.word_count < WORDS_MAX)
            load.word[load.word_count++] = argv[i];
    }
    if (argc < 3 || load.word_count == 0 || load.conn_count > CONNS_MAX)
        return 2;
    conns_open(&load, atoi(argv[1]), epoll);
    double begin = now();
    for (int i = 0; i < load.conn_count; i++)
        batch_send(&load, &load.conn[i]);
    while (load.done < load.count) {
        struct epoll_event event[64];
        int count = epoll_wait(epoll, event, 64, -1);
        for (int i = 0; i < count; i++) {
            struct conn *conn = event[i].data.ptr;
            replies_read(&load, conn);
            if (conn->awaited == 0 && load.sent < load.count)
                batch_send(&load, conn);
        }
    }
    printf("ops %llu seconds %.6f errors %llu\n", (unsigned long long)load.done, now() - begin,
           (unsigned long long)load.errors);
    return 0;
}
