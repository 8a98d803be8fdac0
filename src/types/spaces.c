// SPDX-License-Identifier: Apache-2.0
/* spaces.c - the list of spaces. */
#include "types/spaces.h"

#include "types/meta.h"
#include "types/pack.h"

#include "base/banned.h"

const struct store_space types_spaces[TYPES_SPACE_COUNT] = {
    {.number = SPACE_META,
     .kind = SPACE_WHOLE,
     .name = "meta",
     .pack = meta_pack,
     .unpack = meta_unpack},
    {.number = SPACE_DATA,
     .kind = SPACE_LENGTH,
     .name = "data",
     .pack = data_pack,
     .unpack = data_unpack},
    {.number = SPACE_EXPIRY, .kind = SPACE_LENGTH, .name = "expiry"},
    {.number = SPACE_GC, .kind = SPACE_LENGTH, .name = "gc"},
    {.number = SPACE_INODE, .kind = SPACE_WHOLE, .name = "inode"},
    {.number = SPACE_EDGE, .kind = SPACE_FIXED, .fixed_bytes = 8, .name = "edge"},
    {.number = SPACE_TILE, .kind = SPACE_LENGTH, .name = "tile"},
    {.number = SPACE_TILEMARK, .kind = SPACE_LENGTH, .name = "tilemark"},
    {.number = SPACE_TILEMETA, .kind = SPACE_LENGTH, .name = "tilemeta"},
    {.number = SPACE_FUNCTION, .kind = SPACE_LENGTH, .name = "function"},
};
