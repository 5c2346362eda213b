/* SPDX-License-Identifier: MIT
 *
 * locks/parking_fair.h (L1) - a queue of sleepers, served in order; many threads, blocking, fair.
 *
 *   tail -------------------------------------> node of the last in line
 *   [holder] next -> [waiting: looks] next -> [waiting: asleep]
 *
 * Stands for ReentrantLock(true) and other locks that hand over in the order of arrival: the queue
 * of mcs.h, in which a waiter looks at its own word for `backoff` pauses and then sleeps on it.
 * Nobody overtakes, hence each hand-over to a sleeper costs a wake-up during which the lock is held
 * by a thread that does not run yet: fairness is dear, and that is a result, not a bug.
 */
#ifndef PB_LOCKS_PARKING_FAIR_H
#define PB_LOCKS_PARKING_FAIR_H

#include "../atomic.h"
#include "../base.h"
#include "../lock_node.h"
#include "../thread.h"
#include "../yield.h"

typedef struct parking_fair_state {
    pb_atomic_ptr tail; /* pb_lock_node of the last in line; NULL: free */
    uint32_t backoff;   /* constant */
} parking_fair_state;

enum { PARKING_FAIR_TURN = 0, PARKING_FAIR_LOOKS = 1, PARKING_FAIR_ASLEEP = 2 };

PB_INLINE void parking_fair_init(parking_fair_state *l, uint32_t backoff)
{
    l->backoff = backoff;
    pb_store_relaxed_ptr(&l->tail, NULL); /* relaxed: published with the pool that holds it */
}

/* Until it is our turn; acquire, each time: pairs with the release in parking_fair_pass, so we see
   the last holder's stores. */
static void parking_fair_await(parking_fair_state *l, pb_lock_node *me)
{
    for (uint32_t i = 0; i < l->backoff; i++) {
        if (pb_load_acquire_u32(&me->waiting) == PARKING_FAIR_TURN)
            return;
        pb_pause();
    }
    /* Fails when our turn has come meanwhile; the loop then sees it. */
    (void)pb_cas_acquire_u32(&me->waiting, PARKING_FAIR_LOOKS, PARKING_FAIR_ASLEEP);
    while (pb_load_acquire_u32(&me->waiting) != PARKING_FAIR_TURN)
        pb_futex_wait(&me->waiting, PARKING_FAIR_ASLEEP, 0);
}

static PB_COLD void parking_fair_wait(parking_fair_state *l, pb_lock_node *before, pb_lock_node *me)
{
    const uint64_t since = pb_now_ns();
    pb_store_relaxed_u32(&me->waiting,
                         PARKING_FAIR_LOOKS); /* relaxed: published by the next line */
    PB_YIELD_POINT();
    /* release: pairs with the acquire in pb_lock_behind, which then may write `waiting` */
    pb_store_release_ptr(&before->next, me);
    parking_fair_await(l, me);
    pb_lock_waited(me, since);
}

PB_INLINE void parking_fair_acquire(parking_fair_state *l, pb_lock_node *me)
{
    /* acquire: pairs with the release in parking_fair_release of a holder without successor;
       release: with the next exchange, whose thread may write our empty `next` */
    pb_lock_node *before = pb_exchange_acq_rel_ptr(&l->tail, me);
    if (PB_UNLIKELY(before != NULL))
        parking_fair_wait(l, before, me);
}

static PB_COLD void parking_fair_pass(pb_lock_node *me)
{
    pb_lock_node *next = pb_lock_behind(me);
    PB_YIELD_POINT();
    /* release: pairs with the acquires in parking_fair_await. From here on `next` may be gone: a
       wake-up needs its address only, and one at an address used anew is one for no reason */
    if (pb_exchange_release_u32(&next->waiting, PARKING_FAIR_TURN) == PARKING_FAIR_ASLEEP)
        pb_futex_wake(&next->waiting, 1);
}

PB_INLINE void parking_fair_release(parking_fair_state *l, pb_lock_node *me)
{
    /* release: pairs with the acquire in parking_fair_acquire. The relaxed peek before it only
       saves a compare-and-swap that must fail */
    if (PB_UNLIKELY(pb_load_relaxed_ptr(&me->next) != NULL ||
                    !pb_cas_release_ptr(&l->tail, me, NULL)))
        parking_fair_pass(me);
}

#endif
