// SPDX-License-Identifier: Apache-2.0
/* test_sink_away.c - databases that are away, hang, refuse, or die in the middle: what is not RC_OK
 * can be done again, and RC_OK stays. The numbers are those of sink.h. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "contract/support_sink.h"

#include "base/banned.h"

static void create_small(struct sink_fix *fix)
{
    ASSERT_OK(sink_create(fix->sink, &sink_fix_small, &fix->err), &fix->err);
}

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* Asks until the answer is this, for at most a hundred seconds. InnoDB's tables are a copy that is
 * not made anew while somebody reads them more often than every 100 ms. */
static void wait_for(struct sink_fix *fix, const char *sql, const char *answer)
{
    for (int i = 0; i < 700; i++) {
        if (strcmp(sink_fix_ask(fix, sql), answer) == 0)
            return;
        sleep_ms(150);
    }
    test_fail(__FILE__, __LINE__, "%s is not %s but %s", sql, answer, sink_fix_ask(fix, sql));
}

static double now_s(void)
{
    struct clock clock;
    clock_init(&clock);
    return (double)clock_mono_ns(&clock) / 1e9;
}

/* ---- a landing in another thread ---- */

struct background {
    struct sink_fix fix; /* a copy with a sink of its own */
    const char *key[2];
    int64_t version;
    enum rc rc;
    pthread_t thread;
};

static void *background_run(void *arg)
{
    struct background *background = arg;
    char number[32];
    snprintf(number, sizeof number, "#%lld", (long long)background->version);
    const char *rows[] = {background->key[0], "bg", number, background->key[1], "bg", number};
    background->rc = sink_fix_land(&background->fix, &sink_fix_small, "k v up_version", rows, 2);
    return NULL;
}

static void background_start(struct background *background, struct sink_fix *fix, const char *first,
                             const char *second, int64_t version)
{
    *background =
        (struct background){.fix = {.kind = fix->kind}, .key = {first, second}, .version = version};
    memcpy(background->fix.url, fix->url, sizeof fix->url);
    background->fix.sink = sink_fix_open(fix);
    ASSERT_OK(sink_ping(background->fix.sink, &fix->err), &fix->err);
    ASSERT_EQ(pthread_create(&background->thread, NULL, background_run, background), 0);
}

static enum rc background_join(struct background *background)
{
    pthread_join(background->thread, NULL);
    return background->rc;
}

static const char waiting_sql[] =
    "SELECT count(*) FROM information_schema.INNODB_TRX WHERE trx_state='LOCK WAIT'";

/* ---- the server goes ---- */

static void killed_in_transaction(struct sink_fix *fix)
{
    struct background background;
    create_small(fix);
    ASSERT_OK(sink_fix_put(fix, "b", "old", 1), &fix->err);
    sink_fix_sql(fix, "BEGIN");
    sink_fix_sql(fix, "UPDATE small SET made=5 WHERE k='b'"); /* a lock it will wait for */
    background_start(&background, fix, "a", "b", 2);
    wait_for(fix, waiting_sql, "1");
    mariadb_kill(sink_fix_server());
    ASSERT_RC(background_join(&background), RC_IO);
    ASSERT_RC(sink_fix_put(fix, "c", "x", 1), RC_IO);
    ASSERT_RC(sink_ping(fix->sink, &fix->err), RC_IO);
    sink_fix_raw_close(fix);
    (void)sink_fix_server(); /* starts it again */
    ASSERT_STR(sink_fix_rows(fix, &sink_fix_small, "k v up_version"), "b|old|#1");
    background_run(&background); /* the same sink, the same rows */
    ASSERT_OK(background.rc, &background.fix.err);
    ASSERT_STR(sink_fix_rows(fix, &sink_fix_small, "k v up_version"), "a|bg|#2;b|bg|#2");
    sink_close(background.fix.sink);
}

TEST(a_server_killed_in_a_transaction_has_nothing_of_it)
{
    sink_fix_mysql(killed_in_transaction);
}

static void committed_survives_kill(struct sink_fix *fix)
{
    char key[16];
    create_small(fix);
    for (int i = 0; i < 20; i++) {
        snprintf(key, sizeof key, "k%02d", i);
        ASSERT_OK(sink_fix_put(fix, key, "v", 1), &fix->err);
    }
    mariadb_kill(sink_fix_server());
    sink_fix_raw_close(fix);
    (void)sink_fix_server();
    ASSERT_STR(sink_fix_ask(fix, "SELECT count(*) FROM small"), "20");
}

TEST(what_is_committed_survives_a_kill)
{
    sink_fix_mysql(committed_survives_kill);
}

