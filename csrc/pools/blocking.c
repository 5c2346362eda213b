/* SPDX-License-Identifier: MIT
 *
 * pools/blocking.c (L3) - so many objects and no more: who finds none waits for one; any number of
 * threads, blocking.
 *
 *   lock | first, count |  [ . . o o o . ]           newest out first, the oldest age away
 *        | slots: objects that exist or are being made, at most max_total
 *        | waiters: oldest <-> ... <-> newest        each in its own thread's context
 *
 * Stands for pools of what is dear and scarce, such as connections: Apache Commons Pool
 * (GenericObjectPool), r2d2 and deadpool (Rust), database pools. Those are a lock and a condition;
 * so is this, with the condition spelled out: a list of waiters under the lock and one word per
 * waiter to sleep on, because a hand-over must name its waiter, and one that gives up must be able
 * to say so.
 *
 * An acquire takes an idle object; else it reserves a slot and constructs, outside the lock; else
 * it queues up and sleeps, for `timeout_ms` of run time at most. A failed constructor, and every
 * object that is destroyed, gives its slot back, and a slot given back calls a waiter as an object
 * does: it may construct.
 *
 *   fair=1   what is released goes to the longest waiter by name, object or slot: nobody overtakes
 *   fair=0   it lies there for anybody, and the longest waiter is called to look; one that finds
 *            nothing queues up anew, behind the others, as on a condition
 *
 * That nothing is lost when a waiter gives up: it takes itself off the list, and is called or
 * served, under the lock only. Either it is still listed, then nobody has counted on it; or it was
 * served, and takes what it got, late or not; or it was called, and looks once more.
 *
 * validate=acquire   is testOnBorrow, r2d2's is_valid: `invalid_per_million` of the objects taken
 *                    have gone bad; each is destroyed, and the borrower tries again on its slot
 * validate=release   is testOnReturn, r2d2's has_broken: what has gone bad is destroyed, not kept
 * ttl_ms, min_idle   who comes by when the tick has moved destroys objects idle for longer, the
 *                    oldest first, but leaves min_idle of them. Nothing is made ahead of demand
 *
 *              acquire   release   L : both take the one lock
 *   acquire       L         L      W : a waiter reads its own word and what it was given without
 *   release                 L          the lock; both are written under it (release / acquire)
 *   waiter        W         W
 *
 * The handle is 1 for objects that have a slot; a foreign one (0) has none and is destroyed. ABA:
 * none, every change is made under the lock. Progress: blocking; waits for objects end at their
 * deadline or with the replicate. Bound: max_total objects in all, idle ones included.
 */
#include <stdlib.h>

#include "../lock.h"
#include "../memory.h"
#include "../pool.h"
#include "../yield.h"

typedef struct blocking_ctx blocking_ctx;

typedef struct blocking_entry {
    void *object;
    uint32_t tick; /* when it was released */
} blocking_entry;

struct pb_pool {
    /* constant */
    uint64_t max_total;
    uint64_t min_idle;
    bool fair;
    blocking_entry *idle; /* ring of max_total entries */
    /* shared, under the lock, which travels with what it guards */
    PB_ALIGNED pb_lock lock;
    uint64_t first;                /* oldest entry of the ring */
    uint64_t count;                /* idle objects */
    uint64_t slots;                /* taken: objects, and constructions under way */
    blocking_ctx *oldest, *newest; /* waiters */
};

enum { BLOCKING_BACKOFF = 256 };          /* of the lock, see locks/parking.h */
enum { BLOCKING_FOREIGN, BLOCKING_OURS }; /* handles */

enum { BLOCKING_NEVER, BLOCKING_AT_ACQUIRE, BLOCKING_AT_RELEASE };

/* A waiter's word. Fair pools serve, others call. */
enum { BLOCKING_WAITS, BLOCKING_CALLED, BLOCKING_SERVED };

struct blocking_ctx {
    pb_ctx base;
    pb_pool *pool;
    uint64_t timeout_ns; /* constant */
    uint64_t bad;        /* constant: of 2^32 validated objects */
    int64_t validate;    /* constant: BLOCKING_NEVER ... */
    uint32_t ttl;        /* constant, in ticks; 0: nothing ages */
    uint32_t tick;       /* at which this thread last looked for old objects */
    /* as a waiter; under the pool's lock but where the table says so */
    PB_ALIGNED blocking_ctx *older, *newer;
    void *given;        /* once served: an object, or NULL, a slot */
    pb_atomic_u32 word; /* slept on */
};

