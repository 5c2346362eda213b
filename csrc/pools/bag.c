/* SPDX-License-Identifier: MIT
 *
 * pools/bag.c (L3) - a shared array of entries, borrowed by compare-and-swap; threads wait when all
 * are out. Any number of threads.
 *
 *   entries: [ idle o | in use o | idle o | empty | in use o ][ not made yet ... max_total ]
 *   hints:   of each thread, the entries it released last; the newest is tried first
 *   queue:   first -> ... -> last     threads that wait, behind a lock; each sleeps on its own word
 *
 * Stands for HikariCP's ConcurrentBag: the hints are its thread-local list (50 entries, a private
 * field there), the entries its shared list, the queue its fair SynchronousQueue. As there, an
 * object never leaves its entry: what changes is a state, and a hint is a guess that the state
 * still has to confirm. What differs: HikariCP's releasers offer an entry, yield, and offer again
 * until a waiter takes it; ours put it into the hands of the first in the queue and wake it up.
 *
 *   acquire   own hints, newest first; all entries, from the first; an empty entry, or one more, to
 *             construct in, outside any lock; else a place in the queue, and one more look
 *   release   the entry is idle; then, if anybody waits, it is taken again for the first of them
 *
 * wait=spin and wait=yield keep the CPU: with more threads than CPUs an object that was handed over
 * lies idle until its waiter is scheduled again.
 *
 * A constructor that fails leaves its entry empty, which is passed on like an idle one: whoever
 * gets it constructs. An object that is no entry's (handle 0) is destroyed at release.
 *
 *                     hint, scan   release   wait   hand over
 *   hint, scan            -           -        -        -       - : one CAS, or none
 *   release                           -        -        -
 *   wait                                       L        L       L : both take the queue's lock
 *   hand over                                           L
 *
 * No wake-up is lost: the releaser stores "idle" and then looks whether anybody waits; the waiter
 * stores that it waits and then looks for entries. Both pairs are sequentially consistent. With
 * release and acquire alone
 *
 *   state = idle; read waiters: 0      waiters = 1; read state: in use
 *
 * is allowed, and the waiter sleeps beside an idle entry.
 *
 * ABA: an entry's object is the same for as long as the entry has one, and "idle" means idle
 * whatever happened since a hint was noted. Progress: hints, scans and releases without waiters are
 * lock-free; waiting is blocking, up to a deadline of run time. Bound: `max_total` objects, idle
 * and held together.
 */
#include <sched.h>
#include <stdlib.h>

#include "../lock.h"
#include "../memory.h"
#include "../pool.h"
#include "../thread.h"
#include "../yield.h"

enum { BAG_PARK, BAG_YIELD, BAG_SPIN };
enum { BAG_IN_USE = 0, BAG_IDLE = 1, BAG_EMPTY = 2 }; /* EMPTY: no object, its constructor failed */
enum { BAG_LOCK_BACKOFF = 64, BAG_PAUSES = 64 };

typedef struct bag_entry {
    PB_ALIGNED pb_atomic_u32 state; /* BAG_IN_USE from the start: whoever makes it has it */
    void *object; /* whoever has the entry, reads and writes it; set once, when constructed */
} bag_entry;

typedef struct bag_ctx bag_ctx;

struct pb_pool {
    /* constant */
    bag_entry *entries; /* [max_total] */
    uint64_t max_total;
    PB_ALIGNED pb_atomic_u64 made;    /* entries there are; never falls */
    PB_ALIGNED pb_atomic_u32 waiters; /* threads in the queue; written under the lock */
    PB_ALIGNED pb_lock lock;          /* of the queue */
    bag_ctx *first, *last;            /* the queue; NULL: nobody */
};

struct bag_ctx {
    pb_ctx base;
    pb_pool *pool;
    bag_entry *entries;     /* constant */
    pb_atomic_u32 *waiters; /* constant: the pool's */
    uint32_t *hint;         /* [hints] handles, newest last */
    uint32_t hinted;        /* hints there are */
    uint32_t hints;         /* room for; constant */
    uint64_t timeout_ns;    /* constant */
    int wait;               /* BAG_PARK ...; constant */
    /* written by whoever hands over */
    PB_ALIGNED pb_atomic_u32 given; /* handle of the entry this waiter now has; 0: none yet */
    bag_ctx *next, *previous;       /* places in the queue; under the lock */
};

/* What a look came to: an entry, and whether its object was found or is still to be made. */
typedef struct bag_found {
    uint32_t handle; /* 1 + the entry's index; 0: none */
    pb_outcome how;
} bag_found;

