/* SPDX-License-Identifier: MIT
 *
 * test_pools.c - the contract of pool.h, for every pool of the list: x every workload, and with
 * every combination of its parameters (choices.h).
 *
 * At each quiet point: constructed = destroyed + idle + held, and idle within the bound (bounds.h).
 * Outcomes are those of the list and say what really happened, objects are distinct while held,
 * nothing is lost when a thread leaves or the pool closes. Then what single pools promise of
 * themselves: capacity, order, where they construct.
 */
#define _GNU_SOURCE
#include <pthread.h>

#include "bounds.h"
#include "cell.h"
#include "check.h"
#include "choices.h"
#include "clock.h"
#include "probe.h"

enum { HELD_MAX = 6, STEPS = 1500, THREADS = 4, COMBINATIONS = 40 };

/* A thread's context and the objects it holds. */
typedef struct borrower {
    parts *p;
    pb_ctx *ctx;
    pb_held held[HELD_MAX];
    int count;
    bool alone;  /* nobody else uses the pool: every step can be balanced */
    bool ebbing; /* of bursts: gives back until it holds nothing */
} borrower;

static bool has(const parts *p, uint32_t trait)
{
    return pb_pools[p->cell.pool].traits & trait;
}

/* The one object of a pool that needs shareable ones is idle, in however many hands it is. */
static uint64_t missing(const parts *p, int held)
{
    return has(p, PB_NEEDS_SHAREABLE) ? 0 : (uint64_t)held;
}

static void check_idle(const parts *p)
{
    const int64_t bound = bound_on_idle(&p->cell);
    if (CHECK(bound >= 0)) /* else the pool's line is missing: bounds.h */
        CHECK(parts_idle(p) <= (uint64_t)bound);
}

static void check_conserved(const borrower *b)
{
    if (!b->alone)
        return;
    CHECK_EQ(parts_alive(b->p), parts_idle(b->p) + missing(b->p, b->count));
    if (b->count == 0 || !has(b->p, PB_BURST_ONLY))
        check_idle(b->p);
}

/* It is an outcome that the list names for this pool. */
static bool can(const parts *p, pb_outcome how)
{
    return pb_pools[p->cell.pool].outcomes >> how & 1;
}

/* Why a pool may have no object, with constructors that never fail: all are out. */
static bool may_be_out(const borrower *b, pb_outcome how)
{
    if (how == PB_FAILED)
        return b->count == cell_slots(&b->p->cell);
    return how == PB_TIMED_OUT && has(b->p, PB_WAITS_FOR_OBJECTS);
}

/* Idle objects that were dropped on purpose. */
static uint64_t dropped(const pb_ctx *ctx)
{
    return ctx->events[PB_TRIMMED] + ctx->events[PB_AGED];
}

/* False when the pool was out of objects. */
static bool borrow(borrower *b)
{
    const uint64_t constructed = b->ctx->constructed, destroyed = b->ctx->destroyed;
    const uint64_t idle = b->alone ? parts_idle(b->p) : 0;
    const pb_got got = parts_acquire(b->p, b->ctx);
    CHECK(got.how < PB_ACQUIRES && can(b->p, got.how));
    CHECK(got.object ? got.how < PB_FAILED : may_be_out(b, got.how));
    if (!got.object)
        return false;
    const bool made = got.how == PB_CONSTRUCTED || has(b->p, PB_CONSTRUCTS_ALWAYS);
    CHECK_EQ(b->ctx->constructed - constructed, made);
    if (b->alone)
        CHECK_EQ(parts_idle(b->p) + missing(b->p, !made) + b->ctx->destroyed - destroyed, idle);
    for (int i = 0; i < b->count && !has(b->p, PB_NEEDS_SHAREABLE); i++)
        CHECK(b->held[i].object != got.object);
    b->held[b->count++] = held_of(got);
    b->ctx->sink += parts_use(b->p, b->ctx, got.object);
    check_conserved(b);
    return true;
}

static pb_outcome give(borrower *b, pb_held held)
{
    const uint64_t others = b->ctx->destroyed - dropped(b->ctx);
    const pb_outcome how = parts_release(b->p, b->ctx, held);
    CHECK(how >= PB_ACQUIRES && how != PB_REFUSED && can(b->p, how));
    if (how == PB_DESTROYED) /* perhaps others as well: a whole magazine */
        CHECK(b->ctx->destroyed - dropped(b->ctx) > others);
    if (how == PB_KEPT && !has(b->p, PB_BURST_ONLY)) /* which destroys all at the end of one */
        CHECK_EQ(b->ctx->destroyed - dropped(b->ctx) - others, has(b->p, PB_CONSTRUCTS_ALWAYS));
    return how;
}

