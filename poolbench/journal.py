"""The results file: JSON lines, append-only, written block by block.

Format history:
    1  first. Kinds: header, replicate, block_end, ledger, note.

A block is one write of all its lines ending in ``block_end``; lines without their end do not
count, so a file cut off anywhere loses at most the block in flight. Readers ignore unknown fields
and kinds, skip lines that are not JSON objects (counting them), and refuse formats they do not
know.

    {"format": 1, "kind": "header", "plan": {...}, "environment": {...}, "calibration": {...}}
    {"format": 1, "kind": "replicate", "key": ..., "group": ..., "block": 0, "arm": "locked",
     "windows": [[start_s, seconds, order, [operations per thread], cpu_s,
                  [page faults, context switches]], ...],
     "status": "ok", "reason": "", "account": {...}}
    {"format": 1, "kind": "block_end", "group": ..., "block": 0}
    {"format": 1, "kind": "ledger", "key": ..., "group": ..., "arm": ..., "counts": {...},
     "account": {...}, "status": "ok", "reason": ""}
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

FORMAT: Final = 1


@dataclass(slots=True)
class Contents:
    """What a results file holds: headers in order, whole blocks, ledgers, notes, bad lines."""

    headers: list[dict[str, Any]] = field(default_factory=list)
    replicates: list[dict[str, Any]] = field(default_factory=list)
    ledgers: list[dict[str, Any]] = field(default_factory=list)
    notes: list[dict[str, Any]] = field(default_factory=list)
    bad_lines: int = 0


def encode(records: Iterable[Mapping[str, Any]]) -> bytes:
    """Return the lines of `records`, each with its format number."""
    lines = [json.dumps({"format": FORMAT, **r}, separators=(",", ":")) for r in records]
    return "".join(line + "\n" for line in lines).encode()


class Journal:
    """An open results file; every `append` is one write, so a kill leaves whole blocks or none."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._file = os.open(self.path, flags, 0o644)
        self._torn = _torn(self.path)

    def append(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Write all `records` at once; OSError (a full disk, say) leaves a torn, ignored tail."""
        data = (b"\n" if self._torn else b"") + encode(records)
        try:
            written = os.write(self._file, data)
        except OSError as e:
            e.filename = str(self.path)
            raise
        self._torn = written != len(data)
        if self._torn:
            raise OSError(f"{self.path}: only {written} of {len(data)} bytes could be written")

    def close(self) -> None:
        os.close(self._file)


def _torn(path: Path) -> bool:
    """Whether the file ends in the middle of a line, as after a kill or on a full disk."""
    with open(path, "rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


def read(path: str | os.PathLike[str]) -> Contents:
    """Read a results file.

    Raises ValueError in one line when the file is not ours or has an unknown format, OSError when
    it cannot be read.
    """
    found = Contents()
    open_blocks: dict[tuple[str, str], list[dict[str, Any]]] = {}
    with open(path, "rb") as file:
        for line in file:
            record = _decode(line)
            if line.isspace():
                continue
            if record is None:
                found.bad_lines += 1
                continue
            _check_format(record, path)
            _sort_in(record, found, open_blocks)
    if not found.headers:
        raise ValueError(f"{path}: not a poolbench results file")
    return found


def _decode(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError, MemoryError):
        return None
    return record if isinstance(record, dict) else None


def _check_format(record: Mapping[str, Any], path: object) -> None:
    if "kind" in record and record.get("format") != FORMAT:
        raise ValueError(f"{path}: format {record.get('format')}, this version reads {FORMAT}")


def _sort_in(
    record: dict[str, Any],
    found: Contents,
    open_blocks: dict[tuple[str, str], list[dict[str, Any]]],
) -> None:
    kind = record.get("kind")
    block = (str(record.get("group")), str(record.get("block")))
    if kind == "header":
        found.headers.append(record)
        open_blocks.clear()  # a new sweep, or this one resumed: what has not ended never will
    elif kind == "replicate":
        open_blocks.setdefault(block, []).append(record)
    elif kind == "block_end":
        found.replicates.extend(open_blocks.pop(block, []))
    elif kind == "ledger":
        found.ledgers.append(record)
    elif kind == "note":
        found.notes.append(record)
    elif kind is None:
        found.bad_lines += 1
