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
    """Hears how far a family is."""

    def expect(self, runs: int) -> None:
        """So many runs there will be, beside those expected before."""

    def begin(self, run: str) -> None:
        """A run begins."""

    def end(self) -> None:
        """It has ended."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What to run: names of cases and of systems to compare with, and how."""

    cases: tuple[str, ...]
    against: tuple[str, ...]
    plan: Plan
    pinning: Pinning


class Family(Protocol):
    """A plug-in: what ``list`` shows and ``run`` calls.

    flinknet itself is always measured and is not among ``systems``.
    """

    @property
    def name(self) -> str:
        """What ``run`` takes."""

    @property
    def summary(self) -> str:
        """The question it answers."""

    @property
    def cases(self) -> Mapping[str, str]:
        """Names of the cases, and what each is."""

    @property
    def systems(self) -> Mapping[str, str]:
        """Names of the systems that flinknet can be compared with, and what each is."""

    def run(self, selection: Selection, progress: Progress) -> list[Row]:
        """Measure. Raises BenchError."""

    def print(self, rows: Sequence[Row], console: Console) -> None:
        """Print the table."""

    def draw(self, rows: Sequence[Row], path: Path) -> None:
        """Write the figure as PNG."""


class Named(Protocol):
    """A case, or a system."""

    @property
    def name(self) -> str:
        """What an option takes."""

    @property
    def summary(self) -> str:
        """What it is."""


Each = TypeVar("Each", bound=Named)


def summaries(named: Iterable[Named]) -> dict[str, str]:
    """Return what each is, by name."""
    return {each.name: each.summary for each in named}


def chosen(existing: Iterable[Each], names: Sequence[str]) -> list[Each]:
    """Return those that are named."""
    return [each for each in existing if each.name in names]


def choose(kind: str, wanted: str | None, existing: Mapping[str, object]) -> tuple[str, ...]:
    """Take the names of a comma-separated list, all by default, in the order of ``existing``.

    Raises UsageError that names what exists.
    """
    if wanted is None:
        return tuple(existing)
    names = [name.strip() for name in wanted.split(",")]
    for name in names:
        if name not in existing:
            raise UsageError(f"there is no {kind} {name!r}: choose from {', '.join(existing)}")
    return tuple(name for name in existing if name in names)


def plan_parameters(selection: Selection) -> dict[str, Any]:
    """Return what a row says about how it was measured."""
    return {
        "seconds": selection.plan.seconds,
        "warm_up_s": selection.plan.warm_up_s,
        "cpus": list(selection.pinning),
    }
