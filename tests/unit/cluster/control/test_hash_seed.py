"""Processes started with any seed, or none, hash text alike."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from flinknet.cluster.control.hash_seed import text_hash

PROGRAM = """
import os, sys
from flinknet.cluster.control.hash_seed import restart_with_seed, text_hash
print(os.getpid(), text_hash(), os.environ.get("SECRET"), sys.argv[1:], flush=True)
restart_with_seed(int(sys.argv[1]), {"SECRET": "kept"})
print("goes on")
"""


def run(seed: int, environment: dict[str, str]) -> list[list[str]]:
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(seed)],
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    *lines, last = done.stdout.splitlines()
    assert last == "goes on"
    return [line.split(" ", 2) for line in lines]


@pytest.mark.parametrize("given", [{}, {"PYTHONHASHSEED": "random"}, {"PYTHONHASHSEED": "9"}])
def test_a_process_restarts_once_with_the_seed(given: dict[str, str]) -> None:
    """It stays the same process, with the same arguments."""
    before, after = run(7, given)
    (there,) = run(7, {"PYTHONHASHSEED": "7"})
    assert before[0] == after[0]
    assert before[1] != after[1] == there[1]
    assert (before[2], after[2], there[2]) == ("None ['7']", "kept ['7']", "None ['7']")


def test_equal_seeds_are_equal_hashes_and_others_are_not() -> None:
    hashes = {run(seed, {"PYTHONHASHSEED": str(seed)})[0][1] for seed in (0, 1, 2)}
    assert len(hashes) == 3
    assert text_hash() == text_hash()
