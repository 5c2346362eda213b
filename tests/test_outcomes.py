"""Outcomes as shares and words, and paths that were never taken."""

from __future__ import annotations

import math

import pytest

from poolbench import _core, report, spec
from poolbench.outcomes import ACQUIRED, EVENTS, RELEASED, Outcomes
from poolbench.results import Measurement
from poolbench.runner import measure, sweep

ACCOUNT = {"local_hits": 900, "stolen": 80, "misses": 15, "timed_out": 5, "kept": 990, "spilled": 5}
FOUND = Outcomes.of("locked(lock=parking)", {**ACCOUNT, "retries": 100})


def test_shares_are_of_acquires_and_of_releases() -> None:
    assert sum(FOUND.acquired.values()) == pytest.approx(1)
    assert sum(FOUND.released.values()) == pytest.approx(1)
    assert FOUND.acquired["stolen"] == pytest.approx(0.08)
    assert FOUND.released["kept"] == pytest.approx(990 / 995)
    assert FOUND.events["retries"] == pytest.approx(0.1)
    assert FOUND.hit_rate == pytest.approx(0.98)


def test_words_leave_out_what_did_not_happen() -> None:
    assert FOUND.acquired_text == "local 90 %, stolen 8 %, constructed 1.5 %, timed out 0.5 %"
    assert FOUND.released_text == "kept 99 %, spilled 0.5 %"
    assert FOUND.events_text == "lost races 10 %"


def test_near_all_and_near_nothing_are_not_rounded_to_it() -> None:
    found = Outcomes.of("locked", {"shared_hits": 10**6, "misses": 1})
    assert found.acquired_text == "shared >99 %, constructed <0.01 %"


def test_paths_never_taken_are_those_the_pool_has() -> None:
    assert Outcomes.of("locked", {"shared_hits": 1}).never == (
        "constructed", "failed", "kept", "destroyed",
    )  # fmt: skip


def test_nothing_counted_says_nothing() -> None:
    empty = Outcomes.of("locked", {})
    assert (empty.acquired_text, empty.released_text, empty.never) == ("", "", ())
    assert math.isnan(empty.hit_rate)


def test_a_pool_of_another_version_has_no_known_paths() -> None:
    assert Outcomes.of("pool_of_tomorrow(size=1)", ACCOUNT).never == ()


def test_every_outcome_of_the_core_has_a_word() -> None:
    """What pools declare, and what an account holds, is known here by the same names."""
    declared = {name for entry in spec.pools().values() for name in entry.outcomes}
    assert declared <= {*ACQUIRED, *RELEASED}
    run = _core.open("fresh", "bytes", "churn", threads=1)
    account = _core.close(run)
    assert {*ACQUIRED, *RELEASED, *EVENTS} <= set(account)


@pytest.mark.workers
def test_a_measured_cell_says_what_happened() -> None:
    m = measure(
        "locked(capacity=1)",
        workload="widget",
        pattern="steady(live=4)",
        threads=2,
        blocks=2,
        rounds=2,
    )
    assert isinstance(m, Measurement)
    assert 0 < m.outcomes.acquired["shared_hits"] < 1
    assert m.outcomes.released["overflowed"] > 0
    assert m.outcomes.never == ("failed",)
    text = str(m)
    assert "acquired: shared" in text
    assert "never: failed" in text
    assert "slowest over fastest thread" in text
    assert 0 < m.share.mean <= 1
    assert 0.5 <= m.jain.mean <= 1


@pytest.mark.workers
def test_a_sweep_names_the_paths_never_taken() -> None:
    suite = sweep(pool=["fresh", "locked"], workload="widget", blocks=2, rounds=2, progress=False)
    text = report.sweep_text(suite)
    assert "never taken: locked: failed, destroyed" in text
    assert "never taken: fresh: failed" in text
