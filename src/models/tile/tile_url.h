// SPDX-License-Identifier: Apache-2.0
/* tile_url.h - which page of tiles a path of the HTTP port is:
 *
 *   /tiles/<type>/<z>/<x>/<y>[.<ext>]     a tile, rows from the north; the extension says nothing
 *   /tiles/<type>/<tilekey>[.<ext>]       the same by its tilekey
 *   ...?t=<ms>                            of a type with times: the newest that is not after t
 *   /tiles/<type>.json                    TileJSON, from the hash "metadata" of the type's database
 *
 * Ownership: a plain value.
 * Threads: any. */
#pragma once

#include "base/bytes.h"
#include "models/tile/tile.h"

enum tile_page {
    TILE_PAGE_NONE, /* there is no such page */
    TILE_PAGE_BAD,  /* there could be one, but not with these numbers */
    TILE_PAGE_TILE,
    TILE_PAGE_JSON,
};

struct tile_url {
    enum tile_page page;
    char type[TILE_TYPE_NAME_BYTES_MAX + 1];
    uint64_t packed; /* TILE_PAGE_TILE */
    bool has_ms;     /* ?t= was given */
    uint64_t ms;
};

/* The path as it came: nothing in it is decoded, and no page of ours needs that. */
struct tile_url tile_url_parse(struct bytes path);
