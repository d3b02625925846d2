"""A whole cluster on virtual time gives the same trace in each run, and the right result."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from tests.sim.jobs import KEYS, RECORDS

ROOT = Path(__file__).parents[2]


def run_simulation(
    job: str, directory: Path, seed: int, hash_seed: str
) -> subprocess.CompletedProcess[str]:
    directory.mkdir()
    return subprocess.run(
        [sys.executable, "-m", "tests.sim.run", job, "checkpoints", str(seed)],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        check=False,
        text=True,
    )


def simulate(job: str, directory: Path, seed: int, hash_seed: str) -> dict[str, Any]:
    run = run_simulation(job, directory, seed, hash_seed)
    assert run.returncode == 0, run.stderr
    told: dict[str, Any] = json.loads(run.stdout)
    return told


def expected() -> Counter[tuple[int, int]]:
    """Return every running sum, once."""
    return Counter(
        (key, total) for key in range(KEYS) for total in accumulate(range(key, RECORDS, KEYS))
    )


def completed(trace: list[str]) -> int:
    return sum("to worker-0: CompleteCheckpoint" in line for line in trace)


@pytest.mark.parametrize(("job", "attempts"), [("succeeds", 1), ("fails once", 2)])
def test_a_cluster_does_the_same_in_each_run(tmp_path: Path, job: str, attempts: int) -> None:
    """Each record counts once, and every message has the same time, with any hash seed."""
    first, again, other = (
        simulate(job, tmp_path / hash_seed, 1, hash_seed) for hash_seed in ("1", "2", "3")
    )
    assert first == again == other
    assert (first["state"], first["attempts"]) == ("FINISHED", attempts)
    assert Counter(map(tuple, first["collected"])) == expected()
    assert completed(first["trace"]) >= 9
    assert 10 < first["ended_at"] < 12, "in virtual time"
    assert any("Deploy" in line and f"attempt={attempts - 1}" in line for line in first["trace"])


def test_another_seed_makes_other_ids_and_the_same_output(tmp_path: Path) -> None:
    one, other = (simulate("succeeds", tmp_path / str(seed), seed, "1") for seed in (1, 2))
    assert one["trace"] != other["trace"]
    assert Counter(map(tuple, one["collected"])) == Counter(map(tuple, other["collected"]))


def test_a_function_that_asks_the_real_clock_ends_the_simulation(tmp_path: Path) -> None:
    run = run_simulation("asks the clock", tmp_path / "run", 1, "1")
    assert run.returncode == 1
    assert "OutsideError: tests.sim.jobs calls time.monotonic in a simulation" in run.stderr


@pytest.mark.parametrize(
    ("call", "named"),
    [
        ("import time; time.monotonic()", "time.monotonic"),
        ("import time; time.time()", "time.time"),
        ("import time; time.sleep(0)", "time.sleep"),
        ("import socket; socket.socket()", "socket.socket"),
    ],
)
def test_a_call_of_the_real_machine_is_an_error(call: str, named: str) -> None:
    program = f"from tests.sim import machine; machine.forbid_the_real_machine(); {call}"
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, check=False, text=True
    )
    assert run.returncode == 1
    assert f"OutsideError: __main__ calls {named} in a simulation" in run.stderr
