// SPDX-License-Identifier: Apache-2.0
/* catalog.h - the file that says what a directory is: format, uuid, incarnation, spaces, prefixes.
 *
 * `<dir>/TERRACE`, text, one fact a line, replaced as a whole:
 *   terrace store 1
 *   features 0
 *   uuid <32 hex digits>
 *   incarnation <decimal>
 *   space <number> whole|fixed|length <fixed bytes> <name>
 *   prefix <space> <hex digits, or - for the empty one>
 *   crc <8 hex digits, CRC32C of all lines before>
 *
 * Ownership: catalog_done() frees.
 * Threads: one owner. */
#pragma once

#include "base/file.h"
#include "base/rand.h"
#include "store/engine/space.h"

enum { CATALOG_FORMAT = 1 };

struct catalog_prefix {
    uint8_t space;
    struct bytes bytes; /* owned */
};

struct catalog {
    uint8_t uuid[16];
    uint32_t incarnation;
    struct space_set spaces;
    struct catalog_prefix *prefix;
    size_t prefix_count;
};

/* A new one, with a drawn uuid and incarnation. */
void catalog_init(struct catalog *catalog, struct rand *rand);
void catalog_done(struct catalog *catalog);
/* RC_NOT_FOUND, RC_VERSION, RC_CORRUPT: the text names the file. What catalog_write() would not
 * have written, byte for byte, is refused. */
enum rc catalog_read(struct catalog *catalog, struct files *files, const char *dir,
                     struct err *err) NODISCARD;
enum rc catalog_write(const struct catalog *catalog, struct files *files, const char *dir,
                      struct err *err) NODISCARD;
void catalog_prefix_add(struct catalog *catalog, uint8_t space, struct bytes prefix);
void catalog_prefix_drop_last(struct catalog *catalog); /* it could not be written */
