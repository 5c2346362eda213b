"""Simulated data with a known truth: what the intervals, verdicts and brackets deliver.

Seeds are fixed, so a failure means a changed estimator, not bad luck. Bounds leave four standard
errors of the simulation or more.
"""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from poolbench.stats.compare import (
    compare,
    detectable_noncentrality,
    log_ratios,
    smallest_visible,
    width_reached,
)
from poolbench.stats.crossover import Level, find_crossing
from poolbench.stats.interval import jmh_error, mean_interval, t_quantile

RATIOS = [0.0, 0.5, 1.0, 2.0, 5.0]  # spread between processes over spread within


def windows(rng, experiments, between, blocks=5, rounds=5):
    """Return windows of true mean 0 by experiment, process and round."""
    layout = between * rng.standard_normal((experiments, blocks, 1))
    return layout + rng.standard_normal((experiments, blocks, rounds))


@pytest.mark.parametrize("between", RATIOS)
def test_replicate_interval_covers(between):
    means = windows(np.random.default_rng(1), 5000, between).mean(axis=2)
    intervals = [mean_interval(x) for x in means]
    covered = np.mean([i.low <= 0.0 <= i.high for i in intervals])
    assert 0.997 <= covered <= 1.0
    assert np.mean([mean_interval(x, level=0.9).low <= 0.0 for x in means]) == pytest.approx(
        0.95, abs=0.015
    )


@pytest.mark.parametrize(
    ("between", "covered"), [(0.0, 0.999), (0.5, 0.988), (1.0, 0.941), (2.0, 0.862), (5.0, 0.817)]
)
def test_pooled_windows_do_not_cover(between, covered):
    x = windows(np.random.default_rng(2), 8000, between)
    errors = np.array([jmh_error(w) for w in x])
    found = np.mean(np.abs(x.mean(axis=(1, 2))) <= errors)
    # Both figures are simulated; 8000 experiments alone have a standard error of 0.4 points.
    assert found == pytest.approx(covered, abs=0.015)


def stops(x, precision, minimum=12):
    """Return for each row where the width rule stops it, its mean and its half-width there."""
    most = x.shape[1]
    n = np.arange(1, most + 1)
    mean = np.cumsum(x, axis=1) / n
    squares = np.cumsum(x * x, axis=1) - n * mean**2
    sd = np.sqrt(np.maximum(squares, 0.0) / np.maximum(n - 1, 1))
    t = np.array([math.inf, *(t_quantile(0.9995, k - 1) for k in n[1:])])
    with np.errstate(invalid="ignore"):
        half = t * sd / np.sqrt(n)
    done = (np.sinh(np.minimum(half, 700.0)) <= precision) & (n >= minimum)
    done[:, -1] = True
    at = done.argmax(axis=1)
    rows = np.arange(len(x))
    return n[at], mean[rows, at], half[rows, at]


@pytest.mark.parametrize("sd", [0.01, 0.02, 0.026])
def test_width_rule_keeps_its_coverage(sd):
    # 99.90, 99.89 and 99.85 %, stopping at 12, 16 and 23 blocks on average.
    x = sd * np.random.default_rng(3).standard_normal((20_000, 60))
    n, mean, half = stops(x, 0.02)
    assert np.mean(np.abs(mean) <= half) >= 0.997
    for row, stop in zip(x[:40], n[:40], strict=True):  # the simulated rule is the real one
        answers = {width_reached(row[:k], 0.02) for k in range(1, stop)}
        assert answers <= {"continue"}
        assert width_reached(row[:stop], 0.02) != "continue"


@pytest.mark.parametrize("n", [5, 12])
def test_power_is_the_one_printed(n):
    sd = 0.05
    effect = math.log1p(smallest_visible(sd, n))
    d = effect + sd * np.random.default_rng(4).standard_normal((3000, n))
    won = np.mean([compare(row).verdict == "wins" for row in d])
    assert won == pytest.approx(0.9, abs=0.03)


@pytest.mark.parametrize("n", [3, 5, 20])
def test_noncentrality_in_simulated_t_tests(n):
    shift = detectable_noncentrality(n, 0.99, 0.8) / math.sqrt(n)
    x = shift + np.random.default_rng(5).standard_normal((20_000, n))
    t = x.mean(axis=1) / (x.std(axis=1, ddof=1) / math.sqrt(n))
    assert np.mean(t > t_quantile(0.995, n - 1)) == pytest.approx(0.8, abs=0.015)


