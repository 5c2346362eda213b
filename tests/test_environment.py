"""What is recorded of a machine, what must match, and what is warned of."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from poolbench import _core, environment

QUIET = {"optimized": True, "cpus": 2, "load": 0.1, "aslr": "2", "governor": "performance"}


@pytest.mark.parametrize("name", [n for n in environment.MUST_MATCH if n != "sanitizer"])
def test_a_capture_has_what_must_match(name: str) -> None:
    assert environment.capture()[name] not in (None, "")


def test_a_plain_build_has_no_sanitizer() -> None:
    assert environment.capture().get("sanitizer", "") == _core.build_info()["sanitizer"]


def test_a_capture_is_plain_data() -> None:
    found = environment.capture()
    assert json.loads(json.dumps(found)) == found


def test_a_capture_counts_the_cpus_of_this_process() -> None:
    found = environment.capture()
    assert found["cpus"] == len(found["cpu_list"]) == len(os.sched_getaffinity(0))


def test_what_the_machine_hides_is_left_out() -> None:
    assert not [k for k, v in environment.capture().items() if v in (None, "")]


def test_the_code_is_identified_by_the_core_that_is_loaded() -> None:
    assert environment.code_hash() == environment.capture()["code"]
    assert len(environment.code_hash()) == 16


def test_equal_environments_do_not_differ() -> None:
    assert environment.differences(environment.capture(), environment.capture()) == []


@pytest.mark.parametrize("name", environment.MUST_MATCH)
def test_a_difference_names_the_field_and_both_values(name: str) -> None:
    here = environment.capture()
    assert environment.differences(here, {**here, name: "other"}) == [
        f"{name}: {here.get(name)} against other"
    ]


def test_a_missing_field_is_a_difference() -> None:
    assert environment.differences({"code": "a"}, {}) == ["code: a against None"]


@pytest.mark.parametrize("name", ["load", "time", "python", "governor", "cpu_quota"])
def test_other_fields_may_differ(name: str) -> None:
    here = environment.capture()
    assert environment.differences(here, {**here, name: "other"}) == []


def test_a_quiet_machine_is_not_warned_of() -> None:
    assert environment.warnings(QUIET) == []


def test_an_unknown_machine_is_not_warned_of() -> None:
    assert environment.warnings({}) == []


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"optimized": False}, "without optimisation: rebuild"),
        ({"sanitizer": "address"}, "instrumented (address): rebuild"),
        ({"load": 1.5}, "load average 1.5 on 2 CPUs: close"),
        ({"governor": "powersave"}, "governor powersave: set it to performance"),
        ({"aslr": "0"}, "address randomisation is off"),
        ({"cpu_quota": "150000 100000"}, "CPU quota 150000 100000"),
    ],
    ids=str,
)
def test_what_spoils_numbers_is_warned_of(found: dict[str, Any], said: str) -> None:
    (warning,) = environment.warnings({**QUIET, **found})
    assert said in warning


def test_an_unlimited_quota_is_none() -> None:
    assert environment.warnings({**QUIET, "cpu_quota": "max 100000"}) == []
