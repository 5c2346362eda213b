/* SPDX-License-Identifier: MIT
 *
 * locks/ticket.h (L1) - draw a number, wait until it is called; many threads, blocking, fair.
 *
 *   drawn  - the next number to draw        served - the number whose turn it is
 *
 * Stands for ck_spinlock_ticket, rte_ticketlock and Linux before 4.2. First in, first out, one
 * atomic add per acquire, a plain store per release; all waiters look at one line. No back-off: the
 * turn of a waiter that looks elsewhere passes nobody else by. With more threads than CPUs the next
 * in line is often not running, and everybody waits for the scheduler to pick just that one: it
 * collapses. That is a result, not a bug.
 */
#ifndef PB_LOCKS_TICKET_H
#define PB_LOCKS_TICKET_H

#include "../atomic.h"
#include "../base.h"
#include "../lock_node.h"

typedef struct ticket_state {
    pb_atomic_u32 drawn;  /* both wrap at 2^32, which is more than threads can wait */
    pb_atomic_u32 served; /* written by the holder alone */
} ticket_state;

PB_INLINE void ticket_init(ticket_state *l, uint32_t backoff)
{
    (void)backoff;
    pb_store_relaxed_u32(&l->drawn, 0); /* relaxed: published with the pool that holds it */
    pb_store_relaxed_u32(&l->served, 0);
}

static PB_COLD void ticket_wait(ticket_state *l, uint32_t mine, pb_lock_node *me)
{
    const uint64_t since = pb_now_ns();
    while (pb_load_acquire_u32(&l->served) != mine) /* acquire: as in ticket_acquire */
        pb_pause();
    pb_lock_waited(me, since);
}

PB_INLINE void ticket_acquire(ticket_state *l, pb_lock_node *me)
{
    /* relaxed: the number says whose turn comes when; what is guarded comes with `served` */
    const uint32_t mine = pb_add_relaxed_u32(&l->drawn, 1);
    /* acquire: pairs with the release in ticket_release, so we see the last holder's stores */
    if (PB_UNLIKELY(pb_load_acquire_u32(&l->served) != mine))
        ticket_wait(l, mine, me);
}

PB_INLINE void ticket_release(ticket_state *l, pb_lock_node *me)
{
    (void)me;
    /* relaxed load: only the holder writes it; release: pairs with the acquires above */
    pb_store_release_u32(&l->served, pb_load_relaxed_u32(&l->served) + 1);
}

#endif
