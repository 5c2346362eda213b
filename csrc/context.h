/* SPDX-License-Identifier: MIT
 *
 * context.h (L2) - what one thread of a live replicate carries, and how it is told to run and park.
 *
 * One word, the epoch, drives everything. Three of them make a window:
 *
 *   epoch % 3:   0 parked  ->  1 running in  ->  2 measured  ->  0 parked ...
 *
 * The controller (run.c) advances it; each thread looks every `batch` operations, and when it first
 * sees a new epoch writes its operation count to its own context, for every epoch it skipped as
 * well. Epoch 0 (mod 3) is also the request to park. All threads run before, during and after the
 * measured interval, so nobody is measured against idle peers.
 *
 * Each pool's thread context begins with a pb_ctx; contexts are a sharing distance apart, written
 * by their owner alone, and read by the controller only while the owner is parked.
 */
#ifndef PB_CONTEXT_H
#define PB_CONTEXT_H

#include "atomic.h"
#include "base.h"
#include "checks.h"
#include "lock.h"
#include "param.h"
#include "rng.h"

typedef struct pb_workload pb_workload; /* workload.h */
typedef struct pb_args pb_args;         /* workload.h */
typedef struct pb_pattern pb_pattern;   /* pattern.h */

/* Every acquire and every release has exactly one outcome: what is counted, and what it is called
   in results. */
#define PB_ACQUIRE_OUTCOMES(X)                                                                  \
    X(LOCAL_HIT, local_hits)   /* from this thread's own part; not counted, but what is left */ \
    X(SHARED_HIT, shared_hits) /* from the shared part */                                       \
    X(STOLEN, stolen)          /* from another thread's part */                                 \
    X(WAITED, waited)          /* handed over, or found, after waiting */                       \
    X(CONSTRUCTED, misses)     /* made, because there was none */                               \
    X(FAILED, failed)          /* no object: the acquire is not an operation */                 \
    X(TIMED_OUT, timed_out)    /* no object by the deadline: no operation either */
#define PB_RELEASE_OUTCOMES(X)                                                                     \
    X(KEPT, kept)               /* the pool has it again; not counted, but what is left */         \
    X(SPILLED, spilled)         /* kept, and this thread's part was full: it gave to the shared */ \
    X(DESTROYED, overflowed)    /* the pool could not keep it */                                   \
    X(HANDED_OVER, handed_over) /* to a waiter, or to the thread it belongs to */                  \
    X(REFUSED, refused)         /* it was not out: released twice, or never acquired */

#define PB_OUTCOME_ENTRY(name, result) PB_##name,
typedef enum pb_outcome {
    PB_ACQUIRE_OUTCOMES(PB_OUTCOME_ENTRY) PB_RELEASE_OUTCOMES(PB_OUTCOME_ENTRY) PB_OUTCOMES,
    PB_ACQUIRES = PB_KEPT, /* how many are of acquires */
} pb_outcome;
#undef PB_OUTCOME_ENTRY

/* What happens on the way to an outcome, counted where it happens: never on a hit's path. */
#define PB_EVENT_LIST(X)                                                                        \
    X(FALSE_EMPTY, false_empty) /* "empty" although objects were idle */                        \
    X(FALSE_FULL, false_full)   /* "full" although there was room */                            \
    X(RETRIED, retries)         /* a compare-and-swap, or a try-lock, lost to another thread */ \
    X(TRANSIENT, transient)     /* constructed outside the bound: destroyed at release */       \
    X(TRIMMED, trimmed)         /* idle objects given back by a trim */                         \
    X(AGED, aged)               /* idle objects dropped because they were old */                \
    X(WAITS, waits)             /* slept or spun for an object */

#define PB_EVENT_ENTRY(name, result) PB_##name,
typedef enum pb_event { PB_EVENT_LIST(PB_EVENT_ENTRY) PB_EVENTS } pb_event;
#undef PB_EVENT_ENTRY

/* An object in its borrower's hands, with what the pool wants to see again at release: which of its
   entries it is. Netty, HikariCP and guards in Rust carry the same. */
typedef struct pb_held {
    void *object;    /* NULL: nothing held */
    uint64_t handle; /* meaning: the pool's own; 0 where it needs none */
} pb_held;

enum { PB_PARKED = 0, PB_RUNNING_IN = 1, PB_MEASURED = 2, PB_PHASES = 3 };

