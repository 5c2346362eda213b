"""One arm's replicates: how well their mean is known, and whether a mean is the right summary.

The unit is the replicate, one number per fresh process. Windows of one process share its memory
layout and its minute of the day, so they tell how steady that process was, not how another one
would have behaved. `jmh_error` pools them all the same, because readers know that figure from
JMH; it stands beside the interval and is never a substitute for it.

The Student interval trusts the replicates to be roughly normal. The usual way to break that is a
minority of slow processes: `two_modes` looks for it.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

LEVEL = 0.999
"""Confidence level of every interval unless another one is asked for."""

MIN_REPLICATES = 3
"""Fewer replicates than this give no interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A mean of replicates and the range that covers the true mean at `level`."""

    mean: float  # nan without values
    low: float  # nan for n < 3
    high: float  # nan for n < 3
    n: int  # replicates
    level: float
    sd: float  # standard deviation of the replicates (n - 1); nan for n < 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Modes:
    """Two clusters of replicates: the mean and the size of each."""

    low: float
    high: float
    n_low: int
    n_high: int


def t_quantile(p: float, df: float) -> float:
    """Return the Student t quantile (inverse of the regularised incomplete beta function).

    Parameters
    ----------
    p : probability below the quantile, in [0, 1]; the ends give -inf and inf
    df : degrees of freedom, > 0

    Raises
    ------
    ValueError
        `p` or `df` out of range.

    Examples
    --------
    >>> round(t_quantile(0.9995, 2), 3)
    31.599
    """
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"p must lie in [0, 1], got {p}")
    if not df > 0.0:
        raise ValueError(f"df must be positive, got {df}")
    return upper_t(1.0 - p, df) if p > 0.5 else -upper_t(p, df)


def upper_t(tail: float, df: float) -> float:
    """Return the t with probability `tail` above it; stays exact where 1 - tail rounds to 1.

    Examples
    --------
    >>> upper_t(0.0, 4)
    inf
    """
    return math.inf if tail <= 0.0 else -float(special.stdtrit(df, tail))


def mean_interval(values: ArrayLike, *, level: float = LEVEL) -> Interval:
    """Estimate the mean of replicates with its interval (Student 1908, n - 1 freedom).

    Parameters
    ----------
    values : one finite number per replicate
    level : confidence level, in (0, 1]; at 1 the interval is the whole line

    Returns
    -------
    Interval
        Ends are nan for n < 3, `sd` for n < 2, the mean for n = 0. Equal values give an
        interval of no width.

    Raises
    ------
    ValueError
        A value is not finite, or `level` is out of range.

    Examples
    --------
    >>> i = mean_interval([98.0, 100.0, 102.0])
    >>> i.mean, i.sd, round(i.low, 1), round(i.high, 1)
    (100.0, 2.0, 63.5, 136.5)
    """
    x = sample(values)
    check_level(level)
    mean, sd = mean_and_sd(x)
    n = int(x.size)
    half = math.nan if n < MIN_REPLICATES else half_width(sd, n, level)
    return Interval(mean=mean, low=mean - half, high=mean + half, n=n, level=level, sd=sd)


def jmh_error(values: ArrayLike, *, level: float = LEVEL) -> float:
    """Return JMH's error: the Student half-width over all windows of all processes, pooled.

    It treats windows as independent, so it is too small whenever processes differ from each
    other (JMH, `AbstractStatistics.getMeanErrorAt`).

    Parameters
    ----------
    values : window rates in any shape; they are flattened
    level : confidence level

    Returns
    -------
    float
        nan for n <= 2, as in JMH; 0 for equal values.

    Examples
    --------
    >>> round(jmh_error([[10.0, 11.0], [12.0, 13.0]]), 2)
    8.34
    """
    x = sample(np.ravel(np.asarray(values, dtype=np.float64)))
    check_level(level)
    n = int(x.size)
    return math.nan if n <= 2 else half_width(mean_and_sd(x)[1], n, level)


_SIZES = (5, 6, 7, 8, 9, 10, 12, 15, 20, 30, 40, 60, 100)
_LONE = (30.45, 16.52, 11.68, 9.20, 7.76, 6.82, 5.62, 4.73, 4.02, 3.39, 3.11, 2.79, 2.56)
_PAIR = (43.94, 22.97, 15.21, 11.51, 9.43, 8.02, 6.41, 5.05, 4.06, 3.26, 2.88, 2.56, 2.25)
_MORE = (43.94, 23.08, 18.62, 16.11, 13.91, 12.54, 10.57, 8.76, 7.20, 5.66, 4.86, 4.03, 3.17)
"""Gaps that one normal sample in 2000 of that size exceeds, for a smaller cluster of 1, of 2, and
of 3 or more. Each is the 0.9995 quantile of the largest gap of its kind, as `two_modes` scales
gaps, over 4 million simulated samples (1.5 million from n = 30 on). Between the sizes the
logarithm of the gap is linear in that of n; beyond the last it stays. At n = 5 a cluster of 3 or
more is never the smaller one, so that entry is only the foot of the line to 6.
"""

LONE_MODE = 10
"""Among fewer replicates a single one that stands apart is no mode."""


def two_modes(values: ArrayLike) -> Modes | None:
    """Find two clusters of replicates, such as a few slow processes (largest studentised gap).

    Each split of the sorted values is scored by the gap it opens, times the root of the smaller
    cluster's size, over the spread within the clusters (pooled, n - 2). The root allows for gaps
    being naturally wider at the ends of a sample. A split counts when its score is beyond what
    normal samples reach once in 2000; the one farthest beyond is returned.

    On normal data three kinds of split, lone, pair and larger, make at most three false alarms
    in 2000. Long tails make more: they break the interval in the same way as a second mode.

    Parameters
    ----------
    values : one finite number per replicate

    Returns
    -------
    Modes or None
        None where one cluster explains the values, and always for n < 5 and for equal values.
        One replicate alone is a mode only for n >= 10. Clusters without any spread are modes.

    Examples
    --------
    >>> fast = [100.0, 101.0, 99.0, 100.5, 99.5, 100.2, 99.8, 100.1, 99.9]
    >>> two_modes(fast) is None
    True
    >>> two_modes([*fast, 80.0])
    Modes(low=80.0, high=100.0, n_low=1, n_high=9)
    """
    x = np.sort(sample(values))
    n = int(x.size)
    if n < _SIZES[0] or x[0] == x[-1]:
        return None
    scores = _split_scores(x)
    if n < LONE_MODE:
        scores[[0, -1]] = 0.0
    excess = scores / _score_limits(n)
    split = int(np.argmax(excess))
    if excess[split] <= 1.0:
        return None
    low, high = x[: split + 1], x[split + 1 :]
    return Modes(
        low=float(low.mean()), high=float(high.mean()), n_low=int(low.size), n_high=int(high.size)
    )


def _split_scores(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Score the n - 1 splits of sorted values; inf where both sides have no spread."""
    n = x.size
    z = (x - x.mean()) / (x[-1] - x[0])
    size = np.arange(1, n)
    below, squares = np.cumsum(z)[:-1], np.cumsum(z * z)
    # Sums above a split are minus those below, since z adds up to 0.
    within = squares[-1] - below**2 * (1.0 / size + 1.0 / (n - size))
    spread = np.sqrt(np.maximum(within, 0.0) / (n - 2))
    gap = np.diff(z) * np.sqrt(np.minimum(size, n - size))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(gap > 0.0, gap / spread, 0.0)


