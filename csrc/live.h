/* SPDX-License-Identifier: MIT
 *
 * live.h (L5) - the inside of a live replicate, shared by the three files that make it run.
 *
 *   member.c   a thread's life: placed, attached, in its kernel, counted, detached
 *   window.c   the controller's side: unpark, measure, park; warm-up; counted passes
 *   run.c      opening and closing, and the final account
 *
 * Only the controlling thread calls across these files; members meet it in the pb_control words.
 */
#ifndef PB_LIVE_H
#define PB_LIVE_H

#include <pthread.h>

#include "ledger.h"
#include "run.h"

enum { PB_FILL_BLOCKS = 32 };    /* heap pre-fill: blocks drawn per thread, at most */
enum { PB_RUN_IN_NS = 1000000 }; /* unmeasured part at the head of each window */

/* The steps of closing: threads leave their kernels and report, all is counted, then they detach.
 */
enum { PB_LEAVE = 1, PB_DETACH = 2 };

/* One thread of the run. */
typedef struct pb_member {
    pthread_t thread;
    bool started;
    pb_run *run;
    pb_ctx *ctx; /* allocated by its own thread, from its own arena */
    pb_status status;
    int index;
    void *fill[PB_FILL_BLOCKS]; /* heap pre-fill */
    pb_ballast ballast;         /* heap shifts */
} pb_member;

struct pb_run {
    pb_control control;
    pb_cell cell;
    const pb_pool_class *pool_class;
    pb_pool *pool;
    pb_args args;         /* of the cell's own workload */
    pb_workload inner;    /* the cell's own workload */
    pb_workload workload; /* as kernels see it: the same, or counted, one that wraps it */
    pb_args counted_args; /* counted: of the wrapping one */
    table_shared wrapper; /* counted: the table between the two */
    int kernel_workload;  /* index into the pool's kernels */
    pb_checks *checks;    /* NULL unless checked */
    pb_counts setup;      /* counted: after opening, less before */
    pb_pattern pattern;
    pb_ctx closer;  /* the controller's context: closing the pool destroys through it */
    double stretch; /* threads per CPU, at least 1 */
    uint64_t run_in_ns;
    uint64_t parked_since; /* on the clock; run time stands still from there on */
    bool workload_open, pool_open;
    uint32_t missing; /* threads that could not be started: reported on their behalf */
    pb_member *members;
};

/* Puts a sentence into `error` and returns `status`. */
pb_status pb_fail(pb_error *error, pb_status status, const char *text);

/* run.c: PB_BROKEN, with the first complaint, when a checked replicate has one. */
pb_status pb_judge_checks(const pb_run *run, pb_error *error);

/* member.c: the body of a thread; `arg` is its pb_member. */
void *pb_member_main(void *arg);

/* window.c: waits until all threads are parked; false when they are not in time. */
bool pb_parked_all(pb_run *run);

/* window.c: moves all threads to the next epoch; returns when. */
uint64_t pb_advance(pb_run *run);

/* window.c: turns a reading into what happened since an earlier one; `live`, `peak` stay readings.
 */
void pb_counts_since(pb_counts *now, const pb_counts *before);

/* window.c: fills in the two outcomes that kernels do not count one by one. */
void pb_complete_outcomes(uint64_t outcomes[PB_OUTCOMES], uint64_t acquired, uint64_t released);

#endif
