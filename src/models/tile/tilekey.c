// SPDX-License-Identifier: Apache-2.0
/* tilekey.c - tilekeys as text, as numbers, as XYZ and quadkeys, and their shard. */
#include "models/tile/tilekey.h"

#include <stdio.h>

#include "base/banned.h"

enum { SHARD_DIGITS = 4, MS_DIGITS_MAX = 19 };

const uint8_t tile_folders[TILE_FOLDER_COUNT] = {0, 8, 12, 17, 18, 19, 20, 21, 22, 23, 24};

/* ---- text ---- */

/* Eight digits, the first one in the highest byte, as sixteen bits: pairs, fours, all. */
static uint64_t digits_join(uint64_t digits)
{
    digits = (digits | digits >> 6) & UINT64_C(0x000f000f000f000f);
    digits = (digits | digits >> 12) & UINT64_C(0x000000ff000000ff);
    return (digits | digits >> 24) & 0xffff;
}

/* Every command on a tile does this: eight digits at once. */
static bool digits_pack(struct bytes text, uint64_t *ret_packed)
{
    enum { AT_ONCE = 8 };
    uint8_t digit[TILE_LEVEL_MAX];
    _Static_assert(TILE_LEVEL_MAX % AT_ONCE == 0, "all of it is read");
    uint64_t packed = text.len, wrong = 0;
    if (text.len > TILE_LEVEL_MAX)
        return false;
    memset(digit, '0', sizeof digit);
    if (text.len > 0)
        memcpy(digit, text.ptr, text.len);
    for (unsigned i = 0; i < TILE_LEVEL_MAX; i += AT_ONCE) {
        uint64_t digits = be64_get(digit + i) ^ UINT64_C(0x3030303030303030);
        wrong |= digits & UINT64_C(0xfcfcfcfcfcfcfcfc);
        packed |= digits_join(digits) << (48 - 2 * i);
    }
    *ret_packed = packed;
    return wrong == 0;
}

/* One text for one number: no sign, no leading zeros. */
static bool ms_parse(struct bytes text, uint64_t *ret_ms)
{
    uint64_t ms = 0;
    if (text.len == 0 || text.len > MS_DIGITS_MAX || (text.ptr[0] == '0' && text.len > 1))
        return false;
    for (size_t i = 0; i < text.len; i++) {
        unsigned digit = (unsigned)text.ptr[i] - '0';
        if (digit > 9)
            return false;
        ms = 10 * ms + digit; /* 19 digits fit 64 bits */
    }
    *ret_ms = ms;
    return ms <= TILE_MS_MAX;
}

static bool tm_split(struct bytes text, struct bytes *ret_key, struct bytes *ret_ms)
{
    const uint8_t *colon = text.len ? memrchr(text.ptr, ':', text.len) : NULL;
    if (!colon)
        return false;
    size_t at = (size_t)(colon - text.ptr);
    *ret_key = bytes_of(text.ptr, at);
    *ret_ms = bytes_from(text, at + 1);
    return true;
}

bool tilekey_is(struct bytes text)
{
    uint64_t packed;
    return text.len > 0 && digits_pack(text, &packed);
}

bool tilekey_is_tm(struct bytes text)
{
    struct bytes key, ms_text;
    uint64_t ms;
    return text.len < TILEKEY_TEXT_BYTES && tm_split(text, &key, &ms_text) && tilekey_is(key) &&
           ms_parse(ms_text, &ms);
}

enum rc tilekey_parse(struct bytes text, uint64_t *ret_packed, struct err *err)
{
    if (text.len > TILE_LEVEL_MAX)
        return err_set(err, RC_INVALID, "a tilekey has at most %d digits, not %zu", TILE_LEVEL_MAX,
                       text.len);
    if (!digits_pack(text, ret_packed))
        return err_set(err, RC_INVALID, "a tilekey has the digits 0 to 3 only");
    return RC_OK;
}

enum rc tilekey_parse_ms(struct bytes text, uint64_t *ret_ms, struct err *err)
{
    if (!ms_parse(text, ret_ms))
        return err_set(err, RC_INVALID,
                       "a tile's time is in milliseconds, 0 to %lld, without leading zeros",
                       (long long)TILE_MS_MAX);
    return RC_OK;
}

enum rc tilekey_parse_tm(struct bytes text, struct tilekey *ret_key, struct err *err)
{
    struct bytes key, ms;
    if (!tm_split(text, &key, &ms))
        return err_set(err, RC_INVALID, "a tile of this type has a time: tilekey:milliseconds");
    enum rc rc = tilekey_parse(key, &ret_key->packed, err);
    return rc == RC_OK ? tilekey_parse_ms(ms, &ret_key->ms, err) : rc;
}

size_t tilekey_print(uint64_t packed, char to[TILEKEY_TEXT_BYTES])
{
    unsigned level = tilekey_level(packed);
    ASSERT(level <= TILE_LEVEL_MAX);
    for (unsigned i = 0; i < level; i++)
        to[i] = (char)('0' + tilekey_digit(packed, i));
    to[level] = 0;
    return level;
}

size_t tilekey_print_tm(struct tilekey key, char to[TILEKEY_TEXT_BYTES])
{
    size_t len = tilekey_print(key.packed, to);
    ASSERT(key.ms <= TILE_MS_MAX);
    return len + (size_t)snprintf(to + len, TILEKEY_TEXT_BYTES - len, ":%llu",
                                  (unsigned long long)key.ms);
}

/* ---- packed ---- */

bool tilekey_is_packed(uint64_t packed)
{
    unsigned level = tilekey_level(packed);
    return level <= TILE_LEVEL_MAX && tilekey_ancestor(packed, level) == packed;
}

