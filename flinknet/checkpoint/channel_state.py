"""Channel state: data in flight, collected per channel during a checkpoint, for its state parts.

Theory of operation
-------------------
An unaligned checkpoint includes the data that its barrier overtook in the queues of a subtask's
inputs and outputs, and the data that arrives on an input before that input's barrier. The owner of
such buffers passes them to ``add_input`` or ``add_output``. The bytes are copied at once and the
buffers are recycled, so that a checkpoint never holds network memory. Input and output finish once
each, in any order; then the starter of the collection gets the result::

    COLLECTING       FINISH_INPUT -> INPUT_FINISHED, FINISH_OUTPUT -> OUTPUT_FINISHED
    COLLECTING       ABORT -> ABORTED
    INPUT_FINISHED   FINISH_OUTPUT -> COMPLETED, ABORT -> ABORTED
    OUTPUT_FINISHED  FINISH_INPUT -> COMPLETED, ABORT -> ABORTED

One checkpoint collects at a time. The start of a later one, an abort, too many bytes, and
unreadable buffers end a collection. Only its starter gets the error, never the code that adds data,
because the data plane must not fail for it. Data added for an ended checkpoint is recycled and
dropped; adding for a checkpoint that has not started is a misuse. This module neither waits nor
knows where state is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from typing import NamedTuple, TypeAlias

from flinknet.buffer.buffer import Buffer
from flinknet.config import CheckpointingConfig
from flinknet.errors import (
    CheckpointCorruptedError,
    CheckpointError,
    ClosedResourceError,
    FlinknetError,
    LocalProtocolError,
)
from flinknet.texts import text_of
from flinknet.transitions import Transitions

__all__ = [
    "TRANSITIONS",
    "ChannelLabel",
    "ChannelState",
    "ChannelStateWriter",
    "CollectionEvent",
    "CollectionState",
    "chunks_of",
]

ChannelLabel: TypeAlias = tuple[int, int]
"""A gate and its channel, or a partition and its subpartition, as numbered in the subtask."""

_LENGTH_BYTES = 4


class CollectionState(Enum):
    """The state of the collection for one checkpoint."""

    COLLECTING = "both halves may grow"
    INPUT_FINISHED = "outputs may still grow"
    OUTPUT_FINISHED = "inputs may still grow"
    COMPLETED = "it was passed to its caller"
    ABORTED = "it was dropped"


class CollectionEvent(Enum):
    """An event in the life of a collection."""

    FINISH_INPUT = "every input has delivered its barrier"
    FINISH_OUTPUT = "every output has its barrier"
    ABORT = "it is no longer needed, or cannot be completed"


_S, _E = CollectionState, CollectionEvent

TRANSITIONS: Transitions[CollectionState, CollectionEvent] = Transitions(
    {
        (_S.COLLECTING, _E.FINISH_INPUT): _S.INPUT_FINISHED,
        (_S.COLLECTING, _E.FINISH_OUTPUT): _S.OUTPUT_FINISHED,
        (_S.INPUT_FINISHED, _E.FINISH_OUTPUT): _S.COMPLETED,
        (_S.OUTPUT_FINISHED, _E.FINISH_INPUT): _S.COMPLETED,
        (_S.COLLECTING, _E.ABORT): _S.ABORTED,
        (_S.INPUT_FINISHED, _E.ABORT): _S.ABORTED,
        (_S.OUTPUT_FINISHED, _E.ABORT): _S.ABORTED,
    }
)

_INPUT_OPEN = frozenset((_S.COLLECTING, _S.OUTPUT_FINISHED))
_OUTPUT_OPEN = frozenset((_S.COLLECTING, _S.INPUT_FINISHED))


class ChannelState(NamedTuple):
    """The data in flight in a subtask's channels; the bytes of each buffer are a chunk."""

    input: Mapping[ChannelLabel, list[bytes]]
    output: Mapping[ChannelLabel, list[bytes]]

    def input_blocks(self) -> Iterator[tuple[ChannelLabel, bytes]]:
        """Yield the labelled blocks of the part of kind ``input``, for ``write_part``."""
        return _blocks(self.input)

    def output_blocks(self) -> Iterator[tuple[ChannelLabel, bytes]]:
        """Yield the labelled blocks of the part of kind ``output``, for ``write_part``."""
        return _blocks(self.output)


def _blocks(channels: Mapping[ChannelLabel, list[bytes]]) -> Iterator[tuple[ChannelLabel, bytes]]:
    for label in sorted(channels):
        for chunk in channels[label]:
            yield label, len(chunk).to_bytes(_LENGTH_BYTES, "big") + chunk


