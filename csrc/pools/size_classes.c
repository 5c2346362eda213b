/* SPDX-License-Identifier: MIT
 *
 * pools/size_classes.c (L3) - a pool per power-of-two size: a shelf per thread, and a shared stack.
 *
 *   class      thread 0       thread 1       shared (a lock each)
 *   16 B       [ . . ]        [ . . ]        lock | [ . . . . ]
 *   32 B       [ o o ]        [ o . ]        lock | [ o o . . ]
 *   ...
 *   largest    [ . . ]        [ . . ]        lock | [ . . . . ]
 *
 * Stands for ArrayPool.Shared of .NET (SharedArrayPool.cs: one slot per thread and class, below it
 * locked stacks per class; the array that was in the slot goes down, the newest stays) and for
 * Netty's PooledByteBufAllocator (an array per thread and class). .NET has a stack per core and
 * tries them all; here it is one.
 *
 * The pool owns the memory and gives out blocks of its class's size, in which objects are
 * constructed at their own: what lies between the two sizes is wasted, up to half of a block, and
 * what idles in one class cannot serve another. Larger objects than the class of `largest`, and
 * those of unknown size, are constructed and destroyed each time, in memory of their own. The class
 * is that of the size at acquire, and travels with the object; an object that comes without one is
 * not of this pool, and is destroyed.
 *
 * A full shelf gives its newest object to the shared stack, one lock for one object; an empty one
 * takes one from there. In a hand-off every operation takes the lock: compare magazine, which moves
 * many at once.
 *
 *              acquire   release
 *   acquire       C         C        C : the lock of the class, where the thread's shelf is empty
 *   release                 C            or full; else each its own shelf
 *
 * `count` is read without the lock as well: a stack that is empty, or full, is not locked to learn
 * that. Such an answer is as good as one under the lock: whoever has seen the operation that would
 * have changed it sees its store too.
 *
 * ABA: none, stacks are changed under their locks. Progress: wait-free at local hits, else
 * blocking. Bound: `cap` idle objects per thread and class, and `capacity` per class.
 */
#include <stdlib.h>

#include "../lock.h"
#include "../memory.h"
#include "../pool.h"
#include "../yield.h"

/* A class is known by the number of the highest bit in `size - 1` of its objects: FIRST for 16
   bytes and less, the next for up to 32 ... There are shelves for all numbers, so that none has to
   be looked at; 0, which comes with objects that are not of this pool, 63, which is unknown sizes,
   and those above the class of `largest` keep nothing. */
enum { SIZE_CLASSES_NONE = 0, SIZE_CLASSES_FIRST = 3, SIZE_CLASSES_NUMBERS = 64 };

typedef struct size_class {
    PB_ALIGNED pb_lock lock;
    pb_atomic_u32 count; /* stored under the lock */
    void **idle;         /* [capacity], newest last; constant */
} size_class;

struct pb_pool {
    pb_lock_kind kind;
    uint32_t capacity;
    uint32_t end;       /* numbers FIRST ... end - 1 keep objects */
    size_class class[]; /* [end], by number */
};

/* One thread's part. Where its idle objects of a class end: `top` is where the next one goes, the
   newest is below, or NULL when there is none; `end` is where top is when the shelf is full.
   Shelves of classes that keep nothing are always both empty and full. */
typedef struct size_classes_ctx {
    pb_ctx base;
    void **top[SIZE_CLASSES_NUMBERS];
    void **end[SIZE_CLASSES_NUMBERS];
    pb_pool *pool; /* constant */
    uint64_t cap;  /* constant: objects on a shelf */
    void **places; /* [classes][1 + cap], the first of each is NULL */
    void *nothing; /* NULL: what lies below the top of shelves that keep nothing */
} size_classes_ctx;

PB_INLINE uint64_t size_classes_number(size_t size)
{
    const uint64_t last_byte = ((uint64_t)size - 1) | ((1u << (SIZE_CLASSES_FIRST + 1)) - 1);
    return 63 ^ (uint64_t)__builtin_clzll(last_byte); /* 63 ^: one instruction */
}

PB_INLINE size_t size_classes_block(uint64_t number)
{
    return (size_t)2 << number;
}

PB_INLINE bool size_classes_keeps(const pb_pool *p, uint64_t number)
{
    return number >= SIZE_CLASSES_FIRST && number < p->end;
}

