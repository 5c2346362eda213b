/* SPDX-License-Identifier: MIT
 *
 * pools/owner_inbox.c (L3) - an object goes back to the thread that made it: at home onto a private
 * stack, from elsewhere into the home's inbox.
 *
 *   home 1:  stack [ o o o . ]    inbox  2 -> o -> o -> .   <- push: compare-and-swap, by any other
 *            chain  o -> o -> .  <- take all: one exchange, when stack and chain are empty
 *   home 2:  left                 inbox  CLOSED             <- a push finds it so, and destroys
 *
 * Stands for Netty's Recycler (an array per thread, and a queue that others offer to), for the
 * lists of a page that other threads free to in mimalloc, and for snmalloc's message queues. The
 * other answer to hand-off: where thread_cache constructs on one side and destroys on the other for
 * ever, here one swap per object brings it back, and the owner fetches many with one exchange.
 *
 * The handle is the number of the object's home and the address of its entry there: {home, object,
 * next}. The number tells what is local without a look at the entry, which is touched only by
 * hand-overs. It is the object's as long as that lives, and mapped until the pool closes, so that
 * who releases after the acquirer has left finds the inbox CLOSED, not freed memory. A thread gets
 * a home when it first constructs: one that only releases needs none. A home that was left is the
 * next newcomer's. An object without a handle, which this pool never made, is destroyed.
 *
 * The word of an inbox is its newest entry and how many there are: so the bound is exact, and
 * CLOSED, which is longer than any bound, is seen in the very compare-and-swap. Each entry keeps
 * how many there were with it, so that the owner can take over a chain without walking it.
 *
 *              acquire   release   remote    leave
 *   acquire       -         -       R/E        -     R : push, compare-and-swap on `inbox`, release
 *   release                 -        -         -     E : take all, exchange on `inbox`, acquire
 *   remote                           R        R/E    X : `taken`, release at leaving, acquire by
 * the leave                                      X         next thread: everything of the home's
 * own
 *
 * Entries are plain words: whoever has the object has its entry; R publishes it and E takes it.
 * What others had to destroy leaves an empty entry in `spares`, pushed and taken the same way.
 *
 * ABA: none. Nothing is popped from an inbox but all of it, and a push looks at nothing but the
 * word: where that came back to an equal value it is as good. Progress: acquire and release at home
 * wait-free, remote release lock-free; but for construction, and malloc for 64 entries at a time.
 * Bound: `cap` + 2 x `inbox` idle objects per thread; as many entries, of a line each, as objects
 * of the home were ever alive at once.
 */
#include <stdlib.h>

#include "../memory.h"
#include "../pool.h"
#include "../yield.h"

typedef struct owner_inbox_home owner_inbox_home;

/* A line each: neighbours are in different hands. */
typedef struct owner_inbox_entry {
    _Alignas(PB_CACHELINE) owner_inbox_home *home; /* constant */
    void *object;                   /* NULL: the end of every chain, which is in none */
    struct owner_inbox_entry *next; /* towards the end; or another without an object */
    uint64_t length;                /* of the chain that begins here, less the end */
} owner_inbox_entry;

enum { OWNER_INBOX_CHUNK = 64 };

typedef struct owner_inbox_chunk {
    struct owner_inbox_chunk *next;
    owner_inbox_entry entry[OWNER_INBOX_CHUNK];
} owner_inbox_chunk;

struct owner_inbox_home {
    owner_inbox_home *next; /* in the pool's list; constant, as the number is */
    uint64_t number;        /* from 1 on */
    pb_atomic_u32 taken;    /* 1: some thread's */
    /* the owner's */
    PB_ALIGNED pb_held *stack; /* [1 + cap]; the first is never filled */
    owner_inbox_entry *unused; /* entries without an object */
    owner_inbox_chunk *chunks;
    /* other threads' */
    PB_ALIGNED pb_atomic_u64 inbox;  /* length << 48 | newest entry, or CLOSED */
    PB_ALIGNED pb_atomic_ptr spares; /* entries whose objects others destroyed */
};

struct pb_pool {
    PB_ALIGNED pb_atomic_ptr homes; /* all there ever were, the newest first */
};

typedef struct owner_inbox_ctx {
    pb_ctx base;
    pb_held *top;             /* of the stack: where the next goes; NULL lies below the first */
    pb_held *ceiling;         /* one after its last place */
    uint64_t number;          /* of the home */
    owner_inbox_entry *chain; /* what came out of the inbox */
    uint64_t inbox;           /* bound of everybody's; constant */
    owner_inbox_home *home;   /* NULL until it constructs */
    uint64_t cap;             /* constant */
    pb_pool *pool;
} owner_inbox_ctx;

/* Below the stack of a thread without a home; nobody writes it. */
static const pb_held owner_inbox_none = {NULL, 0};

