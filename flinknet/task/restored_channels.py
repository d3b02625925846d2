"""What was in flight to a subtask when its job's checkpoint was taken: its first records.

Theory of operation. A record in flight is in one of two places: with its producer, which had not
sent it, or with its consumer, which had not processed it. Behind each other, in this order, what
the consumer stored of a channel and what the producer stored of it are whole records: the part of
one that the consumer had begun is in front, and at the producer the barrier stands between two
records. So the *consumer* reads both, and nobody sends anything again (Flink, since FLINK-35761).
It processes them before anything that is new, one old channel after the other, each in its order.

At another parallelism of the consumer

- records of a keyed exchange go to who owns their keys now: each subtask reads the channels whose
  old owner had some of its key groups, and takes what is its own;
- a channel of any other exchange goes to one subtask as a whole, by its old consumer's number;
- what was in flight on a broadcast exchange cannot be dealt out: each of its consumers had another
  part of it before itself. That is refused; an aligned checkpoint, or a savepoint, has none.

Nothing is dropped in silence: what was in flight on an exchange that the job does not have any
more is refused, too.

Flink: InflightDataRescalingDescriptor, SubtaskStateMapper, RecoveredInputChannel.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from typing import Any, NamedTuple

import msgpack

from flinknet.checkpoint.channel_state import ChannelLabel, chunks_of
from flinknet.checkpoint.metadata import CheckpointMetadata, OperatorState, StateKind
from flinknet.checkpoint.reader import PartReader
from flinknet.errors import CheckpointCorruptedError, StateError
from flinknet.records.key_groups import key_group_range
from flinknet.records.partitioner import HashPartitioner, Partitioner
from flinknet.records.serialization.serializer import UNPACK_ERRORS, RecordUnpacker
from flinknet.task.deployment import consumers_of
from flinknet.task.graph import JobEdge, JobGraph

__all__ = ["InFlightRecords", "RestoredChannels"]

RECORDS_MAX = 1_000
"""Records that are processed as one batch."""


class InFlightRecords(NamedTuple):
    """Some records of one old channel, to be processed as a batch."""

    gate: int
    producer: int
    """The producer's number of then."""
    records: list[Any]


class _OldChannel(NamedTuple):
    """A channel of an exchange as it was: between these subtasks, and what its ends called it."""

    producer: int
    consumer: int
    input: ChannelLabel
    output: ChannelLabel


