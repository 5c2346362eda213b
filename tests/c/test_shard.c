/* SPDX-License-Identifier: MIT
 *
 * test_shard.c - a try-lock stack, a row of them, where a thread goes first, and the CPU it is on.
 */
#define _GNU_SOURCE
#include <sched.h>

#include "check.h"
#include "marks.h"
#include "shard.h"

enum { CAPACITY = 3 };

static void *thing(uintptr_t number)
{
    return (void *)(number * 16); /* never looked into */
}

static void test_stack(void)
{
    check_in("stack");
    pb_shards row;
    CHECK_EQ(pb_shards_open(&row, 1, CAPACITY, true), PB_OK);
    pb_shard *s = pb_shards_at(&row, 0);
    for (int round = 0; round < 3; round++) {
        CHECK(pb_shard_seems_empty(s));
        CHECK_EQ(pb_shard_get(s).answer, PB_SHARD_NO_USE);
        CHECK(pb_shard_get(s).object == NULL);
        for (uintptr_t i = 1; i <= CAPACITY; i++)
            CHECK_EQ(pb_shard_put(s, thing(i)), PB_SHARD_DONE);
        CHECK_EQ(pb_shard_put(s, thing(9)), PB_SHARD_NO_USE);
        CHECK(!pb_shard_seems_empty(s));
        CHECK_EQ(pb_shards_idle(&row), CAPACITY);
        for (uintptr_t i = CAPACITY; i >= 1; i--) { /* newest first */
            const pb_shard_got got = pb_shard_get(s);
            CHECK_EQ(got.answer, PB_SHARD_DONE);
            CHECK(got.object == thing(i));
        }
    }
    pb_shards_close(&row);
}

/* While somebody is inside, everybody else is told so, and nothing changes. */
static void test_taken(void)
{
    check_in("taken");
    pb_shards row;
    CHECK_EQ(pb_shards_open(&row, 1, CAPACITY, true), PB_OK);
    pb_shard *s = pb_shards_at(&row, 0);
    CHECK_EQ(pb_shard_put(s, thing(1)), PB_SHARD_DONE);
    CHECK(pb_shard_enter(s));
    CHECK(!pb_shard_enter(s));
    CHECK_EQ(pb_shard_get(s).answer, PB_SHARD_TAKEN);
    CHECK_EQ(pb_shard_put(s, thing(2)), PB_SHARD_TAKEN);
    CHECK(!pb_shard_seems_empty(s)); /* a look is allowed */
    pb_shard_leave(s);
    CHECK_EQ(pb_shards_idle(&row), 1);
    CHECK(pb_shard_get(s).object == thing(1));
    pb_shards_close(&row);
}

static void test_row(bool padded, uint32_t count, uint32_t capacity)
{
    check_in("row of %u x %u, padded=%d", count, capacity, padded);
    pb_shards row;
    CHECK_EQ(pb_shards_open(&row, count, capacity, padded), PB_OK);
    pb_shard *s = pb_shards_at(&row, 0);
    CHECK_EQ((uintptr_t)s % PB_SHARING, 0);
    for (uint32_t i = 0; i < count; i++, s = pb_shards_after(&row, s)) {
        CHECK(s == pb_shards_at(&row, i));
        CHECK_EQ((char *)s - row.first, i * (padded ? PB_SHARING : sizeof(pb_shard)));
        CHECK_EQ((uintptr_t)s->idle % PB_SHARING, 0); /* the arrays are apart in any case */
        for (uintptr_t j = 0; j < capacity; j++)
            CHECK_EQ(pb_shard_put(s, thing(1 + i * capacity + j)), PB_SHARD_DONE);
        CHECK_EQ(pb_shard_put(s, thing(1)), PB_SHARD_NO_USE);
    }
    CHECK(s == pb_shards_at(&row, 0)); /* round again */
    CHECK_EQ(pb_shards_idle(&row), count * capacity);
    uintptr_t sum = 0;
    for (void *object; (object = pb_shards_take_out(&row)) != NULL;)
        sum += (uintptr_t)object / 16;
    const uintptr_t all = (uintptr_t)count * capacity;
    CHECK_EQ(sum, all * (all + 1) / 2); /* each once */
    pb_shards_close(&row);
}

static void test_home_by_thread(void)
{
    check_in("home by thread");
    pb_shards row;
    CHECK_EQ(pb_shards_open(&row, 3, 1, true), PB_OK);
    for (int thread = 0; thread < 7; thread++) {
        pb_shard_home home;
        pb_shard_home_by_thread(&home, &row, thread);
        CHECK(pb_shard_home_of(&home) == pb_shards_at(&row, (uint32_t)thread % 3));
        CHECK(pb_shard_home_of(&home) == home.shard);
    }
    pb_shards_close(&row);
}

/* ---- the CPU --------------------------------------------------------------------------------- */

static bool run_on(uint32_t cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return sched_setaffinity(0, sizeof set, &set) == 0;
}

/* On each CPU we may use, the kernel's word and the call say so, and the thread's home follows. */
static void test_home_by_cpu(uint32_t shards)
{
    check_in("home by CPU, %u shards", shards);
    cpu_set_t allowed;
    CHECK_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    pb_shards row;
    CHECK_EQ(pb_shards_open(&row, shards, 1, true), PB_OK);
    const volatile uint32_t *word = pb_cpu_word();
    pb_shard_home home, asks;
    pb_shard_home_by_cpu(&home, &row);
    asks = (pb_shard_home){.now = &asks.unknown, .row = &row, .unknown = UINT32_MAX};
    for (uint32_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &allowed) || !run_on(cpu))
            continue;
        CHECK_EQ(pb_cpu_ask(), cpu);
        CHECK(!word || *word == cpu);
        CHECK(pb_shard_home_of(&home) == pb_shards_at(&row, cpu % shards));
        CHECK(pb_shard_home_of(&asks) == pb_shards_at(&row, cpu % shards));
    }
    CHECK_EQ(sched_setaffinity(0, sizeof allowed, &allowed), 0);
    pb_shards_close(&row);
}

int main(void)
{
    test_stack();
    test_taken();
    for (int padded = 0; padded < 2; padded++) {
        test_row(padded, 1, 1);
        test_row(padded, 3, 2);
        test_row(padded, 8, 16);
        test_row(padded, 5, 17);
    }
    test_home_by_thread();
    CHECK(pb_cpu_configured() >= 1);
    test_home_by_cpu(pb_cpu_configured());
    test_home_by_cpu(1);
    return check_report();
}