static pb_status bag_open(pb_pool **pool, const pb_params *params, int threads)
{
    (void)threads;
    pb_pool *p = pb_new_padded(sizeof *p);
    if (!p)
        return PB_NO_MEMORY;
    p->max_total = (uint64_t)pb_params_get(params, "max_total");
    p->entries = pb_new_padded(p->max_total * sizeof *p->entries);
    if (!p->entries) {
        free(p);
        return PB_NO_MEMORY;
    }
    pb_lock_init(&p->lock, PB_LOCK_parking, BAG_LOCK_BACKOFF);
    *pool = p;
    return PB_OK;
}

/* Entries in `state`, at a quiet point. */
static uint64_t bag_count(const pb_pool *p, uint32_t state)
{
    const uint64_t made = pb_load_relaxed_u64(&p->made); /* relaxed: nobody changes it now */
    uint64_t count = 0;
    for (uint64_t i = 0; i < made; i++)
        count += pb_load_relaxed_u32(&p->entries[i].state) == state; /* relaxed: the same */
    return count;
}

static void bag_close(pb_pool *pool, pb_ctx *ctx)
{
    for (uint64_t i = 0; i < pool->max_total; i++)
        if (pb_load_acquire_u32(&pool->entries[i].state) == BAG_IDLE)
            pb_destroy(ctx, pool->entries[i].object, ctx->workload->is, ctx->workload->args);
    free(pool->entries);
    free(pool);
}

static pb_status bag_attach(pb_pool *pool, pb_ctx *ctx)
{
    bag_ctx *self = (bag_ctx *)ctx;
    self->pool = pool;
    self->entries = pool->entries;
    self->waiters = &pool->waiters;
    self->hints = (uint32_t)pb_params_get(ctx->params, "hints");
    self->timeout_ns = (uint64_t)pb_params_get(ctx->params, "timeout_ms") * 1000000u;
    self->wait = (int)pb_params_get(ctx->params, "wait");
    self->hint = calloc(self->hints + 1u, sizeof *self->hint); /* never of size 0 */
    return self->hint ? PB_OK : PB_NO_MEMORY;
}

/* The hints vanish; the entries, and what is idle in them, stay. */
static void bag_detach(pb_pool *pool, pb_ctx *ctx)
{
    (void)pool;
    bag_ctx *self = (bag_ctx *)ctx;
    free(self->hint);
    self->hint = NULL;
    self->hinted = self->hints = 0;
}

static uint64_t bag_idle(const pb_pool *pool, const pb_ctx *ctx)
{
    return ctx ? 0 : bag_count(pool, BAG_IDLE);
}

PB_INLINE bag_entry *bag_entry_of(const bag_ctx *self, uint64_t handle)
{
    return &self->entries[handle - 1];
}

/* ---- handing over ---------------------------------------------------------------------------- */

/* Takes a waiter out of the queue; under the lock. */
static void bag_unlink(pb_pool *p, bag_ctx *waiter)
{
    if (waiter->previous)
        waiter->previous->next = waiter->next;
    else
        p->first = waiter->next;
    if (waiter->next)
        waiter->next->previous = waiter->previous;
    else
        p->last = waiter->previous;
    /* relaxed: too high a count only sends a releaser to the lock, for nothing */
    pb_store_relaxed_u32(&p->waiters, pb_load_relaxed_u32(&p->waiters) - 1);
}

/* Takes an entry that was just left in `state`, and gives it to the first waiter. False: nobody
   waits any more, or somebody was faster, who will come by here when he releases it. */
static PB_COLD bool bag_hand_over(bag_ctx *self, uint32_t handle, uint32_t state)
{
    pb_pool *p = self->pool;
    pb_lock_acquire(&p->lock, PB_LOCK_parking, &self->base.lock_node);
    bag_ctx *waiter = p->first;
    /* acquire: pairs with the store of whoever left it so last, in bag_release or bag_put_back */
    if (waiter && pb_cas_acquire_u32(&bag_entry_of(self, handle)->state, state, BAG_IN_USE)) {
        bag_unlink(p, waiter);
        PB_YIELD_POINT();
        /* release: pairs with the acquires in bag_sleep and bag_leave; publishes the object */
        pb_store_release_u32(&waiter->given, handle);
    } else {
        waiter = NULL;
    }
    pb_lock_release(&p->lock, PB_LOCK_parking, &self->base.lock_node);
    PB_YIELD_POINT();
    if (waiter && self->wait == BAG_PARK)
        pb_futex_wake(&waiter->given, 1); /* an address: the waiter may have left long ago */
    return waiter != NULL;
}

