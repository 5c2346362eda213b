/* SPDX-License-Identifier: MIT
 *
 * test_locks.c - mutual exclusion, wake-up, waits on record, and order where it is promised, for
 * every lock of the list, with more threads than CPUs.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "check.h"
#include "clock.h"
#include "lock.h"
#include "marks.h"
#include "rng.h"
#include "thread.h"

enum { BACKOFF = 16, LONG_BACKOFF = 65536, THREADS_MAX = 64, IN_LINE = 6, YIELD_ONE_IN = 8 };
enum { ROUNDS = 3000, FEW_ROUNDS = 25, HOLD_MS = 30 };
enum { PATIENCE_S = 20 }; /* for all tests of one lock: who hangs is ended */

/* Locks whose waiters never sleep: with more threads than CPUs they wait for the scheduler. */
static bool spins(pb_lock_kind kind)
{
    return kind == PB_LOCK_spin || kind == PB_LOCK_ticket || kind == PB_LOCK_mcs;
}

static bool is_fair(pb_lock_kind kind)
{
    return kind == PB_LOCK_ticket || kind == PB_LOCK_mcs || kind == PB_LOCK_parking_fair;
}

typedef struct guarded {
    pb_lock lock;
    pb_lock_kind kind;
    int rounds;
    pb_lock_node holder;    /* of the thread that starts the others */
    uint64_t counter;       /* plain: only the lock keeps it right */
    bool inside;            /* somebody is in the critical section */
    pb_atomic_u32 arriving; /* threads about to wait */
    int order[THREADS_MAX]; /* who came in, by counter */
} guarded;

typedef struct hand {
    guarded *g;
    int index;
    pthread_t id;
    pb_lock_node me;
} hand;

static void *count(void *arg)
{
    hand *h = arg;
    guarded *g = h->g;
    pb_rng rng = {(uint64_t)h->index};
    marks_begin((uint64_t)h->index + 1);
    for (int i = 0; i < g->rounds; i++) {
        pb_lock_acquire(&g->lock, g->kind, &h->me);
        CHECK(!g->inside);
        g->inside = true;
        const uint64_t before = g->counter;
        if (pb_rng_below(&rng, YIELD_ONE_IN) == 0)
            (void)sched_yield(); /* let others find it held */
        g->counter = before + 1;
        g->inside = false;
        pb_lock_release(&g->lock, g->kind, &h->me);
    }
    return NULL;
}

static void *enter_once(void *arg)
{
    hand *h = arg;
    guarded *g = h->g;
    (void)pb_add_relaxed_u32(&g->arriving, 1); /* relaxed: only a count */
    pb_lock_acquire(&g->lock, g->kind, &h->me);
    g->order[g->counter++] = h->index;
    pb_lock_release(&g->lock, g->kind, &h->me);
    return NULL;
}

static void start(hand *h, guarded *g, int index, void *(*body)(void *))
{
    *h = (hand){.g = g, .index = index};
    CHECK_EQ(pb_thread_start(&h->id, body, h, -1), PB_OK);
}

static void join(const hand *hands, int threads)
{
    for (int i = 0; i < threads; i++)
        (void)pthread_join(hands[i].id, NULL);
}

static void test_exclusion(pb_lock_kind kind, int threads)
{
    static hand hands[THREADS_MAX];
    guarded g = {.kind = kind, .rounds = spins(kind) ? FEW_ROUNDS : ROUNDS};
    pb_lock_init(&g.lock, kind, BACKOFF);
    marks_often(threads > 1 ? YIELD_ONE_IN : 0);
    for (int i = 0; i < threads; i++)
        start(&hands[i], &g, i, count);
    join(hands, threads);
    marks_often(0);
    CHECK_EQ(g.counter, (int64_t)threads * g.rounds);
    if (threads == 1)
        CHECK_EQ(hands[0].me.longest_wait_ns, 0);
}

/* Held long enough that all who can sleep do: each must be woken, and its wait be on record. */
static void test_waiters_wake(pb_lock_kind kind, int threads)
{
    static hand hands[THREADS_MAX];
    guarded g = {.kind = kind};
    pb_lock_init(&g.lock, kind, BACKOFF);
    pb_lock_acquire(&g.lock, kind, &g.holder);
    for (int i = 0; i < threads; i++)
        start(&hands[i], &g, i, enter_once);
    while (pb_load_relaxed_u32(&g.arriving) < (uint32_t)threads)
        (void)sched_yield();
    pb_sleep_until(pb_now_ns() + HOLD_MS * 1000000);
    CHECK_EQ(g.counter, 0); /* nobody came in */
    pb_lock_release(&g.lock, kind, &g.holder);
    join(hands, threads);
    CHECK_EQ(g.counter, threads);
    uint64_t longest = 0;
    for (int i = 0; i < threads; i++)
        if (hands[i].me.longest_wait_ns > longest)
            longest = hands[i].me.longest_wait_ns;
    CHECK(longest >= HOLD_MS * 1000000 / 2);
    CHECK_EQ(g.holder.longest_wait_ns, 0);
}

/* What every arrival at a fair lock changes. */
static uint64_t end_of_line(const guarded *g)
{
    if (g->kind == PB_LOCK_ticket)
        return pb_load_relaxed_u32(&g->lock.ticket.drawn);
    const pb_atomic_ptr *tail =
        g->kind == PB_LOCK_mcs ? &g->lock.mcs.tail : &g->lock.parking_fair.tail;
    return (uint64_t)(uintptr_t)pb_load_relaxed_ptr(tail);
}

/* They queue up one by one; they come in as they came. */
static void test_order(pb_lock_kind kind, uint32_t backoff)
{
    hand hands[IN_LINE];
    guarded g = {.kind = kind};
    pb_lock_init(&g.lock, kind, backoff);
    pb_lock_acquire(&g.lock, kind, &g.holder);
    for (int i = 0; i < IN_LINE; i++) {
        const uint64_t before = end_of_line(&g);
        start(&hands[i], &g, i, enter_once);
        while (end_of_line(&g) == before)
            pb_sleep_until(pb_now_ns() + 100000);
    }
    pb_lock_release(&g.lock, kind, &g.holder);
    join(hands, IN_LINE);
    for (int i = 0; i < IN_LINE; i++)
        CHECK_EQ(g.order[i], i);
}

int main(void)
{
#define LOCK_NAME(name) #name,
    static const char *const names[] = {PB_LOCKS(LOCK_NAME)};
    const int wanted = 2 * pb_thread_cpus() + 1;
    const int threads = wanted < THREADS_MAX ? wanted : THREADS_MAX;
    for (int i = 0; i < PB_LOCK_KINDS; i++) {
        const pb_lock_kind kind = (pb_lock_kind)i;
        (void)alarm(PATIENCE_S);
        check_in("%s, %d threads", names[i], threads);
        test_exclusion(kind, 1);
        test_exclusion(kind, threads);
        test_waiters_wake(kind, threads);
        if (is_fair(kind)) {
            test_order(kind, BACKOFF);
            test_order(kind, LONG_BACKOFF);
        }
    }
    return check_report();
}
