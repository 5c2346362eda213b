/* SPDX-License-Identifier: MIT
 *
 * test_steady.c - K objects live per thread: while parked, after failures, and none in the end.
 *
 * Looks at the threads' contexts, as the controller may while they are parked.
 */
#define _GNU_SOURCE
#include "check.h"
#include "live.h"
#include "replicate.h"

enum { THREADS = 3 };

static const double SHORT = 0.004; /* seconds of a window */

static void window(pb_run *run)
{
    uint64_t operations[THREADS];
    pb_window w = {.operations = operations};
    pb_error error;
    CHECK_EQ(pb_run_window(run, SHORT, &w, &error), PB_OK);
}

static pb_account closed(pb_run *run)
{
    const pb_account a = replicate_close(run);
    replicate_check_outcomes(&a);
    return a;
}

/* What all threads and the pool have counted at a quiet point. */
typedef struct quiet {
    uint64_t alive, idle, operations, failed;
} quiet;

static quiet look(const pb_run *run)
{
    quiet q = {.idle = run->pool_class->idle(run->pool, NULL)};
    for (int i = 0; i < run->cell.threads; i++) {
        const pb_ctx *ctx = run->members[i].ctx;
        q.alive += ctx->constructed - ctx->destroyed;
        q.idle += run->pool_class->idle(run->pool, ctx);
        q.operations += ctx->operations;
        q.failed += ctx->outcomes[PB_FAILED];
    }
    return q;
}

/* Objects in one thread's places; each may be there once. */
static uint64_t places_taken(const pb_ctx *ctx)
{
    uint64_t taken = 0;
    for (uint64_t i = 0; i < ctx->pattern->live; i++) {
        taken += ctx->held[i].object != NULL;
        for (uint64_t j = 0; j < i; j++)
            if (ctx->held[i].object)
                CHECK(ctx->held[i].object != ctx->held[j].object);
    }
    return taken;
}

static void test_live(const char *pool, const char *workload, uint64_t live)
{
    char pattern[CELL_TEXT];
    (void)snprintf(pattern, sizeof pattern, "steady live=%d", (int)live);
    check_in("%s x %s x %s", pool, workload, pattern);
    const pb_cell cell = cell_of(pool, workload, pattern, THREADS);
    if (!cell_is_stamped(&cell))
        return;
    pb_run *run = replicate_open(&cell);
    CHECK_EQ(look(run).operations, 0);
    for (int i = 0; i < 3; i++) {
        window(run);
        const quiet q = look(run);
        CHECK_EQ(q.alive - q.idle, live * THREADS);
        CHECK_EQ(q.failed, 0);
        for (int k = 0; k < THREADS; k++)
            CHECK_EQ(places_taken(run->members[k].ctx), live);
    }
    const quiet last = look(run);
    const pb_account a = closed(run);
    CHECK(a.operations >= last.operations);
}

/* A slab of 10 slots for 16 places: 10 are held, the others' acquires failed and are no operations.
 */
static void test_more_than_fit(void)
{
    enum { SLOTS = 10, LIVE = 16 };
    check_in("more than fit");
    const pb_cell cell = cell_of("slab capacity=10", "widget", "steady live=16", THREADS);
    pb_run *run = replicate_open(&cell);
    for (int i = 0; i < 3; i++) {
        window(run);
        const quiet q = look(run);
        CHECK_EQ(q.alive, SLOTS * THREADS);
        CHECK(q.failed >= (LIVE - SLOTS) * THREADS);
        for (int k = 0; k < THREADS; k++) {
            const pb_ctx *ctx = run->members[k].ctx;
            CHECK_EQ(places_taken(ctx), SLOTS);
            CHECK_EQ(ctx->operations, ctx->constructed);
        }
    }
    const pb_account a = closed(run);
    CHECK_EQ(a.operations, a.constructed);
    CHECK(a.outcomes[PB_FAILED] > 0);
}

/* Constructors that fail now and then leave places empty, which later operations fill again. */
static void test_failing_constructors(void)
{
    check_in("failing constructors");
    const pb_cell cell = cell_of("fresh", "table symbol=fails_third", "steady live=64", THREADS);
    pb_run *run = replicate_open(&cell);
    for (int i = 0; i < 3; i++) {
        window(run);
        uint64_t taken = 0;
        for (int k = 0; k < THREADS; k++)
            taken += places_taken(run->members[k].ctx);
        const quiet q = look(run);
        CHECK_EQ(taken, q.alive);
        CHECK(q.failed > 0);
    }
    const pb_account a = closed(run);
    CHECK_EQ(a.operations, a.constructed);
}

