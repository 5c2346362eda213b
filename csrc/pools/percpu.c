/* SPDX-License-Identifier: MIT
 *
 * pools/percpu.c (L3) - a small stack for each CPU, behind a try-lock; any number of threads.
 *
 *   CPU 0: [ o o . . ]    CPU 1: [ o . . . ]    ...    newest out first
 *   a thread uses the stack of the CPU it runs on now, wherever that is
 *
 * Stands for tcmalloc's per-CPU caches (cpu_cache.h), the per-CPU magazines of libumem and of the
 * kernel slab it comes from, and Linux' per-CPU lists: with many threads to a CPU, as much is idle
 * as CPUs need, not as threads do, and what a CPU takes out is what it has in its cache. A kernel
 * keeps others away by not being preempted, tcmalloc by a restartable sequence, which Linux sends
 * back to its start when it was interrupted: no atomic instruction at all. Such sequences are
 * assembler, so here it is a try-lock: a thread can be preempted inside, or have been moved to
 * another CPU since it looked where it is. The CPU's number is read where those sequences read it,
 * see cpu.h. While nobody is interrupted nobody contends for the lock; but who is preempted inside
 * keeps it until it runs again, and for that long all others on its CPU have to go elsewhere: with
 * several threads to a CPU look at the share of stolen ones.
 *
 * A stack that is taken: the next CPU's is tried, once; else construct, or destroy. One that is
 * empty: steal=1 looks at those of all other CPUs, as tcmalloc does with its caches when one needs
 * more, and tries the ones that seem to have something. One that is full: destroy; there is no
 * shared part behind.
 *
 *              acquire   release
 *   acquire       T         T        T : the try-lock of a shard, see shard.h; who finds it taken
 *   release                 T            goes to the next CPU's
 *
 * ABA: none, every change is made inside a try-lock. Progress: wait-free, but for construction: at
 * most one try at each CPU's stack. Bound: `capacity` idle objects per configured CPU, whatever the
 * number of threads.
 */
#include <stdlib.h>

#include "../cpu.h"
#include "../memory.h"
#include "../pool.h"
#include "../shard.h"

struct pb_pool {
    pb_shards shards; /* constant; one per configured CPU, and they are what threads share */
};

typedef struct percpu_ctx {
    pb_ctx base;
    pb_shard_home home;
    bool steal; /* constant */
} percpu_ctx;

static pb_status percpu_open(pb_pool **pool, const pb_params *params, int threads)
{
    (void)threads;
    pb_pool *p = pb_new_padded(sizeof *p);
    if (!p)
        return PB_NO_MEMORY;
    const uint32_t capacity = (uint32_t)pb_params_get(params, "capacity");
    const pb_status status = pb_shards_open(&p->shards, pb_cpu_configured(), capacity, true);
    if (status != PB_OK)
        free(p);
    else
        *pool = p;
    return status;
}

static void percpu_close(pb_pool *pool, pb_ctx *ctx)
{
    for (void *object; (object = pb_shards_take_out(&pool->shards)) != NULL;)
        pb_destroy(ctx, object, ctx->workload->is, ctx->workload->args);
    pb_shards_close(&pool->shards);
    free(pool);
}

static pb_status percpu_attach(pb_pool *pool, pb_ctx *ctx)
{
    percpu_ctx *self = (percpu_ctx *)ctx;
    self->steal = pb_params_get(ctx->params, "steal") != 0;
    pb_shard_home_by_cpu(&self->home, &pool->shards);
    return PB_OK;
}

static void percpu_detach(pb_pool *pool, pb_ctx *ctx)
{
    (void)pool, (void)ctx; /* a thread owns nothing here */
}

static uint64_t percpu_idle(const pb_pool *pool, const pb_ctx *ctx)
{
    return ctx ? 0 : pb_shards_idle(&pool->shards);
}

/* `own` is empty: takes from the first of the others that has something. */
static PB_NOINLINE void *percpu_steal(percpu_ctx *self, pb_shard *own)
{
    pb_shard_got got = {NULL, PB_SHARD_NO_USE};
    for (pb_shard *s = own; !got.object;) {
        s = pb_shards_after(self->home.row, s);
        if (s == own)
            break;
        if (pb_shard_seems_empty(s))
            continue;
        got = pb_shard_get(s);
        self->base.events[PB_RETRIED] += got.answer == PB_SHARD_TAKEN;
    }
    return got.object;
}

/* `own` is taken: tries the next one. */
static PB_NOINLINE void *percpu_get_beside(percpu_ctx *self, pb_shard *own)
{
    const pb_shard_got got = pb_shard_get(pb_shards_after(self->home.row, own));
    self->base.events[PB_RETRIED] += got.answer == PB_SHARD_TAKEN ? 2 : 1;
    return got.object;
}

/* The same at release; whether the next one has it now. */
static PB_NOINLINE bool percpu_put_beside(percpu_ctx *self, pb_shard *own, void *object)
{
    const pb_shard_answer answer = pb_shard_put(pb_shards_after(self->home.row, own), object);
    self->base.events[PB_RETRIED] += answer == PB_SHARD_TAKEN ? 2 : 1;
    return answer == PB_SHARD_DONE;
}

/* Its own CPU's gave nothing: another CPU's object, or NULL. */
PB_INLINE void *percpu_elsewhere(percpu_ctx *self, pb_shard *own, pb_shard_answer answer)
{
    if (answer == PB_SHARD_TAKEN)
        return percpu_get_beside(self, own);
    return self->steal ? percpu_steal(self, own) : NULL;
}

PB_INLINE pb_got percpu_acquire(pb_ctx *ctx, const pb_functions *w, const pb_args *args)
{
    percpu_ctx *self = (percpu_ctx *)ctx;
    pb_shard *own = pb_shard_home_of(&self->home);
    const pb_shard_got got = pb_shard_get(own);
    if (PB_LIKELY(got.answer == PB_SHARD_DONE)) {
        pb_reset_at_acquire(ctx, got.object, w, args);
        return (pb_got){got.object, PB_SHARED_HIT, 0};
    }
    void *object = percpu_elsewhere(self, own, got.answer);
    if (object == NULL)
        return pb_got_constructed(ctx, w, args);
    pb_reset_at_acquire(ctx, object, w, args);
    return (pb_got){object, PB_STOLEN, 0};
}

PB_INLINE pb_outcome percpu_release(pb_ctx *ctx, const pb_held held, const pb_functions *w,
                                    const pb_args *args)
{
    void *object = held.object;
    percpu_ctx *self = (percpu_ctx *)ctx;
    pb_reset_at_release(ctx, object, w, args);
    pb_shard *own = pb_shard_home_of(&self->home);
    const pb_shard_answer answer = pb_shard_put(own, object);
    if (PB_LIKELY(answer == PB_SHARD_DONE))
        return PB_KEPT;
    if (answer == PB_SHARD_TAKEN && percpu_put_beside(self, own, object))
        return PB_KEPT;
    pb_destroy(ctx, object, w, args);
    return PB_DESTROYED;
}

PB_DEFINE_POOL(percpu);
