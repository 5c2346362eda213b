"""Objects that misbehave, and memory that is not there: one arm fails, with its reason.

Small kinds of objects are compiled against poolbench.h, each with one fault. They stand in a block
beside `bytes`, which must finish whatever they do.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import poolbench as pb
from poolbench.cli import main
from poolbench.results import Ledger
from poolbench.suite import Suite

RunPython = Callable[..., "subprocess.CompletedProcess[str]"]
Captured = pytest.CaptureFixture[str]
COMPILER = shutil.which("cc")
pytestmark = [pytest.mark.workers, pytest.mark.usefixtures("long_windows")]
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler")

SOURCE = """
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <poolbench.h>

static long made, used; /* one thread at a time */

static int late(void) /* 15 ms after the first call: in the middle of a warm-up */
{
    static struct timespec first;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (first.tv_sec == 0)
        first = now;
    return (now.tv_sec - first.tv_sec) * 1000 + (now.tv_nsec - first.tv_nsec) / 1000000 > 15;
}

static void *make(void *context)
{
    (void)context;
    made++;
    return (REFUSES) ? NULL : calloc(1, 64);
}

static void unmake(void *object, void *context)
{
    (void)context;
    free(object);
}

static uint64_t use(void *object, void *context)
{
    (void)context;
    used++;
    if (MISBEHAVES) {
        ACTION;
    }
    return *(volatile char *)object;
}

__attribute__((constructor)) static void loaded(void)
{
    LOADED;
}

const poolbench_workload pb_workload = {
    .abi = POOLBENCH_ABI, .table_size = sizeof(poolbench_workload), .name = "faulty",
    .construct = make, .destroy = unmake, .use = use, .object_size = 64,
};
"""
HANG = "for (;;) pause()"
COUNTED = 'getenv("LD_PRELOAD") != NULL'
FAULTS = {
    "none": {},
    "refuses_always": {"REFUSES": "1"},
    "gives_up": {"REFUSES": "late()"},
    "refuses_once": {"REFUSES": "made == 500"},
    "crashes": {"MISBEHAVES": "used == 500", "ACTION": "*(volatile int *)8 = 1"},
    "crashes_at_once": {"MISBEHAVES": "1", "ACTION": "*(volatile int *)8 = 1"},
    "aborts": {"MISBEHAVES": "used == 500", "ACTION": "abort()"},
    "hangs": {"MISBEHAVES": "used == 500", "ACTION": HANG},
    "hangs_as_it_loads": {"LOADED": HANG},
    "exits": {
        "MISBEHAVES": "used == 500",
        "ACTION": r'fprintf(stderr, "enough\nof this\n"), _exit(3)',
    },
    "exits_fine": {"MISBEHAVES": "used == 500", "ACTION": "exit(0)"},
    "chatters": {"MISBEHAVES": "used < 9", "ACTION": r'puts("window 1 1 1 1 1"), fflush(stdout)'},
    "crashes_counted": {"MISBEHAVES": COUNTED, "ACTION": "*(volatile int *)8 = 1"},
}


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that compiles the kind of object with this fault."""
    folder = tmp_path_factory.mktemp("faults")
    (folder / "faulty.c").write_text(SOURCE)

    def compiled(name: str) -> Path:
        library = folder / f"{name}.so"
        if not library.exists():
            defined = {"REFUSES": "0", "MISBEHAVES": "0", "ACTION": "", "LOADED": ""}
            options = [f"-D{k}={v}" for k, v in {**defined, **FAULTS[name]}.items()]
            options += ["-O1", "-Wno-unused", "-shared", "-fPIC", f"-I{pb.get_include()}"]
            command = [str(COMPILER), *options, "-o", library, folder / "faulty.c"]
            subprocess.run(command, check=True, capture_output=True)
        return library

    return compiled