static void restarted_while_idle(struct sink_fix *fix)
{
    create_small(fix);
    ASSERT_OK(sink_fix_put(fix, "a", "1", 1), &fix->err);
    sink_fix_raw_close(fix);
    mariadb_stop(sink_fix_server());
    ASSERT_RC(sink_fix_put(fix, "a", "2", 2), RC_IO);
    (void)sink_fix_server();
    ASSERT_OK(sink_fix_put(fix, "a", "3", 3), &fix->err);
    mariadb_stop(sink_fix_server());
    (void)sink_fix_server();
    /* A connection that was closed while nobody looked is not an error. */
    ASSERT_OK(sink_fix_put(fix, "a", "4", 4), &fix->err);
    ASSERT_STR(sink_fix_rows(fix, &sink_fix_small, "v"), "4");
}

TEST(a_server_that_comes_back_is_found_again)
{
    sink_fix_mysql(restarted_while_idle);
}

/* ---- a user over TCP; what it may not ---- */

static struct sink *open_user(struct sink_fix *fix, const char *password, const char *options,
                              unsigned port)
{
    char url[700];
    struct sink *sink;
    snprintf(url, sizeof url, "mysql://app%%40x:wrong@127.0.0.1:%u/%s%s", port, fix->database,
             options);
    ASSERT_OK(sink_open(url, password, &sink, &fix->err), &fix->err);
    ASSERT_TRUE(strstr(sink_name(sink), "wrong") == NULL);
    return sink;
}

static void make_user(struct sink_fix *fix)
{
    sink_fix_sql(fix, "CREATE OR REPLACE USER 'app@x'@'127.0.0.1' IDENTIFIED BY 'p\"w'");
    char sql[200];
    snprintf(sql, sizeof sql, "GRANT ALL ON %s.* TO 'app@x'@'127.0.0.1'", fix->database);
    sink_fix_sql(fix, sql);
}

static void users(struct sink_fix *fix)
{
    make_user(fix);
    create_small(fix);
    struct sink *ours = fix->sink;
    unsigned port = sink_fix_server()->port;
    fix->sink = open_user(fix, "", "", port);
    ASSERT_RC(sink_ping(fix->sink, &fix->err), RC_IO); /* the password of the URL is wrong */
    ASSERT_TRUE(strstr(fix->err.text, "wrong") == NULL);
    sink_close(fix->sink);
    fix->sink = open_user(fix, "p\"w", "?ssl=required", port);
    ASSERT_RC(sink_ping(fix->sink, &fix->err), RC_IO); /* this server has no certificate */
    sink_close(fix->sink);
    fix->sink = open_user(fix, "p\"w", "?timeout=20&connect-timeout=3", port);
    ASSERT_OK(sink_fix_put(fix, "a", "1", 1), &fix->err);
    sink_fix_sql(fix, "SET GLOBAL read_only=1");
    ASSERT_RC(sink_fix_put(fix, "a", "2", 2), RC_IO);
    ASSERT_STR(sink_fix_rows(fix, &sink_fix_small, "v"), "1");
    sink_fix_sql(fix, "SET GLOBAL read_only=0");
    ASSERT_OK(sink_fix_put(fix, "a", "3", 3), &fix->err);
    char sql[200];
    snprintf(sql, sizeof sql, "REVOKE ALL ON %s.* FROM 'app@x'@'127.0.0.1'", fix->database);
    sink_fix_sql(fix, sql);
    sink_close(fix->sink); /* what a connection was granted it keeps */
    fix->sink = open_user(fix, "p\"w", "", port);
    ASSERT_RC(sink_fix_put(fix, "a", "4", 4), RC_IO);
    make_user(fix);
    ASSERT_OK(sink_fix_put(fix, "a", "5", 5), &fix->err);
    sink_close(fix->sink);
    fix->sink = ours;
}

TEST(what_a_user_may_not_now_is_tried_again_later)
{
    sink_fix_mysql(users);
}

