/* SPDX-License-Identifier: MIT
 *
 * test_owner_inbox.c - what owner_inbox promises of itself: objects come home, in order, within
 * bounds, and as long as somebody lives there.
 */
#define _GNU_SOURCE
#include "crowd.h"

enum { HOME, AWAY, MOST = 100 };

typedef struct pair {
    parts p;
    probe_orders orders;
    pb_ctx *home, *away; /* two threads' contexts, used in turn by one */
    pb_held held[MOST];
    int count;
} pair;

static void open_pair(pair *a, const char *pool)
{
    check_in("%s", pool);
    const pb_cell cell = cell_of(pool, "bytes", "churn", 2);
    *a = (pair){.count = 0};
    probe_parts(&a->p, &cell, &a->orders);
    a->home = parts_attach(&a->p, HOME);
    a->away = parts_attach(&a->p, AWAY);
}

static void close_pair(pair *a)
{
    for (int i = 0; i < 2; i++)
        if (a->p.attached[i])
            parts_detach(&a->p, i);
    CHECK_EQ(parts_idle(&a->p), 0); /* all of it goes with the threads */
    CHECK_EQ(parts_alive(&a->p), (uint64_t)a->count);
    CHECK_EQ(parts_close(&a->p), (uint64_t)a->count);
}

static pb_outcome acquire(pair *a, pb_ctx *ctx)
{
    const pb_got got = parts_acquire(&a->p, ctx);
    CHECK(got.object != NULL);
    a->held[a->count++] = held_of(got);
    CHECK_EQ(parts_alive(&a->p), parts_idle(&a->p) + (uint64_t)a->count);
    return got.how;
}

/* Gives back the oldest. */
static pb_outcome release(pair *a, pb_ctx *ctx)
{
    const pb_held held = a->held[0];
    memmove(a->held, a->held + 1, (size_t)--a->count * sizeof held);
    const uint64_t destroyed = ctx->destroyed;
    const pb_outcome how = parts_release(&a->p, ctx, held);
    CHECK_EQ(ctx->destroyed - destroyed, how == PB_DESTROYED);
    CHECK_EQ(parts_alive(&a->p), parts_idle(&a->p) + (uint64_t)a->count);
    return how;
}

static void acquire_all(pair *a, pb_ctx *ctx, int n, pb_outcome how)
{
    for (int i = 0; i < n; i++)
        CHECK_EQ(acquire(a, ctx), how);
}

static void release_all(pair *a, pb_ctx *ctx, pb_outcome how)
{
    while (a->count > 0)
        CHECK_EQ(release(a, ctx), how);
}

/* The newest first, from either side; only the first out of an inbox is a shared hit. */
static void test_order(bool remote)
{
    enum { N = 5 };
    pair a;
    void *in[N];
    open_pair(&a, "owner_inbox");
    acquire_all(&a, a.home, N, PB_CONSTRUCTED);
    for (int i = 0; i < N; i++)
        in[i] = a.held[i].object;
    release_all(&a, remote ? a.away : a.home, remote ? PB_HANDED_OVER : PB_KEPT);
    CHECK_EQ(a.p.class->idle(a.p.pool, a.away), 0); /* all are at home */
    for (int i = N - 1; i >= 0; i--) {
        CHECK_EQ(acquire(&a, a.home), remote && i == N - 1 ? PB_SHARED_HIT : PB_LOCAL_HIT);
        CHECK(a.held[a.count - 1].object == in[i]);
    }
    CHECK_EQ(acquire(&a, a.home), PB_CONSTRUCTED);
    release_all(&a, a.home, PB_KEPT);
    close_pair(&a);
}

/* Own releases lie above what came in, and that above what comes in later. */
static void test_stack_before_inbox(void)
{
    pair a;
    open_pair(&a, "owner_inbox");
    acquire_all(&a, a.home, 4, PB_CONSTRUCTED);
    void *late = a.held[0].object, *early = a.held[1].object;
    void *below = a.held[2].object, *own = a.held[3].object;
    (void)parts_release(&a.p, a.away, a.held[2]);
    (void)parts_release(&a.p, a.away, a.held[1]);
    const pb_got got = parts_acquire(&a.p, a.home);
    CHECK_EQ(got.how, PB_SHARED_HIT);
    CHECK(got.object == early);
    (void)parts_release(&a.p, a.home, held_of(got));
    (void)parts_release(&a.p, a.home, a.held[3]);
    (void)parts_release(&a.p, a.away, a.held[0]);
    a.count = 0;
    CHECK_EQ(parts_idle(&a.p), 4);
    void *wanted[] = {own, early, below, late};
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(acquire(&a, a.home), i == 3 ? PB_SHARED_HIT : PB_LOCAL_HIT);
        CHECK(a.held[i].object == wanted[i]);
    }
    release_all(&a, a.home, PB_KEPT);
    close_pair(&a);
}

