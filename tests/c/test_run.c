/* SPDX-License-Identifier: MIT
 *
 * test_run.c - live replicates: open, warm up, windows, close; and what goes wrong on the way.
 *
 * Limits of time here are generous and only tell "prompt" from "hangs".
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>

#include "check.h"
#include "clock.h"
#include "replicate.h"
#include "thread.h"

enum { MOST_THREADS = 16, ROOMY = 2048 };

static const double SHORT = 0.004; /* seconds of a window */

/* What the kernel counted in one window, which took `whole_ns` with running in and parking. */
static void check_usage(const pb_window *w, uint64_t whole_ns)
{
    CHECK(w->ns <= whole_ns);
    CHECK(w->cpu_ns <= whole_ns * (uint64_t)pb_thread_cpus() + 20000000); /* 20 ms: clock grain */
    CHECK(w->usage.minor_faults < 100000000 && w->usage.major_faults < 100000000); /* no wrap */
    CHECK(w->usage.voluntary_switches < 100000000 && w->usage.involuntary_switches < 100000000);
    CHECK(w->usage.peak_rss > 1u << 20); /* a whole process fits in no megabyte */
}

/* One window; returns the operations of all threads. */
static uint64_t window(pb_run *run, const pb_cell *cell, double seconds)
{
    uint64_t operations[MOST_THREADS];
    pb_window w = {.operations = operations};
    pb_error error = {""};
    const uint64_t before = pb_now_ns();
    if (!CHECK_EQ(pb_run_window(run, seconds, &w, &error), PB_OK))
        (void)printf("    %s\n", error.text);
    CHECK(w.start_ns >= before);
    CHECK((double)w.ns >= seconds * 1e9);
    check_usage(&w, pb_now_ns() - before);
    uint64_t total = 0;
    for (int i = 0; i < cell->threads; i++)
        total += operations[i];
    return total;
}

/* A window with operations in it. A busy machine may keep a thread from running for a whole window,
 * or for some; not for all of these. */
static uint64_t busy_window(pb_run *run, const pb_cell *cell)
{
    uint64_t operations = 0;
    for (int i = 0; i < 100 && operations == 0; i++)
        operations = window(run, cell, SHORT);
    CHECK(operations > 0);
    return operations;
}

/* The sentence of the refusal is left in `refusal`. */
static _Thread_local pb_error refusal;

static void check_refused(const pb_cell *cell, pb_status wanted)
{
    pb_run *run;
    refusal.text[0] = '\0';
    const uint64_t start = pb_now_ns();
    CHECK_EQ(pb_run_open(&run, cell, &refusal), wanted);
    CHECK(run == NULL);
    CHECK(strlen(refusal.text) > 0);
    CHECK(pb_now_ns() - start < 20000000000);
}

/* ---- every pool x workload x pattern --------------------------------------------------------- */

static void test_life(const pb_cell *cell)
{
    pb_run *run = replicate_open(cell);
    pb_warmth warmth;
    pb_error error = {""};
    CHECK_EQ(pb_run_warm(run, 2 * SHORT, &warmth, &error), PB_OK);
    CHECK(warmth.rate > 0);
    CHECK(warmth.batch >= 1);
    uint64_t counted = 0;
    for (int i = 0; i < 2; i++)
        counted += busy_window(run, cell);
    const pb_account account = replicate_close(run);
    CHECK(account.operations >= counted); /* running in and warming up count as well */
    replicate_check_outcomes(&account);
}

static void test_kernel(int pool, int workload, int pattern, int threads)
{
    const pb_cell cell = cell_of(cell_roomy(pool, ROOMY), pb_workloads[workload].is.name,
                                 pb_patterns[pattern].is.name, threads);
    check_in("%s x %s x %s, %d threads", pb_pools[pool].is.name, pb_workloads[workload].is.name,
             pb_patterns[pattern].is.name, threads);
    if (cell_is_stamped(&cell) && cell_exists(pool, workload) && cell_runs(pool, pattern))
        test_life(&cell);
    else if (threads == 1)
        check_refused(&cell, PB_BAD_VALUE);
}

/* Each with one thread; with more than there are CPUs, one workload for each pool and pattern. */
static void test_every_kernel(void)
{
    for (int pool = 0; pool < PB_POOL_COUNT; pool++)
        for (int pattern = 0; pattern < PB_PATTERN_COUNT; pattern++) {
            for (int workload = 0; workload < PB_WORKLOAD_COUNT; workload++)
                test_kernel(pool, workload, pattern, 1);
            const int turn = (pool + pattern) % PB_WORKLOAD_COUNT;
            test_kernel(pool, turn, pattern, 5);
            test_kernel(pool, PB_WORKLOAD_bytes, pattern, 5);
        }
}

