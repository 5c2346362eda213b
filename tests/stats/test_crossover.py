"""Crossings by hand, in every status, and the levels that refinement would measure."""

import math
from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poolbench.stats.crossover import Bracket, Level, find_crossing, next_level

MEANS = {"W": 0.1, "L": -0.1, "e": 0.001, "?": 0.01}
VERDICTS = {"W": "wins", "L": "loses", "e": "equivalent", "?": "not resolved"}


def axis(letters, xs=None):
    """Return levels at 1, 2, 4 ... (or at `xs`) with one verdict per letter."""
    xs = xs or [2.0**i for i in range(len(letters))]
    return [
        Level(x=x, verdict=VERDICTS[c], mean_log_ratio=MEANS[c])
        for x, c in zip(xs, letters, strict=True)
    ]


def bracket(low, high):
    return Bracket(low=low, high=high, estimate=high, rising=True)


@pytest.mark.parametrize(
    ("letters", "status"),
    [
        ("WWW", "A always"),
        ("W", "A always"),
        ("WeW", "A or equivalent"),
        ("LLL", "B always"),
        ("eLL", "B or equivalent"),
        ("ee", "equivalent"),
        ("??", "not resolved"),
        ("e?", "not resolved"),
        ("WW?", "not resolved"),
        ("W?W", "not resolved"),
        ("L?e", "not resolved"),
        ("LW", "crosses"),
        ("WL", "crosses"),
        ("L?eW", "crosses"),
        ("?LWe?", "crosses"),
        ("LWL", "crosses more than once"),
        ("W?LeW", "crosses more than once"),
    ],
)
def test_status(letters, status):
    assert find_crossing(axis(letters)).status == status


@pytest.mark.parametrize(
    ("letters", "brackets"),
    [
        ("LLWW", [(2, 4, True)]),
        ("WWLL", [(2, 4, False)]),
        ("L?eW", [(1, 8, True)]),
        ("?L?WW", [(2, 8, True)]),
        ("LWeL", [(1, 2, True), (2, 8, False)]),
        ("WeW?", []),
    ],
)
def test_only_resolved_levels_bound_a_bracket(letters, brackets):
    found = find_crossing(axis(letters)).brackets
    assert [(b.low, b.high, b.rising) for b in found] == brackets


def test_levels_are_sorted():
    levels = axis("LL?WW")
    assert find_crossing(levels[::-1]) == find_crossing(levels)


@pytest.mark.parametrize(
    ("xs", "estimate"),
    [
        ([4.0, 16.0], 4.0 * 4.0**0.25),  # a quarter of the way in log x
        ([0.0, 16.0], 4.0),  # in x, since log 0 does not exist
    ],
)
def test_estimate_is_the_zero_of_the_chord(xs, estimate):
    levels = [
        Level(x=xs[0], verdict="loses", mean_log_ratio=-0.1),
        Level(x=xs[1], verdict="wins", mean_log_ratio=0.3),
    ]
    (b,) = find_crossing(levels).brackets
    assert b.estimate == pytest.approx(estimate)


def test_a_level_at_zero_makes_the_whole_axis_linear():
    (b,) = find_crossing(axis("LLW", [0.0, 1.0, 9.0])).brackets
    assert (b.low, b.high, b.estimate) == (1.0, 9.0, pytest.approx(5.0))


@settings(deadline=None, derandomize=True)
@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e3), st.floats(1e-300, 10.0), st.floats(1e-300, 10.0))
def test_estimate_stays_inside_its_bracket(x, step, down, up):
    levels = [
        Level(x=x, verdict="loses", mean_log_ratio=-down),
        Level(x=x + step, verdict="wins", mean_log_ratio=up),
    ]
    (b,) = find_crossing(levels).brackets
    assert b.low <= b.estimate <= b.high


def test_one_bracket_per_change_of_sign_on_every_short_axis():
    for letters in product("WLe?", repeat=5):
        crossing = find_crossing(axis(letters))
        decided = [c for c in letters if c in "WL"]
        changes = sum(a != b for a, b in pairwise(decided))
        assert len(crossing.brackets) == changes
        assert crossing.status.startswith("crosses") == (changes > 0)


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ([], "no levels"),
        (axis("LWW", [1.0, 4.0, 4.0]), "4.0 occurs more than once"),
        (axis("LW", [-1.0, 4.0]), "-1.0"),
        (axis("LW", [1.0, math.nan]), "nan"),
        ([Level(x=2.0, verdict="wins", mean_log_ratio=-0.1)], "2.0: wins"),
        ([Level(x=2.0, verdict="loses", mean_log_ratio=math.nan)], "2.0: loses"),
    ],
)
def test_levels_that_make_no_axis(levels, message):
    with pytest.raises(ValueError, match=message):
        find_crossing(levels)


@pytest.mark.parametrize(
    ("low", "high", "integers", "expected"),
    [
        (2.0, 8.0, True, 4.0),
        (2.0, 4.0, True, 3.0),
        (1.0, 3.0, True, 2.0),
        (3.0, 4.0, True, None),
        (0.0, 1.0, True, None),
        (0.0, 2.0, True, 1.0),
        (100.0, 108.0, True, None),
        (2.0, 8.0, False, 4.0),
        (1.0, 1.21, False, 1.1),
        (1.0, 1.1, False, None),
        (0.0, 10.0, False, 5.0),
    ],
)
def test_next_level(low, high, integers, expected):
    found = next_level([], bracket(low, high), integers=integers)
    assert found == (expected if expected is None else pytest.approx(expected))


def test_a_middle_that_was_not_resolved_is_not_measured_again():
    levels = axis("L?W", [1.0, 4.0, 16.0])
    (b,) = find_crossing(levels).brackets
    assert next_level(levels, b, integers=False) is None
    assert next_level(levels[::2], b, integers=False) == pytest.approx(4.0)


@pytest.mark.parametrize(("low", "high"), [(4.0, 4.0), (8.0, 2.0), (-1.0, 2.0), (math.nan, 2.0)])
def test_a_bracket_has_two_ends(low, high):
    with pytest.raises(ValueError, match="low < high"):
        next_level([], bracket(low, high), integers=False)


@pytest.mark.parametrize("integers", [True, False])
@settings(deadline=None, derandomize=True)
@given(truth=st.floats(0.001, 1023.0), first=st.sampled_from([0.0, 1.0]))
def test_refinement_ends_with_the_truth_bracketed(integers, truth, first):
    def level(x):
        wins = x > truth
        return Level(x=x, verdict="wins" if wins else "loses", mean_log_ratio=0.1 if wins else -0.1)

    levels = [level(first), level(1024.0)]
    for _ in range(20):
        crossing = find_crossing(levels)
        if crossing.status != "crosses":  # the truth lies below the first level
            assert truth < first
            return
        (b,) = crossing.brackets
        assert b.low <= truth <= b.high
        x = next_level(levels, b, integers=integers)
        if x is None:
            break
        levels.append(level(x))
    else:
        pytest.fail("refinement did not end")
    if integers:
        assert b.high - b.low == 1.0 or b.high <= 1.1 * b.low
    else:
        assert b.high <= max(1.1 * b.low, 0.01 * 1024.0)
