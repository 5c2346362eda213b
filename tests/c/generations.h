/* SPDX-License-Identifier: MIT
 *
 * generations.h - generations of threads around one pool, which pass objects on and leave.
 *
 *   crowd_run(&c, "sharded shards=1 capacity=2", 2000);
 *   c.outcomes[PB_DESTROYED]; c.events[PB_RETRIED]; c.idle;
 *
 * More threads than most machines here have CPUs. Each lets go of a third of its objects into a
 * mailbox, from which others release them, often after who acquired them has left. Constructors
 * fail now and then. Objects are probes: held twice, handed over without order, or lost, they say
 * so. Built with PB_YIELDS, every mark in the core gives up the CPU now and then.
 */
#ifndef PB_TEST_GENERATIONS_H
#define PB_TEST_GENERATIONS_H

#include <pthread.h>
#include <sched.h>

#include "cell.h"
#include "check.h"
#include "probe.h"
#include "rng.h"

enum { CROWD = 5, CROWD_GENERATIONS = 3, CROWD_SLOTS = 4, CROWD_HOLDS = 3, CROWD_FAIL_ONE_IN = 50 };

typedef struct crowd {
    parts p;
    probe_orders orders;
    int rounds;
    _Atomic(probe *) mailbox[CROWD_SLOTS];
    uint64_t outcomes[PB_OUTCOMES]; /* of all threads, when they have left */
    uint64_t events[PB_EVENTS];
    uint64_t idle; /* what they left in the pool */
} crowd;

typedef struct crowd_member {
    crowd *c;
    int index;
    pb_ctx *ctx;
    probe *held[CROWD_HOLDS];
    int count;
    uint64_t outcomes[PB_OUTCOMES];
} crowd_member;

static inline void crowd_yield(void)
{
    static _Thread_local pb_rng rng; /* which step it is matters, not how random it is */
    if (pb_rng_below(&rng, 8) == 0)
        (void)sched_yield();
}

#ifdef PB_YIELDS
void pb_yield_here(void)
{
    crowd_yield();
}
#endif

static inline void *crowd_construct(pb_ctx *ctx, const pb_args args)
{
    if (pb_rng_below(&ctx->rng, CROWD_FAIL_ONE_IN) == 0)
        return NULL;
    return probe_construct(ctx, args);
}

static inline void crowd_count(crowd_member *m, pb_outcome how)
{
    CHECK(pb_pools[m->c->p.cell.pool].outcomes & (1u << how));
    m->outcomes[how]++;
}

static inline void crowd_acquire(crowd_member *m)
{
    const pb_got got = parts_acquire(&m->c->p, m->ctx);
    crowd_count(m, got.how);
    CHECK_EQ(got.object == NULL, got.how == PB_FAILED);
    if (!got.object)
        return;
    probe *o = got.object;
    probe_take(m->ctx, o);
    o->handle = got.handle;
    crowd_yield();
    m->ctx->sink += parts_use(&m->c->p, m->ctx, o);
    m->held[m->count++] = o;
}

static inline void crowd_release(crowd_member *m, probe *o)
{
    crowd_count(m, parts_release(&m->c->p, m->ctx, (pb_held){o, o->handle}));
}

/* Lets go of the newest object: a third of them into the mailbox, and what was there is released.
 */
static inline void crowd_let_go(crowd_member *m)
{
    probe *o = m->held[--m->count];
    probe_leave(m->ctx, o);
    crowd_yield();
    if (pb_rng_below(&m->ctx->rng, 3) == 0) /* acq_rel: ours to whoever takes it, theirs to us */
        o = atomic_exchange_explicit(&m->c->mailbox[pb_rng_below(&m->ctx->rng, CROWD_SLOTS)], o,
                                     memory_order_acq_rel);
    if (o)
        crowd_release(m, o);
}

static void *crowd_live(void *arg)
{
    crowd_member *m = arg;
    m->ctx = parts_attach(&m->c->p, m->index);
    if (!CHECK(m->ctx != NULL))
        return NULL;
    for (int i = 0; i < m->c->rounds; i++) {
        const bool more = m->count == 0 || pb_rng_below(&m->ctx->rng, 2) == 0;
        if (more && m->count < CROWD_HOLDS)
            crowd_acquire(m);
        else
            crowd_let_go(m);
        crowd_yield();
    }
    while (m->count > 0)
        crowd_let_go(m);
    parts_detach(&m->c->p, m->index);
    return NULL;
}

static inline void crowd_sum(crowd *c, const crowd_member *m)
{
    for (int i = 0; i < PB_OUTCOMES; i++)
        c->outcomes[i] += m->outcomes[i];
    for (int i = 0; i < PB_EVENTS; i++)
        c->events[i] += m->ctx->events[i];
}

static inline void crowd_generation(crowd *c, int first)
{
    crowd_member members[CROWD];
    pthread_t threads[CROWD];
    for (int i = 0; i < CROWD; i++) {
        members[i] = (crowd_member){.c = c, .index = first + i};
        if (pthread_create(&threads[i], NULL, crowd_live, &members[i]) != 0)
            cell_mistake("no thread");
    }
    for (int i = 0; i < CROWD; i++)
        (void)pthread_join(threads[i], NULL);
    for (int i = 0; i < CROWD; i++)
        crowd_sum(c, &members[i]);
}

/* What nobody took out of the mailbox goes back through a thread that comes last. */
static inline void crowd_empty_mailbox(crowd *c)
{
    const int last = CROWD * CROWD_GENERATIONS;
    crowd_member m = {.c = c, .index = last, .ctx = parts_attach(&c->p, last)};
    for (int i = 0; i < CROWD_SLOTS; i++) {
        probe *o = atomic_exchange_explicit(&c->mailbox[i], NULL, memory_order_acquire);
        if (o)
            crowd_release(&m, o);
    }
    parts_detach(&c->p, last);
    crowd_sum(c, &m);
}

/* `rounds` steps per thread. Closed when it returns: the counts are what is left of it. */
static inline void crowd_run(crowd *c, const char *pool, int rounds)
{
    check_in("%s: a crowd", pool);
    const pb_cell cell = cell_of(pool, "bytes", "churn", CROWD);
    *c = (crowd){.rounds = rounds};
    pb_functions functions = probe_functions;
    functions.construct = crowd_construct;
    const pb_args args = {.size = sizeof(probe), .shared = &c->orders, .has_reset = true};
    parts_open(&c->p, &cell, &(pb_workload){&functions, &args});
    for (int i = 0; i < CROWD_GENERATIONS; i++)
        crowd_generation(c, i * CROWD);
    crowd_empty_mailbox(c);
    c->idle = parts_idle(&c->p);
    CHECK_EQ(parts_alive(&c->p), c->idle);
    CHECK_EQ(parts_close(&c->p), 0);
}

#endif
