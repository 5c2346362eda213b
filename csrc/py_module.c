/* SPDX-License-Identifier: MIT
 *
 * py_module.c (L6) - poolbench._core: what was built, what there is, and the clock.
 *
 * Multi-phase initialisation, state in the module, no static Python objects, no numpy. Compiles
 * under the limited API of CPython 3.11. Python never runs inside a replicate: see py_run.c.
 */
#include "py_module.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <limits.h>
#include <signal.h>
#include <stdio.h>

#include "clock.h"
#include "registry.h"

#ifndef PB_BUILD_FLAGS
#define PB_BUILD_FLAGS "unknown" /* setup.py passes the real ones */
#endif

#ifdef __clang__
#define PB_COMPILER __VERSION__ /* already says "Clang" */
#else
#define PB_COMPILER "GCC " __VERSION__
#endif

#ifdef __OPTIMIZE__
#define PB_OPTIMIZED 1
#else
#define PB_OPTIMIZED 0
#endif

#ifdef NDEBUG
#define PB_ASSERTIONS 0
#else
#define PB_ASSERTIONS 1
#endif

#if defined(__SANITIZE_ADDRESS__)
#define PB_SANITIZER "address"
#elif defined(__SANITIZE_THREAD__)
#define PB_SANITIZER "thread"
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PB_SANITIZER "address"
#elif __has_feature(thread_sanitizer)
#define PB_SANITIZER "thread"
#endif
#endif
#ifndef PB_SANITIZER
#define PB_SANITIZER ""
#endif

#ifdef Py_GIL_DISABLED
#define PB_FREE_THREADED 1
#else
#define PB_FREE_THREADED 0
#endif

PyObject *pb_raise(PyObject *module, pb_status status, const pb_error *error)
{
    const module_state *state = PyModule_GetState(module);
    PyObject *type = status == PB_BAD_VALUE   ? PyExc_ValueError
                     : status == PB_NO_MEMORY ? PyExc_MemoryError
                                              : state->error;
    PyErr_SetString(type, error->text);
    return NULL;
}

static PyObject *build_info(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return Py_BuildValue("{s:s,s:s,s:O,s:O,s:s,s:O,s:s}", "compiler", PB_COMPILER, "flags",
                         PB_BUILD_FLAGS, "optimized", PB_OPTIMIZED ? Py_True : Py_False,
                         "assertions", PB_ASSERTIONS ? Py_True : Py_False, "sanitizer",
                         PB_SANITIZER, "free_threaded", PB_FREE_THREADED ? Py_True : Py_False,
                         "python", PY_VERSION);
}

/* One parameter as (name, kind, default, low, high, choices or None, summary). */
static PyObject *describe_param(const pb_param *p)
{
    static const char *const kinds[] = {"count", "size", "time", "period", "choice", "text"};
    return Py_BuildValue("(ssLLLzs)", p->name, kinds[p->kind], (long long)p->initial,
                         (long long)p->low, (long long)p->high, p->choices, p->summary);
}

static PyObject *describe_params(const pb_described *d)
{
    pb_params named; /* drops the nameless entry of a line without parameters */
    pb_params_init(&named, d->params, d->param_count);
    PyObject *list = PyList_New(named.count);
    for (int i = 0; list && i < named.count; i++) {
        PyObject *param = describe_param(&d->params[i]);
        if (!param || PyList_SetItem(list, i, param) < 0)
            Py_CLEAR(list);
    }
    return list;
}

/* One list line as (name, summary, extra, params); extra: (traits, outcomes) of a pool,
 * (traits, enters) of a workload, two empty texts of a pattern.
 */
static int append_line(PyObject *list, const pb_described *d, PyObject *extra)
{
    PyObject *params = extra ? describe_params(d) : NULL;
    PyObject *line = params ? Py_BuildValue("(ssOO)", d->name, d->summary, extra, params) : NULL;
    const int failed = line ? PyList_Append(list, line) : -1;
    Py_XDECREF(line);
    Py_XDECREF(params);
    Py_XDECREF(extra);
    return failed;
}

/* Names of the bits of `traits`, lowest first, as "a|b|". */
static PyObject *trait_names(uint32_t traits, const char *const *names, int count)
{
    char text[256] = "";
    size_t used = 0;
    for (int i = 0; i < count; i++)
        if (traits >> i & 1 && used < sizeof text)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s|", names[i]);
    return PyUnicode_FromString(text);
}

/* (traits, outcomes) of a pool. */
static PyObject *describe_pool(const pb_pool_entry *p)
{
    static const char *const names[] = {"holds_many",       "remote_release",  "constructs_always",
                                        "in_place",         "needs_shareable", "burst_only",
                                        "waits_for_objects"};
    return Py_BuildValue("(NN)", trait_names(p->traits, names, 7),
                         trait_names(p->outcomes, pb_outcome_names, PB_OUTCOMES));
}

/* (traits, enters) of a workload, two empty texts of a pattern. */
static PyObject *describe_traits(const pb_workload_entry *w)
{
    static const char *const names[] = {"placeable", "shareable"};
    return Py_BuildValue("(Ns)", trait_names(w->traits, names, 2), w->enters);
}

