/* SPDX-License-Identifier: MIT
 *
 * test_stealing.c - what stealing promises of itself: order, bounds, who is robbed, and ageing,
 * with the run-time tick advanced by hand.
 */
#define _GNU_SOURCE
#include "crowd.h"

enum { MOST = 64, EPOCH_MS = 10 };

typedef struct group {
    parts p;
    probe_orders orders;
    pb_ctx *ctx[3]; /* threads' contexts, used in turn by one */
    void *held[MOST];
    int count;
} group;

static void open_group(group *g, const char *pool)
{
    check_in("%s", pool);
    const pb_cell cell = cell_of(pool, "bytes", "churn", 3);
    *g = (group){.count = 0};
    probe_parts(&g->p, &cell, &g->orders);
    for (int i = 0; i < 3; i++)
        g->ctx[i] = parts_attach(&g->p, i);
}

static void balance(const group *g)
{
    CHECK_EQ(parts_alive(&g->p), parts_idle(&g->p) + (uint64_t)g->count);
}

static void close_group(group *g)
{
    for (int i = 0; i < 3; i++)
        if (g->p.attached[i])
            parts_detach(&g->p, i);
    balance(g);
    CHECK_EQ(parts_close(&g->p), 0);
}

static pb_outcome acquire(group *g, int i)
{
    const pb_got got = parts_acquire(&g->p, g->ctx[i]);
    CHECK(got.object != NULL);
    g->held[g->count++] = got.object;
    balance(g);
    return got.how;
}

/* Gives back the oldest. */
static pb_outcome release(group *g, int i)
{
    void *object = g->held[0];
    memmove(g->held, g->held + 1, (size_t)--g->count * sizeof object);
    const pb_outcome how = parts_return(&g->p, g->ctx[i], object);
    balance(g);
    return how;
}

/* `n` new objects, released by thread `i`, the first of them first. */
static void fill(group *g, int i, int n, void **objects)
{
    for (int k = 0; k < n; k++) {
        CHECK_EQ(acquire(g, i), PB_CONSTRUCTED);
        if (objects)
            objects[k] = g->held[k];
    }
    while (g->count > 0)
        CHECK_EQ(release(g, i), PB_KEPT);
}

static void expect(group *g, int i, pb_outcome how, const void *object)
{
    CHECK_EQ(acquire(g, i), how);
    if (object)
        CHECK(g->held[g->count - 1] == object);
}

static void give_all(group *g, int i)
{
    while (g->count > 0)
        CHECK_EQ(release(g, i), PB_KEPT);
}

static void pass(group *g, uint32_t ms)
{
    (void)pb_add_relaxed_u32(&g->p.control.tick, ms);
}

static uint64_t aged(const group *g)
{
    uint64_t sum = 0;
    for (int i = 0; i < 3; i++)
        sum += g->ctx[i]->events[PB_AGED];
    return sum;
}

/* ---- order and bounds ------------------------------------------------------------------------ */

/* The owner: the slot, then the newest of the rings; over rings of 2, 4 and 8. */
static void test_owner_order(void)
{
    enum { N = 13 };
    group g;
    void *in[N];
    open_group(&g, "stealing ring=2");
    fill(&g, 0, N, in);
    expect(&g, 0, PB_LOCAL_HIT, in[0]);
    for (int i = N - 1; i > 0; i--)
        expect(&g, 0, PB_LOCAL_HIT, in[i]);
    expect(&g, 0, PB_CONSTRUCTED, NULL);
    give_all(&g, 0);
    close_group(&g);
}

/* Thieves: the oldest of the rings; the slot is nobody else's. */
static void test_thieves_order(void)
{
    enum { N = 13 };
    group g;
    void *in[N];
    open_group(&g, "stealing ring=2");
    fill(&g, 0, N, in);
    for (int i = 1; i < N; i++)
        expect(&g, 1 + i % 2, PB_STOLEN, in[i]);
    expect(&g, 1, PB_CONSTRUCTED, NULL);
    expect(&g, 0, PB_LOCAL_HIT, in[0]);
    give_all(&g, 2);
    close_group(&g);
}

