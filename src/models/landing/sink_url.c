// SPDX-License-Identifier: Apache-2.0
/* sink_url.c - parses the URL of a database. */
#include <stdlib.h>

#include "base/limits.h"
#include "base/mem.h"
#include "models/landing/sink_int.h"

#include "base/banned.h"

enum { SINK_CONNECT_TIMEOUT_S = 5, SINK_TIMEOUT_S = 30, SINK_PORT = 3306 };

void sink__url_done(struct sink_url *url)
{
    if (!url)
        return;
    mem_free(url->path);
    mem_free(url->user);
    mem_free(url->password);
    mem_free(url->host);
    mem_free(url->database);
    mem_free(url->socket);
    mem_free(url->ssl_ca);
    mem_free(url->ssl_cert);
    mem_free(url->ssl_key);
    mem_free(url->name);
    *url = (struct sink_url){0};
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A part of the URL, decoded. NUL would end a C string early and name something else. */
static enum rc decode(const char *from, size_t len, const char *what, char **ret_text,
                      struct err *err)
{
    char *to = mem_alloc(len + 1);
    size_t to_len = 0;
    for (size_t i = 0; i < len; i++) {
        int c = (unsigned char)from[i];
        if (c == '%') {
            bool is_whole = len - i > 2;
            int high = is_whole ? hex_digit(from[i + 1]) : -1;
            int low = is_whole ? hex_digit(from[i + 2]) : -1;
            c = high < 0 || low < 0 ? 0 : high * 16 + low;
            i += 2;
        }
        if (c == 0) {
            mem_free(to);
            return err_set(err, RC_INVALID, "the URL's %s has a bad %%-code", what);
        }
        to[to_len++] = (char)c;
    }
    to[to_len] = '\0';
    mem_free(*ret_text);
    *ret_text = to;
    return RC_OK;
}

static enum rc parse_seconds(const char *text, const char *what, unsigned *ret_seconds,
                             struct err *err)
{
    unsigned value = 0;
    for (const char *c = text; *c; c++) {
        if (*c < '0' || *c > '9' || value > SINK_SECONDS_MAX)
            return err_set(err, RC_INVALID, "\"%s\" is not a number of seconds for %s", text, what);
        value = value * 10 + (unsigned)(*c - '0');
    }
    if (value < 1 || value > SINK_SECONDS_MAX)
        return err_set(err, RC_INVALID, "%s has to be 1 to %d seconds", what, SINK_SECONDS_MAX);
    *ret_seconds = value;
    return RC_OK;
}

struct parse { /* what is known while options are read */
    struct sink_url *url;
    bool has_tls;
};

static enum rc parse_tls(struct parse *parse, const char *text, struct err *err)
{
    static const char *const names[] = {"off", "required", "verify"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcmp(text, names[i]) == 0) {
            parse->url->tls = (enum sink_tls)i;
            parse->has_tls = true;
            return RC_OK;
        }
    return err_set(err, RC_INVALID, "ssl has to be required, verify or off, not \"%s\"", text);
}

static enum rc parse_option(struct parse *parse, const char *from, size_t len, struct err *err)
{
    struct sink_url *url = parse->url;
    const char *equals = memchr(from, '=', len);
    if (!equals)
        return err_set(err, RC_INVALID, "an option of the URL has no value");
    struct bytes name = bytes_of(from, (size_t)(equals - from));
    char *value = NULL;
    enum rc rc = decode(equals + 1, len - name.len - 1, "option", &value, err);
    if (rc != RC_OK)
        return rc;
    const struct {
        struct bytes name;
        char **text;
    } texts[] = {{BYTES("socket"), &url->socket},
                 {BYTES("ssl-ca"), &url->ssl_ca},
                 {BYTES("ssl-cert"), &url->ssl_cert},
                 {BYTES("ssl-key"), &url->ssl_key}};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        if (!bytes_eq(name, texts[i].name))
            continue;
        mem_free(*texts[i].text);
        *texts[i].text = value;
        if (!*value)
            return err_set(err, RC_INVALID, "option %.*s of the URL is empty", (int)name.len, from);
        return RC_OK;
    }
    if (bytes_eq(name, BYTES("ssl")))
        rc = parse_tls(parse, value, err);
    else if (bytes_eq(name, BYTES("connect-timeout")))
        rc = parse_seconds(value, "connect-timeout", &url->connect_timeout_s, err);
    else if (bytes_eq(name, BYTES("timeout")))
        rc = parse_seconds(value, "timeout", &url->timeout_s, err);
    else
        rc = err_set(err, RC_INVALID, "unknown option \"%.*s\" in the URL", (int)name.len, from);
    mem_free(value);
    return rc;
}

