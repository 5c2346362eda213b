"""Who may include and import whom, and the shape every source file keeps. Needs no build.

Each file of csrc/ names its layer in its first lines, "(L2)" or "see its_header.h", and includes
only files of the same or a lower layer. Each module of poolbench/ has a rank in RANK below and
imports, at its top level, only modules of lower rank.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CSRC = ROOT / "csrc"
PACKAGE = ROOT / "poolbench"
CORE = sorted(path for path in CSRC.rglob("*") if path.suffix in (".c", ".h", ".def"))
C_TESTS = sorted(path for path in (ROOT / "tests").rglob("*.[ch]"))
# Shared objects of their own: linked with nothing of ours, including only these.
STANDS_ALONE = {CSRC / "count_malloc.c": {"atomic.h", "base.h", "count.h", "yield.h"}}
LAYERED = [path for path in CORE if path not in STANDS_ALONE]
COMPILER = shutil.which("gcc") or shutil.which("clang")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="neither gcc nor clang is installed")

# Module -> rank. `worker` stands alone: it runs where poolbench is not importable. `_core` is the
# extension module, which anything but stats may import.
RANK = {
    "stats": 0,
    "_core": 0,
    "spec": 1,
    "environment": 2,
    "plan": 2,
    "outcomes": 2,
    "results": 3,
    "figures": 4,
    "measurement": 4,
    "records": 4,
    "journal": 4,
    "lock": 4,
    "arm": 4,
    "block": 5,
    "suite": 5,
    "runner": 6,
    "advise": 7,
    "plots": 7,
    "report": 7,
    "cli": 8,
    "pytest_plugin": 8,
    "__main__": 9,
}
ALONE = {"worker"}
READS_THE_TOP = 8  # modules from this rank on may import `poolbench` itself, which is lazy


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


# ---- C: layers -----------------------------------------------------------------------------------


@cache
def layer_of(path: Path) -> int:
    """The layer a file of csrc/ says it is in."""
    head = "\n".join(path.read_text().splitlines()[:4])
    said = re.search(r"\(L(\d)\)", head)
    if said:
        return int(said.group(1))
    header = re.search(r"see (\w+\.h)", head)
    assert header, f"{name_of(path)} says neither (L<n>) nor 'see its_header.h'"
    return layer_of(path.parent / header.group(1))


def includes_of(path: Path) -> list[Path]:
    """The files of ours that `path` includes."""
    found = []
    for name in re.findall(r'^#include "([^"]+)"', path.read_text(), re.MULTILINE):
        target = (path.parent / name).resolve()
        assert target.is_file(), f"{name_of(path)} includes {name}, which is not beside it"
        found.append(target)
    return found


def test_there_is_something_to_check() -> None:
    assert len(LAYERED) > 20
    assert {layer_of(path) for path in LAYERED} == set(range(7))
    assert all(path.is_file() for path in STANDS_ALONE)


def test_the_readme_draws_the_layers() -> None:
    """`csrc/README.md` lists every file in the layer it says it is in."""
    drawn: dict[Path, int] = {}
    layer = -1
    for line in (CSRC / "README.md").read_text().splitlines():
        row = re.match(r"(?:L(\d)|  )  (\S.*)", line)
        layer = int(row.group(1)) if row and row.group(1) else layer if row else -1
        names = re.findall(r"[\w/*]+\.(?:c|h|def)(?=\s|$)", row.group(2)) if row else []
        for path in (path for name in names for path in CSRC.glob(name)):
            if layer >= 0 and path not in STANDS_ALONE:
                assert drawn.setdefault(path, layer) == layer, name_of(path)
    assert drawn == {path: layer_of(path) for path in LAYERED}


def test_a_source_has_the_layer_of_its_header() -> None:
    for path in LAYERED:
        header = path.with_suffix(".h")
        if path.suffix == ".c" and header.is_file():
            assert layer_of(path) == layer_of(header), name_of(path)


def test_files_include_only_their_own_and_lower_layers() -> None:
    wrong = [
        f"{name_of(path)} (L{layer_of(path)}) includes {name_of(target)} (L{layer_of(target)})"
        for path in LAYERED
        for target in includes_of(path)
        if layer_of(target) > layer_of(path)
    ]
    assert wrong == []


def test_what_stands_alone_knows_little_and_is_known_by_nobody() -> None:
    for path, allowed in STANDS_ALONE.items():
        seen: set[Path] = set()
        todo = includes_of(path)
        while todo:
            target = todo.pop()
            seen.add(target)
            todo += [other for other in includes_of(target) if other not in seen]
        assert {str(target.relative_to(CSRC)) for target in seen} <= allowed
    for path in LAYERED:
        assert not set(includes_of(path)) & set(STANDS_ALONE), name_of(path)


def test_no_file_includes_itself_by_a_detour() -> None:
    TopologicalSorter({path: includes_of(path) for path in CORE}).prepare()  # raises on a cycle


def test_only_the_binding_knows_python() -> None:
    for path in CORE:
        if not path.name.startswith("py_"):
            text = path.read_text()
            assert "Python.h" not in text, name_of(path)
            assert not re.search(r"\bPy[A-Z_]\w+", text), name_of(path)


def test_pools_do_not_know_each_other() -> None:
    for path in CSRC.glob("pools/*"):
        assert not [target for target in includes_of(path) if target.parent == path.parent]
        others = [other.stem for other in CSRC.glob("pools/*.c") if other != path]
        used = [name for name in others if re.search(rf"\b{name}_[a-z]+\s*\(", path.read_text())]
        assert used == [], name_of(path)


def mutable_symbols(source: Path, target: Path) -> list[str]:
    """Variables of `source` that live in writable memory."""
    assert COMPILER is not None
    flags = ["-std=c11", "-O1", "-fno-pie", f"-I{CSRC}"]  # else constant tables look writable
    subprocess.run([COMPILER, *flags, "-c", source, "-o", target], check=True)
    listed = subprocess.run(["nm", target], check=True, capture_output=True, text=True).stdout
    return re.findall(r"^[0-9a-f]+ [bBdDC] (\w+)", listed, re.MULTILINE)


@needs_compiler
def test_pools_hold_no_state_of_the_process(tmp_path: Path) -> None:
    for path in CSRC.glob("pools/*.c"):
        assert mutable_symbols(path, tmp_path / "pool.o") == [], name_of(path)
    wrong = tmp_path / "wrong.c"
    wrong.write_text("int count(void) { static int calls; return ++calls; }\n")
    assert mutable_symbols(wrong, tmp_path / "wrong.o") != []  # the check can fail


@needs_compiler
def test_every_header_compiles_alone(tmp_path: Path) -> None:
    assert COMPILER is not None
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-fsyntax-only"]
    headers = [path for path in CORE if path.suffix != ".c" and not path.name.startswith("py_")]
    for path in headers:
        alone = tmp_path / "alone.c"
        alone.write_text(f'#include "{path}"\n#include "{path}"\nint unused;\n')
        done = subprocess.run([COMPILER, *flags, alone], capture_output=True, text=True)
        assert done.returncode == 0, f"{name_of(path)}: {done.stderr}"


# ---- C: shape ------------------------------------------------------------------------------------


def functions_of(path: Path) -> Iterator[tuple[str, int]]:
    """Each function's first line and how many lines it takes, as clang-format lays them out."""
    head = 0
    lines = path.read_text().splitlines()
    for number, line in enumerate(lines):
        if re.match(r"[A-Za-z_].*[^;:]$", line) and "(" in line:
            head = number
        if line == "}":
            yield lines[head], number - head + 1


