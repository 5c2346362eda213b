"""One arm of a block: a worker process, and the conversation with it.

The process is fresh, has its own process group, ignores Ctrl-C and dies with its parent. Every
answer is waited for in slices of 50 ms, with a deadline; whatever goes wrong becomes an `ArmFailed`
with the reason and the tail of what the worker printed.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final
from urllib.parse import quote

from poolbench.spec import Cell

_WORKER: Final = Path(__file__).with_name("worker.py")
_SLICE_S: Final = 0.05
_TAIL_BYTES: Final = 400
PATIENCE_S: Final = 30.0
"""Seconds beyond the expected that a worker may take for one answer."""


class ArmFailed(Exception):
    """This replicate failed; the text is the reason."""


class LiveArm:
    """A worker process running one cell, parked between windows."""

    def __init__(self, *, counted: bool = False, patience: float = PATIENCE_S) -> None:
        """Start a worker; `counted` puts the counting allocator before whatever it preloads."""
        from poolbench import _core

        environ = dict(os.environ)
        if counted:
            counter = str(Path(_core.__file__).with_name("_count.so"))
            environ["LD_PRELOAD"] = ":".join([counter, *environ.get("LD_PRELOAD", "").split()])

        self._patience = patience
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as we
        command = [sys.executable, "-I", "-S", str(_WORKER), str(Path(_core.__file__).parent)]
        try:
            self._process = subprocess.Popen(
                [*command, str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                env=environ,
                bufsize=0,
                process_group=0,
            )
        except BaseException as e:
            self._stderr.close()
            if isinstance(e, OSError):
                raise ArmFailed(f"no worker could be started: {e}") from e
            raise
        self._received = b""

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, line: str) -> None:
        """Send one command; a worker that is gone is noticed by `receive`."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(line.encode() + b"\n")

    def receive(self, expected: str, seconds: float = 0.0) -> list[str]:
        """Wait for the answer `expected` and return its words; raise ArmFailed otherwise."""
        line = self._line(time.monotonic() + seconds + self._patience)
        name, _, rest = line.partition(" ")
        if name == expected:
            return rest.split()
        raise ArmFailed(rest.partition(" ")[2] if name == "error" else f"unexpected answer: {line}")

    def ask(self, line: str, seconds: float = 0.0) -> list[str]:
        """Send one command and return the words of its answer."""
        self.send(line)
        return self.receive(ANSWERS[line.partition(" ")[0]], seconds)

    def kill(self) -> None:
        """End the process group at once and reap the process; nothing if that has happened."""
        if self._process.returncode is None:  # else the number may be somebody else's by now
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._release()

    def finish(self) -> None:
        """Let a closed worker end by itself."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            self.kill()
        else:
            self._release()

    def _release(self) -> None:
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._stderr):
            if pipe is not None:
                pipe.close()

    def _line(self, deadline: float) -> str:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        while b"\n" not in self._received:
            if time.monotonic() > deadline:
                raise ArmFailed(self._explain("no answer in time"))
            if not select.select([descriptor], [], [], _SLICE_S)[0]:
                continue
            data = os.read(descriptor, 65536)
            if not data:
                raise ArmFailed(self._explain(self._death()))
            self._received += data
        line, _, self._received = self._received.partition(b"\n")
        return line.decode(errors="replace")

    def _death(self) -> str:
        try:
            code = self._process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            return "the worker closed its pipe"
        if code < 0:
            return f"the worker was killed by {signal.Signals(-code).name}"
        return f"the worker ended with exit code {code}"

    def _explain(self, what: str) -> str:
        size = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, size - _TAIL_BYTES))
        tail = " ".join(self._stderr.read().decode(errors="replace").split())
        return f"{what}: {tail}" if tail else what


ANSWERS: Final = {
    "open": "ready",
    "warm": "warm",
    "window": "window",
    "count": "counted",
    "close": "closed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """How to open a cell, besides what it is."""

    seed: int
    spin: int  # iterations per millisecond
    cpus: tuple[int, ...]
    memory: int  # bytes it may use
    counted: bool = False


def open_line(cell: Cell, how: Opening) -> str:
    """The command that opens `cell` in a worker."""
    words = [f"pool={cell.pool.name}", f"workload={cell.workload.name}"]
    words += [f"pattern={cell.pattern.name}", f"threads={cell.threads}", f"seed={how.seed}"]
    words += [f"spin={how.spin}", f"cpus={','.join(map(str, how.cpus))}"]
    words += [f"memory={how.memory}", f"counted={int(how.counted)}"]
    words += [f"checked={int(cell.checked)}"]
    for spec in (cell.pool, cell.workload, cell.pattern):
        for name, value in spec.params:
            words.append(f"{spec.kind}.{name}={quote(str(value), safe='/:,()')}")
    return " ".join(["open", *words])
