"""Commands: their exit codes, what they print, and the files they leave."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import poolbench
from poolbench.cli import main
from poolbench.suite import Suite, load

MakeSuite = Callable[..., Suite]
Captured = pytest.CaptureFixture[str]
TINY = ["--pool", "fresh,locked", "--workload", "bytes", "--threads", "1"]
TINY += ["--blocks", "3", "--rounds", "2"]
pytestmark = pytest.mark.usefixtures("long_windows")
RESTORED = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
PROGRAM = RESTORED + "from poolbench.cli import main; sys.exit(main(sys.argv[1:]))"


def run(*argv: str) -> int:
    """The exit code, wherever it comes from."""
    try:
        return main(argv)
    except SystemExit as e:
        return int(e.code or 0)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test writes into a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def stored(crossing: Suite, folder: Path) -> str:
    crossing.save(folder / "run.jsonl")
    return "run.jsonl"


# ---- commands without workers -------------------------------------------------------------------


def test_the_version_is_that_of_the_package(capsys: Captured) -> None:
    assert run("--version") == 0
    assert capsys.readouterr().out == f"{poolbench.__version__}\n"


@pytest.mark.parametrize("command", [[], ["sweep"], ["compare"], ["crossover"], ["plot"], ["env"]])
def test_every_command_has_help(capsys: Captured, command: list[str]) -> None:
    assert run(*command, "--help") == 0
    assert capsys.readouterr().out.startswith("usage: poolbench")


def test_list_shows_everything_there_is(capsys: Captured) -> None:
    assert run("list") == 0
    out = capsys.readouterr().out
    for listing in (poolbench.pools(), poolbench.workloads(), poolbench.patterns()):
        assert all(re.search(f"^{name} ", out, re.M) for name in listing)


@pytest.mark.parametrize("name", ["fresh", "locked", "direct", "churn"])
def test_list_shows_one_entry_in_full(capsys: Captured, name: str) -> None:
    assert run("list", name) == 0
    assert re.match(rf"(pool|workload|pattern) {name}: ", capsys.readouterr().out)


def test_env_shows_this_machine(capsys: Captured) -> None:
    assert run("env") == 0
    assert re.search(r"^cpus +\d+$", capsys.readouterr().out, re.M)


def test_env_is_json_on_request(capsys: Captured) -> None:
    assert run("env", "--json") == 0
    assert json.loads(capsys.readouterr().out)["cpus"] >= 1


def test_a_dry_run_says_the_size_and_leaves_nothing(capsys: Captured, folder: Path) -> None:
    assert run("sweep", "--dry-run") == 0
    assert re.match(
        r"15 groups of 3 arms, 5 blocks: 225 replicates of 6 windows, about \d+ s on \d+ CPUs\n",
        capsys.readouterr().out,
    )
    assert list(folder.iterdir()) == []


def test_compare_prints_a_sentence_per_comparison(capsys: Captured, stored: str) -> None:
    assert run("compare", stored) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("bytes, churn, 1 thread: locked wins against fresh, 1.50x [")
    assert lines[3].startswith("bytes, churn, 8 threads: locked loses to fresh, 0.500x [")


def test_compare_takes_a_baseline_level_and_margin(capsys: Captured, stored: str) -> None:
    options = ["--baseline", "locked", "--level", "0.95", "--margin", "0.6"]
    assert run("compare", stored, *options) == 0
    assert "fresh and locked are equivalent" in capsys.readouterr().out


def test_compare_needs_two_arms(capsys: Captured, make_suite: MakeSuite, folder: Path) -> None:
    make_suite({("fresh", 1): 1e7}).save(folder / "one.jsonl")
    assert run("compare", "one.jsonl") == 3
    assert capsys.readouterr().err == "poolbench: one.jsonl: no group has two arms to compare\n"


def test_crossover_prints_a_sentence(capsys: Captured, stored: str) -> None:
    assert run("crossover", stored) == 0
    out = capsys.readouterr().out
    assert out.startswith("bytes, churn: locked wins up to 2 threads, fresh from 8 threads on")
    assert out.count("\n") == 1


PNG = b"\x89PNG"


@pytest.mark.parametrize("kind", ["scaling", "crossover"])
def test_plot_draws_a_stored_file(capsys: Captured, stored: str, folder: Path, kind: str) -> None:
    assert run("plot", stored, "--kind", kind) == 0
    assert capsys.readouterr().out == f"wrote {kind}.png\n"
    assert (folder / f"{kind}.png").read_bytes().startswith(PNG)


def test_plot_draws_a_part_where_it_is_told(stored: str, folder: Path) -> None:
    assert run("plot", stored, "--at", "threads=1,2", "-o", "part.png") == 0
    assert (folder / "part.png").read_bytes().startswith(PNG)


# ---- files and folders --------------------------------------------------------------------------


def test_existing_results_are_not_overwritten_unasked(capsys: Captured, folder: Path) -> None:
    (folder / "out").mkdir()
    (folder / "out" / "results.jsonl").write_text("precious")
    assert run("sweep", *TINY, "--out", "out") == 3
    err = capsys.readouterr().err
    assert err == (
        "poolbench: out/results.jsonl: not a poolbench results file; choose another name\n"
    )
    assert (folder / "out" / "results.jsonl").read_text() == "precious"


@pytest.mark.parametrize("out", ["/proc/nowhere", "file", "file/below"])
def test_a_folder_that_cannot_be_made_is_one_line(capsys: Captured, folder: Path, out: str) -> None:
    (folder / "file").write_text("not a folder")
    assert run("sweep", *TINY, "--out", out) == 3
    assert re.fullmatch(rf"poolbench: {out}.*: [A-Z][a-z ]+\n", capsys.readouterr().err)


def test_a_full_disk_is_one_line(capsys: Captured, folder: Path) -> None:
    (folder / "out").mkdir()
    (folder / "out" / "results.jsonl").symlink_to("/dev/full")
    assert run("sweep", *TINY, "--out", "out", "--overwrite") == 3
    assert "No space left on device" in capsys.readouterr().err


@pytest.mark.workers
def test_a_sweep_leaves_its_results_and_says_where(capsys: Captured, folder: Path) -> None:
    assert run("sweep", *TINY) == 0
    out, err = capsys.readouterr()
    assert out.startswith("1 group of 2 arms, 3 blocks: 6 replicates of 2 windows")
    assert "ratio to fresh" in out
    assert out.endswith("wrote poolbench-out/results.jsonl\n")
    assert err == ""
    assert len(load(folder / "poolbench-out" / "results.jsonl").rows()) == 6


@pytest.mark.workers
def test_a_second_sweep_goes_beside_the_first(folder: Path) -> None:
    assert [run("sweep", *TINY, "--quiet") for _ in range(3)] == [0, 0, 0]
    names = ["poolbench-out", "poolbench-out-2", "poolbench-out-3"]
    assert sorted(p.name for p in folder.iterdir()) == names
    assert all((folder / name / "results.jsonl").stat().st_size > 0 for name in names)


@pytest.mark.workers
def test_overwriting_replaces_the_results(folder: Path) -> None:
    assert run("sweep", *TINY, "--out", "out") == 0
    assert run("sweep", *TINY, "--out", "out", "--overwrite", "--seed", "2") == 0
    suite = load(folder / "out" / "results.jsonl")
    assert [h["plan"]["seed"] for h in suite.headers] == [2]
    assert len(suite.rows()) == 6


@pytest.mark.workers
def test_a_sweep_over_threads_draws_pictures(folder: Path) -> None:
    argv = [*TINY, "--threads", "1,2", "--blocks", "3", "--out", "out"]
    assert run("sweep", *argv) == 0
    names = ["crossover.png", "results.jsonl", "scaling.png"]
    assert sorted(p.name for p in (folder / "out").iterdir()) == names


@pytest.mark.workers
def test_pictures_may_be_left_out(folder: Path) -> None:
    assert run("sweep", *TINY, "--threads", "1,2", "--no-pictures", "--out", "out") == 0
    assert [p.name for p in (folder / "out").iterdir()] == ["results.jsonl"]


@pytest.mark.workers
def test_failed_cells_are_exit_code_4(capsys: Captured) -> None:
    argv = ["--pool", "thread_local", "--workload", "direct", "--axis", "quota=16,1GiB"]
    argv += ["--compare", "quota", "--threads", "1", "--blocks", "1", "--rounds", "1"]
    assert run("sweep", *argv) == 4
    assert "1 of 1 replicates failed: a thread could not attach" in capsys.readouterr().out


@pytest.mark.workers
def test_one_arm_at_several_thread_counts_is_a_fine_sweep() -> None:
    argv = ["--pool", "fresh", "--workload", "bytes", "--threads", "1,2", "--no-pictures"]
    assert run("sweep", *argv, "--blocks", "1", "--rounds", "1") == 0


# ---- as a process -------------------------------------------------------------------------------


def command(*argv: str, **options: Any) -> subprocess.CompletedProcess[str]:
    given: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 60, **options}
    return subprocess.run([sys.executable, *argv], check=False, **given)


def test_the_package_runs_as_a_module() -> None:
    done = command("-m", "poolbench", "--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{poolbench.__version__}\n", "")


def test_the_module_returns_the_exit_code() -> None:
    done = command("-m", "poolbench", "list", "lifo")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.count("\n") == 1


def test_the_command_is_installed() -> None:
    script = Path(sys.executable).with_name("poolbench")
    if not script.exists():
        pytest.skip("installed without scripts")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"{poolbench.__version__}\n"


def test_a_reader_that_has_seen_enough_is_no_error(stored: str) -> None:
    done = subprocess.run(
        ["bash", "-c", f'"{sys.executable}" -m poolbench list | head -1; echo ${{PIPESTATUS[0]}}'],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] == "0"


def without_reader(*argv: str) -> subprocess.CompletedProcess[str]:
    reading, writing = os.pipe()
    os.close(reading)
    buffered = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    options = {"capture_output": False, "stderr": subprocess.PIPE, "env": buffered}
    done = command("-m", "poolbench", *argv, stdout=writing, **options)
    os.close(writing)
    return done


def test_a_reader_that_is_gone_while_printing_is_no_error() -> None:
    done = without_reader("sweep", "--dry-run")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_reader_that_is_gone_at_the_end_is_no_error() -> None:
    done = without_reader("list")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.workers
def test_an_interrupt_keeps_whole_blocks_and_is_exit_code_130(folder: Path) -> None:
    argv = [sys.executable, "-c", PROGRAM, "sweep", *TINY, "--blocks", "1000"]
    results = folder / "poolbench-out" / "results.jsonl"
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(argv, **pipes) as process:
        deadline = time.monotonic() + 30
        while not (results.exists() and b"block_end" in results.read_bytes()):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err == ""
    kept = len(load(results).rows())
    assert out.splitlines()[-1] == (
        f"interrupted: {kept} of 2000 replicates kept in poolbench-out/results.jsonl"
    )
    assert kept % 2 == 0
