"""Checked mode from Python: an axis like any other, and a price that is a ratio."""

from __future__ import annotations

import pytest

from poolbench import _core, figures, plan, report, spec
from poolbench.runner import sweep

PLAN = {"pool": ["locked"], "workload": "bytes", "compare": "checked", "cpus": [0, 1]}


@pytest.mark.parametrize("given", ["off,on", ["off", "on"], [False, True], [0, 1]])
def test_it_is_an_axis(given: object) -> None:
    planned = plan.make_plan(**PLAN, params={"checked": given})  # type: ignore[arg-type]
    (group,) = planned.groups
    assert [(a.label, a.cell.checked) for a in group.arms] == [("off", False), ("on", True)]
    assert group.arms[0].cell.canonical != group.arms[1].cell.canonical


def test_unchecked_cells_are_called_what_they_were() -> None:
    off = plan.make_plan(**PLAN, params={"checked": "off,on"}).groups[0].arms[0]  # type: ignore[arg-type]
    plain = plan.make_plan(pool="locked", workload="bytes", cpus=[0, 1]).groups[0].arms[0]
    assert off.cell.canonical == plain.cell.canonical


def test_a_wrong_value_is_told_the_choices() -> None:
    with pytest.raises(ValueError, match="checked=maybe: choose from off, on"):
        plan.make_plan(**PLAN, params={"checked": "maybe"})  # type: ignore[arg-type]


def test_pools_without_owners_cannot_be_checked() -> None:
    for name, entry in spec.pools().items():
        if "needs_shareable" not in entry.traits:
            continue
        with pytest.raises(ValueError, match="has no owners"):
            plan.make_plan(pool=name, workload="widget", params={"checked": "on"}, cpus=[0])
        with pytest.raises(ValueError, match="has no owners"):
            _core.open(name, "widget", "churn", threads=1, checked=True)


@pytest.mark.workers
def test_every_pool_passes_its_checks() -> None:
    pools = [n for n, e in spec.pools().items() if not e.traits & {"needs_shareable", "burst_only"}]
    suite = sweep(
        pool=pools,
        workload="bytes(reset=full,size=64)",
        threads=3,
        checked=True,
        blocks=1,
        rounds=2,
        ledger=False,
        progress=False,
    )
    assert suite.failures == []
    assert all(m.throughput.mean > 0 for m in suite.summary())


@pytest.mark.workers
@pytest.mark.timing
def test_its_price_is_a_ratio() -> None:
    suite = sweep(
        pool="thread_cache",
        workload="bytes",
        threads=1,
        compare="checked",
        checked=[False, True],
        blocks=5,
        rounds=4,
        progress=False,
    )
    (price,) = suite.compare("off")
    assert price.arm == "on"
    assert price.ratio.mean < 0.9, "a 2 ns operation cannot be checked for nothing"
    assert f"checked, {figures.interval(price.ratio, unit='x')} of the throughput is left" in (
        report.sweep_text(suite)
    )
