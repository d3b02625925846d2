"""A worker of a world with regions: its subtasks, and its messages about them.

Each region is a source and a sink with a channel between them, or a source alone. The state of a
subtask is the number of records that it has emitted or processed. A barrier in the channel is the
number of its checkpoint. The other end of a channel may be on another worker and gone: then emitted
records are lost. A worker's messages on its control connection arrive in order. Results are
uploaded beside that connection, and may arrive after later messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from flinknet.cluster.control.failure import CauseRank, FailureCause
from flinknet.cluster.control.messages import (
    AcknowledgeCheckpoint,
    AwaitCheckpoint,
    Cancel,
    CompleteCheckpoint,
    Failed,
    Message,
    Opened,
    Released,
    Run,
    TriggerCheckpoint,
)
from flinknet.errors import RemoteError
from tests.model.region_channel import NetworkMemory, RegionChannel
from tests.model.shape import BrokenInvariantError

SubtaskKey: TypeAlias = tuple[int, int]
"""(vertex, index)"""

RECORD, END = "record", "end"

OPEN, RUNNING, AWAITING, FINISHED, GONE = "open", "running", "awaiting", "finished", "gone"


@dataclass
class Subtask:
    """One source or sink of one attempt."""

    key: SubtaskKey
    number: int
    position: int
    """Records emitted or processed."""
    state: str = OPEN
    taken: int = -1
    """The last checkpoint for which it captured its state."""
    channel: list[str | int] = field(default_factory=list)
    """Of a sink: items that its source has emitted and it has not read."""
    triggered: list[int] = field(default_factory=list)
    """Of a sink: checkpoints to capture without a barrier, once it has read everything."""
    last: int = -1
    """The checkpoint with which a sink in state AWAITING ends."""

    @property
    def is_source(self) -> bool:
        """Whether it reads no channel; sources and sinks alternate in the numbers of vertices."""
        return self.key[0] % 2 == 0


class Emitted(NamedTuple):
    """An item from a source to its sink, which may be on another worker."""

    number: int
    sink: SubtaskKey
    item: str | int


@dataclass(frozen=True)
class Upload:
    """A result in transit, beside the control connection."""

    number: int
    key: SubtaskKey
    taken: int


class RegionWorker:
    """A worker, and its end of the control connection."""

    def __init__(
        self,
        worker_id: str,
        job_id: str,
        records: int,
        prompt: frozenset[int] = frozenset(),
        *,
        real: bool = False,
        unaligned: bool = False,
        awaits: bool = False,
    ) -> None:
        """Create a worker without subtasks.

        Sinks of the vertices in ``prompt`` read an item when it is emitted, which reduces the
        number of worlds. Channels may be ``real``, and their barriers ``unaligned``. With
        ``awaits``, a sink waits at its end for a last checkpoint to complete.
        """
        self.worker_id = worker_id
        self._prompt = prompt
        self.job_id = job_id
        self.records = records
        self.inbox: list[Message] = []
        self.outbox: list[Message] = []
        self.uploads: list[Upload] = []
        self.emitted: list[Emitted] = []
        self.memory = NetworkMemory() if real else None
        self.channels: dict[tuple[int, SubtaskKey], RegionChannel] = {}
        """Real channels, by attempt and sink."""
        self._unaligned = unaligned
        self._awaits = awaits
        self.subtasks: dict[tuple[int, SubtaskKey], Subtask] = {}

    # -- steps of its subtasks

    def steps(self) -> list[tuple[str, int, SubtaskKey]]:
        """Return the subtasks that can take a step."""
        return [
            ("goes on", number, key)
            for (number, key), subtask in self.subtasks.items()
            if subtask.state == RUNNING
            and (subtask.is_source or (self._has_input(subtask) and key[0] not in self._prompt))
        ]

    def failing(self) -> list[tuple[str, int, SubtaskKey]]:
        """Return the subtasks that can fail."""
        return [
            ("fails", number, key)
            for (number, key), subtask in self.subtasks.items()
            if subtask.state in (RUNNING, AWAITING)
        ]

    def _has_input(self, sink: Subtask) -> bool:
        channel = self.channels.get((sink.number, sink.key))
        return bool(sink.channel) if channel is None else channel.has_input

    def go_on(self, number: int, key: SubtaskKey) -> None:
        """Emit the next record of a source, or let a sink read its channel."""
        subtask = self.subtasks[number, key]
        if subtask.is_source:
            self._emit(subtask)
            return
        try:
            self._read(subtask)
        except RemoteError:
            self.fail(number, key, CauseRank.SYMPTOM)

    def fail(self, number: int, key: SubtaskKey, rank: CauseRank = CauseRank.CAUSE) -> None:
        """Let a subtask fail, and report it.

        A sink that reads a failed source through a real channel fails itself when it reads that
        far.
        """
        self.subtasks[number, key].state = GONE
        self._close(number, key)
        cause = FailureCause(rank, self.worker_id, 100, "ValueError", "boom", "one")
        self.outbox.append(Failed(self.job_id, number, *key, cause.to_dict()))

    def _emit(self, source: Subtask) -> None:
        if source.position < self.records:
            source.position += 1
            self._send(source, RECORD)
        else:
            self._finish(source)
            self._send(source, END)

    def _send(self, source: Subtask, item: str | int) -> None:
        vertex, index = source.key
        self.emitted.append(Emitted(source.number, (vertex + 1, index), item))

    @property
    def running(self) -> set[SubtaskKey]:
        """The subtasks that run here, in any attempt."""
        return {one.key for one in self.subtasks.values() if one.state in (RUNNING, AWAITING)}

    def has(self, number: int, key: SubtaskKey) -> bool:
        """Return whether a subtask is here."""
        return (number, key) in self.subtasks

    def arrive(self, emitted: Emitted) -> None:
        """Append an item to the channel of a sink of this worker."""
        sink = self.subtasks[emitted.number, emitted.sink]
        channel = self.channels.get((sink.number, sink.key))
        if channel is None:
            sink.channel.append(emitted.item)
        elif emitted.item == RECORD:
            channel.write_record()
        elif emitted.item == END:
            channel.write_end()
        else:
            channel.write_barrier(int(emitted.item))
        self._read_promptly(sink)

    def _read_promptly(self, sink: Subtask) -> None:
        while sink.key[0] in self._prompt and sink.state == RUNNING and self._has_input(sink):
            self._read(sink)

    def _read(self, sink: Subtask) -> None:
        channel = self.channels.get((sink.number, sink.key))
        for item in [sink.channel.pop(0)] if channel is None else channel.read():
            self._take(sink, item)

    def _take(self, sink: Subtask, item: str | int) -> None:
        match item:
            case "record":
                sink.position += 1
                if sink.position > self.records:
                    raise BrokenInvariantError(f"{sink.key} has processed a record twice")
            case "end":
                if sink.position != self.records:
                    raise BrokenInvariantError(f"{sink.key} has lost a record")
                for checkpoint_id in sink.triggered:
                    self._capture(sink, checkpoint_id)
                if self._awaits:
                    self._await(sink)
                else:
                    self._finish(sink)
            case int(checkpoint_id):
                self._capture(sink, checkpoint_id)

    def _capture(self, subtask: Subtask, checkpoint_id: int) -> None:
        if checkpoint_id <= subtask.taken:
            return
        subtask.taken = checkpoint_id
        channel = self.channels.get((subtask.number, subtask.key))
        position = subtask.position
        if channel is not None and channel.has_taken(checkpoint_id):
            position = channel.stored(checkpoint_id)
        handle = str(position).encode()
        self.outbox.append(
            AcknowledgeCheckpoint(
                self.job_id, subtask.number, checkpoint_id, *subtask.key, handle, []
            )
        )

    def _await(self, sink: Subtask) -> None:
        sink.state = AWAITING
        self.outbox.append(AwaitCheckpoint(self.job_id, sink.number, *sink.key, sink.taken))

    def _finish(self, subtask: Subtask) -> None:
        subtask.state = FINISHED
        self.uploads.append(Upload(subtask.number, subtask.key, subtask.taken))

    # -- messages of the coordinator

    def deploy(self, number: int, positions: Mapping[SubtaskKey, int]) -> None:
        """Open subtasks that continue from these positions."""
        for key, position in positions.items():
            others = [one.number for one in self.subtasks.values() if one.key == key]
            if others:
                raise BrokenInvariantError(f"{key} is here under {others} and under {number}")
            self.subtasks[number, key] = subtask = Subtask(key, number, position)
            if self.memory is not None and not subtask.is_source:
                name = f"{number} to {key}"
                self.channels[number, key] = RegionChannel(
                    name, self.memory, position, unaligned=self._unaligned
                )
        self.outbox.append(Opened(self.job_id, number))

    def receive(self, message: Message) -> None:
        """Handle any message of the coordinator but ``Deploy``."""
        match message:
            case Run(attempt=number):
                for subtask in self._of(number):
                    if subtask.state == OPEN:
                        subtask.state = RUNNING
                    self._read_promptly(subtask)
            case Cancel(attempt=number, subtasks=rows):
                self._cancel(number, rows)
            case TriggerCheckpoint(attempt=number, checkpoint_id=checkpoint_id, subtasks=rows):
                for vertex, index in rows:
                    if (number, (vertex, index)) in self.subtasks:
                        self._trigger(self.subtasks[number, (vertex, index)], checkpoint_id)
            case CompleteCheckpoint(attempt=number, checkpoint_id=checkpoint_id):
                for subtask in self._of(number):
                    if subtask.state == AWAITING and 0 <= subtask.last <= checkpoint_id:
                        self._finish(subtask)
            case _:
                raise BrokenInvariantError(f"{self.worker_id} was sent {message}")

    def _of(self, number: int) -> list[Subtask]:
        return [one for one in self.subtasks.values() if one.number == number]

    def _cancel(self, number: int, rows: Iterable[Iterable[int]]) -> None:
        named = [tuple(row) for row in rows]
        for subtask in self._of(number):
            if not named or subtask.key in named:
                self._drop(subtask)
        self.outbox.append(Released(self.job_id, number, [list(row) for row in named]))

    def _drop(self, subtask: Subtask) -> None:
        self._close(subtask.number, subtask.key)
        del self.subtasks[subtask.number, subtask.key]
        self.channels = {
            (number, key): channel
            for (number, key), channel in self.channels.items()
            if (number, key) in self.subtasks or (number, (key[0] - 1, key[1])) in self.subtasks
        }

    def _close(self, number: int, key: SubtaskKey) -> None:
        vertex, index = key
        if (number, key) in self.channels:
            self.channels[number, key].close_sink()
        if (number, (vertex + 1, index)) in self.channels:
            self.channels[number, (vertex + 1, index)].close_source()

    def _trigger(self, subtask: Subtask, checkpoint_id: int) -> None:
        if subtask.state == AWAITING:
            self._capture(subtask, checkpoint_id)
            subtask.last = checkpoint_id if subtask.last < 0 else subtask.last
            return
        if subtask.state != RUNNING:
            return
        if not subtask.is_source:
            subtask.triggered.append(checkpoint_id)
            return
        self._capture(subtask, checkpoint_id)
        self._send(subtask, checkpoint_id)

    # -- the end of an attempt

    def done(self) -> list[int]:
        """Return the attempts in which all subtasks have finished and all results have arrived."""
        numbers = {number for number, _ in self.subtasks}
        return sorted(
            number
            for number in numbers
            if all(one.state == FINISHED for one in self._of(number))
            and not any(upload.number == number for upload in self.uploads)
        )

    def release(self, number: int) -> None:
        """Report that nothing is left of an attempt."""
        for subtask in self._of(number):
            self._drop(subtask)
        self.outbox.append(Released(self.job_id, number))
