/* SPDX-License-Identifier: MIT
 *
 * count_malloc.c - an allocator in front of the allocator: counts, and passes everything on.
 *
 * A shared object of its own, poolbench/_count.so, first in the preload order of a ledger worker:
 * in front of libc's malloc, or of jemalloc, mimalloc or tcmalloc where one of them is preloaded
 * after it. It is never present where anything is timed.
 *
 * The next allocator is found by dlsym, which may itself call calloc; the few bytes it wants then
 * come from a static buffer that is never freed. Counters are relaxed atomics: statistics, read by
 * the controller while all threads are parked.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "atomic.h"
#include "count.h"

#define EXPORT __attribute__((visibility("default")))

typedef struct counter {
    pb_atomic_u64 allocations, frees, bytes, live;
} counter;

static counter counters[PB_OWNERS];
static pb_atomic_u64 peak;
static _Thread_local int owner __attribute__((tls_model("initial-exec"))) = PB_OWNER_HARNESS;

static void *(*next_malloc)(size_t);
static void *(*next_calloc)(size_t, size_t);
static void *(*next_realloc)(void *, size_t);
static void *(*next_aligned_alloc)(size_t, size_t);
static int (*next_posix_memalign)(void **, size_t, size_t);
static void (*next_free)(void *);
static size_t (*next_usable)(void *);

static _Alignas(16) unsigned char early[8192]; /* what dlsym asks for before we are ready */
static size_t early_used;

static bool is_early(const void *p)
{
    return (const unsigned char *)p >= early && (const unsigned char *)p < early + sizeof early;
}

static void *early_allocate(size_t size)
{
    const size_t rounded = (size + 15) / 16 * 16;
    if (early_used + rounded > sizeof early)
        return NULL;
    void *p = early + early_used; /* static memory: already zero */
    early_used += rounded;
    return p;
}

/* Assigned through a generic pointer: ISO C has no cast from void * to a function. */
static void find(const char *name, void *function)
{
    void *found = dlsym(RTLD_NEXT, name);
    memcpy(function, &found, sizeof found);
}

/* True once the next allocator is known; false while dlsym itself is asking. */
static bool ready(void)
{
    static bool finding;
    if (PB_LIKELY(next_malloc != NULL))
        return true;
    if (finding)
        return false;
    finding = true;
    find("calloc", &next_calloc);
    find("realloc", &next_realloc);
    find("aligned_alloc", &next_aligned_alloc);
    find("posix_memalign", &next_posix_memalign);
    find("free", &next_free);
    find("malloc_usable_size", &next_usable);
    find("malloc", &next_malloc);
    finding = false;
    return true;
}

__attribute__((constructor)) static void start(void)
{
    (void)ready(); /* before main, on the only thread */
}

static void raise_peak(void)
{
    const uint64_t now = pb_load_relaxed_u64(&counters[PB_OWNER_POOL].live) +
                         pb_load_relaxed_u64(&counters[PB_OWNER_WORKLOAD].live);
    uint64_t seen = pb_load_relaxed_u64(&peak);
    while (now > seen && !pb_cas_relaxed_u64(&peak, &seen, now)) {
    }
}

static void *allocated(void *p, size_t requested)
{
    if (!p)
        return NULL;
    counter *c = &counters[owner];
    (void)pb_add_relaxed_u64(&c->allocations, 1);
    (void)pb_add_relaxed_u64(&c->bytes, requested);
    (void)pb_add_relaxed_u64(&c->live, next_usable(p));
    if (owner != PB_OWNER_HARNESS)
        raise_peak();
    return p;
}

static void freed(size_t usable)
{
    counter *c = &counters[owner];
    (void)pb_add_relaxed_u64(&c->frees, 1);
    (void)pb_add_relaxed_u64(&c->live, -(uint64_t)usable);
}

EXPORT void *malloc(size_t size)
{
    return ready() ? allocated(next_malloc(size), size) : early_allocate(size);
}

EXPORT void *calloc(size_t n, size_t size)
{
    if (!ready())
        return early_allocate(n * size); /* dlsym asks for a few dozen bytes */
    return allocated(next_calloc(n, size), n * size);
}

EXPORT void free(void *p)
{
    if (!p || is_early(p))
        return;
    if (!ready())
        return; /* nothing of another allocator can exist yet */
    freed(next_usable(p));
    next_free(p);
}

EXPORT void *realloc(void *p, size_t size)
{
    if (!ready() || is_early(p)) {
        void *moved = malloc(size);
        const size_t there = is_early(p) ? (size_t)(early + sizeof early - (unsigned char *)p) : 0;
        if (moved && there) /* its length is not known: as much as can be there */
            memcpy(moved, p, size < there ? size : there);
        return moved;
    }
    const size_t before = p ? next_usable(p) : 0;
    void *moved = next_realloc(p, size);
    if (p && (moved || size == 0))
        freed(before);
    return allocated(moved, size);
}

EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
    return ready() ? allocated(next_aligned_alloc(alignment, size), size) : NULL;
}

EXPORT int posix_memalign(void **out, size_t alignment, size_t size)
{
    if (!ready())
        return ENOMEM;
    const int failed = next_posix_memalign(out, alignment, size);
    if (!failed)
        (void)allocated(*out, size); /* the pointer is already in *out */
    return failed;
}

EXPORT void *memalign(size_t alignment, size_t size);
EXPORT void *memalign(size_t alignment, size_t size)
{
    void *p = NULL;
    return posix_memalign(&p, alignment, size) ? NULL : p;
}

/* What the C core looks up by name (ledger.c); absent in processes that are timed. */
EXPORT int pb_count_set_owner(int to);
EXPORT int pb_count_set_owner(int to)
{
    const int before = owner;
    owner = to;
    return before;
}

EXPORT void pb_count_read(pb_counts *out);
EXPORT void pb_count_read(pb_counts *out)
{
    for (int i = 0; i < PB_OWNERS; i++)
        out->by[i] = (pb_count){.allocations = pb_load_relaxed_u64(&counters[i].allocations),
                                .frees = pb_load_relaxed_u64(&counters[i].frees),
                                .bytes = pb_load_relaxed_u64(&counters[i].bytes),
                                .live = pb_load_relaxed_u64(&counters[i].live)};
    out->peak = pb_load_relaxed_u64(&peak);
}
