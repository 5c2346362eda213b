/* SPDX-License-Identifier: MIT
 *
 * test_workloads.c - what single workloads promise of their objects: sizes, contents, costs.
 *
 * Costs are compared by the least of several tries, and with wide margins.
 */
#define _GNU_SOURCE
#include <pthread.h>

#include "cell.h"
#include "check.h"
#include "clock.h"

/* One object of a workload, without a pool. */
typedef struct object {
    parts p;
    pb_ctx ctx;
    void *at;
} object;

static void open_workload(object *o, const char *workload)
{
    check_in("%s", workload);
    pb_cell cell = cell_of("fresh", workload, "churn", 1);
    cell.spin_per_ms = pb_spin_calibrate();
    parts_open(&o->p, &cell, NULL);
    memset(&o->ctx, 0, sizeof o->ctx);
}

static void construct(object *o)
{
    o->at = pb_construct(&o->ctx, o->p.workload.is, &o->p.args);
    CHECK(o->at != NULL);
}

static void destroy(object *o)
{
    pb_destroy(&o->ctx, o->at, o->p.workload.is, &o->p.args);
}

/* ---- widget, context, bytes ------------------------------------------------------------------ */

static void test_widget(void)
{
    object o;
    open_workload(&o, "widget");
    CHECK_EQ(o.p.args.size, 56);
    CHECK(!o.p.args.has_reset);
    construct(&o);
    const widget_object *w = o.at;
    CHECK_EQ(w->tag, WIDGET_TAG);
    for (int i = 0; i < WIDGET_FILLED; i++)
        CHECK_EQ(w->filled[i], 7);
    CHECK_EQ(parts_use(&o.p, &o.ctx, o.at), WIDGET_TAG);
    destroy(&o);
    (void)parts_close(&o.p);
}

/* The destructor's one store is really made, in memory that is still there to look at. */
static void test_widget_in_place(void)
{
    object o;
    widget_object memory = {.tag = 1};
    open_workload(&o, "widget");
    CHECK(pb_construct_at(&o.ctx, &memory, o.p.workload.is, &o.p.args));
    CHECK_EQ(memory.tag, WIDGET_TAG);
    pb_destroy_at(&o.ctx, &memory, o.p.workload.is, &o.p.args);
    CHECK_EQ(memory.tag, 0);
    CHECK_EQ(o.ctx.constructed, 1);
    CHECK_EQ(o.ctx.destroyed, 1);
    (void)parts_close(&o.p);
}

static void test_context(void)
{
    static const context_object clean;
    object o;
    open_workload(&o, "context");
    CHECK_EQ(o.p.args.size, 256);
    construct(&o);
    CHECK_EQ(memcmp(o.at, &clean, sizeof clean), 0);
    CHECK_EQ(parts_use(&o.p, &o.ctx, o.at), 4);
    CHECK_EQ(parts_use(&o.p, &o.ctx, o.at), 7); /* without a reset the last request shows */
    CHECK(memcmp(o.at, &clean, sizeof clean) != 0);
    pb_reset(&o.ctx, o.at, o.p.workload.is, &o.p.args);
    CHECK_EQ(memcmp(o.at, &clean, sizeof clean), 0);
    CHECK_EQ(parts_use(&o.p, &o.ctx, o.at), 4);
    destroy(&o);
    (void)parts_close(&o.p);
}

/* Every placeable workload, in memory that was used before: as good as in its own. */
static void test_in_place(void)
{
    for (int i = 0; i < PB_WORKLOAD_COUNT; i++) {
        if (!(pb_workloads[i].traits & PB_PLACEABLE))
            continue;
        object o;
        open_workload(&o, pb_workloads[i].is.name);
        CHECK(o.p.args.size > 0);
        unsigned char *memory = malloc(o.p.args.size); /* exactly: a write beyond is an overrun */
        memset(memory, 0xa5, o.p.args.size);
        for (int round = 0; round < 3; round++) {
            CHECK(pb_construct_at(&o.ctx, memory, o.p.workload.is, &o.p.args));
            o.ctx.sink += parts_use(&o.p, &o.ctx, memory);
            if (o.p.args.has_reset)
                pb_reset(&o.ctx, memory, o.p.workload.is, &o.p.args);
            pb_destroy_at(&o.ctx, memory, o.p.workload.is, &o.p.args);
        }
        CHECK_EQ(o.ctx.constructed, o.ctx.destroyed);
        free(memory);
        (void)parts_close(&o.p);
    }
}

/* ---- synthetic ------------------------------------------------------------------------------- */

