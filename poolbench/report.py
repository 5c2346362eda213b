"""Results as text and HTML: tables, verdicts and sentences. No arithmetic beyond units.

Every number carries its unit, every interval its level, every verdict both names.
"""

from __future__ import annotations

import html
import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from poolbench import environment, plan, spec
from poolbench.figures import duration, interval, number, percent, plain, plural, table
from poolbench.outcomes import COLUMNS

if TYPE_CHECKING:
    from poolbench.results import Comparison, Crossover, Ledger, Listing, Measurement, Row
    from poolbench.suite import Suite


def shown(axis: str, text: str) -> str:
    """A value of an axis as the grammar would write it: sizes and times with their unit."""
    entries = [e for kind in spec.KINDS for e in spec.registry()[kind].values()]
    params = [p for e in entries for p in e.params if p.name == axis]
    return params[0].show(int(text)) if params and text.isdigit() else text


def _place(at: Mapping[str, str], leave_out: Iterable[str] = ()) -> str:
    """Coordinates as people say them: values of workload and pattern, others by name."""
    hidden = set(leave_out)
    parts = [at[k] for k in ("workload", "pattern") if k in at and k not in hidden]
    rest = [k for k in at if k not in ("workload", "pattern", *hidden)]
    named = [
        plural(int(at[k]), "thread") if k == "threads" else f"{k}={shown(k, at[k])}" for k in rest
    ]
    return ", ".join([*parts, *named])


# ---- one thing at a time -------------------------------------------------------------------------


def measurement_text(m: Measurement) -> str:
    """A cell in three lines: what, how fast, and what to beware of."""
    lines = [
        f"{m.cell['pool']}: {_place(m.cell, ['pool'])}",
        f"  throughput {interval(m.throughput, 1e6)} M operations/s, {percent(m.throughput.level)} "
        f"interval over {m.throughput.n} replicates",
        f"  thread_ns {interval(m.thread_ns)}  cpu_ns {interval(m.cpu_ns)} per operation",
        *(f"  {line}" for line in outcomes_lines(m)),
    ]
    if m.ledger and m.ledger.ok:
        lines.append(f"  {ledger_text(m.ledger)}")
    lines += [f"  {w}" for w in m.warnings]
    return "\n".join(lines)


def outcomes_lines(m: Measurement) -> list[str]:
    """What acquires and releases came to, what never happened, and how fair it was."""
    x = m.outcomes
    lines = [f"acquired: {x.acquired_text}; released: {x.released_text}"] if x.acquired_text else []
    lines += [f"on the way: {x.events_text}, of acquires"] if x.events_text else []
    lines += [f"never: {', '.join(x.never)}"] if x.never else []
    return [*lines, fairness_text(m)] if m.threads > 1 and m.share.n else lines


def fairness_text(m: Measurement) -> str:
    """How evenly the threads shared the work, and the longest wait of any."""
    text = f"slowest over fastest thread {interval(m.share)}, Jain's index {interval(m.jain)}"
    return f"{text}, longest wait {duration(m.longest_wait_ns)}"


def ledger_text(x: Ledger) -> str:
    """The account book of a cell in one line: steady state, then setup, then what is kept."""
    return (
        f"{number(x.allocations_per_op)} allocations and {number(x.bytes_per_op)} bytes per "
        f"operation, {number(100 * x.hit_rate)} % hits; setup {x.setup_allocations} allocations, "
        f"{x.setup_bytes} bytes; peak {x.peak_bytes}, retained {x.retained_bytes} bytes"
    )


def verdict_text(c: Comparison) -> str:
    """The verdict with what weakens it."""
    notes = [c.because] if c.because else []
    notes += ["fragile"] if c.fragile and not c.because else []
    return c.verdict + (f" ({'; '.join(notes)})" if notes else "")


def comparison_text(c: Comparison) -> str:
    """One sentence: both names, ratio, interval, n, and the smallest effect it could have seen."""
    said = {
        "wins": f"{c.arm} wins against {c.baseline}",
        "loses": f"{c.arm} loses to {c.baseline}",
        "equivalent": f"{c.arm} and {c.baseline} are equivalent",
        "not resolved": f"{c.arm} against {c.baseline}: not resolved",
    }[c.verdict]
    text = f"{_place(c.at)}: {said}"
    text += f" ({c.because})" if c.because else ""
    text += f", {interval(c.ratio, unit='x')} at {percent(c.ratio.level)}, {c.ratio.n} blocks"
    return "; ".join([text, *_qualifications(c)])


