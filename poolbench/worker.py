"""One replicate in a fresh process that obeys lines. It decides nothing.

Run by `arm.py` as ``python -I -S worker.py CORE_DIRECTORY PARENT_PID``: no site, no json, nothing
but `_core`, so that starting costs little more than an empty interpreter. It reads one command per
line from standard input and answers one line on what was standard output; whatever users' code
prints goes to standard error instead.

    open pool=NAME workload=NAME pattern=NAME threads=N seed=N spin=N cpus=0,1 memory=BYTES
         counted=0 checked=0 [KIND.PARAM=VALUE]...
        -> ready
    warm SECONDS    -> warm RATE BATCH
    window SECONDS  -> window START_NS NS CPU_NS COUNT,COUNT,... FAULTS,FAULTS,SWITCHES,SWITCHES
    count ATTEMPTS  -> counted NAME=VALUE ...
    close           -> closed NAME=VALUE ...
    anything wrong  -> error KIND TEXT     (KIND: value, memory, failed)
"""

import sys

TYPE_CHECKING = False  # importing typing would double the time to start
if TYPE_CHECKING:
    from poolbench import _core
else:
    sys.path.insert(0, sys.argv[1])
    import _core

run: "_core._Run"


def open_(words: list[str]) -> str:
    global run
    names: dict[str, str] = {}
    params: dict[str, dict[str, int | str]] = {"pool": {}, "workload": {}, "pattern": {}}
    for word in words:
        key, _, value = word.partition("=")
        kind, dot, name = key.partition(".")
        if dot:
            params[kind][name] = unquote(value)
        else:
            names[key] = value
    run = _core.open(
        names["pool"],
        names["workload"],
        names["pattern"],
        threads=int(names["threads"]),
        seed=int(names["seed"]),
        spin=int(names["spin"]),
        memory=int(names["memory"]),
        counted=names["counted"] == "1",
        checked=names["checked"] == "1",
        cpus=[int(c) for c in names["cpus"].split(",") if c],
        pool_params=params["pool"],
        workload_params=params["workload"],
        pattern_params=params["pattern"],
    )
    return "ready"


def unquote(text: str) -> int | str:
    """A number, or a text in which arm.py wrote spaces, %, line ends, ... as UTF-8 in %XX."""
    if text.lstrip("-").isdigit():
        return int(text)
    first, *rest = text.split("%")
    data = b"".join(bytes.fromhex(part[:2]) + part[2:].encode() for part in rest)
    return first + data.decode()


def warm(words: list[str]) -> str:
    rate, batch = _core.warm(run, float(words[0]))
    return f"warm {rate!r} {batch}"


def window(words: list[str]) -> str:
    start, ns, cpu, counts, usage = _core.window(run, float(words[0]))
    return f"window {start} {ns} {cpu} {','.join(map(str, counts))} {','.join(map(str, usage))}"


def count(words: list[str]) -> str:
    return "counted " + pairs(_core.count_pass(run, int(words[0])))


def close(words: list[str]) -> str:
    return "closed " + pairs(_core.close(run))


def pairs(counts: dict[str, int]) -> str:
    return " ".join(f"{name}={count}" for name, count in counts.items())


COMMANDS = {"open": open_, "warm": warm, "window": window, "count": count, "close": close}


def answer(line: str) -> str:
    name, *words = line.split()
    try:
        return COMMANDS[name](words)
    except MemoryError as e:
        return f"error memory {e}"
    except ValueError as e:
        return f"error value {e}"
    except _core.Error as e:
        return f"error failed {e}"


def main() -> None:
    import posix

    _core.become_worker(int(sys.argv[2]))
    lines = posix.dup(1)
    posix.dup2(2, 1)  # users' prints must not look like answers
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")  # before anybody else's process
    except OSError:
        pass  # a container may forbid it; then the kernel chooses
    for line in sys.stdin:
        posix.write(lines, (answer(line) + "\n").encode())


main()