/* ---- optional behaviour ---------------------------------------------------------------------- */

static void test_optional_behaviour(void)
{
    static const char *const cells[][3] = {
        {"fresh", "bytes zero=calloc touch=all", "churn"},
        {"fresh", "bytes zero=none touch=pages size=100000", "churn think_ns=1000 hold_ns=500"},
        {"fresh", "rng kind=xoshiro", "churn"},
        {"thread_local", "bytes reset=full", "churn"},
        {"thread_local reset_on=acquire", "direct", "churn hold_ns=300 hold=spin"},
        {"locked capacity=1", "bytes reset=header size=16", "churn"},
        {"locked capacity=2 lock=parking order=fifo", "direct", "churn think_ns=200"},
        {"locked construct=inside reset_on=acquire", "rng", "churn hold_ns=100000"},
        {"slab capacity=2 handles=1", "direct", "churn think_ns=200"},
        {"slab capacity=64 handles=1", "bytes touch=pages size=10000", "steady live=64"},
        {"thread_cache cap=1 trim_ops=3", "context", "churn hold_ns=300"},
        {"thread_cache cap=3 trim_ops=100 reset_on=acquire", "bytes reset=full", "steady live=9"},
        {"thread_local reset_on=acquire", "synthetic reset_ns=200 use_ns=100", "steady live=2"},
        {"fresh", "synthetic construct_ns=500 global_ns=300 destroy_ns=100 bytes=5000", "churn"},
        {"locked capacity=4 reset_on=acquire", "table", "steady live=6"},
        {"thread_cache", "table symbol=no_reset", "churn think_ns=100000"},
        {"locked", "widget", "steady live=4096"},
        {"bag hints=2 wait=spin", "bytes reset=full", "burst objects=7 order=random"},
        {"bag max_total=2 wait=yield reset_on=acquire", "direct", "churn hold_ns=1000"},
        {"bag max_total=2 hints=0", "context", "churn"},
        {"arena chunk=1000 retain=2", "bytes", "burst objects=3 order=reverse"},
        {"locked", "table", "burst objects=5000 order=random"},
    };
    for (size_t i = 0; i < sizeof cells / sizeof cells[0]; i++) {
        const pb_cell cell = cell_of(cells[i][0], cells[i][1], cells[i][2], 3);
        check_in("%s x %s x %s", cells[i][0], cells[i][1], cells[i][2]);
        if (cell_is_stamped(&cell))
            test_life(&cell);
    }
}

/* Misses, overflows and hits show where they must, and nowhere else. */
static void test_outcomes_tell_what_happened(void)
{
    check_in("outcomes");
    pb_cell cell = cell_of("fresh", "bytes", "churn", 2);
    pb_run *run = replicate_open(&cell);
    (void)window(run, &cell, SHORT);
    pb_account a = replicate_close(run);
    CHECK_EQ(a.outcomes[PB_CONSTRUCTED], a.operations);
    CHECK_EQ(a.outcomes[PB_DESTROYED], a.operations);
    CHECK_EQ(a.idle, 0);
    cell = cell_of("thread_local", "bytes", "churn", 2);
    run = replicate_open(&cell);
    (void)window(run, &cell, SHORT);
    a = replicate_close(run);
    CHECK_EQ(a.outcomes[PB_LOCAL_HIT], a.operations);
    CHECK_EQ(a.outcomes[PB_KEPT], a.operations);
    CHECK_EQ(a.constructed, 2);
    CHECK_EQ(a.idle, 2);
    cell = cell_of("locked", "bytes", "churn", 2);
    run = replicate_open(&cell);
    (void)window(run, &cell, SHORT);
    a = replicate_close(run);
    CHECK_EQ(a.outcomes[PB_LOCAL_HIT], 0);
    CHECK_EQ(a.outcomes[PB_DESTROYED], 0);
    CHECK(a.constructed <= 2);
}

/* ---- parking --------------------------------------------------------------------------------- */

static void test_close_without_window(void)
{
    check_in("closed straight after opening");
    for (int threads = 1; threads <= 5; threads += 4) {
        const pb_cell cell = cell_of("thread_local", "direct", "churn", threads);
        const pb_account a = replicate_close(replicate_open(&cell));
        CHECK_EQ(a.operations, 0);
        CHECK_EQ(a.constructed, threads);
    }
}

