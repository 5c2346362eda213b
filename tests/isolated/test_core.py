"""The C module by itself, misused in every way, in a process of its own each time."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

RunPython = Callable[..., "subprocess.CompletedProcess[str]"]
START = """
import gc, os, threading, time
from poolbench import _core

def open(**given):
    return _core.open("locked", "bytes", "churn", **{"threads": 2, **given})

def tasks():
    return len(os.listdir("/proc/self/task"))
"""


def passes(run_python: RunPython, code: str) -> None:
    done = run_python(START + code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# ---- lives of a replicate ------------------------------------------------------------------------


def test_a_replicate_opens_warms_measures_and_closes(run_python: RunPython) -> None:
    passes(
        run_python,
        """
run = open()
rate, batch = _core.warm(run, 0.004)
assert rate > 0 and batch >= 1
start, ns, cpu, counts, usage = _core.window(run, 0.1)
assert len(usage) == 4 and all(n >= 0 for n in usage)
assert start > 0 and ns >= 100_000_000 and cpu >= 0
assert len(counts) == 2 and sum(counts) > 0
account = _core.close(run)
assert account["constructed"] == account["destroyed"] + account["idle"]
assert account["operations"] >= sum(counts)
""",
    )


@pytest.mark.parametrize(
    "call", ["_core.close(run)", "_core.warm(run, 0.002)", "_core.window(run, 0.002)"]
)
def test_a_closed_replicate_is_an_error_to_use(run_python: RunPython, call: str) -> None:
    passes(
        run_python,
        f"""
run = open()
_core.close(run)
for _ in range(2):
    try:
        {call}
    except _core.Error as e:
        assert str(e) == "the replicate is closed"
    else:
        raise AssertionError("no error")
""",
    )


def test_closing_ends_the_threads(run_python: RunPython) -> None:
    passes(
        run_python,
        """
before = tasks()
run = open(threads=4)
assert tasks() == before + 4
_core.close(run)
assert tasks() == before
""",
    )


@pytest.mark.parametrize("use", ["", "_core.warm(run, 0.002)", "_core.window(run, 0.002)"])
def test_a_replicate_nobody_closes_takes_its_threads_with_it(
    run_python: RunPython, use: str
) -> None:
    passes(
        run_python,
        f"""
before = tasks()
run = open(threads=4)
{use}
del run
gc.collect()
assert tasks() == before
""",
    )


def test_a_process_may_end_with_an_open_replicate(run_python: RunPython) -> None:
    passes(run_python, "run = open()\n_core.window(run, 0.002)\n")


def test_two_replicates_may_be_measured_at_the_same_time(run_python: RunPython) -> None:
    passes(
        run_python,
        """
found = []
def measure(pool):
    run = _core.open(pool, "bytes", "churn", threads=1)
    _core.warm(run, 0.004)
    start, ns, _, counts, _ = _core.window(run, 0.2)
    account = _core.close(run)
    assert account["constructed"] == account["destroyed"] + account["idle"]
    found.append((start, start + ns, sum(counts)))
threads = [threading.Thread(target=measure, args=[pool]) for pool in ("fresh", "locked")]
for t in threads: t.start()
for t in threads: t.join()
(a, b) = found
assert a[2] > 0 and b[2] > 0
assert a[0] < b[1] and b[0] < a[1], "they did not overlap"
""",
    )


@pytest.mark.parametrize("call", ["window(run, 0.01)", "warm(run, 0.01)", "close(run)"])
def test_a_replicate_in_use_is_an_error_to_use(run_python: RunPython, call: str) -> None:
    passes(
        run_python,
        f"""
run = open()
thread = threading.Thread(target=_core.window, args=(run, 0.3))
thread.start()
time.sleep(0.05)
try:
    _core.{call}
except _core.Error as e:
    assert str(e) == "the replicate is in use by another thread"
else:
    raise AssertionError("no error")
thread.join()
_core.close(run)
""",
    )


def test_many_threads_at_one_replicate_never_break_it(run_python: RunPython) -> None:
    passes(
        run_python,
        """
run, refused, counted = open(), [], []
def hammer():
    for _ in range(20):
        try:
            counted.append(sum(_core.window(run, 0.001)[3]))
        except _core.Error:
            refused.append(1)
            time.sleep(0.0005)
threads = [threading.Thread(target=hammer) for _ in range(4)]
for t in threads: t.start()
for t in threads: t.join()
assert counted and refused
account = _core.close(run)
assert account["constructed"] == account["destroyed"] + account["idle"]
assert account["operations"] >= sum(counted)
""",
    )


def test_other_python_threads_run_during_a_window(run_python: RunPython) -> None:
    passes(
        run_python,
        """
counted, done = 0, threading.Event()
def count():
    global counted
    while not done.is_set():
        counted += 1