def test_functions_are_short() -> None:
    sources = [*CORE, *C_TESTS]
    functions = [(path, *found) for path in sources for found in functions_of(path)]
    assert len(functions) > 200
    assert [(name_of(path), head, lines) for path, head, lines in functions if lines > 60] == []


def test_every_c_file_names_its_licence() -> None:
    for path in [*CORE, *C_TESTS, ROOT / "tests" / "c" / "Makefile"]:
        first = path.read_text().splitlines()[0]
        assert "SPDX-License-Identifier: MIT" in first, name_of(path)


GUARD = r"PB_\w+_(?:H|DEF)|POOLBENCH_H"  # the public header has the package's name


def test_headers_are_guarded() -> None:
    for path in [*CORE, *C_TESTS]:
        if path.suffix in (".h", ".def"):
            text = path.read_text()
            guard = re.search(rf"^#ifndef ({GUARD})\n#define ({GUARD})$", text, re.MULTILINE)
            assert guard, f"{name_of(path)} has no guard"
            assert guard.group(1) == guard.group(2), name_of(path)
    core = [re.findall(rf"^#ifndef ({GUARD})$", path.read_text(), re.MULTILINE) for path in CORE]
    guards = [guard for found in core for guard in found]
    assert len(guards) == len(set(guards))


