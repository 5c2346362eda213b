"""Pool and baseline along an axis, and the stretch of it where the winner is not known.

Both curves with their bands; for each pool that changes places with the baseline, the bracket
shaded between the last level won by one and the first won by the other, with a bar on top that
carries the estimate as a tick; and the verdict in words below. Bands show how well each mean is
known. The verdict compares within blocks, so it can be sure where bands overlap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes

from poolbench.plots import _axes, _key
from poolbench.plots._lines import LineUp, labels_of, line_up
from poolbench.plots.scaling import draw
from poolbench.results import Crossover
from poolbench.suite import LEVEL, Suite

ROW = 0.06  # of the height of the axes, for the bars of one arm


def crossover(
    suite: Suite,
    *,
    ax: Axes | None = None,
    pool: str | None = None,
    baseline: str | None = None,
    along: str = "threads",
    level: float = LEVEL,
    **at: Any,
) -> Axes:
    """Draw where pools and their baseline change places along a numeric axis.

    Parameters
    ----------
    suite : what was measured
    ax : where to draw; by default the current Axes
    pool : label of the arm to draw; by default every arm but the baseline
    baseline : label of the arm to compare with; by default the first
    along : the axis to the right
    level : confidence level of bands and verdicts
    **at : values of the other axes, as `Suite.select` takes them

    Returns
    -------
    Axes
        `ax`, with one sentence per pool below it.

    Notes
    -----
    Key, sentences and note stand below the axes. The figure leaves room for them if it has a layout
    engine (`layout="constrained"`) or is saved with `bbox_inches="tight"`.

    Raises
    ------
    ValueError
        An unknown axis, value or arm; a line-up of one arm; an axis that is not numeric; or further
        axes that still have several values, which are named.

    Examples
    --------
    >>> ax = crossover(suite, pool="locked", workload="bytes")  # doctest: +SKIP
    """
    found = line_up(suite, along=along, level=level, at=at)
    found, answers = answer(found, pool=pool, baseline=baseline)
    ax = ax if ax is not None else _axes.current()
    style_of = _axes.styles(labels_of(suite))
    draw(found, ax, style_of)
    draw_brackets(answers, ax, style_of)
    ax.set_title(found.title, fontsize="medium")
    _key.draw(ax, [found], style_of, answers)
    return ax


def answer(
    found: LineUp, *, pool: str | None = None, baseline: str | None = None
) -> tuple[LineUp, list[Crossover]]:
    """Ask the suite for its crossovers; return them with the part of the line-up they are about."""
    if len(found.lines) < 2:
        raise ValueError(f"a crossover needs two arms, and here is only {found.labels[0]}")
    answers = found.suite.crossover(
        pool=pool, baseline=baseline, along=found.along, level=found.level
    )
    return found.only({c.arm for c in answers} | {c.baseline for c in answers}), list(answers)


def draw_brackets(
    answers: Sequence[Crossover], ax: Axes, style_of: Mapping[str, _axes.Style]
) -> None:
    """Shade each bracket in its arm's colour, with its bar at the top, in a row for each arm."""
    crossing = [c for c in answers if c.brackets]
    bottom, top = ax.get_ylim()
    ax.set_ylim(bottom, top * (top / bottom) ** (ROW * len(crossing)))
    for row, c in enumerate(crossing):
        for low, high, estimate in c.brackets:
            _shade(ax, c.arm, (low, high), style_of[c.arm].color)
            _bar(ax, c.arm, (low, estimate, high), 1 - ROW * (row + 0.6), style_of[c.arm].color)


def _shade(ax: Axes, arm: str, ends: tuple[float, float], color: str) -> None:
    ax.axvspan(*ends, label=f"_{arm} bracket", color=color, alpha=0.12, linewidth=0, zorder=0.8)


def _bar(ax: Axes, arm: str, places: tuple[float, float, float], y: float, color: str) -> None:
    """Draw low to high as a bar and the estimate as a tick across it, `y` up the axes."""
    low, estimate, high = places
    across = ax.get_xaxis_transform()
    ax.plot(
        [low, high],
        [y, y],
        label=f"_{arm} bar",
        transform=across,
        color=color,
        linewidth=2.5,
        solid_capstyle="butt",
    )
    ax.plot(
        [estimate],
        [y],
        label=f"_{arm} estimate",
        transform=across,
        color=color,
        linestyle="none",
        marker="|",
        markersize=8,
        markeredgewidth=1.5,
    )
