/* SPDX-License-Identifier: MIT
 *
 * py_run.c (L6) - a live replicate as four Python functions on a capsule.
 *
 * Everything is parsed and copied into C structs first; then the GIL is released round one call of
 * the run engine, which knows nothing of Python. A handle serves one caller at a time: a second one
 * gets an error instead of a race.
 */
#include "py_module.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "atomic.h"
#include "run.h"

static const char CAPSULE[] = "poolbench.run";

typedef struct handle {
    pb_run *run; /* NULL once closed, or given up after a time-out */
    pb_cell cell;
    int *cpus;          /* what cell.cpus points to */
    pb_atomic_u32 busy; /* 1 while some thread is inside a call */
} handle;

static void free_handle(handle *h)
{
    free(h->cpus);
    free(h);
}

/* A run nobody closed: its threads must end before their memory goes. */
static void capsule_free(PyObject *capsule)
{
    handle *h = PyCapsule_GetPointer(capsule, CAPSULE);
    if (h->run) {
        pb_account account;
        pb_error error;
        (void)pb_run_close(h->run, &account, &error); /* nobody is left to tell */
    }
    free_handle(h);
}

/* ---- parsing -------------------------------------------------------------------------------- */

static PyObject *bad_name(const char *kind, const char *name)
{
    return PyErr_Format(PyExc_ValueError, "unknown %s '%s'", kind, name);
}

/* A Python int as a number in [low, high]; -1 with a ValueError that names it otherwise. */
static int parse_number(PyObject *value, const char *name, long long low, long long high,
                        long long *out)
{
    int overflow = 0;
    if (!PyLong_Check(value)) {
        PyErr_Format(PyExc_TypeError, "%s is an int", name);
        return -1;
    }
    *out = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (!overflow && !PyErr_Occurred() && *out >= low && *out <= high)
        return 0;
    PyErr_Clear();
    PyErr_Format(PyExc_ValueError, "%s=%S is out of range %lld ... %lld", name, value, low, high);
    return -1;
}

/* A new bytes object with the UTF-8 of a str without NUL; NULL with an exception set. */
static PyObject *parse_text(PyObject *value)
{
    PyObject *bytes = PyUnicode_AsUTF8String(value);
    if (bytes && (Py_ssize_t)strlen(PyBytes_AsString(bytes)) != PyBytes_Size(bytes)) {
        PyErr_SetString(PyExc_ValueError, "a name or text contains a NUL character");
        Py_CLEAR(bytes);
    }
    return bytes;
}

/* Sets one parameter from a Python int or str. */
static pb_status set_param(pb_params *params, PyObject *key, PyObject *value, pb_error *error)
{
    pb_status status = PB_BAD_VALUE;
    PyObject *name = parse_text(key);
    PyObject *text = name && PyUnicode_Check(value) ? parse_text(value) : NULL;
    if (text) {
        status = pb_params_set_text(params, PyBytes_AsString(name), PyBytes_AsString(text), error);
    } else if (name && PyLong_Check(value)) {
        long long number;
        if (parse_number(value, PyBytes_AsString(name), LLONG_MIN, LLONG_MAX, &number) == 0)
            status = pb_params_set(params, PyBytes_AsString(name), number, error);
    } else if (!PyErr_Occurred()) {
        PyErr_SetString(PyExc_TypeError, "parameter values are int or str");
    }
    Py_XDECREF(text);
    Py_XDECREF(name);
    return status;
}

/* Defaults of a list line, then the dict's values; 0, or -1 with an exception set. */
static int parse_params(PyObject *module, pb_params *params, const pb_described *line,
                        PyObject *dict)
{
    pb_params_init(params, line->params, line->param_count);
    if (!dict || dict == Py_None)
        return 0;
    if (!PyDict_Check(dict)) {
        PyErr_SetString(PyExc_TypeError, "parameters are given as a dict");
        return -1;
    }
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(dict, &at, &key, &value)) {
        pb_error error;
        const pb_status status = set_param(params, key, value, &error);
        if (PyErr_Occurred())
            return -1;
        if (status != PB_OK) {
            (void)pb_raise(module, status, &error);
            return -1;
        }
    }
    return 0;
}

