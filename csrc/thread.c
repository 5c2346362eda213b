/* SPDX-License-Identifier: MIT - see thread.h */
#define _GNU_SOURCE
#include "thread.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

pb_status pb_thread_start(pthread_t *thread, void *(*body)(void *), void *arg, int cpu)
{
    pthread_attr_t attr;
    if (pthread_attr_init(&attr) != 0)
        return PB_SYSTEM;
    int failed = 0;
    if (cpu >= 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET((size_t)cpu, &set);
        failed = pthread_attr_setaffinity_np(&attr, sizeof set, &set);
    }
    if (!failed)
        failed = pthread_create(thread, &attr, body, arg);
    (void)pthread_attr_destroy(&attr); /* cannot fail on an initialised attr */
    return failed ? PB_SYSTEM : PB_OK;
}

int pb_thread_cpus(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    const int count = CPU_COUNT(&set);
    return count > 0 ? count : 1;
}

void pb_futex_wait(pb_atomic_u32 *word, uint32_t value, uint64_t timeout_ns)
{
    const struct timespec t = {.tv_sec = (time_t)(timeout_ns / 1000000000u),
                               .tv_nsec = (long)(timeout_ns % 1000000000u)};
    (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, timeout_ns ? &t : NULL, NULL, 0);
}

void pb_futex_wake(pb_atomic_u32 *word, int count)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}
