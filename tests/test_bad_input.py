"""Wrong input: one line that names the value and the choices, exit code 3, and nothing left behind.

One table for the command line, one for Python; each entry says what must stand in the line.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import poolbench as pb
from poolbench import environment
from poolbench.cli import main
from poolbench.plan import make_plan
from poolbench.suite import Suite

MakeSuite = Callable[..., Suite]
WriteResults = Callable[..., None]
Captured = pytest.CaptureFixture[str]
TINY = "sweep --pool fresh,locked --workload bytes --threads 1 --blocks 3 --rounds 2"
SMALL: dict[str, Any] = {
    "pool": ["fresh", "locked"],
    "workload": "bytes",
    "threads": 1,
    "blocks": 3,
    "rounds": 2,
}
POOLS = f"choose from {', '.join(pb.pools())}"
WORKLOADS = f"choose from {', '.join(pb.workloads())}"
PATTERNS = f"choose from {', '.join(pb.patterns())}"
NINES = "9" * 5000
OTHER_FILES = ["empty.jsonl", "blank.jsonl", "prose.txt", "binary.jsonl", "other.json", "list.json"]


def run(*argv: str) -> int:
    """The exit code, wherever it comes from."""
    try:
        return main(argv)
    except SystemExit as e:
        return int(e.code or 0)


@pytest.fixture(scope="module")
def folder(
    tmp_path_factory: pytest.TempPathFactory, make_suite: MakeSuite, write_results: WriteResults
) -> Path:
    """Results files of several kinds, and files that are none."""
    at = tmp_path_factory.mktemp("input")
    fresh = {("fresh", n): 1e7 for n in (1, 2, 4)}
    make_suite(fresh | {("locked", n): 2e7 / n for n in (1, 2, 4)}).save(at / "run.jsonl")
    make_suite(fresh).save(at / "one.jsonl")
    (at / "file").write_text("a file, not a folder\n")
    (at / "empty.jsonl").touch()
    (at / "blank.jsonl").write_text("\n\n")
    (at / "prose.txt").write_text("once upon a time\n")
    (at / "binary.jsonl").write_bytes(bytes(range(256)) * 9)
    (at / "other.json").write_text('{"benchmarks": [1, 2], "version": "1.0"}\n')
    (at / "list.json").write_text("[1, 2]\n")
    (at / "future.jsonl").write_text('{"format": 99, "kind": "header"}\n')
    (at / "headless.jsonl").write_text('{"format": 1, "kind": "note"}\n')
    (at / "hollow.jsonl").write_text('{"format": 1, "kind": "header", "plan": []}\n')
    plan = make_plan(**SMALL, cpus=environment.capture()["cpu_list"])
    for name, options in {
        "complete": {},
        "begun": {"done": 1},
        "elsewhere": {"done": 1, "cpu_model": "abacus"},
        "older": {"done": 1, "code": "0123456789abcdef"},
    }.items():
        (at / name).mkdir()
        write_results(at / name / "results.jsonl", plan, **options)
    (at / "foreign").mkdir()
    (at / "foreign" / "results.jsonl").write_text("precious\n")
    (at / "future").mkdir()
    (at / "future" / "results.jsonl").write_text('{"format": 99, "kind": "header"}\n')
    (at / "hollow").mkdir()
    (at / "hollow" / "results.jsonl").write_bytes((at / "hollow.jsonl").read_bytes())
    (at / "folder" / "results.jsonl").mkdir(parents=True)
    return at


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path): path.read_bytes() for path in files}


@pytest.fixture(autouse=True)
def no_workers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here everything is refused before the first worker starts."""

    def start(*_: object, **__: object) -> None:
        pytest.fail("a worker was started")

    monkeypatch.chdir(folder)
    monkeypatch.setattr("poolbench.block.LiveArm", start)


# ---- the command line ----------------------------------------------------------------------------

