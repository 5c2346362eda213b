/* SPDX-License-Identifier: MIT
 *
 * count_probe.c - a program that runs behind the counting allocator and checks what it counts.
 *
 * tests/test_count.py builds it and starts it with count_malloc.c's shared object preloaded, alone
 * or in front of another allocator; without it there is nothing to check and the exit status is 77.
 * Not one of the tests that `make check` runs.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "count.h"

enum { THREADS = 4, ROUNDS = 20000, NOT_PRELOADED = 77 };

static int (*set_owner)(int);
static void (*read_counts)(pb_counts *);

static bool find_counter(void)
{
    void *found[] = {dlsym(RTLD_DEFAULT, "pb_count_set_owner"),
                     dlsym(RTLD_DEFAULT, "pb_count_read")};
    memcpy(&set_owner, &found[0], sizeof set_owner);
    memcpy(&read_counts, &found[1], sizeof read_counts);
    return set_owner && read_counts;
}

static pb_counts now(void)
{
    pb_counts c;
    read_counts(&c);
    return c;
}

/* The counts of one owner since an earlier reading; live is the reading's own difference. */
static pb_count since(const pb_counts *before, pb_owner owner)
{
    const pb_counts c = now();
    const pb_count *a = &before->by[owner], *b = &c.by[owner];
    return (pb_count){.allocations = b->allocations - a->allocations,
                      .frees = b->frees - a->frees,
                      .bytes = b->bytes - a->bytes,
                      .live = b->live - a->live};
}

static void check_count(const pb_counts *before, pb_owner owner, uint64_t allocations,
                        uint64_t frees, uint64_t bytes)
{
    const pb_count c = since(before, owner);
    CHECK_EQ(c.allocations, allocations);
    CHECK_EQ(c.frees, frees);
    CHECK_EQ(c.bytes, bytes);
}

/* Nothing else was booked meanwhile. */
static void check_untouched(const pb_counts *before, pb_owner owner)
{
    check_count(before, owner, 0, 0, 0);
    CHECK_EQ(since(before, owner).live, 0);
}

/* ---- each way to allocate -------------------------------------------------------------------- */

static void *by_malloc(size_t size)
{
    return malloc(size);
}

static void *by_calloc(size_t size)
{
    unsigned char *p = calloc(size / 4, 4);
    for (size_t i = 0; p && i < size; i++)
        CHECK(p[i] == 0);
    return p;
}

static void *by_realloc(size_t size)
{
    return realloc(NULL, size);
}

static void *by_aligned_alloc(size_t size)
{
    void *p = aligned_alloc(128, size);
    CHECK_EQ((uintptr_t)p % 128, 0);
    return p;
}

static void *by_posix_memalign(size_t size)
{
    void *p = NULL;
    CHECK_EQ(posix_memalign(&p, 256, size), 0);
    CHECK_EQ((uintptr_t)p % 256, 0);
    return p;
}

static void *by_memalign(size_t size)
{
    void *p = memalign(64, size);
    CHECK_EQ((uintptr_t)p % 64, 0);
    return p;
}

static void test_one_way(const char *name, void *(*allocate)(size_t), pb_owner owner)
{
    enum { SIZE = 1280, BLOCKS = 10 };
    void *blocks[BLOCKS];
    check_in("%s, owner %d", name, owner);
    const pb_counts before = now();
    CHECK_EQ(set_owner(owner), PB_OWNER_HARNESS);
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = pb_launder(allocate(SIZE));
        memset(blocks[i], 1, SIZE);
    }
    check_count(&before, owner, BLOCKS, 0, (uint64_t)SIZE * BLOCKS);
    CHECK(since(&before, owner).live >= (uint64_t)SIZE * BLOCKS);
    CHECK(since(&before, owner).live < (uint64_t)SIZE * BLOCKS * 4); /* usable, not much more */
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    check_count(&before, owner, BLOCKS, BLOCKS, (uint64_t)SIZE * BLOCKS);
    CHECK_EQ(since(&before, owner).live, 0);
    CHECK_EQ(set_owner(PB_OWNER_HARNESS), owner);
    for (int other = 0; other < PB_OWNERS; other++)
        if (other != (int)owner)
            check_untouched(&before, (pb_owner)other);
}

static void test_every_way(void)
{
    for (int owner = 0; owner < PB_OWNERS; owner++) {
        test_one_way("malloc", by_malloc, (pb_owner)owner);
        test_one_way("calloc", by_calloc, (pb_owner)owner);
        test_one_way("realloc", by_realloc, (pb_owner)owner);
        test_one_way("aligned_alloc", by_aligned_alloc, (pb_owner)owner);
        test_one_way("posix_memalign", by_posix_memalign, (pb_owner)owner);
        test_one_way("memalign", by_memalign, (pb_owner)owner);
    }
}

