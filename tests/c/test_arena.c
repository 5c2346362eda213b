/* SPDX-License-Identifier: MIT
 *
 * test_arena.c - what the arena promises of itself: objects side by side, nothing given up before
 * everything is back, and then all of it; chunks that are kept, and those that are not.
 */
#define _GNU_SOURCE
#include "cell.h"
#include "check.h"
#include "live.h"
#include "probe.h"

enum { N = 4, MOST = 64 };

static pb_ctx *opened(parts *p, const char *pool, probe_orders *orders)
{
    const pb_cell cell = cell_of(pool, "widget", "burst", 1);
    if (orders)
        probe_parts(p, &cell, orders);
    else
        parts_open(p, &cell, NULL);
    return parts_attach(p, 0);
}

static void closed(parts *p)
{
    parts_detach(p, 0);
    CHECK_EQ(parts_alive(p), 0);
    CHECK_EQ(parts_close(p), 0);
}

/* Acquires `count` and expects so many of them to fetch a chunk. */
static void acquire(parts *p, pb_ctx *ctx, pb_got *out, int count, int fetched)
{
    int misses = 0;
    for (int i = 0; i < count; i++) {
        out[i] = parts_acquire(p, ctx);
        CHECK(out[i].object != NULL);
        misses += out[i].how == PB_CONSTRUCTED;
    }
    CHECK_EQ(misses, fetched);
}

static void release(parts *p, pb_ctx *ctx, const pb_got *got, int count)
{
    for (int i = 0; i < count; i++)
        CHECK_EQ(parts_release(p, ctx, held_of(got[i])), PB_KEPT);
}

/* Released objects stay as they are until the last one is back; then all are destroyed, and the
   next burst begins where this one did. */
static void test_all_at_once(void)
{
    check_in("all at once");
    parts p;
    pb_got got[N], again[N];
    pb_ctx *ctx = opened(&p, "arena", NULL);
    acquire(&p, ctx, got, N, 1);
    for (int i = 1; i < N; i++)
        CHECK_EQ((char *)got[i].object - (char *)got[i - 1].object, sizeof(widget_object));
    for (int i = 0; i < N - 1; i++) {
        release(&p, ctx, &got[i], 1);
        CHECK_EQ(ctx->destroyed, 0);
        CHECK_EQ(parts_idle(&p), i + 1);
        CHECK_EQ(((widget_object *)got[i].object)->tag, WIDGET_TAG);
    }
    const pb_got late = parts_acquire(&p, ctx); /* behind the others, not in their place */
    CHECK_EQ((char *)late.object - (char *)got[N - 1].object, sizeof(widget_object));
    release(&p, ctx, &late, 1);
    CHECK_EQ(parts_idle(&p), N);
    release(&p, ctx, &got[N - 1], 1);
    CHECK_EQ(ctx->destroyed, N + 1);
    CHECK_EQ(parts_idle(&p), 0);
    CHECK_EQ(((widget_object *)got[0].object)->tag, 0);
    acquire(&p, ctx, again, N, 0);
    for (int i = 0; i < N; i++)
        CHECK(again[i].object == got[i].object);
    release(&p, ctx, again, N);
    closed(&p);
}

/* Chunks of two widgets: `bursts` of seven take four chunks, and what is retained is not fetched
   again. */
static void test_chunks(int retain, int fetched_later)
{
    char text[CELL_TEXT];
    (void)snprintf(text, sizeof text, "arena chunk=112 retain=%d", retain);
    check_in("%s", text);
    parts p;
    pb_got got[7];
    pb_ctx *ctx = opened(&p, text, NULL);
    for (int burst = 0; burst < 3; burst++) {
        acquire(&p, ctx, got, 7, burst ? fetched_later : 4);
        for (int i = 1; i < 7; i += 2)
            CHECK_EQ((char *)got[i].object - (char *)got[i - 1].object, sizeof(widget_object));
        release(&p, ctx, got, 6);
        CHECK_EQ(parts_idle(&p), 6);
        release(&p, ctx, &got[6], 1);
        CHECK_EQ(parts_idle(&p), 0);
        CHECK_EQ(ctx->destroyed, 7 * (burst + 1));
    }
    acquire(&p, ctx, got, 1, retain ? 0 : 1); /* a burst that needs less than is there */
    release(&p, ctx, got, 1);
    acquire(&p, ctx, got, 7, fetched_later);
    release(&p, ctx, got, 7);
    closed(&p);
}

/* A chunk holds whole objects, and one at least, however large. */
static void test_sizes(const char *workload, const char *pool, int count, int fetched)
{
    check_in("%s in %s", workload, pool);
    const pb_cell cell = cell_of(pool, workload, "burst", 1);
    parts p;
    pb_got got[MOST];
    parts_open(&p, &cell, NULL);
    pb_ctx *ctx = parts_attach(&p, 0);
    acquire(&p, ctx, got, count, fetched);
    for (int i = 0; i < count; i++) {
        CHECK_EQ((uintptr_t)got[i].object % 8, 0);
        memset(got[i].object, 0xff, p.args.size);
    }
    release(&p, ctx, got, count);
    closed(&p);
}

