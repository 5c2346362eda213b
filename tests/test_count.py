"""The counting allocator: what it counts, in front of which allocators, and what it leaves alone.

The counts themselves are checked by tests/c/count_probe.c, which runs with poolbench/_count.so
preloaded, alone and in front of other allocators. Then the core's ledger is read through it.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import poolbench._core as core

ROOT = Path(__file__).resolve().parent.parent
COUNT = Path(core.__file__).with_name("_count.so")
COMPILER = shutil.which("gcc") or shutil.which("clang")
NOT_PRELOADED = 77

# What ctypes asks for, the file's usual name, and the Debian package that has it.
ALLOCATORS = {
    "jemalloc": ("libjemalloc.so.2", "libjemalloc2"),
    "mimalloc": ("libmimalloc.so.2", "libmimalloc2.0"),
    "tcmalloc_minimal": ("libtcmalloc_minimal.so.4", "libtcmalloc-minimal4"),
}
FOLDERS = ["/usr/lib", "/usr/local/lib", f"/usr/lib/{platform.machine()}-linux-gnu", "/usr/lib64"]

pytestmark = [
    pytest.mark.workers,
    pytest.mark.skipif(bool(core.build_info()["sanitizer"]), reason="sanitizers replace malloc"),
]


def preloaded(*libraries: str) -> dict[str, str]:
    """The environment of a process that starts with the counting allocator and `libraries`."""
    return {**os.environ, "LD_PRELOAD": " ".join([str(COUNT), *libraries])}


def allocator(name: str) -> str:
    """The shared library of an allocator; skips the test when it is not installed."""
    soname, package = ALLOCATORS[name]
    known = [str(path) for folder in FOLDERS if (path := Path(folder) / soname).is_file()]
    found = ctypes.util.find_library(name)
    if not known and not found:
        pytest.skip(f"no {name}: install {package}")
    return known[0] if known else str(found)


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if COMPILER is None:
        pytest.skip("neither gcc nor clang is installed")
    built = tmp_path_factory.mktemp("count") / "count_probe"
    include = [f"-I{ROOT / 'csrc'}", f"-I{ROOT / 'tests' / 'c'}"]
    flags = ["-std=c11", "-O1", "-g", "-pthread", "-fno-builtin", *include]
    command = [COMPILER, *flags, str(ROOT / "tests" / "c" / "count_probe.c"), "-o", str(built)]
    subprocess.run(command, check=True)
    return built


def check(probe: Path, *libraries: str) -> None:
    done = subprocess.run(
        [str(probe)], env=preloaded(*libraries), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""  # the dynamic linker says here what it could not preload
    assert " 0 failed" in done.stdout


def test_it_was_built() -> None:
    assert COUNT.is_file()


def test_counts_in_front_of_libc(probe: Path) -> None:
    check(probe)


@pytest.mark.parametrize("name", ALLOCATORS)
def test_counts_in_front_of(name: str, probe: Path) -> None:
    check(probe, allocator(name))


def test_the_other_allocator_is_really_used(probe: Path) -> None:
    library = allocator("jemalloc")
    env = {**preloaded(library), "MALLOC_CONF": "stats_print:true"}
    done = subprocess.run([str(probe)], env=env, capture_output=True, text=True, timeout=60)
    assert "jemalloc statistics" in done.stderr


def test_without_it_there_is_nothing(probe: Path) -> None:
    env = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    assert subprocess.run([str(probe)], env=env).returncode == NOT_PRELOADED


# ---- ordinary programs ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        ["/bin/ls", "-l", "/"],
        ["/bin/sh", "-c", "echo a | cat | sort; (echo b) & wait"],
        [sys.executable, "-I", "-c", "import threading, decimal; print(len(str(3**8000)))"],
    ],
    ids=["ls", "sh", "python"],
)
@pytest.mark.parametrize("name", ["", *ALLOCATORS])
def test_ordinary_programs_run(name: str, command: list[str]) -> None:
    env = preloaded(allocator(name)) if name else preloaded()
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


# ---- the core's ledger ---------------------------------------------------------------------------

COUNTED = """
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location("_core", sys.argv[1])
core = importlib.util.module_from_spec(spec)
spec.loader.exec_module(core)
cell, attempts = json.loads(sys.argv[2]), int(sys.argv[3])
run = core.open(cell.pop("pool"), cell.pop("workload"), cell.pop("pattern"), counted=True, **cell)
core.count_pass(run, attempts)
steady = core.count_pass(run, attempts)
print(json.dumps({**core.close(run), **{f"pass_{k}": v for k, v in steady.items()}}))
"""


def ledger(pool: str, workload: str, pattern: str = "churn", **more: object) -> dict[str, int]:
    """What a counted replicate of two threads counted, with a pass of 1,000 attempts each."""
    cell = {"pool": pool, "workload": workload, "pattern": pattern, "threads": 2, **more}
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", COUNTED, str(core.__file__), json.dumps(cell), "1000"],
        env=preloaded(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, int] = json.loads(done.stdout)
    return found


def test_fresh_allocates_once_per_operation() -> None:
    counts = ledger("fresh", "widget")
    assert counts["pass_operations"] == 2000
    assert counts["pass_steady_workload_allocations"] == 2000
    assert counts["pass_steady_workload_bytes"] == 2000 * 56
    assert counts["pass_steady_pool_allocations"] == 0
    assert counts["setup_pool_allocations"] == 0
    assert counts["retained_bytes"] == 0


def test_a_slab_allocates_its_block_and_nothing_else() -> None:
    counts = ledger("slab", "widget", pool_params={"capacity": 4})
    assert counts["setup_pool_allocations"] == 2  # one block per thread
    assert counts["setup_pool_bytes"] == 2 * 4 * 56
    assert counts["setup_workload_allocations"] == 0
    assert counts["pass_operations"] == 2000
    assert counts["pass_steady_pool_allocations"] == 0
    assert counts["pass_steady_workload_allocations"] == 0
    assert counts["constructed"] == counts["destroyed"] == 4000
    assert 2 * 4 * 56 <= counts["retained_bytes"] < 4 * 4 * 56


def test_thread_local_allocates_when_threads_attach() -> None:
    counts = ledger("thread_local", "context")
    assert counts["setup_workload_allocations"] == 2
    assert counts["setup_workload_bytes"] == 2 * 256
    assert counts["pass_steady_workload_allocations"] == 0
    assert 2 * 256 <= counts["retained_bytes"] < 4 * 256


def test_two_allocations_of_one_object_are_counted_as_two() -> None:
    counts = ledger("fresh", "direct", workload_params={"size": 1000})
    assert counts["pass_steady_workload_allocations"] == 4000
    assert counts["pass_steady_workload_bytes"] == 2000 * (1000 + 32)


def test_a_steady_pool_allocates_nothing_once_it_is_warm() -> None:
    counts = ledger("locked", "bytes", "steady", pattern_params={"live": 50})
    assert counts["pass_operations"] == 2000
    assert counts["pass_steady_workload_allocations"] == 0
    assert counts["pass_kept"] == 2000
    assert counts["peak_bytes"] >= 100 * 1024


def test_opening_is_counted_from_its_beginning() -> None:
    """The first reading used to be empty: all that Python ever allocated was booked as set-up."""
    counts = ledger("fresh", "widget")
    assert 0 < counts["setup_harness_allocations"] < 200
    assert counts["setup_harness_bytes"] < 100_000
