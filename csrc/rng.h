/* SPDX-License-Identifier: MIT
 *
 * rng.h (L0) - a small generator for placement and for patterns; for one thread.
 *
 * splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014):
 * one add and three multiply-xor steps, any seed is a good seed. Not for secrets; the `rng`
 * workload has its own, cryptographic, state.
 */
#ifndef PB_RNG_H
#define PB_RNG_H

#include "base.h"

typedef struct pb_rng {
    uint64_t state;
} pb_rng;

PB_INLINE uint64_t pb_rng_next(pb_rng *r)
{
    uint64_t z = (r->state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* A number in [0, bound); bound > 0. The bias of multiply-and-shift is below 2^-32 here. */
PB_INLINE uint64_t pb_rng_below(pb_rng *r, uint32_t bound)
{
    return ((pb_rng_next(r) >> 32) * bound) >> 32;
}

#endif
