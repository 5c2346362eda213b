/* SPDX-License-Identifier: MIT
 *
 * chain.h (L2) - a chain of rings of objects: its owner works at one end, others take from the
 * other.
 *
 *   ring:   tail > . o o o . < head          chain:  [ 8 ] [ 16 ] [ 32 ]   only the last is pushed
 * to others take here   the owner pushes and takes here
 *
 * The deque of Go's sync.Pool (poolqueue.go): a ring has a fixed size, and a full one is followed
 * by one twice as long. Rings stay mapped as long as the chain.
 *
 *              push    newest   oldest
 *   push         -       -        A/S     A : push is an addition to the head, release; who takes
 * the newest               -         C          oldest reads it with acquire oldest C      C :
 * compare-and-swap on both ends, which are one word S : the slot, which a taker empties after the
 * swap and the owner fills when it is
 *
 * ABA: head and tail are 2 x 32 bits that count up; who slept through exactly 2^32 takings of one
 * ring would be fooled, an equal word otherwise means equal ends, and the object is read after the
 * swap. Progress: the owner's steps are wait-free but for swaps lost to others, and for growth;
 * taking the oldest is lock-free.
 */
#ifndef PB_CHAIN_H
#define PB_CHAIN_H

#include "atomic.h"
#include "base.h"
#include "context.h"
#include "memory.h"
#include "yield.h"

enum { PB_CHAIN_LEVELS = 21 }; /* 1 ... 2^20 slots */

/* One producer, which also takes from the head; any number take from the tail. */
typedef struct pb_ring {
    PB_ALIGNED pb_atomic_u64 ends; /* head << 32 | tail: of all pushes, where the next goes in, and
                                      where the oldest is */
    PB_ALIGNED uint32_t mask;      /* constant; slots - 1 */
    pb_atomic_ptr slot[];          /* NULL: may be filled */
} pb_ring;

/* Rings of one owner, who alone writes these words, and rarely. */
typedef struct pb_chain {
    pb_atomic_u32 oldest, newest; /* rings in use; only the newest is pushed to */
    uint32_t first;               /* slots of the first ring; constant, as is the next */
    uint32_t levels;              /* rings, at most */
    pb_atomic_ptr ring[PB_CHAIN_LEVELS];
} pb_chain;

/* ---- one ring -------------------------------------------------------------------------------- */

enum { PB_RING_SHIFT = 32 };
#define PB_RING_ONE_PUSH ((uint64_t)1 << PB_RING_SHIFT)

PB_INLINE uint32_t pb_ring_head(uint64_t ends)
{
    return (uint32_t)(ends >> PB_RING_SHIFT);
}

PB_INLINE uint32_t pb_ring_tail(uint64_t ends)
{
    return (uint32_t)ends;
}

PB_INLINE uint64_t pb_ring_with_tail(uint64_t ends, uint32_t tail)
{
    return (ends & ~(PB_RING_ONE_PUSH - 1)) | tail;
}

/* By the owner. False: full, or still being emptied by a thief. */
PB_INLINE bool pb_ring_push(pb_ctx *ctx, pb_ring *ring, void *object)
{
    /* relaxed: the head is ours, and an old tail only makes the ring look fuller */
    const uint64_t ends = pb_load_relaxed_u64(&ring->ends);
    if (pb_ring_head(ends) - pb_ring_tail(ends) > ring->mask)
        return false;
    pb_atomic_ptr *slot = &ring->slot[pb_ring_head(ends) & ring->mask];
    /* relaxed: when the thief's NULL is seen, what it read before it in this word it has read */
    if (PB_UNLIKELY(pb_load_relaxed_ptr(slot) != NULL)) {
        ctx->events[PB_FALSE_FULL]++;
        return false;
    }
    pb_store_relaxed_ptr(slot, object); /* relaxed: published by the next step */
    PB_YIELD_POINT();
    /* release: pairs with the acquire in pb_ring_oldest */
    (void)pb_add_release_u64(&ring->ends, PB_RING_ONE_PUSH);
    return true;
}

/* By the owner: the object it pushed last, or NULL. */
PB_INLINE void *pb_ring_newest(pb_ctx *ctx, pb_ring *ring)
{
    uint64_t ends = pb_load_relaxed_u64(&ring->ends);
    for (;;) {
        if (pb_ring_head(ends) == pb_ring_tail(ends))
            return NULL;
        PB_YIELD_POINT();
        /* relaxed: what is in the slot was stored by this thread, or by the one it took over from;
           only against thieves who takes it must be decided */
        if (PB_LIKELY(pb_cas_relaxed_u64(&ring->ends, &ends, ends - PB_RING_ONE_PUSH)))
            break;
        ctx->events[PB_RETRIED]++;
    }
    pb_atomic_ptr *slot = &ring->slot[(pb_ring_head(ends) - 1) & ring->mask];
    void *object = pb_load_relaxed_ptr(slot);
    pb_store_relaxed_ptr(slot, NULL); /* relaxed: only we fill it again */
    return object;
}