/* From every other thread, and what is stolen is kept by the thief. */
static void test_steals_from_all(void)
{
    group g;
    open_group(&g, "stealing");
    fill(&g, 0, 3, NULL);
    for (int k = 0; k < 3; k++)
        expect(&g, 2, k == 2 ? PB_CONSTRUCTED : PB_STOLEN, NULL);
    give_all(&g, 2);
    for (int k = 0; k < 2; k++)
        expect(&g, 1, PB_STOLEN, NULL);
    expect(&g, 1, PB_CONSTRUCTED, NULL);
    give_all(&g, 1);
    CHECK_EQ(g.p.class->idle(g.p.pool, g.ctx[0]), 1);
    CHECK_EQ(g.p.class->idle(g.p.pool, g.ctx[1]), 3);
    CHECK_EQ(g.p.class->idle(g.p.pool, g.ctx[2]), 1);
    close_group(&g);
}

static int kept_of(group *g, int n)
{
    int kept = 0;
    while (g->count < n)
        (void)acquire(g, 0);
    while (g->count > 0)
        kept += release(g, 0) == PB_KEPT;
    return kept;
}

/* The slot and all rings while they are first filled; then the slot and the longest. */
static void test_bounds(const char *pool, int first, int later)
{
    group g;
    open_group(&g, pool);
    CHECK_EQ(kept_of(&g, 40), first);
    for (int round = 0; round < 3; round++) {
        while (parts_idle(&g.p) > 0)
            (void)acquire(&g, 0);
        CHECK_EQ(kept_of(&g, 40), later);
    }
    CHECK_EQ(aged(&g), 0);
    CHECK_EQ(g.ctx[0]->events[PB_FALSE_FULL], 0);
    close_group(&g);
}

/* ---- ageing ---------------------------------------------------------------------------------- */

/* What a thread gets back after `epochs` have begun since the release of slot and ring. */
static void test_age(uint32_t ms, bool dropped)
{
    group g;
    void *in[3];
    open_group(&g, "stealing epoch_ms=10 epoch_bytes=0");
    check_in("after %d ms", (int)ms);
    fill(&g, 0, 3, in);
    pass(&g, ms);
    for (int k = 0; k < 3; k++)
        expect(&g, 0, dropped ? PB_CONSTRUCTED : PB_LOCAL_HIT, NULL);
    CHECK_EQ(aged(&g), dropped ? 3 : 0);
    CHECK_EQ(g.ctx[0]->destroyed, dropped ? 3 : 0);
    give_all(&g, 0);
    close_group(&g);
}

/* Hits of a thread that pauses `gap` between release and acquire. */
static int hits_with_gap(uint32_t gap_ms)
{
    enum { TIMES = 60 };
    group g;
    int hits = 0;
    open_group(&g, "stealing epoch_ms=10");
    for (int i = 0; i < TIMES; i++) {
        hits += acquire(&g, 0) != PB_CONSTRUCTED;
        pass(&g, 1); /* held */
        give_all(&g, 0);
        pass(&g, gap_ms);
    }
    close_group(&g);
    return hits;
}

/* Up to one epoch all, from two on none, and between them, as luck will have it, some. */
static void test_hit_rate_falls_with_the_gap(void)
{
    CHECK_EQ(hits_with_gap(0), 59);
    CHECK_EQ(hits_with_gap(EPOCH_MS / 2), 59);
    CHECK_EQ(hits_with_gap(EPOCH_MS), 59);
    const int between = hits_with_gap(EPOCH_MS + EPOCH_MS / 2);
    CHECK(between > 15 && between < 45);
    CHECK_EQ(hits_with_gap(2 * EPOCH_MS), 0);
    CHECK_EQ(hits_with_gap(20 * EPOCH_MS), 0);
}

/* What is held does not age: from its release on it is new. */
static void test_held_objects_do_not_age(void)
{
    group g;
    open_group(&g, "stealing epoch_ms=10");
    for (int i = 0; i < 5; i++) {
        expect(&g, 0, i == 0 ? PB_CONSTRUCTED : PB_LOCAL_HIT, NULL);
        pass(&g, 25);
        give_all(&g, 0);
    }
    CHECK_EQ(aged(&g), 0);
    close_group(&g);
}

