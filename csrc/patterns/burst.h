/* SPDX-License-Identifier: MIT
 *
 * patterns/burst.h (L2) - acquire N objects and use each, then release all of them; again and
 * again.
 *
 * A request that builds things up and throws them away. Where N grows beyond what a pool has at
 * hand for a thread - a cache's cap, a magazine, an array of hints - the cost of an operation takes
 * a step. They go back in the order they came, the other way round, or at random, which adds the
 * cost of drawing. An acquire that fails leaves the burst one object short.
 *
 * The epoch is looked at after every `batch` acquires, also within a burst: a window need not be as
 * long as a burst, and a thread that parks holds what it has acquired so far. As in `steady`, an
 * operation is counted with its acquire.
 */
#ifndef PB_PATTERNS_BURST_H
#define PB_PATTERNS_BURST_H

#include "../pattern.h"
#include "../rng.h"

enum { BURST_OBJECTS, BURST_ORDER };
enum { BURST_SAME, BURST_REVERSE, BURST_RANDOM };

static PB_COLD void burst_open(pb_pattern *p, const pb_params *params, uint64_t spin_per_ms)
{
    (void)spin_per_ms; /* nothing here waits */
    p->arg[BURST_OBJECTS] = pb_params_get(params, "objects");
    p->arg[BURST_ORDER] = pb_params_get(params, "order");
    p->live = (uint64_t)p->arg[BURST_OBJECTS];
}

/* `n` attempts; what they give is added behind the `have` objects that are held. Returns how many
   are held then. */
PB_INLINE uint32_t burst_take(pb_ctx *ctx, pb_held *held, uint32_t have, const pb_pool_calls pool,
                              const pb_functions *w, const pb_args *args, const uint32_t n)
{
    uint64_t sum = 0;
    for (uint32_t i = n; i > 0; i--) {
        const pb_held got = pb_acquire(ctx, pool, w, args);
        if (PB_UNLIKELY(got.object == NULL))
            continue;
        sum = pb_settle(sum + pb_use(ctx, got.object, w, args));
        held[have++] = got;
    }
    ctx->sink += sum;
    return have;
}

/* Empties a place. */
PB_INLINE void burst_release(pb_ctx *ctx, pb_held *place, const pb_pool_calls pool,
                             const pb_functions *w, const pb_args *args)
{
    const pb_held back = *place;
    place->object = NULL;
    pb_release(ctx, back, pool, w, args);
}

/* The last of those left fills the place of the one drawn. */
PB_INLINE void burst_give_random(pb_ctx *ctx, pb_held *held, uint32_t have,
                                 const pb_pool_calls pool, const pb_functions *w,
                                 const pb_args *args)
{
    pb_rng rng = ctx->rng;
    while (have > 0) {
        pb_held *drawn = held + pb_rng_below(&rng, have);
        const pb_held last = held[--have];
        const pb_held back = *drawn;
        *drawn = last;
        held[have].object = NULL;
        pb_release(ctx, back, pool, w, args);
    }
    ctx->rng = rng;
}

/* The end of a burst: all `have` objects go back. */
PB_INLINE void burst_give(pb_ctx *ctx, pb_held *held, const uint32_t have, const int64_t order,
                          const pb_pool_calls pool, const pb_functions *w, const pb_args *args)
{
    if (order == BURST_RANDOM) {
        burst_give_random(ctx, held, have, pool, w, args);
        return;
    }
    const size_t step = order == BURST_SAME ? 1 : SIZE_MAX; /* SIZE_MAX: one back */
    size_t at = order == BURST_SAME ? 0 : (size_t)have - 1;
    for (uint32_t left = have; left > 0; left--, at += step)
        burst_release(ctx, held + at, pool, w, args);
}

PB_INLINE bool burst_is_plain(const pb_pattern *p)
{
    (void)p; /* the order is asked for once per burst: nothing here is optional per operation */
    return true;
}

PB_INLINE pb_pattern burst_plain(const pb_pattern p)
{
    return p;
}

PB_INLINE void burst_run(pb_ctx *ctx, const pb_pool_calls pool, const pb_functions *w,
                         const pb_args *args, const pb_pattern p)
{
    const uint32_t objects = (uint32_t)p.arg[BURST_OBJECTS];
    const int64_t order = p.arg[BURST_ORDER];
    pb_held *held = ctx->held;
    uint32_t tried = 0, have = 0; /* of the burst under way */
    uint32_t left = ctx->batch;   /* acquires until the next look */
    bool running = true;
    while (running || have > 0) { /* the last time round only to give back */
        const uint32_t due = left < objects - tried ? left : objects - tried;
        const uint32_t n = running ? due : 0, had = have;
        have = burst_take(ctx, held, have, pool, w, args, n);
        ctx->operations += have - had;
        tried += n;
        left -= n;
        if (tried == objects || !running) {
            burst_give(ctx, held, have, order, pool, w, args);
            tried = have = 0;
        }
        if (running && left == 0) {
            running = pb_keep_running(ctx);
            left = ctx->batch;
        }
    }
}

#endif
