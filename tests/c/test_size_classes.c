/* SPDX-License-Identifier: MIT
 *
 * test_size_classes.c - what size classes promise of themselves: blocks, classes, bounds, order.
 *
 * A cell has objects of one size; here the size is changed between acquires, as a workload that
 * draws sizes will do.
 */
#define _GNU_SOURCE
#include <malloc.h>

#include "cell.h"
#include "check.h"
#include "crowd.h"
#include "probe.h"

enum { MOST = 64 };

typedef struct holder {
    parts p;
    pb_ctx *ctx; /* of thread 0 */
    pb_held held[MOST];
    int count;
} holder;

static void open_holder(holder *h, const char *pool)
{
    const pb_cell cell = cell_of(pool, "bytes size=64", "churn", 4);
    check_in("%s", pool);
    h->count = 0;
    parts_open(&h->p, &cell, NULL);
    h->ctx = parts_attach(&h->p, 0);
}

static void close_holder(holder *h)
{
    for (int i = 0; i < PARTS_THREADS; i++)
        if (h->p.attached[i])
            parts_detach(&h->p, i);
    CHECK_EQ(parts_alive(&h->p), parts_idle(&h->p));
    CHECK_EQ(parts_close(&h->p), 0);
}

static uint64_t shared(const holder *h)
{
    return h->p.class->idle(h->p.pool, NULL);
}

/* The next objects are of that size. */
static void ask_for(holder *h, size_t size)
{
    h->p.args.size = h->p.args.block = h->p.args.idle_hidden = size;
    h->p.args.arg[BYTES_SIZE] = (int64_t)size;
}

static pb_outcome acquire(holder *h)
{
    const pb_got got = parts_acquire(&h->p, h->ctx);
    CHECK(got.object != NULL);
    h->held[h->count++] = held_of(got);
    return got.how;
}

/* Gives back the newest. */
static pb_outcome release(holder *h)
{
    return parts_release(&h->p, h->ctx, h->held[--h->count]);
}

/* Objects of both sizes come from one class, whose blocks have at least `block` bytes. */
static void check_same_class(holder *h, size_t one, size_t other, size_t block)
{
    ask_for(h, one);
    (void)acquire(h);
    const pb_held first = h->held[0];
    CHECK(malloc_usable_size(first.object) >= block);
    memset(first.object, 0xff, block); /* AddressSanitizer sees a shorter one */
    CHECK_EQ(release(h), PB_KEPT);
    ask_for(h, other);
    CHECK_EQ(acquire(h), PB_LOCAL_HIT);
    CHECK(h->held[0].object == first.object);
    CHECK_EQ(release(h), PB_KEPT);
}

static void test_classes(void)
{
    holder h;
    open_holder(&h, "size_classes");
    check_same_class(&h, 1, 16, 16);
    for (size_t block = 32; block <= 1048576; block *= 2)
        check_same_class(&h, block / 2 + 1, block, block);
    CHECK_EQ(h.ctx->constructed, 17); /* one of each class: none served another */
    CHECK_EQ(parts_idle(&h.p), 17);
    close_holder(&h);
}

/* Made and ended each time, in memory of their own, beside what is pooled. */
static void check_never_kept(holder *h, size_t size)
{
    ask_for(h, size);
    for (int i = 0; i < 3; i++) {
        const uint64_t idle = parts_idle(&h->p);
        CHECK_EQ(acquire(h), PB_CONSTRUCTED);
        CHECK_EQ(release(h), PB_DESTROYED);
        CHECK_EQ(parts_idle(&h->p), idle);
    }
}

static void test_largest(void)
{
    holder h;
    open_holder(&h, "size_classes largest=4096");
    check_same_class(&h, 2049, 4096, 4096);
    check_never_kept(&h, 4097);
    check_never_kept(&h, 8192);
    check_never_kept(&h, 3 << 20);
    check_same_class(&h, 4096, 2049, 4096);
    close_holder(&h);
    open_holder(&h, "size_classes largest=3000"); /* its class is that of 4096 */
    check_same_class(&h, 2049, 4096, 4096);
    check_never_kept(&h, 4097);
    close_holder(&h);
    open_holder(&h, "size_classes largest=16 cap=1 capacity=1");
    check_same_class(&h, 16, 3, 16);
    check_never_kept(&h, 17);
    close_holder(&h);
}

