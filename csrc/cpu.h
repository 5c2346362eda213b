/* SPDX-License-Identifier: MIT
 *
 * cpu.h (L1) - the CPU a thread runs on now.
 *
 * The kernel keeps that number in memory of each thread (its rseq area, which glibc 2.35 and later
 * registers) and renews it whenever the thread comes back from another CPU. A thread that remembers
 * where the number stands reads it with one load (sched_getcpu, which reads the same word, takes 14
 * instructions). Where there is no such area, a call has to do: on most machines it makes no system
 * call either.
 *
 * The answer may be out of date the moment it is given: it is a hint where to look first.
 */
#ifndef PB_CPU_H
#define PB_CPU_H

#include "base.h"

/* Where the kernel keeps the number of the CPU that the calling thread runs on, for as long as the
   thread lives and for it alone; NULL: nowhere. */
const volatile uint32_t *pb_cpu_word(void);

/* The CPU that the calling thread runs on, by a call; 0 where even that fails. */
uint32_t pb_cpu_ask(void);

/* CPUs this machine may have, whether they run now or not; at least 1. Numbers of CPUs can have
   gaps, so that some are above. */
uint32_t pb_cpu_configured(void);

#endif
