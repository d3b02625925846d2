"""A family: benchmarks that answer one question, with their own cases, rows and figure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from rich.console import Console

from bench.errors import UsageError
from bench.harness.pinning import Pinning
from bench.harness.row import Row
from bench.harness.trial import Plan

__all__ = ["Family", "Progress", "Selection", "choose", "chosen", "plan_parameters", "summaries"]


class Progress(Protocol):
    """Receives the progress of a family."""

    def expect(self, runs: int) -> None:
        """Add to the expected number of runs."""

    def begin(self, run: str) -> None:
        """Note that a run begins."""

    def end(self) -> None:
        """Note that the run has ended."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The names of the cases and systems to run, and how to run them."""

    cases: tuple[str, ...]
    against: tuple[str, ...]
    plan: Plan
    pinning: Pinning


class Family(Protocol):
    """A plug-in that ``list`` shows and ``run`` calls.

    flinknet itself is always measured and is not among ``systems``.
    """

    @property
    def name(self) -> str:
        """The argument that selects this family in ``run``."""

    @property
    def summary(self) -> str:
        """The question that this family answers."""

    @property
    def cases(self) -> Mapping[str, str]:
        """Descriptions of the cases by name."""

    @property
    def systems(self) -> Mapping[str, str]:
        """Descriptions of the systems that flinknet can be compared with, by name."""

    def run(self, selection: Selection, progress: Progress) -> list[Row]:
        """Measure and return the rows. Raises BenchError."""

    def print(self, rows: Sequence[Row], console: Console) -> None:
        """Print the table."""

    def draw(self, rows: Sequence[Row], path: Path) -> None:
        """Write the figure as PNG."""


class Named(Protocol):
    """A case or a system."""

    @property
    def name(self) -> str:
        """The name that an option takes."""

    @property
    def summary(self) -> str:
        """A description in one line."""


Each = TypeVar("Each", bound=Named)


def summaries(named: Iterable[Named]) -> dict[str, str]:
    """Return the descriptions of cases or systems by name."""
    return {each.name: each.summary for each in named}


def chosen(existing: Iterable[Each], names: Sequence[str]) -> list[Each]:
    """Return the cases or systems with the given names."""
    return [each for each in existing if each.name in names]


def choose(kind: str, wanted: str | None, existing: Mapping[str, object]) -> tuple[str, ...]:
    """Parse a comma-separated list of names; return them in the order of ``existing``.

    Without a list, return all names. Raises UsageError that lists the existing names.
    """
    if wanted is None:
        return tuple(existing)
    names = [name.strip() for name in wanted.split(",")]
    for name in names:
        if name not in existing:
            raise UsageError(f"there is no {kind} {name!r}: choose from {', '.join(existing)}")
    return tuple(name for name in existing if name in names)


def plan_parameters(selection: Selection) -> dict[str, Any]:
    """Return the parameters of a row that describe the measurement."""
    return {
        "seconds": selection.plan.seconds,
        "warm_up_s": selection.plan.warm_up_s,
        "cpus": list(selection.pinning),
    }