static void with_tls(struct sink_fix *fix)
{
    char command[1200], options[700], url_options[500];
    const char *dir = test_temp_dir();
    snprintf(command, sizeof command,
             "cd %s && openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1"
             " -addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out cert.pem >/dev/null 2>&1 &&"
             " openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=other -keyout"
             " other-key.pem -out other.pem >/dev/null 2>&1",
             dir);
    ASSERT_EQ(system(command), 0);
    make_user(fix);
    create_small(fix);
    sink_fix_raw_close(fix);
    mariadb_stop(sink_fix_server_there());
    snprintf(options, sizeof options, "--ssl-cert=%s/cert.pem --ssl-key=%s/key.pem", dir, dir);
    ASSERT_TRUE(mariadb_start(sink_fix_server_there(), options));
    unsigned port = sink_fix_server()->port;
    struct sink *ours = fix->sink;
    static const struct {
        const char *option;
        const char *ca;
        enum rc rc;
    } cases[] = {{"?ssl=required", NULL, RC_OK},
                 {"?ssl-ca=", "cert.pem", RC_OK},
                 {"?ssl=verify&ssl-ca=", "cert.pem", RC_OK},
                 {"?ssl-ca=", "other.pem", RC_IO},
                 {"?ssl=off", NULL, RC_OK}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        snprintf(url_options, sizeof url_options, "%s%s%s%s", cases[i].option,
                 cases[i].ca ? dir : "", cases[i].ca ? "/" : "", cases[i].ca ? cases[i].ca : "");
        fix->sink = open_user(fix, "p\"w", url_options, port);
        ASSERT_RC(sink_fix_put(fix, "a", "tls", (int64_t)i + 1), cases[i].rc);
        sink_close(fix->sink);
    }
    fix->sink = ours;
    sink_fix_raw_close(fix);
    mariadb_stop(sink_fix_server_there()); /* the next test has it without */
}

TEST(tls_is_used_and_checked_as_the_url_says)
{
    sink_fix_mysql(with_tls);
}

/* ---- locks ---- */

struct crossing { /* lands two tables in one order or the other, many times */
    struct sink_fix *fix;
    struct sink *sink;
    bool is_reversed;
    enum rc rc;
    struct err err;
};

enum { CROSSINGS = 60 };

static void *cross(void *arg)
{
    struct crossing *crossing = arg;
    static const size_t places[] = {SMALL_K, SMALL_V, SMALL_VERSION};
    static const enum sink_use uses[3] = {SINK_SET};
    struct sink_table second = sink_fix_small;
    second.name = BYTES("second");
    for (int64_t i = 1; i <= CROSSINGS && crossing->rc == RC_OK; i++) {
        const struct sink_cell cell[] = {
            sink_fix_cell("same"), sink_fix_cell("v"), {.kind = SINK_INT, .number = i}};
        struct sink_change change[2] = {{.table = &sink_fix_small, .kind = SINK_UPSERT},
                                        {.table = &second, .kind = SINK_UPSERT}};
        for (size_t j = 0; j < 2; j++)
            change[j].upsert = (struct sink_upsert){
                .column = places, .use = uses, .column_count = 3, .cell = cell, .row_count = 1};
        if (crossing->is_reversed) {
            const struct sink_table *first = change[0].table;
            change[0].table = change[1].table;
            change[1].table = first;
        }
        crossing->rc = sink_land(crossing->sink, change, 2, NULL, &crossing->err);
        if (crossing->rc == RC_NEWER) /* the other one is ahead */
            crossing->rc = RC_OK;
    }
    return NULL;
}

