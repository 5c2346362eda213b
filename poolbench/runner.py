"""From a plan to a suite: blocks in turn, results kept as they come, and nothing lost.

Every finished block is on disk before the next one starts; a sweep that was interrupted, killed, or
ran out of disk goes on where it was.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any

from poolbench import environment, journal
from poolbench.arm import PATIENCE_S
from poolbench.block import Block, Conditions, cell_key, count
from poolbench.journal import Contents, Journal
from poolbench.lock import host_lock
from poolbench.plan import AxisValues, Group, Plan, as_list, make_plan
from poolbench.records import (
    ledger_record,
    plan_record,
    replicate_of,
    replicate_record,
)
from poolbench.results import Measurement, Replicate
from poolbench.spec import Cell
from poolbench.suite import Suite


class SaveFailed(OSError):
    """The results file could not be written (a full disk, say). `suite` holds what was measured."""

    def __init__(self, cause: OSError, suite: Suite) -> None:
        known = cause.errno is not None
        what = (cause.errno, cause.strerror, cause.filename) if known else (str(cause),)
        super().__init__(*what)
        self.suite = suite


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a sweep. `suite` holds every finished block."""

    def __init__(self, suite: Suite) -> None:
        super().__init__("sweep interrupted; the finished blocks are in .suite")
        self.suite = suite


def run(
    plan: Plan,
    *,
    save: str | os.PathLike[str] | None = None,
    before: Contents | None = None,
    retry_failed: bool = False,
    ledger: bool = True,
    lock: bool = True,
    timeout: float = PATIENCE_S,
    progress: bool | None = None,
) -> Suite:
    """Measure a plan; every finished block is in the results file before the next one starts.

    `before` is what the file already holds of the same plan: its blocks are not measured again.
    `progress` False is silent; None shows a bar with the time left if somebody can see it.
    Raises Interrupted (a KeyboardInterrupt) on Ctrl-C and SaveFailed (an OSError) when the file
    cannot be written, both with all finished blocks in `.suite`; BlockingIOError when another
    sweep is running on this host.
    """
    if not timeout > 0:
        raise ValueError(f"timeout={timeout:g}: seconds, more than 0")
    with host_lock(wanted=lock):
        contents = before or Contents()
        sweeping = _Sweep(plan, contents, timeout, save, progress)
        try:
            sweeping.begin()
            sweeping.blocks(skip=finished_blocks(plan, contents, retry_failed=retry_failed))
            if ledger:
                sweeping.ledgers()
            sweeping.note({"kind": "note", "load_after": os.getloadavg()[0]})
        except KeyboardInterrupt:
            raise Interrupted(Suite.from_contents(contents)) from None
        except OSError as e:
            raise SaveFailed(e, Suite.from_contents(contents)) from e
        finally:
            sweeping.close()
        return Suite.from_contents(contents)


class _Sweep:
    """A plan being measured: what is known so far, the file, and the bar."""

    def __init__(
        self,
        plan: Plan,
        contents: Contents,
        timeout: float,
        save: str | os.PathLike[str] | None,
        progress: bool | None,
    ) -> None:
        self._plan = plan
        self._contents = contents
        self._how = Conditions(spin=1, timeout=timeout)
        self._journal = Journal(save) if save is not None else None
        self._bar = _Bar(plan.replicates, progress)

    def begin(self) -> None:
        """Calibrate, and write down what this sweep is and where it runs."""
        from poolbench import _core

        spin, clock = _core.calibrate()
        self._how = replace(self._how, spin=spin)
        header: dict[str, Any] = {
            "kind": "header",
            "plan": plan_record(self._plan),
            "environment": environment.capture(),
            "calibration": {"spin_per_ms": spin, "clock_ns": clock},
        }
        self._contents.headers.append(header)
        self._write([header])

    def _write(self, records: list[dict[str, Any]]) -> None:
        if self._journal:
            self._journal.append(records)

    def blocks(self, skip: Set[tuple[str, int]]) -> None:
        """Block 0 of every group, then block 1, ...: slow drift of the host meets all alike."""
        for number in range(self._plan.blocks):
            for group in self._plan.groups:
                if (group.key, number) not in skip:
                    replicates = Block(self._plan, group, number, self._how).measure()
                    records = [replicate_record(r) for r in replicates]
                    try:
                        self._write([*records, _block_end(group, number)])
                    finally:  # on Ctrl-C or a full disk as well: the block is measured
                        self._contents.replicates.extend(records)
                self._bar.advance(len(group.arms))

    def ledgers(self) -> None:
        """One counted pass of every cell that has none yet."""
        suite = Suite.from_contents(self._contents)
        for group in self._plan.groups:
            for arm in group.arms:
                known = suite.ledger(group.key, arm.label)
                if arm.label == group.control or (known and known.ok):
                    continue
                attempts = _attempts(arm.cell, suite.replicates(group.key, arm.label))
                found = count(self._plan, group, arm, attempts=attempts, how=self._how)
                self.note(ledger_record(found))

    def note(self, record: dict[str, Any]) -> None:
        """Keep one line that belongs to no block."""
        kept = self._contents.ledgers if record["kind"] == "ledger" else self._contents.notes
        kept.append(record)
        self._write([record])

    def close(self) -> None:
        self._bar.close()
        if self._journal:
            self._journal.close()


