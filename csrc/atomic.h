/* SPDX-License-Identifier: MIT
 *
 * atomic.h (L0) - atomic words whose operations carry their memory order in the name.
 *
 * There is no way to use the (sequentially consistent) default by accident: the value is wrapped in
 * a struct, so plain =, ++ and the like do not compile. The set of orders in use is one grep.
 * No stand-alone fences: ThreadSanitizer does not see them.
 */
#ifndef PB_ATOMIC_H
#define PB_ATOMIC_H

#include <stdatomic.h>

#include "base.h"

typedef struct pb_atomic_u32 {
    _Atomic(uint32_t) v;
} pb_atomic_u32;

typedef struct pb_atomic_u64 {
    _Atomic(uint64_t) v;
} pb_atomic_u64;

PB_INLINE uint32_t pb_load_relaxed_u32(const pb_atomic_u32 *a)
{
    return atomic_load_explicit(&a->v, memory_order_relaxed);
}

PB_INLINE uint32_t pb_load_acquire_u32(const pb_atomic_u32 *a)
{
    return atomic_load_explicit(&a->v, memory_order_acquire);
}

PB_INLINE void pb_store_relaxed_u32(pb_atomic_u32 *a, uint32_t v)
{
    atomic_store_explicit(&a->v, v, memory_order_relaxed);
}

PB_INLINE void pb_store_release_u32(pb_atomic_u32 *a, uint32_t v)
{
    atomic_store_explicit(&a->v, v, memory_order_release);
}

/* Sequentially consistent: for the one case that weaker orders cannot do, a store that must come
   before a load of another word. Both sides need both; who uses them gives the counter-example. */
PB_INLINE uint32_t pb_load_seq_cst_u32(const pb_atomic_u32 *a)
{
    return atomic_load_explicit(&a->v, memory_order_seq_cst);
}

PB_INLINE void pb_store_seq_cst_u32(pb_atomic_u32 *a, uint32_t v)
{
    atomic_store_explicit(&a->v, v, memory_order_seq_cst);
}

PB_INLINE uint32_t pb_exchange_acquire_u32(pb_atomic_u32 *a, uint32_t v)
{
    return atomic_exchange_explicit(&a->v, v, memory_order_acquire);
}

PB_INLINE uint32_t pb_exchange_release_u32(pb_atomic_u32 *a, uint32_t v)
{
    return atomic_exchange_explicit(&a->v, v, memory_order_release);
}

PB_INLINE uint32_t pb_exchange_acq_rel_u32(pb_atomic_u32 *a, uint32_t v)
{
    return atomic_exchange_explicit(&a->v, v, memory_order_acq_rel);
}

PB_INLINE uint32_t pb_add_relaxed_u32(pb_atomic_u32 *a, uint32_t v)
{
    return atomic_fetch_add_explicit(&a->v, v, memory_order_relaxed);
}

PB_INLINE uint32_t pb_add_acq_rel_u32(pb_atomic_u32 *a, uint32_t v)
{
    return atomic_fetch_add_explicit(&a->v, v, memory_order_acq_rel);
}

/* True when *a was `from` and now is `to`; acquire on success, nothing on failure. */
PB_INLINE bool pb_cas_acquire_u32(pb_atomic_u32 *a, uint32_t from, uint32_t to)
{
    return atomic_compare_exchange_strong_explicit(&a->v, &from, to, memory_order_acquire,
                                                   memory_order_relaxed);
}

PB_INLINE uint64_t pb_load_relaxed_u64(const pb_atomic_u64 *a)
{
    return atomic_load_explicit(&a->v, memory_order_relaxed);
}

PB_INLINE uint64_t pb_load_acquire_u64(const pb_atomic_u64 *a)
{
    return atomic_load_explicit(&a->v, memory_order_acquire);
}

PB_INLINE void pb_store_relaxed_u64(pb_atomic_u64 *a, uint64_t v)
{
    atomic_store_explicit(&a->v, v, memory_order_relaxed);
}

