"""Systems of any kind, interleaved run by run; an absent system gets a row with the reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError
from typing import Any

from rich.console import Console

from bench.errors import BenchError, UnavailableError
from bench.harness.case import Case, record_bytes
from bench.harness.family import Progress, Selection, plan_parameters
from bench.harness.interleaving import interleave
from bench.harness.pinning import Pinning
from bench.harness.row import Row, median_latency, median_row
from bench.harness.trial import Measurement, Plan

__all__ = ["Absence", "Entrant", "absences", "absent_row", "print_absences", "run_case"]

EXTRA = "python -m pip install 'flinknet[bench]'"


@dataclass(frozen=True, slots=True)
class Entrant:
    """A system in one of its variants, ready to be measured on a case.

    ``version`` prepares the system if necessary. It raises UnavailableError or PackageNotFoundError
    if the system cannot run.
    """

    system: str
    variant: str
    version: Callable[[], str]
    parameters: Callable[[Case], Mapping[str, Any]]
    measure: Callable[[Case, Plan, Pinning], Measurement]

    def __str__(self) -> str:
        return f"{self.system} {self.variant}"


@dataclass(frozen=True, slots=True)
class Absence:
    """A system that does not take part in a case, and the reason."""

    system: str
    reason: str


def run_case(
    family: str,
    case: Case,
    entered: Sequence[Entrant | Absence],
    selection: Selection,
    progress: Progress,
) -> list[Row]:
    """Measure all entrants in turn; an entrant that fails becomes a failed absence."""
    attempts: dict[Entrant, _Attempt] = {}
    absences: dict[Entrant, Row] = {}
    for entrant in _entrants(entered):
        progress.begin(f"{case.name}, {entrant}, making ready")
        try:
            attempts[entrant] = _Attempt(entrant, case, selection)
        except (UnavailableError, PackageNotFoundError) as error:
            absences[entrant] = absent_row(family, case, entrant, not_run=_missing(error))
    named = {f"{case.name}, {entrant}": attempt for entrant, attempt in attempts.items()}
    results = interleave(named, selection.plan.runs, progress).values()
    runs = dict(zip(attempts, results, strict=True))
    for entrant, attempt in attempts.items():
        if attempt.failure is not None:
            absences[entrant] = absent_row(family, case, entrant, failed=attempt.failure)
    rows: list[Row] = []
    for each in entered:
        if isinstance(each, Absence):
            rows.append(absent_row(family, case, each, not_run=each.reason))
        elif each in absences:
            rows.append(absences[each])
        else:
            measured = [run for run in runs[each] if run is not None]
            rows.append(_row(family, case, each, attempts[each].version, measured, selection))
    return rows


class _Attempt:
    """Runs a prepared entrant; after a failure, it is not tried again."""

    def __init__(self, entrant: Entrant, case: Case, selection: Selection) -> None:
        self.version = entrant.version()
        self.failure: str | None = None
        self._measure = partial(entrant.measure, case, selection.plan, selection.pinning)

    def __call__(self) -> Measurement | None:
        """Run once; return None if the run fails or an earlier one has failed."""
        if self.failure is None:
            try:
                return self._measure()
            except BenchError as error:
                self.failure = str(error)
        return None


def absent_row(family: str, case: Case, absent: Entrant | Absence, **why: str) -> Row:
    """Return a row without runs; its parameters give the reason: ``not_run`` or ``failed``."""
    return Row(
        family=family,
        case=case.name,
        system=absent.system,
        variant=absent.variant if isinstance(absent, Entrant) else "",
        version="",
        records_per_s=0.0,
        mb_per_s=0.0,
        cpu_s_per_million_records=0.0,
        latency_us=None,
        runs=[],
        verified=False,
        parameters=dict(why),
    )


def absences(rows: Sequence[Row]) -> list[str]:
    """Return one line per reason, with the absent systems and the affected cases."""
    systems: dict[tuple[str, str], dict[str, None]] = {}
    for row in rows:
        for what in ("not_run", "failed"):
            if what in row.parameters:
                name = row.contestant if what == "failed" else row.system
                reason = f"{what.replace('_', ' ')}: {row.parameters[what]}"
                systems.setdefault((row.case, reason), {})[name] = None
    cases: dict[tuple[str, str], list[str]] = {}
    for (case, reason), names in systems.items():
        cases.setdefault((", ".join(names), reason), []).append(case)
    return [f"{', '.join(on)}: {names}: {reason}" for (names, reason), on in cases.items()]


def print_absences(rows: Sequence[Row], console: Console) -> None:
    """Print the systems that did not run, and the reasons."""
    for line in absences(rows):
        console.print(line, highlight=False, markup=False)


def _entrants(entered: Sequence[Entrant | Absence]) -> list[Entrant]:
    return [each for each in entered if isinstance(each, Entrant)]


def _missing(error: UnavailableError | PackageNotFoundError) -> str:
    if isinstance(error, PackageNotFoundError):
        return f"{error.name} is not installed: {EXTRA}"
    return str(error)


def _row(
    family: str,
    case: Case,
    entrant: Entrant,
    version: str,
    runs: Sequence[Measurement],
    selection: Selection,
) -> Row:
    block = case.make_block()
    size = record_bytes(block)
    common = {
        **plan_parameters(selection),
        "record_bytes": round(size, 1),
        "block_records": len(block),
    }
    return median_row(
        family,
        case.name,
        (entrant.system, entrant.variant, version),
        [run.records_per_s for run in runs],
        [run.cpu_s_per_million_records for run in runs],
        size,
        verified=all(run.verified for run in runs),
        parameters={**common, **entrant.parameters(case), **runs[-1].observations},
        latency_us=median_latency(runs),
    )
