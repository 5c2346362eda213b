/* SPDX-License-Identifier: MIT
 *
 * model.c - a pool as a shared library, for tests/test_model.py: every thread's part is used from
 * one thread, step by step, so that each step can be compared with what a simple model says.
 *
 *   model *m = model_open("locked capacity=2", 3);
 *   model_attach(m, 0);  model_acquire(m, 0, out);  model_release(m, 0, object, handle);
 *   model_close(m);      how many objects the pool lost
 *
 * Objects are probes: what they notice is counted by model_complaints and printed.
 */
#define _GNU_SOURCE
#include "bounds.h"
#include "cell.h"
#include "check.h"
#include "choices.h"
#include "marks.h"
#include "probe.h"

typedef struct model {
    parts p;
    probe_orders orders;
} model;

enum { MODEL_OUT = 1 }; /* the stamp of an object that is out */

/* ---- the list of pools ----------------------------------------------------------------------- */

int model_pools(void);
int model_pools(void)
{
    return PB_POOL_COUNT;
}

const char *model_name(int pool);
const char *model_name(int pool)
{
    return pb_pools[pool].is.name;
}

uint32_t model_traits(int pool);
uint32_t model_traits(int pool)
{
    return pb_pools[pool].traits;
}

uint32_t model_outcomes(int pool);
uint32_t model_outcomes(int pool)
{
    return pb_pools[pool].outcomes;
}

/* One of `most` cells of a pool, as text; returns how many there are. */
int model_cell(const char *pool, int which, int most, char *text, size_t size);
int model_cell(const char *pool, int which, int most, char *text, size_t size)
{
    const choices c = choices_of(pool, 1);
    pb_rng rng = {(uint64_t)which};
    pb_cell cell = choices_pick(&c, which, most, &rng);
    choices_wait_at_most(&cell, 0); /* nobody else could end the wait */
    choices_text(&cell, text, size);
    return choices_count(&c, most);
}

/* ---- one pool -------------------------------------------------------------------------------- */

model *model_open(const char *pool, int threads);
model *model_open(const char *pool, int threads)
{
    model *m = calloc(1, sizeof *m);
    if (!m)
        cell_mistake("out of memory");
    const pb_cell cell = cell_of(pool, "bytes", "churn", threads);
    check_in("%s", pool);
    probe_parts(&m->p, &cell, &m->orders);
    return m;
}

bool model_attach(model *m, int thread);
bool model_attach(model *m, int thread)
{
    return parts_attach(&m->p, thread) != NULL;
}

void model_detach(model *m, int thread);
void model_detach(model *m, int thread)
{
    parts_detach(&m->p, thread);
}

/* Returns the outcome; out: the object's address, or 0, and its handle. */
int model_acquire(model *m, int thread, bool fail, uint64_t out[2]);
int model_acquire(model *m, int thread, bool fail, uint64_t out[2])
{
    m->orders.fail = fail;
    const pb_got got = parts_acquire(&m->p, m->p.ctx[thread]);
    m->orders.fail = false;
    out[0] = (uint64_t)(uintptr_t)got.object;
    out[1] = got.handle;
    if (got.object && !m->orders.shared)
        CHECK_EQ(probe_stamp(got.object, MODEL_OUT), PROBE_NOBODY);
    if (got.object)
        m->p.ctx[thread]->sink += parts_use(&m->p, m->p.ctx[thread], got.object);
    return (int)got.how;
}

/* Returns the outcome. */
int model_release(model *m, int thread, uint64_t object, uint64_t handle);
int model_release(model *m, int thread, uint64_t object, uint64_t handle)
{
    void *o = (void *)(uintptr_t)object; /* NOLINT: it went through Python as a number */
    if (!m->orders.shared)
        CHECK_EQ(probe_stamp(o, PROBE_NOBODY), MODEL_OUT);
    return (int)parts_release(&m->p, m->p.ctx[thread], (pb_held){o, handle});
}

/* An object that the pool did not make. */
uint64_t model_foreign(model *m, int thread);
uint64_t model_foreign(model *m, int thread)
{
    void *o = pb_construct(m->p.ctx[thread], m->p.workload.is, &m->p.args);
    if (!m->orders.shared)
        (void)probe_stamp(o, MODEL_OUT);
    return (uint64_t)(uintptr_t)o;
}

void model_pass_time(model *m, uint32_t ticks);
void model_pass_time(model *m, uint32_t ticks)
{
    (void)pb_add_relaxed_u32(&m->p.control.tick, ticks); /* relaxed: one thread */
}

uint64_t model_alive(const model *m);
uint64_t model_alive(const model *m)
{
    return parts_alive(&m->p);
}

/* By a thread that is attached. */
uint64_t model_constructed(const model *m, int thread);
uint64_t model_constructed(const model *m, int thread)
{
    return m->p.ctx[thread]->constructed;
}

uint64_t model_idle(const model *m);
uint64_t model_idle(const model *m)
{
    return parts_idle(&m->p);
}

int64_t model_bound(const model *m);
int64_t model_bound(const model *m)
{
    return bound_on_idle(&m->p.cell);
}

uint64_t model_complaints(void);
uint64_t model_complaints(void)
{
    return pb_load_relaxed_u64(&check_failed); /* relaxed: one thread */
}

uint64_t model_close(model *m);
uint64_t model_close(model *m)
{
    const uint64_t lost = parts_close(&m->p);
    free(m);
    return lost;
}