def chunks_of(section: bytes, name: str) -> Iterator[bytes]:
    """Yield the chunks of one channel's section, in their order in flight.

    Raises CheckpointCorruptedError, with ``name``, if the section is no sequence of chunks.
    """
    start = 0
    while start < len(section):
        begin = start + _LENGTH_BYTES
        start = begin + int.from_bytes(section[begin - _LENGTH_BYTES : begin], "big")
        if not begin < start <= len(section):
            raise CheckpointCorruptedError(f"{name} does not contain a list of in-flight data")
        yield section[begin:start]


Ended: TypeAlias = Callable[[ChannelState | FlinknetError], None]
"""Called once at the end of a collection, with the collected data or with an error."""


class _Collection:
    """The collection for one checkpoint."""

    def __init__(self, checkpoint_id: int, ended: Ended) -> None:
        self.checkpoint_id = checkpoint_id
        self.state = CollectionState.COLLECTING
        self.input: dict[ChannelLabel, list[bytes]] = {}
        self.output: dict[ChannelLabel, list[bytes]] = {}
        self.size_bytes = 0
        self._ended = ended

    def advance(self, event: CollectionEvent, error: FlinknetError | None = None) -> None:
        self.state = TRANSITIONS[self.state, event]
        if self.state is CollectionState.COMPLETED:
            self._ended(ChannelState(self.input, self.output))
        elif error is not None:
            self.input, self.output, self.size_bytes = {}, {}, 0
            self._ended(error)


