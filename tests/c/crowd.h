/* SPDX-License-Identifier: MIT
 *
 * crowd.h - seasons of threads around one pool, which come, go, and pass objects on.
 *
 *   thread:  attach -> [acquire | swap in the mailbox | release | leave and come again]... ->
 * detach
 *
 *   crowd_run(&c, "sharded shards=1 capacity=2", rounds, stay);
 *   c.outcomes[PB_DESTROYED]; c.events[PB_RETRIED]; c.idle; c.most_idle;
 *
 * Beside test_stress.c, which runs every pool over its choices, this is for what one pool promises
 * when threads leave all the time: with objects in their hands that others acquired, while objects
 * of theirs are released elsewhere. Constructors fail now and then, the run-time tick goes on, and
 * marks let others in. Objects are probes: held twice, handed over without order, or lost, they say
 * so.
 */
#ifndef PB_TEST_CROWD_H
#define PB_TEST_CROWD_H

#include <pthread.h>

#include "cell.h"
#include "check.h"
#include "marks.h"
#include "probe.h"

enum { CROWD_THREADS = 5, CROWD_SLOTS = 4, CROWD_HELD = 6, CROWD_SEASONS = 3 };
enum { CROWD_FAIL_ONE_IN = 50, CROWD_MARK_ONE_IN = 8, CROWD_ARRIVALS = 100 };
enum { CROWD_TICK = 64 }; /* rounds, of any thread, that are a tick */

typedef struct crowd {
    parts p;
    probe_orders orders;
    int rounds;                            /* of each thread in a season */
    int stay;                              /* rounds from coming to leaving, on average */
    _Atomic(probe *) mailbox[CROWD_SLOTS]; /* objects on their way, owned by nobody */
    uint64_t outcomes[PB_OUTCOMES];        /* of all threads, when they have left */
    uint64_t events[PB_EVENTS];
    uint64_t idle;      /* in the pool when all is over */
    uint64_t most_idle; /* the same, and between any two seasons: nobody is attached then */
} crowd;

typedef struct crowd_member {
    crowd *c;
    int index;
    pb_ctx *ctx;
    pb_rng rng;
    probe *held[CROWD_HELD];
    int count;
    uint64_t outcomes[PB_OUTCOMES];
} crowd_member;

static inline bool crowd_one_in(crowd_member *m, int n)
{
    return pb_rng_below(&m->rng, (uint32_t)n) == 0;
}

static inline void crowd_count(crowd_member *m, pb_outcome how)
{
    CHECK(pb_pools[m->c->p.cell.pool].outcomes & (1u << how));
    m->outcomes[how]++;
}

static inline void crowd_take(crowd_member *m, probe *o)
{
    probe_take(m->ctx, o);
    pb_yield_here();
    m->ctx->sink += parts_use(&m->c->p, m->ctx, o);
    m->held[m->count++] = o;
}

static inline void crowd_acquire(crowd_member *m)
{
    const pb_got got = parts_acquire(&m->c->p, m->ctx);
    crowd_count(m, got.how);
    CHECK_EQ(got.object == NULL, got.how == PB_FAILED);
    if (!got.object)
        return;
    ((probe *)got.object)->handle = got.handle;
    crowd_take(m, got.object);
}

static inline void crowd_give(crowd_member *m, probe *o)
{
    crowd_count(m, parts_release(&m->c->p, m->ctx, (pb_held){o, o->handle}));
}

static inline void crowd_release(crowd_member *m)
{
    probe *o = m->held[--m->count];
    probe_leave(m->ctx, o);
    pb_yield_here();
    crowd_give(m, o);
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
    pb_yield_here();
    CHECK_EQ(class->attach(m->c->p.pool, m->ctx), PB_OK);
}

static inline void crowd_round(crowd_member *m)
{
    if (crowd_one_in(m, m->c->stay))
        crowd_come_again(m);
    if (crowd_one_in(m, CROWD_TICK))
        (void)pb_add_relaxed_u32(&m->c->p.control.tick, 1); /* relaxed: orders nothing */
    if (m->count == 0 || (m->count < CROWD_HELD && crowd_one_in(m, 2)))
        crowd_acquire(m);
    else if (crowd_one_in(m, 2))
        crowd_swap(m);
    else
        crowd_release(m);
}

