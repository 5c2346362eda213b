/* SPDX-License-Identifier: MIT
 *
 * py_module.h (L6) - what the two halves of the binding share: module state and error mapping.
 */
#ifndef PB_PY_MODULE_H
#define PB_PY_MODULE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "base.h"

typedef struct module_state {
    PyObject *error; /* poolbench._core.Error: a replicate failed, its input being fine */
} module_state;

/* Raises what belongs to `status` (not PB_OK) with the sentence of `error`; returns NULL. */
PyObject *pb_raise(PyObject *module, pb_status status, const pb_error *error);

/* py_run.c: open, warm, window, close. */
PyObject *pb_py_open(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *pb_py_warm(PyObject *module, PyObject *args);
PyObject *pb_py_window(PyObject *module, PyObject *args);
PyObject *pb_py_count_pass(PyObject *module, PyObject *args);
PyObject *pb_py_close(PyObject *module, PyObject *args);

#endif
