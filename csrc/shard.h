/* SPDX-License-Identifier: MIT
 *
 * shard.h (L1) - a small stack of objects behind a try-lock, and rows of them; any number of
 * threads.
 *
 *   shard:  taken | count, capacity | idle -> [ o o o . ]     newest out first
 *
 * Nobody waits for a shard: whoever finds it taken is told so and does something else. The stack is
 * a plain array, touched inside the lock only; `count` is atomic so that who looks for objects can
 * see from outside which shards are not worth a try.
 *
 *           get   put   look
 *   get      T     T     -       T : one of the two is told "taken"
 *   put            T     -       - : may run at the same time; looking is a hint
 *
 * ABA: none, every change is made inside the lock. Progress: get and put end after a bounded number
 * of steps, whatever the others do.
 */
#ifndef PB_SHARD_H
#define PB_SHARD_H

#include <stdlib.h>

#include "atomic.h"
#include "base.h"
#include "cpu.h"
#include "memory.h"
#include "yield.h"

typedef struct pb_shard {
    pb_atomic_u32 taken; /* 1: somebody is inside */
    pb_atomic_u32 count; /* objects; written inside, read anywhere */
    uint32_t capacity;   /* constant */
    void **idle;         /* constant; [capacity], newest last, touched inside only */
} pb_shard;

typedef enum pb_shard_answer {
    PB_SHARD_DONE,
    PB_SHARD_NO_USE, /* empty, or full */
    PB_SHARD_TAKEN,  /* somebody is inside: nothing was looked at */
} pb_shard_answer;

typedef struct pb_shard_got {
    void *object; /* NULL unless done */
    pb_shard_answer answer;
} pb_shard_got;

PB_INLINE bool pb_shard_enter(pb_shard *s)
{
    /* acquire: pairs with pb_shard_leave of the thread that was inside before */
    const bool inside = pb_cas_acquire_u32(&s->taken, 0, 1);
    PB_YIELD_POINT();
    return inside;
}

PB_INLINE void pb_shard_leave(pb_shard *s)
{
    PB_YIELD_POINT();
    pb_store_release_u32(&s->taken, 0); /* release: pairs with pb_shard_enter of the next one */
}

/* Takes the newest object, if it may and there is one. Acquire: what was done to the object before
   it was put is seen. */
PB_INLINE pb_shard_got pb_shard_get(pb_shard *s)
{
    if (PB_UNLIKELY(!pb_shard_enter(s)))
        return (pb_shard_got){NULL, PB_SHARD_TAKEN};
    const uint32_t count = pb_load_relaxed_u32(&s->count); /* relaxed: written inside only */
    if (PB_UNLIKELY(count == 0)) {
        pb_shard_leave(s);
        return (pb_shard_got){NULL, PB_SHARD_NO_USE};
    }
    void *object = s->idle[count - 1];
    pb_store_relaxed_u32(&s->count, count - 1); /* relaxed: who is outside takes it for a hint */
    pb_shard_leave(s);
    return (pb_shard_got){object, PB_SHARD_DONE};
}

/* Puts the object on top, if it may and there is room. Release: publishes what was done to it. */
PB_INLINE pb_shard_answer pb_shard_put(pb_shard *s, void *object)
{
    if (PB_UNLIKELY(!pb_shard_enter(s)))
        return PB_SHARD_TAKEN;
    const uint32_t count = pb_load_relaxed_u32(&s->count); /* relaxed: written inside only */
    if (PB_UNLIKELY(count == s->capacity)) {
        pb_shard_leave(s);
        return PB_SHARD_NO_USE;
    }
    s->idle[count] = object;
    pb_store_relaxed_u32(&s->count, count + 1); /* relaxed: who is outside takes it for a hint */
    pb_shard_leave(s);
    return PB_SHARD_DONE;
}

/* Whether a get seems to be of no use. Wrong at times; orders nothing. */
PB_INLINE bool pb_shard_seems_empty(const pb_shard *s)
{
    return pb_load_relaxed_u32(&s->count) == 0; /* relaxed: a hint, get looks again */
}

/* ---- a row of shards ------------------------------------------------------------------------- */

