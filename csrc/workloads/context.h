/* SPDX-License-Identifier: MIT
 *
 * workloads/context.h (L2) - a request context: 256 bytes, five pointers, reset by clearing fields.
 *
 * The object services pool most: cheap to make, and dangerous to reuse, for a field that reset
 * forgets is the last request's data. Construct zeroes it, use fills and reads what a router would,
 * reset clears all of it.
 */
#ifndef PB_WORKLOADS_CONTEXT_H
#define PB_WORKLOADS_CONTEXT_H

#include <stdlib.h>
#include <string.h>

#include "../workload.h"

typedef struct context_object {
    const void *user, *device, *topic, *payload, *reply; /* what the request points to */
    uint64_t deadline;
    uint32_t route, priority;
    unsigned char scratch[200];
} context_object;

_Static_assert(sizeof(context_object) == 256, "the size is part of the experiment");

static PB_COLD pb_status context_open(pb_args *args, const pb_params *params, uint64_t spin_per_ms,
                                      pb_error *error)
{
    (void)error; /* every combination of values makes an object */
    (void)params, (void)spin_per_ms;
    args->size = args->idle_hidden = args->block = sizeof(context_object);
    args->has_reset = true;
    return PB_OK;
}

static PB_COLD void context_close(pb_args *args)
{
    (void)args; /* nothing shared */
}

PB_INLINE bool context_init(pb_ctx *ctx, void *memory, const pb_args args)
{
    (void)ctx, (void)args;
    memset(memory, 0, sizeof(context_object));
    return true;
}

PB_INLINE void context_fini(pb_ctx *ctx, void *object, const pb_args args)
{
    (void)ctx, (void)object, (void)args; /* it owns nothing it points to */
}

PB_INLINE void *context_construct(pb_ctx *ctx, const pb_args args)
{
    return pb_allocate_and(context_init, ctx, args);
}

PB_INLINE void context_destroy(pb_ctx *ctx, void *object, const pb_args args)
{
    context_fini(ctx, object, args);
    free(object);
}

PB_INLINE void context_reset(pb_ctx *ctx, void *object, const pb_args args)
{
    (void)ctx, (void)args;
    memset(object, 0, sizeof(context_object));
}

PB_INLINE uint64_t context_use(pb_ctx *ctx, void *object, const pb_args args)
{
    (void)args;
    context_object *c = object;
    c->user = c->device = c->topic = c->payload = c->reply = ctx;
    c->deadline += 1;
    c->route += 3;
    c->priority = 1;
    pb_clobber(); /* or the reads below are folded into the stores */
    return (uint64_t)c->route + c->priority;
}

PB_INLINE bool context_is_clean(const void *object, const pb_args args)
{
    (void)args;
    static const context_object clean;
    return memcmp(object, &clean, sizeof clean) == 0;
}

#endif
