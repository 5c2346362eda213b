/* SPDX-License-Identifier: MIT
 *
 * registry.h (L4) - the lists as data: every pool, workload and pattern by name.
 *
 * Read-only. Everything Python knows about names, parameters, defaults, ranges and traits comes
 * from here, and so do the documentation tables.
 */
#ifndef PB_REGISTRY_H
#define PB_REGISTRY_H

#include "base.h"
#include "param.h"
#include "pattern.h"
#include "pool.h"
#include "pools.def"
#include "workload.h"

/* What all three kinds of entry have in common. */
typedef struct pb_described {
    const char *name;
    const char *summary;
    const pb_param *params;
    int param_count;
} pb_described;

typedef struct pb_pool_entry {
    pb_described is;
    uint32_t traits;   /* PB_HOLDS_MANY ... */
    uint32_t outcomes; /* PB_CAN(...): those it can have */
    const pb_pool_class *class;
} pb_pool_entry;

typedef struct pb_workload_entry {
    pb_described is;
    uint32_t traits;    /* PB_PLACEABLE ... */
    const char *enters; /* process-wide state that construction enters, or "" */
    pb_status (*open)(pb_args *args, const pb_params *params, uint64_t spin_per_ms,
                      pb_error *error);
    void (*close)(pb_args *args);
    pb_functions functions;
} pb_workload_entry;

typedef struct pb_pattern_entry {
    pb_described is;
    void (*open)(pb_pattern *p, const pb_params *params, uint64_t spin_per_ms);
} pb_pattern_entry;

#define PB_POOL_INDEX(name, ...) PB_POOL_##name,
enum { PB_POOLS(PB_POOL_INDEX) PB_POOL_COUNT };

/* What results call outcomes and events. */
extern const char *const pb_outcome_names[PB_OUTCOMES];
extern const char *const pb_event_names[PB_EVENTS];

extern const pb_pool_entry pb_pools[PB_POOL_COUNT];
extern const pb_workload_entry pb_workloads[PB_WORKLOAD_COUNT];
extern const pb_pattern_entry pb_patterns[PB_PATTERN_COUNT];

/* Index by name, or -1. */
int pb_pool_find(const char *name);
int pb_workload_find(const char *name);
int pb_pattern_find(const char *name);

#endif
