/* SPDX-License-Identifier: MIT
 *
 * pools/stealing.c (L3) - a slot and rings of idle objects per thread; who finds nothing steals
 * the oldest of somebody else's.
 *
 *   thread 0:  private o   ring  tail > . o o o . < head       thread 1:  private .   ring . . .
 *                            others steal here   the owner pushes and pops here
 *   the generation before:  private .   ring  . . o o . .      used last, then dropped
 *
 * Stands for Go's sync.Pool (pool.go and poolqueue.go in its package sync): private slot, own ring
 * newest first, other threads' rings oldest first, then all of that again in the generation before,
 * then construct. A ring that is full is followed by one twice as long, up to `ring_max` (Go:
 * 2^30), and not filled again.
 *
 * Ageing. Go's collector moves every pool to the generation before and drops what was there. Here
 * nothing stops the world: there is one epoch, counted up every `epoch_ms` of run time and every
 * `epoch_bytes` of objects constructed (Go: of anything allocated; 4 MiB is its smallest heap); a
 * thread looks at one word per operation, and when that has moved, its own current generation
 * becomes the one before, and what that was is destroyed. An object is dropped when two epochs
 * have begun since its release, and not before. The rings of a thread that slept through two epochs
 * are emptied, from their tails, by the first thread to see an epoch; its two slots nobody can
 * touch. With epoch_ms, epochs of bytes are seen when the tick moves.
 *
 * A thread that leaves puts its slots into its rings; they stay to be stolen from, age, and are
 * taken over by the next thread that comes, as a processor of Go's is. Rings stay mapped until the
 * pool closes.
 *
 *              acquire   release   steal    leave
 *   acquire       -         -        C        -      C : ends of a chain of rings: chain.h
 *   release                 -        C        -      X : `taken`, release, acquire by the next
 *   steal                            C        -
 *   leave                                     X
 *
 * ABA: none of its own; see chain.h. Progress: own operations wait-free but for swaps lost to
 * thieves; stealing is lock-free; but for construction and growth. Bound: idle objects, for each
 * thread that there was at once, two slots and two generations of rings, all rings up to `ring_max`
 * together: below 2 + 4 x ring_max.
 */
#include <stdlib.h>

#include "../chain.h"
#include "../memory.h"
#include "../pool.h"
#include "../yield.h"

typedef struct stealing_local stealing_local;
struct stealing_local {
    PB_ALIGNED stealing_local *next; /* in the pool's list; constant */
    pb_atomic_u32 taken;             /* 1: some thread's */
    pb_atomic_u32 epoch;             /* that its owner has seen */
    pb_chain chain[2];               /* of epoch e: e & 1; the other is the one before's */
};

struct pb_pool {
    /* constant */
    uint64_t epoch_bytes, epoch_ms;  /* 0: never */
    uint32_t first;                  /* slots of the first ring */
    uint32_t levels;                 /* rings of a chain, at most */
    PB_ALIGNED pb_atomic_ptr locals; /* all there ever were */
    PB_ALIGNED pb_atomic_u32 epoch;  /* looked at by each operation, moved once per epoch */
    PB_ALIGNED pb_atomic_u32 began;  /* the tick at which the last epoch_ms began */
    pb_atomic_u32 trimmed;           /* the last epoch whose sleepers were trimmed */
    PB_ALIGNED pb_atomic_u64 bytes;  /* constructed, in all threads; each adds now and then */
};

typedef struct stealing_ctx {
    pb_ctx base;
    const pb_atomic_u32 *watched; /* the tick or the epoch: which ever moves more often */
    uint32_t seen;                /* what it was */
    uint32_t epoch;               /* of the objects released now */
    void *private;                /* idle, or NULL */
    void *aged;                   /* what `private` was at the end of the epoch before, or NULL */
    stealing_local *local;
    uint64_t bytes;   /* constructed, not yet added to the pool's */
    uint64_t quantum; /* how many may be */
    uint64_t each;    /* bytes an object counts for; constant */
    pb_pool *pool;
} stealing_ctx;

/* ---- ageing ---------------------------------------------------------------------------------- */

/* The one after `local` in the list, which is a circle for those who walk it. */
PB_INLINE stealing_local *stealing_after(const pb_pool *pool, const stealing_local *local)
{
    /* acquire: pairs with the release in stealing_new_local */
    return local->next ? local->next : pb_load_acquire_ptr(&pool->locals);
}

static void stealing_drop(pb_ctx *ctx, void *object)
{
    if (!object)
        return;
    pb_destroy(ctx, object, ctx->workload->is, ctx->workload->args);
    ctx->events[PB_AGED]++;
}

