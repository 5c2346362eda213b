/* SPDX-License-Identifier: MIT
 *
 * pools/arena.c (L3) - chunks per thread, filled by moving a pointer; all comes back at once.
 *
 *   first:   [ o o o o o o o o ]
 *   current: [ o o o o . . . . ]     bump -> the first free byte; releases only count
 *
 * Stands for nginx's and APR's pools and protobuf's arenas: memory of one request, given up as a
 * whole. Every acquire constructs in place. When everything the thread took is back, which is the
 * end of a burst, all objects are destroyed in place, oldest first, and the pointer goes back to
 * the beginning; `retain` chunks stay, the others are freed. A thread that always holds something
 * never gets there and grows without end: hence for patterns that make bursts only. Objects must be
 * released by their acquirer; what counts as a miss is an acquire that had to fetch a chunk.
 *
 *              acquire   release
 *   acquire       -         -        - : each thread touches its own chunks only
 *   release                 -
 *
 * ABA: nothing is shared. Progress: wait-free, but for construction, for fetching a chunk, and for
 * the release that ends a burst, which destroys all of it. Bound: no object is idle once everything
 * is back; until then those released wait to be destroyed and count as idle. Memory: the largest
 * burst in whole chunks, and `retain` chunks between bursts, per thread; a chunk holds at least one
 * object.
 */
#include <stdlib.h>

#include "../pool.h"

enum { ARENA_ALIGN = 8 };

typedef struct arena_chunk arena_chunk;

struct arena_chunk {
    _Alignas(16) arena_chunk *next; /* filled after this one; NULL: none yet */
    unsigned char memory[];         /* whole objects */
};

typedef struct arena_ctx {
    pb_ctx base;
    unsigned char *bump;  /* where the next object goes */
    unsigned char *end;   /* of the current chunk's memory */
    uint64_t out;         /* objects with their borrower */
    size_t stride;        /* bytes from one object to the next; constant */
    size_t bytes;         /* of a chunk's memory; constant */
    arena_chunk *first;   /* NULL until the first acquire, or if nothing is retained */
    arena_chunk *current; /* NULL: none is open */
    uint64_t retain;      /* chunks kept between bursts; constant */
} arena_ctx;

static pb_status arena_open(pb_pool **pool, const pb_params *params, int threads)
{
    (void)params, (void)threads;
    *pool = NULL; /* no shared part */
    return PB_OK;
}

static void arena_close(pb_pool *pool, pb_ctx *ctx)
{
    (void)pool, (void)ctx; /* chunks went with their threads */
}

static pb_status arena_attach(pb_pool *pool, pb_ctx *ctx)
{
    (void)pool;
    arena_ctx *self = (arena_ctx *)ctx;
    const size_t chunk = (size_t)pb_params_get(ctx->params, "chunk");
    self->stride = (ctx->workload->args->size + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    self->bytes = chunk < self->stride ? self->stride : chunk / self->stride * self->stride;
    self->retain = (uint64_t)pb_params_get(ctx->params, "retain");
    return PB_OK;
}

/* Frees this chunk and all behind it. */
static void arena_free_from(arena_chunk *chunk)
{
    while (chunk) {
        arena_chunk *next = chunk->next;
        free(chunk);
        chunk = next;
    }
}

static void arena_detach(pb_pool *pool, pb_ctx *ctx)
{
    (void)pool;
    arena_ctx *self = (arena_ctx *)ctx;
    arena_free_from(self->first); /* empty: everything was released by its acquirer, by us */
    self->first = self->current = NULL;
    self->bump = self->end = NULL;
}

/* The end of what is filled of a chunk. */
PB_INLINE unsigned char *arena_filled(const arena_ctx *self, arena_chunk *chunk)
{
    return chunk == self->current ? self->bump : chunk->memory + self->bytes;
}

static uint64_t arena_idle(const pb_pool *pool, const pb_ctx *ctx)
{
    (void)pool;
    const arena_ctx *self = (const arena_ctx *)ctx;
    if (!self || !self->current)
        return 0;
    uint64_t made = 0;
    for (arena_chunk *c = self->first; c; c = c == self->current ? NULL : c->next)
        made += (uint64_t)(arena_filled(self, c) - c->memory) / self->stride;
    return made - self->out;
}

static void arena_enter(arena_ctx *self, arena_chunk *chunk)
{
    self->current = chunk;
    self->bump = chunk ? chunk->memory : NULL;
    self->end = chunk ? chunk->memory + self->bytes : NULL;
}

/* The current chunk is full: goes on to the next, a retained one or one that is fetched. */
static PB_NOINLINE pb_outcome arena_advance(arena_ctx *self)
{
    arena_chunk **next = self->current ? &self->current->next : &self->first;
    const bool retained = *next != NULL;
    if (!retained) {
        *next = pb_launder(malloc(sizeof(arena_chunk) + self->bytes));
        if (!*next)
            return PB_FAILED;
        (*next)->next = NULL;
    }
    arena_enter(self, *next);
    return retained ? PB_LOCAL_HIT : PB_CONSTRUCTED;
}

/* Everything is destroyed: frees what is not to be retained, and begins anew. */
static PB_NOINLINE void arena_rewind(arena_ctx *self)
{
    arena_chunk **end = &self->first;
    for (uint64_t i = 0; i < self->retain && *end; i++)
        end = &(*end)->next;
    arena_free_from(*end);
    *end = NULL;
    arena_enter(self, self->first);
}

/* The burst is over. */
PB_INLINE void arena_reset(arena_ctx *self, const pb_functions *w, const pb_args *args)
{
    pb_ctx *ctx = &self->base;
    const size_t stride = self->stride;
    for (arena_chunk *c = self->first; c; c = c == self->current ? NULL : c->next) {
        unsigned char *const filled = arena_filled(self, c);
        for (unsigned char *at = c->memory; at != filled; at += stride)
            pb_destroy_at(ctx, at, w, args);
    }
    if (PB_LIKELY(self->current == self->first && self->retain > 0))
        self->bump = self->first->memory; /* no chunk was added */
    else
        arena_rewind(self);
}

PB_INLINE pb_got arena_acquire(pb_ctx *ctx, const pb_functions *w, const pb_args *args)
{
    arena_ctx *self = (arena_ctx *)ctx;
    pb_outcome how = PB_LOCAL_HIT;
    if (PB_UNLIKELY(self->bump == self->end))
        how = arena_advance(self);
    if (PB_UNLIKELY(how == PB_FAILED))
        return (pb_got){NULL, PB_FAILED, 0};
    void *object = self->bump;
    if (PB_UNLIKELY(!pb_construct_at(ctx, object, w, args)))
        return (pb_got){NULL, PB_FAILED, 0};
    self->bump += self->stride;
    self->out++;
    return (pb_got){object, how, 0};
}

PB_INLINE pb_outcome arena_release(pb_ctx *ctx, const pb_held held, const pb_functions *w,
                                   const pb_args *args)
{
    arena_ctx *self = (arena_ctx *)ctx;
    pb_reset_at_release(ctx, held.object, w, args); /* resets none; hides it from its borrower */
    if (PB_UNLIKELY(--self->out == 0))
        arena_reset(self, w, args);
    return PB_KEPT;
}

PB_DEFINE_POOL(arena);