/* Gives back the object at `which`. */
static pb_outcome give_back(borrower *b, int which)
{
    const pb_held held = b->held[which];
    b->held[which] = b->held[--b->count];
    const pb_outcome how = give(b, held);
    check_conserved(b);
    return how;
}

static void give_back_all(borrower *b)
{
    while (b->count > 0)
        (void)give_back(b, 0);
}

static void give_back_newest_first(borrower *b)
{
    while (b->count > 0)
        (void)give_back(b, b->count - 1);
}

static int most_held(const parts *p)
{
    return has(p, PB_HOLDS_MANY) ? HELD_MAX : 1;
}

static void borrow_all(borrower *b)
{
    while (b->count < most_held(b->p) && borrow(b))
        ;
}

static void borrow_at_random(borrower *b, pb_rng *rng)
{
    const int most = most_held(b->p);
    for (int i = 0; i < STEPS; i++) {
        b->ebbing = b->count > 0 && (b->ebbing || b->count == most);
        const bool more = has(b->p, PB_BURST_ONLY) ? !b->ebbing : pb_rng_below(rng, 2) == 0;
        if (b->count == 0 || (more && b->count < most))
            b->ebbing = !borrow(b);
        else
            (void)give_back(b, (int)pb_rng_below(rng, (uint32_t)b->count));
    }
}

/* ---- every pool x every workload, and x every combination of its parameters ------------------ */

static void test_one_thread(const pb_cell *cell)
{
    parts p;
    parts_open(&p, cell, NULL);
    borrower b = {.p = &p, .ctx = parts_attach(&p, 0), .alone = true};
    check_conserved(&b);
    borrow_all(&b);
    give_back_all(&b);
    borrow_all(&b);
    give_back_newest_first(&b);
    pb_rng rng = {42};
    borrow_at_random(&b, &rng);
    give_back_all(&b);
    parts_detach(&p, 0);
    check_conserved(&b);
    CHECK_EQ(parts_close(&p), 0);
}

static void test_closes_unused(const pb_cell *cell)
{
    parts p;
    parts_open(&p, cell, NULL);
    CHECK_EQ(parts_idle(&p), 0);
    CHECK_EQ(parts_close(&p), 0);
}

/* More come back than ever were acquired: kept within the bound or destroyed, never dropped. */
static void test_over_release(const pb_cell *cell)
{
    enum { EXTRA = 20, MOST = 5000 };
    const int64_t bound = bound_on_idle(cell);
    if (cell_keeps_memory(cell))
        return;
    parts p;
    parts_open(&p, cell, NULL);
    borrower b = {.p = &p, .ctx = parts_attach(&p, 0), .alone = true};
    for (int64_t i = 0; i < bound + EXTRA && i < MOST; i++)
        (void)give(&b, (pb_held){pb_construct(b.ctx, p.workload.is, &p.args), 0});
    check_conserved(&b);
    parts_detach(&p, 0);
    check_conserved(&b);
    CHECK_EQ(parts_close(&p), 0);
}

/* What a thread acquired outlives it: another releases it, and the index is used again. */
static void test_outlives_its_acquirer(const pb_cell *cell)
{
    if (!(pb_pools[cell->pool].traits & PB_REMOTE_RELEASE))
        return;
    parts p;
    parts_open(&p, cell, NULL);
    borrower b = {.p = &p, .ctx = parts_attach(&p, 0), .alone = true};
    pb_ctx *other = parts_attach(&p, 1);
    for (int life = 0; life < 3; life++) {
        borrow_all(&b);
        parts_detach(&p, 0);
        check_conserved(&b);
        b.ctx = other;
        give_back_newest_first(&b);
        borrow_all(&b); /* what came back is there, or made anew */
        give_back_all(&b);
        b.ctx = parts_attach(&p, 0);
        check_conserved(&b);
    }
    borrow_all(&b);
    give_back_all(&b);
    parts_detach(&p, 1);
    parts_detach(&p, 0);
    check_conserved(&b);
    CHECK_EQ(parts_close(&p), 0);
}

