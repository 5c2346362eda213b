/* SPDX-License-Identifier: MIT
 *
 * test_percpu.c - what percpu promises of itself: whose stack, what it does when that is taken.
 *
 * Another thread inside a stack is played by the test, which takes the try-lock; a thread that
 * moves to another CPU, by the word that says where it is.
 */
#define _GNU_SOURCE
#include "cell.h"
#include "check.h"
#include "cpu.h"
#include "crowd.h"
#include "shard.h"

/* Thread contexts of percpu begin like this. */
typedef struct looked_at {
    pb_ctx base;
    pb_shard_home home;
} looked_at;

static pb_ctx *opened(parts *p, const char *pool, probe_orders *orders)
{
    check_in("%s", pool);
    const pb_cell cell = cell_of(pool, "bytes", "churn", 1);
    probe_parts(p, &cell, orders);
    return parts_attach(p, 0);
}

static void closed(parts *p)
{
    parts_detach(p, 0);
    CHECK_EQ(parts_alive(p), parts_idle(p));
    CHECK_EQ(parts_close(p), 0);
}

/* From now on the thread seems to run on that CPU. */
static void move_to(pb_ctx *ctx, volatile uint32_t *word, uint32_t cpu)
{
    *word = cpu;
    ((looked_at *)ctx)->home.now = word;
}

static pb_shard *stack_of(pb_ctx *ctx, uint32_t cpu)
{
    return pb_shards_at(((looked_at *)ctx)->home.row, cpu);
}

static pb_got acquired(parts *p, pb_outcome how)
{
    const pb_got got = parts_acquire(p, p->ctx[0]);
    CHECK_EQ(got.how, how);
    CHECK_EQ(got.handle, 0);
    return got;
}

static void released(parts *p, pb_got got, pb_outcome how)
{
    CHECK_EQ(parts_release(p, p->ctx[0], held_of(got)), how);
}

static uint32_t last_cpu(void)
{
    return pb_cpu_configured() - 1;
}

/* A stack for each configured CPU; numbers above are somebody else's too. */
static void test_as_many_as_cpus(void)
{
    parts p;
    probe_orders orders = {.fail = false};
    pb_ctx *ctx = opened(&p, "percpu", &orders);
    const pb_shards *row = ((looked_at *)ctx)->home.row;
    CHECK_EQ(row->count, pb_cpu_configured());
    CHECK(row->apart >= PB_SHARING);
    volatile uint32_t word;
    move_to(ctx, &word, row->count + 2);
    released(&p, acquired(&p, PB_CONSTRUCTED), PB_KEPT);
    CHECK(((looked_at *)ctx)->home.shard == stack_of(ctx, 2 % row->count));
    closed(&p);
}

/* Two per CPU, newest first. */
static void test_own_stack(void)
{
    parts p;
    probe_orders orders = {.fail = false};
    pb_ctx *ctx = opened(&p, "percpu capacity=2", &orders);
    volatile uint32_t word;
    move_to(ctx, &word, 0);
    pb_got o[3];
    for (int i = 0; i < 3; i++)
        o[i] = acquired(&p, PB_CONSTRUCTED);
    for (int i = 0; i < 3; i++)
        released(&p, o[i], i < 2 ? PB_KEPT : PB_DESTROYED);
    CHECK(acquired(&p, PB_SHARED_HIT).object == o[1].object);
    CHECK(acquired(&p, PB_SHARED_HIT).object == o[0].object);
    CHECK_EQ(ctx->events[PB_RETRIED], 0);
    released(&p, o[0], PB_KEPT);
    released(&p, o[1], PB_KEPT);
    closed(&p);
}

/* A thread that moves leaves its objects behind; whether it may go back for them is `steal`. */
static void test_moving(bool steal)
{
    if (last_cpu() == 0)
        return;
    parts p;
    probe_orders orders = {.fail = false};
    pb_ctx *ctx = opened(&p, steal ? "percpu" : "percpu steal=0", &orders);
    volatile uint32_t word;
    move_to(ctx, &word, 0);
    const pb_got o = acquired(&p, PB_CONSTRUCTED);
    released(&p, o, PB_KEPT);
    word = last_cpu();
    const pb_got got = acquired(&p, steal ? PB_STOLEN : PB_CONSTRUCTED);
    CHECK_EQ(got.object == o.object, steal);
    released(&p, got, PB_KEPT);
    CHECK_EQ(pb_load_relaxed_u32(&stack_of(ctx, last_cpu())->count), 1); /* relaxed: alone */
    CHECK(acquired(&p, PB_SHARED_HIT).object == got.object);
    released(&p, got, PB_KEPT);
    closed(&p);
}

