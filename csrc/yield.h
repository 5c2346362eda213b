/* SPDX-License-Identifier: MIT
 *
 * yield.h (L0) - marked points between two steps that another thread could come between.
 *
 * In a normal build a mark is nothing. The stress tests build the core with PB_YIELDS and supply
 * pb_yield_here, which gives up the CPU now and then: without it, threads on few CPUs run through
 * most windows undisturbed, and a race of a few instructions is never seen. A pause of a spinning
 * thread (pb_pause) is a mark.
 */
#ifndef PB_YIELD_H
#define PB_YIELD_H

#ifdef PB_YIELDS
void pb_yield_here(void);
#define PB_YIELD_POINT() pb_yield_here()
#else
#define PB_YIELD_POINT() ((void)0)
#endif

#endif