/* Detaching what is detached does nothing. */
static void test_detaches_twice(const pb_cell *cell)
{
    parts p;
    parts_open(&p, cell, NULL);
    borrower b = {.p = &p, .ctx = parts_attach(&p, 0), .alone = true};
    borrow_all(&b);
    give_back_all(&b);
    for (int i = 0; i < 2; i++) {
        parts_detach(&p, 0);
        check_conserved(&b);
    }
    CHECK_EQ(parts_close(&p), 0);
}

typedef struct crew {
    parts *p;
    pthread_barrier_t barrier;
    borrower member[THREADS];
} crew;

typedef struct hand {
    crew *crew;
    int index;
} hand;

/* Meets the main thread three times: while objects are held, when all are back, after detaching. */
static void *work(void *arg)
{
    const hand *h = arg;
    crew *c = h->crew;
    borrower *b = &c->member[h->index];
    check_in("%s x %s, thread %d", pb_pools[c->p->cell.pool].is.name,
             pb_workloads[c->p->cell.workload].is.name, h->index);
    *b = (borrower){.p = c->p, .ctx = parts_attach(c->p, h->index)};
    pb_rng rng = {(uint64_t)h->index};
    borrow_at_random(b, &rng);
    (void)pthread_barrier_wait(&c->barrier);
    (void)pthread_barrier_wait(&c->barrier);
    give_back_all(b);
    (void)pthread_barrier_wait(&c->barrier);
    (void)pthread_barrier_wait(&c->barrier);
    parts_detach(c->p, h->index);
    return NULL;
}

static void check_distinct(const crew *c)
{
    if (has(c->p, PB_NEEDS_SHAREABLE))
        return;
    for (int i = 0; i < THREADS * HELD_MAX; i++)
        for (int j = 0; j < i; j++) {
            const borrower *a = &c->member[i / HELD_MAX], *b = &c->member[j / HELD_MAX];
            if (i % HELD_MAX < a->count && j % HELD_MAX < b->count)
                CHECK(a->held[i % HELD_MAX].object != b->held[j % HELD_MAX].object);
        }
}

static int held_by_all(const crew *c)
{
    int held = 0;
    for (int i = 0; i < THREADS; i++)
        held += c->member[i].count;
    return held;
}

static void test_several_threads(const pb_cell *cell)
{
    parts p;
    parts_open(&p, cell, NULL);
    crew c = {.p = &p};
    hand hands[THREADS];
    pthread_t threads[THREADS];
    (void)pthread_barrier_init(&c.barrier, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++) {
        hands[i] = (hand){&c, i};
        if (pthread_create(&threads[i], NULL, work, &hands[i]) != 0)
            cell_mistake("no thread");
    }
    for (int point = 0; point < 2; point++) { /* some held, all back */
        (void)pthread_barrier_wait(&c.barrier);
        CHECK_EQ(parts_alive(&p), parts_idle(&p) + missing(&p, held_by_all(&c)));
        if (held_by_all(&c) == 0 || !has(&p, PB_BURST_ONLY))
            check_idle(&p);
        check_distinct(&c);
        (void)pthread_barrier_wait(&c.barrier);
    }
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    CHECK_EQ(parts_alive(&p), parts_idle(&p)); /* threads that leave lose nothing */
    CHECK_EQ(parts_close(&p), 0);
    (void)pthread_barrier_destroy(&c.barrier);
}

static void each_cell(void (*test)(const pb_cell *), const char *name)
{
    for (int i = 0; i < PB_POOL_COUNT; i++)
        for (int j = 0; j < PB_WORKLOAD_COUNT; j++) {
            if (!cell_exists(i, j))
                continue;
            pb_cell cell = cell_of(pb_pools[i].is.name, pb_workloads[j].is.name, "churn", THREADS);
            choices_wait_at_most(&cell, 0);
            check_in("%s: %s x %s", name, pb_pools[i].is.name, pb_workloads[j].is.name);
            test(&cell);
        }
}

static void each_combination(void (*test)(const pb_cell *), const char *name)
{
    for (int i = 0; i < PB_POOL_COUNT; i++) {
        const choices c = choices_of(pb_pools[i].is.name, THREADS);
        pb_rng rng = {1};
        for (int j = 0; j < choices_count(&c, COMBINATIONS); j++) {
            char text[CELL_TEXT];
            pb_cell cell = choices_pick(&c, j, COMBINATIONS, &rng);
            choices_wait_at_most(&cell, 0);
            choices_text(&cell, text, sizeof text);
            check_in("%s: %s", name, text);
            test(&cell);
        }
    }
}

/* ---- every pool, with an object that notices ------------------------------------------------- */

