/* SPDX-License-Identifier: MIT
 *
 * test_bag.c - what the bag promises of itself: hints, a hard bound, a fair queue, and that nobody
 * is left asleep beside an idle entry.
 *
 * The pool is compiled once more here, with its marks: a test has another thread come between any
 * two steps, at one mark after the other, instead of hoping that it will.
 */
#define _GNU_SOURCE
#define PB_YIELDS
#ifndef PB_FEW_KERNELS
#define PB_FEW_KERNELS
#endif
#include <pthread.h>

#define pb_bag_pool pb_marked_pool
#include "pools/bag.c"
#undef pb_bag_pool
extern const pb_pool_class pb_bag_pool; /* the one without */

#include "cell.h"
#include "check.h"
#include "clock.h"
#include "live.h"
#include "probe.h"

enum { PATIENCE_MS = 4000, STRESS_PATIENCE_MS = 20000, MARKS = 8, SHAKE_ONE_IN = 8 };

static const char *const WAITS[] = {"park", "yield", "spin"};

/* ---- marks ----------------------------------------------------------------------------------- */

/* What a thread does at its marks. */
typedef struct plan {
    int countdown; /* at this mark from here, ... */
    void (*then)(void *argument);
    void *argument;
    pb_rng *shaken; /* yields now and then, or NULL */
} plan;

static _Thread_local plan mine;

void pb_yield_here(void)
{
    if (mine.countdown > 0 && --mine.countdown == 0)
        mine.then(mine.argument);
    if (mine.shaken && pb_rng_below(mine.shaken, SHAKE_ONE_IN) == 0)
        (void)sched_yield();
}

static void plan_at(int mark, void (*then)(void *), void *argument)
{
    mine = (plan){.countdown = mark, .then = then, .argument = argument};
}

/* True when the mark was reached. */
static bool plan_over(void)
{
    const bool reached = mine.countdown == 0;
    mine = (plan){.countdown = 0};
    return reached;
}

/* ---- threads that acquire -------------------------------------------------------------------- */

/* The bag with its marks, and probes. */
static void opened(parts *p, probe_orders *orders, const char *text)
{
    const pb_cell cell = cell_of(text, "bytes", "churn", PARTS_THREADS);
    probe_parts(p, &cell, orders);
    p->class = &pb_marked_pool;
}

static void closed(parts *p)
{
    CHECK_EQ(parts_alive(p), parts_idle(p));
    for (int i = 0; i < PARTS_THREADS; i++)
        if (p->attached[i])
            parts_detach(p, i);
    CHECK_EQ(parts_close(p), 0);
}

/* A thread that acquires once; its context may then be used by whoever has joined it. */
typedef struct actor {
    parts *p;
    int index;
    pthread_t thread;
    pb_got got;
    pb_atomic_u32 done;
} actor;

static void *act(void *arg)
{
    actor *a = arg;
    check_in("thread %d", a->index);
    a->got = parts_acquire(a->p, parts_attach(a->p, a->index));
    pb_store_release_u32(&a->done, 1);
    return NULL;
}

static void started(actor *a, parts *p, int index)
{
    *a = (actor){.p = p, .index = index};
    if (pthread_create(&a->thread, NULL, act, a) != 0)
        cell_mistake("no thread");
}

static pb_got joined(actor *a)
{
    (void)pthread_join(a->thread, NULL);
    return a->got;
}

static uint32_t waiting(const parts *p)
{
    return pb_load_acquire_u32(&p->pool->waiters);
}

/* Until so many wait: generous, then the checks that follow will say so. */
static void until_waiting(const parts *p, uint32_t count)
{
    const uint64_t deadline = pb_now_ns() + 5000000000u;
    while (waiting(p) != count && pb_now_ns() < deadline)
        pb_sleep_until(pb_now_ns() + 50000);
}

static void give(parts *p, int index, pb_got got, pb_outcome wanted)
{
    if (CHECK(got.object != NULL))
        CHECK_EQ(parts_release(p, p->ctx[index], held_of(got)), wanted);
}

/* ---- hints ----------------------------------------------------------------------------------- */