/* The generation before is used last, by its owner from the slot on, and by others. */
static void test_generation_before(void)
{
    group g;
    void *old[4], *young;
    open_group(&g, "stealing epoch_ms=10");
    fill(&g, 0, 4, old);
    pass(&g, EPOCH_MS);
    expect(&g, 0, PB_LOCAL_HIT, old[0]); /* the slot */
    young = g.held[0];
    give_all(&g, 0);
    expect(&g, 0, PB_LOCAL_HIT, young);
    expect(&g, 1, PB_STOLEN, old[1]); /* the oldest */
    expect(&g, 0, PB_LOCAL_HIT, old[2]);
    expect(&g, 2, PB_STOLEN, old[3]);
    expect(&g, 0, PB_CONSTRUCTED, NULL);
    CHECK_EQ(aged(&g), 0);
    give_all(&g, 0);
    close_group(&g);
}

/* A thread that comes by in every epoch drops what is two epochs old, and nothing else. */
static void test_drops_generation_by_generation(void)
{
    group g;
    open_group(&g, "stealing epoch_ms=10");
    fill(&g, 0, 6, NULL);
    for (int epoch = 1; epoch < 6; epoch++) {
        pass(&g, EPOCH_MS);
        for (int k = 0; k < 2; k++) /* two of the six, or of the two, are used in each */
            expect(&g, 0, PB_LOCAL_HIT, NULL);
        give_all(&g, 0);
        CHECK_EQ(aged(&g), epoch == 1 ? 0 : 4);
        CHECK_EQ(parts_idle(&g.p), epoch == 1 ? 6 : 2);
    }
    close_group(&g);
}

/* A thread that sleeps: its rings are of the generation before after one epoch, and emptied after
   two by the first who sees that; its slot waits for it. */
static void test_sleepers_are_trimmed(void)
{
    group g;
    void *in[4];
    open_group(&g, "stealing epoch_ms=10");
    fill(&g, 0, 4, in);
    pass(&g, EPOCH_MS);
    expect(&g, 1, PB_STOLEN, in[1]);
    CHECK_EQ(aged(&g), 0);
    pass(&g, EPOCH_MS);
    expect(&g, 1, PB_CONSTRUCTED, NULL);
    CHECK_EQ(aged(&g), 2);
    CHECK_EQ(g.ctx[0]->events[PB_AGED], 0); /* it was done for it */
    CHECK_EQ(g.p.class->idle(g.p.pool, g.ctx[0]), 1);
    expect(&g, 0, PB_CONSTRUCTED, NULL);
    CHECK_EQ(g.ctx[0]->events[PB_AGED], 1);
    give_all(&g, 0);
    close_group(&g);
}

/* `n` new objects, in any way there is none other to be had. */
static void construct(group *g, int i, int n)
{
    const uint64_t wanted = g->ctx[i]->constructed + (uint64_t)n;
    while (g->ctx[i]->constructed < wanted)
        (void)acquire(g, i);
}

/* Every N objects constructed, by whomever, an epoch begins. */
static void test_epochs_of_bytes(void)
{
    enum { N = 8 };
    group g;
    char pool[CELL_TEXT];
    (void)snprintf(pool, sizeof pool, "stealing epoch_bytes=%d", N * (int)sizeof(probe));
    open_group(&g, pool);
    fill(&g, 0, 1, NULL);
    construct(&g, 1, N - 1); /* that is N: the first epoch is over */
    expect(&g, 0, PB_LOCAL_HIT, NULL);
    (void)release(&g, 0);
    construct(&g, 2, N - 1);
    expect(&g, 0, PB_LOCAL_HIT, NULL); /* in the same */
    (void)release(&g, 0);
    construct(&g, 1, N + 1); /* the second and the third are over */
    expect(&g, 0, PB_CONSTRUCTED, NULL);
    CHECK_EQ(aged(&g), 1);
    while (g.count > 0)
        (void)release(&g, 1);
    close_group(&g);
}