/* A sequence of CPU numbers into h->cpus; 0, or -1 with an exception set. */
static int parse_cpus(handle *h, PyObject *sequence)
{
    const Py_ssize_t count = sequence && sequence != Py_None ? PySequence_Size(sequence) : 0;
    if (count <= 0)
        return count < 0 ? -1 : 0;
    h->cpus = calloc((size_t)count, sizeof *h->cpus);
    if (!h->cpus) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PySequence_GetItem(sequence, i);
        long long cpu = 0;
        const int failed = item ? parse_number(item, "CPU", 0, 1023, &cpu) : -1;
        Py_XDECREF(item);
        if (failed)
            return -1;
        h->cpus[i] = (int)cpu;
    }
    h->cell.cpus = h->cpus;
    h->cell.cpu_count = (int)count;
    return 0;
}

/* What open() is given; names are borrowed from the arguments. */
typedef struct request {
    const char *pool, *workload, *pattern;
    PyObject *pool_params, *workload_params, *pattern_params, *cpus;
    PyObject *threads, *seed, *spin, *memory; /* NULL: not given */
    int counted, checked;
} request;

static int parse_request(request *r, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"pool",        "workload",        "pattern",        "threads", "seed",
                            "spin",        "memory",          "counted",        "checked", "cpus",
                            "pool_params", "workload_params", "pattern_params", NULL};
    *r = (request){0};
    return PyArg_ParseTupleAndKeywords(args, kwargs, "sss|$OOOOppOOOO:open", names, &r->pool,
                                       &r->workload, &r->pattern, &r->threads, &r->seed, &r->spin,
                                       &r->memory, &r->counted, &r->checked, &r->cpus,
                                       &r->pool_params, &r->workload_params, &r->pattern_params);
}

/* A seed is any 64 bits. */
static int parse_seed(PyObject *value, long long *seed)
{
    if (!PyLong_Check(value)) {
        PyErr_SetString(PyExc_TypeError, "seed is an int");
        return -1;
    }
    *seed = (long long)PyLong_AsUnsignedLongLong(value);
    if (!PyErr_Occurred())
        return 0;
    PyErr_Clear();
    PyErr_Format(PyExc_ValueError, "seed=%S is out of range 0 ... 2^64 - 1", value);
    return -1;
}

/* The numbers of a request into h->cell; 0, or -1 with an exception set. */
static int parse_numbers(pb_cell *cell, const request *r)
{
    long long threads = 1, seed = 1, spin = 1000000, memory = 0;
    if ((r->threads && parse_number(r->threads, "threads", 1, PB_THREADS_MAX, &threads) < 0) ||
        (r->seed && parse_seed(r->seed, &seed) < 0) ||
        (r->spin && parse_number(r->spin, "spin", 1, LLONG_MAX, &spin) < 0) ||
        (r->memory && parse_number(r->memory, "memory", 0, LLONG_MAX, &memory) < 0))
        return -1;
    cell->threads = (int)threads;
    cell->seed = (uint64_t)seed;
    cell->spin_per_ms = (uint64_t)spin;
    cell->memory = (uint64_t)memory;
    cell->counted = r->counted != 0;
    cell->checked = r->checked != 0;
    return 0;
}

/* Fills h->cell; 0, or -1 with an exception set. */
static int parse_cell(PyObject *module, handle *h, const request *r)
{
    pb_cell *cell = &h->cell;
    *cell = (pb_cell){.pool = pb_pool_find(r->pool),
                      .workload = pb_workload_find(r->workload),
                      .pattern = pb_pattern_find(r->pattern)};
    if (cell->pool < 0)
        return bad_name("pool", r->pool), -1;
    if (cell->workload < 0)
        return bad_name("workload", r->workload), -1;
    if (cell->pattern < 0)
        return bad_name("pattern", r->pattern), -1;
    if (parse_numbers(cell, r) < 0)
        return -1;
    if (parse_params(module, &cell->pool_params, &pb_pools[cell->pool].is, r->pool_params) < 0 ||
        parse_params(module, &cell->workload_params, &pb_workloads[cell->workload].is,
                     r->workload_params) < 0 ||
        parse_params(module, &cell->pattern_params, &pb_patterns[cell->pattern].is,
                     r->pattern_params) < 0)
        return -1;
    return parse_cpus(h, r->cpus);
}

/* ---- the four functions --------------------------------------------------------------------- */

PyObject *pb_py_open(PyObject *module, PyObject *args, PyObject *kwargs)
{
    request r;
    if (!parse_request(&r, args, kwargs))
        return NULL;
    handle *h = calloc(1, sizeof *h);
    if (!h)
        return PyErr_NoMemory();
    if (parse_cell(module, h, &r) < 0) {
        free_handle(h);
        return NULL;
    }
    pb_status status;
    pb_error error;
    Py_BEGIN_ALLOW_THREADS;
    status = pb_run_open(&h->run, &h->cell, &error);
    Py_END_ALLOW_THREADS;
    if (status != PB_OK) {
        free_handle(h);
        return pb_raise(module, status, &error);
    }
    PyObject *capsule = PyCapsule_New(h, CAPSULE, capsule_free);
    if (!capsule)
        free_handle(h);
    return capsule;
}