thread = threading.Thread(target=count)
run = open(threads=1)
thread.start()
before = counted
_core.window(run, 0.1)
during = counted - before
done.set()
thread.join()
_core.close(run)
assert during > 100, during
""",
    )


@pytest.mark.timing
def test_other_python_threads_lose_little_speed_to_a_window(run_python: RunPython) -> None:
    # On two CPUs or more nothing should be lost; half is what a busy host is allowed.
    passes(
        run_python,
        """
def counts(action):
    done, counted = threading.Event(), [0]
    def count():
        while not done.is_set():
            counted[0] += 1
    thread = threading.Thread(target=count)
    thread.start()
    start = time.perf_counter()
    action()
    rate = counted[0] / (time.perf_counter() - start)
    done.set()
    thread.join()
    return rate

if len(os.sched_getaffinity(0)) >= 2:
    run = open(threads=1)
    _core.warm(run, 0.01)
    for _ in range(8):
        alone, beside = counts(lambda: time.sleep(0.2)), counts(lambda: _core.window(run, 0.2))
        if beside > 0.5 * alone:
            break
    else:
        raise AssertionError(f"{beside:.3g} against {alone:.3g} loops/s")
    _core.close(run)
""",
    )


# ---- wrong arguments -----------------------------------------------------------------------------

REFUSED = [
    "_core.build_info(1)",
    "_core.registry(1)",
    "_core.calibrate(1)",
    "_core.become_worker()",
    "_core.become_worker('x')",
    "_core.become_worker(1.5)",
    "_core.open()",
    "_core.open('fresh', 'bytes')",
    "_core.open('fresh', 'bytes', 'churn', 1)",
    "_core.open(1, 2, 3)",
    "_core.open(None, 'bytes', 'churn')",
    "_core.open('', 'bytes', 'churn')",
    "_core.open('lifo', 'bytes', 'churn')",
    "_core.open('fresh', 'lifo', 'churn')",
    "_core.open('fresh', 'bytes', 'lifo')",
    "_core.open('fresh' + chr(0), 'bytes', 'churn')",
    "_core.open(chr(0xdc80), 'bytes', 'churn')",
    "_core.open('x' * 10**6, 'bytes', 'churn')",
    "open(colour='red')",
    "open(threads=0)",
    "open(threads=-1)",
    "open(threads=1025)",
    "open(threads='x')",
    "open(threads=1.5)",
    "open(threads=None)",
    "open(seed='x')",
    "open(seed=1.5)",
    "open(spin='x')",
    "open(cpus=5)",
    "open(cpus='ab')",
    "open(cpus=[None])",
    "open(cpus=[-1])",
    "open(cpus=[1024])",
    "open(cpus=[0, 10**6])",
    "open(cpus={1, 0})",
    "open(pool_params=[1])",
    "open(pool_params={1: 2})",
    "open(pool_params={'capacity': None})",
    "open(pool_params={'capacity': 1.5})",
    "open(pool_params={'capacity': 0})",
    "open(pool_params={'capacity': '8'})",
    "open(pool_params={'lock': 1})",
    "open(pool_params={'lock': ''})",
    "open(pool_params={'lock': 'p'})",
    "open(pool_params={'lock': 'x' * 10**6})",
    "open(pool_params={'size': 64})",
    "open(pool_params={'x' * 10**6: 64})",
    "open(pool_params={'é' * 500: 64})",
    "open(pool_params={chr(0xdc80): 64})",
    "open(workload_params={'size': 1})",
    "open(workload_params={'size': 2**62})",
    "open(pattern_params={'think_ns': -1})",
    *[
        f"_core.{call}"
        for name in ("warm", "window")
        for call in (
            f"{name}()",
            f"{name}(run)",
            f"{name}(None, 0.1)",
            f"{name}(_core, 0.1)",
            f"{name}(foreign, 0.1)",
            f"{name}(run, 'x')",
            f"{name}(run, 0.0)",
            f"{name}(run, -1.0)",
            f"{name}(run, 3601.0)",
            f"{name}(run, float('nan'))",
            f"{name}(run, float('inf'))",
            f"{name}(run, 0.1, 2)",
        )
    ],
    "_core.close()",
    "_core.close(None)",
    "_core.close(1)",
    "_core.close(foreign)",
    "_core.close(run, 1)",
]


def test_wrong_arguments_are_type_or_value_errors(run_python: RunPython) -> None:
    passes(
        run_python,
        f"""
import datetime
foreign = datetime.datetime_CAPI
run, before = open(), tasks()
for call in {REFUSED!r}:
    try:
        eval(call)
    except (TypeError, ValueError) as e:
        assert str(e), call
        assert len(str(e)) < 10**4 or "x" * 1000 in str(e), call
    else:
        raise AssertionError(call + " was accepted")
    assert tasks() == before, call