static void stealing_drop_chain(pb_ctx *ctx, pb_chain *chain)
{
    for (void *object; (object = pb_chain_oldest(ctx, chain)) != NULL;)
        stealing_drop(ctx, object);
}

/* What was current becomes the generation before, if only one epoch has passed; what is older is
   dropped. */
static void stealing_rotate(stealing_ctx *self, uint32_t epoch)
{
    pb_ctx *ctx = &self->base;
    stealing_local *local = self->local;
    const bool one = epoch - self->epoch == 1;
    stealing_drop(ctx, self->aged);
    stealing_drop_chain(ctx, &local->chain[(self->epoch + 1) & 1]);
    if (!one) {
        stealing_drop(ctx, self->private);
        stealing_drop_chain(ctx, &local->chain[self->epoch & 1]);
    }
    self->aged = one ? self->private : NULL;
    self->private = NULL;
    self->epoch = epoch;
    PB_YIELD_POINT();
    /* relaxed: decides how old others take the rings to be; taking from them is always safe */
    pb_store_relaxed_u32(&local->epoch, epoch);
}

/* Whether a thread has not come by since two epochs: all it released is due. */
PB_INLINE bool stealing_slept(const stealing_local *local, uint32_t epoch)
{
    const uint32_t behind = epoch - pb_load_relaxed_u32(&local->epoch);
    return behind >= 2 && behind <= UINT32_MAX / 2; /* not one that is ahead */
}

/* Empties the rings of threads that sleep; one that wakes up meanwhile does its own. */
static void stealing_trim(stealing_ctx *self)
{
    stealing_local *local = self->local;
    while ((local = stealing_after(self->pool, local)) != self->local)
        for (int i = 0; i < 2; i++)
            for (void *object; stealing_slept(local, self->epoch);) {
                PB_YIELD_POINT();
                if ((object = pb_chain_oldest(&self->base, &local->chain[i])) == NULL)
                    break;
                stealing_drop(&self->base, object);
            }
}

/* Begins as many epochs as have passed on the tick; whoever sees it first. */
static void stealing_count_time(const stealing_ctx *self)
{
    pb_pool *pool = self->pool;
    const uint32_t began = pb_load_relaxed_u32(&pool->began);
    const uint32_t passed = self->seen - began;
    if (passed > UINT32_MAX / 2 || passed < pool->epoch_ms) /* the former: others are ahead */
        return;
    const uint32_t epochs = passed / (uint32_t)pool->epoch_ms;
    PB_YIELD_POINT();
    /* acquire: no need, but no weaker one is */
    if (pb_cas_acquire_u32(&pool->began, began, began + epochs * (uint32_t)pool->epoch_ms))
        (void)pb_add_relaxed_u32(&pool->epoch, epochs); /* relaxed: an epoch orders nothing */
}

/* Adds what this thread constructed; whoever crosses a multiple of epoch_bytes begins an epoch. */
static PB_COLD void stealing_count_bytes(stealing_ctx *self)
{
    pb_pool *pool = self->pool;
    const uint64_t before = pb_add_relaxed_u64(&pool->bytes, self->bytes);
    if (before / pool->epoch_bytes != (before + self->bytes) / pool->epoch_bytes)
        (void)pb_add_relaxed_u32(&pool->epoch, 1); /* relaxed: an epoch orders nothing */
    self->bytes = 0;
}

/* The watched word has moved. */
static PB_COLD void stealing_turn(stealing_ctx *self)
{
    pb_pool *pool = self->pool;
    self->seen = pb_load_relaxed_u32(self->watched);
    if (pool->epoch_ms > 0)
        stealing_count_time(self);
    const uint32_t epoch = pb_load_relaxed_u32(&pool->epoch);
    if (epoch == self->epoch)
        return;
    stealing_rotate(self, epoch);
    const uint32_t trimmed = pb_load_relaxed_u32(&pool->trimmed);
    if (trimmed != epoch && pb_cas_acquire_u32(&pool->trimmed, trimmed, epoch))
        stealing_trim(self);
}

/* At the beginning of each operation. relaxed: says only that time, or memory, has passed. */
PB_INLINE void stealing_look(stealing_ctx *self)
{
    if (PB_UNLIKELY(pb_load_relaxed_u32(self->watched) != self->seen))
        stealing_turn(self);
}

/* ---- the pool and its threads ---------------------------------------------------------------- */

/* The power of two that is at least `n`. */
static uint32_t stealing_rounded(int64_t n)
{
    uint32_t rounded = 1;
    while (rounded < n)
        rounded *= 2;
    return rounded;
}

