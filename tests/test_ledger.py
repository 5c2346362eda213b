"""Ledgers: what cells allocate, hit and keep, counted exactly, and where it is shown."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import poolbench as pb
from poolbench import report
from poolbench.journal import Contents
from poolbench.records import ledger_of, ledger_record
from poolbench.results import Ledger, Measurement
from poolbench.suite import Suite

MakeSuite = Callable[..., Suite]
workers = pytest.mark.workers
pytestmark = pytest.mark.usefixtures("long_windows")
COLUMNS = [
    "allocations_per_op", "bytes_per_op", "hit_rate", "setup_allocations", "setup_bytes",
    "peak_bytes", "retained_bytes",
]  # fmt: skip
LINE = Ledger(
    group="g",
    arm="locked",
    key="k",
    status="ok",
    reason="",
    counts={
        "operations": 1000,
        "local_hits": 100,
        "shared_hits": 650,
        "misses": 200,
        "failed": 50,
        "steady_pool_allocations": 100,
        "steady_pool_bytes": 3000,
        "steady_workload_allocations": 200,
        "steady_workload_bytes": 12800,
        "steady_harness_allocations": 7,
        "steady_harness_bytes": 7000,
    },
    account={
        "setup_pool_allocations": 2,
        "setup_pool_bytes": 384,
        "setup_workload_allocations": 3,
        "setup_workload_bytes": 192,
        "setup_harness_allocations": 20,
        "setup_harness_bytes": 9000,
        "peak_bytes": 5000,
        "retained_bytes": 4000,
    },
)


# ---- without workers -----------------------------------------------------------------------------


def test_counts_are_per_operation_and_the_harness_is_left_out() -> None:
    assert LINE.allocations_per_op == pytest.approx(0.3)
    assert LINE.bytes_per_op == pytest.approx(15.8)
    assert LINE.steady("allocations", "harness") == pytest.approx(0.007)


def test_setup_is_what_pool_and_workload_allocated() -> None:
    assert (LINE.setup_allocations, LINE.setup_bytes) == (5, 576)
    assert LINE.setup("bytes", "harness") == 9000


def test_hits_are_of_all_that_got_or_wanted_an_object() -> None:
    assert LINE.hit_rate == pytest.approx(0.75)
    assert math.isnan(replace(LINE, counts={"operations": 10}).hit_rate)


def test_a_ledger_without_operations_is_not_ok() -> None:
    assert LINE.ok
    assert not replace(LINE, counts={"operations": 0}).ok
    assert not replace(LINE, status="failed").ok


def test_a_ledger_is_a_line_and_back() -> None:
    assert ledger_of(ledger_record(LINE)) == LINE


@pytest.mark.parametrize(
    "damage",
    [{"group": None, "counts": 3}, {"account": None}, {"counts": {"operations": "many"}}],
    ids=str,
)
def test_a_malformed_ledger_is_left_out(damage: dict[str, Any]) -> None:
    assert ledger_of({**ledger_record(LINE), **damage}) is None
    assert ledger_of({}) is None


def with_ledgers(suite: Suite, *ledgers: Ledger) -> Suite:
    replicates = [
        r for k, g in suite.groups.items() for a in g.arms for r in suite.replicates(k, a)
    ]
    return Suite(suite.groups, replicates, suite.headers, ledgers=ledgers, notes=suite.notes)


@pytest.fixture
def planted(make_suite: MakeSuite) -> Suite:
    """One group of two arms, of which `locked` has a ledger."""
    suite = make_suite({("fresh", 1): 1e7, ("locked", 1): 2e7}, spread=0.0)
    (group,) = suite.groups
    return with_ledgers(suite, replace(LINE, group=group))


def test_columns_of_a_ledger_are_those_of_every_cell(planted: Suite) -> None:
    fresh, locked = planted.rows(level="cell")
    assert all(math.isnan(fresh[name]) for name in COLUMNS)
    assert [locked[name] for name in COLUMNS] == pytest.approx(
        [0.3, 15.8, 0.75, 5, 576, 5000, 4000]
    )


def test_a_measurement_says_its_ledger_in_a_line(planted: Suite) -> None:
    fresh, locked = planted.summary()
    assert fresh.ledger is None
    assert "allocations" not in str(fresh)
    assert str(locked).splitlines()[3] == (
        "  0.300 allocations and 15.8 bytes per operation, 75.0 % hits; setup 5 allocations, "
        "576 bytes; peak 5000, retained 4000 bytes"
    )


def test_tables_show_ledgers(planted: Suite) -> None:
    text = report.sweep_text(planted)
    assert text.splitlines()[1].split("verdict")[1].split() == [
        "allocs/op", "bytes/op", "setup", "bytes", "retained",
    ]  # fmt: skip
    (line,) = [x for x in text.splitlines() if x.startswith("1        locked")]
    assert line.split("wins")[1].split() == ["0.300", "15.8", "576", "4000"]
    assert "allocations_per_op" in repr(planted.summary())


def test_tables_without_ledgers_have_no_such_columns(make_suite: MakeSuite) -> None:
    assert "allocations_per_op" not in repr(make_suite({("fresh", 1): 1e7}).summary())


def test_a_ledger_of_another_group_is_left_out(planted: Suite) -> None:
    assert with_ledgers(planted, replace(LINE, group="nowhere")).failures == []
    assert [m.ledger for m in with_ledgers(planted, LINE).summary()] == [None, None]


def test_a_saved_ledger_loads_as_it_was(planted: Suite, tmp_path: Path) -> None:
    planted.save(tmp_path / "run.jsonl")
    found = pb.load(tmp_path / "run.jsonl")
    assert repr(found.rows(level="cell")) == repr(planted.rows(level="cell"))
    assert [m.ledger for m in found.summary()] == [m.ledger for m in planted.summary()]


def test_the_last_ledger_of_a_cell_counts(planted: Suite) -> None:
    (group,) = planted.groups
    lines = [replace(LINE, group=group, status=s, reason=s) for s in ("failed", "ok")]
    contents = Contents(headers=planted.headers, ledgers=[ledger_record(x) for x in lines])  # type: ignore[arg-type]
    found = Suite.from_contents(contents).ledger(group, "locked")
    assert found is not None
    assert found.ok


def test_a_failed_ledger_is_a_failure_and_a_warning(planted: Suite) -> None:
    (group,) = planted.groups
    broken = replace(LINE, group=group, status="failed", reason="ran away", counts={}, account={})
    suite = with_ledgers(planted, broken)
    assert suite.failures == [broken]
    assert "warning: ledger of locked, bytes, churn, 1 thread: ran away" in report.sweep_text(suite)
    assert math.isnan(suite.rows(level="cell")[1]["hit_rate"])


def test_a_selection_keeps_its_ledgers(planted: Suite) -> None:
    (locked,) = planted.select(pool="locked").summary()
    assert locked.ledger is not None
    assert locked.ledger.retained_bytes == 4000


# ---- books of real cells -------------------------------------------------------------------------


def book(**axes: Any) -> dict[tuple[str, ...], Measurement]:
    """Measurements with ledgers, by pool, pattern and threads."""
    suite = pb.sweep(**axes, blocks=1, rounds=1, progress=False)
    assert suite.failures == []
    return {(m.cell["pool"], m.cell["pattern"], m.cell["threads"]): m for m in suite.summary()}


def ledger_of_cell(m: Measurement) -> Ledger:
    assert m.ledger is not None
    assert m.ledger.ok
    return m.ledger


@pytest.fixture(scope="module")
def blocks(long_windows: float) -> dict[tuple[str, ...], Ledger]:
    """The book of the founding experiment: blocks of 1 KiB, made anew or taken from a pool."""
    pools = ["fresh", "thread_local", "locked", "thread_cache"]
    found = book(pool=pools, workload="bytes(size=1KiB)", threads=[1, 2])
    return {key: ledger_of_cell(m) for key, m in found.items()}


@workers
@pytest.mark.parametrize("threads", ["1", "2"])
def test_a_fresh_block_is_one_allocation_of_its_size(
    blocks: dict[tuple[str, ...], Ledger], threads: str
) -> None:
    fresh = blocks["fresh", "churn", threads]
    assert (fresh.allocations_per_op, fresh.bytes_per_op) == (1.0, 1024.0)
    assert fresh.steady("allocations", "pool") == 0
    assert (fresh.setup_allocations, fresh.setup_bytes) == (0, 0)
    assert (fresh.hit_rate, fresh.retained_bytes) == (0.0, 0)
    assert 1024 <= fresh.peak_bytes < 1200 * int(threads)  # objects of threads that met


@workers
@pytest.mark.parametrize("pool", ["thread_local", "locked", "thread_cache"])
@pytest.mark.parametrize("threads", ["1", "2"])
def test_a_pooled_block_allocates_nothing_in_steady_state(
    blocks: dict[tuple[str, ...], Ledger], pool: str, threads: str
) -> None:
    pooled = blocks[pool, "churn", threads]
    # Threads that never met while the shared pool warmed up may each need one object yet.
    late = pooled.counts["misses"]
    assert late <= (int(threads) - 1 if pool == "locked" else 0)
    assert pooled.counts["steady_workload_allocations"] == late
    assert pooled.counts["steady_workload_bytes"] == 1024 * late
    assert pooled.steady("allocations", "pool") == pooled.steady("allocations", "harness") == 0
    assert pooled.hit_rate == 1.0 - late / pooled.counts["operations"]
    objects = pooled.account["idle"]
    assert 1 <= objects <= int(threads)
    assert objects * 1024 <= pooled.retained_bytes <= pooled.peak_bytes


@workers
def test_a_thread_local_pool_constructs_its_objects_as_threads_attach(
    blocks: dict[tuple[str, ...], Ledger],
) -> None:
    local = blocks["thread_local", "churn", "2"]
    assert (local.setup("allocations", "workload"), local.setup("bytes", "workload")) == (2, 2048)
    assert local.setup("allocations", "pool") == 0


@pytest.fixture(scope="module")
def widgets(long_windows: float) -> dict[tuple[str, ...], Measurement]:
    """The book of the second experiment: 56-byte objects, from malloc or in a block of slots."""
    patterns = ["churn", "steady(live=64)"]
    return book(pool=["fresh", "slab"], workload="widget", pattern=patterns, threads=1)


@workers
@pytest.mark.parametrize("pattern", ["churn", "steady(live=64)"])
def test_a_slab_allocates_once_for_all_its_slots(
    widgets: dict[tuple[str, ...], Measurement], pattern: str
) -> None:
    slab = ledger_of_cell(widgets["slab", pattern, "1"])
    assert (slab.setup("allocations", "pool"), slab.setup("bytes", "pool")) == (1, 4096 * 56)
    assert 4096 * 56 == 229376
    assert slab.setup("allocations", "workload") == 0
    assert (slab.allocations_per_op, slab.bytes_per_op) == (0.0, 0.0)
    assert slab.retained_bytes >= 229376


@workers
@pytest.mark.parametrize("pattern", ["churn", "steady(live=64)"])
def test_a_fresh_widget_is_one_allocation_of_56_bytes(
    widgets: dict[tuple[str, ...], Measurement], pattern: str
) -> None:
    fresh = ledger_of_cell(widgets["fresh", pattern, "1"])
    assert (fresh.allocations_per_op, fresh.bytes_per_op) == (1.0, 56.0)
    assert fresh.setup_allocations == 0


@workers
@pytest.mark.parametrize("pattern", ["churn", "steady(live=64)"])
def test_slab_and_fresh_construct_and_destroy_alike(
    widgets: dict[tuple[str, ...], Measurement], pattern: str
) -> None:
    for pool in ("fresh", "slab"):
        account = ledger_of_cell(widgets[pool, pattern, "1"]).account
        assert account["constructed"] == account["destroyed"] == account["operations"]
    made = [
        ledger_of_cell(widgets[pool, pattern, "1"]).account["constructed"]
        for pool in ("fresh", "slab")
    ]
    assert made[0] == made[1] >= 2000


@workers
def test_what_a_locked_pool_retains_grows_with_its_capacity() -> None:
    capacities = (4, 16)
    suite = pb.sweep(
        pool="locked",
        capacity=capacities,
        compare="capacity",
        workload="bytes(size=1KiB)",
        pattern="steady(live=64)",
        threads=1,
        blocks=1,
        rounds=1,
        progress=False,
    )
    small, large = (ledger_of_cell(m) for m in suite.summary())
    assert (small.account["idle"], large.account["idle"]) == capacities
    for ledger, capacity in zip((small, large), capacities, strict=True):
        assert capacity * 1024 <= ledger.retained_bytes < (capacity + 1) * 1040
        assert ledger.peak_bytes >= 64 * 1024
    assert large.retained_bytes - small.retained_bytes >= 12 * 1024


@workers
def test_a_sweep_without_ledgers_has_none(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    suite = pb.sweep(
        pool="fresh", workload="bytes", threads=1, blocks=1, rounds=1, ledger=False, save=path
    )
    assert [m.ledger for m in suite.summary()] == [None]
    assert b'"ledger"' not in path.read_bytes()


@workers
def test_a_counted_cell_is_in_the_file_once(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    given: dict[str, Any] = {"workload": "bytes", "threads": 1, "blocks": 1, "rounds": 1}
    suite = pb.sweep(pool="fresh,locked", **given, control=True, save=path)
    assert path.read_bytes().count(b'"kind":"ledger"') == 2  # the control arm is counted already
    assert [m.ledger for m in pb.load(path).summary()] == [m.ledger for m in suite.summary()]
    pb.sweep(pool="fresh,locked", **given, control=True, save=path, resume=True)
    assert path.read_bytes().count(b'"kind":"ledger"') == 2


@workers
def test_a_cell_that_cannot_run_has_a_failed_ledger_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    suite = pb.sweep(
        pool="fresh,thread_local",
        workload="direct(size=1KiB,quota=16)",
        threads=1,
        blocks=1,
        rounds=1,
        save=path,
    )
    assert {x.arm for x in suite.failures if isinstance(x, Ledger)} == {"fresh", "thread_local"}
    for m in pb.load(path).summary():
        assert m.ledger is not None
        assert not m.ledger.ok
        assert m.ledger.reason
    assert math.isnan(suite.rows(level="cell")[0]["allocations_per_op"])
    text = report.sweep_text(suite)
    assert "warning: ledger of thread_local, direct(quota=16)" in text