/* Objects of unknown size, as tables have them. */
static void test_unknown_size(void)
{
    holder h;
    open_holder(&h, "size_classes");
    for (int i = 0; i < 3; i++) {
        h.p.args.size = 0;
        CHECK_EQ(acquire(&h), PB_CONSTRUCTED);
        CHECK_EQ(release(&h), PB_DESTROYED);
        CHECK_EQ(parts_idle(&h.p), 0);
    }
    close_holder(&h);
}

/* The newest stays with its thread, the one that was on top goes to the shared stack. */
static void test_order(void)
{
    holder h;
    open_holder(&h, "size_classes cap=2 capacity=2");
    while (h.count < 5)
        CHECK_EQ(acquire(&h), PB_CONSTRUCTED);
    pb_held in[5];
    memcpy(in, h.held, sizeof in);
    h.count = 0;
    static const pb_outcome wanted[5] = {PB_KEPT, PB_KEPT, PB_SPILLED, PB_SPILLED, PB_DESTROYED};
    for (int i = 0; i < 5; i++)
        CHECK_EQ(parts_release(&h.p, h.ctx, in[i]), wanted[i]);
    CHECK_EQ(shared(&h), 2);
    CHECK_EQ(parts_idle(&h.p), 4);
    static const int order[4] = {3, 0, 2, 1};
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(acquire(&h), i < 2 ? PB_LOCAL_HIT : PB_SHARED_HIT);
        CHECK(h.held[i].object == in[order[i]].object);
    }
    CHECK_EQ(acquire(&h), PB_CONSTRUCTED);
    while (h.count > 0)
        (void)release(&h);
    close_holder(&h);
}

/* What a thread leaves goes to the shared stacks, as far as there is room. */
static void test_leaving(void)
{
    holder h;
    open_holder(&h, "size_classes cap=6 capacity=4");
    for (size_t size = 16; size <= 64; size *= 2) {
        ask_for(&h, size);
        while (h.count < 6)
            (void)acquire(&h);
        while (h.count > 0)
            CHECK_EQ(release(&h), PB_KEPT);
    }
    parts_detach(&h.p, 0);
    parts_detach(&h.p, 0); /* once more changes nothing */
    CHECK_EQ(shared(&h), 3 * 4);
    CHECK_EQ(h.ctx->destroyed, 3 * 2);
    h.ctx = parts_attach(&h.p, 1);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(acquire(&h), PB_SHARED_HIT);
    CHECK_EQ(acquire(&h), PB_CONSTRUCTED);
    while (h.count > 0)
        (void)release(&h);
    close_holder(&h);
    CHECK_EQ(h.count, 0);
}

/* One acquires, the other releases: it works, one lock for one object. */
static void test_hand_off(void)
{
    enum { OPERATIONS = 5000, CAP = 8 };
    holder h;
    open_holder(&h, "size_classes");
    pb_ctx *other = parts_attach(&h.p, 1);
    uint64_t spilled = 0;
    for (int i = 0; i < OPERATIONS; i++) {
        (void)acquire(&h);
        spilled += parts_release(&h.p, other, h.held[--h.count]) == PB_SPILLED;
    }
    CHECK_EQ(h.ctx->constructed, CAP + 1);
    CHECK_EQ(spilled, OPERATIONS - CAP);
    close_holder(&h);
}

