// SPDX-License-Identifier: Apache-2.0
/* load_server.c - fills a server and drives it: tools/bench_server.py is too slow for that itself.
 *
 *   load_server PORT fill   keys=N [first=K] [value=BYTES] [type=string|hash|zset]
 *   load_server PORT zipf   keys=N [reads=PERCENT] [theta=0.99] [seconds=S]
 *   load_server PORT cycle  keys=N [first=K] [seconds=S]       reads first .. first+keys-1 in turn
 *   load_server PORT random keys=N [first=K] [seconds=S]       reads them at random
 * and for each: [conns=C] [pipeline=P] [seed=X]
 * type=tile: TILE.SET and TILE.GET of type imagery, of 2 to 4 KiB where value=0, whose
 * keys are prefix=TEXT and digits=N digits; type=blob: the same as SET and GET of those names.
 *
 * Prints one line: ops N seconds S rate R p50 US p99 US p999 US errors E missing M. A latency is
 * that of a whole pipeline. The server is trusted to answer in order and in RESP2. */
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    CONN_COUNT_MAX = 1024,
    PIPELINE_MAX = 1024,
    VALUE_BYTES_MAX = 64 * 1024,
    IN_BYTES_MAX = 256 * 1024,
    LATENCY_US_MAX = 1000 * 1000, /* one slot a microsecond; the last holds the rest */
};

enum mode { MODE_FILL, MODE_ZIPF, MODE_CYCLE, MODE_RANDOM };

struct zipf { /* Gray et al., as in YCSB */
    double theta, alpha, zetan, eta, half;
};

struct conn {
    int fd;
    int awaited_count;
    size_t skip_left; /* of a bulk, its line end included */
    uint64_t begin_ns;
    size_t in_len;
    char *in, *out;
};

struct load {
    enum mode mode;
    const char *type, *prefix;
    int digits;
    int port, conn_count, pipeline, reads_percent;
    uint64_t keys, first, value_bytes, seed, next;
    double seconds;
    struct zipf zipf;
    uint64_t ops, errors, missing, end_ns;
    char *value;
    uint32_t *latency; /* how many batches took that many microseconds */
    int epoll, running_count;
    struct conn conns[CONN_COUNT_MAX];
};

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static uint64_t rand_next(struct load *load)
{
    return mix(load->seed++);
}

static double rand_unit(struct load *load)
{
    return (double)(rand_next(load) >> 11) * 0x1p-53;
}

static void zipf_init(struct zipf *zipf, uint64_t count, double theta)
{
    double zeta = 0;
    for (uint64_t i = 1; i <= count; i++)
        zeta += pow(1.0 / (double)i, theta);
    zipf->theta = theta;
    zipf->alpha = 1.0 / (1.0 - theta);
    zipf->zetan = zeta;
    zipf->half = 1.0 + pow(0.5, theta);
    zipf->eta = (1.0 - pow(2.0 / (double)count, 1.0 - theta)) / (1.0 - zipf->half / zeta);
}

/* A rank, spread over the keys so that the popular ones are not neighbours. */
static uint64_t zipf_next(struct load *load)
{
    const struct zipf *zipf = &load->zipf;
    double u = rand_unit(load);
    double uz = u * zipf->zetan;
    uint64_t rank;
    if (uz < 1.0)
        rank = 0;
    else if (uz < zipf->half)
        rank = 1;
    else
        rank = (uint64_t)((double)load->keys * pow(zipf->eta * u - zipf->eta + 1.0, zipf->alpha));
    return mix(rank) % load->keys;
}

static bool is_tile(const struct load *load)
{
    return strcmp(load->type, "tile") == 0 || strcmp(load->type, "blob") == 0;
}

/* Neighbours in time are none on the map. */
static int tilekey_put(const struct load *load, char *to, uint64_t n)
{
    int len = sprintf(to, "%s", load->prefix);
    uint64_t at = n * 2654435761u;
    for (int i = load->digits - 1; i >= 0; i--, at >>= 2)
        to[len + i] = (char)('0' + (at & 3));
    to[len + load->digits] = 0;
    return len + load->digits;
}