class RestoredChannels:
    """What was in flight in a job, as one attempt is restored."""

    def __init__(self, store: PartReader, metadata: CheckpointMetadata, graph: JobGraph) -> None:
        """Raises StateError if the job has no place for some of it."""
        self._store = store
        self._metadata = metadata
        self._graph = graph
        self._operators = {operator.uid: operator for operator in metadata.operators}
        self._check()

    async def records_of(
        self, vertex: int, index: int, unpacker: RecordUnpacker
    ) -> AsyncGenerator[InFlightRecords, None]:
        """Yield what was in flight to a subtask, gate after gate.

        StateError if it cannot be dealt out at this parallelism, CheckpointCorruptedError if it is
        no row of records, and what reading raises.
        """
        for gate, edge in enumerate(self._into(vertex)):
            partition = self._out_of(edge.source).index(edge)
            if self._has_in_flight(edge, gate, partition):
                wanted = self._wanted(edge, index)
                for channel in self._old_channels(edge, gate, partition, index):
                    async for records in self._records(edge, channel, unpacker, wanted):
                        yield InFlightRecords(gate, channel.producer, records)

    # -- which channels

    def _into(self, vertex: int) -> list[JobEdge]:
        """The edges that a vertex reads, as its gates are numbered."""
        return [edge for edge in self._graph.edges if edge.target == vertex]

    def _out_of(self, vertex: int) -> list[JobEdge]:
        """The edges that a vertex writes, as its partitions are numbered."""
        return [edge for edge in self._graph.edges if edge.source == vertex]

    def _before(self, vertex: int) -> OperatorState | None:
        """What the checkpoint has of a vertex: of its first operator."""
        return self._operators.get(self._graph.vertices[vertex].operators[0].uid)

    def _has_in_flight(self, edge: JobEdge, gate: int, partition: int) -> bool:
        source, target = self._before(edge.source), self._before(edge.target)
        return (target is not None and _has(target, StateKind.INPUT, gate)) or (
            source is not None and _has(source, StateKind.OUTPUT, partition)
        )

    def _old_channels(
        self, edge: JobEdge, gate: int, partition: int, index: int
    ) -> Iterator[_OldChannel]:
        """Yield the old channels of which some records are for this subtask."""
        source, target = self._before(edge.source), self._before(edge.target)
        if source is None or target is None:
            raise StateError(
                f"records were in flight on an exchange of the checkpoint in place of which the "
                f'job has "{edge.name}" from another operator: continue from a savepoint, which '
                f"has none in flight"
            )
        for consumer in self._old_consumers(edge, target, index):
            producers = [
                producer
                for producer in range(source.parallelism)
                if consumer in _consumers(edge, producer, source, target)
            ]
            for channel, producer in enumerate(producers):
                place = _consumers(edge, producer, source, target).index(consumer)
                yield _OldChannel(producer, consumer, (gate, channel), (partition, place))

    def _old_consumers(self, edge: JobEdge, target: OperatorState, index: int) -> list[int]:
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
                f"{self._metadata.directory} was taken, each consumer having others before it: "
                f"they cannot be dealt out to {now} subtasks in the place of {before}; keep the "
                f"parallelism, or continue from a savepoint"
            )
        return [consumer for consumer in range(before) if consumer % now == index]

    def _wanted(self, edge: JobEdge, index: int) -> Callable[[Any], Any]:
        """What a subtask takes of a record: all of it, a part or None."""
        target = self._before(edge.target)
        now = self._graph.vertices[edge.target].parallelism
        partitioner = edge.partitioner()
        if target is None or target.parallelism == now or not _is_keyed(partitioner):
            return _all_of
        partitioner.setup(now)
        if partitioner.cuts_records:
            return lambda record: partitioner.cut(record).get(index)
        return lambda record: record if partitioner.select(record) == index else None

    # -- what was on them

    async def _records(
        self,
        edge: JobEdge,
        channel: _OldChannel,
        unpacker: RecordUnpacker,
        wanted: Callable[[Any], Any],
    ) -> AsyncIterator[list[Any]]:
        name = (
            f'what was in flight on "{edge.name}" from subtask {channel.producer} to '
            f"{channel.consumer} in {self._store.location(self._metadata.directory)}"
        )
        records: list[Any] = []
        splitter = _RecordSplitter(name, unpacker)
        async for chunk in self._chunks(edge, channel, name):
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

    async def _chunks(self, edge: JobEdge, channel: _OldChannel, name: str) -> AsyncIterator[bytes]:
        ends = (
            (edge.target, channel.consumer, StateKind.INPUT, channel.input),
            (edge.source, channel.producer, StateKind.OUTPUT, channel.output),
        )
        for vertex, index, kind, label in ends:
            before = self._before(vertex)
            states = () if before is None else before.subtasks
            for state in states:
                part = state.parts.get(kind)
                if state.subtask_index != index or part is None:
                    continue
                sections = self._store.read_part(self._metadata.directory, part, [label])
                async for _, section in sections:
                    for chunk in chunks_of(section, name):
                        yield chunk

    # -- what has no place

    def _check(self) -> None:
        heads = {vertex.operators[0].uid: vertex.id for vertex in self._graph.vertices}
        for operator in self._metadata.operators:
            vertex = heads.get(operator.uid)
            gates = 0 if vertex is None else len(self._into(vertex))
            partitions = 0 if vertex is None else len(self._out_of(vertex))
            for state in operator.subtasks:
                for kind, places in ((StateKind.INPUT, gates), (StateKind.OUTPUT, partitions)):
                    part = state.parts.get(kind)
                    labels = () if part is None else part.labels
                    if any(isinstance(label, tuple) and label[0] >= places for label in labels):
                        raise StateError(
                            f"records were in flight on an exchange of operator {operator.uid} "
                            f"when {self._metadata.directory} was taken, which the job does not "
                            f"have: continue from a savepoint, which has none in flight"
                        )


class _RecordSplitter:
    """Puts the records of one channel together again."""

    def __init__(self, name: str, unpacker: RecordUnpacker) -> None:
        self._name = name
        self._unpacker = unpacker
        self._bounds = msgpack.Unpacker(max_buffer_size=0)
        """Finds where records end, and makes nothing of them."""
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
                f"{self._name} is no row of records: {type(cause).__name__}: {cause}"
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
        """There is no more. CheckpointCorruptedError inside a record."""
        if self._pending:
            raise CheckpointCorruptedError(f"{self._name} ends inside a record")


def _has(operator: OperatorState, kind: StateKind, number: int) -> bool:
    """Whether something was in flight on one gate, or partition, of a vertex."""
    return any(
        isinstance(label, tuple) and label[0] == number
        for state in operator.subtasks
        if kind in state.parts
        for label in state.parts[kind].labels
    )


def _consumers(edge: JobEdge, producer: int, source: OperatorState, target: OperatorState) -> range:
    return consumers_of(producer, source.parallelism, target.parallelism, pointwise=edge.pointwise)


def _is_keyed(partitioner: Partitioner) -> bool:
    return partitioner.cuts_records or isinstance(partitioner, HashPartitioner)


def _overlap(one: range, other: range) -> bool:
    return one.start < other.stop and other.start < one.stop


def _all_of(record: Any) -> Any:
    return record