/* The handle behind a capsule, now busy; or NULL with an exception set. */
static handle *enter(PyObject *module, PyObject *capsule)
{
    handle *h = PyCapsule_GetPointer(capsule, CAPSULE);
    if (!h)
        return NULL;
    /* acquire: pairs with the release in leave(), so two callers in turn see each other's writes */
    if (pb_exchange_acquire_u32(&h->busy, 1)) {
        (void)pb_raise(module, PB_SYSTEM, &(pb_error){"the replicate is in use by another thread"});
        return NULL;
    }
    if (h->run)
        return h;
    pb_store_release_u32(&h->busy, 0);
    (void)pb_raise(module, PB_SYSTEM, &(pb_error){"the replicate is closed"});
    return NULL;
}

static void leave(handle *h)
{
    pb_store_release_u32(&h->busy, 0); /* release: pairs with the acquire in enter() */
}

/* Parses (capsule, seconds) and enters; NULL with an exception set. */
static handle *enter_for(PyObject *module, PyObject *args, double *seconds)
{
    PyObject *capsule;
    if (!PyArg_ParseTuple(args, "Od", &capsule, seconds))
        return NULL;
    if (!(*seconds > 0 && *seconds <= 3600)) {
        PyErr_SetString(PyExc_ValueError, "seconds is out of range: 0 < seconds <= 3600");
        return NULL;
    }
    return enter(module, capsule);
}

/* Threads that hang keep their memory: forget the run, so that nobody touches it again. */
static PyObject *failed(PyObject *module, handle *h, pb_status status, const pb_error *error)
{
    if (status == PB_LATE)
        h->run = NULL;
    leave(h);
    return pb_raise(module, status, error);
}

PyObject *pb_py_warm(PyObject *module, PyObject *args)
{
    double seconds;
    handle *h = enter_for(module, args, &seconds);
    if (!h)
        return NULL;
    pb_status status;
    pb_warmth warmth;
    pb_error error;
    Py_BEGIN_ALLOW_THREADS;
    status = pb_run_warm(h->run, seconds, &warmth, &error);
    Py_END_ALLOW_THREADS;
    if (status != PB_OK)
        return failed(module, h, status, &error);
    leave(h);
    return Py_BuildValue("(dI)", warmth.rate, warmth.batch);
}

static PyObject *counts_to_list(const uint64_t *counts, int n)
{
    PyObject *list = PyList_New(n);
    for (int i = 0; list && i < n; i++) {
        PyObject *count = PyLong_FromUnsignedLongLong(counts[i]);
        if (!count || PyList_SetItem(list, i, count) < 0)
            Py_CLEAR(list);
    }
    return list;
}

PyObject *pb_py_window(PyObject *module, PyObject *args)
{
    double seconds;
    handle *h = enter_for(module, args, &seconds);
    if (!h)
        return NULL;
    pb_window w = {.operations = calloc((size_t)h->cell.threads, sizeof(uint64_t))};
    if (!w.operations) {
        leave(h);
        return PyErr_NoMemory();
    }
    pb_status status;
    pb_error error;
    Py_BEGIN_ALLOW_THREADS;
    status = pb_run_window(h->run, seconds, &w, &error);
    Py_END_ALLOW_THREADS;
    PyObject *result = NULL;
    if (status == PB_OK)
        result = Py_BuildValue(
            "(KKKN(KKKK))", (unsigned long long)w.start_ns, (unsigned long long)w.ns,
            (unsigned long long)w.cpu_ns, counts_to_list(w.operations, h->cell.threads),
            (unsigned long long)w.usage.minor_faults, (unsigned long long)w.usage.major_faults,
            (unsigned long long)w.usage.voluntary_switches,
            (unsigned long long)w.usage.involuntary_switches);
    free(w.operations);
    if (status != PB_OK)
        return failed(module, h, status, &error);
    leave(h);
    return result;
}

/* One named count, for filling a dict. */
typedef struct named {
    const char *name;
    uint64_t count;
} named;

/* Adds `n` counts to `dict`; 0, or -1 with an exception set. */
static int add_named(PyObject *dict, const named *counts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        PyObject *count = PyLong_FromUnsignedLongLong(counts[i].count);
        const int failed = count ? PyDict_SetItemString(dict, counts[i].name, count) : -1;
        Py_XDECREF(count);
        if (failed)
            return -1;
    }
    return 0;
}

