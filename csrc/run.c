/* SPDX-License-Identifier: MIT
 *
 * run.c (L5) - opening and closing a live replicate, and its account; see run.h and live.h.
 */
#include "run.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "live.h"
#include "thread.h"

pb_status pb_fail(pb_error *error, pb_status status, const char *text)
{
    (void)snprintf(error->text, sizeof error->text, "%s", text);
    return status;
}

/* Which reset, if any, the pool has to do. */
static uint32_t reset_extras(const pb_run *run)
{
    const pb_pool_entry *pool = &pb_pools[run->cell.pool];
    if (!run->args.has_reset || (pool->traits & (PB_CONSTRUCTS_ALWAYS | PB_NEEDS_SHAREABLE)))
        return 0;
    return pb_params_get(&run->cell.pool_params, "reset_on") ? PB_RESET_ON_ACQUIRE
                                                             : PB_RESET_ON_RELEASE;
}

/* Refuses, with the figure, what would not fit. */
static pb_status predict_memory(const pb_run *run, pb_error *error)
{
    const pb_cell *cell = &run->cell;
    const uint32_t traits = pb_pools[cell->pool].traits;
    const bool in_block = (traits & PB_IN_PLACE) && (traits & PB_CONSTRUCTS_ALWAYS) &&
                          !(traits & PB_BURST_ONLY); /* the others grow */
    const uint64_t each =
        in_block ? (uint64_t)pb_params_get(&cell->pool_params, "capacity") : run->pattern.live;
    const size_t bytes = run->args.predicted ? run->args.predicted : run->args.size;
    const double needed = (double)cell->threads * (double)each * (double)bytes;
    if (cell->memory == 0 || needed <= (double)cell->memory)
        return PB_OK;
    (void)snprintf(error->text, sizeof error->text,
                   "needs %.1f MiB (%d threads x %" PRIu64
                   " objects x %zu bytes), %.1f MiB available",
                   needed / 1048576, cell->threads, each, bytes, (double)cell->memory / 1048576);
    return PB_NO_MEMORY;
}

static pb_status open_workload(pb_run *run, pb_error *error)
{
    const pb_workload_entry *entry = &pb_workloads[run->cell.workload];
    (void)pb_fail(error, PB_NO_MEMORY, "the workload could not be opened: out of memory");
    const pb_status status =
        entry->open(&run->args, &run->cell.workload_params, run->cell.spin_per_ms, error);
    if (status != PB_OK)
        return status;
    run->workload_open = true;
    run->args.extras |= reset_extras(run);
    run->inner = (pb_workload){&entry->functions, &run->args};
    run->workload = run->inner;
    run->kernel_workload = run->cell.workload;
    if (run->cell.counted) {
        pb_ledger_wrap(&run->counted_args, &run->wrapper, &run->inner);
        run->workload =
            (pb_workload){&pb_workloads[PB_WORKLOAD_table].functions, &run->counted_args};
        run->kernel_workload = PB_WORKLOAD_table;
    }
    return PB_OK;
}

static pb_status refuse(pb_error *error, const char *pool, const char *text, const char *other)
{
    (void)snprintf(error->text, sizeof error->text, "%s %s, which %s does not support", pool, text,
                   other);
    return PB_BAD_VALUE;
}

/* What the pool cannot do with the workload or the pattern; Python asks the same of the traits
   before it starts us. */
static pb_status check_traits(const pb_cell *cell, pb_error *error)
{
    const uint32_t needs = pb_pools[cell->pool].traits;
    const uint32_t can = pb_workloads[cell->workload].traits;
    const char *pool = pb_pools[cell->pool].is.name;
    const char *workload = pb_workloads[cell->workload].is.name;
    if ((needs & PB_IN_PLACE) && !(can & PB_PLACEABLE))
        return refuse(error, pool, "constructs in memory of its own", workload);
    if ((needs & PB_NEEDS_SHAREABLE) && !(can & PB_SHAREABLE))
        return refuse(error, pool, "hands one object to everybody", workload);
    if ((needs & PB_BURST_ONLY) && cell->pattern != PB_PATTERN_burst)
        return refuse(error, pool, "takes memory back at the end of a burst",
                      pb_patterns[cell->pattern].is.name);
    if ((needs & PB_NEEDS_SHAREABLE) && cell->checked)
        return refuse(error, pool, "has no owners", "checked mode");
    if (cell->counted && !pb_ledger_present())
        return pb_fail(error, PB_SYSTEM, "the counting allocator is not loaded in this process");
    return PB_OK;
}

