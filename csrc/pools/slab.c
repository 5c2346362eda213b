/* SPDX-License-Identifier: MIT
 *
 * pools/slab.c (L3) - one block of slots per thread; objects are constructed in place each time.
 *
 *   block: [ object | next | object | next=END ]    free -> first free slot
 *           the free list lives inside the free slots
 *
 * Stands for placement-new pools, boost::pool, kernel slabs. It pools memory, not objects: every
 * acquire constructs and every release destroys, and only malloc and free are saved. Empty: acquire
 * fails. A slot goes back to the block of the thread that releases it, so objects must be released
 * by their acquirer.
 *
 * handles=1: each slot has a generation, odd while its object lives. A handle is (generation,
 * index); pb_slab_resolve and release refuse one whose object is gone.
 *
 *              acquire   release
 *   acquire       -         -        - : each thread touches its own block only
 *   release                 -
 *
 * ABA: nothing is shared; generations make stale handles visible until one slot has been used 2^31
 * times. Progress: wait-free, but for construction. Bound: `capacity` slots per thread, always.
 */
#include <stdlib.h>

#include "../memory.h"
#include "../pool.h"

enum { SLAB_ALIGN = 8 };
static const size_t SLAB_END = SIZE_MAX; /* no further free slot */

typedef struct slab_ctx {
    pb_ctx base;
    unsigned char *block;  /* capacity * stride bytes */
    size_t free;           /* offset of the first free slot, or SLAB_END */
    size_t stride;         /* bytes of a slot */
    uint32_t *generations; /* [capacity], odd while the object lives; NULL without handles */
    uint32_t capacity;     /* slots; constant */
} slab_ctx;

static pb_status slab_open(pb_pool **pool, const pb_params *params, int threads)
{
    (void)params, (void)threads;
    *pool = NULL; /* no shared part */
    return PB_OK;
}

static void slab_close(pb_pool *pool, pb_ctx *ctx)
{
    (void)pool, (void)ctx; /* blocks went with their threads */
}

/* Where a free slot keeps the offset of the next one. */
PB_INLINE size_t *slab_next(slab_ctx *self, size_t offset)
{
    return (size_t *)(void *)(self->block + offset);
}

static void slab_link_all(slab_ctx *self)
{
    for (uint32_t i = 0; i < self->capacity; i++)
        *slab_next(self, i * self->stride) =
            i + 1 < self->capacity ? (i + 1) * self->stride : SLAB_END;
}

static pb_status slab_attach(pb_pool *pool, pb_ctx *ctx)
{
    (void)pool;
    slab_ctx *self = (slab_ctx *)ctx;
    const bool handles = pb_params_get(ctx->params, "handles") != 0;
    self->capacity = (uint32_t)pb_params_get(ctx->params, "capacity");
    self->stride = (ctx->workload->args->size + SLAB_ALIGN - 1) / SLAB_ALIGN * SLAB_ALIGN;
    self->block = malloc(self->capacity * self->stride);
    self->generations = handles ? calloc(self->capacity, sizeof(uint32_t)) : NULL;
    if (!self->block || (handles && !self->generations))
        return PB_NO_MEMORY;
    slab_link_all(self);
    return PB_OK;
}

static void slab_detach(pb_pool *pool, pb_ctx *ctx)
{
    (void)pool;
    slab_ctx *self = (slab_ctx *)ctx;
    free(self->block);
    free(self->generations);
    self->block = NULL;
    self->generations = NULL;
}

static uint64_t slab_idle(const pb_pool *pool, const pb_ctx *ctx)
{
    (void)pool, (void)ctx;
    return 0; /* free slots hold no object */
}

PB_INLINE size_t slab_offset(const slab_ctx *self, const void *object)
{
    return (size_t)((const unsigned char *)object - self->block);
}

/* The generation of the slot at `offset`; a division, so only where there are handles. */
PB_INLINE uint32_t *slab_generation(const slab_ctx *self, size_t offset)
{
    return &self->generations[offset / self->stride];
}

/* The handle of the live object at `offset`: its slot's generation above its index. */
PB_INLINE uint64_t slab_handle(const slab_ctx *self, size_t offset)
{
    const size_t index = offset / self->stride;
    return (uint64_t)self->generations[index] << 32 | index;
}

/* The object of a handle, or NULL when it is gone or never was. */
void *pb_slab_resolve(pb_ctx *ctx, uint64_t handle);
void *pb_slab_resolve(pb_ctx *ctx, uint64_t handle)
{
    slab_ctx *self = (slab_ctx *)ctx;
    const uint32_t index = (uint32_t)handle, generation = (uint32_t)(handle >> 32);
    if (index >= self->capacity || generation % 2 == 0 || self->generations[index] != generation)
        return NULL;
    return self->block + index * self->stride;
}

PB_INLINE pb_got slab_acquire(pb_ctx *ctx, const pb_functions *w, const pb_args *args)
{
    slab_ctx *self = (slab_ctx *)ctx;
    const size_t offset = self->free;
    if (PB_UNLIKELY(offset == SLAB_END))
        return (pb_got){NULL, PB_FAILED, 0};
    void *object = self->block + offset;
    const size_t next = *slab_next(self, offset);
    pb_clobber(); /* the link is read before the constructor writes over it */
    if (PB_UNLIKELY(!pb_construct_at(ctx, object, w, args))) {
        *slab_next(self, offset) = next;
        return (pb_got){NULL, PB_FAILED, 0};
    }
    self->free = next;
    if (!self->generations)
        return (pb_got){object, PB_LOCAL_HIT, 0};
    (*slab_generation(self, offset))++;
    return (pb_got){object, PB_LOCAL_HIT, slab_handle(self, offset)};
}

PB_INLINE pb_outcome slab_release(pb_ctx *ctx, const pb_held held, const pb_functions *w,
                                  const pb_args *args)
{
    void *object = held.object;
    slab_ctx *self = (slab_ctx *)ctx;
    const size_t offset = slab_offset(self, object);
    if (self->generations && PB_UNLIKELY(pb_slab_resolve(ctx, held.handle) != object))
        return PB_REFUSED;
    pb_destroy_at(ctx, object, w, args);
    if (self->generations)
        (*slab_generation(self, offset))++;
    pb_clobber(); /* the object's last store comes before the link that overwrites it */
    *slab_next(self, offset) = self->free;
    self->free = offset;
    return PB_KEPT;
}

PB_DEFINE_POOL(slab);