@dataclass(frozen=True)
class Outcome:
    """What a sweep of a faulty kind of object beside `bytes` came to."""

    suite: Suite
    code: int
    printed: str

    @property
    def faulty(self) -> str:
        (label,) = [a for g in self.suite.groups.values() for a in g.arms if a != "bytes"]
        return label

    def reasons(self) -> set[str]:
        return {r.reason for r in self.suite.replicates(*self.suite.groups, self.faulty)}

    def ledger(self, arm: str) -> Ledger:
        found = self.suite.ledger(*self.suite.groups, arm)
        assert found is not None
        return found


Beside = Callable[..., Outcome]


@pytest.fixture
def beside(
    libraries: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Captured,
) -> Beside:
    """Return a function: the name of a fault to the outcome of a sweep beside `bytes`."""
    monkeypatch.chdir(tmp_path)

    def run(fault: str, *options: str, pool: str = "fresh") -> Outcome:
        workloads = f"bytes,table(library={libraries(fault)})"
        argv = ["--pool", pool, "--workload", workloads, "--compare", "workload"]
        argv += ["--threads", "1", "--blocks", "2", "--rounds", "2", "--out", "out", *options]
        code = main(["sweep", *argv])
        printed = capsys.readouterr()
        assert printed.err == ""
        return Outcome(pb.load("out/results.jsonl"), code, printed.out)

    return run


def check_failure(found: Outcome, reason: str, *, ledger: str | None = None) -> None:
    """The faulty arm failed for this reason alone, `bytes` finished, and all of it is told."""
    assert found.code == 4
    assert all(re.match(reason, r) for r in found.reasons()), found.reasons()
    assert re.search(f"warning: .*: 2 of 2 replicates failed: {reason}", found.printed)
    finished = found.suite.replicates(*found.suite.groups, "bytes")
    assert len(finished) == 2
    assert all(r.ok and len(r.windows) == 2 for r in finished)
    if ledger is not None:
        assert found.ledger("bytes").ok
        counted = found.ledger(found.faulty)
        assert not counted.ok
        assert re.match(ledger, counted.reason), counted.reason
        assert re.search(f"warning: ledger of .*: {ledger}", found.printed)


@needs_compiler
def test_an_object_without_faults_is_measured(beside: Beside) -> None:
    found = beside("none")
    assert (found.code, found.suite.failures) == (0, [])
    assert found.ledger(found.faulty).allocations_per_op == 1.0


@needs_compiler
@pytest.mark.parametrize(
    ("pool", "reason"),
    [
        ("fresh", "every acquire failed: construction gave no object"),
        ("locked", "every acquire failed: construction gave no object"),
        ("thread_local", "a thread could not attach: the constructor returned nothing"),
    ],
)
def test_a_constructor_that_never_gives_an_object_fails(
    beside: Beside, pool: str, reason: str
) -> None:
    ledger = reason if pool == "thread_local" else "no operation in 1000 attempts per thread"
    check_failure(beside("refuses_always", pool=pool), reason, ledger=ledger)


@needs_compiler
def test_a_constructor_that_gives_up_fails(beside: Beside) -> None:
    found = beside("gives_up", "--no-ledger")
    check_failure(found, "(window too short: no operation|every acquire failed)")


@needs_compiler
def test_a_constructor_that_fails_once_costs_one_operation(beside: Beside) -> None:
    found = beside("refuses_once")
    assert (found.code, found.suite.failures) == (0, [])
    failed = [
        r.account["failed"] for r in found.suite.replicates(*found.suite.groups, found.faulty)
    ]
    assert failed == [1, 1]


@needs_compiler
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("crashes", "the worker was killed by SIGSEGV"),
        ("crashes_at_once", "the worker was killed by SIGSEGV"),
        ("aborts", "the worker was killed by SIGABRT"),
        ("exits", "the worker ended with exit code 3: enough of this"),
        ("exits_fine", "the worker ended with exit code 0"),
    ],
)
def test_an_object_that_takes_the_process_along_fails_by_name(
    beside: Beside, fault: str, reason: str
) -> None:
    check_failure(beside(fault), reason, ledger=reason)


