/* SPDX-License-Identifier: MIT
 *
 * marks.h - what happens at a mark (csrc/yield.h): now and then, somebody else runs.
 *
 *   #include "marks.h"      the Makefile then links the test with a core in which marks are calls
 *   marks_begin(seed);      on each thread, before it uses a pool
 *   marks_often(8);         about one mark in 8 lets others in; 0: none does
 *   marks_at(1, act, arg);  at this thread's second mark from now, once: act(arg). Another thread's
 *                           whole step between two of ours, the same every time
 *
 * Mostly that is one sched_yield. Sometimes it is several, or a sleep that lets the others go round
 * many times: what is stale then, and was taken for fresh, is seen. Each thread's choices come from
 * its seed; what the scheduler makes of them does not.
 */
#ifndef PB_TEST_MARKS_H
#define PB_TEST_MARKS_H

#include <sched.h>
#include <time.h>

#include "atomic.h"
#include "rng.h"
#include "yield.h"

enum { MARKS_KINDS = 64, MARKS_MOST_YIELDS = 15, MARKS_LONGEST_NS = 200000 };

static pb_atomic_u32 marks_one_in; /* constant while threads run */
static _Thread_local pb_rng marks_luck;
static _Thread_local struct {
    void (*act)(void *arg); /* NULL: nothing is to happen */
    void *arg;
    int after; /* marks to pass before */
} marks_step;

static inline void marks_often(uint32_t one_in)
{
    pb_store_relaxed_u32(&marks_one_in, one_in); /* relaxed: published with the threads' start */
}

static inline void marks_begin(uint64_t seed)
{
    marks_luck.state = seed;
}

static inline void marks_at(int after, void (*act)(void *arg), void *arg)
{
    marks_step.act = act;
    marks_step.arg = arg;
    marks_step.after = after;
}

static inline void marks_do_step(void)
{
    void (*act)(void *arg) = marks_step.act;
    if (!act || marks_step.after-- > 0)
        return;
    marks_step.act = NULL; /* marks inside the step are only passed */
    act(marks_step.arg);
}

static inline void marks_let_others_in(void)
{
    const uint64_t kind = pb_rng_below(&marks_luck, MARKS_KINDS);
    if (kind == 0) {
        const struct timespec pause = {0, (long)pb_rng_below(&marks_luck, MARKS_LONGEST_NS)};
        (void)nanosleep(&pause, NULL);
        return;
    }
    const uint64_t most = kind < MARKS_KINDS / 8 ? MARKS_MOST_YIELDS : 1;
    for (uint64_t i = pb_rng_below(&marks_luck, (uint32_t)most) + 1; i > 0; i--)
        (void)sched_yield();
}

void pb_yield_here(void)
{
    marks_do_step();
    const uint32_t one_in = pb_load_relaxed_u32(&marks_one_in); /* relaxed: see marks_often */
    if (one_in > 0 && pb_rng_below(&marks_luck, one_in) == 0)
        marks_let_others_in();
}

#endif
