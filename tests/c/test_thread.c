/* SPDX-License-Identifier: MIT
 *
 * test_thread.c - threads start where they are told, and futexes wake whom they should.
 */
#define _GNU_SOURCE
#include <sched.h>

#include "check.h"
#include "clock.h"
#include "thread.h"

typedef struct place {
    int cpu;     /* where the thread found itself at its first instruction */
    int allowed; /* how many CPUs it may use */
} place;

static void *look_round(void *arg)
{
    place *p = arg;
    p->cpu = sched_getcpu();
    p->allowed = pb_thread_cpus();
    return NULL;
}

static place start_on(int cpu)
{
    place p = {-1, 0};
    pthread_t thread;
    if (CHECK_EQ(pb_thread_start(&thread, look_round, &p, cpu), PB_OK))
        (void)pthread_join(thread, NULL);
    return p;
}

static void test_every_cpu(void)
{
    cpu_set_t set;
    CHECK_EQ(sched_getaffinity(0, sizeof set, &set), 0);
    CHECK_EQ(pb_thread_cpus(), CPU_COUNT(&set));
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET((size_t)cpu, &set))
            continue;
        check_in("CPU %d", cpu);
        const place p = start_on(cpu);
        CHECK_EQ(p.cpu, cpu);
        CHECK_EQ(p.allowed, 1);
    }
}

static void test_anywhere(void)
{
    check_in("anywhere");
    CHECK_EQ(start_on(-1).allowed, pb_thread_cpus());
}

static void test_no_such_cpu(void)
{
    check_in("no such CPU");
    place p = {-1, 0};
    pthread_t thread;
    CHECK_EQ(pb_thread_start(&thread, look_round, &p, CPU_SETSIZE - 1), PB_SYSTEM);
    CHECK_EQ(p.allowed, 0); /* never ran */
}

static void test_wait_returns_at_once_when_the_word_differs(void)
{
    check_in("another value");
    pb_atomic_u32 word = {1};
    pb_futex_wait(&word, 2, 0); /* would sleep for ever */
    CHECK_EQ(pb_load_relaxed_u32(&word), 1);
}

static void test_wait_times_out(void)
{
    check_in("time-out");
    pb_atomic_u32 word = {1};
    const uint64_t start = pb_now_ns();
    while (pb_now_ns() - start < 10000000)
        pb_futex_wait(&word, 1, 10000000); /* may return early; must return */
    CHECK(pb_now_ns() - start >= 10000000);
}

enum { SLEEPERS = 4 };

typedef struct bed {
    pb_atomic_u32 word;  /* 0: sleep */
    pb_atomic_u32 awake; /* sleepers that have left */
} bed;

static void *sleep_on(void *arg)
{
    bed *b = arg;
    while (pb_load_acquire_u32(&b->word) == 0)
        pb_futex_wait(&b->word, 0, 0);
    (void)pb_add_acq_rel_u32(&b->awake, 1);
    return NULL;
}

/* Without the wake they would sleep for ever, and the join would hang. */
static void test_wake(void)
{
    check_in("wake");
    bed b = {{0}, {0}};
    pthread_t threads[SLEEPERS];
    for (int i = 0; i < SLEEPERS; i++)
        CHECK_EQ(pb_thread_start(&threads[i], sleep_on, &b, -1), PB_OK);
    pb_sleep_until(pb_now_ns() + 20000000); /* so that they do sleep */
    CHECK_EQ(pb_load_acquire_u32(&b.awake), 0);
    pb_futex_wake(&b.word, SLEEPERS); /* a wake without news: all go to sleep again */
    pb_sleep_until(pb_now_ns() + 5000000);
    CHECK_EQ(pb_load_acquire_u32(&b.awake), 0);
    pb_store_release_u32(&b.word, 1);
    pb_futex_wake(&b.word, SLEEPERS);
    for (int i = 0; i < SLEEPERS; i++)
        (void)pthread_join(threads[i], NULL);
    CHECK_EQ(pb_load_acquire_u32(&b.awake), SLEEPERS);
}

int main(void)
{
    test_every_cpu();
    test_anywhere();
    test_no_such_cpu();
    test_wait_returns_at_once_when_the_word_differs();
    test_wait_times_out();
    test_wake();
    return check_report();
}
