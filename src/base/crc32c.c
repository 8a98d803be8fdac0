// SPDX-License-Identifier: Apache-2.0
/* crc32c.c - CRC-32C by the processor's instruction in three streams, or eight bytes a step by
 * tables. */
#include "base/crc32c.h"

#include <nmmintrin.h>
#include <stdbool.h>
#include <string.h>
#include <wmmintrin.h>

#include "base/banned.h"

/* The portable form takes eight bytes a step. table[k][i] is the sum (xor) of table[k][1 << b] over
 * the bits b of i, because a CRC is linear: eight numbers give a table of 256, at compile time. */
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

/* table[0][1 << b] is the polynomial 0x82f63b78 after 8 - b steps; table[k] is table[k - 1] moved
 * on by one zero byte. */
static const uint32_t table[8][256] = {
    TABLE(0xf26b8303, 0xe13b70f7, 0xc79a971f, 0x8ad958cf, 0x105ec76f, 0x20bd8ede, 0x417b1dbc,
          0x82f63b78),
    TABLE(0x13a29877, 0x274530ee, 0x4e8a61dc, 0x9d14c3b8, 0x3fc5f181, 0x7f8be302, 0xff17c604,
          0xfbc3faf9),
    TABLE(0xa541927e, 0x4f6f520d, 0x9edea41a, 0x38513ec5, 0x70a27d8a, 0xe144fb14, 0xc76580d9,
          0x8b277743),
    TABLE(0xdd45aab8, 0xbf672381, 0x7b2231f3, 0xf64463e6, 0xe964b13d, 0xd725148b, 0xaba65fe7,
          0x52a0c93f),
    TABLE(0x38116fac, 0x7022df58, 0xe045beb0, 0xc5670b91, 0x8f2261d3, 0x1ba8b557, 0x37516aae,
          0x6ea2d55c),
    TABLE(0xef306b19, 0xdb8ca0c3, 0xb2f53777, 0x6006181f, 0xc00c303e, 0x85f4168d, 0x0e045beb,
          0x1c08b7d6),
    TABLE(0x68032cc8, 0xd0065990, 0xa5e0c5d1, 0x4e2dfd53, 0x9c5bfaa6, 0x3d5b83bd, 0x7ab7077a,
          0xf56e0ef4),
    TABLE(0x493c7d27, 0x9278fa4e, 0x211d826d, 0x423b04da, 0x847609b4, 0x0d006599, 0x1a00cb32,
          0x34019664),
};

static uint64_t word_at(const uint8_t *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

uint32_t crc32c_portable(uint32_t crc, const void *ptr, size_t len)
{
    const uint8_t *at = ptr;

    crc = ~crc;
    for (; len >= 8; len -= 8, at += 8) {
        uint64_t word = word_at(at) ^ crc;
        crc = table[7][word & 255] ^ table[6][word >> 8 & 255] ^ table[5][word >> 16 & 255] ^
              table[4][word >> 24 & 255] ^ table[3][word >> 32 & 255] ^ table[2][word >> 40 & 255] ^
              table[1][word >> 48 & 255] ^ table[0][word >> 56];
    }
    for (; len > 0; len--, at++)
        crc = table[0][(crc ^ *at) & 255] ^ crc >> 8;
    return ~crc;
}

/* The instruction takes one word a cycle but answers after three, so long inputs are read as three
 * streams side by side, which are joined by moving the first two on over the bytes of the others:
 * a multiplication by x^(8 n - 33) modulo the polynomial, where the 33 make up for what the
 * multiplication and the final instruction add. */
struct lane {
    size_t bytes;      /* of one stream */
    uint32_t move_one; /* over as many bytes as one stream has */
    uint32_t move_two;
};
static const struct lane long_lane = {1024, 0x170076fa, 0xa51b6135};
static const struct lane short_lane = {128, 0x0d3b6092, 0xb9e02b86};

__attribute__((target("sse4.2,pclmul"))) static uint64_t moved(uint64_t crc, uint32_t factor)
{
    __m128i product = _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)crc),
                                           _mm_cvtsi64_si128((long long)factor), 0);
    return _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(product));
}

__attribute__((target("sse4.2,pclmul"))) static uint64_t
three_streams(uint64_t crc, const uint8_t *at, const struct lane *lane)
{
    uint64_t second = 0;
    uint64_t third = 0;
    for (size_t i = 0; i < lane->bytes; i += 8) {
        crc = _mm_crc32_u64(crc, word_at(at + i));
        second = _mm_crc32_u64(second, word_at(at + lane->bytes + i));
        third = _mm_crc32_u64(third, word_at(at + 2 * lane->bytes + i));
    }
    return moved(crc, lane->move_two) ^ moved(second, lane->move_one) ^ third;
}

__attribute__((target("sse4.2,pclmul"))) static uint32_t
crc32c_hardware(uint32_t start, const uint8_t *at, size_t len)
{
    uint64_t crc = (uint32_t)~start;

    for (; len >= 3 * long_lane.bytes; len -= 3 * long_lane.bytes, at += 3 * long_lane.bytes)
        crc = three_streams(crc, at, &long_lane);
    for (; len >= 3 * short_lane.bytes; len -= 3 * short_lane.bytes, at += 3 * short_lane.bytes)
        crc = three_streams(crc, at, &short_lane);
    for (; len >= 8; len -= 8, at += 8)
        crc = _mm_crc32_u64(crc, word_at(at));
    for (; len > 0; len--, at++)
        crc = _mm_crc32_u8((uint32_t)crc, *at);
    return ~(uint32_t)crc;
}

uint32_t crc32c(uint32_t crc, const void *ptr, size_t len)
{
    /* One load and one test: the answers are kept by the compiler's start code. */
    if (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul"))
        return crc32c_hardware(crc, ptr, len);
    return crc32c_portable(crc, ptr, len);
}
