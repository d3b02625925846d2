"""The subpartition protocol, tested with a second kind of subpartition in a real partition.

That kind keeps its data until the data is complete. Then any reader can read it, any number of
times.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from flinknet.buffer.network_pool import NetworkBufferPool
from flinknet.consumer.input_gate import InputGate
from flinknet.errors import LocalProtocolError, PartitionNotFoundError, ProducerFailedError
from flinknet.partition.registry import PartitionRegistry
from flinknet.partition.result_partition import ResultPartition
from flinknet.partition.subpartition import (
    ResultSubpartition,
)
from flinknet.records.partitioner import CustomPartitioner
from flinknet.records.reader import RecordReader
from flinknet.records.writer import RecordWriter
from tests.unit.arrangements import (
    HERE,
    Flusher,
    Reader,
    assert_everything_returned,
    connect_local,
    locations,
    make_config,
    run,
    wait,
)
from tests.unit.partition.blocking import BlockingSubpartition
from tests.unit.records.columns.cutting import make_memory, make_unpacker

SEGMENT_BYTES = 64
CHANNELS = 2
RECORDS = [(number % CHANNELS, number, "x" * (number % 100)) for number in range(300)]
"""Many times as much as the pool holds."""


class Arranged:
    """A worker with one blocking partition."""

    def __init__(self) -> None:
        self.pool = NetworkBufferPool(4, SEGMENT_BYTES)
        self.config = make_config(buffers_per_channel=1, floating_buffers_per_gate=1)
        self.registry = PartitionRegistry(10.0)
        self.partition = ResultPartition(
            "p0", CHANNELS, self.pool, self.config, BlockingSubpartition
        )
        self.registry.register(self.partition)
        self.writer = RecordWriter(
            self.partition,
            CustomPartitioner(lambda key, channels: key, lambda record: record[0]),
            wait=wait,
            flusher=Flusher(),
            buffer_timeout_ms=0,
            record_bytes_max=1 << 20,
            record_elements_max=1 << 16,
        )

    def write(self) -> None:
        run(self.writer.emit_many(RECORDS))
        run(self.writer.finish())
        self.writer.close()

    def read(self, index: int) -> list[Any]:
        (location,) = locations(HERE)
        gate = InputGate(
            "gate", [location._replace(subpartition=index)], HERE, self.pool, self.config
        )
        gate.setup(lambda: connect_local(gate, self.registry))
        reader = RecordReader(gate, wait=wait, unpacker=make_unpacker(), memory=make_memory())
        records: list[Any] = []
        while (batch := run(reader.next_batch())) is not None:
            records += batch
        reader.close()
        return records


@pytest.fixture
def arranged() -> Iterator[Arranged]:
    """Yield a blocking partition; check at the end that every buffer was returned."""
    made = Arranged()
    yield made
    made.partition.release()
    assert_everything_returned(made.pool)


def test_every_kind_satisfies_the_protocol(arranged: Arranged) -> None:
    kinds: list[ResultSubpartition] = arranged.partition.subpartitions
    assert [type(kind) for kind in kinds] == [BlockingSubpartition] * CHANNELS


def test_a_retained_partition_is_read_when_complete_any_number_of_times(
    arranged: Arranged,
) -> None:
    """D2: the writer does not wait for a reader, and only the writer releases the partition."""
    assert arranged.partition.statistics().pool.maximum < 5
    arranged.write()
    partition = arranged.partition
    assert partition.all_data_processed.available
    assert partition.finished
    for _ in range(3):
        for index in range(CHANNELS):
            assert arranged.read(index) == [record for record in RECORDS if record[0] == index]
    assert not partition.released
    assert partition.readers_missing == 0
    partition.check_invariants()


def test_a_reader_that_comes_before_the_end_is_refused(arranged: Arranged) -> None:
    run(arranged.writer.emit(RECORDS[0]))
    with pytest.raises(LocalProtocolError, match="cannot be read: its data has not ended"):
        arranged.partition.create_view(0, Reader())
    assert arranged.partition.unread == [0, 1]


def test_a_released_partition_tells_the_readers_of_what_was_kept(arranged: Arranged) -> None:
    arranged.write()
    reader = Reader()
    view = arranged.partition.create_view(0, reader)
    arranged.partition.release()
    assert reader.notices == 1
    assert isinstance(view.failure_cause(), PartitionNotFoundError)


def test_a_failed_producer_leaves_nothing_to_read(arranged: Arranged) -> None:
    run(arranged.writer.emit(RECORDS[0]))
    arranged.writer.fail(ValueError("the disk is full"))
    with pytest.raises(ProducerFailedError, match="the disk is full"):
        arranged.partition.create_view(0, Reader())
