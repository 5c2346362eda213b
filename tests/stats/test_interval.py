"""Known answers and properties of one arm's interval, and of the search for two modes."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import stats

from poolbench.stats.interval import (
    LEVEL,
    jmh_error,
    mean_interval,
    t_quantile,
    two_modes,
)

LEVELS = st.sampled_from([0.9, 0.95, 0.99, 0.999])
SAMPLES = st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=40).filter(lambda x: np.ptp(x) > 1e-3)


def test_student_quantile_of_a_published_table():
    assert t_quantile(0.9995, 2) == pytest.approx(31.599, abs=5e-4)


@pytest.mark.parametrize("df", [1, 2, 4, 9, 19, 59, 1000])
@pytest.mark.parametrize("p", [1e-9, 0.0005, 0.3, 0.5, 0.9, 0.9995, 0.99975, 1 - 1e-9])
def test_student_quantile_agrees_with_scipy(p, df):
    assert t_quantile(p, df) == pytest.approx(stats.t.ppf(p, df), rel=1e-7, abs=1e-12)


def test_student_quantile_at_the_ends():
    assert t_quantile(1.0, 4) == math.inf
    assert t_quantile(0.0, 4) == -math.inf


@pytest.mark.parametrize(("p", "df"), [(-0.1, 3), (1.1, 3), (math.nan, 3), (0.5, 0), (0.5, -1)])
def test_student_quantile_refuses_nonsense(p, df):
    with pytest.raises(ValueError, match="must"):
        t_quantile(p, df)


@pytest.mark.parametrize(
    ("n", "factor"), [(3, 18.2), (5, 3.85), (10, 1.51), (12, 1.28), (20, 0.87), (40, 0.56)]
)
def test_half_width_in_standard_deviations(n, factor):
    x = np.arange(n, dtype=np.float64)
    i = mean_interval(x)
    assert (i.high - i.low) / 2 / x.std(ddof=1) == pytest.approx(factor, rel=0.01)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(SAMPLES, LEVELS)
def test_interval_agrees_with_numpy_and_scipy(values, level):
    i = mean_interval(values, level=level)
    low, high = stats.t.interval(
        level, len(values) - 1, np.mean(values), np.std(values, ddof=1) / math.sqrt(len(values))
    )
    assert (i.n, i.level) == (len(values), level)
    assert i.mean == pytest.approx(np.mean(values), rel=1e-9, abs=1e-9)
    assert i.sd == pytest.approx(np.std(values, ddof=1), rel=1e-9, abs=1e-9)
    assert_allclose([i.low, i.high], [low, high], rtol=1e-7, atol=1e-6)


def test_too_few_replicates_have_no_interval():
    none, one, two = mean_interval([]), mean_interval([7.0]), mean_interval([7.0, 9.0])
    assert math.isnan(none.mean)
    assert math.isnan(none.sd)
    assert one.mean == 7.0
    assert math.isnan(one.sd)
    assert two.sd == pytest.approx(math.sqrt(2.0))
    assert all(math.isnan(end) for i in (none, one, two) for end in (i.low, i.high))


def test_equal_replicates_have_an_interval_of_no_width():
    # The mean of three times 0.1 is not 0.1 in floating point.
    i = mean_interval([0.1] * 3)
    assert (i.mean, i.low, i.high, i.sd) == (0.1, 0.1, 0.1, 0.0)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_value_that_is_not_finite_is_named(bad):
    with pytest.raises(ValueError, match=f"{bad} at index 1"):
        mean_interval([1.0, bad, 2.0])


def test_shape_and_level_are_checked():
    with pytest.raises(ValueError, match="one-dimensional"):
        mean_interval([[1.0, 2.0]])
    with pytest.raises(ValueError, match="level"):
        mean_interval([1.0, 2.0, 3.0], level=0.0)


def test_jmh_error_of_a_published_run():
    # Three values with a standard deviation of 6480.418, printed by JMH with +- 118226.9.
    assert jmh_error(1e6 + 6480.418 * np.array([-1.0, 0.0, 1.0])) == pytest.approx(
        118226.9, abs=0.1
    )


def test_jmh_error_pools_windows_of_all_shapes():
    windows = np.arange(25.0).reshape(5, 5)
    i = mean_interval(windows.ravel())
    assert jmh_error(windows) == pytest.approx((i.high - i.low) / 2)
    assert jmh_error(windows, level=0.9) < jmh_error(windows)


def test_jmh_error_needs_three_windows():
    assert math.isnan(jmh_error([1.0, 2.0]))
    assert math.isnan(jmh_error([]))
    assert jmh_error([2.0, 2.0, 2.0]) == 0.0


SPREAD = np.linspace(-1.0, 1.0, 30)  # a sample without gaps


@pytest.mark.parametrize(
    ("slow", "fast"),
    [([-9.0], 9), ([-9.0], 19), ([-9.5, -10.0], 18), ([-9.0, -10.0, -9.5], 27), ([-9.0, -9.2], 3)],
)
def test_modes_are_told_apart_and_counted(slow, fast):
    # Clusters of 2 and 3 need to be far apart before five values can be called two modes.
    scale = 10.0 if fast == 3 else 1.0
    values = [scale * v for v in slow] + list(SPREAD[:: 30 // fast][:fast] * 0.3)
    modes = two_modes(np.random.default_rng(1).permutation(values))
    assert modes is not None
    assert (modes.n_low, modes.n_high) == (len(slow), fast)
    assert modes.low == pytest.approx(scale * np.mean(slow))
    assert modes.high == pytest.approx(np.mean(values[len(slow) :]))


@pytest.mark.parametrize(("smaller", "limit"), [(1, 6.82), (2, 8.02), (5, 12.54)])
def test_limits_at_ten_replicates(smaller, limit):
    left, right = np.linspace(1.0, 0.0, smaller), np.linspace(0.0, 1.0, 10 - smaller)
    pooled = np.sum((left - left.mean()) ** 2) + np.sum((right - right.mean()) ** 2)
    gap = limit * math.sqrt(pooled / 8) / math.sqrt(smaller)
    assert two_modes([*left, *(right + 1.0 + gap * 0.999)]) is None
    assert two_modes([*left, *(right + 1.0 + gap * 1.001)]) is not None


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(0, 2**32 - 1), st.floats(0.01, 1e6), st.floats(-1e3, 1e3))
def test_modes_do_not_depend_on_units_or_direction(seed, scale, shift):
    x = np.random.default_rng(seed).standard_normal(20)
    x[:3] += 7.0
    modes, mirrored = two_modes(x), two_modes(-x)
    moved = two_modes(x * scale + shift * scale)
    assert (modes is None) == (mirrored is None) == (moved is None)
    if modes and mirrored and moved:
        assert (modes.n_low, modes.n_high) == (mirrored.n_high, mirrored.n_low)
        assert modes.low == pytest.approx(-mirrored.high)
        assert moved.high == pytest.approx(scale * (modes.high + shift), rel=1e-6, abs=1e-6)


def test_two_exact_values_are_two_modes():
    modes = two_modes([1.0, 1.0, 1.0, 2.0, 2.0, 2.0])
    assert modes is not None
    assert (modes.low, modes.high, modes.n_low, modes.n_high) == (1.0, 2.0, 3, 3)


@pytest.mark.parametrize(
    "values",
    [
        [],
        [1.0, 1.0, 9.0, 9.0],  # below five nothing is judged
        [3.0] * 12,
        [1.0, 1.0, 1.0, 1.0, 2.0],  # one of five is no mode, however far
        [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 50.0],  # nor one of nine
        SPREAD,
    ],
)
def test_what_is_not_two_modes(values):
    assert two_modes(values) is None


def caught(draw, n, repeats, seed):
    rng = np.random.default_rng(seed)
    return np.mean([two_modes(draw(rng, n)) is not None for _ in range(repeats)])


def normal(rng, n):
    return rng.standard_normal(n)


@pytest.mark.parametrize("n", [5, 6, 10, 13, 20, 26, 40])
def test_normal_replicates_are_rarely_called_two_modes(n):
    # 0.15 % by design. A true rate of 0.2 % would pass 4 in 1000 in one run of 20.
    assert caught(normal, n, 4000, seed=n) <= 0.004


def test_mildly_skewed_replicates_are_rarely_called_two_modes():
    assert caught(lambda rng, n: rng.lognormal(0.0, 0.1, n), 20, 4000, seed=3) <= 0.006


def one_in_ten_slow(rng, n):
    x = rng.standard_normal(n)
    x[: n // 10] -= 10.0
    return x


@pytest.mark.parametrize(("n", "at_least"), [(10, 0.7), (20, 0.98), (40, 0.98)])
def test_one_slow_process_in_ten_is_caught(n, at_least):
    assert caught(one_in_ten_slow, n, 1000, seed=n) >= at_least


def test_balanced_modes_are_caught():
    def balanced(rng, n):
        return rng.standard_normal(n) + np.where(np.arange(n) % 2, 8.0, 0.0)

    assert caught(balanced, 20, 1000, seed=5) >= 0.95


def test_default_level():
    assert mean_interval([1.0, 2.0, 4.0]) == mean_interval([1.0, 2.0, 4.0], level=LEVEL)
    assert LEVEL == 0.999