static void size_classes_free(pb_pool *p)
{
    for (uint32_t i = SIZE_CLASSES_FIRST; i < p->end; i++)
        free(p->class[i].idle);
    free(p);
}

static pb_status size_classes_open(pb_pool **pool, const pb_params *params, int threads)
{
    (void)threads;
    const uint64_t end = 1 + size_classes_number((size_t)pb_params_get(params, "largest"));
    pb_pool *p = pb_new_padded(sizeof *p + end * sizeof(size_class));
    if (!p)
        return PB_NO_MEMORY;
    p->kind = (pb_lock_kind)pb_params_get(params, "lock");
    p->capacity = (uint32_t)pb_params_get(params, "capacity");
    p->end = (uint32_t)end;
    bool whole = true;
    for (uint64_t i = SIZE_CLASSES_FIRST; i < end; i++) {
        pb_lock_init(&p->class[i].lock, p->kind, (uint32_t)pb_params_get(params, "backoff"));
        p->class[i].idle = pb_new_padded(p->capacity * sizeof(void *));
        whole = whole && p->class[i].idle;
    }
    if (!whole) {
        size_classes_free(p);
        return PB_NO_MEMORY;
    }
    *pool = p;
    return PB_OK;
}

/* ---- objects and their blocks ---------------------------------------------------------------- */

PB_INLINE pb_got size_classes_construct(pb_ctx *ctx, uint64_t number, const pb_functions *w,
                                        const pb_args *args)
{
    if (!size_classes_keeps(((size_classes_ctx *)ctx)->pool, number))
        return pb_got_constructed(ctx, w, args);
    void *block = pb_launder(malloc(size_classes_block(number)));
    if (PB_LIKELY(block != NULL) && PB_LIKELY(pb_construct_at(ctx, block, w, args)))
        return (pb_got){block, PB_CONSTRUCTED, number};
    free(block);
    return (pb_got){NULL, PB_FAILED, SIZE_CLASSES_NONE};
}

PB_INLINE void size_classes_destroy(pb_ctx *ctx, const pb_pool *p, const pb_held held,
                                    const pb_functions *w, const pb_args *args)
{
    if (!size_classes_keeps(p, held.handle)) {
        pb_destroy(ctx, held.object, w, args);
        return;
    }
    pb_destroy_at(ctx, held.object, w, args);
    free(held.object);
}

/* ---- shared stacks --------------------------------------------------------------------------- */

/* Relaxed: the lock orders what it counts; without the lock it is a hint, see the head. */
PB_INLINE uint32_t size_classes_count(const size_class *c)
{
    return pb_load_relaxed_u32(&c->count);
}

/* NULL when there is none. */
static PB_NOINLINE void *size_classes_take(size_classes_ctx *self, uint64_t number)
{
    pb_pool *p = self->pool;
    if (!size_classes_keeps(p, number) || size_classes_count(&p->class[number]) == 0)
        return NULL;
    size_class *c = &p->class[number];
    void *object = NULL;
    PB_YIELD_POINT();
    pb_lock_acquire(&c->lock, p->kind, &self->base.lock_node);
    const uint32_t count = size_classes_count(c);
    if (count > 0) {
        object = c->idle[count - 1];
        PB_YIELD_POINT();                           /* the lock is all that keeps others out */
        pb_store_relaxed_u32(&c->count, count - 1); /* relaxed: published by the lock */
    }
    pb_lock_release(&c->lock, p->kind, &self->base.lock_node);
    return object;
}

/* False when there is no room. */
static bool size_classes_give(pb_ctx *ctx, pb_pool *p, uint64_t number, void *object)
{
    size_class *c = &p->class[number];
    if (size_classes_count(c) == p->capacity)
        return false;
    PB_YIELD_POINT();
    pb_lock_acquire(&c->lock, p->kind, &ctx->lock_node);
    const uint32_t count = size_classes_count(c);
    const bool room = count < p->capacity;
    if (room) {
        c->idle[count] = object;
        PB_YIELD_POINT();                           /* as above */
        pb_store_relaxed_u32(&c->count, count + 1); /* relaxed: published by the lock */
    }
    pb_lock_release(&c->lock, p->kind, &ctx->lock_node);
    return room;
}

