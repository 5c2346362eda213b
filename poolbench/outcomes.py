"""What a cell's acquires and releases came to, in shares, and which paths were never taken.

Every acquire and every release of a run has exactly one outcome; `Outcomes` reads them from a
replicate's account (or a sum of accounts), where the C core left them by name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from poolbench.spec import registry

ACQUIRED: Final[dict[str, str]] = {
    "local_hits": "local",
    "shared_hits": "shared",
    "stolen": "stolen",
    "waited": "waited",
    "misses": "constructed",
    "failed": "failed",
    "timed_out": "timed out",
}
"""Outcomes of an acquire, as accounts name them, and as tables do."""

RELEASED: Final[dict[str, str]] = {
    "kept": "kept",
    "spilled": "spilled",
    "overflowed": "destroyed",
    "handed_over": "handed over",
    "refused": "refused",
}
"""Outcomes of a release."""

EVENTS: Final[dict[str, str]] = {
    "false_empty": "false empty",
    "false_full": "false full",
    "retries": "lost races",
    "transient": "made beyond the bound",
    "trimmed": "trimmed",
    "aged": "aged out",
    "waits": "waits",
}
"""What happened on the way to an outcome; an operation may have none, or several."""

COLUMNS: Final = (
    *(f"acquired_{name}" for name in ACQUIRED),  # shares of all acquires
    *(f"released_{name}" for name in RELEASED),  # shares of all releases
    *(f"event_{name}" for name in EVENTS),  # per acquire
)
"""The columns of `Outcomes.row`."""

HITS: Final = ("local_hits", "shared_hits", "stolen", "waited")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """Outcomes of one cell.

    `acquired` and `released` map an outcome to its share (0 ... 1) of all acquires and of all
    releases; `events` map an event to how often it happened per acquire; `never` are the outcomes
    that the pool can have and that did not occur, by the names tables use.

    >>> found = Outcomes.of("locked", {"shared_hits": 3, "misses": 1, "kept": 4})
    >>> found.acquired["shared_hits"], found.hit_rate, found.never
    (0.75, 0.75, ('failed', 'destroyed'))
    """

    acquired: Mapping[str, float]
    released: Mapping[str, float]
    events: Mapping[str, float]
    never: tuple[str, ...]

    @classmethod
    def of(cls, pool: str, account: Mapping[str, int]) -> Outcomes:
        """Read an account; `pool` is a text of the grammar, or a label that begins with one."""
        acquires = sum(account.get(name, 0) for name in ACQUIRED)
        releases = sum(account.get(name, 0) for name in RELEASED)
        words = {**ACQUIRED, **RELEASED}
        return cls(
            acquired={name: _share(account.get(name, 0), acquires) for name in ACQUIRED},
            released={name: _share(account.get(name, 0), releases) for name in RELEASED},
            events={name: _share(account.get(name, 0), acquires) for name in EVENTS},
            never=tuple(words[name] for name in _possible(pool) if not account.get(name, 0))
            if acquires
            else (),
        )

    @property
    def hit_rate(self) -> float:
        """Acquires served without constructing, of all; nan without any."""
        return math.fsum(self.acquired[name] for name in HITS)

    @property
    def acquired_text(self) -> str:
        """As in ``local 98 %, stolen 2 %``; what did not happen is left out."""
        return _text(self.acquired, ACQUIRED)

    @property
    def released_text(self) -> str:
        return _text(self.released, RELEASED)

    @property
    def events_text(self) -> str:
        """As in ``false full 0.2 %``, per acquire."""
        return _text(self.events, EVENTS)

    def row(self) -> dict[str, float]:
        """One column per outcome and event, as `COLUMNS` names them."""
        values = (*self.acquired.values(), *self.released.values(), *self.events.values())
        return dict(zip(COLUMNS, values, strict=True))


def _share(count: int, total: int) -> float:
    return count / total if total else math.nan


def _possible(pool: str) -> tuple[str, ...]:
    """Outcomes the pool can have; none for a pool this version does not know."""
    entry = registry()["pool"].get(pool.partition("(")[0].strip())
    known = {**ACQUIRED, **RELEASED}
    return tuple(name for name in entry.outcomes if name in known) if entry else ()


def _text(shares: Mapping[str, float], words: Mapping[str, str]) -> str:
    return ", ".join(f"{words[name]} {_percent(x)}" for name, x in shares.items() if x > 0)


def _percent(share: float) -> str:
    """Two digits, and never a rounded 0 or 100 for what is only near it."""
    if share >= 1:
        return f"{100 * share:.0f} %"
    if share < 1e-4:
        return "<0.01 %"
    text = f"{100 * share:.2g} %"
    return ">99 %" if text == "1e+02 %" else text
