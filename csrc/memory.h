/* SPDX-License-Identifier: MIT
 *
 * memory.h (L1) - padded allocation for shared state, and what the kernel counted for this process.
 */
#ifndef PB_MEMORY_H
#define PB_MEMORY_H

#include "base.h"

typedef struct pb_usage {
    uint64_t minor_faults;         /* page faults served without disk */
    uint64_t major_faults;         /* page faults that waited for disk */
    uint64_t voluntary_switches;   /* the thread slept */
    uint64_t involuntary_switches; /* the thread was preempted */
    uint64_t peak_rss;             /* bytes, high-water mark of the process */
} pb_usage;

/* Sums over all threads of this process since it started. */
void pb_usage_read(pb_usage *out);

/* What happened between two readings; the peak is the later one. */
pb_usage pb_usage_between(const pb_usage *before, const pb_usage *after);

/* Zeroed memory that begins on, and is rounded up to, a sharing distance; NULL when there is none.
   Give back with free(). */
void *pb_new_padded(size_t size);

#endif