/* Both bounds are exact, and separate; what does not fit is destroyed by its releaser. */
static void test_bounds(const char *pool, int cap, int inbox)
{
    pair a;
    open_pair(&a, pool);
    for (int round = 0; round < 3; round++) {
        while (a.count < cap + inbox + 4)
            (void)acquire(&a, a.home);
        for (int i = 0; i < cap; i++)
            CHECK_EQ(release(&a, a.home), PB_KEPT);
        for (int i = 0; i < 2; i++)
            CHECK_EQ(release(&a, a.home), PB_DESTROYED);
        for (int i = 0; i < inbox; i++)
            CHECK_EQ(release(&a, a.away), PB_HANDED_OVER);
        CHECK_EQ(parts_idle(&a.p), cap + inbox);
        const uint64_t resets = a.away->destroyed;
        for (int i = 0; i < 2; i++)
            CHECK_EQ(release(&a, a.away), PB_DESTROYED);
        CHECK_EQ(a.away->destroyed - resets, 2);
        CHECK_EQ(parts_idle(&a.p), cap + inbox);
    }
    CHECK_EQ(a.away->constructed, 0);
    close_pair(&a);
}

/* The entries of objects that were destroyed, here or there, are used again. */
static void test_entries_are_used_again(const char *pool)
{
    enum { ENTRIES = 64, TIMES = 1000 };
    pair a;
    uint64_t seen[ENTRIES];
    int distinct = 0;
    open_pair(&a, pool);
    for (int i = 0; i < TIMES; i++) {
        acquire_all(&a, a.home, 3, PB_CONSTRUCTED);
        for (int k = 0; k < 3; k++) {
            int at = 0;
            while (at < distinct && seen[at] != a.held[k].handle)
                at++;
            if (at == distinct && CHECK(distinct < ENTRIES))
                seen[distinct++] = a.held[k].handle;
        }
        release_all(&a, a.away, PB_DESTROYED);
    }
    close_pair(&a);
}

/* ---- leaving --------------------------------------------------------------------------------- */

/* After the acquirer has left, its objects are destroyed by whoever releases them. */
static void test_nobody_at_home(void)
{
    pair a;
    open_pair(&a, "owner_inbox");
    acquire_all(&a, a.home, 6, PB_CONSTRUCTED);
    CHECK_EQ(release(&a, a.home), PB_KEPT);
    CHECK_EQ(release(&a, a.away), PB_HANDED_OVER);
    CHECK_EQ(release(&a, a.away), PB_HANDED_OVER);
    parts_detach(&a.p, HOME);
    CHECK_EQ(a.home->destroyed, 3); /* stack and inbox */
    release_all(&a, a.away, PB_DESTROYED);
    a.p.class->detach(a.p.pool, a.home); /* again: nothing left to do */
    CHECK_EQ(a.home->destroyed, 3);
    close_pair(&a);
}

/* A chain that was fetched and not used up goes with its thread as well. */
static void test_leaves_with_a_chain(void)
{
    pair a;
    open_pair(&a, "owner_inbox");
    acquire_all(&a, a.home, 5, PB_CONSTRUCTED);
    release_all(&a, a.away, PB_HANDED_OVER);
    CHECK_EQ(acquire(&a, a.home), PB_SHARED_HIT);
    CHECK_EQ(parts_idle(&a.p), 4);
    parts_detach(&a.p, HOME);
    CHECK_EQ(a.home->destroyed, 4);
    release_all(&a, a.away, PB_DESTROYED);
    close_pair(&a);
}

/* A home that was left goes to the next thread that constructs, and with it what is still out. */
static void test_next_at_home(void)
{
    pair a;
    open_pair(&a, "owner_inbox");
    acquire_all(&a, a.home, 3, PB_CONSTRUCTED);
    a.p.class->detach(a.p.pool, a.home);
    CHECK_EQ(release(&a, a.away), PB_DESTROYED);
    CHECK_EQ(a.p.class->attach(a.p.pool, a.home), PB_OK);
    CHECK_EQ(release(&a, a.away), PB_DESTROYED); /* not yet: it has not constructed */
    CHECK_EQ(acquire(&a, a.home), PB_CONSTRUCTED);
    void *old = a.held[0].object;
    CHECK_EQ(release(&a, a.away), PB_HANDED_OVER);
    CHECK_EQ(acquire(&a, a.home), PB_SHARED_HIT);
    CHECK(a.held[1].object == old);
    release_all(&a, a.home, PB_KEPT);
    close_pair(&a);
}

