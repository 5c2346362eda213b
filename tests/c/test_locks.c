/* SPDX-License-Identifier: MIT
 *
 * test_locks.c - mutual exclusion and wake-up, for every lock of the list, with more threads than
 * CPUs.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>

#include "check.h"
#include "clock.h"
#include "lock.h"
#include "rng.h"
#include "thread.h"

enum { BACKOFF = 16, THREADS_MAX = 64, ROUNDS = 3000, YIELD_ONE_IN = 8 };

typedef struct guarded {
    pb_lock lock;
    pb_lock_kind kind;
    pb_lock_node holder; /* of the thread that starts the others */
    uint64_t counter;    /* plain: only the lock keeps it right */
    bool inside;         /* somebody is in the critical section */
    int waiting_ms;      /* how long the first one stays, so that the others sleep */
} guarded;

typedef struct hand {
    guarded *g;
    int index;
} hand;

static void *count(void *arg)
{
    const hand *h = arg;
    guarded *g = h->g;
    pb_lock_node me = {.longest_wait_ns = 0};
    pb_rng rng = {(uint64_t)h->index};
    for (int i = 0; i < ROUNDS; i++) {
        pb_lock_acquire(&g->lock, g->kind, &me);
        CHECK(!g->inside);
        g->inside = true;
        const uint64_t before = g->counter;
        if (pb_rng_below(&rng, YIELD_ONE_IN) == 0)
            (void)sched_yield(); /* let others find it held */
        g->counter = before + 1;
        g->inside = false;
        pb_lock_release(&g->lock, g->kind, &me);
    }
    return NULL;
}

static void *enter_once(void *arg)
{
    guarded *g = ((hand *)arg)->g;
    pb_lock_node me = {.longest_wait_ns = 0};
    pb_lock_acquire(&g->lock, g->kind, &me);
    g->counter++;
    pb_lock_release(&g->lock, g->kind, &me);
    return NULL;
}

static void with_threads(guarded *g, int threads, void *(*body)(void *))
{
    hand hands[THREADS_MAX];
    pthread_t ids[THREADS_MAX];
    for (int i = 0; i < threads; i++) {
        hands[i] = (hand){g, i};
        CHECK_EQ(pb_thread_start(&ids[i], body, &hands[i], -1), PB_OK);
    }
    if (g->waiting_ms > 0) {
        pb_sleep_until(pb_now_ns() + (uint64_t)g->waiting_ms * 1000000);
        CHECK_EQ(g->counter, 0); /* nobody came in */
        pb_lock_release(&g->lock, g->kind, &g->holder);
    }
    for (int i = 0; i < threads; i++)
        (void)pthread_join(ids[i], NULL);
}

/* Held long enough that all waiters have gone to sleep: each must be woken. */
static void test_sleepers_wake(pb_lock_kind kind, int threads)
{
    guarded g = {.kind = kind, .waiting_ms = 30};
    pb_lock_init(&g.lock, kind, BACKOFF);
    pb_lock_acquire(&g.lock, kind, &g.holder);
    with_threads(&g, threads, enter_once);
    CHECK_EQ(g.counter, threads);
}

static void test_exclusion(pb_lock_kind kind, int threads)
{
    guarded g = {.kind = kind};
    pb_lock_init(&g.lock, kind, BACKOFF);
    with_threads(&g, threads, count);
    CHECK_EQ(g.counter, (int64_t)threads * ROUNDS);
}

int main(void)
{
#define LOCK_NAME(name) #name,
    static const char *const names[] = {PB_LOCKS(LOCK_NAME)};
    const int wanted = 2 * pb_thread_cpus() + 1;
    const int threads = wanted < THREADS_MAX ? wanted : THREADS_MAX;
    for (int kind = 0; kind < PB_LOCK_KINDS; kind++) {
        check_in("%s, %d threads", names[kind], threads);
        test_exclusion((pb_lock_kind)kind, 1);
        test_exclusion((pb_lock_kind)kind, threads);
        test_sleepers_wake((pb_lock_kind)kind, threads);
    }
    return check_report();
}
