/* SPDX-License-Identifier: MIT
 *
 * count.h (L0) - what the counting allocator (count_malloc.c) counts, for whoever reads it.
 *
 * Allocations are booked on the owner that the calling thread has set. Owners free what they
 * allocate, so `live` per owner is what it holds now.
 */
#ifndef PB_COUNT_H
#define PB_COUNT_H

#include "base.h"

typedef enum pb_owner { PB_OWNER_HARNESS, PB_OWNER_POOL, PB_OWNER_WORKLOAD, PB_OWNERS } pb_owner;

typedef struct pb_count {
    uint64_t allocations; /* malloc, calloc, realloc to more, aligned ... */
    uint64_t frees;
    uint64_t bytes; /* as requested */
    uint64_t live;  /* usable bytes allocated and not freed */
} pb_count;

typedef struct pb_counts {
    pb_count by[PB_OWNERS];
    uint64_t peak; /* most usable bytes that pool and workload held at once */
} pb_counts;

#endif
