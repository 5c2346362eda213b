"""One cell's replicates as a `Measurement`: intervals over processes, sums of counts, warnings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from poolbench.results import Estimate, GroupInfo, Ledger, Measurement, Replicate

if TYPE_CHECKING:
    from poolbench.stats.interval import Interval


def measured(
    group: GroupInfo,
    label: str,
    replicates: Sequence[Replicate],
    ledger: Ledger | None,
    level: float,
) -> Measurement:
    """Return what the replicates of one arm, and its ledger, say about its cell at `level`."""
    from poolbench.stats.fairness import jain_index, thread_share
    from poolbench.stats.interval import jmh_error, mean_interval

    ok = [r for r in replicates if r.ok]
    ran = [r for r in ok if r.throughput > 0]
    cell = group.cell(label)
    threads = int(cell["threads"])
    throughput = _estimate(mean_interval([r.throughput for r in ok], level=level))
    return Measurement(
        cell=cell,
        throughput=throughput,
        thread_ns=_inverse(throughput, threads * 1e9),
        cpu_ns=_estimate(mean_interval([r.cpu_ns for r in ran], level=level)),
        jmh_error=jmh_error([w.rate for r in ok for w in r.windows], level=level),
        account=_sum_accounts(ok),
        ledger=ledger,
        share=_estimate(
            mean_interval([thread_share(r.thread_operations) for r in ran], level=level)
        ),
        jain=_estimate(mean_interval([jain_index(r.thread_operations) for r in ran], level=level)),
        faults_per_op=_per_operation(ok, "faults"),
        switches_per_op=_per_operation(ok, "switches"),
        failures=tuple(r.reason for r in replicates if not r.ok),
        warnings=tuple(_warnings(replicates, ok)),
        oversubscribed=threads > group.cpus,
    )


def _per_operation(replicates: Sequence[Replicate], what: str) -> float:
    """Faults or switches of all windows, per operation; nan without operations."""
    windows = [w for r in replicates for w in r.windows]
    operations = sum(sum(w.operations) for w in windows)
    return sum(getattr(w, what) for w in windows) / operations if operations else math.nan


def _estimate(i: Interval) -> Estimate:
    return Estimate(mean=i.mean, low=i.low, high=i.high, n=i.n, level=i.level)


def _inverse(e: Estimate, scale: float) -> Estimate:
    """scale / e; the ends of the interval change places."""
    low, high = (scale / v if v > 0 else math.inf for v in (e.high, e.low))
    if math.isnan(e.low):
        low = high = math.nan
    mean = scale / e.mean if e.mean > 0 else math.nan
    return Estimate(mean=mean, low=low, high=high, n=e.n, level=e.level)


_LARGEST = ("peak_rss", "longest_wait_ns")


def _sum_accounts(replicates: Iterable[Replicate]) -> dict[str, int]:
    """Counts of all replicates; of peaks and waits the largest, not the sum."""
    total: dict[str, int] = {}
    for r in replicates:
        for name, count in r.account.items():
            before = total.get(name, 0)
            total[name] = max(before, count) if name in _LARGEST else before + count
    return total


def _warnings(replicates: Sequence[Replicate], ok: Sequence[Replicate]) -> Iterable[str]:
    from poolbench.stats.interval import two_modes

    if len(ok) < len(replicates):
        reason = next(r.reason for r in replicates if not r.ok)
        yield f"{len(replicates) - len(ok)} of {len(replicates)} replicates failed: {reason}"
    if len(ok) < 5:
        yield f"only {len(ok)} replicates: the interval is wide"
    modes = two_modes([r.throughput for r in ok]) if ok else None
    if modes:
        yield (
            f"bimodal: {modes.n_low} replicates near {modes.low:.3g}/s, "
            f"{modes.n_high} near {modes.high:.3g}/s"
        )
