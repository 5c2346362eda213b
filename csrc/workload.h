/* SPDX-License-Identifier: MIT
 *
 * workload.h (L2) - what an object is: how to construct, reset, use and destroy it.
 *
 * A pb_workload is two pointers and travels by value through always_inline functions. In a kernel
 * the first points to a constant table, so that each call through it is inlined, and the second to
 * a local copy of the arguments, which then is registers that no barrier can spoil. (One struct of
 * functions and arguments by value is what compilers give up on: it is handed over by address, and
 * what has its address taken is loaded again and called through.) Outside kernels the same struct
 * is called through its pointers.
 *
 *   construct -> use -> [reset -> use]... -> destroy
 *
 * Construct is allocate + init, destroy is fini + free. Pools that own the memory (slab) call init
 * and fini alone, on memory of args.size bytes; a workload whose size is 0 cannot be placed so.
 */
#ifndef PB_WORKLOAD_H
#define PB_WORKLOAD_H

#include <stdlib.h>

#include "base.h"
#include "context.h"
#include "param.h"

/* Optional behaviour, tested per operation. A kernel whose extras are all absent runs a loop in
   which these tests are folded away, so the plain case pays for none of them. */
enum {
    PB_RESET_ON_RELEASE = 1u << 0, /* the pool resets what it keeps, at release (default) */
    PB_RESET_ON_ACQUIRE = 1u << 1, /* or at acquire */
    PB_RESETS = PB_RESET_ON_RELEASE | PB_RESET_ON_ACQUIRE,
    PB_EXTRA_USE = 1u << 2, /* `use` does more than its cheapest form */
    PB_CHECKED = 1u << 3,   /* every step is checked, see checks.h; needs ctx->checks */
};

enum { PB_WORKLOAD_ARGS = 6 };

/* What a workload's functions know of the cell; filled in by its open function. */
struct pb_args {
    int64_t arg[PB_WORKLOAD_ARGS]; /* meaning: the workload's own enum */
    size_t size;                   /* bytes of one object; 0: it cannot be placed in given memory */
    size_t idle_hidden;            /* bytes nobody may touch while it is idle; 0: others may */
    size_t block;                  /* bytes of the malloc'd block that matters; see pb_ballast */
    void *shared;                  /* process-wide state its constructors enter, or NULL */
    uint32_t extras;               /* PB_RESET_ON_RELEASE ... */
    bool has_reset;                /* false: reset is never called */
    size_t predicted;              /* bytes one object is expected to take in all; 0: size */
};

typedef struct pb_functions {
    void *(*construct)(pb_ctx *ctx, const pb_args args); /* NULL: it failed */
    void (*reset)(pb_ctx *ctx, void *object, const pb_args args);
    uint64_t (*use)(pb_ctx *ctx, void *object, const pb_args args); /* a result somebody consumes */
    void (*destroy)(pb_ctx *ctx, void *object, const pb_args args);
    bool (*init)(pb_ctx *ctx, void *memory, const pb_args args); /* false: it failed */
    void (*fini)(pb_ctx *ctx, void *object, const pb_args args);
    bool (*is_clean)(const void *object, const pb_args args); /* as good as after a reset */
} pb_functions;

/* The table of a workload whose functions are called name_construct and so on. */
#define PB_FUNCTIONS(name)                                           \
    {name##_construct, name##_reset, name##_use,     name##_destroy, \
     name##_init,      name##_fini,  name##_is_clean}

struct pb_workload {
    const pb_functions *is;
    const pb_args *args;
};

/* A workload's construct when its memory is malloc's: allocate, then `init` (a constant, inlined).
 */
PB_INLINE void *pb_allocate_and(bool (*init)(pb_ctx *, void *, const pb_args), pb_ctx *ctx,
                                const pb_args args)
{
    void *object = pb_launder(malloc(args.size));
    if (PB_UNLIKELY(object == NULL))
        return NULL;
    if (PB_LIKELY(init(ctx, object, args)))
        return object;
    free(object);
    return NULL;
}

/* The only ways into a workload's functions. Construct and destroy count, and the counts must
   balance at the end. */
PB_INLINE void *pb_construct(pb_ctx *ctx, const pb_functions *w, const pb_args *args)
{
    void *object = w->construct(ctx, *args);
    if (PB_LIKELY(object != NULL)) {
        ctx->constructed++;
        if (args->extras & PB_CHECKED)
            pb_checks_made(ctx, object);
    }
    return object;
}

/* As pb_construct, in memory that the caller owns; false: construction failed. */
PB_INLINE bool pb_construct_at(pb_ctx *ctx, void *memory, const pb_functions *w,
                               const pb_args *args)
{
    const bool made = w->init(ctx, memory, *args);
    if (PB_LIKELY(made)) {
        ctx->constructed++;
        if (args->extras & PB_CHECKED)
            pb_checks_made(ctx, memory);
    }
    return made;
}

/* Before an object is destroyed, which may look at it again. */
PB_INLINE void pb_end_checks(pb_ctx *ctx, void *object, const pb_args *args)
{
    pb_checks_show(object, args->idle_hidden);
    pb_checks_ended(ctx, object);
}

PB_INLINE void pb_destroy_at(pb_ctx *ctx, void *object, const pb_functions *w, const pb_args *args)
{
    if (args->extras & PB_CHECKED)
        pb_end_checks(ctx, object, args);
    w->fini(ctx, object, *args);
    ctx->destroyed++;
}

PB_INLINE void pb_reset(pb_ctx *ctx, void *object, const pb_functions *w, const pb_args *args)
{
    w->reset(ctx, object, *args);
}

PB_INLINE uint64_t pb_use(pb_ctx *ctx, void *object, const pb_functions *w, const pb_args *args)
{
    return w->use(ctx, object, *args);
}

PB_INLINE void pb_destroy(pb_ctx *ctx, void *object, const pb_functions *w, const pb_args *args)
{
    if (args->extras & PB_CHECKED)
        pb_end_checks(ctx, object, args);
    w->destroy(ctx, object, *args);
    ctx->destroyed++;
}

#endif
