/* SPDX-License-Identifier: MIT
 *
 * test_mpmc_ring.c - what the ring promises of itself: order, bound, and what it does when another
 * thread has stopped in mid-step.
 *
 * fast answers wrongly, and counts it; strict waits, and after a long run still has all its
 * objects. The wrong moments are made at marks, so they come every time. PB_HUNT_SECONDS
 * lengthens the long runs.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>

#include "cell.h"
#include "check.h"
#include "clock.h"
#include "marks.h"
#include "probe.h"

enum { MOST = 64 };

/* A pool of probes with two threads' contexts. */
typedef struct pair {
    parts p;
    probe_orders orders;
    pb_ctx *one, *other;
} pair;

static void opened(pair *t, const char *pool)
{
    const pb_cell cell = cell_of(pool, "bytes", "churn", 2);
    check_in("%s", pool);
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

static void *take(pair *t, pb_ctx *ctx, pb_outcome how)
{
    const pb_got got = parts_acquire(&t->p, ctx);
    CHECK_EQ(got.how, how);
    return got.object;
}

static void give(pair *t, pb_ctx *ctx, void *object, pb_outcome how)
{
    CHECK_EQ(parts_return(&t->p, ctx, object), how);
}

/* Makes so many objects and puts them in, in order. */
static void filled(pair *t, void **in, int count)
{
    for (int i = 0; i < count; i++)
        in[i] = take(t, t->one, PB_CONSTRUCTED);
    for (int i = 0; i < count; i++)
        give(t, t->one, in[i], PB_KEPT);
}

/* ---- alone ----------------------------------------------------------------------------------- */

/* Oldest first, whatever the capacity, over several laps; each time with another number in it. */
static void test_oldest_first(const char *pool, int capacity)
{
    pair t;
    void *in[MOST];
    opened(&t, pool);
    filled(&t, in, capacity);
    for (int round = 0; round < 5 * capacity; round++) {
        const int out = 1 + round % capacity;
        for (int i = 0; i < out; i++)
            CHECK(take(&t, t.one, PB_SHARED_HIT) == in[i]);
        CHECK_EQ(parts_idle(&t.p), capacity - out);
        for (int i = 0; i < out; i++)
            give(&t, t.one, in[i], PB_KEPT);
        void *first[MOST];
        memcpy(first, in, sizeof first);
        for (int i = 0; i < capacity; i++)
            in[i] = first[(i + out) % capacity];
    }
    for (int event = 0; event < PB_EVENTS; event++)
        CHECK_EQ(t.one->events[event], 0);
    closed(&t);
}

/* As many as asked for, not as many as the next power of two. */
static void test_bound(const char *pool, int capacity)
{
    pair t;
    void *in[MOST];
    opened(&t, pool);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < capacity + 2; i++)
            in[i] = take(&t, t.one, i < capacity && round ? PB_SHARED_HIT : PB_CONSTRUCTED);
        for (int i = 0; i < capacity + 2; i++)
            give(&t, t.one, in[i], i < capacity ? PB_KEPT : PB_DESTROYED);
        CHECK_EQ(parts_idle(&t.p), capacity);
    }
    CHECK_EQ(t.one->events[PB_FALSE_EMPTY] + t.one->events[PB_FALSE_FULL], 0);
    closed(&t);
}

/* ---- another thread's step between two of ours ----------------------------------------------- */

enum { BEFORE_TURN = 0, BEFORE_CLAIM = 1, CLAIMED = 2 }; /* marks of one attempt, in both */

typedef struct step {
    pair *t;
    void *object; /* that the other thread took, or is to give back */
    pb_outcome how;
} step;

static void other_takes(void *arg)
{
    step *s = arg;
    s->object = take(s->t, s->t->other, s->how);
}

static void other_gives(void *arg)
{
    step *s = arg;
    give(s->t, s->t->other, s->object, s->how);
}

