"""Random sequences of acquires, releases and comings and goings of threads, against simple models.

Every pool of the registry, with tiny capacities, in one thread: what must hold after every step is
conservation (alive = idle + held), the documented bound, outcomes from the pool's list that say
what happened, and, where a pool promises an order, exactly that order. tests/c/model.c is the pool.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from ctypes import c_bool, c_char_p, c_int, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

ROOT = Path(__file__).resolve().parent.parent
THREADS = 3
MOST_HELD = 6
MOST_CELLS = 24  # of one pool

pytestmark = pytest.mark.skipif(
    not (shutil.which("make") and shutil.which("gcc")), reason="make or gcc is not installed"
)

# As in context.h: the order of outcomes.
ACQUIRED = ("local_hits", "shared_hits", "stolen", "waited", "misses", "failed", "timed_out")
RELEASED = ("kept", "spilled", "overflowed", "handed_over", "refused")
OUTCOMES = (*ACQUIRED, *RELEASED)
# As in pools.def.
TRAITS = (
    "holds_many",
    "remote_release",
    "constructs_always",
    "in_place",
    "needs_shareable",
    "burst_only",
    "waits_for_objects",
)

FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "pools": (c_int, []),
    "name": (c_char_p, [c_int]),
    "traits": (c_uint32, [c_int]),
    "outcomes": (c_uint32, [c_int]),
    "cell": (c_int, [c_char_p, c_int, c_int, c_char_p, c_size_t]),
    "open": (c_void_p, [c_char_p, c_int]),
    "attach": (c_bool, [c_void_p, c_int]),
    "detach": (None, [c_void_p, c_int]),
    "acquire": (c_int, [c_void_p, c_int, c_bool, c_uint64 * 2]),
    "release": (c_int, [c_void_p, c_int, c_uint64, c_uint64]),
    "foreign": (c_uint64, [c_void_p, c_int]),
    "pass_time": (None, [c_void_p, c_uint32]),
    "alive": (c_uint64, [c_void_p]),
    "constructed": (c_uint64, [c_void_p, c_int]),
    "idle": (c_uint64, [c_void_p]),
    "bound": (c_int64, [c_void_p]),
    "complaints": (c_uint64, []),
    "close": (c_uint64, [c_void_p]),
}


@cache
def library() -> dict[str, Callable[..., Any]]:
    """The functions of model.so, without their prefix."""
    path = Path(os.environ.get("POOLBENCH_MODEL", ROOT / "build" / "c-gcc" / "model.so"))
    if "POOLBENCH_MODEL" not in os.environ:
        command = ["make", "-s", "-C", str(ROOT / "tests" / "c"), "CC=gcc", str(path)]
        env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "CFLAGS")}
        jobs = f"-j{os.cpu_count() or 1}"
        done = subprocess.run([*command, jobs], capture_output=True, text=True, env=env)
        assert done.returncode == 0, done.stderr[-4000:]
    loaded = ctypes.CDLL(str(path))
    found = {}
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(loaded, f"model_{name}")
        function.restype, function.argtypes = result, arguments
        found[name] = function
    return found


class Held(NamedTuple):
    object: int
    handle: int
    thread: int  # its acquirer; -1: the pool never made it


@dataclass
class Order:
    """Idle objects in the order in which they come out again, the next one last."""

    parameters: dict[str, str]
    idle: dict[int, list[int]] = field(default_factory=dict)  # by whose they are

    oldest_first = False
    capacity = "capacity"
    hit = "shared_hits"

    def whose(self, thread: int) -> int:
        """Whose idle objects a thread's acquires and releases are about; 0 for all threads'."""
        return 0

    def acquired(self, thread: int, how: str, found: int) -> None:
        idle = self.idle.setdefault(self.whose(thread), [])
        if not idle:
            assert how in ("misses", "failed")
            return
        assert how == self.hit
        assert found == idle.pop(0 if self.oldest_first else -1)

    def released(self, thread: int, how: str, given: int, still_out: int) -> None:
        idle = self.idle.setdefault(self.whose(thread), [])
        assert how == self.expected(how, len(idle), still_out)
        if how == "kept":
            idle.append(given)

    def expected(self, how: str, idle: int, still_out: int) -> str:
        return "overflowed" if idle == int(self.parameters[self.capacity]) else "kept"

    def left(self, thread: int) -> None:
        """A thread detaches."""
        if self.whose(thread) != 0:
            self.idle.pop(self.whose(thread), None)


class Locked(Order):
    @property
    def oldest_first(self) -> bool:  # type: ignore[override]
        return self.parameters["order"] == "fifo"


class Ring(Order):
    oldest_first = True


class Nodes(Order):
    """An object has its node while it is out: there may be none left for another."""

    def expected(self, how: str, idle: int, still_out: int) -> str:
        free = int(self.parameters["capacity"]) - idle
        return "overflowed" if free == 0 or (how == "overflowed" and still_out >= free) else "kept"


class PerThread(Order):
    capacity = "cap"
    hit = "local_hits"

    def whose(self, thread: int) -> int:
        return thread + 1


ORDERS: dict[str, type[Order]] = {
    "locked": Locked,
    "treiber": Nodes,
    "mpmc_ring": Ring,
    "thread_cache": PerThread,
}


def order_of(cell: str) -> Order | None:
    name, *settings_ = cell.split()
    parameters = dict(setting.split("=", 1) for setting in settings_)
    if name not in ORDERS or parameters.get("trim_ops", "0") != "0":
        return None
    return ORDERS[name](parameters)


class Steps:
    """What the current example has done, in memory that outlives the process doing it."""

    def __init__(self) -> None:
        self.memory = mmap.mmap(-1, 1 << 16)

    def begin(self) -> None:
        self.memory[0] = 0
        self.memory.seek(0)

    def add(self, *what: object) -> None:
        line = " ".join(map(str, what)).encode() + b"\n\0"
        if self.memory.tell() + len(line) < len(self.memory):
            self.memory.write(line)
            self.memory.seek(-1, os.SEEK_CUR)

    def __str__(self) -> str:
        return self.memory[:].split(b"\0")[0].decode()


STEPS = Steps()


class PoolMachine(RuleBasedStateMachine):
    """One pool; subclasses say which."""

    pool: int
    name: str

    def __init__(self) -> None:
        super().__init__()
        self.c = library()
        mask = self.c["traits"](self.pool)
        self.traits = {name for i, name in enumerate(TRAITS) if mask >> i & 1}
        mask = self.c["outcomes"](self.pool)
        self.outcomes = {name for i, name in enumerate(OUTCOMES) if mask >> i & 1}
        self.model: int | None = None
        self.attached: set[int] = set()
        self.held: list[Held] = []
        self.ebbing = False  # of bursts: only releases until nothing is held
        self.complaints = self.c["complaints"]()

    # ---- steps

    @initialize(which=st.integers(0, MOST_CELLS - 1))
    def open(self, which: int) -> None:
        text = ctypes.create_string_buffer(600)
        count = self.c["cell"](self.name.encode(), 0, MOST_CELLS, text, len(text))
        self.c["cell"](self.name.encode(), which % count, MOST_CELLS, text, len(text))
        self.cell = text.value.decode()
        STEPS.begin()
        STEPS.add(self.cell)
        self.order = order_of(self.cell)
        self.model = self.c["open"](text.value, THREADS)
        self.attach(0)

    @rule(thread=st.integers(0, THREADS - 1))
    def come_or_go(self, thread: int) -> None:
        if thread not in self.attached:
            self.attach(thread)
        elif "remote_release" in self.traits or all(h.thread != thread for h in self.held):
            self.detach(thread)

    @rule(turn=st.integers(0, 99), fail=st.integers(0, 4))
    def acquire(self, turn: int, fail: int) -> None:
        if not self.attached or len(self.held) >= self.most() or self.ebbing:
            return
        self.take(self.one_of(sorted(self.attached), turn), fail == 0)

    @rule(turn=st.integers(0, 99), which=st.integers(0, 99))
    def release(self, turn: int, which: int) -> None:
        if not self.held or not self.attached:
            return
        held = self.one_of(self.held, which)
        free = "remote_release" in self.traits
        self.give(self.one_of(sorted(self.attached), turn) if free else held.thread, held)

    @precondition(lambda self: not {"in_place", "constructs_always"} <= self.traits)
    @rule(turn=st.integers(0, 99))
    def release_foreign(self, turn: int) -> None:
        if self.attached:
            thread = self.one_of(sorted(self.attached), turn)
            held = Held(self.c["foreign"](self.model, thread), 0, -1)
            self.held.append(held)
            self.give(thread, held)

    @precondition(lambda self: "epoch_ms=" in self.cell or "ttl_ms=" in self.cell)
    @rule(ticks=st.integers(1, 3))
    def pass_time(self, ticks: int) -> None:
        self.c["pass_time"](self.model, ticks)

    # ---- what they consist of

    @staticmethod
    def one_of(items: list[Any], number: int) -> Any:
        return items[number % len(items)]

    def most(self) -> int:
        return MOST_HELD if "holds_many" in self.traits else len(self.attached)

    def attach(self, thread: int) -> None:
        STEPS.add("attach", thread)
        assert self.c["attach"](self.model, thread)
        self.attached.add(thread)

    def detach(self, thread: int) -> None:
        STEPS.add("detach", thread)
        self.c["detach"](self.model, thread)
        self.attached.discard(thread)
        if self.order:
            self.order.left(thread)

    def take(self, thread: int, fail: bool) -> None:
        STEPS.add("acquire", thread, "fail" if fail else "")
        out = (c_uint64 * 2)()
        before = self.c["constructed"](self.model, thread)
        how = OUTCOMES[self.c["acquire"](self.model, thread, fail, out)]
        found, handle = out
        assert how in self.outcomes & set(ACQUIRED)
        assert (found == 0) == (how in ("failed", "timed_out"))
        if how == "failed":
            assert fail or self.is_full(thread)
        made = self.c["constructed"](self.model, thread) - before
        assert made == (how == "misses" or ("constructs_always" in self.traits and found != 0))
        assert not (made and fail)
        if self.order:
            self.order.acquired(thread, how, found)
        if found:
            if "needs_shareable" not in self.traits:
                assert all(h.object != found for h in self.held), "somebody has it"
            self.held.append(Held(found, handle, thread))
        self.ebbing = "burst_only" in self.traits and (not found or len(self.held) == MOST_HELD)
        self.ebbing &= bool(self.held)

    def give(self, thread: int, held: Held) -> None:
        STEPS.add("release", thread, f"{held.object:x}", held.handle)
        self.held.remove(held)
        how = OUTCOMES[self.c["release"](self.model, thread, held.object, held.handle)]
        assert how in self.outcomes & set(RELEASED)
        assert how != "refused"
        if self.order:
            self.order.released(thread, how, held.object, len(self.held))
        self.ebbing &= bool(self.held)

    def is_full(self, thread: int) -> bool:
        """All places of a pool of fixed size are out."""
        capacity = dict(s.split("=") for s in self.cell.split()[1:]).get("capacity", "-1")
        mine = sum(h.thread == thread for h in self.held)
        return {"in_place", "constructs_always"} <= self.traits and mine == int(capacity)

    # ---- what holds after each

    def out(self) -> int:
        return 0 if "needs_shareable" in self.traits else len(self.held)

    @invariant()
    def conserved(self) -> None:
        if self.model is None:
            return
        idle = self.c["idle"](self.model)
        assert self.c["alive"](self.model) == idle + self.out()
        assert self.c["complaints"]() == self.complaints, "an object noticed something; see above"
        if "burst_only" not in self.traits or not self.held:
            assert 0 <= idle <= self.c["bound"](self.model)

    def teardown(self) -> None:
        """All come home, all leave, all is closed: nothing is left."""
        if self.model is None:
            return
        if not self.attached:
            self.attach(0)
        for held in list(self.held):
            remote = "remote_release" in self.traits
            self.give(min(self.attached) if remote else held.thread, held)
        for thread in sorted(self.attached):
            self.detach(thread)
        self.conserved()
        STEPS.add("close")
        lost = self.c["close"](self.model)
        self.model = None
        assert lost == 0


def pools() -> list[Any]:
    """Every pool of the registry; none where nothing can be built."""
    if not (shutil.which("make") and shutil.which("gcc")):
        return []
    names = [library()["name"](i).decode() for i in range(library()["pools"]())]
    return [pytest.param(i, id=name) for i, name in enumerate(names)]


PROFILE = settings(
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=60,
    stateful_step_count=40,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)


def in_a_child(test: Callable[[], None]) -> tuple[int, str]:
    """Run it where a crash does no harm; return exit status, or minus the signal, and words."""
    with tempfile.TemporaryFile() as words:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            os.dup2(words.fileno(), 1)
            os.dup2(words.fileno(), 2)
            status = 1
            try:
                test()
                status = 0
            except BaseException:
                os.write(2, traceback.format_exc().encode())
            finally:
                os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        words.seek(0)
        return status, words.read().decode(errors="replace")


@pytest.mark.parametrize("pool", pools())
def test_a_pool_behaves_as_its_model(pool: int) -> None:
    name = library()["name"](pool).decode()
    machine = type(f"{name}_machine", (PoolMachine,), {"pool": pool, "name": name})
    status, words = in_a_child(lambda: run_state_machine_as_test(machine, settings=PROFILE))
    assert status == 0, f"{words[-3000:]}\nended with {status}; its last example:\n{STEPS}"
