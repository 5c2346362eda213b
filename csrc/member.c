/* SPDX-License-Identifier: MIT
 *
 * member.c (L5) - one thread of a live replicate, from placement to detaching; see live.h.
 */
#include <limits.h>
#include <stdlib.h>

#include "live.h"
#include "thread.h"

enum {
    FILL_BYTES = 1024,  /* largest block of the heap pre-fill */
    STACK_STEPS = 2048, /* stack offset: up to this many steps of 16 bytes */
};

static void fill_heap(pb_member *m, pb_rng *rng)
{
    const uint64_t blocks = pb_rng_below(rng, PB_FILL_BLOCKS);
    for (uint64_t i = 0; i < blocks; i++)
        m->fill[i] = malloc(16 + pb_rng_below(rng, FILL_BYTES)); /* NULL is no harm: only a shift */
}

static pb_status attach(pb_member *m, pb_rng rng)
{
    pb_run *run = m->run;
    pb_ctx *ctx = pb_new_padded(run->pool_class->ctx_size);
    if (!ctx)
        return PB_NO_MEMORY;
    ctx->held = calloc(run->pattern.live, sizeof *ctx->held);
    if (!ctx->held) {
        free(ctx);
        return PB_NO_MEMORY;
    }
    const size_t block = run->args.block;
    m->ballast.size = block <= PB_BALLAST_BYTES && !run->cell.counted ? block : 0;
    ctx->ballast = &m->ballast;
    ctx->control = &run->control;
    ctx->workload = &run->workload;
    ctx->params = &run->cell.pool_params;
    ctx->pattern = &run->pattern;
    ctx->checks = run->checks;
    ctx->index = m->index;
    ctx->batch = 1;
    ctx->rng = rng;
    m->ctx = ctx;
    pb_ledger_enter(ctx);
    pb_ledger_own(PB_OWNER_POOL);
    return run->pool_class->attach(run->pool, ctx);
}

static void report(pb_run *run)
{
    /* acq_rel: pairs with the acquire in parked_all, publishes this thread's status and counts */
    if (pb_add_acq_rel_u32(&run->control.parked, 1) + 1 == run->control.threads)
        pb_futex_wake(&run->control.parked, INT_MAX);
}

/* Waits until the close has come as far as `step`. */
static void wait_for_close(pb_run *run, uint32_t step)
{
    uint32_t at;
    /* acquire: pairs with the releases in close_step */
    while ((at = pb_load_acquire_u32(&run->control.closing)) < step)
        pb_futex_wait(&run->control.closing, at, 0);
}

static PB_NOINLINE void live(pb_member *m, pb_rng rng)
{
    pb_run *run = m->run;
    m->status = attach(m, rng);
    if (m->status != PB_OK)
        report(run);
    else if (pb_park(m->ctx))
        run->pool_class->kernels[run->kernel_workload][run->cell.pattern](m->ctx);
    wait_for_close(run, PB_LEAVE);
    report(run);
    wait_for_close(run, PB_DETACH);
    if (m->ctx)
        run->pool_class->detach(run->pool, m->ctx);
    pb_ledger_own(PB_OWNER_HARNESS);
}

/* Draws where its stack and its heap begin, then lives. */
void *pb_member_main(void *arg)
{
    pb_member *m = arg;
    pb_rng rng = {m->run->cell.seed ^ ((uint64_t)(m->index + 1) << 32)};
    const size_t offset = 16 * (1 + pb_rng_below(&rng, STACK_STEPS));
    (void)pb_launder(__builtin_alloca(offset)); /* the barrier keeps it from being dropped */
    fill_heap(m, &rng);
    live(m, rng);
    for (int i = 0; i < PB_FILL_BLOCKS; i++)
        free(m->fill[i]);
    for (uint32_t i = 0; i < m->ballast.used; i++)
        free(m->ballast.block[i]);
    return NULL;
}
