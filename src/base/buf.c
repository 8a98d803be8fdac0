// SPDX-License-Identifier: Apache-2.0
/* buf.c - growing and ending of a struct buf; appending in place is inline in buf.h. */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/codec.h"
#include "base/mem.h"

#include "base/banned.h"

enum { BUF_BYTES_MIN = 64, BUF_PRINTF_STACK_BYTES = 512 };

void buf_init(struct buf *buf, size_t bytes_max)
{
    *buf = (struct buf){.bytes_max = bytes_max};
}

void buf_done(struct buf *buf)
{
    if (!buf)
        return;
    mem_free(buf->ptr);
    *buf = (struct buf){0};
}

bool buf__grow(struct buf *buf, size_t more)
{
    if (buf->len > buf->bytes_max || more > buf->bytes_max - buf->len)
        return false;
    size_t cap = buf->len + more;
    if (cap < 2 * buf->cap)
        cap = 2 * buf->cap;
    if (cap < BUF_BYTES_MIN)
        cap = BUF_BYTES_MIN;
    cap = mem_class_bytes(cap);
    if (cap > buf->bytes_max)
        cap = buf->bytes_max;
    uint8_t *ptr = mem_try_realloc(buf->ptr, cap);
    if (!ptr)
        return false;
    buf->ptr = ptr;
    buf->cap = cap;
    return true;
}

bool buf_add_uvarint(struct buf *buf, uint64_t value)
{
    uint8_t code[UVARINT_BYTES_MAX];
    return buf_add(buf, code, uvarint_put(code, value));
}

bool buf_printf(struct buf *buf, const char *format, ...)
{
    va_list args;
    char small[BUF_PRINTF_STACK_BYTES];

    va_start(args, format);
    int len = vsnprintf(small, sizeof small, format, args);
    va_end(args);
    if (len < 0)
        return false;
    if ((size_t)len < sizeof small)
        return buf_add(buf, small, (size_t)len);

    /* vsnprintf writes a NUL for which the limit may leave no room, so it does not print here. */
    if ((size_t)len > buf->bytes_max - buf->len)
        return false;
    char *large = mem_try_alloc((size_t)len + 1);
    if (!large)
        return false;
    va_start(args, format);
    vsnprintf(large, (size_t)len + 1, format, args);
    va_end(args);
    bool added = buf_add(buf, large, (size_t)len);
    mem_free(large);
    return added;
}

void buf_cut(struct buf *buf, size_t len)
{
    ASSERT(len <= buf->len);
    buf->len = len;
}

void buf_shrink(struct buf *buf, size_t cap)
{
    buf->len = 0;
    if (buf->cap <= cap)
        return;
    mem_free(buf->ptr);
    buf->ptr = NULL;
    buf->cap = 0;
}
