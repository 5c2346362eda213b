/* SPDX-License-Identifier: MIT
 *
 * pools/magazine.c (L3) - two magazines of objects per thread, and a depot of magazines behind a
 * lock.
 *
 *   thread 0                  thread 1                    depot (lock, stock)
 *   loaded   [ o o o . ]      loaded   [ o . . . ]        full  -> [oooo] -> [oooo]
 *   previous [ . . . . ]      previous [ o o o o ]        rest  -> [oo..]  what threads left
 *                                                         empty -> [....] -> [....]
 *
 * Stands for Bonwick and Adams, "Magazines and Vmem" (USENIX 2001), in Solaris and libumem, and for
 * those after them: the sheaves and barns of Linux' SLUB, DPDK's mempool caches, tcmalloc's
 * transfer caches. Objects move between threads by the magazine: where one acquires and another
 * releases, the lock is taken once for each `rounds` objects instead of for each.
 *
 * Acquire takes the newest of the loaded magazine. That is empty: the two change places, if the
 * previous one is full; else it is traded in for a full one of the depot; else construct. Release
 * does the reverse. The previous magazine is always full or empty, and after a trade one of the two
 * is full and the other empty: a thread that sits on the border between two magazines works
 * `rounds` operations until it trades again. A full depot: the released object is destroyed, as
 * Bonwick's goes to the layer below, and the magazines stay. A thread that leaves pours what it has
 * into `rest`, while there is room.
 *
 *              acquire   release
 *   acquire       D         D        D : the lock of the depot, taken at most once in `rounds`
 *   release                 D            operations of a thread, but for magazines from `rest`, and
 *                                        twice where the depot grows. Else each its own magazines
 *
 * `stock` is read without the lock as well: a depot that has nothing, or no room, is not locked to
 * learn that. Such an answer is as good as one under the lock: whoever has seen the operation that
 * would have changed it sees its store too.
 *
 * ABA: none, the lists are changed under the lock. Progress: wait-free at hits, but for the trades,
 * which block. Bound: threads x 2 x rounds + depot x rounds idle objects. Magazines: two for each
 * thread there ever was at once, and `depot`; they stay mapped while somebody could look at them.
 */
#include <stdlib.h>

#include "../lock.h"
#include "../memory.h"
#include "../pool.h"
#include "../yield.h"

typedef struct magazine magazine;
struct magazine {
    magazine *next; /* in the depot */
    void *round[];  /* [1 + rounds], newest last; the first is NULL: where acquire sees the end */
};

struct pb_pool {
    /* constant */
    pb_lock_kind kind;
    uint32_t depot;  /* most magazines with objects in it */
    uint64_t rounds; /* objects of a full magazine */
    /* shared: the lock and what it guards travel together */
    PB_ALIGNED pb_lock lock;
    pb_atomic_u32 stock; /* magazines in `full` and `rest`; stored under the lock */
    magazine *full;      /* newest first */
    magazine *empty;
    magazine *rest;      /* one that is neither, or NULL */
    uint64_t rest_count; /* objects in it */
};

typedef struct magazine_ctx {
    pb_ctx base;
    void **top; /* of the loaded magazine: where the next object goes; the newest is below */
    void **end; /* where top is when it is full */
    magazine *loaded;
    magazine *previous;
    bool previous_full; /* else it is empty */
    uint64_t rounds;    /* constant */
    pb_pool *pool;      /* constant */
} magazine_ctx;

static magazine *magazine_new(const pb_pool *p)
{
    return pb_new_padded(sizeof(magazine) + (1 + p->rounds) * sizeof(void *));
}

static pb_status magazine_open(pb_pool **pool, const pb_params *params, int threads)
{
    (void)threads;
    pb_pool *p = pb_new_padded(sizeof *p);
    if (!p)
        return PB_NO_MEMORY;
    p->kind = (pb_lock_kind)pb_params_get(params, "lock");
    p->depot = (uint32_t)pb_params_get(params, "depot");
    p->rounds = (uint64_t)pb_params_get(params, "rounds");
    pb_lock_init(&p->lock, p->kind, (uint32_t)pb_params_get(params, "backoff"));
    *pool = p;
    return PB_OK;
}

/* ---- a thread's magazines -------------------------------------------------------------------- */

PB_INLINE uint64_t magazine_count(const magazine_ctx *self)
{
    return self->rounds - (uint64_t)(self->end - self->top);
}

PB_INLINE void magazine_load(magazine_ctx *self, magazine *m, uint64_t count)
{
    self->loaded = m;
    self->top = m->round + 1 + count;
    self->end = m->round + 1 + self->rounds;
}

/* The loaded magazine and the previous one change places; what each of them holds is known. */
PB_INLINE void magazine_swap(magazine_ctx *self, uint64_t count, bool loaded_full)
{
    magazine *m = self->previous;
    self->previous = self->loaded;
    self->previous_full = loaded_full;
    magazine_load(self, m, count);
}

