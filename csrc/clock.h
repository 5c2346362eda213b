/* SPDX-License-Identifier: MIT
 *
 * clock.h (L1) - time: one monotonic clock, process CPU time, and a calibrated spin.
 *
 * Spinning is counted in iterations, not in clock reads, so that a think time of 20 ns costs 20 ns.
 * The number of iterations per millisecond is measured once per sweep (pb_spin_calibrate) and
 * handed to every process: two arms must not differ by their calibration.
 */
#ifndef PB_CLOCK_H
#define PB_CLOCK_H

#include "base.h"

/* Nanoseconds of CLOCK_MONOTONIC. */
uint64_t pb_now_ns(void);

/* CPU nanoseconds used by all threads of this process so far. */
uint64_t pb_cpu_ns(void);

/* Sleeps until the monotonic clock shows `ns`, or a signal comes. */
void pb_sleep_until(uint64_t ns);

/* Cost of one pb_now_ns() in nanoseconds: smallest of several batches. */
double pb_clock_cost_ns(void);

/* Spin iterations per millisecond: the largest rate of several batches, about 15 ms of work. */
uint64_t pb_spin_calibrate(void);

PB_INLINE void pb_spin(uint64_t iterations)
{
    while (iterations > 0) {
        iterations--;
        __asm__ volatile("" : "+r"(iterations));
    }
}

/* Iterations that take `ns` nanoseconds at `per_ms` iterations per millisecond. */
PB_INLINE uint64_t pb_spin_iterations(uint64_t ns, uint64_t per_ms)
{
    return (uint64_t)((double)ns * (double)per_ms / 1e6 + 0.5);
}

#endif