static enum rc parse_options(struct sink_url *url, const char *text, struct err *err)
{
    struct parse parse = {.url = url};
    while (*text) {
        size_t len = strcspn(text, "&");
        enum rc rc = parse_option(&parse, text, len, err);
        if (rc != RC_OK)
            return rc;
        text += len + (text[len] == '&');
    }
    if (!parse.has_tls && url->ssl_ca)
        url->tls = SINK_TLS_VERIFY; /* who names an authority wants it asked */
    else if (!parse.has_tls && (url->ssl_cert || url->ssl_key))
        url->tls = SINK_TLS_REQUIRED;
    if (url->tls == SINK_TLS_OFF && (url->ssl_ca || url->ssl_cert || url->ssl_key))
        return err_set(err, RC_INVALID, "ssl=off and files for it in one URL");
    return RC_OK;
}

static enum rc parse_port(struct sink_url *url, const char *from, size_t len, struct err *err)
{
    unsigned port = 0;
    for (size_t i = 0; i < len && port <= UINT16_MAX; i++) {
        if (from[i] < '0' || from[i] > '9')
            port = UINT16_MAX;
        port = port * 10 + (unsigned)(from[i] - '0');
    }
    if (port < 1 || port > UINT16_MAX)
        return err_set(err, RC_INVALID, "\"%.*s\" is not a port", (int)len, from);
    url->port = port;
    return RC_OK;
}

static enum rc parse_host(struct sink_url *url, const char *from, size_t len, struct err *err)
{
    const char *name = from, *end = from + len, *name_end;
    if (len && *from == '[') {
        name++;
        name_end = memchr(from, ']', len);
        if (!name_end || (name_end + 1 < end && name_end[1] != ':'))
            return err_set(err, RC_INVALID, "the URL's host has a [ without its ]");
    } else {
        const char *colon = memchr(from, ':', len);
        name_end = colon ? colon : end;
        if (colon && memchr(colon + 1, ':', (size_t)(end - colon - 1)))
            return err_set(err, RC_INVALID, "an IPv6 address in a URL has to be written [::1]");
    }
    const char *rest = *from == '[' ? name_end + 1 : name_end;
    enum rc rc = decode(name, (size_t)(name_end - name), "host", &url->host, err);
    if (rc != RC_OK || rest == end)
        return rc;
    return parse_port(url, rest + 1, (size_t)(end - rest - 1), err);
}