static void test_failing_constructor(const char *pool)
{
    const pb_cell cell = cell_of(pool, "bytes", "churn", 1);
    probe_orders orders = {.fail = false};
    parts p;
    probe_parts(&p, &cell, &orders);
    borrower b = {.p = &p, .ctx = parts_attach(&p, 0), .alone = true};
    while (parts_idle(&p) > 0) /* what attaching filled in */
        (void)borrow(&b);
    orders.fail = true;
    for (int i = 0; i < 3; i++) { /* more than once: a lock kept by the first would hang */
        const pb_got got = parts_acquire(&p, b.ctx);
        CHECK(got.object == NULL);
        CHECK_EQ(got.how, PB_FAILED);
        check_conserved(&b);
    }
    orders.fail = false;
    CHECK(borrow(&b)); /* and nothing of the pool's room was lost */
    give_back_all(&b);
    parts_detach(&p, 0);
    CHECK_EQ(parts_close(&p), 0);
}

/* A pool that constructs when a thread attaches has to say that it could not. */
static void test_failing_attach(const char *pool)
{
    const pb_cell cell = cell_of(pool, "bytes", "churn", 1);
    probe_orders orders = {.fail = true};
    parts p;
    probe_parts(&p, &cell, &orders);
    if (parts_attach(&p, 0)) {
        CHECK_EQ(p.ctx[0]->constructed, 0);
        parts_detach(&p, 0);
    }
    CHECK_EQ(parts_close(&p), 0);
}

/* Acquires, expects the object dirty or clean and reset `resets` times, uses it, gives it back. */
static void check_next(parts *p, bool fresh, bool dirty)
{
    const pb_got got = parts_acquire(p, p->ctx[0]);
    probe *o = got.object;
    if (!CHECK(o != NULL))
        return;
    const bool made = got.how == PB_CONSTRUCTED || has(p, PB_CONSTRUCTS_ALWAYS);
    if (made)
        CHECK_EQ(o->resets, 0); /* new objects are not reset */
    CHECK(made || !fresh);
    CHECK_EQ(o->dirty, made ? false : dirty);
    (void)parts_use(p, p->ctx[0], o);
    const uint32_t before = o->resets;
    const pb_outcome how = parts_release(p, p->ctx[0], held_of(got));
    if (how == PB_KEPT && !has(p, PB_CONSTRUCTS_ALWAYS)) /* ours to look at: we are alone */
        CHECK_EQ(o->resets - before, p->args.extras & PB_RESET_ON_RELEASE ? 1 : 0);
}

static void test_resets(const char *pool, uint32_t extras, bool dirty)
{
    const pb_cell cell = cell_of(pool, "bytes", "churn", 1);
    const bool fresh = pb_pools[cell.pool].traits & PB_CONSTRUCTS_ALWAYS;
    probe_orders orders = {.fail = false};
    parts p;
    probe_parts(&p, &cell, &orders);
    p.args.extras = fresh ? 0 : extras;
    (void)parts_attach(&p, 0);
    const pb_got first = parts_acquire(&p, p.ctx[0]);
    (void)parts_use(&p, p.ctx[0], first.object);
    (void)parts_release(&p, p.ctx[0], held_of(first));
    for (int i = 0; i < 5; i++)
        check_next(&p, fresh, dirty);
    parts_detach(&p, 0);
    CHECK_EQ(parts_close(&p), 0);
}

static void each_pool(void)
{
    for (int i = 0; i < PB_POOL_COUNT; i++) {
        const char *pool = pb_pools[i].is.name;
        check_in("%s: failing attach", pool);
        test_failing_attach(pool);
        if (pb_pools[i].traits & PB_NEEDS_SHAREABLE)
            continue; /* its object is made once, and never changes */
        check_in("%s: failing constructor", pool);
        test_failing_constructor(pool);
        check_in("%s: reset at release", pool);
        test_resets(pool, PB_RESET_ON_RELEASE, false);
        check_in("%s: reset at acquire", pool);
        test_resets(pool, PB_RESET_ON_ACQUIRE, false);
        check_in("%s: no reset", pool);
        test_resets(pool, 0, true);
    }
}

/* ---- resets of real workloads ---------------------------------------------------------------- */

