/* SPDX-License-Identifier: MIT
 *
 * test_blocking.c - what the blocking pool promises of itself: a hard limit, waits that end, nobody
 * left asleep, order when fair, nothing lost by those who give up, ageing, validation.
 *
 * A seat is a thread that acquires one object; the test goes on when it sleeps, which the kernel
 * tells, so that no step depends on luck.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>

#include "check.h"
#include "clock.h"
#include "live.h"
#include "marks.h"
#include "probe.h"
#include "thread.h"

enum { SEATS = 4, ME = SEATS, COUNTER = PARTS_THREADS - 1, MS = 1000000 };
enum { LONG_MS = 4000 }; /* what only a wake-up that got lost takes */

/* ---- objects that do as they are told -------------------------------------------------------- */

/* Begins with what probes look at. `watched` is the index of the one thread it is about. */
typedef struct orders {
    probe_orders probe;
    int watched;
    bool fails;                     /* constructors of the watched thread */
    int fails_one_in;               /* of all threads, by chance; 0: none */
    void (*before)(void *argument); /* a construct or destroy of the watched thread, or NULL */
    void *argument;
} orders;

static void cup_pause(const orders *o, const pb_ctx *ctx)
{
    if (o->before && ctx->index == o->watched)
        o->before(o->argument);
}

static void *cup_construct(pb_ctx *ctx, const pb_args args)
{
    const orders *o = args.shared;
    cup_pause(o, ctx);
    if (o->fails && ctx->index == o->watched)
        return NULL;
    if (o->fails_one_in && pb_rng_below(&ctx->rng, (uint32_t)o->fails_one_in) == 0)
        return NULL;
    return probe_construct(ctx, args);
}

static void cup_destroy(pb_ctx *ctx, void *object, const pb_args args)
{
    cup_pause(args.shared, ctx);
    probe_destroy(ctx, object, args);
}

static pb_functions cups(void)
{
    pb_functions f = probe_functions;
    f.construct = cup_construct;
    f.destroy = cup_destroy;
    return f;
}

/* ---- a pool, and who sits at it -------------------------------------------------------------- */

typedef struct bar bar;

typedef struct seat {
    bar *bar;
    int index;
    pthread_t id;
    pb_atomic_u32 thread; /* the kernel's number, once it is about to acquire */
    bool keeps;           /* leaves with the object in its hands */
    pb_got got;
    uint32_t turn; /* when it got it: how many had before */
} seat;

struct bar {
    parts p;
    pb_functions functions;
    orders orders;
    pb_ctx *me; /* of the test's main thread */
    pb_atomic_u32 turns;
    seat seats[SEATS];
};

static void open_bar(bar *b, const char *pool)
{
    check_in("%s", pool);
    memset(b, 0, sizeof *b);
    b->functions = cups();
    b->orders.watched = ME;
    const pb_cell cell = cell_of(pool, "bytes", "churn", 1);
    const pb_args args = {.size = sizeof(probe), .shared = &b->orders, .has_reset = true};
    parts_open(&b->p, &cell, &(pb_workload){&b->functions, &args});
    b->me = parts_attach(&b->p, ME);
}

static void set_timeout(bar *b, int64_t ms)
{
    pb_error error;
    CHECK_EQ(pb_params_set(&b->p.cell.pool_params, "timeout_ms", ms, &error), PB_OK);
}

/* Exactly so many can be had: no slot was lost, and none was made. */
static void check_slots(bar *b, int slots)
{
    pb_held held[PARTS_THREADS];
    set_timeout(b, 0);
    pb_ctx *ctx = parts_attach(&b->p, COUNTER);
    for (int i = 0; i < slots; i++) {
        held[i] = held_of(parts_acquire(&b->p, ctx));
        CHECK(held[i].object != NULL);
    }
    CHECK_EQ(parts_acquire(&b->p, ctx).how, PB_TIMED_OUT);
    CHECK_EQ(parts_alive(&b->p), slots);
    for (int i = 0; i < slots; i++)
        if (held[i].object)
            (void)parts_release(&b->p, ctx, held[i]);
    parts_detach(&b->p, COUNTER);
}

static void close_bar(bar *b)
{
    parts_detach(&b->p, ME);
    CHECK_EQ(parts_alive(&b->p), parts_idle(&b->p));
    CHECK_EQ(parts_close(&b->p), 0);
}

static pb_got acquire(bar *b)
{
    return parts_acquire(&b->p, b->me);
}

