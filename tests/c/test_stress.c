/* SPDX-License-Identifier: MIT
 *
 * test_stress.c - threads hand objects on; owners stamp and verify them.
 *
 *   thread:  acquire -> stamp -> use -> [mailbox: swap for somebody else's] -> release
 *            [die: leave what is held in the mailbox or give it back, detach, attach anew]
 *
 * Every pool of the list, over the combinations of its parameters (choices.h: tiny capacities),
 * with more threads than most machines here have CPUs, in short runs, with marks (marks.h). Four
 * phases: plain; with constructors that fail; with threads that die while others hold what they
 * acquired; and all of it at once, with time that passes.
 *
 * What must hold: nobody gets an object that somebody has; plain words of an object travel with it;
 * outcomes are those the list names, say what happened, and all of them come; an acquire fails only
 * when its constructor did, or a pool of fixed size is out; nobody who waits is forgotten; every
 * object that was constructed is idle, within the bound, or destroyed in the end.
 *
 *   test_stress ["locked capacity=2 ..." ...]    these pools alone, with this much of them fixed
 *
 * PB_STRESS_ROUNDS: acquires per thread and run; PB_STRESS_SECONDS: per pool, at least one pass
 * over its combinations; PB_STRESS_PATIENCE: seconds after which a thread is taken for lost;
 * PB_STRESS_SEED. A pool's first failed run is its last.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <time.h>

#include "bounds.h"
#include "cell.h"
#include "check.h"
#include "choices.h"
#include "clock.h"
#include "marks.h"
#include "probe.h"

enum { THREADS = 5, SLOTS = 3, HELD_MAX = 3, COMBINATIONS = 24 };
enum { ROUNDS = 200, FAIL_ONE_IN = 3, DIE_ONE_IN = 32, FOREIGN_ONE_IN = 64, TICK_NS = 100000 };
enum { BRIEF_MS = 1, MARGIN_S = 2 };
static const double SECONDS = 0.8, PATIENCE_S = 4;

typedef struct phase {
    const char *name;
    uint32_t fail_one_in; /* constructors; 0: never */
    bool handing;         /* objects go from hand to hand, which orders memory by itself */
    bool dying;           /* threads come and go */
    bool patient;         /* whoever waits for an object gets it */
    bool foreign;         /* objects come back that the pool never gave */
} phase;

static const phase phases[] = {
    {"plain", 0, false, false, true, false},
    {"failing constructors", FAIL_ONE_IN, true, false, true, false},
    {"dying threads", 0, true, true, true, false},
    {"all at once", FAIL_ONE_IN, true, true, false, true},
};
enum { PHASES = sizeof phases / sizeof phases[0] };

typedef struct stress {
    parts p;
    probe_orders orders;
    const phase *phase;
    uint64_t seed;
    uint64_t failed_before; /* checks */
    int rounds;
    double patience_s;
    uint32_t traits, outcomes; /* the pool's */
    bool remote;               /* objects may be released by another thread */
    bool foreign;              /* objects may come that the pool never gave */
    int most;                  /* objects a thread may hold */
    int room;                  /* with as many, acquire must fail; or more than anybody holds */
    pb_atomic_u32 over;
    _Atomic(probe *) mailbox[SLOTS]; /* objects on their way, owned by nobody */
} stress;

typedef struct worker {
    stress *s;
    int index;
    pb_ctx *ctx;
    pb_rng rng;
    pb_held held[HELD_MAX];
    int count;
    bool ebbing; /* of bursts: only releases until nothing is held */
    uint64_t seen[PB_OUTCOMES];
} worker;

static uint64_t checks_failed(void)
{
    return pb_load_relaxed_u64(&check_failed); /* relaxed: only whether to go on */
}

static bool has(const worker *w, uint32_t trait)
{
    return w->s->traits & trait;
}

/* ---- one thread ------------------------------------------------------------------------------ */

