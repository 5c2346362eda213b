/* SPDX-License-Identifier: MIT
 *
 * test_clock.c - the clocks and the calibrated spin. Nothing here depends on the machine's speed.
 */
#define _GNU_SOURCE
#include "check.h"
#include "clock.h"

static void test_monotonic(void)
{
    uint64_t last = pb_now_ns();
    CHECK(last > 0);
    for (int i = 0; i < 10000; i++) {
        const uint64_t now = pb_now_ns();
        CHECK(now >= last);
        last = now;
    }
}

static void test_sleep_until(void)
{
    const uint64_t start = pb_now_ns();
    pb_sleep_until(start + 20000000);
    CHECK(pb_now_ns() >= start + 20000000);
}

static void test_past_is_no_sleep(void)
{
    const uint64_t start = pb_now_ns();
    for (int i = 0; i < 100; i++) {
        pb_sleep_until(0);
        pb_sleep_until(start);
    }
    CHECK(pb_now_ns() - start < 2000000000); /* 200 sleeps of any kind would be longer, or hang */
}

/* Whole seconds and the rest are split right: a deadline just past a second's end. */
static void test_sleep_across_a_second(void)
{
    const uint64_t second = 1000000000;
    const uint64_t now = pb_now_ns();
    const uint64_t end = (now / second + 1) * second + 1000;
    if (end - now < second / 5) { /* otherwise it would cost too much time: other runs meet it */
        pb_sleep_until(end);
        CHECK(pb_now_ns() >= end);
    }
}

static void test_cpu_time_is_work_not_sleep(void)
{
    const uint64_t start = pb_cpu_ns();
    pb_sleep_until(pb_now_ns() + 50000000);
    const uint64_t slept = pb_cpu_ns();
    CHECK(slept >= start);
    CHECK(slept - start < 40000000);
    while (pb_cpu_ns() - slept < 5000000)
        pb_spin(10000); /* ends only if CPU time passes while spinning */
    CHECK(pb_cpu_ns() > slept);
}

static void test_spin_iterations(void)
{
    CHECK_EQ(pb_spin_iterations(0, 1000000), 0);
    CHECK_EQ(pb_spin_iterations(1000000, 500), 500);
    CHECK_EQ(pb_spin_iterations(20, 1000000), 20);
    CHECK_EQ(pb_spin_iterations(1, 400000), 0); /* 0.4 rounds down */
    CHECK_EQ(pb_spin_iterations(1, 600000), 1);
    CHECK_EQ(pb_spin_iterations(10000000000, 3000000), 30000000000); /* 10 s: no overflow */
    pb_spin(0);                                                      /* returns */
}

static void test_calibration(void)
{
    const uint64_t rate = pb_spin_calibrate();
    CHECK(rate > 1000);      /* 1 us for one iteration: no machine is that slow */
    CHECK(rate < 100000000); /* 0.01 ns: the loop was dropped by the compiler */
    const double cost = pb_clock_cost_ns();
    CHECK(cost > 0.5);
    CHECK(cost < 1e6);
}

int main(void)
{
    check_in("clock");
    test_monotonic();
    test_sleep_until();
    test_past_is_no_sleep();
    test_sleep_across_a_second();
    test_cpu_time_is_work_not_sleep();
    test_spin_iterations();
    test_calibration();
    return check_report();
}
