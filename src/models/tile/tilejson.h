// SPDX-License-Identifier: Apache-2.0
/* tilejson.h - TileJSON of a type of tiles.
 *
 * Threads: the executor. */
#pragma once

#include "models/tile/tile.h"

/* Adds it. host: as the client has it, "": unknown. RC_COLD. */
enum rc tilejson_make(const struct run *run, const struct tile_type *type, const char *host,
                      struct buf *to, struct err *err) NODISCARD;