static inline void *crowd_live(void *arg)
{
    crowd_member *m = arg;
    marks_begin(m->rng.state);
    probe_mine.rng.state = m->rng.state;
    m->ctx = parts_attach(&m->c->p, m->index);
    if (!CHECK(m->ctx != NULL))
        return NULL;
    for (int i = 0; i < m->c->rounds; i++)
        crowd_round(m);
    while (m->count > 0) /* some of it is released by others, when we have left */
        if (crowd_one_in(m, 3))
            crowd_swap(m);
        else
            crowd_release(m);
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

static inline uint64_t crowd_on_the_way(const crowd *c)
{
    uint64_t count = 0;
    for (int i = 0; i < CROWD_SLOTS; i++)
        count += atomic_load_explicit(&c->mailbox[i], memory_order_relaxed) != NULL;
    return count;
}

/* Nobody is attached. */
static inline void crowd_look(crowd *c)
{
    c->idle = parts_idle(&c->p);
    c->most_idle = c->idle > c->most_idle ? c->idle : c->most_idle;
    CHECK_EQ(parts_alive(&c->p), c->idle + crowd_on_the_way(c));
}

static inline void crowd_season(crowd *c, int season)
{
    crowd_member members[CROWD_THREADS];
    pthread_t threads[CROWD_THREADS];
    for (int i = 0; i < CROWD_THREADS; i++) {
        const uint64_t seed = (uint64_t)(season * CROWD_THREADS + i + 1);
        members[i] = (crowd_member){.c = c, .index = i, .rng = {seed}};
        if (pthread_create(&threads[i], NULL, crowd_live, &members[i]) != 0)
            cell_mistake("no thread");
    }
    for (int i = 0; i < CROWD_THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    for (int i = 0; i < CROWD_THREADS; i++)
        crowd_sum(c, &members[i]);
    crowd_look(c);
}

/* What nobody took out of the mailbox goes back through a thread that comes last. */
static inline void crowd_empty_mailbox(crowd *c)
{
    crowd_member m = {.c = c, .ctx = parts_attach(&c->p, CROWD_THREADS)};
    for (int i = 0; i < CROWD_SLOTS; i++) {
        probe *o = atomic_exchange_explicit(&c->mailbox[i], NULL, memory_order_acquire);
        if (o)
            crowd_give(&m, o);
    }
    parts_detach(&c->p, CROWD_THREADS);
    crowd_sum(c, &m);
    crowd_look(c);
}

/* Closed when it returns: the counts are what is left of it. */
static inline void crowd_run(crowd *c, const char *pool, int rounds, int stay)
{
    check_in("%s, a crowd", pool);
    const pb_cell cell = cell_of(pool, "bytes", "churn", CROWD_THREADS + 1);
    *c = (crowd){.orders = {.fail_one_in = CROWD_FAIL_ONE_IN}, .rounds = rounds, .stay = stay};
    probe_parts(&c->p, &cell, &c->orders);
    marks_often(CROWD_MARK_ONE_IN);
    for (int i = 0; i < CROWD_SEASONS; i++)
        crowd_season(c, i);
    marks_often(0);
    crowd_empty_mailbox(c);
    CHECK_EQ(parts_close(&c->p), 0);
}

/* Over and over, so that all threads arrive at once. */
static inline void crowd_arrive(crowd *c, const char *pool)
{
    for (int i = 0; i < CROWD_ARRIVALS; i++)
        crowd_run(c, pool, CROWD_THREADS, 2);
}

/* Rounds of each thread: `usual`, or what PB_STRESS_ROUNDS says. */
static inline int crowd_rounds(int usual)
{
    const char *text = getenv("PB_STRESS_ROUNDS");
    return text ? atoi(text) : usual;
}

#endif
