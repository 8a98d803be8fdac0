// SPDX-License-Identifier: Apache-2.0
/* crc64.c - CRC-64 by tables, eight bytes a step. */
#include "base/crc64.h"

#include "base/codec.h"

#include "base/banned.h"

/* As in crc32c.c: a CRC is linear, so eight numbers give a table of 256 at compile time. */
#define ENTRY(i, b0, b1, b2, b3, b4, b5, b6, b7)                                         \
    (((i)&1 ? (b0) : 0) ^ ((i)&2 ? (b1) : 0) ^ ((i)&4 ? (b2) : 0) ^ ((i)&8 ? (b3) : 0) ^ \
     ((i)&16 ? (b4) : 0) ^ ((i)&32 ? (b5) : 0) ^ ((i)&64 ? (b6) : 0) ^ ((i)&128 ? (b7) : 0))
#define ENTRY4(i, ...)                                                               \
    ENTRY(i, __VA_ARGS__), ENTRY((i) + 1, __VA_ARGS__), ENTRY((i) + 2, __VA_ARGS__), \
        ENTRY((i) + 3, __VA_ARGS__)
#define ENTRY16(i, ...)                                                                 \
    ENTRY4(i, __VA_ARGS__), ENTRY4((i) + 4, __VA_ARGS__), ENTRY4((i) + 8, __VA_ARGS__), \
        ENTRY4((i) + 12, __VA_ARGS__)
#define ENTRY64(i, ...)                                                                      \
    ENTRY16(i, __VA_ARGS__), ENTRY16((i) + 16, __VA_ARGS__), ENTRY16((i) + 32, __VA_ARGS__), \
        ENTRY16((i) + 48, __VA_ARGS__)
#define TABLE(...)                                                                    \
    {                                                                                 \
        ENTRY64(0, __VA_ARGS__), ENTRY64(64, __VA_ARGS__), ENTRY64(128, __VA_ARGS__), \
            ENTRY64(192, __VA_ARGS__)                                                 \
    }

/* table[0][1 << b] is the polynomial 0x95ac9329ac4bc9b5 after 8 - b steps; table[k] is table[k - 1]
 * moved on by one zero byte. */
static const uint64_t table[8][256] = {
    TABLE(0x7ad870c830358979, 0xf5b0e190606b12f2, 0xc038e5739841b68f, 0xab28ecb46814fe75,
          0x7d08ff3b88be6f81, 0xfa11fe77117cdf02, 0xdf7adabd7a6e2d6f, 0x95ac9329ac4bc9b5),
    TABLE(0x89e99ffd73bddf69, 0x388a19a9bfec2db9, 0x711433537fd85b72, 0xe22866a6ffb0b6e4,
          0xef09eb1ea7f6fea3, 0xf54af06e177a6e2d, 0xc1ccc68f76634f31, 0xa8c0ab4db4510d09),
    TABLE(0xf4125129ce4038be, 0xc37d8400c417e217, 0xada22e52d0b85745, 0x701d7af6f9e73de1,
          0xe03af5edf3ce7bc2, 0xeb2ccd88bf0b64ef, 0xfd00bd4226815ab5, 0xd1585cd715952601),
    TABLE(0x8ce168638c796306, 0x329bf69440655567, 0x6537ed2880caaace, 0xca6fda510195559c,
          0xbf8692f15bbd3853, 0x545403b1efede3cd, 0xa8a80763dfdbc79a, 0x7a092894e7201c5f),
    TABLE(0x3504e58b9ba6dd1e, 0x6a09cb17374dba3c, 0xd413962e6e9b7478, 0x837e0a0f85a17b9b,
          0x2da5324c53d5645d, 0x5b4a6498a7aac8ba, 0xb694c9314f559174, 0x4670b431c63cb183),
    TABLE(0xe39d1389931b9354, 0xec6301407ea0b5c3, 0xf39f24d3a5d6f8ed, 0xcc676ff4133a62b1,
          0xb397f9bb7ee35609, 0x4c76d525a5513f79, 0x98edaa4b4aa27ef2, 0x1a8272c5cdd36e8f),
    TABLE(0x62a95de6e302eff2, 0xc552bbcdc605dfe4, 0xa1fc51c8d49c2ca3, 0x68a185c2f1afca2d,
          0xd1430b85e35f945a, 0x89df31589e28bbdf, 0x38e744e264c6e4d5, 0x71ce89c4c98dc9aa),
    TABLE(0x381d0015c96f4444, 0x703a002b92de8888, 0xe074005725bd1110, 0xebb126fd13edb14b,
          0xfc3b6ba97f4cf1fd, 0xd32ff101a60e7091, 0x8d06c450148b7249, 0x3154aef3718177f9),
};

uint64_t crc64(uint64_t crc, const void *ptr, size_t len)
{
    const uint8_t *at = ptr;
    for (; len >= 8; len -= 8, at += 8) {
        uint64_t word = crc ^ le64_get(at);
        crc = 0;
        for (int i = 0; i < 8; i++)
            crc ^= table[7 - i][word >> (8 * i) & 0xff];
    }
    for (; len > 0; len--, at++)
        crc = table[0][(crc ^ *at) & 0xff] ^ crc >> 8;
    return crc;
}