# What is typed after "poolbench", and what the line must say.
COMMANDS: list[tuple[str, list[str]]] = [
    # commands and options
    ("", ["arguments are required: COMMAND"]),
    ("frobnicate", ["'frobnicate'", "'sweep', 'compare', 'crossover', 'plot', 'list', 'env'"]),
    ("sweep --frobnicate", ["--frobnicate"]),
    ("sweep extra", ["extra"]),
    ("sweep --out", ["--out", "expected one argument"]),
    ("sweep --quiet=yes", ["--quiet", "'yes'"]),
    ("sweep --resume --overwrite", ["--overwrite: not allowed with argument --resume"]),
    ("sweep --overwrite --resume", ["--resume: not allowed with argument --overwrite"]),
    ("env --yaml", ["--yaml"]),
    ("list lokced", ["'lokced'", "did you mean 'locked'?", "choose from fresh, "]),
    ("list lifo", ["'lifo'", "choose from fresh, "]),
    ("list fresh locked", ["locked"]),
    # unknown names
    ("sweep --pool lockd", ["'lockd'", "did you mean 'locked'?", POOLS]),
    ("sweep --pool fresh,xyzzy", ["'xyzzy'", POOLS]),
    ("sweep --workload byte", ["'byte'", "did you mean 'bytes'?", WORKLOADS]),
    ("sweep --pattern chrun", ["'chrun'", "did you mean 'churn'?", PATTERNS]),
    ("sweep --preset fast", ["'fast'", "choose from quick, standard, full"]),
    ("sweep --affinity pinned", ["affinity=pinned", "choose from spread, none"]),
    ("sweep --compare pol", ["compare=pol", "did you mean 'pool'?", "choose from workload, "]),
    ("sweep --compare size", ["compare=size", "choose from workload, pool, pattern, threads"]),
    ("sweep --baseline lifo", ["'lifo'", "choose from fresh, thread_local, locked"]),
    ("sweep --compare threads --baseline 3", ["'3'", "choose from 1, 2, 4, 8, 16"]),
    # grammar
    ("sweep --pool 'locked('", ["locked(", "'(' without ')'"]),
    ("sweep --pool 'locked)'", ["locked)", "')' without '('"]),
    ("sweep --pool 'locked()x'", ["'locked()x'", "name(key=value,...)"]),
    ("sweep --pool 'locked(lock)'", ["'lock'", "write key=value"]),
    ("sweep --pool 'locked(lock=)'", ["'lock='", "write key=value"]),
    ("sweep --pool 'locked(lock=pthread,lock=parking)'", ["'lock'", "given twice"]),
    ("sweep --pool 'locked(size=4)'", ["'size'", "choose from capacity, lock, "]),
    ("sweep --pool 'fresh(size=4)'", ["'size'", "it has no parameters"]),
    ("sweep --pool 'fre\nsh'", ["'fre sh'", "name(key=value,...)"]),
    ("sweep --workload 'table(library=(x))'", ["library=(x)", "comma or parentheses"]),
    # empty and duplicate
    ("sweep --pool ''", ["''", "name(key=value,...)"]),
    ("sweep --pool fresh,", ["''", "name(key=value,...)"]),
    ("sweep --threads ''", ["threads=:", "from 1 to 1024"]),
    ("sweep --threads 1,,2", ["threads=:", "from 1 to 1024"]),
    ("sweep --pool fresh,fresh", ["pool", "'fresh' twice"]),
    ("sweep --pool 'locked,locked(capacity=64)'", ["pool", "'locked' twice"]),
    ("sweep --threads 1,2,01", ["threads", "'1' twice"]),
    # out of range, and not numbers
    ("sweep --workload 'bytes(size=0)'", ["size=0", "16 ... 1GiB"]),
    ("sweep --workload 'bytes(size=-1)'", ["size=-1", "16 ... 1GiB"]),
    (f"sweep --workload 'bytes(size={2**62})'", [f"size={2**62}", "16 ... 1GiB"]),
    (f"sweep --workload 'bytes(size={NINES})'", ["size=999", "KiB|MiB|GiB"]),
    ("sweep --workload 'bytes(size=4kb)'", ["size=4kb", "B|KiB|MiB|GiB"]),
    ("sweep --workload 'bytes(zero=maybe)'", ["zero=maybe", "choose from memset, calloc, none"]),
    ("sweep --threads 0", ["threads=0", "from 1 to 1024"]),
    ("sweep --threads -1", ["threads=-1", "from 1 to 1024"]),
    ("sweep --threads 1000000", ["threads=1000000", "from 1 to 1024"]),
    ("sweep --threads 1.5", ["threads=1.5", "from 1 to 1024"]),
    (f"sweep --threads {NINES}", ["threads=999", "from 1 to 1024"]),
    ("sweep --pool 'locked(capacity=0)'", ["capacity=0", "1 ... 1048576"]),
    ("sweep --pool 'slab(handles=2)' --workload widget", ["handles=2", "0 ... 1"]),
    ("sweep --pattern 'steady(live=0)'", ["live=0", "1 ... 4096"]),
    ("sweep --pattern 'steady(live=5000)'", ["live=5000", "1 ... 4096"]),
    ("sweep --pattern 'churn(think_ns=1KiB)'", ["think_ns=1KiB", "ns|us|ms|s"]),
    ("sweep --blocks 0", ["blocks=0", "from 1 to 10000"]),
    ("sweep --blocks x", ["--blocks", "'x'"]),
    ("sweep --rounds x", ["--rounds", "'x'"]),
    ("sweep --rounds 99999", ["rounds=99999", "from 1 to 10000"]),
    ("sweep --seed -1", ["seed=-1", "from 0 to "]),
    (f"sweep --seed {2**63}", [f"seed={2**63}", "from 0 to "]),
    ("sweep --timeout 0", ["--timeout 0", "more than 0"]),
    ("sweep --timeout -3", ["--timeout -3", "more than 0"]),
    ("sweep --timeout nan", ["--timeout nan", "more than 0"]),
    ("sweep --timeout soon", ["--timeout", "'soon'"]),
    # --axis
    ("sweep --axis size", ["--axis size", "write NAME=VALUE,VALUE,..."]),
    ("sweep --axis size=", ["--axis size=", "write NAME=VALUE,VALUE,..."]),
    ("sweep --axis =4", ["--axis =4", "write NAME=VALUE,VALUE,..."]),
    ("sweep --axis size=64 --axis size=32", ["--axis size is given twice"]),
    ("sweep --axis sise=64", ["'sise'", "did you mean 'size'?", "choose from "]),
    ("sweep --axis pool=fresh", ["'pool'", "choose from "]),
    ("sweep --axis size=64 --workload rng", ["'size'", "choose from "]),
    ("sweep --axis size=1 --workload bytes", ["size=1 ", "16 ... 1GiB"]),
    ("sweep --axis size=64,64B --workload bytes", ["size", "'64' twice"]),
    ("sweep --axis lock=magic", ["lock=magic", "choose from pthread, "]),
    ("sweep --axis capacity=4 --pool 'locked(capacity=8)'", ["'capacity'", "give it once"]),
    ("sweep --axis size=64", ["'size'", "'bytes(size=1KiB)'", "give it once"]),
    # combinations that cannot exist
    ("sweep --pool slab --workload table", ["nothing to measure", "slab", "table cannot do"]),
    # files to read
    ("compare", ["required: file"]),
    ("compare nowhere.jsonl", ["nowhere.jsonl: No such file or directory"]),
    ("compare file/below.jsonl", ["file/below.jsonl: Not a directory"]),
    ("compare .", [".: Is a directory"]),
    *[(f"compare {name}", [f"{name}: not a poolbench results file"]) for name in OTHER_FILES],
    ("compare headless.jsonl", ["headless.jsonl: not a poolbench results file"]),
    ("compare future.jsonl", ["future.jsonl: format 99, this version reads 1"]),
    ("compare hollow.jsonl", ["hollow.jsonl: no group has two arms"]),
    ("compare one.jsonl", ["one.jsonl: no group has two arms"]),
    ("crossover nowhere.jsonl", ["nowhere.jsonl: No such file or directory"]),
    ("crossover other.json", ["other.json: not a poolbench results file"]),
    ("crossover one.jsonl", ["one.jsonl: no group has two arms"]),
    ("plot nowhere.jsonl", ["nowhere.jsonl: No such file or directory"]),
    ("plot binary.jsonl", ["binary.jsonl: not a poolbench results file"]),
    # questions to a file
    ("compare run.jsonl --baseline lifo", ["'lifo'", "choose from fresh, locked"]),
    ("compare run.jsonl --level 0", ["level", "(0, 1]", "0.0"]),
    ("compare run.jsonl --level 2", ["level", "(0, 1]", "2.0"]),
    ("compare run.jsonl --level nan", ["level", "(0, 1]", "nan"]),
    ("compare run.jsonl --level high", ["--level", "'high'"]),
    ("compare run.jsonl --margin -1", ["margin must not be negative", "-1.0"]),
    ("compare run.jsonl --margin inf", ["margin must not be negative or infinite", "inf"]),
    ("compare run.jsonl --margin nan", ["margin must not be negative or infinite", "nan"]),
    ("crossover run.jsonl --level 1.5", ["level", "(0, 1]", "1.5"]),
    ("crossover run.jsonl --margin -0.1", ["margin must not be negative", "-0.1"]),
    ("crossover run.jsonl --along sise", ["along=sise", "choose from threads"]),
    ("crossover run.jsonl --along workload", ["along=workload", "choose from threads"]),
    ("crossover run.jsonl --pool lifo", ["'lifo'", "choose from fresh, locked"]),
    ("crossover run.jsonl --baseline lifo", ["'lifo'", "choose from fresh, locked"]),
    ("plot run.jsonl --kind pie", ["'pie'", "'scaling', 'crossover'"]),
    ("plot run.jsonl --at threads", ["--at threads", "write NAME=VALUE,VALUE,..."]),
    ("plot run.jsonl --at threads=1 --at threads=2", ["--at threads is given twice"]),
    ("plot run.jsonl --at threads=3", ["no threads '3'", "choose from 1, 2, 4"]),
    ("plot run.jsonl --at sise=3", ["'sise'", "choose from workload, pool, pattern, threads"]),
    ("plot run.jsonl --kind crossover --baseline lifo", ["'lifo'", "choose from fresh, locked"]),
    ("plot run.jsonl -o file/below.png", ["file/below.png: Not a directory"]),
    ("plot run.jsonl -o run.pie", ["'pie'", "png"]),
    # folders to write to
    (f"{TINY} --out file", ["file: File exists"]),
    (f"{TINY} --out file/below", ["file/below: Not a directory"]),
    (f"{TINY} --out folder", ["folder/results.jsonl: Is a directory"]),
    (f"{TINY} --out foreign", ["foreign/results.jsonl: not a poolbench", "choose another name"]),
    (f"{TINY} --out future", ["future/results.jsonl: format 99", "choose another name"]),
    (f"{TINY} --out hollow", ["hollow/results.jsonl", "another sweep", "choose another name"]),
    (f"{TINY} --out complete", ["complete/results.jsonl", "is complete", "resume it"]),
    (f"{TINY} --out begun --seed 2", ["begun/results.jsonl", "of another sweep"]),
    (f"{TINY} --out begun --resume --seed 2", ["begun/results.jsonl", "of another sweep"]),
    (f"{TINY} --out begun --resume --threads 2", ["begun/results.jsonl", "of another sweep"]),
    (f"{TINY} --out begun --resume --blocks 4", ["begun/results.jsonl", "of another sweep"]),
    (f"{TINY} --out begun --resume --control", ["begun/results.jsonl", "of another sweep"]),
    (f"{TINY} --out elsewhere --resume", ["elsewhere/results.jsonl", "of another sweep"]),
    (f"{TINY} --out older --resume", ["older/results.jsonl", "of another sweep"]),
]


