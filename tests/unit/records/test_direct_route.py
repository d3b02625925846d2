"""Routes that pack straight into the buffer: where the packer is compiled, and here everywhere."""

from __future__ import annotations

from typing import Any

import pytest

from flinknet.errors import SerializationError
from flinknet.records.partitioner import (
    ForwardPartitioner,
    HashPartitioner,
    Partitioner,
    RebalancePartitioner,
)
from flinknet.records.serialization.serializer import LARGE_RECORD_BYTES
from flinknet.records.written import WRITTEN
from tests.unit.arrangements import run
from tests.unit.records.writing import SEGMENT_BYTES, Arranged, by_first, sized

LARGE = b"x" * LARGE_RECORD_BYTES


@pytest.fixture(autouse=True)
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have writers take direct routes in plain Python, too."""
    monkeypatch.setattr("flinknet.records.serialization.packer.COMPILED", True)


def arranged(partitioner: Partitioner, **options: Any) -> Arranged:
    channels = 1 if isinstance(partitioner, ForwardPartitioner) else 2
    made = Arranged(channels, partitioner=partitioner, **options)
    assert type(made.writer._route).__name__.startswith("DirectRoute")
    return made


def each_way() -> list[Any]:
    return [
        pytest.param(make, id=make.__name__)
        for make in (ForwardPartitioner, RebalancePartitioner, by_first, hashed)
    ]


def hashed() -> HashPartitioner:
    return HashPartitioner(lambda record: record[0])


@pytest.mark.parametrize("make", each_way())
def test_what_fits_is_written_at_once_and_the_rest_by_the_appender(make: Any) -> None:
    made = arranged(make())
    records = [(number % 2, sized(SEGMENT_BYTES // 3)) for number in range(9)]
    emitted = [made.writer.emit(record) for record in records]
    assert emitted[1] is WRITTEN or emitted[2] is WRITTEN
    for each in emitted:
        run(each)
    made.writer.flush()
    channels = range(len(made.partition.subpartitions))
    taken = [record for index in channels for record in made.take(index)]
    assert sorted(taken) == sorted(records)
    assert made.writer.records_out == len(records)


@pytest.mark.parametrize("make", each_way())
def test_what_is_large_is_copied_nowhere_else(make: Any) -> None:
    """After one that was large and did not fit; it is a record like others."""
    whole = isinstance(make(), ForwardPartitioner | RebalancePartitioner)
    records = [LARGE if whole else (1, LARGE) for _ in range(4)]
    made = arranged(make(), segment_bytes=LARGE_RECORD_BYTES + 256)
    for record in records:
        run(made.writer.emit(record))
    made.writer.flush()
    channels = range(len(made.partition.subpartitions))
    assert [record for index in channels for record in made.take(index)] == records


@pytest.mark.parametrize("make", each_way())
def test_what_cannot_be_packed_leaves_nothing(make: Any) -> None:
    made = arranged(make())
    for record in ((0, "before"), (0, object()), (0, "behind")):
        if type(record[1]) is object:
            with pytest.raises(SerializationError, match="a record of type tuple"):
                run(made.writer.emit(record))
            continue
        run(made.writer.emit(record))
    made.writer.flush()
    channels = range(len(made.partition.subpartitions))
    taken = [record for index in channels for record in made.take(index)]
    assert sorted(taken) == [(0, "before"), (0, "behind")]


def test_what_no_channel_is_found_for_is_let_go_of() -> None:
    made = arranged(hashed())
    run(made.writer.emit((1, "before")))
    with pytest.raises(SerializationError, match="hash"):
        run(made.writer.emit(({1: 2}, "a map")))
    with pytest.raises(IndexError):
        run(made.writer.emit(()))
    run(made.writer.emit((1, "behind")))
    made.writer.flush()
    taken = [record for index in range(2) for record in made.take(index)]
    assert taken == [(1, "before"), (1, "behind")]
