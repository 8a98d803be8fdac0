// SPDX-License-Identifier: Apache-2.0
/* pack.c - packs rows of the data space for memory. */
#include "types/pack.h"

#include <math.h>

#include "base/codec.h"
#include "types/number.h"

#include "base/banned.h"

enum packed_tag { /* in memory only: they may change */
                  PACKED_SUFFIX = 0xf5,
                  PACKED_INT = 0xf6,
                  PACKED_DOUBLE = 0xf7,
                  PACKED_AS_IT_IS = 0xf8,
};
enum {
    SCORE_ROW_BYTES_MIN = 9,
    DOUBLE_BYTES = 1 + 8,
    SCORE_TEXT_BYTES_MAX = 24, /* "-1.7976931348623157e+308" */
};

static bool is_score_row(struct bytes suffix)
{
    return suffix.len >= SCORE_ROW_BYTES_MIN && suffix.ptr[0] == 0x01;
}

static bool is_member_row(struct bytes suffix)
{
    return suffix.len > 0 && suffix.ptr[0] == 0x00;
}

static bool is_tag(uint8_t byte)
{
    return byte >= PACKED_SUFFIX && byte <= PACKED_AS_IT_IS;
}

/* Any eight bytes give a text, and the same bytes the same text. */
static size_t score_row_text(struct bytes suffix, char to[NUMBER_DOUBLE_BYTES])
{
    return number_double_text(to, order_to_double(be64_get(suffix.ptr + 1)));
}

static bool is_score_row_text(struct bytes suffix, struct bytes value)
{
    char text[NUMBER_DOUBLE_BYTES];
    return value.len > 0 && value.len <= SCORE_TEXT_BYTES_MAX &&
           bytes_eq(value, bytes_of(text, score_row_text(suffix, text)));
}

/* ---- numbers ---- */

static size_t int_pack(int64_t value, uint8_t to[DOUBLE_BYTES])
{
    uint8_t code[8];
    size_t zeros = 0;
    be64_put(code, zigzag_encode(value));
    while (zeros < sizeof code - 1 && code[zeros] == 0)
        zeros++;
    to[0] = PACKED_INT;
    memcpy(to + 1, code + zeros, sizeof code - zeros);
    return 1 + sizeof code - zeros;
}

static int64_t int_unpack(struct bytes packed)
{
    uint64_t code = 0;
    for (size_t i = 1; i < packed.len; i++)
        code = code << 8 | packed.ptr[i];
    return zigzag_decode(code);
}

static double double_unpack(struct bytes packed)
{
    uint64_t bits = be64_get(packed.ptr + 1);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* 0: this is not how a number is written, or it is short as it is. */
static size_t number_pack(struct bytes text, uint8_t to[DOUBLE_BYTES])
{
    int64_t integer;
    double number;
    char again[NUMBER_DOUBLE_BYTES];
    if (text.len > SCORE_TEXT_BYTES_MAX)
        return 0;
    if (number_int(text, &integer)) {
        size_t len = int_pack(integer, to);
        return len < text.len ? len : 0;
    }
    if (text.len <= DOUBLE_BYTES || !number_double(text, &number) ||
        !bytes_eq(text, bytes_of(again, number_double_text(again, number))))
        return 0;
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    to[0] = PACKED_DOUBLE;
    be64_put(to + 1, bits);
    return DOUBLE_BYTES;
}

/* ---- rows ---- */

enum space_packed data_pack(struct bytes group, struct bytes suffix, struct bytes value,
                            struct buf *to)
{
    uint8_t packed[DOUBLE_BYTES];
    size_t len = 0;
    (void)group;
    if (is_score_row(suffix)) {
        if (is_score_row_text(suffix, value))
            return SPACE_PACKED_DONE;
        packed[0] = PACKED_SUFFIX;
        if (bytes_eq(suffix, value))
            return space_packed(buf_add(to, packed, 1));
    } else {
        if (bytes_eq(suffix, value))
            return SPACE_PACKED_DONE;
        if (is_member_row(suffix))
            len = number_pack(value, packed);
        if (len > 0)
            return space_packed(buf_add(to, packed, len));
    }
    if (value.len > 0 && !is_tag(value.ptr[0]))
        return SPACE_PACKED_SAME;
    packed[0] = PACKED_AS_IT_IS;
    return space_packed(buf_add(to, packed, 1) && buf_add_bytes(to, value));
}

enum space_packed data_unpack(struct bytes group, struct bytes suffix, struct bytes packed,
                              struct buf *to)
{
    char text[NUMBER_DOUBLE_BYTES];
    (void)group;
    if (packed.len == 0) {
        if (!is_score_row(suffix))
            return space_packed(buf_add_bytes(to, suffix));
        return space_packed(buf_add(to, text, score_row_text(suffix, text)));
    }
    switch (packed.ptr[0]) {
    case PACKED_SUFFIX:
        return space_packed(buf_add_bytes(to, suffix));
    case PACKED_INT:
        return space_packed(buf_add(to, text, number_int_text(text, int_unpack(packed))));
    case PACKED_DOUBLE:
        return space_packed(buf_add(to, text, number_double_text(text, double_unpack(packed))));
    case PACKED_AS_IT_IS:
        return space_packed(buf_add_bytes(to, bytes_from(packed, 1)));
    }
    return SPACE_PACKED_SAME;
}

bool data_packed_score(struct bytes packed, double *ret_score)
{
    int64_t integer;
    if (packed.len == 0)
        return false;
    if (packed.ptr[0] == PACKED_INT && packed.len <= DOUBLE_BYTES) {
        *ret_score = (double)int_unpack(packed);
        return true;
    }
    if (packed.ptr[0] == PACKED_DOUBLE && packed.len == DOUBLE_BYTES) {
        *ret_score = double_unpack(packed);
        return !isnan(*ret_score);
    }
    if (!number_int(packed, &integer))
        return number_double(packed, ret_score);
    *ret_score = (double)integer;
    return true;
}
