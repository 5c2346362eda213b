/* SPDX-License-Identifier: MIT
 *
 * window.c (L5) - the controlling thread's side of a live replicate; see live.h and context.h.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "live.h"
#include "thread.h"

enum {
    LOOK_EVERY_NS = 2000, /* between two looks at the epoch: a look costs 2-10 ns, so below 1 % */
    BATCH_MAX = 4096,     /* and the skew stays below 1 % of a 10 ms window */
    PATIENCE_NS = 1000000000,       /* how long threads may take to park, for each per CPU, ... */
    PATIENCE_LEAST_NS = 2000000000, /* ... at least; waits are park points, so this is generous */
    TICK_NS = 1000000,              /* resolution of the run-time tick */
    WARM_PARTS = 4,                 /* windows of a warm-up whose operations are not slow */
    WARM_LIMIT_S = 10, /* a warm-up grows until an operation completes, but not beyond */
};

/* Moves all threads to the next epoch; returns when. */
uint64_t pb_advance(pb_run *run)
{
    pb_atomic_u32 *epoch = &run->control.epoch;
    /* release: pairs with the acquires in pb_park and pb_checkpoint */
    pb_store_release_u32(epoch, pb_load_relaxed_u32(epoch) + 1); /* relaxed: only we write it */
    return pb_now_ns();
}

/* Waits until all threads are parked; false when they are not by the deadline. */
bool pb_parked_all(pb_run *run)
{
    enum { SLICE_NS = 50000000 };
    uint64_t patience = (uint64_t)(PATIENCE_NS * run->stretch);
    patience = patience < PATIENCE_LEAST_NS ? PATIENCE_LEAST_NS : patience;
    const uint64_t deadline = pb_now_ns() + patience;
    for (;;) {
        /* acquire: pairs with the acq_rel in pb_park; then contexts may be read and written */
        const uint32_t parked = pb_load_acquire_u32(&run->control.parked);
        if (parked == run->control.threads)
            return true;
        if (pb_now_ns() >= deadline)
            return false;
        pb_futex_wait(&run->control.parked, parked, SLICE_NS);
    }
}

/* Time parked is no run time. */
static void count_parked_time(pb_run *run)
{
    const uint64_t parked = pb_load_relaxed_u64(&run->control.parked_ns); /* only we write it */
    /* relaxed: published by the release in pb_advance */
    pb_store_relaxed_u64(&run->control.parked_ns, parked + pb_now_ns() - run->parked_since);
}

/* Advances the tick to run time. */
static void tick(pb_run *run)
{
    const uint64_t run_ns = pb_run_time_ns(&run->closer);
    /* relaxed: a tick orders nothing, it only says that time passes */
    pb_store_relaxed_u32(&run->control.tick, (uint32_t)(run_ns / TICK_NS));
}

/* Sleeps until `ns` on the clock, ticking where something ages by it. */
static void sleep_ticking(pb_run *run, uint64_t ns)
{
    const bool recurs = pb_params_recur(&run->cell.pool_params);
    for (uint64_t now = pb_now_ns(); recurs && now + TICK_NS < ns; now = pb_now_ns()) {
        tick(run);
        pb_sleep_until(now + TICK_NS);
    }
    pb_sleep_until(ns);
}

static void unpark(pb_run *run)
{
    count_parked_time(run);
    /* relaxed: published by the release in advance */
    pb_store_relaxed_u32(&run->control.parked, run->missing);
    (void)pb_advance(run);
    pb_futex_wake(&run->control.epoch, INT_MAX);
}

static void read_counts(pb_run *run, pb_window *window)
{
    for (int i = 0; i < run->cell.threads; i++) {
        const uint64_t *mark = run->members[i].ctx->mark;
        window->operations[i] = mark[PB_PARKED] - mark[PB_MEASURED];
    }
}

pb_status pb_run_window(pb_run *run, double seconds, pb_window *window, pb_error *error)
{
    unpark(run);
    pb_sleep_until(pb_now_ns() + run->run_in_ns);
    pb_usage before, after;
    pb_usage_read(&before);
    const uint64_t cpu = pb_cpu_ns();
    window->start_ns = pb_advance(run);
    sleep_ticking(run, window->start_ns + (uint64_t)(seconds * 1e9));
    const uint64_t end = pb_advance(run);
    window->cpu_ns = pb_cpu_ns() - cpu;
    window->ns = end - window->start_ns;
    pb_usage_read(&after);
    window->usage = pb_usage_between(&before, &after);
    if (!pb_parked_all(run))
        return pb_fail(error, PB_LATE, "threads did not park in time");
    run->parked_since = end;
    read_counts(run, window);
    return pb_judge_checks(run, error);
}

static uint32_t batch_for(double op_ns)
{
    uint32_t batch = 1;
    while (batch < BATCH_MAX && batch * 2 * op_ns <= LOOK_EVERY_NS)
        batch *= 2;
    return batch;
}

/* Sets how often threads look, and how long they run in, from the fastest window so far: a window
   in which the host stopped us says nothing about the operation. */