static void test_newest_hint_first(void)
{
    enum { N = 3 };
    check_in("hints: order");
    probe_orders orders = {.fail = false};
    parts p;
    pb_got got[N];
    opened(&p, &orders, "bag");
    pb_ctx *ctx = parts_attach(&p, 0);
    for (int i = 0; i < N; i++) {
        got[i] = parts_acquire(&p, ctx);
        CHECK_EQ(got[i].how, PB_CONSTRUCTED);
        CHECK_EQ(got[i].handle, i + 1);
    }
    for (int i = 0; i < N; i++)
        give(&p, 0, got[i], PB_KEPT);
    for (int i = N; i-- > 0;) {
        const pb_got again = parts_acquire(&p, ctx);
        CHECK_EQ(again.how, PB_LOCAL_HIT);
        CHECK(again.object == got[i].object);
        CHECK_EQ(again.handle, got[i].handle);
    }
    for (int i = 0; i < N; i++)
        give(&p, 0, got[i], PB_KEPT);
    CHECK_EQ(ctx->events[PB_RETRIED], 0);
    closed(&p);
}

/* What there is no room to remember is found by looking at all entries, from the first on. */
static void test_hints_are_bounded(int hints)
{
    enum { N = 6 };
    char text[CELL_TEXT];
    (void)snprintf(text, sizeof text, "bag hints=%d", hints);
    check_in("%s", text);
    probe_orders orders = {.fail = false};
    parts p;
    pb_got got[N];
    opened(&p, &orders, text);
    pb_ctx *ctx = parts_attach(&p, 0);
    for (int i = 0; i < N; i++)
        got[i] = parts_acquire(&p, ctx);
    for (int i = 0; i < N; i++)
        give(&p, 0, got[i], PB_KEPT);
    for (int i = 0; i < N; i++) {
        got[i] = parts_acquire(&p, ctx);
        CHECK_EQ(got[i].how, i < hints ? PB_LOCAL_HIT : PB_SHARED_HIT);
        CHECK_EQ(got[i].handle, i < hints ? hints - i : i + 1);
    }
    for (int i = 0; i < N; i++)
        give(&p, 0, got[i], PB_KEPT);
    closed(&p);
}

/* A hint is a guess: another thread may have taken the entry, and even given it back. */
static void test_stale_hints(void)
{
    check_in("stale hints");
    probe_orders orders = {.fail = false};
    parts p;
    opened(&p, &orders, "bag");
    pb_ctx *a = parts_attach(&p, 0), *b = parts_attach(&p, 1);
    const pb_got first = parts_acquire(&p, a);
    give(&p, 0, first, PB_KEPT);
    const pb_got taken = parts_acquire(&p, b);
    CHECK_EQ(taken.how, PB_SHARED_HIT);
    CHECK(taken.object == first.object);
    const pb_got second = parts_acquire(&p, a);
    CHECK_EQ(second.how, PB_CONSTRUCTED);
    CHECK(second.object != taken.object);
    CHECK_EQ(a->events[PB_RETRIED], 1);
    give(&p, 0, taken, PB_KEPT); /* by another thread: from now on its hint */
    const pb_got again = parts_acquire(&p, a);
    CHECK_EQ(again.how, PB_LOCAL_HIT);
    CHECK(again.object == taken.object);
    give(&p, 1, again, PB_KEPT);
    give(&p, 1, second, PB_KEPT);
    closed(&p);
}

/* Hints go with their thread; entries stay, also those whose acquirer is gone. */
static void test_detaching(void)
{
    check_in("detaching");
    probe_orders orders = {.fail = false};
    parts p;
    opened(&p, &orders, "bag max_total=2 timeout_ms=0");
    pb_ctx *a = parts_attach(&p, 0), *b = parts_attach(&p, 1);
    const pb_got idle = parts_acquire(&p, a), held = parts_acquire(&p, a);
    give(&p, 0, idle, PB_KEPT);
    parts_detach(&p, 0);
    CHECK_EQ(parts_idle(&p), 1);
    give(&p, 1, held, PB_KEPT);
    CHECK_EQ(parts_idle(&p), 2);
    const pb_got first = parts_acquire(&p, b), second = parts_acquire(&p, b);
    CHECK_EQ(first.how, PB_LOCAL_HIT);
    CHECK_EQ(second.how, PB_SHARED_HIT);
    CHECK_EQ(parts_acquire(&p, b).how, PB_TIMED_OUT);
    give(&p, 1, first, PB_KEPT);
    give(&p, 1, second, PB_KEPT);
    closed(&p);
}

/* ---- the bound, and deadlines ---------------------------------------------------------------- */