/* At the end of every chain; nobody writes it. */
static const owner_inbox_entry owner_inbox_nothing = {NULL, NULL, NULL, 0};

/* Addresses of user space have 48 bits; above them is a number or a length. */
enum { OWNER_INBOX_SHIFT = 48 };
#define OWNER_INBOX_UPPER  (UINT64_MAX << OWNER_INBOX_SHIFT)
#define OWNER_INBOX_CLOSED OWNER_INBOX_UPPER /* longer than any bound */
#define OWNER_INBOX_NOBODY UINT64_MAX        /* the number of no home */

PB_INLINE owner_inbox_entry *owner_inbox_end(void)
{
    return (owner_inbox_entry *)(uintptr_t)&owner_inbox_nothing;
}

PB_INLINE uint64_t owner_inbox_word(uint64_t upper, const owner_inbox_entry *e)
{
    return upper << OWNER_INBOX_SHIFT | (uintptr_t)e;
}

PB_INLINE uint64_t owner_inbox_upper(uint64_t word)
{
    return word >> OWNER_INBOX_SHIFT;
}

/* NULL in the handle 0, and in CLOSED. */
PB_INLINE owner_inbox_entry *owner_inbox_entry_of(uint64_t word)
{
    return (owner_inbox_entry *)(uintptr_t)(word & ~OWNER_INBOX_UPPER);
}

static pb_status owner_inbox_open(pb_pool **pool, const pb_params *params, int threads)
{
    (void)params, (void)threads;
    *pool = pb_new_padded(sizeof **pool);
    return *pool ? PB_OK : PB_NO_MEMORY;
}

static void owner_inbox_close(pb_pool *pool, pb_ctx *ctx)
{
    (void)ctx; /* idle objects went with their threads */
    owner_inbox_home *home = pb_load_acquire_ptr(&pool->homes);
    while (home) {
        owner_inbox_home *gone = home;
        home = home->next;
        while (gone->chunks) {
            owner_inbox_chunk *chunk = gone->chunks;
            gone->chunks = chunk->next;
            free(chunk);
        }
        free(gone->stack);
        free(gone);
    }
    free(pool);
}

/* ---- homes and entries ----------------------------------------------------------------------- */

/* A new one; NULL: no memory, or no number left. */
static owner_inbox_home *owner_inbox_found(pb_pool *pool, uint64_t cap)
{
    owner_inbox_home *home = pb_new_padded(sizeof *home);
    pb_held *stack = calloc(1 + cap, sizeof *stack);
    if (!home || !stack) {
        free(home);
        free(stack);
        return NULL;
    }
    home->stack = stack;
    pb_store_relaxed_u32(&home->taken, 1); /* relaxed, like the next: published below */
    pb_store_relaxed_u64(&home->inbox, OWNER_INBOX_CLOSED);
    do {
        home->next = pb_load_acquire_ptr(&pool->homes);
        home->number = home->next ? home->next->number + 1 : 1;
        PB_YIELD_POINT();
        /* release: pairs with the acquires of those who walk the list */
    } while (!pb_cas_release_ptr(&pool->homes, home->next, home));
    return home;
}

/* One that somebody left, or a new one; NULL: no memory. */
static owner_inbox_home *owner_inbox_find(pb_pool *pool, uint64_t cap)
{
    owner_inbox_home *home = pb_load_acquire_ptr(&pool->homes);
    /* relaxed: a look; acquire: pairs with the release in detach */
    while (home && (pb_load_relaxed_u32(&home->taken) || !pb_cas_acquire_u32(&home->taken, 0, 1)))
        home = home->next;
    return home ? home : owner_inbox_found(pool, cap);
}

/* From here on the thread has a home, and others may push. */
static PB_COLD void owner_inbox_settle(owner_inbox_ctx *self)
{
    owner_inbox_home *home = owner_inbox_find(self->pool, self->cap);
    if (!home)
        return;
    self->home = home;
    self->number = home->number;
    self->top = home->stack + 1;
    self->ceiling = self->top + self->cap;
    /* relaxed: who pushes looks at nothing but the word */
    pb_store_relaxed_u64(&home->inbox, owner_inbox_word(0, owner_inbox_end()));
}

static void owner_inbox_discard(owner_inbox_home *home, owner_inbox_entry *e)
{
    e->next = home->unused;
    home->unused = e;
}

static PB_COLD void owner_inbox_grow(owner_inbox_home *home)
{
    owner_inbox_chunk *chunk = pb_new_padded(sizeof *chunk);
    if (!chunk)
        return;
    if (owner_inbox_upper((uintptr_t)chunk) > 0) { /* more than 48 bits after all */
        free(chunk);
        return;
    }
    chunk->next = home->chunks;
    home->chunks = chunk;
    for (int i = OWNER_INBOX_CHUNK - 1; i >= 0; i--) {
        chunk->entry[i].home = home;
        owner_inbox_discard(home, &chunk->entry[i]);
    }
}