/* By anybody: the oldest object, or NULL. */
static PB_NOINLINE void *pb_ring_oldest(pb_ctx *ctx, pb_ring *ring)
{
    uint64_t ends = pb_load_relaxed_u64(&ring->ends); /* relaxed: nothing is looked at through it */
    for (;;) {
        if (pb_ring_head(ends) == pb_ring_tail(ends))
            return NULL;
        PB_YIELD_POINT();
        /* acquire: pairs with the release in pb_ring_push */
        if (PB_LIKELY(pb_cas_acquire_u64(&ring->ends, &ends,
                                         pb_ring_with_tail(ends, pb_ring_tail(ends) + 1))))
            break;
        ctx->events[PB_RETRIED]++;
    }
    pb_atomic_ptr *slot = &ring->slot[pb_ring_tail(ends) & ring->mask];
    PB_YIELD_POINT();
    void *object = pb_load_relaxed_ptr(slot); /* relaxed: ours since the swap */
    PB_YIELD_POINT();
    pb_store_relaxed_ptr(slot, NULL); /* relaxed: see pb_ring_push, which may fill it again */
    return object;
}

/* ---- a chain of rings -------------------------------------------------------------------------
 */

static bool pb_chain_grow(pb_chain *chain, uint32_t level)
{
    const size_t slots = (size_t)chain->first << level;
    pb_ring *ring = pb_new_padded(sizeof *ring + slots * sizeof ring->slot[0]);
    if (!ring)
        return false;
    ring->mask = (uint32_t)slots - 1;
    pb_store_relaxed_ptr(&chain->ring[level], ring);
    /* release: pairs with the acquire in pb_chain_oldest */
    pb_store_release_u32(&chain->newest, level);
    return true;
}

/* By the owner, which alone writes them: relaxed. */
PB_INLINE pb_ring *pb_chain_at(const pb_chain *chain, uint32_t level)
{
    return pb_load_relaxed_ptr(&chain->ring[level]);
}

/* By the owner. False: the longest ring is full, or there is no memory for a longer one. */
static PB_NOINLINE bool pb_chain_push(pb_ctx *ctx, pb_chain *chain, void *object)
{
    const uint32_t newest = pb_load_relaxed_u32(&chain->newest);
    if (PB_LIKELY(pb_ring_push(ctx, pb_chain_at(chain, newest), object)))
        return true;
    if (newest + 1 == chain->levels || !pb_chain_grow(chain, newest + 1))
        return false;
    return pb_ring_push(ctx, pb_chain_at(chain, newest + 1), object);
}

/* By the owner: the newest object, or NULL. */
static void *pb_chain_newest(pb_ctx *ctx, pb_chain *chain)
{
    const uint32_t newest = pb_load_relaxed_u32(&chain->newest);
    const uint32_t oldest = pb_load_relaxed_u32(&chain->oldest);
    for (uint32_t level = newest + 1; level-- > oldest;) {
        void *object = pb_ring_newest(ctx, pb_chain_at(chain, level));
        if (object)
            return object;
    }
    if (oldest != newest) /* nobody pushes to the shorter ones any more: thieves need not look */
        pb_store_relaxed_u32(&chain->oldest, newest);
    return NULL;
}

/* By anybody: the oldest object, or NULL. */
static void *pb_chain_oldest(pb_ctx *ctx, pb_chain *chain)
{
    /* acquire: pairs with the release in pb_chain_grow */
    const uint32_t newest = pb_load_acquire_u32(&chain->newest);
    for (uint32_t level = pb_load_relaxed_u32(&chain->oldest); level <= newest; level++) {
        void *object = pb_ring_oldest(ctx, pb_load_relaxed_ptr(&chain->ring[level]));
        if (object)
            return object;
    }
    return NULL;
}

static uint64_t pb_chain_count(const pb_chain *chain)
{
    uint64_t count = 0;
    for (uint32_t level = 0; level <= pb_load_relaxed_u32(&chain->newest); level++) {
        const uint64_t ends = pb_load_relaxed_u64(&pb_chain_at(chain, level)->ends);
        count += pb_ring_head(ends) - pb_ring_tail(ends);
    }
    return count;
}

#endif
