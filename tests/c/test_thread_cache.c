/* SPDX-License-Identifier: MIT
 *
 * test_thread_cache.c - what the thread cache promises of itself: order, bound, and trimming.
 *
 * A trim gives back exactly what was not needed since the last one: as many objects as the array
 * never fell below, the oldest first.
 */
#define _GNU_SOURCE
#include "cell.h"
#include "check.h"

enum { MOST = 16 };

typedef struct holder {
    parts p;
    pb_ctx *ctx;
    void *held[MOST]; /* as acquired */
    int count;
} holder;

static void open_holder(holder *h, const char *pool)
{
    const pb_cell cell = cell_of(pool, "bytes size=64", "churn", 1);
    h->count = 0;
    parts_open(&h->p, &cell, NULL);
    h->ctx = parts_attach(&h->p, 0);
}

static void close_holder(holder *h)
{
    const uint64_t idle = parts_idle(&h->p), destroyed = h->ctx->destroyed;
    parts_detach(&h->p, 0);
    CHECK_EQ(h->ctx->destroyed - destroyed, idle); /* all of it goes with the thread */
    CHECK_EQ(parts_close(&h->p), 0);
}

static pb_outcome acquire(holder *h)
{
    const pb_got got = parts_acquire(&h->p, h->ctx);
    CHECK(got.object != NULL);
    h->held[h->count++] = got.object;
    return got.how;
}

/* Gives back the newest. */
static pb_outcome release(holder *h)
{
    return parts_return(&h->p, h->ctx, h->held[--h->count]);
}

/* `n` times: acquire `depth` objects, give them back. */
static void work(holder *h, int n, int depth)
{
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < depth; k++)
            (void)acquire(h);
        while (h->count > 0)
            (void)release(h);
    }
}

static void test_order(void)
{
    check_in("order");
    holder h;
    open_holder(&h, "thread_cache cap=8");
    for (int i = 0; i < 5; i++)
        CHECK_EQ(acquire(&h), PB_CONSTRUCTED);
    void *in[5];
    memcpy(in, h.held, sizeof in);
    h.count = 0;
    for (int i = 0; i < 5; i++)
        CHECK_EQ(parts_return(&h.p, h.ctx, in[i]), PB_KEPT);
    for (int i = 4; i >= 0; i--) {
        CHECK_EQ(acquire(&h), PB_LOCAL_HIT);
        CHECK(h.held[h.count - 1] == in[i]); /* the newest first */
    }
    while (h.count > 0)
        (void)release(&h);
    CHECK_EQ(h.ctx->constructed, 5);
    close_holder(&h);
}

static void test_cap(int cap)
{
    char text[CELL_TEXT];
    (void)snprintf(text, sizeof text, "thread_cache cap=%d", cap);
    check_in("%s", text);
    holder h;
    open_holder(&h, text);
    for (int round = 0; round < 3; round++) {
        while (h.count < cap + 2)
            (void)acquire(&h);
        for (int i = 0; i < cap; i++)
            CHECK_EQ(release(&h), PB_KEPT);
        CHECK_EQ(parts_idle(&h.p), cap);
        CHECK_EQ(release(&h), PB_DESTROYED);
        CHECK_EQ(release(&h), PB_DESTROYED);
        CHECK_EQ(parts_idle(&h.p), cap);
    }
    CHECK_EQ(h.ctx->events[PB_TRIMMED], 0); /* overflow is no trim */
    close_holder(&h);
}

static void test_never_trims_unasked(void)
{
    check_in("no trim");
    holder h;
    open_holder(&h, "thread_cache cap=16");
    work(&h, 1, 10);
    work(&h, 100000, 1);
    CHECK_EQ(parts_idle(&h.p), 10);
    CHECK_EQ(h.ctx->events[PB_TRIMMED], 0);
    close_holder(&h);
}

/* Ten objects, then only `depth` at a time: the first trim counts from the start and gives nothing
   (all ten were needed), the second gives back all but `depth`. */
