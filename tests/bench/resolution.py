"""How sharp is a ratio after six seconds? Alternated live processes against one after the other.

Runs `fresh` against `locked` on 1 KiB blocks at one thread, preset standard, five times both ways:
once as `poolbench sweep` does, once with each process measured from start to end before the next
begins, with as many processes and windows. Prints half-widths of the 99.9 % interval of the ratio,
seconds, and the advantage. Exit status 1 if the targets are missed: at most 2.5 % within 6 s, and a
median advantage of at least 1.5. Run it on a quiet machine.
"""

from __future__ import annotations

import os
import random
import statistics
import sys
import time

import numpy as np

from poolbench import _core, environment
from poolbench.arm import LiveArm, Opening, open_line
from poolbench.block import window_seconds
from poolbench.plan import PRESETS, WARM_S, Arm, Plan, make_plan
from poolbench.runner import run
from poolbench.stats.compare import compare

REPETITIONS = 5
HALF_WIDTH = 0.025
SECONDS = 6.0
ADVANTAGE = 1.5


def half_width(low: float, mean: float, high: float) -> float:
    return (high - low) / 2 / mean


def alternated(plan: Plan) -> tuple[float, float]:
    """(half-width, seconds) of the sweep as users run it."""
    start = time.monotonic()
    (found,) = run(plan, ledger=False, progress=False).compare()
    took = time.monotonic() - start
    return half_width(found.ratio.low, found.ratio.mean, found.ratio.high), took


def one_process(plan: Plan, arm: Arm, seed: int, spin: int, cpus: tuple[int, ...]) -> float:
    """Mean rate of one arm, measured in one go."""
    live = LiveArm()
    memory = environment.available_memory()
    live.send(open_line(arm.cell, Opening(seed=seed, spin=spin, cpus=cpus, memory=memory)))
    live.receive("ready")
    rate = float(live.ask(f"warm {WARM_S}", 20.0)[0])
    seconds = window_seconds(arm.cell, rate, 1.0)
    rates = []
    for _ in range(plan.rounds):
        _, ns, _, counts, _ = live.ask(f"window {seconds}", seconds)
        rates.append(sum(map(int, counts.split(","))) / int(ns))
    live.ask("close")
    live.finish()
    return float(np.mean(rates))


def one_after_the_other(plan: Plan) -> tuple[float, float]:
    """(half-width, seconds) with the same processes and windows, but no alternation."""
    start = time.monotonic()
    spin, _ = _core.calibrate()
    rng = random.Random(plan.seed)
    (group,) = plan.groups
    ratios = []
    for block in range(plan.blocks):
        first = rng.randrange(len(plan.cpus))
        cpus = plan.cpus[first:] + plan.cpus[:first]
        seed = plan.block_seed(group, block)
        rates = {
            arm.label: one_process(plan, arm, seed, spin, cpus)
            for arm in rng.sample(group.arms, len(group.arms))
        }
        base, other = (rates[arm.label] for arm in group.arms)
        ratios.append(np.log(other / base))
    found = compare(ratios)
    return half_width(found.low, found.mean, found.high), time.monotonic() - start


def main() -> int:
    print("fresh against locked, bytes(size=1KiB), 1 thread, preset standard: 99.9 % half-widths")
    print(f"{PRESETS['standard']}")
    print("repetition  alternated       one after the other  advantage")
    widths, advantages, times = [], [], []
    for i in range(REPETITIONS):
        plan = make_plan(
            pool=["fresh", "locked"],
            workload="bytes(size=1KiB)",
            preset="standard",
            seed=i + 1,
            cpus=sorted(os.sched_getaffinity(0)),
        )
        (a, took), (b, other) = alternated(plan), one_after_the_other(plan)
        widths.append(a)
        times.append(took)
        advantages.append(b / a)
        print(f"{i + 1:10}  {a:6.2%} in {took:.1f} s  {b:6.2%} in {other:.1f} s       {b / a:.2f}x")
    width, advantage, took = map(statistics.median, (widths, advantages, times))
    print(f"median      {width:6.2%} in {took:.1f} s                       {advantage:.2f}x")
    return int(width > HALF_WIDTH or advantage < ADVANTAGE or took > SECONDS)


if __name__ == "__main__":
    sys.exit(main())
