/* SPDX-License-Identifier: MIT
 *
 * lock.h (L1) - one of the locks of locks/, chosen at run time; many threads.
 *
 * One critical section per thread at a time: the thread's pb_lock_node is its place in the queue of
 * those locks that have one, and keeps the longest wait it has met.
 *
 * The switch is on a value that never changes while the pool lives: one predicted branch, the same
 * for every lock, so that two locks can be compared inside one kernel.
 */
#ifndef PB_LOCK_H
#define PB_LOCK_H

#include "base.h"
#include "lock_node.h"
#include "locks.def"

#define PB_LOCK_KIND(name) PB_LOCK_##name,
typedef enum pb_lock_kind { PB_LOCKS(PB_LOCK_KIND) PB_LOCK_KINDS } pb_lock_kind;
#undef PB_LOCK_KIND

typedef struct pb_lock {
    union {
#define PB_LOCK_STATE(name) name##_state name;
        PB_LOCKS(PB_LOCK_STATE)
#undef PB_LOCK_STATE
    };
} pb_lock;

#define PB_LOCK_CASE(verb, name)           \
    case PB_LOCK_##name:                   \
        name##_##verb(&l->name, argument); \
        break;
#define PB_LOCK_INIT(name)    PB_LOCK_CASE(init, name)
#define PB_LOCK_ACQUIRE(name) PB_LOCK_CASE(acquire, name)
#define PB_LOCK_RELEASE(name) PB_LOCK_CASE(release, name)

/* `backoff`: pauses before the first retry, for locks that back off; the others ignore it. */
PB_INLINE void pb_lock_init(pb_lock *l, pb_lock_kind kind, uint32_t backoff)
{
    const uint32_t argument = backoff;
    switch (kind) {
        PB_LOCKS(PB_LOCK_INIT)
    case PB_LOCK_KINDS:
    default:
        break;
    }
}

PB_INLINE void pb_lock_acquire(pb_lock *l, pb_lock_kind kind, pb_lock_node *me)
{
    pb_lock_node *argument = me;
    switch (kind) {
        PB_LOCKS(PB_LOCK_ACQUIRE)
    case PB_LOCK_KINDS:
    default:
        break;
    }
}

/* By the thread that acquired it, with the same node. */
PB_INLINE void pb_lock_release(pb_lock *l, pb_lock_kind kind, pb_lock_node *me)
{
    pb_lock_node *argument = me;
    switch (kind) {
        PB_LOCKS(PB_LOCK_RELEASE)
    case PB_LOCK_KINDS:
    default:
        break;
    }
}

#endif