static uint64_t value_bytes_of(const struct load *load, uint64_t n)
{
    return !is_tile(load) || load->value_bytes != 0 ? load->value_bytes : 2048 + mix(n) % 2049;
}

static char *put_tile_name(const struct load *load, char *out, bool set, uint64_t n)
{
    char key[64];
    int len = tilekey_put(load, key, n);
    bool tile = load->type[0] == 't';
    out += sprintf(out, "*%d\r\n", 2 + tile + set);
    out += sprintf(out, "$%d\r\n%s%s\r\n", 3 + (tile ? 5 : 0), tile ? "TILE." : "",
                   set ? "SET" : "GET");
    if (tile)
        out += sprintf(out, "$7\r\nimagery\r\n");
    return out + sprintf(out, "$%d\r\n%s\r\n", len, key);
}

static size_t put_get(struct load *load, char *out, uint64_t n)
{
    if (is_tile(load))
        return (size_t)(put_tile_name(load, out, false, n) - out);
    return (size_t)sprintf(out, "*2\r\n$3\r\nGET\r\n$16\r\nkey:%012llu\r\n", (unsigned long long)n);
}

static size_t put_set(struct load *load, char *out, uint64_t n)
{
    char *at = out;
    unsigned long long number = n;
    uint64_t value_bytes = value_bytes_of(load, n);
    if (is_tile(load)) {
        at = put_tile_name(load, at, true, n);
    } else if (strcmp(load->type, "hash") == 0) {
        at += sprintf(at, "*4\r\n$4\r\nHSET\r\n$6\r\nmyhash\r\n$16\r\nkey:%012llu\r\n", number);
    } else if (strcmp(load->type, "zset") == 0) {
        char score[32];
        int len = snprintf(score, sizeof score, "%u", (unsigned)(mix(n) % 1000000));
        return (size_t)sprintf(
            at, "*4\r\n$4\r\nZADD\r\n$6\r\nmyzset\r\n$%d\r\n%s\r\n$16\r\nkey:%012llu\r\n", len,
            score, number);
    } else {
        at += sprintf(at, "*3\r\n$3\r\nSET\r\n$16\r\nkey:%012llu\r\n", number);
    }
    at += sprintf(at, "$%llu\r\n", (unsigned long long)value_bytes);
    memcpy(at, load->value, value_bytes);
    memcpy(at, &number, sizeof number < value_bytes ? sizeof number : value_bytes);
    at += value_bytes;
    memcpy(at, "\r\n", 2);
    return (size_t)(at + 2 - out);
}

static size_t put_one(struct load *load, char *out)
{
    switch (load->mode) {
    case MODE_FILL:
        return put_set(load, out, load->first + load->next++);
    case MODE_CYCLE:
        return put_get(load, out, load->first + load->next++ % load->keys);
    case MODE_RANDOM:
        return put_get(load, out, load->first + rand_next(load) % load->keys);
    case MODE_ZIPF:
        break;
    }
    uint64_t n = zipf_next(load);
    if ((int)(rand_next(load) % 100) < load->reads_percent)
        return put_get(load, out, n);
    return put_set(load, out, n);
}

static bool load_is_over(const struct load *load, uint64_t now)
{
    return load->mode == MODE_FILL ? load->next >= load->keys : now >= load->end_ns;
}

static void die(const char *what)
{
    perror(what);
    exit(1);
}

/* The socket blocks: a server that stops reading stops this client, which is what is measured. */
static void conn_send(struct conn *conn, size_t len)
{
    for (size_t at = 0; at < len;) {
        ssize_t n = write(conn->fd, conn->out + at, len - at);
        if (n <= 0)
            die("could not send");
        at += (size_t)n;
    }
}

