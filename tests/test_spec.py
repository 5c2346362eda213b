"""The grammar, its mistakes, and what a plan depends on."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolbench.plan import PRESETS, Plan, as_list, make_plan
from poolbench.spec import (
    KINDS,
    Kind,
    Param,
    Spec,
    parse_spec,
    patterns,
    pools,
    registry,
    split_list,
    workloads,
)


def values_of(param: Param) -> st.SearchStrategy[int | str]:
    if param.kind == "choice":
        return st.sampled_from(param.choices)
    if param.kind == "text":
        return st.text(alphabet="ab./_-=", min_size=1)
    return st.integers(param.low, param.high)


@st.composite
def specs(draw: st.DrawFn) -> Spec:
    kind: Kind = draw(st.sampled_from(KINDS))
    entry = draw(st.sampled_from(list(registry()[kind].values())))
    params = {p.name: draw(values_of(p) | st.just(p.default)) for p in entry.params}
    return Spec(kind, entry.name, tuple(sorted(params.items())))


def plan(**given: Any) -> Plan:
    return make_plan(**{"pool": "fresh,locked", "workload": "bytes", "cpus": [0, 1], **given})


# ---- the grammar --------------------------------------------------------------------------------


@given(specs())
def test_parsing_the_text_of_a_spec_gives_it_back(spec: Spec) -> None:
    assert parse_spec(spec.kind, str(spec)) == spec


@given(specs())
def test_parsing_the_canonical_text_gives_the_spec_back(spec: Spec) -> None:
    assert parse_spec(spec.kind, spec.canonical) == spec


@given(specs(), st.randoms())
def test_key_order_and_spaces_do_not_matter(spec: Spec, rng: Any) -> None:
    pairs = [f" {k} = {v} " for k, v in spec.params if v != ""]
    rng.shuffle(pairs)
    text = f" {spec.name} ({','.join(pairs)}) " if pairs else f" {spec.name} "
    assert parse_spec(spec.kind, text).canonical == spec.canonical


@given(st.lists(specs(), min_size=1, max_size=4))
def test_a_list_of_specs_splits_into_its_specs(found: list[Spec]) -> None:
    assert split_list(",".join(map(str, found))) == [str(s) for s in found]


@given(st.text(alphabet="abfreshlocked(),=0123456789 .-+KMiBns\n\x00é", max_size=30))
def test_any_text_is_a_spec_or_a_value_error(text: str) -> None:
    for kind in KINDS:
        with contextlib.suppress(ValueError):
            assert parse_spec(kind, text).kind == kind


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("workload", "bytes(size=1KiB)", "bytes(size=1024)"),
        ("workload", "bytes(size=1024B)", "bytes"),
        ("workload", "bytes(size=1.5KiB)", "bytes(size=1536)"),
        ("workload", "bytes(size=2MiB)", "bytes(size=2048KiB)"),
        ("workload", "direct(quota=1GiB)", "direct"),
        ("workload", "bytes(size=+64)", "bytes(size=64)"),
        ("pattern", "churn(think_ns=2us)", "churn(think_ns=2000)"),
        ("pattern", "churn(think_ns=1.5ms)", "churn(think_ns=1500us)"),
        ("pattern", "churn(hold_ns=1s)", "churn(hold_ns=1000000000ns)"),
        ("pool", "locked()", "locked"),
        ("pool", "locked(capacity=64)", "locked(lock=pthread)"),
    ],
)
def test_equal_specs_have_equal_texts(kind: Kind, one: str, other: str) -> None:
    a, b = parse_spec(kind, one), parse_spec(kind, other)
    assert (a, str(a), a.canonical) == (b, str(b), b.canonical)


def test_the_text_leaves_defaults_out_and_uses_the_largest_unit() -> None:
    assert str(parse_spec("workload", "bytes(zero=memset,size=4096)")) == "bytes(size=4KiB)"


def test_the_canonical_text_names_every_parameter() -> None:
    locked = parse_spec("pool", "locked")
    shown = [f"{p.name}={p.default}" for p in sorted(locked.entry.params, key=lambda p: p.name)]
    assert locked.canonical == f"locked({','.join(shown)})"


def test_commas_inside_parentheses_do_not_split() -> None:
    assert split_list("a(b=c(d,e),f=g),h") == ["a(b=c(d,e),f=g)", "h"]


def test_values_may_be_one_a_list_or_a_text() -> None:
    assert as_list(4) == as_list("4") == as_list([4]) == ["4"]
    assert as_list(["1,2", 3]) == as_list((1, 2, 3)) == as_list(range(1, 4)) == ["1", "2", "3"]


# ---- mistakes -----------------------------------------------------------------------------------

POOLS = f"choose from {', '.join(pools())}"
WORKLOADS = f"choose from {', '.join(workloads())}"
PATTERNS = f"choose from {', '.join(patterns())}"
MISTAKES: list[tuple[dict[str, Any], list[str]]] = [
    # unknown names
    ({"pool": "lockd"}, ["'lockd'", "did you mean 'locked'?", POOLS]),
    ({"pool": "fresh,xyzzy"}, ["'xyzzy'", POOLS]),
    ({"workload": "byte"}, ["'byte'", "did you mean 'bytes'?", WORKLOADS]),
    ({"pattern": "chrun"}, ["'chrun'", "did you mean 'churn'?", PATTERNS]),
    # malformed
    ({"pool": "locked("}, ["locked("]),
    ({"pool": "locked)"}, ["locked)"]),
    ({"pool": "locked(lock=parking"}, ["locked(lock=parking"]),
    ({"pool": ["locked(lock=parking)x"]}, ["locked(lock=parking)x", "name(key=value,...)"]),
    ({"pool": "locked(lock)"}, ["'lock'", "write key=value"]),
    ({"pool": "locked(=parking)"}, ["=parking", "write key=value"]),
    ({"pool": "locked(lock=)"}, ["lock=", "write key=value"]),
    ({"pool": "locked(lock=parking,)"}, ["locked(lock=parking,)", "write key=value"]),
    ({"pool": "9lives"}, ["'9lives'", "name(key=value,...)"]),
    ({"pool": ""}, ["''", "name(key=value,...)"]),
    ({"pool": "fresh,,locked"}, ["''", "name(key=value,...)"]),
    ({"pool": [3]}, ["'3'"]),
    # parameters
    ({"pool": "locked(size=4)"}, ["'size'", "choose from capacity, lock, "]),
    ({"pool": "fresh(size=4)"}, ["'size'", "it has no parameters"]),
    ({"pool": "locked(capacity=4,capacity=4)"}, ["'capacity'", "twice"]),
    ({"pool": "locked(capacity=0)"}, ["capacity=0", "1 ... 1048576"]),
    ({"pool": "locked(capacity=9999999)"}, ["capacity=9999999", "1 ... 1048576"]),
    ({"pool": "locked(capacity=-1)"}, ["capacity=-1", "1 ... 1048576"]),
    ({"pool": "locked(capacity=4KiB)"}, ["capacity=4KiB", "not a whole number"]),
    ({"pool": "locked(capacity=1.5)"}, ["capacity=1.5", "not a whole number"]),
    ({"pool": "locked(capacity=many)"}, ["capacity=many", "not a whole number"]),
    ({"pool": "locked(capacity=1e3)"}, ["capacity=1e3", "not a whole number"]),
    ({"workload": "bytes(size=15)"}, ["size=15", "16 ... 1GiB"]),
    ({"workload": "bytes(size=2GiB)"}, ["size=2GiB", "16 ... 1GiB"]),
    ({"workload": "bytes(size=4kb)"}, ["size=4kb", "B|KiB|MiB|GiB"]),
    ({"workload": "bytes(size=16.0001KiB)"}, ["size=16.0001KiB", "not a whole number"]),
    ({"pattern": "churn(think_ns=1KiB)"}, ["think_ns=1KiB", "ns|us|ms|s"]),
    ({"pattern": "churn(think_ns=11s)"}, ["think_ns=11s", "0 ... 10s"]),
    ({"pool": "locked(lock=mutex)"}, ["lock=mutex", "choose from pthread, "]),
    ({"pool": "locked(lock=1)"}, ["lock=1", "choose from pthread, "]),
    # threads
    ({"threads": 0}, ["threads=0", "from 1 to 1024"]),
    ({"threads": -1}, ["threads=-1", "from 1 to 1024"]),
    ({"threads": 10**6}, ["threads=1000000", "from 1 to 1024"]),
    ({"threads": "x"}, ["threads=x", "from 1 to 1024"]),
    ({"threads": 1.5}, ["threads=1.5", "from 1 to 1024"]),
    ({"threads": [1, True]}, ["threads=True", "from 1 to 1024"]),
    ({"threads": "1,,2"}, ["threads=", "from 1 to 1024"]),
    # axes
    ({"pool": []}, ["pool is empty"]),
    ({"workload": []}, ["workload is empty"]),
    ({"threads": []}, ["threads is empty"]),
    ({"params": {"size": []}}, ["size is empty"]),
    ({"pool": "locked,locked(capacity=64)"}, ["pool", "'locked'", "twice"]),
    ({"workload": "bytes,bytes(size=1KiB)"}, ["workload", "'bytes'", "twice"]),
    ({"threads": "1,2,01"}, ["threads", "'1'", "twice"]),
    ({"params": {"size": "1KiB,1024"}}, ["size", "'1024'", "twice"]),
    ({"params": {"siz": 64}}, ["'siz'", "did you mean 'size'?", "choose from"]),
    ({"params": {"quota": 64}}, ["'quota'", "choose from"]),
    ({"params": {"pool": "fresh"}}, ["'pool'", "choose from"]),
    ({"params": {"size": 1}}, ["size=1", "16 ... 1GiB"]),
    ({"params": {"lock": "mutex"}}, ["lock=mutex", "choose from pthread, "]),
    ({"compare": "pol"}, ["compare=pol", "did you mean 'pool'?", "choose from"]),
    ({"compare": "capacity"}, ["compare=capacity", "choose from workload, pool, pattern, threads"]),
    # the rest
    ({"preset": "fast"}, ["'fast'", "choose from quick, standard, full"]),
    ({"preset": "quik"}, ["'quik'", "did you mean 'quick'?"]),
    ({"affinity": "pinned"}, ["affinity=pinned", "choose from spread, none"]),
    ({"blocks": 0}, ["blocks=0", "from 1 to 10000"]),
    ({"blocks": 10_001}, ["blocks=10001", "from 1 to 10000"]),
    ({"blocks": True}, ["blocks=True", "from 1 to 10000"]),
    ({"blocks": 2.0}, ["blocks=2.0", "from 1 to 10000"]),
    ({"rounds": -3}, ["rounds=-3", "from 1 to 10000"]),
    ({"rounds": "6"}, ["rounds=6", "from 1 to 10000"]),
    ({"seed": -1}, ["seed=-1", "from 0 to 9223372036854775807"]),
    ({"seed": 2**63}, [f"seed={2**63}", "from 0 to 9223372036854775807"]),
    ({"seed": "x"}, ["seed=x", "from 0 to 9223372036854775807"]),
]


@pytest.mark.parametrize(("given", "said"), MISTAKES, ids=lambda x: str(x)[:60])
def test_a_mistake_is_one_line_with_the_value_and_the_choices(
    given: dict[str, Any], said: list[str]
) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the text is checked below
        plan(**given)
    message = str(raised.value)
    assert "\n" not in message
    assert [s for s in said if s not in message] == [], message


def test_a_line_break_in_a_name_does_not_break_the_message() -> None:
    with pytest.raises(ValueError, match="is not a pool") as raised:
        plan(pool=["fre\nsh"])
    assert "\n" not in str(raised.value)


def test_an_endless_number_is_named_in_its_message() -> None:
    with pytest.raises(ValueError, match="capacity=") as raised:
        plan(pool="locked(capacity=" + "9" * 5000 + ")")
    assert "\n" not in str(raised.value)


def test_an_endless_thread_count_is_refused_like_any_other() -> None:
    with pytest.raises(ValueError, match="from 1 to 1024"):
        plan(threads="9" * 5000)


# ---- plans --------------------------------------------------------------------------------------


def test_axes_keep_their_order_and_parameters_come_last() -> None:
    p = plan(params={"size": "1KiB,4KiB", "capacity": 8}, threads=[4, 1])
    assert [name for name, _ in p.axes] == [
        "workload", "pool", "pattern", "threads", "size", "capacity",
    ]  # fmt: skip
    assert dict(p.axes)["threads"] == ("4", "1")
    assert dict(p.axes)["size"] == ("1024", "4096")


def test_groups_are_every_combination_of_the_other_axes() -> None:
    p = plan(workload="bytes,rng", threads=[1, 2])
    coordinates = [(dict(g.at)["workload"], dict(g.at)["threads"]) for g in p.groups]
    assert coordinates == [("bytes", "1"), ("bytes", "2"), ("rng", "1"), ("rng", "2")]
    assert all([a.label for a in g.arms] == ["fresh", "locked"] for g in p.groups)


def test_any_axis_can_be_the_compared_one() -> None:
    p = plan(threads=[1, 2], compare="threads")
    assert [[a.label for a in g.arms] for g in p.groups] == [["1", "2"], ["1", "2"]]
    assert [[a.cell.threads for a in g.arms] for g in p.groups] == [[1, 2], [1, 2]]
    assert "threads" not in dict(p.groups[0].at)


def test_a_parameter_axis_applies_to_whichever_spec_has_it() -> None:
    p = plan(workload="bytes,rng", params={"size": "2KiB"})
    texts = [str(a.cell.workload) for g in p.groups for a in g.arms]
    assert texts == ["bytes(size=2KiB)"] * 2 + ["rng"] * 2


def test_a_pool_parameter_can_be_the_compared_axis() -> None:
    p = plan(pool="locked", params={"lock": "pthread,parking"}, compare="lock")
    (group,) = p.groups
    assert [(a.label, str(a.cell.pool)) for a in group.arms] == [
        ("pthread", "locked"),
        ("parking", "locked(lock=parking)"),
    ]


def test_a_parameter_given_twice_over_is_refused() -> None:
    with pytest.raises(ValueError, match="capacity"):
        plan(pool="locked(capacity=4)", params={"capacity": [8, 16]})


def test_group_keys_do_not_depend_on_how_much_is_measured() -> None:
    keys = [g.key for g in plan(threads=[1, 2]).groups]
    other = plan(threads=[1, 2], preset="full", blocks=3, rounds=2, seed=9, cpus=[5])
    assert [g.key for g in other.groups] == keys
    assert len(set(keys)) == len(keys)


def test_group_keys_do_not_depend_on_the_other_groups() -> None:
    (alone,) = plan(threads=2).groups
    assert alone.key == plan(threads=[1, 2]).groups[1].key


def test_group_keys_tell_placements_apart() -> None:
    assert plan().groups[0].key != plan(affinity="none").groups[0].key


def test_block_seeds_depend_on_seed_group_and_block_alone() -> None:
    p, q = plan(threads=[1, 2]), plan(threads=2, blocks=99, rounds=1)
    assert p.block_seed(p.groups[1], 3) == q.block_seed(q.groups[0], 3)
    seeds = {p.block_seed(g, b) for g in p.groups for b in range(5)}
    seeds |= {plan(seed=2).block_seed(p.groups[0], b) for b in range(5)}
    assert len(seeds) == 15
    assert all(0 <= s < 2**64 for s in seeds)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_gives_blocks_and_rounds(name: str) -> None:
    p = plan(preset=name)
    assert (p.blocks, p.rounds) == (PRESETS[name].blocks, PRESETS[name].rounds)


def test_blocks_and_rounds_replace_those_of_the_preset() -> None:
    p = plan(preset="full", blocks=3, rounds=2)
    assert (p.blocks, p.rounds, p.replicates) == (3, 2, 6)


@pytest.mark.parametrize(
    "more",
    [
        {"blocks": 6},
        {"rounds": 3},
        {"threads": [1, 2]},
        {"threads": 8},
        {"workload": "bytes,rng"},
        {"pool": "fresh,locked,thread_local"},
        {"params": {"size": "1KiB,2KiB"}},
    ],
    ids=str,
)
def test_the_predicted_time_grows_with_the_work(more: dict[str, Any]) -> None:
    small = {"blocks": 5, "rounds": 2, "threads": 1}
    assert plan(**{**small, **more}).seconds > plan(**small).seconds


def test_the_predicted_time_grows_with_threads_only_beyond_the_cpus() -> None:
    assert plan(threads=1).seconds == plan(threads=2).seconds < plan(threads=4).seconds


def test_windows_stretch_by_threads_per_cpu() -> None:
    p = plan(threads=[1, 2, 8])
    assert [p.stretch(g.arms[0].cell) for g in p.groups] == [1.0, 1.0, 4.0]


def test_every_list_line_says_what_it_is() -> None:
    for kind in KINDS:
        for entry in registry()[kind].values():
            assert entry.summary
            assert all(p.summary and p.parse(p.show(p.default)) == p.default for p in entry.params)
