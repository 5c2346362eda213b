/* SPDX-License-Identifier: MIT
 *
 * workloads/table.h (L2) - objects behind a table of functions: users' own, and counted ones.
 *
 * Calls go through pointers, a few nanoseconds each and the same for every pool. For objects that
 * cost hundreds of nanoseconds that is nothing; for cheap ones it flatters nobody, but blurs. The
 * ledger pass runs its workload through here too (ledger.c), where nothing is timed.
 */
#ifndef PB_WORKLOADS_TABLE_H
#define PB_WORKLOADS_TABLE_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../poolbench.h"
#include "../workload.h"

typedef struct table_shared {
    poolbench_workload calls;                  /* a copy, complete */
    bool (*init)(void *memory, void *context); /* NULL for users' tables: not in place */
    void (*fini)(void *object, void *context); /* as init */
    void *library;                             /* for dlclose; NULL: not from a file */
} table_shared;

/* Copies a table as far as it goes; false when it is of another ABI or lacks a function. */
static PB_COLD bool table_copy(poolbench_workload *to, const poolbench_workload *from)
{
    if (from->abi != POOLBENCH_ABI || from->table_size < offsetof(poolbench_workload, reset))
        return false;
    memset(to, 0, sizeof *to);
    memcpy(to, from, from->table_size < sizeof *to ? from->table_size : sizeof *to);
    return to->construct && to->destroy && to->use;
}

static PB_COLD pb_status table_fail(table_shared *s, pb_error *error, const char *text,
                                    const char *value)
{
    (void)snprintf(error->text, sizeof error->text, "%s '%s'", text, value);
    if (s->library)
        (void)dlclose(s->library); /* nothing of it is in use */
    free(s);
    return PB_BAD_VALUE;
}

static PB_COLD pb_status table_open(pb_args *args, const pb_params *params, uint64_t spin_per_ms,
                                    pb_error *error)
{
    (void)spin_per_ms; /* nothing here spins */
    const char *file = pb_params_text(params, "library");
    const char *symbol = pb_params_text(params, "symbol");
    table_shared *s = calloc(1, sizeof *s);
    if (!s)
        return PB_NO_MEMORY;
    s->library = file[0] ? dlopen(file, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!s->library)
        return table_fail(s, error, "table: cannot load library", file);
    const poolbench_workload *found = dlsym(s->library, symbol);
    if (!found)
        return table_fail(s, error, "table: the library has no symbol", symbol);
    if (!table_copy(&s->calls, found))
        return table_fail(s, error, "table: another ABI, or functions missing, in", symbol);
    args->shared = s;
    args->has_reset = s->calls.reset != NULL;
    args->predicted = s->calls.object_size;
    return PB_OK;
}

static PB_COLD void table_close(pb_args *args)
{
    table_shared *s = args->shared;
    if (s->library)
        (void)dlclose(s->library); /* a failure would only leave it mapped */
    free(s);
    args->shared = NULL;
}

PB_INLINE void *table_construct(pb_ctx *ctx, const pb_args args)
{
    (void)ctx;
    const table_shared *s = args.shared;
    return s->calls.construct(s->calls.context);
}

PB_INLINE void table_destroy(pb_ctx *ctx, void *object, const pb_args args)
{
    (void)ctx;
    const table_shared *s = args.shared;
    s->calls.destroy(object, s->calls.context);
}

PB_INLINE bool table_init(pb_ctx *ctx, void *memory, const pb_args args)
{
    (void)ctx;
    const table_shared *s = args.shared;
    return s->init(memory, s->calls.context);
}

PB_INLINE void table_fini(pb_ctx *ctx, void *object, const pb_args args)
{
    (void)ctx;
    const table_shared *s = args.shared;
    s->fini(object, s->calls.context);
}

PB_INLINE void table_reset(pb_ctx *ctx, void *object, const pb_args args)
{
    (void)ctx;
    const table_shared *s = args.shared;
    s->calls.reset(object, s->calls.context);
}

PB_INLINE uint64_t table_use(pb_ctx *ctx, void *object, const pb_args args)
{
    (void)ctx;
    const table_shared *s = args.shared;
    return s->calls.use(object, s->calls.context);
}

/* Unknown counts as clean. */
PB_INLINE bool table_is_clean(const void *object, const pb_args args)
{
    const table_shared *s = args.shared;
    return !s->calls.is_clean || s->calls.is_clean(object, s->calls.context) != 0;
}

#endif