def _qualifications(c: Comparison) -> list[str]:
    """What a careful reader wants to know besides the interval."""
    from poolbench.stats.compare import hint, sign_minimum

    found = []
    if math.isfinite(c.smallest_visible):
        found.append(f"smallest visible effect {number(100 * c.smallest_visible)} %")
    if math.isfinite(c.between) and math.isfinite(c.within):
        spreads = f"{number(100 * c.between)} % between blocks, {number(100 * c.within)} % within"
        found.append(f"spread {spreads}: for a narrower interval, {hint(c.between, c.within)}")
    if c.fragile is None:
        found.append(f"sign test not checked below {sign_minimum(c.ratio.level)} blocks")
    elif c.fragile:
        found.append("fragile: the sign test says otherwise")
    if c.oversubscribed:
        found.append("oversubscribed")
    return found


def crossover_text(c: Crossover) -> str:
    """One sentence about where the winner changes, or that it does not."""
    a, b, where = c.arm, c.baseline, _place(c.at)
    said = {
        "A always": f"{a} always wins against {b}",
        "A or equivalent": f"{a} wins against {b} or is equivalent",
        "B always": f"{b} always wins against {a}",
        "B or equivalent": f"{b} wins against {a} or is equivalent",
        "equivalent": f"{a} and {b} are equivalent everywhere",
        "not resolved": f"cannot tell {a} from {b} at every level",
    }
    resolved = [x for x, verdict in c.levels if verdict != "not resolved"]
    if c.status == "not resolved" and resolved:
        return f"{where}: {_by_verdict(c)}."
    if c.status in said:
        return f"{where}: {said[c.status]} along {c.along}."
    if c.status == "crosses":
        return f"{where}: {_crossing(c)}"
    spans = " and ".join(f"{plain(low)}-{plain(high)}" for low, high, _ in c.brackets)
    return f"{where}: {a} and {b} change places more than once, at {c.along} {spans}."


def _by_verdict(c: Crossover) -> str:
    """Where each verdict holds, when no single sentence covers all levels."""
    said = {
        "wins": f"{c.arm} wins against {c.baseline}",
        "loses": f"{c.baseline} wins against {c.arm}",
        "equivalent": f"{c.arm} and {c.baseline} are equivalent",
        "not resolved": "not resolved",
    }
    parts = []
    for verdict, text in said.items():
        at = [shown(c.along, plain(x)) for x, v in c.levels if v == verdict]
        if at:
            parts.append(f"{text} at {c.along} {', '.join(at)}")
    return "; ".join(parts)


def _crossing(c: Crossover) -> str:
    below, above = (c.baseline, c.arm) if c.rising else (c.arm, c.baseline)
    low, high = (_at_level(c.along, x) for x in (c.low, c.high))
    marked = ", where threads begin to share CPUs" if c.low <= c.cpus < c.high else ""
    if c.along != "threads":
        marked = ""
    return (
        f"{below} wins up to {low}, {above} from {high} on{marked} (estimate {number(c.estimate)})."
    )


def _at_level(along: str, x: float) -> str:
    if along == "threads":
        return plural(x, "thread")
    return f"{along}={shown(along, plain(x))}"


# ---- listings ------------------------------------------------------------------------------------


def listing_text(listing: Listing[Any]) -> str:
    """A listing as a table of its rows' most useful columns."""
    return table(_cells(listing.rows()))


def listing_html(listing: Listing[Any]) -> str:
    """The same table for a notebook."""
    rows = _cells(listing.rows())
    if not rows:
        return "<p>(nothing)</p>"
    head = "".join(f"<th>{html.escape(c)}</th>" for c in rows[0])
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in row) + "</tr>" for row in rows[1:]
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


