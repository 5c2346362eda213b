"""An arm against the baseline: the ratio, what may be said about it, and what would say more.

In each round of a block both arms run within milliseconds of each other, so what the host does to
one it does to the other, and the logarithm of their ratio is rid of it. A block's mean of these
log-ratios is one observation, `d`. Everything below works on the array of them, one per block.

    ratio       exp(mean d), interval by Student t over the blocks
    verdict     wins, loses, equivalent, not resolved: where the interval lies
    fragile     the sign test, which assumes no distribution, does not come to the same verdict
    visible     the smallest true ratio these blocks would have resolved nine times in ten

A log-ratio above 0 means that the arm is faster than the baseline.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from poolbench.stats.interval import (
    LEVEL,
    MIN_REPLICATES,
    check_level,
    half_width,
    mean_and_sd,
    mean_interval,
    sample,
    upper_t,
)

MARGIN = 0.02
"""Ratios within 1/(1 + margin) and 1 + margin are of no practical interest."""

MOST_BLOCKS = 10_000
"""The largest answer of `blocks_needed`."""

Verdict = Literal["wins", "loses", "equivalent", "not resolved"]
Progress = Literal["continue", "reached", "gave up"]
Rates = Sequence[ArrayLike] | NDArray[np.float64]  # by block, then by round


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """Throughput of the arm over the baseline's, with everything its verdict rests on."""

    mean: float  # exp of the mean log-ratio; nan without blocks
    low: float  # nan for n < 3
    high: float  # nan for n < 3
    n: int  # blocks
    level: float  # in force after the correction for looks
    verdict: Verdict
    smallest_visible: float  # relative effect seen with power 0.9; nan for n < 3
    fragile: bool | None  # None: too few blocks for a sign test at this level, not checked
    between: float  # standard deviation of the block means, in log; nan for n < 2
    within: float  # what the rounds of a block contribute to it, in log; nan if not known
    look: int  # 1 for blocks fixed in advance


def log_ratios(arm: Rates, baseline: Rates) -> NDArray[np.float64]:
    """Return each block's mean over its rounds of ln arm - ln baseline (paired log-ratio).

    Parameters
    ----------
    arm, baseline : rates by block and round, all positive; blocks may differ in rounds, but the
        two arms of one block may not

    Returns
    -------
    array of one value per block; empty without blocks

    Raises
    ------
    ValueError
        Shapes differ, a block has no round, or a rate is not positive and finite.

    Examples
    --------
    >>> np.exp(log_ratios([[2.0, 2.0], [3.0]], [[1.0, 1.0], [1.0]])).round(3)
    array([2., 3.])
    """
    return np.array([d.mean() for d in _round_ratios(arm, baseline)], dtype=np.float64)


def within_spread(arm: Rates, baseline: Rates) -> float:
    """Return what the scatter of rounds adds to a block mean: s_w / sqrt(rounds), pooled.

    Blocks are averaged in quadrature, which keeps the variance unbiased. Compare it with the
    spread of `log_ratios`: the part that cannot be explained this way is the blocks' own.

    Parameters
    ----------
    arm, baseline : as for `log_ratios`

    Returns
    -------
    float
        In log units. Blocks of a single round say nothing and are passed over; nan if all are.

    Raises
    ------
    ValueError
        As for `log_ratios`.

    Examples
    --------
    >>> round(within_spread([[1.0, 1.1, 1.2, 1.1]], [[1.0, 1.0, 1.0, 1.0]]), 4)
    0.0372
    """
    squares = [d.var(ddof=1) / d.size for d in _round_ratios(arm, baseline) if d.size > 1]
    return math.sqrt(np.mean(squares)) if squares else math.nan


