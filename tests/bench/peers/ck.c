/* SPDX-License-Identifier: MIT
 *
 * ck.c - Concurrency Kit's stack and ring as pools, any number of threads (libck-dev; headers
 * only).
 *
 *   ck-stack   ck_stack_push_mpmc and ck_stack_pop_mpmc: linked, the head with a generation beside
 *              it, swapped 16 bytes at a time. The link lies inside the object, 16 bytes in, so
 *              that using the object does not write over it.
 *   ck-ring    ck_ring_enqueue_mpmc and ck_ring_dequeue_mpmc on an array of pointers
 *
 * Fair: both are used as their manual pages say, inlined, and neither allocates. The back-off that
 * the library also offers is left to its users, and so left out.
 *
 * Not quite: the stack has no bound. A pop may read the link of an object that another thread has
 * popped meanwhile, so objects must stay readable: this program frees none before its threads have
 * ended, and there are never more of them than threads. The ring has a power of two of places and
 * leaves one empty, so it keeps somewhat more than CAPACITY. A thread that loses its CPU between
 * taking a place and publishing it makes all later releases spin until it is back: with more
 * threads than CPUs an operation takes milliseconds, and whole windows pass without any. So its
 * loop looks at the epoch after each one.
 */
#include <ck_md.h>
#include <ck_ring.h>
#include <ck_stack.h>

#include "churn.h"

enum { LINK = 16 }; /* bytes into the object: the first line of it, which is written anyway */

static void *stack_open(size_t capacity, int threads)
{
    (void)capacity, (void)threads; /* unbounded, for any number */
    ck_stack_t *stack = churn_padded(sizeof *stack);
    if (stack)
        ck_stack_init(stack);
    return stack;
}

CHURN_INLINE void *stack_acquire(void *pool)
{
    ck_stack_entry_t *entry = ck_stack_pop_mpmc(pool);
    return entry ? (char *)entry - LINK : NULL;
}

CHURN_INLINE bool stack_release(void *pool, void *object)
{
    ck_stack_push_mpmc(pool, (ck_stack_entry_t *)((char *)object + LINK));
    return true;
}

static void stack_batch(void *pool, churn_counts *mine)
{
    churn_batch(pool, mine, stack_acquire, stack_release, CHURN_LOOK);
}

static uint64_t stack_drain(void *pool)
{
    const uint64_t idle = churn_drain(pool, stack_acquire);
    free(pool);
    return idle;
}

typedef struct ring_pool {
    ck_ring_t ring; /* pads its own ends */
    CHURN_PADDED ck_ring_buffer_t places[];
} ring_pool;

static void *ring_open(size_t capacity, int threads)
{
    (void)threads; /* for any number */
    unsigned int size = 2;
    while (size < capacity + 1)
        size *= 2;
    ring_pool *p = churn_padded(sizeof *p + size * sizeof p->places[0]);
    if (p)
        ck_ring_init(&p->ring, size);
    return p;
}

CHURN_INLINE void *ring_acquire(void *pool)
{
    ring_pool *p = pool;
    void *object = NULL;
    return ck_ring_dequeue_mpmc(&p->ring, p->places, &object) ? object : NULL;
}

CHURN_INLINE bool ring_release(void *pool, void *object)
{
    ring_pool *p = pool;
    return ck_ring_enqueue_mpmc(&p->ring, p->places, object);
}

static void ring_batch(void *pool, churn_counts *mine)
{
    churn_batch(pool, mine, ring_acquire, ring_release, 1);
}

static uint64_t ring_drain(void *pool)
{
    const uint64_t idle = churn_drain(pool, ring_acquire);
    free(pool);
    return idle;
}

int main(int argc, char **argv)
{
    static const churn_kind kinds[] = {
        {"ck-stack", stack_open, stack_batch, stack_drain},
        {"ck-ring", ring_open, ring_batch, ring_drain},
        {NULL, NULL, NULL, NULL},
    };
    return churn_main(argc, argv, kinds, "Concurrency Kit " CK_VERSION ", " CHURN_COMPILER);
}
