"""What a suite says about planted rates, and its tables and files."""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poolbench.journal import Contents, encode
from poolbench.outcomes import COLUMNS
from poolbench.records import groups_of, replicate_of, replicate_record
from poolbench.results import Replicate
from poolbench.suite import Suite, load

MakeSuite = Callable[..., Suite]
TWO = {("fresh", 2): 1e7, ("locked", 2): 1.5e7}
REPLICATE_COLUMNS = [
    "workload", "pool", "pattern", "threads", "block", "throughput", "thread_ns", "cpu_ns",
    "status", "reason",
]  # fmt: skip


def all_replicates(suite: Suite) -> list[list[Replicate]]:
    return [suite.replicates(k, arm) for k, g in suite.groups.items() for arm in g.arms]


def by_block(rate: float, factors: list[float]) -> list[float]:
    return [rate * f for f in factors]


# ---- estimates ----------------------------------------------------------------------------------


def test_planted_rates_are_measured(make_suite: MakeSuite) -> None:
    fresh, locked = make_suite(TWO, spread=0.0).summary()
    assert float(fresh.throughput) == pytest.approx(1e7)
    assert float(locked.throughput) == pytest.approx(1.5e7)
    assert (fresh.throughput.n, fresh.throughput.level) == (12, 0.999)


def test_thread_ns_is_the_time_of_one_thread(make_suite: MakeSuite) -> None:
    fresh, _ = make_suite(TWO, spread=0.0).summary()
    assert float(fresh.thread_ns) == pytest.approx(2 * 1e9 / 1e7)


def test_cpu_ns_is_the_time_of_the_process(make_suite: MakeSuite) -> None:
    fresh, _ = make_suite(TWO, spread=0.0).summary()
    assert float(fresh.cpu_ns) == pytest.approx(200.0)


def test_the_ends_of_thread_ns_are_those_of_the_throughput(make_suite: MakeSuite) -> None:
    fresh, _ = make_suite(TWO, spread=0.01).summary()
    assert fresh.throughput.low < fresh.throughput.mean < fresh.throughput.high
    assert fresh.thread_ns.low == pytest.approx(2e9 / fresh.throughput.high)
    assert fresh.thread_ns.high == pytest.approx(2e9 / fresh.throughput.low)


def test_an_interval_narrows_with_its_level(make_suite: MakeSuite) -> None:
    suite = make_suite(TWO, spread=0.01)
    wide, narrow = suite.summary()[0], suite.summary(level=0.9)[0]
    assert narrow.throughput.half_width < wide.throughput.half_width
    assert narrow.throughput.level == 0.9


@pytest.mark.parametrize("blocks", [1, 2])
def test_fewer_than_three_replicates_have_no_interval(make_suite: MakeSuite, blocks: int) -> None:
    suite = make_suite(TWO, blocks=blocks)
    (m, _), (c,) = suite.summary(), suite.compare()
    for e in (m.throughput, m.thread_ns, m.cpu_ns, c.ratio):
        assert e.n == blocks
        assert math.isfinite(e.mean)
        assert math.isnan(e.low)
        assert math.isnan(e.high)
    assert c.verdict == "not resolved"


def test_ledgers_add_up_and_peaks_do_not(make_suite: MakeSuite) -> None:
    fresh, _ = make_suite(TWO, blocks=4).summary()
    assert fresh.account == {"operations": 28, "peak_rss": 1003}


def test_more_threads_than_cpus_are_oversubscribed(make_suite: MakeSuite) -> None:
    suite = make_suite({("fresh", n): 1e7 for n in (1, 2, 3)})
    assert [m.oversubscribed for m in suite.summary()] == [False, False, True]


# ---- comparisons --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rate", "spread", "verdict"),
    [
        (1.5e7, 0.001, "wins"),
        (5e6, 0.001, "loses"),
        (1.001e7, 0.001, "equivalent"),
        (1.03e7, 0.03, "not resolved"),
        (1.0e7, 0.03, "not resolved"),
    ],
)
def test_planted_ratios_get_their_verdict(
    make_suite: MakeSuite, rate: float, spread: float, verdict: str
) -> None:
    (c,) = make_suite({("fresh", 1): 1e7, ("locked", 1): rate}, spread=spread).compare()
    assert (c.arm, c.baseline, c.verdict, c.ratio.n) == ("locked", "fresh", verdict, 12)
    assert c.ratio.low <= rate / 1e7 <= c.ratio.high


