// SPDX-License-Identifier: Apache-2.0
/* tile_dest.h - where an export goes: an MBTiles file, or a directory z/x/y.ext.
 *
 * An MBTiles file is made as DEST.part and renamed when it is whole. How far an export has come
 * stands beside its tiles, in the same transaction or written after them, so that a run that was
 * stopped goes on.
 *
 * Threads: one. */
#pragma once

#include "base/err.h"
#include "cli/tile_source.h"

struct dest;
struct dest_ops {
    /* Row from the south. */
    enum rc (*put)(struct dest *dest, struct tile_xyz place, struct bytes data, struct err *err);
    /* Everything up to this key is there. */
    enum rc (*note)(struct dest *dest, const char *key, struct err *err);
    enum rc (*metadata)(struct dest *dest, struct bytes name, struct bytes value, struct err *err);
    /* It is whole. */
    enum rc (*finish)(struct dest *dest, struct err *err);
    void (*close)(struct dest *dest);
};

struct dest { /* embedded first by each kind */
    const struct dest_ops *ops;
    char after[TILEKEY_TEXT_BYTES]; /* where an earlier run stopped */
    bool goes_on;                   /* there was one */
};

/* identity: of what is exported; a part of something else is not gone on with. */
enum rc dest_mbtiles_open(const char *path, const char *identity, bool again,
                          struct dest **ret_dest, struct err *err) NODISCARD;
enum rc dest_dir_open(const char *path, const char *identity, bool again, enum tile_rows rows,
                      struct dest **ret_dest, struct err *err) NODISCARD;
void dest_close(struct dest *dest); /* NULL is allowed */
