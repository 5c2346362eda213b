/* SPDX-License-Identifier: MIT
 *
 * check.h - the assert kit of the C tests: counts, one line per failure, an exit status.
 *
 *   CHECK(condition);  CHECK_EQ(got, wanted);  check_in("%s", what the next checks are about);
 *   return check_report();    "N passed, N failed"; 1 when any failed
 *
 * Any thread may check. A failed check goes on: the rest often says why.
 */
#ifndef PB_CHECK_H
#define PB_CHECK_H

#include <stdarg.h>
#include <stdio.h>

#include "atomic.h"

static pb_atomic_u64 check_passed, check_failed;
static _Thread_local char check_about[160]; /* printed with this thread's failures */

static inline void check_in(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(check_about, sizeof check_about, format, args);
    va_end(args);
}

static inline bool check_that(bool good, const char *file, int line, const char *text)
{
    (void)pb_add_relaxed_u64(good ? &check_passed : &check_failed, 1); /* relaxed: only a count */
    if (!good)
        (void)printf("%s:%d: %s  [%s]\n", file, line, text, check_about);
    return good;
}

static inline bool check_equal(int64_t got, int64_t wanted, const char *file, int line,
                               const char *text)
{
    if (check_that(got == wanted, file, line, text))
        return true;
    (void)printf("    got %lld, wanted %lld\n", (long long)got, (long long)wanted);
    return false;
}

#define CHECK(condition) check_that((condition), __FILE__, __LINE__, #condition)
#define CHECK_EQ(got, wanted) \
    check_equal((int64_t)(got), (int64_t)(wanted), __FILE__, __LINE__, #got " == " #wanted)

static inline int check_report(void)
{
    const uint64_t failed = pb_load_relaxed_u64(&check_failed); /* relaxed: threads are joined */
    (void)printf("%llu passed, %llu failed\n",
                 (unsigned long long)pb_load_relaxed_u64(&check_passed),
                 (unsigned long long)failed);
    return failed != 0;
}

#endif