static void check_acquired(const worker *w, pb_got got, uint64_t made, uint64_t failures)
{
    const bool full = w->count == w->s->room;
    CHECK(got.how < PB_ACQUIRES && (w->s->outcomes >> got.how & 1));
    CHECK_EQ(got.object != NULL, got.how < PB_FAILED);
    CHECK_EQ(got.how == PB_FAILED, full || failures > 0);
    CHECK_EQ(made, got.how == PB_CONSTRUCTED || (has(w, PB_CONSTRUCTS_ALWAYS) && got.object));
    if (got.how == PB_TIMED_OUT)
        CHECK(!w->s->phase->patient); /* else somebody who waited was forgotten */
}

static void take(worker *w, pb_held held)
{
    pb_yield_here();
    if (!has(w, PB_NEEDS_SHAREABLE))
        probe_take(w->ctx, held.object);
    pb_yield_here();
    w->ctx->sink += parts_use(&w->s->p, w->ctx, held.object);
    w->held[w->count++] = held;
}

static pb_held part_with(worker *w)
{
    const uint32_t which = (uint32_t)pb_rng_below(&w->rng, (uint32_t)w->count);
    const pb_held held = w->held[which];
    w->held[which] = w->held[--w->count];
    if (!has(w, PB_NEEDS_SHAREABLE))
        probe_leave(w->ctx, held.object);
    return held;
}

static void acquire(worker *w)
{
    const uint64_t made = w->ctx->constructed, failures = probe_mine.failures;
    const pb_got got = parts_acquire(&w->s->p, w->ctx);
    w->seen[got.how]++;
    check_acquired(w, got, w->ctx->constructed - made, probe_mine.failures - failures);
    if (got.object)
        take(w, held_of(got));
}

static void give(worker *w, pb_held held)
{
    const uint64_t destroyed = w->ctx->destroyed;
    pb_yield_here();
    const pb_outcome how = parts_release(&w->s->p, w->ctx, held);
    w->seen[how]++;
    CHECK(how >= PB_ACQUIRES && how != PB_REFUSED && (w->s->outcomes >> how & 1));
    if (how == PB_DESTROYED)
        CHECK(w->ctx->destroyed > destroyed);
}

static void release(worker *w)
{
    give(w, part_with(w));
}

/* Gives the pool an object that it does not know. */
static void give_foreign(worker *w)
{
    void *object = pb_construct(w->ctx, w->s->p.workload.is, &w->s->p.args);
    if (object)
        give(w, (pb_held){object, 0});
}

/* Leaves `mine`, or nothing, in a slot of the mailbox, and takes out what was there. */
static void swap(worker *w, pb_held mine)
{
    _Atomic(probe *) *slot = &w->s->mailbox[pb_rng_below(&w->rng, SLOTS)];
    if (mine.object)
        ((probe *)mine.object)->handle = mine.handle;
    /* acq_rel: publishes our object to whoever takes it, and theirs to us */
    probe *theirs = atomic_exchange_explicit(slot, (probe *)mine.object, memory_order_acq_rel);
    if (theirs)
        take(w, (pb_held){theirs, theirs->handle});
}

static void attach(worker *w)
{
    probe_mine.spared = true; /* a thread that cannot begin proves nothing */
    w->ctx = parts_attach(&w->s->p, w->index);
    probe_mine.spared = false;
    w->ebbing = false;
}

static void die(worker *w)
{
    while (w->count > 0)
        if (w->s->remote && pb_rng_below(&w->rng, 2) == 0)
            swap(w, part_with(w));
        else
            release(w);
    parts_detach(&w->s->p, w->index);
}

/* One step; true when it was an acquire. */
static bool step(worker *w)
{
    const bool tide = has(w, PB_BURST_ONLY);
    w->ebbing = w->count > 0 && (w->ebbing || w->count == w->s->most);
    const bool more = tide ? !w->ebbing : w->count == 0 || pb_rng_below(&w->rng, 2) == 0;
    if (w->s->remote && pb_rng_below(&w->rng, 4) == 0) {
        if (w->count > 0)
            swap(w, part_with(w));
        else
            swap(w, (pb_held){NULL, 0});
    } else if (more && w->count < w->s->most) {
        acquire(w);
        return true;
    } else if (w->count > 0) {
        release(w);
    }
    return false;
}