static pb_outcome release(bar *b, pb_got got)
{
    return parts_release(&b->p, b->me, held_of(got));
}

static void *sit(void *arg)
{
    seat *s = arg;
    parts *p = &s->bar->p;
    check_in("seat %d", s->index);
    pb_ctx *ctx = parts_attach(p, s->index);
    pb_store_release_u32(&s->thread, (uint32_t)syscall(SYS_gettid));
    s->got = parts_acquire(p, ctx);
    if (s->got.object) {
        s->turn = pb_add_relaxed_u32(&s->bar->turns, 1); /* relaxed: the pool has room for one */
        ctx->sink += parts_use(p, ctx, s->got.object);
    }
    if (s->got.object && !s->keeps)
        (void)parts_release(p, ctx, held_of(s->got));
    parts_detach(p, s->index);
    return NULL;
}

static seat *start(bar *b, int index)
{
    seat *s = &b->seats[index];
    *s = (seat){.bar = b, .index = index, .keeps = s->keeps};
    if (pb_thread_start(&s->id, sit, s, -1) != PB_OK)
        cell_mistake("no thread");
    return s;
}

/* What the kernel says of the thread: R running, S asleep; 0: it is gone. */
static char state_of(uint32_t thread)
{
    char name[64], state = 0;
    (void)snprintf(name, sizeof name, "/proc/self/task/%u/stat", thread);
    FILE *file = fopen(name, "r");
    if (!file)
        return 0;
    if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
        state = 0;
    (void)fclose(file);
    return state;
}

/* Returns when it is about to acquire: attached, for one thing. */
static uint32_t until_near(seat *s)
{
    uint32_t thread;
    while ((thread = pb_load_acquire_u32(&s->thread)) == 0)
        pb_sleep_until(pb_now_ns() + MS / 10);
    pb_sleep_until(pb_now_ns() + 2 * MS);
    return thread;
}

/* Returns when it waits for an object: it slept at two looks, between which it had time to go on
   if it had only slept for a lock. */
static void until_asleep(seat *s)
{
    const uint32_t thread = until_near(s);
    for (int asleep = 0; asleep < 2;) {
        pb_sleep_until(pb_now_ns() + MS);
        const char state = state_of(thread);
        if (!CHECK(state != 0))
            return;
        asleep = state == 'S' ? asleep + 1 : 0;
    }
}

static seat *start_waiting(bar *b, int index)
{
    seat *s = start(b, index);
    until_asleep(s);
    return s;
}

/* One that gets something late, because nobody woke it, gets it at its deadline. */
static pb_outcome joined(seat *s)
{
    (void)pthread_join(s->id, NULL);
    if (s->got.object)
        CHECK(s->bar->p.ctx[s->index]->longest_wait_ns < (uint64_t)LONG_MS * MS / 2);
    return s->got.how;
}

/* ---- one thread ------------------------------------------------------------------------------ */

static void test_limit(const char *pool)
{
    bar b;
    open_bar(&b, pool); /* max_total=2 timeout_ms=20 */
    const pb_got first = acquire(&b), second = acquire(&b);
    CHECK_EQ(first.how, PB_CONSTRUCTED);
    CHECK_EQ(second.how, PB_CONSTRUCTED);
    CHECK_EQ(b.me->events[PB_WAITS], 0);
    const uint64_t since = pb_now_ns();
    const pb_got none = acquire(&b);
    CHECK(pb_now_ns() - since >= 20 * MS);
    CHECK(none.object == NULL);
    CHECK_EQ(none.how, PB_TIMED_OUT);
    CHECK_EQ(b.me->events[PB_WAITS], 1);
    CHECK(b.me->longest_wait_ns >= 20 * MS);
    CHECK_EQ(release(&b, first), PB_KEPT);
    CHECK_EQ(release(&b, second), PB_KEPT);
    const pb_got newest = acquire(&b);
    CHECK_EQ(newest.how, PB_SHARED_HIT);
    CHECK(newest.object == second.object);
    CHECK(acquire(&b).object == first.object);
    CHECK_EQ(release(&b, first), PB_KEPT);
    CHECK_EQ(release(&b, second), PB_KEPT);
    CHECK_EQ(b.me->constructed, 2);
    close_bar(&b);
}

