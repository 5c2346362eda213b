/* SPDX-License-Identifier: MIT - see cpu.h */
#define _GNU_SOURCE
#include "cpu.h"

#include <sched.h>
#include <unistd.h>

#if defined(__has_include)
#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h> /* glibc 2.35 */
#endif
#endif

#ifdef RSEQ_SIG
/* The rseq area stands at a constant distance from the thread pointer. */
static char *thread_pointer(void)
{
#ifdef __x86_64__
    char *self; /* clang 14 has no __builtin_thread_pointer here */
    __asm__("mov %%fs:0, %0" : "=r"(self));
    return self;
#else
    return __builtin_thread_pointer();
#endif
}

const volatile uint32_t *pb_cpu_word(void)
{
    if (__rseq_size == 0) /* switched off, or a kernel or a debugger that does not know it */
        return NULL;
    const struct rseq *area = (const struct rseq *)(const void *)(thread_pointer() + __rseq_offset);
    const volatile uint32_t *word = &area->cpu_id;
    return (int32_t)*word >= 0 ? word : NULL; /* below 0: not for this thread */
}
#else
const volatile uint32_t *pb_cpu_word(void)
{
    return NULL;
}
#endif

uint32_t pb_cpu_ask(void)
{
    const int cpu = sched_getcpu();
    return cpu < 0 ? 0 : (uint32_t)cpu;
}

uint32_t pb_cpu_configured(void)
{
    const long count = sysconf(_SC_NPROCESSORS_CONF);
    return count > 0 ? (uint32_t)count : 1;
}