static void *work(void *arg)
{
    worker *w = arg;
    stress *s = w->s;
    const uint64_t seed = s->seed * THREADS + (uint64_t)w->index;
    check_in("%s: %s, thread %d", pb_pools[s->p.cell.pool].is.name, s->phase->name, w->index);
    w->rng.state = probe_mine.rng.state = seed;
    marks_begin(seed);
    attach(w);
    for (int done = 0; w->ctx && done < s->rounds && checks_failed() == s->failed_before;) {
        done += step(w);
        if (s->foreign && pb_rng_below(&w->rng, FOREIGN_ONE_IN) == 0)
            give_foreign(w);
        if (s->phase->dying && pb_rng_below(&w->rng, DIE_ONE_IN) == 0) {
            die(w);
            attach(w);
        }
    }
    if (!CHECK(w->ctx != NULL))
        return NULL;
    while (w->count > 0)
        release(w);
    parts_detach(&s->p, w->index);
    return NULL;
}

/* ---- one run --------------------------------------------------------------------------------- */

/* Time passes, in steps of several ticks. */
static void *pass_time(void *arg)
{
    stress *s = arg;
    pb_rng rng = {s->seed};
    while (!pb_load_acquire_u32(&s->over)) {
        (void)pb_add_relaxed_u32(&s->p.control.tick, (uint32_t)pb_rng_below(&rng, 3));
        pb_sleep_until(pb_now_ns() + TICK_NS);
    }
    return NULL;
}

static void report_failure(const stress *s)
{
    char text[CELL_TEXT];
    choices_text(&s->p.cell, text, sizeof text);
    (void)printf("  failed: \"%s\", %s, run %llu\n", text, s->phase->name,
                 (unsigned long long)(s->seed & UINT32_MAX));
}

/* A thread that does not come back ends the program: it may hold anything. */
static void join(pthread_t thread, const stress *s)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)(s->patience_s + MARGIN_S + s->rounds / 1e3);
    if (pthread_timedjoin_np(thread, NULL, &until) == 0)
        return;
    (void)printf("  a thread does not come back\n");
    report_failure(s);
    _exit(1);
}

static void start(pthread_t *thread, void *(*body)(void *), void *arg)
{
    if (pthread_create(thread, NULL, body, arg) != 0)
        cell_mistake("no thread");
}

/* What nobody took out of the mailbox goes back through a thread that comes late. */
static void empty_mailbox(stress *s)
{
    pb_ctx *ctx = parts_attach(&s->p, THREADS);
    for (int i = 0; i < SLOTS; i++) {
        probe *o = atomic_exchange_explicit(&s->mailbox[i], NULL, memory_order_acquire);
        if (o)
            (void)parts_release(&s->p, ctx, (pb_held){o, o->handle});
    }
    parts_detach(&s->p, THREADS);
}

static void prepare(stress *s, const pb_cell *cell, const phase *how)
{
    pb_cell timed = *cell;
    const uint32_t traits = pb_pools[cell->pool].traits;
    choices_wait_at_most(&timed, how->patient ? (int64_t)(1e3 * s->patience_s) : BRIEF_MS);
    s->phase = how;
    s->traits = traits;
    s->outcomes = pb_pools[cell->pool].outcomes;
    s->orders = (probe_orders){.fail_one_in = how->fail_one_in};
    s->failed_before = checks_failed();
    /* patient threads hold one object each, in their own hands: then nobody waits for ever */
    const bool modest = (traits & PB_WAITS_FOR_OBJECTS) && how->patient;
    s->remote =
        (traits & PB_REMOTE_RELEASE) && how->handing && !modest && !(traits & PB_NEEDS_SHAREABLE);
    s->foreign = how->foreign && !cell_keeps_memory(cell);
    s->most = (traits & PB_HOLDS_MANY) && !modest ? HELD_MAX : 1;
    s->room = (int)cell_slots(cell);
    pb_store_relaxed_u32(&s->over, 0); /* relaxed: no thread yet */
    probe_parts(&s->p, &timed, &s->orders);
}

