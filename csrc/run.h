/* SPDX-License-Identifier: MIT
 *
 * run.h (L5) - one live replicate: open, warm up, windows, close. For one controlling thread.
 *
 *   pb_run_open    threads are placed and attached, and parked
 *   pb_run_warm    runs for a while; chooses how often threads look at the epoch
 *   pb_run_window  unpark, run in, measure, park; counts of all threads
 *   pb_run_close   threads finish what they hold and detach; everything is counted once more
 *
 * Windows, passes and closing fail with PB_BROKEN at the first complaint of a checked replicate.
 *
 * Between the calls all threads sleep, so that another process's arm can have the machine.
 */
#ifndef PB_RUN_H
#define PB_RUN_H

#include "base.h"
#include "context.h"
#include "count.h"
#include "memory.h"
#include "param.h"
#include "registry.h"

enum { PB_THREADS_MAX = 1024 };

typedef struct pb_run pb_run;

/* What to run; indices into the registry's lists. */
typedef struct pb_cell {
    int pool, workload, pattern;
    pb_params pool_params, workload_params, pattern_params;
    int threads;          /* 1 ... PB_THREADS_MAX */
    uint64_t seed;        /* placement of stacks and heaps */
    uint64_t spin_per_ms; /* from pb_spin_calibrate, one for a whole sweep */
    const int *cpus;      /* thread i runs on cpus[i % cpu_count] */
    int cpu_count;        /* 0: threads run where they like */
    uint64_t memory; /* bytes that may be used; a cell that would need more is refused; 0: any */
    bool checked;    /* notice wrong hand-outs and releases, see checks.h */
    bool counted;    /* book allocations by owner: never where anything is timed */
} pb_cell;

typedef struct pb_window {
    uint64_t start_ns;    /* monotonic */
    uint64_t ns;          /* between the two epochs */
    uint64_t cpu_ns;      /* of the process, between the two epochs */
    uint64_t *operations; /* [threads], filled by pb_run_window */
    pb_usage usage;       /* what the kernel counted between the two epochs */
} pb_window;

typedef struct pb_warmth {
    double rate;    /* operations per second, all threads */
    uint32_t batch; /* operations between two looks at the epoch */
} pb_warmth;

/* Everything counted, from open to close. */
typedef struct pb_account {
    uint64_t operations;
    uint64_t constructed, destroyed, idle; /* at the end, before threads detach */
    uint64_t outcomes[PB_OUTCOMES];        /* complete: hits and kept are filled in */
    uint64_t events[PB_EVENTS];
    uint64_t longest_wait_ns; /* of any thread, for a lock or for an object */
    uint64_t retained;        /* objects alive after everything was closed: must be 0 */
    pb_usage usage;           /* of the process, since it started */
    pb_counts setup; /* counted: allocations of opening the pool and attaching all threads */
    uint64_t retained_bytes; /* counted: what pool and idle objects hold at the quiet point */
    uint64_t peak_bytes;     /* counted: the most that pool and objects held at once */
} pb_account;

/* One pass of exactly so many attempts per thread, untimed. */
typedef struct pb_pass {
    uint64_t operations;
    uint64_t outcomes[PB_OUTCOMES]; /* complete, as in pb_account */
    pb_counts counts;               /* allocations during the pass; `peak` since the start */
} pb_pass;

pb_status pb_run_open(pb_run **run, const pb_cell *cell, pb_error *error);
pb_status pb_run_warm(pb_run *run, double seconds, pb_warmth *warmth, pb_error *error);
pb_status pb_run_window(pb_run *run, double seconds, pb_window *window, pb_error *error);

/* Runs `attempts` per thread and parks again. For counting; how long it takes means nothing. */
pb_status pb_run_pass(pb_run *run, uint32_t attempts, pb_pass *pass, pb_error *error);

/* Always frees the run, whatever it returns. PB_BROKEN when objects were lost or made twice. */
pb_status pb_run_close(pb_run *run, pb_account *account, pb_error *error);

/* Gives up on threads that hang: they are left behind, with their memory. For a process about to
 * end. */
void pb_run_abandon(pb_run *run);

#endif
