/* SPDX-License-Identifier: MIT - see context.h */
#include "context.h"

#include <limits.h>
#include <stdlib.h>

#include "clock.h"
#include "thread.h"

/* Marks every epoch up to `epoch` with the operations done so far. */
static void mark_epochs(pb_ctx *ctx, uint32_t epoch)
{
    while (ctx->seen != epoch)
        ctx->mark[++ctx->seen % PB_PHASES] = ctx->operations;
}

static void shift_heap(pb_ballast *b)
{
    if (b->size == 0)
        return;
    if (b->used == PB_BALLAST)
        while (b->used > 0)
            free(b->block[--b->used]);
    b->block[b->used++] = malloc(b->size); /* NULL is no harm: nothing is shifted */
}

bool pb_park(pb_ctx *ctx)
{
    pb_control *control = ctx->control;
    const uint32_t epoch = ctx->seen;
    /* acq_rel: publishes this context's counts to pb_run's controller, which reads `parked` with
       acquire (parked_all in run.c) before it looks at any context */
    if (pb_add_acq_rel_u32(&control->parked, 1) + 1 == control->threads)
        pb_futex_wake(&control->parked, INT_MAX);
    /* acquire: pairs with the release in advance() of run.c, which follows the controller's stores
     */
    while (pb_load_acquire_u32(&control->epoch) == epoch)
        pb_futex_wait(&control->epoch, epoch, 0);
    shift_heap(ctx->ballast);
    /* The new epoch is left to be seen after one batch: a pass of exactly one batch is an epoch
       that has already moved on to `parked` (pb_run_pass in run.c). acquire: pairs with the release
       in close_step of run.c */
    return pb_load_acquire_u32(&control->closing) == 0;
}

bool pb_checkpoint(pb_ctx *ctx)
{
    /* acquire: pairs with the release in advance() of run.c */
    mark_epochs(ctx, pb_load_acquire_u32(&ctx->control->epoch));
    /* acquire: pairs with the release in pb_run_close; the epoch moved after it */
    if (pb_load_acquire_u32(&ctx->control->closing)) {
        ctx->seen--; /* every later look is news again, also after a wait inside an operation */
        return false;
    }
    return ctx->seen % PB_PHASES == PB_PARKED ? pb_park(ctx) : true;
}

enum { SLICE_NS = 2000000 }; /* how long a park request may go unseen by a sleeper */

uint64_t pb_run_time_ns(pb_ctx *ctx)
{
    /* relaxed: written while everybody is parked, published by the release in pb_advance */
    const uint64_t now = pb_now_ns() - pb_load_relaxed_u64(&ctx->control->parked_ns);
    /* Between a window's end and its own parking a thread sees time that will not have been. */
    if (now > ctx->run_time_ns)
        ctx->run_time_ns = now;
    return ctx->run_time_ns;
}

bool pb_may_wait(pb_ctx *ctx, uint64_t deadline_ns)
{
    /* A counted pass has asked everybody to park from its start: there, waits end by themselves. */
    if (!ctx->control->untimed && !pb_keep_running(ctx))
        return false;
    return pb_run_time_ns(ctx) < deadline_ns;
}

bool pb_wait(pb_ctx *ctx, pb_atomic_u32 *word, uint32_t value, uint64_t deadline_ns)
{
    const uint64_t now = pb_run_time_ns(ctx);
    if (now >= deadline_ns)
        return false;
    const uint64_t left = deadline_ns - now;
    pb_futex_wait(word, value, left < SLICE_NS ? left : SLICE_NS);
    return pb_may_wait(ctx, deadline_ns);
}

void pb_sleep(pb_ctx *ctx, uint64_t ns)
{
    if (ctx->control->untimed)
        return;
    uint64_t now = pb_now_ns();
    uint64_t end = now + ns;
    while (now < end) {
        pb_sleep_until(end - now < SLICE_NS ? end : now + SLICE_NS);
        now = pb_now_ns();
        if (!pb_keep_running(ctx))
            return;
        const uint64_t resumed = pb_now_ns();
        end += resumed - now;
        now = resumed;
    }
}
