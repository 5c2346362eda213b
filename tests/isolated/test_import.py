"""What importing loads, in a process of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

RunPython = Callable[..., "subprocess.CompletedProcess[str]"]
HEAVY = ("numpy", "scipy", "matplotlib", "pandas", "tqdm")


def loaded_by(run_python: RunPython, code: str) -> list[str]:
    done = run_python(f"import sys\n{code}\nprint(*sys.modules)")
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


@pytest.mark.parametrize(
    "code",
    [
        "import poolbench",
        "import poolbench; poolbench.pools(), poolbench.build_info()",
        "import poolbench.cli",
        "import poolbench; poolbench.load, poolbench.sweep, poolbench.Suite",
        "import poolbench.plots",
    ],
)
def test_importing_loads_nothing_heavy(run_python: RunPython, code: str) -> None:
    assert not set(HEAVY) & set(loaded_by(run_python, code))


def test_importing_loads_no_other_module_of_ours(run_python: RunPython) -> None:
    ours = [m for m in loaded_by(run_python, "import poolbench") if m.startswith("poolbench")]
    assert ours == ["poolbench"]


def test_importing_has_no_side_effects(run_python: RunPython) -> None:
    done = run_python(
        "import os, signal, threading, warnings\n"
        "def state():\n"
        "    return (dict(os.environ), threading.active_count(), os.listdir('/proc/self/fd'),\n"
        "            [signal.getsignal(s) for s in (2, 13, 15)], list(warnings.filters))\n"
        "before = state()\n"
        "import poolbench\n"
        "assert state() == before\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.workers
def test_measuring_loads_nothing_heavy(run_python: RunPython) -> None:
    code = (
        "import poolbench\n"
        "suite = poolbench.sweep(pool='fresh', workload='bytes', threads=1, blocks=1, rounds=1)\n"
        "suite.rows(), repr(suite)"
    )
    assert not set(HEAVY) & set(loaded_by(run_python, code))
