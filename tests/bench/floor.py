"""Compare the cheapest kernel with a loop written by hand, in instructions and in time.

    python tests/bench/floor.py                  both; exit status 1 when the kernel is too dear
    python tests/bench/floor.py --instructions   only instructions, which do not depend on load

The kernel is `thread_local` x `bytes` x `churn`, which does nearly nothing: whatever a kernel costs
beyond its pool shows here first. Instructions are counted by valgrind's callgrind, twice with
different numbers of operations, so that start-up cancels. Times come from alternating fresh
processes on one CPU; their median is what counts, and all of them are printed.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
FLAGS = ["-std=c11", "-O2", "-g", "-pthread", "-falign-functions=64", "-falign-loops=32"]
FEW, MANY = 100_000, 1_100_000
PAIRS = 7
SECONDS = 0.3
MOST_INSTRUCTIONS = 2.0  # per operation, more than the floor
MOST_RATIO = 1.15

KERNEL = """
import importlib.util, sys
path, seconds, cpu = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
spec = importlib.util.spec_from_file_location("_core", path)
core = importlib.util.module_from_spec(spec)
spec.loader.exec_module(core)
run = core.open("thread_local", "bytes", "churn", threads=1, cpus=[cpu])
core.warm(run, 0.02)
ns, _, operations = core.window(run, seconds)[1:4]
core.close(run)
print(ns / sum(operations))
"""


def build(directory: Path, compiler: str = "gcc") -> tuple[Path, Path]:
    """Compile the floor and the kernel's driver; return their paths."""
    floor, kernel = directory / "floor", directory / "kernel_count"
    csrc = ROOT / "csrc"
    core = [path for path in csrc.glob("*.c") if not path.name.startswith("py_")]
    core.remove(csrc / "count_malloc.c")  # an allocator, and never present where anything is timed
    core += csrc.glob("pools/*.c")
    include = [f"-I{csrc}", f"-I{ROOT / 'tests' / 'c'}"]
    subprocess.run([compiler, *FLAGS, HERE / "floor.c", "-o", floor], check=True)

    def compile_one(source: Path) -> Path:
        target = directory / f"{source.stem}.o"
        command = [compiler, *FLAGS, *include, "-c", source, "-o", target]
        subprocess.run(command, check=True)
        return target

    with ThreadPoolExecutor(os.cpu_count()) as workers:
        objects = list(workers.map(compile_one, [HERE / "kernel_count.c", *sorted(core)]))
    subprocess.run([compiler, *FLAGS, *objects, "-o", kernel], check=True)
    return floor, kernel


def executed(program: Path, operations: int) -> int:
    """Instructions a whole run of `program` executes."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program]
    done = subprocess.run([*command, str(operations)], check=True, capture_output=True, text=True)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if found is None:
        raise RuntimeError(f"callgrind counted nothing: {done.stderr}")
    return int(found.group(1))


def per_operation(program: Path) -> float:
    """Instructions per operation of `program`, without its start-up."""
    return (executed(program, MANY) - executed(program, FEW)) / (MANY - FEW)


def core_path() -> str:
    """The built extension module."""
    sys.path.insert(0, str(ROOT))
    found = importlib.util.find_spec("poolbench._core")
    if found is None or found.origin is None:
        raise SystemExit("poolbench._core is not built")
    return found.origin


def output(command: list[str]) -> float:
    """The number that `command` prints."""
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def ratios(floor: Path) -> list[float]:
    """Kernel time over floor time, per pair of fresh processes on one CPU."""
    core = core_path()
    cpu = str(max(os.sched_getaffinity(0)))
    found = []
    for _ in range(PAIRS):
        floor_ns = output([str(floor), str(SECONDS), cpu])
        kernel_ns = output([sys.executable, "-I", "-S", "-c", KERNEL, core, str(SECONDS), cpu])
        print(f"  floor {floor_ns:.3f} ns  kernel {kernel_ns:.3f} ns  {kernel_ns / floor_ns:.3f}")
        found.append(kernel_ns / floor_ns)
    return found


def main() -> int:
    """Print both comparisons; 1 when the kernel costs too much."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--instructions", action="store_true", help="only count instructions")
    only_instructions = parser.parse_args().instructions
    if shutil.which("valgrind") is None:
        raise SystemExit("valgrind is not installed")
    with tempfile.TemporaryDirectory() as directory:
        floor, kernel = build(Path(directory))
        floor_cost, kernel_cost = per_operation(floor), per_operation(kernel)
        more = kernel_cost - floor_cost
        print(f"instructions per operation: floor {floor_cost:.2f}, kernel {kernel_cost:.2f}")
        print(f"difference {more:.2f}, at most {MOST_INSTRUCTIONS:.0f}")
        too_dear = more > MOST_INSTRUCTIONS
        if not only_instructions:
            ratio = statistics.median(ratios(floor))
            print(f"median ratio {ratio:.3f}, at most {MOST_RATIO}")
            too_dear = too_dear or ratio > MOST_RATIO
    return int(too_dear)


if __name__ == "__main__":
    sys.exit(main())
