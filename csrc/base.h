/* SPDX-License-Identifier: MIT
 *
 * base.h (L0) - what every other file assumes: attributes, distances, status codes, barriers.
 *
 * Nothing here holds state or calls anything. The two barriers are the reason a benchmark of this
 * kind can be trusted at all: the compiler must believe that each object is looked at by somebody.
 */
#ifndef PB_BASE_H
#define PB_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "yield.h"

#define PB_INLINE      static inline __attribute__((always_inline, unused))
#define PB_NOINLINE    __attribute__((noinline))
#define PB_COLD        __attribute__((noinline, cold, unused))
#define PB_LIKELY(x)   __builtin_expect(!!(x), 1)
#define PB_UNLIKELY(x) __builtin_expect(!!(x), 0)

#define PB_CACHELINE 64 /* bytes moved between caches at once */
#define PB_SHARING                                                                   \
    128 /* bytes apart that two threads' words must be: the adjacent-line prefetcher \
           fetches pairs of lines, so 64 is not enough */
#define PB_ALIGNED _Alignas(PB_SHARING)

/* Compiles only if no part of `type` that holds `before` can be fetched along with the beginning of
   `after`: the claim of a drawing, checked beside the struct. Members of a struct that is itself
   PB_ALIGNED, or comes from pb_new_padded. */
#define PB_APART(type, before, after)                                                        \
    _Static_assert((offsetof(type, before) + sizeof(((type *)0)->before) - 1) / PB_SHARING < \
                       offsetof(type, after) / PB_SHARING,                                   \
                   #before " and " #after " of " #type " are too near each other")

/* The same for the elements of an array. */
#define PB_EACH_APART(type)                                                            \
    _Static_assert(sizeof(type) % PB_SHARING == 0 && _Alignof(type) % PB_SHARING == 0, \
                   "two " #type " side by side are too near each other")

/* What a fallible function returns. py_module.c maps each to one Python exception. */
typedef enum pb_status {
    PB_OK = 0,
    PB_BAD_VALUE, /* a name or number the caller must change */
    PB_NO_MEMORY, /* an allocation or a constructor failed */
    PB_LATE,      /* a thread did not park before its deadline */
    PB_BROKEN,    /* an invariant of ours does not hold: objects lost or made twice */
    PB_SYSTEM,    /* the kernel refused a thread or a CPU */
} pb_status;

/* The sentence that goes with a status other than PB_OK. */
typedef struct pb_error {
    char text[240];
} pb_error;

/* Makes the compiler forget what it knows about p and about memory: contents, origin, aliases.
   Every object passes here between acquire and use. Costs no instruction. */
PB_INLINE void *pb_launder(void *p)
{
    __asm__ volatile("" : "+r"(p) : : "memory");
    return p;
}

/* Makes the compiler have the value ready here: it may not put the work off. No instruction. */
PB_INLINE uint64_t pb_settle(uint64_t value)
{
    __asm__ volatile("" : "+r"(value));
    return value;
}

/* Makes the compiler believe that everything stored so far is read, and may be written, by others.
 */
PB_INLINE void pb_clobber(void)
{
    __asm__ volatile("" : : : "memory");
}

/* One pause of a spinning thread: lets the sibling or the holder have the core's resources. A mark:
   a thread that spins for another is one that lets others in. */
PB_INLINE void pb_pause(void)
{
    PB_YIELD_POINT();
#if defined(__x86_64__) || defined(__i386__)
    __asm__ volatile("pause");
#elif defined(__aarch64__)
    __asm__ volatile("isb");
#else
    __asm__ volatile("");
#endif
}

#endif