/* The most objects that a checked replicate has to keep track of: what is held, and what the pool
   may keep by the largest of its own numbers. */
static uint64_t objects_at_once(const pb_run *run)
{
    enum { MOST = 1 << 20 };
    const pb_params *params = &run->cell.pool_params;
    uint64_t largest = 0;
    for (int i = 0; i < params->count; i++)
        if (params->described[i].kind == PB_COUNT_KIND && params->value[i] <= MOST)
            largest = (uint64_t)params->value[i] > largest ? (uint64_t)params->value[i] : largest;
    const uint64_t objects = (uint64_t)run->cell.threads * (run->pattern.live + largest);
    return objects < MOST ? objects : MOST;
}

static pb_status open_checks(pb_run *run, pb_error *error)
{
    if (!run->cell.checked)
        return PB_OK;
    run->checks = pb_checks_open(objects_at_once(run));
    run->closer.checks = run->checks;
    run->args.extras |= PB_CHECKED;
    run->counted_args.extras |= PB_CHECKED;
    return run->checks ? PB_OK : pb_fail(error, PB_NO_MEMORY, "out of memory for checked mode");
}

pb_status pb_judge_checks(const pb_run *run, pb_error *error)
{
    const char *complaint = pb_checks_complaint(run->checks);
    return complaint ? pb_fail(error, PB_BROKEN, complaint) : PB_OK;
}

static pb_status open_parts(pb_run *run, pb_error *error)
{
    run->pool_class = pb_pools[run->cell.pool].class;
    pb_status status = open_workload(run, error);
    if (status != PB_OK)
        return status;
    pb_patterns[run->cell.pattern].open(&run->pattern, &run->cell.pattern_params,
                                        run->cell.spin_per_ms);
    run->closer = (pb_ctx){.control = &run->control,
                           .workload = &run->workload,
                           .params = &run->cell.pool_params,
                           .pattern = &run->pattern,
                           .index = -1};
    if (!run->pool_class->kernels[run->kernel_workload][run->cell.pattern])
        return pb_fail(error, PB_BAD_VALUE, "this build has no kernel for the workload");
    status = predict_memory(run, error);
    if (status == PB_OK)
        status = open_checks(run, error);
    if (status != PB_OK)
        return status;
    pb_ledger_own(PB_OWNER_POOL);
    status = run->pool_class->open(&run->pool, &run->cell.pool_params, run->cell.threads);
    pb_ledger_own(PB_OWNER_HARNESS);
    if (status != PB_OK)
        return pb_fail(error, PB_NO_MEMORY, "the pool could not be opened: out of memory");
    run->pool_open = true;
    return PB_OK;
}

static pb_status start_threads(pb_run *run, pb_error *error)
{
    const pb_cell *cell = &run->cell;
    for (int i = 0; i < cell->threads; i++) {
        pb_member *m = &run->members[i];
        m->run = run;
        m->index = i;
        const int cpu = cell->cpu_count ? cell->cpus[i % cell->cpu_count] : -1;
        if (pb_thread_start(&m->thread, pb_member_main, m, cpu) != PB_OK) {
            (void)snprintf(error->text, sizeof error->text, "cannot start thread %d on CPU %d", i,
                           cpu);
            run->missing = (uint32_t)(cell->threads - i);
            (void)pb_add_acq_rel_u32(&run->control.parked, run->missing); /* see `missing` */
            return PB_SYSTEM;
        }
        m->started = true;
    }
    return PB_OK;
}