/* Each realloc is an allocation and a free; what was in the block moves with it. */
static void test_realloc(void)
{
    check_in("realloc");
    (void)set_owner(PB_OWNER_POOL);
    const pb_counts before = now();
    unsigned char *p = pb_launder(malloc(100));
    memset(p, 7, 100);
    p = pb_launder(realloc(p, 100000));
    for (int i = 0; i < 100; i++)
        CHECK(p[i] == 7);
    CHECK(since(&before, PB_OWNER_POOL).live >= 100000);
    p = pb_launder(realloc(p, 50));
    CHECK(p[49] == 7);
    CHECK(since(&before, PB_OWNER_POOL).live < 100000);
    check_count(&before, PB_OWNER_POOL, 3, 2, 100 + 100000 + 50);
    free(p);
    CHECK_EQ(since(&before, PB_OWNER_POOL).live, 0);
    (void)set_owner(PB_OWNER_HARNESS);
}

static void test_what_is_no_allocation(void)
{
    check_in("no allocation");
    const pb_counts before = now();
    free(pb_launder(NULL));
    void *p = &p;
    CHECK(pb_launder(malloc((size_t)(intptr_t)pb_launder((void *)(intptr_t)(SIZE_MAX / 2)))) ==
          NULL);
    CHECK(posix_memalign(&p, 3, 100) != 0); /* no power of two */
    check_untouched(&before, PB_OWNER_HARNESS);
    void *kept = pb_launder(malloc(64)); /* a realloc that fails leaves the block alone */
    CHECK(realloc(kept, (size_t)(intptr_t)pb_launder((void *)(intptr_t)(SIZE_MAX / 2))) == NULL);
    check_count(&before, PB_OWNER_HARNESS, 1, 0, 64);
    free(kept);
    CHECK_EQ(since(&before, PB_OWNER_HARNESS).live, 0);
}

/* The most that pool and workload held at once; the harness's own does not count. */
static void test_peak(void)
{
    enum { LARGE = 30000000 };
    check_in("peak");
    const uint64_t before = now().peak;
    void *own = pb_launder(malloc(LARGE));
    CHECK_EQ(now().peak, before);
    (void)set_owner(PB_OWNER_POOL);
    void *pool = pb_launder(malloc(LARGE));
    (void)set_owner(PB_OWNER_WORKLOAD);
    void *object = pb_launder(malloc(LARGE));
    const uint64_t peak = now().peak;
    CHECK(peak >= 2u * LARGE && peak < 3u * LARGE);
    free(object);
    (void)set_owner(PB_OWNER_POOL);
    free(pool);
    (void)set_owner(PB_OWNER_HARNESS);
    free(own);
    CHECK_EQ(now().peak, peak); /* it never falls */
    CHECK_EQ(now().by[PB_OWNER_POOL].live, 0);
    CHECK_EQ(now().by[PB_OWNER_WORKLOAD].live, 0);
}

/* ---- threads --------------------------------------------------------------------------------- */

static void *work(void *arg)
{
    const pb_owner owner = *(const pb_owner *)arg;
    CHECK_EQ(set_owner((int)owner), PB_OWNER_HARNESS); /* each thread begins as the harness */
    for (int i = 0; i < ROUNDS; i++)
        free(pb_launder(malloc(64)));
    return NULL;
}

/* Owners are per thread, counts are of all, and none is lost. */
static void test_threads(void)
{
    check_in("threads");
    pthread_t threads[THREADS];
    pb_owner owners[THREADS];
    const pb_counts before = now();
    for (int i = 0; i < THREADS; i++) {
        owners[i] = i % 2 ? PB_OWNER_POOL : PB_OWNER_WORKLOAD;
        CHECK_EQ(pthread_create(&threads[i], NULL, work, &owners[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    for (int owner = PB_OWNER_POOL; owner <= PB_OWNER_WORKLOAD; owner++) {
        const uint64_t half = (uint64_t)ROUNDS * THREADS / 2;
        check_count(&before, (pb_owner)owner, half, half, 64 * half);
        CHECK_EQ(since(&before, (pb_owner)owner).live, 0);
    }
}

int main(void)
{
    if (!find_counter())
        return NOT_PRELOADED;
    check_in("before"); /* the first check of a thread may allocate what it prints with */
    CHECK(now().by[PB_OWNER_POOL].allocations == 0);
    test_every_way();
    test_realloc();
    test_what_is_no_allocation();
    test_peak();
    test_threads();
    return check_report();
}
