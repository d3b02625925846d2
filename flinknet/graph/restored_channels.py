"""Restored channel state: the data in flight to a subtask in a checkpoint, as its first records.

Theory of operation. A record in flight was with its producer, which had not sent it, or with its
consumer, which had not processed it. The consumer's stored data of a channel, followed by the
producer's, is a sequence of whole records: a record that the consumer had begun comes first, and
the producer's barrier stood between two records. So the *consumer* reads both, and no producer
sends anything again (Flink, since FLINK-35761). It processes them before any new record, one old
channel after the other, each in order.

If the parallelism of the consumer has changed:

- Records of a keyed exchange go to the present owners of their keys. Each subtask reads the
  channels of old owners that shared key groups with it, and selects its own records.
- A channel of any other exchange goes to one subtask as a whole, by the number of its old consumer.
- Data in flight on a broadcast exchange is refused, because each consumer still lacked another part
  of it. Aligned checkpoints and savepoints have no such data.

Labels contain the exchange numbers of the old job. Another version of the job, or another
parallelism with other chains, may number the same exchange differently. So exchanges are identified
by the operators at their ends, from the metadata. No record is dropped silently or reaches the
wrong subtask: data of an exchange that no longer exists, or that has another partitioner with other
results, is refused as well.

Flink: InflightDataRescalingDescriptor, SubtaskStateMapper, RecoveredInputChannel.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

import msgpack

from flinknet.checkpoint.channel_state import ChannelLabel, chunks_of
from flinknet.checkpoint.metadata import CheckpointMetadata, Exchange, OperatorState, StateKind
from flinknet.checkpoint.reader import PartReader
from flinknet.errors import CheckpointCorruptedError, StateError
from flinknet.graph.deployment import consumers_of
from flinknet.graph.exchanges import exchanges_of
from flinknet.graph.graph import JobEdge, JobGraph
from flinknet.graph.transformation import (
    ADAPTIVE_REBALANCE,
    ADAPTIVE_RESCALE,
    FORWARD,
    REBALANCE,
    RESCALE,
    SHUFFLE,
)
from flinknet.records.key_groups import key_group_range
from flinknet.records.partitioner import HashPartitioner, Partitioner
from flinknet.records.serialization.serializer import UNPACK_ERRORS, RecordUnpacker

__all__ = ["InFlightRecords", "RestoredChannels"]

RECORDS_MAX = 1_000
"""Maximum number of records that are processed as one batch."""

_TO_ANYBODY = frozenset(
    one.name for one in (FORWARD, REBALANCE, RESCALE, ADAPTIVE_REBALANCE, ADAPTIVE_RESCALE, SHUFFLE)
)
"""Partitioners that treat all consumers alike, so that one may replace another at a different
parallelism."""


class InFlightRecords(NamedTuple):
    """Records of one old channel, to be processed as a batch."""

    gate: int
    producer: int
    """Index of the producer at the time of the checkpoint."""
    records: list[Any]


_Place: TypeAlias = tuple[StateKind, str, int]
"""The first operator of a chain, and the number of one of its exchanges on that side."""

_WAY_OUT = (
    "keep the exchange unchanged, or continue from a savepoint, which has no records in flight"
)


class _OldChannel(NamedTuple):
    """A channel of an old exchange, by its two subtasks and its two labels."""

    producer: int
    consumer: int
    input: ChannelLabel
    output: ChannelLabel


class RestoredChannels:
    """The data in flight in a checkpoint, for one restored attempt of a job."""

    def __init__(self, store: PartReader, metadata: CheckpointMetadata, graph: JobGraph) -> None:
        """Check the data; raise StateError if the job has no place for some of it."""
        self._store = store
        self._metadata = metadata
        self._graph = graph
        self._operators = {operator.uid: operator for operator in metadata.operators}
        self._in_flight = _labelled(metadata)
        self._before = self._found()
        self._check()

    async def records_of(
        self, vertex: int, index: int, unpacker: RecordUnpacker
    ) -> AsyncGenerator[InFlightRecords, None]:
        """Yield the records in flight to a subtask, gate by gate.

        Raises StateError if they cannot be distributed at this parallelism,
        CheckpointCorruptedError if they are no sequence of records, and the errors of reading.
        """
        into = [number for number, edge in enumerate(self._graph.edges) if edge.target == vertex]
        for gate, number in enumerate(into):
            exchange = self._before.get(number)
            if exchange is None or not self._has_in_flight(exchange):
                continue
            edge = self._graph.edges[number]
            wanted = self._wanted(edge, exchange, index)
            for channel in self._old_channels(edge, exchange, index):
                async for records in self._records(exchange, channel, unpacker, wanted):
                    yield InFlightRecords(gate, channel.producer, records)

    # -- exchanges

    def _found(self) -> dict[int, Exchange]:
        """Return the old exchange of each edge of the job, by the number of the edge."""
        # Several exchanges may have equal ends. They are matched in their order, by ``pop``.
        before = defaultdict(list)
        for exchange in reversed(self._metadata.exchanges):
            before[_ends(exchange)].append(exchange)
        now = enumerate(exchanges_of(self._graph))
        return {
            number: before[_ends(exchange)].pop()
            for number, exchange in now
            if before[_ends(exchange)]
        }

    def _has_in_flight(self, exchange: Exchange) -> bool:
        return not self._in_flight.isdisjoint(_places(exchange))

    def _check(self) -> None:
        """Raise StateError unless all data in flight has a place in the job."""
        taken = {place for exchange in self._before.values() for place in _places(exchange)}
        ends = {
            place: f'from operator "{exchange.sender}" to operator "{exchange.receiver}" '
            f"({exchange.partitioner})"
            for exchange in self._metadata.exchanges
            for place in _places(exchange)
        }
        for place in sorted(self._in_flight - taken):
            where = ends.get(place, f'on an unknown exchange of operator "{place[1]}"')
            raise StateError(
                f"records were in flight {where} when {self._metadata.directory} was taken, and "
                f'job "{self._graph.name}" has no such exchange between two tasks: {_WAY_OUT}'
            )

    def _operator(self, uid: str) -> OperatorState:
        operator = self._operators.get(uid)
        if operator is None:
            raise CheckpointCorruptedError(
                f"{self._store.location(self._metadata.directory)} has an exchange of operator "
                f'"{uid}", and no such operator'
            )
        return operator

    # -- channels

    def _old_channels(self, edge: JobEdge, exchange: Exchange, index: int) -> Iterator[_OldChannel]:
        """Yield the old channels with records for this subtask."""
        sources = self._operator(exchange.sender_head).parallelism
        targets = self._operator(exchange.receiver).parallelism
        consumers = [
            consumers_of(producer, sources, targets, pointwise=exchange.pointwise)
            for producer in range(sources)
        ]
        for consumer in self._old_consumers(edge, exchange, index):
            producers = [one for one in range(sources) if consumer in consumers[one]]
            for channel, producer in enumerate(producers):
                place = consumers[producer].index(consumer)
                ends = (exchange.gate, channel), (exchange.partition, place)
                yield _OldChannel(producer, consumer, *ends)

    def _old_consumers(self, edge: JobEdge, exchange: Exchange, index: int) -> list[int]:
        target = self._operator(exchange.receiver)
        before, now = target.parallelism, self._graph.vertices[edge.target].parallelism
        if before == now:
            return [index]
        if _is_keyed(edge.partitioner()):
            groups = key_group_range(target.max_parallelism, now, index)
            return [
                consumer
                for consumer in range(before)
                if _overlap(key_group_range(target.max_parallelism, before, consumer), groups)
            ]
        if edge.partitioner().is_broadcast:
            raise StateError(
                f'records were in flight on the broadcast exchange "{edge.name}" when '
                f"{self._metadata.directory} was taken, different ones for each consumer: they "
                f"cannot be redistributed from {before} to {now} subtasks; keep the parallelism, "
                "or continue from a savepoint"
            )
        return [consumer for consumer in range(before) if consumer % now == index]

    def _wanted(self, edge: JobEdge, exchange: Exchange, index: int) -> Callable[[Any], Any]:
        """Return a function that selects the subtask's share of a record: all, a part or None."""
        now = self._graph.vertices[edge.target].parallelism
        partitioner = edge.partitioner()
        before = self._operator(exchange.receiver).parallelism
        if before == now or not _is_keyed(partitioner):
            return _all_of
        # Several subtasks may read an old channel; each selects with the present partitioner.
        partitioner.setup(now)
        if partitioner.cuts_records:
            return lambda record: partitioner.cut(record).get(index)
        return lambda record: record if partitioner.select(record) == index else None

    # -- records

    async def _records(
        self,
        exchange: Exchange,
        channel: _OldChannel,
        unpacker: RecordUnpacker,
        wanted: Callable[[Any], Any],
    ) -> AsyncIterator[list[Any]]:
        name = (
            f'the data in flight on "{exchange.partitioner}" from subtask {channel.producer} to '
            f"{channel.consumer} in {self._store.location(self._metadata.directory)}"
        )
        records: list[Any] = []
        splitter = _RecordSplitter(name, unpacker)
        async for chunk in self._chunks(exchange, channel, name):
            for record in splitter.feed(chunk):
                taken = wanted(record)
                if taken is not None:
                    records.append(taken)
            if len(records) >= RECORDS_MAX:
                yield records
                records = []
        splitter.end()
        if records:
            yield records

    async def _chunks(
        self, exchange: Exchange, channel: _OldChannel, name: str
    ) -> AsyncIterator[bytes]:
        ends = (
            (exchange.receiver, channel.consumer, StateKind.INPUT, channel.input),
            (exchange.sender_head, channel.producer, StateKind.OUTPUT, channel.output),
        )
        for uid, index, kind, label in ends:
            for state in self._operator(uid).subtasks:
                part = state.parts.get(kind)
                if state.subtask_index != index or part is None:
                    continue
                sections = self._store.read_part(self._metadata.directory, part, [label])
                async for _, section in sections:
                    for chunk in chunks_of(section, name):
                        yield chunk


