/* SPDX-License-Identifier: MIT
 *
 * churn.h - the scenario that every C and C++ program of this folder runs; C11 and C++17.
 *
 *   program KIND THREADS MILLISECONDS CAPACITY    one line of JSON; exit 2: no such kind or number
 *   program version                               one line: what it drives, and the compiler
 *
 * Same-thread churn of 1 KiB objects, as poolbench's `churn` of `bytes(size=1KiB,zero=none)`:
 * acquire; malloc if there is none; write the first and last byte and read them back behind a
 * barrier; release; free what the pool does not keep.
 *
 *   threads   ---started--- lead-in ---| timed window |--- last batch, drain
 *   epoch          0            0      1              2
 *
 * All threads run throughout. Each counts into lines of its own and notes its count when it first
 * sees an epoch, which it looks at every few operations: never a fixed number of them per thread.
 * The workers are never the only thread: main sleeps meanwhile, since locks and malloc are cheaper
 * in a process that has just one. Nobody is pinned, for not every peer can be.
 *
 * A program lists its kinds and calls `churn_main`. acquire and release are given to `churn_batch`
 * as constants and inlined there: one indirect call per batch, none per operation.
 */
#ifndef PB_PEERS_CHURN_H
#define PB_PEERS_CHURN_H

#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CHURN_INLINE static inline __attribute__((always_inline))
#define CHURN_PADDED __attribute__((aligned(128))) /* two lines: they are fetched in pairs */
#ifdef __clang__
#define CHURN_COMPILER "clang " __clang_version__
#else
#define CHURN_COMPILER "gcc " __VERSION__
#endif

enum { CHURN_SIZE = 1024, CHURN_THREADS_MAX = 1024, CHURN_LEAD_IN_MS = 20 };
/* Operations between two looks at the epoch, and between two calls of a kind. */
enum { CHURN_LOOK = 8, CHURN_BATCH = 64 };

/* What one thread counts; written by it alone until it is joined. */
typedef struct CHURN_PADDED churn_counts {
    uint64_t operations;
    uint64_t constructed;
    uint64_t destroyed;
    uint64_t at[3];        /* operations when it first saw the epoch */
    uint64_t sink;         /* what was read from objects: or the reads could be left out */
    const uint32_t *epoch; /* the run's */
    uint32_t seen;         /* the last epoch seen */
    int thread;            /* 0, 1, ... */
} churn_counts;

/* One implementation. `open` gives NULL when out of memory. `drain` frees idle objects, then the
 * pool, and returns how many objects there were. */
typedef struct churn_kind {
    const char *name;
    void *(*open)(size_t capacity, int threads);
    void (*batch)(void *pool, churn_counts *mine);
    uint64_t (*drain)(void *pool);
} churn_kind;

typedef struct churn_run churn_run;

typedef struct churn_member {
    churn_run *run;
    churn_counts *counts;
    pthread_t thread;
} churn_member;

struct churn_run {
    const churn_kind *kind;
    void *pool;
    churn_counts *counts; /* of each thread */
    churn_member *members;
    int threads;
    double seconds; /* between the two epochs */
    CHURN_PADDED uint32_t epoch;
    CHURN_PADDED int started; /* threads that run */
};

/* Room for one value, in lines of its own; zeroed. */
CHURN_INLINE void *churn_padded(size_t size)
{
    const size_t rounded = (size + 127) / 128 * 128;
    void *memory = aligned_alloc(128, rounded);
    return memory ? memset(memory, 0, rounded) : NULL;
}

/* Malloc's result is hidden from the compiler, or it could leave out malloc and free as a pair. */
CHURN_INLINE void *churn_construct(churn_counts *mine)
{
    void *object = malloc(CHURN_SIZE);
    if (!object)
        abort(); /* nothing to measure any more */
    __asm__ volatile("" : "+r"(object) : : "memory");
    mine->constructed++;
    return object;
}

CHURN_INLINE void churn_destroy(churn_counts *mine, void *object)
{
    mine->destroyed++;
    free(object);
}

CHURN_INLINE uint64_t churn_use(void *object)
{
    unsigned char *b = (unsigned char *)object;
    b[0] = 1;
    b[CHURN_SIZE - 1] = 2;
    __asm__ volatile("" : : : "memory"); /* or the reads are folded into constants */
    return (uint64_t)b[0] + b[CHURN_SIZE - 1];
}

/* Whether a batch that has done `operations` goes on. */
CHURN_INLINE bool churn_goes_on(const churn_counts *mine, int operations)
{
    /* relaxed: only a signal; the counts are published by the end of the thread */
    return operations < CHURN_BATCH && __atomic_load_n(mine->epoch, __ATOMIC_RELAXED) == mine->seen;
}

/* Up to CHURN_BATCH operations. `acquire` gives NULL when the pool is empty, `release` false when
 * it is full. `look` is CHURN_LOOK, or less where an operation may take milliseconds. */
CHURN_INLINE void churn_batch(void *pool, churn_counts *mine, void *(*acquire)(void *),
                              bool (*release)(void *, void *), int look)
{
    uint64_t sum = 0;
    for (int n = 0; churn_goes_on(mine, n); n += look) {
        for (int i = 0; i < look; i++) {
            void *object = acquire(pool);
            if (!object)
                object = churn_construct(mine);
            sum += churn_use(object);
            if (!release(pool, object))
                churn_destroy(mine, object);
        }
        mine->operations += (uint64_t)look;
    }
    mine->sink += sum;
}

/* Frees all that `acquire` still finds: idle objects, which are not counted as destroyed. */
CHURN_INLINE uint64_t churn_drain(void *pool, void *(*acquire)(void *))
{
    uint64_t idle = 0;
    for (void *object = acquire(pool); object; object = acquire(pool)) {
        free(object);
        idle++;
    }
    return idle;
}

