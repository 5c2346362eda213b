/* SPDX-License-Identifier: MIT
 *
 * cell.h - cells written as text, and a pool x workload opened without the run engine.
 *
 *   pb_cell cell = cell_of("locked capacity=4 order=fifo", "bytes reset=full", "churn", 2);
 *   parts p;
 *   parts_open(&p, &cell, NULL);           NULL: the cell's workload, else one of the test's own
 *   pb_ctx *ctx = parts_attach(&p, 0);     on the thread that uses it
 *   pb_got got = parts_acquire(&p, ctx);
 *   parts_release(&p, ctx, held_of(got));
 *   parts_detach(&p, 0);  parts_close(&p);
 *
 * Mistakes in the text are the test's own, and abort. The name "table" alone means the good table
 * of table_library.c.
 */
#ifndef PB_TEST_CELL_H
#define PB_TEST_CELL_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "memory.h"
#include "registry.h"
#include "run.h"

enum { PARTS_THREADS = 16, CELL_TEXT = 600 };

static inline void cell_mistake(const char *text)
{
    (void)fprintf(stderr, "mistake in the test: %s\n", text);
    abort();
}

/* Sets "key=value", a number or a choice. */
static inline void cell_set(pb_params *params, char *setting)
{
    char *value = strchr(setting, '=');
    if (!value)
        cell_mistake(setting);
    *value++ = '\0';
    char *end;
    const long long number = strtoll(value, &end, 10);
    pb_error error;
    const pb_status status = *end == '\0' ? pb_params_set(params, setting, number, &error)
                                          : pb_params_set_text(params, setting, value, &error);
    if (status != PB_OK)
        cell_mistake(error.text);
}

/* The shared library with the tests' tables, which is built beside every test. */
static inline const char *cell_library(void)
{
    static _Thread_local char path[PB_TEXT_BYTES];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    char *name = length > 0 ? strrchr(path, '/') : NULL;
    if (!name)
        cell_mistake("no /proc/self/exe");
    const size_t room = sizeof path - (size_t)(name + 1 - path);
    if ((size_t)snprintf(name + 1, room, "table_library.so") >= room)
        cell_mistake("the build directory's name is too long");
    return path;
}

static inline bool cell_has(const pb_params *params, const char *name)
{
    for (int i = 0; i < params->count; i++)
        if (strcmp(params->described[i].name, name) == 0)
            return true;
    return false;
}

/* Whether the pool keeps memory, not objects: then it can take back nothing but its own. */
static inline bool cell_keeps_memory(const pb_cell *cell)
{
    const uint32_t both = PB_IN_PLACE | PB_CONSTRUCTS_ALWAYS;
    return (pb_pools[cell->pool].traits & both) == both;
}

/* The slots of a pool that fails when all of them are out; or more than anybody holds. */
static inline int64_t cell_slots(const pb_cell *cell)
{
    if (!cell_keeps_memory(cell) || !cell_has(&cell->pool_params, "capacity"))
        return INT32_MAX;
    return pb_params_get(&cell->pool_params, "capacity");
}

/* Whether the pool can hold such objects at all. */
static inline bool cell_exists(int pool, int workload)
{
    const uint32_t needs = pb_pools[pool].traits, can = pb_workloads[workload].traits;
    return (!(needs & PB_IN_PLACE) || (can & PB_PLACEABLE)) &&
           (!(needs & PB_NEEDS_SHAREABLE) || (can & PB_SHAREABLE));
}

/* Whether this build has a kernel for it: sanitized ones have some only. */
static inline bool cell_is_stamped(const pb_cell *cell)
{
    return pb_pools[cell->pool].class->kernels[cell->workload][cell->pattern] != NULL;
}

/* Whether the pool can be run in such a way. */
static inline bool cell_runs(int pool, int pattern)
{
    return !(pb_pools[pool].traits & PB_BURST_ONLY) || pattern == PB_PATTERN_burst;
}