static pb_status first_failure(const pb_run *run, pb_error *error)
{
    for (int i = 0; i < run->cell.threads; i++)
        if (run->members[i].status != PB_OK)
            return pb_fail(error, run->members[i].status,
                           "a thread could not attach: the constructor returned nothing");
    return PB_OK;
}

static pb_status open_all(pb_run *run, pb_error *error)
{
    pb_counts before;
    pb_status status = check_traits(&run->cell, error); /* finds the counting allocator as well, */
    pb_ledger_read(&before);                            /* which reads nothing until then */
    if (status == PB_OK)
        status = open_parts(run, error);
    run->missing = status == PB_OK ? 0 : (uint32_t)run->cell.threads;
    if (status != PB_OK)
        return status;
    status = start_threads(run, error);
    if (!pb_parked_all(run))
        return pb_fail(error, PB_LATE, "threads did not attach in time");
    pb_ledger_read(&run->setup);
    pb_counts_since(&run->setup, &before);
    return status == PB_OK ? first_failure(run, error) : status;
}

pb_status pb_run_open(pb_run **out, const pb_cell *cell, pb_error *error)
{
    *out = NULL;
    pb_run *run = pb_new_padded(sizeof *run);
    pb_member *members = calloc((size_t)cell->threads, sizeof *members);
    if (!run || !members) {
        free(run);
        free(members);
        return pb_fail(error, PB_NO_MEMORY, "out of memory");
    }
    run->members = members;
    run->cell = *cell;
    run->control.threads = (uint32_t)cell->threads;
    run->control.untimed = cell->counted;
    const int cpus = cell->cpu_count ? cell->cpu_count : pb_thread_cpus();
    run->stretch = cell->threads > cpus ? (double)cell->threads / cpus : 1.0;
    run->run_in_ns = (uint64_t)(PB_RUN_IN_NS * run->stretch);
    const pb_status status = open_all(run, error);
    if (status == PB_OK) {
        *out = run;
        return PB_OK;
    }
    pb_account ignored;
    pb_error later; /* the first error is the one to report */
    if (status == PB_LATE)
        pb_run_abandon(run);
    else
        (void)pb_run_close(run, &ignored, &later);
    return status;
}

/* Adds one context's counts. */
static void add_counts(pb_account *a, const pb_ctx *ctx)
{
    a->operations += ctx->operations;
    a->constructed += ctx->constructed;
    a->destroyed += ctx->destroyed;
    for (int i = 0; i < PB_OUTCOMES; i++)
        a->outcomes[i] += ctx->outcomes[i];
    for (int i = 0; i < PB_EVENTS; i++)
        a->events[i] += ctx->events[i];
    const uint64_t longest[] = {ctx->longest_wait_ns, ctx->lock_node.longest_wait_ns};
    for (int i = 0; i < 2; i++)
        if (longest[i] > a->longest_wait_ns)
            a->longest_wait_ns = longest[i];
}

/* Everybody has left its kernel and nothing is held: the quiet point. */
static void count_quiet(pb_run *run, pb_account *a)
{
    a->idle = run->pool_open ? run->pool_class->idle(run->pool, NULL) : 0;
    for (int i = 0; i < run->cell.threads; i++) {
        const pb_ctx *ctx = run->members[i].ctx;
        if (!ctx)
            continue;
        add_counts(a, ctx);
        a->idle += run->pool_class->idle(run->pool, ctx);
    }
    pb_complete_outcomes(a->outcomes, a->operations, a->operations);
    pb_counts now;
    pb_ledger_read(&now);
    a->setup = run->setup;
    a->retained_bytes = now.by[PB_OWNER_POOL].live + now.by[PB_OWNER_WORKLOAD].live;
    a->peak_bytes = now.peak;
}

