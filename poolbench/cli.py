"""The command line: sweep, compare, crossover, plot, list, env.

Exit codes: 0 fine, 3 usage or bad input (one line on standard error), 4 some cells failed,
130 interrupted. The parsed arguments do not leave this file.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NoReturn

import poolbench
from poolbench import environment, report, spec
from poolbench.arm import PATIENCE_S
from poolbench.journal import Contents
from poolbench.plan import AxisValues, Plan, as_list, make_plan
from poolbench.runner import Interrupted, resumable, run
from poolbench.suite import Suite, load

FINE: Final = 0
USAGE: Final = 3
CELLS_FAILED: Final = 4
INTERRUPTED: Final = 130

DEFAULT_OUT: Final = "poolbench-out"
RESULTS: Final = "results.jsonl"
PICTURES: Final = ("scaling", "crossover")


class Parser(argparse.ArgumentParser):
    """Bad usage is one line and exit code 3."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"{self.prog}: {message}\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    args = _parser().parse_args(argv)
    command: Callable[[argparse.Namespace], int] = args.command
    try:
        code = command(args)
        sys.stdout.flush()  # here, so that a closed pipe is met inside this block
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return FINE
    except (ValueError, OSError, ImportError) as e:
        print(f"poolbench: {_one_line(e)}", file=sys.stderr)
        return USAGE


def _one_line(e: Exception) -> str:
    if isinstance(e, OSError) and e.filename is not None:
        return f"{e.filename}: {e.strerror}"
    return " ".join(str(e).split())


# ---- the commands --------------------------------------------------------------------------------


def _sweep(args: argparse.Namespace) -> int:
    plan = make_plan(
        pool=args.pool,
        workload=args.workload,
        pattern=args.pattern,
        threads=args.threads,
        params=_axes("--axis", [*args.axis, *(["checked=on"] if args.checked else [])]),
        compare=args.compare,
        preset=args.preset,
        blocks=args.blocks,
        rounds=args.rounds,
        seed=args.seed,
        affinity=args.affinity,
        baseline=args.baseline,
        control=args.control,
        cpus=sorted(os.sched_getaffinity(0)),
    )
    if not args.timeout > 0:
        raise ValueError(f"--timeout {args.timeout:g}: seconds, more than 0")
    print(report.plan_text(plan), flush=True)
    if args.dry_run:
        return FINE
    folder, before = _target(plan, args)
    try:
        suite = run(
            plan,
            save=folder / RESULTS,
            before=before,
            retry_failed=args.retry_failed,
            ledger=args.ledger,
            lock=args.lock,
            timeout=args.timeout,
            progress=False if args.quiet else None,
        )
    except Interrupted as stopped:
        done = sum(1 for _ in stopped.suite.rows())
        print(f"interrupted: {done} of {plan.replicates} replicates kept in {folder / RESULTS}")
        return INTERRUPTED
    print(f"\n{report.sweep_text(suite, args.baseline)}\n")
    _draw(suite, folder, args)
    return CELLS_FAILED if suite.failures else FINE


def _axes(option: str, given: Sequence[str]) -> dict[str, AxisValues]:
    found: dict[str, AxisValues] = {}
    for text in given:
        name, equals, values = text.partition("=")
        if not equals or not name or not values:
            raise ValueError(f"{option} {text}: write NAME=VALUE,VALUE,...")
        if name in found:
            raise ValueError(f"{option} {name} is given twice")
        found[name] = values
    return found


def _target(plan: Plan, args: argparse.Namespace) -> tuple[Path, Contents | None]:
    """The folder that results go to, and what it already holds of this plan.

    Nothing measured is overwritten unasked: an incomplete sweep of the same plan goes on, a
    complete one or another sweep's makes the default folder's name count up.
    """
    folder = Path(args.out or DEFAULT_OUT)
    number = 2
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / RESULTS
        if args.overwrite:
            path.write_bytes(b"")
        try:
            before = resumable(plan, path, True if args.resume else None)
        except (FileExistsError, ValueError):
            if args.out or args.resume:
                raise
            folder = Path(f"{DEFAULT_OUT}-{number}")
            number += 1
            continue
        path.touch()  # fails now rather than after the first block
        return folder, before


