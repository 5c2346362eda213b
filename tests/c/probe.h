/* SPDX-License-Identifier: MIT
 *
 * probe.h - an object that notices what a pool does to it.
 *
 * It knows its borrower (stamped by atomic exchange, so that a second borrower is seen), whether
 * somebody dirtied it since its last reset, and how often it was reset. `payload` is a plain word:
 * a pool that hands objects on without ordering memory is a data race for ThreadSanitizer, and a
 * torn or stale value for everybody else.
 */
#ifndef PB_TEST_PROBE_H
#define PB_TEST_PROBE_H

#include <stdlib.h>
#include <string.h>

#include "cell.h"
#include "check.h"

enum { PROBE_NOBODY = 0, PROBE_DEAD = 0xdead };

typedef struct probe {
    pb_atomic_u32 owner; /* PROBE_NOBODY, 1 + the borrower's index, or PROBE_DEAD */
    bool dirty;          /* used since the last reset, or never reset */
    uint32_t resets;     /* so far */
    uint64_t handle;     /* what the pool wants back at release */
    uint64_t payload[8]; /* all equal, or somebody wrote at the same time */
} probe;

/* What the constructor is told; args.shared. */
typedef struct probe_orders {
    bool fail;                      /* spoil the memory, then fail */
    bool shared;                    /* in many hands at a time: `use` only reads */
    uint32_t fail_one_in;           /* fail by each thread's own luck; 0: never */
    void (*during)(void *argument); /* called inside the constructor, or NULL */
    void *argument;
} probe_orders;

/* A thread's luck with constructors. */
typedef struct probe_luck {
    pb_rng rng;
    uint64_t failures; /* so far */
    bool spared;       /* by fail_one_in */
} probe_luck;

static _Thread_local probe_luck probe_mine;

static inline bool probe_fails(const probe_orders *orders)
{
    const bool fails = orders->fail || (orders->fail_one_in > 0 && !probe_mine.spared &&
                                        pb_rng_below(&probe_mine.rng, orders->fail_one_in) == 0);
    probe_mine.failures += fails;
    return fails;
}

/* Writes over all of the memory even when told to fail, as constructors do that fail half-way. */
static inline bool probe_init(pb_ctx *ctx, void *memory, const pb_args args)
{
    (void)ctx;
    const probe_orders *orders = args.shared;
    const bool fails = probe_fails(orders);
    memset(memory, fails ? 0x5a : 0, sizeof(probe));
    if (orders->during)
        orders->during(orders->argument);
    return !fails;
}

static inline void *probe_construct(pb_ctx *ctx, const pb_args args)
{
    return pb_allocate_and(probe_init, ctx, args);
}

static inline void probe_reset(pb_ctx *ctx, void *object, const pb_args args)
{
    (void)ctx, (void)args;
    probe *o = object;
    o->dirty = false;
    o->resets++;
}

static inline uint64_t probe_use(pb_ctx *ctx, void *object, const pb_args args)
{
    const probe_orders *orders = args.shared;
    probe *o = object;
    const uint64_t before = o->payload[0];
    for (int i = 0; i < 8; i++) {
        CHECK(o->payload[i] == before);
        if (!orders->shared)
            o->payload[i] = before + (uint64_t)ctx->index + 1;
    }
    if (!orders->shared)
        o->dirty = true;
    return before;
}

/* Returns the owner before. Relaxed on purpose: the stamp must not order what the pool forgot to.
 */
static inline uint32_t probe_stamp(probe *o, uint32_t owner)
{
    return atomic_exchange_explicit(&o->owner.v, owner, memory_order_relaxed);
}

static inline void probe_fini(pb_ctx *ctx, void *object, const pb_args args)
{
    (void)ctx, (void)args;
    CHECK_EQ(probe_stamp(object, PROBE_DEAD), PROBE_NOBODY);
}

static inline void probe_destroy(pb_ctx *ctx, void *object, const pb_args args)
{
    probe_fini(ctx, object, args);
    free(object);
}

/* From here on `ctx` is the borrower: nobody else may be. */
static inline void probe_take(const pb_ctx *ctx, probe *o)
{
    CHECK_EQ(probe_stamp(o, (uint32_t)ctx->index + 1), PROBE_NOBODY);
}

/* From here on nobody is. */
static inline void probe_leave(const pb_ctx *ctx, probe *o)
{
    CHECK_EQ(probe_stamp(o, PROBE_NOBODY), (uint32_t)ctx->index + 1);
}

static inline bool probe_is_clean(const void *object, const pb_args args)
{
    (void)args;
    return !((const probe *)object)->dirty;
}

static const pb_functions probe_functions = PB_FUNCTIONS(probe);

/* Opens the cell with probes in place of its own workload. */
static inline void probe_parts(parts *p, const pb_cell *cell, probe_orders *orders)
{
    orders->shared = pb_pools[cell->pool].traits & PB_NEEDS_SHAREABLE;
    const pb_args args = {
        .size = sizeof(probe), .idle_hidden = sizeof(probe), .shared = orders, .has_reset = true};
    parts_open(p, cell, &(pb_workload){&probe_functions, &args});
}

#endif
