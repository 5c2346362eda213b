"""Records: the lines of a results file as plans, groups, replicates and ledgers, and back.

A header describes its plan in full, so that a reader needs no registry; malformed lines become None
and are left out, never an error.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from poolbench.plan import Plan
from poolbench.results import GroupInfo, Ledger, Replicate, Window


def plan_record(plan: Plan) -> dict[str, Any]:
    """Describe a plan so that a reader needs no registry to understand the file."""
    return {
        "axes": {name: list(values) for name, values in plan.axes},
        "compare": plan.compare,
        "preset": plan.preset,
        "blocks": plan.blocks,
        "rounds": plan.rounds,
        "seed": plan.seed,
        "cpus": list(plan.cpus),
        "groups": [
            {
                "key": g.key,
                "at": dict(g.at),
                "control": g.control,
                "unsupported": dict(g.unsupported),
                "arms": {arm.label: arm.cell.canonical for arm in g.arms},
            }
            for g in plan.groups
        ],
    }


def groups_of(header: Mapping[str, Any]) -> Iterator[GroupInfo]:
    """Yield the groups a header describes; malformed ones are left out."""
    plan = header.get("plan")
    if not isinstance(plan, Mapping) or not isinstance(plan.get("groups"), list):
        return
    cpus = plan.get("cpus")
    for g in plan["groups"]:
        try:
            found = GroupInfo(
                key=str(g["key"]),
                at={str(k): str(v) for k, v in g["at"].items()},
                compare=str(plan["compare"]),
                arms={str(k): str(v) for k, v in g["arms"].items()},
                cpus=max(1, len(cpus)) if isinstance(cpus, list) else 1,
                control=str(g.get("control", "")),
                unsupported={str(k): str(v) for k, v in g.get("unsupported", {}).items()},
            )
            for label in found.arms:
                int(found.cell(label)["threads"])
        except (KeyError, TypeError, ValueError, AttributeError):
            continue
        yield found


def replicate_record(r: Replicate) -> dict[str, Any]:
    """The line of one replicate."""
    windows = [
        [w.start, w.seconds, w.order, list(w.operations), w.cpu_seconds, [w.faults, w.switches]]
        for w in r.windows
    ]
    return {
        "kind": "replicate",
        "key": r.key,
        "group": r.group,
        "block": r.block,
        "arm": r.arm,
        "windows": windows,
        "status": r.status,
        "reason": r.reason,
        "account": dict(r.account),
    }


def replicate_of(record: Mapping[str, Any]) -> Replicate | None:
    """The replicate of a line; None when the line is malformed."""
    try:
        return Replicate(
            group=str(record["group"]),
            block=int(record["block"]),
            arm=str(record["arm"]),
            key=str(record.get("key", "")),
            windows=tuple(_window_of(w) for w in record["windows"]),
            status=str(record["status"]),
            reason=str(record.get("reason", "")),
            account={str(k): int(v) for k, v in record.get("account", {}).items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return None


def _window_of(values: Sequence[Any]) -> Window:
    start, seconds, order, operations, cpu = values[:5]
    usage = values[5] if len(values) > 5 else (0, 0)
    if not (float(seconds) > 0 and math.isfinite(seconds)):
        raise ValueError("a window lasts some time")
    return Window(
        start=float(start),
        seconds=float(seconds),
        order=int(order),
        operations=tuple(int(n) for n in operations),
        cpu_seconds=float(cpu),
        faults=int(usage[0]),
        switches=int(usage[1]),
    )


def ledger_record(ledger: Ledger) -> dict[str, Any]:
    """The line of one ledger."""
    return {
        "kind": "ledger",
        "key": ledger.key,
        "group": ledger.group,
        "arm": ledger.arm,
        "status": ledger.status,
        "reason": ledger.reason,
        "counts": dict(ledger.counts),
        "account": dict(ledger.account),
    }


def ledger_of(record: Mapping[str, Any]) -> Ledger | None:
    """The ledger of a line; None when the line is malformed."""
    try:
        return Ledger(
            group=str(record["group"]),
            arm=str(record["arm"]),
            key=str(record.get("key", "")),
            status=str(record["status"]),
            reason=str(record.get("reason", "")),
            counts={str(k): int(v) for k, v in record["counts"].items()},
            account={str(k): int(v) for k, v in record["account"].items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return None
