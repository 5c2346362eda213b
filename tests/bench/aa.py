"""A against A: how often does a sweep see a difference where there is none?

Twenty sweeps of `fresh` and of `locked` against themselves at one thread (`control=True`), on the
machine as it is, and twenty with another process keeping one CPU busy. Prints every interval. Exit
status 1 if any is resolved beyond the equivalence margin: there is nothing to resolve.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

import poolbench as pb
from poolbench.suite import MARGIN

SWEEPS = int(os.environ.get("POOLBENCH_AA", "20"))
BUSY = "import os; os.sched_setaffinity(0, {%d})\nwhile True: pass"


@contextlib.contextmanager
def busy_cpu(*, wanted: bool) -> Iterator[None]:
    """Another process on the first CPU, always running."""
    if not wanted:
        yield
        return
    cpu = min(os.sched_getaffinity(0))
    other = subprocess.Popen([sys.executable, "-c", BUSY % cpu])
    try:
        yield
    finally:
        other.kill()
        other.wait()


def against_itself(pool: str, seed: int) -> pb.Comparison:
    suite = pb.sweep(
        pool=[pool],
        workload="bytes(size=1KiB)",
        threads=1,
        preset="standard",
        control=True,
        ledger=False,
        seed=seed,
        progress=False,
    )
    (found,) = suite.compare()
    return found


def resolved(c: pb.Comparison) -> bool:
    return c.verdict in ("wins", "loses") and max(c.ratio.mean, 1 / c.ratio.mean) > 1 + MARGIN


def main() -> int:
    wrong = 0
    for busy in (False, True):
        print("one CPU kept busy" if busy else "as it is", flush=True)
        with busy_cpu(wanted=busy):
            for seed in range(1, SWEEPS + 1):
                c = against_itself(("fresh", "locked")[seed % 2], seed)
                wrong += resolved(c)
                print(f"  {seed:2} {c.baseline:6} {c.ratio}x  {c.verdict}", flush=True)
    print(f"{2 * SWEEPS} comparisons of A with A: {wrong} resolved beyond the margin")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
