"""Suites made by hand: rates of known spread per workload, level and arm; nothing is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from matplotlib import pyplot
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from poolbench.results import GroupInfo, Replicate, Window
from poolbench.suite import Suite

Rates = Mapping[str, float | None]  # arm -> M operations/s; None failed
SPREAD = (0.98, 0.99, 1.0, 1.01, 1.02)
CROSSING: Mapping[int, Rates] = {
    1: {"fresh": 10.0, "locked": 40.0, "thread_local": 200.0},
    2: {"fresh": 20.0, "locked": 30.0, "thread_local": 400.0},
    4: {"fresh": 40.0, "locked": 25.0, "thread_local": 800.0},
    8: {"fresh": 41.0, "locked": 24.0, "thread_local": 810.0},
}
SLOW: Mapping[int, Rates] = {
    n: {"fresh": 0.01 * n, "locked": 0.2, "thread_local": 0.5 * n} for n in CROSSING
}


def _replicate(group: str, arm: str, block: int, rate: float | None) -> Replicate:
    """One window of one second."""
    ok = rate is not None
    window = Window(
        start=0.0, seconds=1.0, order=0, operations=(round(rate or 0),), cpu_seconds=1.0
    )
    return Replicate(
        group=group,
        block=block,
        arm=arm,
        key="",
        windows=(window,) if ok else (),
        status="ok" if ok else "failed",
        reason="" if ok else "killed by signal 9",
        account={},
    )


def _suite(
    workloads: Mapping[str, Mapping[int, Rates]],
    *,
    along: str = "threads",
    cpus: int = 4,
    compare: str = "pool",
    spread: Sequence[float] = SPREAD,
    **more: str,
) -> Suite:
    """Rates by workload, level of the axis and arm, each times the spread, from block to block."""
    groups, replicates = {}, []
    for workload, levels in workloads.items():
        for level, arms in levels.items():
            at = {"workload": workload, "pattern": "churn", "threads": "1", **more}
            at[along] = str(level)
            key = " ".join(at.values())
            labels = {arm: arm for arm in arms}
            groups[key] = GroupInfo(key=key, at=at, compare=compare, arms=labels, cpus=cpus)
            for turn, (arm, rate) in enumerate(arms.items()):
                for block in range(len(spread)):
                    factor = spread[(block + turn) % len(spread)]
                    each = None if rate is None else rate * 1e6 * factor
                    replicates.append(_replicate(key, arm, block, each))
    return Suite(groups, replicates, [])


@pytest.fixture
def suite_of() -> Callable[..., Suite]:
    return _suite


@pytest.fixture
def crossing() -> Suite:
    """`locked` wins up to 2 threads and loses from 4 on; `thread_local` always wins; 4 CPUs."""
    return _suite({"bytes": CROSSING})


@pytest.fixture
def two_workloads() -> Suite:
    """The same, and a workload slower by orders of magnitude that never crosses."""
    return _suite({"bytes": CROSSING, "direct": SLOW})


@pytest.fixture(autouse=True)
def _no_figures_left() -> Iterator[None]:
    yield
    pyplot.close("all")


@pytest.fixture
def ax() -> Axes:
    axes: Axes = pyplot.figure(figsize=(3.4, 4), layout="constrained").subplots()
    return axes


@pytest.fixture
def artist(ax: Axes) -> Callable[[str], Any]:
    """Find the one artist of `ax` with that label."""

    def find(label: str) -> Artist:
        (found,) = [a for a in ax.get_children() if a.get_label() == label]
        return found

    return find
