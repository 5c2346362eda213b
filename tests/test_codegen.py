"""What the compiler made of the kernels: no indirect calls, no clock, nothing merged or dropped.

A benchmark of operations of a few nanoseconds is decided by what is in the loop, so the built
module is disassembled here, and the pools are compiled at other levels and by other compilers too.
Kernels of the `table` workload are the exception: calling through pointers is what they are for.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest

import poolbench._core as core

ROOT = Path(__file__).resolve().parent.parent
CSRC = ROOT / "csrc"
COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]
MACHINE = platform.machine()

pytestmark = [
    pytest.mark.skipif(shutil.which("objdump") is None, reason="objdump is not installed"),
    pytest.mark.skipif(
        MACHINE not in ("x86_64", "aarch64"), reason=f"no mnemonics known for {MACHINE}"
    ),
]
needs_compiler = pytest.mark.skipif(not COMPILERS, reason="neither gcc nor clang is installed")
needs_gcc = pytest.mark.skipif("gcc" not in COMPILERS, reason="gcc is not installed")

Code = dict[str, list[str]]  # function -> its lines


def disassemble(path: Path) -> Code:
    """Each function's instructions, in lines; relocations follow the line they belong to."""
    command = ["objdump", "-dr", "--no-show-raw-insn", str(path)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    functions: Code = {}
    lines: list[str] = []
    for line in text.splitlines():
        head = re.match(r"[0-9a-f]+ <(.+)>:$", line)
        if head:
            lines = functions.setdefault(head.group(1), [])
        elif line.strip():
            lines.append(line.strip())
    return functions


def kernels_of(code: Code) -> Code:
    """The kernels, with the cold parts that the compiler split off."""
    return {name: lines for name, lines in code.items() if name.startswith("kernel_")}


def inlined(kernels: Code) -> Code:
    """The kernels whose workload is known when they are compiled: all but those of `table`."""
    return {name: lines for name, lines in kernels.items() if "_table_" not in name}


def through_got(line: str, following: str) -> bool:
    """Whether a call through memory is the dynamic linker's, hence of a library's function."""
    return "(%rip)" in line and ("@" in line or "GOTPCREL" in following)


def indirect_calls(lines: list[str]) -> list[str]:
    """The calls through a register or through memory of ours. Jump tables are no calls."""
    found = []
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        x86 = re.search(r"\bcall[ql]?\s+\*", line) and not through_got(line, following)
        if x86 or re.search(r"\bblra?[az]*\s+x\d", line):
            found.append(line)
    return found


def called(lines: list[str]) -> set[str]:
    """Names of the functions that are called, whichever way the linker reaches them."""
    text = "\n".join(lines)
    direct = re.findall(r"\b(?:callq?|bl)\s+[0-9a-f]+ <(\w+)", text)
    through = re.findall(r"\bcallq?\s+\*.*<(\w+)@", text)
    relocated = re.findall(r"R_\w+\s+(\w[\w.]*)", text)
    return {*direct, *through, *relocated}


WORKLOADS = [line[0] for line in core.registry()[1]]
WORKLOAD_FUNCTION = re.compile(
    rf"({'|'.join(WORKLOADS)})_(construct|destroy|use|reset|init|fini)"
    r"(\.(isra|constprop|part|cold)\b.*)?"  # copies that gcc makes; others are data
)


def out_of_line(lines: list[str]) -> set[str]:
    """The workload functions that are called, hence were not inlined."""
    return {name for name in called(lines) if WORKLOAD_FUNCTION.fullmatch(name)}


@cache
def module_kernels() -> Code:
    assert core.__file__ is not None
    return kernels_of(disassemble(Path(core.__file__)))


def compile_c(compiler: str, source: Path, target: Path, *flags: str) -> Code:
    command = [compiler, "-std=c11", "-fPIC", *flags, "-c", str(source), "-o", str(target)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return disassemble(target)


# ---- the built module ----------------------------------------------------------------------------


def test_every_kernel_is_there() -> None:
    pools, workloads, patterns = ([line[0] for line in lines] for lines in core.registry())
    wanted = {f"kernel_{a}_{b}_{c}" for a in pools for b in workloads for c in patterns}
    wanted |= {f"{name}_plain" for name in wanted}
    assert wanted
    assert wanted <= set(module_kernels())


def test_a_kernel_goes_over_to_its_plain_form() -> None:
    kernels = module_kernels()
    plain = {name for name in kernels if name.endswith("_plain")}
    assert plain
    for name in plain:
        lines = "\n".join(kernels[name.removesuffix("_plain")])
        assert re.search(rf"\b(call|jmp|bl?)\s+[0-9a-f]+ <{name}>", lines), name
        assert not called(kernels[name]) & set(kernels), name  # and stays there


def test_no_indirect_call_in_any_kernel() -> None:
    found = {name: indirect_calls(lines) for name, lines in inlined(module_kernels()).items()}
    assert {name: calls for name, calls in found.items() if calls} == {}


def test_no_workload_function_is_called_by_a_kernel() -> None:
    found = {name: out_of_line(lines) for name, lines in inlined(module_kernels()).items()}
    assert {name: calls for name, calls in found.items() if calls} == {}


def test_kernels_of_tables_call_through_pointers() -> None:
    tables = {n: c for n, c in module_kernels().items() if n not in inlined(module_kernels())}
    assert tables
    whole = {name: lines for name, lines in tables.items() if not name.endswith(".cold")}
    assert [name for name, lines in whole.items() if not indirect_calls(lines)] == []


def test_no_clock_is_read_in_any_kernel() -> None:
    clocks = {"clock_gettime", "gettimeofday", "time", "pb_now_ns", "pb_cpu_ns"}
    found = {name: called(lines) & clocks for name, lines in module_kernels().items()}
    assert {name: calls for name, calls in found.items() if calls} == {}
    instructions = "\n".join(line for lines in module_kernels().values() for line in lines)
    assert not re.search(r"\brdtscp?\b|\bcntvct_el0\b", instructions)


def test_no_thread_local_variable_in_any_kernel() -> None:
    for name, lines in module_kernels().items():
        assert "__tls_get_addr" not in called(lines), name
        used = [line for line in lines if "%fs:" in line or "tpidr_el0" in line]
        assert [line for line in used if "%fs:0x28" not in line] == [], name  # stack protector


def test_fresh_kernels_really_allocate() -> None:
    for name, lines in inlined(module_kernels()).items():
        if name.startswith("kernel_fresh_") and not name.endswith(".cold"):
            assert {"malloc", "free"} <= called(lines), name


# ---- the counting allocator, beside the module ---------------------------------------------------


def test_the_counting_allocator_is_no_python_module() -> None:
    path = Path(core.__file__).with_name("_count.so")
    command = ["nm", "-D", "--defined-only", str(path)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    allocator = {"malloc", "calloc", "realloc", "free"}
    allocator |= {"aligned_alloc", "posix_memalign", "memalign"}
    assert set(re.findall(r" [TWBDR] (\w+)", text)) == {
        *allocator,
        "pb_count_read",
        "pb_count_set_owner",
    }
    used = subprocess.run(["nm", "-D", str(path)], check=True, capture_output=True, text=True)
    assert not re.search(r"\b_?Py[A-Z_]\w*", used.stdout)


def test_the_module_does_not_replace_the_allocator() -> None:
    command = ["nm", "-D", "--defined-only", str(core.__file__)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert re.findall(r" T (\w+)", text) == ["PyInit__core"]


# ---- which allocator function runs ---------------------------------------------------------------

COUNTER = """
#include <stddef.h>
void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t);
long mallocs, callocs;
void *malloc(size_t n) { if (n == 7777) mallocs++; return __libc_malloc(n); }
void *calloc(size_t m, size_t n) { if (m * n == 7777) callocs++; return __libc_calloc(m, n); }
"""
COUNTED = """
import ctypes, importlib.util, sys
spec = importlib.util.spec_from_file_location("_core", sys.argv[1])
core = importlib.util.module_from_spec(spec)
spec.loader.exec_module(core)
how = {"size": 7777, "zero": sys.argv[2]}
run = core.open("fresh", "bytes", "churn", threads=1, workload_params=how)
core.warm(run, 0.01)
made = core.close(run)["constructed"]
counter = ctypes.CDLL(None)
print(made, *(ctypes.c_long.in_dll(counter, name).value for name in ("mallocs", "callocs")))
"""


@needs_compiler
@pytest.mark.workers
@pytest.mark.skipif(bool(core.build_info()["sanitizer"]), reason="sanitizers replace malloc")
def test_zero_decides_between_malloc_and_calloc(tmp_path: Path) -> None:
    source, library = tmp_path / "counter.c", tmp_path / "counter.so"
    source.write_text(COUNTER)
    command = [COMPILERS[0], "-O1", "-fno-builtin", "-shared", "-fPIC", "-o", library, source]
    subprocess.run(command, check=True)
    for zero in ("memset", "calloc", "none"):
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", COUNTED, str(core.__file__), zero],
            env={**os.environ, "LD_PRELOAD": str(library)},
            check=True,
            capture_output=True,
            text=True,
        )
        made, mallocs, callocs = map(int, done.stdout.split())
        by_malloc, by_calloc = (0, made) if zero == "calloc" else (made, 0)
        shifts = mallocs - by_malloc  # before each window the heap is shifted by one such block
        assert made > 1000
        assert (0 <= shifts <= 50, callocs) == (True, by_calloc), zero


# ---- other levels and compilers ------------------------------------------------------------------


@needs_compiler
@pytest.mark.parametrize("compiler", COMPILERS)
def test_everything_is_inlined_at_any_level(compiler: str, tmp_path: Path) -> None:
    def check(job: tuple[Path, str]) -> list[str]:
        pool, level = job
        target = tmp_path / f"{pool.stem}{level}.o"
        flags = [level, f"-I{CSRC}", "-DPB_BYTES_KERNELS"]
        kernels = inlined(kernels_of(compile_c(compiler, pool, target, *flags)))
        assert kernels
        found = [call for lines in kernels.values() for call in indirect_calls(lines)]
        # gcc -O1 makes direct calls of what it found behind the constant tables
        if (compiler, level) != ("gcc", "-O1"):
            found += sorted({call for lines in kernels.values() for call in out_of_line(lines)})
        return [f"{pool.stem} {level}: {call}" for call in found]

    # of one workload: what inlines it inlines the others, and the built module has them all
    pools = sorted(CSRC.glob("pools/*.c"))
    jobs = [(pool, level) for pool in pools for level in ("-O1", "-O2", "-O3")]
    assert jobs
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        assert [call for calls in workers.map(check, jobs) for call in calls] == []


# ---- these checks can fail -----------------------------------------------------------------------

INDIRECT = """
void (*ours)(void);
void kernel_register(void (**f)(int), int n) { for (int i = 0; i < n; i++) f[i](i); }
void kernel_memory(int n) { for (int i = 0; i < n; i++) ours(); }
void kernel_library(int n) { extern void other(void); for (int i = 0; i < n; i++) other(); }
int kernel_table(int n)
{
    extern int a(void), b(void), c(void), d(void), e(void);
    int sum = 0;
    for (int i = 0; i < n; i++)
        switch (n + i) {
        case 0: sum += a(); break;
        case 1: sum += b(); break;
        case 2: sum += c(); break;
        case 3: sum += d(); break;
        case 4: sum += e(); break;
        case 5: sum -= a(); break;
        case 6: sum -= b(); break;
        }
    return sum;
}
"""


@needs_compiler
@pytest.mark.parametrize(
    # -fno-plt calls libraries through memory of the dynamic linker's. Not with clang: it takes the
    # address out of the loop into a register, which no disassembly tells from a pointer of ours.
    ("compiler", "flags"),
    [
        (name, flags)
        for name in COMPILERS
        for flags in ([], ["-fno-plt"])
        if not (flags and name == "clang")
    ],
)
def test_the_checker_sees_indirect_calls(compiler: str, flags: list[str], tmp_path: Path) -> None:
    source, target = tmp_path / "indirect.c", tmp_path / "indirect.o"
    source.write_text(INDIRECT)
    code = compile_c(compiler, source, target, "-O2", *flags, "-fvisibility=hidden")
    assert indirect_calls(code["kernel_register"])
    assert indirect_calls(code["kernel_memory"])
    assert not indirect_calls(code["kernel_library"])
    assert not indirect_calls(code["kernel_table"])
    assert "other" in called(code["kernel_library"])


OUT_OF_LINE = """
#define OURS static __attribute__((noinline))
extern void *bytes_construct(void);
extern void rng_refill(void);
OURS long bytes_use(long n) { __asm__ volatile("" : "+r"(n)); return n; }
OURS long bytes_destroy(long *p, long unused) { __asm__ volatile(""); return *p; }
static const int bytes_init_numbers[] = {3, 1, 4, 1, 5, 9, 2, 6};
long kernel_a_bytes_b(long n)
{
    rng_refill();
    return bytes_use(n) + bytes_destroy(bytes_construct(), n) + bytes_init_numbers[n];
}
"""


@needs_compiler
@pytest.mark.parametrize("compiler", COMPILERS)
def test_the_checker_sees_calls_of_workload_functions(compiler: str, tmp_path: Path) -> None:
    source, target = tmp_path / "out.c", tmp_path / "out.o"
    source.write_text(OUT_OF_LINE)
    kernels = kernels_of(compile_c(compiler, source, target, "-O2"))
    found = {name.split(".")[0] for lines in kernels.values() for name in out_of_line(lines)}
    assert found == {"bytes_construct", "bytes_use", "bytes_destroy"}


MERGED = """
#include <stdlib.h>
#include <string.h>
void *kernel_merged(size_t n)
{
    void *p = malloc(n);
    BARRIER;
    if (p)
        memset(p, 0, n);
    return p;
}
"""


@needs_gcc
def test_gcc_merges_malloc_and_memset_without_a_barrier(tmp_path: Path) -> None:
    source, target = tmp_path / "merged.c", tmp_path / "merged.o"
    source.write_text(MERGED)
    without = compile_c("gcc", source, target, "-O2", "-DBARRIER=(void)0")
    assert "calloc" in called(without["kernel_merged"])
    barrier = '-DBARRIER=__asm__ volatile("" : "+r"(p) : : "memory")'
    behind = compile_c("gcc", source, target, "-O2", barrier)
    assert "malloc" in called(behind["kernel_merged"])
    assert "calloc" not in called(behind["kernel_merged"])


# ---- instructions --------------------------------------------------------------------------------


@needs_gcc
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_the_cheapest_kernel_costs_what_the_floor_costs() -> None:
    command = [sys.executable, str(ROOT / "tests" / "bench" / "floor.py"), "--instructions"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