@pytest.mark.parametrize(("typed", "said"), COMMANDS, ids=lambda x: str(x)[:60])
def test_a_wrong_command_is_one_line_and_exit_code_3(
    capsys: Captured, folder: Path, typed: str, said: list[str]
) -> None:
    before = contents(folder)
    assert run(*shlex.split(typed)) == 3
    line = capsys.readouterr().err
    assert re.fullmatch(r"poolbench[a-z ]*: .*\n", line), line
    assert [s for s in said if s not in line] == [], line
    assert len(line) < 600
    assert contents(folder) == before


def test_there_are_enough_of_them() -> None:
    assert len(COMMANDS) >= 60
    assert len({typed for typed, _ in COMMANDS}) == len(COMMANDS)


def test_what_is_refused_before_it_starts_prints_nothing_else(capsys: Captured) -> None:
    for typed in ("sweep --pool lockd", "compare nowhere.jsonl", "list lifo"):
        assert run(*shlex.split(typed)) == 3
        assert capsys.readouterr().out == ""


def test_a_lock_that_cannot_be_made_is_one_line(
    capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POOLBENCH_LOCK", "nowhere/lock")
    assert run(*shlex.split(TINY)) == 3
    assert capsys.readouterr().err == "poolbench: nowhere/lock: No such file or directory\n"


# ---- Python --------------------------------------------------------------------------------------


def sweep(**given: Any) -> Suite:
    return pb.sweep(**{**SMALL, "progress": False, **given})


def loaded() -> Suite:
    return pb.load("run.jsonl")


CALLS: list[tuple[Callable[[], object], type[Exception], list[str]]] = [
    (lambda: sweep(pool="lockd"), ValueError, ["'lockd'", "did you mean 'locked'?", POOLS]),
    (lambda: sweep(pool=[]), ValueError, ["pool is empty"]),
    (lambda: sweep(pool=[3]), ValueError, ["'3'", "name(key=value,...)"]),
    (lambda: sweep(pool=None), ValueError, ["'None'", POOLS]),
    (lambda: sweep(workload="byte"), ValueError, ["did you mean 'bytes'?", WORKLOADS]),
    (lambda: sweep(workload="bytes(size=0)"), ValueError, ["size=0", "16 ... 1GiB"]),
    (lambda: sweep(pattern="steady(live=5000)"), ValueError, ["live=5000", "1 ... 4096"]),
    (lambda: sweep(pattern=[]), ValueError, ["pattern is empty"]),
    (lambda: sweep(threads=0), ValueError, ["threads=0", "from 1 to 1024"]),
    (lambda: sweep(threads=10**6), ValueError, ["threads=1000000", "from 1 to 1024"]),
    (lambda: sweep(threads=1.5), ValueError, ["threads=1.5", "from 1 to 1024"]),
    (lambda: sweep(threads=[1, 1]), ValueError, ["threads", "'1' twice"]),
    (lambda: sweep(sise=64), ValueError, ["'sise'", "did you mean 'size'?"]),
    (lambda: sweep(size=[]), ValueError, ["size is empty"]),
    (lambda: sweep(size=2**62), ValueError, [f"size={2**62}", "16 ... 1GiB"]),
    (lambda: sweep(workload="bytes(size=64)", size=32), ValueError, ["'size'", "give it once"]),
    (lambda: sweep(blocks=0), ValueError, ["blocks=0", "from 1 to 10000"]),
    (lambda: sweep(blocks=True), ValueError, ["blocks=True", "from 1 to 10000"]),
    (lambda: sweep(rounds="6"), ValueError, ["rounds=6", "from 1 to 10000"]),
    (lambda: sweep(seed=-1), ValueError, ["seed=-1", "from 0 to "]),
    (lambda: sweep(preset="fast"), ValueError, ["'fast'", "quick, standard, full"]),
    (lambda: sweep(preset=3), ValueError, ["'3'", "quick, standard, full"]),
    (lambda: sweep(compare=3), ValueError, ["compare=3", "choose from workload, "]),
    (lambda: sweep(affinity="x"), ValueError, ["affinity=x", "choose from spread, none"]),
    (lambda: sweep(baseline="lifo"), ValueError, ["'lifo'", "choose from fresh, locked"]),
    (lambda: sweep(timeout=0), ValueError, ["timeout=0", "more than 0"]),
    (lambda: sweep(timeout=float("nan")), ValueError, ["timeout=nan", "more than 0"]),
    (lambda: sweep(pool="slab", workload="table"), ValueError, ["slab", "table cannot do"]),
    (lambda: sweep(save="file/below.jsonl"), OSError, ["file/below.jsonl", "Not a directory"]),
    (lambda: sweep(save="folder"), OSError, ["folder", "Is a directory"]),
    (lambda: sweep(save="nowhere/x.jsonl"), FileNotFoundError, ["nowhere/x.jsonl"]),
    (lambda: sweep(save="prose.txt"), FileExistsError, ["prose.txt: not a poolbench results file"]),
    (lambda: sweep(save="prose.txt", resume=True), FileExistsError, ["prose.txt: not a poolbench"]),
    (lambda: sweep(save="future.jsonl"), FileExistsError, ["format 99, this version reads 1"]),
    (lambda: sweep(save="hollow.jsonl"), FileExistsError, ["hollow.jsonl", "another sweep"]),
    (lambda: sweep(save="run.jsonl"), FileExistsError, ["run.jsonl", "another sweep"]),
    (
        lambda: sweep(save="complete/results.jsonl"),
        FileExistsError,
        ["complete/results.jsonl exists and is complete", "resume it"],
    ),
    (
        lambda: sweep(save="begun/results.jsonl", resume=False),
        FileExistsError,
        ["begun/results.jsonl exists: choose another name"],
    ),
    (lambda: sweep(save="begun/results.jsonl", seed=2), FileExistsError, ["another sweep"]),
    (lambda: pb.measure("lockd", workload="bytes"), ValueError, ["'lockd'", POOLS]),
    (
        lambda: pb.measure("fresh,locked", workload="bytes"),
        ValueError,
        ["pool=fresh,locked", "one value"],
    ),
    (
        lambda: pb.measure("fresh", workload="bytes", size=[64, 128]),
        ValueError,
        ["size=[64, 128]", "one value"],
    ),
    (lambda: pb.load("nowhere.jsonl"), FileNotFoundError, ["nowhere.jsonl"]),
    (lambda: pb.load("file/below"), OSError, ["file/below"]),
    (lambda: pb.load("."), IsADirectoryError, ["'.'"]),
    *[
        (lambda name=name: pb.load(name), ValueError, [f"{name}: not a poolbench results file"])
        for name in OTHER_FILES
    ],
    (lambda: pb.load("future.jsonl"), ValueError, ["format 99, this version reads 1"]),
    (lambda: loaded().compare("lifo"), ValueError, ["'lifo'", "choose from fresh, locked"]),
    (lambda: loaded().compare(level=0.0), ValueError, ["level", "0.0"]),
    (lambda: loaded().compare(level=1.1), ValueError, ["level", "1.1"]),
    (lambda: loaded().compare(margin=-1.0), ValueError, ["margin", "-1.0"]),
    (lambda: loaded().compare(margin=float("inf")), ValueError, ["margin", "inf"]),
    (lambda: loaded().summary(level=2.0), ValueError, ["level", "2.0"]),
    (lambda: loaded().crossover(along="pool"), ValueError, ["along=pool", "threads"]),
    (lambda: loaded().crossover(pool="lifo"), ValueError, ["'lifo'", "fresh, locked"]),
    (lambda: loaded().select(thread=1), ValueError, ["'thread'", "threads"]),
    (lambda: loaded().select(threads=3), ValueError, ["'3'", "1, 2, 4"]),
    (lambda: loaded().rows(level="round"), ValueError, ["level=round", "replicate, cell, window"]),  # type: ignore[arg-type]
    (lambda: loaded().save("file/below"), OSError, ["file/below"]),
    (lambda: loaded().to_csv("file/below"), OSError, ["file/below"]),
]


@pytest.mark.parametrize(
    ("call", "kind", "said"),
    CALLS,
    ids=[f"{i}-{said[0][:40]}" for i, (*_, said) in enumerate(CALLS)],
)
def test_a_wrong_call_is_an_error_of_one_line(
    folder: Path, call: Callable[[], object], kind: type[Exception], said: list[str]
) -> None:
    before = contents(folder)
    with pytest.raises(kind) as raised:
        call()
    text = str(raised.value)
    assert "\n" not in text
    assert [s for s in said if s not in text] == [], text
    assert contents(folder) == before


def test_text_and_command_line_say_the_same(capsys: Captured) -> None:
    for options, given in {
        "--pool lockd": {"pool": "lockd"},
        "--threads 0": {"threads": 0},
        "--blocks 0": {"blocks": 0},
        "--axis sise=4": {"sise": 4},
    }.items():
        with pytest.raises(ValueError) as raised:  # noqa: PT011 - the text is compared below
            sweep(**given)
        assert run(*shlex.split(f"{TINY} {options}")) == 3
        assert capsys.readouterr().err == f"poolbench: {raised.value}\n"


# ---- what only a worker can tell -----------------------------------------------------------------


@pytest.mark.workers
@pytest.mark.parametrize(
    ("pool", "workload", "reason"),
    [
        (
            "fresh",
            "synthetic(construct_ns=10,global_ns=20)",
            "global_ns is part of construct_ns and cannot be larger",
        ),
        ("fresh", "table", "cannot load library"),
        ("fresh", "table(library=./nowhere.so)", "cannot load library './nowhere.so'"),
        ("fresh", "table(library=libm.so.6,symbol=cosine)", "no symbol 'cosine'"),
        ("fresh", "table(library=./naïve path.so)", "cannot load library './naïve path.so'"),
    ],
)
def test_a_cell_that_contradicts_itself_is_a_failure_with_its_reason(
    capsys: Captured,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    pool: str,
    workload: str,
    reason: str,
) -> None:
    monkeypatch.undo()  # workers may start
    out = str(tmp_path / "out")
    argv = ["--pool", pool, "--workload", workload, "--threads", "1", "--blocks", "1"]
    assert run("sweep", *argv, "--rounds", "1", "--out", out) == 4
    printed = capsys.readouterr()
    assert printed.err == ""
    assert re.search(f"1 of 1 replicates failed: .*{re.escape(reason)}", printed.out)
    lines = (tmp_path / "out" / "results.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    assert all(reason in r["reason"] for r in records if r["kind"] in ("replicate", "ledger"))
