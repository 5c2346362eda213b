/* SPDX-License-Identifier: MIT
 *
 * floor.c - the least that a thread_local x bytes x churn operation can cost, written by hand.
 *
 * Per operation, and nothing else: load the slot, mark it held, ask whether a reset is wanted,
 * write and read back two bytes behind a barrier, put the object back. The loop looks at a shared
 * word once per batch, as kernels do. A second thread sleeps meanwhile: the process has threads.
 *
 *   floor SECONDS CPU   prints nanoseconds per operation, measured for SECONDS on CPU
 *   floor N             does exactly N operations, for an instruction counter
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SIZE = 1024, BATCH = 1024 };

typedef struct owner {
    void *slot; /* the idle object; NULL while it is out */
    uint64_t sink;
    size_t size;
    bool reset;
} owner;

static _Alignas(128) atomic_bool stop;

static __attribute__((noinline)) void operate(owner *self, uint64_t n)
{
    const size_t size = self->size;
    const bool reset = self->reset;
    uint64_t sum = 0;
    for (uint64_t i = n; i > 0; i--) {
        unsigned char *b = self->slot;
        self->slot = NULL;
        __asm__ volatile("" : "+r"(b) : : "memory");
        b[0] = 1;
        b[size - 1] = 2;
        __asm__ volatile("" : : : "memory");
        sum += (uint64_t)b[0] + b[size - 1];
        __asm__ volatile("" : "+r"(b) : : "memory");
        if (reset)
            memset(b, 0, size);
        self->slot = b;
    }
    self->sink += sum;
}

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail */
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void *sleep_then_stop(void *arg)
{
    const double seconds = *(double *)arg;
    const struct timespec t = {.tv_sec = (time_t)seconds,
                               .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    (void)nanosleep(&t, NULL); /* a little early is no harm: the time is measured */
    atomic_store_explicit(&stop, true, memory_order_relaxed); /* relaxed: only a hint to stop */
    return NULL;
}

static double measure(owner *self, double seconds)
{
    pthread_t sleeper;
    if (pthread_create(&sleeper, NULL, sleep_then_stop, &seconds) != 0)
        exit(2);
    operate(self, 1000000); /* warm */
    uint64_t operations = 0;
    const double start = now();
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) { /* relaxed: as above */
        operate(self, BATCH);
        operations += BATCH;
    }
    const double took = now() - start;
    (void)pthread_join(sleeper, NULL);
    return took * 1e9 / (double)operations;
}

int main(int argc, char **argv)
{
    owner self = {.slot = calloc(1, SIZE), .size = SIZE, .reset = argc > 100};
    if (argc < 2 || !self.slot)
        return 2;
    if (argc == 2) {
        operate(&self, strtoull(argv[1], NULL, 10));
    } else {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET((size_t)atoi(argv[2]), &set);
        if (sched_setaffinity(0, sizeof set, &set) != 0)
            return 2;
        (void)printf("%.4f\n", measure(&self, atof(argv[1])));
    }
    free(self.slot);
    return self.sink == 1; /* never: the sum is looked at */
}
