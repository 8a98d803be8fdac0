// SPDX-License-Identifier: Apache-2.0
/* spaces.h - the spaces of a Terrace directory: one list for the server and for the tools.
 *
 *   NUMBER  NAME    KIND    GROUP KEY               SUFFIX
 *   1       meta    whole   header ‖ 'm' ‖ key      none
 *   2       data    length  header ‖ 'd' ‖ ID       what the type says
 *   3       expiry  length  header ‖ 'e'            expireAt(8) ‖ key
 *   4       gc      length  header ‖ 'g'            ID
 *   5       inode   whole   inode id(8)             none
 *   6       edge    fixed   parent's inode id(8)    name
 *   8       tile    length  type of tiles           packed key [‖ ms(8)]: models/tile/tile_int.h
 *   9       tilemark length type of tiles           the same: what the shards do not have
 *   10      tilemeta length type, or "."            packed key; tile's own
 *   11      function length empty                   name of a library; server/functions.c
 * header is "kv" and the name of the namespace. A namespace's deadlines are one group, and so is
 * its garbage: both are read in order. Inodes and edges are those of models/fs/entry.h.
 *
 * Threads: any; nothing here changes. */
#pragma once

#include "store/engine/space.h"

enum types_space { /* on disk: append, never renumber */
                   SPACE_META = 1,
                   SPACE_DATA = 2,
                   SPACE_EXPIRY = 3,
                   SPACE_GC = 4,
                   SPACE_INODE = 5,
                   SPACE_EDGE = 6,
                   SPACE_TILE = 8,
                   SPACE_TILEMARK = 9,
                   SPACE_TILEMETA = 10,
                   SPACE_FUNCTION = 11,
};
enum { TYPES_SPACE_COUNT = 10 };

extern const struct store_space types_spaces[TYPES_SPACE_COUNT];
