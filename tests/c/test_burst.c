/* SPDX-License-Identifier: MIT
 *
 * test_burst.c - N objects at a time, in three orders; parked within a burst; exactly counted.
 */
#define _GNU_SOURCE
#include "check.h"
#include "live.h"
#include "replicate.h"

enum { THREADS = 3 };

static pb_pass passed(pb_run *run, uint32_t attempts)
{
    pb_pass pass;
    pb_error error = {""};
    if (!CHECK_EQ(pb_run_pass(run, attempts, &pass, &error), PB_OK))
        cell_mistake(error.text);
    return pass;
}

/* Objects in a thread's hands: in its first places, and in no other. */
static uint64_t in_hand(const pb_ctx *ctx)
{
    uint64_t count = 0;
    while (count < ctx->pattern->live && ctx->held[count].object)
        count++;
    for (uint64_t i = count; i < ctx->pattern->live; i++)
        CHECK(ctx->held[i].object == NULL);
    return count;
}

/* ---- counted passes -------------------------------------------------------------------------- */

/* After so many attempts: whole bursts are back, the rest of the last one is held. */
static void test_passes(const char *pool, const char *order)
{
    static const uint32_t attempts[] = {1, 9, 10, 3, 7, 100, 25, 1000, 5};
    enum { OBJECTS = 10, PASSES = sizeof attempts / sizeof attempts[0] };
    char pattern[CELL_TEXT];
    (void)snprintf(pattern, sizeof pattern, "burst objects=%d order=%s", OBJECTS, order);
    check_in("passes of %s, %s", pool, order);
    const pb_cell cell = cell_of(pool, "widget", pattern, THREADS);
    pb_run *run = replicate_open(&cell);
    uint64_t total = 0;
    for (int i = 0; i < PASSES; i++) {
        const uint64_t held = total % OBJECTS;
        const pb_pass pass = passed(run, attempts[i]);
        total += attempts[i];
        CHECK_EQ(pass.operations, THREADS * attempts[i]);
        const uint64_t *n = pass.outcomes;
        CHECK_EQ(n[PB_LOCAL_HIT] + n[PB_SHARED_HIT] + n[PB_CONSTRUCTED], pass.operations);
        CHECK_EQ(n[PB_KEPT] + n[PB_DESTROYED], THREADS * (attempts[i] + held - total % OBJECTS));
        for (int k = 0; k < THREADS; k++)
            CHECK_EQ(in_hand(run->members[k].ctx), total % OBJECTS);
    }
    const pb_account a = replicate_close(run);
    CHECK_EQ(a.operations, THREADS * total);
    CHECK_EQ(a.outcomes[PB_KEPT] + a.outcomes[PB_DESTROYED], a.operations);
}

/* ---- order ----------------------------------------------------------------------------------- */

enum { FIVE = 5 };

/* The places in the pool, which is a stack, that a burst of five leaves behind: which came when. */
static void after_a_burst(const char *order, int places[FIVE])
{
    char pattern[CELL_TEXT];
    (void)snprintf(pattern, sizeof pattern, "burst objects=5 order=%s", order);
    check_in("%s", pattern);
    const pb_cell cell = cell_of("thread_cache", "widget", pattern, 1);
    pb_run *run = replicate_open(&cell);
    pb_ctx *ctx = run->members[0].ctx;
    void *first[FIVE];
    (void)passed(run, FIVE - 1); /* all but one are in hand: as they came */
    for (int i = 0; i < FIVE - 1; i++)
        first[i] = ctx->held[i].object;
    (void)passed(run, 1);        /* the last comes, and all go back; */
    (void)passed(run, FIVE - 1); /* the newest in the pool comes first */
    for (int i = 0; i < FIVE; i++)
        places[i] = FIVE - 1; /* whichever was not in hand before, or is not now: the fifth */
    for (int i = 0; i < FIVE - 1; i++)
        for (int k = 0; k < FIVE - 1; k++)
            if (ctx->held[i].object == first[k])
                places[i] = k;
    (void)replicate_close(run);
}

static void test_orders(void)
{
    int places[FIVE];
    after_a_burst("same", places); /* the last that went back was the last that came */
    for (int i = 0; i < FIVE - 1; i++)
        CHECK_EQ(places[i], FIVE - 1 - i);
    after_a_burst("reverse", places);
    for (int i = 0; i < FIVE - 1; i++)
        CHECK_EQ(places[i], i);
    after_a_burst("random", places);
    for (int i = 0; i < FIVE - 1; i++)
        for (int k = 0; k < i; k++)
            CHECK(places[i] != places[k]);
}

/* Every object is as often the first to go back as any other: it is the last to come again. */
static void test_random_reaches_all(void)
{
    enum { BURSTS = 4000, OBJECTS = 4 };
    check_in("random");
    const pb_cell cell = cell_of("thread_cache", "widget", "burst objects=4 order=random", 1);
    pb_run *run = replicate_open(&cell);
    const pb_ctx *ctx = run->members[0].ctx;
    int same[OBJECTS][OBJECTS] = {{0}}; /* [place before][place after] */
    void *before[OBJECTS];
    (void)passed(run, OBJECTS - 1);
    for (int burst = 0; burst < BURSTS; burst++) {
        for (int i = 0; i < OBJECTS - 1; i++)
            before[i] = ctx->held[i].object;
        (void)passed(run, OBJECTS);
        for (int i = 0; i < OBJECTS - 1; i++)
            for (int k = 0; k < OBJECTS - 1; k++)
                same[i][k] += before[i] == ctx->held[k].object;
    }
    for (int i = 0; i < OBJECTS - 1; i++)
        for (int k = 0; k < OBJECTS - 1; k++)
            CHECK(same[i][k] > BURSTS / 5 && same[i][k] < BURSTS * 3 / 10); /* a quarter */
    (void)replicate_close(run);
}

