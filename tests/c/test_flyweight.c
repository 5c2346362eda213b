/* SPDX-License-Identifier: MIT
 *
 * test_flyweight.c - one object for everybody: made once, the same for all, destroyed once.
 */
#define _GNU_SOURCE
#include <pthread.h>

#include "cell.h"
#include "check.h"
#include "live.h"

enum { THREADS = 6, STEPS = 2000 };

/* An object that is only read in use, and says when it is not what it was. */
typedef struct constant {
    uint64_t value[4];
} constant;

enum { VALUE = 0x1dea };

/* What its constructor does; args.shared. */
typedef struct constant_orders {
    bool fail;
    pthread_barrier_t *meet; /* so many construct at the same time, or NULL */
} constant_orders;

static bool constant_init(pb_ctx *ctx, void *memory, const pb_args args)
{
    (void)ctx;
    const constant_orders *orders = args.shared;
    if (orders->meet)
        (void)pthread_barrier_wait(orders->meet);
    for (int i = 0; i < 4; i++)
        ((constant *)memory)->value[i] = VALUE;
    return !orders->fail;
}

static void constant_fini(pb_ctx *ctx, void *object, const pb_args args)
{
    (void)ctx, (void)args;
    CHECK_EQ(((constant *)object)->value[0], VALUE); /* destroyed once */
    ((constant *)object)->value[0] = 0;
}

static void *constant_construct(pb_ctx *ctx, const pb_args args)
{
    return pb_allocate_and(constant_init, ctx, args);
}

static void constant_destroy(pb_ctx *ctx, void *object, const pb_args args)
{
    constant_fini(ctx, object, args);
    free(object);
}

static void constant_reset(pb_ctx *ctx, void *object, const pb_args args)
{
    (void)ctx, (void)object, (void)args;
    CHECK(false); /* never reset: others use it */
}

static uint64_t constant_use(pb_ctx *ctx, void *object, const pb_args args)
{
    (void)ctx, (void)args;
    const constant *o = object;
    for (int i = 0; i < 4; i++)
        CHECK_EQ(o->value[i], VALUE);
    return o->value[0];
}

static bool constant_is_clean(const void *object, const pb_args args)
{
    (void)object, (void)args;
    return true; /* nobody changes it */
}

static const pb_functions constant_functions = PB_FUNCTIONS(constant);

static void opened(parts *p, constant_orders *orders)
{
    const pb_cell cell = cell_of("flyweight", "widget", "churn", THREADS);
    const pb_args args = {.size = sizeof(constant), .shared = orders, .has_reset = true};
    parts_open(p, &cell, &(pb_workload){&constant_functions, &args});
}

/* ---- one thread ------------------------------------------------------------------------------ */

static void test_the_same_object(void)
{
    check_in("the same object");
    constant_orders orders = {.fail = false};
    parts p;
    opened(&p, &orders);
    CHECK_EQ(parts_idle(&p), 0);
    pb_ctx *ctx = parts_attach(&p, 0);
    CHECK_EQ(ctx->constructed, 1);
    const pb_got first = parts_acquire(&p, ctx), second = parts_acquire(&p, ctx);
    CHECK(first.object != NULL && first.object == second.object);
    CHECK_EQ(first.how, PB_LOCAL_HIT);
    CHECK_EQ(parts_idle(&p), 1); /* and in two hands */
    CHECK_EQ(parts_release(&p, ctx, held_of(first)), PB_KEPT);
    CHECK_EQ(parts_release(&p, ctx, held_of(second)), PB_KEPT);
    parts_detach(&p, 0);
    CHECK_EQ(parts_idle(&p), 1); /* it stays for who comes later */
    ctx = parts_attach(&p, 1);
    CHECK_EQ(ctx->constructed, 0);
    CHECK(parts_acquire(&p, ctx).object == first.object);
    parts_detach(&p, 1);
    CHECK_EQ(parts_alive(&p), 1);
    CHECK_EQ(parts_close(&p), 0);
}

/* What is not the one is destroyed, and the one is not. */
static void test_foreign_object(void)
{
    check_in("foreign object");
    constant_orders orders = {.fail = false};
    parts p;
    opened(&p, &orders);
    pb_ctx *ctx = parts_attach(&p, 0);
    void *foreign = pb_construct(ctx, p.workload.is, &p.args);
    CHECK_EQ(parts_release(&p, ctx, (pb_held){foreign, 0}), PB_DESTROYED);
    CHECK_EQ(parts_alive(&p), 1);
    (void)parts_use(&p, ctx, parts_acquire(&p, ctx).object);
    parts_detach(&p, 0);
    CHECK_EQ(parts_close(&p), 0);
}

