// SPDX-License-Identifier: Apache-2.0
/* http_url.h - what a path of the HTTP port asks for.
 *
 * Ownership: a plain value.
 * Threads: any. */
#pragma once

#include "base/bytes.h"
#include "models/tile/tile.h"

enum http_page {
    HTTP_NONE, /* there is no such page */
    HTTP_BAD,  /* there could be one, but not with these numbers */
    HTTP_METRICS,
    HTTP_TILE,
    HTTP_TILEJSON,
};

struct http_url {
    enum http_page page;
    char type[TILE_TYPE_NAME_BYTES_MAX + 1];
    uint64_t packed; /* HTTP_TILE */
    bool has_ms;     /* ?t= was given */
    uint64_t ms;
};

/* The path as it came: nothing in it is decoded, and no page of ours needs that. */
struct http_url http_url_parse(struct bytes path);
