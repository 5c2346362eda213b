"""Build and run the C tests (tests/c) with each compiler, and see them catch a broken pool."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CSRC = ROOT / "csrc"

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


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
    done = make("check", f"CC={compiler}")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


class CopyOfCore:
    """A copy of the core, built once; mistakes go in one at a time."""

    def __init__(self, directory: Path) -> None:
        self.csrc = directory / "csrc"
        self.built = directory / "build"
        shutil.copytree(CSRC, self.csrc)

    def build(self, test: str) -> Path:
        program = self.built / test
        where = [f"BUILD={self.built}", f"CSRC={self.csrc}"]
        done = make(str(program), "CC=gcc", "CFLAGS=-O1", *where)
        assert done.returncode == 0, done.stderr[-4000:]
        return program

    @contextmanager
    def broken(self, file: str, right: str, wrong: str) -> Iterator[None]:
        path = self.csrc / file
        text = path.read_text()
        assert text.count(right) == 1, f"{file} no longer says {right!r}: choose another mistake"
        path.write_text(text.replace(right, wrong))
        try:
            yield
        finally:
            path.write_text(text)


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> CopyOfCore:
    return CopyOfCore(tmp_path_factory.mktemp("core"))


# Each is a mistake one could make, and the test that has to see it.
MISTAKES = {
    "unlocked": (
        "locks/parking.h",
        "    if (PB_UNLIKELY(!pb_cas_acquire_u32(&l->word, PARKING_FREE, PARKING_HELD)))\n"
        "        parking_wait(l);",
        "    (void)parking_wait, (void)l;",
        "test_stress",
    ),
    "lost": (
        "pools/thread_local.c",
        "        pb_destroy(ctx, object, w, args);\n        return PB_DESTROYED;",
        "        return PB_DESTROYED;",
        "test_pools",
    ),
    "link": (  # a constructor that failed has written over the slot's link
        "pools/slab.c",
        "        *slab_next(self, offset) = next;\n        return (pb_got){NULL, PB_FAILED};",
        "        return (pb_got){NULL, PB_FAILED};",
        "test_slab",
    ),
    "generation": (
        "pools/slab.c",
        "    pb_destroy_at(ctx, object, w, args);\n"
        "    if (self->generations)\n        (*slab_generation(self, offset))++;",
        "    pb_destroy_at(ctx, object, w, args);",
        "test_slab",
    ),
    "newest": (  # trims the wrong end
        "pools/thread_cache.c",
        "self->idle[i], ctx->workload->is",
        "self->idle[self->count - 1 - i], ctx->workload->is",
        "test_thread_cache",
    ),
    "held": (  # the pattern ends with objects in its hands
        "patterns/steady.h",
        "    steady_empty(ctx, held, pool, w, args, live);",
        "    (void)steady_empty;",
        "test_steady",
    ),
    "wrapped": (  # of what was kept, in a pass that holds more at its end than at its beginning
        "window.c",
        "ctx->operations - kept_out(ctx)",
        "ctx->operations - 0 * kept_out(ctx)",
        "test_steady",
    ),
}


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
@pytest.mark.parametrize("mistake", sorted(MISTAKES))
def test_a_mistake_is_caught(mistake: str, core: CopyOfCore) -> None:
    file, right, wrong, test = MISTAKES[mistake]
    with core.broken(file, right, wrong):
        program = core.build(test)
        ran = subprocess.run([program], capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode != 0, ran.stdout[-2000:]
