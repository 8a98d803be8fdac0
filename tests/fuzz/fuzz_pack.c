/* Bytes are a suffix and a value of the data space, which have to come back from their packed form
 * as they were. The first byte is the length of the suffix. */
#include "types/pack.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(buf_done) struct buf packed;
    CLEANUP(buf_done) struct buf again;
    double score;
    if (size == 0)
        return 0;
    size_t suffix_len = data[0] < size ? data[0] : size - 1;
    struct bytes suffix = bytes_of(data + 1, suffix_len);
    struct bytes value = bytes_of(data + 1 + suffix_len, size - 1 - suffix_len);
    buf_init(&packed, size + 1);
    buf_init(&again, size);
    ASSERT(data_pack(BYTES(""), suffix, value, &packed));
    ASSERT(packed.len <= value.len + 1);
    ASSERT(data_unpack(BYTES(""), suffix, buf_bytes(&packed), &again));
    ASSERT(bytes_eq(buf_bytes(&again), value));
    data_packed_score(value, &score); /* any bytes, and no more than these */
    return 0;
}
