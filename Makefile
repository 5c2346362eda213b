# Thin targets: each is one or two commands. PYTHON is any interpreter with the package's [test] extra.
PYTHON ?= .venv/bin/python
BIN = $(dir $(PYTHON))
C_FILES = $(shell git ls-files 'csrc/*.[ch]' 'csrc/*.def' 'tests/*.[ch]' 'tests/*.cpp' | grep -v '\.def$$')

.PHONY: build test test-c asan tsan limited format lint types codegen bench bench-peers gates torture \
	check

.venv/bin/python:
	python3 -m venv .venv

build: $(PYTHON)
	$(PYTHON) -m pip install -q -e '.[test]'

test: build
	$(PYTHON) -m pytest

test-c:
	$(MAKE) -C tests/c check CC=gcc
	$(MAKE) -C tests/c check CC=clang

asan: # stops at the first error, as does tsan
	$(MAKE) -C tests/c check SAN=address,undefined

tsan:
	$(MAKE) -C tests/c check SAN=thread

limited: # the binding keeps to the limited API of CPython 3.11, by any later interpreter's headers
	gcc -std=c11 -Wall -Wextra -Werror -DPy_LIMITED_API=0x030B0000 -fsyntax-only -Icsrc \
		-isystem $$($(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("include"))') \
		csrc/py_*.c

format:
	$(BIN)clang-format -i $(C_FILES)
	$(BIN)ruff format .
	$(BIN)ruff check --fix .

lint:
	$(BIN)clang-format --dry-run --Werror $(C_FILES)
	$(BIN)ruff format --check .
	$(BIN)ruff check .

types:
	$(BIN)mypy

codegen: build
	$(PYTHON) -m pytest tests/test_codegen.py

bench: build
	$(PYTHON) tests/bench/floor.py
	$(PYTHON) tests/bench/resolution.py

bench-peers: build # beside public pools, about ten minutes; PEERS=--small: does everything work?
	$(PYTHON) tests/bench/peers.py $(PEERS)

gates: build # A against A, quiet and loaded: nothing may be resolved; a few minutes
	$(PYTHON) tests/bench/aa.py

torture: build # kills and resumes 100 sweeps
	POOLBENCH_TORTURE=100 $(PYTHON) -m pytest -m torture

check:
	bash .ci/run
