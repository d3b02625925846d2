"""Rows: the results of a benchmark run, and their JSON form."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench.errors import UsageError
from bench.harness.system import Contestant
from bench.harness.trial import Measurement, TimedMeasurement

__all__ = ["Row", "make_row", "median_latency", "median_row", "ratio", "read_json", "write_json"]


@dataclass(frozen=True, slots=True)
class Row:
    """One system in one variant on one case.

    ``records_per_s``, ``mb_per_s`` (10^6 bytes of records as msgpack) and
    ``cpu_s_per_million_records`` (user and system, both processes) are medians; ``runs`` has the
    records/s of every run, in order. ``latency_us`` maps percentiles to microseconds, None where
    latency is not measured. ``verified`` says that count and checksum agreed in every run.
    """

    family: str
    case: str
    system: str
    variant: str
    version: str
    records_per_s: float
    mb_per_s: float
    cpu_s_per_million_records: float
    latency_us: dict[str, float] | None
    runs: list[float]
    verified: bool
    parameters: dict[str, Any]

    @property
    def contestant(self) -> str:
        """The system and its variant, as a table names them."""
        return f"{self.system} {self.variant}".rstrip()


def make_row(
    family: str,
    case: str,
    contestant: Contestant,
    measurements: Sequence[Measurement],
    record_bytes: float,
    parameters: Mapping[str, Any],
) -> Row:
    """Return the row that summarizes the runs of a contestant."""
    system = contestant.system
    return median_row(
        family,
        case,
        (system.name, contestant.variant, system.version()),
        [measurement.records_per_s for measurement in measurements],
        [measurement.cpu_s_per_million_records for measurement in measurements],
        record_bytes,
        verified=all(measurement.verified for measurement in measurements),
        parameters={**parameters, **measurements[-1].observations},
    )


def median_row(
    family: str,
    case: str,
    subject: tuple[str, str, str],
    records_per_s: Sequence[float],
    cpu_s_per_million_records: Sequence[float],
    record_bytes: float,
    *,
    verified: bool,
    parameters: Mapping[str, Any],
    latency_us: dict[str, float] | None = None,
) -> Row:
    """Return the row of medians for a ``subject``: system, variant and version."""
    runs = [round(rate, 1) for rate in records_per_s]
    system, variant, version = subject
    return Row(
        family=family,
        case=case,
        system=system,
        variant=variant,
        version=version,
        records_per_s=median(runs),
        mb_per_s=round(median(runs) * record_bytes / 1e6, 3),
        cpu_s_per_million_records=round(median(cpu_s_per_million_records), 4),
        latency_us=latency_us,
        runs=runs,
        verified=verified,
        parameters=dict(parameters),
    )


def median_latency(measurements: Sequence[Measurement]) -> dict[str, float] | None:
    """Return the median of each percentile; None if latency was not measured."""
    timed = [each.latency_us for each in measurements if isinstance(each, TimedMeasurement)]
    return {name: median(run[name] for run in timed) for name in timed[0]} if timed else None


def ratio(row: Row, against: Row) -> float:
    """Return a row's records/s as a multiple of another row's; both are medians."""
    return row.records_per_s / against.records_per_s


def write_json(machine: Mapping[str, Any], rows: Sequence[Row], path: Path) -> None:
    """Write the machine's facts and the rows."""
    document = {"machine": dict(machine), "rows": [asdict(row) for row in rows]}
    path.write_text(json.dumps(document, indent=1) + "\n")


def read_json(path: Path) -> tuple[dict[str, Any], list[Row]]:
    """Return the machine's facts and the rows that ``write_json`` has written.

    Raises UsageError if the file holds anything else, OSError if it cannot be read.
    """
    try:
        document = json.loads(path.read_text())
        return dict(document["machine"]), [Row(**row) for row in document["rows"]]
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} does not hold the rows of a run: {error!r}") from error
