"""How evenly threads shared the work, on planted counts."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolbench.stats.fairness import jain_index, thread_share

COUNTS = st.lists(st.integers(0, 10**12), min_size=1, max_size=64)


def test_equal_threads_are_fair() -> None:
    assert thread_share([7, 7, 7]) == 1
    assert jain_index([7, 7, 7]) == pytest.approx(1)


def test_a_thread_that_starves_shows() -> None:
    assert thread_share([0, 10]) == 0
    assert jain_index([0, 10]) == pytest.approx(0.5)


def test_nothing_done_is_no_number() -> None:
    assert math.isnan(thread_share([0, 0]))
    assert math.isnan(jain_index([0, 0]))
    assert math.isnan(thread_share([]))


@given(COUNTS)
def test_both_stay_in_range(counts: list[int]) -> None:
    if any(counts):
        assert 0 <= thread_share(counts) <= 1
        assert 1 / len(counts) - 1e-12 <= jain_index(counts) <= 1 + 1e-12


@given(COUNTS, st.integers(1, 1000))
def test_neither_depends_on_the_unit(counts: list[int], factor: int) -> None:
    if any(counts):
        scaled = [factor * c for c in counts]
        assert thread_share(scaled) == pytest.approx(thread_share(counts))
        assert jain_index(scaled) == pytest.approx(jain_index(counts))
