/* SPDX-License-Identifier: MIT
 *
 * boost.cpp - Boost's lock-free stack and queue, and its object_pool (libboost-dev; headers only).
 *
 *   boost-stack         lockfree::stack, fixed_sized: CAPACITY nodes in an array, none allocated
 *   boost-queue         lockfree::queue, fixed_sized: the same, first in, first out
 *   boost-object-pool   object_pool, one per thread, since it is made for one thread: constructs in
 *                       memory of its own, and keeps at most CAPACITY places
 *
 * Fair: fixed_sized is the variant made for a bounded pool, and the one that can be lock-free on
 * every machine: its links are 16-bit indices with a 16-bit tag. The object pool stands against
 * poolbench's `slab`, which constructs in place as well; here too construction writes nothing.
 *
 * Not quite: stack and queue keep pointers in nodes of their own, where an intrusive stack has its
 * link in the object. The object pool keeps free places in order of their addresses, for which
 * destroy() walks the list: short here, since a thread holds one object at a time.
 */
#include <boost/lockfree/queue.hpp>
#include <boost/lockfree/stack.hpp>
#include <boost/pool/object_pool.hpp>
#include <boost/version.hpp>

#include <memory>
#include <new>
#include <vector>

#include "churn.h"

namespace
{

using fixed = boost::lockfree::fixed_sized<true>;
using stack = boost::lockfree::stack<void *, fixed>;
using queue = boost::lockfree::queue<void *, fixed>;

/* Stack and queue have the same interface. */
template <class container> void *shared_open(size_t capacity, int threads)
{
    (void)threads; /* for any number */
    void *memory = churn_padded(sizeof(container));
    return memory ? new (memory) container(capacity) : nullptr;
}

template <class container> CHURN_INLINE void *shared_acquire(void *self)
{
    void *object = nullptr;
    return static_cast<container *>(self)->pop(object) ? object : nullptr;
}

template <class container> CHURN_INLINE bool shared_release(void *self, void *object)
{
    return static_cast<container *>(self)->push(object);
}

template <class container> void shared_batch(void *self, churn_counts *mine)
{
    churn_batch(self, mine, shared_acquire<container>, shared_release<container>, CHURN_LOOK);
}

template <class container> uint64_t shared_drain(void *self)
{
    const uint64_t idle = churn_drain(self, shared_acquire<container>);
    static_cast<container *>(self)->~container();
    free(self);
    return idle;
}

struct object {
    unsigned char bytes[CHURN_SIZE];
    object()
    {
        /* writes nothing, as zero=none */
    }
};

struct CHURN_PADDED thread_objects {
    boost::object_pool<object> pool;
    explicit thread_objects(size_t capacity) : pool(capacity, capacity)
    {
    }
};

using all_objects = std::vector<std::unique_ptr<thread_objects>>; /* by thread */

void *objects_open(size_t capacity, int threads)
{
    auto *all = new all_objects;
    for (int i = 0; i < threads; i++)
        all->push_back(std::make_unique<thread_objects>(capacity));
    return all;
}

/* Each operation constructs and destroys, and so the counts are those of operations. */
void objects_batch(void *self, churn_counts *mine)
{
    auto &all = *static_cast<all_objects *>(self);
    auto &pool = all[static_cast<size_t>(mine->thread)]->pool;
    uint64_t sum = 0;
    for (int n = 0; churn_goes_on(mine, n); n += CHURN_LOOK) {
        for (int i = 0; i < CHURN_LOOK; i++) {
            object *made = pool.construct();
            if (!made)
                abort(); /* no memory: nothing to measure any more */
            sum += churn_use(made);
            pool.destroy(made);
        }
        mine->operations += CHURN_LOOK;
    }
    mine->sink += sum;
    mine->constructed = mine->destroyed = mine->operations;
}

uint64_t objects_drain(void *self)
{
    delete static_cast<all_objects *>(self);
    return 0; /* only places were kept, no objects */
}

} // namespace

int main(int argc, char **argv)
{
    static const churn_kind kinds[] = {
        {"boost-stack", shared_open<stack>, shared_batch<stack>, shared_drain<stack>},
        {"boost-queue", shared_open<queue>, shared_batch<queue>, shared_drain<queue>},
        {"boost-object-pool", objects_open, objects_batch, objects_drain},
        {},
    };
    return churn_main(argc, argv, kinds, "Boost " BOOST_LIB_VERSION ", " CHURN_COMPILER);
}
