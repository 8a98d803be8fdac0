// SPDX-License-Identifier: Apache-2.0
/* value.c - the head of a tile's value: written and read. */
#include "models/tile/value.h"

#include "base/macros.h"

#include "base/banned.h"

size_t tile_header_put(const struct tile_value *value, uint8_t to[TILE_HEADER_BYTES_MAX])
{
    ASSERT(value->epoch <= TILE_NUMBER_MAX);
    ASSERT(value->provider <= TILE_NUMBER_MAX);
    size_t len = uvarint_put(to, value->epoch);
    return len + uvarint_put(to + len, value->provider);
}

static bool header_get(struct bytes bytes, struct tile_value *ret_value)
{
    const uint8_t *at = bytes.ptr, *end = bytes.ptr + bytes.len;
    struct tile_value value;
    if (!uvarint_get(&at, end, &value.epoch) || !uvarint_get(&at, end, &value.provider) ||
        value.epoch > TILE_NUMBER_MAX || value.provider > TILE_NUMBER_MAX)
        return false;
    value.data = bytes_of(at, (size_t)(end - at));
    *ret_value = value;
    return true;
}

enum rc tile_value_decode(struct bytes bytes, struct tile_value *ret_value, struct err *err)
{
    if (bytes.len == 0 || !header_get(bytes, ret_value))
        return err_set(err, RC_INVALID,
                       "a tile's value begins with two uvarints, epoch and provider, of 63 bits; "
                       "TILE.SET takes data without them");
    if (ret_value->data.len > TILE_DATA_BYTES_MAX)
        return err_set(err, RC_TOO_BIG, "a tile of %zu bytes is over the limit of %d",
                       ret_value->data.len, TILE_DATA_BYTES_MAX);
    return RC_OK;
}

enum rc tile_value_decode_canonical(struct bytes bytes, struct tile_value *ret_value,
                                    struct err *err)
{
    enum rc rc = tile_value_decode(bytes, ret_value, err);
    if (rc != RC_OK)
        return rc;
    size_t header = bytes.len - ret_value->data.len;
    if (header == uvarint_len(ret_value->epoch) + uvarint_len(ret_value->provider))
        return RC_OK;
    return err_set(err, RC_INVALID,
                   "the value does not begin with a tile's header: its two uvarints have more "
                   "bytes than they need; TILE.SET takes data without a header, and a type that "
                   "is bound as \":bare\" has none");
}

struct tile_value tile_value_of_shard(struct bytes bytes, bool no_header)
{
    struct tile_value value;
    if (!no_header && bytes.len > 0 && header_get(bytes, &value))
        return value;
    return (struct tile_value){.data = bytes};
}

/* The rest of a fixed header, from the length on. */
static bool fixed_end(struct bytes bytes, size_t at, struct tile_value *ret_value)
{
    if (bytes.len < at + 4 || be32_get(bytes.ptr + at) != bytes.len - at - 4)
        return false;
    ret_value->data = bytes_from(bytes, at + 4);
    return true;
}

bool tile_value_decode_fixed(struct bytes bytes, struct tile_value *ret_value)
{
    if (bytes.len < 10 || bytes.ptr[5] > 1)
        return false;
    uint32_t epoch = be32_get(bytes.ptr + 1), provider = be32_get(bytes.ptr + 6);
    if (epoch > INT32_MAX)
        return false;
    struct tile_value value = {.epoch = epoch};
    if (bytes.ptr[5] == 1) {
        value.provider = provider;
        if (provider > INT32_MAX || !fixed_end(bytes, 10, &value))
            return false;
    } else if (!fixed_end(bytes, 6, &value) && (provider != 0 || !fixed_end(bytes, 10, &value))) {
        return false;
    }
    *ret_value = value;
    return true;
}
