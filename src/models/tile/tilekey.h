// SPDX-License-Identifier: Apache-2.0
/* tilekey.h - the names of tiles: text, packed numbers, ranges, other schemes, shard files.
 *
 * A tilekey is a string of the digits 0..3, one a level, 1 to 24 of them; the empty one is the tile
 * of level 0. Quadrants: 0 bottom-left, 1 bottom-right, 2 top-right, 3 top-left; rows grow upward.
 *
 * Packed, a number of 64 bits, big-endian wherever it is stored (on disk: for ever):
 *   BITS            WHAT
 *   63-2j .. 62-2j  digit j, 0 where the key has none
 *   15 .. 8         0
 *   7 .. 0          level, 0..24
 * Byte order is the pre-order of the quadtree: a subtree is one range of keys, its root first.
 *
 * A key of a tile with a time (tm): packed key(8) ‖ milliseconds(8), big-endian. As text the two
 * stand with a colon between them, "01230123:1732612345678"; the last colon divides.
 *
 * Other names of the same tile: z/x/y with rows from the north (XYZ) or from the south (TMS), and
 * Bing's quadkeys, which number the quadrants 0 NW, 1 NE, 2 SW, 3 SE.
 *
 * Threads: any; nothing here has state. */
#pragma once

#include "base/buf.h"
#include "base/codec.h"
#include "base/err.h"

enum {
    TILE_LEVEL_MAX = 24,
    TILEKEY_BYTES = 8,                    /* packed */
    TILEKEY_TM_BYTES = 16,                /* packed, and milliseconds */
    TILEKEY_TEXT_BYTES = 24 + 1 + 19 + 1, /* the longest text, and a NUL */
};
#define TILE_MS_MAX ((uint64_t)INT64_MAX) /* SQL keeps it as a signed number */

struct tilekey {
    uint64_t packed;
    uint64_t ms; /* 0 where the type has no times */
};

/* ---- text ---- */

/* One to 24 digits: what a plain command takes for a tile. */
bool tilekey_is(struct bytes text);
/* The same, a colon, and milliseconds without leading zeros, at most TILE_MS_MAX. */
bool tilekey_is_tm(struct bytes text);
/* RC_INVALID says what is wrong. The empty text is the tile of level 0. */
enum rc tilekey_parse(struct bytes text, uint64_t *ret_packed, struct err *err) NODISCARD;
enum rc tilekey_parse_ms(struct bytes text, uint64_t *ret_ms, struct err *err) NODISCARD;
/* "key:ms". */
enum rc tilekey_parse_tm(struct bytes text, struct tilekey *ret_key, struct err *err) NODISCARD;
/* Returns the length; a NUL follows. */
size_t tilekey_print(uint64_t packed, char to[TILEKEY_TEXT_BYTES]);
size_t tilekey_print_tm(struct tilekey key, char to[TILEKEY_TEXT_BYTES]);

/* ---- packed ---- */

/* Whether any tilekey packs to it; what a disk gives has to be asked. */
bool tilekey_is_packed(uint64_t packed);

static inline unsigned tilekey_level(uint64_t packed)
{
    return (unsigned)(packed & 0xff);
}
static inline unsigned tilekey_digit(uint64_t packed, unsigned at)
{
    return (unsigned)(packed >> (62 - 2 * at)) & 3;
}
/* The first four digits as one byte; only keys of four levels and more have them all. */
static inline uint8_t tilekey_prefix4(uint64_t packed)
{
    return (uint8_t)(packed >> 56);
}
/* Its ancestor at that level, at most its own. */
static inline uint64_t tilekey_ancestor(uint64_t packed, unsigned level)
{
    return level == 0 ? 0 : (packed & (~UINT64_C(0) << (64 - 2 * level))) | level;
}
/* The last key of the subtree below and with this one; the first is the key itself. */
static inline uint64_t tilekey_subtree_last(uint64_t packed)
{
    unsigned level = tilekey_level(packed);
    uint64_t below = level == 0 ? ~UINT64_C(0) : (UINT64_C(1) << (64 - 2 * level)) - 1;
    return ((packed | below) & ~UINT64_C(0xffff)) | TILE_LEVEL_MAX;
}
/* The next and the first key of one level in the order of keys; false: there is none. */
bool tilekey_next_same_level(uint64_t packed, uint64_t *ret_next);
uint64_t tilekey_first_below(uint64_t packed, unsigned level); /* level at least its own */