static PyObject *list_pools(void)
{
    PyObject *list = PyList_New(0);
    for (int i = 0; list && i < PB_POOL_COUNT; i++)
        if (append_line(list, &pb_pools[i].is, describe_pool(&pb_pools[i])) < 0)
            Py_CLEAR(list);
    return list;
}

static PyObject *list_workloads(void)
{
    PyObject *list = PyList_New(0);
    for (int i = 0; list && i < PB_WORKLOAD_COUNT; i++)
        if (append_line(list, &pb_workloads[i].is, describe_traits(&pb_workloads[i])) < 0)
            Py_CLEAR(list);
    return list;
}

static PyObject *list_patterns(void)
{
    PyObject *list = PyList_New(0);
    for (int i = 0; list && i < PB_PATTERN_COUNT; i++)
        if (append_line(list, &pb_patterns[i].is, Py_BuildValue("(ss)", "", "")) < 0)
            Py_CLEAR(list);
    return list;
}

static PyObject *registry(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return Py_BuildValue("(NNN)", list_pools(), list_workloads(), list_patterns());
}

static PyObject *calibrate(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    uint64_t spin;
    double cost;
    Py_BEGIN_ALLOW_THREADS;
    spin = pb_spin_calibrate();
    cost = pb_clock_cost_ns();
    Py_END_ALLOW_THREADS;
    return Py_BuildValue("(Kd)", (unsigned long long)spin, cost);
}

static PyObject *become_worker(PyObject *module, PyObject *args)
{
    (void)module;
    long parent = 0;
    if (!PyArg_ParseTuple(args, "l:become_worker", &parent))
        return NULL;
    if (parent <= 0 || parent > INT_MAX) {
        PyErr_Format(PyExc_ValueError, "parent=%ld is no process", parent);
        return NULL;
    }
    (void)signal(SIGINT, SIG_IGN); /* cannot fail for SIGINT */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    if (getppid() != parent) /* it died before the line above: nobody will signal us */
        _exit(1);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"build_info", build_info, METH_NOARGS,
     "build_info()\n--\n\nReturn a dict: compiler, flags, optimized, assertions, sanitizer, "
     "free_threaded, python."},
    {"registry", registry, METH_NOARGS,
     "registry()\n--\n\nReturn (pools, workloads, patterns): lists of (name, summary, extra, "
     "params)."},
    {"calibrate", calibrate, METH_NOARGS,
     "calibrate()\n--\n\nMeasure (spin iterations per millisecond, nanoseconds of one clock "
     "read)."},
    {"become_worker", become_worker, METH_VARARGS,
     "become_worker(parent)\n--\n\nIgnore Ctrl-C, and die when the process `parent` dies."},
    {"open", (PyCFunction)(void (*)(void))pb_py_open, METH_VARARGS | METH_KEYWORDS,
     "open(pool, workload, pattern, *, threads, seed, spin, cpus, pool_params, workload_params, "
     "pattern_params, memory, counted, checked)\n--\n\nOpen a live replicate, parked; return its "
     "handle."},
    {"warm", pb_py_warm, METH_VARARGS,
     "warm(run, seconds)\n--\n\nRun unmeasured and calibrate; return (operations/s, batch)."},
    {"window", pb_py_window, METH_VARARGS,
     "window(run, seconds)\n--\n\nRun one window; return (start_ns, ns, cpu_ns, operations per "
     "thread, (minor faults, major faults, voluntary, involuntary switches))."},
    {"count_pass", pb_py_count_pass, METH_VARARGS,
     "count_pass(run, attempts)\n--\n\nRun exactly so many attempts per thread, untimed; return a "
     "dict of counts."},
    {"close", pb_py_close, METH_VARARGS,
     "close(run)\n--\n\nClose the replicate; return its account, a dict of counts."},
    {NULL, NULL, 0, NULL},
};

static int module_exec(PyObject *module)
{
    module_state *state = PyModule_GetState(module);
    state->error = PyErr_NewExceptionWithDoc(
        "poolbench.Error", "A replicate failed although its input was fine.", NULL, NULL);
    if (!state->error)
        return -1;
    return PyModule_AddObjectRef(module, "Error", state->error);
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
    module_state *state = PyModule_GetState(module);
    Py_VISIT(state->error);
    return 0;
}

static int module_clear(PyObject *module)
{
    module_state *state = PyModule_GetState(module);
    Py_CLEAR(state->error);
    return 0;
}

static void module_free(void *module)
{
    (void)module_clear((PyObject *)module); /* always 0 */
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)(uintptr_t)module_exec},
#ifdef Py_mod_multiple_interpreters
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
#ifdef Py_mod_gil
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "_core",
    .m_doc = "The C core of poolbench: pools, workloads, patterns, and live replicates of them.",
    .m_size = sizeof(module_state),
    .m_methods = methods,
    .m_slots = slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
    .m_free = module_free,
};

PyMODINIT_FUNC PyInit__core(void); /* the one name the dynamic loader looks for */

PyMODINIT_FUNC PyInit__core(void)
{
    return PyModuleDef_Init(&definition);
}