/* All constant. The arrays of objects are a sharing distance apart; the shards only if padded. */
typedef struct pb_shards {
    char *first;    /* [count], `apart` bytes from one to the next */
    char *end;      /* behind the last */
    size_t apart;   /* bytes */
    uint32_t count; /* at least 1 */
    void **entries; /* the arrays of all of them */
} pb_shards;

PB_INLINE pb_shard *pb_shards_at(const pb_shards *row, uint32_t index)
{
    return (pb_shard *)(void *)(row->first + index * row->apart);
}

/* The next one, and after the last the first. */
PB_INLINE pb_shard *pb_shards_after(const pb_shards *row, pb_shard *s)
{
    char *next = (char *)s + row->apart;
    return (pb_shard *)(void *)(next == row->end ? row->first : next);
}

static PB_COLD void pb_shards_close(pb_shards *row)
{
    free(row->entries);
    free(row->first);
}

static PB_COLD pb_status pb_shards_open(pb_shards *row, uint32_t count, uint32_t capacity,
                                        bool padded)
{
    const size_t per_line = PB_SHARING / sizeof(void *);
    const size_t stretch = (capacity + per_line - 1) / per_line * per_line;
    row->count = count;
    row->apart = padded ? PB_SHARING : sizeof(pb_shard);
    row->first = pb_new_padded(count * row->apart);
    row->entries = pb_new_padded(count * stretch * sizeof *row->entries);
    if (!row->first || !row->entries) {
        pb_shards_close(row);
        return PB_NO_MEMORY;
    }
    row->end = row->first + count * row->apart;
    for (uint32_t i = 0; i < count; i++) {
        pb_shard *s = pb_shards_at(row, i);
        s->capacity = capacity;
        s->idle = row->entries + i * stretch;
    }
    return PB_OK;
}

/* Objects in all of them. At quiet points. */
static PB_COLD uint64_t pb_shards_idle(const pb_shards *row)
{
    uint64_t idle = 0;
    for (uint32_t i = 0; i < row->count; i++)
        idle +=
            pb_load_relaxed_u32(&pb_shards_at(row, i)->count); /* relaxed: nobody else is here */
    return idle;
}

/* Takes one object out of any of them; NULL: they are all empty. At quiet points. */
static PB_COLD void *pb_shards_take_out(const pb_shards *row)
{
    void *object = NULL;
    for (uint32_t i = 0; i < row->count && !object; i++)
        object = pb_shard_get(pb_shards_at(row, i)).object;
    return object;
}

/* ---- where a thread goes first --------------------------------------------------------------- */

/* One thread's own. A thread that stays where it is keeps its shard: two loads and a comparison. */
typedef struct pb_shard_home {
    const volatile uint32_t *now; /* constant; other than `place`: it is time to look again */
    pb_shard *shard;              /* of the place */
    const pb_shards *row;         /* constant */
    uint32_t place;               /* the CPU, or the thread's number, when it last looked */
    uint32_t unknown;             /* constant: the number of no CPU */
} pb_shard_home;

static PB_COLD void pb_shard_home_look(pb_shard_home *home)
{
    home->place = home->now == &home->unknown ? pb_cpu_ask() : *home->now;
    home->shard = pb_shards_at(home->row, home->place % home->row->count);
}

/* Of a thread that goes by its number, and so stays for ever. */
static PB_COLD void pb_shard_home_by_thread(pb_shard_home *home, const pb_shards *row, int thread)
{
    *home = (pb_shard_home){.now = &home->place, .row = row, .place = (uint32_t)thread};
    pb_shard_home_look(home);
}

/* Of the calling thread, which goes by the CPU it runs on. Where the kernel does not keep the
   number in the thread's memory, the thread looks again each time. */
static PB_COLD void pb_shard_home_by_cpu(pb_shard_home *home, const pb_shards *row)
{
    const volatile uint32_t *word = pb_cpu_word();
    *home = (pb_shard_home){.now = word ? word : &home->unknown, .row = row, .unknown = UINT32_MAX};
    pb_shard_home_look(home);
}

PB_INLINE pb_shard *pb_shard_home_of(pb_shard_home *home)
{
    if (PB_UNLIKELY(*home->now != home->place))
        pb_shard_home_look(home);
    return home->shard;
}

#endif
