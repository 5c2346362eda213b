"""What to measure: the grammar and cells, validated against the C registry.

One grammar everywhere (Python, command line, files): ``locked(lock=parking,capacity=64)``. Lists
split at top-level commas, values may nest, sizes take KiB, MiB, GiB, times ns, us, ms, s. Keys sort
and defaults fill in, so that equal cells are equal texts. Every mistake is a `ValueError` of one
line that names the value and the choices.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Final, Literal

Kind = Literal["pool", "workload", "pattern"]
KINDS: Final[tuple[Kind, ...]] = ("pool", "workload", "pattern")
Value = int | str

THREADS_MAX: Final = 1024
AFFINITIES: Final = ("spread", "none")
_UNITS: Final[dict[str, dict[str, int]]] = {
    "size": {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30},
    "time": {"": 1, "ns": 1, "us": 1000, "ms": 10**6, "s": 10**9},
    "count": {"": 1},
    "period": {"": 1},
}
_NUMBER: Final = re.compile(r"([+-]?[0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)")
_DIGITS: Final = 40  # longer numbers are mistakes, and Python refuses to read the longest
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Param:
    """One parameter of a list line.

    Its kind is count, size (bytes), time (ns), period (ms of run time), choice or text.
    """

    name: str
    kind: str
    default: Value
    low: int
    high: int
    choices: tuple[str, ...]
    summary: str

    def parse(self, text: str) -> Value:
        """Return the value `text` stands for; ValueError names the value and what is allowed."""
        if self.kind == "choice":
            if text not in self.choices:
                raise ValueError(f"{self.name}={text}: choose from {', '.join(self.choices)}")
            return text
        if self.kind == "text":
            if set(text) & set(",()"):
                raise ValueError(f"{self.name}={text}: may not contain a comma or parentheses")
            return text
        value = _number(text, self.kind)
        if value is None:
            units = "|".join(u for u in _UNITS[self.kind] if u)
            hint = f" with {units}" if units else ""
            raise ValueError(f"{self.name}={clip(text)}: not a whole number{hint}")
        if not self.low <= value <= self.high:
            allowed = f"{self.show(self.low)} ... {self.show(self.high)}"
            raise ValueError(f"{self.name}={text} is out of range {allowed}")
        return value

    def show(self, value: Value) -> str:
        """Return `value` as the grammar writes it, with the largest unit that divides it."""
        if isinstance(value, str) or self.kind in ("count", "period") or value == 0:
            return str(value)
        for unit, factor in reversed(_UNITS[self.kind].items()):
            if factor > 1 and value % factor == 0:
                return f"{value // factor}{unit}"
        return str(value)


def _number(text: str, kind: str) -> int | None:
    if len(text) > _DIGITS:
        return None
    match = _NUMBER.fullmatch(text.strip())
    if not match or match[2] not in _UNITS[kind]:
        return None
    whole, dot, fraction = match[1].partition(".")
    factor = _UNITS[kind][match[2]]
    scaled = int(whole + fraction) * factor
    scale = 10 ** len(fraction) if dot else 1
    return scaled // scale if scaled % scale == 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the registry: a pool, workload or pattern, with its parameters.

    `enters` names the process-wide state that a workload's construction enters, "" for none;
    `outcomes` those that a pool's acquires and releases can have, as the ledger calls them.
    """

    kind: Kind
    name: str
    summary: str
    traits: frozenset[str]
    enters: str
    outcomes: tuple[str, ...]
    params: tuple[Param, ...]

    def param(self, name: str) -> Param:
        """Return the parameter called `name`; ValueError with the choices if there is none."""
        for param in self.params:
            if param.name == name:
                return param
        known = ", ".join(p.name for p in self.params) or "none: it has no parameters"
        raise ValueError(
            f"unknown parameter '{name}' of {self.kind} {self.name}; choose from {known}"
        )


@cache
def registry() -> dict[Kind, dict[str, Entry]]:
    """Return every list line of the C core, by kind and name."""
    from poolbench import _core

    found: dict[Kind, dict[str, Entry]] = {}
    for kind, lines in zip(KINDS, _core.registry(), strict=True):
        found[kind] = {}
        for name, summary, extra, params in lines:
            entry = Entry(
                kind=kind,
                name=name,
                summary=summary,
                traits=frozenset(_names(extra[0])),
                enters=extra[1] if kind == "workload" else "",
                outcomes=_names(extra[1]) if kind == "pool" else (),
                params=tuple(_param(*p) for p in params),
            )
            found[kind][name] = entry
    return found


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split("|") if name)


def _param(
    name: str, kind: str, default: int, low: int, high: int, choices: str | None, summary: str
) -> Param:
    if kind == "text":
        return Param(
            name=name, kind=kind, default=choices or "", low=0, high=0, choices=(), summary=summary
        )
    names = tuple(c for c in (choices or "").split("|") if c)
    initial: Value = names[default] if names else default
    return Param(
        name=name, kind=kind, default=initial, low=low, high=high, choices=names, summary=summary
    )


def pools() -> Mapping[str, Entry]:
    """Return every pool by name, in registry order.

    >>> list(pools())[:2]
    ['fresh', 'thread_local']
    """
    return registry()["pool"]


def workloads() -> Mapping[str, Entry]:
    """Return every workload by name, in registry order.

    >>> workloads()["bytes"].param("size").default
    1024
    """
    return registry()["workload"]


def patterns() -> Mapping[str, Entry]:
    """Return every pattern by name, in registry order.

    >>> [p.name for p in patterns()["churn"].params]
    ['think_ns', 'hold_ns', 'hold']
    """
    return registry()["pattern"]