static pb_status stealing_open(pb_pool **pool, const pb_params *params, int threads)
{
    (void)threads;
    pb_pool *p = pb_new_padded(sizeof *p);
    if (!p)
        return PB_NO_MEMORY;
    p->epoch_ms = (uint64_t)pb_params_get(params, "epoch_ms");
    p->epoch_bytes = (uint64_t)pb_params_get(params, "epoch_bytes");
    p->first = stealing_rounded(pb_params_get(params, "ring"));
    const uint32_t most = stealing_rounded(pb_params_get(params, "ring_max"));
    for (uint64_t slots = p->first; p->levels == 0 || slots <= most; slots *= 2)
        p->levels++;
    *pool = p;
    return PB_OK;
}

static void stealing_free_local(stealing_local *local)
{
    for (int i = 0; i < 2; i++)
        for (int level = 0; level < PB_CHAIN_LEVELS; level++)
            free(pb_load_relaxed_ptr(&local->chain[i].ring[level]));
    free(local);
}

static void stealing_close(pb_pool *pool, pb_ctx *ctx)
{
    stealing_local *local = pb_load_acquire_ptr(&pool->locals);
    while (local) {
        stealing_local *gone = local;
        local = local->next;
        for (int i = 0; i < 2; i++)
            for (void *object; (object = pb_chain_oldest(ctx, &gone->chain[i])) != NULL;)
                pb_destroy(ctx, object, ctx->workload->is, ctx->workload->args);
        stealing_free_local(gone);
    }
    free(pool);
}

static bool stealing_begin(const pb_pool *pool, pb_chain *chain)
{
    chain->first = pool->first;
    chain->levels = pool->levels;
    return pb_chain_grow(chain, 0);
}

static stealing_local *stealing_new_local(pb_pool *pool)
{
    stealing_local *local = pb_new_padded(sizeof *local);
    if (!local)
        return NULL;
    if (!stealing_begin(pool, &local->chain[0]) || !stealing_begin(pool, &local->chain[1])) {
        stealing_free_local(local);
        return NULL;
    }
    pb_store_relaxed_u32(&local->taken, 1); /* relaxed, like the next: published below */
    pb_store_relaxed_u32(&local->epoch, pb_load_relaxed_u32(&pool->epoch));
    do {
        /* acquire: we shall walk on from here without another look at the list's head */
        local->next = pb_load_acquire_ptr(&pool->locals);
        PB_YIELD_POINT();
        /* release: pairs with that, and with the acquires of all who walk the list */
    } while (!pb_cas_release_ptr(&pool->locals, local->next, local));
    return local;
}

/* One that a thread left, with what is in it, or a new one; NULL: no memory. */
static stealing_local *stealing_take_local(pb_pool *pool)
{
    stealing_local *local = pb_load_acquire_ptr(&pool->locals);
    /* relaxed: a look; acquire: pairs with the release in detach */
    while (local &&
           (pb_load_relaxed_u32(&local->taken) || !pb_cas_acquire_u32(&local->taken, 0, 1)))
        local = local->next;
    return local ? local : stealing_new_local(pool);
}

static pb_status stealing_attach(pb_pool *pool, pb_ctx *ctx)
{
    stealing_ctx *self = (stealing_ctx *)ctx;
    const pb_args *args = ctx->workload->args;
    self->local = stealing_take_local(pool);
    if (!self->local)
        return PB_NO_MEMORY;
    self->pool = pool;
    self->private = self->aged = NULL;
    self->epoch = pb_load_relaxed_u32(&self->local->epoch);
    self->watched = pool->epoch_ms > 0 ? &ctx->control->tick : &pool->epoch;
    self->each = args->predicted > args->size ? args->predicted : args->size;
    self->each += self->each == 0; /* of unknown size: each counts as something */
    self->bytes = 0;
    self->quantum = pool->epoch_bytes > 0 ? pool->epoch_bytes / 64 + 1 : UINT64_MAX;
    stealing_turn(self);
    return PB_OK;
}

/* What lies in a slot stays stealable, if there is room. */
static void stealing_leave(stealing_ctx *self, pb_chain *chain, void *object)
{
    if (object && !pb_chain_push(&self->base, chain, object))
        pb_destroy(&self->base, object, self->base.workload->is, self->base.workload->args);
}