class _RecordSplitter:
    """Reassembles the records of one channel."""

    def __init__(self, name: str, unpacker: RecordUnpacker) -> None:
        self._name = name
        self._unpacker = unpacker
        self._bounds = msgpack.Unpacker(max_buffer_size=0)
        """Finds the ends of records, without creating objects. A size of 0 stands for the largest
        buffer: a record may exceed the default limit."""
        self._pending = bytearray()
        self._pending_from = 0

    def feed(self, chunk: bytes) -> Iterator[Any]:
        """Yield the records that end in this chunk."""
        self._pending += chunk
        self._bounds.feed(chunk)
        start = 0
        try:
            while (end := self._next_end()) is not None:
                yield self._unpacker.record(bytes(self._pending[start:end]))
                start = end
        except UNPACK_ERRORS as cause:
            raise CheckpointCorruptedError(
                f"{self._name} is not a sequence of records: {type(cause).__name__}: {cause}"
            ) from cause
        del self._pending[:start]
        self._pending_from += start

    def _next_end(self) -> int | None:
        try:
            self._bounds.skip()
        except msgpack.OutOfData:
            return None
        return int(self._bounds.tell()) - self._pending_from

    def end(self) -> None:
        """Raise CheckpointCorruptedError if the data ends within a record."""
        if self._pending:
            raise CheckpointCorruptedError(f"{self._name} ends inside a record")


def _labelled(metadata: CheckpointMetadata) -> set[_Place]:
    """Return the places that have data in flight."""
    return {
        (kind, operator.uid, label[0])
        for operator, _, kind, part in metadata.parts()
        for label in part.labels
        if isinstance(label, tuple)
    }


def _places(exchange: Exchange) -> tuple[_Place, _Place]:
    """Return the places of an exchange's data: at the consumers, and at the producers."""
    return (
        (StateKind.INPUT, exchange.receiver, exchange.gate),
        (StateKind.OUTPUT, exchange.sender_head, exchange.partition),
    )


def _ends(exchange: Exchange) -> tuple[object, ...]:
    """Return the identity of an exchange, which is equal in the old job and in the new one."""
    deals = "" if exchange.partitioner in _TO_ANYBODY else exchange.partitioner
    ends = exchange.sender, exchange.tag, exchange.receiver, exchange.input
    return *ends, exchange.stamped, deals


def _is_keyed(partitioner: Partitioner) -> bool:
    return partitioner.cuts_records or isinstance(partitioner, HashPartitioner)


def _overlap(one: range, other: range) -> bool:
    return one.start < other.stop and other.start < one.stop


def _all_of(record: Any) -> Any:
    return record
