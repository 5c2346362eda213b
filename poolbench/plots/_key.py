"""The words around a panel: which line is which arm, what the marks mean, what the verdicts say.

All of it stands outside the axes, where no data can be: below one Axes, or around a whole figure.
Text is wrapped to the width it has. Layout engines and tight bounding boxes count it in.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, Final

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.text import Annotation
from matplotlib.transforms import ScaledTranslation

from poolbench.plots._axes import SMALL, Style
from poolbench.plots._lines import LineUp
from poolbench.results import Crossover

INK: Final = "0.2"
PALE: Final = "0.4"
LETTER: Final = 0.52  # mean width of a letter, in font sizes
LEGEND: Final[dict[str, Any]] = {
    "fontsize": SMALL,
    "frameon": False,
    "labelcolor": INK,
    "borderpad": 0.0,
    "columnspacing": 1.6,
    "handlelength": 2.6,
    "labelspacing": 0.35,
}


def draw(
    ax: Axes,
    line_ups: Sequence[LineUp],
    style_of: Mapping[str, Style],
    answers: Sequence[Crossover] = (),
) -> None:
    """Put the legend, the verdicts and the note below one Axes."""
    handles = _handles(line_ups, style_of)
    room = _width(ax)
    legend = ax.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(0.0, 0.0),
        bbox_transform=ax.transAxes
        + ScaledTranslation(0.0, -_label_height(ax) / 72.0, ax.figure.dpi_scale_trans),
        ncols=_columns(handles, room),
        borderaxespad=0.0,
        **LEGEND,
    )
    *_, last = legend, *write(ax, [str(c) for c in answers], below=legend)
    write(ax, filter(None, [note(line_ups, answers)]), below=last, color=PALE)


def put_on(
    figure: Figure,
    line_ups: Sequence[LineUp],
    style_of: Mapping[str, Style],
    answers: Sequence[Crossover] = (),
) -> None:
    """Put the legend on top of a figure and the note at its foot, and make room for both."""
    handles = _handles(line_ups, style_of)
    room = 72.0 * figure.get_figwidth() - 20.0
    legend = figure.legend(
        handles=handles, loc="outside upper left", ncols=_columns(handles, room), **LEGEND
    )
    foot = figure.supxlabel(
        _wrapped(note(line_ups, answers), room), x=0.01, ha="left", fontsize=SMALL, color=PALE
    )
    grow(figure, legend.get_window_extent().height + foot.get_window_extent().height)


def write(
    ax: Axes, sentences: Iterable[str], *, below: Artist, color: str = INK
) -> list[Annotation]:
    """Write sentences under an artist, one under the other, wrapped to the width of the axes."""
    found: list[Annotation] = []
    for sentence in sentences:
        text = ax.annotate(
            _wrapped(sentence, _width(ax)),
            xy=(0.0, 0.0),
            xycoords=("axes fraction", below),
            xytext=(0.0, -4.0),
            textcoords="offset points",
            va="top",
            fontsize=SMALL,
            color=color,
            annotation_clip=False,
        )
        found.append(text)
        below = text
    return found


def note(line_ups: Sequence[LineUp], answers: Sequence[Crossover] = ()) -> str:
    """Return what bands, hollow points, bars and gaps are, as far as there are any."""
    lines = [line for found in line_ups for line in found.lines]
    parts = []
    counts = sorted({n for line in lines for n in line.n if n >= 3})
    if counts:
        span = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        level = f"{100 * line_ups[0].level:.6g} %"
        parts.append(f"bands: {level} interval over {span} replicates")
    if any(over for line in lines for over in line.oversubscribed):
        cpus = max(found.cpus for found in line_ups)
        parts.append(f"hollow: more threads than the {cpus} CPU{'s' if cpus > 1 else ''}")
    if any(c.brackets for c in answers):
        parts.append("bar and shade: the winner is not known; tick: estimate")
    if any(n == 0 for line in lines for n in line.n):
        parts.append("gaps: no replicate finished")
    return "; ".join(parts)


def grow(figure: Figure, pixels: float) -> None:
    """Make a figure taller."""
    figure.set_figheight(figure.get_figheight() + pixels / figure.dpi)


def _handles(line_ups: Sequence[LineUp], style_of: Mapping[str, Style]) -> list[Line2D]:
    labels = dict.fromkeys(label for found in line_ups for label in found.labels)
    return [Line2D([], [], label=label, **style_of[label].line) for label in labels]


def _columns(handles: Sequence[Line2D], room: float) -> int:
    """How many legend columns, which are filled one after the other, fit in `room` points."""
    sample = LEGEND["handlelength"] + 2.4
    widths = [
        (len(str(handle.get_label())) * LETTER + sample) * _points(SMALL) for handle in handles
    ]
    for n in range(len(widths), 1, -1):
        short, more = divmod(len(widths), n)
        ends = list(accumulate([short + 1] * more + [short] * (n - more), initial=0))
        if sum(max(widths[a:b]) for a, b in pairwise(ends)) <= room:
            return n
    return 1


def _wrapped(sentence: str, room: float) -> str:
    return textwrap.fill(sentence, max(20, int(room / (LETTER * _points(SMALL)))))


def _width(ax: Axes) -> float:
    """Width of the axes in points."""
    return float(ax.get_window_extent().width) * 72.0 / float(ax.figure.dpi)


def _points(size: str | float) -> float:
    return float(FontProperties(size=size).get_size_in_points())


def _label_height(ax: Axes) -> float:
    """Points from the bottom of the axes to below the axis label."""
    text = 1.2 * (_points(SMALL) + _points(ax.xaxis.label.get_fontsize()))
    return text + 7.0 + ax.xaxis.labelpad + 4.0  # a tick and its pad are 3.5 points each