static void *churn_thread(void *arg)
{
    const churn_member *self = (const churn_member *)arg;
    churn_run *run = self->run;
    churn_counts *mine = self->counts;
    /* relaxed: a count, it publishes nothing */
    (void)__atomic_fetch_add(&run->started, 1, __ATOMIC_RELAXED);
    while (mine->seen < 2) {
        run->kind->batch(run->pool, mine);
        const uint32_t epoch = __atomic_load_n(&run->epoch, __ATOMIC_RELAXED); /* as in goes_on */
        while (mine->seen < epoch) /* fills what it skipped, if it did not run for a whole window */
            mine->at[++mine->seen] = mine->operations;
    }
    return NULL;
}

static void churn_sleep(double milliseconds)
{
    const uint64_t ns = (uint64_t)(milliseconds * 1e6);
    struct timespec t = {0, 0};
    t.tv_sec = (time_t)(ns / 1000000000);
    t.tv_nsec = (long)(ns % 1000000000);
    (void)nanosleep(&t, NULL); /* a little early is no harm: the time is measured */
}

static double churn_now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail */
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Threads per CPU, at least 1: the lead-in grows with it, as poolbench's warm-up does. */
static double churn_stretch(int threads)
{
    const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    return cpus > 0 && threads > cpus ? (double)threads / (double)cpus : 1.0;
}

static void churn_windows(churn_run *run, double milliseconds)
{
    while (__atomic_load_n(&run->started, __ATOMIC_RELAXED) < run->threads)
        churn_sleep(0.1);
    churn_sleep((double)CHURN_LEAD_IN_MS * churn_stretch(run->threads));
    const double start = churn_now();
    __atomic_store_n(&run->epoch, 1, __ATOMIC_RELAXED); /* relaxed: as in churn_goes_on */
    churn_sleep(milliseconds);
    run->seconds = churn_now() - start;
    __atomic_store_n(&run->epoch, 2, __ATOMIC_RELAXED);
}

/* Starts the threads, times a window, joins them; false when a thread cannot be had. */
static bool churn_measure(churn_run *run, double milliseconds)
{
    for (int i = 0; i < run->threads; i++) {
        churn_member *member = &run->members[i];
        member->run = run;
        member->counts = &run->counts[i];
        member->counts->thread = i;
        member->counts->epoch = &run->epoch;
        if (pthread_create(&member->thread, NULL, churn_thread, member) != 0)
            return false;
    }
    churn_windows(run, milliseconds);
    for (int i = 0; i < run->threads; i++)
        (void)pthread_join(run->members[i].thread, NULL); /* ours, and joined once */
    return true;
}

/* Prints the line and gives the exit status: objects have to be conserved. */
static int churn_report(const churn_run *run, uint64_t idle)
{
    uint64_t constructed = 0, destroyed = 0, total = 0;
    (void)printf("{\"kind\": \"%s\", \"threads\": %d, \"seconds\": %.9f, \"operations\": [",
                 run->kind->name, run->threads, run->seconds);
    for (int i = 0; i < run->threads; i++) {
        const churn_counts *c = &run->counts[i];
        constructed += c->constructed;
        destroyed += c->destroyed;
        total += c->operations;
        (void)printf("%s%" PRIu64, i ? ", " : "", c->at[2] - c->at[1]);
    }
    (void)printf("], \"total\": %" PRIu64 ", \"constructed\": %" PRIu64 ", \"destroyed\": %" PRIu64
                 ", \"idle\": %" PRIu64 "}\n",
                 total, constructed, destroyed, idle);
    if (constructed == destroyed + idle)
        return 0;
    (void)fprintf(stderr, "%s: objects not conserved\n", run->kind->name);
    return 1;
}

static int churn_run_kind(const churn_kind *kind, int threads, double ms, size_t capacity)
{
    churn_run *run = (churn_run *)churn_padded(sizeof *run);
    const size_t n = (size_t)threads;
    int status = 1;
    if (!run)
        return status;
    run->kind = kind;
    run->threads = threads;
    run->counts = (churn_counts *)churn_padded(n * sizeof *run->counts);
    run->members = (churn_member *)churn_padded(n * sizeof *run->members);
    run->pool = kind->open(capacity, threads);
    if (!run->counts || !run->members || !run->pool || !churn_measure(run, ms)) {
        (void)fprintf(stderr, "%s: no memory or no thread to be had\n", kind->name);
        return status; /* the process ends, and with it what was opened and started */
    }
    status = churn_report(run, kind->drain(run->pool));
    free(run->counts);
    free(run->members);
    free(run);
    return status;
}

/* The program: `kinds` end with one without a name. */
static int churn_main(int argc, char **argv, const churn_kind *kinds, const char *version)
{
    if (argc == 2 && strcmp(argv[1], "version") == 0) {
        (void)printf("%s\n", version);
        return 0;
    }
    const int threads = argc == 5 ? atoi(argv[2]) : 0;
    const double ms = argc == 5 ? atof(argv[3]) : 0;
    const int capacity = argc == 5 ? atoi(argv[4]) : 0;
    if (threads >= 1 && threads <= CHURN_THREADS_MAX && ms > 0 && capacity >= 1)
        for (const churn_kind *kind = kinds; kind->name; kind++)
            if (strcmp(kind->name, argv[1]) == 0)
                return churn_run_kind(kind, threads, ms, (size_t)capacity);
    (void)fprintf(stderr, "usage: %s KIND THREADS MILLISECONDS CAPACITY, KIND one of", argv[0]);
    for (const churn_kind *kind = kinds; kind->name; kind++)
        (void)fprintf(stderr, " %s", kind->name);
    (void)fprintf(stderr, "\n");
    return 2;
}

#endif
