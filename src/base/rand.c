// SPDX-License-Identifier: Apache-2.0
/* rand.c - xoshiro256**, seeded by the system or by a test. */
#include "base/rand.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/macros.h"

#include "base/banned.h"

void rand_init_os(struct rand *rand)
{
    size_t have = 0;
    while (have < sizeof rand->state) {
        ssize_t got = getrandom((char *)rand->state + have, sizeof rand->state - have, 0);
        ASSERT(got > 0 || errno == EINTR);
        if (got > 0)
            have += (size_t)got;
    }
    rand->state[0] |= 1; /* all zero is the one state that stays where it is */
}

static uint64_t splitmix64(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

void rand_init_seed(struct rand *rand, uint64_t seed)
{
    for (int i = 0; i < 4; i++)
        rand->state[i] = splitmix64(&seed);
}

static uint64_t rotate_left(uint64_t value, unsigned bits)
{
    return (value << bits) | (value >> (64 - bits));
}

uint64_t rand_u64(struct rand *rand)
{
    uint64_t *s = rand->state;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

/* Lemire's multiplication; the few values that would make it uneven are drawn again. */
uint64_t rand_below(struct rand *rand, uint64_t limit)
{
    ASSERT(limit > 0);
    unsigned __int128 product = (unsigned __int128)rand_u64(rand) * limit;
    if ((uint64_t)product < limit) {
        uint64_t uneven = -limit % limit;
        while ((uint64_t)product < uneven)
            product = (unsigned __int128)rand_u64(rand) * limit;
    }
    return (uint64_t)(product >> 64);
}

void rand_bytes(struct rand *rand, void *to, size_t len)
{
    uint8_t *at = to;
    while (len > 0) {
        uint64_t word = rand_u64(rand);
        size_t part = len < sizeof word ? len : sizeof word;
        memcpy(at, &word, part);
        at += part;
        len -= part;
    }
}