static void conn_begin(struct load *load, struct conn *conn, uint64_t now)
{
    size_t len = 0;
    while (conn->awaited_count < load->pipeline &&
           !(load->mode == MODE_FILL && load->next >= load->keys)) {
        len += put_one(load, conn->out + len);
        conn->awaited_count++;
    }
    conn->begin_ns = now;
    conn_send(conn, len);
}

/* Counts the replies in what was read. */
static void conn_parse(struct load *load, struct conn *conn)
{
    size_t at = 0;
    while (at < conn->in_len) {
        if (conn->skip_left > 0) {
            size_t part = conn->in_len - at < conn->skip_left ? conn->in_len - at : conn->skip_left;
            conn->skip_left -= part;
            at += part;
            if (conn->skip_left == 0)
                conn->awaited_count--;
            continue;
        }
        const char *end = memchr(conn->in + at, '\n', conn->in_len - at);
        if (!end)
            break;
        if (conn->in[at] == '$' && conn->in[at + 1] != '-') {
            conn->skip_left = strtoull(conn->in + at + 1, NULL, 10) + 2;
        } else {
            load->missing += conn->in[at] == '$';
            if (conn->in[at] == '-' && load->errors++ == 0)
                fprintf(stderr, "%.*s\n", (int)(end - conn->in - (long)at), conn->in + at);
            conn->awaited_count--;
        }
        at = (size_t)(end + 1 - conn->in);
    }
    memmove(conn->in, conn->in + at, conn->in_len - at);
    conn->in_len -= at;
}

static void conn_turn(struct load *load, struct conn *conn)
{
    ssize_t n = read(conn->fd, conn->in + conn->in_len, IN_BYTES_MAX - conn->in_len);
    if (n <= 0)
        die("could not read");
    conn->in_len += (size_t)n;
    int before_count = conn->awaited_count;
    conn_parse(load, conn);
    load->ops += (uint64_t)(before_count - conn->awaited_count);
    if (conn->awaited_count > 0)
        return;
    uint64_t now = now_ns();
    uint64_t us = (now - conn->begin_ns) / 1000;
    load->latency[us < LATENCY_US_MAX ? us : LATENCY_US_MAX - 1]++;
    if (load_is_over(load, now))
        load->running_count--;
    else
        conn_begin(load, conn, now);
}

static void conn_open(struct load *load, struct conn *conn)
{
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                               .sin_port = htons((uint16_t)load->port)};
    conn->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (conn->fd < 0 || connect(conn->fd, (struct sockaddr *)&addr, sizeof addr) != 0)
        die("could not connect");
    int on = 1;
    setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    conn->in = malloc(IN_BYTES_MAX);
    conn->out =
        malloc((size_t)load->pipeline * ((is_tile(load) ? 4096 : 0) + load->value_bytes + 192));
    if (!conn->in || !conn->out)
        die("could not allocate");
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = conn};
    epoll_ctl(load->epoll, EPOLL_CTL_ADD, conn->fd, &event);
}

static uint64_t percentile_us(const struct load *load, double share)
{
    uint64_t total = 0, sum = 0;
    for (size_t us = 0; us < LATENCY_US_MAX; us++)
        total += load->latency[us];
    for (size_t us = 0; us < LATENCY_US_MAX; us++) {
        sum += load->latency[us];
        if ((double)sum >= share * (double)total)
            return us;
    }
    return LATENCY_US_MAX;
}

