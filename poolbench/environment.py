"""What machine, compiler, allocator and interpreter this was, and what must match to compare.

Every field is optional: a virtual machine or a container hides some. `capture()` reads files and
`os`, starts nothing, and takes a few milliseconds.
"""

from __future__ import annotations

import hashlib
import os
import platform
import resource
import sys
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

MUST_MATCH: Final = ("code", "cpu_model", "cpus", "compiler", "flags", "libc", "sanitizer")
"""Two results are comparable only where these agree."""


def capture() -> dict[str, Any]:
    """Return this machine's description as a flat dict of plain values.

    >>> capture()["cpus"] >= 1
    True
    """
    from poolbench import _core

    build = _core.build_info()
    found: dict[str, Any] = {
        "code": code_hash(),
        "cpu_model": _cpu_model(),
        "cpus": cpus(),
        "cpu_list": sorted(os.sched_getaffinity(0)),
        "compiler": build["compiler"],
        "flags": build["flags"],
        "optimized": build["optimized"],
        "sanitizer": build["sanitizer"],
        "libc": " ".join(platform.libc_ver()),
        "python": sys.version.split()[0],
        "gil": getattr(sys, "_is_gil_enabled", lambda: True)(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "clock_source": _read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "aslr": _read("/proc/sys/kernel/randomize_va_space"),
        "thp": _read("/sys/kernel/mm/transparent_hugepage/enabled"),
        "cpu_quota": _read("/sys/fs/cgroup/cpu.max"),
        "load": os.getloadavg()[0],
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }
    return {name: value for name, value in found.items() if value not in (None, "")}


def cpus() -> int:
    """Return how many CPUs this process may run on."""
    return len(os.sched_getaffinity(0))


def available_memory() -> int:
    """Return how many bytes new processes may use: free memory, limits, and the cgroup's."""
    limits = [resource.getrlimit(which)[0] for which in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
    found = [limit for limit in limits if limit != resource.RLIM_INFINITY]
    for line in (_read("/proc/meminfo") or "").splitlines():
        if line.startswith("MemAvailable:"):
            found.append(int(line.split()[1]) * 1024)
    allowed, used = _read("/sys/fs/cgroup/memory.max"), _read("/sys/fs/cgroup/memory.current")
    if allowed and used and allowed.isdigit() and used.isdigit():
        found.append(max(0, int(allowed) - int(used)))
    return min(found, default=0)


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Name the must-match fields in which two environments differ, with both values."""
    return [
        f"{name}: {one.get(name)} against {other.get(name)}"
        for name in MUST_MATCH
        if one.get(name) != other.get(name)
    ]


def warnings(environment: Mapping[str, Any]) -> list[str]:
    """Sentences about what makes numbers from here less than trustworthy, with what to do."""
    found = []
    if not environment.get("optimized", True):
        found.append("the core was built without optimisation: rebuild without POOLBENCH_CFLAGS")
    if environment.get("sanitizer"):
        found.append(f"the core is instrumented ({environment['sanitizer']}): rebuild it plain")
    load, count = environment.get("load", 0.0), environment.get("cpus", 1)
    if load > 0.5 * count:
        found.append(f"load average {load:.1f} on {count} CPUs: close other programs")
    if environment.get("governor") not in (None, "performance"):
        found.append(f"CPU governor {environment['governor']}: set it to performance")
    if environment.get("aslr") == "0":
        found.append("address randomisation is off: one memory layout may favour one arm")
    quota = str(environment.get("cpu_quota", "max")).split()
    if quota and quota[0] != "max":
        found.append(f"CPU quota {' '.join(quota)}: threads may be stopped in mid-window")
    return found


@cache
def code_hash() -> str:
    """Hash of the loaded C core: results of different code are different cells."""
    from poolbench import _core

    return hashlib.sha256(Path(_core.__file__).read_bytes()).hexdigest()[:16]


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None


def _cpu_model() -> str | None:
    for line in (_read("/proc/cpuinfo") or "").splitlines():
        if line.startswith(("model name", "Model")):
            return line.partition(":")[2].strip()
    return platform.processor() or None