/* One object through the pool, filled by `spoil`, seen again by `look`. */
static void through_pool(const char *pool, const char *workload, void (*spoil)(void *),
                         void (*look)(const void *))
{
    const pb_cell cell = cell_of(pool, workload, "churn", 1);
    parts p;
    check_in("%s x %s", pool, workload);
    parts_open(&p, &cell, NULL);
    (void)parts_attach(&p, 0);
    void *object = parts_acquire(&p, p.ctx[0]).object;
    spoil(object);
    CHECK_EQ(parts_return(&p, p.ctx[0], object), PB_KEPT);
    const pb_got again = parts_acquire(&p, p.ctx[0]);
    CHECK(again.object == object);
    look(again.object);
    (void)parts_return(&p, p.ctx[0], object);
    parts_detach(&p, 0);
    CHECK_EQ(parts_close(&p), 0);
}

static void spoil_bytes(void *object)
{
    memset(object, 7, 1024);
}

static int zero_bytes(const void *object)
{
    int zero = 0;
    for (int i = 0; i < 1024; i++)
        zero += ((const unsigned char *)object)[i] == 0;
    return zero;
}

static void look_all_zero(const void *object)
{
    CHECK_EQ(zero_bytes(object), 1024);
}

static void look_header_zero(const void *object)
{
    CHECK_EQ(zero_bytes(object), 64);
    CHECK_EQ(((const unsigned char *)object)[63], 0);
}

static void look_untouched(const void *object)
{
    CHECK_EQ(zero_bytes(object), 0);
}

static void spoil_direct(void *object)
{
    ((direct_object *)object)->position = 512;
}

static void look_direct(const void *object)
{
    CHECK_EQ(((const direct_object *)object)->position, 0);
}

/* Every byte, so that no field can be forgotten. */
static void spoil_context(void *object)
{
    memset(object, 7, sizeof(context_object));
}

static void look_context(const void *object)
{
    static const context_object clean;
    CHECK_EQ(memcmp(object, &clean, sizeof clean), 0);
}

static void test_real_resets(void)
{
    const char *pools[] = {"thread_local", "thread_local reset_on=acquire",
                           "thread_cache", "thread_cache reset_on=acquire",
                           "locked",       "locked reset_on=acquire"};
    for (int i = 0; i < 6; i++) {
        through_pool(pools[i], "bytes reset=full", spoil_bytes, look_all_zero);
        through_pool(pools[i], "bytes reset=header", spoil_bytes, look_header_zero);
        through_pool(pools[i], "bytes", spoil_bytes, look_untouched);
        through_pool(pools[i], "direct", spoil_direct, look_direct);
        through_pool(pools[i], "context", spoil_context, look_context);
    }
}

/* ---- what single pools promise --------------------------------------------------------------- */

static void test_locked_capacity(int capacity, const char *order)
{
    char text[CELL_TEXT];
    (void)snprintf(text, sizeof text, "locked capacity=%d order=%s", capacity, order);
    check_in("%s", text);
    const pb_cell cell = cell_of(text, "bytes", "churn", 1);
    parts p;
    parts_open(&p, &cell, NULL);
    borrower b = {.p = &p, .ctx = parts_attach(&p, 0), .alone = true};
    for (int round = 0; round < 3; round++) {
        while (b.count < capacity + 1)
            (void)borrow(&b);
        for (int i = 0; i < capacity; i++)
            CHECK_EQ(give_back(&b, 0), PB_KEPT);
        CHECK_EQ(give_back(&b, 0), PB_DESTROYED); /* one too many */
        CHECK_EQ(parts_idle(&p), capacity);
    }
    parts_detach(&p, 0);
    CHECK_EQ(parts_close(&p), 0);
}

/* Three go in; the order they come out, over more rounds than the ring is long. */
static void test_locked_order(const char *pool, bool fifo)
{
    enum { N = 3 };
    check_in("%s", pool);
    const pb_cell cell = cell_of(pool, "bytes", "churn", 1);
    parts p;
    parts_open(&p, &cell, NULL);
    (void)parts_attach(&p, 0);
    void *in[N];
    for (int i = 0; i < N; i++)
        in[i] = parts_acquire(&p, p.ctx[0]).object;
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < N; i++)
            CHECK_EQ(parts_return(&p, p.ctx[0], in[i]), PB_KEPT);
        void *out[N];
        for (int i = 0; i < N; i++) {
            const pb_got got = parts_acquire(&p, p.ctx[0]);
            CHECK_EQ(got.how, PB_SHARED_HIT);
            CHECK(got.object == in[fifo ? i : N - 1 - i]);
            out[i] = got.object;
        }
        memcpy(in, out, sizeof in);
    }
    for (int i = 0; i < N; i++)
        (void)parts_return(&p, p.ctx[0], in[i]);
    parts_detach(&p, 0);
    CHECK_EQ(parts_close(&p), 0);
}

