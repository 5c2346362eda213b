/* SPDX-License-Identifier: MIT - see memory.h */
#include "memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* From /proc: getrusage's maximum is inherited from the process that started this one. 0 where
   there is no /proc. */
static uint64_t peak_rss(void)
{
    FILE *file = fopen("/proc/self/status", "re");
    char line[128];
    unsigned long kib = 0;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "VmHWM: %lu", &kib) == 1)
            break;
    if (file)
        (void)fclose(file); /* only read from */
    return (uint64_t)kib * 1024u;
}

void pb_usage_read(pb_usage *out)
{
    struct rusage u;
    memset(&u, 0, sizeof u);
    (void)getrusage(RUSAGE_SELF, &u); /* cannot fail with this argument */
    *out = (pb_usage){.minor_faults = (uint64_t)u.ru_minflt,
                      .major_faults = (uint64_t)u.ru_majflt,
                      .voluntary_switches = (uint64_t)u.ru_nvcsw,
                      .involuntary_switches = (uint64_t)u.ru_nivcsw,
                      .peak_rss = peak_rss()};
}

pb_usage pb_usage_between(const pb_usage *before, const pb_usage *after)
{
    return (pb_usage){.minor_faults = after->minor_faults - before->minor_faults,
                      .major_faults = after->major_faults - before->major_faults,
                      .voluntary_switches = after->voluntary_switches - before->voluntary_switches,
                      .involuntary_switches =
                          after->involuntary_switches - before->involuntary_switches,
                      .peak_rss = after->peak_rss};
}

void *pb_new_padded(size_t size)
{
    const size_t rounded = (size + PB_SHARING - 1) / PB_SHARING * PB_SHARING;
    void *p = aligned_alloc(PB_SHARING, rounded);
    if (p)
        memset(p, 0, rounded);
    return p;
}