static void test_no_patience(void)
{
    bar b;
    open_bar(&b, "blocking max_total=1 timeout_ms=0");
    const pb_got first = acquire(&b);
    CHECK_EQ(acquire(&b).how, PB_TIMED_OUT);
    CHECK_EQ(b.me->events[PB_WAITS], 0);
    CHECK_EQ(b.me->longest_wait_ns, 0);
    CHECK_EQ(release(&b, first), PB_KEPT);
    close_bar(&b);
}

/* What the pool never made has no slot to come back to. */
static void test_foreign(void)
{
    bar b;
    open_bar(&b, "blocking max_total=2 timeout_ms=0");
    const pb_got mine = acquire(&b);
    for (int i = 0; i < 3; i++) {
        void *foreign = pb_construct(b.me, b.p.workload.is, &b.p.args);
        CHECK_EQ(parts_return(&b.p, b.me, foreign), PB_DESTROYED);
    }
    CHECK_EQ(parts_idle(&b.p), 0);
    CHECK_EQ(release(&b, mine), PB_KEPT);
    check_slots(&b, 2);
    close_bar(&b);
}

/* A failed constructor keeps no slot. */
static void test_failures(void)
{
    bar b;
    open_bar(&b, "blocking max_total=1 timeout_ms=0");
    b.orders.fails = true;
    for (int i = 0; i < 3; i++)
        CHECK_EQ(acquire(&b).how, PB_FAILED);
    b.orders.fails = false;
    check_slots(&b, 1);
    close_bar(&b);
}

/* Everything idle has gone bad: all is destroyed, and the borrower constructs on the last slot. */
static void test_bad_at_acquire(void)
{
    bar b;
    open_bar(&b, "blocking max_total=3 timeout_ms=0 validate=acquire invalid_per_million=1000000");
    const pb_got first = acquire(&b), second = acquire(&b);
    CHECK_EQ(release(&b, first), PB_KEPT);
    CHECK_EQ(release(&b, second), PB_KEPT);
    const pb_got third = acquire(&b);
    CHECK_EQ(third.how, PB_CONSTRUCTED); /* and is not looked at: it is new */
    CHECK_EQ(b.me->constructed, 3);
    CHECK_EQ(b.me->destroyed, 2);
    CHECK_EQ(release(&b, third), PB_KEPT);
    check_slots(&b, 3);
    close_bar(&b);
}

static void test_bad_at_release(void)
{
    bar b;
    open_bar(&b, "blocking max_total=2 timeout_ms=0 validate=release invalid_per_million=1000000");
    for (int i = 0; i < 5; i++) {
        const pb_got got = acquire(&b);
        CHECK_EQ(got.how, PB_CONSTRUCTED);
        CHECK_EQ(release(&b, got), PB_DESTROYED);
    }
    CHECK_EQ(b.me->destroyed, 5);
    check_slots(&b, 2);
    close_bar(&b);
}

/* The share is what was asked for: two of a hundred. */
static void test_share_of_bad(void)
{
    enum { N = 20000 };
    bar b;
    open_bar(&b, "blocking validate=acquire invalid_per_million=20000");
    for (int i = 0; i < N; i++)
        (void)release(&b, acquire(&b));
    CHECK(b.me->destroyed > N * 15 / 1000 && b.me->destroyed < N * 25 / 1000);
    close_bar(&b);
}

/* ---- waiters --------------------------------------------------------------------------------- */

static void test_hand_over(const char *pool, pb_outcome wanted)
{
    bar b;
    open_bar(&b, pool);
    const pb_got mine = acquire(&b);
    seat *s = start_waiting(&b, 0);
    CHECK_EQ(release(&b, mine), wanted);
    CHECK_EQ(joined(s), PB_WAITED);
    CHECK(s->got.object == mine.object);
    CHECK_EQ(b.p.ctx[0]->events[PB_WAITS], 1);
    CHECK(b.p.ctx[0]->longest_wait_ns >= MS);
    CHECK_EQ(b.me->constructed, 1);
    close_bar(&b);
}

/* Whoever begins to wait after a window's end, before it has seen that end, finds its clock stand
   still when it resumes. */
static void test_clock_put_back(void)
{
    bar b;
    open_bar(&b, "blocking max_total=1 timeout_ms=4000");
    const pb_got mine = acquire(&b);
    seat *s = start_waiting(&b, 0);
    pb_store_relaxed_u64(&b.p.control.parked_ns, (uint64_t)LONG_MS * MS); /* relaxed: as run.c */
    (void)release(&b, mine);
    CHECK_EQ(joined(s), PB_WAITED);
    CHECK(b.p.ctx[0]->longest_wait_ns < (uint64_t)LONG_MS * MS); /* no wrap below 0 */
    close_bar(&b);
}