/* ---- the depot, under its lock --------------------------------------------------------------- */

PB_INLINE void magazine_push(magazine **list, magazine *m)
{
    m->next = *list;
    *list = m;
}

PB_INLINE magazine *magazine_pop(magazine **list)
{
    magazine *m = *list;
    PB_YIELD_POINT(); /* the lock is all that keeps others out */
    if (m)
        *list = m->next;
    return m;
}

/* Relaxed: the lock orders what it counts; without the lock it is a hint, see the head. */
PB_INLINE uint32_t magazine_stock(const pb_pool *p)
{
    return pb_load_relaxed_u32(&p->stock);
}

/* By those who hold the lock. */
PB_INLINE void magazine_stocked(pb_pool *p, uint32_t stock)
{
    pb_store_relaxed_u32(&p->stock, stock);
}

PB_INLINE bool magazine_has_room(const pb_pool *p)
{
    return magazine_stock(p) < p->depot;
}

PB_INLINE void magazine_stock_full(pb_pool *p, magazine *m)
{
    magazine_push(&p->full, m);
    magazine_stocked(p, magazine_stock(p) + 1);
}

/* ---- trades ---------------------------------------------------------------------------------- */

/* `empty` for one with objects in it, `*count` of them; NULL when there is none. */
static magazine *magazine_trade_empty(pb_ctx *ctx, pb_pool *p, magazine *empty, uint64_t *count)
{
    if (magazine_stock(p) == 0)
        return NULL;
    PB_YIELD_POINT();
    pb_lock_acquire(&p->lock, p->kind, &ctx->lock_node);
    magazine *m = magazine_pop(&p->full);
    *count = p->rounds;
    if (!m) {
        m = p->rest;
        *count = p->rest_count;
        p->rest = NULL;
    }
    if (m) {
        magazine_push(&p->empty, empty);
        magazine_stocked(p, magazine_stock(p) - 1);
    }
    pb_lock_release(&p->lock, p->kind, &ctx->lock_node);
    return m;
}

/* `full` for an empty one: of the depot if it has one, else `fresh`. NULL when there is no room, or
   neither. */
static magazine *magazine_trade_full(pb_ctx *ctx, pb_pool *p, magazine *full, magazine *fresh)
{
    if (!magazine_has_room(p))
        return NULL;
    PB_YIELD_POINT();
    pb_lock_acquire(&p->lock, p->kind, &ctx->lock_node);
    magazine *empty = NULL;
    if (magazine_has_room(p)) {
        empty = magazine_pop(&p->empty);
        if (!empty)
            empty = fresh;
        if (empty)
            magazine_stock_full(p, full);
    }
    pb_lock_release(&p->lock, p->kind, &ctx->lock_node);
    return empty;
}

/* As above; makes an empty one, outside the lock, if the depot has room and none. */
static magazine *magazine_spill(pb_ctx *ctx, pb_pool *p, magazine *full)
{
    magazine *empty = magazine_trade_full(ctx, p, full, NULL);
    if (empty || !magazine_has_room(p))
        return empty;
    magazine *fresh = magazine_new(p);
    if (!fresh)
        return NULL;
    PB_YIELD_POINT();
    empty = magazine_trade_full(ctx, p, full, fresh);
    if (empty != fresh) /* somebody was faster */
        free(fresh);
    return empty;
}

/* The loaded magazine is empty. PB_CONSTRUCTED: it stays so. */
static PB_NOINLINE pb_outcome magazine_reload(magazine_ctx *self)
{
    if (self->previous_full) {
        magazine_swap(self, self->rounds, false);
        return PB_LOCAL_HIT;
    }
    uint64_t count = 0;
    magazine *m = magazine_trade_empty(&self->base, self->pool, self->previous, &count);
    if (!m)
        return PB_CONSTRUCTED;
    PB_YIELD_POINT();
    self->previous = self->loaded;
    magazine_load(self, m, count);
    return PB_SHARED_HIT;
}

/* The loaded magazine is full. PB_DESTROYED: it stays so. */
static PB_NOINLINE pb_outcome magazine_make_room(magazine_ctx *self)
{
    if (!self->previous_full) {
        magazine_swap(self, 0, true);
        return PB_KEPT;
    }
    magazine *m = magazine_spill(&self->base, self->pool, self->previous);
    if (!m)
        return PB_DESTROYED;
    PB_YIELD_POINT();
    self->previous = self->loaded;
    magazine_load(self, m, 0);
    return PB_SPILLED;
}

/* ---- a thread comes and leaves --------------------------------------------------------------- */

