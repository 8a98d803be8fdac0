// SPDX-License-Identifier: Apache-2.0
/* tile_source.h - tiles of a file or a directory, one after the other: MBTiles, or z/x/y.ext.
 *
 * What is no tile (a place that does not exist, no data) is counted and left out.
 *
 * Ownership: a tile's data is borrowed until the next call.
 * Threads: one. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "models/tile/tilekey.h"

enum { SOURCE_POSITION_BYTES = 320, SOURCE_TILE_BYTES_MAX = 64 * 1024 * 1024 + 64 };

struct tile_filter {
    unsigned level_from, level_to;
    bool has_bbox;
    double west, south, east, north; /* degrees */
};
/* "west,south,east,north"; "3-7" or "5". RC_INVALID. */
enum rc tile_filter_bbox(struct tile_filter *filter, const char *text, struct err *err) NODISCARD;
enum rc tile_filter_levels(struct tile_filter *filter, const char *text, struct err *err) NODISCARD;
bool tile_filter_is_all(const struct tile_filter *filter);

struct tile_span { /* of a level; rows from the south, ends included */
    uint32_t x_from, x_to, y_from, y_to;
};
struct tile_span tile_filter_span(const struct tile_filter *filter, unsigned z);
bool tile_filter_takes(const struct tile_filter *filter, struct tile_xyz place);
/* West, south, east, north of a tile whose row counts from the south. */
void tile_bounds(struct tile_xyz place, double ret_bounds[4]);

struct source_tile {
    struct tile_xyz place; /* row from the south */
    struct bytes data;
};

struct source;
struct source_ops {
    /* RC_NOT_FOUND at the end. */
    enum rc (*next)(struct source *source, struct source_tile *ret_tile, struct err *err);
    /* Where the last tile was; and to go on behind such a place. */
    void (*position)(const struct source *source, char to[SOURCE_POSITION_BYTES]);
    enum rc (*seek)(struct source *source, const char *position, struct err *err);
    /* How many there are, about; 0: it would take too long to know. */
    enum rc (*count)(struct source *source, uint64_t *ret_count, struct err *err);
    /* Names and values of its metadata. */
    enum rc (*metadata)(struct source *source,
                        void (*fn)(void *arg, struct bytes name, struct bytes value), void *arg,
                        struct err *err);
    void (*close)(struct source *source);
};

struct source { /* embedded first by each kind */
    const struct source_ops *ops;
    struct tile_filter filter;
    enum tile_rows rows; /* of directories */
    uint64_t bad_count;  /* left out */
    char bad_text[256];  /* the first of them */
    char identity[512];  /* another one: another source, or another content */
};

enum rc source_open(const char *path, const struct tile_filter *filter, enum tile_rows rows,
                    struct source **ret_source, struct err *err) NODISCARD;
void source_close(struct source *source); /* NULL is allowed */

/* for the kinds */
void source__bad(struct source *source, const char *format, ...) PRINTF_LIKE(2, 3);
enum rc source__mbtiles_open(const char *path, struct source **ret_source,
                             struct err *err) NODISCARD;
enum rc source__dir_open(const char *path, struct source **ret_source, struct err *err) NODISCARD;
