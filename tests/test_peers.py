"""tests/bench/peers.py: its table, what it makes of failures, and one small run of all there is.

No time is judged. The run leaves out the peer whose crates would have to be fetched.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
DRIVER = ROOT / "tests" / "bench" / "peers.py"
THREADS = 2


@pytest.fixture(scope="module")
def peers() -> Iterator[ModuleType]:
    """The driver as a module."""
    spec = importlib.util.spec_from_file_location("peers_driver", DRIVER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, spec.name, module)  # dataclasses look themselves up
        spec.loader.exec_module(module)
        yield module


def drive(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(DRIVER), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--kinds", "ck-stak"], "unknown kind 'ck-stak'; did you mean 'ck-stack'? choose from"),
        (["--threads", "1,0"], "threads=0: a whole number from 1 to 1024"),
        (["--processes", "many"], "processes=many: a whole number from 1 to 1000"),
        (["--capacity", "70000"], "capacity=70000: a whole number from 1 to 65535"),
        (["--smal"], "unrecognized arguments: --smal"),
    ],
)
def test_bad_input_is_one_line(arguments: Sequence[str], said: str) -> None:
    done = drive(*arguments)
    assert done.returncode == 3
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_every_kind_is_listed_with_what_brings_it(peers: ModuleType) -> None:
    done = drive("--list")
    assert done.returncode == 0
    offered = {kind: p.package for p in peers.PROGRAMS for kind in p.kinds}
    assert {kind for f in peers.FAMILIES for kind in f.peers} == set(offered)
    for kind, package in offered.items():
        assert [line for line in done.stdout.splitlines() if kind in line and package in line]


def planted(peers: ModuleType, rates: Mapping[str, Sequence[float]]) -> Any:
    """Results of exactly these rates, in operations/s, round by round."""
    measured = [
        peers.Measured(
            name=name,
            threads=THREADS,
            round=turn,
            seconds=1.0,
            operations=(int(rate / 4), int(3 * rate / 4)),
            total=int(rate),
        )
        for name, found in rates.items()
        for turn, rate in enumerate(found)
    ]
    return peers.Results(measured)


def test_ratios_are_to_the_best_peer_round_by_round(peers: ModuleType) -> None:
    rates = {"a": (4e6, 8e6, 6e6), "b": (9e6, 1e6, 1e6), "ours": (8e6, 8e6, 18e6)}
    results = planted(peers, rates)
    family = peers.Family(name="family", peers=("a", "b"), ours=("ours", "lost"))
    settings = peers.Settings(threads=(THREADS,), processes=3, milliseconds=1, capacity=64, seed=1)
    lines = peers.family_table(family, results, settings).splitlines()
    assert "a        6.00 [4.00-8.00] 0.33" in lines
    assert "lost     failed" in lines
    (ratio,) = [line for line in lines if line.endswith(" a")]
    assert ratio.split() == ["ours", "2.00x", "[1.00-3.00]", "a"]
    assert lines[-1].split() == ["lost", "-"]


def test_windows_without_an_operation_have_no_ratio(peers: ModuleType) -> None:
    results = planted(peers, {"a": (0.0, 4e6, 4e6), "ours": (8e6, 8e6, 8e6)})
    assert results.ratios("ours", "a", THREADS) == [2.0, 2.0]


def test_a_peer_that_loses_objects_or_crashes_has_failed(peers: ModuleType) -> None:
    settings = peers.Settings(threads=(THREADS,), processes=1, milliseconds=1, capacity=64, seed=1)
    line = '{"seconds": 1, "operations": [1], "total": 1, "constructed": %d, "destroyed": 1, '
    told = {n: line % n + '"idle": 1}' for n in (2, 3)}
    programs = {n: [sys.executable, "-c", f"print({text!r})"] for n, text in told.items()}
    programs[0] = [sys.executable, "-c", "raise SystemExit('no memory')"]
    runners = {n: peers.peer_runner("mine", command, settings) for n, command in programs.items()}
    reasons = {n: peers.attempt("mine", run, THREADS, 0).reason for n, run in runners.items()}
    assert reasons[2] == ""
    assert reasons[3] == "objects not conserved: 3 constructed, 2 accounted for"
    assert reasons[0] == "ArmFailed: exit code 1: no memory"


@pytest.mark.workers
@pytest.mark.timeout(900)  # most of it for compilers, the first time
def test_a_small_run_measures_all_that_is_installed(peers: ModuleType, tmp_path: Path) -> None:
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    kinds = [k for f in peers.FAMILIES for k in (*f.peers, *f.ours) if k != "crossbeam-queue"]
    raw = tmp_path / "raw.json"
    small = ["--small", "--processes", "1", "--threads", str(THREADS)]
    done = drive(*small, "--kinds", ",".join(kinds), "--json", str(raw))
    assert done.returncode == 0, done.stdout + done.stderr
    record = json.loads(raw.read_text())
    measured = {m["name"]: m for m in record["measured"]}
    missing = [k for k in kinds if any(k in line for line in record["missing"])]
    assert {"std-mutex", "locked(lock=pthread)", "slab"} <= measured.keys()
    for program in peers.PROGRAMS:
        for kind in program.kinds:
            assert kind in measured or kind in missing or kind == "crossbeam-queue"
    lines = done.stdout.splitlines()
    for name, m in measured.items():
        assert len(m["operations"]) == THREADS
        if m["idle"] is not None:
            assert m["constructed"] == m["destroyed"] + m["idle"], name
        assert [line for line in lines if line.startswith(f"{name} ") and "[" in line], name
