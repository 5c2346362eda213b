/* SPDX-License-Identifier: MIT - see memory.h */
#include "memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

void pb_usage_read(pb_usage *out)
{
    struct rusage u;
    memset(&u, 0, sizeof u);
    (void)getrusage(RUSAGE_SELF, &u); /* cannot fail with this argument */
    *out = (pb_usage){.minor_faults = (uint64_t)u.ru_minflt,
                      .major_faults = (uint64_t)u.ru_majflt,
                      .voluntary_switches = (uint64_t)u.ru_nvcsw,
                      .involuntary_switches = (uint64_t)u.ru_nivcsw,
                      .peak_rss = (uint64_t)u.ru_maxrss * 1024u};
}

void *pb_new_padded(size_t size)
{
    const size_t rounded = (size + PB_SHARING - 1) / PB_SHARING * PB_SHARING;
    void *p = aligned_alloc(PB_SHARING, rounded);
    if (p)
        memset(p, 0, rounded);
    return p;
}
