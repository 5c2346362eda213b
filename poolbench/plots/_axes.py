"""How every panel looks: the style of each arm, the two axes, lines with bands, the CPU mark.

Each arm keeps its colour, marker and dashes in every panel and picture of a suite. Colours differ
in lightness and are told apart by colour-blind people; markers and dashes do the same in grey.
Sizes of text are relative to the reader's own font size, and no rcParams are touched.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import (
    FixedLocator,
    FuncFormatter,
    Locator,
    LogLocator,
    MaxNLocator,
    NullFormatter,
)

from poolbench import spec
from poolbench.plots._lines import Line, LineUp

SMALL: Final = "small"
GRID: Final = "0.9"
Points = tuple[float, ...]

# ---- styles --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Style:
    """How one arm is drawn."""

    color: str
    marker: str
    dashes: Points  # empty for a solid line

    @property
    def line(self) -> dict[str, Any]:
        """Keyword arguments of a `Line2D`."""
        return {
            "color": self.color,
            "marker": self.marker,
            "markersize": 4.5,
            "markeredgewidth": 1.1,
            "linewidth": 1.5,
            "linestyle": (0, self.dashes) if self.dashes else "-",
        }


STYLES: Final = (
    Style("#3d3d3d", "o", ()),
    Style("#1a80c4", "s", (5, 1.2)),
    Style("#e69f00", "^", ()),
    Style("#009e73", "D", (3, 1, 1, 1)),
    Style("#cc79a7", "v", (5, 1.2)),
    Style("#56b4e9", "P", (1.5, 1)),
    Style("#d55e00", "X", (3, 1, 1, 1)),
    Style("#882255", "h", (1.5, 1)),
)


def styles(labels: Iterable[str]) -> dict[str, Style]:
    """Give each label a style of its own, the same whatever their order.

    Each pool has the style at its place in the registry. Other labels, such as a second `locked`
    with parameters, take the styles that no pool has, then any; more labels than styles share them.

    >>> found = styles(["locked(capacity=4)", "locked", "fresh"])
    >>> found == styles(["fresh", "locked", "locked(capacity=4)"])
    True
    """
    pools = list(spec.registry()["pool"])
    ordered = sorted((_rank(label, pools), label) for label in labels)
    taken = len(pools) if any(place < len(pools) for (place, _), _ in ordered) else 0
    free = [*STYLES[taken:], *STYLES[:taken]]
    found: dict[str, Style] = {}
    for (place, _), label in ordered:
        free = free or list(STYLES)
        own = STYLES[place % len(STYLES)]
        found[label] = own if place < len(pools) and own in free else free[0]
        free.remove(found[label])
    return found


def _rank(label: str, pools: Sequence[str]) -> tuple[int, float]:
    """Place in the registry, beyond it for what is no pool; then numbers by size."""
    name = label.partition("(")[0]
    place = pools.index(name) if name in pools else len(pools)
    return place, float(label) if label.isdigit() else math.inf


def current() -> Axes:
    """Return pyplot's current Axes; a figure made for it has room for what stands below."""
    from matplotlib import pyplot

    if not pyplot.get_fignums():
        pyplot.figure(layout="constrained")
    return pyplot.gca()


# ---- axes ----------------------------------------------------------------------------------------


class LevelTicks(FixedLocator):
    """Ticks at measured levels: powers of two first, the others where their labels fit."""

    def __init__(self, levels: Sequence[float], labels: Sequence[str]) -> None:
        super().__init__(list(levels))
        self.levels = list(levels)
        self.widths = [6.5 * len(text) + 3.0 for text in labels]  # points, about

    def tick_values(self, vmin: Any, vmax: Any) -> Any:
        """Return the levels that can be labelled."""
        at = self._places()
        kept: list[int] = []
        for i in sorted(range(len(at)), key=lambda i: (not _is_power_of_two(self.levels[i]), i)):
            room = (abs(at[i] - at[k]) - (self.widths[i] + self.widths[k]) / 2 for k in kept)
            if all(r >= 0.0 for r in room):
                kept.append(i)
        return np.array([self.levels[i] for i in sorted(kept)])

    def _places(self) -> list[float]:
        """Where the levels are, in points."""
        axes: Axes = self.axis.axes  # type: ignore[union-attr]
        points = [(x, 1.0) for x in self.levels]
        scale = 72.0 / float(axes.figure.dpi)
        return [float(x) * scale for x, _ in axes.transData.transform(points)]


class ThroughputTicks(Locator):
    """Ticks of a log axis at 1, 2, 5, 10 ...; only decades on a long one, even steps on a short."""

    def __call__(self) -> Any:
        """Return the ticks for the present view."""
        low, high = self.axis.get_view_interval()  # type: ignore[union-attr]
        return self.tick_values(low, high)

    def tick_values(self, vmin: float, vmax: float) -> Any:
        """Return the ticks between two values."""
        decades = math.log10(vmax / vmin)
        if decades < 0.7:
            return MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(vmin, vmax)
        subs = (1.0, 2.0, 5.0) if decades < 2.6 else (1.0,)
        return LogLocator(subs=subs, numticks=99).tick_values(vmin, vmax)


