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
uint64_t pb_slab_handle(const pb_ctx *ctx, const void *object);
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

static void acquire_all(parts *p, pb_ctx *ctx, void *out[CAPACITY])
{
    for (int i = 0; i < CAPACITY; i++) {
        const pb_got got = parts_acquire(p, ctx);
        CHECK(got.object != NULL);
        CHECK_EQ(got.how, PB_LOCAL_HIT);
        for (int j = 0; j < i; j++)
            CHECK(got.object != out[j]);
        out[i] = got.object;
    }
}

static void release_all(parts *p, pb_ctx *ctx, void *out[CAPACITY])
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
    void *out[CAPACITY];
    pb_ctx *ctx = opened(&p, pool, NULL);
    acquire_all(&p, ctx, out);
    check_empty(&p, ctx);
    check_empty(&p, ctx);
    CHECK_EQ(parts_release(&p, ctx, out[2]), PB_KEPT);
    const pb_got fifth = parts_acquire(&p, ctx);
    CHECK(fifth.object == out[2]); /* the only free slot */
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
        void *object = parts_acquire(&p, ctx).object;
        CHECK(object != NULL);
        check_empty(&p, ctx);
        CHECK_EQ(parts_release(&p, ctx, object), PB_KEPT);
    }
    closed(&p);
}

/* One block of capacity * 56 bytes for widgets: four neighbours. */
static void test_slots_are_neighbours(void)
{
    check_in("neighbours");
    parts p;
    void *out[CAPACITY];
    pb_ctx *ctx = opened(&p, "slab capacity=4", NULL);
    acquire_all(&p, ctx, out);
    for (int i = 1; i < CAPACITY; i++)
        CHECK_EQ((char *)out[i] - (char *)out[i - 1], sizeof(widget_object));
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
    void *out[CAPACITY];
    acquire_all(&p, ctx, out);
    for (int i = 0; i < CAPACITY; i++) {
        CHECK_EQ((uintptr_t)out[i] % 8, 0);
        memset(out[i], 0xff, 17); /* a neighbour's link that this reached would be seen below */
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
    void *out[CAPACITY], *again[CAPACITY];
    pb_ctx *ctx = opened(&p, "slab capacity=4", &orders);
    acquire_all(&p, ctx, out);
    for (int i = 0; i < CAPACITY; i++)
        (void)parts_use(&p, ctx, out[i]);
    release_all(&p, ctx, out);
    acquire_all(&p, ctx, again);
    for (int i = 0; i < CAPACITY; i++) {
        CHECK(again[i] == out[CAPACITY - 1 - i]);
        CHECK(!((probe *)again[i])->dirty);
        CHECK_EQ(((probe *)again[i])->payload[7], 0);
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
    void *out[CAPACITY];
    pb_ctx *ctx = opened(&p, pool, &orders);
    for (int i = 0; i < held; i++)
        out[i] = parts_acquire(&p, ctx).object;
    orders.fail = true;
    for (int i = 0; i < 3; i++)
        check_empty(&p, ctx);
    orders.fail = false;
    for (int i = held; i < CAPACITY; i++)
        out[i] = parts_acquire(&p, ctx).object;
    for (int i = 0; i < CAPACITY; i++)
        for (int j = 0; j < i; j++)
            CHECK(out[i] != NULL && out[i] != out[j]);
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
    void *first = parts_acquire(&p, ctx).object;
    const uint64_t handle = pb_slab_handle(ctx, first);
    CHECK(pb_slab_resolve(ctx, handle) == first);
    CHECK_EQ(parts_release(&p, ctx, first), PB_KEPT);
    CHECK(pb_slab_resolve(ctx, handle) == NULL); /* gone */
    void *second = parts_acquire(&p, ctx).object;
    CHECK(second == first);
    CHECK(pb_slab_resolve(ctx, handle) == NULL); /* its slot lives again, as another object */
    const uint64_t newer = pb_slab_handle(ctx, second);
    CHECK(newer != handle);
    CHECK(pb_slab_resolve(ctx, newer) == second);
    (void)parts_release(&p, ctx, second);
    closed(&p);
}

static void test_handles_that_never_were(void)
{
    check_in("handles that never were");
    parts p;
    void *out[CAPACITY];
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
    void *out[CAPACITY];
    pb_ctx *ctx = opened(&p, "slab capacity=4 handles=1", &orders);
    acquire_all(&p, ctx, out);
    CHECK_EQ(parts_release(&p, ctx, out[1]), PB_KEPT);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(parts_release(&p, ctx, out[1]), PB_REFUSED);
    CHECK_EQ(ctx->destroyed, 1);
    CHECK(parts_acquire(&p, ctx).object == out[1]);
    check_empty(&p, ctx); /* the slot came back once, not four times */
    for (int i = 0; i < CAPACITY; i++)
        (void)parts_use(&p, ctx, out[i]);
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
