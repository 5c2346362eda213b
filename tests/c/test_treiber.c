/* SPDX-License-Identifier: MIT
 *
 * test_treiber.c - what the treiber stack promises of itself: order, nodes, retries, and its tag.
 *
 * The interleavings that matter are played on one thread, another's step at a mark of ours. Then
 * threads that let others in at marks hunt for what a narrow tag lets through: with few bits it
 * must be found, or the hunt could not have found it with many. PB_HUNT_SECONDS lengthens the
 * hunt.
 */
#define _GNU_SOURCE
#include <pthread.h>

#include "cell.h"
#include "check.h"
#include "clock.h"
#include "marks.h"
#include "probe.h"

/* A pool of probes with two threads' contexts, both used by this thread. */
typedef struct pair {
    parts p;
    probe_orders orders;
    pb_ctx *one, *other;
} pair;

static void opened(pair *t, const char *pool)
{
    const pb_cell cell = cell_of(pool, "bytes", "churn", 2);
    t->orders = (probe_orders){.fail = false};
    probe_parts(&t->p, &cell, &t->orders);
    t->one = parts_attach(&t->p, 0);
    t->other = parts_attach(&t->p, 1);
}

static void closed(pair *t)
{
    parts_detach(&t->p, 0);
    parts_detach(&t->p, 1);
    CHECK_EQ(parts_alive(&t->p), parts_idle(&t->p));
    CHECK_EQ(parts_close(&t->p), 0);
}

static pb_held take(pair *t, pb_ctx *ctx, pb_outcome how)
{
    const pb_got got = parts_acquire(&t->p, ctx);
    CHECK_EQ(got.how, how);
    return held_of(got);
}

static void give(pair *t, pb_ctx *ctx, pb_held held, pb_outcome how)
{
    CHECK_EQ(parts_release(&t->p, ctx, held), how);
}

/* So many idle objects; on[0] becomes the top of the stack. */
static void filled(pair *t, pb_held *on, int count)
{
    for (int i = 0; i < count; i++)
        on[i] = take(t, t->one, PB_CONSTRUCTED);
    for (int i = count - 1; i >= 0; i--)
        give(t, t->one, on[i], PB_KEPT);
}

/* ---- alone ----------------------------------------------------------------------------------- */

static void test_newest_first(void)
{
    enum { N = 5 };
    check_in("order");
    pair t;
    pb_held on[N];
    opened(&t, "treiber");
    filled(&t, on, N);
    for (int round = 0; round < 4; round++) {
        pb_held out[N];
        for (int i = 0; i < N; i++) {
            out[i] = take(&t, t.one, PB_SHARED_HIT);
            CHECK(out[i].object == on[i].object);
            CHECK_EQ(out[i].handle, on[i].handle); /* for life */
        }
        for (int i = 0; i < N; i++)
            give(&t, t.one, out[i], PB_KEPT);
        for (int i = 0; i < N; i++)
            on[i] = out[N - 1 - i];
    }
    CHECK_EQ(t.one->events[PB_RETRIED], 0);
    closed(&t);
}

/* Handles 1 ... capacity, each once; what is made beyond them has none and is not kept. */
static void test_beyond_the_bound(void)
{
    enum { ROOM = 3, MORE = 2 };
    check_in("beyond the bound");
    pair t;
    pb_held out[ROOM + MORE];
    opened(&t, "treiber capacity=3");
    for (int round = 0; round < 3; round++) {
        uint64_t seen = 0;
        for (int i = 0; i < ROOM + MORE; i++) {
            out[i] = take(&t, t.one, i < ROOM && round ? PB_SHARED_HIT : PB_CONSTRUCTED);
            CHECK_EQ(out[i].handle != 0, i < ROOM);
            seen |= (uint64_t)1 << out[i].handle;
        }
        CHECK_EQ(seen, 0xf);
        for (int i = ROOM + MORE - 1; i >= 0; i--)
            give(&t, t.other, out[i], i < ROOM ? PB_KEPT : PB_DESTROYED);
        CHECK_EQ(parts_idle(&t.p), ROOM);
        CHECK_EQ(t.one->events[PB_TRANSIENT], MORE * (round + 1));
    }
    closed(&t);
}

