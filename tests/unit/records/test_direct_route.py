"""Routes that pack straight into the buffer. In plain Python they are ordinary routes."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from operator import itemgetter
from typing import Any

import pytest

from flinknet.errors import SerializationError
from flinknet.records.partitioner import (
    AdaptiveRebalancePartitioner,
    ForwardPartitioner,
    HashPartitioner,
    Partitioner,
    RebalancePartitioner,
)
from flinknet.records.serialization.key_counts import COUNTED_FROM_BYTES
from flinknet.records.serialization.large_record import LARGE_RECORD_BYTES
from flinknet.records.written import WRITTEN
from tests.unit.arrangements import run
from tests.unit.records.writing import EMITTING_MANY, SEGMENT_BYTES, Arranged, by_first, sized

LARGE = b"x" * LARGE_RECORD_BYTES


def arranged(partitioner: Partitioner, **options: Any) -> Arranged:
    channels = 1 if isinstance(partitioner, ForwardPartitioner) else 2
    made = Arranged(channels, partitioner=partitioner, **options)
    assert type(made.writer._route).__name__.startswith("Direct")
    return made


def each_way() -> list[Any]:
    return [
        pytest.param(make, id=make.__name__)
        for make in (ForwardPartitioner, RebalancePartitioner, by_first, hashed, by_element)
    ]


def by_element() -> HashPartitioner:
    return HashPartitioner(itemgetter(0), 1024)


def adaptive() -> AdaptiveRebalancePartitioner:
    return AdaptiveRebalancePartitioner()


def hashed() -> HashPartitioner:
    return HashPartitioner(lambda record: record[0], 1024)


@pytest.mark.parametrize("make", each_way())
def test_records_that_fit_are_written_at_once_the_rest_by_the_appender(make: Any) -> None:
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


@pytest.mark.parametrize("emit_many", EMITTING_MANY)
@pytest.mark.parametrize("make", each_way())
@pytest.mark.parametrize("key", [int, str])
@pytest.mark.parametrize("together", [list, iter])
def test_many_are_written_where_each_would_go_alone(
    emit_many: Any, make: Any, key: Any, together: Any
) -> None:
    """This also holds behind a large record, and behind a record that spans buffers."""
    sizes = [1, 40, 0, LARGE_RECORD_BYTES, 5, 700, 1500, LARGE_RECORD_BYTES + 1, *range(60)]
    records = [(key(number % 2), b"x" * size) for number, size in enumerate(sizes)]
    taken = []
    for at_once in (False, True):
        made = arranged(make(), segment_bytes=1024)
        if at_once:
            taken.append(drive(made, [emit_many(made.writer, together(records))]))
        else:
            taken.append(drive(made, map(made.writer.emit, records)))
        assert made.writer.records_out == len(records)
    assert taken[0] == taken[1]
    assert sorted(record for some in taken[0] for record in some) == sorted(records)


@pytest.mark.parametrize("emit_many", EMITTING_MANY)
@pytest.mark.parametrize("make", [RebalancePartitioner, by_first, hashed, by_element, adaptive])
@pytest.mark.parametrize("channels", [2, 40, 500])
def test_many_find_their_channels_among_many(emit_many: Any, make: Any, channels: int) -> None:
    """This holds whether or not they are divided among the channels before."""
    records = [(number * 7 % channels, number) for number in range(2_000)]
    options: dict[str, Any] = {"segments": 2 * channels + 8, "segment_bytes": 128}
    one_by_one = Arranged(channels, partitioner=make(), **options)
    together = Arranged(channels, partitioner=make(), **options)
    taken = drive(together, [emit_many(together.writer, records)])
    assert sorted(record for some in taken for record in some) == sorted(records)
    assert together.writer.records_out == len(records)
    if make is not adaptive:
        assert taken == drive(one_by_one, map(one_by_one.writer.emit, records))


@pytest.mark.parametrize("emit_many", EMITTING_MANY)
@pytest.mark.parametrize("make", each_way())
def test_of_many_those_before_a_wrong_one_may_be_written(emit_many: Any, make: Any) -> None:
    made = arranged(make())
    records = [(0, "before"), (1, "before"), (0, object()), (0, "never")]
    with pytest.raises(SerializationError, match="a record of type tuple"):
        drive(made, [emit_many(made.writer, records)])
    taken = [
        record for some in drive(made, [emit_many(made.writer, [(1, "behind")])]) for record in some
    ]
    assert taken.count((1, "behind")) == 1
    assert (0, "never") not in taken
    assert made.writer.records_out == len(taken)


@pytest.mark.parametrize("emit_many", EMITTING_MANY)
def test_a_key_that_is_none_ends_many_where_it_stands(emit_many: Any) -> None:
    made = arranged(by_element())
    with pytest.raises(SerializationError, match="hash"):
        drive(made, [emit_many(made.writer, [(1, "before"), ({1: 2}, "a map"), (1, "never")])])
    taken = drive(made, [emit_many(made.writer, [(1, "behind")])])
    assert (1, "behind") in taken[0] + taken[1]
    assert (1, "never") not in taken[0] + taken[1]


def drive(made: Arranged, coroutines: Iterable[Coroutine[Any, Any, None]]) -> list[list[Any]]:
    """Run the coroutines to their ends, and take all records whenever one waits; return them by
    channel."""
    taken: list[list[Any]] = [[] for _ in made.partition.subpartitions]

    def take() -> None:
        made.writer.flush()
        for index, some in enumerate(taken):
            some += made.take(index)

    for coroutine in coroutines:
        with pytest.raises(StopIteration):
            while True:
                coroutine.send(None)
                take()
    take()
    return taken


@pytest.mark.parametrize("make", each_way())
def test_large_content_is_copied_once(make: Any) -> None:
    """It follows a large record that did not fit; it is written like other records."""
    whole = isinstance(make(), ForwardPartitioner | RebalancePartitioner)
    records = [LARGE if whole else (1, LARGE) for _ in range(4)]
    made = arranged(make(), segment_bytes=LARGE_RECORD_BYTES + 256)
    for record in records:
        run(made.writer.emit(record))
    made.writer.flush()
    channels = range(len(made.partition.subpartitions))
    assert [record for index in channels for record in made.take(index)] == records


@pytest.mark.parametrize("emit_many", EMITTING_MANY)
@pytest.mark.parametrize("make", each_way())
@pytest.mark.parametrize("many", [True, False])
def test_in_long_buffers_long_records_are_held_against_the_limits(
    emit_many: Any, make: Any, many: bool
) -> None:
    """They would not fit the default buffers, so no other check sees them."""
    keys = dict.fromkeys(range(COUNTED_FROM_BYTES // 3))
    fine, refused, short = (0, [0.5] * COUNTED_FROM_BYTES), (0, keys), (0, "short")
    options: dict[str, Any] = {"record_bytes_max": 400_000, "record_elements_max": 400_000}
    made = arranged(make(), segment_bytes=400_000, record_keys_max=1_000, **options)

    def emit(record: Any) -> None:
        run(emit_many(made.writer, [record]) if many else made.writer.emit(record))

    for record in (short, fine, short):
        emit(record)
    with pytest.raises(SerializationError, match="record_keys_max"):
        emit(refused)
    emit(short)
    made.writer.flush()
    channels = range(len(made.partition.subpartitions))
    taken = [record for index in channels for record in made.take(index)]
    assert sorted(len(value) for _, value in taken) == [5, 5, 5, COUNTED_FROM_BYTES]
    assert made.writer.records_out == 4


@pytest.mark.parametrize("make", each_way())
def test_an_unpackable_record_leaves_nothing(make: Any) -> None:
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


def test_a_record_without_a_channel_is_released() -> None:
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


class Rebalanced(RebalancePartitioner):
    """Chooses from more channels than there are."""

    def setup(self, channels: int, **of_the_writer: Any) -> None:
        super().setup(1_000 * channels, **of_the_writer)
        self.channels = channels


class Hashed(HashPartitioner):
    """Chooses from more channels than there are."""

    def setup(self, channels: int, **of_the_writer: Any) -> None:
        super().setup(1_000 * channels, **of_the_writer)
        self.channels = channels


@pytest.mark.parametrize("emit_many", EMITTING_MANY)
@pytest.mark.parametrize("many", [False, True])
def test_a_channel_that_there_is_not_is_refused(emit_many: Any, many: bool) -> None:
    made = arranged(Rebalanced())
    with pytest.raises(IndexError):
        if many:
            run(emit_many(made.writer, [*range(5)]))
        else:
            made.emit(*range(5))


@pytest.mark.parametrize("emit_many", EMITTING_MANY)
@pytest.mark.parametrize("many", [False, True])
def test_a_compiled_route_asks_again_for_a_missing_channel(emit_many: Any, many: bool) -> None:
    partitioner = Hashed(itemgetter(0), 1 << 14)
    made = arranged(partitioner)
    records = [(number, "far away") for number in range(50)]
    if many:
        run(emit_many(made.writer, records))
    else:
        made.emit(*records)
    made.writer.flush()
    for channel in range(2):
        assert made.take(channel) == [
            record for record in records if partitioner.select(record) == channel
        ]
