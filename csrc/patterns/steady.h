/* SPDX-License-Identifier: MIT
 *
 * patterns/steady.h (L2) - K objects live; each operation replaces a random one.
 *
 * Release the old, acquire and use the new: so the live set stays at K, and where it no longer fits
 * a cache or a pool's local part, it shows. The first K acquires happen before anybody measures;
 * when the replicate ends everything is released, so nothing is held at the quiet point.
 */
#ifndef PB_PATTERNS_STEADY_H
#define PB_PATTERNS_STEADY_H

#include <stdlib.h>

#include "../pattern.h"
#include "../rng.h"

enum { STEADY_LIVE };

static PB_COLD void steady_open(pb_pattern *p, const pb_params *params, uint64_t spin_per_ms)
{
    (void)spin_per_ms; /* nothing here waits */
    p->arg[STEADY_LIVE] = pb_params_get(params, "live");
    p->live = (uint64_t)p->arg[STEADY_LIVE];
}

/* Replaces what `place` holds; false when there is no new object: the place stays empty. */
PB_INLINE bool steady_replace(pb_ctx *ctx, pb_held *place, const pb_pool_calls pool,
                              const pb_functions *w, const pb_args *args, uint64_t *sum)
{
    if (PB_LIKELY(place->object != NULL))
        pb_release(ctx, *place, pool, w, args);
    *place = pb_acquire(ctx, pool, w, args);
    if (PB_UNLIKELY(place->object == NULL))
        return false;
    *sum = pb_settle(*sum + pb_use(ctx, place->object, w, args));
    return true;
}

/* `n` attempts; returns how many failed to acquire. */
PB_INLINE uint64_t steady_batch(pb_ctx *ctx, pb_held *held, const pb_pool_calls pool,
                                const pb_functions *w, const pb_args *args, const uint32_t live,
                                const uint64_t n)
{
    pb_rng rng = ctx->rng;
    uint64_t failed = 0, sum = 0;
    for (uint64_t i = n; i > 0; i--)
        failed += !steady_replace(ctx, held + pb_rng_below(&rng, live), pool, w, args, &sum);
    ctx->rng = rng;
    ctx->sink += sum;
    return failed;
}

/* The first K acquires: operations too, each released by a later replacement or by steady_empty. */
PB_INLINE void steady_fill(pb_ctx *ctx, pb_held *held, const pb_pool_calls pool,
                           const pb_functions *w, const pb_args *args, const uint32_t live)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < live; i++)
        ctx->operations += steady_replace(ctx, held + i, pool, w, args, &sum);
    ctx->sink += sum;
}

PB_INLINE void steady_empty(pb_ctx *ctx, pb_held *held, const pb_pool_calls pool,
                            const pb_functions *w, const pb_args *args, const uint32_t live)
{
    for (uint32_t i = 0; i < live; i++) {
        if (held[i].object != NULL)
            pb_release(ctx, held[i], pool, w, args);
        held[i].object = NULL;
    }
}

PB_INLINE bool steady_is_plain(const pb_pattern *p)
{
    (void)p; /* it has no optional behaviour of its own */
    return true;
}

PB_INLINE pb_pattern steady_plain(const pb_pattern p)
{
    return p;
}

PB_INLINE void steady_run(pb_ctx *ctx, const pb_pool_calls pool, const pb_functions *w,
                          const pb_args *args, const pb_pattern p)
{
    const uint32_t live = (uint32_t)p.arg[STEADY_LIVE];
    pb_held *held = ctx->held;
    steady_fill(ctx, held, pool, w, args, live);
    do {
        const uint64_t n = ctx->batch;
        ctx->operations += n - steady_batch(ctx, held, pool, w, args, live, n);
    } while (pb_keep_running(ctx));
    steady_empty(ctx, held, pool, w, args, live);
}

#endif