/* One per live replicate; shared by its threads and the controller. */
typedef struct pb_control {
    PB_ALIGNED pb_atomic_u32 epoch;   /* written by the controller, polled by all threads */
    PB_ALIGNED pb_atomic_u32 parked;  /* threads that have parked since the last unpark */
    PB_ALIGNED pb_atomic_u32 closing; /* 0 while it runs; else the step of closing, see live.h */
    PB_ALIGNED pb_atomic_u32 tick;    /* milliseconds of run time; advances where something ages */
    pb_atomic_u64 parked_ns;          /* time spent parked, in all; written before each window */
    uint32_t threads;                 /* constant */
    bool untimed;                     /* constant; true: only counted, sleeps are left out */
} pb_control;

enum { PB_BALLAST = 64, PB_BALLAST_BYTES = 65536 };

/* Blocks of the object's size that a thread allocates, one more before each window, so that the
   next object of that size lies elsewhere. Where a block begins within a cache line can change the
   cost of zeroing it by a sixth; so one process meets all of it, and its mean is not the luck of
   one draw. */
typedef struct pb_ballast {
    void *block[PB_BALLAST];
    uint32_t used; /* when all are, everything is freed and it begins anew */
    size_t size;   /* 0: none, for objects above PB_BALLAST_BYTES or of unknown size */
} pb_ballast;

struct pb_ctx {
    /* owner-written, hot */
    uint64_t operations;             /* completed acquire ... release pairs */
    uint64_t constructed, destroyed; /* objects, by this thread */
    uint64_t events[PB_EVENTS];      /* all cold */
    uint64_t longest_wait_ns;        /* for a lock or for an object */
    uint64_t run_time_ns;            /* the latest that was read */
    uint64_t outcomes[PB_OUTCOMES];  /* all but the two that are what is left */
    uint64_t sink;                   /* results of `use` end here, so nothing can be elided */
    uint64_t mark[PB_PHASES];        /* operations when the epoch was first seen, by phase */
    uint32_t seen;                   /* last epoch seen */
    pb_lock_node lock_node;          /* its place in the queue of the one lock it may wait for */
    pb_rng rng;                      /* placement and patterns */
    /* written by the controller while this thread is parked */
    uint32_t batch; /* operations between two looks at the epoch */
    /* constant after attach */
    pb_held *held; /* room for as many objects as the pattern holds at once */
    pb_ballast *ballast;
    pb_control *control;
    const pb_workload *workload;
    const pb_params *params; /* the pool's */
    const pb_pattern *pattern;
    pb_checks *checks; /* NULL unless checked */
    int index;         /* 0 ... threads-1; -1 for the controller's own context */
};

/* Slow path of pb_keep_running: marks, parks if asked, and returns false when the replicate ends.
   Call it between operations, or from any wait, holding whatever is held. */
bool pb_checkpoint(pb_ctx *ctx);

/* Parks until the controller starts the first window; false when there will be none. */
bool pb_park(pb_ctx *ctx);

/* Sleeps `ns` of run time: time spent parked does not count. A park point. Where nothing is timed
   it returns at once, so that a counted pass is exactly as many operations as asked for. */
void pb_sleep(pb_ctx *ctx, uint64_t ns);

/* Nanoseconds of run time: the clock that stands still while the replicate is parked. For slow
   paths; pools that only need to know that time passes look at control->tick. */
uint64_t pb_run_time_ns(pb_ctx *ctx);

/* Sleeps while *word is `value`, until somebody wakes it, run time reaches `deadline_ns`, or for no
   reason: the caller looks again. A park point: call it holding no lock. False when there is no
   use in waiting any more: the deadline has passed, or the replicate ends. */
bool pb_wait(pb_ctx *ctx, pb_atomic_u32 *word, uint32_t value, uint64_t deadline_ns);

/* A look for waits that spin or yield instead; same promise. */
bool pb_may_wait(pb_ctx *ctx, uint64_t deadline_ns);

/* False when the kernel has to return. One load of a line nobody writes during a window. */
PB_INLINE bool pb_keep_running(pb_ctx *ctx)
{
    /* relaxed: only a hint that there is news; pb_checkpoint reads again with acquire */
    if (PB_LIKELY(pb_load_relaxed_u32(&ctx->control->epoch) == ctx->seen))
        return true;
    return pb_checkpoint(ctx);
}

#endif
