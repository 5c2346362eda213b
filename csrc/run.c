/* SPDX-License-Identifier: MIT - see run.h */
#include "run.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "thread.h"

enum {
    RUN_IN_NS = 1000000,      /* unmeasured part at the head of each window */
    LOOK_EVERY_NS = 2000,     /* between two looks at the epoch: a look costs 2-10 ns, so < 1 % */
    BATCH_MAX = 4096,         /* and the skew stays below 1 % of a 10 ms window */
    PATIENCE_NS = 1000000000, /* how long threads may take to park, for each thread per CPU, ... */
    PATIENCE_LEAST_NS = 2000000000, /* ... at least; waits are park points, so this is generous */
    WARM_LIMIT_NS = 10000000,       /* slowest operation tried for, in microseconds: 10 s */
    FILL_BLOCKS = 32,               /* heap pre-fill: blocks drawn per thread */
    FILL_BYTES = 1024,              /* and their largest size */
    STACK_STEPS = 2048,             /* stack offset: up to this many steps of 16 bytes */
};

/* The steps of closing: threads leave their kernels and report, all is counted, then they detach.
 */
enum { LEAVE = 1, DETACH = 2 };

/* One thread of the run. */
typedef struct member {
    pthread_t thread;
    bool started;
    pb_run *run;
    pb_ctx *ctx; /* allocated by its own thread, from its own arena */
    pb_status status;
    int index;
    void *fill[FILL_BLOCKS]; /* heap pre-fill */
} member;

struct pb_run {
    pb_control control;
    pb_cell cell;
    const pb_pool_class *pool_class;
    pb_pool *pool;
    pb_workload workload;
    pb_pattern pattern;
    pb_ctx closer;  /* the controller's context: closing the pool destroys through it */
    double stretch; /* threads per CPU, at least 1 */
    uint64_t run_in_ns;
    bool workload_open, pool_open;
    uint32_t missing; /* threads that could not be started: reported on their behalf */
    member *members;
};

static pb_status fail(pb_error *error, pb_status status, const char *text)
{
    (void)snprintf(error->text, sizeof error->text, "%s", text);
    return status;
}

/* ---- the threads ---------------------------------------------------------------------------- */

static void fill_heap(member *m, pb_rng *rng)
{
    const uint64_t blocks = pb_rng_below(rng, FILL_BLOCKS);
    for (uint64_t i = 0; i < blocks; i++)
        m->fill[i] = malloc(16 + pb_rng_below(rng, FILL_BYTES)); /* NULL is no harm: only a shift */
}