/* An object that the pool never made gets a node as long as there is one, and is reset. */
static void test_foreign_objects(void)
{
    check_in("foreign objects");
    pair t;
    opened(&t, "treiber capacity=2");
    for (int i = 0; i < 4; i++) {
        void *object = pb_construct(t.one, t.p.workload.is, &t.p.args);
        (void)parts_use(&t.p, t.one, object);
        give(&t, t.one, (pb_held){object, 0}, i < 2 ? PB_KEPT : PB_DESTROYED);
    }
    CHECK_EQ(parts_idle(&t.p), 2);
    const pb_held first = take(&t, t.other, PB_SHARED_HIT);
    CHECK_EQ(first.handle, 2);
    CHECK(!((probe *)first.object)->dirty);
    give(&t, t.one, first, PB_KEPT);
    closed(&t);
}

static void test_failed_constructions_take_no_node(void)
{
    check_in("failed constructions");
    pair t;
    opened(&t, "treiber capacity=1");
    t.orders.fail = true;
    for (int i = 0; i < 3; i++)
        CHECK(take(&t, t.one, PB_FAILED).object == NULL);
    CHECK_EQ(t.one->events[PB_TRANSIENT], 0);
    t.orders.fail = false;
    const pb_held only = take(&t, t.one, PB_CONSTRUCTED);
    CHECK_EQ(only.handle, 1);
    give(&t, t.one, only, PB_KEPT);
    closed(&t);
}

static void test_released_after_its_acquirer_left(void)
{
    check_in("after its acquirer left");
    pair t;
    opened(&t, "treiber capacity=2");
    const pb_held kept = take(&t, t.one, PB_CONSTRUCTED);
    parts_detach(&t.p, 0);
    give(&t, t.other, kept, PB_KEPT);
    const pb_held again = take(&t, t.other, PB_SHARED_HIT);
    CHECK(again.object == kept.object);
    give(&t, t.other, again, PB_KEPT);
    closed(&t);
}

/* ---- another thread's step between two of ours ----------------------------------------------- */

enum { AFTER_HEAD = 0, BEFORE_SWAP = 1 }; /* marks of one attempt, in both operations */

/* The other thread takes an object and gives it back: head has changed twice. */
static void borrow_and_return(void *arg)
{
    pair *t = arg;
    give(t, t->other, take(t, t->other, PB_SHARED_HIT), PB_KEPT);
}

static void test_lost_and_retried(int mark)
{
    check_in("retried at mark %d", mark);
    pair t;
    pb_held on[2];
    opened(&t, "treiber");
    filled(&t, on, 2);
    marks_at(mark, borrow_and_return, &t);
    const pb_held mine = take(&t, t.one, PB_SHARED_HIT);
    CHECK(mine.object == on[0].object);
    CHECK_EQ(t.one->events[PB_RETRIED], 1);
    marks_at(mark, borrow_and_return, &t);
    give(&t, t.one, mine, PB_KEPT);
    CHECK_EQ(t.one->events[PB_RETRIED], 2);
    CHECK_EQ(t.other->events[PB_RETRIED], 0);
    CHECK_EQ(parts_idle(&t.p), 2);
    closed(&t);
}

/* One lost race is one too many: acquire constructs, release destroys, nodes are not lost. */
static void test_out_of_retries(void)
{
    check_in("out of retries");
    pair t;
    pb_held on[2];
    opened(&t, "treiber capacity=3 retries=1");
    filled(&t, on, 2);
    marks_at(BEFORE_SWAP, borrow_and_return, &t);
    const pb_held made = take(&t, t.one, PB_CONSTRUCTED);
    CHECK_EQ(made.handle, 3);
    marks_at(BEFORE_SWAP, borrow_and_return, &t);
    const pb_held beyond = take(&t, t.one, PB_CONSTRUCTED);
    CHECK_EQ(beyond.handle, 0);
    CHECK_EQ(t.one->events[PB_TRANSIENT], 1);
    marks_at(BEFORE_SWAP, borrow_and_return, &t);
    give(&t, t.one, made, PB_DESTROYED);
    CHECK_EQ(t.one->events[PB_RETRIED], 3);
    CHECK_EQ(parts_idle(&t.p), 2);
    give(&t, t.one, beyond, PB_KEPT); /* in the node that became vacant */
    CHECK_EQ(parts_idle(&t.p), 3);
    closed(&t);
}