static void test_long_parking(void)
{
    check_in("long parking");
    const pb_cell cell = cell_of("locked", "bytes", "churn", 3);
    pb_run *run = replicate_open(&cell);
    const uint64_t first = busy_window(run, &cell);
    const uint64_t cpu = pb_cpu_ns();
    pb_sleep_until(pb_now_ns() + 200000000);
    CHECK(pb_cpu_ns() - cpu < 100000000); /* parked threads sleep, or they burn 200 ms and more */
    const uint64_t second = busy_window(run, &cell);
    check_in("long parking, close");
    CHECK(replicate_close(run).operations >= first + second);
}

/* Threads that sleep with an object park within their sleep, and still hold it. */
static void test_sleepers_park(const char *pool, const char *pattern)
{
    check_in("%s, %s", pool, pattern);
    const pb_cell cell = cell_of(pool, "direct", pattern, 3);
    pb_run *run = replicate_open(&cell);
    const uint64_t start = pb_now_ns();
    for (int i = 0; i < 4; i++)
        (void)window(run, &cell, 0.01);
    CHECK(pb_now_ns() - start < 3000000000);
    const uint64_t closing = pb_now_ns();
    const pb_account a = replicate_close(run);
    CHECK(pb_now_ns() - closing < 3000000000);
    replicate_check_outcomes(&a);
}

/* Sleeping counts run time only: no operation ends while the thread is parked, however long. */
static void test_parked_time_is_no_sleep(void)
{
    check_in("parked time");
    const pb_cell cell = cell_of("fresh", "bytes", "churn hold_ns=400000000 hold=sleep", 1);
    pb_run *run = replicate_open(&cell);
    uint64_t operations = window(run, &cell, SHORT);
    pb_sleep_until(pb_now_ns() + 450000000);
    operations += window(run, &cell, SHORT);
    CHECK_EQ(operations, 0);
    (void)replicate_close(run);
}

/* Sleeping with an object is a voluntary switch each time, and burns no CPU time. */
static void test_usage_of_sleepers(void)
{
    check_in("usage of sleepers");
    const pb_cell cell = cell_of("locked", "bytes", "churn hold_ns=1000000 hold=sleep", 2);
    pb_run *run = replicate_open(&cell);
    uint64_t operations[2];
    pb_window w = {.operations = operations};
    pb_error error;
    CHECK_EQ(pb_run_window(run, 0.1, &w, &error), PB_OK);
    CHECK(w.usage.voluntary_switches >= (operations[0] + operations[1]) / 2);
    CHECK(w.usage.voluntary_switches > 10);
    CHECK(w.cpu_ns < w.ns);
    (void)replicate_close(run);
}

/* New pages are faults of the window that touches them; here they are given back each time. */
static void test_usage_of_faults(void)
{
    check_in("usage of faults");
    const pb_cell cell = cell_of("fresh", "bytes size=16777216 zero=none touch=pages", "churn", 1);
    pb_run *run = replicate_open(&cell);
    uint64_t operations[1];
    pb_window w = {.operations = operations};
    pb_error error;
    uint64_t faults = 0;
    for (int i = 0; i < 100 && faults <= 8; i++) { /* a busy machine may keep it from running */
        CHECK_EQ(pb_run_window(run, SHORT, &w, &error), PB_OK);
        faults += w.usage.minor_faults;
    }
    CHECK(faults > 8); /* with huge pages: 8 for each operation; else 4096 */
    (void)window(run, &cell, SHORT);
    pb_usage_read(&w.usage);
    CHECK(w.usage.peak_rss > 16u << 20);
    (void)replicate_close(run);
}

/* ---- counted passes -------------------------------------------------------------------------- */

static pb_pass passed(pb_run *run, uint32_t attempts)
{
    pb_pass pass;
    pb_error error = {""};
    if (!CHECK_EQ(pb_run_pass(run, attempts, &pass, &error), PB_OK))
        (void)printf("    %s\n", error.text);
    return pass;
}

static void check_pass(const pb_pass *p, uint64_t attempts)
{
    const uint64_t *n = p->outcomes;
    CHECK_EQ(p->operations, attempts);
    CHECK_EQ(n[PB_FAILED], 0);
    CHECK_EQ(n[PB_LOCAL_HIT] + n[PB_SHARED_HIT] + n[PB_CONSTRUCTED], p->operations);
    CHECK_EQ(n[PB_KEPT] + n[PB_DESTROYED], p->operations);
}

