/* SPDX-License-Identifier: MIT
 *
 * workload.h (L2) - what an object is: how to construct, reset, use and destroy it.
 *
 * A pb_workload travels by value through always_inline functions. In a kernel its function pointers
 * are constants, so each call through them is inlined, and its arguments are locals that no barrier
 * can spoil. Outside kernels (closing a pool) the same struct is called through its pointers.
 *
 *   construct -> use -> [reset -> use]... -> destroy
 */
#ifndef PB_WORKLOAD_H
#define PB_WORKLOAD_H

#include "base.h"
#include "context.h"
#include "param.h"

/* Optional behaviour, tested per operation. A kernel whose extras are all absent runs a loop in
   which these tests are folded away, so the plain case pays for none of them. */
enum {
    PB_RESET_ON_RELEASE = 1u << 0, /* the pool resets what it keeps, at release (default) */
    PB_RESET_ON_ACQUIRE = 1u << 1, /* or at acquire */
    PB_EXTRA_USE = 1u << 2,        /* `use` does more than its cheapest form */
};

enum { PB_WORKLOAD_ARGS = 4 };

/* What a workload's functions know of the cell. */
typedef struct pb_args {
    int64_t arg[PB_WORKLOAD_ARGS]; /* meaning: the workload's own enum */
    void *shared;                  /* process-wide state its constructors enter, or NULL */
    uint32_t extras;               /* PB_RESET_ON_RELEASE ... */
} pb_args;

struct pb_workload {
    void *(*construct)(pb_ctx *ctx, const pb_args args); /* NULL: it failed */
    void (*reset)(pb_ctx *ctx, void *object, const pb_args args);
    uint64_t (*use)(pb_ctx *ctx, void *object, const pb_args args); /* a result somebody consumes */
    void (*destroy)(pb_ctx *ctx, void *object, const pb_args args);
    pb_args args;
    bool has_reset; /* false: reset is never called */
};

/* A copy of the arguments, member by member. A plain copy of the struct would be merged with `w` by
   clang, which hands structs of this size over by address; and a `w` whose address is taken keeps
   its function pointers in memory, hence indirect. */
PB_INLINE pb_args pb_args_of(const pb_workload w)
{
    const int64_t *arg = w.args.arg;
    return (pb_args){
        .arg = {arg[0], arg[1], arg[2], arg[3]}, .shared = w.args.shared, .extras = w.args.extras};
}

/* The only ways into a workload's functions. Construct and destroy count, and the counts must
   balance at the end. */
PB_INLINE void *pb_construct(pb_ctx *ctx, const pb_workload w)
{
    void *object = w.construct(ctx, pb_args_of(w));
    if (PB_LIKELY(object != NULL))
        ctx->constructed++;
    return object;
}

PB_INLINE void pb_reset(pb_ctx *ctx, void *object, const pb_workload w)
{
    w.reset(ctx, object, pb_args_of(w));
}

PB_INLINE uint64_t pb_use(pb_ctx *ctx, void *object, const pb_workload w)
{
    return w.use(ctx, object, pb_args_of(w));
}

PB_INLINE void pb_destroy(pb_ctx *ctx, void *object, const pb_workload w)
{
    w.destroy(ctx, object, pb_args_of(w));
    ctx->destroyed++;
}

#endif
