// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rand.h"
#include "models/landing/sink_int.h"
#include "test.h"

#include "base/banned.h"

static struct sink_url parse(const char *text)
{
    struct sink_url url = {0};
    struct err err = {0};
    ASSERT_OK(sink__url_parse(text, &url, &err), &err);
    return url;
}

TEST(a_sqlite_url_is_a_path)
{
    struct sink_url url = parse("sqlite:data/players.db?x=%41&y");
    ASSERT_STR(url.path, "data/players.db?x=%41&y"); /* nothing in it is decoded */
    ASSERT_STR(url.name, "sqlite:data/players.db?x=%41&y");
    ASSERT_TRUE(url.ops == &sink__sqlite_ops);
    sink__url_done(&url);
}

TEST(a_mysql_url_has_all_its_parts)
{
    struct sink_url url = parse("mysql://a%40b:p%3a%2Fw:x@db.example:3307/ga%20me"
                                "?ssl=verify&ssl-ca=/c%26a&ssl-cert=/c&ssl-key=/k"
                                "&connect-timeout=2&timeout=3600");
    ASSERT_STR(url.user, "a@b");
    ASSERT_STR(url.password, "p:/w:x");
    ASSERT_STR(url.host, "db.example");
    ASSERT_EQ(url.port, 3307);
    ASSERT_STR(url.database, "ga me");
    ASSERT_EQ(url.tls, SINK_TLS_VERIFY);
    ASSERT_STR(url.ssl_ca, "/c&a");
    ASSERT_STR(url.ssl_cert, "/c");
    ASSERT_STR(url.ssl_key, "/k");
    ASSERT_EQ(url.connect_timeout_s, 2);
    ASSERT_EQ(url.timeout_s, 3600);
    ASSERT_TRUE(url.socket == NULL);
    ASSERT_TRUE(strstr(url.name, "p%3a") == NULL);
    ASSERT_TRUE(strstr(url.name, "mysql://a%40b@db.example:3307/") == url.name);
    sink__url_done(&url);
}

TEST(a_mysql_url_has_defaults)
{
    struct sink_url url = parse("mysql://app@[::1]/game");
    ASSERT_STR(url.host, "::1");
    ASSERT_EQ(url.port, 3306);
    ASSERT_TRUE(url.password == NULL);
    ASSERT_EQ(url.tls, SINK_TLS_OFF);
    sink__url_done(&url);
    url = parse("mysql://app@[::1]:1/game");
    ASSERT_EQ(url.port, 1);
    sink__url_done(&url);
    url = parse("mysql://app:@/game?socket=/run/s");
    ASSERT_STR(url.socket, "/run/s");
    ASSERT_STR(url.password, "");
    ASSERT_STR(url.name, "mysql://app@/game?socket=/run/s");
    sink__url_done(&url);
    url = parse("mysql://app:p@h@host/game?ssl-ca=x"); /* the last @ ends the password */
    ASSERT_STR(url.password, "p@h");
    ASSERT_STR(url.host, "host");
    ASSERT_EQ(url.tls, SINK_TLS_VERIFY);
    sink__url_done(&url);
    url = parse("mysql://app@host/game?ssl-cert=x&ssl-key=y");
    ASSERT_EQ(url.tls, SINK_TLS_REQUIRED);
    sink__url_done(&url);
}

TEST(what_cannot_be_understood_is_refused)
{
    static const char *const bad[] = {
        "",
        "x",
        "sqlite",
        "sqlite:",
        "sqlite::memory:",
        "SQLITE:x",
        "sqlite:a\nb",
        "mysql:",
        "mysql://",
        "mysql://app@host",
        "mysql://app@host/",
        "mysql://host/game",
        "mysql://@host/game",
        "mysql://:pw@host/game",
        "mysql://app@/game",
        "mysql://app@:3306/game",
        "mysql://app@host:/game",
        "mysql://app@host:0/game",
        "mysql://app@host:65536/game",
        "mysql://app@host:99999999999999999999/game",
        "mysql://app@host:33a/game",
        "mysql://app@host:-1/game",
        "mysql://app@::1/game",
        "mysql://app@[::1/game",
        "mysql://app@[::1]x/game",
        "mysql://a%/@host/game",
        "mysql://a%4@host/game",
        "mysql://a%zz@host/game",
        "mysql://a%00@host/game",
        "mysql://app@host/game?x",
        "mysql://app@host/game?unknown=1",
        "mysql://app@host/game?=1",
        "mysql://app@host/game?ssl=maybe",
        "mysql://app@host/game?ssl=",
        "mysql://app@host/game?ssl=off&ssl-ca=x",
        "mysql://app@host/game?ssl-ca=",
        "mysql://app@host/game?socket=",
        "mysql://app@host/game?timeout=",
        "mysql://app@host/game?timeout=0",
        "mysql://app@host/game?timeout=3601",
        "mysql://app@host/game?timeout=-1",
        "mysql://app@host/game?timeout=99999999999",
        "mysql://app@host/game?timeout=1&&ssl=off",
        "mysql://app@host/01234567890123456789012345678901234567890123456789012345678901234",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct sink_url url = {0};
        struct err err = {0};
        if (sink__url_parse(bad[i], &url, &err) != RC_INVALID)
            test_fail(__FILE__, __LINE__, "\"%s\" was taken", bad[i]);
        ASSERT_TRUE(*err.text);
        ASSERT_TRUE(url.name == NULL);
    }
}