def test_a_ratio_is_free_of_what_both_arms_share(make_suite: MakeSuite) -> None:
    drift = [1.0, 2.0, 4.0, 3.0, 1.5]
    rates = {("fresh", 1): by_block(1e7, drift), ("locked", 1): by_block(2e7, drift)}
    (c,) = make_suite(rates, blocks=5, spread=0.0).compare()
    assert (c.ratio.low, c.ratio.mean, c.ratio.high) == pytest.approx((2.0, 2.0, 2.0))


def test_the_baseline_can_be_any_arm(make_suite: MakeSuite) -> None:
    (c,) = make_suite(TWO).compare(baseline="locked")
    assert (c.arm, c.baseline, c.verdict) == ("fresh", "locked", "loses")


def test_the_baseline_may_be_written_out(make_suite: MakeSuite) -> None:
    (c,) = make_suite(TWO).compare(baseline="locked(capacity=64)")
    assert c.baseline == "locked"


def test_an_unknown_baseline_is_told_the_choices(make_suite: MakeSuite) -> None:
    with pytest.raises(ValueError, match=r"'lifo'.*choose from fresh, locked$"):
        make_suite(TWO).compare(baseline="lifo")


@pytest.mark.parametrize("options", [{"level": 2.0}, {"level": 0.0}, {"margin": -1.0}])
def test_options_out_of_range_are_refused(make_suite: MakeSuite, options: Any) -> None:
    with pytest.raises(ValueError, match="must"):
        make_suite(TWO).compare(**options)


def test_a_wider_margin_makes_more_equivalent(make_suite: MakeSuite) -> None:
    suite = make_suite({("fresh", 1): 1e7, ("locked", 1): 1.04e7})
    assert [suite.compare(margin=m)[0].verdict for m in (0.02, 0.1)] == ["wins", "equivalent"]


def test_two_modes_block_the_verdict(make_suite: MakeSuite) -> None:
    locked = by_block(1.5e7, [1.0, 1.001, 0.999, 1.002, 0.998, 1.0, 2.0, 2.001, 1.999, 2.002])
    (c,) = make_suite({("fresh", 1): 1e7, ("locked", 1): locked}, blocks=10).compare()
    assert c.verdict == "not resolved"
    assert c.because == "two modes: 6 blocks near 1.5x, 4 near 3x"


def test_two_modes_of_an_arm_are_a_warning(make_suite: MakeSuite) -> None:
    fresh = by_block(1e7, [1.0, 1.001, 0.999, 1.002, 0.998, 1.0, 2.0, 2.001, 1.999, 2.002])
    (m,) = make_suite({("fresh", 1): fresh}, blocks=10, spread=0.0).summary()
    assert m.warnings == ("bimodal: 6 replicates near 1e+07/s, 4 near 2e+07/s",)


def test_threads_can_be_what_is_compared(make_suite: MakeSuite) -> None:
    rates = {("1", 1): 1e7, ("4", 4): 3e7}
    (c,) = make_suite(rates, compare="threads").compare()
    assert (c.arm, c.baseline, c.compare, c.verdict) == ("4", "1", "threads", "wins")
    assert c.oversubscribed
    assert "threads" not in c.at


def test_a_parameter_can_be_what_is_compared(make_suite: MakeSuite) -> None:
    rates = {("pthread", 1): 1e7, ("parking", 1): 2e7}
    (c,) = make_suite(rates, compare="lock", pool="locked").compare()
    assert (c.arm, c.baseline, c.at["pool"]) == ("parking", "pthread", "locked")


# ---- failures -----------------------------------------------------------------------------------


def test_failed_replicates_are_counted_with_their_reason(make_suite: MakeSuite) -> None:
    suite = make_suite({("fresh", 1): 1e7, ("locked", 1): [2e7, None, 2e7, None]}, blocks=4)
    fresh, locked = suite.summary()
    assert [r.block for r in suite.failures] == [1, 3]
    assert (fresh.failures, len(locked.failures), locked.throughput.n) == ((), 2, 2)
    assert locked.warnings[0] == "2 of 4 replicates failed: the worker was killed by SIGSEGV"