def random_walk(rng, experiments, steps, size=0.01):
    return np.cumsum(size * rng.standard_normal((experiments, steps)), axis=1)


def steady_slope(rng, experiments, steps):
    return np.broadcast_to(np.linspace(0.0, 0.2, steps), (experiments, steps))


def one_step(rng, experiments, steps):
    at = rng.integers(0, steps, (experiments, 1))
    return np.where(np.arange(steps) >= at, 0.2, 0.0)


def slow_wave(rng, experiments, steps):
    phase = rng.uniform(0.0, 2.0 * np.pi, (experiments, 1))
    return 0.1 * np.sin(np.linspace(0.0, 2.0 * np.pi, steps) + phase)


DRIFTS = [random_walk, steady_slope, one_step, slow_wave]


def in_one_block(rng, drift, blocks, rounds):
    """Return log rates of two equal arms, alternated in random order, by arm, block, round."""
    experiments = drift.shape[0]
    pairs = drift.reshape(experiments, blocks, rounds, 2)
    pairs = rng.permuted(pairs, axis=-1) + 0.01 * rng.standard_normal(pairs.shape)
    layout = 0.01 * rng.standard_normal((experiments, blocks, 1, 2))
    return np.moveaxis(pairs + layout, -1, 0)


@pytest.mark.parametrize("drift", DRIFTS)
def test_alternated_arms_make_no_false_alarms_under_drift(drift):
    rng = np.random.default_rng(6)
    blocks, rounds, experiments = 12, 6, 500
    a, b = in_one_block(rng, drift(rng, experiments, 2 * blocks * rounds), blocks, rounds)
    d = [log_ratios(np.exp(x), np.exp(y)) for x, y in zip(a, b, strict=True)]
    alarms = np.mean([compare(row, margin=0.0).verdict in ("wins", "loses") for row in d])
    assert alarms <= 1 / 50
    # At a level that shows something: 5 % are allowed, and are not exceeded by much.
    loose = np.mean([compare(r, level=0.95, margin=0.0).verdict != "not resolved" for r in d])
    assert 0.01 <= loose <= 0.09


@pytest.mark.parametrize("drift", DRIFTS)
def test_one_arm_after_the_other_takes_drift_for_a_difference(drift):
    # The wrong way, for contrast: all replicates of A, then all of B, Welch's t test at 5 %.
    rng = np.random.default_rng(7)
    x = drift(rng, 500, 40) + 0.05 * rng.standard_normal((500, 40))
    alarms = np.mean(stats.ttest_ind(x[:, :20], x[:, 20:], axis=1, equal_var=False).pvalue < 0.05)
    assert alarms > 0.18


def simulated_axis(rng, truth, xs, blocks=12, sd=0.03):
    """Return the levels of an arm whose log-ratio is 0.1 * ln(x / truth)."""
    levels = []
    for x in xs:
        r = compare(0.1 * math.log(x / truth) + sd * rng.standard_normal(blocks))
        levels.append(Level(x=x, verdict=r.verdict, mean_log_ratio=math.log(r.mean)))
    return levels


def test_brackets_contain_a_planted_crossover():
    rng = np.random.default_rng(8)
    xs = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
    crossings, hits, errors = 0, 0, []
    for _ in range(300):
        truth = math.exp(rng.uniform(math.log(2.5), math.log(13.0)))
        crossing = find_crossing(simulated_axis(rng, truth, xs))
        if crossing.status == "crosses":
            (b,) = crossing.brackets
            crossings += 1
            hits += b.low <= truth <= b.high
            errors.append(math.log(b.estimate / truth))
        else:
            assert crossing.status == "not resolved"
    assert crossings >= 200
    assert hits >= 0.99 * crossings
    assert abs(np.mean(errors)) < 0.06  # the chord is not biased on a straight line


def test_no_crossover_is_found_where_none_is():
    rng = np.random.default_rng(9)
    found = [find_crossing(simulated_axis(rng, 0.1, [1.0, 2.0, 4.0, 8.0])) for _ in range(200)]
    assert all(c.status == "A always" for c in found)


def test_simulated_stopping_matches_plain_numpy():
    x = 0.02 * np.random.default_rng(10).standard_normal((5, 60))
    n, mean, half = stops(x, 0.02)
    for row, k, m, h in zip(x, n, mean, half, strict=True):
        i = mean_interval(row[:k])
        assert_allclose([m - h, m + h], [i.low, i.high], rtol=1e-9, atol=1e-12)
