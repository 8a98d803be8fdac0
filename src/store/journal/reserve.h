// SPDX-License-Identifier: Apache-2.0
/* reserve.h - disk that the store keeps for the moment when there is none left.
 *
 * A file "reserve" in the data directory holds blocks that nobody needs. Where a start, a deletion
 * or a flush finds no disk, a part of the file is given back, and what could not be written is
 * tried again. While the reserve is not whole only deleting commands run (journal.h, disk_low):
 * what was given back is for them, for the flush that lands them and for the compactions that free
 * what they deleted. It is filled again when there is room for it and half as much on top.
 *
 * Everything about it is best effort: it is never read, and a store that cannot have the file, for
 * another reason than a lack of disk, goes on without it until the next start. A crash between any
 * two steps leaves a file of some length, which is what is held.
 *
 * Threads: any; one lock, held over calls into files, with no other lock taken under it. */
#pragma once

#include "base/file.h"

struct reserve;

struct reserve_options {
    struct files *files;
    const char *dir; /* the data directory; copied */
    uint64_t bytes;  /* at most an eighth of the disk is held; 0: nothing, an older file goes */
};

enum {
    RESERVE_KEPT_BYTES = 4 * 1024 * 1024, /* of it a flush leaves so much to the journal */
    RESERVE_PIECE_BYTES = 256 * 1024,     /* what is taken at least */
    RESERVE_TURN_BYTES = 512 * 1024,      /* a turn of so many bytes may be written from it */
    RESERVE_START_BYTES = 8 * 1024 * 1024,
};

/* Fills the reserve, if there is room. A lack of disk is no error. */
struct reserve *reserve_open(const struct reserve_options *options);
/* What was given and is free is held again, as by reserve_return(), and stays on disk. */
void reserve_close(struct reserve *reserve);

/* All take NULL for one of no bytes. */

/* Gives up to so many bytes back to the disk, and leaves so many; returns how many were given. */
uint64_t reserve_take(struct reserve *reserve, uint64_t bytes, uint64_t kept_bytes);
/* The other way round, for what was not used: others who share the disk would take it. Leaves a
 * piece to the disk, and a piece is missing then, too: only reserve_fill(), which asks for room on
 * top, makes the reserve whole and lets writers in again. */
void reserve_return(struct reserve *reserve);
/* What was taken for a moment, and may make it as whole as it was. Leaves a piece to the disk. */
void reserve_untake(struct reserve *reserve, uint64_t bytes);
/* True: it is whole, or has become so. */
bool reserve_fill(struct reserve *reserve);
bool reserve_is_whole(const struct reserve *reserve);  /* atomic; true if it cannot be had */
uint64_t reserve_bytes(const struct reserve *reserve); /* atomic: bytes */
uint64_t reserve_size(const struct reserve *reserve);  /* bytes when it is whole */