static void test_bound(void)
{
    enum { N = 4 };
    check_in("bound");
    probe_orders orders = {.fail = false};
    parts p;
    pb_got got[N];
    opened(&p, &orders, "bag max_total=4 timeout_ms=0");
    pb_ctx *ctx = parts_attach(&p, 0);
    for (int i = 0; i < N; i++)
        got[i] = parts_acquire(&p, ctx);
    for (int i = 0; i < 3; i++) {
        const pb_got none = parts_acquire(&p, ctx);
        CHECK(none.object == NULL);
        CHECK_EQ(none.how, PB_TIMED_OUT);
    }
    CHECK_EQ(ctx->constructed, N);
    CHECK_EQ(ctx->events[PB_WAITS], 0);
    give(&p, 0, got[2], PB_KEPT);
    CHECK(parts_acquire(&p, ctx).object == got[2].object);
    /* what is no entry's object does not make room */
    void *foreign = pb_construct(ctx, p.workload.is, &p.args);
    CHECK_EQ(parts_release(&p, ctx, (pb_held){foreign, 0}), PB_DESTROYED);
    CHECK_EQ(parts_acquire(&p, ctx).how, PB_TIMED_OUT);
    for (int i = 0; i < N; i++)
        give(&p, 0, got[i], PB_KEPT);
    closed(&p);
}

static void test_deadline(const char *wait)
{
    char text[CELL_TEXT];
    (void)snprintf(text, sizeof text, "bag max_total=1 timeout_ms=30 wait=%s", wait);
    check_in("%s", text);
    probe_orders orders = {.fail = false};
    parts p;
    opened(&p, &orders, text);
    pb_ctx *ctx = parts_attach(&p, 0);
    const pb_got got = parts_acquire(&p, ctx);
    const uint64_t start = pb_now_ns();
    const pb_got none = parts_acquire(&p, ctx);
    const uint64_t took = pb_now_ns() - start;
    CHECK(none.object == NULL);
    CHECK_EQ(none.how, PB_TIMED_OUT);
    CHECK(took >= 30000000 && took < 10000000000);
    CHECK_EQ(ctx->events[PB_WAITS], 1);
    CHECK(ctx->longest_wait_ns >= 30000000 && ctx->longest_wait_ns <= took);
    CHECK_EQ(waiting(&p), 0);
    give(&p, 0, got, PB_KEPT); /* nobody is there any more to hand it to */
    closed(&p);
}

/* ---- the queue ------------------------------------------------------------------------------- */

/* Who waits longest is served first, whoever releases, and gets the very object. Threads from
   `from` on; the object is with `holder`, and comes back to it in the end. */
static void serve_in_order(parts *p, pb_got got, int holder, int from)
{
    enum { N = 3 };
    actor actors[N];
    for (int i = 0; i < N; i++) {
        started(&actors[i], p, from + i);
        until_waiting(p, (uint32_t)i + 1);
    }
    for (int i = 0; i < N; i++) {
        CHECK_EQ(waiting(p), N - i);
        give(p, holder, got, PB_HANDED_OVER);
        const pb_got next = joined(&actors[i]);
        holder = from + i;
        CHECK_EQ(next.how, PB_WAITED);
        CHECK(next.object == got.object);
        CHECK_EQ(p->ctx[holder]->events[PB_WAITS], 1);
        got = next;
    }
    give(p, holder, got, PB_KEPT);
}

static void test_first_come_first_served(const char *wait)
{
    char text[CELL_TEXT];
    (void)snprintf(text, sizeof text, "bag max_total=1 timeout_ms=%d wait=%s", PATIENCE_MS, wait);
    check_in("order of waiters, %s", wait);
    probe_orders orders = {.fail = false};
    parts p;
    opened(&p, &orders, text);
    pb_ctx *ctx = parts_attach(&p, 0);
    serve_in_order(&p, parts_acquire(&p, ctx), 0, 1);
    const pb_got got = parts_acquire(&p, ctx);
    CHECK_EQ(got.how, PB_SHARED_HIT); /* it was handed over: no hint of ours */
    serve_in_order(&p, got, 0, 4);    /* once more: the queue was empty in between */
    closed(&p);
}

