// SPDX-License-Identifier: Apache-2.0
/* http_reply.c - answers as HTTP: ETags, 304, gzip. */
#include <inttypes.h>
#include <stdio.h>
#include <strings.h>
#include <xxhash.h>
#include <zlib.h>

#include "server/http_int.h"

#include "base/banned.h"

enum { ETAG_BYTES = 24, CACHE_BYTES = 48, INFLATE_BYTES = 64 * 1024, UNPACKED_NOT_BYTES = 128 };

/* ---- what the client wants ---- */

/* The next word of a list with commas, without the spaces around it. */
static bool word_next(const char **at, struct bytes *ret_word)
{
    const char *from = *at + strspn(*at, " \t,");
    size_t len = strcspn(from, ",");
    *at = from + len;
    while (len > 0 && (from[len - 1] == ' ' || from[len - 1] == '\t'))
        len--;
    *ret_word = bytes_of(from, len);
    return len > 0;
}

static bool etag_is_known(struct MHD_Connection *connection, const char *etag)
{
    const char *at =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_IF_NONE_MATCH);
    struct bytes word;
    while (at && word_next(&at, &word)) {
        if (bytes_start_with(word, BYTES("W/")))
            word = bytes_from(word, 2);
        if (bytes_eq(word, BYTES("*")) || bytes_eq(word, bytes_of(etag, strlen(etag))))
            return true;
    }
    return false;
}

/* "gzip;q=0", "identity": it does not; without the header everything is taken. */
static bool gzip_is_taken(struct MHD_Connection *connection)
{
    const char *at =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT_ENCODING);
    struct bytes word;
    bool any = false; /* what "*" says of those that are not named */
    if (!at)
        return true;
    while (word_next(&at, &word)) {
        const char *text = (const char *)word.ptr;
        bool is_gzip_word = word.len >= 4 && strncasecmp(text, "gzip", 4) == 0;
        if (!is_gzip_word && word.ptr[0] != '*')
            continue;
        const uint8_t *q = memchr(word.ptr, '=', word.len);
        size_t left = q ? word.len - (size_t)(q - word.ptr) : 0;
        bool is_zero = q && left > 1 && strspn((const char *)q + 1, "0.") >= left - 1;
        if (is_gzip_word)
            return !is_zero;
        any = !is_zero;
    }
    return any;
}

/* ---- gzip for who does not take it ---- */

static bool inflate_all(struct bytes from, struct buf *to)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)from.ptr, .avail_in = (uInt)from.len};
    int rc = inflateInit2(&z, 15 + 16);
    if (rc != Z_OK)
        return false;
    while (rc == Z_OK && buf_reserve(to, INFLATE_BYTES)) {
        z.next_out = to->ptr + to->len;
        z.avail_out = (uInt)(to->cap - to->len);
        size_t before = z.avail_out;
        rc = inflate(&z, Z_NO_FLUSH);
        to->len += before - z.avail_out;
    }
    inflateEnd(&z);
    return rc == Z_STREAM_END;
}

/* ---- replies ---- */

static void count(struct http *http, unsigned status)
{
    struct http_counts *counts = &http->counts;
    _Atomic uint64_t *at = status == MHD_HTTP_OK                   ? &counts->ok
                           : status == MHD_HTTP_NOT_MODIFIED       ? &counts->not_modified
                           : status == MHD_HTTP_BAD_REQUEST        ? &counts->bad
                           : status == MHD_HTTP_NOT_FOUND          ? &counts->not_found
                           : status == MHD_HTTP_METHOD_NOT_ALLOWED ? &counts->not_allowed
                                                                   : &counts->unavailable;
    atomic_fetch_add_explicit(at, 1, memory_order_relaxed);
}

