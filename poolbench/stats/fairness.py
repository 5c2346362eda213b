"""How evenly threads shared the work.

Source of the index: Jain, Chiu, Hawe, "A Quantitative Measure of Fairness and Discrimination",
DEC TR-301, 1984.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def thread_share(operations: Sequence[float]) -> float:
    """Operations of the slowest thread over those of the fastest: 1 is fair, 0 starvation.

    `operations` has one number per thread. nan when nobody did any.

    >>> thread_share([50, 100])
    0.5
    """
    most = max(operations, default=0)
    return min(operations) / most if most > 0 else math.nan


def jain_index(operations: Sequence[float]) -> float:
    """Jain's index: (sum x)^2 / (n sum x^2); 1 is fair, 1/n means that one thread did it all.

    >>> jain_index([1, 1, 1, 1]), jain_index([1, 0, 0, 0])
    (1.0, 0.25)
    """
    squares = math.fsum(x * x for x in operations)
    return math.fsum(operations) ** 2 / (len(operations) * squares) if squares > 0 else math.nan