/* Objects that never had a home, and a thread that never constructs: destroyed, handed over. */
static void test_without_a_home(void)
{
    pair a;
    open_pair(&a, "owner_inbox");
    pb_held foreign = {pb_construct(a.away, a.p.workload.is, &a.p.args), 0};
    CHECK_EQ(parts_release(&a.p, a.away, foreign), PB_DESTROYED);
    acquire_all(&a, a.home, 3, PB_CONSTRUCTED);
    foreign.object = pb_construct(a.home, a.p.workload.is, &a.p.args);
    CHECK_EQ(parts_release(&a.p, a.home, foreign), PB_DESTROYED);
    CHECK_EQ(parts_idle(&a.p), 0);
    parts_detach(&a.p, AWAY); /* had nothing */
    CHECK_EQ(a.p.class->attach(a.p.pool, a.away), PB_OK);
    release_all(&a, a.away, PB_HANDED_OVER);
    CHECK_EQ(a.p.class->idle(a.p.pool, a.away), 0);
    close_pair(&a);
}

/* ---- hand-off -------------------------------------------------------------------------------- */

enum { CHANNEL = 32, OBJECTS = 20000 };

typedef struct handoff {
    parts p;
    PB_ALIGNED pb_atomic_u32 sent, received;
    PB_ALIGNED pb_held channel[CHANNEL];
} handoff;

static void *receive(void *arg)
{
    handoff *h = arg;
    pb_ctx *ctx = parts_attach(&h->p, AWAY);
    for (uint32_t i = 0; i < OBJECTS; i++) {
        while (pb_load_acquire_u32(&h->sent) == i) /* pairs with the release in send */
            (void)sched_yield();
        const pb_held held = h->channel[i % CHANNEL];
        pb_store_release_u32(&h->received, i + 1); /* pairs with the acquire in send */
        ctx->outcomes[parts_release(&h->p, ctx, held)]++;
    }
    parts_detach(&h->p, AWAY);
    return NULL;
}

static void send(handoff *h, pb_ctx *ctx)
{
    for (uint32_t i = 0; i < OBJECTS; i++) {
        while (i - pb_load_acquire_u32(&h->received) == CHANNEL)
            (void)sched_yield();
        const pb_got got = parts_acquire(&h->p, ctx);
        ctx->outcomes[got.how]++;
        h->channel[i % CHANNEL] = held_of(got);
        pb_store_release_u32(&h->sent, i + 1);
    }
}

/* One thread acquires, another releases: nearly every acquire is a hit. */
static void test_handoff(void)
{
    static handoff h;
    check_in("hand-off");
    const pb_cell cell = cell_of("owner_inbox", "bytes", "churn", 2);
    parts_open(&h.p, &cell, NULL);
    pb_ctx *ctx = parts_attach(&h.p, HOME);
    pthread_t thread;
    if (pthread_create(&thread, NULL, receive, &h) != 0)
        cell_mistake("no thread");
    send(&h, ctx);
    (void)pthread_join(thread, NULL);
    const pb_ctx *away = h.p.ctx[AWAY];
    CHECK(ctx->outcomes[PB_CONSTRUCTED] * 10 < OBJECTS);
    CHECK_EQ(ctx->outcomes[PB_CONSTRUCTED] + ctx->outcomes[PB_LOCAL_HIT] +
                 ctx->outcomes[PB_SHARED_HIT],
             OBJECTS);
    CHECK_EQ(away->outcomes[PB_HANDED_OVER] + away->outcomes[PB_DESTROYED], OBJECTS);
    CHECK_EQ(away->constructed, 0);
    parts_detach(&h.p, HOME);
    CHECK_EQ(parts_close(&h.p), 0);
}

int main(void)
{
    test_order(false);
    test_order(true);
    test_stack_before_inbox();
    test_bounds("owner_inbox cap=4 inbox=3", 4, 3);
    test_bounds("owner_inbox cap=1 inbox=1", 1, 1);
    test_bounds("owner_inbox cap=2 inbox=0", 2, 0);
    test_bounds("owner_inbox cap=3 inbox=40", 3, 40);
    test_entries_are_used_again("owner_inbox inbox=0");
    test_nobody_at_home();
    test_leaves_with_a_chain();
    test_next_at_home();
    test_without_a_home();
    test_handoff();
    static crowd c;
    const int rounds = crowd_rounds(4000);
    crowd_run(&c, "owner_inbox", rounds, 1000);
    crowd_run(&c, "owner_inbox cap=2 inbox=2", rounds, 1000);
    crowd_run(&c, "owner_inbox cap=2 inbox=3 reset_on=acquire", rounds, 10);
    crowd_run(&c, "owner_inbox cap=1 inbox=1", rounds, 3);
    crowd_arrive(&c, "owner_inbox cap=2 inbox=2");
    return check_report();
}
