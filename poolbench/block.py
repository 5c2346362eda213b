"""One block: a group's arms, alive side by side, through all rounds; and one cell's counted pass.

The heart of the protocol. Each arm is a fresh process that stays alive, parked; one arm at a time
runs for one short window, round after round, in random order. So replicates are processes, and
still both arms of a ratio are measured within milliseconds of each other. A block's seed decides
its order and placement.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from poolbench import environment
from poolbench.arm import ArmFailed, LiveArm, Opening, open_line
from poolbench.plan import WARM_S, WINDOW_S, Arm, Group, Plan, planned_window
from poolbench.results import Ledger, Replicate, Window
from poolbench.spec import Cell

_LEAST_OPERATIONS: Final = 200  # per window, all threads
_LEAST_PER_THREAD: Final = 10  # per window
_MARGIN: Final = 1.3  # a window is stretched by this much more than the warm-up asks for
_LONGEST_WINDOW_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What is alike for every process of a sweep."""

    spin: int  # iterations per millisecond, measured once
    timeout: float  # seconds beyond the expected that a worker may take for one answer


@dataclass(slots=True)
class _Running:
    """One arm of the block in flight."""

    arm: Arm
    live: LiveArm
    seconds: float = WINDOW_S  # of its windows, after calibration
    windows: list[Window] = field(default_factory=list)
    account: dict[str, int] = field(default_factory=dict)
    reason: str = ""  # set when it has failed


class Block:
    """A group's arms, alive side by side, through all rounds."""

    def __init__(self, plan: Plan, group: Group, number: int, how: Conditions) -> None:
        self._plan = plan
        self._group = group
        self._number = number
        self._how = how
        self._seed = plan.block_seed(group, number)
        self._rng = random.Random(self._seed)
        self._running: list[_Running] = []
        self._absent: list[Replicate] = []  # arms whose process could not be started

    def measure(self) -> list[Replicate]:
        """Run the block and return one replicate per arm, failed or not."""
        try:
            self._start()
            self._shuffled(self._warm)
            for _ in range(self._plan.rounds):
                self._round()
            self._shuffled(self._close)
        finally:
            for r in self._running:
                r.live.kill()
        return [*self._absent, *(self._replicate(r) for r in self._running)]

    def _start(self) -> None:
        """Start and open all arms side by side; none runs yet."""
        cpus = self._cpus()
        memory = environment.available_memory() // len(self._group.arms)
        for arm in self._group.arms:
            try:
                live = LiveArm(patience=self._how.timeout)
            except ArmFailed as e:
                self._absent.append(self._outcome(arm, reason=str(e)))
            else:
                self._running.append(_Running(arm=arm, live=live))
        for r in self._running:
            on = cpus if r.arm.cell.affinity == "spread" else ()
            opening = Opening(seed=self._seed, spin=self._how.spin, cpus=on, memory=memory)
            r.live.send(open_line(r.arm.cell, opening))
        for r in self._running:
            self._attempt(r, lambda r: r.live.receive("ready"))

    def _cpus(self) -> tuple[int, ...]:
        """The CPUs in turn, from a first one drawn per block, the same for all arms."""
        cpus = self._plan.cpus
        first = self._rng.randrange(len(cpus)) if cpus else 0
        return cpus[first:] + cpus[:first]

    def _attempt(self, r: _Running, step: Callable[[_Running], object]) -> None:
        if r.reason:
            return
        try:
            step(r)
        except ArmFailed as e:
            r.reason = str(e)

    def _shuffled(self, step: Callable[[_Running], object]) -> None:
        for r in self._order():
            self._attempt(r, step)

    def _order(self) -> list[_Running]:
        return self._rng.sample(self._running, len(self._running))

    def _warm(self, r: _Running) -> None:
        stretch = self._plan.stretch(r.arm.cell)
        rate = float(r.live.ask(f"warm {WARM_S * stretch}", 20.0)[0])
        r.seconds = window_seconds(r.arm.cell, rate, stretch)
        if r.seconds > _LONGEST_WINDOW_S:
            raise ArmFailed(
                f"window too short: {rate:.3g} operations/s would need {r.seconds:.0f} s"
            )

    def _round(self) -> None:
        for order, r in enumerate(self._order()):
            self._attempt(r, lambda r, order=order: self._window(r, order))  # type: ignore[misc]

    def _window(self, r: _Running, order: int) -> None:
        start, ns, cpu, counts, usage = r.live.ask(f"window {r.seconds}", r.seconds)
        operations = tuple(int(c) for c in counts.split(","))
        minor, major, voluntary, involuntary = (int(n) for n in usage.split(","))
        if sum(operations) == 0:
            raise ArmFailed(f"window too short: no operation within {int(ns) / 1e6:.1f} ms")
        r.windows.append(
            Window(
                start=int(start) / 1e9,
                seconds=int(ns) / 1e9,
                order=order,
                operations=operations,
                cpu_seconds=int(cpu) / 1e9,
                faults=minor + major,
                switches=voluntary + involuntary,
            )
        )

    def _close(self, r: _Running) -> None:
        r.account = _counts(r.live.ask("close"))
        r.live.finish()

    def _replicate(self, r: _Running) -> Replicate:
        return self._outcome(r.arm, windows=tuple(r.windows), account=r.account, reason=r.reason)

    def _outcome(
        self,
        arm: Arm,
        *,
        reason: str,
        windows: tuple[Window, ...] = (),
        account: Mapping[str, int] | None = None,
    ) -> Replicate:
        return Replicate(
            group=self._group.key,
            block=self._number,
            arm=arm.label,
            key=cell_key(arm.cell),
            windows=windows,
            status="failed" if reason else "ok",
            reason=reason,
            account=account or {},
        )


