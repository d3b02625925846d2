"""Measure how much of each module without I/O its own test file covers alone.

    python -m tests.coverage_by_module [PART OF A MODULE'S PATH ...]

A line that only another module's test runs is not tested: no assertion there would fail if the line
did something else. So each test file runs in a process of its own, and only its coverage of the
module of the same name counts, lines and branches. A module must reach 100 %, or the bound in
`coverage.toml` if it has one.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SETTINGS = ROOT / "tests" / "coverage.toml"
COMPLETE = 100.0

# Fix the order and the seed, so that every run gives the same figures.
PYTEST = ("pytest", "--quiet", "--no-header", "-p", "no:randomly", "-p", "no:cacheprovider")
SEED = "--hypothesis-seed=0"


@dataclass(frozen=True)
class Measured:
    """Coverage of a module by its test file: ``percent`` of lines and branches, rounded down."""

    module: str
    bound: float
    percent: float = 0.0
    missed: str = ""
    failure: str = ""

    @property
    def is_enough(self) -> bool:
        return not self.failure and self.percent >= self.bound

    def __str__(self) -> str:
        verdict = "" if self.is_enough else f"  FAILED: must be {self.bound:g} %"
        return (
            f"{self.percent:5.1f} %  {self.module}{verdict}  {self.failure or self.missed}".rstrip()
        )


def modules_of(sources: list[str]) -> Iterator[str]:
    """Yield the modules in ``sources``, which are packages or modules, without ``__init__.py``."""
    for source in sources:
        path = ROOT / source
        for module in [path] if path.is_file() else sorted(path.rglob("*.py")):
            if module.name != "__init__.py":
                yield module.relative_to(ROOT).as_posix()


def tests_of(module: str) -> Path:
    inside = Path(module).relative_to("flinknet")
    return ROOT / "tests" / "unit" / inside.with_name(f"test_{inside.name}")


def measured(module: str, bound: float) -> Measured:
    """Measure ``module`` with its own test file alone."""
    test_file = tests_of(module)
    if not test_file.exists():
        return Measured(module, bound, failure=f"there is no {test_file.relative_to(ROOT)}")
    with tempfile.TemporaryDirectory() as folder:
        data, report = f"--data-file={folder}/data", Path(folder, "report.json")
        steps = (
            ("run", data, f"--include={module}", "-m", *PYTEST, SEED, str(test_file)),
            ("json", data, "-o", str(report)),
        )
        for step in steps:
            command = (sys.executable, "-m", "coverage", *step)
            run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
            if run.returncode:
                return Measured(module, bound, failure=f"\n{run.stdout}{run.stderr}")
        found = json.loads(report.read_text())["files"][module]
    percent = math.floor(found["summary"]["percent_covered"] * 10) / 10
    return Measured(module, bound, percent, described(found))


def described(found: dict[str, Any]) -> str:
    """Describe the lines never run, and the branches never taken between lines that ran."""
    lines = found["missing_lines"]
    jumps = [
        f"{source}->{target if target > 0 else 'exit'}"
        for source, target in found["missing_branches"]
        if source not in lines and target not in lines
    ]
    return " ".join([*map(str, lines), *jumps])


def main(chosen: list[str]) -> int:
    settings = tomllib.loads(SETTINGS.read_text())
    bounds = settings["bounds"]
    modules = [m for m in modules_of(settings["sources"]) if m not in settings["untested"]]
    asked = [module for module in modules if any(part in module for part in chosen or [""])]
    with ThreadPoolExecutor(os.cpu_count()) as processes:
        runs = processes.map(lambda module: measured(module, bounds.get(module, COMPLETE)), asked)
        results = []
        for result in runs:
            results.append(result)
            if not result.is_enough or result.percent < COMPLETE:
                print(result, flush=True)
            elif result.module in bounds:
                print(f"{result}  is complete: take it out of {SETTINGS.name}")
    complete = sum(result.percent == COMPLETE for result in results)
    print(
        f"{complete} of {len(results)} modules are covered by their own tests, lines and branches"
    )
    unknown = bounds.keys() - modules
    for module in sorted(unknown):
        print(f"{SETTINGS.name} bounds what is not there: {module}")
    return 0 if not unknown and all(result.is_enough for result in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
