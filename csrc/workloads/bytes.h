/* SPDX-License-Identifier: MIT
 *
 * workloads/bytes.h (L2) - a plain block of memory: what an allocator does best.
 *
 * Construct: malloc, then zero. Use: write the first and the last byte and read them back; or one
 * byte of each page; or all. Its construction enters no process-wide state but the allocator's.
 *
 * The barrier between malloc and memset is there because compilers merge the two into calloc, which
 * in glibc goes past the per-thread cache (25 ns becomes 37 ns for 1 KiB): which of the two is
 * measured must be the reader's choice (`zero=`), not the compiler's.
 */
#ifndef PB_WORKLOADS_BYTES_H
#define PB_WORKLOADS_BYTES_H

#include <stdlib.h>
#include <string.h>

#include "../workload.h"

enum { BYTES_SIZE, BYTES_ZERO, BYTES_RESET, BYTES_STRIDE };
enum { BYTES_MEMSET, BYTES_CALLOC, BYTES_NONE };
enum { BYTES_HEADER = 64, BYTES_PAGE = 4096 };

static PB_COLD pb_status bytes_open(pb_args *args, const pb_params *params, uint64_t spin_per_ms,
                                    pb_error *error)
{
    (void)error;       /* every combination of values makes an object */
    (void)spin_per_ms; /* nothing here spins */
    const int64_t size = pb_params_get(params, "size");
    const int64_t reset[] = {0, size < BYTES_HEADER ? size : BYTES_HEADER, size};
    const int64_t stride[] = {0, BYTES_PAGE, 1};
    args->arg[BYTES_SIZE] = size;
    args->size = args->idle_hidden = args->block = (size_t)size;
    args->arg[BYTES_ZERO] = pb_params_get(params, "zero");
    args->arg[BYTES_RESET] = reset[pb_params_get(params, "reset")];
    args->arg[BYTES_STRIDE] = stride[pb_params_get(params, "touch")];
    args->has_reset = args->arg[BYTES_RESET] > 0;
    args->extras = args->arg[BYTES_STRIDE] > 0 ? PB_EXTRA_USE : 0;
    return PB_OK;
}

static PB_COLD void bytes_close(pb_args *args)
{
    (void)args; /* nothing shared */
}

/* In given memory, calloc means memset: the memory was used before. */
PB_INLINE bool bytes_init(pb_ctx *ctx, void *memory, const pb_args args)
{
    (void)ctx;
    if (args.arg[BYTES_ZERO] != BYTES_NONE)
        memset(memory, 0, (size_t)args.arg[BYTES_SIZE]);
    return true;
}

PB_INLINE void bytes_fini(pb_ctx *ctx, void *object, const pb_args args)
{
    (void)ctx, (void)object, (void)args; /* nothing to undo */
}

PB_INLINE void *bytes_construct(pb_ctx *ctx, const pb_args args)
{
    (void)ctx;
    const size_t size = (size_t)args.arg[BYTES_SIZE];
    if (args.arg[BYTES_ZERO] == BYTES_CALLOC)
        return calloc(1, size);
    void *object = pb_launder(malloc(size));
    if (object && args.arg[BYTES_ZERO] == BYTES_MEMSET)
        memset(object, 0, size);
    return object;
}

PB_INLINE void bytes_reset(pb_ctx *ctx, void *object, const pb_args args)
{
    (void)ctx;
    memset(object, 0, (size_t)args.arg[BYTES_RESET]);
}

PB_INLINE uint64_t bytes_use(pb_ctx *ctx, void *object, const pb_args args)
{
    (void)ctx;
    unsigned char *b = object;
    const size_t size = (size_t)args.arg[BYTES_SIZE];
    if (args.extras & PB_EXTRA_USE)
        for (size_t i = 0; i < size; i += (size_t)args.arg[BYTES_STRIDE])
            b[i] = (unsigned char)i;
    b[0] = 1;
    b[size - 1] = 2;
    pb_clobber(); /* or the reads below are folded into constants */
    return (uint64_t)b[0] + b[size - 1];
}

PB_INLINE void bytes_destroy(pb_ctx *ctx, void *object, const pb_args args)
{
    (void)ctx;
    (void)args;
    free(object);
}

/* Looks at what reset has zeroed; an object that is never reset is as clean as it will be. */
PB_INLINE bool bytes_is_clean(const void *object, const pb_args args)
{
    const unsigned char *b = object;
    const size_t zeroed = (size_t)args.arg[BYTES_RESET];
    return zeroed == 0 || (b[0] == 0 && memcmp(b, b + 1, zeroed - 1) == 0);
}

#endif