def _block_end(group: Group, number: int) -> dict[str, Any]:
    return {"kind": "block_end", "group": group.key, "block": number}


def _attempts(cell: Cell, replicates: Sequence[Replicate]) -> int:
    """Attempts per thread of a counted pass: 1000, or what a slow cell does in about 0.2 s."""
    rates = [r.throughput for r in replicates if r.ok]
    per_thread = min(rates) / cell.threads if rates else math.inf
    return int(min(1000, max(10, 0.2 * per_thread)))


def finished_blocks(
    plan: Plan, contents: Contents, *, retry_failed: bool = False
) -> set[tuple[str, int]]:
    """Blocks of `contents` that need not be measured again: whole, of this code and machine.

    Blocks with a failed replicate count as finished unless `retry_failed`.
    """
    found: dict[tuple[str, int], dict[str, Replicate]] = {}
    for record in contents.replicates:
        r = replicate_of(record)
        if r:
            found.setdefault((r.group, r.block), {})[r.arm] = r
    wanted = {g.key: {a.label: cell_key(a.cell) for a in g.arms} for g in plan.groups}
    return {
        (group, block)
        for (group, block), arms in found.items()
        if group in wanted
        and {label: r.key for label, r in arms.items()} == wanted[group]
        and not (retry_failed and any(not r.ok for r in arms.values()))
    }


def earlier(plan: Plan, path: str | os.PathLike[str]) -> Contents | None:
    """What a results file holds of this very plan; None if it is of another plan or machine.

    Raises ValueError when the file is not a results file, OSError when it cannot be read.
    """
    contents = journal.read(path)
    last = contents.headers[-1]
    here = {name: v for name, v in plan_record(plan).items() if name != "preset"}
    known, made = (x if isinstance(x := last.get(n), dict) else {} for n in ("plan", "environment"))
    there = {name: v for name, v in known.items() if name != "preset"}
    differing = environment.differences(made, environment.capture())
    return contents if here == there and not differing else None


def is_complete(plan: Plan, contents: Contents) -> bool:
    """Whether every block of the plan is there, and the note that a sweep ends with."""
    blocks = len(finished_blocks(plan, contents))
    return blocks == plan.blocks * len(plan.groups) and len(contents.notes) > 0


