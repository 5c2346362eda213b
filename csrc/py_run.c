/* SPDX-License-Identifier: MIT
 *
 * py_run.c (L6) - a live replicate as four Python functions on a capsule.
 *
 * Everything is parsed and copied into C structs first; then the GIL is released round one call of
 * the run engine, which knows nothing of Python. A handle serves one caller at a time: a second one
 * gets an error instead of a race.
 */
#include "py_module.h"

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

/* Sets one parameter from a Python int or str. */
static pb_status set_param(pb_params *params, PyObject *key, PyObject *value, pb_error *error)
{
    pb_status status = PB_BAD_VALUE;
    PyObject *name = PyUnicode_AsUTF8String(key);
    PyObject *text = name && PyUnicode_Check(value) ? PyUnicode_AsUTF8String(value) : NULL;
    if (text) {
        status = pb_params_set_text(params, PyBytes_AsString(name), PyBytes_AsString(text), error);
    } else if (name && PyLong_Check(value)) {
        const long long number = PyLong_AsLongLong(value);
        if (!PyErr_Occurred())
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
        const long cpu = item ? PyLong_AsLong(item) : -1;
        Py_XDECREF(item);
        if (PyErr_Occurred())
            return -1;
        if (cpu < 0 || cpu > 1023) {
            PyErr_Format(PyExc_ValueError, "CPU %ld is out of range 0 ... 1023", cpu);
            return -1;
        }
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
    unsigned long long seed, spin;
    int threads;
} request;

static int parse_request(request *r, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"pool", "workload", "pattern",     "threads",         "seed",
                            "spin", "cpus",     "pool_params", "workload_params", "pattern_params",
                            NULL};
    *r = (request){.threads = 1, .seed = 1, .spin = 1000000};
    return PyArg_ParseTupleAndKeywords(
        args, kwargs, "sss|$iKKOOOO:open", names, &r->pool, &r->workload, &r->pattern, &r->threads,
        &r->seed, &r->spin, &r->cpus, &r->pool_params, &r->workload_params, &r->pattern_params);
}

/* Fills h->cell; 0, or -1 with an exception set. */
static int parse_cell(PyObject *module, handle *h, const request *r)
{
    pb_cell *cell = &h->cell;
    *cell = (pb_cell){.pool = pb_pool_find(r->pool),
                      .workload = pb_workload_find(r->workload),
                      .pattern = pb_pattern_find(r->pattern),
                      .threads = r->threads,
                      .seed = r->seed,
                      .spin_per_ms = r->spin};
    if (cell->pool < 0)
        return bad_name("pool", r->pool), -1;
    if (cell->workload < 0)
        return bad_name("workload", r->workload), -1;
    if (cell->pattern < 0)
        return bad_name("pattern", r->pattern), -1;
    if (r->threads < 1 || r->threads > PB_THREADS_MAX) {
        PyErr_Format(PyExc_ValueError, "threads=%d is out of range 1 ... %d", r->threads,
                     PB_THREADS_MAX);
        return -1;
    }
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
    if (status == PB_TIMED_OUT)
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
        result = Py_BuildValue("(KKKN)", (unsigned long long)w.start_ns, (unsigned long long)w.ns,
                               (unsigned long long)w.cpu_ns,
                               counts_to_list(w.operations, h->cell.threads));
    free(w.operations);
    if (status != PB_OK)
        return failed(module, h, status, &error);
    leave(h);
    return result;
}

static PyObject *account_to_dict(const pb_account *a)
{
    static const char *const outcomes[PB_OUTCOMES] = {"local_hits", "shared_hits", "misses",
                                                      "failed",     "kept",        "overflowed"};
    PyObject *dict = Py_BuildValue(
        "{s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K}", "operations", (unsigned long long)a->operations,
        "constructed", (unsigned long long)a->constructed, "destroyed",
        (unsigned long long)a->destroyed, "idle", (unsigned long long)a->idle, "minor_faults",
        (unsigned long long)a->usage.minor_faults, "major_faults",
        (unsigned long long)a->usage.major_faults, "voluntary_switches",
        (unsigned long long)a->usage.voluntary_switches, "involuntary_switches",
        (unsigned long long)a->usage.involuntary_switches, "peak_rss",
        (unsigned long long)a->usage.peak_rss);
    for (int i = 0; dict && i < PB_OUTCOMES; i++) {
        PyObject *count = PyLong_FromUnsignedLongLong(a->outcomes[i]);
        if (!count || PyDict_SetItemString(dict, outcomes[i], count) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(count);
    }
    return dict;
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
