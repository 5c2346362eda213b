/* SPDX-License-Identifier: MIT
 *
 * crowd.h - threads that come and go, with objects in their hands and in each other's.
 *
 *   thread:  attach -> [acquire | swap in the mailbox | release]... -> detach -> attach ...
 *
 * As test_stress.c, but threads leave and come again all the time, holding objects that others
 * acquired, while objects of theirs are released elsewhere; and the run-time tick goes on. For
 * pools in which threads have parts of their own that others reach into. Built with PB_YIELDS, each
 * mark in the core may give up the CPU.
 */
#ifndef PB_TEST_CROWD_H
#define PB_TEST_CROWD_H

#include <pthread.h>
#include <sched.h>

#include "cell.h"
#include "check.h"
#include "probe.h"

enum {
    CROWD_THREADS = 5,
    CROWD_SLOTS = 3,
    CROWD_HELD = 6,
    CROWD_ROUNDS = 20000,
    CROWD_ARRIVALS = 100
};
enum { CROWD_TICK = 64 }; /* rounds, of any thread, that are a tick */

typedef struct crowd {
    parts p;
    probe_orders orders;
    int rounds;
    int stay; /* rounds between leaving and leaving again, on average */
    _Atomic(probe *) mailbox[CROWD_SLOTS];
} crowd;

typedef struct crowd_member {
    crowd *c;
    pb_ctx *ctx;
    pb_rng rng;
    probe *held[CROWD_HELD];
    int count;
    int index;
} crowd_member;

#ifdef PB_YIELDS
/* Now and then; each thread by its own numbers. */
void pb_yield_here(void)
{
    static _Thread_local pb_rng rng;
    if (rng.state == 0)
        rng.state = (uint64_t)(uintptr_t)&rng;
    if (pb_rng_below(&rng, 8) == 0)
        (void)sched_yield();
}
#endif

static inline bool crowd_one_in(crowd_member *m, int n)
{
    return pb_rng_below(&m->rng, (uint32_t)n) == 0;
}

static inline void crowd_maybe_yield(crowd_member *m)
{
    if (crowd_one_in(m, 16))
        (void)sched_yield();
}

static inline void crowd_take(crowd_member *m, probe *o)
{
    probe_take(m->ctx, o);
    crowd_maybe_yield(m);
    m->ctx->sink += parts_use(&m->c->p, m->ctx, o);
    m->held[m->count++] = o;
}

static inline void crowd_acquire(crowd_member *m)
{
    const pb_got got = parts_acquire(&m->c->p, m->ctx);
    if (!CHECK(got.object != NULL))
        return;
    ((probe *)got.object)->handle = got.handle;
    crowd_take(m, got.object);
}

static inline void crowd_release(crowd_member *m)
{
    probe *o = m->held[--m->count];
    probe_leave(m->ctx, o);
    crowd_maybe_yield(m);
    (void)parts_release(&m->c->p, m->ctx, (pb_held){o, o->handle});
}

/* Leaves the newest object in a slot, and takes out what was there. */
static inline void crowd_swap(crowd_member *m)
{
    _Atomic(probe *) *slot = &m->c->mailbox[pb_rng_below(&m->rng, CROWD_SLOTS)];
    probe *mine = m->held[--m->count];
    probe_leave(m->ctx, mine);
    /* acq_rel: publishes our object to whoever takes it, and theirs to us */
    probe *theirs = atomic_exchange_explicit(slot, mine, memory_order_acq_rel);
    if (theirs)
        crowd_take(m, theirs);
}

/* With whatever it holds. */
static inline void crowd_come_again(crowd_member *m)
{
    const pb_pool_class *class = m->c->p.class;
    class->detach(m->c->p.pool, m->ctx);
    crowd_maybe_yield(m);
    CHECK_EQ(class->attach(m->c->p.pool, m->ctx), PB_OK);
}

static inline void *crowd_work(void *arg)
{
    crowd_member *m = arg;
    crowd *c = m->c;
    m->ctx = parts_attach(&c->p, m->index);
    for (int i = 0; i < c->rounds; i++) {
        if (crowd_one_in(m, c->stay))
            crowd_come_again(m);
        if (crowd_one_in(m, CROWD_TICK))
            (void)pb_add_relaxed_u32(&c->p.control.tick, 1); /* relaxed: orders nothing */
        if (m->count == 0 || (m->count < CROWD_HELD && crowd_one_in(m, 2)))
            crowd_acquire(m);
        else if (crowd_one_in(m, 2))
            crowd_swap(m);
        else
            crowd_release(m);
        crowd_maybe_yield(m);
    }
    while (m->count > 0)
        crowd_release(m);
    parts_detach(&c->p, m->index);
    return NULL;
}

/* What nobody took out of the mailbox goes back through a thread that comes late. */
static inline void crowd_empty_mailbox(crowd *c)
{
    pb_ctx *ctx = parts_attach(&c->p, CROWD_THREADS);
    for (int i = 0; i < CROWD_SLOTS; i++) {
        probe *o = atomic_exchange_explicit(&c->mailbox[i], NULL, memory_order_acquire);
        if (o)
            (void)parts_release(&c->p, ctx, (pb_held){o, o->handle});
    }
    parts_detach(&c->p, CROWD_THREADS);
}

static inline uint64_t crowd_events(const crowd *c, pb_event event)
{
    uint64_t sum = 0;
    for (int i = 0; i <= CROWD_THREADS; i++)
        sum += c->p.ctx[i]->events[event];
    return sum;
}

/* Runs it; `look` may look at the counts before everything is closed. */
static inline void crowd_run_for(const char *pool, int rounds, int stay,
                                 void (*look)(const crowd *))
{
    static crowd c; /* mailbox empty, as each run leaves it */
    const pb_cell cell = cell_of(pool, "bytes", "churn", CROWD_THREADS);
    check_in("%s, threads that come and go", pool);
    probe_parts(&c.p, &cell, &c.orders);
    c.rounds = rounds;
    c.stay = stay;
    crowd_member members[CROWD_THREADS];
    pthread_t threads[CROWD_THREADS];
    for (int i = 0; i < CROWD_THREADS; i++) {
        members[i] = (crowd_member){.c = &c, .index = i, .rng = {(uint64_t)i + 1}};
        if (pthread_create(&threads[i], NULL, crowd_work, &members[i]) != 0)
            cell_mistake("no thread");
    }
    for (int i = 0; i < CROWD_THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    crowd_empty_mailbox(&c);
    CHECK_EQ(parts_alive(&c.p), parts_idle(&c.p));
    if (look)
        look(&c);
    CHECK_EQ(parts_close(&c.p), 0);
}

/* For PB_STRESS_ROUNDS. */
static inline void crowd_run(const char *pool, int stay, void (*look)(const crowd *))
{
    const char *text = getenv("PB_STRESS_ROUNDS");
    crowd_run_for(pool, text ? atoi(text) : CROWD_ROUNDS, stay, look);
}

/* Over and over, so that all threads arrive at once. */
static inline void crowd_arrive(const char *pool)
{
    for (int i = 0; i < CROWD_ARRIVALS; i++)
        crowd_run_for(pool, CROWD_THREADS, 2, NULL);
}

#endif