def compare(
    d: ArrayLike,
    *,
    within: float = math.nan,
    level: float = LEVEL,
    margin: float = MARGIN,
    look: int = 1,
) -> Ratio:
    """Judge an arm by its log-ratios (paired Student t over blocks, checked by the sign test).

    Parameters
    ----------
    d : one log-ratio per block, as `log_ratios` returns them
    within : `within_spread` of the same blocks, carried into the result
    level : confidence level of a first look
    margin : half-width of the band of equivalence
    look : how many times blocks were added and judged, this time included

    Returns
    -------
    Ratio
        For n < 3 no interval, and "not resolved". Without any spread the interval is a point.

    Raises
    ------
    ValueError
        A value is not finite, or an option is out of range.

    Examples
    --------
    >>> r = compare([0.10, 0.11, 0.12, 0.10, 0.12, 0.11])
    >>> r.verdict, round(r.mean, 3), round(r.low, 3), r.fragile
    ('wins', 1.116, 1.089, None)
    """
    x = sample(d)
    if not 0.0 <= margin < math.inf:
        raise ValueError(f"margin must not be negative or infinite, got {margin}")
    strict = look_level(level, look)
    i = mean_interval(x, level=strict)
    verdict = _verdict(i.low, i.high, margin)
    signs = sign_interval(x, strict)
    return Ratio(
        mean=_exp(i.mean),
        low=_exp(i.low),
        high=_exp(i.high),
        n=i.n,
        level=strict,
        verdict=verdict,
        smallest_visible=smallest_visible(i.sd, i.n, strict),
        fragile=None if signs is None else _verdict(*signs, margin) != verdict,
        between=i.sd,
        within=within,
        look=look,
    )


def p_value(d: ArrayLike) -> float:
    """Return the two-sided p-value of a mean log-ratio of 0 (one-sample Student t).

    Parameters
    ----------
    d : one log-ratio per block

    Returns
    -------
    float
        nan for n < 3. Without spread 1 if all are 0, else 0.

    Examples
    --------
    >>> round(p_value([0.1, 0.2, 0.3]), 4)
    0.0742
    """
    x = sample(d)
    n = int(x.size)
    if n < MIN_REPLICATES:
        return math.nan
    mean, sd = mean_and_sd(x)
    if sd == 0.0:
        return 1.0 if mean == 0.0 else 0.0
    return 2.0 * float(special.stdtr(n - 1, -abs(mean) * math.sqrt(n) / sd))


def holm(p_values: ArrayLike, *, level: float = LEVEL) -> list[bool]:
    """Tell which cells of one claim stand together (Holm 1979, step-down).

    The chance that any cell stands although its arms are equal is at most 1 - level.

    Parameters
    ----------
    p_values : one per cell of the claim; nan (a cell without an interval) counts as a cell that
        cannot stand

    Returns
    -------
    list of bool, in the order given

    Raises
    ------
    ValueError
        A p-value outside [0, 1].

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03], level=0.95)
    [True, False, False]
    """
    check_level(level)
    p = np.nan_to_num(np.asarray(p_values, dtype=np.float64), nan=1.0)
    if p.size and not (p.min() >= 0.0 and p.max() <= 1.0):
        raise ValueError(f"p-values must lie in [0, 1], got {p.min()} to {p.max()}")
    order = np.argsort(p, kind="stable")
    passed = p[order] * np.arange(p.size, 0, -1) <= 1.0 - level
    stands = np.zeros(p.size, dtype=np.bool_)
    stands[order] = np.logical_and.accumulate(passed)
    return [bool(s) for s in stands]


def look_level(level: float, look: int) -> float:
    """Return the level that the n-th look is judged at: 1 - (1 - level) / 2**(look - 1).

    The errors allowed to all looks together add up to less than twice those of the first.

    Parameters
    ----------
    level : confidence level of the first look
    look : 1 for the first

    Raises
    ------
    ValueError
        `look` below 1, or `level` out of range.

    Examples
    --------
    >>> round(look_level(0.999, 3), 6)
    0.99975
    """
    check_level(level)
    if look < 1:
        raise ValueError(f"look must be at least 1, got {look}")
    return 1.0 - math.ldexp(1.0 - level, 1 - look)


def sign_minimum(level: float) -> int | None:
    """Return the fewest blocks for which `sign_interval` exists; None at level 1.

    Examples
    --------
    >>> [sign_minimum(level) for level in (0.999, 0.99, 0.95)]
    [11, 8, 6]
    """
    check_level(level)
    return None if level == 1.0 else math.ceil(1.0 - math.log2(1.0 - level))


