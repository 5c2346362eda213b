/* SPDX-License-Identifier: MIT
 *
 * pools/thread_local.c (L3) - one constructed object per thread, only reset and used. The upper
 * bound.
 *
 *   thread 0: [slot]-> object     thread 1: [slot]-> object    ...
 *
 * Stands for a ThreadLocal singleton. It shows what skipping construction is worth when borrowing
 * costs nothing. Asked for a second object while the first is out, it constructs an unpooled one
 * (outcome "constructed"); of two that come back, the first takes the slot and the other is
 * destroyed, so an object released by another thread is safe as well.
 *
 *              acquire   release
 *   acquire       -         -        - : each thread touches its own slot only
 *   release                 -
 *
 * ABA: nothing is shared. Progress: wait-free, but for construction. Bound: 1 idle object per
 * thread.
 */
#include "../pool.h"

typedef struct thread_local_ctx {
    pb_ctx base;
    void *slot; /* the idle object; NULL while it is out */
} thread_local_ctx;

static pb_status thread_local_open(pb_pool **pool, const pb_params *params, int threads)
{
    (void)params, (void)threads;
    *pool = NULL; /* no shared part */
    return PB_OK;
}

static void thread_local_close(pb_pool *pool, pb_ctx *ctx)
{
    (void)pool, (void)ctx;
}

static pb_status thread_local_attach(pb_pool *pool, pb_ctx *ctx)
{
    (void)pool;
    thread_local_ctx *self = (thread_local_ctx *)ctx;
    self->slot = pb_construct(ctx, ctx->workload->is, ctx->workload->args);
    return self->slot ? PB_OK : PB_NO_MEMORY;
}

static void thread_local_detach(pb_pool *pool, pb_ctx *ctx)
{
    (void)pool;
    thread_local_ctx *self = (thread_local_ctx *)ctx;
    if (self->slot)
        pb_destroy(ctx, self->slot, ctx->workload->is, ctx->workload->args);
    self->slot = NULL;
}

static uint64_t thread_local_idle(const pb_pool *pool, const pb_ctx *ctx)
{
    (void)pool;
    return ctx && ((const thread_local_ctx *)ctx)->slot ? 1 : 0;
}

PB_INLINE pb_got thread_local_acquire(pb_ctx *ctx, const pb_functions *w, const pb_args *args)
{
    thread_local_ctx *self = (thread_local_ctx *)ctx;
    void *object = self->slot;
    if (PB_UNLIKELY(object == NULL))
        return pb_got_constructed(ctx, w, args);
    self->slot = NULL;
    pb_reset_at_acquire(ctx, object, w, args);
    return (pb_got){object, PB_LOCAL_HIT, 0};
}

PB_INLINE pb_outcome thread_local_release(pb_ctx *ctx, const pb_held held, const pb_functions *w,
                                          const pb_args *args)
{
    void *object = held.object;
    thread_local_ctx *self = (thread_local_ctx *)ctx;
    if (PB_UNLIKELY(self->slot != NULL)) {
        pb_destroy(ctx, object, w, args);
        return PB_DESTROYED;
    }
    pb_reset_at_release(ctx, object, w, args);
    self->slot = object;
    return PB_KEPT;
}

PB_DEFINE_POOL(thread_local);
