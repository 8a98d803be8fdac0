// SPDX-License-Identifier: Apache-2.0
/* tile.h - what the parts of `terrace tile` share.
 *
 * Ownership: everything in the options is borrowed from argv.
 * Threads: one. */
#pragma once

#include "cli/cli.h"
#include "cli/link.h"
#include "cli/tile_source.h"
#include "models/tile/value.h"

enum tile_header { TILE_HEADER_NONE, TILE_HEADER_FIXED, TILE_HEADER_KV };

struct tile_options {
    struct cli_server server;
    const char *path;
    const char *type;
    struct tile_filter filter;
    enum tile_rows rows;     /* of directories */
    enum tile_header header; /* what stands in front of the data in the source */
    const char *epoch, *provider;
    const char *ms;  /* tm: the time of all tiles; NULL: none */
    bool again;      /* not where the last run stopped */
    bool sync;       /* and wait until it is in the shards */
    unsigned levels; /* sample: 0 .. levels */
};

/* Connected, and in the database of the type. */
enum rc tile_link_open(struct link *link, const struct tile_options *options,
                       struct err *err) NODISCARD;
/* Of a place whose row counts from the south: "0123", or "0123:ms". */
size_t tile_key_of(const struct tile_options *options, struct tile_xyz place,
                   char to[TILEKEY_TEXT_BYTES]);
/* The data without the header that the source was said to have. False: it has none. */
bool tile_value_of_source(const struct tile_options *options, struct bytes data,
                          struct tile_value *ret_value);
/* A number of bytes for people: "1.2 MB". */
const char *tile_size_text(char to[32], uint64_t bytes);

int tile_import(const struct tile_options *options);
int tile_export(const struct tile_options *options);
int tile_verify(const struct tile_options *options);
int tile_sample(const struct tile_options *options);