/* Every place is replaced: the draw reaches the first and the last. */
static void test_every_place_is_drawn(void)
{
    enum { LIVE = 16 };
    check_in("every place");
    pb_cell cell = cell_of("fresh", "widget", "steady live=16", 1);
    pb_run *run = replicate_open(&cell);
    pb_pass pass;
    pb_error error;
    CHECK_EQ(pb_run_pass(run, 1, &pass, &error), PB_OK); /* fills */
    pb_ctx *ctx = run->members[0].ctx;
    for (int i = 0; i < LIVE; i++)
        *(uint32_t *)ctx->held[i].object = 0; /* a mark; constructors write the tag */
    CHECK_EQ(pb_run_pass(run, 100 * LIVE, &pass, &error), PB_OK);
    for (int i = 0; i < LIVE; i++)
        CHECK_EQ(*(uint32_t *)ctx->held[i].object, WIDGET_TAG);
    (void)closed(run);
}

/* ---- counted passes -------------------------------------------------------------------------- */

static pb_pass passed(pb_run *run, uint32_t attempts)
{
    pb_pass pass;
    pb_error error = {""};
    if (!CHECK_EQ(pb_run_pass(run, attempts, &pass, &error), PB_OK))
        cell_mistake(error.text);
    return pass;
}

static void check_pass(const pb_pass *p, uint64_t attempts, uint64_t released)
{
    const uint64_t *n = p->outcomes;
    CHECK_EQ(p->operations + n[PB_FAILED], attempts);
    CHECK_EQ(n[PB_LOCAL_HIT] + n[PB_SHARED_HIT] + n[PB_CONSTRUCTED], p->operations);
    CHECK_EQ(n[PB_KEPT] + n[PB_DESTROYED], released);
}

/* The first pass begins with filling; from then on each attempt gives one back. */
static void test_passes(void)
{
    check_in("passes");
    const pb_cell cell = cell_of("fresh", "widget", "steady live=10", 2);
    pb_run *run = replicate_open(&cell);
    pb_pass pass = passed(run, 100);
    check_pass(&pass, 2 * (10 + 100), 2 * 100);
    for (int i = 0; i < 3; i++) {
        pass = passed(run, 100);
        check_pass(&pass, 2 * 100, 2 * 100);
        CHECK_EQ(pass.outcomes[PB_DESTROYED], 200);
    }
    (void)closed(run);
}

/* Where construction fails now and then, the number held goes up and down: kept must not wrap. */
static void test_passes_that_fail(void)
{
    check_in("passes with failures");
    const pb_cell cell = cell_of("fresh", "table symbol=fails_third", "steady live=16", 2);
    pb_run *run = replicate_open(&cell);
    uint64_t failed = 0;
    (void)passed(run, 1);
    for (int i = 0; i < 50; i++) {
        const uint64_t held = look(run).alive;
        const pb_pass pass = passed(run, 30);
        check_pass(&pass, 60, pass.operations + held - look(run).alive);
        CHECK_EQ(pass.outcomes[PB_KEPT], 0);
        failed += pass.outcomes[PB_FAILED];
    }
    CHECK(failed >= 999 && failed <= 1001); /* every third of 3000 */
    (void)closed(run);
}

static void test_close_without_window(void)
{
    check_in("closed straight after opening");
    const pb_cell cell = cell_of("thread_cache", "bytes", "steady", THREADS);
    const pb_account a = closed(replicate_open(&cell));
    CHECK_EQ(a.operations, 0);
    CHECK_EQ(a.constructed, 0);
}

int main(void)
{
    for (int i = 0; i < PB_POOL_COUNT; i++) {
        if (!cell_runs(i, PB_PATTERN_steady) || pb_pools[i].traits & PB_NEEDS_SHAREABLE)
            continue; /* no objects of its own in each place: test_flyweight.c */
        test_live(cell_roomy(i, 40 * THREADS), "widget", 1);
        test_live(cell_roomy(i, 40 * THREADS), "bytes", 40);
    }
    test_live("thread_cache cap=3 trim_ops=50", "context", 20);
    test_live("locked capacity=1 order=fifo", "direct", 20);
    test_live("slab capacity=20 handles=1", "rng", 20);
    test_more_than_fit();
    test_failing_constructors();
    test_every_place_is_drawn();
    test_passes();
    test_passes_that_fail();
    test_close_without_window();
    return check_report();
}
