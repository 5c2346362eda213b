"""Throughput against threads, or any numeric axis: does more of it give more work?

One line per arm on a logarithmic scale, its interval as a band. A line that climbs with the CPUs
scales; one that lies flat has met its lock. Right of the CPU mark threads share CPUs: the points
are hollow, and a difference there says as much about the scheduler as about the pool.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes

from poolbench.plots import _axes, _key
from poolbench.plots._lines import LineUp, labels_of, line_up
from poolbench.suite import LEVEL, Suite


def scaling(
    suite: Suite, *, ax: Axes | None = None, along: str = "threads", level: float = LEVEL, **at: Any
) -> Axes:
    """Draw the throughput of every arm of one line-up along a numeric axis.

    Parameters
    ----------
    suite : what was measured
    ax : where to draw; by default the current Axes
    along : the axis to the right
    level : confidence level of the bands
    **at : values of the other axes, as `Suite.select` takes them

    Returns
    -------
    Axes
        `ax`. Cells of fewer than three replicates have no band, cells without any leave a gap.

    Notes
    -----
    Key and note stand below the axes. The figure leaves room for them if it has a layout engine
    (`layout="constrained"`) or is saved with `bbox_inches="tight"`.

    Raises
    ------
    ValueError
        An unknown axis or value, an axis that is not numeric, or further axes that still have
        several values, which are named.

    Examples
    --------
    >>> ax = scaling(suite, workload="direct")  # doctest: +SKIP
    """
    found = line_up(suite, along=along, level=level, at=at)
    ax = ax if ax is not None else _axes.current()
    style_of = _axes.styles(labels_of(suite))
    draw(found, ax, style_of)
    ax.set_title(found.title, fontsize="medium")
    _key.draw(ax, [found], style_of)
    return ax


def draw(found: LineUp, ax: Axes, style_of: Mapping[str, _axes.Style]) -> None:
    """Draw the lines of a line-up without title or key."""
    _axes.prepare(ax, found)
    _axes.mark_cpus(ax, found)
    for line in found.lines:
        _axes.draw_line(ax, line, style_of[line.label])
