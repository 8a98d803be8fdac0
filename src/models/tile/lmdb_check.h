// SPDX-License-Identifier: Apache-2.0
/* lmdb_check.h - whether an LMDB file is whole, read page by page.
 *
 * LMDB maps its file and trusts it: a damaged page is an abort() or a wild pointer, a file that was
 * cut short a SIGBUS. So nothing is given to LMDB that was not looked at before: first the header,
 * then every page that its trees reach.
 *
 * The file may be written by another program meanwhile. The caller holds a read transaction of LMDB
 * and names it: the pages of its snapshot are not used again while it is open.
 *
 * Threads: any. */
#pragma once

#include "base/bytes.h"
#include "base/err.h"

/* What LMDB may do with the file afterwards without being led astray. */
enum lmdb_check_for {
    LMDB_CHECK_OPEN,  /* open it: the header */
    LMDB_CHECK_READ,  /* and read it: pages, nodes, keys in order, values inside the file, no page
                       * in two places; but the first page of a long value is not read */
    LMDB_CHECK_WRITE, /* and write it: those, too */
};

struct lmdb_check_options {
    enum lmdb_check_for what;
    uint64_t txn;       /* of the read transaction; not for LMDB_CHECK_OPEN */
    struct bytes table; /* the name of the database of tiles */
};

/* *ret_damaged: LMDB has not written that. RC_NOT_FOUND: the file is empty. RC_VERSION: it is whole
 * and not ours: a tree has another order than tiles have, or the tiles are missing. RC_NEWER: the
 * transaction's header was replaced, begin another one. RC_IO: it could not be read. */
enum rc lmdb_check(int fd, const struct lmdb_check_options *options, bool *ret_damaged,
                   struct err *err) NODISCARD;
