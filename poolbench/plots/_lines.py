"""What a panel shows, as plain numbers: one line per arm along one numeric axis.

A line-up is the part of a suite that fits on one Axes: groups that differ only in their place on
the axis. Nothing here draws, and nothing is estimated: means and intervals come from the suite.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from poolbench.results import GroupInfo, Measurement
from poolbench.suite import Suite

MEGA = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One arm by rising x; `y`, `low` and `high` in million operations per second, nan for none."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    n: tuple[int, ...]
    oversubscribed: tuple[bool, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LineUp:
    """The lines of one panel, and what they have in common."""

    suite: Suite  # only the groups of this line-up
    along: str
    level: float
    lines: tuple[Line, ...]
    cpus: int
    title: str

    @property
    def levels(self) -> list[float]:
        """Every measured place on the axis, rising."""
        return sorted({x for line in self.lines for x in line.x})

    @property
    def labels(self) -> list[str]:
        return [line.label for line in self.lines]

    def only(self, labels: Iterable[str]) -> LineUp:
        """Return the line-up with these lines alone."""
        wanted = set(labels)
        return replace(self, lines=tuple(line for line in self.lines if line.label in wanted))


def line_up(suite: Suite, *, along: str, level: float, at: Mapping[str, Any]) -> LineUp:
    """Select one line-up of a suite.

    Raises
    ------
    ValueError
        An unknown axis or value; `along` is not numeric or is what the arms differ in; further
        axes vary, which are named with their values.
    """
    chosen = suite.select(**at)
    groups = list(chosen.groups.values())
    compare = _compared(groups)
    _check_along(groups, along, compare)
    _check_rest(groups, {name: _values(groups, name) for name in chosen.axes}, {along, compare})
    cells: dict[str, dict[float, Measurement]] = {}
    for m in chosen.summary(level=level):
        arm, x = cells.setdefault(m.cell[compare], {}), float(m.cell[along])
        if x in arm:
            raise ValueError(f"{m.cell[compare]} occurs twice at {along}={m.cell[along]}")
        arm[x] = m
    return LineUp(
        suite=chosen,
        along=along,
        level=level,
        lines=tuple(_line(label, arm) for label, arm in cells.items()),
        cpus=max(g.cpus for g in groups),
        title=_title(groups[0], along),
    )


def labels_of(suite: Suite) -> list[str]:
    """Return the labels of all arms, in the order of the suite."""
    return list(dict.fromkeys(label for g in suite.groups.values() for label in g.arms))


def axis_values(suite: Suite, name: str) -> list[str]:
    """Return the values of one axis, in the order of the suite; ValueError if unknown."""
    if name not in suite.axes:
        raise ValueError(f"unknown axis '{name}'; choose from {', '.join(suite.axes)}")
    found = (g.cell(label).get(name, "") for g in suite.groups.values() for label in g.arms)
    return list(dict.fromkeys(found))


def _compared(groups: Sequence[GroupInfo]) -> str:
    names = sorted({g.compare for g in groups})
    if not names:
        raise ValueError("nothing to draw: the suite has no groups")
    if len(names) > 1:
        raise ValueError(f"the arms differ in {' and in '.join(names)}: draw one suite for each")
    return names[0]


def _check_along(groups: Sequence[GroupInfo], along: str, compare: str) -> None:
    names = dict.fromkeys(name for g in groups for name in g.at)
    numeric = [name for name in names if all(_is_level(v) for v in _values(groups, name))]
    if along not in numeric:
        why = "what the arms differ in" if along == compare else "not a numeric axis"
        raise ValueError(f"along={along}: {why}; choose from {', '.join(numeric)}")


def _is_level(text: str) -> bool:
    try:
        return 0.0 <= float(text) < math.inf
    except ValueError:
        return False


def _check_rest(
    groups: Sequence[GroupInfo], values: Mapping[str, Sequence[str]], drawn: set[str]
) -> None:
    varying = {k: v for k, v in values.items() if k not in drawn and len(v) > 1}
    if varying:
        named = " and ".join(f"{k} ({', '.join(v)})" for k, v in varying.items())
        name, (value, *_) = next(iter(varying.items()))
        raise ValueError(
            f"several values of {named}: one Axes holds one value each, such as {name}='{value}'"
        )


def _values(groups: Sequence[GroupInfo], name: str) -> list[str]:
    return list(dict.fromkeys(g.at.get(name, "") for g in groups))


def _line(label: str, arm: Mapping[float, Measurement]) -> Line:
    levels = sorted(arm)
    found = [arm[x].throughput for x in levels]
    return Line(
        label=label,
        x=tuple(levels),
        y=tuple(e.mean / MEGA for e in found),
        low=tuple(e.low / MEGA for e in found),
        high=tuple(e.high / MEGA for e in found),
        n=tuple(e.n for e in found),
        oversubscribed=tuple(arm[x].oversubscribed for x in levels),
    )


def _title(group: GroupInfo, along: str) -> str:
    """Coordinates of the line-up: workload, pool and pattern speak for themselves."""
    plain = ("workload", "pool", "pattern")
    first = [group.at[k] for k in plain if k in group.at]
    rest = [f"{k}={v}" for k, v in group.at.items() if k not in (*plain, along)]
    return ", ".join([*first, *rest])