/* Both operations lose their place to the other thread, and go on with the next one. */
static void test_lost_and_retried(int mark)
{
    pair t;
    void *in[3];
    opened(&t, "mpmc_ring capacity=4");
    check_in("retried at mark %d", mark);
    filled(&t, in, 3);
    step s = {.t = &t, .how = PB_SHARED_HIT};
    marks_at(mark, other_takes, &s);
    void *mine = take(&t, t.one, PB_SHARED_HIT);
    CHECK(s.object == in[0]);
    CHECK(mine == in[1]);
    CHECK_EQ(t.one->events[PB_RETRIED], mark == BEFORE_CLAIM);
    s.how = PB_KEPT;
    marks_at(mark, other_gives, &s);
    give(&t, t.one, mine, PB_KEPT);
    CHECK_EQ(t.one->events[PB_RETRIED], mark == BEFORE_CLAIM ? 2 : 0);
    CHECK(take(&t, t.one, PB_SHARED_HIT) == in[2]);
    CHECK(take(&t, t.one, PB_SHARED_HIT) == in[0]);
    CHECK(take(&t, t.one, PB_SHARED_HIT) == in[1]);
    for (int i = 0; i < 3; i++)
        give(&t, t.one, in[i], PB_KEPT);
    closed(&t);
}

/* The first of two pushes has stopped: the second one's object cannot be had. */
static void test_false_empty(void)
{
    pair t;
    void *in[2];
    opened(&t, "mpmc_ring");
    for (int i = 0; i < 2; i++)
        in[i] = take(&t, t.one, PB_CONSTRUCTED);
    CHECK_EQ(t.one->events[PB_FALSE_EMPTY], 0); /* it was empty */
    step s = {.t = &t, .how = PB_CONSTRUCTED};
    marks_at(CLAIMED, other_takes, &s);
    give(&t, t.one, in[0], PB_KEPT);
    CHECK_EQ(t.other->events[PB_FALSE_EMPTY], 1);
    CHECK_EQ(t.other->events[PB_WAITS], 0);
    give(&t, t.other, in[1], PB_KEPT);
    CHECK(take(&t, t.other, PB_SHARED_HIT) == in[0]);
    CHECK(take(&t, t.other, PB_SHARED_HIT) == in[1]);
    void *third = take(&t, t.other, PB_CONSTRUCTED); /* now it is empty */
    CHECK_EQ(t.other->events[PB_FALSE_EMPTY], 1);
    give(&t, t.one, in[0], PB_KEPT);
    give(&t, t.one, in[1], PB_KEPT);
    give(&t, t.one, s.object, PB_KEPT);
    give(&t, t.one, third, PB_KEPT);
    closed(&t);
}

/* The first of two pops has stopped, one lap ahead: its cell is the next one to push into. */
static void test_false_full(void)
{
    pair t;
    void *in[3];
    opened(&t, "mpmc_ring capacity=2");
    filled(&t, in, 2);
    step s = {.t = &t, .how = PB_DESTROYED};
    s.object = pb_construct(t.other, t.p.workload.is, &t.p.args);
    marks_at(CLAIMED, other_gives, &s);
    CHECK(take(&t, t.one, PB_SHARED_HIT) == in[0]);
    CHECK_EQ(t.other->events[PB_FALSE_FULL], 1);
    give(&t, t.one, in[0], PB_KEPT);
    in[2] = pb_construct(t.other, t.p.workload.is, &t.p.args);
    give(&t, t.other, in[2], PB_DESTROYED); /* now it is full */
    CHECK_EQ(t.other->events[PB_FALSE_FULL], 1);
    closed(&t);
}

/* ---- strict ---------------------------------------------------------------------------------- */

/* Another thread that stops in mid-step, until it is told to go on. */
typedef struct stopped {
    pair t;
    pthread_t thread;
    void *object; /* to give back, or NULL: to be taken */
    pb_atomic_u32 in, go;
} stopped;

static void stop_here(void *arg)
{
    stopped *s = arg;
    pb_store_release_u32(&s->in, 1);
    while (!pb_load_acquire_u32(&s->go))
        (void)sched_yield();
}

static void let_go(void *arg)
{
    stopped *s = arg;
    pb_store_release_u32(&s->go, 1);
}

static void *stops_in_mid_step(void *arg)
{
    stopped *s = arg;
    check_in("the thread that stops");
    marks_at(CLAIMED, stop_here, s);
    if (s->object)
        give(&s->t, s->t.other, s->object, PB_KEPT);
    else
        s->object = take(&s->t, s->t.other, PB_SHARED_HIT);
    return NULL;
}

