/* SPDX-License-Identifier: MIT
 *
 * pools/locked.c (L3) - an array of idle objects behind one lock; any number of threads, blocking.
 *
 *   lock | first, count |  [ . . o o o o . . ]      lifo takes the newest, fifo the oldest
 *
 * Stands for "the object pool" of every textbook: ReentrantLock around an ArrayDeque, Apache's
 * apr_reslist, object-pool (Rust). Empty: constructs, outside the lock unless construct=inside,
 * which is what apr_reslist does and makes releases wait for a constructor. Full: destroys what it
 * cannot keep, outside the lock.
 *
 *              acquire   release
 *   acquire       L         L        L : both take the one lock
 *   release                 L
 *
 * ABA: none, every change is made under the lock. Progress: blocking. Bound: `capacity` idle
 * objects, whatever the number of threads.
 */
#include <stdlib.h>

#include "../lock.h"
#include "../memory.h"
#include "../pool.h"
#include "../yield.h"

enum { LOCKED_LIFO, LOCKED_FIFO };

struct pb_pool {
    /* constant */
    pb_lock_kind kind;
    bool fifo;
    bool construct_inside;
    uint64_t capacity;
    void **idle; /* ring of `capacity` entries */
    /* shared, written by every operation: the lock and what it guards travel together */
    PB_ALIGNED pb_lock lock;
    uint64_t first; /* oldest entry of the ring */
    uint64_t count; /* entries in use */
};

PB_APART(struct pb_pool, idle, lock); /* constants stay in every cache */

typedef struct locked_ctx {
    pb_ctx base;
    pb_pool *pool;
} locked_ctx;

static pb_status locked_open(pb_pool **pool, const pb_params *params, int threads)
{
    (void)threads;
    pb_pool *p = pb_new_padded(sizeof *p);
    if (!p)
        return PB_NO_MEMORY;
    p->kind = (pb_lock_kind)pb_params_get(params, "lock");
    p->fifo = pb_params_get(params, "order") == LOCKED_FIFO;
    p->construct_inside = pb_params_get(params, "construct") != 0;
    p->capacity = (uint64_t)pb_params_get(params, "capacity");
    p->idle = pb_new_padded(p->capacity * sizeof *p->idle);
    if (!p->idle) {
        free(p);
        return PB_NO_MEMORY;
    }
    pb_lock_init(&p->lock, p->kind, (uint32_t)pb_params_get(params, "backoff"));
    *pool = p;
    return PB_OK;
}

/* Takes one entry out; count > 0; under the lock. */
PB_INLINE void *locked_take(pb_pool *p)
{
    p->count--;
    PB_YIELD_POINT(); /* an entry that is counted out, and still there */
    uint64_t at = p->first + p->count;
    if (p->fifo) {
        at = p->first;
        p->first = at + 1 == p->capacity ? 0 : at + 1;
    }
    return p->idle[at >= p->capacity ? at - p->capacity : at];
}

/* Puts one entry in; count < capacity; under the lock. */
PB_INLINE void locked_put(pb_pool *p, void *object)
{
    const uint64_t at = p->first + p->count;
    p->idle[at >= p->capacity ? at - p->capacity : at] = object;
    PB_YIELD_POINT(); /* an entry that is there, and not counted */
    p->count++;
}

static void locked_close(pb_pool *pool, pb_ctx *ctx)
{
    while (pool->count > 0)
        pb_destroy(ctx, locked_take(pool), ctx->workload->is, ctx->workload->args);
    free(pool->idle);
    free(pool);
}

static pb_status locked_attach(pb_pool *pool, pb_ctx *ctx)
{
    ((locked_ctx *)ctx)->pool = pool;
    return PB_OK;
}

static void locked_detach(pb_pool *pool, pb_ctx *ctx)
{
    (void)pool, (void)ctx; /* a thread owns nothing here */
}

static uint64_t locked_idle(const pb_pool *pool, const pb_ctx *ctx)
{
    return ctx ? 0 : pool->count;
}

/* The pool was empty: construct, with the lock held or after giving it back. */
PB_INLINE pb_got locked_miss(pb_ctx *ctx, pb_pool *p, const pb_functions *w, const pb_args *args)
{
    if (!p->construct_inside)
        pb_lock_release(&p->lock, p->kind, &ctx->lock_node);
    PB_YIELD_POINT(); /* it may not be empty any more */
    const pb_got got = pb_got_constructed(ctx, w, args);
    if (p->construct_inside)
        pb_lock_release(&p->lock, p->kind, &ctx->lock_node);
    return got;
}

PB_INLINE pb_got locked_acquire(pb_ctx *ctx, const pb_functions *w, const pb_args *args)
{
    pb_pool *p = ((locked_ctx *)ctx)->pool;
    pb_lock_acquire(&p->lock, p->kind, &ctx->lock_node);
    if (PB_UNLIKELY(p->count == 0))
        return locked_miss(ctx, p, w, args);
    void *object = locked_take(p);
    pb_lock_release(&p->lock, p->kind, &ctx->lock_node);
    PB_YIELD_POINT(); /* ours, and about to be reset */
    pb_reset_at_acquire(ctx, object, w, args);
    return (pb_got){object, PB_SHARED_HIT, 0};
}

PB_INLINE pb_outcome locked_release(pb_ctx *ctx, const pb_held held, const pb_functions *w,
                                    const pb_args *args)
{
    void *object = held.object;
    pb_pool *p = ((locked_ctx *)ctx)->pool;
    pb_reset_at_release(ctx, object, w, args);
    PB_YIELD_POINT(); /* reset, and not yet anybody's */
    pb_lock_acquire(&p->lock, p->kind, &ctx->lock_node);
    const bool kept = p->count < p->capacity;
    if (PB_LIKELY(kept))
        locked_put(p, object);
    pb_lock_release(&p->lock, p->kind, &ctx->lock_node);
    if (PB_LIKELY(kept))
        return PB_KEPT;
    PB_YIELD_POINT(); /* there may be room again */
    pb_destroy(ctx, object, w, args);
    return PB_DESTROYED;
}

PB_DEFINE_POOL(locked);
