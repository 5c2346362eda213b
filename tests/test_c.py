"""Build and run the C tests (tests/c) with each compiler, and see them catch a broken pool."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
from mistakes import MISTAKES, WRONG_CELLS, Mistake

ROOT = Path(__file__).resolve().parent.parent
CSRC = ROOT / "csrc"

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["make", "--no-print-directory", "-C", str(ROOT / "tests" / "c"), *arguments]
    jobs = f"-j{os.cpu_count() or 1}"
    # a make above this one hands down its jobs and its variables: not ours
    env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "CFLAGS")}
    return subprocess.run([*command, jobs], capture_output=True, text=True, check=False, env=env)


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_c(compiler: str) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    # all kernels are built and run with one compiler; with the other, those of some workloads
    done = make(
        "check", f"CC={compiler}", *(["CFLAGS=-DPB_FEW_KERNELS"] if compiler != "gcc" else [])
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


class CopyOfCore:
    """A copy of the core, built once; mistakes go in one at a time, and out without a trace."""

    def __init__(self, directory: Path, sanitizer: str) -> None:
        self.csrc, self.built, self.good = (directory / n for n in ("csrc", "build", "good"))
        # -O0 compiles four times as fast, and what is looked for is no matter of optimisation;
        # -w: a mistake may leave something unused
        self.options = [f"BUILD={self.built}", f"CSRC={self.csrc}", "CC=gcc", f"SAN={sanitizer}"]
        self.options.append("CFLAGS=-O0 -g0 -w")
        # ThreadSanitizer's shadow does not live with much address randomisation
        self.run_with = ["setarch", "-R"] if sanitizer == "thread" else []
        shutil.copytree(CSRC, self.csrc)

    def build(self, test: str) -> subprocess.CompletedProcess[str]:
        return make(str(self.built / test), *self.options)

    def build_good(self, test: str) -> None:
        if (self.good / test).exists():
            return
        done = self.build(test)
        assert done.returncode == 0, done.stderr[-4000:]
        # or any mistake would be caught; the stress test of one pool stands for the others'
        ran = self.run(test, *(["locked"] if test == "test_stress" else []), seconds=0)
        assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-2000:]
        shutil.copytree(self.built, self.good, dirs_exist_ok=True)

    @contextmanager
    def broken(self, mistake: Mistake) -> Iterator[None]:
        """Make a mistake; afterwards put back what was built from it too, with its times."""
        path = self.csrc / mistake.file
        text = path.read_text()
        assert text.count(mistake.right) == 1, f"no longer there once, choose another: {mistake}"
        path.write_text(text.replace(mistake.right, mistake.wrong))
        if mistake.through:  # the file looks old, and only these two are built from it anew
            shutil.copystat(CSRC / mistake.file, path)
            (self.csrc / mistake.through).touch()
            (self.built / f"{mistake.program}.o").unlink()
        try:
            yield
        finally:
            for changed in filter(None, (mistake.file, mistake.through)):
                shutil.copy2(CSRC / changed, self.csrc / changed)
            for made in filter(Path.is_file, self.built.rglob("*")):
                good = self.good / made.relative_to(self.built)
                if not good.exists():
                    made.unlink()
                elif good.stat().st_mtime_ns != made.stat().st_mtime_ns:
                    shutil.copy2(good, made)

    def run(
        self, test: str, *arguments: str, seconds: int = 40
    ) -> subprocess.CompletedProcess[str]:
        command = [*self.run_with, str(self.built / test), *arguments]
        given = {"PB_STRESS_SECONDS": str(seconds), "PB_STRESS_PATIENCE": "1" if seconds else "10"}
        env = {**os.environ, **given, "TSAN_OPTIONS": "halt_on_error=1"}
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=60, env=env
        )


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], CopyOfCore]:
    """Return a function from a sanitizer, or "", to the copy of the core built with it."""

    @cache
    def copy(sanitizer: str) -> CopyOfCore:
        return CopyOfCore(tmp_path_factory.mktemp("core"), sanitizer)

    return copy


@needs_gcc
@pytest.mark.parametrize("name", sorted(MISTAKES, key=lambda name: MISTAKES[name][3:]))
def test_a_mistake_is_caught(
    name: str, copies: Callable[[str], CopyOfCore], record_property: Callable[..., None]
) -> None:
    mistake = MISTAKES[name]
    core = copies(mistake.sanitizer)
    core.build_good(mistake.program)
    with core.broken(mistake):
        made = core.build(mistake.program)
        if mistake.test == "compiler":
            assert "too near each other" in made.stderr
            return
        assert made.returncode == 0, made.stderr[-4000:]
        began = time.monotonic()
        ran = core.run(mistake.program, *mistake.arguments)
        record_property("seconds", time.monotonic() - began)
    assert ran.returncode != 0, ran.stdout[-2000:]


@needs_gcc
@pytest.mark.parametrize("cell", WRONG_CELLS)
def test_a_cell_that_is_wrong_is_caught(cell: str, copies: Callable[[str], CopyOfCore]) -> None:
    core = copies("")
    core.build_good("test_stress")
    ran = core.run("test_stress", cell)
    assert ran.returncode != 0, ran.stdout[-2000:]
