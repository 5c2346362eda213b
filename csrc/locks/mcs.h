/* SPDX-License-Identifier: MIT
 *
 * locks/mcs.h (L1) - a queue of waiters, each looking at a word of its own; many threads, blocking,
 * fair.
 *
 *   tail --------------------------------> node of the last in line
 *   [holder] next -> [waiting 1] next -> [waiting 1]
 *
 * Mellor-Crummey and Scott, "Algorithms for scalable synchronization on shared-memory
 * multiprocessors" (1991); ck_spinlock_mcs, Linux's mcs_spinlock. First in, first out; a hand-over
 * moves one cache line to one waiter, however many there are. No back-off, and it collapses with
 * more threads than CPUs as ticket does: that is a result, not a bug.
 *
 * Outside the queue a node's `next` is NULL: whoever clears the lock without a successor leaves it
 * so, and who has one empties it before handing over.
 */
#ifndef PB_LOCKS_MCS_H
#define PB_LOCKS_MCS_H

#include "../atomic.h"
#include "../base.h"
#include "../lock_node.h"
#include "../yield.h"

typedef struct mcs_state {
    pb_atomic_ptr tail; /* pb_lock_node of the last in line; NULL: free */
} mcs_state;

PB_INLINE void mcs_init(mcs_state *l, uint32_t backoff)
{
    (void)backoff;
    pb_store_relaxed_ptr(&l->tail, NULL); /* relaxed: published with the pool that holds it */
}

static PB_COLD void mcs_wait(pb_lock_node *before, pb_lock_node *me)
{
    const uint64_t since = pb_now_ns();
    pb_store_relaxed_u32(&me->waiting, 1); /* relaxed: published by the next line */
    PB_YIELD_POINT();
    /* release: pairs with the acquire in pb_lock_behind, which then may write `waiting` */
    pb_store_release_ptr(&before->next, me);
    /* acquire: pairs with the release in mcs_pass, so we see the last holder's stores */
    while (pb_load_acquire_u32(&me->waiting))
        pb_pause();
    pb_lock_waited(me, since);
}

PB_INLINE void mcs_acquire(mcs_state *l, pb_lock_node *me)
{
    /* acquire: pairs with the release in mcs_release of a holder without successor; release: with
       the next exchange, whose thread may write our empty `next` */
    pb_lock_node *before = pb_exchange_acq_rel_ptr(&l->tail, me);
    if (PB_UNLIKELY(before != NULL))
        mcs_wait(before, me);
}

static PB_COLD void mcs_pass(pb_lock_node *me)
{
    pb_lock_node *next = pb_lock_behind(me);
    pb_store_release_u32(&next->waiting, 0); /* release: pairs with the acquire in mcs_wait */
}

PB_INLINE void mcs_release(mcs_state *l, pb_lock_node *me)
{
    /* release: pairs with the acquire in mcs_acquire. The relaxed peek before it only saves a
       compare-and-swap that must fail */
    if (PB_UNLIKELY(pb_load_relaxed_ptr(&me->next) != NULL ||
                    !pb_cas_release_ptr(&l->tail, me, NULL)))
        mcs_pass(me);
}

#endif