/* The second of three gives up: the queue closes behind it. */
static void test_giving_up(void)
{
    check_in("giving up");
    probe_orders orders = {.fail = false};
    parts p;
    actor actors[3];
    opened(&p, &orders, "bag max_total=1 timeout_ms=4000");
    const pb_got got = parts_acquire(&p, parts_attach(&p, 0));
    started(&actors[0], &p, 1);
    until_waiting(&p, 1);
    pb_params_set(&p.cell.pool_params, "timeout_ms", 300, &(pb_error){""}); /* read at attach */
    started(&actors[1], &p, 2);
    until_waiting(&p, 2);
    pb_params_set(&p.cell.pool_params, "timeout_ms", PATIENCE_MS, &(pb_error){""});
    started(&actors[2], &p, 3);
    CHECK_EQ(joined(&actors[1]).how, PB_TIMED_OUT);
    until_waiting(&p, 2);
    give(&p, 0, got, PB_HANDED_OVER);
    CHECK_EQ(joined(&actors[0]).how, PB_WAITED);
    give(&p, 1, got, PB_HANDED_OVER);
    CHECK_EQ(joined(&actors[2]).how, PB_WAITED);
    give(&p, 3, got, PB_KEPT);
    closed(&p);
}

/* ---- nobody is forgotten --------------------------------------------------------------------- */

/* Another thread comes to wait, and does; or finds something at once. */
static void have_waiter(void *arg)
{
    actor *a = arg;
    started(a, a->p, a->index);
    const uint64_t deadline = pb_now_ns() + 50000000;
    while (waiting(a->p) == 0 && !pb_load_acquire_u32(&a->done) && pb_now_ns() < deadline)
        pb_sleep_until(pb_now_ns() + 50000);
    pb_sleep_until(pb_now_ns() + 10000000); /* time for its last look: it really sleeps */
}

/* Between any two steps of a release, somebody begins to wait. */
static void test_waiter_during_release(int mark)
{
    check_in("a waiter at mark %d of a release", mark);
    probe_orders orders = {.fail = false};
    parts p;
    actor a;
    opened(&p, &orders, "bag max_total=1 timeout_ms=2000");
    const pb_got got = parts_acquire(&p, parts_attach(&p, 0));
    a = (actor){.p = &p, .index = 1};
    plan_at(mark, have_waiter, &a);
    (void)parts_release(&p, p.ctx[0], held_of(got));
    if (!plan_over())
        started(&a, &p, 1);
    const pb_got next = joined(&a);
    CHECK(next.how == PB_WAITED || next.how == PB_SHARED_HIT);
    give(&p, 1, next, PB_KEPT);
    CHECK_EQ(parts_idle(&p), 1);
    closed(&p);
}

typedef struct release_both {
    parts *p;
    pb_got got[2];
} release_both;

static void give_both(void *arg)
{
    const release_both *r = arg;
    for (int i = 0; i < 2; i++)
        (void)parts_release(r->p, r->p->ctx[0], held_of(r->got[i]));
}

/* Between any two steps of a wait, two entries come back: it gets one of them, and nobody loses the
   other, even if the waiter has found one and was given one. */
static void test_releases_during_wait(int mark)
{
    check_in("two releases at mark %d of a wait", mark);
    probe_orders orders = {.fail = false};
    parts p;
    opened(&p, &orders, "bag max_total=2 timeout_ms=50");
    pb_ctx *owner = parts_attach(&p, 0), *waiter = parts_attach(&p, 1);
    release_both r = {.p = &p};
    for (int i = 0; i < 2; i++)
        r.got[i] = parts_acquire(&p, owner);
    plan_at(mark, give_both, &r);
    const pb_got got = parts_acquire(&p, waiter);
    const bool reached = plan_over();
    CHECK_EQ(got.how == PB_TIMED_OUT, !reached);
    if (!reached)
        give_both(&r);
    CHECK_EQ(parts_idle(&p), reached ? 1 : 2);
    if (got.object)
        (void)parts_release(&p, waiter, held_of(got));
    CHECK_EQ(parts_idle(&p), 2);
    CHECK_EQ(waiting(&p), 0);
    closed(&p);
}

