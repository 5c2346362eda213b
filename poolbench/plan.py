"""A sweep before it runs: axes, groups of arms, presets, and how long it will take.

`make_plan` turns axes into groups; nothing in a plan depends on what was measured before. Every
mistake is a `ValueError` of one line that names the value and the choices.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import index
from typing import Final, SupportsIndex

from poolbench.spec import (
    AFFINITIES,
    KINDS,
    THREADS_MAX,
    Cell,
    Spec,
    choices_text,
    clip,
    parse_spec,
    split_list,
    unsupported,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """A cell inside a group, with its value on the compared axis as its label."""

    label: str
    cell: Cell


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Arms that are compared with each other: alike in every axis but the compared one.

    `at` are the group's coordinates: axis name to text, without the compared axis. `control` is the
    label of the arm that is the baseline once more, or "". `unsupported` are arms that cannot
    exist, with the reason.
    """

    at: tuple[tuple[str, str], ...]
    arms: tuple[Arm, ...]
    control: str = ""
    unsupported: tuple[tuple[str, str], ...] = ()

    @property
    def key(self) -> str:
        text = "|".join([*(f"{k}={v}" for k, v in self.at), *(a.cell.canonical for a in self.arms)])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """How much to measure: blocks (replicates per arm), rounds (windows per replicate)."""

    blocks: int
    rounds: int


PRESETS: Final[dict[str, Preset]] = {
    "quick": Preset(blocks=5, rounds=6),
    "standard": Preset(blocks=12, rounds=10),
    "full": Preset(blocks=20, rounds=10),
}
WINDOW_S: Final = 0.010  # one window, before stretching
WARM_S: Final = 0.020  # warm-up of one replicate, before stretching
_RUN_IN_S: Final = 0.001  # unmeasured head of each window, before stretching
_START_S: Final = 0.045  # one worker: process, opening, closing
_WINDOW_COST_S: Final = 0.0006  # unparking, parking and telling, per window
_PERIODS: Final = 5  # of whatever recurs in a cell, in each window