PB_INLINE void pb_store_release_u64(pb_atomic_u64 *a, uint64_t v)
{
    atomic_store_explicit(&a->v, v, memory_order_release);
}

PB_INLINE uint64_t pb_exchange_acq_rel_u64(pb_atomic_u64 *a, uint64_t v)
{
    return atomic_exchange_explicit(&a->v, v, memory_order_acq_rel);
}

PB_INLINE uint64_t pb_add_relaxed_u64(pb_atomic_u64 *a, uint64_t v)
{
    return atomic_fetch_add_explicit(&a->v, v, memory_order_relaxed);
}

PB_INLINE uint64_t pb_add_release_u64(pb_atomic_u64 *a, uint64_t v)
{
    return atomic_fetch_add_explicit(&a->v, v, memory_order_release);
}

/* As above, weak: may fail without reason; *seen is refreshed on failure. Orders nothing. */
PB_INLINE bool pb_cas_relaxed_u64(pb_atomic_u64 *a, uint64_t *seen, uint64_t to)
{
    return atomic_compare_exchange_weak_explicit(&a->v, seen, to, memory_order_relaxed,
                                                 memory_order_relaxed);
}

/* Weak, with acquire on success and on failure: *seen may be looked through. */
PB_INLINE bool pb_cas_acquire_u64(pb_atomic_u64 *a, uint64_t *seen, uint64_t to)
{
    return atomic_compare_exchange_weak_explicit(&a->v, seen, to, memory_order_acquire,
                                                 memory_order_acquire);
}

/* Weak, with release on success; *seen orders nothing on failure. */
PB_INLINE bool pb_cas_release_u64(pb_atomic_u64 *a, uint64_t *seen, uint64_t to)
{
    return atomic_compare_exchange_weak_explicit(&a->v, seen, to, memory_order_release,
                                                 memory_order_relaxed);
}

/* ---- words that hold an object --------------------------------------------------------------- */

typedef struct pb_atomic_ptr {
    _Atomic(void *) v;
} pb_atomic_ptr;

PB_INLINE void *pb_load_relaxed_ptr(const pb_atomic_ptr *a)
{
    return atomic_load_explicit(&a->v, memory_order_relaxed);
}

PB_INLINE void *pb_load_acquire_ptr(const pb_atomic_ptr *a)
{
    return atomic_load_explicit(&a->v, memory_order_acquire);
}

PB_INLINE void pb_store_relaxed_ptr(pb_atomic_ptr *a, void *v)
{
    atomic_store_explicit(&a->v, v, memory_order_relaxed);
}

PB_INLINE void pb_store_release_ptr(pb_atomic_ptr *a, void *v)
{
    atomic_store_explicit(&a->v, v, memory_order_release);
}

PB_INLINE void *pb_exchange_acquire_ptr(pb_atomic_ptr *a, void *v)
{
    return atomic_exchange_explicit(&a->v, v, memory_order_acquire);
}

PB_INLINE void *pb_exchange_acq_rel_ptr(pb_atomic_ptr *a, void *v)
{
    return atomic_exchange_explicit(&a->v, v, memory_order_acq_rel);
}

/* True when *a was `from` and now is `to`; acquire on success: the object may be looked at. */
PB_INLINE bool pb_cas_acquire_ptr(pb_atomic_ptr *a, void *from, void *to)
{
    return atomic_compare_exchange_strong_explicit(&a->v, &from, to, memory_order_acquire,
                                                   memory_order_relaxed);
}

/* As above, release on success: publishes what was stored into the object. */
PB_INLINE bool pb_cas_release_ptr(pb_atomic_ptr *a, void *from, void *to)
{
    return atomic_compare_exchange_strong_explicit(&a->v, &from, to, memory_order_release,
                                                   memory_order_relaxed);
}

#endif