def test_lines_fit() -> None:
    for path in [*CORE, *C_TESTS]:  # Python's are ruff's to check
        # tables of the lists are kept one entry a line, where clang-format is switched off
        text = re.sub(r"clang-format off.*?clang-format on", "", path.read_text(), flags=re.S)
        assert [line for line in text.splitlines() if len(line) > 100] == [], name_of(path)


def test_names_say_something() -> None:
    empty = {"utils", "util", "helpers", "helper", "common", "misc"}
    for top in (CSRC, PACKAGE, ROOT / "tests"):
        assert [name_of(path) for path in top.rglob("*") if path.stem.strip("_") in empty] == []


# ---- compiler flags ------------------------------------------------------------------------------


def cancelled(flags: set[str]) -> list[str]:
    """The flags whose opposite is among `flags` too."""
    return sorted(flag for flag in flags if f"{flag[:2]}no-{flag[2:]}" in flags)


@pytest.mark.parametrize("file", ["setup.py", "tests/c/Makefile"])
def test_no_flag_cancels_another(file: str) -> None:
    lines = (ROOT / file).read_text().splitlines()
    code = [line for line in lines if not line.lstrip().startswith("#")]
    flags = set(re.findall(r"(?<![\w-])-[Wf][a-z][\w=+-]*", "\n".join(code)))
    assert "-Wconversion" in flags
    assert cancelled(flags) == []
    assert len(set(re.findall(r"(?<![\w-])-O\w\b", "\n".join(code)))) == 1


def test_cancelled_flags_are_seen() -> None:
    assert cancelled({"-Wall", "-Wconversion", "-Wno-conversion"}) == ["-Wconversion"]
    assert cancelled({"-fplt", "-fno-plt", "-Wno-shadow"}) == ["-fplt"]
    assert cancelled({"-Wconversion", "-Wno-sign-conversion"}) == []


def test_c_tests_are_built_like_the_module() -> None:
    setup, makefile = ((ROOT / file).read_text() for file in ("setup.py", "tests/c/Makefile"))
    for flag in re.findall(r'"(-[\w=+-]+)"', setup):
        assert flag in makefile or flag == "-fvisibility=hidden", flag


# ---- Python: import direction --------------------------------------------------------------------


def component_of(path: Path) -> str:
    """The module or subpackage of poolbench that a file belongs to; "" for __init__.py."""
    first = path.relative_to(PACKAGE).parts[0]
    return "" if first == "__init__.py" else first.removesuffix(".py")


def is_type_checking(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def top_level_imports(body: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Imports that run when the module is imported, those inside `if` and `try` included."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If | ast.Try | ast.With) and not is_type_checking(node):
            for part in ("body", "orelse", "finalbody"):
                yield from top_level_imports(getattr(node, part, []))
            for handler in getattr(node, "handlers", []):
                yield from top_level_imports(handler.body)


def imported_by(path: Path) -> set[str]:
    """Components of poolbench that a file imports; "poolbench" for the top."""
    found: set[str] = set()
    for node in top_level_imports(ast.parse(path.read_text()).body):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            assert node.level == 0, f"{name_of(path)} imports relatively"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "_core":
                found.add("_core")
            elif parts[0] == "poolbench":
                known = len(parts) > 1 and (parts[1] in RANK or parts[1] in ALONE)
                found.add(parts[1] if known else "poolbench")
    return found


MODULES = sorted(path for path in PACKAGE.rglob("*.py"))


def test_every_module_has_a_rank() -> None:
    known = {"", *RANK, *ALONE}
    missing = {component_of(path) for path in MODULES} - known
    assert not missing, f"give {missing} a rank in RANK of {Path(__file__).name}"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_modules_import_only_lower_ones(path: Path) -> None:
    me = component_of(path)
    imported = imported_by(path) - {me}
    if me == "":
        assert imported == set(), "poolbench/__init__.py fetches its names on first use"
    elif me in ALONE:
        assert imported <= {"_core"}
    else:
        rank = RANK[me]
        wrong = {name for name in imported - {"poolbench"} if RANK.get(name, 99) >= rank}
        assert wrong == set()
        assert "poolbench" not in imported or rank >= READS_THE_TOP


def test_stats_do_not_know_the_core() -> None:
    for path in PACKAGE.glob("stats/*.py"):
        assert "_core" not in path.read_text(), name_of(path)  # pure functions of numbers


def test_import_loads_nothing_heavy() -> None:
    heavy = ["numpy", "scipy", "matplotlib", "pandas", "tqdm"]
    code = f"import sys, poolbench; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT
    )
    assert done.stdout.strip() == "[]"
