"""What `crossover` draws is what the suite says about it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from matplotlib import pyplot
from matplotlib.axes import Axes

from poolbench import plots
from poolbench.suite import Suite

SuiteOf = Callable[..., Suite]
Find = Callable[[str], Any]
TWICE = {
    1: {"fresh": 1.0, "locked": 2.0},
    2: {"fresh": 2.0, "locked": 1.0},
    4: {"fresh": 1.0, "locked": 2.0},
}


def labels(ax: Axes) -> list[str]:
    return [str(a.get_label()) for a in ax.get_children()]


def sentences(ax: Axes) -> list[str]:
    return [text.get_text().replace("\n", " ") for text in ax.texts]


def test_draws_on_the_given_axes_and_returns_it(crossing: Suite, ax: Axes) -> None:
    figures = pyplot.get_fignums()
    assert plots.crossover(crossing, ax=ax) is ax
    assert pyplot.get_fignums() == figures


def test_draws_on_the_current_axes_by_default(crossing: Suite, ax: Axes) -> None:
    assert plots.crossover(crossing) is ax


def test_both_curves_and_their_bands(crossing: Suite, ax: Axes, artist: Find) -> None:
    plots.crossover(crossing, ax=ax, pool="locked")
    for arm in ("fresh", "locked"):
        wanted = [m.throughput.mean / 1e6 for m in crossing.select(pool=arm).summary()]
        assert list(artist(arm).get_ydata()) == wanted
        assert artist(f"_{arm} band")
    assert "thread_local" not in labels(ax)


def test_every_arm_is_drawn_without_a_pool(crossing: Suite, ax: Axes) -> None:
    plots.crossover(crossing, ax=ax)
    assert {"fresh", "locked", "thread_local"} <= set(labels(ax))
    legend = ax.get_legend()
    assert legend is not None
    assert [t.get_text() for t in legend.get_texts()] == ["fresh", "locked", "thread_local"]


def test_the_bracket_is_shaded_from_low_to_high(crossing: Suite, ax: Axes, artist: Find) -> None:
    plots.crossover(crossing, ax=ax)
    (answer,) = crossing.crossover(pool="locked")
    assert (answer.status, answer.low, answer.high) == ("crosses", 2, 4)
    span = artist("_locked bracket")
    assert (span.get_x(), span.get_x() + span.get_width()) == (answer.low, answer.high)
    assert list(artist("_locked bar").get_xdata()) == [answer.low, answer.high]
    assert list(artist("_locked estimate").get_xdata()) == [answer.estimate]
    assert "_thread_local bracket" not in labels(ax)


def test_every_bracket_is_shaded(suite_of: SuiteOf, ax: Axes) -> None:
    suite = suite_of({"bytes": TWICE})
    plots.crossover(suite, ax=ax)
    (answer,) = suite.crossover()
    spans = [a for a in ax.patches if a.get_label() == "_locked bracket"]
    ends = [(s.get_x(), s.get_x() + s.get_width()) for s in spans]  # type: ignore[attr-defined]
    assert ends == [(low, high) for low, high, _ in answer.brackets] == [(1, 2), (2, 4)]


def test_bars_cover_no_data(crossing: Suite, ax: Axes, artist: Find) -> None:
    plots.crossover(crossing, ax=ax)
    highest = max(max(artist(arm).get_ydata()) for arm in ("fresh", "locked", "thread_local"))
    _, y = ax.transAxes.transform((0, artist("_locked bar").get_ydata()[0]))
    assert y > ax.transData.transform((1, highest))[1] + 3


def test_one_sentence_for_each_pool(crossing: Suite, ax: Axes) -> None:
    plots.crossover(crossing, ax=ax)
    verdicts = [str(c) for c in crossing.crossover()]
    assert sentences(ax)[:-1] == verdicts
    assert len(verdicts) == 2
    assert "bar and shade: the winner is not known" in sentences(ax)[-1]


def test_sentences_are_wrapped_and_stand_below(crossing: Suite, ax: Axes) -> None:
    plots.crossover(crossing, ax=ax)
    ax.figure.canvas.draw()
    legend = ax.get_legend()
    assert legend is not None
    boxes = [text.get_window_extent() for text in (ax.xaxis.label, legend, *ax.texts)]
    assert all(above.y0 >= below.y1 for above, below in pairwise(boxes))
    assert all(box.x1 <= ax.figure.bbox.x1 for box in boxes)
    assert boxes[-1].y0 >= 0


def test_the_level_reaches_bands_and_verdicts(suite_of: SuiteOf, ax: Axes) -> None:
    rates = {n: {"fresh": 10.0, "locked": 10.0 + (3 - n)} for n in (1, 2, 4)}
    suite = suite_of({"bytes": rates}, spread=(0.9, 1.0, 1.1, 1.05, 0.95))
    plots.crossover(suite, ax=ax, level=0.5)
    assert sentences(ax)[0] == str(suite.crossover(level=0.5)[0])
    assert "50 % interval" in sentences(ax)[-1]


def test_another_baseline(crossing: Suite, ax: Axes) -> None:
    plots.crossover(crossing, ax=ax, baseline="thread_local", pool="locked")
    assert sentences(ax)[0] == str(crossing.crossover(baseline="thread_local", pool="locked")[0])
    assert "fresh" not in labels(ax)


def test_without_a_crossing_nothing_is_shaded(suite_of: SuiteOf, ax: Axes) -> None:
    suite = suite_of({"bytes": {n: {"fresh": None, "locked": 1.0} for n in (1, 2)}})
    plots.crossover(suite, ax=ax)
    assert "_locked bracket" not in labels(ax)
    assert sentences(ax)[0] == str(suite.crossover()[0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"along": "pattern"}, "along=pattern: not a numeric axis; choose from threads"),
        ({"pool": "magazine"}, "no arm 'magazine'"),
        ({"baseline": "magazine"}, "no arm 'magazine'"),
        ({"pattern": "burst"}, "no pattern 'burst'"),
    ],
)
def test_mistakes_are_named(
    crossing: Suite, ax: Axes, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        plots.crossover(crossing, ax=ax, **options)
    assert not ax.has_data()


def test_varying_axes_are_named(two_workloads: Suite, ax: Axes) -> None:
    with pytest.raises(ValueError, match=r"several values of workload \(bytes, direct\)"):
        plots.crossover(two_workloads, ax=ax)


def test_one_arm_has_nothing_to_cross(crossing: Suite, ax: Axes) -> None:
    with pytest.raises(ValueError, match="needs two arms, and here is only fresh"):
        plots.crossover(crossing.select(pool="fresh"), ax=ax)
