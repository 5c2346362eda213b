/* SPDX-License-Identifier: MIT
 *
 * pools/fresh.c (L3) - no pool: construct at acquire, destroy at release. The baseline.
 *
 * Stands for malloc/free, new/delete, and every "just allocate it". Any number of threads; whatever
 * synchronisation there is belongs to the allocator and to the object's constructor.
 *
 *              acquire   release
 *   acquire       -         -        - : no synchronisation of ours
 *   release                 -
 *
 * ABA: nothing is shared. Progress: the allocator's. Bound: nothing is retained.
 */
#include "../pool.h"

typedef pb_ctx fresh_ctx;

static pb_status fresh_open(pb_pool **pool, const pb_params *params, int threads)
{
    (void)params, (void)threads;
    *pool = NULL; /* no shared part */
    return PB_OK;
}

static void fresh_close(pb_pool *pool, pb_ctx *ctx)
{
    (void)pool, (void)ctx;
}

static pb_status fresh_attach(pb_pool *pool, pb_ctx *ctx)
{
    (void)pool, (void)ctx;
    return PB_OK;
}

static void fresh_detach(pb_pool *pool, pb_ctx *ctx)
{
    (void)pool, (void)ctx;
}

static uint64_t fresh_idle(const pb_pool *pool, const pb_ctx *ctx)
{
    (void)pool, (void)ctx;
    return 0;
}

PB_INLINE pb_got fresh_acquire(pb_ctx *ctx, const pb_functions *w, const pb_args *args)
{
    return pb_got_constructed(ctx, w, args);
}

PB_INLINE pb_outcome fresh_release(pb_ctx *ctx, const pb_held held, const pb_functions *w,
                                   const pb_args *args)
{
    void *object = held.object;
    pb_destroy(ctx, object, w, args);
    return PB_DESTROYED;
}

PB_DEFINE_POOL(fresh);
