// SPDX-License-Identifier: Apache-2.0
/* rdb_string.c - Redis's lengths and strings: written plain, read in every form. */
#include "base/rdb_string.h"

#include "base/codec.h"

#include "base/banned.h"

enum { LEN_6 = 0, LEN_14 = 1, LEN_LONG = 2, LEN_SPECIAL = 3 }; /* the first two bits */
enum { LONG_32 = 0x80, LONG_64 = 0x81 };
enum { SPECIAL_INT8 = 0, SPECIAL_INT16 = 1, SPECIAL_INT32 = 2, SPECIAL_LZF = 3 };

bool rdb_length_put(struct buf *to, uint64_t length)
{
    uint8_t bytes[9];
    if (length < 1 << 6) {
        bytes[0] = (uint8_t)length;
        return buf_add(to, bytes, 1);
    }
    if (length < 1 << 14) {
        be16_put(bytes, (uint16_t)(length | LEN_14 << 14));
        return buf_add(to, bytes, 2);
    }
    if (length <= UINT32_MAX) {
        bytes[0] = LONG_32;
        be32_put(bytes + 1, (uint32_t)length);
        return buf_add(to, bytes, 5);
    }
    bytes[0] = LONG_64;
    be64_put(bytes + 1, length);
    return buf_add(to, bytes, 9);
}

bool rdb_string_put(struct buf *to, struct bytes string)
{
    size_t len = to->len;
    if (rdb_length_put(to, string.len) && buf_add_bytes(to, string))
        return true;
    buf_cut(to, len);
    return false;
}

/* *ret_special: the six bits behind 11, and no length follows; otherwise -1. */
static bool length_get(struct bytes *from, uint64_t *ret_length, int *ret_special)
{
    *ret_special = -1;
    if (from->len == 0)
        return false;
    uint8_t first = from->ptr[0];
    size_t more = 0;
    switch (first >> 6) {
    case LEN_6:
        *ret_length = first & 0x3f;
        break;
    case LEN_14:
        more = 1;
        break;
    case LEN_LONG:
        more = first == LONG_32 ? 4 : 8;
        if (first != LONG_32 && first != LONG_64)
            return false;
        break;
    default:
        *ret_special = first & 0x3f;
    }
    if (from->len < 1 + more)
        return false;
    if (more == 1)
        *ret_length = be16_get(from->ptr) & 0x3fff;
    else if (more == 4)
        *ret_length = be32_get(from->ptr + 1);
    else if (more == 8)
        *ret_length = be64_get(from->ptr + 1);
    *from = bytes_from(*from, 1 + more);
    return true;
}

bool rdb_length_get(struct bytes *from, uint64_t *ret_length)
{
    struct bytes at = *from;
    uint64_t length = 0;
    int special;
    if (!length_get(&at, &length, &special) || special >= 0)
        return false;
    *from = at;
    *ret_length = length;
    return true;
}

static bool int_get(struct bytes *from, int special, struct buf *to)
{
    size_t bytes = (size_t)1 << special;
    if (from->len < bytes)
        return false;
    int32_t value = special == SPECIAL_INT8    ? (int8_t)from->ptr[0]
                    : special == SPECIAL_INT16 ? (int16_t)le16_get(from->ptr)
                                               : (int32_t)le32_get(from->ptr);
    if (!buf_printf(to, "%d", value))
        return false;
    *from = bytes_from(*from, bytes);
    return true;
}

/* LZF: a control byte below 32 is followed by so many literal bytes and one; above, its first three
 * bits are the length of a copy less 2 (7: the next byte adds to it), the rest and the next byte
 * how far back it begins less 1. */
static bool lzf_expand(struct bytes in, uint8_t *out, size_t out_len)
{
    size_t at = 0, done = 0;
    while (at < in.len) {
        size_t control = in.ptr[at++];
        if (control < 32) {
            size_t len = control + 1;
            if (len > in.len - at || len > out_len - done)
                return false;
            memcpy(out + done, in.ptr + at, len);
            at += len;
            done += len;
            continue;
        }
        size_t len = control >> 5, back = (control & 0x1f) << 8;
        if (len == 7) {
            if (at == in.len)
                return false;
            len += in.ptr[at++];
        }
        if (at == in.len)
            return false;
        back += in.ptr[at++] + (size_t)1;
        len += 2;
        if (back > done || len > out_len - done)
            return false;
        for (size_t i = 0; i < len; i++, done++) /* they may overlap: a run of one byte */
            out[done] = out[done - back];
    }
    return done == out_len;
}

static bool lzf_get(struct bytes *from, struct buf *to)
{
    uint64_t stored, length;
    if (!rdb_length_get(from, &stored) || !rdb_length_get(from, &length) || stored > from->len)
        return false;
    /* Three bytes make at most 264: a length beyond that takes no memory. */
    if (length / 264 > stored || !buf_reserve(to, (size_t)length))
        return false;
    if (!lzf_expand(bytes_of(from->ptr, (size_t)stored), to->ptr + to->len, (size_t)length))
        return false;
    to->len += (size_t)length;
    *from = bytes_from(*from, (size_t)stored);
    return true;
}

bool rdb_string_get(struct bytes *from, struct buf *to)
{
    struct bytes at = *from;
    uint64_t length = 0;
    int special;
    bool good = length_get(&at, &length, &special);
    if (good && special == SPECIAL_LZF) {
        good = lzf_get(&at, to);
    } else if (good && special >= 0) {
        good = special <= SPECIAL_INT32 && int_get(&at, special, to);
    } else if (good) {
        good = length <= at.len && buf_add(to, at.ptr, (size_t)length);
        if (good)
            at = bytes_from(at, (size_t)length);
    }
    if (good)
        *from = at;
    return good;
}
