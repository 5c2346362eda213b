/* SPDX-License-Identifier: MIT
 *
 * test_magazine.c - what magazines promise of themselves: order, bounds, rare trades, hand-off.
 *
 * Threads that take turns are contexts of one thread here: what they do is then known to the
 * object. Real threads come at the end.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>

#include "cell.h"
#include "check.h"
#include "crowd.h"
#include "probe.h"

enum { MOST = 64, ROUNDS = 4 };

typedef struct holder {
    parts p;
    pb_ctx *ctx; /* of thread 0 */
    void *held[MOST];
    int count;
} holder;

static void open_holder(holder *h, const char *pool)
{
    const pb_cell cell = cell_of(pool, "bytes size=64", "churn", 4);
    check_in("%s", pool);
    h->count = 0;
    parts_open(&h->p, &cell, NULL);
    h->ctx = parts_attach(&h->p, 0);
}

static uint64_t shared(const holder *h)
{
    return h->p.class->idle(h->p.pool, NULL);
}

static uint64_t own(const holder *h, int index)
{
    return h->p.class->idle(h->p.pool, h->p.ctx[index]);
}

static void close_holder(holder *h)
{
    for (int i = 0; i < PARTS_THREADS; i++)
        if (h->p.attached[i])
            parts_detach(&h->p, i);
    CHECK_EQ(parts_alive(&h->p), parts_idle(&h->p));
    CHECK_EQ(parts_close(&h->p), 0);
}

static pb_outcome acquire(holder *h)
{
    const pb_got got = parts_acquire(&h->p, h->ctx);
    CHECK(got.object != NULL);
    h->held[h->count++] = got.object;
    return got.how;
}

/* Gives back the newest. */
static pb_outcome release(holder *h)
{
    return parts_return(&h->p, h->ctx, h->held[--h->count]);
}

/* A letter for each outcome, so that sequences can be read. */
static char letter(pb_outcome how)
{
    static const char letters[] = "LSTWCF?KPDHR";
    return letters[how];
}

static void check_releases(holder *h, const char *wanted)
{
    char got[MOST + 1] = "";
    for (size_t i = 0; i < strlen(wanted); i++)
        got[i] = letter(release(h));
    if (!CHECK(strcmp(got, wanted) == 0))
        (void)printf("    got %s, wanted %s\n", got, wanted);
}

static void check_acquires(holder *h, const char *wanted)
{
    char got[MOST + 1] = "";
    for (size_t i = 0; i < strlen(wanted); i++)
        got[i] = letter(acquire(h));
    if (!CHECK(strcmp(got, wanted) == 0))
        (void)printf("    got %s, wanted %s\n", got, wanted);
}

/* K kept, P spilled, D destroyed; L from its own magazines, S from the depot, C constructed. */
static void test_outcomes(void)
{
    holder h;
    open_holder(&h, "magazine rounds=2 depot=1");
    for (int i = 0; i < 3; i++) {
        check_acquires(&h, i == 0 ? "CCCCCCCC" : "LLLLSLCC");
        check_releases(&h, "KKKKPKDD"); /* four here, two in the depot, no room for two */
        CHECK_EQ(shared(&h), 2);
        CHECK_EQ(own(&h, 0), 4);
    }
    CHECK_EQ(h.ctx->destroyed, 6);
    close_holder(&h);
    open_holder(&h, "magazine rounds=1 depot=2");
    check_acquires(&h, "CCCCCC");
    check_releases(&h, "KKPPDD");
    check_acquires(&h, "LLSSCC");
    check_releases(&h, "KKPPDD");
    close_holder(&h);
    open_holder(&h, "magazine rounds=3 depot=0");
    check_acquires(&h, "CCCCCCCC");
    check_releases(&h, "KKKKKKDD"); /* without a depot: a cache of two magazines */
    check_acquires(&h, "LLLLLLCC");
    check_releases(&h, "KKKKKKDD");
    close_holder(&h);
}