/* What looking for an object came to. */
typedef struct blocking_turn {
    void *object;
    pb_outcome how; /* PB_CONSTRUCTED without an object: a slot to construct one in */
} blocking_turn;

static pb_status blocking_open(pb_pool **pool, const pb_params *params, int threads)
{
    (void)threads;
    pb_pool *p = pb_new_padded(sizeof *p);
    if (!p)
        return PB_NO_MEMORY;
    p->max_total = (uint64_t)pb_params_get(params, "max_total");
    p->min_idle = (uint64_t)pb_params_get(params, "min_idle");
    p->fair = pb_params_get(params, "fair") != 0;
    p->idle = pb_new_padded(p->max_total * sizeof *p->idle);
    if (!p->idle) {
        free(p);
        return PB_NO_MEMORY;
    }
    pb_lock_init(&p->lock, PB_LOCK_parking, BLOCKING_BACKOFF);
    *pool = p;
    return PB_OK;
}

static pb_status blocking_attach(pb_pool *pool, pb_ctx *ctx)
{
    blocking_ctx *self = (blocking_ctx *)ctx;
    const uint64_t bad = (uint64_t)pb_params_get(ctx->params, "invalid_per_million");
    self->pool = pool;
    self->timeout_ns = (uint64_t)pb_params_get(ctx->params, "timeout_ms") * 1000000;
    self->bad = (bad << 32) / 1000000;
    self->validate = pb_params_get(ctx->params, "validate");
    self->ttl = (uint32_t)pb_params_get(ctx->params, "ttl_ms");
    return PB_OK;
}

static void blocking_detach(pb_pool *pool, pb_ctx *ctx)
{
    (void)pool, (void)ctx; /* a thread owns nothing here, and does not leave while it waits */
}

static uint64_t blocking_idle(const pb_pool *pool, const pb_ctx *ctx)
{
    return ctx ? 0 : pool->count;
}

/* ---- the lock, and what is done under it ----------------------------------------------------- */

PB_INLINE void blocking_enter(blocking_ctx *self, pb_pool *p)
{
    pb_lock_acquire(&p->lock, PB_LOCK_parking, &self->base.lock_node);
}

PB_INLINE void blocking_leave(blocking_ctx *self, pb_pool *p)
{
    pb_lock_release(&p->lock, PB_LOCK_parking, &self->base.lock_node);
}

PB_INLINE uint64_t blocking_place(const pb_pool *p, uint64_t at)
{
    return at >= p->max_total ? at - p->max_total : at;
}

/* The newest idle object; count > 0. */
PB_INLINE void *blocking_take(pb_pool *p)
{
    p->count--;
    return p->idle[blocking_place(p, p->first + p->count)].object;
}

/* There is room: what is idle has a slot, and there are as many entries as slots. */
PB_INLINE void blocking_put(blocking_ctx *self, pb_pool *p, void *object)
{
    blocking_entry *entry = &p->idle[blocking_place(p, p->first + p->count)];
    p->count++;
    entry->object = object;
    if (PB_UNLIKELY(self->ttl > 0))
        entry->tick = pb_load_relaxed_u32(&self->base.control->tick); /* relaxed: orders nothing */
}

/* An idle object, a slot, or nothing. */
static blocking_turn blocking_look(pb_pool *p)
{
    if (p->count > 0)
        return (blocking_turn){blocking_take(p), PB_WAITED};
    if (p->slots == p->max_total)
        return (blocking_turn){NULL, PB_TIMED_OUT};
    p->slots++;
    return (blocking_turn){NULL, PB_CONSTRUCTED};
}

static void blocking_queue_up(pb_pool *p, blocking_ctx *self)
{
    /* relaxed: whoever writes it next finds us on the list, under the lock */
    pb_store_relaxed_u32(&self->word, BLOCKING_WAITS);
    self->newer = NULL;
    self->older = p->newest;
    *(p->newest ? &p->newest->newer : &p->oldest) = self;
    p->newest = self;
}

static void blocking_unlist(pb_pool *p, blocking_ctx *waiter)
{
    *(waiter->older ? &waiter->older->newer : &p->oldest) = waiter->newer;
    *(waiter->newer ? &waiter->newer->older : &p->newest) = waiter->older;
}

/* Takes the longest waiter off the list, and serves or calls it; NULL: nobody waits. After the lock
   was left it has to be woken. */
static blocking_ctx *blocking_call(pb_pool *p, void *given)
{
    blocking_ctx *waiter = p->oldest;
    if (!waiter)
        return NULL;
    blocking_unlist(p, waiter);
    waiter->given = given;
    /* release: pairs with the acquire in blocking_sleep */
    pb_store_release_u32(&waiter->word, p->fair ? BLOCKING_SERVED : BLOCKING_CALLED);
    return waiter;
}