/* The only entry's construction fails while others wait for it: each of them may try. */
static void test_failed_construction_wakes(const char *wait)
{
    char text[CELL_TEXT];
    (void)snprintf(text, sizeof text, "bag max_total=1 timeout_ms=2000 wait=%s", wait);
    check_in("failed construction, %s", wait);
    parts p;
    probe_orders orders = {.fail = true};
    actor actors[2];
    opened(&p, &orders, text);
    pb_ctx *ctx = parts_attach(&p, 0);
    /* the entry is reserved before anybody constructs: those who come later have to wait */
    const bag_found reserved = bag_look((bag_ctx *)ctx);
    CHECK_EQ(reserved.how, PB_CONSTRUCTED);
    for (int i = 0; i < 2; i++)
        started(&actors[i], &p, i + 1);
    until_waiting(&p, 2);
    bag_put_back((bag_ctx *)ctx, reserved.handle, BAG_EMPTY);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(joined(&actors[i]).how, PB_FAILED);
    orders.fail = false;
    const pb_got got = parts_acquire(&p, ctx);
    CHECK_EQ(got.how, PB_CONSTRUCTED);
    CHECK_EQ(got.handle, 1);
    give(&p, 0, got, PB_KEPT);
    closed(&p);
}

/* The same from the front: the constructor of the first of three fails when two wait for it. */
typedef struct audience {
    parts *p;
    pb_atomic_u32 begun;
} audience;

static void wait_for_two(void *arg)
{
    audience *a = arg;
    if (!pb_exchange_acquire_u32(&a->begun, 1))
        until_waiting(a->p, 2);
}

static void test_failing_constructor_wakes(void)
{
    check_in("failing constructor");
    parts p;
    audience two = {.p = &p};
    probe_orders orders = {.fail = true, .during = wait_for_two, .argument = &two};
    actor actors[3];
    opened(&p, &orders, "bag max_total=1 timeout_ms=2000");
    for (int i = 0; i < 3; i++)
        started(&actors[i], &p, i);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(joined(&actors[i]).how, PB_FAILED);
    closed(&p);
}

/* ---- entries whose construction failed ------------------------------------------------------- */

/* Two empty entries; while one thread reaches for the first, another takes it: there is a second.
 */
static void take_first(void *arg)
{
    parts *p = arg;
    const bag_found found = bag_look((bag_ctx *)p->ctx[1]);
    CHECK_EQ(found.handle, 1);
}

static void test_second_empty_entry(void)
{
    check_in("a second empty entry");
    parts p;
    probe_orders orders = {.fail = false};
    opened(&p, &orders, "bag max_total=2 timeout_ms=0");
    bag_ctx *a = (bag_ctx *)parts_attach(&p, 0), *b = (bag_ctx *)parts_attach(&p, 1);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(bag_look(a).handle, i + 1);
    for (uint32_t i = 1; i <= 2; i++)
        bag_put_back(a, i, BAG_EMPTY);
    plan_at(1, take_first, &p);
    const pb_got got = parts_acquire(&p, &a->base);
    CHECK(plan_over());
    CHECK_EQ(got.how, PB_CONSTRUCTED);
    CHECK_EQ(got.handle, 2);
    bag_put_back(b, 1, BAG_EMPTY);
    give(&p, 0, got, PB_KEPT);
    closed(&p);
}

/* ---- many threads ---------------------------------------------------------------------------- */

typedef struct relay {
    parts p;
    pb_got first;                    /* acquired by the first runner */
    PB_ALIGNED pb_atomic_u32 coming; /* rounds in which the other has set out to acquire */
    PB_ALIGNED pb_atomic_u32 has;    /* rounds in which it got the object */
    int rounds;
    bool shaken;
} relay;

typedef struct runner {
    relay *r;
    int index;
} runner;

static void until(pb_atomic_u32 *word, uint32_t value)
{
    for (int i = 0; pb_load_acquire_u32(word) < value; i++)
        if (i % 64 == 63)
            (void)sched_yield();
}

/* Each round has one release and one acquire that needs it: whoever is forgotten times out. */
static void *run_relay(void *arg)
{
    const runner *me = arg;
    relay *r = me->r;
    pb_rng rng = {(uint64_t)me->index};
    check_in("relay, thread %d", me->index);
    pb_ctx *ctx = r->p.ctx[me->index];
    pb_got got = r->first; /* the first runner's, in the first round */
    mine.shaken = r->shaken ? &rng : NULL;
    for (int i = 0; i < r->rounds; i++) {
        const uint32_t now = (uint32_t)i + 1;
        if (i % 2 == me->index) { /* we have it */
            until(&r->coming, now);
            pb_spin(pb_rng_below(&rng, 300)); /* about as long as setting out takes */
            (void)parts_release(&r->p, ctx, held_of(got));
            until(&r->has, now);
        } else {
            pb_store_release_u32(&r->coming, now);
            got = parts_acquire(&r->p, ctx);
            if (!CHECK(got.object != NULL)) {
                (void)check_report();
                (void)fflush(stdout);
                _exit(1); /* the other would wait for us for ever */
            }
            probe_take(ctx, got.object);
            ctx->sink += parts_use(&r->p, ctx, got.object);
            probe_leave(ctx, got.object);
            pb_store_release_u32(&r->has, now);
        }
    }
    mine.shaken = NULL;
    if (r->rounds % 2 == me->index)
        (void)parts_release(&r->p, ctx, held_of(got));
    return NULL;
}