static pb_status attach(member *m, pb_rng rng)
{
    pb_run *run = m->run;
    pb_ctx *ctx = pb_new_padded(run->pool_class->ctx_size);
    if (!ctx)
        return PB_NO_MEMORY;
    ctx->control = &run->control;
    ctx->workload = &run->workload;
    ctx->pattern = &run->pattern;
    ctx->index = m->index;
    ctx->batch = 1;
    ctx->rng = rng;
    m->ctx = ctx;
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

static PB_NOINLINE void live(member *m, pb_rng rng)
{
    pb_run *run = m->run;
    m->status = attach(m, rng);
    if (m->status != PB_OK)
        report(run);
    else if (pb_park(m->ctx))
        run->pool_class->kernels[run->cell.workload][run->cell.pattern](m->ctx);
    wait_for_close(run, LEAVE);
    report(run);
    wait_for_close(run, DETACH);
    if (m->status == PB_OK)
        run->pool_class->detach(run->pool, m->ctx);
}

/* Draws where its stack and its heap begin, then lives. */
static void *thread_main(void *arg)
{
    member *m = arg;
    pb_rng rng = {m->run->cell.seed ^ ((uint64_t)(m->index + 1) << 32)};
    const size_t offset = 16 * (1 + pb_rng_below(&rng, STACK_STEPS));
    (void)pb_launder(__builtin_alloca(offset)); /* the barrier keeps it from being dropped */
    fill_heap(m, &rng);
    live(m, rng);
    for (int i = 0; i < FILL_BLOCKS; i++)
        free(m->fill[i]);
    return NULL;
}

/* ---- the controller ------------------------------------------------------------------------- */

/* Moves all threads to the next epoch; returns when. */
static uint64_t advance(pb_run *run)
{
    pb_atomic_u32 *epoch = &run->control.epoch;
    /* release: pairs with the acquires in pb_park and pb_checkpoint */
    pb_store_release_u32(epoch, pb_load_relaxed_u32(epoch) + 1); /* relaxed: only we write it */
    return pb_now_ns();
}

/* Waits until all threads are parked; false when they are not by the deadline. */
static bool parked_all(pb_run *run)
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

static void unpark(pb_run *run)
{
    /* relaxed: published by the release in advance */
    pb_store_relaxed_u32(&run->control.parked, run->missing);
    (void)advance(run);
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
    const uint64_t cpu = pb_cpu_ns();
    window->start_ns = advance(run);
    pb_sleep_until(window->start_ns + (uint64_t)(seconds * 1e9));
    const uint64_t end = advance(run);
    window->cpu_ns = pb_cpu_ns() - cpu;
    window->ns = end - window->start_ns;
    if (!parked_all(run))
        return fail(error, PB_TIMED_OUT, "threads did not park in time");
    read_counts(run, window);
    return PB_OK;
}

/* ---- warm-up and calibration ---------------------------------------------------------------- */

static uint32_t batch_for(double op_ns)
{
    uint32_t batch = 1;
    while (batch < BATCH_MAX && batch * 2 * op_ns <= LOOK_EVERY_NS)
        batch *= 2;
    return batch;
}

/* Sets how often threads look, and how long they run in, from one window. */
static void calibrate(pb_run *run, const pb_window *window, pb_warmth *warmth)
{
    uint64_t total = 0;
    for (int i = 0; i < run->cell.threads; i++)
        total += window->operations[i];
    const double running = (double)run->cell.threads / run->stretch;
    const double op_ns = (double)window->ns * running / (double)(total ? total : 1);
    warmth->rate = (double)total * 1e9 / (double)window->ns;
    warmth->batch = batch_for(op_ns);
    for (int i = 0; i < run->cell.threads; i++)
        run->members[i].ctx->batch = warmth->batch;
    const double two_each = 2 * op_ns * run->stretch; /* a large object's caches are warm again */
    const double run_in = RUN_IN_NS * run->stretch;
    run->run_in_ns = (uint64_t)(two_each > run_in ? two_each : run_in);
}

pb_status pb_run_warm(pb_run *run, double seconds, pb_warmth *warmth, pb_error *error)
{
    pb_window window = {.operations = calloc((size_t)run->cell.threads, sizeof(uint64_t))};
    if (!window.operations)
        return fail(error, PB_NO_MEMORY, "out of memory");
    pb_status status = PB_OK;
    double part = seconds / 4;
    warmth->rate = 0;
    for (double tried = 0; status == PB_OK && tried < WARM_LIMIT_NS / 1e6;
         tried += part, part *= 2) {
        status = pb_run_window(run, part, &window, error);
        if (status == PB_OK)
            calibrate(run, &window, warmth);
        if (warmth->rate > 0 && tried >= seconds / 4)
            break;
    }
    free(window.operations);
    if (status == PB_OK && warmth->rate <= 0)
        return fail(error, PB_TIMED_OUT, "window too short: no operation completed within 10 s");
    return status;
}

/* ---- opening and closing -------------------------------------------------------------------- */

/* Which reset, if any, the pool has to do. */
static uint32_t reset_extras(const pb_run *run)
{
    const pb_pool_entry *pool = &pb_pools[run->cell.pool];
    if (!run->workload.has_reset || (pool->traits & PB_CONSTRUCTS_ALWAYS))
        return 0;
    return pb_params_get(&run->cell.pool_params, "reset_on") ? PB_RESET_ON_ACQUIRE
                                                             : PB_RESET_ON_RELEASE;
}

static pb_status open_parts(pb_run *run, pb_error *error)
{
    const pb_workload_entry *workload = &pb_workloads[run->cell.workload];
    run->pool_class = pb_pools[run->cell.pool].class;
    run->workload = workload->functions;
    if (workload->open(&run->workload, &run->cell.workload_params) != PB_OK)
        return fail(error, PB_NO_MEMORY, "the workload could not be opened: out of memory");
    run->workload_open = true;
    run->workload.args.extras |= reset_extras(run);
    pb_patterns[run->cell.pattern].open(&run->pattern, &run->cell.pattern_params,
                                        run->cell.spin_per_ms);
    run->closer = (pb_ctx){.control = &run->control,
                           .workload = &run->workload,
                           .pattern = &run->pattern,
                           .index = -1};
    if (run->pool_class->open(&run->pool, &run->cell.pool_params, run->cell.threads) != PB_OK)
        return fail(error, PB_NO_MEMORY, "the pool could not be opened: out of memory");
    run->pool_open = true;
    return PB_OK;
}

static pb_status start_threads(pb_run *run, pb_error *error)
{
    const pb_cell *cell = &run->cell;
    for (int i = 0; i < cell->threads; i++) {
        member *m = &run->members[i];
        m->run = run;
        m->index = i;
        const int cpu = cell->cpu_count ? cell->cpus[i % cell->cpu_count] : -1;
        if (pb_thread_start(&m->thread, thread_main, m, cpu) != PB_OK) {
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
            return fail(error, run->members[i].status,
                        "a thread could not attach: the constructor returned nothing");
    return PB_OK;
}

static pb_status open_all(pb_run *run, pb_error *error)
{
    pb_status status = open_parts(run, error);
    run->missing = status == PB_OK ? 0 : (uint32_t)run->cell.threads;
    if (status != PB_OK)
        return status;
    status = start_threads(run, error);
    if (!parked_all(run))
        return fail(error, PB_TIMED_OUT, "threads did not attach in time");
    return status == PB_OK ? first_failure(run, error) : status;
}

pb_status pb_run_open(pb_run **out, const pb_cell *cell, pb_error *error)
{
    *out = NULL;
    pb_run *run = pb_new_padded(sizeof *run);
    member *members = calloc((size_t)cell->threads, sizeof *members);
    if (!run || !members) {
        free(run);
        free(members);
        return fail(error, PB_NO_MEMORY, "out of memory");
    }
    run->members = members;
    run->cell = *cell;
    run->control.threads = (uint32_t)cell->threads;
    const int cpus = cell->cpu_count ? cell->cpu_count : pb_thread_cpus();
    run->stretch = cell->threads > cpus ? (double)cell->threads / cpus : 1.0;
    run->run_in_ns = (uint64_t)(RUN_IN_NS * run->stretch);
    const pb_status status = open_all(run, error);
    if (status == PB_OK) {
        *out = run;
        return PB_OK;
    }
    pb_account ignored;
    pb_error later; /* the first error is the one to report */
    if (status == PB_TIMED_OUT)
        pb_run_abandon(run);
    else
        (void)pb_run_close(run, &ignored, &later);
    return status;
}

/* Adds one context's counts; `acquires` and `releases` had some outcome each. */
static void add_counts(pb_account *a, const pb_ctx *ctx)
{
    a->operations += ctx->operations;
    a->constructed += ctx->constructed;
    a->destroyed += ctx->destroyed;
    for (int i = 0; i < PB_OUTCOMES; i++)
        a->outcomes[i] += ctx->outcomes[i];
}

/* The two outcomes that kernels do not count one by one are what is left of all operations. */
static void complete_outcomes(pb_account *a)
{
    uint64_t acquired = 0, released = 0;
    for (int i = PB_LOCAL_HIT + 1; i < PB_ACQUIRES; i++)
        acquired += i == PB_FAILED ? 0 : a->outcomes[i];
    for (int i = PB_KEPT + 1; i < PB_OUTCOMES; i++)
        released += a->outcomes[i];
    a->outcomes[PB_LOCAL_HIT] = a->operations - acquired;
    a->outcomes[PB_KEPT] = a->operations - released;
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
    complete_outcomes(a);
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

/* Closes pool and workload; returns objects still alive. */
static uint64_t close_parts(pb_run *run)
{
    if (run->pool_open)
        run->pool_class->close(run->pool, &run->closer);
    uint64_t alive = run->closer.constructed - run->closer.destroyed;
    for (int i = 0; i < run->cell.threads; i++) {
        const pb_ctx *ctx = run->members[i].ctx;
        alive += ctx ? ctx->constructed - ctx->destroyed : 0;
        free(run->members[i].ctx);
    }
    if (run->workload_open)
        pb_workloads[run->cell.workload].close(&run->workload);
    return alive;
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
    close_step(run, LEAVE);
    (void)advance(run); /* parked threads wake up, see that the run is closing, and leave */
    pb_futex_wake(&run->control.epoch, INT_MAX);
    if (!parked_all(run)) {
        pb_run_abandon(run);
        return fail(error, PB_TIMED_OUT, "threads did not finish in time");
    }
    count_quiet(run, account);
    close_step(run, DETACH);
    join_all(run);
    pb_usage_read(&account->usage);
    account->retained = close_parts(run);
    const pb_status status = judge(account, error);
    free(run->members);
    free(run);
    return status;
}

void pb_run_abandon(pb_run *run)
{
    (void)run; /* threads still use every part of it */
}
