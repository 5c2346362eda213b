/* SPDX-License-Identifier: MIT
 *
 * pools/mpmc_ring.c (L3) - a ring of cells, the oldest object first; any number of threads.
 *
 *            first                          end            places: lap 32 | cell 32
 *              |                             |
 *   cells [ turn ][ turn ][ turn ][ turn ][ turn ][ turn ]
 *         [   -  ][object ][object ][object ][   -  ][   - ]
 *          turn = place: empty, for the push at this place
 *          turn = place + 1: full, for the pop at this place; then place + a lap: empty again
 *
 * Stands for Vyukov's bounded MPMC queue (1024cores.net, 2010) as crossbeam's ArrayQueue (opool),
 * JCTools and Kestrel's queues have it. Who moves `first` or `end` with a compare-and-swap owns
 * that cell until it stores the cell's next turn, which is what all others look at. Full: destroys
 * what it cannot keep. Oldest first means that the object which has been cold for longest is next.
 * Places count laps apart from cells, so any capacity is exact.
 *
 * A thread that stops between the two steps, with its cell taken and the turn not stored, makes the
 * ring look empty to those who come next although objects lie behind that cell, or, one lap later,
 * full although there is room. empty=fast answers so: acquire constructs and release destroys, and
 * each time is counted (false_empty, false_full). A pool of fast rings drains and refills itself
 * for ever, which is what there is to see. empty=strict compares with the other index first, and
 * where the two disagree it waits until the other thread has gone on: then nothing is lost.
 *
 * backoff: pauses after a lost compare-and-swap, doubling with each one; throughput for fairness.
 *
 *              acquire   release
 *   acquire       A         P        A : both compare-and-swap `first` (or `end`); the loser looks
 *   release       P         A            again
 *                                    P : release publishes the object with the cell's turn, acquire
 *                                        reads the turn before the object, and gives the cell back
 *                                        the same way
 *   `object` is a plain word: it belongs to whoever took the cell. `first` and `end` order nothing.
 *
 * ABA: places and turns only grow; a lap number of 32 bits comes again after 2^32 laps. Progress:
 * fast never waits, but answers wrongly while another thread is stopped in mid-step; strict is
 * blocking, as ArrayQueue is. Bound: `capacity` idle objects.
 */
#include <sched.h>
#include <stdlib.h>

#include "../clock.h"
#include "../memory.h"
#include "../pool.h"
#include "../yield.h"

static const uint64_t MPMC_LAP = (uint64_t)1 << 32;
enum { MPMC_MOST_PAUSES = 16384 }; /* doubling ends here */
enum { MPMC_SHORT_WAIT = 64 };     /* pauses before a waiter gives up its CPU */

/* Four to a cache line: objects and cells move on from thread to thread in order, so that a thread
   which comes to a line uses all of it. */
typedef struct mpmc_cell {
    pb_atomic_u64 turn;
    void *object;
} mpmc_cell;

struct pb_pool {
    PB_ALIGNED pb_atomic_u64 first; /* place of the next pop */
    PB_ALIGNED pb_atomic_u64 end;   /* place of the next push */
    PB_ALIGNED uint64_t capacity;   /* constant */
    PB_ALIGNED mpmc_cell cells[];   /* [capacity] */
};

typedef struct mpmc_ring_ctx {
    pb_ctx base;
    pb_pool *pool;
    uint32_t last;    /* the last cell's index */
    uint32_t backoff; /* pauses after the first lost compare-and-swap */
    bool strict;
} mpmc_ring_ctx;

/* One attempt at an operation, from one to the next. */
typedef struct mpmc_try {
    uint32_t pauses;   /* after the next lost compare-and-swap */
    uint32_t looked;   /* times it found the other thread in mid-step */
    uint64_t since_ns; /* when first */
} mpmc_try;

PB_INLINE uint64_t mpmc_next(uint64_t place, uint32_t last)
{
    return PB_UNLIKELY((uint32_t)place == last) ? place - last + MPMC_LAP : place + 1;
}

PB_INLINE mpmc_cell *mpmc_cell_at(pb_pool *p, uint64_t place)
{
    return &p->cells[(uint32_t)place];
}

static pb_status mpmc_ring_open(pb_pool **pool, const pb_params *params, int threads)
{
    (void)threads;
    const uint64_t capacity = (uint64_t)pb_params_get(params, "capacity");
    pb_pool *p = pb_new_padded(sizeof *p + capacity * sizeof p->cells[0]);
    if (!p)
        return PB_NO_MEMORY;
    p->capacity = capacity;
    for (uint64_t i = 0; i < capacity; i++)
        pb_store_relaxed_u64(&p->cells[i].turn, i); /* relaxed: published with the pool */
    *pool = p;
    return PB_OK;
}