def planned_window(cell: Cell, stretch: float) -> float:
    """Seconds of a cell's windows, before its speed is known."""
    return max(WINDOW_S * stretch, _PERIODS * cell.period_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything a sweep will do; nothing in it depends on what was measured before."""

    axes: tuple[tuple[str, tuple[str, ...]], ...]  # name -> values as text, in the order given
    compare: str
    groups: tuple[Group, ...]
    blocks: int
    rounds: int
    seed: int
    preset: str
    cpus: tuple[int, ...] = field(default=())

    def stretch(self, cell: Cell) -> float:
        """Threads per CPU, at least 1: windows grow by this factor."""
        return max(1.0, cell.threads / max(1, len(self.cpus)))

    @property
    def replicates(self) -> int:
        return self.blocks * sum(len(g.arms) for g in self.groups)

    @property
    def seconds(self) -> float:
        """Predicted wall time; cells whose windows must be longer take more."""
        return self.blocks * sum(self._arm_seconds(a.cell) for g in self.groups for a in g.arms)

    def _arm_seconds(self, cell: Cell) -> float:
        stretch = self.stretch(cell)
        window = planned_window(cell, stretch) + stretch * _RUN_IN_S + _WINDOW_COST_S
        return _START_S + stretch * WARM_S + self.rounds * window

    def block_seed(self, group: Group, block: int) -> int:
        """64 bits from (seed, group, block) alone, so that no history changes order or layout."""
        text = f"{self.seed}|{group.key}|{block}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


AxisValues = str | int | Sequence[str | int]


def as_list(values: AxisValues) -> list[str]:
    """One value, a comma-separated text, or a sequence of values, as texts."""
    if isinstance(values, str):
        return split_list(values)
    if isinstance(values, Sequence) or hasattr(values, "__iter__"):
        return [text for value in values for text in as_list(value)]
    return [str(values)]


def _parse_threads(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,20}", text) or not 1 <= int(text) <= THREADS_MAX:
        raise ValueError(f"threads={clip(text)}: a whole number from 1 to {THREADS_MAX}")
    return int(text)


def _check_axis(name: str, texts: list[str]) -> None:
    if not texts or texts == [""]:
        raise ValueError(f"{name} is empty: give at least one value")
    seen: set[str] = set()
    for text in texts:
        if text in seen:
            raise ValueError(f"{name} has '{text}' twice: list each value once")
        seen.add(text)


_CHECKED: Final = {"off": "off", "on": "on", "False": "off", "True": "on", "0": "off", "1": "on"}


def _parse_checked(text: str) -> str:
    if text not in _CHECKED:
        raise ValueError(f"checked={clip(text)}: choose from off, on")
    return _CHECKED[text]


def _param_axis(name: str, values: list[str], axes: Mapping[str, Sequence[Spec]]) -> list[str]:
    """Canonical texts of a parameter axis; ValueError if no listed spec has that parameter."""
    if name == "checked":
        return [_parse_checked(text) for text in values]
    owners = [s.entry for specs in axes.values() for s in specs if _has(s, name)]
    if not owners:
        known = sorted({p.name for specs in axes.values() for s in specs for p in s.entry.params})
        known.append("checked")
        raise ValueError(f"unknown axis '{name}'; {choices_text(name, dict.fromkeys(known))}")
    if len({entry.kind for entry in owners}) > 1:
        kinds = ", ".join(sorted({entry.kind for entry in owners}))
        raise ValueError(
            f"'{name}' is a parameter of several kinds ({kinds}): write it inside them"
        )
    return [str(owners[0].param(name).parse(v)) for v in values]


def _check_not_written(name: str, texts: Sequence[str]) -> None:
    for text in texts:
        if re.search(rf"[(,]\s*{re.escape(name)}\s*=", text):
            raise ValueError(f"'{name}' is an axis and also written in '{text}': give it once")


def _has(spec: Spec, name: str) -> bool:
    return name in dict(spec.params)


def _apply(spec: Spec, params: Mapping[str, str]) -> Spec:
    for name, text in params.items():
        if _has(spec, name):
            spec = spec.with_param(name, spec.entry.param(name).parse(text))
    return spec


def _points(axes: Mapping[str, Sequence[str]], names: Sequence[str]) -> Iterator[dict[str, str]]:
    for values in itertools.product(*(axes[n] for n in names)):
        yield dict(zip(names, values, strict=True))


def make_plan(
    *,
    pool: AxisValues,
    workload: AxisValues,
    pattern: AxisValues = "churn",
    threads: AxisValues = 1,
    params: Mapping[str, AxisValues] | None = None,
    compare: str = "pool",
    preset: str = "quick",
    blocks: int | None = None,
    rounds: int | None = None,
    seed: int = 1,
    affinity: str = "spread",
    baseline: str | None = None,
    control: bool = False,
    cpus: Sequence[int] = (),
) -> Plan:
    """Build a plan from axes; every mistake is a ValueError of one line.

    `control` adds the baseline (the first arm, unless named) a second time to every group.

    >>> plan = make_plan(pool=["fresh", "locked"], workload="bytes", threads=[1, 2], cpus=[0, 1])
    >>> len(plan.groups), plan.replicates
    (2, 20)
    """
    if preset not in PRESETS:
        raise ValueError(f"unknown preset '{preset}'; {choices_text(preset, PRESETS)}")
    if affinity not in AFFINITIES:
        raise ValueError(f"affinity={affinity}: choose from {', '.join(AFFINITIES)}")
    specs: dict[str, list[Spec]] = {
        "workload": [parse_spec("workload", t) for t in as_list(workload)],
        "pool": [parse_spec("pool", t) for t in as_list(pool)],
        "pattern": [parse_spec("pattern", t) for t in as_list(pattern)],
    }
    axes: dict[str, list[str]] = {name: [str(s) for s in found] for name, found in specs.items()}
    axes["threads"] = [str(_parse_threads(t)) for t in as_list(threads)]
    written = [*as_list(workload), *as_list(pool), *as_list(pattern)]
    for name, values in (params or {}).items():
        _check_not_written(name, written)
        axes[name] = _param_axis(name, as_list(values), specs)
    for name, texts in axes.items():
        _check_axis(name, texts)
    if compare not in axes:
        raise ValueError(f"compare={compare}: {choices_text(compare, axes)}")
    groups = tuple(_groups(axes, compare, affinity, _control(axes[compare], baseline, control)))
    found = tuple(g for g in groups if g.arms)
    if not found:
        raise ValueError(f"nothing to measure: {groups[0].unsupported[0][1]}")
    size = PRESETS[preset]
    return Plan(
        axes=tuple((name, tuple(texts)) for name, texts in axes.items()),
        compare=compare,
        groups=found,
        blocks=_whole("blocks", size.blocks if blocks is None else blocks, 1, 10_000),
        rounds=_whole("rounds", size.rounds if rounds is None else rounds, 1, 10_000),
        seed=_whole("seed", seed, 0, 2**63 - 1),
        preset=preset,
        cpus=tuple(cpus),
    )


def _control(labels: Sequence[str], baseline: str | None, wanted: bool) -> str:
    """The label that a control arm repeats, or "" without one; checks the baseline's name."""
    named = labels[0] if baseline is None else baseline
    if named not in labels:
        raise ValueError(f"baseline '{named}': choose from {', '.join(labels)}")
    return named if wanted else ""


def _groups(
    axes: Mapping[str, list[str]], compare: str, affinity: str, repeated: str
) -> Iterator[Group]:
    for at in _points(axes, [name for name in axes if name != compare]):
        arms = [
            Arm(label=label, cell=_cell({**at, compare: label}, affinity))
            for label in axes[compare]
        ]
        reasons = {arm.label: unsupported(arm.cell) for arm in arms}
        arms = [arm for arm in arms if not reasons[arm.label]]
        repeats = [a for a in arms if a.label == repeated]
        control = f"{repeated} (control)" if repeats else ""
        yield Group(
            at=tuple(at.items()),
            arms=(*arms, *(Arm(label=control, cell=a.cell) for a in repeats)),
            control=control,
            unsupported=tuple((label, why) for label, why in reasons.items() if why),
        )


def _cell(at: Mapping[str, str], affinity: str) -> Cell:
    params = {k: v for k, v in at.items() if k not in (*KINDS, "threads", "checked")}
    return Cell(
        workload=_apply(parse_spec("workload", at["workload"]), params),
        pool=_apply(parse_spec("pool", at["pool"]), params),
        pattern=_apply(parse_spec("pattern", at["pattern"]), params),
        threads=int(at["threads"]),
        affinity=affinity,
        checked=at.get("checked") == "on",
    )


def _whole(name: str, value: SupportsIndex, low: int, high: int) -> int:
    """A whole number (numpy's too) in a range; ValueError names it and the range."""
    number = index(value) if hasattr(value, "__index__") else None
    if number is None or isinstance(value, bool) or not low <= number <= high:
        raise ValueError(f"{name}={clip(value)}: a whole number from {low} to {high}")
    return number
