"""poolbench's pools and public ones in one run, alternated on the same machine.

    python tests/bench/peers.py                                  all, at 1, 2, 4, 8 and 16 threads
    python tests/bench/peers.py --kinds stack,locked --threads 1,2 --processes 10
    python tests/bench/peers.py --small                          does everything work? a smoke test
    python tests/bench/peers.py --list

The peers are driven by small programs in `peers/`, each built if its package is there; their heads
say what is fair about each and what is not. The scenario is the same for all: same-thread churn of
1 KiB objects, at most 64 of them idle (see `peers/churn.h`).

One round runs every peer and every cell of ours once per number of threads, one after the other,
each in a fresh process, in random order. So ratios are of processes that ran within seconds of each
other. Nobody is pinned to a CPU: not every peer can be. Windows and lead-ins stretch when there are
more threads than CPUs. With the defaults it takes about ten minutes.

A figure is the median over the rounds, with the lowest and the highest: no interval is computed
from so few. A ratio is the median of the rounds' ratios, to the family's best peer at that number
of threads. Fast and unfair is one result, so the thread share stands beside each throughput.

Exit status: 0 fine, 1 a program does not build, 3 bad input, 4 a process failed, 130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

import poolbench as pb
from poolbench import _core, environment
from poolbench.arm import ArmFailed, LiveArm, Opening, open_line
from poolbench.figures import number, table
from poolbench.lock import host_lock
from poolbench.plan import WARM_S
from poolbench.spec import THREADS_MAX, Cell, choices_text, parse_spec, split_list, unsupported
from poolbench.stats.fairness import thread_share

ROOT: Final = Path(__file__).resolve().parent.parent.parent
SOURCES: Final = Path(__file__).resolve().with_suffix("")
NOT_BUILT, USAGE, FAILED, INTERRUPTED = 1, 3, 4, 130
PATIENCE_S: Final = 60.0  # beyond the expected, for one process
NATIVE_FLAGS: Final = ["-O2", "-g", "-pthread", "-Wall", "-Wextra", "-Wshadow"]

# ---- what there is -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One source below `peers/`, the kinds it offers, and the Debian package it needs."""

    source: str
    kinds: tuple[str, ...]
    package: str
    header: str = ""  # by which the package is recognised
    libraries: tuple[str, ...] = ()