def sweep(
    *,
    pool: AxisValues = ("fresh", "thread_local", "locked"),
    workload: AxisValues = ("bytes", "direct", "rng"),
    threads: AxisValues = (1, 2, 4, 8, 16),
    pattern: AxisValues = "churn",
    preset: str = "quick",
    compare: str = "pool",
    seed: int = 1,
    save: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
    blocks: int | None = None,
    rounds: int | None = None,
    affinity: str = "spread",
    baseline: str | None = None,
    control: bool = False,
    ledger: bool = True,
    resume: bool | None = None,
    retry_failed: bool = False,
    lock: bool = True,
    timeout: float = PATIENCE_S,
    **params: AxisValues,
) -> Suite:
    """Measure every combination of the axes and return a `Suite`.

    Parameters
    ----------
    pool, workload, pattern, threads
        One value or a list each; without arguments, the founding experiment.
    compare
        The axis whose values are alternated and compared; all others make up the groups.
    preset
        quick (5 blocks x 6 rounds), standard (12 x 10) or full (20 x 10).
    save
        Results file (JSON lines), written block by block. An incomplete one of the same plan, seed
        and machine is resumed, and a line on standard error says so; any other is refused.
    resume
        True: also take a complete file as it is. False: refuse any existing file.
    retry_failed
        On resuming, measure blocks again in which a replicate failed.
    control
        Add the baseline a second time to every group, for the noise floor.
    ledger
        After the timed blocks, count allocations and outcomes of every cell, untimed.
    lock
        False: do not care whether another sweep is running on this host.
    timeout
        Seconds beyond the expected that a worker may take for one answer.
    progress
        False: silent. None: a bar with the time left, if somebody can see it.
    **params
        Any parameter of the listed pools, workloads or patterns, one value or a list, as an axis.
        So is ``checked``: True fails a replicate whose pool hands an object out twice or dirty, or
        is given one it had not lent; with ``compare="checked"`` and both values its price is a
        ratio.

    Raises
    ------
    ValueError
        An unknown name, malformed grammar or a value out of range, with the choices.
    FileExistsError
        `save` exists and is not to be resumed.
    SaveFailed
        `save` cannot be written (an OSError); `.suite` holds what was measured.
    BlockingIOError
        Another sweep is running on this host.
    Interrupted
        Ctrl-C; the finished blocks are in `.suite` and in the file.

    Examples
    --------
    >>> import poolbench as pb
    >>> suite = pb.sweep(pool=["fresh", "locked"], workload="bytes", threads=1,
    ...                  blocks=3, rounds=2, progress=False)
    >>> len(suite.compare())
    1
    """
    plan = make_plan(
        pool=pool,
        workload=workload,
        pattern=pattern,
        threads=threads,
        params=params,
        compare=compare,
        preset=preset,
        blocks=blocks,
        rounds=rounds,
        seed=seed,
        affinity=affinity,
        baseline=baseline,
        control=control,
        cpus=sorted(os.sched_getaffinity(0)),
    )
    return run(
        plan,
        save=save,
        before=resumable(plan, save, resume) if save is not None else None,
        retry_failed=retry_failed,
        ledger=ledger,
        lock=lock,
        timeout=timeout,
        progress=progress,
    )


def resumable(
    plan: Plan, path: str | os.PathLike[str], resume: bool | None = None
) -> Contents | None:
    """What of an existing file counts for this plan; None when there is no file yet.

    `resume` None takes an incomplete file, True a complete one as well, False none. Raises
    FileExistsError in one line for a file that is not to be touched.
    """
    if not Path(path).exists() or Path(path).stat().st_size == 0:
        return None
    if resume is False:
        raise FileExistsError(f"{path} exists: choose another name")
    try:
        found = earlier(plan, path)
    except ValueError as e:
        raise FileExistsError(f"{e}; choose another name") from None
    if found is None:
        raise FileExistsError(f"{path} exists and is of another sweep: choose another name")
    if is_complete(plan, found) and not resume:
        raise FileExistsError(f"{path} exists and is complete: choose another name, or resume it")
    done, blocks = len(finished_blocks(plan, found)), plan.blocks * len(plan.groups)
    print(f"resuming {path}: {done} of {blocks} blocks are there", file=sys.stderr)
    return found


_OPTIONS = frozenset(sweep.__kwdefaults__ or {})  # every name that is no parameter of a cell


def measure(
    pool: str,
    *,
    workload: str,
    threads: int = 1,
    pattern: str = "churn",
    preset: str = "quick",
    seed: int = 1,
    progress: bool | None = False,
    **params: AxisValues,
) -> Measurement:
    """Measure one cell and return its `Measurement`; to compare two, use `sweep`.

    Raises the same errors as `sweep`.

    >>> import poolbench as pb
    >>> m = pb.measure("thread_local", workload="bytes(size=1KiB)", threads=1)
    >>> m.throughput.n
    5
    """
    axes: dict[str, AxisValues] = {"pool": pool, "workload": workload, "threads": threads}
    axes |= {"pattern": pattern, **{k: v for k, v in params.items() if k not in _OPTIONS}}
    for name, values in axes.items():
        if len(as_list(values)) > 1:
            raise ValueError(f"{name}={values}: one value, for one cell; sweep takes several")
    suite = sweep(
        pool=[pool],
        workload=[workload],
        threads=[threads],
        pattern=[pattern],
        preset=preset,
        seed=seed,
        progress=progress,
        **params,  # type: ignore[arg-type] # names that sweep itself takes cannot be among them
    )
    return suite.summary()[0]


class _Bar:
    """A progress bar with the time left, or nothing when nobody would see it."""

    def __init__(self, total: int, wanted: bool | None) -> None:
        self._bar: Any = None
        if (sys.stderr.isatty() or "ipykernel" in sys.modules) if wanted is None else wanted:
            from tqdm.auto import tqdm

            self._bar = tqdm(total=total, unit="replicate", desc="sweep", leave=False)

    def advance(self, replicates: int) -> None:
        if self._bar is not None:
            self._bar.update(replicates)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
