/* SPDX-License-Identifier: MIT
 *
 * pools/sharded.c (L3) - a row of small stacks behind try-locks; any number of threads.
 *
 *   thread 0 ... 7:  [ o o . . ] [ o . . . ] [ . . . . ] ...       newest out first
 *   shard            0           1           2           thread 8 is at shard 0 again
 *
 * Stands for the pool of regex-automata (Rust, src/util/pool.rs), whose stacks go by the thread's
 * number, 8 of them, a cache line each: nobody ever waits. A shard that is taken is tried once to
 * get and ten times to put (there at once, here with a pause between); then the object is dropped,
 * and one that was constructed because its shard was taken is transient: it is destroyed at
 * release. So contention turns into construction, and the share of releases that destroy is what to
 * look at. .NET's ArrayPool and Netty's arenas are cut up the same way, by core (shard_by=cpu) and
 * by thread, but wait for the lock of a part.
 *
 * get_tries: an acquire that found its shard taken or empty goes on to the next one. It constructs
 * an object of the pool's if it found one empty, and a transient one if all were taken. padded=0:
 * shards 24 bytes apart, several to a cache line.
 *
 *              acquire   release
 *   acquire       T         T        T : the try-lock of a shard, see shard.h; who finds it taken
 *   release                 T            constructs, or destroys
 *
 * ABA: none, every change is made inside a try-lock. Progress: wait-free, but for construction: the
 * tries are counted. Bound: `shards` x `capacity` idle objects, whatever the number of threads.
 */
#include <stdlib.h>

#include "../memory.h"
#include "../pool.h"
#include "../shard.h"

enum { SHARDED_BY_THREAD, SHARDED_BY_CPU };
enum { SHARDED_TRANSIENT = 1 }; /* the handle of an object that is destroyed at release */

struct pb_pool {
    pb_shards shards; /* constant; the shards are what threads share */
    bool by_cpu;      /* constant */
};

typedef struct sharded_ctx {
    pb_ctx base;
    pb_shard_home home;
    uint32_t get_tries; /* constant */
    uint32_t put_tries; /* constant */
} sharded_ctx;

static pb_status sharded_open(pb_pool **pool, const pb_params *params, int threads)
{
    (void)threads;
    pb_pool *p = pb_new_padded(sizeof *p);
    if (!p)
        return PB_NO_MEMORY;
    p->by_cpu = pb_params_get(params, "shard_by") == SHARDED_BY_CPU;
    const pb_status status = pb_shards_open(&p->shards, (uint32_t)pb_params_get(params, "shards"),
                                            (uint32_t)pb_params_get(params, "capacity"),
                                            pb_params_get(params, "padded") != 0);
    if (status != PB_OK)
        free(p);
    else
        *pool = p;
    return status;
}

static void sharded_close(pb_pool *pool, pb_ctx *ctx)
{
    for (void *object; (object = pb_shards_take_out(&pool->shards)) != NULL;)
        pb_destroy(ctx, object, ctx->workload->is, ctx->workload->args);
    pb_shards_close(&pool->shards);
    free(pool);
}

static pb_status sharded_attach(pb_pool *pool, pb_ctx *ctx)
{
    sharded_ctx *self = (sharded_ctx *)ctx;
    self->get_tries = (uint32_t)pb_params_get(ctx->params, "get_tries");
    self->put_tries = (uint32_t)pb_params_get(ctx->params, "put_tries");
    if (pool->by_cpu)
        pb_shard_home_by_cpu(&self->home, &pool->shards);
    else
        pb_shard_home_by_thread(&self->home, &pool->shards, ctx->index);
    return PB_OK;
}

static void sharded_detach(pb_pool *pool, pb_ctx *ctx)
{
    (void)pool, (void)ctx; /* a thread owns nothing here */
}

static uint64_t sharded_idle(const pb_pool *pool, const pb_ctx *ctx)
{
    return ctx ? 0 : pb_shards_idle(&pool->shards);
}

/* The first try, at `s`, came to `got`; here are the others. Taken: they all were. */
static PB_NOINLINE pb_shard_got sharded_search(sharded_ctx *self, pb_shard *s, pb_shard_got got)
{
    bool inside = false;
    for (uint32_t left = self->get_tries - 1;; left--) {
        inside |= got.answer == PB_SHARD_NO_USE;
        self->base.events[PB_RETRIED] += got.answer == PB_SHARD_TAKEN;
        if (left == 0)
            return (pb_shard_got){NULL, inside ? PB_SHARD_NO_USE : PB_SHARD_TAKEN};
        s = pb_shards_after(self->home.row, s);
        got = pb_shard_get(s);
        if (got.answer == PB_SHARD_DONE)
            return got;
    }
}

/* The first try to put, at `s`, found it taken; here are the others. */
static PB_NOINLINE pb_shard_answer sharded_insist(sharded_ctx *self, pb_shard *s, void *object)
{
    pb_shard_answer answer = PB_SHARD_TAKEN;
    for (uint32_t left = self->put_tries - 1;; left--) {
        self->base.events[PB_RETRIED] += answer == PB_SHARD_TAKEN;
        if (left == 0 || answer != PB_SHARD_TAKEN)
            return answer;
        pb_pause();
        answer = pb_shard_put(s, object);
    }
}

/* No idle object was found; `answer` says whether there was none, or nobody could look. */
PB_INLINE pb_got sharded_miss(pb_ctx *ctx, pb_shard_answer answer, const pb_functions *w,
                              const pb_args *args)
{
    pb_got got = pb_got_constructed(ctx, w, args);
    if (answer == PB_SHARD_TAKEN && got.object != NULL) {
        got.handle = SHARDED_TRANSIENT;
        ctx->events[PB_TRANSIENT]++;
    }
    return got;
}

PB_INLINE pb_got sharded_acquire(pb_ctx *ctx, const pb_functions *w, const pb_args *args)
{
    sharded_ctx *self = (sharded_ctx *)ctx;
    pb_shard *s = pb_shard_home_of(&self->home);
    pb_shard_got got = pb_shard_get(s);
    if (PB_UNLIKELY(got.answer != PB_SHARD_DONE)) {
        got = sharded_search(self, s, got);
        if (got.answer != PB_SHARD_DONE)
            return sharded_miss(ctx, got.answer, w, args);
    }
    pb_reset_at_acquire(ctx, got.object, w, args);
    return (pb_got){got.object, PB_SHARED_HIT, 0};
}

PB_INLINE pb_outcome sharded_release(pb_ctx *ctx, const pb_held held, const pb_functions *w,
                                     const pb_args *args)
{
    void *object = held.object;
    sharded_ctx *self = (sharded_ctx *)ctx;
    if (PB_LIKELY(held.handle != SHARDED_TRANSIENT)) {
        pb_reset_at_release(ctx, object, w, args);
        pb_shard *s = pb_shard_home_of(&self->home);
        pb_shard_answer answer = pb_shard_put(s, object);
        if (PB_UNLIKELY(answer == PB_SHARD_TAKEN))
            answer = sharded_insist(self, s, object);
        if (PB_LIKELY(answer == PB_SHARD_DONE))
            return PB_KEPT;
    }
    pb_destroy(ctx, object, w, args);
    return PB_DESTROYED;
}

PB_DEFINE_POOL(sharded);
