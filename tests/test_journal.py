"""The results file: whole blocks or none, whatever happens to the file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from poolbench.journal import FORMAT, Contents, Journal, encode, read

Record = dict[str, Any]
HEADER: Record = {"kind": "header", "plan": {"groups": []}}
QUICK = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def block(number: int, *, arms: int = 2, group: str = "g") -> list[Record]:
    ends = {"group": group, "block": number}
    replicates = [{"kind": "replicate", **ends, "arm": f"arm{i}"} for i in range(arms)]
    return [*replicates, {"kind": "block_end", **ends}]


def write(path: Path, *blocks: list[Record], header: Record = HEADER) -> Path:
    journal = Journal(path)
    journal.append([header])
    for records in blocks:
        journal.append(records)
    journal.close()
    return path


def arms(contents: Contents) -> list[tuple[object, object, object]]:
    return [(r.get("group"), r.get("block"), r.get("arm")) for r in contents.replicates]


def whole(number: int, group: str = "g") -> list[tuple[str, int, str]]:
    return [(group, number, "arm0"), (group, number, "arm1")]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results.jsonl"


def test_what_was_appended_is_read_back(path: Path) -> None:
    note = {"kind": "note", "load_after": 0.5}
    found = read(write(path, block(0), block(1), [note]))
    assert arms(found) == whole(0) + whole(1)
    assert found.headers == [{"format": FORMAT, **HEADER}]
    assert found.notes == [{"format": FORMAT, **note}]
    assert found.bad_lines == 0


def test_each_line_is_json_with_its_format(path: Path) -> None:
    lines = write(path, block(0)).read_text().splitlines()
    assert [json.loads(line)["format"] for line in lines] == [FORMAT] * 4


def test_opening_again_appends(path: Path) -> None:
    write(path, block(0))
    found = read(write(path, block(1)))
    assert len(found.headers) == 2
    assert arms(found) == whole(0) + whole(1)


def test_interleaved_groups_keep_their_blocks_apart(path: Path) -> None:
    one, other = block(0, group="a"), block(0, group="b")
    mixed = [one[0], other[0], one[1], one[2], other[1], other[2]]
    assert arms(read(write(path, mixed))) == whole(0, "a") + whole(0, "b")


@pytest.mark.parametrize("cut", [1, 10, 40])
def test_a_torn_last_line_costs_its_block_alone(path: Path, cut: int) -> None:
    write(path, block(0), block(1))
    path.write_bytes(path.read_bytes()[:-cut])
    # Without its line end alone the last line is still whole.
    assert arms(read(path)) == whole(0) + (whole(1) if cut == 1 else [])


def test_a_torn_line_is_counted(path: Path) -> None:
    path.write_bytes(write(path, block(0)).read_bytes()[:-10])
    assert read(path).bad_lines == 1


def test_a_block_without_its_end_does_not_count(path: Path) -> None:
    assert arms(read(write(path, block(0), block(1)[:-1]))) == whole(0)


def test_an_end_without_replicates_is_an_empty_block(path: Path) -> None:
    assert arms(read(write(path, block(0, arms=0)))) == []


def test_unknown_fields_are_ignored(path: Path) -> None:
    records = [{**r, "colour": ["blue"]} for r in block(0)]
    assert arms(read(write(path, records, header={**HEADER, "mood": None}))) == whole(0)


def test_unknown_kinds_are_ignored(path: Path) -> None:
    found = read(write(path, [{"kind": "ledger", "group": "g", "block": 0}], block(0)))
    assert arms(found) == whole(0)
    assert found.bad_lines == 0


@pytest.mark.parametrize("number", [0, 2, "1", None, [1]])
def test_another_format_is_refused_with_both_numbers(path: Path, number: object) -> None:
    path.write_text(json.dumps({"format": number, **HEADER}) + "\n")
    with pytest.raises(ValueError, match=r"results\.jsonl: format .*, this version reads 1$"):
        read(path)


def test_a_record_without_a_format_is_refused(path: Path) -> None:
    path.write_text(json.dumps(HEADER) + "\n")
    with pytest.raises(ValueError, match="format None"):
        read(path)


@pytest.mark.parametrize(
    "data",
    [b"", b"\n\n", b"hello\n", b"[1, 2]\n", b'{"a": 1}\n', b"\x00\xff\xfe\x80" * 99, b"[" * 99999],
    ids=["empty", "blank", "prose", "list", "other json", "binary", "deep"],
)
def test_a_file_that_is_not_ours_is_refused_by_name(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"results\.jsonl: not a poolbench results file"):
        read(path)


def test_a_missing_file_is_an_os_error(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read(path)


def test_binary_garbage_between_blocks_is_counted_and_passed_over(path: Path) -> None:
    write(path, block(0))
    with path.open("ab") as file:
        file.write(b"\x00\xff{]\n" + encode(block(1)))
    found = read(path)
    assert (arms(found), found.bad_lines) == (whole(0) + whole(1), 1)


@pytest.mark.parametrize("number", ["x", [1], {"a": 1}, float("inf"), float("nan")])
def test_a_block_number_that_is_none_spoils_its_own_line_only(path: Path, number: object) -> None:
    damaged = [{**r, "block": number} for r in block(1)]
    if number == {"a": 1}:
        damaged[0]["group"] = None
    assert whole(0) == arms(read(write(path, block(0), damaged)))[:2]


@QUICK
@given(data=st.binary(max_size=300))
def test_random_bytes_never_raise_anything_else(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"results\.jsonl: "):
        read(path)


GOOD = encode([HEADER, *block(0)])


@QUICK
@given(junk=st.binary(max_size=300))
def test_garbage_after_a_whole_block_does_not_lose_it(path: Path, junk: bytes) -> None:
    path.write_bytes(GOOD + junk)
    assert arms(read(path)) == whole(0)


@QUICK
@given(data=st.data())
def test_damage_never_loses_a_whole_block_before_it(path: Path, data: st.DataObject) -> None:
    good = bytearray(GOOD + encode(block(1)) + encode(block(2)))
    at = data.draw(st.integers(len(GOOD), len(good) - 1))
    length = data.draw(st.integers(0, 40))
    good[at : at + length] = data.draw(st.binary(max_size=40))
    path.write_bytes(good)
    try:
        found = read(path)
    except ValueError as e:  # the damage made it another format
        assert "this version reads" in str(e)  # noqa: PT017
    else:
        assert arms(found)[:2] == whole(0)


@QUICK
@given(cut=st.integers(len(GOOD), len(GOOD) + len(encode(block(1))) - 1))
def test_a_file_cut_off_anywhere_keeps_its_whole_blocks(path: Path, cut: int) -> None:
    path.write_bytes((GOOD + encode(block(1)))[:cut])
    assert arms(read(path))[:2] == whole(0)


# ---- writing ------------------------------------------------------------------------------------


def test_an_append_is_one_write(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal, written, real = Journal(path), [], os.write

    def record(file: int, data: bytes) -> int:
        written.append(data)
        return real(file, data)

    monkeypatch.setattr(os, "write", record)
    journal.append(block(0, arms=30))
    monkeypatch.undo()
    journal.close()
    assert written == [encode(block(0, arms=30))]


def test_a_short_write_is_an_os_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal, real = Journal(path), os.write
    monkeypatch.setattr(os, "write", lambda file, data: real(file, data[:10]))
    with pytest.raises(OSError, match=r"results\.jsonl: only 10 of \d+ bytes"):
        journal.append(block(0))
    monkeypatch.undo()
    journal.close()


def test_a_short_write_loses_its_own_block_alone(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(path, block(0))
    journal, real = Journal(path), os.write
    monkeypatch.setattr(os, "write", lambda file, data: real(file, data[:60]))
    with pytest.raises(OSError, match="only 60"):
        journal.append(block(1))
    monkeypatch.undo()
    journal.close()
    assert arms(read(path)) == whole(0)


def test_a_full_disk_is_an_os_error() -> None:
    journal = Journal("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        journal.append(block(0))
    journal.close()


def test_the_file_is_not_inherited_by_workers(path: Path) -> None:
    journal = Journal(path)
    opened = [
        int(fd)
        for fd in os.listdir("/proc/self/fd")
        if os.path.realpath(f"/proc/self/fd/{fd}") == str(path)
    ]
    assert opened
    assert not any(map(os.get_inheritable, opened))
    journal.close()
