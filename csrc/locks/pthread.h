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

typedef pthread_mutex_t pthread_state;

PB_INLINE void pthread_init(pthread_state *l)
{
    (void)pthread_mutex_init(l, NULL); /* the default kind allocates nothing and cannot fail */
}

PB_INLINE void pthread_acquire(pthread_state *l)
{
    (void)pthread_mutex_lock(l); /* the default kind reports no error we could meet */
}

PB_INLINE void pthread_release(pthread_state *l)
{
    (void)pthread_mutex_unlock(l);
}

#endif