static void blocking_close(pb_pool *pool, pb_ctx *ctx)
{
    while (pool->count > 0)
        pb_destroy(ctx, blocking_take(pool), ctx->workload->is, ctx->workload->args);
    free(pool->idle);
    free(pool);
}

/* ---- slow paths ------------------------------------------------------------------------------ */

/* Outside the lock. By now the waiter may have left, and its context with it: a wake-up needs the
   address only. */
static void blocking_wake(blocking_ctx *waiter)
{
    PB_YIELD_POINT();
    if (waiter)
        pb_futex_wake(&waiter->word, 1);
}

/* Of an object that is no more, or never was. */
static PB_COLD void blocking_give_slot(blocking_ctx *self)
{
    pb_pool *p = self->pool;
    PB_YIELD_POINT();
    blocking_enter(self, p);
    blocking_ctx *waiter = blocking_call(p, NULL);
    if (!waiter || !p->fair) /* else it is the waiter's */
        p->slots--;
    blocking_leave(self, p);
    blocking_wake(waiter);
}

/* Somebody waits for what is released. Entered with the lock. */
static PB_COLD pb_outcome blocking_serve(blocking_ctx *self, void *object)
{
    pb_pool *p = self->pool;
    blocking_ctx *waiter = blocking_call(p, object);
    if (!p->fair)
        blocking_put(self, p, object);
    blocking_leave(self, p);
    blocking_wake(waiter);
    return p->fair ? PB_HANDED_OVER : PB_KEPT;
}

/* Sleeps on our word until it changes; false when there is no use in waiting any more. */
static bool blocking_sleep(blocking_ctx *self, uint64_t deadline)
{
    PB_YIELD_POINT();
    /* acquire: pairs with the release in blocking_call; what we are given may be read */
    while (pb_load_acquire_u32(&self->word) == BLOCKING_WAITS)
        if (!pb_wait(&self->base, &self->word, BLOCKING_WAITS, deadline))
            return false;
    return true;
}

static blocking_turn blocking_served(const blocking_ctx *self)
{
    return (blocking_turn){self->given, self->given ? PB_WAITED : PB_CONSTRUCTED};
}

/* Queues up until there is a turn, or no use in waiting any more. Entered with the lock. */
static blocking_turn blocking_queue(blocking_ctx *self, uint64_t deadline)
{
    pb_pool *p = self->pool;
    for (;;) {
        blocking_queue_up(p, self);
        blocking_leave(self, p);
        const bool patient = blocking_sleep(self, deadline);
        if (pb_load_acquire_u32(&self->word) == BLOCKING_SERVED) /* acquire: as in blocking_sleep */
            return blocking_served(self);
        PB_YIELD_POINT();
        blocking_enter(self, p);
        const uint32_t word = pb_load_relaxed_u32(&self->word); /* relaxed: under the lock */
        if (word == BLOCKING_WAITS)
            blocking_unlist(p, self);
        const blocking_turn turn =
            word == BLOCKING_SERVED ? blocking_served(self) : blocking_look(p);
        if (turn.how != PB_TIMED_OUT || !patient) {
            blocking_leave(self, p);
            return turn;
        }
    }
}

/* None is idle. Entered with the lock. */
static PB_COLD blocking_turn blocking_find(blocking_ctx *self)
{
    pb_ctx *ctx = &self->base;
    pb_pool *p = self->pool;
    const blocking_turn at_once = blocking_look(p);
    if (at_once.how != PB_TIMED_OUT || self->timeout_ns == 0) {
        blocking_leave(self, p);
        return at_once;
    }
    const uint64_t since = pb_run_time_ns(ctx);
    const blocking_turn turn = blocking_queue(self, since + self->timeout_ns);
    const uint64_t now_ns = pb_run_time_ns(ctx);
    if (now_ns - since > ctx->longest_wait_ns)
        ctx->longest_wait_ns = now_ns - since;
    ctx->events[PB_WAITS]++;
    return turn;
}

/* What the object is good for is drawn, so that it can be had at any rate. */
PB_INLINE bool blocking_is_bad(blocking_ctx *self)
{
    return pb_rng_next(&self->base.rng) >> 32 < self->bad;
}

/* Destroys the object in hand while it has gone bad, and goes on with another idle one, or with the
   slot of the last. */
