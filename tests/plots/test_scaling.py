"""What `scaling` draws is what the suite says, and nothing else is touched."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.axes import Axes

from poolbench import plots
from poolbench.plots._axes import STYLES, styles
from poolbench.suite import Suite

SuiteOf = Callable[..., Suite]
Find = Callable[[str], Any]
FOUR = {n: {"fresh": 10.0 * n} for n in (1, 2, 4, 8)}


def band_edges(band: Any, x: float) -> tuple[float, float]:
    """Lowest and highest y of a band at x."""
    (path,) = band.get_paths()
    at = [y for found, y in path.vertices if found == x]
    return min(at), max(at)


def words(ax: Axes) -> str:
    return " ".join(text.get_text().replace("\n", " ") for text in ax.texts)


# ---- the contract -------------------------------------------------------------------------------


def test_importing_plots_loads_no_matplotlib() -> None:
    code = "import sys, poolbench.plots as p; dir(p); assert 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_functions_are_not_hidden_by_their_modules() -> None:
    for name in plots.__all__:
        importlib.import_module(f"poolbench.plots.{name}")
    assert callable(plots.scaling)
    assert callable(plots.grid)
    assert sorted(dir(plots)) == ["crossover", "grid", "scaling"]
    with pytest.raises(AttributeError, match="no attribute 'heatmap'"):
        plots.heatmap  # noqa: B018


def test_draws_on_the_given_axes_and_returns_it(crossing: Suite, ax: Axes) -> None:
    before, other = dict(matplotlib.rcParams), pyplot.figure().subplots()
    figures = pyplot.get_fignums()
    assert plots.scaling(crossing, ax=ax) is ax
    assert pyplot.get_fignums() == figures
    assert not other.has_data()
    assert dict(matplotlib.rcParams) == before


def test_draws_on_the_current_axes_by_default(crossing: Suite, ax: Axes) -> None:
    assert plots.scaling(crossing) is ax
    pyplot.close("all")
    assert plots.scaling(crossing) is pyplot.gca()


def test_options_are_given_by_name(crossing: Suite, ax: Axes) -> None:
    with pytest.raises(TypeError):
        plots.scaling(crossing, ax)  # type: ignore[call-arg]


# ---- lines and bands ----------------------------------------------------------------------------


def test_lines_are_throughputs_in_millions(crossing: Suite, ax: Axes, artist: Find) -> None:
    plots.scaling(crossing, ax=ax)
    assert list(artist("fresh").get_xdata()) == [1, 2, 4, 8]
    for arm in ("fresh", "locked", "thread_local"):
        wanted = [m.throughput.mean / 1e6 for m in crossing.select(pool=arm).summary()]
        assert list(artist(arm).get_ydata()) == wanted


@pytest.mark.parametrize("level", [0.95, 0.999])
def test_bands_are_intervals(crossing: Suite, ax: Axes, artist: Find, level: float) -> None:
    plots.scaling(crossing, ax=ax, level=level)
    for m in crossing.select(pool="locked").summary(level=level):
        low, high = band_edges(artist("_locked band"), m.threads)
        assert low == m.throughput.low / 1e6
        assert high == m.throughput.high / 1e6
    assert f"{100 * level:g} % interval over 5 replicates" in words(ax)


def test_levels_are_drawn_in_rising_order(suite_of: SuiteOf, ax: Axes, artist: Find) -> None:
    suite = suite_of({"bytes": {8: {"fresh": 3.0}, 1: {"fresh": 1.0}, 3: {"fresh": 2.0}}})
    plots.scaling(suite, ax=ax)
    assert list(artist("fresh").get_xdata()) == [1, 3, 8]


def test_two_replicates_have_no_band(suite_of: SuiteOf, ax: Axes, artist: Find) -> None:
    plots.scaling(suite_of({"bytes": FOUR}, spread=(0.9, 1.1), cpus=8), ax=ax)
    assert list(artist("fresh").get_ydata()) == [10, 20, 40, 80]
    assert not ax.collections
    assert not ax.texts


def test_a_failed_cell_is_a_gap(suite_of: SuiteOf, ax: Axes, artist: Find) -> None:
    plots.scaling(suite_of({"bytes": {**FOUR, 4: {"fresh": None}}}), ax=ax)
    np.testing.assert_array_equal(artist("fresh").get_ydata(), [10, 20, np.nan, 80])
    assert "gaps: no replicate finished" in words(ax)


def test_a_cell_alone_has_a_bar(suite_of: SuiteOf, ax: Axes, artist: Find) -> None:
    suite = suite_of({"bytes": {**FOUR, 4: {"fresh": None}}})
    plots.scaling(suite, ax=ax)
    last = suite.summary()[-1].throughput
    ((x, low), (_, high)) = artist("_fresh bar").get_segments()[0]
    assert (x, low, high) == (8, last.low / 1e6, last.high / 1e6)


@pytest.mark.parametrize("rate", [7.0, None])
def test_one_level_and_one_arm(
    suite_of: SuiteOf, ax: Axes, artist: Find, rate: float | None
) -> None:
    plots.scaling(suite_of({"bytes": {4: {"fresh": rate}}}), ax=ax)
    np.testing.assert_array_equal(artist("fresh").get_ydata(), [rate or np.nan])
    ax.figure.canvas.draw()


def test_intervals_that_reach_below_zero_stay_out_of_the_limits(
    suite_of: SuiteOf, ax: Axes, artist: Find
) -> None:
    suite = suite_of({"bytes": FOUR}, spread=(0.5, 1.0, 1.5))
    plots.scaling(suite, ax=ax)
    low, high = band_edges(artist("_fresh band"), 1)
    assert low < 0 < high
    bottom, top = ax.get_ylim()
    assert 2 < bottom < 10
    assert 80 < top < 300
    ax.figure.canvas.draw()


# ---- axes and marks -----------------------------------------------------------------------------


def test_axes_are_logarithmic_with_plain_ticks(crossing: Suite, ax: Axes) -> None:
    plots.scaling(crossing, ax=ax)
    ax.figure.canvas.draw()
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert [t.get_text() for t in ax.get_xticklabels()] == ["1", "2", "4", "8"]
    assert {"10", "20", "50", "100"} <= {t.get_text() for t in ax.get_yticklabels()}
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("threads", "M operations/s")


def test_crowded_levels_keep_powers_of_two(suite_of: SuiteOf, ax: Axes) -> None:
    suite = suite_of({"bytes": {n: {"fresh": 1.0} for n in (1, 2, 3, 15, 16, 17, 64)}})
    plots.scaling(suite, ax=ax)
    ax.figure.canvas.draw()
    assert [t.get_text() for t in ax.get_xticklabels()] == ["1", "2", "3", "16", "64"]


def test_sizes_carry_their_unit_and_may_be_zero(suite_of: SuiteOf, ax: Axes, artist: Find) -> None:
    suite = suite_of({"bytes": {n: {"fresh": 1.0} for n in (0, 1024, 65536)}}, along="size")
    plots.scaling(suite, ax=ax, along="size")
    ax.figure.canvas.draw()
    assert [t.get_text() for t in ax.get_xticklabels()] == ["0", "1KiB", "64KiB"]
    assert not [a for a in ax.get_children() if a.get_label() == "_cpus"]


def test_cpus_are_marked_and_oversubscribed_points_hollow(
    crossing: Suite, ax: Axes, artist: Find
) -> None:
    plots.scaling(crossing, ax=ax)
    assert artist("_cpus").get_xdata() == [4, 4]
    shaded = artist("_oversubscribed")
    assert shaded.get_x() == 4
    assert shaded.get_x() + shaded.get_width() > ax.get_xlim()[1]
    hollow = artist("_locked oversubscribed")
    assert list(hollow.get_xdata()) == [8]
    assert list(hollow.get_ydata()) == [artist("locked").get_ydata()[-1]]
    assert hollow.get_markerfacecolor() == ax.get_facecolor()
    assert "hollow: more threads than the 4 CPUs" in words(ax)


def test_a_second_drawing_keeps_the_first_in_view(two_workloads: Suite, ax: Axes) -> None:
    plots.scaling(two_workloads, ax=ax, workload="direct", threads=[1, 2])
    plots.scaling(two_workloads, ax=ax, workload="bytes", threads=[4, 8])
    left, right = ax.get_xlim()
    bottom, top = ax.get_ylim()
    assert left < 1 < 8 < right
    assert bottom < 0.01 < 810 < top


def test_the_key_names_the_arms_and_covers_no_data(crossing: Suite, ax: Axes) -> None:
    plots.scaling(crossing, ax=ax)
    legend = ax.get_legend()
    assert legend is not None
    assert [t.get_text() for t in legend.get_texts()] == ["fresh", "locked", "thread_local"]
    ax.figure.canvas.draw()
    inside = ax.get_window_extent()
    for outside in (legend, *ax.texts):
        box = outside.get_window_extent()
        assert box.y1 < inside.y0
        assert box.y0 >= 0


# ---- styles -------------------------------------------------------------------------------------


def test_an_arm_looks_the_same_in_every_selection(two_workloads: Suite) -> None:
    figure = pyplot.figure()
    first, second = figure.subplots(1, 2)
    plots.scaling(two_workloads, ax=first, workload="direct")
    plots.scaling(two_workloads.select(pool="locked"), ax=second, workload="bytes")
    (whole,) = [line for line in first.lines if line.get_label() == "locked"]
    (alone,) = [line for line in second.lines if line.get_label() == "locked"]
    assert (whole.get_color(), whole.get_marker()) == (alone.get_color(), alone.get_marker())


def test_every_label_has_a_style_of_its_own() -> None:
    labels = ["locked(capacity=4)", "locked", "fresh", "a", "10", "9", "thread_local", "b"]
    found = styles(labels)
    assert len(set(found.values())) == len(STYLES)
    assert found == styles(reversed(labels))
    assert set(styles(map(str, range(20)))) == set(map(str, range(20)))


def test_levels_as_labels_take_styles_by_size() -> None:
    assert [styles(["10", "9", "100"])[k] for k in ("9", "10", "100")] == list(STYLES[:3])


# ---- mistakes -----------------------------------------------------------------------------------


def test_varying_axes_are_named_with_their_values(two_workloads: Suite, ax: Axes) -> None:
    with pytest.raises(ValueError, match=r"several values of workload \(bytes, direct\)"):
        plots.scaling(two_workloads, ax=ax)
    assert not ax.has_data()


def test_every_varying_axis_is_named(suite_of: SuiteOf, ax: Axes) -> None:
    one = suite_of({"bytes": FOUR, "direct": FOUR}, size="64")
    two = suite_of({"bytes": FOUR}, size="128")
    suite = Suite({**one.groups, **two.groups}, [], [])
    with pytest.raises(ValueError, match=r"workload \(bytes, direct\) and threads \(1, 2, 4, 8\)"):
        plots.scaling(suite, ax=ax, along="size")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"along": "colour"}, "along=colour: not a numeric axis; choose from threads"),
        ({"along": "workload"}, "along=workload: not a numeric axis"),
        ({"along": "pool"}, "along=pool: what the arms differ in"),
        ({"colour": "red"}, "unknown axis 'colour'"),
        ({"workload": "nothing"}, "no workload 'nothing'"),
        ({"level": 1.5}, "level"),
    ],
)
def test_mistakes_are_named(
    crossing: Suite, ax: Axes, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        plots.scaling(crossing, ax=ax, **options)
    assert not ax.has_data()


def test_a_suite_of_nothing_says_so(ax: Axes) -> None:
    with pytest.raises(ValueError, match="nothing to draw"):
        plots.scaling(Suite({}, [], []), ax=ax)


def test_arms_of_two_kinds_are_refused(suite_of: SuiteOf, ax: Axes) -> None:
    pools, sizes = suite_of({"bytes": FOUR}), suite_of({"rng": FOUR}, compare="size", pool="fresh")
    both = Suite({**pools.groups, **sizes.groups}, [], [])
    with pytest.raises(ValueError, match="the arms differ in pool and in size"):
        plots.scaling(both, ax=ax)