/* The pool's name, with room for so many objects where acquire would else wait for them. */
static inline const char *cell_roomy(int pool, int objects)
{
    static _Thread_local char text[CELL_TEXT];
    const char *name = pb_pools[pool].is.name;
    if (pb_pools[pool].traits & PB_WAITS_FOR_OBJECTS)
        (void)snprintf(text, sizeof text, "%s max_total=%d", name, objects);
    else
        (void)snprintf(text, sizeof text, "%s", name);
    return text;
}

/* The name in front of `text`, then its settings, for one of the three lists. */
#define CELL_PART(list, find)                                          \
    static inline int cell_##find(pb_params *params, const char *text) \
    {                                                                  \
        char copy[CELL_TEXT];                                          \
        (void)snprintf(copy, sizeof copy, "%s", text);                 \
        char *rest = NULL;                                             \
        const int index = find(strtok_r(copy, " ", &rest));            \
        if (index < 0)                                                 \
            cell_mistake(text);                                        \
        const pb_described *line = &list[index].is;                    \
        pb_params_init(params, line->params, line->param_count);       \
        for (char *word; (word = strtok_r(NULL, " ", &rest)) != NULL;) \
            cell_set(params, word);                                    \
        return index;                                                  \
    }
CELL_PART(pb_pools, pb_pool_find)
CELL_PART(pb_workloads, pb_workload_find)
CELL_PART(pb_patterns, pb_pattern_find)

static inline pb_cell cell_of(const char *pool, const char *workload, const char *pattern,
                              int threads)
{
    pb_cell cell = {.threads = threads, .seed = 1, .spin_per_ms = 1000000};
    cell.pool = cell_pb_pool_find(&cell.pool_params, pool);
    cell.workload = cell_pb_workload_find(&cell.workload_params, workload);
    pb_error error;
    if (cell.workload == PB_WORKLOAD_table && !pb_params_text(&cell.workload_params, "library")[0])
        if (pb_params_set_text(&cell.workload_params, "library", cell_library(), &error) != PB_OK)
            cell_mistake(error.text);
    cell.pattern = cell_pb_pattern_find(&cell.pattern_params, pattern);
    return cell;
}

/* ---- the parts of a cell, without threads ---------------------------------------------------- */

/* One attaching, and what it left behind. A thread that comes back under its old index gets a new
   context; the old one stays until parts_close, as in a run. */
typedef struct parts_life {
    struct parts_life *before;
    pb_ctx *ctx;
} parts_life;

typedef struct parts {
    pb_cell cell;
    pb_control control;
    pb_args args; /* what workload.args points to */
    pb_workload workload;
    bool own; /* the workload is the test's own: not ours to close */
    pb_pattern pattern;
    pb_checks *checks; /* the test's own, for contexts attached from then on; NULL: not checked */
    const pb_pool_class *class;
    pb_pool *pool;
    pb_ctx closer;                    /* what closing the pool destroys is counted here */
    pb_ctx *ctx[PARTS_THREADS];       /* the latest of each index */
    parts_life *lives[PARTS_THREADS]; /* all of each index, the latest first */
    bool attached[PARTS_THREADS];
} parts;

/* What the pool is asked to reset, and when. */
static inline uint32_t parts_extras(const parts *p)
{
    if (!p->args.has_reset || !cell_has(&p->cell.pool_params, "reset_on"))
        return 0;
    return pb_params_get(&p->cell.pool_params, "reset_on") ? PB_RESET_ON_ACQUIRE
                                                           : PB_RESET_ON_RELEASE;
}

static inline void parts_open_workload(parts *p, const pb_workload *own)
{
    const pb_workload_entry *entry = &pb_workloads[p->cell.workload];
    pb_error error = {"the workload does not open"};
    p->own = own != NULL;
    p->workload = (pb_workload){own ? own->is : &entry->functions, &p->args};
    if (own)
        p->args = *own->args;
    else if (entry->open(&p->args, &p->cell.workload_params, p->cell.spin_per_ms, &error) != PB_OK)
        cell_mistake(error.text);
    p->args.extras |= parts_extras(p);
}

