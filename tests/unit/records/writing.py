"""A writer over a partition with its readers, for the tests of the write path."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgpack
import pytest

from flinknet.buffer.buffer import DataType
from flinknet.records.partitioner import CustomPartitioner, Partitioner
from flinknet.records.writer import RecordWriter
from tests.unit.arrangements import (
    Flusher,
    Running,
    assert_everything_returned,
    content_of,
    make_partition,
    run,
    view_of,
    wait,
)

END_OF_DATA = DataType.END_OF_DATA

END = DataType.END_OF_PARTITION

SEGMENT_BYTES = 64


def by_first() -> CustomPartitioner:
    """Return a partitioner that sends a record (channel, value) to its channel."""
    return CustomPartitioner(lambda channel, channels: int(channel), lambda record: record[0])


def sized(size: int, fill: str = "x") -> str:
    """Return a record of ``size`` bytes when serialized."""
    head = 1 if size <= 32 else 2 if size <= 257 else 3
    record = fill * (size - head)
    assert len(msgpack.packb(record)) == size
    return record


class Halving(Partitioner):
    """Cuts a pair into one record for each of two channels."""

    cuts_records = True

    def select(self, record: Any) -> int:
        raise AssertionError("a pair is for both")

    def cut(self, record: Any) -> dict[int, Any]:
        return dict(enumerate(record))


async def emit_packed(writer: RecordWriter, records: Iterable[Any]) -> None:
    """Do the same as ``emit_many``, in the two steps of a task in a thread."""
    for packed in writer.pack(records):
        await packed.write()


EMITTING_MANY = [
    pytest.param(RecordWriter.emit_many, id="emitted"),
    pytest.param(emit_packed, id="packed"),
]


class Arranged:
    """A writer over a partition with its readers."""

    def __init__(
        self,
        subpartitions: int = 1,
        *,
        partitioner: Partitioner | None = None,
        timeout: Any = -1,
        segments: int = 64,
        segment_bytes: int = SEGMENT_BYTES,
        record_bytes_max: int = 1 << 20,
        record_elements_max: int = 1 << 16,
        **options: Any,
    ) -> None:
        options = {"overdraft_buffers_per_partition": 0, **options}
        self.partition, self.pool = make_partition(
            subpartitions, segments=segments, segment_bytes=segment_bytes, **options
        )
        if subpartitions > 1 and partitioner is None:
            partitioner = by_first()
        self.flusher = Flusher()
        self.writer = RecordWriter(
            self.partition,
            partitioner,
            wait=wait,
            flusher=self.flusher,
            buffer_timeout_ms=timeout,
            record_bytes_max=record_bytes_max,
            record_elements_max=record_elements_max,
        )
        self.views = [view_of(self.partition, index) for index in range(subpartitions)]
        self.streams = [
            msgpack.Unpacker(use_list=False, strict_map_key=False) for _ in range(subpartitions)
        ]

    def emit(self, *records: Any) -> None:
        """Emit records that need not wait."""
        for record in records:
            run(self.writer.emit(record))

    def buffers(self, index: int = 0) -> list[tuple[int, DataType]]:
        """Take everything; return sizes and types."""
        taken = []
        while (polled := self.views[index].poll()) is not None:
            taken.append((polled.buffer.size, polled.buffer.data_type))
            polled.buffer.recycle()
        return taken

    def marks(self, index: int) -> list[tuple[int, int]]:
        """Take everything; return how many bytes of each buffer belong to cut records."""
        taken = []
        while (polled := self.views[index].poll()) is not None:
            taken.append((polled.buffer.continued, polled.buffer.unfinished))
            polled.buffer.recycle()
        return taken

    def take(self, index: int = 0, *, buffers: int = 1_000) -> list[Any]:
        """Take buffers; return the complete records and the event types."""
        taken: list[Any] = []
        while buffers and (polled := self.views[index].poll()) is not None:
            buffers -= 1
            if polled.buffer.data_type.is_buffer:
                self.streams[index].feed(content_of(polled.buffer))
                taken.extend(self.streams[index])
            else:
                taken.append(polled.buffer.data_type)
            polled.buffer.recycle()
        return taken

    def taken_with(self, emitting: Running[None], index: int = 0) -> list[Any]:
        """Take one buffer at a time and let the writer go on, until it is done; take the rest."""
        taken = []
        while not emitting.done:
            taken += self.take(index, buffers=1)
            emitting.go_on()
        return taken + self.take(index)

    def close(self) -> None:
        self.writer.close()
        self.partition.release()
        assert_everything_returned(self.pool)
