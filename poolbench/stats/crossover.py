"""Verdicts along an axis: where the faster arm changes, and which level to measure next.

Only levels that were won or lost say on which side of a crossover they lie. Between the last of
one kind and the first of the other the winner is not known, and that stretch of the axis, in
levels the user chose, is the answer:

    x           1      2      4      8      16
    verdict   loses  loses    ?     wins   wins        rising, between 2 and 8

A point estimate is offered inside the bracket, from the chord of the mean log-ratios; it has no
interval of its own. Where no single change of sign was seen, the answer is a word, not a number.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from poolbench.stats.compare import Verdict

NARROW = 1.1
"""A bracket whose ends have this ratio or less is not refined."""

NARROW_AT_ZERO = 0.01
"""The same for brackets that begin at 0: their width as a share of the highest level. Integers
are followed down to 0 and 1."""

Status = Literal[
    "crosses",
    "A always",
    "A or equivalent",
    "B always",
    "B or equivalent",
    "equivalent",
    "not resolved",
    "crosses more than once",
]
"""A is the arm, B the baseline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One comparison on the axis."""

    x: float  # finite, >= 0
    verdict: Verdict  # of the arm against the baseline
    mean_log_ratio: float  # above 0 where the arm is faster


@dataclass(frozen=True, slots=True, kw_only=True)
class Bracket:
    """Neighbouring levels, one won and one lost, with a crossover between them."""

    low: float
    high: float
    estimate: float  # low <= estimate <= high
    rising: bool  # the arm loses at `low` and wins at `high`


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """The answer for one axis; `brackets` is empty unless the status says that it crosses."""

    status: Status
    brackets: tuple[Bracket, ...]  # by rising x


def find_crossing(levels: Sequence[Level]) -> Crossing:
    """Find where the winner changes (sign changes between resolved levels; zero of the chord).

    The chord of the mean log-ratio is drawn over log x, or over x if any level is 0.

    Parameters
    ----------
    levels : in any order, each x once

    Returns
    -------
    Crossing
        - "crosses", "crosses more than once": one, or several, changes between won and lost.
          Unresolved and equivalent levels widen a bracket but do not prevent it.
        - "A always", "B always": every level won, or every level lost.
        - "A or equivalent", "B or equivalent": some of them equivalent instead.
        - "equivalent": all of them.
        - "not resolved": no change, and a level that could hide one is not resolved.

    Raises
    ------
    ValueError
        No levels, an x twice, an x that is negative or not finite, or a verdict that its own
        mean contradicts.

    Examples
    --------
    >>> axis = [
    ...     Level(x=1.0, verdict="loses", mean_log_ratio=-0.2),
    ...     Level(x=2.0, verdict="not resolved", mean_log_ratio=0.0),
    ...     Level(x=4.0, verdict="wins", mean_log_ratio=0.2),
    ... ]
    >>> find_crossing(axis)
    Crossing(status='crosses', brackets=(Bracket(low=1.0, high=4.0, estimate=2.0, rising=True),))
    """
    ordered = _checked(levels)
    decided = [level for level in ordered if level.verdict in ("wins", "loses")]
    logarithmic = ordered[0].x > 0.0
    brackets = tuple(
        _bracket(a, b, logarithmic) for a, b in pairwise(decided) if a.verdict != b.verdict
    )
    return Crossing(status=_status(ordered, len(brackets)), brackets=brackets)


def next_level(levels: Sequence[Level], bracket: Bracket, *, integers: bool) -> float | None:
    """Return the level to measure next inside a bracket (bisection on a log scale).

    Parameters
    ----------
    levels : all levels measured so far
    bracket : one of `find_crossing(levels).brackets`
    integers : the axis has whole levels only, such as threads

    Returns
    -------
    float or None
        The geometric mean of the ends, or the half of `high` where `low` is 0; rounded for
        integers. None where the bracket is narrow enough (high / low <= 1.1, or neighbouring
        integers; from 0 up, width within 1 % of the axis) or its middle was measured already,
        which has then not been resolved.

    Raises
    ------
    ValueError
        The ends are not 0 <= low < high.

    Examples
    --------
    >>> bracket = Bracket(low=2.0, high=8.0, estimate=3.0, rising=True)
    >>> next_level([], bracket, integers=True)
    4.0
    """
    low, high = bracket.low, bracket.high
    if not 0.0 <= low < high:
        raise ValueError(f"a bracket needs 0 <= low < high, got {low} and {high}")
    if low > 0.0 and high / low <= NARROW:
        return None
    if low == 0.0 and not integers and high <= NARROW_AT_ZERO * _highest(levels):
        return None
    middle = math.sqrt(low) * math.sqrt(high) if low > 0.0 else high / 2.0
    if integers:
        first, last = math.floor(low) + 1, math.ceil(high) - 1
        if first > last:
            return None
        middle = float(min(max(round(middle), first), last))
    measured = any(math.isclose(level.x, middle, rel_tol=1e-6) for level in levels)
    return None if measured else middle


def _checked(levels: Sequence[Level]) -> list[Level]:
    """Return the levels by rising x, or say what is wrong with them."""
    if not levels:
        raise ValueError("no levels to find a crossing among")
    for level in levels:
        if not (math.isfinite(level.x) and level.x >= 0.0):
            raise ValueError(f"level {level.x}: x must be finite and not negative")
        sign = {"wins": 1.0, "loses": -1.0}.get(level.verdict)
        if sign is not None and not level.mean_log_ratio * sign > 0.0:
            raise ValueError(
                f"level {level.x}: {level.verdict} with a mean log-ratio of {level.mean_log_ratio}"
            )
    ordered = sorted(levels, key=lambda level: level.x)
    for a, b in pairwise(ordered):
        if a.x == b.x:
            raise ValueError(f"level {a.x} occurs more than once")
    return ordered


def _bracket(a: Level, b: Level, logarithmic: bool) -> Bracket:
    """Build the bracket between two decided levels of opposite verdicts."""
    share = a.mean_log_ratio / (a.mean_log_ratio - b.mean_log_ratio)
    zero = a.x * (b.x / a.x) ** share if logarithmic else a.x + share * (b.x - a.x)
    inside = min(max(zero, a.x), b.x)  # rounding can carry it past an end
    return Bracket(low=a.x, high=b.x, estimate=inside, rising=b.verdict == "wins")


def _status(levels: Sequence[Level], changes: int) -> Status:
    """Name the answer, given the number of changes between won and lost."""
    if changes:
        return "crosses" if changes == 1 else "crosses more than once"
    seen = {level.verdict for level in levels}
    if "not resolved" in seen:
        return "not resolved"
    if seen == {"equivalent"}:
        return "equivalent"
    if "wins" in seen:
        return "A or equivalent" if "equivalent" in seen else "A always"
    return "B or equivalent" if "equivalent" in seen else "B always"


def _highest(levels: Sequence[Level]) -> float:
    """Return the highest x of the levels, 0 without levels."""
    return max((level.x for level in levels), default=0.0)