/* The only other stack that has something is taken: constructs, and takes note. */
static void test_steals_from_nobody_inside(void)
{
    if (last_cpu() == 0)
        return;
    parts p;
    probe_orders orders = {.fail = false};
    pb_ctx *ctx = opened(&p, "percpu", &orders);
    volatile uint32_t word;
    move_to(ctx, &word, last_cpu());
    released(&p, acquired(&p, PB_CONSTRUCTED), PB_KEPT);
    word = 0;
    CHECK(pb_shard_enter(stack_of(ctx, last_cpu())));
    const pb_got got = acquired(&p, PB_CONSTRUCTED);
    CHECK_EQ(ctx->events[PB_RETRIED], 1);
    pb_shard_leave(stack_of(ctx, last_cpu()));
    released(&p, got, PB_KEPT);
    closed(&p);
}

/* Its own stack is taken: the next CPU's is tried, once, and then no other, whatever they have. */
static void test_own_taken(void)
{
    const uint32_t next = last_cpu() == 0 ? 0 : 1;
    parts p;
    probe_orders orders = {.fail = false};
    pb_ctx *ctx = opened(&p, "percpu capacity=1", &orders);
    volatile uint32_t word;
    move_to(ctx, &word, 0);
    const pb_got a = acquired(&p, PB_CONSTRUCTED), b = acquired(&p, PB_CONSTRUCTED);
    CHECK(pb_shard_enter(stack_of(ctx, 0)));
    released(&p, a, next ? PB_KEPT : PB_DESTROYED);
    released(&p, b, PB_DESTROYED); /* the next is full; or there is none */
    CHECK_EQ(ctx->events[PB_RETRIED], next ? 2 : 4);
    const pb_got c = acquired(&p, next ? PB_STOLEN : PB_CONSTRUCTED);
    CHECK_EQ(c.object == a.object, next != 0);
    CHECK_EQ(ctx->events[PB_RETRIED], next ? 3 : 6);
    const pb_got d = acquired(&p, PB_CONSTRUCTED); /* the next is empty */
    CHECK_EQ(ctx->events[PB_RETRIED], next ? 4 : 8);
    CHECK(next == 0 || pb_shard_enter(stack_of(ctx, next)));
    released(&p, c, PB_DESTROYED); /* both are taken */
    CHECK_EQ(ctx->events[PB_RETRIED], next ? 6 : 10);
    pb_shard_leave(stack_of(ctx, next));
    pb_shard_leave(stack_of(ctx, 0));
    released(&p, d, PB_KEPT); /* nothing is transient here */
    closed(&p);
}

static void test_failing_while_taken(void)
{
    parts p;
    probe_orders orders = {.fail = true};
    pb_ctx *ctx = opened(&p, "percpu", &orders);
    volatile uint32_t word;
    move_to(ctx, &word, 0);
    CHECK(pb_shard_enter(stack_of(ctx, 0)));
    CHECK(acquired(&p, PB_FAILED).object == NULL);
    pb_shard_leave(stack_of(ctx, 0));
    CHECK(acquired(&p, PB_FAILED).object == NULL);
    closed(&p);
}

static void test_crowd(const char *pool, uint64_t capacity, int rounds)
{
    static crowd c;
    crowd_run(&c, pool, rounds, 1000);
    CHECK(c.idle <= capacity * pb_cpu_configured());
    CHECK(c.outcomes[PB_SHARED_HIT] > 0);
    CHECK_EQ(c.events[PB_TRANSIENT], 0);
    CHECK(c.events[PB_RETRIED] > 0);
}

int main(void)
{
    const int rounds = crowd_rounds(4000);
    test_as_many_as_cpus();
    test_own_stack();
    test_moving(true);
    test_moving(false);
    test_steals_from_nobody_inside();
    test_own_taken();
    test_failing_while_taken();
    test_crowd("percpu capacity=2", 2, rounds);
    test_crowd("percpu capacity=1 steal=0", 1, rounds);
    test_crowd("percpu capacity=3 reset_on=acquire", 3, rounds);
    return check_report();
}
