/* SPDX-License-Identifier: MIT
 *
 * tbb.cpp - oneTBB's two queues of pointers as pools, any number of threads (libtbb-dev).
 *
 *   tbb-queue     concurrent_queue: try_pop and push; unbounded
 *   tbb-bounded   concurrent_bounded_queue of CAPACITY: try_pop and try_push, which never wait
 *
 * Fair: first in, first out, as rings are, and used without waiting, as a pool would.
 *
 * Not quite: both are made of pages that are allocated and freed while elements pass through, eight
 * small elements to a page of each of eight inner queues; a ring of fixed size does without. The
 * allocator is oneTBB's own, which falls back to malloc when libtbbmalloc is not there.
 */
#include <oneapi/tbb/concurrent_queue.h>
#include <oneapi/tbb/version.h>

#include <new>

#include "churn.h"

namespace
{

using unbounded = oneapi::tbb::concurrent_queue<void *>;
using bounded = oneapi::tbb::concurrent_bounded_queue<void *>;

void set_capacity(unbounded &queue, size_t capacity)
{
    (void)queue, (void)capacity; /* has none */
}

void set_capacity(bounded &queue, size_t capacity)
{
    queue.set_capacity(static_cast<bounded::size_type>(capacity));
}

CHURN_INLINE bool try_push(unbounded &queue, void *object)
{
    queue.push(object);
    return true;
}

CHURN_INLINE bool try_push(bounded &queue, void *object)
{
    return queue.try_push(object);
}

template <class queue> void *open(size_t capacity, int threads)
{
    (void)threads; /* for any number */
    void *memory = churn_padded(sizeof(queue));
    if (!memory)
        return nullptr;
    auto *pool = new (memory) queue;
    set_capacity(*pool, capacity);
    return pool;
}

template <class queue> CHURN_INLINE void *acquire(void *self)
{
    void *object = nullptr;
    return static_cast<queue *>(self)->try_pop(object) ? object : nullptr;
}

template <class queue> CHURN_INLINE bool release(void *self, void *object)
{
    return try_push(*static_cast<queue *>(self), object);
}

template <class queue> void batch(void *self, churn_counts *mine)
{
    churn_batch(self, mine, acquire<queue>, release<queue>, CHURN_LOOK);
}

template <class queue> uint64_t drain(void *self)
{
    const uint64_t idle = churn_drain(self, acquire<queue>);
    static_cast<queue *>(self)->~queue();
    free(self);
    return idle;
}

} // namespace

int main(int argc, char **argv)
{
    static const churn_kind kinds[] = {
        {"tbb-queue", open<unbounded>, batch<unbounded>, drain<unbounded>},
        {"tbb-bounded", open<bounded>, batch<bounded>, drain<bounded>},
        {},
    };
    return churn_main(argc, argv, kinds, "oneTBB " TBB_VERSION_STRING ", " CHURN_COMPILER);
}
