// SPDX-License-Identifier: Apache-2.0
/* fuzz_tile.c - any bytes as what decoders of tiles read: texts of keys, stored keys, values,
 * marks, a binding. What is taken comes back the same. The first byte says which. */
#include "models/tile/tile_int.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_text(struct bytes text)
{
    char again[TILEKEY_TEXT_BYTES];
    struct tilekey key, back;
    struct err err;
    if (tilekey_parse(text, &key.packed, &err) == RC_OK) {
        ASSERT(tilekey_is_packed(key.packed));
        ASSERT(tilekey_is(text) == (text.len > 0));
        ASSERT(bytes_eq(text, bytes_of(again, tilekey_print(key.packed, again))));
        struct tile_xyz xyz = tilekey_to_xyz(key.packed, TILE_ROWS_XYZ);
        enum rc rc = tilekey_from_xyz(xyz, TILE_ROWS_XYZ, &back.packed, &err);
        ASSERT(rc == RC_OK && back.packed == key.packed);
        ASSERT(key.packed <= tilekey_subtree_last(key.packed));
    } else {
        ASSERT(!tilekey_is(text));
    }
    if (tilekey_parse_tm(text, &key, &err) == RC_OK)
        ASSERT(bytes_eq(text, bytes_of(again, tilekey_print_tm(key, again))));
    else
        ASSERT(!tilekey_is_tm(text));
    uint64_t quad;
    if (tilekey_from_quadkey(text, &quad, &err) == RC_OK)
        ASSERT(bytes_eq(text, bytes_of(again, tilekey_to_quadkey(quad, again))));
}

static void fuzz_key(struct bytes bytes, bool tm)
{
    uint8_t again[TILEKEY_TM_BYTES];
    struct tilekey key;
    if (tilekey_get(bytes, tm, &key))
        ASSERT(bytes_eq(bytes, bytes_of(again, tilekey_put(key, tm, again))));
}

static void fuzz_value(struct bytes bytes)
{
    uint8_t header[TILE_HEADER_BYTES_MAX];
    struct tile_value value, back;
    struct err err = {0};
    struct tile_value any = tile_value_of_shard(bytes, false);
    ASSERT(any.data.len <= bytes.len);
    ASSERT(bytes_eq(tile_value_of_shard(bytes, true).data, bytes));
    if (tile_value_decode_fixed(bytes, &value))
        ASSERT(value.epoch <= INT32_MAX && value.data.len < bytes.len);
    if (tile_value_decode(bytes, &value, &err) != RC_OK) {
        ASSERT(err.text[0] != 0);
        return;
    }
    size_t len = tile_header_put(&value, header);
    ASSERT(len + value.data.len <= bytes.len); /* shorter where uvarints were over-long */
    enum rc rc = tile_value_decode(bytes_of(header, len), &back, &err);
    ASSERT(rc == RC_OK && back.epoch == value.epoch && back.provider == value.provider);
}

static void fuzz_mark(struct bytes bytes)
{
    uint8_t again[TILE_MARK_BYTES_MAX];
    struct tile_mark mark, back;
    struct err err = {0};
    if (tile__mark_decode(bytes, &mark, &err) != RC_OK)
        return;
    enum rc rc = tile__mark_decode(bytes_of(again, tile__mark_put(&mark, again)), &back, &err);
    ASSERT(rc == RC_OK && back.op == mark.op && back.version == mark.version);
    ASSERT(back.bytes == mark.bytes);
}

static void fuzz_binding(struct bytes text)
{
    struct tile_binding binding;
    struct err err = {0};
    if (tile_binding_parse(text, &binding, &err) == RC_OK)
        ASSERT(binding.name.len > 0 && binding.name.len <= TILE_TYPE_NAME_BYTES_MAX &&
               binding.db <= 9999);
    else
        ASSERT(err.text[0] != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct bytes input = bytes_of(data + 1, size - 1);
    switch (data[0] % 6) {
    case 0:
        fuzz_text(input);
        break;
    case 1:
        fuzz_key(input, false);
        break;
    case 2:
        fuzz_key(input, true);
        break;
    case 3:
        fuzz_value(input);
        break;
    case 4:
        fuzz_mark(input);
        break;
    default:
        fuzz_binding(input);
        break;
    }
    return 0;
}