static void close_step(pb_run *run, uint32_t step)
{
    /* release: pairs with the acquires in wait_for_close and pb_checkpoint */
    pb_store_release_u32(&run->control.closing, step);
    pb_futex_wake(&run->control.closing, INT_MAX);
}

static void join_all(pb_run *run)
{
    for (int i = 0; i < run->cell.threads; i++)
        if (run->members[i].started)
            (void)pthread_join(run->members[i].thread, NULL); /* joinable: cannot fail */
}

static void close_pool(pb_run *run)
{
    pb_ledger_enter(&run->closer);
    pb_ledger_own(PB_OWNER_POOL);
    run->pool_class->close(run->pool, &run->closer);
    pb_ledger_own(PB_OWNER_HARNESS);
}

/* Closes pool and workload; returns objects still alive. */
static uint64_t close_parts(pb_run *run)
{
    if (run->pool_open)
        close_pool(run);
    uint64_t alive = run->closer.constructed - run->closer.destroyed;
    for (int i = 0; i < run->cell.threads; i++) {
        const pb_ctx *ctx = run->members[i].ctx;
        alive += ctx ? ctx->constructed - ctx->destroyed : 0;
        free(ctx ? ctx->held : NULL);
        free(run->members[i].ctx);
    }
    if (run->workload_open)
        pb_workloads[run->cell.workload].close(&run->args);
    return alive;
}

/* Operations that say nothing about hits: each thread's first ones construct. */
static uint64_t operations_to_fill(const pb_run *run)
{
    return 2 * (uint64_t)run->cell.threads * run->pattern.live;
}

/* A pool from which no acquire was ever served was not measured, whatever the clock says; unless
   what it had was too old by then: that is an answer. */
static pb_status judge_hits(const pb_run *run, const pb_account *a, pb_error *error)
{
    const uint64_t hits = a->outcomes[PB_LOCAL_HIT] + a->outcomes[PB_SHARED_HIT] +
                          a->outcomes[PB_STOLEN] + a->outcomes[PB_WAITED];
    if (hits > 0 || a->events[PB_AGED] > 0 ||
        (pb_pools[run->cell.pool].traits & PB_CONSTRUCTS_ALWAYS) ||
        a->operations <= operations_to_fill(run))
        return PB_OK;
    (void)snprintf(error->text, sizeof error->text,
                   "pool never exercised: none of %" PRIu64 " acquires found an object in it",
                   a->operations);
    return PB_BROKEN;
}

static pb_status judge(const pb_account *a, pb_error *error)
{
    if (a->constructed == a->destroyed + a->idle && a->retained == 0)
        return PB_OK;
    (void)snprintf(error->text, sizeof error->text,
                   "objects not conserved: %" PRIu64 " constructed, %" PRIu64 " destroyed, %" PRIu64
                   " idle; %" PRIu64 " alive after close",
                   a->constructed, a->destroyed, a->idle, a->retained);
    return PB_BROKEN;
}

pb_status pb_run_close(pb_run *run, pb_account *account, pb_error *error)
{
    memset(account, 0, sizeof *account);
    /* relaxed: published by the release in close_step */
    pb_store_relaxed_u32(&run->control.parked, run->missing);
    close_step(run, PB_LEAVE);
    (void)pb_advance(run); /* parked threads wake up, see that the run is closing, and leave */
    pb_futex_wake(&run->control.epoch, INT_MAX);
    if (!pb_parked_all(run)) {
        pb_run_abandon(run);
        return pb_fail(error, PB_LATE, "threads did not finish in time");
    }
    count_quiet(run, account);
    close_step(run, PB_DETACH);
    join_all(run);
    pb_usage_read(&account->usage);
    account->retained = close_parts(run);
    pb_status status = pb_judge_checks(run, error);
    if (status == PB_OK)
        status = judge(account, error);
    if (status == PB_OK)
        status = judge_hits(run, account, error);
    pb_checks_close(run->checks);
    free(run->members);
    free(run);
    return status;
}

void pb_run_abandon(pb_run *run)
{
    (void)run; /* threads still use every part of it */
}