_UNITS = {"throughput": ("M operations/s", 1e6), "thread_ns": ("ns", 1.0), "cpu_ns": ("ns", 1.0)}
_HIDDEN = {"jmh_error", "between", "within", "smallest_visible", "fragile", "oversubscribed"}
_HIDDEN |= {"faults_per_op", "switches_per_op", "peak_rss", "peak_bytes", "setup_allocations"}
_HIDDEN |= {"jain", "longest_wait_ns"}
_OPTIONAL = {"warnings", "because", "failed", "floor", "allocations_per_op", "bytes_per_op"}
_OPTIONAL |= {"hit_rate", "setup_bytes", "retained_bytes", *COLUMNS}


def _cells(rows: Sequence[Row]) -> list[list[str]]:
    """Head and rows; a quantity and its two ends share a column, constant empty columns go."""
    if not rows:
        return []
    names = [
        n
        for n in rows[0]
        if n not in _HIDDEN
        and not n.endswith(("_low", "_high"))
        and (n not in _OPTIONAL or any(_said(r[n]) for r in rows))
    ]
    head = [f"{n} [{_UNITS[n][0]}]" if n in _UNITS else n for n in names]
    return [head, *([_cell(row, n) for n in names] for row in rows)]


def _said(value: object) -> bool:
    return bool(value) and value == value  # nan says nothing


def _cell(row: Row, name: str) -> str:
    value = row[name]
    if not isinstance(value, float):
        return str(value)
    scale = _UNITS.get(name, ("", 1.0))[1]
    text = number(value / scale)
    if f"{name}_low" in row:
        text += f" [{number(row[f'{name}_low'] / scale)}, {number(row[f'{name}_high'] / scale)}]"
    return text


# ---- a whole suite -------------------------------------------------------------------------------


def suite_text(suite: Suite) -> str:
    """One line about a suite."""
    cells = sum(len(g.arms) for g in suite.groups.values())
    done = sum(len(suite.replicates(k, a)) for k, g in suite.groups.items() for a in g.arms)
    failed = len(suite.failures)
    return f"<Suite: {len(suite.groups)} groups, {cells} cells, {done} replicates, {failed} failed>"


def sweep_text(suite: Suite, baseline: str | None = None) -> str:
    """The report of a sweep: a table per line-up, then crossovers, then what to beware of."""
    parts = [_tables(suite, baseline), _crossovers(suite, baseline), _footnotes(suite, baseline)]
    return "\n\n".join(p for p in parts if p)


def _tables(suite: Suite, baseline: str | None) -> str:
    measured = suite.summary()
    compared = {_key(c.at, c.compare, c.arm): c for c in suite.compare(baseline)}
    tables: dict[tuple[tuple[str, str], ...], list[Measurement]] = {}
    for m in measured:
        line_up = {k: v for k, v in m.cell.items() if k not in ("threads", _compared(suite))}
        tables.setdefault(tuple(line_up.items()), []).append(m)
    return "\n\n".join(
        _table(dict(line_up), found, compared, _compared(suite))
        for line_up, found in tables.items()
    )


def _compared(suite: Suite) -> str:
    return next((g.compare for g in suite.groups.values()), "pool")


def _key(at: Mapping[str, str], compare: str, arm: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted({**at, compare: arm}.items()))


def _table(
    line_up: Mapping[str, str],
    measured: Sequence[Measurement],
    compared: Mapping[tuple[tuple[str, str], ...], Comparison],
    compare: str,
) -> str:
    level = measured[0].throughput.level
    base = next((c.baseline for c in compared.values()), "")
    head = ["threads", compare, "M operations/s"]
    head += [f"ratio to {base}", "verdict"] if base else []
    rows = [[*head, *OUTCOME_HEAD, *LEDGER_HEAD]]
    for m in sorted(measured, key=lambda m: m.threads):
        mark = "*" if m.oversubscribed else ""
        label = m.cell[compare] + (mark if compare == "threads" else "")
        row = [f"{m.threads}{mark}", label, interval(m.throughput, 1e6)]
        c = compared.get(tuple(sorted(m.cell.items())))
        if base:
            row += [interval(c.ratio, unit="x"), verdict_text(c)] if c else ["", ""]
        rows.append([*row, *_outcome_cells(m), *_ledger_cells(m)])
    rows = _without_empty(rows)
    if compare == "threads":
        rows = [row[1:] for row in rows]
    title = f"{_place(line_up)}: mean and {percent(level)} interval over {_replicates(measured)}"
    return f"{title}\n{table(rows)}"


