/* SPDX-License-Identifier: MIT
 *
 * test_slab.c - what the slab promises of itself: a fixed block, in-place objects, handles.
 */
#define _GNU_SOURCE
#include "cell.h"
#include "check.h"
#include "probe.h"

enum { CAPACITY = 4 };

/* Of slab.c; for borrowers who keep handles. */
void *pb_slab_resolve(pb_ctx *ctx, uint64_t handle);

static pb_ctx *opened(parts *p, const char *pool, probe_orders *orders)
{
    const pb_cell cell = cell_of(pool, "widget", "churn", 1);
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

static void acquire_all(parts *p, pb_ctx *ctx, pb_held out[CAPACITY])
{
    for (int i = 0; i < CAPACITY; i++) {
        const pb_got got = parts_acquire(p, ctx);
        CHECK(got.object != NULL);
        CHECK_EQ(got.how, PB_LOCAL_HIT);
        for (int j = 0; j < i; j++)
            CHECK(got.object != out[j].object);
        out[i] = held_of(got);
    }
}

static void release_all(parts *p, pb_ctx *ctx, pb_held out[CAPACITY])
{
    for (int i = 0; i < CAPACITY; i++)
        CHECK_EQ(parts_release(p, ctx, out[i]), PB_KEPT);
}

static void check_empty(parts *p, pb_ctx *ctx)
{
    const uint64_t constructed = ctx->constructed;
    const pb_got got = parts_acquire(p, ctx);
    CHECK(got.object == NULL);
    CHECK_EQ(got.how, PB_FAILED);
    CHECK_EQ(ctx->constructed, constructed);
}

/* Four fit; the fifth fails; after one release it fits; five were constructed and destroyed. */
static void test_capacity(const char *pool)
{
    check_in("%s: capacity", pool);
    parts p;
    pb_held out[CAPACITY];
    pb_ctx *ctx = opened(&p, pool, NULL);
    acquire_all(&p, ctx, out);
    check_empty(&p, ctx);
    check_empty(&p, ctx);
    CHECK_EQ(parts_release(&p, ctx, out[2]), PB_KEPT);
    const pb_got fifth = parts_acquire(&p, ctx);
    CHECK(fifth.object == out[2].object); /* the only free slot */
    out[2] = held_of(fifth);
    check_empty(&p, ctx);
    release_all(&p, ctx, out);
    CHECK_EQ(ctx->constructed, 5);
    CHECK_EQ(ctx->destroyed, 5);
    closed(&p);
}

static void test_capacity_of_one(void)
{
    check_in("capacity of one");
    parts p;
    pb_ctx *ctx = opened(&p, "slab capacity=1", NULL);
    for (int i = 0; i < 3; i++) {
        const pb_got got = parts_acquire(&p, ctx);
        CHECK(got.object != NULL);
        check_empty(&p, ctx);
        CHECK_EQ(parts_release(&p, ctx, held_of(got)), PB_KEPT);
    }
    closed(&p);
}

/* One block of capacity * 56 bytes for widgets: four neighbours. */
static void test_slots_are_neighbours(void)
{
    check_in("neighbours");
    parts p;
    pb_held out[CAPACITY];
    pb_ctx *ctx = opened(&p, "slab capacity=4", NULL);
    acquire_all(&p, ctx, out);
    for (int i = 1; i < CAPACITY; i++)
        CHECK_EQ((char *)out[i].object - (char *)out[i - 1].object, sizeof(widget_object));
    release_all(&p, ctx, out);
    closed(&p);
}

/* Odd sizes are rounded up so that every slot is aligned for a link. */
static void test_odd_sizes_are_aligned(void)
{
    check_in("odd sizes");
    const pb_cell cell = cell_of("slab capacity=4", "bytes size=17", "churn", 1);
    parts p;
    parts_open(&p, &cell, NULL);
    pb_ctx *ctx = parts_attach(&p, 0);
    pb_held out[CAPACITY];
    acquire_all(&p, ctx, out);
    for (int i = 0; i < CAPACITY; i++) {
        CHECK_EQ((uintptr_t)out[i].object % 8, 0);
        memset(out[i].object, 0xff,
               17); /* a neighbour's link that this reached would be seen below */
    }
    release_all(&p, ctx, out);
    acquire_all(&p, ctx, out);
    release_all(&p, ctx, out);
    closed(&p);
}

/* Newest free slot first, and each time a new object in it. */
static void test_last_in_first_out(void)
{
    check_in("order");
    parts p;
    probe_orders orders = {.fail = false};
    pb_held out[CAPACITY], again[CAPACITY];
    pb_ctx *ctx = opened(&p, "slab capacity=4", &orders);
    acquire_all(&p, ctx, out);
    for (int i = 0; i < CAPACITY; i++)
        (void)parts_use(&p, ctx, out[i].object);
    release_all(&p, ctx, out);
    acquire_all(&p, ctx, again);
    for (int i = 0; i < CAPACITY; i++) {
        CHECK(again[i].object == out[CAPACITY - 1 - i].object);
        CHECK(!((probe *)again[i].object)->dirty);
        CHECK_EQ(((probe *)again[i].object)->payload[7], 0);
    }
    release_all(&p, ctx, again);
    closed(&p);
}

/* A constructor that fails has written over the link inside the slot: the list must survive it. */
static void test_failing_init(const char *pool, int held)
{
    check_in("%s: failing constructor with %d held", pool, held);
    parts p;
    probe_orders orders = {.fail = false};
    pb_held out[CAPACITY];
    pb_ctx *ctx = opened(&p, pool, &orders);
    for (int i = 0; i < held; i++)
        out[i] = held_of(parts_acquire(&p, ctx));
    orders.fail = true;
    for (int i = 0; i < 3; i++)
        check_empty(&p, ctx);
    orders.fail = false;
    for (int i = held; i < CAPACITY; i++)
        out[i] = held_of(parts_acquire(&p, ctx));
    for (int i = 0; i < CAPACITY; i++)
        for (int j = 0; j < i; j++)
            CHECK(out[i].object != NULL && out[i].object != out[j].object);
    check_empty(&p, ctx);
    release_all(&p, ctx, out);
    acquire_all(&p, ctx, out);
    release_all(&p, ctx, out);
    CHECK_EQ(ctx->constructed, 2 * CAPACITY);
    closed(&p);
}

/* ---- handles --------------------------------------------------------------------------------- */

static void test_stale_handles(void)
{
    check_in("stale handles");
    parts p;
    pb_ctx *ctx = opened(&p, "slab capacity=4 handles=1", NULL);
    const pb_held first = held_of(parts_acquire(&p, ctx));
    CHECK(pb_slab_resolve(ctx, first.handle) == first.object);
    CHECK_EQ(parts_release(&p, ctx, first), PB_KEPT);
    CHECK(pb_slab_resolve(ctx, first.handle) == NULL); /* gone */
    const pb_held second = held_of(parts_acquire(&p, ctx));
    CHECK(second.object == first.object);
    CHECK(pb_slab_resolve(ctx, first.handle) == NULL); /* its slot lives again, as another object */
    CHECK(second.handle != first.handle);
    CHECK(pb_slab_resolve(ctx, second.handle) == second.object);
    CHECK_EQ(parts_release(&p, ctx, first), PB_REFUSED); /* the same address, by a stale handle */
    CHECK_EQ(parts_release(&p, ctx, second), PB_KEPT);
    closed(&p);
}

static void test_handles_that_never_were(void)
{
    check_in("handles that never were");
    parts p;
    pb_held out[CAPACITY];
    pb_ctx *ctx = opened(&p, "slab capacity=4 handles=1", NULL);
    const uint64_t one = (uint64_t)1 << 32;
    for (uint64_t index = 0; index < CAPACITY; index++) {
        CHECK(pb_slab_resolve(ctx, index) == NULL);       /* generation 0: never constructed */
        CHECK(pb_slab_resolve(ctx, one | index) == NULL); /* will be right one day; not yet */
    }
    acquire_all(&p, ctx, out);
    for (uint64_t index = 0; index < CAPACITY; index++)
        CHECK(pb_slab_resolve(ctx, one | index) != NULL);
    CHECK(pb_slab_resolve(ctx, one | CAPACITY) == NULL); /* beyond the block */
    CHECK(pb_slab_resolve(ctx, one | UINT32_MAX) == NULL);
    CHECK(pb_slab_resolve(ctx, UINT64_MAX) == NULL);
    release_all(&p, ctx, out);
    closed(&p);
}

/* Refused, and nothing is lost: neither the slot nor the objects that are out. */
static void test_double_release(void)
{
    check_in("double release");
    parts p;
    probe_orders orders = {.fail = false};
    pb_held out[CAPACITY];
    pb_ctx *ctx = opened(&p, "slab capacity=4 handles=1", &orders);
    acquire_all(&p, ctx, out);
    CHECK_EQ(parts_release(&p, ctx, out[1]), PB_KEPT);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(parts_release(&p, ctx, out[1]), PB_REFUSED);
    CHECK_EQ(ctx->destroyed, 1);
    const pb_got again = parts_acquire(&p, ctx);
    CHECK(again.object == out[1].object);
    out[1] = held_of(again);
    check_empty(&p, ctx); /* the slot came back once, not four times */
    for (int i = 0; i < CAPACITY; i++)
        (void)parts_use(&p, ctx, out[i].object);
    release_all(&p, ctx, out);
    for (int i = 0; i < CAPACITY; i++)
        CHECK_EQ(parts_release(&p, ctx, out[i]), PB_REFUSED);
    CHECK_EQ(ctx->constructed, CAPACITY + 1);
    CHECK_EQ(ctx->destroyed, CAPACITY + 1);
    closed(&p);
}

int main(void)
{
    test_capacity("slab capacity=4");
    test_capacity("slab capacity=4 handles=1");
    test_capacity_of_one();
    test_slots_are_neighbours();
    test_odd_sizes_are_aligned();
    test_last_in_first_out();
    for (int held = 0; held < CAPACITY; held++) {
        test_failing_init("slab capacity=4", held);
        test_failing_init("slab capacity=4 handles=1", held);
    }
    test_stale_handles();
    test_handles_that_never_were();
    test_double_release();
    return check_report();
}