/* Least nanoseconds of one life: construct, use, reset, destroy. */
static double life_ns(const char *workload)
{
    enum { TRIES = 7, LIVES = 50 };
    object o;
    double least = 1e18;
    open_workload(&o, workload);
    for (int i = 0; i < TRIES; i++) {
        const uint64_t start = pb_now_ns();
        for (int k = 0; k < LIVES; k++) {
            construct(&o);
            o.ctx.sink += parts_use(&o.p, &o.ctx, o.at);
            if (o.p.args.has_reset)
                pb_reset(&o.ctx, o.at, o.p.workload.is, &o.p.args);
            destroy(&o);
        }
        const double took = (double)(pb_now_ns() - start) / LIVES;
        least = took < least ? took : least;
    }
    (void)parts_close(&o.p);
    return least;
}

/* Each cost is paid where it is asked for, and only there: 20 us stand out of anything. */
static void test_costs(void)
{
    static const char *const costs[] = {"construct_ns=20000", "construct_ns=20000 global_ns=15000",
                                        "reset_ns=20000", "use_ns=20000", "destroy_ns=20000"};
    const double nothing = life_ns("synthetic");
    CHECK(nothing < 10000);
    for (int i = 0; i < 5; i++) {
        char text[CELL_TEXT];
        (void)snprintf(text, sizeof text, "synthetic %s", costs[i]);
        const double dear = life_ns(text);
        CHECK(dear > nothing + 8000);
        CHECK(dear < nothing + 400000); /* no cost is paid twenty times */
    }
}

static void test_global_is_part_of_construct(void)
{
    check_in("global_ns above construct_ns");
    pb_error error = {""};
    pb_cell cell = cell_of("fresh", "synthetic construct_ns=10 global_ns=11", "churn", 1);
    pb_args args = {.size = 0};
    const pb_workload_entry *entry = &pb_workloads[cell.workload];
    CHECK_EQ(entry->open(&args, &cell.workload_params, 1000000, &error), PB_BAD_VALUE);
    CHECK(strstr(error.text, "global_ns") && strstr(error.text, "construct_ns"));
    pb_run *run;
    CHECK_EQ(pb_run_open(&run, &cell, &error), PB_BAD_VALUE);
    CHECK(strstr(error.text, "global_ns"));
    cell = cell_of("fresh", "synthetic construct_ns=10 global_ns=10", "churn", 1);
    CHECK_EQ(entry->open(&args, &cell.workload_params, 1000000, &error), PB_OK);
    CHECK_EQ(args.arg[SYNTHETIC_GLOBAL], args.arg[SYNTHETIC_CONSTRUCT]);
    entry->close(&args);
}

static void *construct_one(void *arg)
{
    object *o = arg;
    o->at = pb_construct(&o->ctx, o->p.workload.is, &o->p.args);
    return NULL;
}

/* Whether construction gets through while somebody holds the mutex of the process. */
static bool passes_the_mutex(const char *workload, uint64_t patience_ns)
{
    object o;
    pthread_t thread;
    open_workload(&o, workload);
    synthetic_shared *s = o.p.args.shared;
    (void)pthread_mutex_lock(&s->lock);
    if (pthread_create(&thread, NULL, construct_one, &o) != 0)
        cell_mistake("no thread");
    struct timespec deadline;
    (void)clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += (time_t)(patience_ns / 1000000000);
    deadline.tv_nsec += (long)(patience_ns % 1000000000);
    deadline.tv_sec += deadline.tv_nsec / 1000000000;
    deadline.tv_nsec %= 1000000000;
    const bool through = pthread_timedjoin_np(thread, NULL, &deadline) == 0;
    (void)pthread_mutex_unlock(&s->lock);
    if (!through)
        (void)pthread_join(thread, NULL);
    CHECK(o.at != NULL);
    destroy(&o);
    (void)parts_close(&o.p);
    return through;
}

static void test_bytes_are_written(void)
{
    object o;
    open_workload(&o, "synthetic bytes=1000");
    CHECK_EQ(o.p.args.size, 1000);
    construct(&o);
    int written = 0;
    for (int i = 0; i < 1000; i++)
        written += ((const unsigned char *)o.at)[i] == 1;
    CHECK_EQ(written, 1000);
    CHECK_EQ(parts_use(&o.p, &o.ctx, o.at), 1);
    destroy(&o);
    (void)parts_close(&o.p);
}

int main(void)
{
    test_widget();
    test_widget_in_place();
    test_context();
    test_in_place();
    test_costs();
    test_global_is_part_of_construct();
    test_bytes_are_written();
    /* generous where it must come through, short where it cannot: no luck is needed */
    CHECK(passes_the_mutex("synthetic construct_ns=1000", 5000000000));
    CHECK(!passes_the_mutex("synthetic construct_ns=1000 global_ns=500", 30000000));
    return check_report();
}
