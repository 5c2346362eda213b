/* SPDX-License-Identifier: MIT
 *
 * std_mutex.cpp - std::mutex around a std::vector as a pool (a C++17 compiler; libstdc++).
 *
 *   std-mutex   the newest idle object first, at most CAPACITY of them, all reserved at the start
 *
 * Fair: what most people write by hand. The same algorithm as poolbench's `locked(lock=pthread)`,
 * on the same pthread mutex: where the two differ by much, suspect the harnesses before the pools.
 * malloc and free happen outside the lock in both.
 */
#include <mutex>
#include <new>
#include <vector>

#include "churn.h"

namespace
{

struct locked_vector {
    std::mutex mutex;
    std::vector<void *> idle;
    size_t capacity;
};

void *open(size_t capacity, int threads)
{
    (void)threads; /* for any number */
    void *memory = churn_padded(sizeof(locked_vector));
    if (!memory)
        return nullptr;
    auto *pool = new (memory) locked_vector{};
    pool->capacity = capacity;
    pool->idle.reserve(capacity);
    return pool;
}

CHURN_INLINE void *acquire(void *self)
{
    auto *pool = static_cast<locked_vector *>(self);
    const std::lock_guard<std::mutex> guard(pool->mutex);
    if (pool->idle.empty())
        return nullptr;
    void *object = pool->idle.back();
    pool->idle.pop_back();
    return object;
}

CHURN_INLINE bool release(void *self, void *object)
{
    auto *pool = static_cast<locked_vector *>(self);
    const std::lock_guard<std::mutex> guard(pool->mutex);
    if (pool->idle.size() == pool->capacity)
        return false;
    pool->idle.push_back(object);
    return true;
}

void batch(void *self, churn_counts *mine)
{
    churn_batch(self, mine, acquire, release, CHURN_LOOK);
}

uint64_t drain(void *self)
{
    const uint64_t idle = churn_drain(self, acquire);
    static_cast<locked_vector *>(self)->~locked_vector();
    free(self);
    return idle;
}

} // namespace

int main(int argc, char **argv)
{
    static const churn_kind kinds[] = {{"std-mutex", open, batch, drain}, {}};
    return churn_main(argc, argv, kinds, "libstdc++, " CHURN_COMPILER);
}
