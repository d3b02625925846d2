"""The demo's keyed operators, of tuples and of record batches, under the same cases."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from flinknet.demo import flight_totals, measurement
from flinknet.demo.flight_totals import (
    AGGREGATES,
    ARRIVALS,
    INTENDED,
    LATENCY,
    ColumnTotals,
    FlightTotals,
    Totals,
)
from flinknet.demo.flights_job import FIELDS
from flinknet.records.key_groups import key_group, key_group_range
from flinknet.state.operator_state import OperatorListState
from tests.unit.demo.flights import FLIGHTS, context

SUMS = [
    ("EWR", "IAH", 3, 4_200, 8, 2, 6),
    ("EWR", "LGA", 1, 17, 0, 0, 3),
    ("LGA", "IAH", 1, 1_416, -20, 1, 1),
]
TYPES = [pa.int64(), pa.string(), pa.string(), pa.int32(), pa.int32(), pa.int64()]
SCHEMA = pa.schema(list(zip([*FIELDS, INTENDED], TYPES, strict=True)))

ROWS, TOGETHER = 3, 6
"""Rows of a record batch, and records that are processed at once."""


class Form(ABC):
    """An operator of one of the two forms, opened, with its input; records alternate between
    sources."""

    operator: Totals

    def __init__(self, sources: int) -> None:
        self._sources = sources

    def open(self, index: int) -> None:
        """Open it as the given subtask."""
        self._context = context(index)
        self.operator.open(self._context)

    def feed(self, records: Sequence[tuple[Any, ...]]) -> None:
        """Feed the records of each source, ``TOGETHER`` at once."""
        for source in range(self._sources):
            self._context.process_context.channel = source
            share = [(*record, time.monotonic_ns()) for record in records[source :: self._sources]]
            for start in range(0, len(share), TOGETHER):
                taken = self.batch(share[start : start + TOGETHER])
                assert self.operator.map_batch(taken) == ()

    @abstractmethod
    def batch(self, records: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Return records in the operator's form of input."""

    def said(self) -> dict[str, list[tuple[Any, ...]]]:
        """Return the operator's rows at its end, by tag."""
        rows: dict[str, list[tuple[Any, ...]]] = {AGGREGATES: [], LATENCY: [], ARRIVALS: []}
        for tag, *row in self.operator.finish():
            rows[tag].append(tuple(row))
        return rows


class Records(Form):
    def __init__(self, sources: int) -> None:
        super().__init__(sources)
        self.operator = FlightTotals(sources)

    def batch(self, records: Sequence[tuple[Any, ...]]) -> list[Any]:
        return list(records)


class Columns(Form):
    def __init__(self, sources: int) -> None:
        super().__init__(sources)
        self.operator = self.columns = ColumnTotals(sources)

    def batch(self, records: Sequence[tuple[Any, ...]]) -> list[Any]:
        rows = [dict(zip(SCHEMA.names, record, strict=True)) for record in records]
        return [
            pa.RecordBatch.from_pylist(rows[start : start + ROWS], schema=SCHEMA)
            for start in range(0, len(rows), ROWS)
        ]


@pytest.fixture(params=[Records, Columns])
def form(request: pytest.FixtureRequest) -> type[Records | Columns]:
    kind: type[Records | Columns] = request.param
    return kind


def opened(form: type[Records | Columns], sources: int = 2, index: int = 1) -> Form:
    made = form(sources)
    made.open(index)
    return made


def test_a_flight_without_arrival_delay_counts_but_not_in_the_mean(
    form: type[Records | Columns],
) -> None:
    made = opened(form)
    made.feed(FLIGHTS)
    assert sorted(made.said()[AGGREGATES]) == SUMS


def test_every_record_is_measured_on_its_channel(
    form: type[Records | Columns], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measurement, "BATCH_RECORDS", 7)  # count in between
    made = opened(form, sources=3)
    made.feed([FLIGHTS[number % 5] for number in range(100)])
    rows = made.said()
    by_channel: Counter[int] = Counter()
    for subtask, source, _, records in rows[LATENCY]:
        assert subtask == 1
        by_channel[source] += records
    assert by_channel == {0: 34, 1: 33, 2: 33}
    assert sum(row[3] for row in rows[ARRIVALS]) == 100


def test_a_subtask_without_records_says_nothing(form: type[Records | Columns]) -> None:
    assert opened(form).said() == {AGGREGATES: [], LATENCY: [], ARRIVALS: []}


def test_a_subtask_goes_on_from_the_sums_of_its_own_pairs(
    form: type[Records | Columns],
) -> None:
    before = opened(form)
    before.feed(FLIGHTS)
    saved = OperatorListState()
    saved.update(list(before.operator.rows()))
    for index in range(2):
        after = form(2)
        after.operator._saved = saved
        after.open(index)
        after.feed(FLIGHTS[3:4])
        own = key_group_range(128, 2, index)
        kept = {row[:2]: row[2:] for row in SUMS if key_group(row[:2], 128) in own}
        records, distance, delay_sum, delays, id_sum = kept.get(("EWR", "LGA"), (0, 0, 0, 0, 0))
        kept["EWR", "LGA"] = (records + 1, distance + 17, delay_sum, delays, id_sum + 3)
        said = after.said()[AGGREGATES]
        assert {row[:2]: row[2:] for row in said} == kept
        assert len(said) == len(kept)


def test_the_sums_of_batches_are_added_up_before_they_are_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(flight_totals, "PARTS_MAX", 3)
    made = Columns(2)
    made.open(0)
    most = 0
    for _ in range(20):
        made.feed(FLIGHTS)
        most = max(most, len(made.columns._parts))
    assert most == 3
    assert sorted(made.said()[AGGREGATES]) == [
        (*row[:2], *(20 * value for value in row[2:])) for row in SUMS
    ]
