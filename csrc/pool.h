/* SPDX-License-Identifier: MIT
 *
 * pool.h (L3) - what a pool is, and the macro that makes kernels of it.
 *
 * A pool file defines, all static:
 *
 *   NAME_open, NAME_close     the shared part; close destroys every idle object
 *   NAME_attach, NAME_detach  one thread's part, called on that thread; detach loses nothing
 *   NAME_idle                 objects idle now: of one thread's part, or (NULL) of the shared part
 *   NAME_acquire, NAME_release  always_inline; the only functions a kernel calls. What acquire
 * gives as `handle` comes back at release, possibly on another thread
 *
 * and ends with PB_DEFINE_POOL(NAME). Its thread context is a struct that begins with a pb_ctx.
 * The contract, which tests/c/test_pools.c holds every pool of the list to: constructed =
 * destroyed + idle + held at every quiet point, nothing held twice, a full pool destroys what it
 * cannot keep, constructors run outside locks unless a parameter asks for the opposite.
 */
#ifndef PB_POOL_H
#define PB_POOL_H

#include "base.h"
#include "context.h"
#include "param.h"
#include "pattern.h"
#include "patterns.def"
#include "workload.h"
#include "workloads.def"

typedef struct pb_pool pb_pool;         /* each pool file completes its own */
typedef void (*pb_kernel)(pb_ctx *ctx); /* runs until the replicate ends */

#define PB_WORKLOAD_INDEX(unused, name, ...) PB_WORKLOAD_##name,
enum { PB_WORKLOADS(PB_WORKLOAD_INDEX, ) PB_WORKLOAD_COUNT };
#define PB_PATTERN_INDEX(unused, name, ...) PB_PATTERN_##name,
enum { PB_PATTERNS(PB_PATTERN_INDEX, ) PB_PATTERN_COUNT };

typedef struct pb_pool_class {
    size_t ctx_size; /* of the pool's thread context */
    pb_status (*open)(pb_pool **pool, const pb_params *params, int threads);
    void (*close)(pb_pool *pool, pb_ctx *ctx);
    pb_status (*attach)(pb_pool *pool, pb_ctx *ctx);
    void (*detach)(pb_pool *pool, pb_ctx *ctx);
    uint64_t (*idle)(const pb_pool *pool, const pb_ctx *ctx);
    pb_got (*acquire)(pb_ctx *ctx, const pb_functions *w,
                      const pb_args *args); /* for tests: kernels inline it */
    pb_outcome (*release)(pb_ctx *ctx, const pb_held held, const pb_functions *w,
                          const pb_args *args);
    const pb_kernel (*kernels)[PB_PATTERN_COUNT]; /* [workload][pattern]; NULL: not in this build */
} pb_pool_class;

/* At release, for an object the pool means to keep; outside any lock. */
PB_INLINE void pb_reset_at_release(pb_ctx *ctx, void *object, const pb_functions *w,
                                   const pb_args *args)
{
    if (args->extras & PB_RESET_ON_RELEASE)
        pb_reset(ctx, object, w, args);
    if (args->extras & PB_CHECKED)
        pb_checks_hide(object, args->idle_hidden);
}

/* At acquire, for an object that was used before; outside any lock. */
PB_INLINE void pb_reset_at_acquire(pb_ctx *ctx, void *object, const pb_functions *w,
                                   const pb_args *args)
{
    if (args->extras & PB_CHECKED)
        pb_checks_show(object, args->idle_hidden);
    if (args->extras & PB_RESET_ON_ACQUIRE)
        pb_reset(ctx, object, w, args);
}

/* A fresh object for a miss. */
PB_INLINE pb_got pb_got_constructed(pb_ctx *ctx, const pb_functions *w, const pb_args *args)
{
    void *object = pb_construct(ctx, w, args);
    return (pb_got){object, PB_LIKELY(object != NULL) ? PB_CONSTRUCTED : PB_FAILED, 0};
}

#define PB_TABLE_OF(unused, name, ...) \
    static const pb_functions name##_functions = PB_FUNCTIONS(name);
PB_WORKLOADS(PB_TABLE_OF, )

/* The workloads that kernels are made for: all, or in builds that only test the core, which have no
   use for the rest and would spend most of their time compiling it, some; one where no kernel is
   run at all. */
#if defined(PB_TABLE_KERNELS)
#define PB_STAMPED(X, ...) X(__VA_ARGS__, table, )
#elif defined(PB_BYTES_KERNELS)
#define PB_STAMPED(X, ...) X(__VA_ARGS__, bytes, )
#elif defined(PB_FEW_KERNELS)
#define PB_STAMPED(X, ...)  \
    X(__VA_ARGS__, bytes, ) \
    X(__VA_ARGS__, direct, ) X(__VA_ARGS__, widget, ) X(__VA_ARGS__, table, )
#else
#define PB_STAMPED(X, ...) PB_WORKLOADS(X, __VA_ARGS__)
#endif

/* A kernel stands twice. In the plain form all optional behaviour of workload and pattern is known
   to be absent, so that a 1 ns operation does not pay for tests it never needs; the other form
   tests. */
#define PB_KERNEL(pool, object, way, ...)                                                    \
    static PB_NOINLINE void kernel_##pool##_##object##_##way##_plain(pb_ctx *ctx)            \
    {                                                                                        \
        pb_args args = *ctx->workload->args;                                                 \
        args.extras = 0;                                                                     \
        way##_run(ctx, (pb_pool_calls){pool##_acquire, pool##_release}, &object##_functions, \
                  &args, way##_plain(*ctx->pattern));                                        \
    }                                                                                        \
    static PB_NOINLINE void kernel_##pool##_##object##_##way(pb_ctx *ctx)                    \
    {                                                                                        \
        if (ctx->workload->args->extras == 0 && way##_is_plain(ctx->pattern)) {              \
            kernel_##pool##_##object##_##way##_plain(ctx);                                   \
            return;                                                                          \
        }                                                                                    \
        const pb_args args = *ctx->workload->args;                                           \
        way##_run(ctx, (pb_pool_calls){pool##_acquire, pool##_release}, &object##_functions, \
                  &args, *ctx->pattern);                                                     \
    }
#define PB_KERNEL_ENTRY(pool, object, pattern, ...) kernel_##pool##_##object##_##pattern,
#define PB_KERNELS_OF(pool, object, ...)            PB_PATTERNS(PB_KERNEL, pool, object)
#define PB_KERNEL_ROW(pool, object, ...) \
    [PB_WORKLOAD_##object] = {PB_PATTERNS(PB_KERNEL_ENTRY, pool, object)},

#define PB_DEFINE_POOL(name)                                                                  \
    PB_STAMPED(PB_KERNELS_OF, name)                                                           \
    static const pb_kernel name##_kernels[PB_WORKLOAD_COUNT][PB_PATTERN_COUNT] = {            \
        PB_STAMPED(PB_KERNEL_ROW, name)};                                                     \
    const pb_pool_class pb_##name##_pool = {sizeof(name##_ctx), name##_open,    name##_close, \
                                            name##_attach,      name##_detach,  name##_idle,  \
                                            name##_acquire,     name##_release, name##_kernels}

#endif
