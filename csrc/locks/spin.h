/* SPDX-License-Identifier: MIT
 *
 * locks/spin.h (L1) - test and test-and-set; many threads, blocking, never sleeps.
 *
 *   state: 0 free, 1 held
 *
 * Stands for the spin locks of textbooks and of user-space libraries (ck_spinlock_fas,
 * rte_spinlock, abseil's before it sleeps). A waiter backs off for `backoff` pauses, doubling up to
 * 16 times that, then looks until the lock is free before it tries again (Anderson, "The
 * performance of spin lock alternatives", 1990). Unfair: whoever looks first takes it. It never
 * gives up its CPU, so with more threads than CPUs a holder that lost its own is waited for until
 * the scheduler comes round: that is a result, not a bug.
 */
#ifndef PB_LOCKS_SPIN_H
#define PB_LOCKS_SPIN_H

#include "../atomic.h"
#include "../base.h"
#include "../lock_node.h"

typedef struct spin_state {
    pb_atomic_u32 word;
    uint32_t backoff; /* constant */
} spin_state;

enum { SPIN_FREE = 0, SPIN_HELD = 1 };
enum { SPIN_DOUBLINGS = 4 };

PB_INLINE void spin_init(spin_state *l, uint32_t backoff)
{
    l->backoff = backoff;
    pb_store_relaxed_u32(&l->word, SPIN_FREE); /* relaxed: published with the pool that holds it */
}

static PB_COLD void spin_wait(spin_state *l, pb_lock_node *me)
{
    const uint64_t since = pb_now_ns();
    const uint32_t most = l->backoff << SPIN_DOUBLINGS;
    uint32_t pauses = l->backoff;
    do {
        for (uint32_t i = 0; i < pauses; i++)
            pb_pause();
        pauses = pauses < most ? pauses * 2 : most;
        /* relaxed: only decides when an exchange is worth its cache miss */
        while (pb_load_relaxed_u32(&l->word) != SPIN_FREE)
            pb_pause();
    } while (pb_exchange_acquire_u32(&l->word, SPIN_HELD) != SPIN_FREE);
    pb_lock_waited(me, since);
}

PB_INLINE void spin_acquire(spin_state *l, pb_lock_node *me)
{
    /* acquire: pairs with the release in spin_release, so we see the last holder's stores */
    if (PB_UNLIKELY(pb_exchange_acquire_u32(&l->word, SPIN_HELD) != SPIN_FREE))
        spin_wait(l, me);
}

PB_INLINE void spin_release(spin_state *l, pb_lock_node *me)
{
    (void)me;
    /* release: pairs with the acquires in spin_acquire and spin_wait */
    pb_store_release_u32(&l->word, SPIN_FREE);
}

#endif
