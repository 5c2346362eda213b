/* SPDX-License-Identifier: MIT
 *
 * ledger.h (L4) - the counting side of a replicate: owners, counts, and a workload that is counted.
 *
 * Works in a process that was started with the counting allocator in front; elsewhere
 * pb_ledger_present is false and the owner calls do nothing.
 */
#ifndef PB_LEDGER_H
#define PB_LEDGER_H

#include "base.h"
#include "count.h"
#include "workload.h"
#include "workloads/table.h"

/* True where the counting allocator is loaded. */
bool pb_ledger_present(void);

/* Books this thread's allocations on `owner` from now on. */
void pb_ledger_own(pb_owner owner);

/* All counts so far; zero where nothing is counted. */
void pb_ledger_read(pb_counts *out);

/* Makes `args` those of a table workload that does what `inner` does, each call booked on the
   workload. `shared` and `inner` must outlive it. */
void pb_ledger_wrap(pb_args *args, table_shared *shared, const pb_workload *inner);

/* The context that wrapped calls on this thread hand to the inner workload. */
void pb_ledger_enter(pb_ctx *ctx);

#endif
