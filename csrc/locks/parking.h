/* SPDX-License-Identifier: MIT
 *
 * locks/parking.h (L1) - back off for a while, then sleep on a futex; many threads, blocking.
 *
 *   state: 0 free, 1 held, 2 held and somebody may sleep
 *
 * Stands for the monitors of managed runtimes: barging (whoever runs takes it), a short spin, then
 * parking. The word protocol is the third mutex of Drepper, "Futexes are tricky" (2011); what is
 * ours is the back-off: `backoff` pauses, doubling, before each of four retries. While the waiter
 * stays away the holder keeps the cache line and does many operations undisturbed. That buys
 * throughput with fairness: read thread shares beside every figure of this lock.
 */
#ifndef PB_LOCKS_PARKING_H
#define PB_LOCKS_PARKING_H

#include "../atomic.h"
#include "../base.h"
#include "../lock_node.h"
#include "../thread.h"
#include "../yield.h"

typedef struct parking_state {
    pb_atomic_u32 word;
    uint32_t backoff; /* constant */
} parking_state;

enum { PARKING_FREE = 0, PARKING_HELD = 1, PARKING_SLEEPERS = 2 };
enum { PARKING_RETRIES = 4 };

PB_INLINE void parking_init(parking_state *l, uint32_t backoff)
{
    l->backoff = backoff;
    pb_store_relaxed_u32(&l->word,
                         PARKING_FREE); /* relaxed: published with the pool that holds it */
}

/* Backs off and tries; false when it is time to sleep. */
static bool parking_retry(parking_state *l)
{
    uint32_t pauses = l->backoff;
    for (int retry = 0; retry < PARKING_RETRIES; retry++, pauses *= 2) {
        for (uint32_t i = 0; i < pauses; i++)
            pb_pause();
        /* relaxed peek: only decides whether the CAS is worth its cache miss */
        if (pb_load_relaxed_u32(&l->word) == PARKING_FREE &&
            pb_cas_acquire_u32(&l->word, PARKING_FREE, PARKING_HELD))
            return true;
    }
    return false;
}

static PB_COLD void parking_wait(parking_state *l, pb_lock_node *me)
{
    const uint64_t since = pb_now_ns();
    /* Taking it as SLEEPERS even if nobody sleeps costs one wake call too many, never one too few.
     */
    if (!parking_retry(l))
        while (pb_exchange_acquire_u32(&l->word, PARKING_SLEEPERS) != PARKING_FREE) {
            PB_YIELD_POINT(); /* announced, and not yet asleep */
            pb_futex_wait(&l->word, PARKING_SLEEPERS, 0);
        }
    pb_lock_waited(me, since);
}

PB_INLINE void parking_acquire(parking_state *l, pb_lock_node *me)
{
    /* acquire: pairs with the release in parking_release, so we see the last holder's stores */
    if (PB_UNLIKELY(!pb_cas_acquire_u32(&l->word, PARKING_FREE, PARKING_HELD)))
        parking_wait(l, me);
}

PB_INLINE void parking_release(parking_state *l, pb_lock_node *me)
{
    (void)me;
    /* release: pairs with the acquires in parking_acquire and parking_wait */
    if (PB_UNLIKELY(pb_exchange_release_u32(&l->word, PARKING_FREE) == PARKING_SLEEPERS)) {
        PB_YIELD_POINT(); /* free, and the sleepers do not know */
        pb_futex_wake(&l->word, 1);
    }
}

#endif
