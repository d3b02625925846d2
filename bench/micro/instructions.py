"""Instructions of an operation, which do not depend on the load of the machine.

The count of a process that makes a workload and runs it is reduced by the count of a process that
only makes it. ``perf`` reads the processor's counters. Where these are not available, ``valgrind``
executes and counts every instruction. Both count instructions of user mode.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.errors import BenchError

__all__ = ["Counter", "count_instructions", "find_counter", "perf_count", "valgrind_count"]

OPERATIONS = 4096
COUNTED_S_MAX = 300.0


@dataclass(frozen=True, slots=True)
class Counter:
    """A program that counts instructions.

    ``command`` precedes the counted command and gets a file to write to. ``read`` finds the number
    in the text of that file and of standard error.
    """

    name: str
    command: Callable[[str], Sequence[str]]
    read: Callable[[str, str], int]

    def count(self, command: Sequence[str]) -> tuple[int, str]:
        """Run a command; return its instructions and its output. Raises BenchError."""
        # Equal seeds, so that two counts differ only by the workload.
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        with tempfile.NamedTemporaryFile(prefix="instructions-") as file:
            result = subprocess.run(
                [*self.command(file.name), *command],
                capture_output=True,
                text=True,
                env=environment,
                timeout=COUNTED_S_MAX,
                check=False,
            )
            written = Path(file.name).read_text(errors="replace")
        if result.returncode:
            raise BenchError(f"{self.name} failed:\n{result.stderr.strip()}")
        try:
            return self.read(written, result.stderr), result.stdout
        except ValueError as error:
            raise BenchError(f"{self.name} has not counted: {error}") from error


def perf_count(written: str, stderr: str) -> int:
    """Read the file of ``perf stat -x,``: value, unit, event, ... Raises ValueError."""
    lines = [line.split(",") for line in written.splitlines() if "instructions" in line]
    return int(lines[0][0]) if lines else int(written)


def valgrind_count(written: str, stderr: str) -> int:
    """Read ``I refs: 1,234`` of valgrind's summary. Raises ValueError."""
    lines = [line for line in stderr.splitlines() if "I " in line and "refs:" in line]
    return int(lines[0].rpartition(":")[2].replace(",", "")) if lines else int(stderr)


PERF = Counter(
    "perf",
    lambda file: ("perf", "stat", "-x,", "-e", "instructions:u", "-o", file, "--"),
    perf_count,
)
VALGRIND = Counter(
    "valgrind",
    lambda file: (
        "valgrind",
        "--tool=cachegrind",
        "--cache-sim=no",
        f"--cachegrind-out-file={file}",
    ),
    valgrind_count,
)


def find_counter() -> Counter | None:
    """Return the first counter that works here; None if there is none."""
    return next((counter for counter in (PERF, VALGRIND) if _works(counter)), None)


def _works(counter: Counter) -> bool:
    if shutil.which(counter.name) is None:
        return False
    try:
        return counter.count(["true"])[0] > 0
    except (BenchError, subprocess.TimeoutExpired):
        return False


def count_instructions(counter: Counter, step: str, variant: str) -> float:
    """Return the instructions of one operation. Raises BenchError."""
    command = [sys.executable, "-m", "bench.micro.counted", step, variant, str(OPERATIONS)]
    ran, operations = counter.count([*command, "run"])
    made, _ = counter.count([*command, "make"])
    return (ran - made) / int(operations)
