/* SPDX-License-Identifier: MIT
 *
 * pools/treiber.c (L3) - a stack of idle objects whose top is one word; any number of threads.
 *
 *   head | tag 32 | index 32 |        idle, newest first        vacant | tag | index |
 *                     |                                                          |
 *                     v   next          next                                     v   next
 *   nodes [ - ][ object | 2 ][ object | 0 ][ . . . ]     nodes without objects [ . | 4 ] ...
 *                  1            2                                               3
 *
 * Stands for Treiber's stack ("Systems programming: coping with parallelism", 1986) as ck_stack,
 * DPDK's rte_stack_lf and Boost.Lockfree's stack have it: one compare-and-swap to pop, one to push.
 * An object gets a node when it is made and keeps it while it lives, in a borrower's hands too: its
 * handle is the node's index. So a hit never visits the list of vacant nodes, which rte_stack_lf
 * and Boost do on every operation. With all nodes taken, acquire makes an object without one
 * (handle 0), which is destroyed at release unless a node has become vacant.
 *
 * backoff: pauses after a lost compare-and-swap, doubling with each one. While the loser stays away
 * the winner keeps the line and does many operations undisturbed; that buys throughput with
 * fairness. retries: after so many lost ones acquire constructs, and release destroys. tag_bits:
 * how wide the tag is. The narrower, the sooner it is the same again, and with 0 it never moves:
 * then objects get lost and are handed out twice, which is what it is there to show.
 *
 *              acquire   release
 *   acquire       A         P        A : both compare-and-swap `head`; the loser looks again
 *   release                 A        P : release publishes the object and its node's `next` with
 *                                        the head, acquire reads the head before it looks at them
 *   `object` is a plain word: it changes only while its node is in nobody's list.
 *
 * ABA: a popper reads head = A and A's next = B; others pop A, pop B and push A; the popper's
 * compare-and-swap finds A again and would install B, which somebody holds. The tag, which moves
 * with every change of head, makes it fail, unless exactly 2^tag_bits changes (or a multiple) came
 * between. Nodes stay mapped while the pool lives, so looking at one that was taken is harmless.
 * Progress: lock-free; a thread that stops anywhere stops nobody. Bound: `capacity` idle objects.
 */
#include <stdlib.h>

#include "../memory.h"
#include "../pool.h"
#include "../yield.h"

enum { TREIBER_MOST_PAUSES = 16384 }; /* doubling ends here */
static const uint64_t TREIBER_TAG_ONE = (uint64_t)1 << 32;
static const uint64_t TREIBER_TAG_ALL = (uint64_t)UINT32_MAX << 32;

typedef struct treiber_node {
    PB_ALIGNED void *object; /* NULL: vacant */
    pb_atomic_u32 next;      /* index of the node below; 0: none. Poppers that lose read it too */
} treiber_node;

struct pb_pool {
    PB_ALIGNED pb_atomic_u64 head;   /* tag and index of the newest idle object's node */
    PB_ALIGNED pb_atomic_u64 vacant; /* the same, of nodes without objects; cold */
    PB_ALIGNED uint32_t capacity;    /* constant */
    PB_ALIGNED treiber_node nodes[]; /* [1 + capacity]; index 0 means none */
};

typedef struct treiber_ctx {
    pb_ctx base;
    pb_pool *pool;
    uint64_t tag_mask; /* the bits of head that the tag moves in */
    uint32_t backoff;  /* pauses after the first lost compare-and-swap */
    uint32_t retries;  /* lost ones of one operation that are too many; 0: none is */
} treiber_ctx;

static pb_status treiber_open(pb_pool **pool, const pb_params *params, int threads)
{
    (void)threads;
    const uint32_t capacity = (uint32_t)pb_params_get(params, "capacity");
    pb_pool *p = pb_new_padded(sizeof *p + (1 + (size_t)capacity) * sizeof p->nodes[0]);
    if (!p)
        return PB_NO_MEMORY;
    p->capacity = capacity;
    /* relaxed, all of them: whoever starts the threads publishes the pool */
    for (uint32_t i = 1; i < capacity; i++)
        pb_store_relaxed_u32(&p->nodes[i].next, i + 1);
    pb_store_relaxed_u64(&p->vacant, 1);
    *pool = p;
    return PB_OK;
}

