/* SPDX-License-Identifier: MIT - see checks.h */
#include "checks.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "memory.h"
#include "workload.h"

#if defined(__SANITIZE_ADDRESS__)
#define CHECKS_POISON 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CHECKS_POISON 1
#endif
#endif
#ifdef CHECKS_POISON
#include <sanitizer/asan_interface.h>
#endif

/* States of an object; OUT + i: with thread i. */
enum { UNKNOWN, MADE, IDLE, ENDED, OUT = 16 };
enum { LEAST_ENTRIES = 1 << 12, SPARSE = 4 };

typedef struct entry {
    pb_atomic_ptr object; /* NULL: never used; the table's probing stops here */
    pb_atomic_u32 state;
} entry;

struct pb_checks {
    entry *entries;
    uint64_t mask;                  /* entries - 1 */
    PB_ALIGNED pb_atomic_u32 wrong; /* 0: nothing, 1: somebody writes the text, 2: it is there */
    char text[200];                 /* of the first complaint */
};

pb_checks *pb_checks_open(uint64_t objects)
{
    uint64_t entries = LEAST_ENTRIES;
    while (entries < SPARSE * objects)
        entries *= 2;
    pb_checks *c = pb_new_padded(sizeof *c);
    if (!c)
        return NULL;
    c->mask = entries - 1;
    c->entries = calloc(entries, sizeof *c->entries);
    if (c->entries)
        return c;
    free(c);
    return NULL;
}

void pb_checks_close(pb_checks *c)
{
    if (c)
        free(c->entries);
    free(c);
}

const char *pb_checks_complaint(const pb_checks *c)
{
    /* acquire: pairs with the release in complain */
    return c && pb_load_acquire_u32(&c->wrong) == 2 ? c->text : NULL;
}

static __attribute__((format(printf, 2, 3))) void complain(pb_checks *c, const char *format, ...)
{
    if (!pb_cas_acquire_u32(&c->wrong, 0, 1)) /* acquire orders nothing here: only one may write */
        return;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(c->text, sizeof c->text, format, args);
    va_end(args);
    pb_store_release_u32(&c->wrong, 2); /* release: pairs with the acquire in the function above */
}

static uint64_t hash(const void *object)
{
    return ((uint64_t)(uintptr_t)object >> 4) * 0x9e3779b97f4a7c15u >> 32;
}

/* The entry of an object, or NULL: it was never made here. */
static entry *find(pb_checks *c, const void *object)
{
    for (uint64_t i = 0; i <= c->mask; i++) {
        entry *e = &c->entries[(hash(object) + i) & c->mask];
        const void *there = pb_load_relaxed_ptr(&e->object); /* relaxed: see checks.h */
        if (there == object)
            return e;
        if (there == NULL)
            return NULL;
    }
    return NULL;
}

/* Takes over one entry for a new object, if it is free or its object has ended. */
static bool claim(entry *e, void *object)
{
    void *there = pb_load_relaxed_ptr(&e->object);
    if (there != NULL && pb_load_relaxed_u32(&e->state) != ENDED)
        return false;
    /* acquire orders nothing that matters: the address is known to its maker alone */
    return pb_cas_acquire_ptr(&e->object, there, object);
}

static entry *find_or_claim(pb_checks *c, const void *object)
{
    union {
        const void *from;
        void *to;
    } address = {.from = object}; /* an address as a key: nothing is written through it */
    entry *e = find(c, object);
    for (uint64_t i = 0; !e && i <= c->mask; i++) {
        entry *next = &c->entries[(hash(object) + i) & c->mask];
        e = claim(next, address.to) ? next : NULL;
    }
    return e;
}

/* The state before; relaxed: see checks.h. */
static uint32_t set_state(entry *e, uint32_t state)
{
    return atomic_exchange_explicit(&e->state.v, state, memory_order_relaxed);
}

/* Where an object is, for complaints. */
static const char *place(uint32_t state, char text[40])
{
    static const char *const places[] = {"unknown", "just made", "in the pool", "destroyed"};
    if (state >= OUT)
        (void)snprintf(text, 40, "held by thread %d", (int)(state - OUT));
    else
        (void)snprintf(text, 40, "%s", places[state <= ENDED ? state : UNKNOWN]);
    return text;
}

void pb_checks_made(pb_ctx *ctx, const void *object)
{
    char text[40];
    entry *e = find_or_claim(ctx->checks, object);
    if (!e) {
        complain(ctx->checks, "too many objects to keep track of, at thread %d", ctx->index);
        return;
    }
    const uint32_t was = set_state(e, MADE);
    if (was != UNKNOWN && was != ENDED)
        complain(ctx->checks, "made twice: object %p by thread %d while %s", object, ctx->index,
                 place(was, text));
}

void pb_checks_ended(pb_ctx *ctx, const void *object)
{
    char text[40];
    entry *e = find(ctx->checks, object);
    const uint32_t was = e ? set_state(e, ENDED) : UNKNOWN;
    if (was != IDLE && was != MADE)
        complain(ctx->checks, "destroyed at the wrong time: object %p by thread %d while %s",
                 object, ctx->index, place(was, text));
}

void pb_checks_taken(pb_ctx *ctx, void *object)
{
    char text[40];
    const pb_workload *w = ctx->workload;
    entry *e = find(ctx->checks, object);
    const uint32_t was = e ? set_state(e, OUT + (uint32_t)ctx->index) : UNKNOWN;
    if (was != IDLE && was != MADE)
        complain(ctx->checks, "handed out twice: object %p to thread %d while %s", object,
                 ctx->index, place(was, text));
    const bool was_reset = was == IDLE && w->args->extras & PB_RESETS;
    if (was_reset && !w->is->is_clean(object, *w->args))
        complain(ctx->checks, "handed out dirty: object %p to thread %d", object, ctx->index);
}

bool pb_checks_given(pb_ctx *ctx, const void *object)
{
    char text[40];
    entry *e = find(ctx->checks, object);
    if (!e) {
        complain(ctx->checks, "never acquired: object %p, released by thread %d", object,
                 ctx->index);
        return false;
    }
    const uint32_t was = set_state(e, IDLE);
    if (was >= OUT)
        return true;
    set_state(e, was);
    complain(ctx->checks, "released twice: object %p by thread %d while %s", object, ctx->index,
             place(was, text));
    return false;
}

void pb_checks_hide(const void *object, size_t size)
{
#ifdef CHECKS_POISON
    ASAN_POISON_MEMORY_REGION(object, size);
#else
    (void)object, (void)size; /* only AddressSanitizer can hide memory */
#endif
}

void pb_checks_show(const void *object, size_t size)
{
#ifdef CHECKS_POISON
    ASAN_UNPOISON_MEMORY_REGION(object, size);
#else
    (void)object, (void)size;
#endif
}
