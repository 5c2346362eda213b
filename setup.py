"""Build `poolbench._core` from csrc/: the Python-free layers in parallel, then the binding."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

HERE = Path(__file__).parent
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion"]
# Mixing int and size_t counts is safe here and -Wsign-conversion would bury the rest.
WARNINGS += ["-Wno-sign-conversion"]
# Whatever Python was built with: kernels are compiled at -O2 with aligned loops.
FLAGS = ["-std=c11", "-O2", "-g", "-pthread", "-fvisibility=hidden"]
ALIGN = ["-falign-functions=64", "-falign-loops=32"]


def c_sources() -> list[str]:
    """Every C file of the core, relative to this directory."""
    found = [*HERE.glob("csrc/*.c"), *HERE.glob("csrc/pools/*.c")]
    return sorted(str(path.relative_to(HERE)) for path in found)


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


headers = [str(path.relative_to(HERE)) for path in HERE.glob("csrc/**/*.[hd]*")]
setup(
    ext_modules=[Extension("poolbench._core", c_sources(), depends=headers)],
    cmdclass={"build_ext": ParallelBuild},
)
