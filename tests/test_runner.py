"""Sweeps over live workers: complete, reproducible, interruptible, and honest about failures."""

from __future__ import annotations

import json
import math
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import poolbench as pb
from poolbench import _core, environment, journal, runner
from poolbench.arm import LiveArm
from poolbench.block import Conditions, cell_key, window_seconds
from poolbench.journal import Journal
from poolbench.plan import Group, Plan
from poolbench.results import Replicate
from poolbench.spec import Cell, parse_spec
from poolbench.suite import Suite

pytestmark = pytest.mark.usefixtures("long_windows")

ROUNDS = 5
SMALL: dict[str, Any] = {
    "pool": ["fresh", "thread_local", "locked"],
    "workload": "bytes",
    "threads": [1, 2],
    "blocks": 2,
    "rounds": ROUNDS,
    "progress": False,
}
TINY: dict[str, Any] = {**SMALL, "pool": ["fresh", "locked"], "threads": 1, "rounds": 2}


def replicates(suite: Suite) -> list[Replicate]:
    return [r for k, g in suite.groups.items() for arm in g.arms for r in suite.replicates(k, arm)]


def orders(suite: Suite) -> list[tuple[int, ...]]:
    return [tuple(w.order for w in r.windows) for r in replicates(suite)]


@pytest.fixture(scope="module")
def saved(long_windows: float, tmp_path_factory: pytest.TempPathFactory) -> tuple[Suite, Path]:
    path = tmp_path_factory.mktemp("sweep") / "run.jsonl"
    return pb.sweep(**SMALL, save=path), path


@pytest.fixture
def suite(saved: tuple[Suite, Path]) -> Suite:
    return saved[0]


# ---- without workers ----------------------------------------------------------------------------


def cell(pool: str = "fresh", threads: int = 1) -> Cell:
    specs = (parse_spec("workload", "bytes"), parse_spec("pattern", "churn"))
    return Cell(pool=parse_spec("pool", pool), workload=specs[0], pattern=specs[1], threads=threads)


def test_windows_of_fast_cells_are_as_long_as_planned(long_windows: float) -> None:
    assert window_seconds(cell(), 1e7, 1.0) == long_windows


def test_windows_stretch_with_threads_per_cpu(long_windows: float) -> None:
    assert window_seconds(cell(threads=8), 1e7, 4.0) == 4 * long_windows


@pytest.mark.parametrize(("threads", "operations"), [(1, 200), (20, 200), (64, 640)])
def test_windows_of_slow_cells_hold_enough_operations(threads: int, operations: int) -> None:
    assert window_seconds(cell(threads=threads), 100.0, 1.0) * 100.0 >= operations


def test_a_cell_key_tells_cells_and_codes_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [cell_key(cell()), cell_key(cell(threads=2)), cell_key(cell("locked"))]
    here = environment.capture()
    monkeypatch.setattr(environment, "capture", lambda: {**here, "code": "other"})
    assert len({*keys, cell_key(cell())}) == 4


def test_a_cell_key_does_not_depend_on_load_or_time(monkeypatch: pytest.MonkeyPatch) -> None:
    key, here = cell_key(cell()), environment.capture()
    monkeypatch.setattr(environment, "capture", lambda: {**here, "load": 99.0, "time": "then"})
    assert cell_key(cell()) == key


def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text("precious")
    with pytest.raises(FileExistsError, match=r"run\.jsonl: not a .*; choose another name"):
        pb.sweep(**TINY, save=path)
    assert path.read_text() == "precious"


def test_a_file_that_cannot_be_written_ends_it_before_the_first_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("poolbench.block.LiveArm", None)
    with pytest.raises(FileNotFoundError):
        pb.sweep(**TINY, save=tmp_path / "nowhere" / "run.jsonl")


@pytest.mark.parametrize(
    "wrong",
    [{"pool": "lifo"}, {"threads": 0}, {"sise": 4}, {"blocks": 0}, {"compare": "x"}],
    ids=str,
)
def test_a_mistake_ends_it_before_the_file_is_made(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"choose from|a whole number"):
        pb.sweep(**{**TINY, **wrong}, save=tmp_path / "run.jsonl")
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_is_a_keyboard_interrupt_with_the_suite() -> None:
    stopped = pb.Interrupted(Suite({}, [], []))
    assert isinstance(stopped, KeyboardInterrupt)
    assert stopped.suite.rows() == []