/* From here on it is in mid-step; we meet `marks` marks before it goes on. */
static void start_and_stop(stopped *s, int marks)
{
    pb_store_release_u32(&s->in, 0);
    pb_store_release_u32(&s->go, 0);
    if (pthread_create(&s->thread, NULL, stops_in_mid_step, s) != 0)
        cell_mistake("no thread");
    while (!pb_load_acquire_u32(&s->in))
        (void)sched_yield();
    marks_at(marks, let_go, s);
}

static void check_waited(const pb_ctx *ctx, pb_event wrong, int times)
{
    CHECK_EQ(ctx->events[wrong], times);
    CHECK_EQ(ctx->events[PB_WAITS], times);
    CHECK(ctx->longest_wait_ns > 0);
}

static void test_strict_waits_for_a_push(int marks)
{
    stopped s;
    opened(&s.t, "mpmc_ring empty=strict");
    s.object = take(&s.t, s.t.one, PB_CONSTRUCTED);
    start_and_stop(&s, marks);
    void *got = take(&s.t, s.t.one, PB_WAITED);
    let_go(&s); /* if it did not wait */
    (void)pthread_join(s.thread, NULL);
    CHECK(got == s.object);
    check_waited(s.t.one, PB_FALSE_EMPTY, 1);
    give(&s.t, s.t.one, got, PB_KEPT);
    closed(&s.t);
}

static void test_strict_waits_for_a_pop(int marks)
{
    stopped s = {.object = NULL};
    void *in[2];
    opened(&s.t, "mpmc_ring capacity=2 empty=strict");
    filled(&s.t, in, 2);
    start_and_stop(&s, marks);
    void *extra = pb_construct(s.t.one, s.t.p.workload.is, &s.t.p.args);
    give(&s.t, s.t.one, extra, PB_KEPT);
    let_go(&s);
    (void)pthread_join(s.thread, NULL);
    CHECK(s.object == in[0]);
    check_waited(s.t.one, PB_FALSE_FULL, 1);
    CHECK(take(&s.t, s.t.one, PB_SHARED_HIT) == in[1]);
    CHECK(take(&s.t, s.t.one, PB_SHARED_HIT) == extra);
    give(&s.t, s.t.one, in[1], PB_KEPT);
    give(&s.t, s.t.one, extra, PB_KEPT);
    give(&s.t, s.t.one, in[0], PB_DESTROYED); /* full in truth: no waiting */
    check_waited(s.t.one, PB_FALSE_FULL, 1);
    closed(&s.t);
}

/* ---- long runs ------------------------------------------------------------------------------- */

enum { OBJECTS = 64, THREADS_MOST = 16 };

typedef struct crew {
    parts p;
    probe_orders orders;
    pthread_barrier_t filled;
    uint64_t until_ns;
} crew;

typedef struct hand {
    crew *c;
    int index;
    uint64_t made, destroyed; /* by outcome */
    uint64_t rounds;
} hand;

static void fill(crew *c, pb_ctx *ctx)
{
    pb_held held[OBJECTS];
    for (int i = 0; i < OBJECTS; i++)
        held[i] = held_of(parts_acquire(&c->p, ctx));
    for (int i = 0; i < OBJECTS; i++)
        CHECK_EQ(parts_release(&c->p, ctx, held[i]), PB_KEPT);
}

static void *churn(void *arg)
{
    hand *h = arg;
    crew *c = h->c;
    check_in("churn, thread %d", h->index);
    marks_begin((uint64_t)h->index + 1);
    pb_ctx *ctx = parts_attach(&c->p, h->index);
    if (h->index == 0)
        fill(c, ctx);
    (void)pthread_barrier_wait(&c->filled);
    while (pb_now_ns() < c->until_ns)
        for (int i = 0; i < 100; i++, h->rounds++) {
            const pb_got got = parts_acquire(&c->p, ctx);
            probe_take(ctx, got.object);
            ctx->sink += parts_use(&c->p, ctx, got.object);
            probe_leave(ctx, got.object);
            h->made += got.how == PB_CONSTRUCTED;
            h->destroyed += parts_release(&c->p, ctx, held_of(got)) == PB_DESTROYED;
        }
    parts_detach(&c->p, h->index);
    return NULL;
}

static double run_seconds(void)
{
    const char *text = getenv("PB_HUNT_SECONDS");
    return text ? atof(text) : 0.3;
}