def _draw(suite: Suite, folder: Path, args: argparse.Namespace) -> None:
    """Write the pictures that the swept axes allow, and say what was written."""
    written = [folder / RESULTS]
    for name, part in _drawable(suite) if args.pictures else ():
        for kind in PICTURES:
            if kind == "scaling" or part.compare(args.baseline):
                written.append(folder / f"{kind}{name}.png")
                _save_picture(part, kind, written[-1], args.baseline)
    print("wrote " + ", ".join(str(path) for path in written))


def _drawable(suite: Suite) -> Iterator[tuple[str, Suite]]:
    """Parts of a suite that make one picture, each with what its file name ends in.

    Workloads are panels and threads the x axis; every further axis that varies makes pictures of
    its own. Nothing is drawn where the number of threads does not vary.
    """
    cells = [g.cell(label) for g in suite.groups.values() for label in g.arms]
    values = {axis: list(dict.fromkeys(c.get(axis, "") for c in cells)) for axis in suite.axes}
    compared = {g.compare for g in suite.groups.values()}
    if len(values["threads"]) < 2 or "threads" in compared:
        return
    split = [
        a for a in values if len(values[a]) > 1 and a not in ("workload", "threads", *compared)
    ]
    for at in itertools.product(*(values[axis] for axis in split)):
        name = "".join(f"-{re.sub(r'[^A-Za-z0-9.]+', '_', value).strip('_')}" for value in at)
        yield name, suite.select(**dict(zip(split, at, strict=True))) if split else suite


def _save_picture(suite: Suite, kind: str, path: Path, baseline: str | None) -> None:
    from poolbench import plots

    options = {"baseline": baseline} if kind == "crossover" and baseline else {}
    plots.grid(suite, kind, **options).savefig(path, dpi=150)


def _compare(args: argparse.Namespace) -> int:
    found = load(args.file).compare(args.baseline, level=args.level, margin=args.margin)
    for comparison in found:
        print(comparison)
    if not found:
        raise ValueError(f"{args.file}: no group has two arms to compare")
    return FINE


def _crossover(args: argparse.Namespace) -> int:
    found = load(args.file).crossover(
        pool=args.pool,
        baseline=args.baseline,
        along=args.along,
        level=args.level,
        margin=args.margin,
    )
    for crossover in found:
        print(crossover)
    if not found:
        raise ValueError(f"{args.file}: no group has two arms to compare")
    return FINE


def _plot(args: argparse.Namespace) -> int:
    suite = load(args.file)
    at = {name: as_list(values) for name, values in _axes("--at", args.at).items()}
    path = Path(args.output or f"{args.kind}.png")
    _save_picture(suite.select(**at) if at else suite, args.kind, path, args.baseline)
    print(f"wrote {path}")
    return FINE


def _list(args: argparse.Namespace) -> int:
    known = {name: entry for kind in spec.KINDS for name, entry in spec.registry()[kind].items()}
    if args.name is None:
        print("\n\n".join(report.list_text(kind) for kind in spec.KINDS))
        return FINE
    if args.name not in known:
        raise ValueError(f"unknown name '{args.name}'; {spec.choices_text(args.name, known)}")
    print(report.entry_text(known[args.name]))
    return FINE


def _env(args: argparse.Namespace) -> int:
    found = environment.capture()
    print(json.dumps(found, indent=2) if args.json else report.environment_text(found))
    return FINE


# ---- the arguments -------------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="poolbench", description=(poolbench.__doc__ or "").splitlines()[0])
    parser.add_argument("--version", action="version", version=poolbench.__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=Parser)
    _add_sweep(commands.add_parser("sweep", help="measure a grid of cells and report"))
    _add_compare(commands.add_parser("compare", help="each arm of a results file, against one"))
    _add_crossover(commands.add_parser("crossover", help="where the winner changes along an axis"))
    _add_plot(commands.add_parser("plot", help="draw a results file"))
    listing = commands.add_parser("list", help="pools, workloads and patterns, with parameters")
    listing.add_argument("name", nargs="?", help="one of them, in full")
    listing.set_defaults(command=_list)
    env = commands.add_parser("env", help="this machine as a result file would record it")
    env.add_argument("--json", action="store_true", help="as JSON")
    env.set_defaults(command=_env)
    return parser


