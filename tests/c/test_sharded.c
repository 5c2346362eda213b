/* SPDX-License-Identifier: MIT
 *
 * test_sharded.c - what sharded promises of itself: whose shard, how often it tries, what it drops.
 *
 * Another thread inside a shard is played by the test, which takes the try-lock.
 */
#define _GNU_SOURCE
#include "cell.h"
#include "check.h"
#include "crowd.h"
#include "shard.h"

enum { THREADS = 9 };

/* Thread contexts of sharded begin like this. */
typedef struct looked_at {
    pb_ctx base;
    pb_shard_home home;
} looked_at;

static pb_shard_home *home_of(const parts *p, int thread)
{
    return &((looked_at *)p->ctx[thread])->home;
}

static pb_shard *shard_at(const parts *p, uint32_t index)
{
    return pb_shards_at(home_of(p, 0)->row, index);
}

static void opened(parts *p, const char *pool, probe_orders *orders)
{
    check_in("%s", pool);
    const pb_cell cell = cell_of(pool, "bytes", "churn", THREADS);
    probe_parts(p, &cell, orders);
    for (int i = 0; i < THREADS; i++)
        (void)parts_attach(p, i);
}

static void closed(parts *p)
{
    for (int i = 0; i < THREADS; i++)
        parts_detach(p, i);
    CHECK_EQ(parts_alive(p), parts_idle(p));
    CHECK_EQ(parts_close(p), 0);
}

static pb_got acquired(parts *p, int thread, pb_outcome how)
{
    const pb_got got = parts_acquire(p, p->ctx[thread]);
    CHECK_EQ(got.how, how);
    return got;
}

static void released(parts *p, int thread, pb_got got, pb_outcome how)
{
    CHECK_EQ(parts_release(p, p->ctx[thread], held_of(got)), how);
}

static void check_events(const parts *p, int thread, uint64_t retried, uint64_t transient)
{
    CHECK_EQ(p->ctx[thread]->events[PB_RETRIED], retried);
    CHECK_EQ(p->ctx[thread]->events[PB_TRANSIENT], transient);
}

/* Two per shard, newest first; what is in one shard is not seen from another. */
static void test_own_shard(const char *pool)
{
    parts p;
    probe_orders orders = {.fail = false};
    opened(&p, pool, &orders);
    pb_got o[3];
    for (int i = 0; i < 3; i++)
        o[i] = acquired(&p, 0, PB_CONSTRUCTED);
    for (int i = 0; i < 3; i++)
        released(&p, 0, o[i], i < 2 ? PB_KEPT : PB_DESTROYED);
    const pb_got other = acquired(&p, 1, PB_CONSTRUCTED);
    CHECK(acquired(&p, 8, PB_SHARED_HIT).object == o[1].object); /* thread 8 goes where 0 does */
    CHECK(acquired(&p, 0, PB_SHARED_HIT).object == o[0].object);
    released(&p, 1, other, PB_KEPT);
    released(&p, 1, o[0], PB_KEPT); /* whoever acquired it */
    released(&p, 1, o[1], PB_DESTROYED);
    check_events(&p, 0, 0, 0);
    check_events(&p, 1, 0, 0);
    closed(&p);
}

/* Constructed because the shard was taken: destroyed at release, by whomever, though there is room.
 */
static void test_transient(int releaser)
{
    parts p;
    probe_orders orders = {.fail = false};
    opened(&p, "sharded capacity=2", &orders);
    CHECK(pb_shard_enter(shard_at(&p, 0)));
    const pb_got got = acquired(&p, 0, PB_CONSTRUCTED);
    check_events(&p, 0, 1, 1);
    pb_shard_leave(shard_at(&p, 0));
    const pb_got pooled = acquired(&p, 0, PB_CONSTRUCTED);
    released(&p, releaser, got, PB_DESTROYED);
    CHECK_EQ(parts_idle(&p), 0);
    released(&p, releaser, pooled, PB_KEPT);
    check_events(&p, 0, 1, 1);
    closed(&p);
}

/* A constructor that fails makes nothing transient. */
static void test_failing_while_taken(void)
{
    parts p;
    probe_orders orders = {.fail = true};
    opened(&p, "sharded capacity=2", &orders);
    CHECK(pb_shard_enter(shard_at(&p, 0)));
    CHECK(acquired(&p, 0, PB_FAILED).object == NULL);
    check_events(&p, 0, 1, 0);
    pb_shard_leave(shard_at(&p, 0));
    closed(&p);
}

/* Its shard stays taken: so many tries, then the object is dropped, and destroyed. */
static void test_put_tries(const char *pool, uint64_t tries)
{
    parts p;
    probe_orders orders = {.fail = false};
    opened(&p, pool, &orders);
    const pb_got got = acquired(&p, 0, PB_CONSTRUCTED);
    const pb_got other = acquired(&p, 1, PB_CONSTRUCTED);
    CHECK(pb_shard_enter(shard_at(&p, 0)));
    released(&p, 0, got, PB_DESTROYED);
    check_events(&p, 0, tries, 0);
    released(&p, 1, other, PB_KEPT); /* another shard is another matter */
    pb_shard_leave(shard_at(&p, 0));
    CHECK_EQ(parts_idle(&p), 1);
    closed(&p);
}