/* By node, not along the list: frees all, also when tag_bits=0 has torn the list. */
static void treiber_close(pb_pool *pool, pb_ctx *ctx)
{
    for (uint32_t i = 1; i <= pool->capacity; i++)
        if (pool->nodes[i].object)
            pb_destroy(ctx, pool->nodes[i].object, ctx->workload->is, ctx->workload->args);
    free(pool);
}

static pb_status treiber_attach(pb_pool *pool, pb_ctx *ctx)
{
    treiber_ctx *self = (treiber_ctx *)ctx;
    const int64_t unused_bits = 32 - pb_params_get(ctx->params, "tag_bits");
    self->pool = pool;
    self->tag_mask = (TREIBER_TAG_ALL >> unused_bits) & TREIBER_TAG_ALL;
    self->backoff = (uint32_t)pb_params_get(ctx->params, "backoff");
    self->retries = (uint32_t)pb_params_get(ctx->params, "retries");
    return PB_OK;
}

static void treiber_detach(pb_pool *pool, pb_ctx *ctx)
{
    (void)pool, (void)ctx; /* a thread owns nothing here */
}

/* Along the list, but no further than it can be: tag_bits=0 may have closed it to a ring. */
static uint64_t treiber_idle(const pb_pool *pool, const pb_ctx *ctx)
{
    uint64_t count = 0;
    /* relaxed: at quiet points */
    uint32_t index = ctx ? 0 : (uint32_t)pb_load_relaxed_u64(&pool->head);
    for (; index != 0 && count <= pool->capacity; count++)
        index = pb_load_relaxed_u32(&pool->nodes[index].next);
    return count;
}

/* Takes the top off a list that `seen`, acquired, says is not empty; false: lost, `seen` is new. */
PB_INLINE bool treiber_try_pop(pb_pool *p, pb_atomic_u64 *head, uint64_t *seen, uint64_t tag_mask)
{
    /* relaxed: who wrote it released it with a head that ours is, or comes after. If the node has
       been taken meanwhile this may be anything: the tag has moved, and we lose */
    const uint32_t next = pb_load_relaxed_u32(&p->nodes[(uint32_t)*seen].next);
    PB_YIELD_POINT();
    /* acquire: pairs with the release in treiber_try_push. Every change of head is a
       read-modify-write, so it pairs with all pushes before, not with the last one only */
    return pb_cas_acquire_u64(head, seen, ((*seen + TREIBER_TAG_ONE) & tag_mask) | next);
}

PB_INLINE bool treiber_try_push(pb_pool *p, pb_atomic_u64 *head, uint64_t *seen, uint64_t tag_mask,
                                uint32_t index)
{
    /* relaxed: published by the release below */
    pb_store_relaxed_u32(&p->nodes[index].next, (uint32_t)*seen);
    PB_YIELD_POINT();
    /* release: pairs with the acquires of head in treiber_acquire and treiber_try_pop; publishes
       the object, its node and `next` */
    return pb_cas_release_u64(head, seen, ((*seen + TREIBER_TAG_ONE) & tag_mask) | index);
}

/* Counts a lost compare-and-swap, the n-th of one operation, and backs off; false: one too many. */
static bool treiber_lost(treiber_ctx *self, uint32_t n, uint32_t *pauses)
{
    self->base.events[PB_RETRIED]++;
    if (n == self->retries)
        return false;
    for (uint32_t i = *pauses; i > 0; i--)
        pb_pause();
    if (*pauses < TREIBER_MOST_PAUSES)
        *pauses *= 2;
    return true;
}

/* After having lost once: the index of an idle object's node; 0: none, or lost too often. */
static PB_COLD uint32_t treiber_pop_again(treiber_ctx *self)
{
    pb_pool *p = self->pool;
    uint32_t pauses = self->backoff;
    for (uint32_t n = 1; treiber_lost(self, n, &pauses); n++) {
        uint64_t seen = pb_load_acquire_u64(&p->head); /* acquire: as in treiber_acquire */
        if ((uint32_t)seen == 0)
            return 0;
        if (treiber_try_pop(p, &p->head, &seen, self->tag_mask))
            return (uint32_t)seen;
    }
    return 0;
}

