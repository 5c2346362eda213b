/* SPDX-License-Identifier: MIT
 *
 * test_table.c - objects of a user's own, through a real shared library (table_library.c).
 */
#define _GNU_SOURCE
#include "cell.h"
#include "check.h"

/* Opens the workload alone. */
static pb_status open_table(pb_args *args, const char *workload, pb_error *error)
{
    check_in("%s", workload);
    const pb_cell cell = cell_of("fresh", workload, "churn", 1);
    *args = (pb_args){.size = 0};
    error->text[0] = '\0';
    return pb_workloads[cell.workload].open(args, &cell.workload_params, 1000000, error);
}

/* Refused, with a sentence that names the culprit, and by the run engine in the same words. */
static void check_refused(const char *workload, const char *culprit)
{
    pb_args args;
    pb_error error, again;
    CHECK_EQ(open_table(&args, workload, &error), PB_BAD_VALUE);
    if (!CHECK(strstr(error.text, "table: ") && strstr(error.text, culprit)))
        (void)printf("    %s\n", error.text);
    CHECK(args.shared == NULL);
    const pb_cell cell = cell_of("locked", workload, "churn", 2);
    pb_run *run;
    CHECK_EQ(pb_run_open(&run, &cell, &again), PB_BAD_VALUE);
    CHECK(run == NULL);
    CHECK_EQ(strcmp(error.text, again.text), 0);
}

static void test_refusals(void)
{
    check_refused("table library=/no/such/file.so", "cannot load library '/no/such/file.so'");
    check_refused("table library=/proc/self/exe symbol=main", "/proc/self/exe"); /* a program */
    check_refused("table symbol=nowhere", "no symbol 'nowhere'");
    check_refused("table symbol=other_abi", "another ABI");
    check_refused("table symbol=no_use", "functions missing, in 'no_use'");
    check_refused("table symbol=too_short", "too_short");
}

static void test_no_library(void)
{
    check_in("no library");
    pb_params params;
    pb_args args = {.size = 0};
    pb_error error = {""};
    const pb_described *line = &pb_workloads[PB_WORKLOAD_table].is;
    pb_params_init(&params, line->params, line->param_count);
    CHECK_EQ(pb_workloads[PB_WORKLOAD_table].open(&args, &params, 1, &error), PB_BAD_VALUE);
    CHECK(strstr(error.text, "cannot load library"));
}

/* construct, use, reset, use, destroy; what use returns says that reset was called. */
static void test_life(const char *workload, bool has_reset)
{
    const pb_cell cell = cell_of("fresh", workload, "churn", 1);
    parts p;
    check_in("%s", workload);
    parts_open(&p, &cell, NULL);
    pb_ctx *ctx = parts_attach(&p, 0);
    CHECK_EQ(p.args.has_reset, has_reset);
    CHECK_EQ(p.args.size, 0); /* not in memory of the pool's */
    void *object = pb_construct(ctx, p.workload.is, &p.args);
    CHECK_EQ(parts_use(&p, ctx, object), 1);
    CHECK_EQ(parts_use(&p, ctx, object), 2);
    if (has_reset) {
        pb_reset(ctx, object, p.workload.is, &p.args);
        CHECK_EQ(parts_use(&p, ctx, object), 1);
    }
    pb_destroy(ctx, object, p.workload.is, &p.args);
    CHECK_EQ(ctx->constructed, 1);
    CHECK_EQ(ctx->destroyed, 1);
    parts_detach(&p, 0);
    CHECK_EQ(parts_close(&p), 0);
}

/* A pool resets such objects like any others. */
static void test_reset_through_pools(void)
{
    static const char *const pools[] = {"locked", "thread_cache reset_on=acquire", "thread_local"};
    for (int i = 0; i < 3; i++) {
        const pb_cell cell = cell_of(pools[i], "table", "churn", 1);
        parts p;
        check_in("%s x table", pools[i]);
        parts_open(&p, &cell, NULL);
        pb_ctx *ctx = parts_attach(&p, 0);
        for (int k = 0; k < 5; k++) {
            void *object = parts_acquire(&p, ctx).object;
            CHECK_EQ(parts_use(&p, ctx, object), 1);
            CHECK_EQ(parts_return(&p, ctx, object), PB_KEPT);
        }
        CHECK_EQ(ctx->constructed, 1);
        parts_detach(&p, 0);
        CHECK_EQ(parts_close(&p), 0);
    }
}