/* The shelf is full. PB_DESTROYED: it stays so. */
static PB_NOINLINE pb_outcome size_classes_make_room(size_classes_ctx *self, uint64_t number)
{
    if (!size_classes_keeps(self->pool, number) ||
        !size_classes_give(&self->base, self->pool, number, self->top[number][-1]))
        return PB_DESTROYED;
    PB_YIELD_POINT();
    self->top[number]--;
    return PB_SPILLED;
}

/* ---- a thread comes and leaves --------------------------------------------------------------- */

static pb_status size_classes_attach(pb_pool *pool, pb_ctx *ctx)
{
    size_classes_ctx *self = (size_classes_ctx *)ctx;
    self->pool = pool;
    self->cap = (uint64_t)pb_params_get(ctx->params, "cap");
    self->places =
        pb_new_padded((pool->end - SIZE_CLASSES_FIRST) * (1 + self->cap) * sizeof(void *));
    if (!self->places)
        return PB_NO_MEMORY;
    for (uint64_t i = 0; i < SIZE_CLASSES_NUMBERS; i++) {
        const bool keeps = size_classes_keeps(pool, i);
        void **top = keeps ? self->places + (i - SIZE_CLASSES_FIRST) * (1 + self->cap) + 1
                           : &self->nothing + 1;
        self->top[i] = top;
        self->end[i] = keeps ? top + self->cap : top;
    }
    return PB_OK;
}

static void size_classes_detach(pb_pool *pool, pb_ctx *ctx)
{
    size_classes_ctx *self = (size_classes_ctx *)ctx;
    const pb_workload *w = ctx->workload;
    for (uint64_t i = SIZE_CLASSES_FIRST; self->places && i < pool->end; i++)
        for (void *object; (object = self->top[i][-1]) != NULL; self->top[i]--)
            if (!size_classes_give(ctx, pool, i, object))
                size_classes_destroy(ctx, pool, (pb_held){object, i}, w->is, w->args);
    free(self->places);
    self->places = NULL;
}

static void size_classes_close(pb_pool *pool, pb_ctx *ctx)
{
    const pb_workload *w = ctx->workload;
    for (uint32_t i = SIZE_CLASSES_FIRST; i < pool->end; i++) {
        const size_class *c = &pool->class[i];
        for (uint32_t k = size_classes_count(c); k > 0; k--)
            size_classes_destroy(ctx, pool, (pb_held){c->idle[k - 1], i}, w->is, w->args);
    }
    size_classes_free(pool);
}

static uint64_t size_classes_idle(const pb_pool *pool, const pb_ctx *ctx)
{
    const size_classes_ctx *self = (const size_classes_ctx *)ctx;
    uint64_t idle = 0;
    for (uint32_t i = SIZE_CLASSES_FIRST; i < pool->end; i++)
        if (!ctx)
            idle += size_classes_count(&pool->class[i]);
        else if (self->places)
            idle += self->cap - (uint64_t)(self->end[i] - self->top[i]);
    return idle;
}

/* ---- acquire and release --------------------------------------------------------------------- */

PB_INLINE pb_got size_classes_acquire(pb_ctx *ctx, const pb_functions *w, const pb_args *args)
{
    size_classes_ctx *self = (size_classes_ctx *)ctx;
    /* settled: that all objects of a loop are of one size is not for the pool to know */
    const uint64_t number = size_classes_number(pb_settle(args->size));
    pb_outcome how = PB_LOCAL_HIT;
    void *object = self->top[number][-1];
    if (PB_LIKELY(object != NULL)) {
        self->top[number]--;
    } else {
        object = size_classes_take(self, number);
        if (!object)
            return size_classes_construct(ctx, number, w, args);
        how = PB_SHARED_HIT;
    }
    pb_reset_at_acquire(ctx, object, w, args);
    return (pb_got){object, how, number};
}

PB_INLINE pb_outcome size_classes_release(pb_ctx *ctx, const pb_held held, const pb_functions *w,
                                          const pb_args *args)
{
    size_classes_ctx *self = (size_classes_ctx *)ctx;
    pb_outcome how = PB_KEPT;
    if (PB_UNLIKELY(self->top[held.handle] == self->end[held.handle])) {
        how = size_classes_make_room(self, held.handle);
        if (how == PB_DESTROYED) {
            size_classes_destroy(ctx, self->pool, held, w, args);
            return PB_DESTROYED;
        }
    }
    pb_reset_at_release(ctx, held.object, w, args);
    *self->top[held.handle]++ = held.object;
    return how;
}

PB_DEFINE_POOL(size_classes);
