/* SPDX-License-Identifier: MIT
 *
 * test_stress.c - threads hand objects on; owners stamp and verify them.
 *
 *   thread:  acquire -> stamp -> use -> [mailbox: swap for somebody else's] -> release
 *
 * Every pool, every combination of its choices (lock, order, where it constructs, when it resets)
 * and of its on-off counts, room for 2, more threads than most machines here have CPUs. Each step
 * may yield the CPU, because threads that run undisturbed through a critical section prove nothing.
 * What must hold: nobody gets an object that somebody has, plain words of an object travel with it,
 * a pool of fixed size fails exactly when all of it is out, and every object that was constructed
 * is destroyed in the end. PB_STRESS_ROUNDS sets the acquires per thread.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>

#include "cell.h"
#include "check.h"
#include "probe.h"

enum { THREADS = 5, SLOTS = 3, HELD_MAX = 3, YIELD_ONE_IN = 16, DEFAULT_ROUNDS = 8000 };
enum { ROOM = 2, TRIM_OPS = 7 };

typedef struct stress {
    parts p;
    probe_orders orders;
    int rounds;
    bool remote;                     /* objects may be released by another thread */
    int most;                        /* objects a thread may hold */
    int room;                        /* with more, acquire must fail */
    _Atomic(probe *) mailbox[SLOTS]; /* objects on their way, owned by nobody */
} stress;

typedef struct worker {
    stress *s;
    int index;
    pb_ctx *ctx;
    pb_rng rng;
    probe *held[HELD_MAX];
    int count;
} worker;

static void maybe_yield(worker *w)
{
    if (pb_rng_below(&w->rng, YIELD_ONE_IN) == 0)
        (void)sched_yield();
}

static void acquire(worker *w)
{
    const pb_got got = parts_acquire(&w->s->p, w->ctx);
    if (!CHECK_EQ(got.object == NULL, w->count == w->s->room) || !got.object)
        return;
    maybe_yield(w);
    probe_take(w->ctx, got.object);
    ((probe *)got.object)->handle = got.handle;
    maybe_yield(w);
    w->ctx->sink += parts_use(&w->s->p, w->ctx, got.object);
    w->held[w->count++] = got.object;
}

static void release(worker *w)
{
    probe *o = w->held[--w->count];
    probe_leave(w->ctx, o);
    maybe_yield(w);
    (void)parts_release(&w->s->p, w->ctx, (pb_held){o, o->handle});
}

/* Leaves the newest object in a slot, and takes out what was there. */
static void swap(worker *w)
{
    _Atomic(probe *) *slot = &w->s->mailbox[pb_rng_below(&w->rng, SLOTS)];
    probe *mine = w->held[--w->count];
    probe_leave(w->ctx, mine);
    /* acq_rel: publishes our object to whoever takes it, and theirs to us */
    probe *theirs = atomic_exchange_explicit(slot, mine, memory_order_acq_rel);
    if (!theirs)
        return;
    maybe_yield(w);
    probe_take(w->ctx, theirs);
    w->ctx->sink += parts_use(&w->s->p, w->ctx, theirs);
    w->held[w->count++] = theirs;
}

static void *work(void *arg)
{
    worker *w = arg;
    stress *s = w->s;
    w->ctx = parts_attach(&s->p, w->index);
    if (!CHECK(w->ctx != NULL))
        return NULL;
    for (int done = 0; done < s->rounds;) {
        const bool more = w->count == 0 || pb_rng_below(&w->rng, 2) == 0;
        if (more && w->count < s->most) {
            acquire(w);
            done++;
        } else if (s->remote && pb_rng_below(&w->rng, 2) == 0) {
            swap(w);
        } else {
            release(w);
        }
        maybe_yield(w);
    }
    while (w->count > 0)
        release(w);
    parts_detach(&s->p, w->index);
    return NULL;
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

static void run_cell(const pb_cell *cell, int rounds)
{
    static stress s; /* mailbox empty, as each cell leaves it */
    const uint32_t traits = pb_pools[cell->pool].traits;
    probe_parts(&s.p, cell, &s.orders);
    s.rounds = rounds;
    s.remote = traits & PB_REMOTE_RELEASE;
    s.most = traits & PB_HOLDS_MANY ? HELD_MAX : 1;
    s.room = traits & PB_IN_PLACE ? ROOM : HELD_MAX;
    worker workers[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.s = &s, .index = i, .rng = {(uint64_t)i + cell->seed * 1000}};
        if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0)
            cell_mistake("no thread");
    }
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    empty_mailbox(&s);
    CHECK_EQ(parts_alive(&s.p), parts_idle(&s.p));
    CHECK_EQ(parts_close(&s.p), 0);
}

static int choices_of(const pb_param *d)
{
    int count = 0;
    for (const char *at = d->choices; *at; count++) {
        at += strcspn(at, "|");
        at += *at == '|';
    }
    return count;
}

static bool is_called(const pb_param *d, const char *name)
{
    return strcmp(d->name, name) == 0;
}

/* The values of one parameter that are tried: `count` from `first` on, `step` apart. */
typedef struct range {
    int64_t first, step;
    int count;
} range;

static range values_of(const pb_param *d)
{
    if (d->kind == PB_CHOICE_KIND)
        return (range){0, 1, choices_of(d)};
    if (is_called(d, "capacity") || is_called(d, "cap"))
        return (range){ROOM, 1, 1};
    if (is_called(d, "trim_ops"))
        return (range){0, TRIM_OPS, 2};
    const bool switches = d->low == 0 && d->high == 1;
    return (range){switches ? 0 : d->initial, 1, switches ? 2 : 1};
}

/* Runs every combination of the values from parameter `from` on. */
static int each_choice(pb_cell *cell, int from, int rounds)
{
    pb_params *params = &cell->pool_params;
    if (from == params->count) {
        run_cell(cell, rounds);
        cell->seed++;
        return 1;
    }
    const range values = values_of(&params->described[from]);
    int cells = 0;
    for (int i = 0; i < values.count; i++) {
        params->value[from] = values.first + i * values.step;
        cells += each_choice(cell, from + 1, rounds);
    }
    return cells;
}

int main(void)
{
    const char *text = getenv("PB_STRESS_ROUNDS");
    const int rounds = text ? atoi(text) : DEFAULT_ROUNDS;
    for (int i = 0; i < PB_POOL_COUNT; i++) {
        check_in("%s", pb_pools[i].is.name);
        pb_cell cell = cell_of(pb_pools[i].is.name, "bytes", "churn", THREADS);
        const int cells = each_choice(&cell, 0, rounds);
        (void)printf("  %s: %d combinations x %d rounds\n", pb_pools[i].is.name, cells, rounds);
    }
    return check_report();
}