PROGRAMS: Final = (
    Program(source="std_mutex.cpp", kinds=("std-mutex",), package="g++", header="mutex"),
    Program(source="ck.c", kinds=("ck-stack", "ck-ring"), package="libck-dev", header="ck_stack.h"),
    Program(
        source="boost.cpp",
        kinds=("boost-stack", "boost-queue", "boost-object-pool"),
        package="libboost-dev",
        header="boost/lockfree/stack.hpp",
    ),
    Program(
        source="tbb.cpp",
        kinds=("tbb-queue", "tbb-bounded"),
        package="libtbb-dev",
        header="oneapi/tbb/concurrent_queue.h",
        libraries=("-ltbb",),
    ),
    Program(
        source="go_pools.go",
        kinds=("go-mutex", "go-mutex-locked", "go-sync-pool", "go-sync-pool-locked"),
        package="golang",
    ),
    Program(
        source="JvmPools.java",
        kinds=("jvm-lock", "jvm-threadlocal"),
        package="default-jdk-headless",
    ),
    Program(source="crossbeam/main.rs", kinds=("crossbeam-queue",), package="cargo"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Implementations that do the same job. Of ours, those the build knows are measured."""

    name: str
    peers: tuple[str, ...]
    ours: tuple[str, ...]


FAMILIES: Final = (
    Family(
        name="locked",
        peers=("std-mutex", "go-mutex", "go-mutex-locked", "jvm-lock"),
        ours=(
            "locked(lock=pthread)",
            "locked(lock=parking)",
            "locked(lock=spin)",
            "locked(lock=ticket)",
            "locked(lock=mcs)",
            "blocking",
        ),
    ),
    Family(name="stack", peers=("ck-stack", "boost-stack"), ours=("treiber",)),
    Family(
        name="ring",
        peers=("ck-ring", "boost-queue", "tbb-queue", "tbb-bounded", "crossbeam-queue"),
        ours=("mpmc_ring", "slot_scan"),
    ),
    Family(
        name="thread-caching",
        peers=("go-sync-pool", "go-sync-pool-locked", "jvm-threadlocal"),
        ours=(
            "thread_local",
            "thread_cache",
            "magazine",
            "owner_inbox",
            "stealing",
            "bag",
            "sharded",
            "percpu",
        ),
    ),
    Family(name="memory", peers=("boost-object-pool",), ours=("slab",)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How much to measure, and of what."""

    threads: tuple[int, ...]
    processes: int
    milliseconds: float  # of one window, before stretching
    capacity: int
    seed: int

    def stretch(self, threads: int) -> float:
        """Threads per CPU, at least 1."""
        return max(1.0, threads / environment.cpus())

    def window_s(self, threads: int) -> float:
        return self.milliseconds / 1000 * self.stretch(threads)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One process: what each thread did in the window; `reason` is set when it failed.

    The counts are of the whole life of the process, lead-in included; None where nobody can know.
    """

    name: str
    threads: int
    round: int
    seconds: float = 0.0
    operations: tuple[int, ...] = ()
    total: int = 0
    constructed: int = 0
    destroyed: int | None = None
    idle: int | None = None
    reason: str = ""

    @property
    def rate(self) -> float:
        """Operations per second of all threads together."""
        return sum(self.operations) / self.seconds


# ---- building the peers --------------------------------------------------------------------------


class Missing(Exception):
    """A package that a peer needs is not installed; the text says what was looked for."""


class NotBuilt(Exception):
    """The package is there, but our program does not build; the text is the compiler's."""


def tool(name: str) -> str:
    """The path of a program, which must be installed."""
    found = shutil.which(name)
    if found is None:
        raise Missing(f"no {name}")
    return found


def compiled(command: Sequence[str | Path], directory: Path | None = None) -> None:
    """Run a compiler that must succeed."""
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NotBuilt(f"{Path(command[0]).name}: {done.stderr.strip()}")


def is_stale(target: Path, source: Path) -> bool:
    """Whether anything that `target` is made of is newer than it."""
    made_of = [source, source.with_name("Cargo.toml"), SOURCES / "churn.h", Path(__file__)]
    newest = max(path.stat().st_mtime for path in made_of if path.exists())
    return not target.exists() or target.stat().st_mtime < newest


def build_native(program: Program, source: Path, build: Path) -> list[str]:
    is_c = source.suffix == ".c"
    compiler = tool("gcc" if is_c else "g++")
    standard = ["-std=c11", "-D_GNU_SOURCE"] if is_c else ["-std=c++17"]
    probe = [compiler, "-x", "c" if is_c else "c++", *standard, "-E", "-"]
    text = f"#include <{program.header}>\n"
    if subprocess.run(probe, input=text, capture_output=True, text=True, check=False).returncode:
        raise Missing(f"no {program.header}")
    target = build / source.stem
    if is_stale(target, source):
        flags = [*standard, *NATIVE_FLAGS]
        compiled([compiler, *flags, source, "-o", target, *program.libraries])
    return [str(target)]


def build_go(_: Program, source: Path, build: Path) -> list[str]:
    go = tool("go")
    target = build / source.stem
    if is_stale(target, source):
        compiled([go, "build", "-o", target, source])
    return [str(target)]


def build_jvm(_: Program, source: Path, build: Path) -> list[str]:
    javac, java = tool("javac"), tool("java")
    if is_stale(build / f"{source.stem}.class", source):
        compiled([javac, "-d", build, source])
    return [java, "-cp", str(build), source.stem]


def build_cargo(_: Program, source: Path, build: Path) -> list[str]:
    """In a copy, for cargo writes beside its manifest. Only fetching the crate may fail."""
    cargo = tool("cargo")
    copy = build / source.parent.name
    target = copy / "target" / "release" / source.parent.name
    if is_stale(target, source):
        shutil.copytree(source.parent, copy, dirs_exist_ok=True)
        fetch = subprocess.run([cargo, "fetch", "-q"], cwd=copy, capture_output=True, check=False)
        if fetch.returncode != 0:
            raise Missing("its crates cannot be fetched")
        compiled([cargo, "build", "-q", "--release", "--offline"], copy)
        target.touch()  # cargo leaves it alone when only something else is newer
    return [str(target)]


BUILDERS: Final[dict[str, Callable[[Program, Path, Path], list[str]]]] = {
    ".c": build_native,
    ".cpp": build_native,
    ".go": build_go,
    ".java": build_jvm,
    ".rs": build_cargo,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Peers:
    """What was built: kind to command, source to version; and what is missing, in words."""

    commands: dict[str, list[str]]
    versions: dict[str, str]
    missing: list[str]


def build_peers(wanted: Sequence[str], build: Path) -> Peers:
    """Build every program that offers a wanted kind and whose package is there."""
    build.mkdir(parents=True, exist_ok=True)
    found = Peers(commands={}, versions={}, missing=[])
    for program in PROGRAMS:
        kinds = [kind for kind in program.kinds if kind in wanted]
        if not kinds:
            continue
        source = SOURCES / program.source
        try:
            command = BUILDERS[source.suffix](program, source, build)
        except Missing as e:
            found.missing.append(f"{', '.join(kinds)} ({e}: install {program.package})")
            continue
        found.commands.update(dict.fromkeys(kinds, command))
        said = subprocess.run([*command, "version"], capture_output=True, text=True, check=True)
        found.versions[program.source] = said.stdout.strip()
    return found


# ---- measuring -----------------------------------------------------------------------------------

Runner = Callable[[int, int], Measured]  # of one implementation: (threads, turn) -> one process


def peer_runner(kind: str, command: Sequence[str], settings: Settings) -> Runner:
    """Runs a peer's program once."""

    def run(threads: int, turn: int) -> Measured:
        window_s = settings.window_s(threads)
        arguments = [kind, str(threads), f"{window_s * 1000:g}", str(settings.capacity)]
        try:
            done = subprocess.run(
                [*command, *arguments],
                capture_output=True,
                text=True,
                check=False,
                timeout=PATIENCE_S + 10 * window_s,
            )
        except subprocess.TimeoutExpired as e:
            raise ArmFailed(f"did not end within {e.timeout:.0f} s") from None
        if done.returncode != 0:
            raise ArmFailed(f"exit code {done.returncode}: {' '.join(done.stderr.split())}")
        told = json.loads(done.stdout)
        return Measured(
            name=kind,
            threads=threads,
            round=turn,
            seconds=told["seconds"],
            operations=tuple(told["operations"]),
            **{name: told[name] for name in ("total", "constructed", "destroyed", "idle")},
        )

    return run


def our_cell(pool: str, threads: int, capacity: int) -> Cell:
    """The cell of ours that does what the peers do; ValueError if this build has no such pool."""
    spec = parse_spec("pool", pool)
    for bound in ("capacity", "cap"):
        if bound in dict(spec.params):
            spec = spec.with_param(bound, capacity)
    cell = Cell(
        pool=spec,
        workload=parse_spec("workload", "bytes(size=1KiB,zero=none)"),
        pattern=parse_spec("pattern", "churn"),
        threads=threads,
        affinity="none",
    )
    reason = unsupported(cell)
    if reason:
        raise ValueError(reason)
    return cell


def our_runner(pool: str, spin: int, settings: Settings) -> Runner:
    """Runs a cell of ours once: a fresh worker, its warm-up, and one window."""

    def run(threads: int, turn: int) -> Measured:
        seed = random.Random(f"{settings.seed}|{threads}|{turn}").getrandbits(63)
        memory = environment.available_memory()
        opening = Opening(seed=seed, spin=spin, cpus=(), memory=memory)
        live = LiveArm(patience=PATIENCE_S)
        try:
            live.send(open_line(our_cell(pool, threads, settings.capacity), opening))
            live.receive("ready")
            live.ask(f"warm {WARM_S * settings.stretch(threads)}", 20.0)
            window_s = settings.window_s(threads)
            _, ns, _, counts, _ = live.ask(f"window {window_s}", window_s)
            account = dict(word.split("=") for word in live.ask("close"))
            live.finish()
        finally:
            live.kill()
        return Measured(
            name=pool,
            threads=threads,
            round=turn,
            seconds=int(ns) / 1e9,
            operations=tuple(int(n) for n in counts.split(",")),
            total=int(account["operations"]),
            constructed=int(account["constructed"]),
            destroyed=int(account["destroyed"]),
            idle=int(account["idle"]),
        )

    return run


def attempt(name: str, run: Runner, threads: int, turn: int) -> Measured:
    """One process; whatever goes wrong with it is its result."""
    try:
        found = run(threads, turn)
    except (ArmFailed, OSError, ValueError, KeyError) as e:
        reason = " ".join(f"{type(e).__name__}: {e}".split())
        return Measured(name=name, threads=threads, round=turn, reason=reason)
    kept = None if found.destroyed is None or found.idle is None else found.destroyed + found.idle
    if kept is not None and kept != found.constructed:
        reason = f"objects not conserved: {found.constructed} constructed, {kept} accounted for"
        return Measured(name=name, threads=threads, round=turn, reason=reason)
    return found


def measure(runners: Mapping[str, Runner], settings: Settings) -> list[Measured]:
    """Round after round, so that slow drift of the host meets all alike; order is random."""
    rng = random.Random(settings.seed)
    found = []
    for turn in range(settings.processes):
        for threads in settings.threads:
            if sys.stderr.isatty():
                print(f"round {turn + 1}, {threads} threads", file=sys.stderr)
            for name in rng.sample(sorted(runners), len(runners)):
                found.append(attempt(name, runners[name], threads, turn))
    return found


# ---- tables --------------------------------------------------------------------------------------


class Results:
    """Everything measured, by implementation and threads."""

    def __init__(self, measured: Sequence[Measured]) -> None:
        self.failures = [m for m in measured if m.reason]
        self._of: dict[tuple[str, int], dict[int, Measured]] = {}
        for m in measured:
            if not m.reason:
                self._of.setdefault((m.name, m.threads), {})[m.round] = m

    def of(self, name: str, threads: int) -> dict[int, Measured]:
        """The processes that did not fail, by round."""
        return self._of.get((name, threads), {})

    def rate(self, name: str, threads: int) -> float:
        """Median over the rounds; nan without any."""
        rates = [m.rate for m in self.of(name, threads).values()]
        return statistics.median(rates) if rates else math.nan

    def best(self, names: Sequence[str], threads: int) -> str:
        """The fastest by its median, "" when none was measured."""
        known = [name for name in names if self.rate(name, threads) > 0]
        return max(known, key=lambda name: self.rate(name, threads), default="")

    def ratios(self, name: str, to: str, threads: int) -> list[float]:
        """Round by round; a peer that did nothing in its window has no ratio."""
        ours, theirs = self.of(name, threads), self.of(to, threads)
        shared = [n for n in ours if n in theirs and theirs[n].rate > 0]
        return [ours[n].rate / theirs[n].rate for n in shared]


def spread(values: Sequence[float], unit: str = "") -> str:
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{number(middle)}{unit} [{number(low)}-{number(high)}]"


def throughput_cell(found: Mapping[int, Measured]) -> str:
    """Median M operations/s with its spread, and the median thread share."""
    if not found:
        return "failed"
    rates = [m.rate / 1e6 for m in found.values()]
    shares = [s for m in found.values() if not math.isnan(s := thread_share(m.operations))]
    share = f"{statistics.median(shares):.2f}" if shares else "-"
    return f"{spread(rates)} {share}"


def ratio_cell(results: Results, name: str, peers: Sequence[str], threads: int) -> str:
    """The ratio to the best peer with its spread, and who that is."""
    best = results.best(peers, threads)
    ratios = results.ratios(name, best, threads)
    return f"{spread(ratios, 'x')} {best}" if ratios else "-"


def scenario(settings: Settings) -> str:
    return (
        f"same-thread churn of 1 KiB objects, at most {settings.capacity} idle; "
        f"{settings.processes} processes each, a window of {settings.milliseconds:g} ms, "
        f"seed {settings.seed}"
    )


def heads(settings: Settings) -> list[str]:
    return [f"{n}{'*' if n > environment.cpus() else ''}" for n in settings.threads]


def family_table(family: Family, results: Results, settings: Settings) -> str:
    """Throughputs of all, then the ratio of each of ours to the best peer."""
    names = [*family.peers, *family.ours]
    rows = [["threads", *heads(settings)]]
    for name in names:
        rows.append([name, *(throughput_cell(results.of(name, n)) for n in settings.threads)])
    title = f"{family.name}: M operations/s, median [lowest-highest], then thread share"
    parts = [title, table(rows)]
    if family.peers and family.ours:
        rows = [["ratio to the best peer", *heads(settings)]]
        for name in family.ours:
            cells = [ratio_cell(results, name, family.peers, n) for n in settings.threads]
            rows.append([name, *cells])
        parts += ["", table(rows)]
    return "\n".join(parts)


def constructing(results: Results, names: Sequence[str], settings: Settings) -> list[str]:
    """Who constructed in more than one operation of a hundred: less of a pool than the others."""
    said = []
    for name in dict.fromkeys(names):
        found = [m for n in settings.threads for m in results.of(name, n).values() if m.total > 0]
        part = max((m.constructed / m.total for m in found), default=0.0)
        if part > 0.01:
            said.append(f"{name} in up to {part:.0%} of its operations")
    return said


def where(versions: Mapping[str, str]) -> list[str]:
    """Machine, compilers and packages, a line each, and what makes the figures doubtful."""
    here = environment.capture()
    machine = f"{here.get('cpu_model', 'unknown')}, {here['cpus']} CPUs, {here['system']}"
    lines = [
        f"machine: {machine}, {here['libc']}",
        f"poolbench {pb.__version__}: {here['compiler']}, {here['flags']}",
        *(f"{source}: {version}" for source, version in versions.items()),
    ]
    return [*lines, *(f"warning: {text}" for text in environment.warnings(here))]


# ---- the command ---------------------------------------------------------------------------------


class Parser(argparse.ArgumentParser):
    """Bad usage is one line and exit status 3."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"{self.prog}: {message}\n")


def parser() -> Parser:
    made = Parser(description=(__doc__ or "").splitlines()[0], allow_abbrev=False)
    made.add_argument("--threads", help="numbers of threads [1,2,4,8,16; small: 2]")
    made.add_argument("--processes", help="fresh processes each [5; small: 2]")
    made.add_argument("--milliseconds", help="of one window [100; small: 20]")
    made.add_argument("--kinds", help="families, peers and pools of ours [all]")
    made.add_argument("--capacity", default="64", help="idle objects kept [64]")
    made.add_argument("--seed", default="1", help="of order and placement [1]")
    made.add_argument("--small", action="store_true", help="a smoke test: small defaults")
    made.add_argument("--build", type=Path, default=ROOT / "build" / "peers", help="built here")
    made.add_argument("--json", type=Path, metavar="FILE", help="write what was measured")
    made.add_argument("--list", action="store_true", help="families, and what is missing")
    return made


def whole(name: str, text: str, low: int, high: int) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text.strip()) or not low <= int(text) <= high:
        raise ValueError(f"{name}={text}: a whole number from {low} to {high}")
    return int(text)


def settings_of(args: argparse.Namespace) -> Settings:
    """Check the numbers; ValueError names the value and the range."""
    threads, processes, milliseconds = (
        ("2", "2", "20") if args.small else ("1,2,4,8,16", "5", "100")
    )
    listed = (args.threads or threads).split(",")
    return Settings(
        threads=tuple(dict.fromkeys(whole("threads", n, 1, THREADS_MAX) for n in listed)),
        processes=whole("processes", args.processes or processes, 1, 1000),
        milliseconds=whole("milliseconds", args.milliseconds or milliseconds, 1, 60_000),
        capacity=whole("capacity", args.capacity, 1, 65_535),  # where 16-bit indices end
        seed=whole("seed", args.seed, 0, 2**53),
    )


def selected(text: str | None) -> list[Family]:
    """The families with the wanted kinds in them; ValueError names an unknown one."""
    wanted = split_list(text) if text is not None else [family.name for family in FAMILIES]
    known = [name for f in FAMILIES for name in (f.name, *f.peers, *f.ours)]
    for name in wanted:
        if name not in known:
            choices = choices_text(name, dict.fromkeys(known))
            raise ValueError(f"unknown kind '{name}'; {choices}")
    found = [only(f, [*f.peers, *f.ours] if f.name in wanted else wanted) for f in FAMILIES]
    return [f for f in found if f.peers or f.ours]


def only(family: Family, names: Sequence[str]) -> Family:
    """The family without what is not among `names`."""
    return Family(
        name=family.name,
        peers=tuple(name for name in family.peers if name in names),
        ours=tuple(name for name in family.ours if name in names),
    )


def split_ours(families: Sequence[Family]) -> tuple[list[str], list[str]]:
    """Pools of ours that can be measured, and those that this build does not have."""
    here, absent = [], []
    for name in dict.fromkeys(name for family in families for name in family.ours):
        try:
            our_cell(name, 1, 1)
        except ValueError:
            absent.append(name)
        else:
            here.append(name)
    return here, absent


def listing(families: Sequence[Family], absent: Sequence[str]) -> str:
    """Every family: its peers with what brings them, and ours."""
    brings = {kind: program.package for program in PROGRAMS for kind in program.kinds}
    rows = [["family", "implementation", "comes with"]]
    for family in families:
        rows += [[family.name, kind, brings[kind]] for kind in family.peers]
        for name in family.ours:
            rows.append([family.name, name, "not in this build" if name in absent else "poolbench"])
    return table(rows)


def report(families: Sequence[Family], results: Results, settings: Settings) -> None:
    for family in families:
        print(family_table(family, results, settings), end="\n\n")
    if any(n > environment.cpus() for n in settings.threads):
        print("* more threads than CPUs")
    names = [name for family in families for name in (*family.peers, *family.ours)]
    if said := constructing(results, names, settings):
        print(f"constructed: {', '.join(said)}; all others in less than 1%")
    for m in results.failures:
        print(f"failed: {m.name}, {m.threads} threads, round {m.round + 1}: {m.reason}")


def write(path: Path, settings: Settings, peers: Peers, measured: Sequence[Measured]) -> None:
    record: dict[str, Any] = {
        "format": 1,
        "environment": environment.capture(),
        "versions": peers.versions,
        "missing": peers.missing,
        "settings": asdict(settings),
        "measured": [asdict(m) for m in measured],
    }
    path.write_text(json.dumps(record, indent=1) + "\n")


def run(args: argparse.Namespace) -> int:
    settings, families = settings_of(args), selected(args.kinds)
    if args.json and not args.json.absolute().parent.is_dir():
        raise ValueError(f"--json {args.json}: no such folder")  # now, not after the last round
    ours, absent = split_ours(families)
    if args.list:
        print(listing(families, absent))
        return 0
    peers = build_peers([name for family in families for name in family.peers], args.build)
    for text in peers.missing:
        print(f"not here: {text}")
    if absent:
        print(f"not in this build: {', '.join(absent)}")
    families = [only(family, [*peers.commands, *ours]) for family in families]
    families = [family for family in families if family.peers or family.ours]
    with host_lock():
        spin, _ = _core.calibrate()
        runners = {kind: peer_runner(kind, c, settings) for kind, c in peers.commands.items()}
        runners |= {name: our_runner(name, spin, settings) for name in ours}
        measured = measure(runners, settings)
    results = Results(measured)
    print(f"{scenario(settings)}\n")
    report(families, results, settings)
    print("\n".join(where(peers.versions)))
    if args.json:
        write(args.json, settings, peers, measured)
    return FAILED if results.failures else 0


def main() -> int:
    made = parser()
    try:
        return run(made.parse_args())
    except KeyboardInterrupt:
        return INTERRUPTED
    except NotBuilt as e:
        print(f"{made.prog}: {e}", file=sys.stderr)
        return NOT_BUILT
    except (ValueError, OSError) as e:
        print(f"{made.prog}: {' '.join(str(e).split())}", file=sys.stderr)
        return USAGE


if __name__ == "__main__":
    sys.exit(main())
