"""flinknet run as plain Python, even if it is compiled, in separate processes.

The benchmark itself and the peers stay as they are. A run is delegated to another process, which
starts both ends with the environment of this module.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from bench.errors import BenchError, UnavailableError
from bench.harness.case import Case
from bench.harness.pinning import Pinning
from bench.harness.trial import Measurement, Plan
from flinknet.compiled_modules import COMPILED, PURE_VARIABLE

__all__ = ["is_variant_name", "measure", "parameters", "variant_name", "version"]

PROJECT = Path(__file__).parents[2]
ENVIRONMENT = {PURE_VARIABLE: "1"}
SUFFIX = " pure"
"""Suffix of the name of a form of flinknet that runs as plain Python."""

END_S = 60.0
"""Seconds that a run may take beyond its rounds; two processes start and end three times."""

DESCRIBE = """
import sys, flinknet
from flinknet.compiled_modules import IMPLEMENTATION
print(f"flinknet {flinknet.__version__} {IMPLEMENTATION}, Python {sys.version.split()[0]}")
"""


class Order(NamedTuple):
    """The run that the other process carries out."""

    variant: str
    case: str
    plan: Mapping[str, Any]
    pinning: Pinning


def variant_name(form: str) -> str:
    """Return the name of a form of flinknet that runs as plain Python."""
    return f"{form}{SUFFIX}"


def is_variant_name(variant: str) -> bool:
    """Return whether a variant runs as plain Python."""
    return variant.endswith(SUFFIX)


def version() -> str:
    """Return the versions in that process.

    Raises UnavailableError where flinknet is not compiled at all, so that the rows would be equal.
    """
    if not COMPILED:
        raise UnavailableError("nothing is compiled, so that the other rows are of plain Python")
    result = _run("-c", DESCRIBE, timeout_s=END_S)
    if result.returncode:
        raise UnavailableError(f"plain Python cannot run flinknet:\n{result.stderr}")
    return result.stdout.strip()


def measure(variant: str, case: Case, plan: Plan, pinning: Pinning) -> Measurement:
    """Run once. Raises BenchError if the process fails, or does not end."""
    order = Order(variant, case.name, asdict(plan), pinning)
    name = f"{case.name}, flinknet {variant_name(variant)}"
    try:
        result = _run(
            *("-m", "bench.peers.pure", json.dumps(order)),
            timeout_s=plan.warm_up_s + plan.seconds + END_S,
        )
    except subprocess.TimeoutExpired as error:
        raise BenchError(f"{name} did not end within {error.timeout:.0f} s") from error
    if result.returncode:
        raise BenchError(f"{name} failed:\n{result.stderr}")
    return Measurement(**json.loads(result.stdout.splitlines()[-1]))


def parameters(of_variant: Callable[[Case], Mapping[str, Any]], case: Case) -> dict[str, Any]:
    """Return the settings that matter for a fair comparison."""
    return {**of_variant(case), **ENVIRONMENT}


def _run(*arguments: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        cwd=PROJECT,
        env={**os.environ, **ENVIRONMENT, "PYTHONPATH": str(PROJECT)},
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
