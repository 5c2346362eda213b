/* SPDX-License-Identifier: MIT
 *
 * workloads/widget.h (L2) - a small object with a real constructor and destructor.
 *
 * 56 bytes: the constructor fills 28 of them and a tag, the destructor clears the tag, use reads
 * it. The object of placement-new slabs: what differs between a slab and malloc is the memory
 * alone, for construction and destruction run in full either way.
 */
#ifndef PB_WORKLOADS_WIDGET_H
#define PB_WORKLOADS_WIDGET_H

#include <stdlib.h>
#include <string.h>

#include "../workload.h"

enum { WIDGET_FILLED = 28, WIDGET_TAG = 0x57494447 };

typedef struct widget_object {
    uint32_t tag;                        /* WIDGET_TAG while it lives */
    unsigned char filled[WIDGET_FILLED]; /* written by the constructor */
    unsigned char rest[24];              /* room for its life */
} widget_object;

_Static_assert(sizeof(widget_object) == 56, "the size is part of the experiment");

static PB_COLD pb_status widget_open(pb_args *args, const pb_params *params, uint64_t spin_per_ms,
                                     pb_error *error)
{
    (void)error; /* every combination of values makes an object */
    (void)params, (void)spin_per_ms;
    args->size = args->idle_hidden = args->block = sizeof(widget_object);
    return PB_OK;
}

static PB_COLD void widget_close(pb_args *args)
{
    (void)args; /* nothing shared */
}

PB_INLINE bool widget_init(pb_ctx *ctx, void *memory, const pb_args args)
{
    (void)ctx, (void)args;
    widget_object *o = memory;
    memset(o->filled, 7, sizeof o->filled);
    o->tag = WIDGET_TAG;
    return true;
}

PB_INLINE void widget_fini(pb_ctx *ctx, void *object, const pb_args args)
{
    (void)ctx, (void)args;
    ((widget_object *)object)->tag = 0;
    pb_clobber(); /* or the store is dead before free */
}

PB_INLINE void *widget_construct(pb_ctx *ctx, const pb_args args)
{
    return pb_allocate_and(widget_init, ctx, args);
}

PB_INLINE void widget_destroy(pb_ctx *ctx, void *object, const pb_args args)
{
    widget_fini(ctx, object, args);
    free(object);
}

PB_INLINE void widget_reset(pb_ctx *ctx, void *object, const pb_args args)
{
    (void)ctx, (void)object, (void)args; /* has_reset is false: never called */
}

PB_INLINE uint64_t widget_use(pb_ctx *ctx, void *object, const pb_args args)
{
    (void)ctx, (void)args;
    return ((const widget_object *)object)->tag;
}

PB_INLINE bool widget_is_clean(const void *object, const pb_args args)
{
    (void)object, (void)args;
    return true; /* use only reads */
}

#endif