def test_only_blocks_that_both_arms_finished_are_paired(make_suite: MakeSuite) -> None:
    # Unpaired, the ratio would be far from 2: the blocks differ tenfold.
    fresh = [1e6, 1e7, None, 1e6, 1e7]
    locked = [2e6, None, 2e6, 2e6, 2e7]
    (c,) = make_suite({("fresh", 1): fresh, ("locked", 1): locked}, blocks=5, spread=0.0).compare()
    assert c.ratio.n == 3
    assert c.ratio.mean == pytest.approx(2.0)


def test_arms_that_share_no_block_are_not_resolved(make_suite: MakeSuite) -> None:
    rates = {("fresh", 1): [1e7, None], ("locked", 1): [None, 1e7]}
    (c,) = make_suite(rates, blocks=2).compare()
    assert (c.verdict, c.because, c.ratio.n) == ("not resolved", "no block of both arms", 0)


def test_a_cell_that_always_failed_has_no_numbers(make_suite: MakeSuite) -> None:
    (m,) = make_suite({("fresh", 1): [None] * 3}, blocks=3).summary()
    assert m.throughput.n == 0
    assert math.isnan(m.throughput.mean)
    assert math.isnan(m.thread_ns.mean)


def test_windows_without_operations_do_not_break_the_tables(make_suite: MakeSuite) -> None:
    suite = make_suite({("fresh", 1): 1e7}, blocks=3)
    records = [replicate_record(r) for found in all_replicates(suite) for r in found]
    for r in records:
        r["windows"] = [[0.0, 0.01, 0, [0], 0.0]]
    idle = Suite.from_contents(Contents(headers=suite.headers, replicates=records))  # type: ignore[arg-type]
    assert idle.summary()
    assert idle.rows()


# ---- crossovers ---------------------------------------------------------------------------------


def test_a_crossover_lies_between_the_last_win_and_the_first_loss(crossing: Suite) -> None:
    (c,) = crossing.crossover()
    assert (c.status, c.low, c.high, c.rising) == ("crosses", 2.0, 8.0, False)
    assert 2.0 < c.estimate < 8.0
    assert c.brackets == ((2.0, 8.0, c.estimate),)


def test_the_estimate_is_where_the_chord_meets_one(crossing: Suite) -> None:
    (c,) = crossing.crossover()
    share = math.log(1.5) / (math.log(1.5) - math.log(0.5))
    assert c.estimate == pytest.approx(2.0 * 4.0**share, rel=0.01)


def test_a_crossover_is_a_sentence(crossing: Suite) -> None:
    (c,) = crossing.crossover(pool="locked", baseline="fresh", along="threads")
    assert str(c).startswith("bytes, churn: locked wins up to 2 threads, fresh from 8 threads on")


def test_seen_from_the_other_arm_a_crossover_rises(crossing: Suite) -> None:
    (c,) = crossing.crossover(pool="fresh", baseline="locked")
    assert (c.low, c.high, c.rising) == (2.0, 8.0, True)


LEVELS = (1, 2, 4, 8)


@pytest.mark.parametrize(
    ("ratios", "spread", "status"),
    [
        ((1.5, 1.5, 1.5, 1.5), 0.001, "A always"),
        ((1.5, 1.5, 1.0, 1.0), 0.001, "A or equivalent"),
        ((0.5, 0.5, 0.5, 0.5), 0.001, "B always"),
        ((1.0, 1.0, 1.0, 0.5), 0.001, "B or equivalent"),
        ((1.0, 1.0, 1.0, 1.0), 0.001, "equivalent"),
        ((1.03, 1.03, 1.03, 1.03), 0.05, "not resolved"),
        ((1.5, 0.5, 0.5, 1.5), 0.001, "crosses more than once"),
    ],
)
def test_an_axis_without_one_change_gets_a_word(
    make_suite: MakeSuite, ratios: tuple[float, ...], spread: float, status: str
) -> None:
    rates = {("fresh", n): 1e7 for n in LEVELS}
    rates |= {("locked", n): 1e7 * r for n, r in zip(LEVELS, ratios, strict=True)}
    (c,) = make_suite(rates, spread=spread).crossover()
    assert c.status == status
    assert math.isnan(c.low)
    assert math.isnan(c.estimate)
    assert len(c.brackets) == (2 if status == "crosses more than once" else 0)