/* Leaves an entry in `state`, for the first waiter or for anybody. */
static PB_COLD void bag_put_back(bag_ctx *self, uint32_t handle, uint32_t state)
{
    /* seq_cst, both: see the head. As a release it pairs with the acquires that take an entry */
    pb_store_seq_cst_u32(&bag_entry_of(self, handle)->state, state);
    PB_YIELD_POINT();
    if (pb_load_seq_cst_u32(self->waiters) > 0)
        (void)bag_hand_over(self, handle, state); /* if not, it lies there for anybody */
}

/* ---- looking, and waiting -------------------------------------------------------------------- */

/* One more entry than there were, in the hands of the caller. */
static bag_found bag_make(pb_pool *p, uint64_t made)
{
    while (made < p->max_total)
        /* relaxed: publishes nothing; the entry is in use, and was from the start */
        if (pb_cas_relaxed_u64(&p->made, &made, made + 1))
            return (bag_found){(uint32_t)made + 1, PB_CONSTRUCTED};
    return (bag_found){0, PB_TIMED_OUT};
}

/* Goes over all entries: takes an idle one, or notes the first empty one in *empty. */
static bag_found bag_scan(bag_ctx *self, uint64_t made, uint32_t *empty)
{
    *empty = 0;
    for (uint32_t i = 0; i < made; i++) {
        pb_atomic_u32 *state = &self->entries[i].state;
        /* seq_cst: a waiter's look, see the head */
        const uint32_t seen = pb_load_seq_cst_u32(state);
        if (seen == BAG_EMPTY && *empty == 0)
            *empty = i + 1;
        if (seen != BAG_IDLE)
            continue;
        PB_YIELD_POINT();
        /* acquire: pairs with the store that left it idle; the object may be looked at */
        if (pb_cas_acquire_u32(state, BAG_IDLE, BAG_IN_USE))
            return (bag_found){i + 1, PB_SHARED_HIT};
        self->base.events[PB_RETRIED]++;
    }
    return (bag_found){0, PB_TIMED_OUT};
}

/* An idle entry, or one to construct in: empty, or new. */
static PB_NOINLINE bag_found bag_look(bag_ctx *self)
{
    for (;;) {
        /* relaxed: a thread that waits has seen it at its highest, for it failed to raise it */
        const uint64_t made = pb_load_relaxed_u64(&self->pool->made);
        uint32_t empty;
        const bag_found found = bag_scan(self, made, &empty);
        if (found.handle)
            return found;
        if (!empty)
            return bag_make(self->pool, made);
        PB_YIELD_POINT();
        /* acquire: orders nothing but its own loop; there is no object to look at */
        if (pb_cas_acquire_u32(&bag_entry_of(self, empty)->state, BAG_EMPTY, BAG_IN_USE))
            return (bag_found){empty, PB_CONSTRUCTED};
        self->base.events[PB_RETRIED]++; /* and again: there may be a second empty one */
    }
}

static void bag_enter(bag_ctx *self)
{
    pb_pool *p = self->pool;
    pb_lock_acquire(&p->lock, PB_LOCK_parking, &self->base.lock_node);
    pb_store_relaxed_u32(&self->given, 0); /* relaxed: published by the lock */
    self->next = NULL;
    self->previous = p->last;
    if (p->last)
        p->last->next = self;
    else
        p->first = self;
    p->last = self;
    /* seq_cst: before the look that follows, see the head */
    pb_store_seq_cst_u32(&p->waiters, pb_load_relaxed_u32(&p->waiters) + 1);
    pb_lock_release(&p->lock, PB_LOCK_parking, &self->base.lock_node);
}

/* Leaves the queue; returns the entry that was given, 0 if none was. */
static uint32_t bag_leave(bag_ctx *self)
{
    pb_pool *p = self->pool;
    pb_lock_acquire(&p->lock, PB_LOCK_parking, &self->base.lock_node);
    /* acquire: pairs with the release in bag_hand_over */
    const uint32_t given = pb_load_acquire_u32(&self->given);
    if (!given)
        bag_unlink(p, self);
    pb_lock_release(&p->lock, PB_LOCK_parking, &self->base.lock_node);
    return given;
}

/* One wait of the chosen kind; false at the deadline. */
static bool bag_pass_time(bag_ctx *self, uint64_t deadline_ns)
{
    if (self->wait == BAG_PARK)
        return pb_wait(&self->base, &self->given, 0, deadline_ns);
    if (self->wait == BAG_YIELD)
        (void)sched_yield(); /* cannot fail */
    for (int i = 0; self->wait == BAG_SPIN && i < BAG_PAUSES; i++)
        pb_pause();
    return pb_may_wait(&self->base, deadline_ns);
}