/* The handle of a new object; 0: no memory for an entry, so that it will not be kept. */
static PB_NOINLINE uint64_t owner_inbox_enter(owner_inbox_ctx *self, void *object)
{
    if (PB_UNLIKELY(!self->home))
        owner_inbox_settle(self);
    owner_inbox_home *home = self->home;
    if (PB_UNLIKELY(!home))
        return 0;
    if (!home->unused && pb_load_relaxed_ptr(&home->spares)) /* relaxed: a look */
        /* acquire: pairs with the release in owner_inbox_spare */
        home->unused = pb_exchange_acquire_ptr(&home->spares, NULL);
    if (PB_UNLIKELY(!home->unused))
        owner_inbox_grow(home);
    owner_inbox_entry *e = home->unused;
    if (PB_UNLIKELY(!e))
        return 0;
    home->unused = e->next;
    e->object = object;
    return owner_inbox_word(home->number, e);
}

/* Gives back the entry of an object that was destroyed away from home. */
static PB_NOINLINE void owner_inbox_spare(owner_inbox_home *home, owner_inbox_entry *e)
{
    do {
        e->next = pb_load_relaxed_ptr(&home->spares); /* relaxed: not looked at */
        PB_YIELD_POINT();
        /* release: pairs with the acquire in owner_inbox_enter */
    } while (!pb_cas_release_ptr(&home->spares, e->next, e));
}

/* ---- threads --------------------------------------------------------------------------------- */

/* Without a home, and so without room. */
static void owner_inbox_move_out(owner_inbox_ctx *self)
{
    self->home = NULL;
    self->number = OWNER_INBOX_NOBODY;
    self->top = self->ceiling = (pb_held *)(uintptr_t)&owner_inbox_none + 1;
    self->chain = owner_inbox_end();
}

static pb_status owner_inbox_attach(pb_pool *pool, pb_ctx *ctx)
{
    owner_inbox_ctx *self = (owner_inbox_ctx *)ctx;
    self->cap = (uint64_t)pb_params_get(ctx->params, "cap");
    self->inbox = (uint64_t)pb_params_get(ctx->params, "inbox");
    self->pool = pool;
    owner_inbox_move_out(self);
    return PB_OK;
}

static void owner_inbox_destroy_one(owner_inbox_ctx *self, void *object, owner_inbox_entry *e)
{
    pb_destroy(&self->base, object, self->base.workload->is, self->base.workload->args);
    owner_inbox_discard(self->home, e);
}

static void owner_inbox_destroy_chain(owner_inbox_ctx *self, owner_inbox_entry *e)
{
    while (e->object) {
        owner_inbox_entry *next = e->next;
        owner_inbox_destroy_one(self, e->object, e);
        e = next;
    }
}

static void owner_inbox_detach(pb_pool *pool, pb_ctx *ctx)
{
    (void)pool;
    owner_inbox_ctx *self = (owner_inbox_ctx *)ctx;
    owner_inbox_home *home = self->home;
    if (!home)
        return;
    /* acquire: pairs with the release in owner_inbox_push. From here on releasers destroy */
    const uint64_t word = pb_exchange_acq_rel_u64(&home->inbox, OWNER_INBOX_CLOSED);
    PB_YIELD_POINT();
    owner_inbox_destroy_chain(self, owner_inbox_entry_of(word));
    owner_inbox_destroy_chain(self, self->chain);
    for (; self->top[-1].object; self->top--)
        owner_inbox_destroy_one(self, self->top[-1].object,
                                owner_inbox_entry_of(self->top[-1].handle));
    owner_inbox_move_out(self);
    pb_store_release_u32(&home->taken, 0); /* pairs with the acquire in owner_inbox_find */
}

static uint64_t owner_inbox_idle(const pb_pool *pool, const pb_ctx *ctx)
{
    (void)pool;
    const owner_inbox_ctx *self = (const owner_inbox_ctx *)ctx;
    if (!self || !self->home)
        return 0;
    /* relaxed: only asked for at quiet points */
    const uint64_t inbox = owner_inbox_upper(pb_load_relaxed_u64(&self->home->inbox));
    return (uint64_t)(self->top - self->home->stack) - 1 + self->chain->length + inbox;
}

/* ---- acquire --------------------------------------------------------------------------------- */

/* Everything that has come in; the end when nothing has. */
PB_INLINE owner_inbox_entry *owner_inbox_take_all(const owner_inbox_ctx *self)
{
    owner_inbox_home *home = self->home;
    /* relaxed: a look, so that an empty inbox is not written */
    if (!home || owner_inbox_upper(pb_load_relaxed_u64(&home->inbox)) == 0)
        return owner_inbox_end();
    PB_YIELD_POINT();
    /* acquire: pairs with the release in owner_inbox_push */
    return owner_inbox_entry_of(
        pb_exchange_acq_rel_u64(&home->inbox, owner_inbox_word(0, owner_inbox_end())));
}

