"""flinknet run by PyPy, which compiles Python as Java's machine compiles Java.

The bench itself stays with CPython, as do the peers: a run is handed to another process, which is
PyPy's, and that starts both ends as here. It runs as long as Flink's before it is measured, until
the compiler is done.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from shutil import which
from typing import Any, NamedTuple

from bench.errors import BenchError, UnavailableError
from bench.harness.case import Case
from bench.harness.pinning import Pinning
from bench.harness.trial import Measurement, Plan, TimedMeasurement
from flinknet.config import ClusterConfig

__all__ = ["is_pypy", "measure", "parameters", "variant_name", "version"]

NAME = "pypy"
PROJECT = Path(__file__).parents[2]
ENVIRONMENT = PROJECT / ".venv-pypy" / "bin" / "python"
VARIABLE = "BENCH_PYPY"
"""Names another interpreter."""

HOW_TO_GET_IT = (
    f"make .venv-pypy PYPY=/path/to/pypy3 (PyPy 3.11, 7.3.18 or newer), or set {VARIABLE} to the "
    f"Python of an environment that has flinknet's libraries"
)
WARM_UP_S = 6.0
END_S = 60.0
"""How long a run may take beyond its rounds: three times two processes start and end."""

NURSERY = {"PYPY_GC_NURSERY": str(ClusterConfig().pypy_nursery_bytes)}
"""What a local cluster gives its workers; a program that embeds flinknet has to say it."""

DESCRIBE = """
import sys, flinknet
version = ".".join(map(str, sys.pypy_version_info[:3]))
print(f"flinknet {flinknet.__version__}, PyPy {version}, Python {sys.version.split()[0]}")
"""


class Order(NamedTuple):
    """What the other process is to run."""

    variant: str
    case: str
    plan: Mapping[str, Any]
    pinning: Pinning


def variant_name(form: str) -> str:
    """Return what a form of flinknet is called when PyPy runs it."""
    return f"{form} {NAME}"


def is_pypy(variant: str) -> bool:
    """Whether that is a form's name when PyPy runs it."""
    return variant.endswith(f" {NAME}")


@cache
def _interpreter() -> str:
    found = os.environ.get(VARIABLE) or (
        str(ENVIRONMENT) if ENVIRONMENT.exists() else which("pypy3")
    )
    if not found:
        raise UnavailableError(f"there is no PyPy here: {HOW_TO_GET_IT}")
    return found


@cache
def version() -> str:
    """Return the versions of flinknet and PyPy. Raises UnavailableError."""
    found = _interpreter()
    try:
        result = _run(found, "-c", DESCRIBE, timeout_s=END_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"{found} does not run ({error}): {HOW_TO_GET_IT}") from error
    if result.returncode:
        reason = (result.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise UnavailableError(f"{found} cannot run flinknet ({reason}): {HOW_TO_GET_IT}")
    return result.stdout.strip()


def measure(variant: str, case: Case, plan: Plan, pinning: Pinning) -> Measurement:
    """Run once. Raises BenchError if the process fails, or does not end."""
    order = Order(variant, case.name, asdict(plan) | {"warm_up_s": WARM_UP_S}, pinning)
    name = f"{case.name}, flinknet {variant_name(variant)}"
    try:
        result = _run(
            _interpreter(),
            "-m",
            "bench.peers.pypy",
            json.dumps(order),
            timeout_s=WARM_UP_S + plan.seconds + END_S,
        )
    except subprocess.TimeoutExpired as error:
        raise BenchError(f"{name} did not end within {error.timeout:.0f} s") from error
    if result.returncode:
        raise BenchError(f"{name} failed:\n{result.stderr}")
    measured = json.loads(result.stdout.splitlines()[-1])
    return (TimedMeasurement if "latency_us" in measured else Measurement)(**measured)


def parameters(of_variant: Callable[[Case], Mapping[str, Any]], case: Case) -> dict[str, Any]:
    """Return what matters for a fair reading."""
    return {**of_variant(case), "event_loop": "asyncio", "warm_up_s": WARM_UP_S, **NURSERY}


def _run(*command: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        cwd=PROJECT,
        env={**NURSERY, **os.environ, "PYTHONPATH": str(PROJECT)},
        check=False,
    )


def main() -> None:
    """Carry out an order; the measurement is the last line of the output."""
    from bench.peers.cases import CASES
    from bench.peers.roster import FLINKNET

    variant, case_name, plan, pinning = Order(*json.loads(sys.argv[1]))
    case = {case.name: case for case in CASES}[case_name]
    run = {form: run for form, _, run in FLINKNET.forms(case)}[variant]
    measurement = run(case, Plan(**plan), Pinning(*pinning))
    print(json.dumps(asdict(measurement)), flush=True)


if __name__ == "__main__":
    main()