def test_an_axis_may_be_a_parameter(make_suite: MakeSuite) -> None:
    suite = make_suite(TWO, workload="bytes", size="64,4KiB")
    (c,) = suite.crossover(along="size")
    assert (c.status, dict(c.at)["threads"]) == ("A always", "2")


def test_every_arm_and_group_gets_its_crossover(make_suite: MakeSuite) -> None:
    rates = {(arm, n): 1e7 for arm in ("fresh", "locked", "thread_local") for n in (1, 2)}
    found = make_suite(rates, workload="bytes,rng").crossover()
    assert [(c.at["workload"], c.arm) for c in found] == [
        ("bytes", "locked"), ("bytes", "thread_local"), ("rng", "locked"), ("rng", "thread_local"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"along": "sise"}, "along=sise: .*choose from threads"),
        ({"along": "workload"}, "along=workload: not a numeric axis; choose from threads"),
        ({"pool": "lifo"}, "'lifo'.*choose from fresh, locked"),
        ({"pool": "fresh"}, "'fresh'"),
        ({"baseline": "lifo"}, "'lifo'.*choose from fresh, locked"),
    ],
)
def test_unknown_names_in_a_crossover_are_told_the_choices(
    crossing: Suite, asked: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        crossing.crossover(**asked)


def test_one_arm_alone_has_no_crossover_to_ask_for(make_suite: MakeSuite) -> None:
    suite = make_suite({("fresh", 1): 1e7, ("fresh", 2): 2e7})
    assert suite.crossover() == []


# ---- selections ---------------------------------------------------------------------------------


def test_a_selection_keeps_the_cells_at_these_values(crossing: Suite) -> None:
    part = crossing.select(threads=[1, 8], pool="locked")
    assert [(m.cell["pool"], m.threads) for m in part.summary()] == [("locked", 1), ("locked", 8)]


def test_a_selection_takes_numbers_and_texts_alike(crossing: Suite) -> None:
    chosen = [crossing.select(threads=t).rows() for t in (2, "2", [2], ("2",), {2})]
    assert all(rows == chosen[0] for rows in chosen)


def test_a_selection_takes_names_written_out(make_suite: MakeSuite) -> None:
    suite = make_suite(TWO, workload="bytes,bytes(size=4KiB)")
    assert len(suite.select(workload="bytes(size=1024)").groups) == 1
    assert len(suite.select(workload="bytes(size=4096)").groups) == 1


def test_a_selection_compares_as_the_whole_does(crossing: Suite) -> None:
    (c,) = crossing.select(threads=1).compare()
    assert c == crossing.compare()[0]


def test_an_empty_selection_of_axes_is_everything(crossing: Suite) -> None:
    assert crossing.select().rows() == crossing.rows()


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ({"thread": 1}, "unknown axis 'thread'; choose from workload, pool, pattern, threads"),
        ({"threads": 3}, "no threads '3' in this suite; choose from 1, 2, 4, 8"),
        ({"pool": "lifo"}, "no pool 'lifo' in this suite; choose from fresh, locked"),
        ({"workload": ["bytes", "rng"]}, "no workload 'rng' in this suite; choose from bytes"),
    ],
)
def test_unknown_names_in_a_selection_are_told_the_choices(
    crossing: Suite, at: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match=f"^{said}$"):
        crossing.select(**at)


# ---- tables -------------------------------------------------------------------------------------


def test_a_row_per_replicate(make_suite: MakeSuite) -> None:
    rows = make_suite(TWO, blocks=3, spread=0.0).rows()
    assert [(r["pool"], r["block"]) for r in rows] == [
        ("fresh", 0), ("fresh", 1), ("fresh", 2), ("locked", 0), ("locked", 1), ("locked", 2),
    ]  # fmt: skip
    assert list(rows[0]) == REPLICATE_COLUMNS
    assert rows[0]["threads"] == 2
    assert rows[0]["thread_ns"] == pytest.approx(200.0)


def test_axes_of_parameters_are_columns(make_suite: MakeSuite) -> None:
    rows = make_suite(TWO, size="64,4KiB").rows()
    assert list(rows[0])[:5] == ["workload", "pool", "pattern", "threads", "size"]
    assert {r["size"] for r in rows} == {64, 4096}