class Instant:
    """Stands for a block: both arms fail at once, no process is started."""

    def __init__(self, plan: Plan, group: Group, number: int, how: Conditions) -> None:
        self.group, self.number = group, number

    def measure(self) -> list[Replicate]:
        return [
            Replicate(
                group=self.group.key, block=self.number, arm=arm.label, key="", windows=(),
                status="failed", reason="instant", account={},
            )
            for arm in self.group.arms
        ]  # fmt: skip


def test_an_interrupt_right_after_writing_keeps_the_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Journal.append

    def append(self: Journal, records: Any) -> None:
        real(self, records)
        if any(r["kind"] == "block_end" for r in records):
            raise KeyboardInterrupt

    monkeypatch.setattr(runner, "Block", Instant)
    monkeypatch.setattr(Journal, "append", append)
    with pytest.raises(pb.Interrupted) as stopped:
        pb.sweep(**TINY, save=tmp_path / "run.jsonl")
    assert stopped.value.suite.rows() == pb.load(tmp_path / "run.jsonl").rows() != []


def test_an_interrupt_before_the_first_block_carries_an_empty_suite(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(_core, "calibrate", interrupted)
    with pytest.raises(KeyboardInterrupt) as stopped:
        pb.sweep(**TINY)
    assert isinstance(stopped.value, pb.Interrupted)


def test_blocks_of_all_groups_come_in_turn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(runner, "Block", Instant)
    pb.sweep(**{**TINY, "threads": [1, 2]}, ledger=False, save=tmp_path / "run.jsonl")
    records = journal.read(tmp_path / "run.jsonl").replicates
    assert [r["block"] for r in records] == [0, 0, 0, 0, 1, 1, 1, 1]


# ---- a sweep ------------------------------------------------------------------------------------

workers = pytest.mark.workers


@workers
def test_every_replicate_has_its_windows(suite: Suite) -> None:
    found = replicates(suite)
    assert len(found) == 2 * 3 * 2
    assert all(r.ok and len(r.windows) == ROUNDS for r in found)


@workers
def test_every_thread_counts_in_every_window(suite: Suite) -> None:
    for group in suite.groups.values():
        threads = int(group.at["threads"])
        for label in group.arms:
            for r in suite.replicates(group.key, label):
                assert all(len(w.operations) == threads for w in r.windows)
                assert all(sum(w.operations) > 0 for w in r.windows)


@workers
def test_windows_are_about_as_long_as_asked(suite: Suite, long_windows: float) -> None:
    seconds = [w.seconds for r in replicates(suite) for w in r.windows]
    assert min(seconds) >= long_windows
    assert statistics.median(seconds) < 10 * long_windows


@workers
def test_every_object_is_accounted_for(suite: Suite) -> None:
    for r in replicates(suite):
        assert r.account["constructed"] == r.account["destroyed"] + r.account["idle"]
        assert r.account["operations"] >= sum(sum(w.operations) for w in r.windows)
        assert r.account["peak_rss"] > 0


@workers
def test_fresh_constructs_for_every_operation_and_pools_hardly_ever(suite: Suite) -> None:
    fresh, local, locked = suite.select(threads=2).summary()
    assert fresh.account["constructed"] == fresh.account["operations"]
    assert local.account["constructed"] <= 4
    assert locked.account["constructed"] <= 4


@workers
def test_in_every_round_the_arms_take_turns_in_some_order(suite: Suite) -> None:
    by_block: dict[tuple[str, int], list[Replicate]] = {}
    for r in replicates(suite):
        by_block.setdefault((r.group, r.block), []).append(r)
    for arms in by_block.values():
        for i in range(ROUNDS):
            assert sorted(r.windows[i].order for r in arms) == [0, 1, 2]
            ran = sorted(arms, key=lambda r, i=i: r.windows[i].start)  # type: ignore[misc]
            assert [r.windows[i].order for r in ran] == [0, 1, 2]


@workers
def test_one_arm_runs_at_a_time(suite: Suite) -> None:
    windows = sorted((w.start, w.start + w.seconds) for r in replicates(suite) for w in r.windows)
    assert all(end <= start for (_, end), (start, _) in pairwise(windows))


@workers
def test_the_file_holds_what_was_returned(saved: tuple[Suite, Path]) -> None:
    suite, path = saved
    found = pb.load(path)
    assert found.groups == suite.groups
    assert replicates(found) == replicates(suite)
    assert len(found.notes) == len(suite.notes) == 1
    assert found.environment == suite.environment


@workers
def test_the_header_records_plan_environment_and_calibration(suite: Suite) -> None:
    (header,) = suite.headers
    assert (header["plan"]["seed"], header["plan"]["rounds"]) == (1, ROUNDS)
    assert environment.differences(header["environment"], environment.capture()) == []
    assert header["calibration"]["spin_per_ms"] > 0
    assert 0 < header["calibration"]["clock_ns"] < 1e6


@workers
def test_a_seed_decides_the_order() -> None:
    more = {**TINY, "blocks": 3, "rounds": 4}
    assert orders(pb.sweep(**more, seed=5)) == orders(pb.sweep(**more, seed=5))


@workers
def test_another_seed_gives_another_order(suite: Suite) -> None:
    assert orders(pb.sweep(**SMALL, seed=2)) != orders(suite)


@workers
def test_nothing_is_shown_where_nobody_looks(capfd: pytest.CaptureFixture[str]) -> None:
    pb.sweep(**{**TINY, "progress": None, "blocks": 1})
    assert capfd.readouterr() == ("", "")


@workers
def test_a_bar_is_shown_where_it_is_wanted(capfd: pytest.CaptureFixture[str]) -> None:
    pb.sweep(**{**TINY, "progress": True, "blocks": 1})
    assert "2/2" in capfd.readouterr().err


@workers
def test_threads_may_be_left_where_the_system_puts_them() -> None:
    assert pb.sweep(**{**TINY, "blocks": 1}, affinity="none").failures == []


@workers
def test_one_cell_can_be_measured_alone() -> None:
    m = pb.measure("thread_local", workload="bytes(size=64)", threads=2, blocks=3, rounds=2)
    assert dict(m.cell) == {
        "workload": "bytes(size=64)", "pool": "thread_local", "pattern": "churn", "threads": "2",
    }  # fmt: skip
    assert m.throughput.n == 3
    assert float(m.throughput) > 0
    assert m.thread_ns.mean == pytest.approx(2e9 / m.throughput.mean)


@workers
@pytest.mark.timing
def test_a_pool_beats_fresh_large_zeroed_objects() -> None:
    for _ in range(3):
        (c,) = pb.sweep(
            pool="fresh,thread_local", workload="bytes(size=64KiB)", threads=1,
            blocks=5, rounds=4, progress=False,
        ).compare()  # fmt: skip
        if c.verdict == "wins" and c.ratio.mean > 2.0:
            return
    pytest.fail(str(c))


# ---- failures -----------------------------------------------------------------------------------


@workers
def test_a_cell_that_cannot_open_fails_and_the_other_arm_finishes() -> None:
    suite = pb.sweep(
        pool="thread_local", workload="direct", quota=[16, "1GiB"], compare="quota", threads=1,
        blocks=1, rounds=2, progress=False,
    )  # fmt: skip
    (group,) = suite.groups
    (starved,), (fine,) = (suite.replicates(group, arm) for arm in ("16", "1073741824"))
    assert (starved.status, starved.windows) == ("failed", ())
    assert starved.reason == "a thread could not attach: the constructor returned nothing"
    assert fine.ok
    assert len(fine.windows) == 2


@pytest.fixture
def fragile_locked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Kill the `locked` worker as its second window is asked for."""
    asked: dict[int, list[str]] = {}
    real_send, real_ask = LiveArm.send, LiveArm.ask

    def send(self: LiveArm, line: str) -> None:
        if "pool=locked" in line:
            asked[self.pid] = []
        real_send(self, line)

    def ask(self: LiveArm, line: str, seconds: float = 0.0) -> list[str]:
        if self.pid in asked:
            asked[self.pid].append(line)
            if len(asked[self.pid]) == 3:  # warm, window, window
                os.kill(self.pid, signal.SIGKILL)
        return real_ask(self, line, seconds)

    monkeypatch.setattr(LiveArm, "send", send)
    monkeypatch.setattr(LiveArm, "ask", ask)
    yield
    assert asked


@workers
@pytest.mark.usefixtures("fragile_locked")
def test_a_crash_costs_its_replicate_alone(tmp_path: Path) -> None:
    suite = pb.sweep(**{**TINY, "rounds": 3}, ledger=False, save=tmp_path / "run.jsonl")
    (group,) = suite.groups
    assert all(r.ok for r in suite.replicates(group, "fresh"))
    for r in suite.replicates(group, "locked"):
        assert (r.status, r.reason) == ("failed", "the worker was killed by SIGKILL")
        assert math.isnan(r.throughput)
    assert len(suite.failures) == 2
    assert replicates(pb.load(tmp_path / "run.jsonl")) == replicates(suite)


@workers
def test_an_operation_that_takes_too_long_fails_with_the_figure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("poolbench.block._LONGEST_WINDOW_S", 0.001)
    (failed,) = pb.sweep(**{**TINY, "pool": "fresh", "blocks": 1}, ledger=False).failures
    assert failed.reason.startswith("window too short: ")


@workers
def test_no_worker_is_left_behind() -> None:
    before = children()
    pb.sweep(**{**TINY, "blocks": 1})
    assert children() == before


def children() -> set[int]:
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == os.getpid():
            found.add(int(name))
    return found


# ---- Ctrl-C and other threads -------------------------------------------------------------------

INTERRUPTED = """
import json, os, signal, sys, time
import poolbench as pb
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    pb.sweep(pool=["fresh", "locked"], workload="bytes", threads=[1, 2], blocks=1000, rounds=5,
             save=sys.argv[1], progress=False)
except pb.Interrupted as stopped:
    caught, suite = time.monotonic(), stopped.suite
left, deadline = True, time.monotonic() + 2.0
while left and time.monotonic() < deadline:
    try:
        os.waitpid(-1, os.WNOHANG)
        time.sleep(0.01)
    except ChildProcessError:
        left = False
rows = [(r["threads"], r["block"], r["pool"]) for r in suite.rows()]
print(json.dumps({"caught": caught, "left": left, "rows": rows}))
"""


def interrupt(path: Path, delay: float) -> tuple[float, dict[str, Any]]:
    """Start a long sweep, interrupt it in some later block; seconds it took, what it reported."""
    command = [sys.executable, "-c", INTERRUPTED, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 30
        while not (path.exists() and b"block_end" in path.read_bytes()):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(delay)
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        reported = json.loads(process.communicate(timeout=30)[0])
    return reported["caught"] - sent, reported


@workers
def test_an_interrupt_returns_quickly_with_whole_blocks(tmp_path: Path) -> None:
    # The delays hit a block while it starts its workers, warms them up, and measures.
    latencies = []
    for i, delay in enumerate((0.01, 0.06, 0.11)):
        path = tmp_path / f"run{i}.jsonl"
        seconds, reported = interrupt(path, delay)
        latencies.append(seconds)
        blocks: dict[tuple[int, int], list[str]] = {}
        for threads, block, pool in reported["rows"]:
            blocks.setdefault((threads, block), []).append(pool)
        assert blocks
        assert all(found == ["fresh", "locked"] for found in blocks.values())
        assert len(pb.load(path).rows()) == len(reported["rows"])
        assert not reported["left"]
    assert statistics.median(latencies) < 1.0


@workers
def test_other_threads_run_during_a_sweep() -> None:
    counted, done = [0], threading.Event()

    def count() -> None:
        while not done.is_set():
            counted[0] += 1
            time.sleep(0.001)

    counter = threading.Thread(target=count)
    counter.start()
    pb.sweep(**{**TINY, "blocks": 1})
    done.set()
    counter.join()
    assert counted[0] > 5


@workers
def test_a_sweep_may_run_in_another_thread() -> None:
    found: list[Suite] = []
    thread = threading.Thread(target=lambda: found.append(pb.sweep(**{**TINY, "blocks": 1})))
    thread.start()
    thread.join()
    assert found[0].failures == []
