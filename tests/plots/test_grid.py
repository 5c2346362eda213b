"""Figures of several panels: what is in each, and what they share."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any

import matplotlib
import pytest
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from poolbench import plots
from poolbench.suite import Suite

SuiteOf = Callable[..., Suite]
RATES: Mapping[int, Mapping[str, float]] = {
    1: {"fresh": 1.0, "locked": 2.0},
    2: {"fresh": 2.0, "locked": 1.0},
}


def data(ax: Axes) -> dict[str, list[float]]:
    named = [line for line in ax.lines if not str(line.get_label()).startswith("_")]
    return {str(line.get_label()): list(line.get_ydata()) for line in named}  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["scaling", "crossover"])
def test_panels_show_what_the_function_draws(two_workloads: Suite, kind: str) -> None:
    figure = plots.grid(two_workloads, kind)
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["bytes", "direct"]
    for ax, workload in zip(figure.axes, ["bytes", "direct"], strict=True):
        alone = getattr(plots, kind)(two_workloads, ax=Figure().subplots(), workload=workload)
        assert data(ax) == data(alone)
        assert ax.get_legend() is None


@pytest.mark.parametrize("kind", ["scaling", "crossover"])
def test_pyplot_and_its_backend_are_left_alone(two_workloads: Suite, kind: str) -> None:
    backend, style = matplotlib.get_backend(), dict(matplotlib.rcParams)
    figure = plots.grid(two_workloads, kind)
    figure.savefig(io.BytesIO(), format="png")
    assert isinstance(figure, Figure)
    assert pyplot.get_fignums() == []
    assert (matplotlib.get_backend(), dict(matplotlib.rcParams)) == (backend, style)


def test_panels_share_the_axis_to_the_right_only(two_workloads: Suite) -> None:
    first, second = plots.grid(two_workloads).axes
    assert first.get_shared_x_axes().joined(first, second)
    assert first.get_xlim() == second.get_xlim()
    assert first.get_ylim()[0] > second.get_ylim()[0]


def test_panels_with_different_levels_share_their_ticks(suite_of: SuiteOf) -> None:
    """Refinement adds levels to one line-up; the last panel must not hide the others' ticks."""
    suite = suite_of({"bytes": {**RATES, 16: RATES[1], 3: RATES[1]}, "rng": RATES})
    figure = plots.grid(suite)
    figure.draw_without_rendering()
    for ax in figure.axes:
        assert [t.get_text() for t in ax.get_xticklabels()] == ["1", "2", "3", "16"]
        assert ax.get_xlim()[1] > 16


def test_one_legend_and_one_note(two_workloads: Suite) -> None:
    figure = plots.grid(two_workloads)
    (legend,) = figure.legends
    assert [t.get_text() for t in legend.get_texts()] == ["fresh", "locked", "thread_local"]
    assert "bands: 99.9 % interval over 5 replicates" in figure.get_supxlabel()


def test_sentences_stand_below_their_panel(two_workloads: Suite) -> None:
    figure = plots.grid(two_workloads, "crossover")
    figure.draw_without_rendering()
    for ax, workload in zip(figure.axes, ["bytes", "direct"], strict=True):
        found = [text.get_text().replace("\n", " ") for text in ax.texts]
        assert found == [str(c) for c in two_workloads.select(workload=workload).crossover()]
        for text in ax.texts:
            box = text.get_window_extent()
            assert box.y1 < ax.get_window_extent().y0
            assert box.x1 < figure.bbox.x1


def test_nothing_overlaps(suite_of: SuiteOf) -> None:
    names = ["bytes", "bytes(size=64KiB)", "direct", "rng", "graph"]
    figure = plots.grid(suite_of({name: RATES for name in names}), "crossover")
    figure.draw_without_rendering()
    panels = [box for ax in figure.axes if (box := ax.get_tightbbox()) is not None]
    boxes = [*panels, figure.legends[0].get_window_extent()]
    assert len(panels) == 5
    for i, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[i + 1 :])
        assert min(box.x0, box.y0) >= 0
        assert box.x1 <= figure.bbox.x1
        assert box.y1 <= figure.bbox.y1


@pytest.mark.parametrize(("panels", "shape"), [(1, (1, 1)), (3, (1, 3)), (4, (2, 2)), (5, (2, 3))])
def test_rows_hold_three_panels(suite_of: SuiteOf, panels: int, shape: tuple[int, int]) -> None:
    suite = suite_of({f"w{i}": RATES for i in range(panels)})
    axes = plots.grid(suite).axes
    assert len(axes) == panels
    specs = [ax.get_subplotspec() for ax in axes]
    assert specs[0] is not None
    assert specs[0].get_gridspec().get_geometry() == shape


def test_options_select_and_reach_the_panels(two_workloads: Suite) -> None:
    figure = plots.grid(
        two_workloads, "crossover", pool="locked", level=0.99, workload=["bytes"], threads=[2, 4]
    )
    (ax,) = figure.axes
    assert set(data(ax)) == {"fresh", "locked"}
    assert len(data(ax)["fresh"]) == 2
    assert "99 % interval" in figure.get_supxlabel()


def test_panels_over_another_axis(crossing: Suite) -> None:
    figure = plots.grid(crossing, over="pool")
    assert [list(data(ax)) for ax in figure.axes] == [["fresh"], ["locked"], ["thread_local"]]
    colors = {ax.lines[-1].get_color() for ax in figure.axes}
    assert len(colors) == 3


def test_panels_over_a_parameter_are_named(suite_of: SuiteOf) -> None:
    figure = plots.grid(suite_of({"bytes": RATES}, size="64"), over="size")
    assert figure.axes[0].get_title(loc="left") == "size=64"


def test_failed_cells_leave_an_empty_panel(suite_of: SuiteOf) -> None:
    failed = {n: {"fresh": None, "locked": None} for n in (1, 2)}
    figure = plots.grid(suite_of({"bytes": failed, "rng": RATES}), "crossover")
    figure.savefig(io.BytesIO(), format="png")
    assert "gaps: no replicate finished" in figure.get_supxlabel()


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("heatmap", {}, "unknown kind 'heatmap'; choose from scaling, crossover"),
        ("scaling", {"over": "colour"}, "unknown axis 'colour'; choose from workload"),
        ("scaling", {"over": "threads"}, "over=threads"),
        ("scaling", {"over": "pattern"}, r"several values of workload \(bytes, direct\)"),
        ("scaling", {"baseline": "fresh"}, "unknown axis 'baseline'"),
        ("crossover", {"pool": "magazine"}, "no arm 'magazine'"),
        ("crossover", {"over": "pool", "workload": "bytes"}, "needs two arms"),
    ],
)
def test_mistakes_are_named(
    two_workloads: Suite, kind: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        plots.grid(two_workloads, kind, **options)