bool tilekey_next_same_level(uint64_t packed, uint64_t *ret_next)
{
    unsigned level = tilekey_level(packed);
    uint64_t next;
    if (level == 0 || __builtin_add_overflow(packed, UINT64_C(1) << (64 - 2 * level), &next))
        return false;
    *ret_next = next;
    return true;
}

uint64_t tilekey_first_below(uint64_t packed, unsigned level)
{
    ASSERT(level >= tilekey_level(packed) && level <= TILE_LEVEL_MAX);
    return (packed & ~UINT64_C(0xff)) | level;
}

bool tilekey_get(struct bytes bytes, bool tm, struct tilekey *ret_key)
{
    if (bytes.len != (tm ? TILEKEY_TM_BYTES : TILEKEY_BYTES))
        return false;
    ret_key->packed = be64_get(bytes.ptr);
    ret_key->ms = tm ? be64_get(bytes.ptr + TILEKEY_BYTES) : 0;
    return tilekey_is_packed(ret_key->packed) && ret_key->ms <= TILE_MS_MAX;
}

/* ---- other schemes ---- */

/* Digits as two bits, x to the right and y upward: 0 and 3 are left, 2 and 3 are above. */
static unsigned digit_x(unsigned digit)
{
    return digit == 1 || digit == 2;
}

static unsigned digit_up(unsigned digit)
{
    return digit >= 2;
}

static unsigned digit_of(unsigned x, unsigned up)
{
    return up ? 3 - x : x;
}

struct tile_xyz tilekey_to_xyz(uint64_t packed, enum tile_rows rows)
{
    struct tile_xyz xyz = {.z = tilekey_level(packed)};
    for (unsigned i = 0; i < xyz.z; i++) {
        unsigned digit = tilekey_digit(packed, i);
        xyz.x = 2 * xyz.x + digit_x(digit);
        xyz.y = 2 * xyz.y + (rows == TILE_ROWS_TMS ? digit_up(digit) : !digit_up(digit));
    }
    return xyz;
}

enum rc tilekey_from_xyz(struct tile_xyz xyz, enum tile_rows rows, uint64_t *ret_packed,
                         struct err *err)
{
    if (xyz.z > TILE_LEVEL_MAX)
        return err_set(err, RC_INVALID, "there is no level %u: the last is %d", xyz.z,
                       TILE_LEVEL_MAX);
    if (xyz.x >> xyz.z || xyz.y >> xyz.z)
        return err_set(err, RC_INVALID, "there is no tile %u/%u/%u: x and y are below 2^z", xyz.z,
                       xyz.x, xyz.y);
    uint64_t packed = xyz.z;
    for (unsigned i = 0; i < xyz.z; i++) {
        unsigned shift = xyz.z - 1 - i, up = xyz.y >> shift & 1;
        if (rows == TILE_ROWS_XYZ)
            up = !up;
        packed |= (uint64_t)digit_of(xyz.x >> shift & 1, up) << (62 - 2 * i);
    }
    *ret_packed = packed;
    return RC_OK;
}

size_t tilekey_to_quadkey(uint64_t packed, char to[TILEKEY_TEXT_BYTES])
{
    unsigned level = tilekey_level(packed);
    for (unsigned i = 0; i < level; i++) {
        unsigned digit = tilekey_digit(packed, i);
        to[i] = (char)('0' + 2 * !digit_up(digit) + digit_x(digit));
    }
    to[level] = 0;
    return level;
}

enum rc tilekey_from_quadkey(struct bytes text, uint64_t *ret_packed, struct err *err)
{
    uint64_t bing, packed = text.len;
    if (!digits_pack(text, &bing))
        return err_set(err, RC_INVALID, "a quadkey has at most %d digits, each 0 to 3",
                       TILE_LEVEL_MAX);
    for (unsigned i = 0; i < text.len; i++) {
        unsigned digit = tilekey_digit(bing, i);
        packed |= (uint64_t)digit_of(digit & 1, !(digit >> 1)) << (62 - 2 * i);
    }
    *ret_packed = packed;
    return RC_OK;
}

/* ---- shard files ---- */

struct tile_place tilekey_place(uint64_t packed)
{
    unsigned level = tilekey_level(packed);
    if (level <= 8)
        return (struct tile_place){0};
    uint8_t folder = level <= 12 ? 8 : level <= 16 ? 12 : (uint8_t)level;
    return (struct tile_place){folder, tilekey_prefix4(packed)};
}

void tile_folder_levels(uint8_t folder, unsigned *ret_from, unsigned *ret_to)
{
    *ret_from = folder == 0 ? 0 : folder <= 12 ? folder + 1u : folder;
    *ret_to = folder == 0 ? 8 : folder <= 12 ? folder + 4u : folder;
}

bool tile_place_add(struct tile_place place, struct buf *to)
{
    if (place.folder == 0)
        return buf_printf(to, "base.g3db");
    return buf_printf(to, "%u/%u%u%u%u.g3db", place.folder, place.prefix4 >> 6,
                      place.prefix4 >> 4 & 3, place.prefix4 >> 2 & 3, place.prefix4 & 3);
}

bool tile_place_name_parse(const char *name, uint8_t *ret_prefix4)
{
    uint64_t packed;
    if (strlen(name) < SHARD_DIGITS || strcmp(name + SHARD_DIGITS, ".g3db") != 0 ||
        !digits_pack(bytes_of(name, SHARD_DIGITS), &packed))
        return false;
    *ret_prefix4 = tilekey_prefix4(packed);
    return true;
}
