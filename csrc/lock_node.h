/* SPDX-License-Identifier: MIT
 *
 * lock_node.h (L1) - one thread's place in a lock's queue, and the longest wait it has met.
 *
 * Waits are timed in the locks' slow paths only: two clock reads beside a wait that costs more.
 */
#ifndef PB_LOCK_NODE_H
#define PB_LOCK_NODE_H

#include "atomic.h"
#include "base.h"
#include "clock.h"

typedef struct pb_lock_node {
    PB_ALIGNED pb_atomic_ptr next; /* the thread behind this one; for locks that queue */
    pb_atomic_u32 waiting;         /* 1 until the one in front hands the lock over */
    uint64_t longest_wait_ns;      /* owner-written */
    uint8_t pad[PB_SHARING - sizeof(pb_atomic_ptr) - 2 * sizeof(uint64_t)];
} pb_lock_node;

/* The thread behind `me`, who has entered the queue but perhaps not linked itself yet. Leaves
   `next` empty, as every node outside a queue has it. */
static inline pb_lock_node *pb_lock_behind(pb_lock_node *me)
{
    pb_lock_node *behind;
    /* acquire: pairs with the release of the one that links itself; then its words may be written
     */
    while ((behind = pb_load_acquire_ptr(&me->next)) == NULL)
        pb_pause();
    pb_store_relaxed_ptr(&me->next, NULL); /* relaxed: ours until our next turn in a queue */
    return behind;
}

/* Notes a wait that began at `since_ns` on the clock. */
PB_INLINE void pb_lock_waited(pb_lock_node *me, uint64_t since_ns)
{
    const uint64_t waited = pb_now_ns() - since_ns;
    if (waited > me->longest_wait_ns)
        me->longest_wait_ns = waited;
}

#endif