def _counts(words: Sequence[str]) -> dict[str, int]:
    return {name: int(n) for name, _, n in (w.partition("=") for w in words)}


def count(plan: Plan, group: Group, arm: Arm, *, attempts: int, how: Conditions) -> Ledger:
    """The ledger of one cell: a warm pass, then one of exactly so many attempts per thread.

    Nothing is timed, and the counting allocator stands in front of the real one.
    """
    counts: dict[str, int] = {}
    account: dict[str, int] = {}
    reason = ""
    opening = Opening(
        seed=plan.block_seed(group, -1),
        spin=how.spin,
        cpus=plan.cpus if arm.cell.affinity == "spread" else (),
        memory=environment.available_memory(),
        counted=True,
    )
    live = None
    try:
        live = LiveArm(counted=True, patience=how.timeout)
        live.send(open_line(arm.cell, opening))
        live.receive("ready")
        live.ask(f"count {attempts}")
        counts = _counts(live.ask(f"count {attempts}"))
        account = _counts(live.ask("close"))
        live.finish()
        if counts.get("operations", 0) == 0:
            raise ArmFailed(f"no operation in {attempts} attempts per thread")
    except ArmFailed as e:
        reason = str(e)
    finally:
        if live:
            live.kill()
    return Ledger(
        group=group.key,
        arm=arm.label,
        key=cell_key(arm.cell),
        status="failed" if reason else "ok",
        reason=reason,
        counts=counts,
        account=account,
    )


def window_seconds(cell: Cell, rate: float, stretch: float) -> float:
    """Length of a cell's windows, in seconds.

    Stretched where threads share CPUs, long enough for 200 operations in all and 10 per thread,
    and for five of the longest period in the cell.
    """
    least = max(_LEAST_OPERATIONS, _LEAST_PER_THREAD * cell.threads)
    return max(planned_window(cell, stretch), _MARGIN * least / rate)


def cell_key(cell: Cell) -> str:
    """Hash of cell, code and must-match environment; not of preset, block or seed."""
    here = environment.capture()
    fixed = [f"{name}={here.get(name)}" for name in environment.MUST_MATCH]
    return hashlib.sha256("|".join([cell.canonical, *fixed]).encode()).hexdigest()[:16]
