/* SPDX-License-Identifier: MIT
 *
 * pools/slot_scan.c (L3) - an array of slots, each empty or holding one object; any number of
 * threads.
 *
 *   [ o . o o . . . o ]       taken from, and put into, the first slot that will do:
 *     ^ fast   -> scan        first the thread's fast slot, then the others in their order
 *
 * Stands for .NET's DefaultObjectPool (Microsoft.Extensions.ObjectPool, src/DefaultObjectPool.cs
 * until a queue took the array's place) and Roslyn's pool before it: one fast slot, then an array,
 * a compare-and-swap for each. HikariCP scans its shared list of connections the same way. With few
 * objects out the fast slot is all there is to see; but an acquire looks through everything when
 * the array is empty and a release when it is full, so that either costs O(capacity), and objects
 * that many threads leave scattered make everybody search.
 *
 * start=zero: slot 0 is the fast slot of all threads, as in .NET. start=hash: a slot chosen by the
 * thread's index, where its scan begins; it goes on past the end to the beginning. padded=1: slots
 * a sharing distance apart; else 8 bytes, where neighbours of one cache line disturb each other.
 *
 *              acquire   release
 *   acquire       C         C        C : one compare-and-swap of a slot decides; who loses it goes
 *   release                 C            on to the next slot
 *
 * ABA: a slot that was emptied and filled between the look and the compare-and-swap, even with the
 * same object, gives what it holds now: nothing else was read through what was seen before.
 * Progress: wait-free, but for construction: each slot is tried once. Bound: `capacity` idle
 * objects, whatever the number of threads.
 */
#include <stdlib.h>

#include "../memory.h"
#include "../pool.h"
#include "../yield.h"

enum { SLOT_SCAN_ZERO, SLOT_SCAN_HASH };

struct pb_pool {
    /* all constant; the slots are what threads share */
    pb_atomic_ptr *slots;
    size_t apart; /* from one slot to the next, in words */
    size_t capacity;
    bool hash;
};

typedef struct slot_scan_ctx {
    pb_ctx base;
    pb_atomic_ptr *fast; /* where this thread looks first; all constant */
    pb_atomic_ptr *first;
    pb_atomic_ptr *end;
    size_t apart;
} slot_scan_ctx;

static pb_status slot_scan_open(pb_pool **pool, const pb_params *params, int threads)
{
    (void)threads;
    pb_pool *p = pb_new_padded(sizeof *p);
    if (!p)
        return PB_NO_MEMORY;
    p->capacity = (size_t)pb_params_get(params, "capacity");
    p->hash = pb_params_get(params, "start") == SLOT_SCAN_HASH;
    p->apart = pb_params_get(params, "padded") ? PB_SHARING / sizeof *p->slots : 1;
    p->slots = pb_new_padded(p->capacity * p->apart * sizeof *p->slots);
    if (!p->slots) {
        free(p);
        return PB_NO_MEMORY;
    }
    *pool = p;
    return PB_OK;
}

static void slot_scan_close(pb_pool *pool, pb_ctx *ctx)
{
    for (size_t i = 0; i < pool->capacity; i++) {
        void *object =
            pb_load_relaxed_ptr(pool->slots + i * pool->apart); /* relaxed: all is over */
        if (object)
            pb_destroy(ctx, object, ctx->workload->is, ctx->workload->args);
    }
    free(pool->slots);
    free(pool);
}

/* Spread over 0 ... capacity-1, neighbours far apart: multiples of the golden ratio. */
static size_t slot_scan_hash(int index, size_t capacity)
{
    const uint32_t hash = (uint32_t)index * 2654435769u;
    return (size_t)(((uint64_t)hash * capacity) >> 32);
}

static pb_status slot_scan_attach(pb_pool *pool, pb_ctx *ctx)
{
    slot_scan_ctx *self = (slot_scan_ctx *)ctx;
    const size_t start = pool->hash ? slot_scan_hash(ctx->index, pool->capacity) : 0;
    self->apart = pool->apart;
    self->first = pool->slots;
    self->end = pool->slots + pool->capacity * pool->apart;
    self->fast = pool->slots + start * pool->apart;
    return PB_OK;
}