def prepare(ax: Axes, found: LineUp) -> None:
    """Scale, limit, tick and label both axes; what was prepared before on them stays in view."""
    _prepare_x(ax, found)
    _prepare_y(ax, found)
    ax.set_axisbelow(True)
    ax.grid(True, which="major", color=GRID, linewidth=0.6)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=SMALL)


def _prepare_x(ax: Axes, found: LineUp) -> None:
    before = ax.xaxis.get_major_locator()
    levels = set(found.levels) | set(before.levels if isinstance(before, LevelTicks) else ())
    ordered = sorted(levels)
    _scale_x(ax, ordered)
    show = _level_text(found.along)
    ax.xaxis.set_major_locator(LevelTicks(ordered, [show(x) for x in ordered]))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: show(x)))
    ax.xaxis.set_minor_locator(FixedLocator(ordered))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel(found.along)  # tick labels carry the unit


def _scale_x(ax: Axes, levels: Sequence[float]) -> None:
    """Log scale to base 2, with a linear stretch down to 0 if 0 is a level."""
    low, high = levels[0], levels[-1]
    if low > 0.0:
        scale, options = "log", {"base": 2.0}
        margin = max(0.06 * math.log2(high / low), 0.2)
        limits = (low * 2**-margin, high * 2**margin)
    else:
        first = levels[1] if len(levels) > 1 else 1.0
        scale, options = "symlog", {"base": 2.0, "linthresh": first}
        limits = (-0.3 * first, max(high, first) * 1.3)
    if ax.get_xscale() != scale:
        ax.set_xscale(scale, **options)
    ax.set_xlim(limits)


def _prepare_y(ax: Axes, found: LineUp) -> None:
    before = isinstance(ax.yaxis.get_major_locator(), ThroughputTicks)
    limits = [*ax.get_ylim()] if before else []
    if ax.get_yscale() != "log":
        ax.set_yscale("log")
    ax.yaxis.set_major_locator(ThroughputTicks())
    ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.set_ylabel("M operations/s")
    extent = _extent(found.lines)
    if extent:
        ax.set_ylim(min([extent[0], *limits]), max([extent[1], *limits]))


def _extent(lines: Iterable[Line]) -> tuple[float, float] | None:
    """Limits that show every mean, and its interval up to half and twice the mean."""
    ends: list[float] = []
    for line in lines:
        for y, low, high in zip(line.y, line.low, line.high, strict=True):
            if y > 0.0:
                ends += [y, np.nanmax([y / 2, low]), np.nanmin([y * 2, high])]
    if not ends:
        return None
    low, high = min(ends), max(ends)
    pad = max(0.07 * math.log(high / low), 0.35 - math.log(high / low) / 2)  # a factor 2 at least
    return low * math.exp(-pad), high * math.exp(pad)


def _is_power_of_two(x: float) -> bool:
    return x == 0.0 or (x > 0.0 and math.log2(x).is_integer())


def _kind(along: str) -> spec.Param | None:
    """The registry's parameter of that name, which knows its unit."""
    entries = (e for kind in spec.KINDS for e in spec.registry()[kind].values())
    return next((p for e in entries for p in e.params if p.name == along), None)


def _level_text(along: str) -> Any:
    """How a level of an axis is written: sizes and times with their unit."""
    param = _kind(along)
    if param is None:
        return lambda x: f"{x:g}"
    return lambda x: param.show(int(x)) if float(x).is_integer() else f"{x:g}"


# ---- lines ---------------------------------------------------------------------------------------


def draw_line(ax: Axes, line: Line, style: Style) -> None:
    """Draw one arm: its band, its line with a marker per cell, oversubscribed cells hollow."""
    draw_band(ax, line, style)
    ax.plot(line.x, line.y, label=line.label, zorder=2.5, **style.line)
    hollow = [i for i, over in enumerate(line.oversubscribed) if over]
    if hollow:
        ax.plot(
            [line.x[i] for i in hollow],
            [line.y[i] for i in hollow],
            label=f"_{line.label} oversubscribed",
            zorder=2.6,
            **{**style.line, "linestyle": "none", "markerfacecolor": ax.get_facecolor()},
        )


def draw_band(ax: Axes, line: Line, style: Style) -> None:
    """Shade the intervals of neighbouring cells; a cell alone gets a bar."""
    has = [math.isfinite(low) for low in line.low]
    joined = [a and b for a, b in pairwise(has)]
    if any(joined):
        ax.fill_between(
            line.x,
            line.low,
            line.high,
            label=f"_{line.label} band",
            color=style.color,
            alpha=0.17,
            linewidth=0,
            zorder=1.5,
        )
    near = [a or b for a, b in zip([False, *joined], [*joined, False], strict=True)]
    alone = [i for i, finite in enumerate(has) if finite and not near[i]]
    if alone:
        x, low, high = ([values[i] for i in alone] for values in (line.x, line.low, line.high))
        ax.vlines(
            x, low, high, label=f"_{line.label} bar", color=style.color, alpha=0.5, linewidth=3
        )


def mark_cpus(ax: Axes, found: LineUp) -> None:
    """Draw a line at the number of CPUs and shade the oversubscribed side."""
    if found.along == "threads":
        far = 1e3 * max(found.cpus, *found.levels)
        ax.axvspan(found.cpus, far, label="_oversubscribed", color="0.5", alpha=0.09, linewidth=0)
        ax.axvline(found.cpus, label="_cpus", color="0.55", linewidth=0.8, zorder=1)
