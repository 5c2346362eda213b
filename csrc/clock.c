/* SPDX-License-Identifier: MIT - see clock.h */
#define _GNU_SOURCE
#include "clock.h"

#include <time.h>

static uint64_t read_clock(clockid_t id)
{
    struct timespec t;
    (void)clock_gettime(id, &t); /* cannot fail: both clocks exist on every Linux we build for */
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t pb_now_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t pb_cpu_ns(void)
{
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

void pb_sleep_until(uint64_t ns)
{
    const struct timespec t = {.tv_sec = (time_t)(ns / 1000000000u),
                               .tv_nsec = (long)(ns % 1000000000u)};
    /* an early return is the caller's to notice */
    (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

double pb_clock_cost_ns(void)
{
    enum { BATCHES = 20, READS = 1000 };
    double best = 1e9;
    for (int b = 0; b < BATCHES; b++) {
        const uint64_t start = pb_now_ns();
        for (int i = 0; i < READS; i++)
            (void)pb_now_ns();
        const double cost = (double)(pb_now_ns() - start) / READS;
        best = cost < best ? cost : best;
    }
    return best;
}

uint64_t pb_spin_calibrate(void)
{
    enum { BATCHES = 15, ITERATIONS = 2000000 };
    uint64_t best = 1;
    for (int b = 0; b < BATCHES; b++) {
        const uint64_t start = pb_now_ns();
        pb_spin(ITERATIONS);
        const uint64_t took = pb_now_ns() - start;
        const uint64_t rate = (uint64_t)((double)ITERATIONS * 1e6 / (double)(took ? took : 1));
        best = rate > best ? rate : best;
    }
    return best;
}
