"""Numbers, tables and sentences, word for word."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable
from typing import Any, get_args

import pytest

from poolbench import figures, report, spec
from poolbench.cli import main
from poolbench.plan import make_plan
from poolbench.results import Comparison, Crossover, Estimate
from poolbench.stats.crossover import Status
from poolbench.suite import Suite

MakeSuite = Callable[..., Suite]
AT = {"workload": "bytes", "pattern": "churn", "threads": "2"}


def estimate(mean: float, low: float, high: float, *, n: int = 12) -> Estimate:
    return Estimate(mean=mean, low=low, high=high, n=n, level=0.999)


def comparison(**given: Any) -> Comparison:
    default: dict[str, Any] = {
        "at": AT,
        "compare": "pool",
        "arm": "locked",
        "baseline": "fresh",
        "ratio": estimate(1.5, 1.4, 1.6),
        "verdict": "wins",
        "because": "",
        "smallest_visible": 0.0123,
        "fragile": False,
        "between": 0.02,
        "within": 0.01,
        "look": 1,
        "oversubscribed": False,
        "floor": math.nan,
        "affinity": "spread",
    }
    return Comparison(**{**default, **given})


def crossover(status: str, *brackets: tuple[float, float, float], **given: Any) -> Crossover:
    low, high, middle = brackets[0] if status == "crosses" else (math.nan,) * 3
    default: dict[str, Any] = {
        "at": {"workload": "bytes", "pattern": "churn"},
        "along": "threads",
        "arm": "locked",
        "baseline": "fresh",
        "rising": False,
        "cpus": 64,
    }
    ends = {"status": status, "low": low, "high": high, "estimate": middle, "brackets": brackets}
    return Crossover(**{**default, **ends, **given})


# ---- small pieces -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (1.0, "1.00"),
        (23.456, "23.5"),
        (-23.456, "-23.5"),
        (812.3, "812"),
        (81234.5, "81234"),
        (0.0123, "0.0123"),
        (0.00001234, "0.0000123"),
        (1e6, "1e+06"),
        (1.234e9, "1.23e+09"),
        (math.nan, "-"),
        (math.inf, "-"),
    ],
)
def test_a_number_has_three_digits(x: float, text: str) -> None:
    assert figures.number(x) == text


@pytest.mark.parametrize(("x", "text"), [(9.999, "10.0"), (99.99, "100"), (0.9999, "1.00")])
def test_a_number_that_rounds_up_still_has_three_digits(x: float, text: str) -> None:
    assert figures.number(x) == text


def test_an_interval_has_a_unit() -> None:
    assert figures.interval(estimate(2e6, 1e6, 3e6), 1e6, "x") == "2.00x [1.00, 3.00]"


@pytest.mark.parametrize(
    ("n", "text"), [(0, "no data"), (2, "1.00 [no interval]"), (3, "1.00 [-, -]")]
)
def test_too_few_replicates_say_so(n: int, text: str) -> None:
    assert figures.interval(estimate(1.0, math.nan, math.nan, n=n)) == text


@pytest.mark.parametrize(("level", "text"), [(0.999, "99.9 %"), (0.95, "95 %"), (0.5, "50 %")])
def test_a_level_is_a_percentage(level: float, text: str) -> None:
    assert figures.percent(level) == text


def test_a_table_has_aligned_columns_and_a_rule() -> None:
    assert figures.table([["a", "name"], ["100", "x"]]) == "a    name\n---------\n100  x"


def test_an_empty_table_says_so() -> None:
    assert figures.table([]) == "(nothing)"


# ---- sentences ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            {},
            "bytes, churn, 2 threads: locked wins against fresh, 1.50x [1.40, 1.60] at 99.9 %, "
            "12 blocks; smallest visible effect 1.23 %",
        ),
        (
            {"verdict": "loses", "ratio": estimate(0.5, 0.4, 0.6)},
            "bytes, churn, 2 threads: locked loses to fresh, 0.500x [0.400, 0.600] at 99.9 %, "
            "12 blocks; smallest visible effect 1.23 %",
        ),
        (
            {"verdict": "equivalent", "ratio": estimate(1.0, 0.99, 1.01)},
            "bytes, churn, 2 threads: locked and fresh are equivalent, 1.00x [0.990, 1.01] at "
            "99.9 %, 12 blocks; smallest visible effect 1.23 %",
        ),
        (
            {
                "verdict": "not resolved",
                "because": "two modes: 2 blocks near 1x, 3 near 2x",
                "ratio": estimate(1.5, math.nan, math.nan, n=2),
                "smallest_visible": math.nan,
                "at": {**AT, "threads": "1"},
            },
            "bytes, churn, 1 thread: locked against fresh: not resolved "
            "(two modes: 2 blocks near 1x, 3 near 2x), 1.50x [no interval] at 99.9 %, 2 blocks",
        ),
    ],
    ids=lambda x: x.get("verdict", "wins") if isinstance(x, dict) else "",
)
def test_a_comparison_is_a_sentence_with_both_names(given: Any, sentence: str) -> None:
    spread = "; spread 2.00 % between blocks, 1.00 % within: for a narrower interval, more blocks"
    assert str(comparison(**given)) == sentence + spread


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "wins"),
        ({"fragile": True}, "wins (fragile)"),
        ({"fragile": None}, "wins"),
        ({"verdict": "not resolved", "because": "two modes"}, "not resolved (two modes)"),
    ],
)
def test_a_verdict_carries_what_weakens_it(given: Any, text: str) -> None:
    assert report.verdict_text(comparison(**given)) == text


def test_a_sentence_says_what_weakens_its_verdict() -> None:
    assert "fragile" in str(comparison(fragile=True))


def test_a_sentence_says_that_the_cell_is_oversubscribed() -> None:
    assert "oversubscribed" in str(comparison(oversubscribed=True))


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        ("A always", "locked always wins against fresh along threads."),
        ("A or equivalent", "locked wins against fresh or is equivalent along threads."),
        ("B always", "fresh always wins against locked along threads."),
        ("B or equivalent", "fresh wins against locked or is equivalent along threads."),
        ("equivalent", "locked and fresh are equivalent everywhere along threads."),
        ("not resolved", "cannot tell locked from fresh at every level along threads."),
    ],
)
def test_a_crossover_without_a_change_is_a_sentence(status: str, sentence: str) -> None:
    assert str(crossover(status)) == f"bytes, churn: {sentence}"


def test_a_falling_crossover_is_a_sentence() -> None:
    assert str(crossover("crosses", (1.0, 4.0, 2.345))) == (
        "bytes, churn: locked wins up to 1 thread, fresh from 4 threads on (estimate 2.35)."
    )


def test_a_rising_crossover_is_a_sentence() -> None:
    c = crossover("crosses", (1.0, 4.0, 2.0), rising=True)
    assert str(c) == (
        "bytes, churn: fresh wins up to 1 thread, locked from 4 threads on (estimate 2.00)."
    )


def test_crossing_the_number_of_cpus_is_marked() -> None:
    assert "on, where threads begin to share CPUs (" in str(
        crossover("crosses", (1.0, 4.0, 2.0), cpus=2)
    )


def test_other_axes_do_not_share_cpus() -> None:
    c = crossover("crosses", (16.0, 1024.0, 100.0), along="size", at=AT, cpus=64)
    assert str(c) == (
        "bytes, churn, 2 threads: locked wins up to size=16, fresh from size=1KiB on "
        "(estimate 100)."
    )


def test_several_changes_are_all_named() -> None:
    c = crossover("crosses more than once", (1.0, 2.0, 1.5), (4.0, 8.0, 5.0))
    assert str(c) == (
        "bytes, churn: locked and fresh change places more than once, at threads 1-2 and 4-8."
    )


def test_every_status_has_its_sentence() -> None:
    for status in get_args(Status):
        assert str(crossover(status, (1.0, 2.0, 1.5))).startswith("bytes, churn: ")


def test_a_measurement_is_three_lines(make_suite: MakeSuite) -> None:
    (m,) = make_suite({("fresh", 1): 1e7}, spread=0.0).summary()
    assert str(m).splitlines() == [
        "fresh: bytes, churn, 1 thread",
        "  throughput 10.0 [10.0, 10.0] M operations/s, 99.9 % interval over 12 replicates",
        "  thread_ns 100 [100, 100]  cpu_ns 100 [100, 100] per operation",
    ]


# ---- a sweep ------------------------------------------------------------------------------------


def test_a_sweep_is_a_table_with_ratios_and_verdicts(make_suite: MakeSuite) -> None:
    rates = {("fresh", 1): 1e7, ("locked", 1): 2e7}
    text = report.sweep_text(make_suite(rates, spread=0.0))
    assert text.splitlines()[:6] == [
        "bytes, churn: mean and 99.9 % interval over 12 replicates",
        "threads  pool    M operations/s     ratio to fresh      verdict",
        "-" * 63,
        "1        fresh   10.0 [10.0, 10.0]",
        "1        locked  20.0 [20.0, 20.0]  2.00x [2.00, 2.00]  wins",
        "",
    ]


def test_a_sweep_has_a_table_per_workload(make_suite: MakeSuite) -> None:
    rates = {("fresh", 1): 1e7, ("locked", 1): 2e7}
    text = report.sweep_text(make_suite(rates, workload="bytes,rng"))
    assert [line for line in text.splitlines() if "interval over" in line] == [
        "bytes, churn: mean and 99.9 % interval over 12 replicates",
        "rng, churn: mean and 99.9 % interval over 12 replicates",
    ]


def test_a_sweep_ends_in_its_crossovers(crossing: Suite) -> None:
    assert "\n\nbytes, churn: locked wins up to 2 threads, fresh from 8" in report.sweep_text(
        crossing
    )


def test_oversubscribed_cells_are_marked_and_explained(crossing: Suite) -> None:
    lines = report.sweep_text(crossing).splitlines()
    assert [line[:2] for line in lines if line.startswith(("2 ", "4*", "8*"))] == [
        "2 ", "2 ", "4*", "4*", "8*", "8*",
    ]  # fmt: skip
    assert "* oversubscribed: more threads than the 2 CPUs" in lines


def test_oversubscribed_cells_are_marked_where_threads_are_compared(make_suite: MakeSuite) -> None:
    text = report.sweep_text(make_suite({("1", 1): 1e7, ("4", 4): 3e7}, compare="threads"))
    assert "\n4*" in text


def test_failures_are_warned_of(make_suite: MakeSuite) -> None:
    rates = {("fresh", 1): 1e7, ("locked", 1): [1e7, None, 1e7, 1e7]}
    text = report.sweep_text(make_suite(rates, blocks=4))
    assert (
        "warning: locked, bytes, churn, 1 thread: 1 of 4 replicates failed: "
        "the worker was killed by SIGSEGV" in text.splitlines()
    )
    assert "interval over 3-4 replicates" in text


def test_a_cell_that_always_failed_is_shown_without_data(make_suite: MakeSuite) -> None:
    text = report.sweep_text(make_suite({("fresh", 1): 1e7, ("locked", 1): [None] * 12}))
    assert "1        locked  no data" in text
    assert "not resolved (no block of both arms)" in text


def test_the_environment_warns_too(make_suite: MakeSuite) -> None:
    suite = make_suite({("fresh", 1): 1e7}, environment={"load": 9.0})
    assert "warning: load average 9.0 on 2 CPUs: close other programs" in report.sweep_text(suite)


def test_no_control_arm_is_said(crossing: Suite) -> None:
    assert report.sweep_text(crossing).splitlines()[-1].startswith("noise floor not measured")


def test_one_arm_at_several_thread_counts_is_reported(make_suite: MakeSuite) -> None:
    report.sweep_text(make_suite({("fresh", 1): 1e7, ("fresh", 2): 2e7}))


def test_an_empty_suite_is_reported_as_nothing() -> None:
    assert report.sweep_text(Suite({}, [], [])) == ""


UNDECIDED = {("fresh", 2): 1e7, ("locked(lock=parking)", 2): 1.02e7}


def commands(text: str) -> list[list[str]]:
    found = re.findall(r"^not resolved: .*(poolbench sweep .*)  \(about \d+ s\)$", text, re.M)
    return [shlex.split(command)[1:] for command in found]


@pytest.mark.parametrize(
    "axes",
    [{}, {"workload": "bytes(size=4KiB,zero=none)"}, {"pattern": "churn(think_ns=1us)"}],
    ids=str,
)
def test_the_command_of_a_not_resolved_comparison_parses(
    make_suite: MakeSuite, capsys: pytest.CaptureFixture[str], axes: dict[str, str]
) -> None:
    text = report.sweep_text(make_suite(UNDECIDED, spread=0.03, **axes))
    (command,) = commands(text)
    assert main([*command, "--dry-run"]) == 0
    assert re.match("1 groups? of 2 arms", capsys.readouterr().out)


def test_the_command_measures_the_same_cells(make_suite: MakeSuite) -> None:
    suite = make_suite(UNDECIDED, spread=0.03, size="64,4KiB", workload="bytes,direct")
    plans = []
    for command in commands(report.sweep_text(suite)):
        given = dict(zip(command[1::2], command[2::2], strict=True))
        name, _, value = given["--axis"].partition("=")
        plans.append(
            make_plan(
                pool=given["--pool"],
                workload=given["--workload"],
                threads=given["--threads"],
                params={name: value},
            )
        )
    assert [p.groups[0].key for p in plans] == list(suite.groups)


def test_the_command_keeps_the_placement(make_suite: MakeSuite) -> None:
    (command,) = commands(report.sweep_text(make_suite(UNDECIDED, spread=0.03, affinity="none")))
    assert "none" in command


def test_the_command_asks_for_at_least_twelve_blocks() -> None:
    c = comparison(verdict="not resolved", ratio=estimate(1.5, 0.9, 2.0), between=0.001)
    assert "--blocks 12 " in report.resolve(c)


def test_a_difference_too_small_to_resolve_says_how_small() -> None:
    c = comparison(verdict="not resolved", ratio=estimate(1.0015, 0.9, 1.1), between=0.1)
    assert report.resolve(c) == "a difference of 0.150 % would need 10000 blocks"


def test_without_a_spread_there_is_a_reason_instead_of_a_command() -> None:
    nothing = {"verdict": "not resolved", "between": math.nan, "ratio": estimate(1.5, 1, 2, n=1)}
    assert report.resolve(comparison(**nothing)) == "too few blocks"
    assert report.resolve(comparison(**nothing, because="no block of both arms")) == (
        "no block of both arms"
    )


# ---- plans and lists ----------------------------------------------------------------------------


def test_a_plan_says_its_size_and_time() -> None:
    plan = make_plan(
        pool="fresh,locked", workload="bytes", threads=[1, 2], blocks=3, rounds=2, cpus=[0, 1]
    )
    first, second = report.plan_text(plan).splitlines()
    assert re.fullmatch(
        r"2 groups of 2 arms, 3 blocks: 12 replicates of 2 windows, about \d+ s on 2 CPUs", first
    )
    assert second == "axes: pool fresh, locked; threads 1, 2"


@pytest.mark.parametrize("kind", spec.KINDS)
def test_a_list_names_every_entry_with_its_parameters(kind: spec.Kind) -> None:
    text = report.list_text(kind)
    for entry in spec.registry()[kind].values():
        assert f"\n{entry.name} " in text
        assert entry.summary in text


def test_an_entry_shows_defaults_and_what_is_allowed() -> None:
    text = report.entry_text(spec.pools()["locked"])
    assert re.search(r"^capacity +64 +1 \.\.\. 1048576 ", text, re.M)
    assert re.search(r"^order +lifo +lifo \| fifo ", text, re.M)


def test_an_entry_without_parameters_says_so() -> None:
    assert report.entry_text(spec.pools()["fresh"]).endswith("no parameters")


def test_a_workload_says_what_construction_enters() -> None:
    assert "enters: nothing but the allocator" in report.entry_text(spec.workloads()["bytes"])
    assert "enters: quota counters" in report.entry_text(spec.workloads()["direct"])


def test_an_environment_is_a_table_with_warnings() -> None:
    lines = report.environment_text({"cpus": 2, "load": 9.0}).splitlines()
    assert "cpus   2" in lines
    assert lines[-1].startswith("warning: load average")