/* Two lost races are not: the second attempt counts from one again. */
static void test_retries_are_per_operation(void)
{
    check_in("retries per operation");
    pair t;
    pb_held on[1];
    opened(&t, "treiber retries=2");
    filled(&t, on, 1);
    for (int i = 0; i < 4; i++) {
        marks_at(AFTER_HEAD, borrow_and_return, &t);
        give(&t, t.one, take(&t, t.one, PB_SHARED_HIT), PB_KEPT);
    }
    CHECK_EQ(t.one->events[PB_RETRIED], 4);
    closed(&t);
}

/* ---- ABA ------------------------------------------------------------------------------------- */

typedef struct swindle {
    pair t;
    int changes;     /* of head, from A on top to A on top again */
    pb_held held[2]; /* what was below A, now with the other thread */
    int count;
} swindle;

/* Takes A and what lies below it, puts A back: head looks as it did, `next` of A does not. */
static void put_back(void *arg)
{
    swindle *s = arg;
    pair *t = &s->t;
    const pb_held top = take(t, t->other, PB_SHARED_HIT);
    s->count = s->changes % 2 ? 1 : 2;
    for (int i = 0; i < s->count; i++)
        s->held[i] = take(t, t->other, PB_SHARED_HIT);
    give(t, t->other, top, PB_KEPT);
    for (int done = 2 + s->count; done < s->changes; done += 2)
        borrow_and_return(t);
}

/* Whether a thread that was about to pop, while others made so many changes, tears the stack. */
static bool torn(const char *pool, int changes)
{
    enum { N = 4 };
    check_in("%s, %d changes", pool, changes);
    swindle s = {.changes = changes};
    pb_held on[N];
    opened(&s.t, pool);
    filled(&s.t, on, N);
    marks_at(BEFORE_SWAP, put_back, &s);
    const pb_held top = take(&s.t, s.t.one, PB_SHARED_HIT);
    CHECK(top.object == on[0].object);
    const pb_held next = take(&s.t, s.t.one, PB_SHARED_HIT);
    const bool twice = next.object == s.held[0].object;
    CHECK_EQ(s.t.one->events[PB_RETRIED], !twice);
    if (!twice) {
        give(&s.t, s.t.one, next, PB_KEPT);
        give(&s.t, s.t.one, top, PB_KEPT);
        for (int i = 0; i < s.count; i++)
            give(&s.t, s.t.other, s.held[i], PB_KEPT);
        CHECK_EQ(parts_idle(&s.t.p), N);
    }
    parts_detach(&s.t.p, 0);
    parts_detach(&s.t.p, 1);
    CHECK_EQ(parts_close(&s.t.p), 0); /* also of what was torn: nothing is freed twice, or left */
    return twice;
}

/* Each change of head moves the tag by one, whether push or pop: it is the same again after
   2^tag_bits changes, no sooner and no later. */
static void test_tag(void)
{
    for (int changes = 3; changes < 40; changes++) {
        CHECK(torn("treiber tag_bits=0", changes));
        CHECK_EQ(torn("treiber tag_bits=1", changes), changes % 2 == 0);
        CHECK_EQ(torn("treiber tag_bits=4", changes), changes % 16 == 0);
        CHECK(!torn("treiber tag_bits=6", changes));
        CHECK(!torn("treiber", changes));
    }
    CHECK(torn("treiber tag_bits=16", 65536));
    CHECK(!torn("treiber", 65536));
}

/* ---- the hunt -------------------------------------------------------------------------------- */

enum { HUNTERS = 6, BURST = 3000 };

/* An object that only knows its borrower: what happens to it when it is torn harms nobody. */
typedef struct quarry {
    pb_atomic_u32 owner; /* 0, or 1 + the borrower's index */
} quarry;

static bool quarry_init(pb_ctx *ctx, void *memory, const pb_args args)
{
    (void)ctx, (void)args;
    memset(memory, 0, sizeof(quarry));
    return true;
}

static void *quarry_construct(pb_ctx *ctx, const pb_args args)
{
    return pb_allocate_and(quarry_init, ctx, args);
}

static void quarry_reset(pb_ctx *ctx, void *object, const pb_args args)
{
    (void)ctx, (void)object, (void)args;
}

static bool quarry_is_clean(const void *object, const pb_args args)
{
    (void)object, (void)args;
    return true; /* nobody asks */
}

static uint64_t quarry_use(pb_ctx *ctx, void *object, const pb_args args)
{
    (void)ctx, (void)object, (void)args;
    return 0;
}