def test_a_row_per_window(make_suite: MakeSuite) -> None:
    rows = make_suite(TWO, blocks=3, rounds=4, spread=0.0).rows(level="window")
    assert len(rows) == 2 * 3 * 4
    assert [r["round"] for r in rows[:4]] == [0, 1, 2, 3]
    assert list(rows[0]) == [
        "workload", "pool", "pattern", "threads", "block", "round", "order", "seconds",
        "throughput", "status", "reason",
    ]  # fmt: skip
    assert rows[0]["throughput"] == pytest.approx(1e7)


def test_a_row_per_cell(make_suite: MakeSuite) -> None:
    rows = make_suite(TWO).rows(level="cell")
    assert [r["pool"] for r in rows] == ["fresh", "locked"]
    assert list(rows[0]) == [
        "workload", "pool", "pattern", "threads", "n",
        "throughput", "throughput_low", "throughput_high",
        "thread_ns", "thread_ns_low", "thread_ns_high", "cpu_ns", "cpu_ns_low", "cpu_ns_high",
        "jmh_error", "share", "share_low", "share_high", "jain", "jain_low", "jain_high",
        "allocations_per_op", "bytes_per_op", "hit_rate", "setup_allocations",
        "setup_bytes", "peak_bytes", "retained_bytes",
        *COLUMNS, "longest_wait_ns",
        "faults_per_op", "switches_per_op", "peak_rss", "oversubscribed", "failed", "warnings",
    ]  # fmt: skip


def test_a_failed_replicate_keeps_its_row(make_suite: MakeSuite) -> None:
    (row,) = make_suite({("fresh", 1): [None]}, blocks=1).rows()
    assert (row["status"], row["reason"]) == ("failed", "the worker was killed by SIGSEGV")
    assert math.isnan(row["throughput"])


def test_an_unknown_level_is_told_the_choices(crossing: Suite) -> None:
    with pytest.raises(ValueError, match="level=round: choose from replicate, cell, window"):
        crossing.rows(level="round")  # type: ignore[arg-type]


@pytest.mark.parametrize("level", ["replicate", "cell", "window"])
def test_a_data_frame_has_the_same_rows(crossing: Suite, level: Any) -> None:
    frame = crossing.to_pandas(level=level)
    rows = crossing.rows(level=level)
    assert list(frame.columns) == list(rows[0])
    assert repr(frame.to_dict("records")) == repr(rows)  # nan is not equal to itself


