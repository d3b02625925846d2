"""What was in flight: collected per channel while a checkpoint goes on, for its state parts.

Theory of operation
-------------------
An unaligned checkpoint holds what its barrier overtook: data in the queues of a subtask's inputs
and outputs, and data that still comes on an input before that input's barrier. Whoever has such
buffers hands them over (``add_input``, ``add_output``); their bytes are copied at once and the
buffers go back, so that a checkpoint never keeps network memory. Both halves finish, each once, in
any order; then what was collected is handed to who started::

    COLLECTING       FINISH_INPUT -> INPUT_FINISHED, FINISH_OUTPUT -> OUTPUT_FINISHED
    COLLECTING       ABORT -> ABORTED
    INPUT_FINISHED   FINISH_OUTPUT -> COMPLETED, ABORT -> ABORTED
    OUTPUT_FINISHED  FINISH_INPUT -> COMPLETED, ABORT -> ABORTED

One checkpoint collects at a time. A later one that starts, an abort, more bytes than are allowed,
and buffers that cannot be read end the one before, and say so to who started it: never to who adds,
since the data plane has nothing to do with it. What is added for a checkpoint that has ended goes
back and is forgotten; what is added for one that has not started is a misuse.

Owned: the bytes collected, their number; which later checkpoints are aborted already. Nothing here
waits, or knows where state is written.
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
"""A gate and its channel, or a partition and its subpartition, as they are numbered in the
subtask."""

_LENGTH_BYTES = 4


class CollectionState(Enum):
    """Where the collection for one checkpoint stands."""

    COLLECTING = "both halves may grow"
    INPUT_FINISHED = "outputs may still grow"
    OUTPUT_FINISHED = "inputs may still grow"
    COMPLETED = "it was handed to who started it"
    ABORTED = "it was dropped"


class CollectionEvent(Enum):
    """What happens to it."""

    FINISH_INPUT = "each input has had its barrier"
    FINISH_OUTPUT = "each output has had its barrier"
    ABORT = "nobody wants it any more, or it cannot be had"


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
    """What was in flight in a subtask's channels, each buffer's bytes a chunk."""

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
    """Yield the chunks of one channel's section, in the order in which they were in flight.

    CheckpointCorruptedError, with ``name``, if it is no row of chunks.
    """
    start = 0
    while start < len(section):
        begin = start + _LENGTH_BYTES
        start = begin + int.from_bytes(section[begin - _LENGTH_BYTES : begin], "big")
        if not begin < start <= len(section):
            raise CheckpointCorruptedError(f"{name} holds no row of what was in flight")
        yield section[begin:start]


Ended: TypeAlias = Callable[[ChannelState | FlinknetError], None]
"""Told once how a collection ended: with what was collected, or why with nothing."""


class _Collection:
    """What is collected for one checkpoint."""

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
    """Collects what was in flight in one subtask, for one checkpoint after the other.

    Buffers that are handed over are given back in any case, also by a call that raises.
    """

    def __init__(self, subtask: str, config: CheckpointingConfig) -> None:
        """``subtask`` is its name, for errors."""
        self._subtask = subtask
        self._bytes_max = config.channel_state_bytes_max
        self._present: _Collection | None = None
        self._last_id = self._completed_id = -1
        """The largest id that was started; the last one that completed."""
        self._aborted: set[int] = set()
        """Later ones, which are not to be started: some of those, the latest."""
        self._aborted_max = config.aborted_checkpoints_max
        self._closed = False

    @property
    def size_bytes(self) -> int:
        """Bytes that it holds now."""
        return self._present.size_bytes if self._present is not None else 0

    def start(self, checkpoint_id: int, ended: Ended) -> None:
        """Begin to collect for a checkpoint; ``ended`` is told how that ends, maybe at once.

        A collection that is under way for an earlier one ends as subsumed; one for a checkpoint
        that was aborted already, or is earlier than the present one, does so itself.
        LocalProtocolError if this one is under way.
        """
        self._check_open()
        if self._collecting(checkpoint_id) is not None:
            raise LocalProtocolError(f"{self._named(checkpoint_id)} is under way already")
        if checkpoint_id <= self._last_id or checkpoint_id in self._aborted:
            ended(CheckpointError(f"{self._named(checkpoint_id)} was aborted or subsumed before"))
            return
        before = self._present
        self._last_id = checkpoint_id
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
        """Add data of an input channel, behind what was added of it before.

        ``data`` is buffers, whose references are taken over, and bytes: what a deserializer has of
        a record that is not complete. LocalProtocolError for an event, before the start and after
        ``finish_input``.
        """
        self._add(checkpoint_id, channel, data, is_input=True)

    def add_output(
        self, checkpoint_id: int, channel: ChannelLabel, data: Iterable[Buffer | bytes]
    ) -> None:
        """Add data of a subpartition; as ``add_input``."""
        self._add(checkpoint_id, channel, data, is_input=False)

    def finish_input(self, checkpoint_id: int) -> None:
        """Say that all inputs are complete. LocalProtocolError before the start, or twice."""
        self._finish(checkpoint_id, CollectionEvent.FINISH_INPUT, _INPUT_OPEN)

    def finish_output(self, checkpoint_id: int) -> None:
        """Say that all outputs are complete. LocalProtocolError before the start, or twice."""
        self._finish(checkpoint_id, CollectionEvent.FINISH_OUTPUT, _OUTPUT_OPEN)

    def abort(self, checkpoint_id: int, reason: str) -> None:
        """Drop what was collected for this checkpoint, if anything; it cannot be started later.

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
        """End what is under way; nothing can be started any more. Idempotent."""
        self._closed = True
        if self._present is not None:
            self._end(self._present, f"{self._subtask} has ended")

    def check_invariants(self) -> None:
        """Raise AssertionError if what is held is not what was counted."""
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
        """The bytes of a piece, which is given back."""
        if isinstance(piece, bytes):
            return piece
        try:
            if not piece.data_type.is_buffer:
                raise LocalProtocolError(
                    f"{self._subtask}: an event, {piece.data_type.name}, is no in-flight data"
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
        """The collection of a checkpoint in one of these states, None if it has ended."""
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
            raise ClosedResourceError(f"{self._subtask} has ended: it collects no channel state")

    def _named(self, checkpoint_id: int) -> str:
        return f"the channel state of {self._subtask} for checkpoint {checkpoint_id}"