TEST(a_url_has_a_limit)
{
    static char text[SINK_URL_BYTES_MAX + 2] = "sqlite:";
    struct sink_url url = {0};
    memset(text + 7, 'x', SINK_URL_BYTES_MAX - 7 + 1);
    ASSERT_RC(sink__url_parse(text, &url, NULL), RC_INVALID);
    text[SINK_URL_BYTES_MAX] = '\0';
    ASSERT_RC(sink__url_parse(text, &url, NULL), RC_OK);
    sink__url_done(&url);
}

/* Pieces of URLs in any order, with bytes changed: nothing is read past its end, and the password
 * is never shown. The sanitizers look on. */
TEST(any_text_is_parsed_or_refused)
{
    static const char *const pieces[] = {
        "mysql://",  "sqlite:",   "app",   ":SECRET", "@",
        "host",      "[::1]",     ":3306", "/",       "game",
        "?",         "&",         "=",     "ssl=",    "required",
        "socket=/s", "timeout=5", "%",     "%41",     "%4",
        "%00",       ":",         "[",     "]",       "connect-timeout=",
        "ssl-ca=x",  "\x01",      "\xff",
    };
    struct rand rand;
    size_t taken = 0;
    rand_init_seed(&rand, 42);
    for (size_t round = 0; round < 200000; round++) {
        char text[256] = "";
        size_t len = 0;
        const char *start = round % 2 ? "mysql://app:SECRET@host/game?" : "mysql://";
        len += (size_t)snprintf(text, sizeof text, "%s", start);
        for (size_t count = rand_below(&rand, 6); count > 0; count--)
            len += (size_t)snprintf(text + len, sizeof text - len, "%s",
                                    pieces[rand_below(&rand, ARRAY_LEN(pieces))]);
        if (rand_below(&rand, 4) == 0)
            text[rand_below(&rand, len)] = (char)rand_below(&rand, 256);
        char *exact = strdup(text); /* so that a read past the end is seen */
        struct sink_url url = {0};
        struct err err = {0};
        enum rc rc = sink__url_parse(exact, &url, &err);
        ASSERT_TRUE(rc == RC_OK || rc == RC_INVALID);
        if (rc == RC_OK) {
            taken++;
            ASSERT_TRUE(url.ops && url.name);
            bool is_once = strstr(text, "SECRET") && !strstr(strstr(text, "SECRET") + 1, "SECRET");
            if (is_once && url.password && strcmp(url.password, "SECRET") == 0)
                ASSERT_TRUE(strstr(url.name, "SECRET") == NULL);
            if (url.ops == &sink__mysql_ops) {
                ASSERT_TRUE(*url.user && *url.database && (*url.host || url.socket));
                ASSERT_TRUE(url.port >= 1 && url.port <= 65535);
            }
        }
        sink__url_done(&url);
        free(exact);
    }
    ASSERT_GT(taken, 100);
}

TEST(a_sink_is_opened_without_its_database)
{
    struct sink *sink;
    struct err err = {0};
    ASSERT_OK(sink_open("mysql://app:SECRET@host/game", "", &sink, &err), &err);
    ASSERT_STR(sink_name(sink), "mysql://app@host/game");
    sink_interrupt(sink);
    ASSERT_RC(sink_ping(sink, &err), RC_IO);
    sink_close(sink);
    sink_close(NULL);
    ASSERT_RC(sink_open("mysql://app:SECRET@host", "", &sink, &err), RC_INVALID);
    ASSERT_TRUE(strstr(err.text, "SECRET") == NULL);
}
