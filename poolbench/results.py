"""The shapes of what was measured and of what may be said about it.

Raw: `Window`, `Replicate`, `GroupInfo`, as the results file keeps them. Derived, by `suite.py`:
`Estimate`, `Measurement`, `Comparison`, `Crossover`, and the listings that show them as tables.
Nothing here measures, draws or prints.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from poolbench.outcomes import HITS, Outcomes

if TYPE_CHECKING:
    from poolbench.stats.compare import Verdict

CONTROL = " (control)"
"""What the label of a control arm ends in, after the baseline's."""

Row = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A measured quantity: its mean and the interval at `level` over `n` replicates.

    `low` and `high` are nan for n < 3: two values carry no interval worth printing.

    >>> e = Estimate(mean=2.0, low=1.5, high=2.5, n=12, level=0.999)
    >>> float(e), e.half_width
    (2.0, 0.25)
    """

    mean: float
    low: float
    high: float
    n: int
    level: float

    def __float__(self) -> float:
        return self.mean

    @property
    def half_width(self) -> float:
        """Half the interval, relative to the mean."""
        return (self.high - self.low) / 2 / self.mean

    def __str__(self) -> str:
        return f"{self.mean:.4g} [{self.low:.4g}, {self.high:.4g}]"


class Listing(list[T], Generic[T]):
    """A list that shows itself as a table, in a terminal and in a notebook."""

    def rows(self) -> list[Row]:
        """Return one dict per item, in the table's order."""
        raise NotImplementedError

    def __repr__(self) -> str:
        from poolbench import report

        return report.listing_text(self)

    def _repr_html_(self) -> str:
        from poolbench import report

        return report.listing_html(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One timed interval of one replicate."""

    start: float  # seconds, monotonic clock of that machine
    seconds: float
    order: int  # its place within the round
    operations: tuple[int, ...]  # completed, per thread
    cpu_seconds: float  # used by the process
    faults: int = 0  # page faults of the process, minor and major
    switches: int = 0  # context switches of the process, voluntary or not

    @property
    def rate(self) -> float:
        """Operations per second, all threads."""
        return sum(self.operations) / self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicate:
    """One arm in one fresh process: its windows, or the reason why there are none."""

    group: str
    block: int
    arm: str
    key: str  # hash of cell, code and must-match environment
    windows: tuple[Window, ...]
    status: str  # "ok" or "failed"
    reason: str
    account: Mapping[str, int]  # counts from open to close

    @property
    def ok(self) -> bool:
        return self.status == "ok" and len(self.windows) > 0

    @property
    def throughput(self) -> float:
        """Mean of the window rates, operations per second; nan if it failed."""
        return math.fsum(w.rate for w in self.windows) / len(self.windows) if self.ok else math.nan

    @property
    def thread_operations(self) -> list[int]:
        """Operations of each thread, over all windows."""
        return [sum(counts) for counts in zip(*(w.operations for w in self.windows), strict=True)]

    @property
    def cpu_ns(self) -> float:
        """CPU nanoseconds of the process per operation; nan if it failed."""
        operations = sum(sum(w.operations) for w in self.windows)
        cpu = math.fsum(w.cpu_seconds for w in self.windows)
        return cpu * 1e9 / operations if self.ok and operations else math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupInfo:
    """A group as its file describes it: coordinates, and the arms' cells by label."""

    key: str
    at: Mapping[str, str]  # the group's coordinates
    compare: str  # the axis whose values the labels are
    arms: Mapping[str, str]  # label -> canonical text of the cell
    cpus: int
    control: str = ""  # the arm that is the baseline once more, or ""
    unsupported: Mapping[str, str] = field(default_factory=dict)  # label -> reason

    def cell(self, label: str) -> dict[str, str]:
        """Coordinates of one arm: each axis with its text, the always present axes first."""
        found = {**self.at, self.compare: label}
        first = ("workload", "pool", "pattern", "threads")
        return {name: found[name] for name in (*first, *found) if name in found}


OWNERS = ("pool", "workload", "harness")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """What one cell did, counted in an untimed pass of its own.

    `counts` are those of the steady pass, `account` those from open to close; both by name, as in
    ``steady_pool_allocations`` or ``setup_workload_bytes``. Bytes are as requested;
    `retained_bytes` and `peak_bytes` as the allocator rounds them.
    """

    group: str
    arm: str
    key: str
    status: str  # "ok" or "failed"
    reason: str
    counts: Mapping[str, int]
    account: Mapping[str, int]

    @property
    def ok(self) -> bool:
        return self.status == "ok" and self.counts.get("operations", 0) > 0

    def steady(self, what: str, owner: str) -> float:
        """Allocations or bytes per operation in steady state, of pool, workload or harness."""
        return self.counts.get(f"steady_{owner}_{what}", 0) / self.counts["operations"]

    def setup(self, what: str, owner: str) -> int:
        """Allocations or bytes of opening the pool and attaching all threads."""
        return self.account.get(f"setup_{owner}_{what}", 0)

    @property
    def allocations_per_op(self) -> float:
        """Allocations of pool and workload per operation."""
        return self.steady("allocations", "pool") + self.steady("allocations", "workload")

    @property
    def bytes_per_op(self) -> float:
        """Bytes requested by pool and workload per operation."""
        return self.steady("bytes", "pool") + self.steady("bytes", "workload")

    @property
    def hit_rate(self) -> float:
        """Acquires served without constructing, of all that got or wanted an object."""
        hits = sum(self.counts.get(name, 0) for name in HITS)
        missed = sum(self.counts.get(name, 0) for name in ("misses", "failed", "timed_out"))
        return hits / (hits + missed) if hits + missed else math.nan

    @property
    def retained_bytes(self) -> int:
        """What the pool and its idle objects hold when nothing is borrowed."""
        return self.account.get("retained_bytes", 0)

    @property
    def peak_bytes(self) -> int:
        """The most that the pool and all objects held at once."""
        return self.account.get("peak_bytes", 0)

    @property
    def setup_allocations(self) -> int:
        return self.setup("allocations", "pool") + self.setup("allocations", "workload")

    @property
    def setup_bytes(self) -> int:
        return self.setup("bytes", "pool") + self.setup("bytes", "workload")

    def row(self) -> Row:
        """The columns that every table of cells carries."""
        return {
            "allocations_per_op": self.allocations_per_op,
            "bytes_per_op": self.bytes_per_op,
            "hit_rate": self.hit_rate,
            "setup_allocations": self.setup_allocations,
            "setup_bytes": self.setup_bytes,
            "peak_bytes": self.peak_bytes,
            "retained_bytes": self.retained_bytes,
        }


def no_ledger() -> Row:
    """The same columns where nothing was counted."""
    return dict.fromkeys(EMPTY_LEDGER.row(), math.nan)


EMPTY_LEDGER = Ledger(
    group="", arm="", key="", status="failed", reason="", counts={"operations": 1}, account={}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One cell: `throughput` in operations/s of all threads, `thread_ns`, `cpu_ns` per operation.

    `cell` maps each axis to its text; `account` holds the counts of all replicates together;
    `ledger` what an untimed pass counted, or None. Faults and switches are those of the windows.
    `share` is the slowest thread's operations over the fastest's, `jain` Jain's index: 1 is fair.
    """

    cell: Mapping[str, str]
    throughput: Estimate
    thread_ns: Estimate
    cpu_ns: Estimate
    jmh_error: float  # half-width as JMH would print it, operations/s; not to be relied on
    account: Mapping[str, int]
    ledger: Ledger | None
    share: Estimate
    jain: Estimate
    faults_per_op: float
    switches_per_op: float
    failures: tuple[str, ...]
    warnings: tuple[str, ...]
    oversubscribed: bool

    @property
    def threads(self) -> int:
        return int(self.cell["threads"])

    @property
    def outcomes(self) -> Outcomes:
        """What acquires and releases came to, over all replicates, warm-up included."""
        return Outcomes.of(self.cell["pool"].removesuffix(CONTROL), self.account)

    @property
    def longest_wait_ns(self) -> int:
        """The longest that any thread of any replicate waited for a lock or for an object."""
        return self.account.get("longest_wait_ns", 0)

    def __str__(self) -> str:
        from poolbench import report

        return report.measurement_text(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """An arm against the baseline of its group: ratio of throughputs, and the verdict."""

    at: Mapping[str, str]
    compare: str  # the axis whose values the two labels are
    arm: str
    baseline: str
    ratio: Estimate
    verdict: Verdict  # seen from the arm
    because: str  # why it is not resolved, where there is more to say than the interval
    smallest_visible: float  # the smallest relative effect seen with power 0.9
    fragile: bool | None  # the sign test says otherwise; None: too few blocks to check
    between: float  # spread between blocks, in log
    within: float  # what rounds contribute to it, in log
    look: int
    floor: float  # noise floor of this cell: relative effect its A/A pair reached; nan: no control
    oversubscribed: bool
    affinity: str  # spread or none

    @property
    def is_control(self) -> bool:
        """Whether the arm is the baseline once more: an A/A pair."""
        return self.arm == self.baseline + CONTROL

    @property
    def mean_log_ratio(self) -> float:
        return math.log(self.ratio.mean) if self.ratio.mean > 0 else math.nan

    def __str__(self) -> str:
        from poolbench import report

        return report.comparison_text(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossover:
    """Where, along one axis, the faster of two arms changes.

    `low` and `high` are the neighbouring levels won by one and by the other, `estimate` lies
    between; all nan unless `status` is "crosses". `str()` is a sentence.
    """

    at: Mapping[str, str]
    along: str
    arm: str
    baseline: str
    status: str
    low: float
    high: float
    estimate: float
    rising: bool  # the arm wins above
    brackets: tuple[tuple[float, float, float], ...]  # (low, high, estimate) of every change
    cpus: int
    levels: tuple[tuple[float, Verdict], ...] = ()  # the verdict at each level, by rising level

    def __str__(self) -> str:
        from poolbench import report

        return report.crossover_text(self)


class Measurements(Listing[Measurement]):
    """One `Measurement` per cell."""

    def rows(self) -> list[Row]:
        return [
            {
                **typed(m.cell),
                "n": m.throughput.n,
                **_spread("throughput", m.throughput),
                **_spread("thread_ns", m.thread_ns),
                **_spread("cpu_ns", m.cpu_ns),
                "jmh_error": m.jmh_error,
                **_spread("share", m.share),
                **_spread("jain", m.jain),
                **(m.ledger.row() if m.ledger and m.ledger.ok else no_ledger()),
                **m.outcomes.row(),
                "longest_wait_ns": m.longest_wait_ns,
                "faults_per_op": m.faults_per_op,
                "switches_per_op": m.switches_per_op,
                "peak_rss": m.account.get("peak_rss", 0),
                "oversubscribed": m.oversubscribed,
                "failed": len(m.failures),
                "warnings": "; ".join(m.warnings),
            }
            for m in self
        ]


class Comparisons(Listing[Comparison]):
    """One `Comparison` per arm and group."""

    def rows(self) -> list[Row]:
        return [
            {
                **typed({**c.at, c.compare: c.arm}),
                "baseline": c.baseline,
                "n": c.ratio.n,
                **_spread("ratio", c.ratio),
                "verdict": c.verdict,
                "because": c.because,
                "smallest_visible": c.smallest_visible,
                "fragile": c.fragile,
                "between": c.between,
                "within": c.within,
                "floor": c.floor,
                "oversubscribed": c.oversubscribed,
            }
            for c in self
        ]


class Crossovers(Listing[Crossover]):
    """One `Crossover` per arm and remaining group."""

    def rows(self) -> list[Row]:
        return [
            {
                **c.at,
                "arm": c.arm,
                "baseline": c.baseline,
                "along": c.along,
                "status": c.status,
                "low": c.low,
                "high": c.high,
                "estimate": c.estimate,
                "sentence": str(c),
            }
            for c in self
        ]


def typed(cell: Mapping[str, str]) -> Row:
    """Coordinates as a row's columns: whole numbers become numbers."""
    return {name: int(text) if text.isdigit() else text for name, text in cell.items()}


def _spread(name: str, e: Estimate) -> Row:
    return {name: e.mean, f"{name}_low": e.low, f"{name}_high": e.high}