/* The newest first, as far as its two magazines go and through the depot. */
static void test_order(const char *pool, int objects)
{
    holder h;
    void *in[MOST];
    open_holder(&h, pool);
    while (h.count < objects)
        (void)acquire(&h);
    memcpy(in, h.held, sizeof in);
    h.count = 0;
    for (int i = 0; i < objects; i++)
        CHECK(parts_return(&h.p, h.ctx, in[i]) != PB_DESTROYED);
    for (int i = objects - 1; i >= 0; i--) {
        CHECK(acquire(&h) != PB_CONSTRUCTED);
        CHECK(h.held[h.count - 1] == in[i]);
    }
    while (h.count > 0)
        (void)release(&h);
    close_holder(&h);
}

/* Back and forth over each border: trades are at least `rounds` operations apart. */
static void test_trades_are_rare(int depth)
{
    holder h;
    open_holder(&h, "magazine rounds=4 depot=8");
    while (h.count < 30)
        (void)acquire(&h);
    while (h.count > depth)
        (void)release(&h);
    int since = ROUNDS, trades = 0;
    pb_rng rng = {(uint64_t)depth};
    for (int i = 0; i < 20000; i++) {
        const bool more = h.count == 0 || (h.count < 30 && pb_rng_below(&rng, 2) == 0);
        const pb_outcome how = more ? acquire(&h) : release(&h);
        CHECK(how == PB_LOCAL_HIT || how == PB_KEPT || how == PB_SHARED_HIT || how == PB_SPILLED);
        if (how == PB_SHARED_HIT || how == PB_SPILLED) {
            CHECK(since >= ROUNDS);
            since = 0;
            trades++;
        }
        since++;
    }
    CHECK(trades > 100); /* or nothing was tested */
    while (h.count > 0)
        (void)release(&h);
    close_holder(&h);
}

/* Random work of four threads against the documented bounds. */
static void test_bounds(uint64_t seed)
{
    holder h;
    open_holder(&h, "magazine rounds=4 depot=3");
    pb_rng rng = {seed};
    for (int i = 1; i < 4; i++)
        (void)parts_attach(&h.p, i);
    for (int i = 0; i < 20000; i++) {
        const int who = (int)pb_rng_below(&rng, 4);
        const uint32_t likely = i / 500 % 2 ? 30 : 70;
        h.ctx = h.p.ctx[who];
        if (h.count == 0 || (h.count < MOST && pb_rng_below(&rng, 100) < likely))
            (void)acquire(&h);
        else
            (void)release(&h);
        CHECK(own(&h, who) <= 2 * ROUNDS);
        CHECK(shared(&h) <= 3 * ROUNDS);
        CHECK_EQ(parts_alive(&h.p), parts_idle(&h.p) + (uint64_t)h.count);
    }
    while (h.count > 0)
        (void)release(&h);
    close_holder(&h);
}

/* One acquires, the other releases: constructed is what fills the other's magazines, no more, and
   each visit of the depot is for a magazine. */
static void test_hand_off(void)
{
    enum { OPERATIONS = 10000, DEFAULT_ROUNDS = 16 };
    holder h;
    open_holder(&h, "magazine");
    pb_ctx *other = parts_attach(&h.p, 1);
    uint64_t trades[2] = {0, 0};
    for (int i = 0; i < OPERATIONS; i++) {
        const pb_got got = parts_acquire(&h.p, h.ctx);
        trades[0] += got.how == PB_SHARED_HIT;
        trades[1] += parts_return(&h.p, other, got.object) == PB_SPILLED;
    }
    CHECK_EQ(h.ctx->constructed, 2 * DEFAULT_ROUNDS + 1);
    CHECK(trades[0] <= OPERATIONS / DEFAULT_ROUNDS);
    CHECK(trades[1] <= OPERATIONS / DEFAULT_ROUNDS);
    CHECK_EQ(other->destroyed, 0);
    close_holder(&h);
}