@dataclass(frozen=True, slots=True)
class Spec:
    """A pool, workload or pattern with all its parameters; `str()` leaves defaults out."""

    kind: Kind
    name: str
    params: tuple[tuple[str, Value], ...]  # sorted, complete

    @property
    def entry(self) -> Entry:
        return registry()[self.kind][self.name]

    @property
    def canonical(self) -> str:
        """The text with every parameter, sorted: equal specs have equal canonical texts."""
        inside = ",".join(f"{k}={v}" for k, v in self.params if v != "")
        return f"{self.name}({inside})" if inside else self.name

    def __str__(self) -> str:
        entry = self.entry
        shown = [
            f"{k}={entry.param(k).show(v)}" for k, v in self.params if v != entry.param(k).default
        ]
        return f"{self.name}({','.join(shown)})" if shown else self.name

    def with_param(self, name: str, value: Value) -> Spec:
        changed = {**dict(self.params), name: value}
        return replace(self, params=tuple(sorted(changed.items())))


def split_list(text: str) -> list[str]:
    """Split at commas that are not inside parentheses.

    >>> split_list("fresh,locked(lock=parking,capacity=4)")
    ['fresh', 'locked(lock=parking,capacity=4)']
    """
    parts, depth, start = [], 0, 0
    for i, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth < 0:
            raise ValueError(f"'{text}': ')' without '('")
        if char == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    if depth:
        raise ValueError(f"'{text}': '(' without ')'")
    return [*parts, text[start:].strip()]


def parse_spec(kind: Kind, text: str) -> Spec:
    """Parse ``name`` or ``name(key=value,...)``; ValueError names the value and the choices.

    >>> str(parse_spec("pool", "locked(lock=parking, capacity=64)"))
    'locked(lock=parking)'
    """
    if not isinstance(text, str):
        raise ValueError(f"a {kind} is given as text, not {text!r}")
    name, given = _split_spec(kind, " ".join(text.split()))
    entries = registry()[kind]
    if name not in entries:
        raise ValueError(f"unknown {kind} '{name}'; {choices_text(name, entries)}")
    entry = entries[name]
    values: dict[str, Value] = {p.name: p.default for p in entry.params}
    for key, value in given:
        values[key] = entry.param(key).parse(value)
    return Spec(kind, name, tuple(sorted(values.items())))


def _split_spec(kind: Kind, text: str) -> tuple[str, list[tuple[str, str]]]:
    name, paren, rest = text.partition("(")
    if not _NAME.fullmatch(name.strip()) or (paren and not rest.endswith(")")):
        raise ValueError(f"'{text}' is not a {kind}: write name or name(key=value,...)")
    if not paren or not rest[:-1].strip():
        return name.strip(), []
    pairs: list[tuple[str, str]] = []
    for part in split_list(rest[:-1]):
        key, equals, value = part.partition("=")
        if not equals or not key.strip() or not value.strip():
            raise ValueError(f"'{part}' in '{text}': write key=value")
        if key.strip() in dict(pairs):
            raise ValueError(f"'{key.strip()}' is given twice in '{text}'")
        pairs.append((key.strip(), value.strip()))
    return name.strip(), pairs


def clip(value: object) -> str:
    """A value as messages show it: on one line, and cut off where it is very long."""
    text = " ".join(str(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def choices_text(name: str, known: Mapping[str, object]) -> str:
    """What to say after an unknown name: the nearest one, and all there are."""
    close = difflib.get_close_matches(str(name), known, n=1)
    meant = f"did you mean '{close[0]}'? " if close else ""
    return f"{meant}choose from {', '.join(known)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One point of a sweep: pool, workload, pattern, threads and placement.

    `checked`: wrong hand-outs and releases are noticed and fail the replicate; see csrc/checks.h.
    """

    workload: Spec
    pool: Spec
    pattern: Spec
    threads: int
    affinity: str = "spread"
    checked: bool = False

    @property
    def period_s(self) -> float:
        """Seconds of the longest period after which something recurs in it; 0 without any."""
        specs = (self.pool, self.workload, self.pattern)
        periods = [v for s in specs for k, v in s.params if s.entry.param(k).kind == "period"]
        return max((int(v) for v in periods), default=0) / 1000

    @property
    def canonical(self) -> str:
        parts = (self.workload.canonical, self.pool.canonical, self.pattern.canonical)
        parts = (*parts, f"threads={self.threads}", *(("checked=1",) if self.checked else ()))
        return " ".join([*parts, f"affinity={self.affinity}"])


def unsupported(cell: Cell) -> str:
    """Why a combination cannot exist, from the traits of its parts; "" when it can.

    >>> parts = {"pool": "slab", "workload": "table", "pattern": "churn"}
    >>> specs = {kind: parse_spec(kind, name) for kind, name in parts.items()}
    >>> unsupported(Cell(**specs, threads=1))
    'slab constructs in memory of its own, which table cannot do'
    """
    pool, workload = cell.pool.entry, cell.workload.entry
    if "in_place" in pool.traits and "placeable" not in workload.traits:
        return f"{pool.name} constructs in memory of its own, which {workload.name} cannot do"
    if "needs_shareable" in pool.traits and "shareable" not in workload.traits:
        return f"{pool.name} hands one object to everybody, which {workload.name} does not allow"
    if "needs_shareable" in pool.traits and cell.checked:
        return f"{pool.name} has no owners, which checked mode needs"
    if "burst_only" in pool.traits and cell.pattern.name != "burst":
        return (
            f"{pool.name} takes memory back at the end of a burst, and {cell.pattern.name} has none"
        )
    return ""
