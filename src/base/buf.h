// SPDX-License-Identifier: Apache-2.0
/* buf.h - a growable run of bytes with a limit.
 *
 * Ownership: the caller owns the struct, buf_done() frees the contents. Adding past the limit or
 * without memory returns false and changes nothing, so a hostile length cannot take the process
 * down.
 * Threads: one owner. */
#pragma once

#include "base/bytes.h"
#include "base/macros.h"

struct buf {
    uint8_t *ptr;
    size_t len;
    size_t cap;
    size_t bytes_max;
};

void buf_init(struct buf *buf, size_t bytes_max); /* allocates nothing */
void buf_done(struct buf *buf);
bool buf__grow(struct buf *buf, size_t more) NODISCARD; /* buf_reserve() where it needs memory */
bool buf_add_uvarint(struct buf *buf, uint64_t value) NODISCARD;
bool buf_printf(struct buf *buf, const char *format, ...) PRINTF_LIKE(2, 3) NODISCARD;
void buf_cut(struct buf *buf, size_t len);    /* shortens to len, keeps the memory */
void buf_shrink(struct buf *buf, size_t cap); /* empties, and frees if more than cap is held */

static inline struct bytes buf_bytes(const struct buf *buf)
{
    return bytes_of(buf->ptr, buf->len);
}

/* Room for more bytes after len. */
NODISCARD static inline bool buf_reserve(struct buf *buf, size_t more)
{
    return LIKELY(more <= buf->cap - buf->len) || buf__grow(buf, more);
}

NODISCARD static inline bool buf_add(struct buf *buf, const void *ptr, size_t len)
{
    if (!buf_reserve(buf, len))
        return false;
    if (len)
        memcpy(buf->ptr + buf->len, ptr, len);
    buf->len += len;
    return true;
}

static inline bool buf_add_bytes(struct buf *buf, struct bytes bytes)
{
    return buf_add(buf, bytes.ptr, bytes.len);
}