/* ---- threads that leave ---------------------------------------------------------------------- */

/* Leaves `objects` in the depot through a thread of its own. */
static void leave(holder *h, int index, int objects)
{
    pb_ctx *ctx = parts_attach(&h->p, index);
    for (int i = 0; i < objects; i++)
        (void)parts_return(&h->p, ctx, pb_construct(ctx, h->p.workload.is, &h->p.args));
    parts_detach(&h->p, index);
    parts_detach(&h->p, index); /* once more changes nothing */
}

/* Partial magazines are poured together: two of 3 and 2 make one of 4 and a rest. */
static void test_leaving(void)
{
    holder h;
    open_holder(&h, "magazine rounds=4 depot=2");
    leave(&h, 1, 3);
    CHECK_EQ(shared(&h), 3);
    leave(&h, 2, 2);
    CHECK_EQ(shared(&h), 5);
    check_acquires(&h, "SLLLSC");
    CHECK_EQ(shared(&h), 0);
    h.count = 0; /* of no more interest: to be destroyed */
    for (int i = 0; i < 6; i++)
        pb_destroy(h.ctx, h.held[i], h.p.workload.is, &h.p.args);
    close_holder(&h);
}

/* A full depot: what does not fit is destroyed, and not one more. */
static void test_leaving_at_the_bound(int first, int second)
{
    enum { BOUND = 2 * ROUNDS };
    holder h;
    open_holder(&h, "magazine rounds=4 depot=2");
    leave(&h, 1, first);
    leave(&h, 2, second);
    const int sum = first + second;
    CHECK_EQ(shared(&h), sum < BOUND ? sum : BOUND);
    CHECK_EQ(parts_alive(&h.p), shared(&h));
    for (int i = 0; i < sum && i < BOUND; i++)
        CHECK(acquire(&h) != PB_CONSTRUCTED); /* all of it can be had */
    CHECK_EQ(acquire(&h), PB_CONSTRUCTED);
    while (h.count > 0)
        (void)release(&h);
    close_holder(&h);
}

/* Threads come and go, the objects stay. */
static void test_short_lives(void)
{
    holder h;
    open_holder(&h, "magazine rounds=4 depot=8");
    pb_ctx *ctx = h.ctx;
    parts_detach(&h.p, 0);
    for (int life = 0; life < 3000; life++) {
        CHECK_EQ(h.p.class->attach(h.p.pool, ctx), PB_OK);
        for (int i = 0; i < 1 + life % 20; i++)
            (void)acquire(&h);
        while (h.count > 0)
            (void)release(&h);
        h.p.class->detach(h.p.pool, ctx);
    }
    CHECK_EQ(ctx->constructed, 20);
    CHECK_EQ(shared(&h), 20);
    close_holder(&h);
}

/* ---- others come in between ------------------------------------------------------------------ */

static holder *busy; /* whose threads 1 and 2 act at a mark */

/* Two fill its own magazines of one, the third goes to the depot. */
static void others_fill(void *unused)
{
    (void)unused;
    pb_ctx *ctx = busy->p.ctx[1];
    for (int i = 0; i < 3; i++)
        (void)parts_return(&busy->p, ctx, pb_construct(ctx, busy->p.workload.is, &busy->p.args));
}

static void others_empty(void *unused)
{
    (void)unused;
    const pb_got got = parts_acquire(&busy->p, busy->p.ctx[2]);
    CHECK_EQ(got.how, PB_SHARED_HIT);
    busy->held[busy->count++] = got.object;
}

