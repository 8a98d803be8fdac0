// SPDX-License-Identifier: Apache-2.0
/* rand.h - the one place that makes randomness; a test gives a seed.
 *
 * Not for secrets that must outlive the process except through rand_bytes() of an OS-seeded one.
 * Threads: one owner. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct rand {
    uint64_t state[4]; /* xoshiro256** */
};

void rand_init_os(struct rand *rand);
void rand_init_seed(struct rand *rand, uint64_t seed);
uint64_t rand_u64(struct rand *rand);
uint64_t rand_below(struct rand *rand, uint64_t limit); /* 0 .. limit-1, unbiased; limit > 0 */
void rand_bytes(struct rand *rand, void *to, size_t len);