static void test_low_water(int depth)
{
    check_in("low water at depth %d", depth);
    holder h;
    open_holder(&h, "thread_cache cap=16 trim_ops=60");
    work(&h, 1, 10);             /* acquires 1 ... 10 */
    work(&h, 60 / depth, depth); /* crosses the first trim, at acquire 60 */
    CHECK_EQ(h.ctx->events[PB_TRIMMED], 0);
    CHECK_EQ(parts_idle(&h.p), 10);
    work(&h, 60 / depth, depth); /* crosses the second, at acquire 120 */
    CHECK_EQ(h.ctx->events[PB_TRIMMED], 10 - depth);
    CHECK_EQ(parts_idle(&h.p), depth);
    CHECK_EQ(h.ctx->destroyed, 10 - depth);
    work(&h, 300 / depth, depth); /* nothing more to give: what is left is needed */
    CHECK_EQ(h.ctx->events[PB_TRIMMED], 10 - depth);
    CHECK_EQ(h.ctx->constructed, 10);
    close_holder(&h);
}

/* The oldest go, the newest stay, in their order. */
static void test_trim_takes_the_oldest(void)
{
    check_in("the oldest go");
    holder h;
    void *in[6];
    open_holder(&h, "thread_cache cap=8 trim_ops=10");
    while (h.count < 6)
        (void)acquire(&h); /* acquires 1 ... 6 */
    memcpy(in, h.held, sizeof in);
    h.count = 0;
    for (int i = 0; i < 6; i++)
        (void)parts_return(&h.p, h.ctx, in[i]);
    work(&h, 7, 2); /* acquires 7 ... 20: trims at 10 and at 20, where 4 were never needed */
    CHECK_EQ(h.ctx->events[PB_TRIMMED], 4);
    CHECK_EQ(parts_idle(&h.p), 2);
    CHECK_EQ(acquire(&h), PB_LOCAL_HIT);
    CHECK(h.held[0] == in[5]);
    CHECK_EQ(acquire(&h), PB_LOCAL_HIT);
    CHECK(h.held[1] == in[4]);
    CHECK_EQ(acquire(&h), PB_CONSTRUCTED);
    while (h.count > 0)
        (void)release(&h);
    close_holder(&h);
}

/* Random work against the definition: at each trim, the fewest idle objects since the last one. */
static void test_random_work(uint64_t seed)
{
    check_in("random work, seed %d", (int)seed);
    enum { TRIM_OPS = 13, STEPS = 5000 };
    holder h;
    pb_rng rng = {seed};
    open_holder(&h, "thread_cache cap=9 trim_ops=13");
    uint64_t fewest = 0, trimmed = 0;
    for (int step = 0, acquires = 0; step < STEPS; step++) {
        const bool more = pb_rng_below(&rng, 100) < (step / 500 % 2 ? 40 : 60);
        if (h.count == 0 || (more && h.count < MOST)) {
            if (++acquires % TRIM_OPS == 0) {
                trimmed += fewest;
                fewest = UINT64_MAX;
            }
            (void)acquire(&h);
        } else {
            (void)release(&h);
        }
        const uint64_t idle = parts_idle(&h.p);
        fewest = idle < fewest ? idle : fewest;
        CHECK(idle <= 9);
        CHECK_EQ(h.ctx->events[PB_TRIMMED], trimmed);
        CHECK_EQ(parts_alive(&h.p), idle + (uint64_t)h.count);
    }
    CHECK(trimmed > 10);
    while (h.count > 0)
        (void)release(&h);
    close_holder(&h);
}

int main(void)
{
    test_order();
    test_cap(1);
    test_cap(7);
    test_never_trims_unasked();
    test_low_water(1);
    test_low_water(3);
    test_low_water(10);
    test_trim_takes_the_oldest();
    for (uint64_t seed = 1; seed <= 20; seed++)
        test_random_work(seed);
    return check_report();
}
