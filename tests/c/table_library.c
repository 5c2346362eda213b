/* SPDX-License-Identifier: MIT
 *
 * table_library.c - a shared library with tables of functions, right ones and wrong ones.
 *
 * Built like a user's own, from poolbench.h alone. Each symbol is one table, which the tests name
 * as `symbol=`. The context of a table says what its constructor does.
 */
#include <poolbench.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { LIVES = 0x11ce, DEAD = 0xdead };

typedef struct object {
    uint64_t state; /* LIVES from construct to destroy */
    uint64_t uses;  /* since the last reset */
} object;

typedef struct plan {
    atomic_ulong calls;      /* of construct, so far */
    unsigned long fail_each; /* every so manieth call gives nothing; 0: none does */
} plan;

static void *make(void *context)
{
    plan *p = context;
    const unsigned long call = atomic_fetch_add(&p->calls, 1) + 1;
    if (p->fail_each && call % p->fail_each == 0)
        return NULL;
    object *o = calloc(1, sizeof *o);
    if (o)
        o->state = LIVES;
    return o;
}

/* Wrong calls end the process: the tests cannot overlook them. */
static void expect_alive(const object *o)
{
    if (o->state != LIVES)
        abort();
}

static void unmake(void *memory, void *context)
{
    (void)context;
    object *o = memory;
    expect_alive(o);
    o->state = DEAD;
    free(o);
}

static uint64_t use(void *memory, void *context)
{
    (void)context;
    object *o = memory;
    expect_alive(o);
    return ++o->uses;
}

static void clean(void *memory, void *context)
{
    (void)context;
    object *o = memory;
    expect_alive(o);
    o->uses = 0;
}

static int is_clean(const void *memory, void *context)
{
    (void)context;
    return ((const object *)memory)->uses == 0;
}

static plan never = {.fail_each = 0}, always = {.fail_each = 1}, third = {.fail_each = 3};

/* A table of a later edition, which goes on after the fields we know. */
typedef struct later_workload {
    poolbench_workload known;
    void (*unknown)(void);
} later_workload;

#define FUNCTIONS   .construct = make, .destroy = unmake, .use = use
#define HEAD(bytes) .abi = POOLBENCH_ABI, .table_size = (uint32_t)(bytes), .name = "test"
#define WHOLE       HEAD(sizeof(poolbench_workload))

extern const poolbench_workload pb_workload, no_reset, fails_always, fails_third, huge;
extern const poolbench_workload first_edition, other_abi, no_use, too_short;
extern const later_workload later;

/* ---- right ones ------------------------------------------------------------------------------ */

const poolbench_workload pb_workload = {WHOLE, .context = &never, FUNCTIONS, .reset = clean,
                                        .is_clean = is_clean};
const poolbench_workload no_reset = {WHOLE, .context = &never, FUNCTIONS};
const poolbench_workload fails_always = {WHOLE, .context = &always, FUNCTIONS, .reset = clean};
const poolbench_workload fails_third = {WHOLE, .context = &third, FUNCTIONS, .reset = clean};
const poolbench_workload huge = {WHOLE, .context = &never, FUNCTIONS,
                                 .object_size = (size_t)1 << 40};
/* Ends before `reset`: what stands there is not to be looked at. */
const poolbench_workload first_edition = {HEAD(offsetof(poolbench_workload, reset)),
                                          .context = &never, FUNCTIONS, .reset = clean};
const later_workload later = {{HEAD(sizeof(later_workload)), .context = &never, FUNCTIONS}, NULL};

/* ---- wrong ones ------------------------------------------------------------------------------ */

const poolbench_workload other_abi = {
    .abi = POOLBENCH_ABI + 1, .table_size = sizeof(poolbench_workload), FUNCTIONS};
const poolbench_workload no_use = {WHOLE, .construct = make, .destroy = unmake};
const poolbench_workload too_short = {HEAD(offsetof(poolbench_workload, use)), FUNCTIONS};