/* The one who waits longest is first, and nobody is forgotten. */
static void test_order(const char *pool, bool fair)
{
    bar b;
    open_bar(&b, pool);
    const pb_got mine = acquire(&b);
    for (int i = 0; i < SEATS; i++)
        (void)start_waiting(&b, i);
    (void)release(&b, mine);
    for (int i = 0; i < SEATS; i++) {
        CHECK_EQ(joined(&b.seats[i]), PB_WAITED);
        if (fair)
            CHECK_EQ(b.seats[i].turn, i);
    }
    CHECK_EQ(parts_idle(&b.p), 1);
    close_bar(&b);
}

/* One of three gives up: what is released afterwards goes to the others, and then stays. */
static void test_giving_up(const char *pool, int which)
{
    bar b;
    open_bar(&b, pool);
    const pb_got mine = acquire(&b);
    for (int i = 0; i < 3; i++) {
        set_timeout(&b, i == which ? 50 : LONG_MS);
        seat *s = start(&b, i);
        if (i == which) /* it may be gone before it was seen asleep */
            until_near(s);
        else
            until_asleep(s);
    }
    CHECK_EQ(joined(&b.seats[which]), PB_TIMED_OUT);
    (void)release(&b, mine);
    for (int i = 0; i < 3; i++)
        if (i != which)
            CHECK_EQ(joined(&b.seats[i]), PB_WAITED);
    CHECK_EQ(parts_idle(&b.p), 1);
    const pb_got again = acquire(&b);
    CHECK_EQ(again.how, PB_SHARED_HIT);
    CHECK_EQ(release(&b, again), PB_KEPT); /* to nobody who has left */
    close_bar(&b);
}

/* The replicate ends, and at the same moment what it waits for comes: a waiter that is woken by the
   one and sees the other first must take it nevertheless. True when it got it; now and then it
   leaves in time. */
static bool got_in_the_end(const char *pool)
{
    bar b;
    open_bar(&b, pool);
    const pb_got mine = acquire(&b);
    pb_store_release_u32(&b.p.control.epoch, PB_RUNNING_IN);
    seat *s = start_waiting(&b, 0);
    pb_store_release_u32(&b.p.control.closing, PB_LEAVE);
    pb_store_release_u32(&b.p.control.epoch, PB_MEASURED);
    const pb_outcome how = release(&b, mine);
    const bool got = joined(s) == PB_WAITED;
    CHECK(how == PB_KEPT || got);
    CHECK_EQ(parts_idle(&b.p), 1);
    close_bar(&b);
    return got;
}

static void test_the_end(const char *pool)
{
    enum { TIMES = 20 };
    int got = 0;
    for (int i = 0; i < TIMES; i++)
        got += got_in_the_end(pool);
    check_in("%s", pool);
    CHECK(got >= TIMES / 2);
}

/* Called inside the main thread's constructor or destructor, the first time only. */
static void let_one_wait(void *argument)
{
    bar *b = argument;
    b->orders.before = NULL;
    (void)start_waiting(b, 0);
}

/* While the only slot is reserved somebody queues up; then construction fails. */
static void test_failure_wakes(const char *pool)
{
    bar b;
    open_bar(&b, pool);
    b.orders.fails = true;
    b.orders.argument = &b;
    b.orders.before = let_one_wait;
    CHECK_EQ(acquire(&b).how, PB_FAILED);
    CHECK_EQ(joined(&b.seats[0]), PB_CONSTRUCTED);
    CHECK_EQ(b.p.ctx[0]->events[PB_WAITS], 1);
    CHECK_EQ(parts_idle(&b.p), 1);
    close_bar(&b);
}

/* What comes back has gone bad: it is destroyed, and its slot is for those who wait. */
static void test_destroying_wakes(const char *pool)
{
    bar b;
    open_bar(&b, pool);
    const pb_got mine = acquire(&b);
    seat *s = start_waiting(&b, 0);
    CHECK_EQ(release(&b, mine), PB_DESTROYED);
    CHECK_EQ(joined(s), PB_CONSTRUCTED);
    CHECK_EQ(b.me->destroyed, 1);
    close_bar(&b);
}

