"""Types of the C module; see csrc/py_module.c and csrc/py_run.c."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, final

class Error(Exception): ...

class BuildInfo(TypedDict):
    compiler: str
    flags: str
    optimized: bool
    assertions: bool
    sanitizer: str
    free_threaded: bool
    python: str

@final
class _Run: ...

_Param = tuple[str, str, int, int, int, str | None, str]
_Line = tuple[str, str, Any, list[_Param]]

def build_info() -> BuildInfo: ...
def registry() -> tuple[list[_Line], list[_Line], list[_Line]]: ...
def calibrate() -> tuple[int, float]: ...
def become_worker(parent: int, /) -> None: ...
def open(
    pool: str,
    workload: str,
    pattern: str,
    *,
    threads: int = ...,
    seed: int = ...,
    spin: int = ...,
    memory: int = ...,
    counted: bool = ...,
    checked: bool = ...,
    cpus: Sequence[int] | None = ...,
    pool_params: Mapping[str, int | str] | None = ...,
    workload_params: Mapping[str, int | str] | None = ...,
    pattern_params: Mapping[str, int | str] | None = ...,
) -> _Run: ...
def warm(run: _Run, seconds: float, /) -> tuple[float, int]: ...
def window(
    run: _Run, seconds: float, /
) -> tuple[int, int, int, list[int], tuple[int, int, int, int]]: ...
def count_pass(run: _Run, attempts: int, /) -> dict[str, int]: ...
def close(run: _Run, /) -> dict[str, int]: ...