def _add_sweep(p: argparse.ArgumentParser) -> None:
    p.description = "Without arguments: the founding experiment, in two minutes or less."
    p.add_argument("--pool", default="fresh,thread_local,locked", help="list [%(default)s]")
    p.add_argument("--workload", default="bytes(size=1KiB),direct,rng", help="list [%(default)s]")
    p.add_argument("--pattern", default="churn", help="list [%(default)s]")
    p.add_argument("--threads", default="1,2,4,8,16", help="list [%(default)s]")
    p.add_argument("--axis", action="append", default=[], metavar="NAME=VALUES")
    p.add_argument("--compare", default="pool", metavar="AXIS", help="what the arms are [pool]")
    p.add_argument("--baseline", help="the arm to compare with [the first]")
    p.add_argument("--preset", default="quick", help="quick, standard or full [%(default)s]")
    p.add_argument("--blocks", type=int, help="replicates per cell, instead of the preset's")
    p.add_argument("--rounds", type=int, help="windows per replicate, instead of the preset's")
    p.add_argument("--seed", type=int, default=1, help="of order and placement [%(default)s]")
    p.add_argument("--affinity", default="spread", help="spread or none [%(default)s]")
    p.add_argument("--out", help=f"folder for results and pictures [{DEFAULT_OUT}]")
    there = p.add_mutually_exclusive_group()
    there.add_argument("--overwrite", action="store_true", help="replace results that are there")
    there.add_argument("--resume", action="store_true", help="go on with results that are there")
    p.add_argument("--retry-failed", action="store_true", help="measure failed blocks again")
    p.add_argument("--control", action="store_true", help="measure the noise floor as well")
    p.add_argument("--checked", action="store_true", help="fail on wrong hand-outs and releases")
    p.add_argument("--no-ledger", dest="ledger", action="store_false", help="count nothing")
    p.add_argument("--no-lock", dest="lock", action="store_false", help="beside another sweep")
    p.add_argument("--timeout", type=float, default=PATIENCE_S, help="of a worker [%(default)g s]")
    p.add_argument("--no-pictures", dest="pictures", action="store_false", help="draw nothing")
    p.add_argument("--dry-run", action="store_true", help="print size and time, then stop")
    p.add_argument("--quiet", action="store_true", help="no progress bar")
    p.set_defaults(command=_sweep)


def _add_level(p: argparse.ArgumentParser) -> None:
    p.add_argument("file", help="results.jsonl of a sweep")
    p.add_argument("--baseline", help="the arm to compare with [the first]")
    p.add_argument("--level", type=float, default=0.999, help="of intervals [%(default)s]")
    p.add_argument("--margin", type=float, default=0.02, help="of equivalence [%(default)s]")


def _add_compare(p: argparse.ArgumentParser) -> None:
    _add_level(p)
    p.set_defaults(command=_compare)


def _add_crossover(p: argparse.ArgumentParser) -> None:
    _add_level(p)
    p.add_argument("--pool", help="the arm [all]")
    p.add_argument("--along", default="threads", metavar="AXIS", help="[%(default)s]")
    p.set_defaults(command=_crossover)


def _add_plot(p: argparse.ArgumentParser) -> None:
    p.add_argument("file", help="results.jsonl of a sweep")
    p.add_argument("--kind", default="scaling", choices=PICTURES, help="[%(default)s]")
    p.add_argument("--baseline", help="the arm to compare with [the first]")
    p.add_argument("--at", action="append", default=[], metavar="AXIS=VALUES", help="only these")
    p.add_argument("-o", "--output", help="picture file [KIND.png]")
    p.set_defaults(command=_plot)