static PB_NOINLINE blocking_turn blocking_validate(blocking_ctx *self, blocking_turn turn)
{
    pb_ctx *ctx = &self->base;
    pb_pool *p = self->pool;
    while (turn.object && blocking_is_bad(self)) {
        pb_destroy(ctx, turn.object, ctx->workload->is, ctx->workload->args);
        PB_YIELD_POINT();
        blocking_enter(self, p);
        turn.object = p->count > 0 ? blocking_take(p) : NULL;
        blocking_leave(self, p);
        if (turn.object)
            blocking_give_slot(self);
        else
            turn.how = PB_CONSTRUCTED;
    }
    return turn;
}

/* The oldest idle object if it is older than allowed and can be spared; NULL: there is none. Its
   slot stays taken until it is destroyed. */
static void *blocking_take_old(blocking_ctx *self)
{
    pb_pool *p = self->pool;
    void *object = NULL;
    blocking_enter(self, p);
    const blocking_entry *entry = &p->idle[p->first];
    /* signed: the entry may be from a later tick than the one we have seen */
    if (p->count > p->min_idle && (int32_t)(self->tick - entry->tick) >= (int32_t)self->ttl) {
        object = entry->object;
        p->first = blocking_place(p, p->first + 1);
        p->count--;
    }
    blocking_leave(self, p);
    return object;
}

static PB_COLD void blocking_age(blocking_ctx *self, uint32_t tick)
{
    pb_ctx *ctx = &self->base;
    self->tick = tick;
    for (void *old; (old = blocking_take_old(self)) != NULL;) {
        pb_destroy(ctx, old, ctx->workload->is, ctx->workload->args);
        ctx->events[PB_AGED]++;
        blocking_give_slot(self);
    }
}

/* ---- acquire and release --------------------------------------------------------------------- */

PB_INLINE void blocking_age_at_ticks(blocking_ctx *self)
{
    if (PB_LIKELY(self->ttl == 0))
        return;
    const uint32_t tick = pb_load_relaxed_u32(&self->base.control->tick); /* relaxed: a hint */
    if (PB_UNLIKELY(tick != self->tick))
        blocking_age(self, tick);
}

/* Without an object: on a slot, or there is none. */
PB_INLINE pb_got blocking_construct(blocking_ctx *self, pb_outcome how, const pb_functions *w,
                                    const pb_args *args)
{
    if (how != PB_CONSTRUCTED)
        return (pb_got){NULL, PB_TIMED_OUT, 0};
    PB_YIELD_POINT();
    const pb_got got = pb_got_constructed(&self->base, w, args);
    if (PB_UNLIKELY(got.object == NULL))
        blocking_give_slot(self);
    return (pb_got){got.object, got.how, BLOCKING_OURS};
}

PB_INLINE pb_got blocking_acquire(pb_ctx *ctx, const pb_functions *w, const pb_args *args)
{
    blocking_ctx *self = (blocking_ctx *)ctx;
    pb_pool *p = self->pool;
    blocking_turn turn = {NULL, PB_SHARED_HIT};
    blocking_age_at_ticks(self);
    blocking_enter(self, p);
    if (PB_LIKELY(p->count > 0)) {
        turn.object = blocking_take(p);
        blocking_leave(self, p);
    } else {
        turn = blocking_find(self);
    }
    if (PB_UNLIKELY(self->validate == BLOCKING_AT_ACQUIRE))
        turn = blocking_validate(self, turn);
    if (PB_UNLIKELY(turn.object == NULL))
        return blocking_construct(self, turn.how, w, args);
    pb_reset_at_acquire(ctx, turn.object, w, args);
    return (pb_got){turn.object, turn.how, BLOCKING_OURS};
}

PB_INLINE pb_outcome blocking_release(pb_ctx *ctx, const pb_held held, const pb_functions *w,
                                      const pb_args *args)
{
    blocking_ctx *self = (blocking_ctx *)ctx;
    pb_pool *p = self->pool;
    const bool ours = held.handle == BLOCKING_OURS;
    const bool validated = self->validate == BLOCKING_AT_RELEASE;
    if (PB_UNLIKELY(!ours || (validated && blocking_is_bad(self)))) {
        pb_destroy(ctx, held.object, w, args);
        if (ours)
            blocking_give_slot(self);
        return PB_DESTROYED;
    }
    pb_reset_at_release(ctx, held.object, w, args);
    blocking_enter(self, p);
    if (PB_UNLIKELY(p->oldest != NULL))
        return blocking_serve(self, held.object);
    blocking_put(self, p, held.object);
    blocking_leave(self, p);
    return PB_KEPT;
}

PB_DEFINE_POOL(blocking);
