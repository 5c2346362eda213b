"""Control arms: the baseline once more, and what their noise floor does to verdicts."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import poolbench as pb
from poolbench import report
from poolbench.cli import main
from poolbench.plan import Plan, make_plan
from poolbench.results import Comparison
from poolbench.suite import Suite

MakeControlled = Callable[..., Suite]
Captured = pytest.CaptureFixture[str]
PAIR = {"fresh": 1e7, "locked": 1.05e7}
BLOCKS = 12


def wobble(rate: float, spread: float) -> list[float]:
    """Rates of all blocks, spread evenly round `rate`."""
    return [rate * (1 + spread * (2 * block / (BLOCKS - 1) - 1)) for block in range(BLOCKS)]


def by_arm(suite: Suite, **options: Any) -> dict[str, Comparison]:
    return {c.arm: c for c in suite.compare(**options)}


@pytest.fixture
def controlled(make_suite: Callable[..., Suite]) -> MakeControlled:
    """Return a function: rates of fresh, locked and the control to a suite of those three arms."""

    def make(control: Any, locked: Any = 1.05e7, *, threads: int = 1, **options: Any) -> Suite:
        rates = {("fresh", threads): 1e7, ("locked", threads): locked}
        rates["fresh (control)", threads] = control
        return make_suite(rates, spread=0.0, control=True, **options)

    return make


# ---- plans ---------------------------------------------------------------------------------------


def plan(**given: Any) -> Plan:
    axes = {"pool": "fresh,locked", "workload": "bytes", "control": True, "cpus": [0, 1]}
    return make_plan(**{**axes, **given})


def test_a_control_is_the_baseline_once_more() -> None:
    (group,) = plan().groups
    assert [a.label for a in group.arms] == ["fresh", "locked", "fresh (control)"]
    assert group.control == "fresh (control)"
    assert group.arms[0].cell == group.arms[2].cell


def test_any_arm_may_be_the_one_that_is_repeated() -> None:
    (group,) = plan(baseline="locked").groups
    assert group.control == "locked (control)"
    assert group.arms[1].cell == group.arms[2].cell


def test_every_group_has_its_control() -> None:
    groups = plan(threads=[1, 2], workload="bytes,rng").groups
    assert [g.control for g in groups] == ["fresh (control)"] * 4


def test_whatever_is_compared_has_a_control() -> None:
    (group,) = plan(pool="fresh", threads=[1, 2], compare="threads").groups
    assert [a.label for a in group.arms] == ["1", "2", "1 (control)"]


def test_without_being_asked_there_is_none() -> None:
    (group,) = plan(control=False).groups
    assert (group.control, len(group.arms)) == ("", 2)


def test_a_control_costs_time_and_is_another_group() -> None:
    assert plan().seconds > plan(control=False).seconds
    assert plan().replicates == 3 * plan().blocks
    assert plan().groups[0].key != plan(control=False).groups[0].key


def test_a_baseline_that_cannot_exist_has_no_control() -> None:
    (group,) = plan(pool="slab,fresh", workload="table").groups
    assert (group.control, [a.label for a in group.arms]) == ("", ["fresh"])


# ---- the floor -----------------------------------------------------------------------------------


@pytest.mark.parametrize("sign", [1, -1])
def test_the_floor_is_the_far_end_of_the_control_s_interval(
    controlled: MakeControlled, sign: int
) -> None:
    found = by_arm(controlled(wobble(1e7 * 1.01**sign, 0.002)))
    ratio = found["fresh (control)"].ratio
    far = ratio.high if sign > 0 else 1 / ratio.low
    assert found["locked"].floor == pytest.approx(far - 1)
    assert 0.01 < found["locked"].floor < 0.02


def test_a_win_beyond_the_floor_stands(controlled: MakeControlled) -> None:
    found = by_arm(controlled(wobble(1e7, 0.005)))
    assert (found["locked"].verdict, found["locked"].because) == ("wins", "")
    assert 0 < found["locked"].floor < 0.05


@pytest.mark.parametrize(("rate", "outside"), [(1.05e7, "wins"), (0.95e7, "loses")])
def test_what_lies_within_the_floor_is_not_resolved(
    controlled: MakeControlled, rate: float, outside: str
) -> None:
    noisy, quiet = (
        by_arm(controlled(wobble(1e7 * shift, 0.001), rate))["locked"] for shift in (1.08, 1.001)
    )
    assert (quiet.verdict, quiet.because) == (outside, "")
    assert noisy.verdict == "not resolved"
    assert noisy.because == f"within the noise floor of {100 * noisy.floor:.1f} %"
    assert noisy.ratio == quiet.ratio  # the number stays, the claim goes
    assert f"not resolved (within the noise floor of {100 * noisy.floor:.1f} %)" in str(noisy)


def test_a_loss_beyond_the_floor_stands(controlled: MakeControlled) -> None:
    found = by_arm(controlled(wobble(1.02e7, 0.001), 0.9e7))
    assert (found["locked"].verdict, found["locked"].because) == ("loses", "")


def test_equivalent_arms_stay_equivalent(controlled: MakeControlled) -> None:
    found = by_arm(controlled(wobble(1.08e7, 0.001), 1.001e7))
    assert (found["locked"].verdict, found["locked"].because) == ("equivalent", "")


def test_the_floor_does_not_judge_the_control_itself(controlled: MakeControlled) -> None:
    control = by_arm(controlled(wobble(1.08e7, 0.001)))["fresh (control)"]
    assert control.is_control
    assert (control.verdict, control.because) == ("wins", "")


def test_each_cell_has_a_floor_of_its_own(make_suite: Callable[..., Suite]) -> None:
    rates: dict[tuple[str, int], Any] = {}
    for threads, shift in ((1, 1.0), (2, 1.08)):
        rates |= {("fresh", threads): 1e7, ("locked", threads): 1.05e7}
        rates["fresh (control)", threads] = wobble(1e7 * shift, 0.001)
    suite = make_suite(rates, spread=0.0, control=True)
    found = {c.at["threads"]: c for c in suite.compare() if c.arm == "locked"}
    assert (found["1"].verdict, found["2"].verdict) == ("wins", "not resolved")
    assert found["1"].floor < 0.01 < 0.08 < found["2"].floor


@pytest.mark.parametrize("blocks", [1, 2])
def test_too_few_blocks_have_no_floor(controlled: MakeControlled, blocks: int) -> None:
    assert math.isnan(by_arm(controlled([1e7] * blocks, blocks=blocks))["locked"].floor)


def test_a_control_that_always_failed_gives_no_floor(controlled: MakeControlled) -> None:
    found = by_arm(controlled([None] * BLOCKS))
    assert math.isnan(found["locked"].floor)
    assert found["locked"].verdict == "wins"
    assert found["fresh (control)"].because == "no block of both arms"


def test_against_another_baseline_no_floor_is_known(controlled: MakeControlled) -> None:
    found = by_arm(controlled(wobble(1.08e7, 0.001)), baseline="locked")
    assert math.isnan(found["fresh"].floor)
    assert (found["fresh"].verdict, found["fresh"].because) == ("loses", "")


def test_without_a_control_no_floor_is_applied_and_that_is_said(
    make_suite: Callable[..., Suite],
) -> None:
    suite = make_suite({(arm, 1): rate for arm, rate in PAIR.items()}, spread=0.0)
    (c,) = suite.compare()
    assert math.isnan(c.floor)
    assert c.verdict == "wins"
    assert "noise floor not measured" in report.sweep_text(suite)


def test_with_a_control_the_report_shows_it(controlled: MakeControlled) -> None:
    text = report.sweep_text(controlled(wobble(1.08e7, 0.001)))
    assert "noise floor not measured" not in text
    assert "1        fresh (control)" in text
    assert "within the noise floor of" in text


# ---- where a control is no arm like others -------------------------------------------------------


def test_a_control_is_in_no_crossover(make_suite: Callable[..., Suite]) -> None:
    rates: dict[tuple[str, int], float] = {}
    for threads, ratio in ((1, 1.5), (2, 0.5)):
        rates |= {("fresh", threads): 1e7, ("locked", threads): 1e7 * ratio}
        rates["fresh (control)", threads] = 1e7
    suite = make_suite(rates, control=True)
    assert [c.arm for c in suite.crossover()] == ["locked"]


def test_a_win_within_the_floor_is_no_side_of_a_crossover(
    make_suite: Callable[..., Suite],
) -> None:
    rates: dict[tuple[str, int], Any] = {}
    for threads, ratio in ((1, 1.05), (2, 0.5)):
        rates |= {("fresh", threads): 1e7, ("locked", threads): 1e7 * ratio}
        rates["fresh (control)", threads] = wobble(1.08e7, 0.001)
    suite = make_suite(rates, spread=0.0, control=True)
    (c,) = suite.crossover()
    assert c.status != "crosses"


def test_a_saved_control_loads_as_one(controlled: MakeControlled, tmp_path: Path) -> None:
    suite = controlled(wobble(1.08e7, 0.001))
    suite.save(tmp_path / "run.jsonl")
    found = pb.load(tmp_path / "run.jsonl")
    assert [g.control for g in found.groups.values()] == ["fresh (control)"]
    assert repr(found.compare()) == repr(suite.compare())
    assert found.compare().rows()[0]["floor"] == suite.compare()[0].floor


def test_the_compare_command_applies_the_floor(
    controlled: MakeControlled, tmp_path: Path, capsys: Captured
) -> None:
    controlled(wobble(1.08e7, 0.001)).save(tmp_path / "run.jsonl")
    assert main(["compare", str(tmp_path / "run.jsonl")]) == 0
    assert "not resolved (within the noise floor of 8." in capsys.readouterr().out


# ---- a real sweep --------------------------------------------------------------------------------


@pytest.mark.workers
@pytest.mark.usefixtures("long_windows")
def test_a_controlled_sweep_measures_its_floor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    argv = ["--pool", "fresh,locked", "--workload", "bytes", "--threads", "1", "--control"]
    assert main(["sweep", *argv, "--blocks", "4", "--rounds", "2", "--out", "out"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("1 group of 3 arms, 4 blocks: 12 replicates")
    assert "fresh (control)" in text
    assert "noise floor not measured" not in text
    suite = pb.load("out/results.jsonl")
    found = by_arm(suite)
    assert set(found) == {"locked", "fresh (control)"}
    assert all(math.isfinite(c.floor) and c.floor >= 0 for c in found.values())
    assert [len(suite.replicates(*suite.groups, arm)) for arm in found] == [4, 4]
