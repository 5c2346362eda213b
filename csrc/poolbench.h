/* SPDX-License-Identifier: MIT
 *
 * poolbench.h (L0) - the public ABI: a kind of object of your own, as one table of functions.
 *
 *   #include <poolbench.h>
 *
 *   static void *make(void *context) { return malloc(4096); }
 *   static void unmake(void *object, void *context) { free(object); }
 *   static uint64_t use(void *object, void *context) { return *(volatile char *)object; }
 *
 *   const poolbench_workload pb_workload = {
 *       .abi = POOLBENCH_ABI, .table_size = sizeof(poolbench_workload), .name = "page",
 *       .construct = make, .destroy = unmake, .use = use,
 *   };
 *
 * Compile as a shared library (cc -shared -fPIC -I"$(python -c 'import poolbench;
 * print(poolbench.get_include())')" ...) and measure it as table(library=./libpage.so).
 *
 * Functions may run on any thread and on many at once; one object is used by one thread at a time.
 * They run without Python. Fields are only ever added at the end, and `table_size` says which are
 * there; `abi` changes when an old table would be misread.
 */
#ifndef POOLBENCH_H
#define POOLBENCH_H

#include <stddef.h>
#include <stdint.h>

#define POOLBENCH_ABI 1u

typedef struct poolbench_workload {
    uint32_t abi;        /* POOLBENCH_ABI */
    uint32_t table_size; /* sizeof(poolbench_workload) */
    const char *name;    /* for messages; may be NULL */
    void *context;       /* handed to every function; may be NULL */

    void *(*construct)(void *context);                  /* a new object, or NULL: it failed */
    void (*destroy)(void *object, void *context);       /* the end of an object */
    uint64_t (*use)(void *object, void *context);       /* some work, and a result to consume */
    void (*reset)(void *object, void *context);         /* as good as new; NULL: nothing to do */
    int (*is_clean)(const void *object, void *context); /* 1 if as good as new; NULL: unknown */
    size_t object_size;                                 /* bytes, to predict memory; 0: unknown */
} poolbench_workload;

#endif