/* Exactly so many attempts per thread, not one more, whatever came before and after. */
static void test_passes(void)
{
    static const char *const pools[] = {"fresh", "thread_local", "slab", "thread_cache", "locked"};
    for (int i = 0; i < 5; i++) {
        check_in("passes of %s", pools[i]);
        const pb_cell cell = cell_of(pools[i], "widget", "churn", 3);
        pb_run *run = replicate_open(&cell);
        pb_warmth warmth;
        pb_error error;
        uint64_t total = 0;
        static const uint32_t attempts[] = {1, 7, 1000, 1000, 100000};
        for (int k = 0; k < 5; k++) {
            const pb_pass pass = passed(run, attempts[k]);
            check_pass(&pass, 3 * attempts[k]);
            total += pass.operations;
        }
        CHECK_EQ(pb_run_warm(run, SHORT, &warmth, &error), PB_OK);
        const pb_pass pass = passed(run, 11);
        check_pass(&pass, 33);
        const pb_account a = replicate_close(run);
        CHECK(a.operations > total + 33);
        replicate_check_outcomes(&a);
    }
}

/* ---- failures -------------------------------------------------------------------------------- */

static void test_failing_attach(void)
{
    check_in("attach fails");
    /* two of three threads get their object; the third waits half a second for the quota */
    const pb_cell cell = cell_of("thread_local", "direct size=1024 quota=2048", "churn", 3);
    check_refused(&cell, PB_NO_MEMORY);
}

static void test_cpus(void)
{
    const int here = sched_getcpu();
    pb_cell cell = cell_of("locked", "bytes", "churn", 3);
    check_in("one CPU for three threads");
    cell.cpus = &here;
    cell.cpu_count = 1;
    test_life(&cell);
    check_in("a CPU that is not there");
    const int missing[] = {here, 1023};
    cell.cpus = missing;
    cell.cpu_count = 2;
    check_refused(&cell, PB_SYSTEM);
}

/* A quota that is too small for one object: every acquire fails, none is an operation. */
static void test_only_failures(void)
{
    check_in("only failures");
    const pb_cell cell = cell_of("fresh", "direct size=1024 quota=512", "churn", 2);
    pb_run *run = replicate_open(&cell);
    CHECK_EQ(window(run, &cell, 0.01), 0); /* parks when the first acquire has failed: 0.5 s */
    const pb_account a = replicate_close(run);
    CHECK_EQ(a.operations, 0);
    CHECK_EQ(a.constructed, 0);
    CHECK(a.outcomes[PB_FAILED] > 0);
    replicate_check_outcomes(&a);
}

/* Said after one window, not after trying for 10 s. */
static void check_warm_fails(const char *pool, const char *workload, const char *pattern)
{
    check_in("%s x %s x %s: every acquire fails", pool, workload, pattern);
    const pb_cell cell = cell_of(pool, workload, pattern, 2);
    pb_run *run = replicate_open(&cell);
    pb_warmth warmth;
    pb_error error = {""};
    const uint64_t start = pb_now_ns();
    CHECK_EQ(pb_run_warm(run, 0.04, &warmth, &error), PB_NO_MEMORY);
    CHECK(strstr(error.text, "every acquire failed"));
    CHECK(pb_now_ns() - start < 4000000000);
    const pb_account a = replicate_close(run);
    CHECK_EQ(a.operations, 0);
    CHECK_EQ(a.constructed, 0);
    replicate_check_outcomes(&a);
}

static void test_warm_of_only_failures(void)
{
    check_warm_fails("fresh", "table symbol=fails_always", "churn");
    check_warm_fails("locked", "table symbol=fails_always", "steady");
    check_warm_fails("thread_cache", "table symbol=fails_always", "churn think_ns=1000");
    check_warm_fails("slab", "direct size=1024 quota=512", "churn");
    check_warm_fails("slab", "direct size=1024 quota=512", "steady live=2");
}

/* One thread sleeps with the only object, the other fails: that is no failure of every acquire. */
static void test_warm_of_a_long_hold(void)
{
    check_in("warm-up of a long hold");
    const pb_cell cell =
        cell_of("fresh", "direct size=1024 quota=1024", "churn hold_ns=900000000 hold=sleep", 2);
    pb_run *run = replicate_open(&cell);
    pb_warmth warmth;
    pb_error error = {""};
    if (!CHECK_EQ(pb_run_warm(run, 0.04, &warmth, &error), PB_OK))
        (void)printf("    %s\n", error.text);
    const pb_account a = replicate_close(run);
    CHECK(a.operations > 0);
    replicate_check_outcomes(&a);
}

