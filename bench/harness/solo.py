"""A family in which flinknet runs alone: what is compared are the variants of one system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.harness.case import Case
from bench.harness.comparison import compare
from bench.harness.family import Progress, Selection
from bench.harness.row import Row
from bench.harness.system import System

__all__ = ["SoloFamily"]


class SoloFamily:
    """The part of a Family that says and measures; a family adds how to print and draw its rows.

    ``across_cases`` is as for ``compare``.
    """

    name: str
    summary: str
    systems: Mapping[str, str] = {}

    def __init__(
        self, cases: Sequence[Case], system: System, *, across_cases: bool = False
    ) -> None:
        self.cases = {case.name: case.summary for case in cases}
        self._cases = cases
        self._system = system
        self._across_cases = across_cases

    def run(self, selection: Selection, progress: Progress) -> list[Row]:
        """Measure every variant on the chosen cases, run by run."""
        cases = [case for case in self._cases if case.name in selection.cases]
        return compare(
            self.name,
            cases,
            [self._system],
            selection,
            progress,
            across_cases=self._across_cases,
        )
