/* SPDX-License-Identifier: MIT
 *
 * lock.h (L1) - one of the locks of locks/, chosen at run time; many threads.
 *
 * The switch is on a value that never changes while the pool lives: one predicted branch, the same
 * for every lock, so that two locks can be compared inside one kernel.
 */
#ifndef PB_LOCK_H
#define PB_LOCK_H

#include "base.h"
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

#define PB_LOCK_CASE(verb, name) \
    case PB_LOCK_##name:         \
        name##_##verb(&l->name); \
        break;
#define PB_LOCK_INIT(name)    PB_LOCK_CASE(init, name)
#define PB_LOCK_ACQUIRE(name) PB_LOCK_CASE(acquire, name)
#define PB_LOCK_RELEASE(name) PB_LOCK_CASE(release, name)

PB_INLINE void pb_lock_init(pb_lock *l, pb_lock_kind kind)
{
    switch (kind) {
        PB_LOCKS(PB_LOCK_INIT)
    case PB_LOCK_KINDS:
    default:
        break;
    }
}

PB_INLINE void pb_lock_acquire(pb_lock *l, pb_lock_kind kind)
{
    switch (kind) {
        PB_LOCKS(PB_LOCK_ACQUIRE)
    case PB_LOCK_KINDS:
    default:
        break;
    }
}

PB_INLINE void pb_lock_release(pb_lock *l, pb_lock_kind kind)
{
    switch (kind) {
        PB_LOCKS(PB_LOCK_RELEASE)
    case PB_LOCK_KINDS:
    default:
        break;
    }
}

#endif