static int add_outcomes(PyObject *dict, const uint64_t outcomes[PB_OUTCOMES])
{
    named counts[PB_OUTCOMES];
    for (int i = 0; i < PB_OUTCOMES; i++)
        counts[i] = (named){pb_outcome_names[i], outcomes[i]};
    return add_named(dict, counts, PB_OUTCOMES);
}

static int add_events(PyObject *dict, const uint64_t events[PB_EVENTS])
{
    named counts[PB_EVENTS];
    for (int i = 0; i < PB_EVENTS; i++)
        counts[i] = (named){pb_event_names[i], events[i]};
    return add_named(dict, counts, PB_EVENTS);
}

/* Allocations by owner, each name with `part` in front. */
static int add_counts(PyObject *dict, const char *part, const pb_counts *c)
{
    static const char *const owners[PB_OWNERS] = {"harness", "pool", "workload"};
    for (int i = 0; i < PB_OWNERS; i++) {
        char allocations[64], bytes[64];
        (void)snprintf(allocations, sizeof allocations, "%s_%s_allocations", part, owners[i]);
        (void)snprintf(bytes, sizeof bytes, "%s_%s_bytes", part, owners[i]);
        const named counts[] = {{allocations, c->by[i].allocations}, {bytes, c->by[i].bytes}};
        if (add_named(dict, counts, 2) < 0)
            return -1;
    }
    return 0;
}

static int add_account(PyObject *dict, const pb_account *a)
{
    const named counts[] = {
        {"operations", a->operations},
        {"constructed", a->constructed},
        {"destroyed", a->destroyed},
        {"idle", a->idle},
        {"longest_wait_ns", a->longest_wait_ns},
        {"minor_faults", a->usage.minor_faults},
        {"major_faults", a->usage.major_faults},
        {"voluntary_switches", a->usage.voluntary_switches},
        {"involuntary_switches", a->usage.involuntary_switches},
        {"peak_rss", a->usage.peak_rss},
        {"retained_bytes", a->retained_bytes},
        {"peak_bytes", a->peak_bytes},
    };
    return add_named(dict, counts, sizeof counts / sizeof counts[0]);
}

static PyObject *account_to_dict(const pb_account *a)
{
    PyObject *dict = PyDict_New();
    if (dict && (add_account(dict, a) < 0 || add_outcomes(dict, a->outcomes) < 0 ||
                 add_events(dict, a->events) < 0 || add_counts(dict, "setup", &a->setup) < 0))
        Py_CLEAR(dict);
    return dict;
}

static PyObject *pass_to_dict(const pb_pass *p)
{
    PyObject *dict = PyDict_New();
    const named operations = {"operations", p->operations};
    if (dict && (add_named(dict, &operations, 1) < 0 || add_outcomes(dict, p->outcomes) < 0 ||
                 add_counts(dict, "steady", &p->counts) < 0))
        Py_CLEAR(dict);
    return dict;
}

PyObject *pb_py_count_pass(PyObject *module, PyObject *args)
{
    PyObject *capsule;
    unsigned int attempts;
    if (!PyArg_ParseTuple(args, "OI:count_pass", &capsule, &attempts))
        return NULL;
    if (attempts == 0) {
        PyErr_SetString(PyExc_ValueError, "attempts=0: at least 1");
        return NULL;
    }
    handle *h = enter(module, capsule);
    if (!h)
        return NULL;
    pb_status status;
    pb_pass pass;
    pb_error error;
    Py_BEGIN_ALLOW_THREADS;
    status = pb_run_pass(h->run, attempts, &pass, &error);
    Py_END_ALLOW_THREADS;
    if (status != PB_OK)
        return failed(module, h, status, &error);
    leave(h);
    return pass_to_dict(&pass);
}

PyObject *pb_py_close(PyObject *module, PyObject *args)
{
    PyObject *capsule;
    if (!PyArg_ParseTuple(args, "O:close", &capsule))
        return NULL;
    handle *h = enter(module, capsule);
    if (!h)
        return NULL;
    pb_status status;
    pb_account account;
    pb_error error;
    Py_BEGIN_ALLOW_THREADS;
    status = pb_run_close(h->run, &account, &error);
    Py_END_ALLOW_THREADS;
    h->run = NULL; /* freed, or left behind with its threads */
    leave(h);
    return status == PB_OK ? account_to_dict(&account) : pb_raise(module, status, &error);
}
