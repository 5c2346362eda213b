/* SPDX-License-Identifier: MIT
 *
 * replicate.h - live replicates in tests: opened, closed, and their accounts balanced.
 *
 *   pb_run *run = replicate_open(&cell);    a cell that does not open is the test's own mistake
 *   pb_account a = replicate_close(run);    conservation is checked
 *   replicate_check_outcomes(&a);
 */
#ifndef PB_TEST_REPLICATE_H
#define PB_TEST_REPLICATE_H

#include "cell.h"
#include "check.h"
#include "run.h"

static inline pb_run *replicate_open(const pb_cell *cell)
{
    pb_run *run;
    pb_error error = {""};
    if (!CHECK_EQ(pb_run_open(&run, cell, &error), PB_OK))
        cell_mistake(error.text);
    return run;
}

static inline pb_account replicate_close(pb_run *run)
{
    pb_account a;
    pb_error error = {""};
    if (!CHECK_EQ(pb_run_close(run, &a, &error), PB_OK))
        (void)printf("    %s\n", error.text);
    CHECK_EQ(a.constructed, a.destroyed + a.idle);
    CHECK_EQ(a.retained, 0);
    return a;
}

/* Every acquire and every release of a completed operation has one outcome. */
static inline void replicate_check_outcomes(const pb_account *a)
{
    const uint64_t *n = a->outcomes;
    CHECK_EQ(n[PB_LOCAL_HIT] + n[PB_SHARED_HIT] + n[PB_STOLEN] + n[PB_WAITED] + n[PB_CONSTRUCTED],
             a->operations);
    CHECK_EQ(n[PB_KEPT] + n[PB_SPILLED] + n[PB_DESTROYED] + n[PB_HANDED_OVER], a->operations);
    CHECK(n[PB_LOCAL_HIT] <= a->operations && n[PB_KEPT] <= a->operations); /* no wrap below 0 */
    CHECK_EQ(n[PB_REFUSED], 0);
}

#endif
