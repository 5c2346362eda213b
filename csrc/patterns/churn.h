/* SPDX-License-Identifier: MIT
 *
 * patterns/churn.h (L2) - acquire, use, hold, release, think; one object at a time.
 *
 * The tight loop every pool advertises with: it shows the cost of borrowing and the ceiling of a
 * lock, and nothing about hand-off, bursts or ageing. `hold_ns` is spent with the object,
 * `think_ns` without. Short waits spin a calibrated number of iterations; long ones sleep, and
 * sleeping is a park point.
 */
#ifndef PB_PATTERNS_CHURN_H
#define PB_PATTERNS_CHURN_H

#include "../clock.h"
#include "../pattern.h"

enum { CHURN_HOLD_SPIN, CHURN_HOLD_SLEEP, CHURN_THINK_SPIN, CHURN_THINK_SLEEP };
enum { CHURN_AUTO, CHURN_SPIN, CHURN_SLEEP };
enum { CHURN_SLEEPS_FROM_NS = 50000 }; /* below, a timer's slack would be the larger part */

/* Splits a wait of `ns` into spin iterations or sleep nanoseconds. */
static PB_COLD void churn_wait(pb_pattern *p, int spin, int64_t ns, int64_t how,
                               uint64_t spin_per_ms)
{
    const bool sleeps = how == CHURN_SLEEP || (how == CHURN_AUTO && ns >= CHURN_SLEEPS_FROM_NS);
    p->arg[spin] = sleeps ? 0 : (int64_t)pb_spin_iterations((uint64_t)ns, spin_per_ms);
    p->arg[spin + 1] = sleeps ? ns : 0;
}

static PB_COLD void churn_open(pb_pattern *p, const pb_params *params, uint64_t spin_per_ms)
{
    const int64_t how = pb_params_get(params, "hold");
    p->live = 1;
    churn_wait(p, CHURN_HOLD_SPIN, pb_params_get(params, "hold_ns"), how, spin_per_ms);
    churn_wait(p, CHURN_THINK_SPIN, pb_params_get(params, "think_ns"), how, spin_per_ms);
}

PB_INLINE void churn_pause(pb_ctx *ctx, uint64_t spin, uint64_t sleep_ns)
{
    pb_spin(spin);
    if (sleep_ns > 0)
        pb_sleep(ctx, sleep_ns);
}

/* `n` attempts; returns how many failed to acquire. */
PB_INLINE uint64_t churn_batch(pb_ctx *ctx, const pb_pool_calls pool, const pb_functions *w,
                               const pb_args *args, const pb_pattern p, const uint64_t n)
{
    uint64_t failed = 0, sum = 0;
    for (uint64_t i = n; i > 0; i--) {
        const pb_held held = pb_acquire(ctx, pool, w, args);
        if (PB_UNLIKELY(held.object == NULL)) {
            failed++;
            continue;
        }
        sum = pb_settle(sum + pb_use(ctx, held.object, w, args));
        churn_pause(ctx, (uint64_t)p.arg[CHURN_HOLD_SPIN], (uint64_t)p.arg[CHURN_HOLD_SLEEP]);
        pb_release(ctx, held, pool, w, args);
        churn_pause(ctx, (uint64_t)p.arg[CHURN_THINK_SPIN], (uint64_t)p.arg[CHURN_THINK_SLEEP]);
    }
    ctx->sink += sum;
    return failed;
}

/* Whether all optional behaviour is absent, and the pattern with that known to the compiler. */
PB_INLINE bool churn_is_plain(const pb_pattern *p)
{
    return (p->arg[CHURN_HOLD_SPIN] | p->arg[CHURN_HOLD_SLEEP] | p->arg[CHURN_THINK_SPIN] |
            p->arg[CHURN_THINK_SLEEP]) == 0;
}

PB_INLINE pb_pattern churn_plain(const pb_pattern p)
{
    (void)p; /* nothing in it but waits, and there are none */
    return (pb_pattern){.arg = {0}, .live = 1};
}

PB_INLINE void churn_run(pb_ctx *ctx, const pb_pool_calls pool, const pb_functions *w,
                         const pb_args *args, const pb_pattern p)
{
    do {
        const uint64_t n = ctx->batch;
        ctx->operations += n - churn_batch(ctx, pool, w, args, p, n);
    } while (pb_keep_running(ctx));
}

#endif
