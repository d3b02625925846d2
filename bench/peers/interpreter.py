"""flinknet run elsewhere: by another interpreter, or by this one without what is compiled.

The bench itself stays as it is, as do the peers: a run is handed to another process, which starts
both ends as here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from bench.errors import BenchError, UnavailableError
from bench.harness.case import Case
from bench.harness.pinning import Pinning
from bench.harness.trial import Measurement, Plan, TimedMeasurement

__all__ = ["Interpreter"]

PROJECT = Path(__file__).parents[2]
END_S = 60.0
"""How long a run may take beyond its rounds: three times two processes start and end."""


class Order(NamedTuple):
    """What the other process is to run."""

    variant: str
    case: str
    plan: Mapping[str, Any]
    pinning: Pinning


@dataclass(frozen=True, slots=True)
class Interpreter:
    """Who runs flinknet's variants once more, and is in their names then."""

    name: str
    find: Callable[[], str]
    """Returns the path of the interpreter. Raises UnavailableError, with how to get one."""
    describe: str
    """A program that prints the versions, and fails where this is not the one that is meant."""
    how_to_get_it: str
    environment: Mapping[str, str]
    """What its processes are given beside what is there."""
    event_loop: str
    warm_up_s: float | None = None
    """How long it runs before it is measured; by default as long as all others."""

    def variant_name(self, form: str) -> str:
        """Return what a form of flinknet is called when this runs it."""
        return f"{form} {self.name}"

    def runs(self, variant: str) -> bool:
        """Whether that is a form's name when this runs it."""
        return variant.endswith(f" {self.name}")

    def version(self) -> str:
        """Return the versions of flinknet and of this. Raises UnavailableError."""
        found, get_it = self.find(), self.how_to_get_it
        try:
            result = self._run(found, "-c", self.describe, timeout_s=END_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UnavailableError(f"{found} does not run ({error}): {get_it}") from error
        if result.returncode:
            reason = (result.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise UnavailableError(f"{found} cannot run flinknet ({reason}): {get_it}")
        return result.stdout.strip()

    def measure(self, variant: str, case: Case, plan: Plan, pinning: Pinning) -> Measurement:
        """Run once. Raises BenchError if the process fails, or does not end."""
        warm_up_s = plan.warm_up_s if self.warm_up_s is None else self.warm_up_s
        order = Order(variant, case.name, asdict(plan) | {"warm_up_s": warm_up_s}, pinning)
        name = f"{case.name}, flinknet {self.variant_name(variant)}"
        try:
            result = self._run(
                self.find(),
                "-m",
                "bench.peers.interpreter",
                json.dumps(order),
                timeout_s=warm_up_s + plan.seconds + END_S,
            )
        except subprocess.TimeoutExpired as error:
            raise BenchError(f"{name} did not end within {error.timeout:.0f} s") from error
        if result.returncode:
            raise BenchError(f"{name} failed:\n{result.stderr}")
        measured = json.loads(result.stdout.splitlines()[-1])
        return (TimedMeasurement if "latency_us" in measured else Measurement)(**measured)

    def parameters(
        self, of_variant: Callable[[Case], Mapping[str, Any]], case: Case
    ) -> dict[str, Any]:
        """Return what matters for a fair reading."""
        warm_up = {} if self.warm_up_s is None else {"warm_up_s": self.warm_up_s}
        return {**of_variant(case), "event_loop": self.event_loop, **warm_up, **self.environment}

    def _run(self, *command: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            cwd=PROJECT,
            env={**os.environ, **self.environment, "PYTHONPATH": str(PROJECT)},
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