static pb_status magazine_attach(pb_pool *pool, pb_ctx *ctx)
{
    magazine_ctx *self = (magazine_ctx *)ctx;
    self->pool = pool;
    self->rounds = pool->rounds;
    pb_lock_acquire(&pool->lock, pool->kind, &ctx->lock_node);
    magazine *loaded = magazine_pop(&pool->empty);
    magazine *previous = magazine_pop(&pool->empty);
    pb_lock_release(&pool->lock, pool->kind, &ctx->lock_node);
    loaded = loaded ? loaded : magazine_new(pool);
    previous = previous ? previous : magazine_new(pool);
    if (!loaded || !previous) {
        free(loaded);
        free(previous);
        return PB_NO_MEMORY;
    }
    self->previous = previous;
    self->previous_full = false;
    magazine_load(self, loaded, 0);
    return PB_OK;
}

/* Gives the depot as many of `*count` objects as it has room for, by the magazine if it is full,
   else into `rest`; NULL: the magazine itself is the depot's now. Under the lock. */
static magazine *magazine_pour(pb_pool *p, magazine *m, uint64_t *count)
{
    if (*count == p->rounds && magazine_has_room(p)) {
        magazine_stock_full(p, m);
        return NULL;
    }
    while (*count > 0 && p->rest && p->rest_count < p->rounds)
        p->rest->round[++p->rest_count] = m->round[(*count)--];
    if (p->rest && p->rest_count == p->rounds) {
        magazine_push(&p->full, p->rest); /* it was in stock before */
        p->rest = NULL;
    }
    if (*count == 0 || p->rest || !magazine_has_room(p))
        return m;
    p->rest = m;
    p->rest_count = *count;
    magazine_stocked(p, magazine_stock(p) + 1);
    return NULL;
}

/* Destroys `count` objects and frees their magazine. */
static void magazine_end(pb_ctx *ctx, magazine *m, uint64_t count)
{
    for (uint64_t i = 1; m && i <= count; i++)
        pb_destroy(ctx, m->round[i], ctx->workload->is, ctx->workload->args);
    free(m);
}

static void magazine_detach(pb_pool *pool, pb_ctx *ctx)
{
    magazine_ctx *self = (magazine_ctx *)ctx;
    if (!self->loaded)
        return;
    uint64_t previous_count = self->previous_full ? self->rounds : 0;
    uint64_t loaded_count = magazine_count(self);
    pb_lock_acquire(&pool->lock, pool->kind, &ctx->lock_node);
    magazine *previous = magazine_pour(pool, self->previous, &previous_count);
    magazine *loaded = magazine_pour(pool, self->loaded, &loaded_count);
    pb_lock_release(&pool->lock, pool->kind, &ctx->lock_node);
    magazine_end(ctx, previous, previous_count);
    magazine_end(ctx, loaded, loaded_count);
    self->loaded = self->previous = NULL;
}

static void magazine_close(pb_pool *pool, pb_ctx *ctx)
{
    for (magazine *m; (m = magazine_pop(&pool->full)) != NULL;)
        magazine_end(ctx, m, pool->rounds);
    for (magazine *m; (m = magazine_pop(&pool->empty)) != NULL;)
        free(m);
    magazine_end(ctx, pool->rest, pool->rest_count);
    free(pool);
}

static uint64_t magazine_idle(const pb_pool *pool, const pb_ctx *ctx)
{
    const magazine_ctx *self = (const magazine_ctx *)ctx;
    if (!ctx)
        return (magazine_stock(pool) - (pool->rest != NULL)) * pool->rounds +
               (pool->rest ? pool->rest_count : 0);
    if (!self->loaded)
        return 0;
    return magazine_count(self) + (self->previous_full ? self->rounds : 0);
}

/* ---- acquire and release --------------------------------------------------------------------- */

PB_INLINE pb_got magazine_acquire(pb_ctx *ctx, const pb_functions *w, const pb_args *args)
{
    magazine_ctx *self = (magazine_ctx *)ctx;
    pb_outcome how = PB_LOCAL_HIT;
    void *object = self->top[-1];
    if (PB_UNLIKELY(object == NULL)) {
        how = magazine_reload(self);
        if (how == PB_CONSTRUCTED)
            return pb_got_constructed(ctx, w, args);
        object = self->top[-1];
    }
    self->top--;
    pb_reset_at_acquire(ctx, object, w, args);
    return (pb_got){object, how, 0};
}

PB_INLINE pb_outcome magazine_release(pb_ctx *ctx, const pb_held held, const pb_functions *w,
                                      const pb_args *args)
{
    magazine_ctx *self = (magazine_ctx *)ctx;
    pb_outcome how = PB_KEPT;
    if (PB_UNLIKELY(self->top == self->end)) {
        how = magazine_make_room(self);
        if (how == PB_DESTROYED) {
            pb_destroy(ctx, held.object, w, args);
            return PB_DESTROYED;
        }
    }
    pb_reset_at_release(ctx, held.object, w, args);
    *self->top++ = held.object;
    return how;
}

PB_DEFINE_POOL(magazine);