/* A thread that cannot make it says so; the next one may. */
static void test_failing_constructor(void)
{
    check_in("failing constructor");
    constant_orders orders = {.fail = true};
    parts p;
    opened(&p, &orders);
    CHECK(parts_attach(&p, 0) == NULL);
    CHECK_EQ(parts_idle(&p), 0);
    orders.fail = false;
    CHECK(parts_attach(&p, 1) != NULL);
    CHECK_EQ(parts_idle(&p), 1);
    parts_detach(&p, 1);
    CHECK_EQ(parts_close(&p), 0);
}

/* ---- several threads ------------------------------------------------------------------------- */

typedef struct user {
    parts *p;
    int index;
    pb_got got;
} user;

static void *use(void *arg)
{
    user *u = arg;
    check_in("thread %d", u->index);
    pb_ctx *ctx = parts_attach(u->p, u->index);
    for (int i = 0; i < STEPS; i++) {
        u->got = parts_acquire(u->p, ctx);
        ctx->sink += parts_use(u->p, ctx, u->got.object);
        CHECK_EQ(parts_release(u->p, ctx, held_of(u->got)), PB_KEPT);
    }
    parts_detach(u->p, u->index);
    return NULL;
}

/* All threads are in their constructors at once: one object stays, the others go. */
static void test_attaching_at_once(void)
{
    check_in("attaching at once");
    pthread_barrier_t meet;
    (void)pthread_barrier_init(&meet, NULL, THREADS);
    constant_orders orders = {.meet = &meet};
    parts p;
    user users[THREADS];
    pthread_t threads[THREADS];
    opened(&p, &orders);
    for (int i = 0; i < THREADS; i++) {
        users[i] = (user){.p = &p, .index = i};
        if (pthread_create(&threads[i], NULL, use, &users[i]) != 0)
            cell_mistake("no thread");
    }
    uint64_t constructed = 0;
    for (int i = 0; i < THREADS; i++) {
        (void)pthread_join(threads[i], NULL);
        constructed += p.ctx[i]->constructed;
        CHECK(users[i].got.object == users[0].got.object);
    }
    CHECK_EQ(constructed, THREADS);
    CHECK_EQ(parts_alive(&p), 1);
    CHECK_EQ(parts_idle(&p), 1);
    CHECK_EQ(parts_close(&p), 0);
    (void)pthread_barrier_destroy(&meet);
}

/* ---- in a live replicate --------------------------------------------------------------------- */

static void test_run(const char *pattern)
{
    check_in("run, %s", pattern);
    const pb_cell cell = cell_of("flyweight", "widget", pattern, 3);
    pb_run *run;
    pb_error error = {""};
    if (!CHECK_EQ(pb_run_open(&run, &cell, &error), PB_OK))
        cell_mistake(error.text);
    uint64_t operations[3];
    pb_window w = {.operations = operations};
    CHECK_EQ(pb_run_window(run, 0.01, &w, &error), PB_OK);
    pb_account a;
    CHECK_EQ(pb_run_close(run, &a, &error), PB_OK);
    CHECK(a.operations > 0);
    CHECK_EQ(a.outcomes[PB_LOCAL_HIT], a.operations);
    CHECK_EQ(a.outcomes[PB_KEPT], a.operations);
    CHECK_EQ(a.constructed - a.destroyed, 1);
    CHECK_EQ(a.idle, 1);
}

/* Objects that change in use are refused, with the reason. */
static void test_refused(const char *workload)
{
    check_in("%s", workload);
    const pb_cell cell = cell_of("flyweight", workload, "churn", 1);
    pb_run *run;
    pb_error error = {""};
    CHECK_EQ(pb_run_open(&run, &cell, &error), PB_BAD_VALUE);
    CHECK(strstr(error.text, "flyweight hands one object to everybody"));
    CHECK(strstr(error.text, workload));
}

int main(void)
{
    test_the_same_object();
    test_foreign_object();
    test_failing_constructor();
    test_attaching_at_once();
    test_run("churn");
    test_run("steady live=20");
    test_run("burst objects=20 order=random");
    test_refused("bytes");
    test_refused("context");
    return check_report();
}
