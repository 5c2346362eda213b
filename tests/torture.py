"""Kill sweeps at random moments and resume them until they are complete, many times over.

    python tests/torture.py [ROUNDS [SEED]]

After each SIGKILL: the workers are gone, the file begins with what it held before, every line but
the last is whole, and no finished block is lost. After each round: every arm of every block is
there exactly once, in the order it would have had without any of it. Ends with exit code 1 and one
line at the first that is not so.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from poolbench import journal

BLOCKS = 8
ARMS = 2
SWEEP = ["--pool", "fresh,locked", "--workload", "bytes", "--threads", "1"]
SWEEP += ["--blocks", str(BLOCKS), "--rounds", "1", "--quiet", "--no-pictures"]
PATIENCE_S = 5.0  # for workers to go; on a quiet machine it takes milliseconds
KILLS_MAX = 6  # in one round; then it may finish


class Broken(Exception):
    """What should hold does not."""


def check(holds: bool, what: str) -> None:
    if not holds:
        raise Broken(what)


def workers_of(pid: int) -> list[int]:
    """Worker processes that a sweep started, whether it still lives or not."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")[:-1]
        except OSError:
            continue  # it has ended meanwhile
        if words[-1:] == [b"%d" % pid] and any(w.endswith(b"worker.py") for w in words):
            found.append(int(name))
    return found


def seconds_until_gone(pid: int) -> float:
    start = time.monotonic()
    while workers_of(pid):
        check(time.monotonic() - start < PATIENCE_S, f"workers of {pid} live on")
        time.sleep(0.005)
    return time.monotonic() - start


def start(out: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "poolbench", "sweep", *SWEEP, "--out", str(out)]
    environ = {**os.environ, "POOLBENCH_LOCK": str(out.parent / "lock")}
    pipes: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env=environ, **pipes)


def blocks_in(data: bytes, path: Path) -> Counter[tuple[str, int, str]]:
    """How often each arm of each block is there; nothing in a file without a whole header."""
    path.write_bytes(data)
    try:
        replicates = journal.read(path).replicates
    except ValueError:
        return Counter()
    return Counter((r["group"], r["block"], r["arm"]) for r in replicates)


def orders_in(path: Path) -> dict[tuple[str, int], list[int]]:
    """The orders of the replicates that went well: a busy host may give a window no operation."""
    return {
        (r["arm"], r["block"]): [w[2] for w in r["windows"]]
        for r in journal.read(path).replicates
        if r["status"] == "ok"
    }


def whole(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def check_file(before: bytes, after: bytes, copy: Path) -> None:
    """What a kill may do to a file: leave it shorter than it would have become, and no more."""
    check(after.startswith(before), "the file does not begin with what it held")
    added = after[len(before) :].split(b"\n")
    if not before.endswith(b"\n"):
        added = added[1:]  # the rest of a line that was torn before, if anything was added
    check(all(map(whole, filter(None, added[:-1]))), "a line before the last is torn")
    lost = set(blocks_in(before, copy)) - set(blocks_in(after, copy))
    check(not lost, f"finished blocks are lost: {sorted(lost)}")


def one_round(folder: Path, rng: random.Random, seconds: float) -> tuple[int, float]:
    """Kill and resume one sweep until it is complete; kills, and the longest life of workers."""
    out, copy = folder / "out", folder / "copy.jsonl"
    results = out / "results.jsonl"
    longest = 0.0
    for kills in range(KILLS_MAX + 1):
        before = results.read_bytes() if results.exists() else b""
        with start(out) as process:
            try:
                delay = rng.uniform(0.0, seconds) if kills < KILLS_MAX else None
                _, told = process.communicate(timeout=delay)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.communicate()
                longest = max(longest, seconds_until_gone(process.pid))
                check_file(before, results.read_bytes() if results.exists() else b"", copy)
                continue
        if b"is complete" in told:  # killed after its last line, while it reported
            check(process.returncode == 3, f"exit code {process.returncode}")
        else:
            check(process.returncode in (0, 4), f"exit code {process.returncode}: {told.decode()}")
        check_file(before, results.read_bytes(), copy)
        return kills, longest
    raise Broken("a sweep nobody interrupts does not finish")


def check_complete(results: Path, orders: dict[tuple[str, int], list[int]]) -> None:
    found = blocks_in(results.read_bytes(), results.with_name("copy.jsonl"))
    check(len(found) == BLOCKS * ARMS, f"{len(found)} replicates instead of {BLOCKS * ARMS}")
    check(set(found.values()) == {1}, "a block is there twice")
    for key, order in orders_in(results).items():
        check(order == orders.get(key, order), "the order is not the one it would have been")
    ledgers = Counter(x["arm"] for x in journal.read(results).ledgers)
    check(ledgers == {"fresh": 1, "locked": 1}, f"ledgers: {dict(ledgers)}")


def main(rounds: int, seed: int) -> None:
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        whole_one = Path(name) / "whole" / "out"
        whole_one.parent.mkdir()
        began = time.monotonic()
        with start(whole_one) as process:
            _, told = process.communicate()
        seconds = time.monotonic() - began
        check(process.returncode in (0, 4), f"exit code {process.returncode}: {told.decode()}")
        orders = orders_in(whole_one / "results.jsonl")
        for number in range(rounds):
            folder = Path(name) / str(number)
            folder.mkdir()
            kills, longest = one_round(folder, rng, seconds)
            check_complete(folder / "out" / "results.jsonl", orders)
            print(f"round {number + 1}: {kills} kills, workers gone within {longest:.3f} s")


if __name__ == "__main__":
    given = [int(x) for x in sys.argv[1:]]
    try:
        main(*given, *(5, random.randrange(10**6))[len(given) :])
    except Broken as e:
        sys.exit(f"torture: {e}")