static void calibrate(pb_run *run, const pb_window *window, pb_warmth *warmth)
{
    uint64_t total = 0;
    for (int i = 0; i < run->cell.threads; i++)
        total += window->operations[i];
    const double running = (double)run->cell.threads / run->stretch;
    const double op_ns = (double)window->ns * running / (double)(total ? total : 1);
    const double rate = (double)total * 1e9 / (double)window->ns;
    if (rate <= warmth->rate)
        return;
    warmth->rate = rate;
    warmth->batch = batch_for(op_ns);
    for (int i = 0; i < run->cell.threads; i++)
        run->members[i].ctx->batch = warmth->batch;
    const double two_each = 2 * op_ns * run->stretch; /* a large object's caches are warm again */
    const double run_in = PB_RUN_IN_NS * run->stretch;
    run->run_in_ns = (uint64_t)(two_each > run_in ? two_each : run_in);
}

/* Whether acquires failed and no object was ever made: an object held for long is no failure. */
static bool only_failures(const pb_run *run)
{
    uint64_t failed = 0, constructed = 0;
    for (int i = 0; i < run->cell.threads; i++) {
        failed += run->members[i].ctx->outcomes[PB_FAILED];
        constructed += run->members[i].ctx->constructed;
    }
    return failed > 0 && constructed == 0;
}

pb_status pb_run_warm(pb_run *run, double seconds, pb_warmth *warmth, pb_error *error)
{
    pb_window window = {.operations = calloc((size_t)run->cell.threads, sizeof(uint64_t))};
    if (!window.operations)
        return pb_fail(error, PB_NO_MEMORY, "out of memory");
    pb_status status = PB_OK;
    double part = seconds / WARM_PARTS, tried = 0;
    *warmth = (pb_warmth){.batch = 1};
    while (status == PB_OK && tried < WARM_LIMIT_S) {
        status = pb_run_window(run, part, &window, error);
        tried += part;
        if (status == PB_OK)
            calibrate(run, &window, warmth);
        if (status == PB_OK && warmth->rate <= 0 && only_failures(run))
            status =
                pb_fail(error, PB_NO_MEMORY, "every acquire failed: construction gave no object");
        if (warmth->rate > 0 && tried >= seconds * 0.99)
            break;
        part *= warmth->rate > 0 ? 1 : 2; /* a slow operation needs longer windows */
    }
    free(window.operations);
    if (status == PB_OK && warmth->rate <= 0)
        return pb_fail(error, PB_LATE, "window too short: no operation completed within 10 s");
    return status;
}

/* Turns a reading into what happened since an earlier one; `live` and `peak` stay readings. */
void pb_counts_since(pb_counts *now, const pb_counts *before)
{
    for (int i = 0; i < PB_OWNERS; i++) {
        now->by[i].allocations -= before->by[i].allocations;
        now->by[i].frees -= before->by[i].frees;
        now->by[i].bytes -= before->by[i].bytes;
    }
}

/* The two outcomes that kernels do not count one by one are what is left of all. */
void pb_complete_outcomes(uint64_t outcomes[PB_OUTCOMES], uint64_t acquired, uint64_t released)
{
    outcomes[PB_LOCAL_HIT] = acquired;
    outcomes[PB_KEPT] = released;
    for (int i = PB_LOCAL_HIT + 1; i < PB_ACQUIRES; i++)
        outcomes[PB_LOCAL_HIT] -= i == PB_FAILED || i == PB_TIMED_OUT ? 0 : outcomes[i];
    for (int i = PB_KEPT + 1; i < PB_OUTCOMES; i++)
        outcomes[PB_KEPT] -= outcomes[i];
}

/* Objects that a thread's pattern keeps from one operation to the next. */
static uint64_t kept_out(const pb_ctx *ctx)
{
    uint64_t count = 0;
    for (uint64_t i = 0; i < ctx->pattern->live; i++)
        count += ctx->held[i].object != NULL;
    return count;
}

/* Adds all threads' counts, with sign: -1 before a pass and +1 after it leave the difference. */
static void add_pass(const pb_run *run, pb_pass *pass, uint64_t *released, uint64_t sign)
{
    for (int i = 0; i < run->cell.threads; i++) {
        const pb_ctx *ctx = run->members[i].ctx;
        pass->operations += sign * ctx->operations;
        *released += sign * (ctx->operations - kept_out(ctx));
        for (int k = 0; k < PB_OUTCOMES; k++)
            pass->outcomes[k] += sign * ctx->outcomes[k];
    }
}

pb_status pb_run_pass(pb_run *run, uint32_t attempts, pb_pass *pass, pb_error *error)
{
    pb_counts before;
    uint64_t released = 0;
    memset(pass, 0, sizeof *pass);
    add_pass(run, pass, &released, (uint64_t)-1);
    pb_ledger_read(&before);
    for (int i = 0; i < run->cell.threads; i++)
        run->members[i].ctx->batch = attempts;
    /* relaxed: published by the release below */
    pb_store_relaxed_u32(&run->control.parked, run->missing);
    /* The epoch goes straight to the next `parked`: threads see it after one batch (pb_park).
       release: pairs with the acquires in pb_park and pb_checkpoint */
    pb_store_release_u32(&run->control.epoch, pb_load_relaxed_u32(&run->control.epoch) + PB_PHASES);
    pb_futex_wake(&run->control.epoch, INT_MAX);
    if (!pb_parked_all(run))
        return pb_fail(error, PB_LATE, "threads did not finish a counted pass in time");
    pb_ledger_read(&pass->counts);
    pb_counts_since(&pass->counts, &before);
    add_pass(run, pass, &released, 1);
    pb_complete_outcomes(pass->outcomes, pass->operations, released);
    return pb_judge_checks(run, error);
}
