"""What single pools are there to teach, seen from Python: by what is counted, not by time."""

from __future__ import annotations

import pytest

import poolbench as pb
from poolbench import _core
from poolbench.outcomes import Outcomes
from poolbench.results import Measurement

pytestmark = pytest.mark.workers


def cell(pool: str, pattern: str = "churn", *, threads: int = 1) -> Measurement:
    return pb.measure(pool, workload="bytes(size=64)", pattern=pattern, threads=threads)


def test_a_pool_that_never_serves_is_an_error() -> None:
    """Every object is larger than the largest class: nothing is ever pooled."""
    suite = pb.sweep(
        pool="size_classes(largest=512)",
        workload="bytes(size=1KiB)",
        threads=1,
        blocks=1,
        rounds=2,
        ledger=False,
        progress=False,
    )
    (failed,) = suite.failures
    assert "pool never exercised: none of" in failed.reason


def ageing(think_ns: int) -> Outcomes:
    """A third of a second with that much time between two operations; epochs last 2 ms."""
    run = _core.open(
        "stealing",
        "bytes",
        "churn",
        threads=1,
        pool_params={"epoch_ms": 2},
        pattern_params={"think_ns": think_ns},
    )
    _core.window(run, 0.3)
    return Outcomes.of("stealing", _core.close(run))


def test_what_has_been_idle_for_long_is_gone() -> None:
    """`stealing` drops what two epochs have passed over: the hit rate falls with the gap."""
    busy, idle = ageing(10_000), ageing(20_000_000)
    assert busy.hit_rate > 0.9
    assert idle.hit_rate < 0.3
    assert idle.events["aged"] > 0.3


def test_a_lock_that_is_taken_drops_objects() -> None:
    """One shard for four threads: who finds it taken makes an object that is not kept."""
    one = cell("sharded(shards=1)", threads=4).outcomes
    eight = cell("sharded(shards=8)", threads=4).outcomes
    assert one.released["overflowed"] > 0
    assert one.events["transient"] > 0
    assert eight.released["overflowed"] < one.released["overflowed"]


@pytest.mark.timing
def test_a_scan_costs_what_it_scans() -> None:
    """Each object of a burst is found behind those taken before it; a stack does not care."""
    few, many = "burst(objects=8)", "burst(objects=1024)"
    scan = [cell("slot_scan(capacity=1024)", p).thread_ns.mean for p in (few, many)]
    stack = [cell("treiber(capacity=1024)", p).thread_ns.mean for p in (few, many)]
    assert scan[1] / scan[0] > 3 * stack[1] / stack[0]
