/* SPDX-License-Identifier: MIT
 *
 * workloads/synthetic.h (L2) - an object whose every cost is a parameter: the crossover engine.
 *
 * Construct: allocate `bytes`, write them, and spin `construct_ns`, of which `global_ns` under one
 * mutex for the whole process. Reset, use and destroy spin as long as they are told. With it, any
 * real object's costs can be planted, and a crossover put where it is known to be.
 */
#ifndef PB_WORKLOADS_SYNTHETIC_H
#define PB_WORKLOADS_SYNTHETIC_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../clock.h"
#include "../memory.h"
#include "../workload.h"

/* Spin iterations, all of them. */
enum { SYNTHETIC_CONSTRUCT, SYNTHETIC_GLOBAL, SYNTHETIC_RESET, SYNTHETIC_USE, SYNTHETIC_DESTROY };

typedef struct synthetic_shared {
    PB_ALIGNED pthread_mutex_t lock; /* held while `global_ns` of a construction pass */
} synthetic_shared;

static PB_COLD pb_status synthetic_open(pb_args *args, const pb_params *params,
                                        uint64_t spin_per_ms, pb_error *error)
{
    static const char *const names[] = {"construct_ns", "global_ns", "reset_ns", "use_ns",
                                        "destroy_ns"};
    if (pb_params_get(params, "global_ns") > pb_params_get(params, "construct_ns")) {
        (void)snprintf(error->text, sizeof error->text,
                       "synthetic: global_ns is part of construct_ns and cannot be larger");
        return PB_BAD_VALUE;
    }
    synthetic_shared *s = pb_new_padded(sizeof *s);
    if (!s)
        return PB_NO_MEMORY;
    (void)pthread_mutex_init(&s->lock, NULL); /* the default kind cannot fail */
    for (int i = SYNTHETIC_CONSTRUCT; i <= SYNTHETIC_DESTROY; i++)
        args->arg[i] =
            (int64_t)pb_spin_iterations((uint64_t)pb_params_get(params, names[i]), spin_per_ms);
    args->size = args->idle_hidden = args->block = (size_t)pb_params_get(params, "bytes");
    args->shared = s;
    args->has_reset = args->arg[SYNTHETIC_RESET] > 0;
    return PB_OK;
}

static PB_COLD void synthetic_close(pb_args *args)
{
    synthetic_shared *s = args->shared;
    (void)pthread_mutex_destroy(&s->lock); /* nobody holds it: all threads have detached */
    free(s);
    args->shared = NULL;
}

PB_INLINE void synthetic_spin_locked(synthetic_shared *s, uint64_t iterations)
{
    (void)pthread_mutex_lock(&s->lock);
    pb_spin(iterations);
    (void)pthread_mutex_unlock(&s->lock);
}

PB_INLINE bool synthetic_init(pb_ctx *ctx, void *memory, const pb_args args)
{
    (void)ctx;
    const uint64_t global = (uint64_t)args.arg[SYNTHETIC_GLOBAL];
    const uint64_t all = (uint64_t)args.arg[SYNTHETIC_CONSTRUCT];
    memset(memory, 1, args.size);
    pb_spin(all > global ? all - global : 0);
    if (global > 0)
        synthetic_spin_locked(args.shared, global);
    return true;
}

PB_INLINE void synthetic_fini(pb_ctx *ctx, void *object, const pb_args args)
{
    (void)ctx, (void)object;
    pb_spin((uint64_t)args.arg[SYNTHETIC_DESTROY]);
}

PB_INLINE void *synthetic_construct(pb_ctx *ctx, const pb_args args)
{
    return pb_allocate_and(synthetic_init, ctx, args);
}

PB_INLINE void synthetic_destroy(pb_ctx *ctx, void *object, const pb_args args)
{
    synthetic_fini(ctx, object, args);
    free(object);
}

PB_INLINE void synthetic_reset(pb_ctx *ctx, void *object, const pb_args args)
{
    (void)ctx, (void)object;
    pb_spin((uint64_t)args.arg[SYNTHETIC_RESET]);
}

PB_INLINE uint64_t synthetic_use(pb_ctx *ctx, void *object, const pb_args args)
{
    (void)ctx;
    pb_spin((uint64_t)args.arg[SYNTHETIC_USE]);
    return ((const unsigned char *)object)[0];
}

PB_INLINE bool synthetic_is_clean(const void *object, const pb_args args)
{
    (void)object, (void)args;
    return true; /* its reset takes time and changes nothing */
}

#endif
