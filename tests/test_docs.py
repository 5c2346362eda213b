"""What the documentation shows is what happens: doctests, and the snippets of the README."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
import shlex
import textwrap
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import poolbench
from poolbench import cli, runner

README = Path(__file__).parents[1] / "README.md"
MEASURING = ("poolbench", "poolbench.runner")  # their doctests start workers
NOT_IMPORTABLE = ("poolbench.worker", "poolbench._count", "poolbench.csrc")  # no modules


def modules() -> list[Any]:
    found = ["poolbench"]
    for module in pkgutil.walk_packages(poolbench.__path__, "poolbench."):
        if not module.name.startswith(NOT_IMPORTABLE):
            found.append(module.name)
    return [
        pytest.param(name, marks=pytest.mark.workers if name in MEASURING else ())
        for name in sorted(found)
    ]


@pytest.mark.usefixtures("long_windows")
@pytest.mark.parametrize("name", modules())
def test_the_examples_of_a_module_are_true(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    assert isinstance(module, ModuleType)
    result = doctest.testmod(module, optionflags=doctest.REPORT_NDIFF)
    assert result.failed == 0


def test_every_public_name_exists_and_is_documented() -> None:
    for name in poolbench.__all__:
        assert getattr(poolbench, name).__doc__, name
    assert set(poolbench.__all__) <= set(dir(poolbench))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'poolbench' has no attribute 'swep'"):
        _ = poolbench.swep


def blocks(*languages: str) -> list[str]:
    text = README.read_text()
    found = re.findall(r"^( *)```(\w+)\n(.*?)^ *```$", text, re.M | re.S)
    return [textwrap.dedent(body) for _, language, body in found if language in languages]


def snippets() -> list[Any]:
    return [pytest.param(b, id=f"snippet {i + 1}") for i, b in enumerate(blocks("python"))]


@pytest.mark.parametrize("snippet", snippets())
def test_a_snippet_of_the_readme_compiles(snippet: str) -> None:
    compile(snippet, "README.md", "exec")


@pytest.mark.workers
@pytest.mark.parametrize("snippet", snippets()[:1])
def test_the_first_snippet_of_the_readme_runs(
    snippet: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = runner.sweep

    def small(**given: Any) -> Any:
        return real(**{**given, "blocks": 3, "rounds": 1, "progress": False})

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(runner, "sweep", small)
    monkeypatch.setattr("poolbench.block.WINDOW_S", 0.002)
    monkeypatch.setattr("poolbench.block.WARM_S", 0.004)
    exec(compile(snippet, "README.md", "exec"), {"__name__": "__main__"})


def commands() -> list[list[str]]:
    lines = "".join(blocks("sh", "bash", "console", "shell")).replace("\\\n", " ").splitlines()
    split = [shlex.split(line.strip().removeprefix("$ "), comments=True) for line in lines]
    return [words[1:] for words in split if words and words[0] == "poolbench"]


@pytest.mark.parametrize("argv", commands(), ids=" ".join)
def test_a_command_of_the_readme_is_understood(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    if argv[:1] == ["sweep"]:
        assert cli.main([*argv, "--dry-run"]) == 0
    else:
        cli._parser().parse_args(argv)
    assert capsys.readouterr().err == ""


def test_the_readme_lists_every_pool() -> None:
    table = README.read_text().partition("## The pools")[2].partition("`poolbench list")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(poolbench.pools())
