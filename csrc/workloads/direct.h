/* SPDX-License-Identifier: MIT
 *
 * workloads/direct.h (L2) - a native buffer whose construction enters process-wide state.
 *
 * Modelled on the JVM's direct ByteBuffer (java.nio.Bits, jdk.internal.ref.Cleaner): reserve
 * against a quota by CAS, count in two more shared words, allocate and zero the block, and link a
 * cleaner into one global list under one lock; destroying does the reverse. Every construction
 * meets every other thread's, whatever the allocator: fresh objects of this kind cannot scale.
 *
 * A full quota is waited for as the JVM does: 1, 2, 4 ... 256 ms, at most nine tries, then the
 * construction fails. The wait is bounded (0.5 s), so it is no park point.
 */
#ifndef PB_WORKLOADS_DIRECT_H
#define PB_WORKLOADS_DIRECT_H

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../atomic.h"
#include "../clock.h"
#include "../memory.h"
#include "../workload.h"

enum { DIRECT_SIZE };
enum { DIRECT_TRIES = 9, DIRECT_FIRST_WAIT_NS = 1000000 };

typedef struct direct_cleaner direct_cleaner;
struct direct_cleaner {
    direct_cleaner *next, *previous; /* under direct_shared.lock */
};

typedef struct direct_object {
    direct_cleaner cleaner;
    unsigned char *block;
    size_t position; /* next 8 bytes to use; reset puts it back to 0 */
} direct_object;

/* One per replicate. Each word on its own lines: the cost shown is sharing, not false sharing. */
typedef struct direct_shared {
    PB_ALIGNED pb_atomic_u64 reserved; /* bytes, never above quota */
    PB_ALIGNED pb_atomic_u64 total;    /* bytes really allocated */
    PB_ALIGNED pb_atomic_u64 count;    /* live objects */
    PB_ALIGNED pthread_mutex_t lock;   /* guards the list */
    direct_cleaner list;               /* circular, with this head */
    PB_ALIGNED uint64_t quota;         /* bytes, constant */
} direct_shared;

static PB_COLD pb_status direct_open(pb_args *args, const pb_params *params, uint64_t spin_per_ms,
                                     pb_error *error)
{
    (void)error;       /* every combination of values makes an object */
    (void)spin_per_ms; /* nothing here spins */
    direct_shared *s = pb_new_padded(sizeof *s);
    if (!s)
        return PB_NO_MEMORY;
    s->quota = (uint64_t)pb_params_get(params, "quota");
    s->list.next = s->list.previous = &s->list;
    (void)pthread_mutex_init(&s->lock, NULL); /* the default kind cannot fail */
    args->arg[DIRECT_SIZE] = pb_params_get(params, "size");
    args->size = sizeof(direct_object);
    args->block = (size_t)args->arg[DIRECT_SIZE];
    args->predicted = sizeof(direct_object) + (size_t)args->arg[DIRECT_SIZE];
    args->has_reset = true;
    args->shared = s;
    return PB_OK;
}

static PB_COLD void direct_close(pb_args *args)
{
    direct_shared *s = args->shared;
    (void)pthread_mutex_destroy(&s->lock); /* nobody holds it: all threads have detached */
    free(s);
    args->shared = NULL;
}

/* Takes `size` bytes of the quota if they are there. Relaxed: the number guards no other memory. */
PB_INLINE bool direct_try_reserve(direct_shared *s, uint64_t size)
{
    uint64_t seen = pb_load_relaxed_u64(&s->reserved);
    while (seen + size <= s->quota)
        if (pb_cas_relaxed_u64(&s->reserved, &seen, seen + size))
            return true;
    return false;
}

static PB_COLD bool direct_wait_for_quota(direct_shared *s, uint64_t size)
{
    uint64_t wait_ns = DIRECT_FIRST_WAIT_NS;
    for (int i = 0; i < DIRECT_TRIES; i++, wait_ns *= 2) {
        pb_sleep_until(pb_now_ns() + wait_ns);
        if (direct_try_reserve(s, size))
            return true;
    }
    return false;
}

/* Relaxed: statistics, as in the original; no reader draws conclusions about other memory. */
PB_INLINE void direct_count(direct_shared *s, uint64_t size, uint64_t one)
{
    (void)pb_add_relaxed_u64(&s->total, size);
    (void)pb_add_relaxed_u64(&s->count, one);
}

PB_INLINE void direct_link(direct_shared *s, direct_cleaner *c)
{
    (void)pthread_mutex_lock(&s->lock);
    c->next = s->list.next;
    c->previous = &s->list;
    s->list.next->previous = c;
    s->list.next = c;
    (void)pthread_mutex_unlock(&s->lock);
}

PB_INLINE void direct_unlink(direct_shared *s, direct_cleaner *c)
{
    (void)pthread_mutex_lock(&s->lock);
    c->next->previous = c->previous;
    c->previous->next = c->next;
    (void)pthread_mutex_unlock(&s->lock);
}

PB_INLINE bool direct_init(pb_ctx *ctx, void *memory, const pb_args args)
{
    (void)ctx;
    direct_object *d = memory;
    direct_shared *s = args.shared;
    const size_t size = (size_t)args.arg[DIRECT_SIZE];
    if (PB_UNLIKELY(!direct_try_reserve(s, size)) && !direct_wait_for_quota(s, size))
        return false;
    d->block = pb_launder(malloc(size));
    if (PB_UNLIKELY(!d->block)) {
        (void)pb_add_relaxed_u64(&s->reserved, -(uint64_t)size);
        return false;
    }
    memset(d->block, 0, size);
    d->position = 0;
    direct_count(s, size, 1);
    direct_link(s, &d->cleaner);
    return true;
}

PB_INLINE void direct_fini(pb_ctx *ctx, void *object, const pb_args args)
{
    (void)ctx;
    direct_object *d = object;
    direct_shared *s = args.shared;
    const uint64_t size = (uint64_t)args.arg[DIRECT_SIZE];
    direct_unlink(s, &d->cleaner);
    free(d->block);
    direct_count(s, -size, -(uint64_t)1);
    (void)pb_add_relaxed_u64(&s->reserved, -size);
}

PB_INLINE void *direct_construct(pb_ctx *ctx, const pb_args args)
{
    return pb_allocate_and(direct_init, ctx, args);
}

PB_INLINE void direct_reset(pb_ctx *ctx, void *object, const pb_args args)
{
    (void)ctx;
    (void)args;
    ((direct_object *)object)->position = 0;
}

PB_INLINE uint64_t direct_use(pb_ctx *ctx, void *object, const pb_args args)
{
    (void)ctx;
    direct_object *d = object;
    uint64_t value = d->position + 1;
    if (PB_UNLIKELY(d->position + sizeof value > (size_t)args.arg[DIRECT_SIZE]))
        return 0; /* full: a borrower would see an overflow */
    memcpy(d->block + d->position, &value, sizeof value);
    pb_clobber();
    memcpy(&value, d->block + d->position, sizeof value);
    d->position += sizeof value;
    return value;
}

PB_INLINE void direct_destroy(pb_ctx *ctx, void *object, const pb_args args)
{
    direct_fini(ctx, object, args);
    free(object);
}

PB_INLINE bool direct_is_clean(const void *object, const pb_args args)
{
    (void)args;
    return ((const direct_object *)object)->position == 0;
}

#endif