/* Three shards and as many tries: goes on past taken and empty ones, and from the last to the
 * first.
 */
static void test_get_tries(void)
{
    parts p;
    probe_orders orders = {.fail = false};
    opened(&p, "sharded shards=3 capacity=2 get_tries=3", &orders);
    const pb_got o = acquired(&p, 0, PB_CONSTRUCTED);
    CHECK_EQ(o.handle, 0);
    released(&p, 0, o, PB_KEPT);
    CHECK(acquired(&p, 1, PB_SHARED_HIT).object == o.object); /* 1, 2: empty; then 0 */
    released(&p, 0, o, PB_KEPT);
    CHECK(pb_shard_enter(shard_at(&p, 1)));
    CHECK(acquired(&p, 1, PB_SHARED_HIT).object == o.object); /* 1: taken, 2: empty */
    check_events(&p, 1, 1, 0);
    const pb_got pooled = acquired(&p, 1, PB_CONSTRUCTED); /* all empty but one, which is taken */
    check_events(&p, 1, 2, 0);
    pb_shard_leave(shard_at(&p, 1));
    CHECK(pb_shard_enter(shard_at(&p, 0)));
    const pb_got too = acquired(&p, 1, PB_CONSTRUCTED); /* the same; the last one looked at is */
    check_events(&p, 1, 3, 0);
    CHECK(pb_shard_enter(shard_at(&p, 1)) && pb_shard_enter(shard_at(&p, 2)));
    const pb_got transient = acquired(&p, 1, PB_CONSTRUCTED); /* all taken */
    check_events(&p, 1, 6, 1);
    for (uint32_t i = 0; i < 3; i++)
        pb_shard_leave(shard_at(&p, i));
    released(&p, 1, transient, PB_DESTROYED);
    released(&p, 1, pooled, PB_KEPT);
    released(&p, 1, too, PB_KEPT);
    released(&p, 0, o, PB_KEPT);
    closed(&p);
}

/* Two tries at one shard: the second is at the same. */
static void test_more_tries_than_shards(void)
{
    parts p;
    probe_orders orders = {.fail = false};
    opened(&p, "sharded shards=1 get_tries=2", &orders);
    CHECK(pb_shard_enter(shard_at(&p, 0)));
    const pb_got got = acquired(&p, 5, PB_CONSTRUCTED);
    check_events(&p, 5, 2, 1);
    pb_shard_leave(shard_at(&p, 0));
    released(&p, 5, got, PB_DESTROYED);
    closed(&p);
}

/* shard_by=cpu: all threads of a CPU share its shard; which CPU it is, is for test_shard.c. */
static void test_by_cpu(void)
{
    parts p;
    probe_orders orders = {.fail = false};
    opened(&p, "sharded shards=1024 shard_by=cpu capacity=2", &orders);
    home_of(&p, 0)->now = home_of(&p, 1)->now = &home_of(&p, 0)->place; /* nobody moves meanwhile */
    home_of(&p, 1)->place = home_of(&p, 0)->place;
    home_of(&p, 1)->shard = home_of(&p, 0)->shard;
    const pb_got o = acquired(&p, 0, PB_CONSTRUCTED);
    released(&p, 0, o, PB_KEPT);
    CHECK(acquired(&p, 1, PB_SHARED_HIT).object == o.object);
    released(&p, 1, o, PB_KEPT);
    CHECK(home_of(&p, 0)->shard == shard_at(&p, home_of(&p, 0)->place));
    closed(&p);
}

static void test_crowd(const char *pool, uint64_t bound, int rounds)
{
    static crowd c;
    crowd_run(&c, pool, rounds, 1000);
    CHECK(c.idle <= bound);
    CHECK(c.outcomes[PB_SHARED_HIT] > 0);
    CHECK(c.events[PB_TRANSIENT] <= c.outcomes[PB_DESTROYED]); /* each of them is, in the end */
    CHECK(c.events[PB_RETRIED] > 0 && c.events[PB_TRANSIENT] > 0);
}

int main(void)
{
    const int rounds = crowd_rounds(4000);
    test_own_shard("sharded capacity=2");
    test_own_shard("sharded capacity=2 padded=0");
    test_transient(0);
    test_transient(1);
    test_failing_while_taken();
    test_put_tries("sharded capacity=2", 10);
    test_put_tries("sharded capacity=2 put_tries=1", 1);
    test_get_tries();
    test_more_tries_than_shards();
    test_by_cpu();
    test_crowd("sharded shards=1 capacity=2", 2, rounds);
    test_crowd("sharded shards=2 capacity=1 padded=0 put_tries=1", 2, rounds);
    test_crowd("sharded shards=3 capacity=2 get_tries=3 reset_on=acquire", 6, rounds);
    test_crowd("sharded shards=2 capacity=2 shard_by=cpu", 4, rounds);
    return check_report();
}
