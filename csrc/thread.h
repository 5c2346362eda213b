/* SPDX-License-Identifier: MIT
 *
 * thread.h (L1) - native threads on chosen CPUs, and the futex they sleep on.
 */
#ifndef PB_THREAD_H
#define PB_THREAD_H

#include <pthread.h>

#include "atomic.h"
#include "base.h"

/* Starts `body(arg)` on a new thread, pinned to `cpu` from its first instruction; cpu < 0:
   anywhere. PB_SYSTEM when the kernel refuses. */
pb_status pb_thread_start(pthread_t *thread, void *(*body)(void *), void *arg, int cpu);

/* CPUs this process may run on; at least 1. */
int pb_thread_cpus(void);

/* Sleeps while *word is `value`, for at most `timeout_ns` (0: no limit). May return early for no
   reason: the caller re-reads the word. Orders nothing by itself. */
void pb_futex_wait(pb_atomic_u32 *word, uint32_t value, uint64_t timeout_ns);

/* Wakes at most `count` sleepers of *word. */
void pb_futex_wake(pb_atomic_u32 *word, int count);

#endif
