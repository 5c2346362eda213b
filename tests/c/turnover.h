/* SPDX-License-Identifier: MIT
 *
 * turnover.h - threads come and leave while objects they acquired are with others.
 *
 *   a life:  attach -> acquire, use, swap with a mailbox, release ... -> detach
 *
 * More threads than most machines here have CPUs, lives of a few steps, constructors that fail now
 * and then. Who leaves puts what it holds into the mailbox, so that much is released by others than
 * acquired it, some of them long gone. Nothing may be held twice, lost, or kept above the bound.
 *
 * Built with PB_YIELDS, this file supplies what happens at the marks of the core.
 */
#ifndef PB_TEST_TURNOVER_H
#define PB_TEST_TURNOVER_H

#include <pthread.h>
#include <sched.h>

#include "cell.h"
#include "check.h"
#include "probe.h"

enum { TURNOVER_THREADS = 5, TURNOVER_SLOTS = 4, TURNOVER_HELD = 8, TURNOVER_ROUNDS = 40000 };
enum { TURNOVER_STEPS = 60, TURNOVER_FAILS_ONE_IN = 16, TURNOVER_SEASONS = 20 };

/* What happens at the next mark that this thread comes to, once: others' steps, as if they had come
   just then. */
static _Thread_local void (*turnover_at_mark)(void);

static inline void turnover_mark(void)
{
    static _Thread_local pb_rng rng;
    void (*others)(void) = turnover_at_mark;
    turnover_at_mark = NULL;
    if (others)
        others();
    else if (pb_rng_below(&rng, 8) == 0)
        (void)sched_yield();
}

#ifdef PB_YIELDS
static const bool turnover_has_marks = true;
void pb_yield_here(void)
{
    turnover_mark();
}
#else
static const bool turnover_has_marks = false;
#endif

typedef struct turnover {
    parts p;
    probe_orders orders;
    int rounds;
    _Atomic(probe *) mailbox[TURNOVER_SLOTS]; /* objects on their way, owned by nobody */
} turnover;

typedef struct passer {
    turnover *t;
    int index;
    pb_ctx *ctx;
    pb_rng rng;
    probe *held[TURNOVER_HELD];
    int count;
} passer;

static inline bool turnover_init(pb_ctx *ctx, void *memory, const pb_args args)
{
    return pb_rng_below(&ctx->rng, TURNOVER_FAILS_ONE_IN) != 0 && probe_init(ctx, memory, args);
}

static inline void *turnover_construct(pb_ctx *ctx, const pb_args args)
{
    return pb_allocate_and(turnover_init, ctx, args);
}

static inline void turnover_acquire(passer *w)
{
    const pb_got got = parts_acquire(&w->t->p, w->ctx);
    if (!got.object) {
        CHECK_EQ(got.how, PB_FAILED);
        return;
    }
    CHECK(got.how < PB_FAILED);
    probe *o = got.object;
    probe_take(w->ctx, o);
    o->handle = got.handle;
    w->ctx->sink += parts_use(&w->t->p, w->ctx, o);
    w->held[w->count++] = o;
}

static inline void turnover_release(passer *w)
{
    probe *o = w->held[--w->count];
    probe_leave(w->ctx, o);
    (void)parts_release(&w->t->p, w->ctx, (pb_held){o, o->handle});
}

/* Leaves the newest object in a slot, and takes out what was there. */
static inline void turnover_swap(passer *w)
{
    _Atomic(probe *) *slot = &w->t->mailbox[pb_rng_below(&w->rng, TURNOVER_SLOTS)];
    probe *mine = w->held[--w->count];
    probe_leave(w->ctx, mine);
    /* acq_rel: publishes our object to whoever takes it, and theirs to us */
    probe *theirs = atomic_exchange_explicit(slot, mine, memory_order_acq_rel);
    if (!theirs)
        return;
    probe_take(w->ctx, theirs);
    w->ctx->sink += parts_use(&w->t->p, w->ctx, theirs);
    w->held[w->count++] = theirs;
}