static uint64_t mpmc_ring_idle(const pb_pool *pool, const pb_ctx *ctx)
{
    if (ctx)
        return 0;
    /* relaxed, both: at quiet points */
    const uint64_t first = pb_load_relaxed_u64(&pool->first), end = pb_load_relaxed_u64(&pool->end);
    return (end / MPMC_LAP - first / MPMC_LAP) * pool->capacity + (uint32_t)end - (uint32_t)first;
}

static void mpmc_ring_close(pb_pool *pool, pb_ctx *ctx)
{
    uint64_t place = pb_load_relaxed_u64(&pool->first); /* relaxed: nobody else is left */
    for (uint64_t left = mpmc_ring_idle(pool, NULL); left > 0; left--) {
        pb_destroy(ctx, mpmc_cell_at(pool, place)->object, ctx->workload->is, ctx->workload->args);
        place = mpmc_next(place, (uint32_t)pool->capacity - 1);
    }
    free(pool);
}

static pb_status mpmc_ring_attach(pb_pool *pool, pb_ctx *ctx)
{
    mpmc_ring_ctx *self = (mpmc_ring_ctx *)ctx;
    self->pool = pool;
    self->last = (uint32_t)pool->capacity - 1;
    self->backoff = (uint32_t)pb_params_get(ctx->params, "backoff");
    self->strict = pb_params_get(ctx->params, "empty") != 0;
    return PB_OK;
}

static void mpmc_ring_detach(pb_pool *pool, pb_ctx *ctx)
{
    (void)pool, (void)ctx; /* a thread owns nothing here */
}

/* Takes the cell of `place`, which was found ready, from others who found the same. */
PB_INLINE bool mpmc_claim(pb_atomic_u64 *index, uint64_t place, uint32_t last)
{
    PB_YIELD_POINT();
    /* relaxed: what is in the cell is published by its turn */
    const bool ours = pb_cas_relaxed_u64(index, &place, mpmc_next(place, last));
    if (ours)
        PB_YIELD_POINT();
    return ours;
}

PB_INLINE bool mpmc_try_pop(mpmc_ring_ctx *self, uint64_t place, void **object)
{
    pb_pool *p = self->pool;
    mpmc_cell *cell = mpmc_cell_at(p, place);
    if (PB_UNLIKELY(!mpmc_claim(&p->first, place, self->last)))
        return false;
    *object = cell->object;
    /* release: pairs with the acquire in mpmc_turn of the push one lap on: the cell was read */
    pb_store_release_u64(&cell->turn, place + MPMC_LAP);
    return true;
}

PB_INLINE bool mpmc_try_push(mpmc_ring_ctx *self, uint64_t place, void *object)
{
    pb_pool *p = self->pool;
    mpmc_cell *cell = mpmc_cell_at(p, place);
    if (PB_UNLIKELY(!mpmc_claim(&p->end, place, self->last)))
        return false;
    cell->object = object;
    /* release: pairs with the acquire in mpmc_turn of the pop; publishes the object */
    pb_store_release_u64(&cell->turn, place + 1);
    return true;
}

/* Whose turn the cell of `place` is. */
PB_INLINE uint64_t mpmc_turn(pb_pool *p, uint64_t place)
{
    PB_YIELD_POINT();
    /* acquire: pairs with the releases in mpmc_try_pop and mpmc_try_push */
    return pb_load_acquire_u64(&mpmc_cell_at(p, place)->turn);
}

static void mpmc_lost(mpmc_ring_ctx *self, mpmc_try *t)
{
    self->base.events[PB_RETRIED]++;
    for (uint32_t i = t->pauses; i > 0; i--)
        pb_pause();
    if (t->pauses < MPMC_MOST_PAUSES)
        t->pauses *= 2;
}

/* Another thread has the cell and has not stored its turn: an answer now would be wrong. Counts it,
   once; false: answer. No park point: the other is between two steps, not in a wait. */
static bool mpmc_waits(mpmc_ring_ctx *self, mpmc_try *t, pb_event wrong)
{
    if (t->looked++ == 0) {
        self->base.events[wrong]++;
        if (!self->strict)
            return false;
        self->base.events[PB_WAITS]++;
        t->since_ns = pb_now_ns();
    }
    if (t->looked <= MPMC_SHORT_WAIT)
        pb_pause();
    else
        (void)sched_yield(); /* it was preempted, perhaps on this CPU; cannot fail */
    return true;
}