def sign_interval(d: ArrayLike, level: float = LEVEL) -> tuple[float, float] | None:
    """Return the interval of the median by order statistics (sign test, exact binomial).

    It covers at `level` or better for any continuous distribution, skewed ones included.

    Parameters
    ----------
    d : one log-ratio per block
    level : confidence level

    Returns
    -------
    (low, high), two of the values themselves, or None where n is below `sign_minimum`

    Examples
    --------
    >>> sign_interval([3.0, 1.0, 2.0, 6.0, 4.0, 5.0], 0.95)
    (1.0, 6.0)
    >>> sign_interval([3.0, 1.0, 2.0], 0.95) is None
    True
    """
    x = np.sort(sample(d))
    check_level(level)
    rank = _sign_rank(int(x.size), level)
    return (float(x[rank - 1]), float(x[-rank])) if rank else None


@lru_cache(maxsize=1024)
def _sign_rank(n: int, level: float) -> int:
    """Return the largest k with P(Binomial(n, 1/2) < k) within one tail; 0 where there is none."""
    k = np.arange(n // 2 + 1)
    tails = special.bdtr(k, n, 0.5)
    # The allowance is for 1 - level, which is rarely a binary number.
    return int(np.count_nonzero(tails <= (1.0 - level) / 2.0 * (1.0 + 1e-12)))


def detectable_noncentrality(n: int, level: float = LEVEL, power: float = 0.9) -> float:
    """Return the true mean, in standard errors, that a t test finds with this power.

    Noncentral t with n - 1 freedom; the far tail, a significant mean of the wrong sign, is left
    out (below 1e-6 at a power of 0.9 and levels from 0.95).

    Parameters
    ----------
    n : blocks
    level : confidence level of the two-sided test
    power : chance to resolve, in (0, 1)

    Returns
    -------
    float
        nan for n < 3, inf at level 1.

    Raises
    ------
    ValueError
        `level` or `power` out of range.

    Examples
    --------
    >>> round(detectable_noncentrality(5), 2), round(detectable_noncentrality(10), 2)
    (12.2, 6.58)
    """
    check_level(level)
    if not 0.0 < power < 1.0:
        raise ValueError(f"power must lie between 0 and 1, got {power}")
    return math.nan if n < MIN_REPLICATES else _noncentrality(n, level, power)


@lru_cache(maxsize=1024)
def _noncentrality(n: int, level: float, power: float) -> float:
    """Solve P(T(n - 1, delta) > t) = power for delta."""
    t = upper_t((1.0 - level) / 2.0, n - 1)
    return t if math.isinf(t) else float(special.nctdtrinc(n - 1, 1.0 - power, t))


def smallest_visible(sd: float, n: int, level: float = LEVEL, power: float = 0.9) -> float:
    """Return the smallest relative effect that n blocks of this spread resolve with this power.

    exp(delta * sd / sqrt(n)) - 1, delta from the noncentral t. The effect is on the ratio: 0.05
    means a true ratio of 1.05, or of its inverse.

    Parameters
    ----------
    sd : standard deviation of the log-ratios between blocks
    n, level, power : as for `detectable_noncentrality`

    Returns
    -------
    float
        nan for n < 3, 0 without spread, inf where nothing is visible.

    Examples
    --------
    >>> round(smallest_visible(0.01, 12), 4)
    0.0178
    """
    delta = detectable_noncentrality(n, level, power)
    if math.isnan(delta) or sd == 0.0:
        return delta if math.isnan(delta) else 0.0
    return _exp(delta * sd / math.sqrt(n)) - 1.0


def blocks_needed(sd: float, effect: float, level: float = LEVEL, power: float = 0.9) -> int:
    """Return how many blocks resolve a log-ratio of this size with this power.

    Searches the n of `detectable_noncentrality`; the answer is a plan, as rough as `sd` is.

    Parameters
    ----------
    sd : standard deviation of the log-ratios between blocks
    effect : log-ratio expected; its sign does not matter
    level, power : as for `detectable_noncentrality`

    Returns
    -------
    int
        From 3, which a spread of 0 gives, to 10 000, which also stands for "more than that".

    Raises
    ------
    ValueError
        `sd` or `effect` is not finite, or `sd` is negative.

    Examples
    --------
    >>> blocks_needed(0.02, 0.03), blocks_needed(0.02, 0.0)
    (15, 10000)
    """
    if not (math.isfinite(sd) and sd >= 0.0 and math.isfinite(effect)):
        raise ValueError(f"need a finite sd >= 0 and a finite effect, got {sd} and {effect}")
    low, high = MIN_REPLICATES, MOST_BLOCKS
    while low < high:
        n = (low + high) // 2
        if sd == 0.0 or detectable_noncentrality(n, level, power) * sd <= abs(effect) * n**0.5:
            high = n
        else:
            low = n + 1
    return low


def width_reached(
    d: ArrayLike, precision: float, level: float = LEVEL, *, minimum: int = 12, maximum: int = 60
) -> Progress:
    """Tell whether the ratio's interval is narrow enough to stop adding blocks.

    The rule looks at the half-width relative to the ratio, sinh(t * s / sqrt(n)), and never at
    where the interval lies: stopping on significance would manufacture it.

    Parameters
    ----------
    d : log-ratios of the blocks so far
    precision : half-width to reach, 0.01 for 1 % of the ratio
    level : confidence level of the interval
    minimum, maximum : blocks before which the rule does not stop, and at which it gives up

    Raises
    ------
    ValueError
        `precision` not positive, or `minimum` below 3 or above `maximum`.

    Examples
    --------
    >>> width_reached([0.1, 0.1, 0.1], 0.01)
    'continue'
    >>> width_reached([0.10, 0.11, 0.12], 0.20, minimum=3)
    'reached'
    """
    x = sample(d)
    check_level(level)
    if not precision > 0.0:
        raise ValueError(f"precision must be positive, got {precision}")
    if not MIN_REPLICATES <= minimum <= maximum:
        raise ValueError(f"need 3 <= minimum <= maximum, got {minimum} and {maximum}")
    n = int(x.size)
    if n < minimum:
        return "continue"
    half = half_width(mean_and_sd(x)[1], n, level)
    if (_exp(half) - _exp(-half)) / 2.0 <= precision:
        return "reached"
    return "gave up" if n >= maximum else "continue"


def hint(between: float, within: float) -> str:
    """Say what to raise for a sharper ratio: "more blocks" or "more rounds".

    Rounds help where they are the larger part of the variance of the block means; nothing but
    blocks helps against the rest. An unknown `within` (episodes have no rounds) gives blocks.

    Examples
    --------
    >>> hint(0.010, 0.009), hint(0.010, 0.003)
    ('more rounds', 'more blocks')
    """
    return "more rounds" if 2.0 * within**2 > between**2 else "more blocks"


def _verdict(low: float, high: float, margin: float) -> Verdict:
    """Place an interval of the log-ratio; nan ends resolve nothing."""
    band = math.log1p(margin)
    if -band <= low and high <= band:
        return "equivalent"
    if low > 0.0:
        return "wins"
    return "loses" if high < 0.0 else "not resolved"


def _round_ratios(arm: Rates, baseline: Rates) -> list[NDArray[np.float64]]:
    """Return the log-ratios of the rounds, one array per block."""
    if len(arm) != len(baseline):
        raise ValueError(f"arm has {len(arm)} blocks, baseline {len(baseline)}")
    blocks = []
    for b, (a, base) in enumerate(zip(arm, baseline, strict=True)):
        x, y = sample(a), sample(base)
        if x.size != y.size or x.size == 0:
            raise ValueError(f"block {b}: {x.size} rounds of the arm, {y.size} of the baseline")
        if x.min() <= 0.0 or y.min() <= 0.0:
            raise ValueError(f"block {b}: rates must be positive, got {min(x.min(), y.min())}")
        blocks.append(np.log(x) - np.log(y))
    return blocks


def _exp(x: float) -> float:
    """Return e**x, inf where it overflows."""
    return math.inf if x > 709.0 else math.exp(x)