/* The block goes with the failed constructor, and the next acquire is served. */
static void test_failing_init(void)
{
    check_in("failing constructor");
    const pb_cell cell = cell_of("size_classes", "bytes", "churn", 1);
    probe_orders orders = {.fail = true};
    parts p;
    probe_parts(&p, &cell, &orders);
    pb_ctx *ctx = parts_attach(&p, 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(parts_acquire(&p, ctx).how, PB_FAILED);
    CHECK_EQ(ctx->constructed, 0);
    orders.fail = false;
    const pb_got got = parts_acquire(&p, ctx);
    CHECK_EQ(got.how, PB_CONSTRUCTED);
    CHECK_EQ(parts_release(&p, ctx, held_of(got)), PB_KEPT);
    parts_detach(&p, 0);
    CHECK_EQ(parts_close(&p), 0);
}

static uint64_t class_of(size_t size)
{
    uint64_t index = 0;
    for (size_t block = 16; block < size; block *= 2)
        index++;
    return index;
}

/* Sizes at random over two threads: every byte is the borrower's, bounds hold for each class. */
static void test_random_sizes(uint64_t seed)
{
    enum { CAP = 3, CAPACITY = 4, CLASSES = 5 }; /* 16 ... 256 bytes */
    holder h;
    size_t sizes[MOST];
    open_holder(&h, "size_classes cap=3 capacity=4 largest=256");
    (void)parts_attach(&h.p, 1);
    pb_rng rng = {seed};
    for (int i = 0; i < 20000; i++) {
        h.ctx = h.p.ctx[pb_rng_below(&rng, 2)];
        if (h.count == 0 || (h.count < MOST && pb_rng_below(&rng, 2) == 0)) {
            const size_t size = 1 + pb_rng_below(&rng, 300);
            ask_for(&h, size);
            const pb_outcome how = acquire(&h);
            memset(h.held[h.count - 1].object, h.count, size);
            sizes[h.count - 1] = size;
            CHECK(size <= 256 || how == PB_CONSTRUCTED);
        } else {
            const unsigned char *bytes = h.held[h.count - 1].object;
            const size_t size = sizes[h.count - 1];
            CHECK(bytes[0] == h.count && bytes[size - 1] == h.count);
            const uint64_t idle = parts_idle(&h.p);
            const bool kept = release(&h) != PB_DESTROYED;
            CHECK_EQ(parts_idle(&h.p), idle + kept);
            CHECK(!kept || class_of(size) < CLASSES);
        }
        CHECK(shared(&h) <= CAPACITY * CLASSES);
        CHECK(parts_idle(&h.p) <= (CAPACITY + 2 * CAP) * CLASSES);
        CHECK_EQ(parts_alive(&h.p), parts_idle(&h.p) + (uint64_t)h.count);
    }
    while (h.count > 0)
        (void)release(&h);
    close_holder(&h);
}

/* ---- others come in between ------------------------------------------------------------------ */

static holder *busy; /* whose thread 1 acts at a mark */
static pb_held others;

static void others_fill(void *unused)
{
    (void)unused;
    CHECK_EQ(parts_release(&busy->p, busy->p.ctx[1], others), PB_SPILLED);
}

static void others_empty(void *unused)
{
    (void)unused;
    const pb_got got = parts_acquire(&busy->p, busy->p.ctx[1]);
    CHECK_EQ(got.how, PB_SHARED_HIT);
    others = held_of(got);
}

/* Looked at without the lock, the stack has room, or something; with the lock it has not. */
static void test_second_look(void)
{
    holder h;
    busy = &h;
    open_holder(&h, "size_classes cap=1 capacity=1");
    pb_ctx *ctx = parts_attach(&h.p, 1);
    while (h.count < 4)
        (void)acquire(&h);
    (void)parts_release(&h.p, ctx, h.held[--h.count]); /* both shelves are full */
    CHECK_EQ(release(&h), PB_KEPT);
    others = h.held[--h.count];
    marks_at(0, others_fill, NULL);
    CHECK_EQ(release(&h), PB_DESTROYED);
    CHECK_EQ(shared(&h), 1);
    CHECK_EQ(acquire(&h), PB_LOCAL_HIT);
    h.held[h.count++] = held_of(parts_acquire(&h.p, ctx));
    marks_at(0, others_empty, NULL);
    CHECK_EQ(acquire(&h), PB_CONSTRUCTED);
    h.held[h.count++] = others;
    while (h.count > 0)
        (void)release(&h);
    close_holder(&h);
}

/* When nobody is attached, all that idles lies in the shared part. */
static void test_crowd(const char *pool, uint64_t bound)
{
    static crowd c;
    crowd_run(&c, pool, crowd_rounds(4000), 30);
    CHECK(c.most_idle <= bound);
}

int main(void)
{
    test_classes();
    test_largest();
    test_unknown_size();
    test_order();
    test_leaving();
    test_hand_off();
    test_failing_init();
    test_random_sizes(1);
    test_random_sizes(2);
    test_second_look();
    test_crowd("size_classes cap=1 capacity=1", 1);
    test_crowd("size_classes cap=2 capacity=2 lock=parking", 2);
    test_crowd("size_classes cap=3 capacity=64 reset_on=acquire", 64);
    test_crowd("size_classes largest=16", 0);
    return check_report();
}
