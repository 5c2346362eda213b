"""poolbench: does a pool beat making a fresh object, by how much, and where does the answer flip?

>>> import poolbench as pb
>>> suite = pb.sweep(pool=["fresh", "locked"], workload="bytes(size=1KiB)", threads=[1, 2],
...                  blocks=3, rounds=2, progress=False)
>>> [c.arm for c in suite.compare(baseline="fresh")]
['locked', 'locked']

Importing this loads nothing else: each public name is fetched on first use.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from poolbench import plots as plots
    from poolbench._core import Error as Error
    from poolbench._core import build_info as build_info
    from poolbench.results import Comparison as Comparison
    from poolbench.results import Crossover as Crossover
    from poolbench.results import Estimate as Estimate
    from poolbench.results import Measurement as Measurement
    from poolbench.runner import Interrupted as Interrupted
    from poolbench.runner import SaveFailed as SaveFailed
    from poolbench.runner import measure as measure
    from poolbench.runner import sweep as sweep
    from poolbench.spec import patterns as patterns
    from poolbench.spec import pools as pools
    from poolbench.spec import workloads as workloads
    from poolbench.suite import Suite as Suite
    from poolbench.suite import load as load

__version__ = "0.1.0"

_HOMES = {
    "Comparison": "results",
    "Crossover": "results",
    "Error": "_core",
    "Estimate": "results",
    "Interrupted": "runner",
    "Measurement": "results",
    "Suite": "suite",
    "build_info": "_core",
    "load": "suite",
    "measure": "runner",
    "patterns": "spec",
    "pools": "spec",
    "SaveFailed": "runner",
    "sweep": "runner",
    "workloads": "spec",
}
__all__ = [*sorted(_HOMES), "get_include", "plots"]


def get_include() -> str:
    """Return the folder of ``poolbench.h``, for compiling a kind of object of your own."""
    installed = Path(__file__).parent / "csrc"
    return str(installed if installed.exists() else Path(__file__).parents[1] / "csrc")


def __getattr__(name: str) -> Any:
    if name == "plots":
        return importlib.import_module("poolbench.plots")
    if name in _HOMES:
        return getattr(importlib.import_module(f"poolbench.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'poolbench' has no attribute '{name}'")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