/* Shaken at its marks; or without any, where both may do their stores and looks at the very same
   time. */
static void test_relay(const char *wait, bool shaken, int rounds)
{
    static relay r;
    char text[CELL_TEXT];
    (void)snprintf(text, sizeof text, "bag max_total=1 hints=0 timeout_ms=%d wait=%s",
                   STRESS_PATIENCE_MS, wait);
    check_in("relay, %s%s", wait, shaken ? ", shaken" : "");
    probe_orders orders = {.fail = false};
    opened(&r.p, &orders, text);
    r.rounds = rounds;
    r.shaken = shaken;
    if (!shaken)
        r.p.class = &pb_bag_pool;
    r.first = parts_acquire(&r.p, parts_attach(&r.p, 0));
    (void)parts_attach(&r.p, 1);
    pb_store_release_u32(&r.coming, 0);
    pb_store_release_u32(&r.has, 0);
    runner runners[2] = {{&r, 0}, {&r, 1}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, run_relay, &runners[i]) != 0)
            cell_mistake("no thread");
    for (int i = 0; i < 2; i++)
        (void)pthread_join(threads[i], NULL);
    closed(&r.p);
}

enum { CROWD = 7 };

typedef struct crowd {
    parts p;
    int rounds;
    pb_atomic_u32 out; /* objects with borrowers */
    uint32_t bound;    /* at most */
} crowd;

typedef struct person {
    crowd *c;
    int index;
} person;

/* One object at a time, in a room for two: somebody always has one and gives it back, so nobody
   waits for 20 s. */
static void *mill_about(void *arg)
{
    const person *me = arg;
    crowd *c = me->c;
    pb_rng rng = {(uint64_t)me->index + 100};
    check_in("crowd, thread %d", me->index);
    pb_ctx *ctx = parts_attach(&c->p, me->index);
    mine.shaken = &rng;
    for (int i = 0; i < c->rounds; i++) {
        const pb_got got = parts_acquire(&c->p, ctx);
        if (!CHECK(got.object != NULL) || !got.object)
            break;
        probe_take(ctx, got.object);
        /* relaxed: only counts */
        CHECK(pb_add_relaxed_u32(&c->out, 1) < c->bound);
        ctx->sink += parts_use(&c->p, ctx, got.object);
        pb_yield_here();
        (void)pb_add_relaxed_u32(&c->out, UINT32_MAX);
        probe_leave(ctx, got.object);
        (void)parts_release(&c->p, ctx, held_of(got));
        if (pb_rng_below(&rng, 500) == 0) { /* leaves, and comes again without hints */
            parts_detach(&c->p, me->index);
            CHECK_EQ(pb_marked_pool.attach(c->p.pool, ctx), PB_OK);
        }
    }
    mine.shaken = NULL;
    parts_detach(&c->p, me->index);
    return NULL;
}

static void test_crowd(const char *text, uint32_t bound, int rounds)
{
    static crowd c;
    check_in("crowd, %s", text);
    probe_orders orders = {.fail = false};
    opened(&c.p, &orders, text);
    c.rounds = rounds;
    c.bound = bound;
    person people[CROWD];
    pthread_t threads[CROWD];
    for (int i = 0; i < CROWD; i++) {
        people[i] = (person){&c, i};
        if (pthread_create(&threads[i], NULL, mill_about, &people[i]) != 0)
            cell_mistake("no thread");
    }
    for (int i = 0; i < CROWD; i++)
        (void)pthread_join(threads[i], NULL);
    CHECK(parts_alive(&c.p) <= bound);
    closed(&c.p);
}

/* ---- in a live replicate --------------------------------------------------------------------- */

static pb_run *run_opened(const pb_cell *cell)
{
    pb_run *run;
    pb_error error = {""};
    if (!CHECK_EQ(pb_run_open(&run, cell, &error), PB_OK))
        cell_mistake(error.text);
    return run;
}