/* Unless asked to, it forgets nothing. */
static void test_never(void)
{
    group g;
    open_group(&g, "stealing epoch_bytes=0");
    fill(&g, 0, 10, NULL);
    pass(&g, 1000000);
    for (int k = 0; k < 10; k++)
        expect(&g, 0, PB_LOCAL_HIT, NULL);
    for (int k = 0; k < 30000; k++) {
        (void)acquire(&g, 1);
        (void)parts_release(&g.p, g.ctx[2], (pb_held){g.held[--g.count], 0});
    }
    CHECK_EQ(aged(&g), 0);
    give_all(&g, 0);
    close_group(&g);
}

/* ---- leaving --------------------------------------------------------------------------------- */

/* What a thread leaves can be stolen, then belongs to the next that comes. */
static void test_leaves_its_objects(void)
{
    group g;
    void *in[4];
    open_group(&g, "stealing");
    fill(&g, 0, 4, in);
    parts_detach(&g.p, 0);
    g.p.class->detach(g.p.pool, g.ctx[0]); /* again: nothing left to do */
    CHECK_EQ(g.ctx[0]->destroyed, 0);
    CHECK_EQ(g.p.class->idle(g.p.pool, NULL), 4);
    expect(&g, 1, PB_STOLEN, in[1]);
    CHECK_EQ(g.p.class->attach(g.p.pool, g.ctx[0]), PB_OK);
    g.p.attached[0] = true;
    CHECK_EQ(g.p.class->idle(g.p.pool, NULL), 0);
    expect(&g, 0, PB_LOCAL_HIT, in[0]); /* its slot came last into the ring */
    expect(&g, 0, PB_LOCAL_HIT, in[3]);
    give_all(&g, 1);
    close_group(&g);
}

/* What was left ages as everything does, whether or not anybody takes it over. */
static void test_left_objects_age(bool taken_over)
{
    group g;
    open_group(&g, "stealing epoch_ms=10");
    fill(&g, 0, 4, NULL);
    parts_detach(&g.p, 0);
    CHECK_EQ(g.p.class->idle(g.p.pool, NULL), 4);
    pass(&g, 2 * EPOCH_MS);
    if (taken_over)
        CHECK_EQ(g.p.class->attach(g.p.pool, g.ctx[0]), PB_OK);
    g.p.attached[0] = taken_over;
    expect(&g, 1, PB_CONSTRUCTED, NULL);
    CHECK_EQ(aged(&g), 4);
    CHECK_EQ(parts_idle(&g.p), 0);
    give_all(&g, 1);
    close_group(&g);
}

/* ---- all at once ----------------------------------------------------------------------------- */

static void test_crowds(void)
{
    static crowd c;
    const int rounds = crowd_rounds(4000);
    crowd_run(&c, "stealing", rounds, 1000);
    crowd_run(&c, "stealing ring=2 ring_max=2 epoch_ms=1", rounds, 1000);
    CHECK(c.events[PB_AGED] > 0);
    crowd_run(&c, "stealing ring=1 ring_max=4 epoch_ms=2 reset_on=acquire", rounds, 10);
    CHECK(c.events[PB_AGED] > 0);
    crowd_run(&c, "stealing ring=2 ring_max=4 epoch_bytes=4096", rounds, 3);
    crowd_arrive(&c, "stealing ring=1 ring_max=2");
}

/* Threads that only take against one that gives: the swaps on one ring's ends. Nobody yields, so
   that two of them run at once where there are two CPUs. */
typedef struct robbery {
    parts p;
    probe_orders orders;
    pb_atomic_u32 done;
    pb_atomic_u64 stolen;
} robbery;

#ifdef PB_FEW_KERNELS /* instrumented: slow, and content with less */
enum { ROBBERIES = 10000 };
#else
enum { ROBBERIES = 100000 };
#endif
enum { THIEVES = 3, BATCH = 6 };

typedef struct thief {
    robbery *r;
    int index;
} thief;

