"""One sweep per host: a lock file per user names the process of the other.

Two sweeps at once would measure each other. The lock is `flock` on a file in the temporary folder;
``POOLBENCH_LOCK`` names another file. The kernel drops it when its holder ends, however it ends.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def lock_path() -> Path:
    """Return the file that the sweeps of this user agree on."""
    default = Path(tempfile.gettempdir()) / f"poolbench-{os.getuid()}.lock"
    return Path(os.environ.get("POOLBENCH_LOCK") or default)


@contextmanager
def host_lock(*, wanted: bool = True) -> Iterator[None]:
    """Hold the lock inside the block; BlockingIOError names the process that has it."""
    if not wanted:
        yield
        return
    path = lock_path()
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            other = os.read(descriptor, 32).decode(errors="replace").strip() or "unknown"
            raise BlockingIOError(
                f"another sweep is running here (pid {other}): wait for it, or switch the lock off"
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)