static void window(pb_run *run, double seconds)
{
    uint64_t operations[PARTS_THREADS];
    pb_window w = {.operations = operations};
    pb_error error;
    CHECK_EQ(pb_run_window(run, seconds, &w, &error), PB_OK);
}

static uint64_t outcomes_of(const pb_run *run, pb_outcome how)
{
    uint64_t count = 0;
    for (int i = 0; i < run->cell.threads; i++)
        count += run->members[i].ctx->outcomes[how];
    return count;
}

/* Those who wait park, wait on, and leave promptly; time parked is no time of theirs. */
static void test_waiters_park(const char *wait)
{
    char text[CELL_TEXT];
    (void)snprintf(text, sizeof text, "bag max_total=1 timeout_ms=300 wait=%s", wait);
    check_in("waiters park, %s", wait);
    const pb_cell cell = cell_of(text, "bytes", "churn hold_ns=5000000000", 3);
    pb_run *run = run_opened(&cell);
    const uint64_t start = pb_now_ns();
    for (int i = 0; i < 2; i++) {
        window(run, 0.01);
        pb_sleep_until(pb_now_ns() + 350000000);
    }
    CHECK_EQ(outcomes_of(run, PB_TIMED_OUT), 0);
    CHECK(pb_now_ns() - start < 4000000000);
    pb_account a;
    pb_error error = {""};
    const uint64_t closing = pb_now_ns();
    CHECK_EQ(pb_run_close(run, &a, &error), PB_OK);
    CHECK(pb_now_ns() - closing < 3000000000);
    CHECK_EQ(a.constructed, 1);
    CHECK_EQ(a.idle, 1);
}

/* More threads than objects: everybody gets on, by being handed one. */
static void test_more_threads_than_objects(void)
{
    check_in("more threads than objects");
    const pb_cell cell =
        cell_of("bag max_total=2 timeout_ms=20000", "widget", "churn hold_ns=200000 hold=sleep", 6);
    pb_run *run = run_opened(&cell);
    for (int i = 0; i < 3; i++)
        window(run, 0.02);
    CHECK_EQ(outcomes_of(run, PB_TIMED_OUT), 0);
    for (int i = 0; i < cell.threads; i++)
        CHECK(run->members[i].ctx->operations > 0);
    pb_account a;
    pb_error error = {""};
    CHECK_EQ(pb_run_close(run, &a, &error), PB_OK);
    CHECK(a.constructed <= 2);
    CHECK(a.outcomes[PB_WAITED] > 0);
    CHECK_EQ(a.outcomes[PB_WAITED], a.outcomes[PB_HANDED_OVER]);
    CHECK(a.events[PB_WAITS] >= a.outcomes[PB_WAITED]);
}

/* PB_STRESS_ROUNDS is the number of acquires per thread. */
static int rounds_of_stress(void)
{
    const char *text = getenv("PB_STRESS_ROUNDS");
    return text ? atoi(text) : 2000;
}

int main(void)
{
    const int rounds = rounds_of_stress();
    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* a test of a broken pool may crash later */
    test_newest_hint_first();
    test_hints_are_bounded(0);
    test_hints_are_bounded(2);
    test_stale_hints();
    test_detaching();
    test_bound();
    test_giving_up();
    for (int mark = 1; mark <= MARKS; mark++) {
        test_waiter_during_release(mark);
        test_releases_during_wait(mark);
    }
    test_failing_constructor_wakes();
    test_second_empty_entry();
    for (int i = 0; i < 3; i++) {
        test_deadline(WAITS[i]);
        test_first_come_first_served(WAITS[i]);
        test_failed_construction_wakes(WAITS[i]);
        test_waiters_park(WAITS[i]);
    }
    test_more_threads_than_objects();
    if (pb_load_relaxed_u64(&check_failed) > 0)
        return check_report(); /* what follows would only wait for those who were forgotten */
    for (int i = 0; i < 3; i++)
        test_relay(WAITS[i], true, rounds);
    test_relay("spin", false, 10 * rounds);
    test_crowd("bag max_total=2 timeout_ms=20000", 2, rounds);
    test_crowd("bag max_total=3 timeout_ms=20000 wait=yield hints=1", 3, rounds);
    test_crowd("bag max_total=4 timeout_ms=20000 wait=spin hints=0", 4, rounds / 50);
    return check_report();
}
