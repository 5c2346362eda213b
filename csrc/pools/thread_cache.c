/* SPDX-License-Identifier: MIT
 *
 * pools/thread_cache.c (L3) - an array of idle objects per thread, never shared.
 *
 *   thread 0: [ o o o . ]    thread 1: [ o . . . ]    newest out first; full: destroy
 *
 * Stands for thread-local free lists and glibc's tcache. The bound of what zero synchronisation can
 * give; an object released by another thread lands in that thread's array, so in a hand-off the one
 * constructs for ever and the other destroys for ever.
 *
 * trim_ops: after that many acquires, objects that were not needed since the last trim are
 * destroyed: as many as the array never fell below (the low-water mark of Netty's and jemalloc's
 * caches).
 *
 *              acquire   release
 *   acquire       -         -        - : each thread touches its own array only
 *   release                 -
 *
 * ABA: nothing is shared. Progress: wait-free, but for construction. Bound: `cap` idle objects per
 * thread.
 */
#include <stdlib.h>
#include <string.h>

#include "../pool.h"

typedef struct thread_cache_ctx {
    pb_ctx base;
    void **idle;         /* [cap], newest last */
    uint64_t cap;        /* constant */
    uint64_t count;      /* idle objects */
    uint64_t low;        /* the fewest there were since the last trim */
    uint64_t until_trim; /* acquires */
    uint64_t trim_ops;   /* acquires between two trims; UINT64_MAX: never */
} thread_cache_ctx;

static pb_status thread_cache_open(pb_pool **pool, const pb_params *params, int threads)
{
    (void)params, (void)threads;
    *pool = NULL; /* no shared part */
    return PB_OK;
}

static void thread_cache_close(pb_pool *pool, pb_ctx *ctx)
{
    (void)pool, (void)ctx; /* idle objects went with their threads */
}

static pb_status thread_cache_attach(pb_pool *pool, pb_ctx *ctx)
{
    (void)pool;
    thread_cache_ctx *self = (thread_cache_ctx *)ctx;
    const uint64_t trim_ops = (uint64_t)pb_params_get(ctx->params, "trim_ops");
    self->cap = (uint64_t)pb_params_get(ctx->params, "cap");
    self->trim_ops = self->until_trim = trim_ops ? trim_ops : UINT64_MAX;
    self->idle = calloc(self->cap, sizeof *self->idle);
    return self->idle ? PB_OK : PB_NO_MEMORY;
}

static void thread_cache_detach(pb_pool *pool, pb_ctx *ctx)
{
    (void)pool;
    thread_cache_ctx *self = (thread_cache_ctx *)ctx;
    while (self->count > 0)
        pb_destroy(ctx, self->idle[--self->count], ctx->workload->is, ctx->workload->args);
    free(self->idle);
    self->idle = NULL;
}

static uint64_t thread_cache_idle(const pb_pool *pool, const pb_ctx *ctx)
{
    (void)pool;
    return ctx ? ((const thread_cache_ctx *)ctx)->count : 0;
}

/* Destroys the oldest objects: those that have lain below the low-water mark. */
static PB_COLD void thread_cache_trim(thread_cache_ctx *self)
{
    pb_ctx *ctx = &self->base;
    for (uint64_t i = 0; i < self->low; i++)
        pb_destroy(ctx, self->idle[i], ctx->workload->is, ctx->workload->args);
    self->count -= self->low;
    memmove(self->idle, self->idle + self->low, self->count * sizeof *self->idle);
    ctx->events[PB_TRIMMED] += self->low;
    self->low = self->count;
    self->until_trim = self->trim_ops;
}

PB_INLINE pb_got thread_cache_acquire(pb_ctx *ctx, const pb_functions *w, const pb_args *args)
{
    thread_cache_ctx *self = (thread_cache_ctx *)ctx;
    if (PB_UNLIKELY(--self->until_trim == 0))
        thread_cache_trim(self);
    if (PB_UNLIKELY(self->count == 0))
        return pb_got_constructed(ctx, w, args);
    self->count--;
    if (self->count < self->low)
        self->low = self->count;
    void *object = self->idle[self->count];
    pb_reset_at_acquire(ctx, object, w, args);
    return (pb_got){object, PB_LOCAL_HIT, 0};
}

PB_INLINE pb_outcome thread_cache_release(pb_ctx *ctx, const pb_held held, const pb_functions *w,
                                          const pb_args *args)
{
    void *object = held.object;
    thread_cache_ctx *self = (thread_cache_ctx *)ctx;
    if (PB_UNLIKELY(self->count == self->cap)) {
        pb_destroy(ctx, object, w, args);
        return PB_DESTROYED;
    }
    pb_reset_at_release(ctx, object, w, args);
    self->idle[self->count++] = object;
    return PB_KEPT;
}

PB_DEFINE_POOL(thread_cache);