class ChannelStateWriter:
    """Collects the data in flight of one subtask, for one checkpoint after the other.

    Buffers that are passed in are recycled in every case, even by a call that raises.
    """

    def __init__(self, subtask: str, config: CheckpointingConfig) -> None:
        """``subtask`` is the subtask's name, for errors."""
        self._subtask = subtask
        self._bytes_max = config.channel_state_bytes_max
        self._present: _Collection | None = None
        self._last_id = self._completed_id = -1
        """The largest id that was started, and the last id that completed."""
        self._aborted: set[int] = set()
        """Later ids that must not be started because they were aborted, up to a limit."""
        self._aborted_max = config.aborted_checkpoints_max
        self._closed = False

    @property
    def size_bytes(self) -> int:
        """Bytes that are held now."""
        return self._present.size_bytes if self._present is not None else 0

    def start(self, checkpoint_id: int, ended: Ended) -> None:
        """Begin to collect for a checkpoint; ``ended`` gets the outcome, possibly at once.

        A collection in progress for an earlier checkpoint ends as subsumed. A collection for an
        aborted checkpoint, or for one earlier than the last, ends at once. Raises
        LocalProtocolError if this checkpoint is already being collected.
        """
        self._check_open()
        if self._collecting(checkpoint_id) is not None:
            raise LocalProtocolError(f"{self._named(checkpoint_id)} has already been started")
        if checkpoint_id <= self._last_id or checkpoint_id in self._aborted:
            ended(CheckpointError(f"{self._named(checkpoint_id)} was aborted or subsumed before"))
            return
        before = self._present
        self._last_id = checkpoint_id
        # Smaller ids cannot be started any more, so they need not be remembered.
        self._aborted = {aborted for aborted in self._aborted if aborted > checkpoint_id}
        self._present = _Collection(checkpoint_id, ended)
        if before is not None:
            self._end(
                before,
                f"{self._named(before.checkpoint_id)} is subsumed by that of checkpoint "
                f"{checkpoint_id}",
            )

    def add_input(
        self, checkpoint_id: int, channel: ChannelLabel, data: Iterable[Buffer | bytes]
    ) -> None:
        """Add data of an input channel, after the data added before.

        ``data`` holds buffers, with their references, and bytes of partial records from a
        deserializer. Raises LocalProtocolError for an event, before the start, and after
        ``finish_input``.
        """
        self._add(checkpoint_id, channel, data, is_input=True)

    def add_output(
        self, checkpoint_id: int, channel: ChannelLabel, data: Iterable[Buffer | bytes]
    ) -> None:
        """Add data of a subpartition, like ``add_input``."""
        self._add(checkpoint_id, channel, data, is_input=False)

    def finish_input(self, checkpoint_id: int) -> None:
        """Note that all inputs are complete. Raises LocalProtocolError before start, or twice."""
        self._finish(checkpoint_id, CollectionEvent.FINISH_INPUT, _INPUT_OPEN)

    def finish_output(self, checkpoint_id: int) -> None:
        """Note that all outputs are complete. Raises LocalProtocolError before start, or twice."""
        self._finish(checkpoint_id, CollectionEvent.FINISH_OUTPUT, _OUTPUT_OPEN)

    def abort(self, checkpoint_id: int, reason: str) -> None:
        """Drop the data collected for a checkpoint; it cannot be started any more.

        May be called any number of times, at any time, for any checkpoint.
        """
        if self._closed:
            return
        collection = self._collecting(checkpoint_id)
        if collection is not None:
            self._end(collection, f"{self._named(checkpoint_id)} is aborted: {reason}")
        elif checkpoint_id > self._last_id:
            self._aborted.add(checkpoint_id)
            if len(self._aborted) > self._aborted_max:
                self._aborted.remove(min(self._aborted))

    def close(self) -> None:
        """End the collection in progress; none can be started any more. Idempotent."""
        self._closed = True
        if self._present is not None:
            self._end(self._present, f"{self._subtask} has ended")

    def check_invariants(self) -> None:
        """Raise AssertionError if the held data and the counts are inconsistent."""
        assert len(self._aborted) <= self._aborted_max
        assert all(aborted > self._last_id for aborted in self._aborted)
        present = self._present
        if present is not None:
            channels = (*present.input.values(), *present.output.values())
            assert present.size_bytes == sum(len(chunk) for held in channels for chunk in held)
            assert present.size_bytes <= self._bytes_max
            assert (present.checkpoint_id, self._closed) == (self._last_id, False)

    def _add(
        self,
        checkpoint_id: int,
        channel: ChannelLabel,
        data: Iterable[Buffer | bytes],
        *,
        is_input: bool,
    ) -> None:
        # One iterator for both loops, so that the second one recycles the rest after an error.
        pieces = iter(data)
        try:
            collection = self._wanted(checkpoint_id, _INPUT_OPEN if is_input else _OUTPUT_OPEN)
            if collection is not None:
                channels = collection.input if is_input else collection.output
                self._copy(collection, channels.setdefault(channel, []), pieces)
        finally:
            for piece in pieces:
                if isinstance(piece, Buffer):
                    piece.recycle()

    def _copy(
        self, collection: _Collection, chunks: list[bytes], pieces: Iterator[Buffer | bytes]
    ) -> None:
        while True:
            try:
                piece = next(pieces, None)
            except FlinknetError as error:
                self._end(collection, f"in-flight data cannot be read: {text_of(error)}")
                return
            if piece is None:
                return
            chunk = self._taken(piece)
            collection.size_bytes += len(chunk)
            if collection.size_bytes > self._bytes_max:
                self._end(
                    collection,
                    f"{self._named(collection.checkpoint_id)} takes more than {self._bytes_max} "
                    "bytes: raise checkpointing.channel_state_bytes_max, or lower network memory",
                )
                return
            if chunk:
                chunks.append(chunk)

    def _taken(self, piece: Buffer | bytes) -> bytes:
        """Return the bytes of a piece, and recycle it."""
        if isinstance(piece, bytes):
            return piece
        try:
            if not piece.data_type.is_buffer:
                raise LocalProtocolError(
                    f"{self._subtask}: an event, {piece.data_type.name}, cannot be in-flight data"
                )
            return bytes(piece.view())
        finally:
            piece.recycle()

    def _finish(
        self, checkpoint_id: int, event: CollectionEvent, legal: frozenset[CollectionState]
    ) -> None:
        collection = self._wanted(checkpoint_id, legal)
        if collection is not None:
            if TRANSITIONS[collection.state, event] is CollectionState.COMPLETED:
                self._present = None
                self._completed_id = checkpoint_id
            collection.advance(event)

    def _wanted(self, checkpoint_id: int, legal: frozenset[CollectionState]) -> _Collection | None:
        """Return the collection of a checkpoint if it is in a legal state, None if it has ended."""
        self._check_open()
        collection = self._collecting(checkpoint_id)
        if collection is None:
            if checkpoint_id > self._last_id and checkpoint_id not in self._aborted:
                raise LocalProtocolError(f"{self._named(checkpoint_id)} was not started")
            if checkpoint_id == self._completed_id:
                raise LocalProtocolError(f"{self._named(checkpoint_id)} is complete")
            return None
        if collection.state not in legal:
            raise LocalProtocolError(
                f"{self._named(checkpoint_id)} is finished: {collection.state.value}"
            )
        return collection

    def _collecting(self, checkpoint_id: int) -> _Collection | None:
        present = self._present
        return present if present is not None and present.checkpoint_id == checkpoint_id else None

    def _end(self, collection: _Collection, why: str) -> None:
        if collection is self._present:
            self._present = None
        collection.advance(CollectionEvent.ABORT, CheckpointError(why))

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedResourceError(f"{self._subtask} has ended: it cannot collect channel state")

    def _named(self, checkpoint_id: int) -> str:
        return f"the channel state of {self._subtask} for checkpoint {checkpoint_id}"