static void test_thread_local_second_object(void)
{
    check_in("thread_local: a second object");
    const pb_cell cell = cell_of("thread_local", "bytes", "churn", 1);
    parts p;
    parts_open(&p, &cell, NULL);
    pb_ctx *ctx = parts_attach(&p, 0);
    const pb_got first = parts_acquire(&p, ctx);
    const pb_got second = parts_acquire(&p, ctx);
    CHECK_EQ(first.how, PB_LOCAL_HIT);
    CHECK_EQ(second.how, PB_CONSTRUCTED);
    CHECK_EQ(parts_return(&p, ctx, second.object), PB_KEPT);
    CHECK_EQ(parts_return(&p, ctx, first.object), PB_DESTROYED);
    CHECK(parts_acquire(&p, ctx).object == second.object);
    CHECK_EQ(parts_return(&p, ctx, second.object), PB_KEPT);
    parts_detach(&p, 0);
    CHECK_EQ(parts_close(&p), 0);
}

/* While one thread constructs, another uses the pool: it must get through, or must wait. */
typedef struct intruder {
    parts *p;
    pb_atomic_u32 go; /* the constructor has begun */
    pb_atomic_u32 through;
    uint64_t patience_ns;
    bool seen; /* the other came through during construction */
} intruder;

static void wait_inside(void *arg)
{
    intruder *i = arg;
    if (pb_exchange_acquire_u32(&i->go, 1)) /* only the first construction is watched */
        return;
    const uint64_t deadline = pb_now_ns() + i->patience_ns;
    while (!(i->seen = pb_load_acquire_u32(&i->through)) && pb_now_ns() < deadline)
        pb_sleep_until(pb_now_ns() + 1000000);
}

static void *intrude(void *arg)
{
    intruder *i = arg;
    check_in("locked: use during construction");
    pb_ctx *ctx = parts_attach(i->p, 1);
    while (!pb_load_acquire_u32(&i->go))
        pb_sleep_until(pb_now_ns() + 100000);
    void *object = parts_acquire(i->p, ctx).object;
    pb_store_release_u32(&i->through, 1);
    (void)parts_return(i->p, ctx, object);
    parts_detach(i->p, 1);
    return NULL;
}

static bool came_through(const char *pool, uint64_t patience_ns)
{
    check_in("%s", pool);
    const pb_cell cell = cell_of(pool, "bytes", "churn", 2);
    parts p;
    intruder i = {.p = &p, .patience_ns = patience_ns};
    probe_orders orders = {.during = wait_inside, .argument = &i};
    probe_parts(&p, &cell, &orders);
    pb_ctx *ctx = parts_attach(&p, 0);
    pthread_t thread;
    if (pthread_create(&thread, NULL, intrude, &i) != 0)
        cell_mistake("no thread");
    void *object = parts_acquire(&p, ctx).object;
    (void)parts_return(&p, ctx, object);
    (void)pthread_join(thread, NULL);
    parts_detach(&p, 0);
    CHECK_EQ(parts_close(&p), 0);
    return i.seen;
}

int main(void)
{
    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* what was found outlives a crash */
    each_cell(test_one_thread, "one thread");
    each_cell(test_closes_unused, "unused");
    each_cell(test_over_release, "over-release");
    each_cell(test_several_threads, "several threads");
    each_combination(test_one_thread, "one thread");
    each_combination(test_over_release, "over-release");
    each_combination(test_several_threads, "several threads");
    each_combination(test_outlives_its_acquirer, "outlives its acquirer");
    each_combination(test_detaches_twice, "detaches twice");
    each_pool();
    test_real_resets();
    test_locked_capacity(4, "lifo");
    test_locked_capacity(4, "fifo");
    test_locked_capacity(1, "lifo");
    test_locked_capacity(1, "fifo");
    test_locked_order("locked capacity=4", false);
    test_locked_order("locked capacity=4 order=fifo", true);
    test_locked_order("locked capacity=3 order=fifo lock=parking", true);
    test_thread_local_second_object();
    /* generous where it must come through, short where it cannot: no luck is needed */
    CHECK(came_through("locked", 5000000000));
    CHECK(came_through("locked lock=parking", 5000000000));
    CHECK(!came_through("locked construct=inside", 30000000));
    CHECK(!came_through("locked construct=inside lock=parking", 30000000));
    return check_report();
}