/* Looked at without the lock, the depot has room, or something; with the lock it has not. */
static void test_second_look(void)
{
    holder h;
    busy = &h;
    open_holder(&h, "magazine rounds=1 depot=1");
    for (int i = 1; i <= 4; i++)
        (void)parts_attach(&h.p, i);
    for (int i = 3; i <= 4; i++) { /* two empty magazines for the depot: nothing has to be made */
        (void)parts_return(&h.p, h.p.ctx[i], pb_construct(h.ctx, h.p.workload.is, &h.p.args));
        parts_detach(&h.p, i);
        others_empty(NULL);
    }
    check_acquires(&h, "CCC");
    check_releases(&h, "KK");
    marks_at(0, others_fill, NULL);
    CHECK_EQ(release(&h), PB_DESTROYED);
    CHECK_EQ(shared(&h), 1);
    check_acquires(&h, "LL");
    marks_at(0, others_empty, NULL);
    CHECK_EQ(acquire(&h), PB_CONSTRUCTED);
    CHECK_EQ(shared(&h), 0);
    while (h.count > 0)
        (void)release(&h);
    close_holder(&h);
}

/* ---- two threads ----------------------------------------------------------------------------- */

enum { RING = 64, PASSED = 40000 };

typedef struct relay {
    parts p;
    pb_atomic_ptr ring[RING]; /* NULL: free */
} relay;

static void *receive(void *arg)
{
    relay *r = arg;
    check_in("magazine: relay");
    pb_ctx *ctx = parts_attach(&r->p, 1);
    for (int i = 0; i < PASSED; i++) {
        void *object;
        /* acquire: pairs with the release in test_relay */
        while ((object = pb_load_acquire_ptr(&r->ring[i % RING])) == NULL)
            (void)sched_yield();
        pb_store_release_ptr(&r->ring[i % RING], NULL);
        CHECK(parts_return(&r->p, ctx, object) != PB_DESTROYED);
    }
    parts_detach(&r->p, 1);
    return NULL;
}

/* With the default parameters, over 90 % of a hand-off's acquires find an object. */
static void test_relay(void)
{
    static relay r;
    check_in("magazine: relay");
    const pb_cell cell = cell_of("magazine", "bytes size=64", "churn", 2);
    parts_open(&r.p, &cell, NULL);
    pb_ctx *ctx = parts_attach(&r.p, 0);
    pthread_t thread;
    if (pthread_create(&thread, NULL, receive, &r) != 0)
        cell_mistake("no thread");
    for (int i = 0; i < PASSED; i++) {
        while (pb_load_acquire_ptr(&r.ring[i % RING]) != NULL) /* pairs with receive's release */
            (void)sched_yield();
        pb_store_release_ptr(&r.ring[i % RING], parts_acquire(&r.p, ctx).object);
    }
    (void)pthread_join(thread, NULL);
    CHECK(ctx->constructed < PASSED / 10);
    parts_detach(&r.p, 0);
    CHECK_EQ(parts_close(&r.p), 0);
}

/* When nobody is attached, all that idles lies in the shared part. */
static void test_crowd(const char *pool, uint64_t bound)
{
    static crowd c;
    crowd_run(&c, pool, crowd_rounds(4000), 30);
    CHECK(c.most_idle <= bound);
}

int main(void)
{
    test_outcomes();
    test_order("magazine rounds=4 depot=4", 8);
    test_order("magazine rounds=4 depot=4", 24);
    test_order("magazine rounds=1 depot=9", 11);
    test_order("magazine rounds=16", 60);
    for (int depth = 0; depth < 10; depth++)
        test_trades_are_rare(depth);
    test_bounds(1);
    test_bounds(2);
    test_hand_off();
    test_leaving();
    for (int first = 0; first <= 10; first++)
        for (int second = 0; second <= 10; second++)
            test_leaving_at_the_bound(first, second);
    test_short_lives();
    test_second_look();
    test_relay();
    test_crowd("magazine rounds=1 depot=0", 0);
    test_crowd("magazine rounds=1 depot=1", 1);
    test_crowd("magazine rounds=2 depot=1 lock=parking", 2);
    test_crowd("magazine rounds=2 depot=4", 8);
    test_crowd("magazine rounds=3 depot=64 reset_on=acquire", 192);
    return check_report();
}
