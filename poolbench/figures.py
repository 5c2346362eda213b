"""Numbers, intervals, durations and tables as text. No arithmetic beyond units."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from poolbench.results import Estimate


def number(x: float) -> str:
    """Three significant digits, without an exponent where people would not write one.

    >>> number(23.456), number(0.0123), number(812.3)
    ('23.5', '0.0123', '812')
    """
    if not math.isfinite(x):
        return "-"
    if x == 0:
        return "0"
    rounded = float(f"{x:.3g}")  # first, for 9.996 has one digit before the point and 10.0 has two
    digits = max(0, 2 - math.floor(math.log10(abs(rounded))))
    return f"{x:.{digits}f}" if abs(x) < 1e6 else f"{x:.3g}"


def interval(e: Estimate, scale: float = 1.0, unit: str = "") -> str:
    """``mean [low, high]`` in units of `scale`; "no interval" for fewer than three replicates."""
    if e.n == 0:
        return "no data"
    ends = f"[{number(e.low / scale)}, {number(e.high / scale)}]" if e.n >= 3 else "[no interval]"
    return f"{number(e.mean / scale)}{unit} {ends}"


def percent(level: float) -> str:
    """0.999 as "99.9 %"."""
    return f"{100 * level:.6g} %"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Left-aligned columns, two spaces apart; the first row is the head."""
    if not rows:
        return "(nothing)"
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)).rstrip() for r in rows]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def plain(x: float) -> str:
    """A level of an axis: whole numbers whole, others with three digits."""
    return str(int(x)) if float(x).is_integer() else number(x)


def plural(n: float, noun: str) -> str:
    return f"{plain(n)} {noun}" if n == 1 else f"{plain(n)} {noun}s"


def duration(ns: float) -> str:
    """Nanoseconds in the unit people would choose.

    >>> duration(1500), duration(2_500_000)
    ('1.50 us', '2.50 ms')
    """
    for factor, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if ns >= factor:
            return f"{number(ns / factor)} {unit}"
    return f"{number(ns)} ns"
