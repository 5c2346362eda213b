"""Known answers and properties of ratios, verdicts, corrections and the stopping rule."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from poolbench.stats.compare import (
    MARGIN,
    MOST_BLOCKS,
    blocks_needed,
    compare,
    detectable_noncentrality,
    hint,
    holm,
    log_ratios,
    look_level,
    p_value,
    sign_interval,
    sign_minimum,
    smallest_visible,
    width_reached,
    within_spread,
)

DIFFERENCES = st.lists(st.floats(-1.0, 1.0), min_size=3, max_size=40).filter(
    lambda d: np.std(d) > 1e-6
)


def evenly(mean, sd, n):
    """Return n values with exactly this mean and standard deviation."""
    z = np.linspace(-1.0, 1.0, n)
    return mean + sd * z / z.std(ddof=1)


def test_log_ratios_average_the_rounds_of_a_block():
    arm, baseline = np.array([[2.0, 8.0], [3.0, 3.0]]), np.array([[1.0, 1.0], [1.0, 9.0]])
    assert np.exp(log_ratios(arm, baseline)) == pytest.approx([4.0, 1.0])


def test_blocks_may_differ_in_rounds():
    d = log_ratios([[2.0], [2.0, 2.0, 2.0]], [[1.0], [1.0, 1.0, 1.0]])
    assert d == pytest.approx([math.log(2.0)] * 2)


def test_no_blocks_no_ratios():
    assert log_ratios([], []).shape == (0,)
    assert math.isnan(compare([]).mean)


@pytest.mark.parametrize(
    ("arm", "baseline", "message"),
    [
        ([[1.0]], [[1.0], [1.0]], "arm has 1 blocks, baseline 2"),
        ([[1.0], [1.0, 2.0]], [[1.0], [1.0]], "block 1: 2 rounds of the arm, 1"),
        ([[]], [[]], "block 0: 0 rounds"),
        ([[1.0, 0.0]], [[1.0, 1.0]], "block 0: rates must be positive, got 0.0"),
        ([[1.0]], [[-2.0]], "block 0: rates must be positive, got -2.0"),
        ([[math.nan]], [[1.0]], "finite"),
    ],
)
def test_rates_that_cannot_be_paired(arm, baseline, message):
    with pytest.raises(ValueError, match=message):
        log_ratios(arm, baseline)


def test_within_spread_is_the_error_of_a_block_mean():
    ones = np.ones((2, 4))
    d = np.array([[0.0, 0.1, 0.2, 0.3], [0.0, 0.2, 0.4, 0.6]])
    errors = d.std(axis=1, ddof=1) / 2.0
    assert within_spread(np.exp(d), ones) == pytest.approx(np.sqrt(np.mean(errors**2)))


def test_single_rounds_say_nothing_about_the_spread_within():
    assert math.isnan(within_spread([[1.0], [2.0]], [[1.0], [1.0]]))
    mixed = within_spread([[5.0], [1.0, 2.0]], [[1.0], [1.0, 1.0]])
    assert mixed == pytest.approx(math.log(2.0) / 2.0)


@pytest.mark.parametrize(
    ("mean", "sd", "verdict"),
    [
        (0.10, 0.01, "wins"),
        (-0.10, 0.01, "loses"),
        (0.0, 0.001, "equivalent"),
        (0.01, 0.001, "equivalent"),  # a difference, but of no interest: comes before "wins"
        (0.05, 0.1, "not resolved"),
        (0.018, 0.01, "wins"),  # reaches out of the band, so it is not equivalent
    ],
)
def test_verdicts(mean, sd, verdict):
    r = compare(evenly(mean, sd, 12))
    assert r.verdict == verdict
    assert r.mean == pytest.approx(math.exp(mean))


def test_band_of_equivalence_is_symmetric_in_the_ratio():
    edge = math.log1p(MARGIN)
    for sign in (1.0, -1.0):
        assert compare([sign * edge * 0.999] * 5).verdict == "equivalent"
        assert compare([sign * edge * 1.001] * 5).verdict in ("wins", "loses")
    assert compare([0.05] * 5, margin=0.06).verdict == "equivalent"


@settings(max_examples=60, deadline=None, derandomize=True)
@given(DIFFERENCES)
def test_swapping_the_arms_inverts_everything(d):
    forth, back = compare(d), compare([-v for v in d])
    swapped = {"wins": "loses", "loses": "wins"}
    assert back.verdict == swapped.get(forth.verdict, forth.verdict)
    assert back.fragile == forth.fragile
    assert back.mean == pytest.approx(1.0 / forth.mean)
    assert back.low == pytest.approx(1.0 / forth.high, rel=1e-9)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(DIFFERENCES)
def test_interval_and_p_value_agree_with_scipy(d):
    r, oracle = compare(d), stats.ttest_1samp(d, 0.0)
    assert p_value(d) == pytest.approx(oracle.pvalue, rel=1e-6, abs=1e-12)
    ci = oracle.confidence_interval(0.999)
    assert math.log(r.low) == pytest.approx(ci.low, rel=1e-6, abs=1e-8)
    assert math.log(r.high) == pytest.approx(ci.high, rel=1e-6, abs=1e-8)


def test_two_blocks_resolve_nothing():
    r = compare([0.5, 0.5], within=0.1)
    assert r.verdict == "not resolved"
    assert r.mean == pytest.approx(math.exp(0.5))
    assert all(math.isnan(v) for v in (r.low, r.high, r.smallest_visible))
    assert (r.n, r.fragile, r.within) == (2, None, 0.1)
    assert math.isnan(p_value([0.5, 0.5]))


def test_blocks_without_spread_make_a_point():
    r = compare([0.3] * 12)
    assert r.low == r.mean == r.high
    assert (r.verdict, r.between, r.smallest_visible, r.fragile) == ("wins", 0.0, 0.0, False)
    assert p_value([0.3] * 12) == 0.0
    assert p_value([0.0] * 12) == 1.0


def test_a_wide_interval_reaches_infinity_without_failing():
    r = compare([-900.0, 0.0, 900.0])
    assert (r.low, r.high, r.smallest_visible) == (0.0, math.inf, math.inf)


def test_bad_options_are_refused():
    with pytest.raises(ValueError, match="margin"):
        compare([0.1] * 5, margin=-0.01)
    with pytest.raises(ValueError, match="look"):
        compare([0.1] * 5, look=0)
    with pytest.raises(ValueError, match="level"):
        compare([0.1] * 5, level=1.5)
    with pytest.raises(ValueError, match="power"):
        smallest_visible(0.1, 5, power=1.0)


@pytest.mark.parametrize(("level", "n"), [(0.999, 11), (0.99, 8), (0.95, 6)])
def test_fewest_blocks_of_the_sign_test(level, n):
    d = np.arange(1.0, n + 1.0)
    assert sign_minimum(level) == n
    assert sign_interval(d, level) == (1.0, n)
    assert sign_interval(d[1:], level) is None


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(1, 200), st.floats(0.5, 0.9999))
def test_sign_interval_is_the_narrowest_that_covers(n, level):
    interval = sign_interval(np.arange(1.0, n + 1.0), level)
    assert (interval is None) == (n < sign_minimum(level))
    if interval is not None:
        rank = int(interval[0])
        assert interval[1] == n + 1 - rank
        assert 2 * stats.binom.cdf(rank - 1, n, 0.5) <= (1 - level) * (1 + 1e-9)
        assert 2 * stats.binom.cdf(rank, n, 0.5) > (1 - level) * (1 - 1e-9)


def test_sign_interval_agrees_with_scipy():
    d = np.random.default_rng(4).exponential(size=25)
    low, high = stats.quantile_test(d).confidence_interval(0.95)
    assert sign_interval(d, 0.95) == (low, high)


def test_fragile_where_only_normality_carries_the_verdict():
    clear = evenly(0.1, 0.01, 12)
    doubtful = clear.copy()
    doubtful[0] = -0.001  # the mean still wins, but one block in twelve lost
    few = evenly(0.1, 0.01, 10)
    assert [compare(d).verdict for d in (clear, doubtful, few)] == ["wins"] * 3
    assert [compare(d).fragile for d in (clear, doubtful, few)] == [False, True, None]


def test_fragile_where_an_outlier_hides_a_winner():
    d = np.full(12, 0.05)
    d[0] = 5.0
    r = compare(d)
    assert (r.verdict, r.fragile) == ("not resolved", True)


def test_every_look_halves_the_error_allowed():
    assert [1 - look_level(0.99, k) for k in (1, 2, 3)] == pytest.approx([0.01, 0.005, 0.0025])
    d = evenly(0.1, 0.077, 12)
    first, second = compare(d), compare(d, look=2)
    assert (first.verdict, second.verdict) == ("wins", "not resolved")
    assert (second.look, second.level) == (2, 0.9995)


def test_the_sign_test_follows_the_look():
    # 11 blocks are enough for 99.9 %, not for 99.95 %.
    d = evenly(0.1, 0.01, 11)
    assert (compare(d).fragile, compare(d, look=2).fragile) == (False, None)


def test_a_look_too_many_resolves_nothing():
    r = compare(evenly(0.1, 0.01, 12), look=2000)
    assert (r.verdict, r.level, r.low, r.high) == ("not resolved", 1.0, 0.0, math.inf)
    assert (r.fragile, r.smallest_visible) == (None, math.inf)


@pytest.mark.parametrize(("n", "delta"), [(5, 12.20), (10, 6.58)])
def test_detectable_noncentrality_of_the_table(n, delta):
    assert detectable_noncentrality(n) == pytest.approx(delta, abs=0.005)


@pytest.mark.parametrize("n", [3, 5, 12, 60, 1000])
@pytest.mark.parametrize("level", [0.95, 0.999, 0.9995])
@pytest.mark.parametrize("power", [0.5, 0.9])
def test_noncentrality_gives_its_power_in_scipy(n, level, power):
    t = stats.t.isf((1 - level) / 2, n - 1)
    delta = detectable_noncentrality(n, level, power)
    assert stats.nct.sf(t, n - 1, delta) == pytest.approx(power, abs=1e-5)


def test_smallest_visible_effect():
    assert smallest_visible(0.02, 5) == pytest.approx(
        math.expm1(12.2028 * 0.02 / math.sqrt(5)), rel=1e-4
    )
    assert math.isnan(smallest_visible(0.02, 2))
    assert math.isnan(smallest_visible(math.nan, 0))
    assert smallest_visible(0.0, 5) == 0.0


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.floats(0.005, 0.2), st.floats(0.005, 0.2))
def test_blocks_needed_is_the_fewest_that_suffice(sd, effect):
    n = blocks_needed(sd, -effect)
    visible = math.log1p(smallest_visible(sd, n))
    assert visible <= effect * (1 + 1e-9) or n == MOST_BLOCKS
    assert n == 3 or math.log1p(smallest_visible(sd, n - 1)) > effect * (1 - 1e-9)


def test_blocks_needed_at_the_ends():
    assert blocks_needed(0.01, 0.0) == MOST_BLOCKS == 10_000
    assert blocks_needed(0.0, 0.0) == 3
    assert blocks_needed(0.01, 5.0) == 3
    for sd, effect in ((math.nan, 0.1), (-0.1, 0.1), (0.1, math.inf)):
        with pytest.raises(ValueError, match="finite"):
            blocks_needed(sd, effect)


def test_holm_by_hand():
    # Sorted: 0.005 * 4, 0.01 * 3, 0.03 * 2 against 0.05; the third stops the fourth as well.
    assert holm([0.01, 0.04, 0.03, 0.005], level=0.95) == [True, False, False, True]
    assert holm([0.02, 0.03, 0.01, 0.005], level=0.95) == [True] * 4  # 0.02 * 2 is enough
    assert holm([], level=0.95) == []
    assert holm([0.001], level=0.999) == [True]


def test_cells_without_an_interval_count_and_do_not_stand():
    assert holm([math.nan, 0.04], level=0.95) == [False, False]
    assert holm([0.04], level=0.95) == [True]


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.lists(st.floats(0.0, 1.0) | st.floats(0.0, 0.02), max_size=12))
def test_holm_lies_between_bonferroni_and_none(p):
    stands = holm(p, level=0.95)
    for value, stood in zip(p, stands, strict=True):
        assert stood or value * len(p) > 0.05 * (1 - 1e-9)
        assert not stood or value <= 0.05 * (1 + 1e-9)
    rejected = [v for v, s in zip(p, stands, strict=True) if s]
    kept = [v for v, s in zip(p, stands, strict=True) if not s]
    assert not rejected or not kept or max(rejected) <= min(kept)


def test_holm_refuses_what_is_no_probability():
    with pytest.raises(ValueError, match=r"0\.1 to 1\.5"):
        holm([0.1, 1.5])


def test_hint_names_the_larger_part_of_the_variance():
    # sd 0.02 means a variance of 4 units: 2.25 of them from rounds of error 0.015, 1 from 0.010.
    assert hint(0.02, 0.015) == "more rounds"
    assert hint(0.02, 0.010) == "more blocks"
    assert hint(0.02, math.nan) == "more blocks"
    assert hint(0.0, 0.0) == "more blocks"


def test_width_rule_looks_at_the_width_only():
    wide, narrow = evenly(0.0, 0.05, 20), evenly(0.0, 0.001, 20)
    for shift in (-0.5, 0.0, 0.5):
        assert width_reached(wide + shift, 0.01) == "continue"
        assert width_reached(narrow + shift, 0.01) == "reached"


def test_width_rule_is_relative_to_the_ratio():
    d = evenly(0.7, 0.02, 15)
    r = compare(d)
    half = (r.high - r.low) / 2 / r.mean
    assert width_reached(d, half * 1.001) == "reached"
    assert width_reached(d, half * 0.999) == "continue"


def test_width_rule_between_its_bounds():
    assert width_reached(evenly(0.0, 0.001, 11), 0.01) == "continue"
    assert width_reached(evenly(0.0, 0.001, 12), 0.01) == "reached"
    assert width_reached(evenly(0.0, 0.5, 59), 0.01) == "continue"
    assert width_reached(evenly(0.0, 0.5, 60), 0.01) == "gave up"
    assert width_reached(evenly(0.0, 0.001, 60), 0.01) == "reached"
    assert width_reached(evenly(0.0, 0.5, 5), 0.01, minimum=3, maximum=5) == "gave up"


def test_width_rule_refuses_nonsense():
    with pytest.raises(ValueError, match="precision"):
        width_reached([0.1], 0.0)
    with pytest.raises(ValueError, match="minimum"):
        width_reached([0.1], 0.01, minimum=2)
    with pytest.raises(ValueError, match="minimum"):
        width_reached([0.1], 0.01, minimum=20, maximum=10)