/* Neither errors nor the name may show a password. */
static enum rc parse_mysql(const char *text, struct sink_url *url, struct err *err)
{
    static const char scheme[] = "mysql://";
    const char *start = text + sizeof scheme - 1;
    size_t authority_len = strcspn(start, "/?");
    const char *end = start + authority_len;
    const char *at = memrchr(start, '@', authority_len);
    if (!at || *end != '/')
        return err_set(err, RC_INVALID,
                       "expected mysql://USER[:PASSWORD]@HOST[:PORT]/DATABASE[?OPTION=VALUE&...]");
    const char *colon = memchr(start, ':', (size_t)(at - start));
    const char *user_end = colon ? colon : at;
    *url = (struct sink_url){.ops = &sink__mysql_ops,
                             .port = SINK_PORT,
                             .connect_timeout_s = SINK_CONNECT_TIMEOUT_S,
                             .timeout_s = SINK_TIMEOUT_S};
    enum rc rc = decode(start, (size_t)(user_end - start), "user", &url->user, err);
    if (rc == RC_OK && colon)
        rc = decode(colon + 1, (size_t)(at - colon - 1), "password", &url->password, err);
    if (rc == RC_OK)
        rc = parse_host(url, at + 1, (size_t)(end - at - 1), err);
    size_t database_len = strcspn(end + 1, "?");
    if (rc == RC_OK)
        rc = decode(end + 1, database_len, "database", &url->database, err);
    const char *options = end + 1 + database_len;
    if (rc == RC_OK && *options)
        rc = parse_options(url, options + 1, err);
    if (rc != RC_OK)
        return rc;
    if (!*url->user || !*url->database || strlen(url->database) > SINK_NAME_BYTES_MAX)
        return err_set(err, RC_INVALID, "a mysql URL needs a user and a database");
    if (!*url->host && !url->socket)
        return err_set(err, RC_INVALID, "a mysql URL needs a host or the option socket");
    size_t head_len = (size_t)(user_end - text), tail_len = strlen(at);
    url->name = mem_alloc(head_len + tail_len + 1);
    memcpy(url->name, text, head_len);
    memcpy(url->name + head_len, at, tail_len + 1);
    return RC_OK;
}

bool sink_url_password(const char *text, char **ret_password, char **ret_bare)
{
    struct sink_url url;
    if (sink__url_parse(text, &url, NULL) != RC_OK)
        return false;
    bool has = url.password != NULL;
    if (has) {
        *ret_password = url.password;
        *ret_bare = url.name;
        url.password = url.name = NULL;
    }
    sink__url_done(&url);
    return has;
}

static enum rc parse_sqlite(const char *text, struct sink_url *url, struct err *err)
{
    const char *path = text + strlen("sqlite:");
    if (!*path)
        return err_set(err, RC_INVALID, "expected sqlite:PATH");
    if (strcmp(path, ":memory:") == 0)
        return err_set(err, RC_INVALID, "a database in memory is not a place to land");
    *url = (struct sink_url){.ops = &sink__sqlite_ops,
                             .path = mem_dup(path, strlen(path) + 1),
                             .name = mem_dup(text, strlen(text) + 1)};
    return RC_OK;
}

/* Nothing behind the scheme is shown: it may be a password. */
static enum rc parse_unknown(const char *text, struct err *err)
{
    static const char kinds[] = "a sink is sqlite:PATH or mysql://USER@HOST/DATABASE";
    enum { SCHEME_CHARS_MAX = 32 };
    size_t len = strcspn(text, ":/@");
    if (text[len] != ':' || len == 0 || len > SCHEME_CHARS_MAX)
        return err_set(err, RC_INVALID, "%s", kinds);
    return err_set(err, RC_INVALID, "there is no kind of sink \"%.*s\": %s", (int)len, text, kinds);
}

enum rc sink__url_parse(const char *text, struct sink_url *ret_url, struct err *err)
{
    if (strlen(text) > SINK_URL_BYTES_MAX)
        return err_set(err, RC_INVALID, "the URL is longer than %d bytes", SINK_URL_BYTES_MAX);
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            return err_set(err, RC_INVALID, "the URL has a control character in it");
    struct sink_url url = {0};
    enum rc rc;
    if (strncmp(text, "sqlite:", strlen("sqlite:")) == 0)
        rc = parse_sqlite(text, &url, err);
    else if (strncmp(text, "mysql://", strlen("mysql://")) == 0)
        rc = parse_mysql(text, &url, err);
    else
        rc = parse_unknown(text, err);
    if (rc != RC_OK)
        sink__url_done(&url);
    else
        *ret_url = url;
    return rc;
}