def _without_empty(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Columns that say nothing in any row are left out; the first row is the head."""
    kept = [i for i in range(len(rows[0])) if any(row[i] for row in rows[1:])]
    return [[row[i] for i in kept] for row in rows]


OUTCOME_HEAD = ("acquired", "released", "share", "longest wait")
LEDGER_HEAD = ("allocs/op", "bytes/op", "setup bytes", "retained")


def _outcome_cells(m: Measurement) -> list[str]:
    x = m.outcomes
    alone = m.threads == 1 or not m.share.n
    share = "" if alone else number(m.share.mean)
    wait = duration(m.longest_wait_ns) if m.longest_wait_ns else ""
    return [x.acquired_text, x.released_text, share, wait]


def _ledger_cells(m: Measurement) -> list[str]:
    x = m.ledger
    if x is None or not x.ok:
        return [""] * len(LEDGER_HEAD)
    counts = [number(x.allocations_per_op), number(x.bytes_per_op)]
    return [*counts, str(x.setup_bytes), str(x.retained_bytes)]


def _replicates(measured: Sequence[Measurement]) -> str:
    counts = sorted({m.throughput.n for m in measured})
    span = str(counts[0]) if len(counts) == 1 else f"{counts[0]}-{counts[-1]}"
    return f"{span} replicates"


def _crossovers(suite: Suite, baseline: str | None) -> str:
    if _compared(suite) == "checked":
        return _price_of_checks(suite)
    if (
        _compared(suite) == "threads"
        or len({g.at.get("threads") for g in suite.groups.values()}) < 2
    ):
        return ""
    found = suite.crossover(baseline=baseline)
    return "\n".join(str(c) for c in found)


def _price_of_checks(suite: Suite) -> str:
    """What is left of the throughput where every step is checked."""
    return "\n".join(
        f"{c.at['pool']}, {_place(c.at, ['pool'])}: checked, {interval(c.ratio, unit='x')} of the "
        "throughput is left"
        for c in suite.compare("off")
        if c.arm == "on"
    )


def _footnotes(suite: Suite, baseline: str | None) -> str:
    measured = suite.summary()
    lines = []
    over = [m for m in measured if m.oversubscribed]
    if over:
        cpus = max(g.cpus for g in suite.groups.values())
        lines.append(f"* oversubscribed: more threads than the {cpus} CPUs")
    for c in suite.compare(baseline):
        if c.verdict == "not resolved" and not c.is_control:
            lines.append(
                f"not resolved: {_place(c.at)}: {c.arm} against {c.baseline}: {resolve(c)}"
            )
    for m in measured:
        name = f"{m.cell[_compared(suite)]}, {_place(m.cell, [_compared(suite)])}"
        lines += [f"warning: {name}: {w}" for w in m.warnings]
    lines += [f"warning: {w}" for w in environment.warnings(suite.environment)]
    lines += _failed_ledgers(suite)
    lines += _never_taken(measured)
    lines += [f"unsupported: {label}: {why}" for label, why in _unsupported(suite).items()]
    compared = suite.compare(baseline)
    if compared and all(math.isnan(c.floor) for c in compared):
        lines.append("noise floor not measured: no control arm in this sweep")
    return "\n".join(lines)


def _never_taken(measured: Sequence[Measurement]) -> list[str]:
    """Outcomes that a pool can have and had in none of the cells, one line per pool."""
    never: dict[str, set[str]] = {}
    order: dict[str, tuple[str, ...]] = {}
    for m in measured:
        pool, found = m.cell["pool"].partition("(")[0], m.outcomes.never
        order.setdefault(pool, found)
        never[pool] = never.get(pool, set(found)) & set(found)
    return [
        f"never taken: {pool.strip()}: {', '.join(w for w in order[pool] if w in names)}"
        for pool, names in never.items()
        if names
    ]


def _failed_ledgers(suite: Suite) -> list[str]:
    failed = [m for m in suite.summary() if m.ledger and not m.ledger.ok]
    compare = _compared(suite)
    return [
        f"warning: ledger of {m.cell[compare]}, {_place(m.cell, [compare])}: {m.ledger.reason}"
        for m in failed
        if m.ledger
    ]


def _unsupported(suite: Suite) -> dict[str, str]:
    """Each combination that cannot exist, once."""
    return {label: why for g in suite.groups.values() for label, why in g.unsupported.items()}


def resolve(c: Comparison) -> str:
    """What would resolve a comparison: the command and its seconds, or why nothing simple would."""
    from poolbench.stats.compare import blocks_needed

    effect = abs(c.mean_log_ratio)
    if c.because.startswith("two modes"):
        return f"{c.because}: more blocks would not help, look at the replicates"
    if not (math.isfinite(c.between) and effect > 0):
        return c.because or "too few blocks"
    blocks = max(12, blocks_needed(c.between, effect))
    if blocks > 500:
        return f"a difference of {number(100 * effect)} % would need {blocks} blocks"
    if c.compare != "pool":
        return f"the same sweep with --blocks {blocks}"
    params = {k: v for k, v in c.at.items() if k not in (*spec.KINDS, "threads")}
    command = [
        "poolbench",
        "sweep",
        "--pool",
        f"{c.baseline},{c.arm}",
        "--threads",
        c.at["threads"],
    ]
    command += ["--workload", c.at["workload"], "--pattern", c.at["pattern"]]
    for name, value in params.items():
        command += ["--axis", f"{name}={shown(name, value)}"]
    command += ["--affinity", c.affinity] if c.affinity != "spread" else []
    command += ["--blocks", str(blocks)]
    planned = plan.make_plan(
        pool=[c.baseline, c.arm],
        workload=[c.at["workload"]],
        pattern=[c.at["pattern"]],
        threads=[c.at["threads"]],
        params={k: [v] for k, v in params.items()},
        blocks=blocks,
        cpus=range(environment.cpus()),
    )
    return f"{shlex.join(command)}  (about {planned.seconds:.0f} s)"


# ---- plans, lists, environments ------------------------------------------------------------------


def plan_text(p: plan.Plan) -> str:
    """What a sweep will do and how long it will take."""
    axes = "; ".join(f"{name} {', '.join(values)}" for name, values in p.axes if len(values) > 1)
    lines = [
        f"{plural(len(p.groups), 'group')} of {plural(len(p.groups[0].arms), 'arm')}, "
        f"{plural(p.blocks, 'block')}: "
        f"{p.replicates} replicates of {p.rounds} windows, about {p.seconds:.0f} s "
        f"on {len(p.cpus)} CPUs"
    ]
    lines += [f"axes: {axes}"] if axes else []
    reasons = {label: why for g in p.groups for label, why in g.unsupported}
    lines += [f"unsupported: {label}: {why}" for label, why in reasons.items()]
    return "\n".join(lines)


def list_text(kind: spec.Kind) -> str:
    """The table of one kind of list line."""
    entries = spec.registry()[kind]
    rows = [[kind, "parameters [default]", "what it is"]]
    for entry in entries.values():
        params = ", ".join(f"{p.name} [{p.show(p.default)}]" for p in entry.params)
        rows.append([entry.name, params, entry.summary])
    return table(rows)


def entry_text(entry: spec.Entry) -> str:
    """One list line with all its parameters: default, range or choices."""
    lines = [f"{entry.kind} {entry.name}: {entry.summary}"]
    if entry.kind == "workload":
        lines.append(f"construction enters: {entry.enters or 'nothing but the allocator'}")
    if not entry.params:
        return "\n".join([*lines, "no parameters"])
    rows = [["parameter", "default", "allowed", "meaning"]]
    for p in entry.params:
        allowed = " | ".join(p.choices) if p.choices else f"{p.show(p.low)} ... {p.show(p.high)}"
        rows.append([p.name, p.show(p.default), allowed, p.summary])
    return "\n".join([*lines, "", table(rows)])


def environment_text(found: Mapping[str, Any]) -> str:
    """The environment, then its warnings."""
    rows = [["field", "value"], *([k, str(v)] for k, v in found.items())]
    warnings = [f"warning: {w}" for w in environment.warnings(found)]
    return "\n".join([table(rows), *warnings])
