// SPDX-License-Identifier: Apache-2.0
/* format.h - what a tile's data is, by its first bytes.
 *
 * Threads: any. */
#pragma once

#include "base/bytes.h"

struct tile_format {
    const char *mime;
    const char *ext; /* as the "format" of MBTiles names it */
};

/* Never NULL; what is not known is "application/octet-stream" and "bin". */
const struct tile_format *tile_format_of(struct bytes data);
bool tile_is_gzip(struct bytes data);