/* The object handed over has gone bad meanwhile: its slot is the waiter's. */
static void test_bad_after_waiting(const char *pool)
{
    bar b;
    open_bar(&b, pool);
    const pb_got mine = acquire(&b);
    seat *s = start_waiting(&b, 0);
    (void)release(&b, mine);
    CHECK_EQ(joined(s), PB_CONSTRUCTED);
    CHECK_EQ(b.p.ctx[0]->destroyed, 1);
    CHECK_EQ(parts_idle(&b.p), 1);
    close_bar(&b);
}

/* While the only idle object is destroyed for its age somebody queues up. */
static void test_ageing_wakes(const char *pool)
{
    bar b;
    open_bar(&b, pool);
    CHECK_EQ(release(&b, acquire(&b)), PB_KEPT);
    pb_store_relaxed_u32(&b.p.control.tick, 100); /* relaxed: threads start later */
    b.orders.argument = &b;
    b.orders.before = let_one_wait;
    const pb_got mine = acquire(&b);
    CHECK(mine.object != NULL);
    CHECK_EQ(b.me->events[PB_AGED], 1);
    (void)release(&b, mine);
    CHECK(joined(&b.seats[0]) != PB_TIMED_OUT);
    check_slots(&b, 1);
    close_bar(&b);
}

/* A thread that leaves with an object in its hands: another gives it back, to one who waits. */
static void test_remote_release(const char *pool)
{
    bar b;
    open_bar(&b, pool);
    b.seats[0].keeps = true;
    seat *s = start(&b, 0);
    CHECK_EQ(joined(s), PB_CONSTRUCTED);
    seat *t = start_waiting(&b, 1);
    (void)release(&b, s->got);
    CHECK_EQ(joined(t), PB_WAITED);
    CHECK(t->got.object == s->got.object);
    close_bar(&b);
}

/* ---- ageing ---------------------------------------------------------------------------------- */

static void set_tick(bar *b, uint32_t tick)
{
    pb_store_relaxed_u32(&b->p.control.tick, tick); /* relaxed: we are alone */
}

static void test_ageing(uint32_t from)
{
    bar b;
    open_bar(&b, "blocking max_total=4 ttl_ms=10 min_idle=1");
    pb_got got[4];
    set_tick(&b, from);
    for (int i = 0; i < 4; i++)
        got[i] = acquire(&b);
    for (int i = 0; i < 3; i++) { /* idle since 0, 5 and 9 */
        static const uint32_t ticks[] = {0, 5, 9};
        set_tick(&b, from + ticks[i]);
        CHECK_EQ(release(&b, got[i]), PB_KEPT);
    }
    set_tick(&b, from + 14);
    CHECK(acquire(&b).object == got[2].object); /* the newest; the oldest is gone */
    CHECK_EQ(b.me->events[PB_AGED], 1);
    CHECK_EQ(parts_idle(&b.p), 1);
    CHECK_EQ(release(&b, got[2]), PB_KEPT);
    CHECK_EQ(release(&b, got[3]), PB_KEPT);
    set_tick(&b, from + 50);
    CHECK(acquire(&b).object == got[3].object); /* old as well, but one may stay */
    CHECK_EQ(b.me->events[PB_AGED], 3);
    CHECK_EQ(parts_idle(&b.p), 0);
    CHECK_EQ(release(&b, got[3]), PB_KEPT);
    check_slots(&b, 4);
    close_bar(&b);
}

/* Released at a later tick than the one that was looked at: not old, although unsigned it seems. */
static void test_tick_behind(void)
{
    bar b;
    open_bar(&b, "blocking ttl_ms=10");
    set_tick(&b, 20);
    const pb_got got = acquire(&b);
    CHECK_EQ(release(&b, got), PB_KEPT);
    set_tick(&b, 15);
    CHECK(acquire(&b).object == got.object);
    CHECK_EQ(b.me->events[PB_AGED], 0);
    CHECK_EQ(release(&b, got), PB_KEPT);
    close_bar(&b);
}

/* ---- deadlock by capacity -------------------------------------------------------------------- */

typedef struct pair {
    parts *p;
    int index;
    pthread_barrier_t *meet;
    pb_outcome second;
} pair;

