"""A set of groups and their replicates, with everything that can be computed from them.

Fresh from a sweep or loaded from a file; every number is computed from the raw windows on demand.
"""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from poolbench import journal
from poolbench.measurement import measured
from poolbench.records import (
    groups_of,
    ledger_of,
    ledger_record,
    replicate_of,
    replicate_record,
)
from poolbench.results import (
    CONTROL,
    Comparison,
    Comparisons,
    Crossover,
    Crossovers,
    Estimate,
    GroupInfo,
    Ledger,
    Measurements,
    Replicate,
    Row,
    typed,
)
from poolbench.spec import KINDS, parse_spec

if TYPE_CHECKING:
    import pandas

    from poolbench.stats.compare import Ratio, Verdict
    from poolbench.stats.crossover import Crossing

LEVEL = 0.999
MARGIN = 0.02
RowLevel = Literal["replicate", "cell", "window"]


class Suite:
    """Groups and their replicates, with everything that can be computed from them."""

    def __init__(
        self,
        groups: Mapping[str, GroupInfo],
        replicates: Iterable[Replicate],
        headers: Sequence[Mapping[str, Any]],
        *,
        ledgers: Iterable[Ledger] = (),
        notes: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self.groups = dict(groups)
        self.headers = list(headers)
        self.notes = list(notes)
        # A block measured again (after a failure) replaces what it was.
        self._of: dict[tuple[str, str], dict[int, Replicate]] = {}
        for r in replicates:
            if r.group in self.groups and r.arm in self.groups[r.group].arms:
                self._of.setdefault((r.group, r.arm), {})[r.block] = r
        self._ledgers = {(x.group, x.arm): x for x in ledgers if x.group in self.groups}

    @classmethod
    def from_contents(cls, contents: journal.Contents) -> Suite:
        """Build a suite from what a results file holds; malformed records are left out."""
        groups = {g.key: g for h in contents.headers for g in groups_of(h)}
        replicates = [r for record in contents.replicates if (r := replicate_of(record))]
        ledgers = [x for record in contents.ledgers if (x := ledger_of(record))]
        return cls(groups, replicates, contents.headers, ledgers=ledgers, notes=contents.notes)

    # ---- what there is ---------------------------------------------------------------------------

    @property
    def environment(self) -> Mapping[str, Any]:
        found = self.headers[-1].get("environment") if self.headers else None
        return found if isinstance(found, Mapping) else {}

    @property
    def axes(self) -> list[str]:
        """Every axis, the always present ones first."""
        names = dict.fromkeys(["workload", "pool", "pattern", "threads"])
        for group in self.groups.values():
            names.update(dict.fromkeys([*group.at, group.compare]))
        return list(names)

    def replicates(self, group: str, arm: str) -> list[Replicate]:
        return list(self._of.get((group, arm), {}).values())

    def ledger(self, group: str, arm: str) -> Ledger | None:
        """What the untimed pass of a cell counted, if there was one."""
        return self._ledgers.get((group, arm))

    @property
    def failures(self) -> list[Replicate | Ledger]:
        """Replicates and ledger passes that failed."""
        replicates = [r for found in self._of.values() for r in found.values() if not r.ok]
        return [*replicates, *(x for x in self._ledgers.values() if not x.ok)]

    def __repr__(self) -> str:
        from poolbench import report

        return report.suite_text(self)

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()

    def select(self, **at: Any) -> Suite:
        """Return the part of the suite at these axis values; each may be a list.

        >>> suite.select(workload="bytes", threads=[1, 2])  # doctest: +SKIP

        Raises ValueError naming the axis or value that does not occur.
        """
        wanted = {name: self._texts(name, value) for name, value in at.items()}
        groups = {}
        for key, group in self.groups.items():
            arms = {
                label: cell
                for label, cell in group.arms.items()
                if all(group.cell(label)[name] in texts for name, texts in wanted.items())
            }
            if arms:
                groups[key] = _with_arms(group, arms)
        found = [r for (g, a), rs in self._of.items() if g in groups for r in rs.values()]
        headers = [_only(header, groups) for header in self.headers]
        return Suite(groups, found, headers, ledgers=self._ledgers.values(), notes=self.notes)

    def _texts(self, name: str, value: Any) -> set[str]:
        known = list(
            dict.fromkeys(
                g.cell(label).get(name, "") for g in self.groups.values() for label in g.arms
            )
        )
        if name not in self.axes:
            raise ValueError(f"unknown axis '{name}'; choose from {', '.join(self.axes)}")
        values = list(value) if isinstance(value, list | tuple | set) else [value]
        texts = {_canonical(name, str(v)) for v in values}
        missing = sorted(texts - set(known))
        if missing:
            raise ValueError(
                f"no {name} '{missing[0]}' in this suite; choose from {', '.join(known)}"
            )
        return texts

    # ---- what may be said ------------------------------------------------------------------------

    def summary(self, *, level: float = LEVEL) -> Measurements:
        """Return one `Measurement` per cell, with intervals at `level`."""
        return Measurements(
            measured(
                group,
                label,
                self.replicates(group.key, label),
                self.ledger(group.key, label),
                level,
            )
            for group in self.groups.values()
            for label in group.arms
        )

    def compare(
        self, baseline: str | None = None, *, level: float = LEVEL, margin: float = MARGIN
    ) -> Comparisons:
        """Return every other arm against `baseline`, per group; by default the first arm.

        Raises ValueError when a group has no such arm. Source: paired log-ratios over blocks, see
        `poolbench.stats.compare`.
        """
        found = Comparisons()
        for group in self.groups.values():
            base = _baseline(group, baseline)
            if base not in group.arms:
                continue
            floor = self._floor(group, base, level)
            found.extend(
                self._compare(group, label, base, level=level, margin=margin, floor=floor)
                for label in group.arms
                if label != base
            )
        return found

    def _floor(self, group: GroupInfo, base: str, level: float) -> float:
        """The relative effect that the A/A pair of this cell reached; nan without a control."""
        from poolbench.stats import compare as stats

        if group.control not in group.arms or group.control != base + CONTROL:
            return math.nan
        arm, baseline = self._pairs(group, group.control, base)
        ratio = stats.compare(stats.log_ratios(arm, baseline), level=level) if arm else None
        return max(ratio.high, 1 / ratio.low) - 1 if ratio and ratio.n >= 3 else math.nan

    def crossover(
        self,
        *,
        pool: str | None = None,
        baseline: str | None = None,
        along: str = "threads",
        level: float = LEVEL,
        margin: float = MARGIN,
    ) -> Crossovers:
        """Return where `pool` and `baseline` change places along an axis, per remaining group.

        `pool` is the label of an arm (by default every arm but the baseline); `along` must be a
        numeric axis. Raises ValueError naming what does not occur.
        """
        from poolbench.stats.crossover import Level, find_crossing

        lines: dict[tuple[tuple[str, str], ...], list[tuple[float, Comparison]]] = {}
        wanted = None if pool is None else _canonical("pool", pool)
        for c in self.compare(baseline, level=level, margin=margin):
            if c.is_control or (wanted is not None and c.arm not in (wanted, pool)):
                continue
            rest = tuple((k, v) for k, v in c.at.items() if k != along)
            lines.setdefault((*rest, ("", c.arm)), []).append((_level(c, along), c))
        if not lines and pool is not None:
            raise ValueError(
                f"no arm '{pool}' in this suite; choose from {', '.join(self._labels())}"
            )
        found = Crossovers()
        for comparisons in lines.values():
            levels = [
                Level(x=x, verdict=c.verdict, mean_log_ratio=c.mean_log_ratio)
                for x, c in comparisons
            ]
            crossing = find_crossing(levels)
            verdicts = tuple(sorted((level.x, level.verdict) for level in levels))
            found.append(_crossover(comparisons[0][1], along, crossing, verdicts, self._cpus()))
        return found

    def _labels(self) -> list[str]:
        return list(dict.fromkeys(label for g in self.groups.values() for label in g.arms))

    def _cpus(self) -> int:
        return max((g.cpus for g in self.groups.values()), default=1)

    def _compare(
        self, group: GroupInfo, label: str, base: str, *, level: float, margin: float, floor: float
    ) -> Comparison:
        from poolbench.stats import compare as stats

        arm, baseline = self._pairs(group, label, base)
        if arm:
            d = stats.log_ratios(arm, baseline)
            within = stats.within_spread(arm, baseline)
            ratio = stats.compare(d, within=within, level=level, margin=margin)
            because = _modes_of(d) or (_below(ratio, floor) if label != group.control else "")
        else:
            ratio, because = stats.compare([], level=level, margin=margin), "no block of both arms"
        cell = {k: v for k, v in group.cell(label).items() if k != group.compare}
        return _comparison(group, cell, (label, base), ratio, because=because, floor=floor)

    def _pairs(
        self, group: GroupInfo, label: str, base: str
    ) -> tuple[list[list[float]], list[list[float]]]:
        """Window rates of both arms in the blocks that both finished."""
        others = {r.block: r for r in self.replicates(group.key, base) if r.ok}
        pairs = [
            (r, others[r.block])
            for r in self.replicates(group.key, label)
            if r.ok and r.block in others
        ]
        rates = [([w.rate for w in a.windows], [w.rate for w in b.windows]) for a, b in pairs]
        whole = [(a, b) for a, b in rates if len(a) == len(b) and min(*a, *b) > 0]
        return [a for a, _ in whole], [b for _, b in whole]

    # ---- tables and files ------------------------------------------------------------------------

    def rows(self, *, level: RowLevel = "replicate") -> list[Row]:
        """Return dicts: one per replicate, cell or window; the axes are columns.

        Throughputs are operations/s, `thread_ns` and `cpu_ns` nanoseconds per operation.
        """
        if level == "cell":
            return self.summary().rows()
        if level not in ("replicate", "window"):
            raise ValueError(f"level={level}: choose from replicate, cell, window")
        found = []
        for group in self.groups.values():
            for label in group.arms:
                cell = typed(group.cell(label))
                for r in self.replicates(group.key, label):
                    found.extend(_replicate_rows(cell, r, windows=level == "window"))
        return found

    def to_pandas(self, *, level: RowLevel = "replicate") -> pandas.DataFrame:
        """Return `rows(level=level)` as a DataFrame; ImportError says how to get pandas."""
        try:
            import pandas
        except ImportError:
            raise ImportError("to_pandas needs pandas: pip install pandas") from None
        return pandas.DataFrame(self.rows(level=level))

    def to_csv(self, path: str | os.PathLike[str], *, level: RowLevel = "replicate") -> None:
        """Write `rows(level=level)` as a CSV file with a header line."""
        rows = self.rows(level=level)
        with open(path, "w", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(rows[0]) if rows else self.axes)
            writer.writeheader()
            writer.writerows(rows)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a results file, replacing it; `load` gives an equal suite back."""
        records: list[Mapping[str, Any]] = [*self.headers]
        blocks: dict[tuple[str, int], list[Replicate]] = {}
        for found in self._of.values():
            for r in found.values():
                blocks.setdefault((r.group, r.block), []).append(r)
        for (group, block), replicates in blocks.items():
            records.extend(replicate_record(r) for r in replicates)
            records.append({"kind": "block_end", "group": group, "block": block})
        with open(path, "wb") as file:
            ledgers = map(ledger_record, self._ledgers.values())
            file.write(journal.encode([*records, *ledgers, *self.notes]))


def load(path: str | os.PathLike[str]) -> Suite:
    """Load a results file; ValueError when it is not one, OSError when it cannot be read."""
    return Suite.from_contents(journal.read(path))


def _canonical(axis: str, text: str) -> str:
    """A value of an axis as suites label it; unknown names are left to the caller to miss."""
    if axis in KINDS:
        try:
            return str(parse_spec(axis, text))
        except ValueError:
            return text
    return text


def _baseline(group: GroupInfo, wanted: str | None) -> str:
    labels = [label for label in group.arms if label != group.control]
    if wanted is None:
        return group.control.removesuffix(CONTROL) or next(iter(labels), "")
    for text in (wanted, _canonical(group.compare, wanted)):
        if text in group.arms or text in group.unsupported:
            return text
    raise ValueError(f"no arm '{wanted}' to compare with; choose from {', '.join(labels)}")


def _below(ratio: Ratio, floor: float) -> str:
    """Why a win or loss does not stand out of the noise floor, or ""."""
    nearest = ratio.low if ratio.verdict == "wins" else 1 / ratio.high if ratio.high else math.inf
    if ratio.verdict not in ("wins", "loses") or math.isnan(floor) or nearest - 1 > floor:
        return ""
    return f"within the noise floor of {100 * floor:.1f} %"


def _only(header: Mapping[str, Any], groups: Mapping[str, GroupInfo]) -> Mapping[str, Any]:
    """A header whose plan has these groups and arms alone, so that a saved selection is one."""
    plan = header.get("plan")
    if not isinstance(plan, Mapping) or not isinstance(plan.get("groups"), list):
        return header
    kept = [
        {**g, "arms": {a: c for a, c in g["arms"].items() if a in groups[g["key"]].arms}}
        for g in plan["groups"]
        if g.get("key") in groups
    ]
    return {**header, "plan": {**plan, "groups": kept}}


def _with_arms(group: GroupInfo, arms: Mapping[str, str]) -> GroupInfo:
    return replace(group, arms=arms)


def _level(c: Comparison, along: str) -> float:
    """The comparison's place on a numeric axis."""
    text = c.at.get(along)
    try:
        return float(text if text is not None else "no such axis")
    except ValueError:
        numeric = ", ".join(k for k, v in c.at.items() if v.isdigit()) or "none"
        raise ValueError(f"along={along}: not a numeric axis; choose from {numeric}") from None


def _modes_of(d: Any) -> str:
    """Why log-ratios of two clusters block a verdict, or "" when there is one cluster."""
    from poolbench.stats.interval import two_modes

    modes = two_modes(d)
    if modes is None or modes.high - modes.low < 1e-6:  # less is rounding, not behaviour
        return ""
    low, high = math.exp(modes.low), math.exp(modes.high)
    return f"two modes: {modes.n_low} blocks near {low:.3g}x, {modes.n_high} near {high:.3g}x"


def _comparison(
    group: GroupInfo,
    at: Mapping[str, str],
    pair: tuple[str, str],
    ratio: Ratio,
    *,
    because: str,
    floor: float,
) -> Comparison:
    return Comparison(
        at=at,
        compare=group.compare,
        arm=pair[0],
        baseline=pair[1],
        ratio=Estimate(
            mean=ratio.mean, low=ratio.low, high=ratio.high, n=ratio.n, level=ratio.level
        ),
        verdict="not resolved" if because else ratio.verdict,
        because=because,
        smallest_visible=ratio.smallest_visible,
        fragile=ratio.fragile,
        between=ratio.between,
        within=ratio.within,
        look=ratio.look,
        floor=floor,
        oversubscribed=int(at.get("threads", pair[0])) > group.cpus,
        affinity=group.arms[pair[0]].rpartition("affinity=")[2],
    )


def _crossover(
    c: Comparison,
    along: str,
    crossing: Crossing,
    levels: tuple[tuple[float, Verdict], ...],
    cpus: int,
) -> Crossover:
    only = crossing.brackets[0] if crossing.status == "crosses" else None
    return Crossover(
        at={k: v for k, v in c.at.items() if k != along},
        along=along,
        arm=c.arm,
        baseline=c.baseline,
        status=crossing.status,
        low=only.low if only else math.nan,
        high=only.high if only else math.nan,
        estimate=only.estimate if only else math.nan,
        rising=only.rising if only else False,
        brackets=tuple((b.low, b.high, b.estimate) for b in crossing.brackets),
        cpus=cpus,
        levels=levels,
    )


def _replicate_rows(cell: Row, r: Replicate, *, windows: bool) -> list[Row]:
    end = {"status": r.status, "reason": r.reason}
    threads = int(cell["threads"])
    if not windows:
        x = r.throughput
        thread_ns = threads * 1e9 / x if x > 0 else math.nan
        values = {"throughput": x, "thread_ns": thread_ns, "cpu_ns": r.cpu_ns}
        return [{**cell, "block": r.block, **values, **end}]
    return [
        {
            **cell,
            "block": r.block,
            "round": i,
            "order": w.order,
            "seconds": w.seconds,
            "throughput": w.rate,
            **end,
        }
        for i, w in enumerate(r.windows)
    ]