static void *rob(void *arg)
{
    const thief *t = arg;
    robbery *r = t->r;
    check_in("robbery, thief %d", t->index);
    pb_ctx *ctx = parts_attach(&r->p, t->index);
    uint64_t stolen = 0;
    while (!pb_load_acquire_u32(&r->done)) {
        const pb_got got = parts_acquire(&r->p, ctx);
        probe_take(ctx, got.object);
        ctx->sink += parts_use(&r->p, ctx, got.object);
        probe_leave(ctx, got.object);
        stolen += got.how == PB_STOLEN;
        probe_destroy(ctx, got.object, r->p.args); /* never given back */
        ctx->destroyed++;
    }
    (void)pb_add_relaxed_u64(&r->stolen, stolen);
    parts_detach(&r->p, t->index);
    return NULL;
}

static void be_robbed(robbery *r, pb_ctx *ctx, int rounds)
{
    void *held[BATCH];
    for (int i = 0; i < rounds; i++) {
        for (int k = 0; k < BATCH; k++) {
            held[k] = parts_acquire(&r->p, ctx).object;
            probe_take(ctx, held[k]);
            ctx->sink += parts_use(&r->p, ctx, held[k]);
        }
        for (int k = 0; k < BATCH; k++) {
            probe_leave(ctx, held[k]);
            (void)parts_return(&r->p, ctx, held[k]);
        }
    }
}

static void test_robbery(const char *pool)
{
    static robbery r;
    const char *text = getenv("PB_STRESS_ROUNDS");
    check_in("robbery: %s", pool);
    const pb_cell cell = cell_of(pool, "bytes", "churn", 1 + THIEVES);
    memset(&r, 0, sizeof r);
    probe_parts(&r.p, &cell, &r.orders);
    pthread_t threads[THIEVES];
    thief thieves[THIEVES];
    pb_ctx *ctx = parts_attach(&r.p, 0);
    for (int i = 0; i < THIEVES; i++) {
        thieves[i] = (thief){&r, i + 1};
        if (pthread_create(&threads[i], NULL, rob, &thieves[i]) != 0)
            cell_mistake("no thread");
    }
    be_robbed(&r, ctx, text ? atoi(text) : ROBBERIES);
    pb_store_release_u32(&r.done, 1);
    for (int i = 0; i < THIEVES; i++)
        (void)pthread_join(threads[i], NULL);
    CHECK(pb_load_relaxed_u64(&r.stolen) > 0);
    parts_detach(&r.p, 0);
    CHECK_EQ(parts_alive(&r.p), parts_idle(&r.p));
    CHECK_EQ(parts_close(&r.p), 0);
}

int main(void)
{
    test_owner_order();
    test_thieves_order();
    test_steals_from_all();
    test_bounds("stealing ring=2 ring_max=8", 1 + 2 + 4 + 8, 1 + 8);
    test_bounds("stealing ring=4 ring_max=4", 1 + 4, 1 + 4);
    test_bounds("stealing ring=1 ring_max=1", 1 + 1, 1 + 1);
    test_bounds("stealing ring=3 ring_max=7", 1 + 4 + 8, 1 + 8); /* rounded up */
    test_bounds("stealing ring=8 ring_max=2", 1 + 8, 1 + 8);     /* the first is there anyway */
    test_age(0, false);
    test_age(EPOCH_MS - 1, false);
    test_age(EPOCH_MS, false);
    test_age(2 * EPOCH_MS - 1, false);
    test_age(2 * EPOCH_MS, true);
    test_age(3 * EPOCH_MS, true);
    test_age(1000 * EPOCH_MS, true);
    test_hit_rate_falls_with_the_gap();
    test_held_objects_do_not_age();
    test_generation_before();
    test_drops_generation_by_generation();
    test_sleepers_are_trimmed();
    test_epochs_of_bytes();
    test_never();
    test_leaves_its_objects();
    test_left_objects_age(false);
    test_left_objects_age(true);
    test_robbery("stealing ring=2 ring_max=4");
    test_robbery("stealing ring=1 ring_max=2 epoch_bytes=20000");
    test_crowds();
    return check_report();
}