/* Holds one, and waits for another, as its partner does. */
static void *want_two(void *arg)
{
    pair *x = arg;
    pb_ctx *ctx = parts_attach(x->p, x->index);
    const pb_got one = parts_acquire(x->p, ctx);
    (void)pthread_barrier_wait(x->meet);
    const pb_got two = parts_acquire(x->p, ctx);
    x->second = two.how;
    (void)pthread_barrier_wait(x->meet); /* else the other gets what the first gives back */
    (void)parts_release(x->p, ctx, held_of(one));
    parts_detach(x->p, x->index);
    return NULL;
}

static void test_deadlock_by_capacity(const char *pool)
{
    bar b;
    open_bar(&b, pool); /* max_total=2 timeout_ms=30 */
    pthread_barrier_t meet;
    (void)pthread_barrier_init(&meet, NULL, 2);
    pair pairs[2];
    pthread_t ids[2];
    for (int i = 0; i < 2; i++) {
        pairs[i] = (pair){.p = &b.p, .index = i, .meet = &meet};
        CHECK_EQ(pb_thread_start(&ids[i], want_two, &pairs[i], -1), PB_OK);
    }
    for (int i = 0; i < 2; i++) {
        (void)pthread_join(ids[i], NULL);
        CHECK_EQ(pairs[i].second, PB_TIMED_OUT);
        CHECK_EQ(b.p.ctx[i]->events[PB_WAITS], 1);
    }
    CHECK_EQ(parts_idle(&b.p), 2);
    check_slots(&b, 2);
    close_bar(&b);
    (void)pthread_barrier_destroy(&meet);
}

/* The same in a live replicate, where every wait is a park point and parked time is no run time:
   each of three threads wants two of two. */
static void test_windows_over_deadlock(const char *pool)
{
    check_in("%s, live", pool);
    const pb_cell cell = cell_of(pool, "table", "steady live=2", 3);
    pb_run *run;
    pb_error error = {""};
    if (!CHECK_EQ(pb_run_open(&run, &cell, &error), PB_OK))
        cell_mistake(error.text);
    uint64_t operations[3];
    for (int i = 0; i < 5; i++) {
        pb_window w = {.operations = operations};
        CHECK_EQ(pb_run_window(run, 0.004, &w, &error), PB_OK);
        for (int k = 0; k < 3; k++)
            CHECK_EQ(run->members[k].ctx->outcomes[PB_TIMED_OUT], 0);
        pb_sleep_until(pb_now_ns() + 300 * MS); /* in all, longer than any of them would wait */
    }
    pb_account a;
    CHECK_EQ(pb_run_close(run, &a, &error), PB_OK); /* ends the waits */
    CHECK_EQ(a.constructed, 2);
    CHECK_EQ(a.idle, 2);
    CHECK(a.outcomes[PB_TIMED_OUT] >= 1);
}

/* ---- everything at once ---------------------------------------------------------------------- */

enum { CROWD = 6, GLASSES = 2, DEFAULT_ROUNDS = 400, MARK_ONE_IN = 4 };

typedef struct guest {
    bar *bar;
    int index;
    int rounds;
    pb_rng rng;
    uint64_t got, late;
} guest;

static void dally(guest *g)
{
    const uint64_t what = pb_rng_below(&g->rng, 16);
    if (what == 0)
        pb_sleep_until(pb_now_ns() + pb_rng_below(&g->rng, MS)); /* about as long as they wait */
    else if (what < 6)
        (void)sched_yield();
}

static void *drink(void *arg)
{
    guest *g = arg;
    parts *p = &g->bar->p;
    check_in("guest %d", g->index);
    marks_begin((uint64_t)g->index);
    pb_ctx *ctx = parts_attach(p, g->index);
    for (int i = 0; i < g->rounds; i++) {
        const pb_got got = parts_acquire(p, ctx);
        dally(g);
        g->late += got.how == PB_TIMED_OUT;
        if (!got.object)
            continue;
        g->got++;
        probe_take(ctx, got.object);
        ctx->sink += parts_use(p, ctx, got.object);
        dally(g);
        probe_leave(ctx, got.object);
        (void)parts_release(p, ctx, held_of(got));
    }
    parts_detach(p, g->index);
    return NULL;
}

/* Waits that end while objects are handed over, constructors that fail, objects that go bad or grow
   old: in the end all slots are there. Returns how many waits ended without an object. */