static void option(struct load *load, const char *text)
{
    const char *value = strchr(text, '=');
    size_t len = value ? (size_t)(value - text) : 0;
    const struct {
        const char *name;
        uint64_t *number;
        int *small;
        double *real;
    } options[] = {
        {"keys", &load->keys, NULL, NULL},           {"first", &load->first, NULL, NULL},
        {"value", &load->value_bytes, NULL, NULL},   {"seed", &load->seed, NULL, NULL},
        {"conns", NULL, &load->conn_count, NULL},    {"pipeline", NULL, &load->pipeline, NULL},
        {"reads", NULL, &load->reads_percent, NULL}, {"seconds", NULL, NULL, &load->seconds},
        {"theta", NULL, NULL, &load->zipf.theta},    {"digits", NULL, &load->digits, NULL},
    };
    if (len == 4 && memcmp(text, "type", 4) == 0) {
        load->type = value + 1;
        return;
    }
    if (len == 6 && memcmp(text, "prefix", 6) == 0) {
        load->prefix = value + 1;
        return;
    }
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        if (len != strlen(options[i].name) || memcmp(text, options[i].name, len) != 0)
            continue;
        if (options[i].number)
            *options[i].number = strtoull(value + 1, NULL, 10);
        else if (options[i].small)
            *options[i].small = (int)strtol(value + 1, NULL, 10);
        else
            *options[i].real = strtod(value + 1, NULL);
        return;
    }
    fprintf(stderr, "unknown option \"%s\"\n", text);
    exit(2);
}

static void parse(struct load *load, int argc, char **argv)
{
    static const char *const names[] = {"fill", "zipf", "cycle", "random"};
    int mode = 4;
    for (int i = 0; argc > 2 && i < 4; i++)
        mode = strcmp(argv[2], names[i]) == 0 ? i : mode;
    if (mode == 4) {
        fprintf(stderr, "usage: load_server PORT fill|zipf|cycle|random NAME=VALUE...\n");
        exit(2);
    }
    load->mode = (enum mode)mode;
    load->port = (int)strtol(argv[1], NULL, 10);
    for (int i = 3; i < argc; i++)
        option(load, argv[i]);
    if (load->conn_count < 1 || load->conn_count > CONN_COUNT_MAX || load->pipeline < 1 ||
        load->pipeline > PIPELINE_MAX || load->value_bytes > VALUE_BYTES_MAX || load->keys < 1 ||
        load->digits < 0 || load->digits > 24 || strlen(load->prefix) > 24) {
        fprintf(stderr, "a number is out of range\n");
        exit(2);
    }
}

int main(int argc, char **argv)
{
    static struct load load = {.type = "string",
                               .prefix = "",
                               .digits = 12,
                               .conn_count = 50,
                               .pipeline = 1,
                               .reads_percent = 90,
                               .keys = 1000000,
                               .value_bytes = 64,
                               .seconds = 5,
                               .zipf.theta = 0.99};
    parse(&load, argc, argv);
    load.latency = calloc(LATENCY_US_MAX, sizeof *load.latency);
    load.value = malloc(VALUE_BYTES_MAX);
    load.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (!load.latency || !load.value || load.epoll < 0)
        die("could not begin");
    for (size_t i = 0; i < VALUE_BYTES_MAX; i++) /* half of it compresses */
        load.value[i] = i % 2 ? 'x' : (char)('a' + mix(i) % 26);
    if (load.mode == MODE_ZIPF)
        zipf_init(&load.zipf, load.keys, load.zipf.theta);
    for (int i = 0; i < load.conn_count; i++)
        conn_open(&load, &load.conns[i]);
    uint64_t begin = now_ns();
    load.end_ns = begin + (uint64_t)(load.seconds * 1e9);
    for (int i = 0; i < load.conn_count && !load_is_over(&load, begin); i++) {
        load.running_count++;
        conn_begin(&load, &load.conns[i], now_ns());
    }
    while (load.running_count > 0) {
        struct epoll_event events[64];
        int count = epoll_wait(load.epoll, events, 64, -1);
        for (int i = 0; i < count; i++)
            conn_turn(&load, events[i].data.ptr);
    }
    double seconds = (double)(now_ns() - begin) / 1e9;
    printf("ops %llu seconds %.3f rate %.0f p50 %llu p99 %llu p999 %llu errors %llu missing %llu\n",
           (unsigned long long)load.ops, seconds, (double)load.ops / seconds,
           (unsigned long long)percentile_us(&load, 0.5),
           (unsigned long long)percentile_us(&load, 0.99),
           (unsigned long long)percentile_us(&load, 0.999), (unsigned long long)load.errors,
           (unsigned long long)load.missing);
    return load.errors ? 1 : 0;
}
