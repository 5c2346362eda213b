"""Whole figures: one panel per value of an axis, with one key above them all.

Panels share the axis to the right, and each has its own throughput axis: workloads differ by
orders of magnitude. The figure belongs to no window and needs no display.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from poolbench.plots import _axes, _key
from poolbench.plots._lines import LineUp, axis_values, labels_of, line_up
from poolbench.plots.crossover import answer, draw_brackets
from poolbench.plots.scaling import draw
from poolbench.results import Crossover
from poolbench.suite import LEVEL, Suite

KINDS: Final = ("scaling", "crossover")
PANEL: Final = (2.7, 2.3)  # inches
COLUMNS: Final = 3
DPI: Final = 150


@dataclass(frozen=True, slots=True, kw_only=True)
class _Panel:
    title: str
    found: LineUp
    answers: tuple[Crossover, ...]


def grid(suite: Suite, kind: str = "scaling", *, over: str = "workload", **options: Any) -> Figure:
    """Draw a figure with one panel per value of an axis.

    Parameters
    ----------
    suite : what was measured
    kind : scaling or crossover
    over : the axis that has a panel for each of its values
    **options : as the function called `kind` takes them, without `ax`

    Returns
    -------
    Figure
        Of a size that suits its panels; `savefig` writes it. It is not known to pyplot.

    Raises
    ------
    ValueError
        An unknown kind, and whatever the function called `kind` refuses.

    Examples
    --------
    >>> grid(suite, "crossover", pool="locked").savefig("crossover.png")  # doctest: +SKIP
    """
    if kind not in KINDS:
        raise ValueError(f"unknown kind '{kind}'; choose from {', '.join(KINDS)}")
    panels = list(_panels(suite, kind, over, dict(options)))
    style_of = _axes.styles(labels_of(suite))
    figure, axes = _figure(len(panels))
    for ax, panel in zip(axes, panels, strict=True):
        draw(panel.found, ax, style_of)
        draw_brackets(panel.answers, ax, style_of)
        ax.set_title(panel.title, loc="left", fontsize="medium", fontweight="bold")
    _leave_out_labels(axes)
    answers = [c for panel in panels for c in panel.answers]
    _key.put_on(figure, [panel.found for panel in panels], style_of, answers)
    if answers:
        _write(figure, axes, panels)
    return figure


def _panels(suite: Suite, kind: str, over: str, options: dict[str, Any]) -> Iterator[_Panel]:
    """What each panel shows."""
    along, level = options.pop("along", "threads"), options.pop("level", LEVEL)
    names = ("pool", "baseline") if kind == "crossover" else ()
    arms = {name: options.pop(name) for name in names if name in options}
    if over == along:
        raise ValueError(f"over={over}: the panels have that axis to the right already")
    chosen = suite.select(**options)
    for value in axis_values(chosen, over):
        found = line_up(chosen, along=along, level=level, at={over: value})
        answers: list[Crossover] = []
        if kind == "crossover":
            found, answers = answer(found, **arms)
        title = value if over in ("workload", "pool", "pattern") else f"{over}={value}"
        yield _Panel(title=title, found=found, answers=tuple(answers))


def _figure(n: int) -> tuple[Figure, list[Axes]]:
    """Return a figure of `n` panels, in rows of at most three."""
    columns = 2 if n == 4 else min(n, COLUMNS)
    rows = math.ceil(n / columns)
    wide, tall = PANEL if n > 1 else (4.2, 2.8)
    engine = ConstrainedLayoutEngine(wspace=0.04, hspace=0.06)
    figure = Figure(figsize=(wide * columns, tall * rows), dpi=DPI, layout=engine)
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, sharex=True, squeeze=False).ravel().tolist()
    for spare in axes[n:]:
        spare.remove()
    return figure, axes[:n]


def _leave_out_labels(axes: Sequence[Axes]) -> None:
    """Label the throughput axis of the first panel of each row only, every axis to the right."""
    for ax in axes:
        ax.tick_params(labelbottom=True)
        ax.set_ylabel(ax.get_ylabel() if ax.get_subplotspec().is_first_col() else "")  # type: ignore[union-attr]


def _write(figure: Figure, axes: Sequence[Axes], panels: Sequence[_Panel]) -> None:
    """Write the sentences, wrapped to the widths after layout, and make room for them."""
    figure.draw_without_rendering()
    tall: dict[int, float] = {}
    for ax, panel in zip(axes, panels, strict=True):
        texts = _key.write(ax, [str(c) for c in panel.answers], below=ax.xaxis.label)
        row = ax.get_subplotspec().rowspan.start  # type: ignore[union-attr]
        tall[row] = max(tall.get(row, 0.0), sum(t.get_window_extent().height for t in texts))
    _key.grow(figure, sum(tall.values()))