/* Packed key, or packed key and ms, as they are stored; returns how many bytes. */
static inline size_t tilekey_put(struct tilekey key, bool tm, uint8_t to[TILEKEY_TM_BYTES])
{
    be64_put(to, key.packed);
    if (!tm)
        return TILEKEY_BYTES;
    be64_put(to + TILEKEY_BYTES, key.ms);
    return TILEKEY_TM_BYTES;
}
/* False: these bytes are no key of this kind. */
bool tilekey_get(struct bytes bytes, bool tm, struct tilekey *ret_key);
/* Order of what is stored. */
static inline int tilekey_cmp(struct tilekey a, struct tilekey b)
{
    if (a.packed != b.packed)
        return a.packed < b.packed ? -1 : 1;
    return (a.ms > b.ms) - (a.ms < b.ms);
}

/* ---- anchors: where sets of metadata (q2, qp) are stored ---- */

/* The nearest ancestor, or itself, whose level is a multiple of four: under which key the packet
 * that this key names is stored. */
static inline uint64_t tilekey_anchor(uint64_t packed)
{
    unsigned level = tilekey_level(packed);
    return tilekey_ancestor(packed, level - level % 4);
}
/* The packet that describes this tile: a tile at a multiple of four is described from above. */
static inline uint64_t tilekey_anchor_for(uint64_t packed)
{
    unsigned level = tilekey_level(packed);
    return level == 0 ? 0 : tilekey_anchor(tilekey_ancestor(packed, level - 1));
}

/* ---- other schemes ---- */

enum tile_rows {
    TILE_ROWS_XYZ, /* y from the north */
    TILE_ROWS_TMS, /* y from the south */
};
struct tile_xyz {
    unsigned z;
    uint32_t x, y;
};
struct tile_xyz tilekey_to_xyz(uint64_t packed, enum tile_rows rows);
/* RC_INVALID: z above 24, x or y not below 2^z. */
enum rc tilekey_from_xyz(struct tile_xyz xyz, enum tile_rows rows, uint64_t *ret_packed,
                         struct err *err) NODISCARD;
size_t tilekey_to_quadkey(uint64_t packed, char to[TILEKEY_TEXT_BYTES]);
enum rc tilekey_from_quadkey(struct bytes text, uint64_t *ret_packed, struct err *err) NODISCARD;

/* ---- shard files ---- */

/* Which file of its type a key is in:
 *   LEVEL  FILE                              FOLDER
 *   0-8    <dir>/<type>/base.g3db            0
 *   9-12   <dir>/<type>/8/<p4>.g3db          8
 *   13-16  <dir>/<type>/12/<p4>.g3db         12
 *   17-24  <dir>/<type>/<level>/<p4>.g3db    level
 * p4: the first four digits, as text. */
struct tile_place {
    uint8_t folder;  /* 0: base */
    uint8_t prefix4; /* 0 in base */
};
enum { TILE_FOLDER_COUNT = 11 };                      /* base among them */
extern const uint8_t tile_folders[TILE_FOLDER_COUNT]; /* in the order of levels */

struct tile_place tilekey_place(uint64_t packed);
/* The levels a folder holds. */
void tile_folder_levels(uint8_t folder, unsigned *ret_from, unsigned *ret_to);
/* "<folder>/<p4>.g3db" or "base.g3db", as in <dir>/<type>/...; a NUL is behind what was added. */
bool tile_place_add(struct tile_place place, struct buf *to) NODISCARD;
/* "0123.g3db": the prefix4 that a file is named after. False: it is no shard. */
bool tile_place_name_parse(const char *name, uint8_t *ret_prefix4);