static void slot_scan_detach(pb_pool *pool, pb_ctx *ctx)
{
    (void)pool, (void)ctx; /* a thread owns nothing here */
}

static uint64_t slot_scan_idle(const pb_pool *pool, const pb_ctx *ctx)
{
    uint64_t idle = 0;
    for (size_t i = 0; !ctx && i < pool->capacity; i++) /* relaxed: nobody else is here */
        idle += pb_load_relaxed_ptr(pool->slots + i * pool->apart) != NULL;
    return idle;
}

/* What the slot holds, or NULL when it holds nothing or another thread was faster. */
PB_INLINE void *slot_scan_take(pb_ctx *ctx, pb_atomic_ptr *slot)
{
    void *object = pb_load_relaxed_ptr(slot); /* relaxed: only whether it is worth the try */
    if (object == NULL)
        return NULL;
    PB_YIELD_POINT();
    if (PB_LIKELY(pb_cas_acquire_ptr(slot, object, NULL))) /* acquire: pairs with slot_scan_put */
        return object;
    ctx->events[PB_RETRIED]++;
    return NULL;
}

/* False when the slot holds something, or now does because another thread was faster. */
PB_INLINE bool slot_scan_put(pb_ctx *ctx, pb_atomic_ptr *slot, void *object)
{
    if (pb_load_relaxed_ptr(slot) != NULL) /* relaxed: as above */
        return false;
    PB_YIELD_POINT();
    if (PB_LIKELY(pb_cas_release_ptr(slot, NULL, object))) /* release: pairs with slot_scan_take */
        return true;
    ctx->events[PB_RETRIED]++;
    return false;
}

/* The slots from `slot` up to `end`. The loops are this pool's cost: nothing else is in them. */
PB_INLINE void *slot_scan_find(slot_scan_ctx *self, pb_atomic_ptr *slot, const pb_atomic_ptr *end)
{
    for (const size_t apart = self->apart; slot != end; slot += apart) {
        void *object = slot_scan_take(&self->base, slot);
        if (object != NULL)
            return object;
    }
    return NULL;
}

PB_INLINE bool slot_scan_place(slot_scan_ctx *self, pb_atomic_ptr *slot, const pb_atomic_ptr *end,
                               void *object)
{
    for (const size_t apart = self->apart; slot != end; slot += apart)
        if (slot_scan_put(&self->base, slot, object))
            return true;
    return false;
}

/* All slots but the fast one: those behind it, then those before it. */
static PB_NOINLINE void *slot_scan_search(slot_scan_ctx *self)
{
    void *object = slot_scan_find(self, self->fast + self->apart, self->end);
    return object ? object : slot_scan_find(self, self->first, self->fast);
}

static PB_NOINLINE bool slot_scan_place_anywhere(slot_scan_ctx *self, void *object)
{
    return slot_scan_place(self, self->fast + self->apart, self->end, object) ||
           slot_scan_place(self, self->first, self->fast, object);
}

PB_INLINE pb_got slot_scan_acquire(pb_ctx *ctx, const pb_functions *w, const pb_args *args)
{
    slot_scan_ctx *self = (slot_scan_ctx *)ctx;
    void *object = slot_scan_take(ctx, self->fast);
    if (PB_UNLIKELY(object == NULL)) {
        object = slot_scan_search(self);
        if (object == NULL)
            return pb_got_constructed(ctx, w, args);
    }
    pb_reset_at_acquire(ctx, object, w, args);
    return (pb_got){object, PB_SHARED_HIT, 0};
}

PB_INLINE pb_outcome slot_scan_release(pb_ctx *ctx, const pb_held held, const pb_functions *w,
                                       const pb_args *args)
{
    void *object = held.object;
    slot_scan_ctx *self = (slot_scan_ctx *)ctx;
    pb_reset_at_release(ctx, object, w, args);
    if (PB_LIKELY(slot_scan_put(ctx, self->fast, object)) || slot_scan_place_anywhere(self, object))
        return PB_KEPT;
    pb_destroy(ctx, object, w, args);
    return PB_DESTROYED;
}

PB_DEFINE_POOL(slot_scan);
