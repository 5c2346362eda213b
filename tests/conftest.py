"""Suites with planted rates, built in memory, and a fresh interpreter for what needs one."""

from __future__ import annotations

import math
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from poolbench import environment as machine
from poolbench.block import cell_key
from poolbench.journal import Contents, Journal
from poolbench.plan import WINDOW_S, Arm, Group, Plan, make_plan
from poolbench.records import plan_record, replicate_record
from poolbench.results import CONTROL, Replicate, Window
from poolbench.suite import Suite

os.environ["MPLBACKEND"] = "Agg"  # draws without a screen
os.environ["POOLBENCH_LOCK"] = os.path.join(tempfile.gettempdir(), f"poolbench-{os.getpid()}")

Planted = float | Sequence[float | None]  # operations/s, of all blocks or block by block
PlantedRates = Mapping[tuple[str, int], Planted]  # (arm, threads) -> rate
FAILURE = "the worker was killed by SIGSEGV"


def _windows(rate: float, threads: int, rounds: int) -> tuple[Window, ...]:
    """Windows of exactly this rate, all threads busy throughout."""
    each = 10_000
    seconds = each * threads / rate
    return tuple(
        Window(
            start=float(i),
            seconds=seconds,
            order=i % 2,
            operations=(each,) * threads,
            cpu_seconds=seconds * threads,
        )
        for i in range(rounds)
    )


def _replicate(group: Group, arm: Arm, block: int, rate: float | None, rounds: int) -> Replicate:
    return Replicate(
        group=group.key,
        block=block,
        arm=arm.label,
        key=f"key of {arm.cell.canonical}",
        windows=() if rate is None else _windows(rate, arm.cell.threads, rounds),
        status="failed" if rate is None else "ok",
        reason=FAILURE if rate is None else "",
        account={} if rate is None else {"operations": 7, "peak_rss": 1000 + block},
    )


def _rate(planted: Planted, block: int, factor: float) -> float | None:
    if isinstance(planted, float | int):
        return planted * factor
    rate = planted[block]
    return None if rate is None else rate * factor


def _plant(plan: Plan, rates: PlantedRates, spread: float) -> list[Replicate]:
    """Replicates block by block; a block's factor is the same for the same (group, arm, block)."""
    found = []
    for block in range(plan.blocks):
        for group in plan.groups:
            for arm in group.arms:
                seed = f"{arm.label}|{arm.cell.threads}|{block}"
                factor = math.exp(spread * random.Random(seed).gauss(0.0, 1.0))
                rate = _rate(rates[arm.label, arm.cell.threads], block, factor)
                found.append(_replicate(group, arm, block, rate, plan.rounds))
    return found


MakeSuite = Callable[..., Suite]


@pytest.fixture(scope="session")
def make_suite() -> MakeSuite:
    """Return a function from planted rates, {(arm, threads): operations/s}, to a suite."""

    def make(
        rates: PlantedRates,
        *,
        blocks: int = 12,
        rounds: int = 4,
        spread: float = 0.001,
        cpus: int = 2,
        environment: Mapping[str, Any] | None = None,
        **axes: Any,
    ) -> Suite:
        arms, threads = (list(dict.fromkeys(column)) for column in zip(*rates, strict=True))
        axes = {"pool": "fresh", "workload": "bytes", "threads": threads, **axes}
        axes[axes.get("compare", "pool")] = [a for a in arms if not a.endswith(CONTROL)]
        params = {k: axes.pop(k) for k in list(axes) if k in ("size", "capacity", "lock")}
        plan = make_plan(
            **axes,
            params=params,
            blocks=blocks,
            rounds=rounds,
            cpus=range(cpus),
        )
        header = {
            "kind": "header",
            "plan": plan_record(plan),
            "environment": {"cpus": cpus, "code": "abc", **(environment or {})},
        }
        records = [replicate_record(r) for r in _plant(plan, rates, spread)]
        notes = [{"kind": "note", "load_after": 0.5}]
        return Suite.from_contents(Contents(headers=[header], replicates=records, notes=notes))

    return make


WriteResults = Callable[..., None]


@pytest.fixture(scope="session")
def write_results() -> WriteResults:
    """Return a function that writes what a sweep of a plan leaves behind on this machine."""

    def write(
        path: Path, plan: Plan, *, done: int | None = None, failed: Collection[int] = (), **env: Any
    ) -> None:
        """Write the first `done` blocks (all, unless given), of which those in `failed` failed."""
        header = {"kind": "header", "plan": plan_record(plan)}
        journal = Journal(path)
        journal.append([header | {"environment": {**machine.capture(), **env}}])
        blocks = [(number, group) for number in range(plan.blocks) for group in plan.groups]
        for at, (number, group) in enumerate(blocks[:done]):
            rate = None if at in failed else 1e7
            records = [
                replicate_record(
                    replace(
                        _replicate(group, arm, number, rate, plan.rounds), key=cell_key(arm.cell)
                    )
                )
                for arm in group.arms
            ]
            journal.append([*records, {"kind": "block_end", "group": group.key, "block": number}])
        if done is None:
            journal.append([{"kind": "note", "load_after": 0.5}])
        journal.close()

    return write


@pytest.fixture(scope="session")
def crossing(make_suite: MakeSuite) -> Suite:
    """`locked` wins by 1.5 at 1 and 2 threads, is level at 4, and loses by 2 at 8."""
    fresh = {("fresh", n): 1e7 for n in (1, 2, 4, 8)}
    locked = dict(zip([("locked", n) for n in (1, 2, 4, 8)], (1.5e7, 1.5e7, 1e7, 5e6), strict=True))
    return make_suite(fresh | locked)


@pytest.fixture(scope="module")
def long_windows() -> Iterator[float]:
    """Three times the usual seconds: a busy host may give two threads no CPU for 10 ms."""
    with pytest.MonkeyPatch.context() as patch:
        for module in ("block", "plan"):
            patch.setattr(f"poolbench.{module}.WINDOW_S", 3 * WINDOW_S)
        yield 3 * WINDOW_S


RunPython = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def run_python() -> RunPython:
    """Return a function that runs a program text in a fresh interpreter, warnings as errors."""

    def run(code: str, *args: str, **options: Any) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-W", "error", "-c", code, *args]
        given: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 60, **options}
        return subprocess.run(command, check=False, **given)

    return run
