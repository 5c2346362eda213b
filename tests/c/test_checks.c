/* SPDX-License-Identifier: MIT
 *
 * test_checks.c - checked mode: right use passes, each wrong use is noted with object and threads.
 */
#define _GNU_SOURCE
#include <sys/wait.h>

#include "cell.h"
#include "check.h"
#include "checks.h"
#include "probe.h"

enum { OBJECTS = 64 };

/* One pool with checks on, and two threads' contexts on this one. */
typedef struct checked {
    parts p;
    probe_orders orders;
    pb_checks *checks;
    pb_ctx *one, *two;
} checked;

static void open_checked(checked *c, const char *pool)
{
    const pb_cell cell = cell_of(pool, "bytes", "churn", 2);
    *c = (checked){.orders = {.fail = false}};
    probe_parts(&c->p, &cell, &c->orders);
    c->checks = pb_checks_open(OBJECTS);
    if (!c->checks)
        cell_mistake("out of memory");
    c->p.args.extras |= PB_CHECKED;
    c->p.closer.checks = c->checks;
    c->p.checks = c->checks;
    c->one = parts_attach(&c->p, 0);
    c->two = parts_attach(&c->p, 1);
}

/* As kernels do it. */
static pb_held take(checked *c, pb_ctx *ctx)
{
    const pb_pool_calls calls = {c->p.class->acquire, c->p.class->release};
    return pb_acquire(ctx, calls, c->p.workload.is, &c->p.args);
}

static void give(checked *c, pb_ctx *ctx, pb_held held)
{
    const pb_pool_calls calls = {c->p.class->acquire, c->p.class->release};
    pb_release(ctx, held, calls, c->p.workload.is, &c->p.args);
}

static void close_checked(checked *c)
{
    parts_detach(&c->p, 0);
    parts_detach(&c->p, 1);
    CHECK_EQ(parts_close(&c->p), 0);
    pb_checks_close(c->checks);
}

/* The first complaint, which must begin so and name `object`. */
static void check_complaint(const checked *c, const char *begins, const void *object,
                            const char *ends)
{
    char wanted[200];
    (void)snprintf(wanted, sizeof wanted, "%s object %p%s", begins, object, ends);
    const char *said = pb_checks_complaint(c->checks);
    if (CHECK(said != NULL) && !CHECK(strcmp(said, wanted) == 0))
        (void)fprintf(stderr, "  said '%s', wanted '%s'\n", said, wanted);
}

static void test_right_use(const char *pool)
{
    check_in("%s: right use", pool);
    checked c;
    open_checked(&c, pool);
    for (int i = 0; i < 200; i++) {
        const pb_held a = take(&c, c.one), b = take(&c, c.two);
        (void)parts_use(&c.p, c.one, a.object);
        (void)parts_use(&c.p, c.two, b.object);
        give(&c, c.one, a);
        give(&c, c.two, b);
    }
    CHECK(pb_checks_complaint(c.checks) == NULL);
    CHECK_EQ(c.one->outcomes[PB_REFUSED] + c.two->outcomes[PB_REFUSED], 0);
    close_checked(&c);
}

static void test_released_twice(void)
{
    check_in("released twice");
    checked c;
    open_checked(&c, "locked");
    const pb_held held = take(&c, c.one);
    give(&c, c.one, held);
    give(&c, c.two, held);
    check_complaint(&c, "released twice:", held.object, " by thread 1 while in the pool");
    CHECK_EQ(c.two->outcomes[PB_REFUSED], 1);
    CHECK_EQ(parts_idle(&c.p), 1); /* the pool has it once */
    close_checked(&c);
}

static void test_released_after_its_end(void)
{
    check_in("released after its end");
    checked c;
    open_checked(&c, "locked capacity=1");
    const pb_held first = take(&c, c.one), second = take(&c, c.one);
    give(&c, c.one, first);
    give(&c, c.one, second); /* one too many: destroyed */
    give(&c, c.one, second);
    check_complaint(&c, "released twice:", second.object, " by thread 0 while destroyed");
    close_checked(&c);
}

static void test_never_acquired(void)
{
    check_in("never acquired");
    checked c;
    probe foreign = {.resets = 0};
    open_checked(&c, "thread_cache");
    give(&c, c.two, (pb_held){&foreign, 0});
    check_complaint(&c, "never acquired:", &foreign, ", released by thread 1");
    CHECK_EQ(parts_idle(&c.p), 0); /* the pool has not seen it */
    close_checked(&c);
}

/* A pool that gives away what it still has. */
static pb_held lent;

static pb_got acquire_the_same(pb_ctx *ctx, const pb_functions *w, const pb_args *args)
{
    (void)ctx, (void)w, (void)args;
    return (pb_got){lent.object, PB_LOCAL_HIT, lent.handle};
}

