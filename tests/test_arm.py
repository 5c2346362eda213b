"""The conversation with a worker, and the ways it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from poolbench.arm import ArmFailed, LiveArm, Opening, open_line
from poolbench.spec import Cell, parse_spec

pytestmark = pytest.mark.workers


def cell(pool: str = "locked", workload: str = "bytes", threads: int = 1) -> Cell:
    return Cell(
        pool=parse_spec("pool", pool),
        workload=parse_spec("workload", workload),
        pattern=parse_spec("pattern", "churn"),
        threads=threads,
    )


def opening(**given: Any) -> str:
    return open_line(cell(**given), Opening(seed=1, spin=1_000_000, cpus=(), memory=0))


def alive(pid: int) -> bool:
    """Whether the process runs; one that has ended and waits to be reaped does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def gone_within(pid: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not alive(pid):
            return True
        time.sleep(0.01)
    return not alive(pid)


@pytest.fixture
def arm() -> Iterator[LiveArm]:
    live = LiveArm()
    yield live
    live.kill()


def test_an_opening_names_the_cell_and_its_parameters() -> None:
    line = open_line(
        cell("locked(capacity=8)", threads=2), Opening(seed=7, spin=9, cpus=(1, 0), memory=0)
    )
    words = line.split()
    assert words[0] == "open"
    assert {"pool=locked", "threads=2", "seed=7", "spin=9", "cpus=1,0"} <= set(words)
    assert {"pool.capacity=8", "workload.size=1024", "pattern.think_ns=0"} <= set(words)


def test_a_worker_opens_warms_measures_and_closes(arm: LiveArm) -> None:
    assert arm.ask(opening(threads=2)) == []
    rate, batch = arm.ask("warm 0.004")
    assert float(rate) > 0
    assert int(batch) >= 1
    for _ in range(2):
        start, ns, cpu, counts, usage = arm.ask("window 0.05")
        assert int(start) > 0
        assert int(ns) >= 50_000_000
        assert int(cpu) >= 0
        assert len(counts.split(",")) == 2
        assert sum(map(int, counts.split(","))) > 0
        assert len(usage.split(",")) == 4
    account = dict(word.split("=") for word in arm.ask("close"))
    assert int(account["constructed"]) == int(account["destroyed"]) + int(account["idle"])
    arm.finish()
    assert not alive(arm.pid)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
def test_a_killed_worker_names_the_signal(arm: LiveArm, number: signal.Signals) -> None:
    arm.ask(opening())
    os.kill(arm.pid, number)
    with pytest.raises(ArmFailed, match=f"killed by {number.name}"):
        arm.ask("warm 0.004")


def test_a_worker_that_ends_names_its_exit_code_and_last_words(arm: LiveArm) -> None:
    arm.send("dance")
    with pytest.raises(ArmFailed, match=r"exit code 1: .*KeyError: 'dance'"):
        arm.receive("ready")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (opening().replace("pool=locked", "pool=lifo"), "unknown pool 'lifo'"),
        (opening().replace("capacity=64", "capacity=0"), "capacity=0 is out of range 1 ..."),
        (opening().replace("lock=pthread", "lock=magic"), "lock=magic: choose from"),
        (opening().replace("threads=1", "threads=0"), "threads=0 is out of range"),
    ],
    ids=["pool", "range", "choice", "threads"],
)
def test_a_refusal_carries_its_reason(arm: LiveArm, line: str, reason: str) -> None:
    with pytest.raises(ArmFailed) as failure:
        arm.ask(line)
    assert str(failure.value).startswith(reason)


def test_a_constructor_that_fails_is_a_reason(arm: LiveArm) -> None:
    with pytest.raises(ArmFailed, match="could not attach: the constructor returned nothing"):
        arm.ask(opening(pool="thread_local", workload="direct(size=1024,quota=16)"))


def test_after_a_refusal_the_worker_still_listens(arm: LiveArm) -> None:
    with pytest.raises(ArmFailed):
        arm.ask(opening().replace("pool=locked", "pool=lifo"))
    assert arm.ask(opening()) == []


def test_an_answer_to_something_else_is_a_failure(arm: LiveArm) -> None:
    arm.send(opening())
    with pytest.raises(ArmFailed, match="unexpected answer: ready"):
        arm.receive("warm")


def test_a_silent_worker_is_given_up() -> None:
    arm = LiveArm(patience=0.1)
    with pytest.raises(ArmFailed, match="no answer in time"):
        arm.receive("ready")
    arm.kill()


def test_killing_ends_the_worker_at_once_and_may_be_repeated(arm: LiveArm) -> None:
    arm.ask(opening())
    arm.kill()
    assert not alive(arm.pid)
    arm.kill()


def test_a_finished_worker_is_not_signalled(arm: LiveArm, monkeypatch: pytest.MonkeyPatch) -> None:
    # Its number may be somebody else's by then.
    arm.ask(opening())
    arm.ask("close")
    arm.finish()
    signalled = []
    monkeypatch.setattr(os, "killpg", lambda pid, _: signalled.append(pid))
    arm.kill()
    assert signalled == []


def test_a_worker_has_its_own_group_and_ignores_ctrl_c(arm: LiveArm) -> None:
    arm.ask(opening())
    assert os.getpgid(arm.pid) == arm.pid
    os.kill(arm.pid, signal.SIGINT)
    assert len(arm.ask("close")) > 0


def test_a_worker_offers_itself_first_when_memory_runs_out(arm: LiveArm) -> None:
    arm.ask(opening())
    with open(f"/proc/{arm.pid}/oom_score_adj") as file:
        assert int(file.read()) == 1000


def test_a_worker_loads_next_to_nothing(arm: LiveArm) -> None:
    arm.ask(opening())
    with open(f"/proc/{arm.pid}/maps") as file:
        loaded = file.read()
    assert "/_core." in loaded
    assert not [name for name in ("numpy", "_json", "_ctypes", "libssl") if name in loaded]


PARENT = """
import time
from poolbench.arm import LiveArm
arm = LiveArm()
arm.send({opening!r})
arm.receive("ready")
print(arm.pid, flush=True)
time.sleep(60)
"""


def test_a_worker_dies_with_its_parent() -> None:
    program = PARENT.format(opening=opening())
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    with parent, contextlib.closing(parent.stdout):
        worker = int(parent.stdout.readline())
        assert alive(worker)
        parent.kill()
    assert gone_within(worker, 2.0)


def seconds_of(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def start_nothing() -> None:
    subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], check=True)


def start_worker() -> None:
    live = LiveArm()
    live.ask(opening())
    live.kill()


@pytest.mark.timing
def test_starting_a_worker_costs_at_most_three_empty_starts() -> None:
    for _ in range(5):
        pairs = [(seconds_of(start_worker), seconds_of(start_nothing)) for _ in range(9)]
        worker, nothing = (statistics.median(column) for column in zip(*pairs, strict=True))
        if worker <= 3.0 * nothing:
            return
    pytest.fail(f"a worker takes {worker * 1e3:.0f} ms, an empty start {nothing * 1e3:.0f} ms")
