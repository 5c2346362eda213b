"""A few rounds of torture.py; POOLBENCH_TORTURE says how many."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

ROUNDS = int(os.environ.get("POOLBENCH_TORTURE", "5"))


@pytest.mark.workers
@pytest.mark.torture
@pytest.mark.timeout(60 + 60 * ROUNDS)
def test_killed_sweeps_lose_nothing() -> None:
    seed = random.randrange(10**6)
    program = Path(__file__).with_name("torture.py")
    command = [sys.executable, program, str(ROUNDS), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), f"seed {seed}: {done.stderr}{done.stdout}"
    assert len(done.stdout.splitlines()) == ROUNDS
