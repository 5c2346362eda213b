/* SPDX-License-Identifier: MIT - see ledger.h */
#define _GNU_SOURCE
#include "ledger.h"

#include <dlfcn.h>
#include <string.h>

static int (*set_owner)(int);
static void (*read_counts)(pb_counts *);
static _Thread_local pb_ctx *current; /* set by pb_ledger_enter, on threads of counted replicates */

bool pb_ledger_present(void)
{
    void *found[] = {dlsym(RTLD_DEFAULT, "pb_count_set_owner"),
                     dlsym(RTLD_DEFAULT, "pb_count_read")};
    memcpy(&set_owner, &found[0], sizeof set_owner); /* ISO C has no cast from void * to function */
    memcpy(&read_counts, &found[1], sizeof read_counts);
    return set_owner && read_counts;
}

void pb_ledger_own(pb_owner owner)
{
    if (set_owner)
        (void)set_owner(owner); /* who was owner before matters only to swap() */
}

void pb_ledger_read(pb_counts *out)
{
    memset(out, 0, sizeof *out);
    if (read_counts)
        read_counts(out);
}

void pb_ledger_enter(pb_ctx *ctx)
{
    current = ctx;
}

/* ---- the wrapped calls: context is the inner workload ------------------------------------------
 */

static int to_workload(void)
{
    return set_owner(PB_OWNER_WORKLOAD);
}

static void *counted_construct(void *context)
{
    const pb_workload *w = context;
    const int before = to_workload();
    void *object = w->is->construct(current, *w->args);
    (void)set_owner(before);
    return object;
}

static void counted_destroy(void *object, void *context)
{
    const pb_workload *w = context;
    const int before = to_workload();
    w->is->destroy(current, object, *w->args);
    (void)set_owner(before);
}

static uint64_t counted_use(void *object, void *context)
{
    const pb_workload *w = context;
    const int before = to_workload();
    const uint64_t result = w->is->use(current, object, *w->args);
    (void)set_owner(before);
    return result;
}

static void counted_reset(void *object, void *context)
{
    const pb_workload *w = context;
    const int before = to_workload();
    w->is->reset(current, object, *w->args);
    (void)set_owner(before);
}

static bool counted_init(void *memory, void *context)
{
    const pb_workload *w = context;
    const int before = to_workload();
    const bool made = w->is->init(current, memory, *w->args);
    (void)set_owner(before);
    return made;
}

static void counted_fini(void *object, void *context)
{
    const pb_workload *w = context;
    const int before = to_workload();
    w->is->fini(current, object, *w->args);
    (void)set_owner(before);
}

static int counted_is_clean(const void *object, void *context)
{
    const pb_workload *w = context;
    return w->is->is_clean(object, *w->args);
}

void pb_ledger_wrap(pb_args *args, table_shared *shared, const pb_workload *inner)
{
    union {
        const void *from;
        void *to;
    } context = {.from = inner}; /* the table's context is not const; these calls only read it */
    *shared = (table_shared){.calls = {.abi = POOLBENCH_ABI,
                                       .table_size = sizeof(poolbench_workload),
                                       .context = context.to,
                                       .construct = counted_construct,
                                       .destroy = counted_destroy,
                                       .use = counted_use,
                                       .reset = counted_reset,
                                       .is_clean = counted_is_clean},
                             .init = counted_init,
                             .fini = counted_fini};
    *args = (pb_args){.size = inner->args->size,
                      .idle_hidden = inner->args->idle_hidden,
                      .shared = shared,
                      .extras = inner->args->extras,
                      .has_reset = inner->args->has_reset,
                      .predicted = inner->args->predicted};
}