/* Refused with the figure, before anything is allocated; one byte more and it opens. */
static void check_memory(const char *pool, const char *workload, const char *pattern,
                         uint64_t needed, const char *sentence)
{
    check_in("%s x %s x %s: memory", pool, workload, pattern);
    pb_cell cell = cell_of(pool, workload, pattern, 2);
    cell.memory = needed - 1;
    check_refused(&cell, PB_NO_MEMORY);
    if (!CHECK(strstr(refusal.text, sentence)))
        (void)printf("    %s\n", refusal.text);
    cell.memory = needed;
    pb_run *run = needed < 1u << 30 ? replicate_open(&cell) : NULL;
    if (run)
        (void)replicate_close(run);
}

static void test_memory(void)
{
    check_memory("locked", "bytes size=1048576", "churn", 2u << 20,
                 "needs 2.0 MiB (2 threads x 1 objects x 1048576 bytes), 2.0 MiB available");
    check_memory("fresh", "bytes size=1048576", "steady live=100", 200u << 20,
                 "needs 200.0 MiB (2 threads x 100 objects x 1048576 bytes)");
    check_memory("slab capacity=16384", "bytes size=64", "churn", 2u << 20,
                 "needs 2.0 MiB (2 threads x 16384 objects x 64 bytes)");
    check_memory("thread_local", "direct size=1000000", "churn", 2 * (1000000 + 32),
                 "objects x 1000032 bytes");
    check_memory("fresh", "widget", "steady live=4096", 2 * 4096 * 56, "objects x 56 bytes");
    check_memory("locked", "table symbol=huge", "churn", (uint64_t)2 << 40,
                 "needs 2097152.0 MiB (2 threads x 1 objects x 1099511627776 bytes)");
}

/* The counting allocator is not loaded here: a counted replicate must not pretend. */
static void test_counted_needs_the_allocator(void)
{
    check_in("counted");
    pb_cell cell = cell_of("locked", "bytes", "churn", 1);
    cell.counted = true;
    check_refused(&cell, PB_SYSTEM);
    CHECK(strstr(refusal.text, "counting allocator"));
}

/* One object for two threads. Whoever holds it sleeps longer than the other is patient. */
static void test_some_failures(void)
{
    check_in("some failures");
    const pb_cell cell =
        cell_of("fresh", "direct size=1024 quota=1024", "churn hold_ns=600000000 hold=sleep", 2);
    pb_run *run = replicate_open(&cell);
    (void)window(run, &cell, 0.61);
    const pb_account a = replicate_close(run);
    CHECK(a.operations > 0);
    CHECK(a.outcomes[PB_FAILED] > 0);
    CHECK_EQ(a.constructed, a.operations);
    replicate_check_outcomes(&a);
}

/* ---- main ------------------------------------------------------------------------------------ */

static void *call(void *test)
{
    (*(void (**)(void))test)();
    return NULL;
}

/* Those that mostly sleep, side by side: replicates share nothing. */
static void all_at_once(void)
{
    void (*tests[])(void) = {test_parked_time_is_no_sleep, test_failing_attach,
                             test_only_failures,           test_some_failures,
                             test_warm_of_only_failures,   test_warm_of_a_long_hold};
    enum { COUNT = sizeof tests / sizeof tests[0] };
    pthread_t threads[COUNT];
    for (int i = 0; i < COUNT; i++)
        if (pthread_create(&threads[i], NULL, call, &tests[i]) != 0)
            cell_mistake("no thread");
    for (int i = 0; i < COUNT; i++)
        (void)pthread_join(threads[i], NULL);
}

int main(void)
{
    test_every_kernel();
    test_optional_behaviour();
    test_outcomes_tell_what_happened();
    test_close_without_window();
    test_long_parking();
    test_sleepers_park("locked", "churn hold_ns=200000000 hold=sleep");
    test_sleepers_park("locked", "churn think_ns=200000000");
    test_sleepers_park("thread_local", "churn think_ns=5000000000 hold_ns=5000000000");
    test_usage_of_sleepers();
    test_usage_of_faults();
    test_passes();
    test_cpus();
    test_memory();
    test_counted_needs_the_allocator();
    all_at_once();
    return check_report();
}