static void check_conserved(stress *s, const pb_cell *cell)
{
    const uint64_t idle = parts_idle(&s->p);
    const int64_t bound = bound_on_idle(cell);
    CHECK_EQ(parts_alive(&s->p), idle);
    CHECK(bound < 0 || idle <= (uint64_t)bound);
    CHECK_EQ(parts_close(&s->p), 0);
}

/* Counts the outcomes into `seen`. */
static void run(stress *s, const pb_cell *cell, const phase *how, uint64_t seen[PB_OUTCOMES])
{
    static const uint32_t often[] = {3, 12, 64};
    prepare(s, cell, how);
    marks_often(often[s->seed % 3]);
    worker workers[THREADS];
    pthread_t threads[THREADS], time_passes;
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.s = s, .index = i};
        start(&threads[i], work, &workers[i]);
    }
    if (pb_params_recur(&s->p.cell.pool_params))
        start(&time_passes, pass_time, s);
    for (int i = 0; i < THREADS; i++) {
        join(threads[i], s);
        for (int j = 0; j < PB_OUTCOMES; j++)
            seen[j] += workers[i].seen[j];
    }
    pb_store_release_u32(&s->over, 1);
    if (pb_params_recur(&s->p.cell.pool_params))
        join(time_passes, s);
    empty_mailbox(s);
    check_conserved(s, cell);
}

/* ---- all runs of a pool ---------------------------------------------------------------------- */

static double number_from(const char *name, double otherwise)
{
    const char *text = getenv(name);
    return text ? atof(text) : otherwise;
}

/* One pass over the combinations; false once something failed. */
static bool pass(stress *s, const choices *c, uint64_t seen[PB_OUTCOMES])
{
    pb_rng rng = {s->seed};
    for (int i = 0; i < choices_count(c, COMBINATIONS); i++) {
        const pb_cell cell = choices_pick(c, i, COMBINATIONS, &rng);
        for (int j = 0; j < PHASES; j++, s->seed++) {
            run(s, &cell, &phases[j], seen);
            if (checks_failed() != s->failed_before) {
                report_failure(s);
                return false;
            }
        }
    }
    return true;
}

/* All outcomes of the list come, but refusals: nothing here is released twice. */
static void check_all_came(const choices *c, const uint64_t seen[PB_OUTCOMES])
{
    (void)printf(" ");
    for (int i = 0; i < PB_OUTCOMES; i++) {
        if (seen[i] > 0)
            (void)printf(" %s %llu", pb_outcome_names[i], (unsigned long long)seen[i]);
        if ((pb_pools[c->cell.pool].outcomes & ~PB_CAN(REFUSED)) >> i & 1) {
            check_in("%s: %s", pb_pools[c->cell.pool].is.name, pb_outcome_names[i]);
            CHECK(seen[i] > 0);
        }
    }
    (void)printf("\n");
}

static void test_pool(const char *text)
{
    static stress s; /* mailbox empty, as each run leaves it */
    const uint64_t end = pb_now_ns() + (uint64_t)(1e9 * number_from("PB_STRESS_SECONDS", SECONDS));
    const choices c = choices_of(text, THREADS + 1);
    uint64_t seen[PB_OUTCOMES] = {0};
    s.seed = (uint64_t)number_from("PB_STRESS_SEED", 1) << 32;
    s.rounds = (int)number_from("PB_STRESS_ROUNDS", ROUNDS);
    s.patience_s = number_from("PB_STRESS_PATIENCE", PATIENCE_S);
    int passes = 0;
    bool good = true;
    do {
        check_in("%s: pass %d", text, passes++);
        good = pass(&s, &c, seen);
    } while (good && pb_now_ns() < end);
    (void)printf("  %s: %d combinations x %d phases x %d passes\n", text,
                 choices_count(&c, COMBINATIONS), PHASES, passes);
    if (good)
        check_all_came(&c, seen);
}

int main(int count, char **texts)
{
    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* what was found outlives a crash */
    probe_mine.spared = true;               /* this thread only clears away */
    for (int i = 1; i < count; i++)
        test_pool(texts[i]);
    for (int i = 0; count == 1 && i < PB_POOL_COUNT; i++)
        test_pool(pb_pools[i].is.name);
    return check_report();
}