_core.close(run)
""",
    )


@pytest.mark.parametrize(
    "call",
    [
        "open(threads=2**40)",
        "open(cpus=[2**70])",
        "open(pool_params={'capacity': 2**70})",
        "_core.become_worker(2**40)",
    ],
)
def test_numbers_beyond_the_machine_are_value_errors(run_python: RunPython, call: str) -> None:
    passes(run_python, f"try:\n    {call}\nexcept (TypeError, ValueError):\n    pass\n")


@pytest.mark.parametrize(
    "call",
    [
        "open(seed=-1)",
        "open(seed=2**70)",
        "open(spin=-1)",
        "open(pool_params={'capacity' + chr(0) + 'x': 8})",
        "open(pool_params={'lock': 'parking' + chr(0) + 'x'})",
    ],
)
def test_nothing_is_cut_down_to_fit(run_python: RunPython, call: str) -> None:
    passes(
        run_python,
        f"""
try:
    {call}
except (TypeError, ValueError, OverflowError):
    pass
else:
    raise AssertionError("accepted")
""",
    )


def test_a_cpu_that_is_not_there_is_an_error_with_its_number(run_python: RunPython) -> None:
    passes(
        run_python,
        """
before = tasks()
try:
    open(cpus=[1023])
except _core.Error as e:
    assert str(e) == "cannot start thread 0 on CPU 1023"
else:
    raise AssertionError("no error")
assert tasks() == before
""",
    )


def test_a_wrong_parameter_is_told_the_choices(run_python: RunPython) -> None:
    passes(
        run_python,
        """
for given, said in [
    ({"size": 4}, "unknown parameter 'size'; choose from capacity, lock,"),
    ({"lock": "x"}, "lock=x: choose from pthread|"),
    ({"capacity": 0}, "capacity=0 is out of range 1 ... 1048576"),
]:
    try:
        open(pool_params=given)
    except ValueError as e:
        assert str(e).startswith(said), e
""",
    )


# ---- leaks ---------------------------------------------------------------------------------------

LEAKS = """
import resource, tracemalloc
def resident():
    with __builtins__.open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

def grown_once(action, times):
    gc.collect()
    at, traced = resident(), tracemalloc.get_traced_memory()[0]
    for _ in range(times):
        action()
    gc.collect()
    return resident() - at, tracemalloc.get_traced_memory()[0] - traced

def grown(action, times):
    # The smallest of three: a table of the interpreter's own (interned names) may grow once.
    tracemalloc.start()
    found = [grown_once(action, times) for _ in range(4)][1:]
    return min(m for m, _ in found), min(t for _, t in found)
"""


@pytest.mark.parametrize(
    ("action", "times"),
    [
        ("_core.registry()", 2000),
        ("_core.build_info()", 2000),
        (
            "_core.close(open(cpus=[min(os.sched_getaffinity(0))], pool_params={'capacity': 8}))",
            200,
        ),
        ("open()", 200),
        ("refused(lambda: open(pool_params={'capacity': 8, 'lock': 'x'}, cpus=[0]))", 2000),
        ("refused(lambda: open(cpus=[0, 1, 'x']))", 2000),
        ("_core.window(run, 0.0001)", 200),
        ("refused(lambda: _core.window(closed, 0.1))", 2000),
    ],
)
def test_nothing_leaks(run_python: RunPython, action: str, times: int) -> None:
    passes(
        run_python,
        LEAKS
        + f"""
def refused(action):
    try:
        action()
    except (TypeError, ValueError, _core.Error):
        pass
run, closed = open(), open()
_core.close(closed)
memory, traced = grown(lambda: {action}, {times})
assert traced < 10_000, traced
assert memory < 4_000_000, memory
""",
    )


# ---- interpreters --------------------------------------------------------------------------------


def test_importing_anew_gives_a_module_of_its_own(run_python: RunPython) -> None:
    passes(
        run_python,
        """
import importlib.util
spec = importlib.util.spec_from_file_location("_core", _core.__file__)
other = importlib.util.module_from_spec(spec)
spec.loader.exec_module(other)
assert other is not _core and other.Error is not _core.Error
other.close(other.open("fresh", "bytes", "churn"))
del other
gc.collect()
_core.close(open())
""",
    )


SUBINTERPRETER = {
    (3, 12): "import _xxsubinterpreters as i; i.run_string(i.create(), code)",
    (3, 13): "import _interpreters as i; failed = i.exec(i.create(), code); assert not failed",
}


@pytest.mark.skipif(sys.version_info < (3, 12), reason="one lock for all interpreters")
def test_another_interpreter_of_the_process_may_measure(run_python: RunPython) -> None:
    run_it = SUBINTERPRETER[min(sys.version_info[:2], max(SUBINTERPRETER))]
    passes(
        run_python,
        f"""
code = '''
from poolbench import _core
run = _core.open("locked", "bytes", "churn", threads=2)
assert sum(_core.window(run, 0.1)[3]) > 0
_core.close(run)
'''
{run_it}
_core.close(open())
""",
    )