static void quarry_fini(pb_ctx *ctx, void *object, const pb_args args)
{
    (void)ctx, (void)object, (void)args;
}

static void quarry_destroy(pb_ctx *ctx, void *object, const pb_args args)
{
    (void)ctx, (void)args;
    free(object);
}

typedef struct hunt {
    parts p;
    pb_atomic_u32 found; /* somebody had an object that another one held */
} hunt;

typedef struct hunter {
    hunt *h;
    int index;
    uint64_t seed;
} hunter;

static void *run_hunter(void *arg)
{
    const hunter *me = arg;
    hunt *h = me->h;
    marks_begin(me->seed);
    pb_ctx *ctx = parts_attach(&h->p, me->index);
    const uint32_t id = (uint32_t)me->index + 1;
    for (int i = 0; i < BURST && !pb_load_acquire_u32(&h->found); i++) {
        const pb_held held = held_of(parts_acquire(&h->p, ctx));
        quarry *o = held.object;
        const bool free_before = pb_exchange_acq_rel_u32(&o->owner, id) == 0;
        pb_yield_here();
        const bool mine_after = pb_exchange_acq_rel_u32(&o->owner, 0) == id;
        if (!free_before || !mine_after)
            pb_store_release_u32(&h->found, 1);
        if (held.handle == 0 || !pb_load_acquire_u32(&h->found))
            (void)parts_release(&h->p, ctx, held);
    }
    parts_detach(&h->p, me->index);
    return NULL;
}

/* One pool, some thousand operations; true: objects were handed out twice, or are lost. */
static bool one_hunt(const pb_cell *cell, uint64_t seed)
{
    static const pb_functions functions = PB_FUNCTIONS(quarry);
    const pb_args args = {.size = sizeof(quarry)};
    hunt h = {.found = {0}};
    hunter hunters[HUNTERS];
    pthread_t threads[HUNTERS];
    parts_open(&h.p, cell, &(pb_workload){&functions, &args});
    for (int i = 0; i < HUNTERS; i++) {
        hunters[i] = (hunter){&h, i, seed + (uint64_t)i};
        if (pthread_create(&threads[i], NULL, run_hunter, &hunters[i]) != 0)
            cell_mistake("no thread");
    }
    for (int i = 0; i < HUNTERS; i++)
        (void)pthread_join(threads[i], NULL);
    const bool torn_open = pb_load_relaxed_u32(&h.found) || parts_alive(&h.p) != parts_idle(&h.p);
    CHECK_EQ(parts_close(&h.p), 0);
    return torn_open;
}

static double hunt_seconds(void)
{
    const char *text = getenv("PB_HUNT_SECONDS");
    return text ? atof(text) : 0.3;
}

/* Hunts until something is found or the time is over; whether it was. */
static bool found(const char *pool, double seconds)
{
    check_in("%s: hunt", pool);
    const pb_cell cell = cell_of(pool, "bytes", "churn", HUNTERS);
    const uint64_t begin = pb_now_ns();
    bool any = false;
    for (uint64_t seed = 1; !any && (double)(pb_now_ns() - begin) < seconds * 1e9; seed += HUNTERS)
        any = one_hunt(&cell, seed);
    (void)printf("  %s: %s after %.0f ms\n", pool, any ? "torn" : "whole",
                 (double)(pb_now_ns() - begin) / 1e6);
    return any;
}

static void test_hunts(void)
{
    marks_often(4);
    CHECK(!found("treiber capacity=2", hunt_seconds()));
    CHECK(!found("treiber capacity=4", hunt_seconds()));
    CHECK(!found("treiber capacity=4 retries=1", hunt_seconds()));
    CHECK(found("treiber capacity=4 tag_bits=0 backoff=0", 10));
    CHECK(found("treiber capacity=4 tag_bits=4 backoff=0", 10));
    marks_often(0);
}

int main(void)
{
    test_newest_first();
    test_beyond_the_bound();
    test_foreign_objects();
    test_failed_constructions_take_no_node();
    test_released_after_its_acquirer_left();
    test_lost_and_retried(AFTER_HEAD);
    test_lost_and_retried(BEFORE_SWAP);
    test_out_of_retries();
    test_retries_are_per_operation();
    test_tag();
    test_hunts();
    return check_report();
}