static void test_handed_out_twice(void)
{
    check_in("handed out twice");
    checked c;
    open_checked(&c, "locked");
    lent = take(&c, c.one);
    const pb_pool_calls calls = {acquire_the_same, c.p.class->release};
    (void)pb_acquire(c.two, calls, c.p.workload.is, &c.p.args);
    check_complaint(&c, "handed out twice:", lent.object, " to thread 1 while held by thread 0");
    give(&c, c.two, lent);
    close_checked(&c);
}

static void test_handed_out_dirty(void)
{
    check_in("handed out dirty");
    checked c;
    open_checked(&c, "locked");
    const pb_held held = take(&c, c.one);
    (void)parts_use(&c.p, c.one, held.object);
    give(&c, c.one, held);
    pb_checks_show(held.object, sizeof(probe)); /* or AddressSanitizer stops us first, see below */
    ((probe *)held.object)->dirty = true;       /* a borrower that still uses what it gave back */
    const pb_held again = take(&c, c.two);
    check_complaint(&c, "handed out dirty:", held.object, " to thread 1");
    give(&c, c.two, again);
    close_checked(&c);
}

/* Whoever touches an object that lies in the pool is stopped, where memory can be hidden. */
static void test_idle_objects_are_hidden(void)
{
#if defined(__SANITIZE_ADDRESS__)
    check_in("idle objects are hidden");
    checked c;
    open_checked(&c, "locked");
    const pb_held held = take(&c, c.one);
    give(&c, c.one, held);
    (void)fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        (void)close(STDERR_FILENO);
        ((volatile probe *)held.object)->dirty = true;
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(status != 0);
    close_checked(&c);
#endif
}

static void test_destroyed_while_held(void)
{
    check_in("destroyed while held");
    checked c;
    open_checked(&c, "locked");
    const pb_held held = take(&c, c.one);
    pb_destroy(c.two, held.object, c.p.workload.is, &c.p.args);
    check_complaint(&c, "destroyed at the wrong time:", held.object,
                    " by thread 1 while held by thread 0");
    close_checked(&c);
}

static void test_the_first_complaint_stays(void)
{
    check_in("the first complaint stays");
    checked c;
    probe foreign[2] = {{.resets = 0}};
    open_checked(&c, "locked");
    give(&c, c.one, (pb_held){&foreign[0], 0});
    give(&c, c.two, (pb_held){&foreign[1], 0});
    check_complaint(&c, "never acquired:", &foreign[0], ", released by thread 0");
    close_checked(&c);
}

/* Far more objects come and go than there is room for at once; then too many at once. */
static void test_room(void)
{
    check_in("room");
    checked c;
    open_checked(&c, "fresh");
    for (int i = 0; i < 100000; i++) {
        const pb_held held = take(&c, c.one);
        give(&c, c.one, held);
    }
    CHECK(pb_checks_complaint(c.checks) == NULL);
    static char many[5000];
    for (int i = 0; i < 5000; i++)
        pb_checks_made(c.one, &many[i]);
    const char *said = pb_checks_complaint(c.checks);
    CHECK(said && strcmp(said, "too many objects to keep track of, at thread 0") == 0);
    close_checked(&c);
}

/* ---- whole replicates ------------------------------------------------------------------------ */

static void test_replicate(const char *pool, const char *workload, const char *pattern)
{
    check_in("%s x %s x %s, checked", pool, workload, pattern);
    pb_cell cell = cell_of(pool, workload, pattern, 3);
    cell.checked = true;
    pb_run *run;
    pb_error error;
    if (!CHECK_EQ(pb_run_open(&run, &cell, &error), PB_OK))
        return;
    uint64_t operations[3];
    pb_window window = {.operations = operations};
    pb_warmth warmth;
    CHECK_EQ(pb_run_warm(run, 0.004, &warmth, &error), PB_OK);
    CHECK_EQ(pb_run_window(run, 0.005, &window, &error), PB_OK);
    pb_account account;
    CHECK_EQ(pb_run_close(run, &account, &error), PB_OK);
    CHECK(account.operations > 0);
    CHECK_EQ(account.outcomes[PB_REFUSED], 0);
}

static bool can_run(int pool)
{
    return !(pb_pools[pool].traits & (PB_NEEDS_SHAREABLE | PB_BURST_ONLY));
}

int main(void)
{
    static const char *const pools[] = {
        "fresh", "thread_local", "thread_cache", "locked", "locked reset_on=acquire", "slab"};
    for (int i = 0; i < 6; i++)
        test_right_use(pools[i]);
    test_released_twice();
    test_released_after_its_end();
    test_never_acquired();
    test_handed_out_twice();
    test_handed_out_dirty();
    test_idle_objects_are_hidden();
    test_destroyed_while_held();
    test_the_first_complaint_stays();
    test_room();
    for (int i = 0; i < PB_POOL_COUNT; i++)
        if (can_run(i)) {
            test_replicate(pb_pools[i].is.name, "bytes reset=full", "churn");
            test_replicate(pb_pools[i].is.name, "direct", "steady live=5");
        }
    return check_report();
}