@needs_compiler
def test_an_object_that_hangs_is_given_up(beside: Beside) -> None:
    reason = "threads did not park in time"
    ledger = "(threads did not finish a counted pass in time|no answer in time)"
    check_failure(beside("hangs", "--timeout", "2"), f"({reason}|no answer in time)", ledger=ledger)


@needs_compiler
def test_a_worker_that_hangs_is_given_up_after_the_timeout(beside: Beside) -> None:
    reason = "no answer in time"
    check_failure(beside("hangs_as_it_loads", "--timeout", "1"), reason, ledger=reason)


@needs_compiler
def test_an_object_may_print_what_it_likes(beside: Beside) -> None:
    found = beside("chatters")
    assert (found.code, found.suite.failures) == (0, [])


@needs_compiler
def test_a_pass_that_fails_when_counted_leaves_the_times_alone(beside: Beside) -> None:
    found = beside("crashes_counted")
    assert found.code == 4
    assert found.reasons() == {""}
    assert re.search("warning: ledger of .*: the worker was killed by SIGSEGV", found.printed)
    assert [type(x) for x in found.suite.failures] == [Ledger]


# ---- memory --------------------------------------------------------------------------------------


def test_what_cannot_fit_is_refused_with_the_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    argv = ["--pool", "fresh", "--workload", "bytes(size=64),bytes(size=1GiB)", "--threads", "2"]
    argv += ["--pattern", "steady(live=4096)", "--compare", "workload", "--blocks", "1"]
    assert main(["sweep", *argv, "--rounds", "1", "--out", "out"]) == 4
    figures = r"needs 8388608\.0 MiB \(2 threads x 4096 objects x 1073741824 bytes\)"
    reason = rf"{figures}, [\d.]+ MiB available"
    printed = capsys.readouterr().out
    assert re.search(f"warning: .*: 1 of 1 replicates failed: {reason}", printed)
    assert re.search(f"warning: ledger of .*: {reason}", printed)
    suite = pb.load("out/results.jsonl")
    assert {x.arm for x in suite.failures} == {"bytes(size=1GiB)"}
    assert all(r.ok for r in suite.replicates(*suite.groups, "bytes(size=64)"))


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))
from poolbench import block, cli
block.WINDOW_S *= 3  # as long_windows does
sys.exit(cli.main(sys.argv[1:]))
"""


def limited(*argv: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """A sweep in a process that may have 1 GiB."""
    fixed = ["--threads", "1", "--blocks", "1", "--rounds", "1", "--out", "out", "--no-pictures"]
    command = [sys.executable, "-c", LIMITED, "sweep", *argv, *fixed]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


def test_a_limit_counts_as_what_is_available(tmp_path: Path) -> None:
    argv = ["--pool", "fresh", "--workload", "bytes(size=64),bytes(size=1GiB)"]
    done = limited(*argv, "--compare", "workload", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (4, "")
    # The two arms of a block are there at the same time: each may have half.
    reason = r"needs 1024\.0 MiB \(1 threads x 1 objects x 1073741824 bytes\), 512\.0 MiB available"
    assert re.search(f"1 of 1 replicates failed: {reason}", done.stdout)
    suite = pb.load(tmp_path / "out" / "results.jsonl")
    assert all(r.ok for r in suite.replicates(*suite.groups, "bytes(size=64)"))


@pytest.mark.parametrize("pool", ["fresh", "thread_local"])
def test_memory_that_is_not_there_after_all_is_a_failed_replicate(
    tmp_path: Path, pool: str
) -> None:
    # Predicted to fit to the byte; the process itself is what is too much.
    done = limited("--pool", pool, "--workload", "bytes(size=1GiB,zero=none)", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (4, "")
    assert "no data" in done.stdout
    (failed, ledger) = pb.load(tmp_path / "out" / "results.jsonl").failures
    assert re.search("no object|returned nothing|memory", failed.reason)
    assert not ledger.ok