/* Until an entry is given, or the deadline. */
static void bag_sleep(bag_ctx *self, uint64_t deadline_ns)
{
    /* acquire: pairs with the release in bag_hand_over */
    while (pb_load_acquire_u32(&self->given) == 0 && bag_pass_time(self, deadline_ns))
        ;
}

/* All are out: queues for one, looks once more, and waits. */
static PB_COLD bag_found bag_wait(bag_ctx *self)
{
    pb_ctx *ctx = &self->base;
    const uint64_t since = pb_run_time_ns(ctx);
    ctx->events[PB_WAITS]++;
    PB_YIELD_POINT();
    bag_enter(self);
    PB_YIELD_POINT();
    const bag_found found = bag_look(self); /* what was left before releasers could know of us */
    PB_YIELD_POINT();
    if (!found.handle)
        bag_sleep(self, since + self->timeout_ns);
    const uint32_t given = bag_leave(self);
    const uint64_t waited = pb_run_time_ns(ctx) - since;
    if (waited > ctx->longest_wait_ns)
        ctx->longest_wait_ns = waited;
    if (!given)
        return found;
    const bool made = bag_entry_of(self, given)->object != NULL;
    if (!found.handle)
        return (bag_found){given, made ? PB_WAITED : PB_CONSTRUCTED};
    bag_put_back(self, given, made ? BAG_IDLE : BAG_EMPTY); /* one is enough */
    return found;
}

static PB_NOINLINE bag_found bag_find(bag_ctx *self)
{
    const bag_found found = bag_look(self);
    return found.handle || self->timeout_ns == 0 ? found : bag_wait(self);
}

/* ---- acquire and release --------------------------------------------------------------------- */

/* No hint was right. */
PB_INLINE pb_got bag_acquire_shared(bag_ctx *self, const pb_functions *w, const pb_args *args)
{
    pb_ctx *ctx = &self->base;
    const bag_found found = bag_find(self);
    if (PB_UNLIKELY(found.handle == 0))
        return (pb_got){NULL, PB_TIMED_OUT, 0};
    bag_entry *entry = bag_entry_of(self, found.handle);
    if (PB_LIKELY(found.how != PB_CONSTRUCTED)) {
        pb_reset_at_acquire(ctx, entry->object, w, args);
        return (pb_got){entry->object, found.how, found.handle};
    }
    const pb_got got = pb_got_constructed(ctx, w, args);
    if (PB_UNLIKELY(got.object == NULL)) {
        bag_put_back(self, found.handle, BAG_EMPTY);
        return got;
    }
    entry->object = got.object;
    return (pb_got){got.object, PB_CONSTRUCTED, found.handle};
}

PB_INLINE pb_got bag_acquire(pb_ctx *ctx, const pb_functions *w, const pb_args *args)
{
    bag_ctx *self = (bag_ctx *)ctx;
    while (PB_LIKELY(self->hinted > 0)) {
        const uint32_t handle = self->hint[--self->hinted];
        bag_entry *entry = bag_entry_of(self, handle);
        /* acquire: pairs with the store that left it idle; the object may be looked at */
        if (PB_LIKELY(pb_cas_acquire_u32(&entry->state, BAG_IDLE, BAG_IN_USE))) {
            PB_YIELD_POINT();
            pb_reset_at_acquire(ctx, entry->object, w, args);
            return (pb_got){entry->object, PB_LOCAL_HIT, handle};
        }
        ctx->events[PB_RETRIED]++; /* somebody else has it, or had */
    }
    return bag_acquire_shared(self, w, args);
}

PB_INLINE pb_outcome bag_release(pb_ctx *ctx, const pb_held held, const pb_functions *w,
                                 const pb_args *args)
{
    bag_ctx *self = (bag_ctx *)ctx;
    const uint32_t handle = (uint32_t)held.handle;
    if (PB_UNLIKELY(handle == 0)) { /* no entry's object */
        pb_destroy(ctx, held.object, w, args);
        return PB_DESTROYED;
    }
    pb_reset_at_release(ctx, held.object, w, args);
    /* seq_cst, both: see the head. As a release it pairs with the acquires that take an entry */
    pb_store_seq_cst_u32(&bag_entry_of(self, handle)->state, BAG_IDLE);
    PB_YIELD_POINT();
    if (PB_UNLIKELY(pb_load_seq_cst_u32(self->waiters) > 0) &&
        bag_hand_over(self, handle, BAG_IDLE))
        return PB_HANDED_OVER;
    if (PB_LIKELY(self->hinted < self->hints))
        self->hint[self->hinted++] = handle;
    return PB_KEPT;
}

PB_DEFINE_POOL(bag);
