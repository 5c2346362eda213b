/* SPDX-License-Identifier: MIT
 *
 * workloads/rng.h (L2) - a generator seeded by the kernel: dear to construct, cheap to use.
 *
 * Construct: getrandom(2) for 48 bytes, then key a ChaCha20 (RFC 8439) or xoshiro256** (Blackman
 * and Vigna 2018) state. Use: the next 64 bits. Destroy: wipe, free. It has no reset: the stream
 * just goes on. The seed comes from one place for the whole machine, through a system call.
 */
#ifndef PB_WORKLOADS_RNG_H
#define PB_WORKLOADS_RNG_H

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "../workload.h"

enum { RNG_KIND };
enum { RNG_CHACHA20, RNG_XOSHIRO };
enum { RNG_WORDS = 16, RNG_OUTPUTS = 8, RNG_ROUNDS = 10 };

typedef struct rng_object {
    uint32_t state[RNG_WORDS];    /* constants, key, counter, nonce; xoshiro: the first 8 words */
    uint64_t output[RNG_OUTPUTS]; /* one ChaCha20 block */
    uint32_t used;                /* of output; RNG_OUTPUTS: all */
} rng_object;

static PB_COLD pb_status rng_open(pb_args *args, const pb_params *params, uint64_t spin_per_ms,
                                  pb_error *error)
{
    (void)error;       /* every combination of values makes an object */
    (void)spin_per_ms; /* nothing here spins */
    args->arg[RNG_KIND] = pb_params_get(params, "kind");
    args->size = args->idle_hidden = args->block = sizeof(rng_object);
    return PB_OK;
}

static PB_COLD void rng_close(pb_args *args)
{
    (void)args; /* nothing shared */
}

PB_INLINE uint32_t rng_rotate(uint32_t x, int n)
{
    return (x << n) | (x >> (32 - n));
}

PB_INLINE void rng_quarter(uint32_t *x, int a, int b, int c, int d)
{
    x[a] += x[b], x[d] = rng_rotate(x[d] ^ x[a], 16);
    x[c] += x[d], x[b] = rng_rotate(x[b] ^ x[c], 12);
    x[a] += x[b], x[d] = rng_rotate(x[d] ^ x[a], 8);
    x[c] += x[d], x[b] = rng_rotate(x[b] ^ x[c], 7);
}

/* The next ChaCha20 block into `output`. */
static PB_NOINLINE void rng_refill(rng_object *r)
{
    uint32_t x[RNG_WORDS];
    memcpy(x, r->state, sizeof x);
    for (int i = 0; i < RNG_ROUNDS; i++) {
        rng_quarter(x, 0, 4, 8, 12);
        rng_quarter(x, 1, 5, 9, 13);
        rng_quarter(x, 2, 6, 10, 14);
        rng_quarter(x, 3, 7, 11, 15);
        rng_quarter(x, 0, 5, 10, 15);
        rng_quarter(x, 1, 6, 11, 12);
        rng_quarter(x, 2, 7, 8, 13);
        rng_quarter(x, 3, 4, 9, 14);
    }
    for (int i = 0; i < RNG_WORDS; i++)
        x[i] += r->state[i];
    memcpy(r->output, x, sizeof x);
    r->state[12]++;
    r->used = 0;
}

PB_INLINE uint64_t rng_chacha20_next(rng_object *r)
{
    if (r->used == RNG_OUTPUTS)
        rng_refill(r);
    return r->output[r->used++];
}

PB_INLINE uint64_t rng_xoshiro_next(rng_object *r)
{
    uint64_t s[4];
    memcpy(s, r->state, sizeof s);
    const uint64_t scrambled = s[1] * 5;
    const uint64_t result = ((scrambled << 7) | (scrambled >> 57)) * 9;
    const uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = (s[3] << 45) | (s[3] >> 19);
    memcpy(r->state, s, sizeof s);
    return result;
}

PB_INLINE bool rng_init(pb_ctx *ctx, void *memory, const pb_args args)
{
    (void)ctx, (void)args; /* both kinds are keyed alike */
    static const uint32_t constants[4] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
    rng_object *r = memory;
    memcpy(r->state, constants, sizeof constants);
    const size_t wanted = sizeof r->state - sizeof constants;
    if (getrandom(r->state + 4, wanted, 0) != (ssize_t)wanted)
        return false;
    r->state[12] = 0; /* the block counter starts at 0 */
    r->used = RNG_OUTPUTS;
    return true;
}

PB_INLINE void rng_fini(pb_ctx *ctx, void *object, const pb_args args)
{
    (void)ctx, (void)args;
    memset(object, 0, sizeof(rng_object));
    pb_launder(object); /* or the wipe is dead code before free */
}

PB_INLINE void *rng_construct(pb_ctx *ctx, const pb_args args)
{
    return pb_allocate_and(rng_init, ctx, args);
}

PB_INLINE void rng_reset(pb_ctx *ctx, void *object, const pb_args args)
{
    (void)ctx, (void)object, (void)args; /* has_reset is false: never called */
}

PB_INLINE uint64_t rng_use(pb_ctx *ctx, void *object, const pb_args args)
{
    (void)ctx;
    rng_object *r = object;
    return args.arg[RNG_KIND] == RNG_XOSHIRO ? rng_xoshiro_next(r) : rng_chacha20_next(r);
}

PB_INLINE void rng_destroy(pb_ctx *ctx, void *object, const pb_args args)
{
    rng_fini(ctx, object, args);
    free(object);
}

PB_INLINE bool rng_is_clean(const void *object, const pb_args args)
{
    (void)object, (void)args;
    return true; /* a used generator is as good as a new one */
}

#endif
