"""Pictures of a suite: `scaling`, `crossover`, and `grid` for whole figures.

`scaling` and `crossover` draw on one Axes and return it: the current one, or the given `ax`. They
show no window, save nothing and change no style. `grid` builds a Figure of such panels. Importing
this loads no matplotlib: each function is fetched on first use.

>>> from poolbench import plots
>>> ax = plots.crossover(suite, workload="bytes")  # doctest: +SKIP
>>> plots.grid(suite, "scaling").savefig("scaling.png")  # doctest: +SKIP
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from poolbench.plots.crossover import crossover as crossover
    from poolbench.plots.grid import grid as grid
    from poolbench.plots.scaling import scaling as scaling

__all__ = ["crossover", "grid", "scaling"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(importlib.import_module(f"{__name__}.{name}"), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    return list(__all__)


class _Functions(ModuleType):
    """Keeps `plots.scaling` the function: importing its home, of the same name, would hide it."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in __all__ and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Functions