static enum MHD_Result response_send(struct http *http, struct MHD_Connection *connection,
                                     unsigned status, struct MHD_Response *response)
{
    if (!response)
        return MHD_NO;
    count(http, status);
    enum MHD_Result result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

enum MHD_Result http__reply_text(struct http *http, struct MHD_Connection *connection,
                                 unsigned status, struct bytes text)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        text.len, (void *)(uintptr_t)text.ptr, MHD_RESPMEM_MUST_COPY);
    if (response) {
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "text/plain");
        if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
            (void)MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    }
    return response_send(http, connection, status, response);
}

static struct MHD_Response *response_of(struct bytes data)
{
    /* The data is the ask's, which lives until the request is over. */
    return MHD_create_response_from_buffer(data.len, (void *)(uintptr_t)data.ptr,
                                           MHD_RESPMEM_PERSISTENT);
}

static void cached_headers_add(const struct ask *ask, struct MHD_Response *response,
                               const char *etag, bool gzip)
{
    char cache[CACHE_BYTES];
    snprintf(cache, sizeof cache, "public, max-age=%" PRIu64, ask->http->max_age_s);
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_ETAG, etag);
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, cache);
    if (gzip)
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_VARY,
                                      MHD_HTTP_HEADER_ACCEPT_ENCODING);
}

static enum MHD_Result unpacked_not_reply(struct ask *ask)
{
    char text[UNPACKED_NOT_BYTES];
    int len = snprintf(text, sizeof text, "the %s is packed and could not be unpacked\n",
                       ask->page.cached);
    return http__reply_text(ask->http, ask->connection, MHD_HTTP_SERVICE_UNAVAILABLE,
                            bytes_of(text, (size_t)len));
}

static enum MHD_Result cached_reply(struct ask *ask)
{
    struct bytes data = buf_bytes(&ask->page.data);
    bool gzip = bytes_start_with(data, BYTES("\x1f\x8b\x08")),
         packed = gzip && gzip_is_taken(ask->connection);
    char etag[ETAG_BYTES];
    /* Two forms of one page are two things to a cache. */
    snprintf(etag, sizeof etag, "\"%016" PRIx64 "%s\"", (uint64_t)XXH3_64bits(data.ptr, data.len),
             gzip && !packed ? "i" : "");
    if (etag_is_known(ask->connection, etag)) {
        struct MHD_Response *response = response_of((struct bytes){0});
        if (response)
            cached_headers_add(ask, response, etag, gzip);
        return response_send(ask->http, ask->connection, MHD_HTTP_NOT_MODIFIED, response);
    }
    const char *type = ask->page.type;
    if (gzip && !packed) {
        struct buf inflated;
        if (atomic_load(&ask->http->waiting_bytes) >= HTTP_WAITING_BYTES_MAX)
            return http__reply_text(ask->http, ask->connection, MHD_HTTP_SERVICE_UNAVAILABLE,
                                    BYTES("too many answers wait to be taken: ask for gzip\n"));
        buf_init(&inflated, HTTP_ANSWER_BYTES_MAX);
        bool good = inflate_all(data, &inflated);
        buf_done(&ask->page.data);
        ask->page.data = inflated;
        data = buf_bytes(&inflated);
        http__ask_count(ask); /* it has grown */
        if (!good)
            return unpacked_not_reply(ask);
        type = data.len > 0 && data.ptr[0] == '{' ? "application/json" : type;
    }
    struct MHD_Response *response = response_of(data);
    if (response) {
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
        cached_headers_add(ask, response, etag, gzip);
        if (packed)
            (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_ENCODING, "gzip");
    }
    return response_send(ask->http, ask->connection, MHD_HTTP_OK, response);
}

enum MHD_Result http__reply(struct ask *ask)
{
    struct bytes data = buf_bytes(&ask->page.data);
    if (ask->page.status != MHD_HTTP_OK)
        return http__reply_text(ask->http, ask->connection, ask->page.status, data);
    if (ask->page.cached)
        return cached_reply(ask);
    struct MHD_Response *response = response_of(data);
    if (response)
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, ask->page.type);
    return response_send(ask->http, ask->connection, MHD_HTTP_OK, response);
}
