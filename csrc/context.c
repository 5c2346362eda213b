/* SPDX-License-Identifier: MIT - see context.h */
#include "context.h"

#include <limits.h>

#include "clock.h"
#include "thread.h"

/* Marks every epoch up to `epoch` with the operations done so far. */
static void mark_epochs(pb_ctx *ctx, uint32_t epoch)
{
    while (ctx->seen != epoch)
        ctx->mark[++ctx->seen % PB_PHASES] = ctx->operations;
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
    return pb_checkpoint(ctx);
}

bool pb_checkpoint(pb_ctx *ctx)
{
    /* acquire: pairs with the release in advance() of run.c */
    mark_epochs(ctx, pb_load_acquire_u32(&ctx->control->epoch));
    /* acquire: pairs with the release in pb_run_close; the epoch moved after it */
    if (pb_load_acquire_u32(&ctx->control->closing))
        return false;
    return ctx->seen % PB_PHASES == PB_PARKED ? pb_park(ctx) : true;
}

void pb_sleep(pb_ctx *ctx, uint64_t ns)
{
    enum { SLICE_NS = 2000000 };
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