static void stealing_detach(pb_pool *pool, pb_ctx *ctx)
{
    (void)pool;
    stealing_ctx *self = (stealing_ctx *)ctx;
    stealing_local *local = self->local;
    if (!local)
        return;
    stealing_leave(self, &local->chain[self->epoch & 1], self->private);
    stealing_leave(self, &local->chain[(self->epoch + 1) & 1], self->aged);
    self->private = self->aged = NULL;
    self->local = NULL;
    pb_store_release_u32(&local->taken, 0); /* pairs with the acquire in stealing_take_local */
}

static uint64_t stealing_local_idle(const stealing_local *local)
{
    return pb_chain_count(&local->chain[0]) + pb_chain_count(&local->chain[1]);
}

/* NULL: what threads that left have left. */
static uint64_t stealing_idle(const pb_pool *pool, const pb_ctx *ctx)
{
    const stealing_ctx *self = (const stealing_ctx *)ctx;
    if (self)
        return !self->local ? 0
                            : (self->private != NULL) + (self->aged != NULL) +
                                  stealing_local_idle(self->local);
    uint64_t idle = 0;
    const stealing_local *local = pb_load_acquire_ptr(&pool->locals);
    for (; local; local = local->next)
        if (!pb_load_acquire_u32(&local->taken)) /* pairs with the release in detach */
            idle += stealing_local_idle(local);
    return idle;
}

/* ---- acquire --------------------------------------------------------------------------------- */

/* The oldest of what any other thread released in epoch `wanted`, or NULL. */
static void *stealing_steal(stealing_ctx *self, uint32_t wanted)
{
    stealing_local *local = self->local;
    while ((local = stealing_after(self->pool, local)) != self->local) {
        /* relaxed: at worst an object is taken for younger or older than it is */
        const uint32_t ahead = pb_load_relaxed_u32(&local->epoch) - wanted;
        if (ahead > 1)
            continue; /* it has not come so far, or that generation is gone */
        void *object = pb_chain_oldest(&self->base, &local->chain[wanted & 1]);
        if (object)
            return object;
    }
    return NULL;
}

/* In the generation before, of which nothing is put back. */
static pb_got stealing_find_aged(stealing_ctx *self)
{
    const uint32_t before = self->epoch - 1;
    void *object = self->aged;
    self->aged = NULL;
    if (!object)
        object = pb_chain_oldest(&self->base, &self->local->chain[before & 1]);
    if (object)
        return (pb_got){object, PB_LOCAL_HIT, 0};
    return (pb_got){stealing_steal(self, before), PB_STOLEN, 0};
}

/* The private slot was empty. */
static PB_NOINLINE pb_got stealing_find(stealing_ctx *self)
{
    void *object = pb_chain_newest(&self->base, &self->local->chain[self->epoch & 1]);
    if (object)
        return (pb_got){object, PB_LOCAL_HIT, 0};
    object = stealing_steal(self, self->epoch);
    if (object || self->epoch == 0)
        return (pb_got){object, PB_STOLEN, 0};
    return stealing_find_aged(self);
}

PB_INLINE pb_got stealing_search(pb_ctx *ctx, const pb_functions *w, const pb_args *args)
{
    stealing_ctx *self = (stealing_ctx *)ctx;
    const pb_got found = stealing_find(self);
    if (found.object) {
        pb_reset_at_acquire(ctx, found.object, w, args);
        return found;
    }
    self->bytes += self->each;
    if (PB_UNLIKELY(self->bytes >= self->quantum))
        stealing_count_bytes(self);
    return pb_got_constructed(ctx, w, args);
}

PB_INLINE pb_got stealing_acquire(pb_ctx *ctx, const pb_functions *w, const pb_args *args)
{
    stealing_ctx *self = (stealing_ctx *)ctx;
    stealing_look(self);
    void *object = self->private;
    if (PB_UNLIKELY(object == NULL))
        return stealing_search(ctx, w, args);
    self->private = NULL;
    pb_reset_at_acquire(ctx, object, w, args);
    return (pb_got){object, PB_LOCAL_HIT, 0};
}

/* ---- release --------------------------------------------------------------------------------- */

PB_INLINE pb_outcome stealing_release(pb_ctx *ctx, const pb_held held, const pb_functions *w,
                                      const pb_args *args)
{
    stealing_ctx *self = (stealing_ctx *)ctx;
    stealing_look(self);
    pb_reset_at_release(ctx, held.object, w, args);
    if (PB_LIKELY(self->private == NULL)) {
        self->private = held.object;
        return PB_KEPT;
    }
    if (PB_LIKELY(pb_chain_push(&self->base, &self->local->chain[self->epoch & 1], held.object)))
        return PB_KEPT;
    pb_destroy(ctx, held.object, w, args);
    return PB_DESTROYED;
}

PB_DEFINE_POOL(stealing);
