"""The shape of the founding experiment on two CPUs, as directions with a cannot-tell way out.

Two thread counts are compared like two pools, so that each growth is a ratio with an interval. A
test fails only when the interval lies wholly on the wrong side; where it lies on both, it skips and
says so.
"""

from __future__ import annotations

import os

import pytest

import poolbench as pb

pytestmark = [
    pytest.mark.workers,
    pytest.mark.timing,
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs"),
]


@pytest.fixture(scope="module")
def growth() -> dict[tuple[str, str], pb.Estimate]:
    """Throughput at 2 threads over that at 1, by workload and pool."""
    suite = pb.sweep(
        pool=["thread_local", "locked", "fresh"],
        workload=["bytes(size=1KiB)", "direct"],
        threads=[1, 2],
        compare="threads",
        blocks=6,
        ledger=False,
        progress=False,
    )
    return {(c.at["workload"], c.at["pool"]): c.ratio for c in suite.compare()}


def check(ratio: pb.Estimate, *, right: bool, wrong: bool) -> None:
    assert not wrong, f"the opposite of what is expected: {ratio}"
    if not right:
        pytest.skip(f"cannot tell here: {ratio}")


@pytest.mark.parametrize("workload", ["bytes", "direct"])
def test_thread_local_objects_scale(
    growth: dict[tuple[str, str], pb.Estimate], workload: str
) -> None:
    ratio = growth[workload, "thread_local"]
    check(ratio, right=ratio.low > 1, wrong=ratio.high < 1)


@pytest.mark.parametrize("workload", ["bytes", "direct"])
def test_a_locked_pool_does_not_scale(
    growth: dict[tuple[str, str], pb.Estimate], workload: str
) -> None:
    ratio = growth[workload, "locked"]
    check(ratio, right=ratio.high < 1.2, wrong=ratio.low > 1.2)


def test_fresh_blocks_scale(growth: dict[tuple[str, str], pb.Estimate]) -> None:
    ratio = growth["bytes", "fresh"]
    check(ratio, right=ratio.low > 1, wrong=ratio.high < 1)


def test_objects_that_enter_global_state_scale_less_than_plain_blocks(
    growth: dict[tuple[str, str], pb.Estimate],
) -> None:
    plain, registered = growth["bytes", "fresh"], growth["direct", "fresh"]
    check(registered, right=registered.high < plain.low, wrong=registered.low > plain.high)
