/* SPDX-License-Identifier: MIT
 *
 * locks/pthread.h (L1) - the system's mutex, default kind; many threads, blocking.
 *
 * What most programs use. glibc: one CAS, no spinning, then a futex; unfair (a running thread may
 * overtake sleepers).
 */
#ifndef PB_LOCKS_PTHREAD_H
#define PB_LOCKS_PTHREAD_H

#include <pthread.h>

#include "../base.h"
#include "../lock_node.h"
#include "../yield.h"

typedef pthread_mutex_t pthread_state;

PB_INLINE void pthread_init(pthread_state *l, uint32_t backoff)
{
    (void)backoff;                     /* glibc's default kind does not spin */
    (void)pthread_mutex_init(l, NULL); /* the default kind allocates nothing and cannot fail */
}

static PB_COLD void pthread_wait(pthread_state *l, pb_lock_node *me)
{
    const uint64_t since = pb_now_ns();
    PB_YIELD_POINT();            /* the holder may leave */
    (void)pthread_mutex_lock(l); /* the default kind reports no error we could meet */
    pb_lock_waited(me, since);
}

PB_INLINE void pthread_acquire(pthread_state *l, pb_lock_node *me)
{
    if (PB_UNLIKELY(pthread_mutex_trylock(l) != 0))
        pthread_wait(l, me);
}

PB_INLINE void pthread_release(pthread_state *l, pb_lock_node *me)
{
    (void)me;
    (void)pthread_mutex_unlock(l);
}

#endif