static void mpmc_waited(mpmc_ring_ctx *self, const mpmc_try *t)
{
    if (t->since_ns == 0)
        return;
    const uint64_t waited = pb_now_ns() - t->since_ns;
    if (waited > self->base.longest_wait_ns)
        self->base.longest_wait_ns = waited;
}

/* When the first look found no ready cell, or (lost) another thread took it: an object, or NULL and
   `how` has no meaning. */
static PB_COLD pb_got mpmc_pop_again(mpmc_ring_ctx *self, bool lost)
{
    pb_pool *p = self->pool;
    mpmc_try t = {.pauses = self->backoff};
    void *object = NULL;
    for (;;) {
        if (lost)
            mpmc_lost(self, &t);
        const uint64_t place = pb_load_relaxed_u64(&p->first); /* relaxed: as in acquire */
        const int64_t past = (int64_t)(mpmc_turn(p, place) - (place + 1));
        if (past == 0 && mpmc_try_pop(self, place, &object))
            break;
        lost = past >= 0; /* somebody else has popped here */
        /* Not pushed here yet, so `first` was `place` at that look. relaxed, and read after the
           turn was acquired: where `end` is no further, nothing is in the ring */
        if (!lost &&
            (pb_load_relaxed_u64(&p->end) == place || !mpmc_waits(self, &t, PB_FALSE_EMPTY)))
            break;
    }
    mpmc_waited(self, &t);
    return (pb_got){object, t.since_ns ? PB_WAITED : PB_SHARED_HIT, 0};
}

/* The same for a push; false: full. */
static PB_COLD bool mpmc_push_again(mpmc_ring_ctx *self, void *object, bool lost)
{
    pb_pool *p = self->pool;
    mpmc_try t = {.pauses = self->backoff};
    bool kept = false;
    for (;;) {
        if (lost)
            mpmc_lost(self, &t);
        const uint64_t place = pb_load_relaxed_u64(&p->end); /* relaxed: as in release */
        const int64_t past = (int64_t)(mpmc_turn(p, place) - place);
        if (past == 0 && (kept = mpmc_try_push(self, place, object)))
            break;
        lost = past >= 0; /* somebody else has pushed here */
        /* Not popped here since the lap before, so `end` was `place` at that look. relaxed: as in
           mpmc_pop_again; where `first` is a whole lap behind, all cells are full */
        if (!lost && (pb_load_relaxed_u64(&p->first) + MPMC_LAP == place ||
                      !mpmc_waits(self, &t, PB_FALSE_FULL)))
            break;
    }
    mpmc_waited(self, &t);
    return kept;
}

PB_INLINE pb_got mpmc_ring_acquire(pb_ctx *ctx, const pb_functions *w, const pb_args *args)
{
    mpmc_ring_ctx *self = (mpmc_ring_ctx *)ctx;
    pb_pool *p = self->pool;
    pb_got got = {NULL, PB_SHARED_HIT, 0};
    const uint64_t place = pb_load_relaxed_u64(&p->first); /* relaxed: a guess, and then claimed */
    const bool ready = mpmc_turn(p, place) == place + 1;
    if (PB_UNLIKELY(!ready || !mpmc_try_pop(self, place, &got.object)))
        got = mpmc_pop_again(self, ready);
    if (PB_UNLIKELY(got.object == NULL))
        return pb_got_constructed(ctx, w, args);
    pb_reset_at_acquire(ctx, got.object, w, args);
    return got;
}

PB_INLINE pb_outcome mpmc_ring_release(pb_ctx *ctx, const pb_held held, const pb_functions *w,
                                       const pb_args *args)
{
    mpmc_ring_ctx *self = (mpmc_ring_ctx *)ctx;
    pb_pool *p = self->pool;
    void *object = held.object;
    pb_reset_at_release(ctx, object, w, args);
    const uint64_t place = pb_load_relaxed_u64(&p->end); /* relaxed: a guess, and then claimed */
    const bool ready = mpmc_turn(p, place) == place;
    if (PB_LIKELY(ready && mpmc_try_push(self, place, object)))
        return PB_KEPT;
    if (PB_LIKELY(mpmc_push_again(self, object, ready)))
        return PB_KEPT;
    pb_destroy(ctx, object, w, args);
    return PB_DESTROYED;
}

PB_DEFINE_POOL(mpmc_ring);