/* `p` must stay where it is until parts_close: contexts point into it. */
static inline void parts_open(parts *p, const pb_cell *cell, const pb_workload *own)
{
    *p = (parts){.cell = *cell, .class = pb_pools[cell->pool].class};
    p->control.threads = (uint32_t)cell->threads;
    parts_open_workload(p, own);
    pb_patterns[cell->pattern].open(&p->pattern, &cell->pattern_params, cell->spin_per_ms);
    p->closer = (pb_ctx){.control = &p->control,
                         .workload = &p->workload,
                         .params = &p->cell.pool_params,
                         .pattern = &p->pattern,
                         .index = -1};
    if (p->class->open(&p->pool, &p->cell.pool_params, cell->threads) != PB_OK)
        cell_mistake("the pool does not open");
}

static inline pb_ctx *parts_new_life(parts *p, int index)
{
    pb_ctx *ctx = pb_new_padded(p->class->ctx_size);
    parts_life *life = malloc(sizeof *life);
    if (ctx)
        ctx->held = calloc(p->pattern.live, sizeof *ctx->held);
    if (!life || !ctx || !ctx->held)
        cell_mistake("out of memory");
    *life = (parts_life){p->lives[index], ctx};
    p->lives[index] = life;
    p->ctx[index] = ctx;
    return ctx;
}

/* A thread's context, attached; NULL when the pool could not attach it. Again after parts_detach:
   another thread with the same index. */
static inline pb_ctx *parts_attach(parts *p, int index)
{
    pb_ctx *ctx = parts_new_life(p, index);
    ctx->control = &p->control;
    ctx->workload = &p->workload;
    ctx->params = &p->cell.pool_params;
    ctx->pattern = &p->pattern;
    ctx->checks = p->checks;
    ctx->batch = 1;
    ctx->index = index;
    ctx->rng.state = (uint64_t)index + 1;
    p->attached[index] = p->class->attach(p->pool, ctx) == PB_OK;
    return p->attached[index] ? ctx : NULL;
}

static inline void parts_detach(parts *p, int index)
{
    p->class->detach(p->pool, p->ctx[index]);
    p->attached[index] = false;
}

static inline pb_got parts_acquire(const parts *p, pb_ctx *ctx)
{
    return p->class->acquire(ctx, p->workload.is, &p->args);
}

static inline pb_held held_of(pb_got got)
{
    return (pb_held){got.object, got.handle};
}

static inline pb_outcome parts_release(const parts *p, pb_ctx *ctx, pb_held held)
{
    return p->class->release(ctx, held, p->workload.is, &p->args);
}

/* The same for pools that have no handles. */
static inline pb_outcome parts_return(const parts *p, pb_ctx *ctx, void *object)
{
    return parts_release(p, ctx, (pb_held){object, 0});
}

static inline uint64_t parts_use(const parts *p, pb_ctx *ctx, void *object)
{
    return pb_use(ctx, object, p->workload.is, &p->args);
}

/* Objects that exist: constructed and not yet destroyed. At quiet points. */
static inline uint64_t parts_alive(const parts *p)
{
    uint64_t alive = p->closer.constructed - p->closer.destroyed;
    for (int i = 0; i < PARTS_THREADS; i++)
        for (const parts_life *life = p->lives[i]; life; life = life->before)
            alive += life->ctx->constructed - life->ctx->destroyed;
    return alive;
}

/* Objects idle in the pool and in all its attached threads. At quiet points. */
static inline uint64_t parts_idle(const parts *p)
{
    uint64_t idle = p->class->idle(p->pool, NULL);
    for (int i = 0; i < PARTS_THREADS; i++)
        idle += p->attached[i] ? p->class->idle(p->pool, p->ctx[i]) : 0;
    return idle;
}

/* Closes everything; returns how many objects are still alive: 0, unless the pool lost some. */
static inline uint64_t parts_close(parts *p)
{
    p->class->close(p->pool, &p->closer);
    const uint64_t alive = parts_alive(p);
    for (int i = 0; i < PARTS_THREADS; i++)
        for (parts_life *life; (life = p->lives[i]) != NULL;) {
            p->lives[i] = life->before;
            free(life->ctx->held);
            free(life->ctx);
            free(life);
        }
    if (!p->own)
        pb_workloads[p->cell.workload].close(&p->args);
    return alive;
}

#endif
