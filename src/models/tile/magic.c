// SPDX-License-Identifier: Apache-2.0
/* magic.c - knows files of other programs by their first bytes. */
#include "models/tile/magic.h"

#include "base/macros.h"

#include "base/banned.h"

/* Numbers as a little-endian machine writes them. */
static const struct {
    const char *name;
    size_t offset;
    struct bytes magic;
} magics[] = {
#define MAGIC(name, offset, text)                     \
    {                                                 \
        name, offset,                                 \
        {                                             \
            (const uint8_t *)(text), sizeof(text) - 1 \
        }                                             \
    }
    MAGIC("SQLite", 0, "SQLite format 3\0"),
    MAGIC("SQLite 2", 0, "** This file contains an SQLite 2"),
    MAGIC("LMDB", 16, "\xde\xc0\xef\xbe"), /* behind the header of a page */
    MAGIC("LMDB (of 32 bits)", 12, "\xde\xc0\xef\xbe"),
    MAGIC("BBolt", 16, "\xed\xda\x0c\xed"),
    MAGIC("libmdbx", 21, "\x11\x4c\xef\xbd\x9d\x65\x59"), /* behind the version */
    MAGIC("Berkeley DB (B-tree)", 12, "\x62\x31\x05\x00"),
    MAGIC("Berkeley DB (hash)", 12, "\x61\x15\x06\x00"),
    MAGIC("GDBM", 0, "\xce\x9a\x57\x13"),
    MAGIC("GDBM", 0, "\xcf\x9a\x57\x13"),
    MAGIC("GDBM", 0, "\xcd\x9a\x57\x13"),
    MAGIC("Tokyo Cabinet", 0, "ToKyO CaBiNeT"),
    MAGIC("DuckDB", 8, "DUCK"),
    MAGIC("PMTiles", 0, "PMTiles"),
    MAGIC("HDF5", 0, "\x89HDF\r\n\x1a\n"),
    MAGIC("zip", 0, "PK\x03\x04"),
    MAGIC("gzip", 0, "\x1f\x8b\x08"),
    MAGIC("Zstandard", 0, "\x28\xb5\x2f\xfd"),
    MAGIC("xz", 0,
          "\xfd"
          "7zXZ\0"),
#undef MAGIC
};

static const char *name_of(struct bytes head)
{
    for (size_t i = 0; i < ARRAY_LEN(magics); i++)
        if (head.len >= magics[i].offset &&
            bytes_start_with(bytes_from(head, magics[i].offset), magics[i].magic))
            return magics[i].name;
    return NULL;
}

const char *magic_foreign(struct bytes head, const char *own)
{
    const char *name = name_of(head);
    return name && strcmp(name, own) != 0 ? name : NULL;
}