static void cross_both_ways(struct sink_fix *fix)
{
    struct crossing crossing[2];
    pthread_t thread[2];
    for (size_t i = 0; i < 2; i++) {
        crossing[i] =
            (struct crossing){.fix = fix, .sink = sink_fix_open(fix), .is_reversed = i == 1};
        ASSERT_EQ(pthread_create(&thread[i], NULL, cross, &crossing[i]), 0);
    }
    for (size_t i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    for (size_t i = 0; i < 2; i++) {
        ASSERT_OK(crossing[i].rc, &crossing[i].err);
        sink_close(crossing[i].sink);
    }
}

static bool has_met_deadlock(struct sink_fix *fix)
{
    return strcmp(sink_fix_ask(fix, "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS "
                                    "WHERE VARIABLE_NAME='INNODB_DEADLOCKS'"),
                  "0") != 0;
}

static void deadlocks(struct sink_fix *fix)
{
    struct sink_table second = sink_fix_small;
    second.name = BYTES("second");
    create_small(fix);
    ASSERT_OK(sink_create(fix->sink, &second, &fix->err), &fix->err);
    do /* until they have met, whoever of the two is faster */
        cross_both_ways(fix);
    while (fix->kind == SINK_FIX_MYSQL && !has_met_deadlock(fix));
    ASSERT_STR(sink_fix_ask(fix, "SELECT up_version FROM second"), "60");
}

TEST(a_deadlock_is_tried_again)
{
    sink_fix_each(deadlocks);
}

static void interrupts(struct sink_fix *fix)
{
    struct background background;
    create_small(fix);
    ASSERT_OK(sink_fix_put(fix, "b", "old", 1), &fix->err);
    sink_fix_sql(fix, fix->kind == SINK_FIX_MYSQL ? "BEGIN" : "BEGIN IMMEDIATE");
    sink_fix_sql(fix, "UPDATE small SET made=5 WHERE k='b'");
    background_start(&background, fix, "a", "b", 2);
    if (fix->kind == SINK_FIX_MYSQL)
        wait_for(fix, waiting_sql, "1");
    else
        sleep_ms(100); /* it waits for the file's lock, which nobody can see */
    double start = now_s();
    sink_interrupt(background.fix.sink);
    ASSERT_RC(background_join(&background), RC_IO);
    ASSERT_LT(now_s() - start, 4); /* by itself SQLite would wait for 5 */
    ASSERT_RC(sink_ping(background.fix.sink, &fix->err), RC_IO);
    sink_close(background.fix.sink);
    sink_fix_sql(fix, "ROLLBACK");
    ASSERT_STR(sink_fix_rows(fix, &sink_fix_small, "k v"), "b|old");
}

TEST(an_interrupt_ends_a_call_that_waits)
{
    sink_fix_each(interrupts);
}

static void interrupt_of_hung_server(struct sink_fix *fix)
{
    struct background background;
    struct mariadb *server = sink_fix_server();
    create_small(fix);
    struct sink *sink = sink_fix_open(fix);
    ASSERT_OK(sink_ping(sink, &fix->err), &fix->err);
    sink_close(sink);
    background = (struct background){0};
    background_start(&background, fix, "a", "b", 2);
    ASSERT_OK(background_join(&background), &background.fix.err);
    background.version = 3;
    mariadb_pause(server, true);
    ASSERT_EQ(pthread_create(&background.thread, NULL, background_run, &background), 0);
    sleep_ms(100);
    double start = now_s();
    sink_interrupt(background.fix.sink);
    enum rc rc = background_join(&background);
    double end = now_s();
    mariadb_pause(server, false);
    ASSERT_RC(rc, RC_IO);
    ASSERT_LT(end - start, 4);
    sink_close(background.fix.sink);
}

TEST(an_interrupt_ends_a_call_to_a_server_that_hangs)
{
    sink_fix_mysql(interrupt_of_hung_server);
}

/* ---- a connection that is cut at the worst moment ---- */

struct proxy { /* between one client and the server; cuts when it has seen `word` */
    int listen_fd;
    unsigned port, server_port;
    const char *_Atomic word;
    _Atomic bool is_passed_on; /* the statement reaches the server, its answer does not come back */
    _Atomic bool has_cut;
    pthread_t thread;
};

static int connect_to(unsigned port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static void proxy_client(struct proxy *proxy, int client)
{
    int server = connect_to(proxy->server_port);
    static char data[65536];
    struct pollfd poll_fd[2] = {{.fd = client, .events = POLLIN}, {.fd = server, .events = POLLIN}};
    while (server >= 0 && poll(poll_fd, 2, 10000) > 0) {
        for (int i = 0; i < 2; i++) {
            if (!poll_fd[i].revents)
                continue;
            ssize_t len = read(poll_fd[i].fd, data, sizeof data);
            const char *word = proxy->word;
            bool is_it = len > 0 && i == 0 && !proxy->has_cut && word &&
                         memmem(data, (size_t)len, word, strlen(word));
            if (len > 0 && (!is_it || proxy->is_passed_on))
                (void)!write(poll_fd[1 - i].fd, data, (size_t)len);
            if (is_it) {
                proxy->has_cut = true;
                if (proxy->is_passed_on)
                    (void)!read(server, data, sizeof data); /* done, and nobody hears of it */
            }
            if (len <= 0 || is_it)
                goto out;
        }
    }
out:
    close(client);
    if (server >= 0)
        close(server);
}

static void *proxy_run(void *arg)
{
    struct proxy *proxy = arg;
    int client;
    while ((client = accept(proxy->listen_fd, NULL, NULL)) >= 0)
        proxy_client(proxy, client);
    return NULL;
}

static void proxy_start(struct proxy *proxy, unsigned server_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    *proxy = (struct proxy){.server_port = server_port};
    proxy->listen_fd = socket(AF_INET, SOCK_STREAM, 0);
    ASSERT_EQ(bind(proxy->listen_fd, (struct sockaddr *)&address, sizeof address), 0);
    ASSERT_EQ(listen(proxy->listen_fd, 8), 0);
    ASSERT_EQ(getsockname(proxy->listen_fd, (struct sockaddr *)&address, &len), 0);
    proxy->port = ntohs(address.sin_port);
    ASSERT_EQ(pthread_create(&proxy->thread, NULL, proxy_run, proxy), 0);
}

static void proxy_stop(struct proxy *proxy)
{
    shutdown(proxy->listen_fd, SHUT_RDWR);
    close(proxy->listen_fd);
    pthread_join(proxy->thread, NULL);
}

static void cut_connections(struct sink_fix *fix)
{
    struct proxy proxy;
    struct sink *ours = fix->sink;
    make_user(fix);
    create_small(fix);
    proxy_start(&proxy, sink_fix_server()->port);
    fix->sink = open_user(fix, "p\"w", "", proxy.port);
    ASSERT_OK(sink_fix_put(fix, "a", "1", 1), &fix->err);
    /* The COMMIT arrives, its answer does not: RC_IO, and the same again is right. */
    proxy.word = "COMMIT";
    proxy.is_passed_on = true;
    ASSERT_RC(sink_fix_put(fix, "a", "2", 2), RC_IO);
    ASSERT_TRUE(proxy.has_cut);
    ASSERT_STR(sink_fix_ask(fix, "SELECT v, up_version FROM small"), "2|2");
    ASSERT_OK(sink_fix_put(fix, "a", "2", 2), &fix->err);
    ASSERT_STR(sink_fix_ask(fix, "SELECT v, up_version FROM small"), "2|2");
    /* It does not arrive. */
    proxy.has_cut = proxy.is_passed_on = false;
    ASSERT_RC(sink_fix_put(fix, "a", "3", 3), RC_IO);
    ASSERT_STR(sink_fix_ask(fix, "SELECT v, up_version FROM small"), "2|2");
    ASSERT_OK(sink_fix_put(fix, "a", "3", 3), &fix->err);
    ASSERT_STR(sink_fix_ask(fix, "SELECT v, up_version FROM small"), "3|3");
    /* A transaction that is cut before is rolled back. */
    proxy.has_cut = false;
    proxy.is_passed_on = true;
    proxy.word = "LIMIT 0";
    ASSERT_RC(sink_fix_put(fix, "a", "4", 4), RC_IO);
    ASSERT_STR(sink_fix_ask(fix, "SELECT v, up_version FROM small"), "3|3");
    sink_close(fix->sink);
    proxy_stop(&proxy);
    fix->sink = ours;
}

TEST(a_commit_whose_answer_is_lost_can_be_done_again)
{
    sink_fix_mysql(cut_connections);
}

/* ---- limits and rules of the server ---- */

static enum rc count_rows(void *arg, const struct sink_cell *cell, struct err *err)
{
    (void)cell, (void)err;
    ++*(size_t *)arg;
    return RC_OK;
}

static void small_packets(struct sink_fix *fix)
{
    enum { ROWS = 300, VALUE = 1000, HALF = 40000 };
    static char value[2 * HALF + 1], keys[ROWS][16];
    static const char *rows[ROWS * 3];
    sink_fix_sql(fix, "SET GLOBAL max_allowed_packet=65536");
    sink_fix_sql(fix, "CREATE TABLE wide (k VARCHAR(20) PRIMARY KEY, a LONGTEXT, b LONGBLOB,"
                      " up_version BIGINT) CHARSET utf8mb4");
    create_small(fix);
    sink_close(fix->sink);
    fix->sink = sink_fix_open(fix);
    memset(value, 'v', VALUE);
    for (size_t i = 0; i < ROWS; i++) {
        snprintf(keys[i], sizeof keys[i], "%05zu", i);
        rows[3 * i] = keys[i], rows[3 * i + 1] = value, rows[3 * i + 2] = "#1";
    }
    ASSERT_OK(sink_fix_land(fix, &sink_fix_small, "k v up_version", rows, ROWS), &fix->err);
    ASSERT_STR(sink_fix_ask(fix, "SELECT count(*), sum(length(v)) FROM small"), "300|300000");
    static char long_keys[ROWS][VALUE / 2];
    static struct bytes values[ROWS];
    for (size_t i = 0; i < ROWS; i++) {
        memset(long_keys[i], 'k', sizeof long_keys[i]);
        memcpy(long_keys[i], keys[i], 5);
        values[i] = bytes_of(long_keys[i], i % 2 ? 5 : sizeof long_keys[i]); /* half are there */
    }
    static const size_t column = SMALL_K;
    size_t count = 0;
    const struct sink_query query = {.table = &sink_fix_small,
                                     .column = &column,
                                     .column_count = 1,
                                     .value = values,
                                     .value_count = ROWS};
    ASSERT_OK(sink_select(fix->sink, &query, count_rows, &count, &fix->err), &fix->err);
    ASSERT_EQ(count, ROWS / 2);
    /* A row that is larger than a packet, of values that are not. */
    struct sink_table *table;
    ASSERT_OK(sink_describe(fix->sink, BYTES("wide"), &table, &fix->err), &fix->err);
    memset(value, 'w', HALF);
    const char *wide[] = {"a", value, value, "#1"};
    ASSERT_OK(sink_fix_land(fix, table, "k a b up_version", wide, 1), &fix->err);
    ASSERT_STR(sink_fix_ask(fix, "SELECT length(a), length(b), a=repeat('w',40000) FROM wide"),
               "40000|40000|1");
    memset(value, 'w', 2 * HALF);
    wide[3] = "#2";
    ASSERT_RC(sink_fix_land(fix, table, "k a b up_version", wide, 1), RC_INVALID);
    ASSERT_TRUE(strstr(fix->err.text, "max_allowed_packet"));
    wide[1] = "after", wide[2] = "it";
    ASSERT_OK(sink_fix_land(fix, table, "k a b up_version", wide, 1), &fix->err);
    ASSERT_STR(sink_fix_ask(fix, "SELECT a, b FROM wide"), "after|it");
    sink_table_free(table);
    sink_fix_sql(fix, "SET GLOBAL max_allowed_packet=16777216");
}

TEST(statements_stay_within_the_packets_of_the_server)
{
    sink_fix_mysql(small_packets);
}

static void shared_keys(struct sink_fix *fix)
{
    struct sink_table *table;
    bool is_mysql = fix->kind == SINK_FIX_MYSQL;
    sink_fix_sql(fix, "CREATE TABLE mails (id BIGINT PRIMARY KEY, mail VARCHAR(50) UNIQUE,"
                      " up_version BIGINT)");
    ASSERT_OK(sink_describe(fix->sink, BYTES("mails"), &table, &fix->err), &fix->err);
    const char *first[] = {"#1", "a@x", "#1"}, *second[] = {"#2", "a@x", "#2"};
    const char *third[] = {"#2", "b@x", "#2"}, *fourth[] = {"#2", "a@x", "#3"};
    ASSERT_OK(sink_fix_land(fix, table, "id mail up_version", first, 1), &fix->err);
    ASSERT_RC(sink_fix_land(fix, table, "id mail up_version", second, 1), RC_INVALID);
    ASSERT_OK(sink_fix_land(fix, table, "id mail up_version", third, 1), &fix->err);
    ASSERT_RC(sink_fix_land(fix, table, "id mail up_version", fourth, 1), RC_INVALID);
    ASSERT_STR(sink_fix_ask(fix, "SELECT id, mail FROM mails ORDER BY id"), "1|a@x;2|b@x");
    sink_table_free(table);
    sink_fix_sql(fix, is_mysql ? "CREATE TABLE loose (k VARCHAR(20) PRIMARY KEY, v INT, up_version"
                                 " BIGINT) CHARSET utf8mb4 COLLATE utf8mb4_general_ci"
                               : "CREATE TABLE loose (k VARCHAR(20) COLLATE NOCASE PRIMARY KEY, v"
                                 " INT, up_version BIGINT)");
    ASSERT_OK(sink_describe(fix->sink, BYTES("loose"), &table, &fix->err), &fix->err);
    const char *upper[] = {"KEY", "1", "#1"}, *lower[] = {"key", "2", "#2"};
    const char *both[] = {"A", "1", "#1", "a", "2", "#1"};
    ASSERT_OK(sink_fix_land(fix, table, "k v up_version", upper, 1), &fix->err);
    ASSERT_RC(sink_fix_land(fix, table, "k v up_version", lower, 1), RC_INVALID);
    ASSERT_RC(sink_fix_land(fix, table, "k v up_version", both, 2), RC_INVALID);
    ASSERT_STR(sink_fix_ask(fix, "SELECT k, v FROM loose"), "KEY|1");
    sink_table_free(table);
}

TEST(a_row_never_lands_on_another_key)
{
    sink_fix_each(shared_keys);
}

static void changed_types(struct sink_fix *fix)
{
    struct sink_table *table;
    sink_fix_sql(fix,
                 "CREATE TABLE moving (id BIGINT PRIMARY KEY, v VARCHAR(20), up_version BIGINT)");
    ASSERT_OK(sink_describe(fix->sink, BYTES("moving"), &table, &fix->err), &fix->err);
    const char *row[] = {"#1", "007", "#1"};
    ASSERT_OK(sink_fix_land(fix, table, "id v up_version", row, 1), &fix->err);
    ASSERT_STR(sink_fix_rows(fix, table, "id v"), "#1|007");
    sink_fix_sql(fix, "DROP TABLE moving");
    sink_fix_sql(fix,
                 "CREATE TABLE moving (id BIGINT PRIMARY KEY, v INT NOT NULL, up_version BIGINT)");
    ASSERT_RC(sink_fix_land(fix, table, "id v up_version", row, 1), RC_INVALID);
    row[1] = "-";
    ASSERT_RC(sink_fix_land(fix, table, "id v up_version", row, 1), RC_INVALID);
    ASSERT_TRUE(strstr(fix->err.text, "NULL"));
    row[1] = "7";
    ASSERT_OK(sink_fix_land(fix, table, "id v up_version", row, 1), &fix->err);
    sink_table_free(table);
}

TEST(a_type_that_was_changed_is_seen)
{
    sink_fix_each(changed_types);
}

static void refused_tables(struct sink_fix *fix)
{
    struct sink_table *table;
    sink_fix_sql(fix, "CREATE TABLE flat (k VARCHAR(20) PRIMARY KEY, up_version BIGINT)"
                      " ENGINE=MyISAM");
    ASSERT_RC(sink_describe(fix->sink, BYTES("flat"), &table, &fix->err), RC_INVALID);
    ASSERT_TRUE(strstr(fix->err.text, "transactions"));
    sink_fix_sql(fix, "CREATE TABLE ver (k VARCHAR(20) PRIMARY KEY, up_version VARCHAR(20))");
    ASSERT_OK(sink_describe(fix->sink, BYTES("ver"), &table, &fix->err), &fix->err);
    const char *row[] = {"a", "#1"};
    ASSERT_RC(sink_fix_land(fix, table, "k up_version", row, 1), RC_INVALID);
    sink_table_free(table);
    sink_fix_sql(fix,
                 "CREATE TABLE counted (id BIGINT PRIMARY KEY AUTO_INCREMENT, up_version BIGINT,"
                 " n INT CHECK (n < 10), p BIGINT, FOREIGN KEY (p) REFERENCES counted (id))");
    ASSERT_OK(sink_describe(fix->sink, BYTES("counted"), &table, &fix->err), &fix->err);
    const char *zero[] = {"#0", "#1", "5", "-"};
    ASSERT_OK(sink_fix_land(fix, table, "id up_version n p", zero, 1), &fix->err);
    ASSERT_STR(sink_fix_ask(fix, "SELECT id FROM counted"), "0");
    const char *check[] = {"#1", "#1", "50", "-"}, *orphan[] = {"#1", "#1", "5", "#77"};
    ASSERT_RC(sink_fix_land(fix, table, "id up_version n p", check, 1), RC_INVALID);
    ASSERT_RC(sink_fix_land(fix, table, "id up_version n p", orphan, 1), RC_INVALID);
    sink_table_free(table);
}

TEST(constraints_and_engines_are_respected)
{
    sink_fix_mysql(refused_tables);
}

/* ---- SQLite's files ---- */

static void write_file(const char *path, const char *text, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ASSERT_GE(fd, 0);
    ASSERT_EQ(write(fd, text, len), (ssize_t)len);
    close(fd);
}

static void bad_files(struct sink_fix *fix)
{
    static char junk[8192];
    char url[500], path[480];
    struct sink *sink;
    const char *dir = test_temp_dir();
    memset(junk, 'j', sizeof junk);
    snprintf(path, sizeof path, "%s/junk.db", dir);
    write_file(path, junk, sizeof junk);
    const char *paths[] = {"junk.db", "", "none/none/x.db", "junk.db/x.db"};
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        snprintf(url, sizeof url, "sqlite:%s/%s", dir, paths[i]);
        ASSERT_OK(sink_open(url, "", &sink, &fix->err), &fix->err);
        ASSERT_RC(sink_ping(sink, &fix->err), RC_IO);
        ASSERT_TRUE(*fix->err.text);
        ASSERT_RC(sink_create(sink, &sink_fix_small, &fix->err), RC_IO);
        sink_close(sink);
    }
    /* A file that was removed takes no commit with it. */
    create_small(fix);
    ASSERT_OK(sink_fix_put(fix, "a", "1", 1), &fix->err);
    sink_fix_raw_close(fix);
    ASSERT_EQ(unlink(fix->path), 0);
    ASSERT_RC(sink_fix_put(fix, "b", "1", 1), RC_NOT_FOUND);
    create_small(fix);
    ASSERT_OK(sink_fix_put(fix, "b", "1", 1), &fix->err);
    ASSERT_STR(sink_fix_ask(fix, "SELECT k FROM small"), "b");
    /* Nor does one that another was put in the place of. */
    sink_fix_raw_close(fix);
    snprintf(path, sizeof path, "%s.old", fix->path);
    ASSERT_EQ(rename(fix->path, path), 0);
    write_file(fix->path, "", 0);
    ASSERT_RC(sink_fix_put(fix, "c", "1", 1), RC_NOT_FOUND);
}

TEST(a_file_that_is_no_database_is_an_io_error)
{
    sink_fix_sqlite(bad_files);
}

static void damaged_file(struct sink_fix *fix)
{
    static char junk[4096];
    create_small(fix);
    ASSERT_OK(sink_fix_put(fix, "a", "1", 1), &fix->err);
    sink_close(fix->sink); /* the log goes into the file */
    int fd = open(fix->path, O_RDWR);
    memset(junk, 'j', sizeof junk);
    for (off_t at = 4096; at < lseek(fd, 0, SEEK_END); at += 4096)
        ASSERT_EQ(pwrite(fd, junk, sizeof junk, at), (ssize_t)sizeof junk);
    close(fd);
    fix->sink = sink_fix_open(fix);
    ASSERT_RC(sink_fix_put(fix, "a", "2", 2), RC_IO);
}

TEST(a_damaged_file_is_an_io_error)
{
    sink_fix_sqlite(damaged_file);
}

static void full_disk(struct sink_fix *fix)
{
    struct rlimit before, small;
    static char value[300 * 1024];
    memset(value, 'x', sizeof value - 1);
    create_small(fix);
    ASSERT_OK(sink_fix_put(fix, "a", "1", 1), &fix->err);
    signal(SIGXFSZ, SIG_IGN);
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 128 * 1024; /* a write beyond it fails, as on a disk without room */
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    enum rc rc = sink_fix_put(fix, "a", value, 2);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    ASSERT_RC(rc, RC_IO);
    ASSERT_STR(sink_fix_rows(fix, &sink_fix_small, "v"), "1");
    ASSERT_OK(sink_fix_put(fix, "a", value, 2), &fix->err);
}

TEST(a_full_disk_is_an_io_error)
{
    sink_fix_sqlite(full_disk);
}

enum { OPENERS = 4, OPENINGS = 100 };

struct opener {
    struct sink *sink;
    pthread_barrier_t *start;
    enum rc rc;
    struct err err;
};

static void *open_at_once(void *arg)
{
    struct opener *opener = arg;
    pthread_barrier_wait(opener->start);
    opener->rc = sink_ping(opener->sink, &opener->err);
    return NULL;
}

/* A file that nobody has switched to a write-ahead log yet: all of them want to. */
static void opened_at_once(struct sink_fix *fix)
{
    create_small(fix);
    for (int round = 0; round < OPENINGS; round++) {
        struct opener opener[OPENERS];
        pthread_t thread[OPENERS];
        pthread_barrier_t start;
        char url[512], sql[600];
        snprintf(url, sizeof url, "%s.%d", sink_name(fix->sink), round);
        snprintf(sql, sizeof sql, "VACUUM INTO '%s'", url + strlen("sqlite:"));
        sink_fix_sql(fix, sql);
        ASSERT_EQ(pthread_barrier_init(&start, NULL, OPENERS), 0);
        for (size_t i = 0; i < OPENERS; i++) {
            opener[i] = (struct opener){.start = &start};
            ASSERT_OK(sink_open(url, "", &opener[i].sink, &fix->err), &fix->err);
            ASSERT_EQ(pthread_create(&thread[i], NULL, open_at_once, &opener[i]), 0);
        }
        for (size_t i = 0; i < OPENERS; i++)
            pthread_join(thread[i], NULL);
        for (size_t i = 0; i < OPENERS; i++) {
            ASSERT_OK(opener[i].rc, &opener[i].err);
            sink_close(opener[i].sink);
        }
        pthread_barrier_destroy(&start);
    }
}

TEST(a_file_may_be_opened_by_many_at_once)
{
    sink_fix_sqlite(opened_at_once);
}

static void locked_file(struct sink_fix *fix)
{
    create_small(fix);
    sink_fix_sql(fix, "BEGIN IMMEDIATE");
    ASSERT_RC(sink_fix_put(fix, "a", "1", 1), RC_IO);
    ASSERT_TRUE(strstr(fix->err.text, "locked"));
    sink_fix_sql(fix, "ROLLBACK");
    ASSERT_OK(sink_fix_put(fix, "a", "1", 1), &fix->err);
}

TEST(a_locked_file_is_an_io_error)
{
    sink_fix_sqlite(locked_file);
}