/* One life. The context, with its counts, is the same in all lives of a thread. */
static inline void turnover_live(passer *w)
{
    turnover *t = w->t;
    CHECK_EQ(t->p.class->attach(t->p.pool, w->ctx), PB_OK);
    for (uint64_t steps = pb_rng_below(&w->rng, TURNOVER_STEPS); steps > 0; steps--) {
        const uint64_t choice = pb_rng_below(&w->rng, 8);
        if (w->count == 0 || (choice < 4 && w->count < TURNOVER_HELD))
            turnover_acquire(w);
        else if (choice < 6)
            turnover_release(w);
        else
            turnover_swap(w);
    }
    for (int i = 0; i < 2 * TURNOVER_HELD && w->count > 0; i++)
        turnover_swap(w);
    while (w->count > 0)
        turnover_release(w);
    t->p.class->detach(t->p.pool, w->ctx);
}

static inline void *turnover_work(void *arg)
{
    passer *w = arg;
    for (int done = 0; done < w->t->rounds / TURNOVER_SEASONS; done += TURNOVER_STEPS / 2)
        turnover_live(w);
    return NULL;
}

/* What nobody took out of the mailbox goes back through a thread that comes late. */
static inline void turnover_empty_mailbox(turnover *t)
{
    pb_ctx *ctx = parts_attach(&t->p, TURNOVER_THREADS);
    for (int i = 0; i < TURNOVER_SLOTS; i++) {
        probe *o = atomic_exchange_explicit(&t->mailbox[i], NULL, memory_order_acquire);
        if (o)
            (void)parts_release(&t->p, ctx, (pb_held){o, o->handle});
    }
    parts_detach(&t->p, TURNOVER_THREADS);
}

/* Between two seasons no thread is attached: at most `bound` objects may idle. */
static inline void turnover_season(turnover *t, passer workers[TURNOVER_THREADS], uint64_t bound)
{
    pthread_t threads[TURNOVER_THREADS];
    for (int i = 0; i < TURNOVER_THREADS; i++)
        if (pthread_create(&threads[i], NULL, turnover_work, &workers[i]) != 0)
            cell_mistake("no thread");
    for (int i = 0; i < TURNOVER_THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    CHECK(parts_idle(&t->p) <= bound);
    uint64_t on_their_way = 0;
    for (int i = 0; i < TURNOVER_SLOTS; i++)
        on_their_way += atomic_load_explicit(&t->mailbox[i], memory_order_relaxed) != NULL;
    CHECK_EQ(parts_alive(&t->p), parts_idle(&t->p) + on_their_way);
}

/* Runs the pool, with at most `bound` idle objects when all threads are gone. */
static inline void turnover_run(const char *pool, uint64_t bound)
{
    static turnover t; /* mailbox empty, as each run leaves it */
    check_in("turnover of %s", pool);
    const pb_cell cell = cell_of(pool, "bytes", "churn", TURNOVER_THREADS);
    const char *text = getenv("PB_STRESS_ROUNDS");
    t.rounds = text ? atoi(text) : TURNOVER_ROUNDS;
    probe_parts(&t.p, &cell, &t.orders);
    pb_functions fails = probe_functions;
    fails.init = turnover_init;
    fails.construct = turnover_construct;
    t.p.workload.is = &fails;
    passer workers[TURNOVER_THREADS];
    for (int i = 0; i < TURNOVER_THREADS; i++) {
        workers[i] = (passer){.t = &t, .index = i, .rng = {(uint64_t)i + 77}};
        workers[i].ctx = parts_attach(&t.p, i);
        parts_detach(&t.p, i);
    }
    for (int i = 0; i < TURNOVER_SEASONS; i++)
        turnover_season(&t, workers, bound);
    turnover_empty_mailbox(&t);
    CHECK_EQ(parts_alive(&t.p), parts_idle(&t.p));
    CHECK(parts_idle(&t.p) <= bound);
    CHECK_EQ(parts_close(&t.p), 0);
}

#endif