def test_without_pandas_the_error_says_how_to_get_it(
    crossing: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        crossing.to_pandas()


@pytest.mark.parametrize("level", ["replicate", "cell", "window"])
def test_a_csv_file_has_the_same_rows(crossing: Suite, tmp_path: Path, level: Any) -> None:
    crossing.to_csv(tmp_path / "out.csv", level=level)
    with (tmp_path / "out.csv").open(newline="") as file:
        found = list(csv.DictReader(file))
    assert found == [{k: str(v) for k, v in r.items()} for r in crossing.rows(level=level)]


def test_a_csv_file_of_nothing_is_a_header(tmp_path: Path) -> None:
    Suite({}, [], []).to_csv(tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text().strip() == "workload,pool,pattern,threads"


def test_a_comparison_is_a_row(make_suite: MakeSuite) -> None:
    (row,) = make_suite(TWO).compare().rows()
    assert (row["pool"], row["baseline"], row["verdict"], row["threads"]) == (
        "locked", "fresh", "wins", 2,
    )  # fmt: skip


def test_a_crossover_is_a_row_with_its_sentence(crossing: Suite) -> None:
    (row,) = crossing.crossover().rows()
    assert (row["status"], row["low"], row["high"]) == ("crosses", 2.0, 8.0)
    assert row["sentence"] == str(crossing.crossover()[0])


def test_listings_show_themselves_as_tables(crossing: Suite) -> None:
    assert repr(crossing.compare()).splitlines()[0].split()[-1] == "verdict"
    assert "throughput [M operations/s]" in repr(crossing.summary())
    assert "locked wins up to 2 threads" in repr(crossing.crossover())


def test_a_notebook_shows_a_table_with_verdicts(crossing: Suite) -> None:
    shown = crossing.compare()._repr_html_()
    assert shown.startswith("<table>")
    assert shown.count("<tr>") == 5
    assert "<td>wins</td>" in shown
    assert "<td>loses</td>" in shown


def test_a_notebook_shows_a_suite_as_its_cells(crossing: Suite) -> None:
    assert crossing._repr_html_() == crossing.summary()._repr_html_()


def test_what_a_notebook_shows_is_escaped(make_suite: MakeSuite) -> None:
    suite = make_suite({("fresh", 1): [None]}, blocks=1)
    record = replicate_record(suite.failures[0]) | {"reason": "<script>&"}
    suite = Suite.from_contents(Contents(headers=suite.headers, replicates=[record]))  # type: ignore[arg-type]
    shown = suite._repr_html_()
    assert "&lt;script&gt;&amp;" in shown
    assert "<script>" not in shown


def test_a_suite_is_one_line(crossing: Suite) -> None:
    assert repr(crossing) == "<Suite: 4 groups, 8 cells, 96 replicates, 0 failed>"


def test_nothing_is_no_error() -> None:
    empty = Suite({}, [], [])
    assert (empty.rows(), list(empty.summary()), list(empty.compare())) == ([], [], [])
    assert repr(empty.compare()) == "(nothing)"
    assert "nothing" in empty._repr_html_()


# ---- files --------------------------------------------------------------------------------------


def test_a_saved_suite_loads_as_it_was(make_suite: MakeSuite, tmp_path: Path) -> None:
    rates = {("fresh", 1): [1e7, None, 1e7], ("locked", 1): 2e7}
    suite = make_suite(rates, blocks=3, workload="bytes,rng")
    suite.save(tmp_path / "run.jsonl")
    found = load(tmp_path / "run.jsonl")
    assert found.groups == suite.groups
    assert all_replicates(found) == all_replicates(suite)
    assert found.environment == suite.environment
    assert repr(found.compare()) == repr(suite.compare())
    assert [n["load_after"] for n in found.notes] == [0.5]


def test_saving_twice_gives_the_same_file(make_suite: MakeSuite, tmp_path: Path) -> None:
    one, other = tmp_path / "one.jsonl", tmp_path / "other.jsonl"
    make_suite(TWO).save(one)
    load(one).save(other)
    assert one.read_bytes() == other.read_bytes()


def test_saving_replaces_what_was_there(make_suite: MakeSuite, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    for blocks in (5, 3):
        make_suite(TWO, blocks=blocks).save(path)
    assert len(load(path).rows()) == 6


def test_a_saved_selection_loads_as_it_was(crossing: Suite, tmp_path: Path) -> None:
    part = crossing.select(threads=[1, 2])
    part.save(tmp_path / "run.jsonl")
    assert load(tmp_path / "run.jsonl").groups == part.groups


def test_malformed_records_are_left_out(crossing: Suite) -> None:
    (good, *_), *_ = all_replicates(crossing)
    record = replicate_record(good)
    bad: list[dict[str, Any]] = [
        {},
        {**record, "windows": None},
        {**record, "windows": [[1, 2]]},
        {**record, "windows": [[0.0, 0.0, 0, [1], 0.0]]},
        {**record, "windows": [[0.0, "x", 0, [1], 0.0]]},
        {**record, "block": []},
        {**record, "block": float("inf")},
        {**record, "account": []},
        {**record, "arm": "nobody"},
        {**record, "group": "nowhere"},
    ]
    contents = Contents(headers=crossing.headers, replicates=[*bad, record])  # type: ignore[arg-type]
    assert sum(map(len, all_replicates(Suite.from_contents(contents)))) == 1


@pytest.mark.parametrize(
    "plan", [None, [], {}, {"groups": 3}, {"groups": [1, {}, {"key": "k", "at": 1}]}], ids=str
)
def test_a_malformed_header_has_no_groups(plan: object) -> None:
    assert list(groups_of({"plan": plan})) == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


@settings(max_examples=50, deadline=None)
@given(
    field=st.sampled_from(["block", "windows", "status", "reason", "account", "key", "arm"]),
    value=JSON,
)
def test_no_field_of_a_replicate_can_break_the_loading(field: str, value: object) -> None:
    record = {"group": "g", "block": 0, "arm": "a", "windows": [], "status": "ok", field: value}
    found = replicate_of(record)
    assert found is None or isinstance(found, Replicate)


def test_a_file_that_is_not_ours_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run.jsonl").write_bytes(encode([{"kind": "note"}]))
    with pytest.raises(ValueError, match="not a poolbench results file"):
        load(tmp_path / "run.jsonl")