/* A ring that is broken may let a strict thread wait for ever: that is a failure, soon. */
static void has_hung(int signal)
{
    static const char text[] = "a thread waits for ever\n";
    (void)signal;
    _exit(write(STDOUT_FILENO, text, sizeof text - 1) < 0 ? 2 : 1);
}

static void hangs_after(double seconds)
{
    (void)alarm((unsigned)seconds);
}

static uint64_t events_of(const crew *c, int threads, pb_event event)
{
    uint64_t sum = 0;
    for (int i = 0; i < threads; i++)
        sum += c->p.ctx[i]->events[event];
    return sum;
}

/* A full ring of 64 objects: with one object per thread it is never empty, and never full. */
static void check_books(const crew *c, const hand *hands, int threads, bool strict)
{
    uint64_t made = 0, destroyed = 0, rounds = 0;
    for (int i = 0; i < threads; i++)
        made += hands[i].made, destroyed += hands[i].destroyed, rounds += hands[i].rounds;
    const uint64_t empty = events_of(c, threads, PB_FALSE_EMPTY);
    const uint64_t full = events_of(c, threads, PB_FALSE_FULL);
    const uint64_t idle = parts_idle(&c->p);
    CHECK_EQ(idle, OBJECTS + made - destroyed);
    CHECK_EQ(parts_alive(&c->p), idle);
    CHECK(destroyed <= full + made);
    CHECK(!strict || made + destroyed == 0);
    CHECK_EQ(events_of(c, threads, PB_WAITS), strict ? empty + full : 0);
    (void)printf("  %s, %d threads: %llu rounds, false empty %llu, false full %llu, idle %llu\n",
                 strict ? "strict" : "fast", threads, (unsigned long long)rounds,
                 (unsigned long long)empty, (unsigned long long)full, (unsigned long long)idle);
}

static void test_long_run(bool strict, int threads)
{
    const char *pool = strict ? "mpmc_ring empty=strict" : "mpmc_ring";
    const pb_cell cell = cell_of(pool, "bytes", "churn", threads);
    crew c = {.orders = {.fail = false}};
    hand hands[THREADS_MOST];
    pthread_t ids[THREADS_MOST];
    check_in("%s, %d threads", pool, threads);
    probe_parts(&c.p, &cell, &c.orders);
    (void)pthread_barrier_init(&c.filled, NULL, (unsigned)threads);
    hangs_after(7 + 2 * run_seconds());
    c.until_ns = pb_now_ns() + (uint64_t)(run_seconds() * 1e9);
    for (int i = 0; i < threads; i++) {
        hands[i] = (hand){.c = &c, .index = i};
        if (pthread_create(&ids[i], NULL, churn, &hands[i]) != 0)
            cell_mistake("no thread");
    }
    for (int i = 0; i < threads; i++)
        (void)pthread_join(ids[i], NULL);
    check_books(&c, hands, threads, strict);
    (void)pthread_barrier_destroy(&c.filled);
    CHECK_EQ(parts_close(&c.p), 0);
}

int main(void)
{
    (void)signal(SIGALRM, has_hung);
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    hangs_after(7);
    test_oldest_first("mpmc_ring", 64);
    test_oldest_first("mpmc_ring capacity=1", 1);
    test_oldest_first("mpmc_ring capacity=2 empty=strict", 2);
    test_oldest_first("mpmc_ring capacity=3", 3);
    test_oldest_first("mpmc_ring capacity=5 empty=strict", 5);
    test_bound("mpmc_ring capacity=1", 1);
    test_bound("mpmc_ring capacity=3", 3);
    test_bound("mpmc_ring capacity=6 empty=strict", 6);
    test_lost_and_retried(BEFORE_TURN);
    test_lost_and_retried(BEFORE_CLAIM);
    test_false_empty();
    test_false_full();
    for (int marks = 2; marks < 200; marks += 11) { /* from two looks to many */
        test_strict_waits_for_a_push(marks);
        test_strict_waits_for_a_pop(marks);
    }
    for (int often = 0; often <= 8; often += 8) {
        marks_often((uint32_t)often);
        for (int threads = 2; threads <= 16; threads += threads == 2 ? 2 : 12)
            test_long_run(true, threads);
    }
    test_long_run(false, 4);
    marks_often(0);
    return check_report();
}