/* Out of the chain, or of the inbox, which becomes the chain. */
static PB_NOINLINE pb_got owner_inbox_fetch(owner_inbox_ctx *self)
{
    pb_outcome how = PB_LOCAL_HIT;
    owner_inbox_entry *e = self->chain;
    if (!e->object) {
        how = PB_SHARED_HIT;
        e = owner_inbox_take_all(self);
    }
    if (!e->object)
        return (pb_got){NULL, PB_CONSTRUCTED, 0};
    self->chain = e->next;
    __builtin_prefetch(e->next); /* it lies in another core's cache, and is the next to be needed */
    return (pb_got){e->object, how, owner_inbox_word(self->number, e)};
}

/* The stack was empty. */
PB_INLINE pb_got owner_inbox_refill(pb_ctx *ctx, const pb_functions *w, const pb_args *args)
{
    owner_inbox_ctx *self = (owner_inbox_ctx *)ctx;
    pb_got got = owner_inbox_fetch(self);
    if (PB_LIKELY(got.object != NULL)) {
        pb_reset_at_acquire(ctx, got.object, w, args);
        return got;
    }
    got = pb_got_constructed(ctx, w, args);
    if (PB_LIKELY(got.object != NULL))
        got.handle = owner_inbox_enter(self, got.object);
    return got;
}

PB_INLINE pb_got owner_inbox_acquire(pb_ctx *ctx, const pb_functions *w, const pb_args *args)
{
    owner_inbox_ctx *self = (owner_inbox_ctx *)ctx;
    const pb_held newest = self->top[-1];
    if (PB_UNLIKELY(newest.object == NULL))
        return owner_inbox_refill(ctx, w, args);
    self->top--;
    pb_reset_at_acquire(ctx, newest.object, w, args);
    return (pb_got){newest.object, PB_LOCAL_HIT, newest.handle};
}

/* ---- release --------------------------------------------------------------------------------- */

/* False: full, or CLOSED. */
PB_INLINE bool owner_inbox_push(owner_inbox_ctx *self, owner_inbox_home *home, owner_inbox_entry *e)
{
    uint64_t seen =
        pb_load_relaxed_u64(&home->inbox); /* relaxed: nothing is looked at through it */
    for (;;) {
        const uint64_t length = owner_inbox_upper(seen);
        if (PB_UNLIKELY(length >= self->inbox)) /* CLOSED always is */
            return false;
        e->next = owner_inbox_entry_of(seen);
        e->length = length + 1;
        PB_YIELD_POINT();
        /* release: pairs with the acquires in owner_inbox_take_all and in detach */
        if (PB_LIKELY(pb_cas_release_u64(&home->inbox, &seen, owner_inbox_word(length + 1, e))))
            return true;
        self->base.events[PB_RETRIED]++;
    }
}

/* The object is not ours: to its home, if that has room and somebody lives there. */
PB_INLINE pb_outcome owner_inbox_send(pb_ctx *ctx, const pb_held held, const pb_functions *w,
                                      const pb_args *args)
{
    owner_inbox_ctx *self = (owner_inbox_ctx *)ctx;
    owner_inbox_entry *e = owner_inbox_entry_of(held.handle);
    if (PB_UNLIKELY(e == NULL)) {
        pb_destroy(ctx, held.object, w, args);
        return PB_DESTROYED;
    }
    owner_inbox_home *home = e->home;
    pb_reset_at_release(ctx, held.object, w, args);
    if (PB_LIKELY(owner_inbox_push(self, home, e)))
        return PB_HANDED_OVER;
    pb_destroy(ctx, held.object, w, args);
    owner_inbox_spare(home, e);
    return PB_DESTROYED;
}

PB_INLINE pb_outcome owner_inbox_release(pb_ctx *ctx, const pb_held held, const pb_functions *w,
                                         const pb_args *args)
{
    owner_inbox_ctx *self = (owner_inbox_ctx *)ctx;
    if (PB_UNLIKELY(owner_inbox_upper(held.handle) != self->number))
        return owner_inbox_send(ctx, held, w, args);
    if (PB_UNLIKELY(self->top == self->ceiling)) {
        pb_destroy(ctx, held.object, w, args);
        owner_inbox_discard(self->home, owner_inbox_entry_of(held.handle));
        return PB_DESTROYED;
    }
    pb_reset_at_release(ctx, held.object, w, args);
    *self->top++ = held;
    return PB_KEPT;
}

PB_DEFINE_POOL(owner_inbox);
