// SPDX-License-Identifier: Apache-2.0
/* fuzz_pack.c - bytes are a suffix and a value of the data space, which have to come back from
 * their packed form as they were. The first byte is the length of the suffix. */
#include "types/pack.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct store_space space = {.pack = data_pack, .unpack = data_unpack};

static void row_check(struct bytes suffix, struct bytes value)
{
    CLEANUP(buf_done) struct buf packed;
    CLEANUP(buf_done) struct buf again;
    struct bytes form, back;
    double score;
    buf_init(&packed, value.len + 1);
    buf_init(&again, value.len);
    ASSERT(space_pack(&space, BYTES(""), suffix, value, &packed, &form));
    ASSERT(form.len <= value.len + 1);
    ASSERT(space_unpack(&space, BYTES(""), suffix, form, &again, &back));
    ASSERT(bytes_eq(back, value));
    data_packed_score(value, &score); /* any bytes, and no more than these */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    size_t suffix_len = data[0] < size ? data[0] : size - 1;
    row_check(bytes_of(data + 1, suffix_len),
              bytes_of(data + 1 + suffix_len, size - 1 - suffix_len));
    return 0;
}
