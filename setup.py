"""Build `poolbench._core` from csrc/: the Python-free layers in parallel, then the binding."""

from __future__ import annotations

import os
import platform
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

HERE = Path(__file__).parent
if not sys.platform.startswith("linux") or platform.libc_ver()[0] != "glibc":
    sys.exit("poolbench needs Linux with glibc: its pools sleep on futexes and count its malloc")
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion"]
# Mixing int and size_t counts is safe here and -Wsign-conversion would bury the rest.
WARNINGS += ["-Wno-sign-conversion"]
# Whatever Python was built with: kernels are compiled at -O2 with aligned loops.
FLAGS = ["-std=c11", "-O2", "-g", "-pthread", "-fvisibility=hidden"]
ALIGN = ["-falign-functions=64", "-falign-loops=32"]


COUNTER = "csrc/count_malloc.c"  # the counting allocator: a shared object of its own


def c_sources() -> list[str]:
    """Every C file of the core, relative to this directory."""
    found = [*HERE.glob("csrc/*.c"), *HERE.glob("csrc/pools/*.c")]
    names = sorted(str(path.relative_to(HERE)) for path in found)
    return [name for name in names if name != COUNTER]


class ParallelBuild(build_ext):
    """Compile one object per source, as many at once as there are CPUs."""

    def build_extension(self, ext: Extension) -> None:
        flags = os.environ.get("POOLBENCH_CFLAGS", "").split()
        args = [*FLAGS, *ALIGN, *WARNINGS, *flags]
        described = " ".join([*FLAGS, *ALIGN, *flags])
        macros = [("PB_BUILD_FLAGS", f'"{described}"')]

        def compile_one(source: str) -> str:
            objects = self.compiler.compile(
                [source],
                output_dir=self.build_temp,
                macros=macros,
                include_dirs=ext.include_dirs,
                extra_postargs=args,
                depends=ext.depends,
            )
            return str(objects[0])

        with ThreadPoolExecutor(os.cpu_count()) as workers:
            objects = list(workers.map(compile_one, ext.sources))
        linked = self.get_ext_fullpath(ext.name)
        Path(linked).parent.mkdir(parents=True, exist_ok=True)
        self.compiler.link_shared_object(objects, linked, extra_postargs=["-pthread", *flags])

    def get_ext_filename(self, fullname: str) -> str:
        """The counting allocator is no Python module: it has one name for every interpreter."""
        if fullname.endswith("_count"):
            return os.path.join(*fullname.split(".")) + ".so"
        return str(super().get_ext_filename(fullname))


headers = [str(path.relative_to(HERE)) for path in HERE.glob("csrc/**/*.[hd]*")]
setup(
    ext_modules=[
        Extension("poolbench._core", c_sources(), depends=headers),
        Extension("poolbench._count", [COUNTER], depends=headers),
    ],
    cmdclass={"build_ext": ParallelBuild},
)
