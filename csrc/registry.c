/* SPDX-License-Identifier: MIT - see registry.h */
#include "registry.h"

#include <string.h>

#define PB_PARAM_COUNT(list) (int)(sizeof(list) / sizeof(pb_param))

#define PB_RESULT_NAME(name, result) #result,
const char *const pb_outcome_names[PB_OUTCOMES] = {PB_ACQUIRE_OUTCOMES(PB_RESULT_NAME)
                                                       PB_RELEASE_OUTCOMES(PB_RESULT_NAME)};
const char *const pb_event_names[PB_EVENTS] = {PB_EVENT_LIST(PB_RESULT_NAME)};

#define PB_POOL_DECLARE(name, traits, outcomes, summary, ...) \
    extern const pb_pool_class pb_##name##_pool;              \
    static const pb_param name##_pool_params[] = {__VA_ARGS__};
PB_POOLS(PB_POOL_DECLARE)

#define PB_POOL_ENTRY(name, traits, outcomes, summary, ...)                    \
    {{#name, summary, name##_pool_params, PB_PARAM_COUNT(name##_pool_params)}, \
     traits,                                                                   \
     outcomes,                                                                 \
     &pb_##name##_pool},
const pb_pool_entry pb_pools[PB_POOL_COUNT] = {PB_POOLS(PB_POOL_ENTRY)};

#define PB_WORKLOAD_DECLARE(unused, name, traits, enters, summary, ...) \
    static const pb_param name##_workload_params[] = {__VA_ARGS__};
PB_WORKLOADS(PB_WORKLOAD_DECLARE, )

#define PB_WORKLOAD_ENTRY(unused, name, traits, enters, summary, ...)                  \
    {{#name, summary, name##_workload_params, PB_PARAM_COUNT(name##_workload_params)}, \
     traits,                                                                           \
     enters,                                                                           \
     name##_open,                                                                      \
     name##_close,                                                                     \
     PB_FUNCTIONS(name)},
const pb_workload_entry pb_workloads[PB_WORKLOAD_COUNT] = {PB_WORKLOADS(PB_WORKLOAD_ENTRY, )};

#define PB_PATTERN_DECLARE(unused, name, summary, ...) \
    static const pb_param name##_pattern_params[] = {__VA_ARGS__};
PB_PATTERNS(PB_PATTERN_DECLARE, )

#define PB_PATTERN_ENTRY(unused, name, summary, ...) \
    {{#name, summary, name##_pattern_params, PB_PARAM_COUNT(name##_pattern_params)}, name##_open},
const pb_pattern_entry pb_patterns[PB_PATTERN_COUNT] = {PB_PATTERNS(PB_PATTERN_ENTRY, )};

int pb_pool_find(const char *name)
{
    for (int i = 0; i < PB_POOL_COUNT; i++)
        if (strcmp(pb_pools[i].is.name, name) == 0)
            return i;
    return -1;
}

int pb_workload_find(const char *name)
{
    for (int i = 0; i < PB_WORKLOAD_COUNT; i++)
        if (strcmp(pb_workloads[i].is.name, name) == 0)
            return i;
    return -1;
}

int pb_pattern_find(const char *name)
{
    for (int i = 0; i < PB_PATTERN_COUNT; i++)
        if (strcmp(pb_patterns[i].is.name, name) == 0)
            return i;
    return -1;
}