/* Every third construction gives nothing: a failed acquire, and the account still balances. */
static void test_failing_construction(void)
{
    const pb_cell cell = cell_of("fresh", "table symbol=fails_third", "churn", 1);
    parts p;
    check_in("every third construction fails");
    parts_open(&p, &cell, NULL);
    pb_ctx *ctx = parts_attach(&p, 0);
    for (int i = 1; i <= 30; i++) {
        const pb_got got = parts_acquire(&p, ctx);
        CHECK_EQ(got.object == NULL, i % 3 == 0);
        CHECK_EQ(got.how, i % 3 == 0 ? PB_FAILED : PB_CONSTRUCTED);
        if (got.object)
            (void)parts_return(&p, ctx, got.object);
    }
    CHECK_EQ(ctx->constructed, 20);
    parts_detach(&p, 0);
    CHECK_EQ(parts_close(&p), 0);
}

/* The same in a live replicate: failures are counted, operations are those that had an object. */
static void test_failing_construction_live(void)
{
    const pb_cell cell = cell_of("fresh", "table symbol=fails_third", "churn", 2);
    pb_run *run;
    pb_error error = {""};
    pb_pass pass;
    pb_account a;
    check_in("every third construction fails, live");
    if (!CHECK_EQ(pb_run_open(&run, &cell, &error), PB_OK))
        return;
    CHECK_EQ(pb_run_pass(run, 300, &pass, &error), PB_OK);
    CHECK_EQ(pass.operations, 400);
    CHECK_EQ(pass.outcomes[PB_FAILED], 200);
    CHECK_EQ(pb_run_close(run, &a, &error), PB_OK);
    CHECK_EQ(a.constructed, 400);
    CHECK_EQ(a.destroyed, 400);
    CHECK_EQ(a.operations, 400);
}

/* thread_local constructs when a thread attaches: what fails then is an opening that fails. */
static void test_failing_attach(void)
{
    const pb_cell cell = cell_of("thread_local", "table symbol=fails_third", "churn", 3);
    pb_run *run;
    pb_error error = {""};
    check_in("the third thread cannot attach");
    CHECK_EQ(pb_run_open(&run, &cell, &error), PB_NO_MEMORY);
    CHECK(run == NULL);
    CHECK(strstr(error.text, "could not attach"));
}

static void test_prediction(void)
{
    pb_args args;
    pb_error error;
    CHECK_EQ(open_table(&args, "table symbol=huge", &error), PB_OK);
    CHECK_EQ(args.predicted, (int64_t)1 << 40);
    pb_workloads[PB_WORKLOAD_table].close(&args);
    CHECK_EQ(open_table(&args, "table", &error), PB_OK);
    CHECK_EQ(args.predicted, 0); /* unknown */
    pb_workloads[PB_WORKLOAD_table].close(&args);
    CHECK(args.shared == NULL);
}

/* Two replicates at once, of one library: neither closes the other's. */
static void test_two_at_once(void)
{
    pb_args one, two;
    pb_error error;
    CHECK_EQ(open_table(&one, "table", &error), PB_OK);
    CHECK_EQ(open_table(&two, "table symbol=no_reset", &error), PB_OK);
    pb_workloads[PB_WORKLOAD_table].close(&one);
    pb_ctx ctx = {.index = 0};
    const pb_functions *w = &pb_workloads[PB_WORKLOAD_table].functions;
    void *object = pb_construct(&ctx, w, &two);
    CHECK_EQ(pb_use(&ctx, object, w, &two), 1);
    pb_destroy(&ctx, object, w, &two);
    pb_workloads[PB_WORKLOAD_table].close(&two);
}

int main(void)
{
    test_life("table", true);
    test_life("table symbol=no_reset", false);
    test_life("table symbol=first_edition", false);
    test_life("table symbol=later", false);
    test_refusals();
    test_no_library();
    test_reset_through_pools();
    test_failing_construction();
    test_failing_construction_live();
    test_failing_attach();
    test_prediction();
    test_two_at_once();
    return check_report();
}
