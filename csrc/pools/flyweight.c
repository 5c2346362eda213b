/* SPDX-License-Identifier: MIT
 *
 * pools/flyweight.c (L3) - one object that everybody uses at the same time; any number of threads.
 *
 *   thread 0 ---.
 *   thread 1 ----> o       acquire hands it out, release does nothing
 *   thread 2 ---'
 *
 * Stands for Java's IntegerCache, interned strings, a compiled regular expression that all requests
 * share: what is immutable in use needs no pool. Only for workloads that say so (PB_SHAREABLE);
 * there is nothing to reset. The first thread that attaches constructs the object; of several that
 * do so at once, one's object stays and the others destroy theirs.
 *
 *              attach   acquire   release
 *   attach       X         -         -       X : one compare-and-swap publishes the object
 *   acquire                -         -       - : each thread has its own pointer to it
 *   release                          -
 *
 * ABA: the pointer changes once, from NULL. Progress: wait-free. Bound: 1 object, which is idle and
 * in everybody's hands; it counts as idle. An object that is not ours (handle 0) is destroyed.
 */
#include <stdlib.h>

#include "../memory.h"
#include "../pool.h"
#include "../yield.h"

struct pb_pool {
    PB_ALIGNED pb_atomic_ptr object; /* NULL until the first thread has attached */
};

typedef struct flyweight_ctx {
    pb_ctx base;
    void *object; /* the one; constant after attach */
} flyweight_ctx;

enum { FLYWEIGHT_HANDLE = 1 };

static pb_status flyweight_open(pb_pool **pool, const pb_params *params, int threads)
{
    (void)params, (void)threads;
    *pool = pb_new_padded(sizeof **pool);
    return *pool ? PB_OK : PB_NO_MEMORY;
}

static void flyweight_close(pb_pool *pool, pb_ctx *ctx)
{
    void *object = pb_load_acquire_ptr(&pool->object);
    if (object)
        pb_destroy(ctx, object, ctx->workload->is, ctx->workload->args);
    free(pool);
}

/* Constructs it, unless somebody is faster; NULL when construction fails. */
static void *flyweight_make(pb_pool *pool, pb_ctx *ctx)
{
    const pb_workload *w = ctx->workload;
    void *mine = pb_construct(ctx, w->is, w->args);
    PB_YIELD_POINT();
    /* release: pairs with the acquires here, in attach and in close; publishes the object */
    if (!mine || pb_cas_release_ptr(&pool->object, NULL, mine))
        return mine;
    pb_destroy(ctx, mine, w->is, w->args);
    return pb_load_acquire_ptr(&pool->object);
}

static pb_status flyweight_attach(pb_pool *pool, pb_ctx *ctx)
{
    flyweight_ctx *self = (flyweight_ctx *)ctx;
    self->object = pb_load_acquire_ptr(&pool->object);
    PB_YIELD_POINT();
    if (!self->object)
        self->object = flyweight_make(pool, ctx);
    return self->object ? PB_OK : PB_NO_MEMORY;
}

static void flyweight_detach(pb_pool *pool, pb_ctx *ctx)
{
    (void)pool, (void)ctx; /* a thread owns nothing here */
}

static uint64_t flyweight_idle(const pb_pool *pool, const pb_ctx *ctx)
{
    /* relaxed: only whether there is one */
    return !ctx && pb_load_relaxed_ptr(&pool->object) ? 1 : 0;
}

PB_INLINE pb_got flyweight_acquire(pb_ctx *ctx, const pb_functions *w, const pb_args *args)
{
    (void)w, (void)args;
    return (pb_got){((flyweight_ctx *)ctx)->object, PB_LOCAL_HIT, FLYWEIGHT_HANDLE};
}

PB_INLINE pb_outcome flyweight_release(pb_ctx *ctx, const pb_held held, const pb_functions *w,
                                       const pb_args *args)
{
    if (PB_LIKELY(held.handle == FLYWEIGHT_HANDLE)) /* known to the compiler where it was kept */
        return PB_KEPT;
    pb_destroy(ctx, held.object, w, args);
    return PB_DESTROYED;
}

PB_DEFINE_POOL(flyweight);