/* A constructor that fails leaves its place to the next one; also the first in a new chunk. */
static void test_failing_constructor(int held)
{
    check_in("failing constructor with %d held", held);
    parts p;
    probe_orders orders = {.fail = false};
    pb_got got[MOST];
    char text[CELL_TEXT];
    (void)snprintf(text, sizeof text, "arena chunk=%d", (int)(2 * sizeof(probe)));
    pb_ctx *ctx = opened(&p, text, &orders);
    acquire(&p, ctx, got, held, (held + 1) / 2);
    orders.fail = true;
    for (int i = 0; i < 3; i++) {
        const pb_got none = parts_acquire(&p, ctx);
        CHECK(none.object == NULL);
        CHECK_EQ(none.how, PB_FAILED);
        CHECK_EQ(parts_alive(&p), held);
        CHECK_EQ(parts_idle(&p), 0);
    }
    orders.fail = false;
    for (int i = held; i < 5; i++)
        got[i] = parts_acquire(&p, ctx);
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < i; j++)
            CHECK(got[i].object != NULL && got[i].object != got[j].object);
    for (int i = 0; i < 5; i++)
        (void)parts_use(&p, ctx, got[i].object);
    release(&p, ctx, got, 5);
    CHECK_EQ(ctx->constructed, 5);
    CHECK_EQ(ctx->destroyed, 5);
    closed(&p);
}

/* ---- in a live replicate --------------------------------------------------------------------- */

static void test_run(const char *pool, const char *workload, const char *pattern)
{
    check_in("%s x %s x %s", pool, workload, pattern);
    const pb_cell cell = cell_of(pool, workload, pattern, 3);
    pb_run *run;
    pb_error error = {""};
    if (!CHECK_EQ(pb_run_open(&run, &cell, &error), PB_OK))
        cell_mistake(error.text);
    uint64_t operations[3];
    pb_window w = {.operations = operations};
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(pb_run_window(run, 0.004, &w, &error), PB_OK);
        for (int k = 0; k < 3; k++) {
            const pb_ctx *ctx = run->members[k].ctx; /* parked, perhaps within a burst */
            const uint64_t idle = run->pool_class->idle(run->pool, ctx);
            uint64_t held = 0;
            for (uint64_t j = 0; j < ctx->pattern->live; j++)
                held += ctx->held[j].object != NULL;
            CHECK_EQ(ctx->constructed - ctx->destroyed, idle + held);
        }
    }
    pb_account a;
    CHECK_EQ(pb_run_close(run, &a, &error), PB_OK);
    CHECK_EQ(a.constructed, a.operations);
    CHECK_EQ(a.destroyed, a.operations);
    CHECK_EQ(a.idle, 0);
}

/* Who never has nothing in hand would never see its memory again. */
static void test_refused(const char *pattern)
{
    check_in("%s", pattern);
    const pb_cell cell = cell_of("arena", "widget", pattern, 1);
    pb_run *run;
    pb_error error = {""};
    CHECK_EQ(pb_run_open(&run, &cell, &error), PB_BAD_VALUE);
    CHECK(strstr(error.text, "arena takes memory back at the end of a burst"));
    CHECK(strstr(error.text, pattern));
}

/* It grows with the burst: that is what has to fit. */
static void test_memory(void)
{
    check_in("memory");
    pb_cell cell = cell_of("arena", "bytes size=1048576", "burst objects=100", 2);
    pb_run *run;
    pb_error error = {""};
    cell.memory = 100 << 20;
    CHECK_EQ(pb_run_open(&run, &cell, &error), PB_NO_MEMORY);
    CHECK(strstr(error.text, "needs 200.0 MiB (2 threads x 100 objects x 1048576 bytes)"));
}

int main(void)
{
    test_all_at_once();
    test_chunks(0, 4);
    test_chunks(1, 3);
    test_chunks(2, 2);
    test_chunks(9, 0);
    test_sizes("bytes size=17", "arena chunk=64", 8, 4); /* 24 apart */
    test_sizes("bytes size=100000", "arena", 3, 3);
    test_sizes("bytes size=32768", "arena", 4, 2);
    test_sizes("context", "arena chunk=257", 2, 2);
    for (int held = 0; held <= 4; held++)
        test_failing_constructor(held);
    test_run("arena", "widget", "burst");
    test_run("arena chunk=2000 retain=3", "bytes", "burst objects=1000 order=random");
    test_run("arena retain=0", "bytes", "burst objects=1");
    test_refused("churn");
    test_refused("steady");
    test_memory();
    return check_report();
}