@lru_cache(maxsize=256)
def _score_limits(n: int) -> NDArray[np.float64]:
    """Return the score each of the n - 1 splits has to exceed."""
    smaller = np.minimum(np.arange(1, n), np.arange(n - 1, 0, -1))
    rows = np.log([_LONE, _PAIR, _MORE])
    lone, pair, more = (math.exp(np.interp(math.log(n), np.log(_SIZES), row)) for row in rows)
    return np.select([smaller == 1, smaller == 2], [lone, pair], more)


def half_width(sd: float, n: int, level: float) -> float:
    """Return t * sd / sqrt(n), with 0 for a spread of 0 even where t is infinite.

    Examples
    --------
    >>> round(half_width(1.0, 5, 0.999), 2)
    3.85
    """
    return 0.0 if sd == 0.0 else upper_t((1.0 - level) / 2.0, n - 1) * sd / math.sqrt(n)


def mean_and_sd(x: NDArray[np.float64]) -> tuple[float, float]:
    """Return mean and standard deviation (n - 1); exactly 0 for equal values, nan where undefined.

    Examples
    --------
    >>> mean_and_sd(np.array([0.1, 0.1, 0.1]))
    (0.1, 0.0)
    """
    if x.size == 0:
        return math.nan, math.nan
    if x.size == 1:
        return float(x[0]), math.nan
    if x.min() == x.max():  # rounding in the mean must not invent a spread
        return float(x[0]), 0.0
    return float(x.mean()), float(x.std(ddof=1))


def sample(values: ArrayLike) -> NDArray[np.float64]:
    """Return `values` as a one-dimensional float64 array; refuse other shapes and nan or inf.

    Examples
    --------
    >>> sample([1, 2])
    array([1., 2.])
    """
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 1:
        raise ValueError(f"values must be one-dimensional, got shape {x.shape}")
    finite = np.isfinite(x)
    if not finite.all():
        raise ValueError(f"values must be finite, got {x[~finite][0]} at index {finite.argmin()}")
    return x


def check_level(level: float) -> None:
    """Raise ValueError unless `level` lies in (0, 1].

    Examples
    --------
    >>> check_level(0.999)
    """
    if not 0.0 < level <= 1.0:
        raise ValueError(f"level must lie in (0, 1], got {level}")