/* ---- windows --------------------------------------------------------------------------------- */

/* Bursts may be longer than a batch, and than a window. */
static void test_windows(const char *pool, const char *workload, const char *pattern)
{
    check_in("%s x %s x %s", pool, workload, pattern);
    const pb_cell cell = cell_of(pool, workload, pattern, THREADS);
    pb_run *run = replicate_open(&cell);
    pb_warmth warmth;
    pb_error error = {""};
    CHECK_EQ(pb_run_warm(run, 0.02, &warmth, &error), PB_OK);
    uint64_t operations[THREADS], counted = 0;
    pb_window w = {.operations = operations};
    const uint64_t start = pb_now_ns();
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(pb_run_window(run, 0.004, &w, &error), PB_OK);
        for (int k = 0; k < THREADS; k++) {
            const pb_ctx *ctx = run->members[k].ctx;
            counted += operations[k];
            CHECK(in_hand(ctx) < ctx->pattern->live); /* never parked with all of a burst */
        }
    }
    CHECK(pb_now_ns() - start < 4000000000);
    const pb_account a = replicate_close(run);
    CHECK(a.operations >= counted);
    CHECK_EQ(a.outcomes[PB_KEPT] + a.outcomes[PB_DESTROYED], a.operations);
}

/* ---- failed acquires ------------------------------------------------------------------------- */

/* A burst of 16 from a slab of 10: ten operations, six failures, in every burst. */
static void test_more_than_fit(void)
{
    check_in("more than fit");
    const pb_cell cell = cell_of("slab capacity=10", "widget", "burst objects=16", THREADS);
    pb_run *run = replicate_open(&cell);
    for (int i = 0; i < 3; i++) {
        const pb_pass pass = passed(run, 32);
        CHECK_EQ(pass.operations, THREADS * 20);
        CHECK_EQ(pass.outcomes[PB_FAILED], THREADS * 12);
        CHECK_EQ(pass.outcomes[PB_KEPT], THREADS * 20);
    }
    const pb_account a = replicate_close(run);
    CHECK_EQ(a.constructed, a.operations);
}

/* Bursts of nothing but failures are no operations, and end. */
static void test_only_failures(void)
{
    check_in("only failures");
    const pb_cell cell = cell_of("fresh", "table symbol=fails_always", "burst order=reverse", 2);
    pb_run *run = replicate_open(&cell);
    const pb_pass pass = passed(run, 1000);
    CHECK_EQ(pass.operations, 0);
    CHECK_EQ(pass.outcomes[PB_FAILED], 2000);
    CHECK_EQ(replicate_close(run).operations, 0);
}

/* Every third constructor fails: those that did not are held side by side, and all go back. */
static void test_some_failures(void)
{
    check_in("some failures");
    const pb_cell cell = cell_of("fresh", "table symbol=fails_third", "burst objects=16", 2);
    pb_run *run = replicate_open(&cell);
    for (int i = 0; i < 50; i++) {
        (void)passed(run, 7);
        uint64_t alive = 0, held = 0;
        for (int k = 0; k < 2; k++) {
            const pb_ctx *ctx = run->members[k].ctx;
            alive += ctx->constructed - ctx->destroyed;
            held += in_hand(ctx);
        }
        CHECK_EQ(alive, held);
    }
    const pb_account a = replicate_close(run);
    CHECK_EQ(a.operations, a.constructed);
    CHECK(a.outcomes[PB_FAILED] > 0);
}

/* The step at a pool's depth: bursts that fit construct once, larger ones in each burst. */
static void test_step(void)
{
    enum { CAP = 8 };
    for (int objects = CAP - 1; objects <= CAP + 2; objects++) {
        char pattern[CELL_TEXT];
        (void)snprintf(pattern, sizeof pattern, "burst objects=%d", objects);
        check_in("step, %s", pattern);
        const pb_cell cell = cell_of("thread_cache cap=8", "widget", pattern, 1);
        pb_run *run = replicate_open(&cell);
        (void)passed(run, (uint32_t)objects);
        const pb_pass pass = passed(run, 10 * (uint32_t)objects);
        const int beyond = objects > CAP ? objects - CAP : 0;
        CHECK_EQ(pass.outcomes[PB_CONSTRUCTED], 10 * beyond);
        CHECK_EQ(pass.outcomes[PB_DESTROYED], 10 * beyond);
        (void)replicate_close(run);
    }
}

int main(void)
{
    static const char *const orders[] = {"same", "reverse", "random"};
    for (int i = 0; i < 3; i++) {
        test_passes("fresh", orders[i]);
        test_passes("locked capacity=4", orders[i]);
        test_passes("slab", orders[i]);
        test_passes("arena", orders[i]);
    }
    test_orders();
    test_random_reaches_all();
    test_windows("thread_cache", "widget", "burst objects=16384 order=random");
    test_windows("locked", "bytes", "burst objects=3 order=reverse");
    test_windows("fresh", "bytes size=100000 touch=pages", "burst objects=1000");
    test_windows("thread_local", "direct", "burst objects=1");
    test_more_than_fit();
    test_only_failures();
    test_some_failures();
    test_step();
    return check_report();
}