/* After having lost once; false: lost too often. */
static PB_COLD bool treiber_push_again(treiber_ctx *self, uint32_t index)
{
    pb_pool *p = self->pool;
    uint32_t pauses = self->backoff;
    for (uint32_t n = 1; treiber_lost(self, n, &pauses); n++) {
        uint64_t seen = pb_load_relaxed_u64(&p->head); /* relaxed: as in treiber_release */
        if (treiber_try_push(p, &p->head, &seen, self->tag_mask, index))
            return true;
    }
    return false;
}

/* A node for a new object; 0: all are taken. The list of vacant nodes always has its whole tag. */
static PB_COLD uint32_t treiber_enrol(treiber_ctx *self, void *object)
{
    pb_pool *p = self->pool;
    uint64_t seen = pb_load_acquire_u64(&p->vacant); /* acquire: pairs as head does */
    while ((uint32_t)seen != 0)
        if (treiber_try_pop(p, &p->vacant, &seen, TREIBER_TAG_ALL)) {
            p->nodes[(uint32_t)seen].object = object;
            return (uint32_t)seen;
        }
    return 0;
}

/* The object of a node is gone. */
static PB_COLD void treiber_vacate(treiber_ctx *self, uint32_t index)
{
    pb_pool *p = self->pool;
    p->nodes[index].object = NULL;
    uint64_t seen = pb_load_relaxed_u64(&p->vacant); /* relaxed: a guess for the compare-and-swap */
    while (!treiber_try_push(p, &p->vacant, &seen, TREIBER_TAG_ALL, index))
        continue;
}

/* None was idle, or others were faster too often: a new object, with a node if one is vacant. */
PB_INLINE pb_got treiber_miss(treiber_ctx *self, const pb_functions *w, const pb_args *args)
{
    pb_got got = pb_got_constructed(&self->base, w, args);
    if (PB_LIKELY(got.object != NULL))
        got.handle = treiber_enrol(self, got.object);
    if (got.handle == 0 && got.object)
        self->base.events[PB_TRANSIENT]++;
    return got;
}

PB_INLINE pb_got treiber_acquire(pb_ctx *ctx, const pb_functions *w, const pb_args *args)
{
    treiber_ctx *self = (treiber_ctx *)ctx;
    pb_pool *p = self->pool;
    /* acquire: pairs with the release in treiber_try_push, so the node may be looked at */
    uint64_t seen = pb_load_acquire_u64(&p->head);
    PB_YIELD_POINT();
    uint32_t index = (uint32_t)seen;
    if (PB_LIKELY(index != 0) && PB_UNLIKELY(!treiber_try_pop(p, &p->head, &seen, self->tag_mask)))
        index = treiber_pop_again(self);
    if (PB_UNLIKELY(index == 0))
        return treiber_miss(self, w, args);
    PB_YIELD_POINT();
    void *object = p->nodes[index].object;
    pb_reset_at_acquire(ctx, object, w, args);
    return (pb_got){object, PB_SHARED_HIT, index};
}

PB_INLINE pb_outcome treiber_release(pb_ctx *ctx, const pb_held held, const pb_functions *w,
                                     const pb_args *args)
{
    treiber_ctx *self = (treiber_ctx *)ctx;
    pb_pool *p = self->pool;
    uint32_t index = (uint32_t)held.handle;
    if (PB_UNLIKELY(index == 0))
        index = treiber_enrol(self, held.object);
    if (PB_LIKELY(index != 0)) {
        pb_reset_at_release(ctx, held.object, w, args);
        uint64_t seen = pb_load_relaxed_u64(&p->head); /* relaxed: only its value is used */
        PB_YIELD_POINT();
        if (PB_LIKELY(treiber_try_push(p, &p->head, &seen, self->tag_mask, index)))
            return PB_KEPT;
        if (treiber_push_again(self, index))
            return PB_KEPT;
        treiber_vacate(self, index);
    }
    pb_destroy(ctx, held.object, w, args);
    return PB_DESTROYED;
}

PB_DEFINE_POOL(treiber);