static uint64_t test_crowd(const char *pool, int rounds)
{
    bar b;
    open_bar(&b, pool);
    b.orders.fails_one_in = 4;
    marks_often(MARK_ONE_IN);
    guest guests[CROWD];
    pthread_t ids[CROWD];
    uint64_t got = 0, late = 0;
    for (int i = 0; i < CROWD; i++) {
        guests[i] = (guest){.bar = &b, .index = i + ME + 1, .rounds = rounds, .rng = {(uint64_t)i}};
        CHECK_EQ(pb_thread_start(&ids[i], drink, &guests[i], -1), PB_OK);
    }
    for (uint32_t tick = 1; tick <= 50; tick++) {
        pb_store_relaxed_u32(&b.p.control.tick, tick); /* relaxed: as the controller does */
        pb_sleep_until(pb_now_ns() + MS);
    }
    for (int i = 0; i < CROWD; i++) {
        (void)pthread_join(ids[i], NULL);
        got += guests[i].got;
        late += guests[i].late;
    }
    CHECK(got > 0);
    marks_often(0);
    b.orders.fails_one_in = 0;
    CHECK_EQ(parts_alive(&b.p), parts_idle(&b.p));
    check_slots(&b, GLASSES);
    close_bar(&b);
    return late;
}

static void test_crowds(void)
{
    const char *text = getenv("PB_STRESS_ROUNDS");
    const int rounds = text ? atoi(text) : DEFAULT_ROUNDS;
    static const char *const validate[] = {"never", "acquire", "release"};
    uint64_t late = 0;
    for (int i = 0; i < 6; i++) {
        char pool[CELL_TEXT];
        (void)snprintf(pool, sizeof pool,
                       "blocking max_total=%d timeout_ms=1 fair=%d ttl_ms=1 validate=%s "
                       "invalid_per_million=200000",
                       GLASSES, i % 2, validate[i / 2]);
        late += test_crowd(pool, rounds);
    }
    CHECK(late > 0); /* else the test says little */
}

static void test_waiters(void)
{
    test_hand_over("blocking max_total=1 timeout_ms=4000", PB_KEPT);
    test_hand_over("blocking max_total=1 timeout_ms=4000 fair=1", PB_HANDED_OVER);
    test_clock_put_back();
    test_order("blocking max_total=1 timeout_ms=4000", false);
    test_order("blocking max_total=1 timeout_ms=4000 fair=1", true);
    for (int which = 0; which < 3; which++) {
        test_giving_up("blocking max_total=1", which);
        test_giving_up("blocking max_total=1 fair=1", which);
    }
    test_the_end("blocking max_total=1 timeout_ms=4000");
    test_the_end("blocking max_total=1 timeout_ms=4000 fair=1");
    test_failure_wakes("blocking max_total=1 timeout_ms=4000");
    test_failure_wakes("blocking max_total=1 timeout_ms=4000 fair=1");
    test_destroying_wakes("blocking max_total=1 timeout_ms=4000 validate=release "
                          "invalid_per_million=1000000");
    test_destroying_wakes("blocking max_total=1 timeout_ms=4000 validate=release "
                          "invalid_per_million=1000000 fair=1");
    test_bad_after_waiting("blocking max_total=1 timeout_ms=4000 validate=acquire "
                           "invalid_per_million=1000000");
    test_bad_after_waiting("blocking max_total=1 timeout_ms=4000 validate=acquire "
                           "invalid_per_million=1000000 fair=1");
    test_ageing_wakes("blocking max_total=1 timeout_ms=4000 ttl_ms=10");
    test_ageing_wakes("blocking max_total=1 timeout_ms=4000 ttl_ms=10 fair=1");
    test_remote_release("blocking max_total=1 timeout_ms=4000");
    test_remote_release("blocking max_total=1 timeout_ms=4000 fair=1");
}

int main(void)
{
    test_limit("blocking max_total=2 timeout_ms=20");
    test_limit("blocking max_total=2 timeout_ms=20 fair=1");
    test_no_patience();
    test_foreign();
    test_failures();
    test_bad_at_acquire();
    test_bad_at_release();
    test_share_of_bad();
    test_waiters();
    test_ageing(0);
    test_ageing(UINT32_MAX - 3); /* the tick wraps */
    test_tick_behind();
    test_deadlock_by_capacity("blocking max_total=2 timeout_ms=30");
    test_deadlock_by_capacity("blocking max_total=2 timeout_ms=30 fair=1");
    test_windows_over_deadlock("blocking max_total=2 timeout_ms=1000");
    test_windows_over_deadlock("blocking max_total=2 timeout_ms=1000 fair=1");
    test_crowds();
    return check_report();
}
