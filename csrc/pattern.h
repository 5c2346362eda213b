/* SPDX-License-Identifier: MIT
 *
 * pattern.h (L2) - who acquires and releases when: the loop a kernel consists of.
 *
 * A pattern is an always_inline function over two functions of a pool and a workload, all
 * constants. It returns when the replicate ends. pb_acquire and pb_release below are the only ways
 * into a pool; they see to it that every object passes the barrier and every outcome is counted.
 */
#ifndef PB_PATTERN_H
#define PB_PATTERN_H

#include "base.h"
#include "context.h"
#include "param.h"
#include "workload.h"

enum { PB_PATTERN_ARGS = 6 };

struct pb_pattern {
    int64_t arg[PB_PATTERN_ARGS]; /* meaning: the pattern's own enum */
    uint64_t live;                /* objects one thread may hold at once */
};

typedef struct pb_got {
    void *object;    /* NULL: how says why */
    pb_outcome how;  /* PB_LOCAL_HIT ... PB_TIMED_OUT */
    uint64_t handle; /* comes back at release */
} pb_got;

/* The two functions of a pool that kernels call; always constants. */
typedef struct pb_pool_calls {
    pb_got (*acquire)(pb_ctx *ctx, const pb_functions *w, const pb_args *args);
    pb_outcome (*release)(pb_ctx *ctx, const pb_held held, const pb_functions *w,
                          const pb_args *args);
} pb_pool_calls;

/* An object behind the barrier, or none, counted as failed: then there is no operation. */
PB_INLINE pb_held pb_acquire(pb_ctx *ctx, const pb_pool_calls pool, const pb_functions *w,
                             const pb_args *args)
{
    const pb_got got = pool.acquire(ctx, w, args);
    if (got.how != PB_LOCAL_HIT) /* folded away where the pool's answer is a constant */
        ctx->outcomes[got.how]++;
    if (PB_UNLIKELY(got.object == NULL))
        return (pb_held){NULL, 0};
    if (args->extras & PB_CHECKED)
        pb_checks_taken(ctx, got.object);
    void *object = pb_launder(got.object);
    if (object == NULL)
        __builtin_unreachable(); /* the barrier hides what the line above it has found */
    return (pb_held){object, got.handle};
}

PB_INLINE void pb_release(pb_ctx *ctx, const pb_held held, const pb_pool_calls pool,
                          const pb_functions *w, const pb_args *args)
{
    if ((args->extras & PB_CHECKED) && !pb_checks_given(ctx, held.object)) {
        ctx->outcomes[PB_REFUSED]++;
        return;
    }
    const pb_held back = {pb_launder(held.object), held.handle};
    const pb_outcome how = pool.release(ctx, back, w, args);
    if (how != PB_KEPT)
        ctx->outcomes[how]++;
}

#endif
