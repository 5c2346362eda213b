/* SPDX-License-Identifier: MIT
 *
 * kernel_count.c - runs the thread_local x bytes x churn kernel for exactly N operations, for an
 * instruction counter.
 *
 *   kernel_count N
 *
 * The batch is N, and the run is closing before it begins: the kernel returns at its first look at
 * the epoch.
 */
#define _GNU_SOURCE
#include "cell.h"

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    const pb_cell cell = cell_of("thread_local", "bytes", "churn", 1);
    parts p;
    parts_open(&p, &cell, NULL);
    pb_ctx *ctx = parts_attach(&p, 0);
    if (!ctx)
        return 2;
    ctx->batch = (uint32_t)strtoul(argv[1], NULL, 10);
    pb_store_relaxed_u32(&p.control.epoch, 1);   /* news, */
    pb_store_relaxed_u32(&p.control.closing, 1); /* namely the end; relaxed: there is one thread */
    p.class->kernels[cell.workload][cell.pattern](ctx);
    const bool done = ctx->operations == ctx->batch;
    parts_detach(&p, 0);
    return parts_close(&p) == 0 && done ? 0 : 1;
}
