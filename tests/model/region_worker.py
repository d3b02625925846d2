"""A worker of a world with regions: what its subtasks do, and what it says of them.

Each region is a source and a sink with a channel between them, or a source alone. A subtask is no
more than how many records it has emitted or processed; a barrier in the channel is the number of
its checkpoint. The other end of a channel may be on another worker, and gone: what is emitted then
is lost. What a worker says over its control connection arrives in order; results are uploaded
beside that, and may arrive after whatever it says later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from flinknet.cluster.control.failure import FailureCause, Gravity
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
    """One source or sink, under one number."""

    key: SubtaskKey
    number: int
    position: int
    """Records emitted, or processed."""
    state: str = OPEN
    taken: int = -1
    """The last checkpoint that it has captured its state for."""
    channel: list[str | int] = field(default_factory=list)
    """What its source has emitted and it has not read: of a sink."""
    triggered: list[int] = field(default_factory=list)
    """What a sink is to begin itself, once it has read everything."""
    last: int = -1
    """The checkpoint with which a sink that awaits its last one ends, once it has captured it."""

    @property
    def is_source(self) -> bool:
        """Whether it reads from nobody; vertices alternate."""
        return self.key[0] % 2 == 0


class Emitted(NamedTuple):
    """What a source has emitted, on its way to its sink, which may be on another worker."""

    number: int
    sink: SubtaskKey
    item: str | int


@dataclass(frozen=True)
class Upload:
    """A result on its way, beside the control connection."""

    number: int
    key: SubtaskKey
    taken: int


class RegionWorker:
    """One worker, and its ends of the control connection."""

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
        """Sinks of the vertices in ``prompt`` read what is emitted at once: there are fewer worlds
        then. Channels may be ``real``, and their barriers ``unaligned``. A sink that ``awaits`` its
        last checkpoint ends when that is complete."""
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
        """Real ones, by their sinks."""
        self._unaligned = unaligned
        self._awaits = awaits
        self.subtasks: dict[tuple[int, SubtaskKey], Subtask] = {}

    # -- what its subtasks do

    def steps(self) -> list[tuple[str, int, SubtaskKey]]:
        """What they can do next."""
        return [
            ("goes on", number, key)
            for (number, key), subtask in self.subtasks.items()
            if subtask.state == RUNNING
            and (subtask.is_source or (self._has_input(subtask) and key[0] not in self._prompt))
        ]

    def failing(self) -> list[tuple[str, int, SubtaskKey]]:
        """Those that can fail."""
        return [
            ("fails", number, key)
            for (number, key), subtask in self.subtasks.items()
            if subtask.state in (RUNNING, AWAITING)
        ]

    def _has_input(self, sink: Subtask) -> bool:
        channel = self.channels.get((sink.number, sink.key))
        return bool(sink.channel) if channel is None else channel.has_input

    def go_on(self, number: int, key: SubtaskKey) -> None:
        """Emit the next record, or read what comes next in the channel."""
        subtask = self.subtasks[number, key]
        if subtask.is_source:
            self._emit(subtask)
            return
        try:
            self._read(subtask)
        except RemoteError:
            self.fail(number, key, Gravity.SYMPTOM)

    def fail(self, number: int, key: SubtaskKey, gravity: Gravity = Gravity.CAUSE) -> None:
        """A subtask fails, and says so; the one that reads it from a real channel does so, too,
        when it comes to that."""
        self.subtasks[number, key].state = GONE
        self._close(number, key)
        cause = FailureCause(gravity, self.worker_id, 100, "ValueError", "boom", "one")
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
        """Which subtasks run here, under any number."""
        return {one.key for one in self.subtasks.values() if one.state in (RUNNING, AWAITING)}

    def has(self, number: int, key: SubtaskKey) -> bool:
        """Whether a subtask is here."""
        return (number, key) in self.subtasks

    def arrive(self, emitted: Emitted) -> None:
        """A sink of this worker gets something into its channel."""
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

    # -- what it is told

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
        """Do what the coordinator wants, but to deploy."""
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

    # -- how it lets go

    def done(self) -> list[int]:
        """Numbers of which everything has finished, and its results have arrived."""
        numbers = {number for number, _ in self.subtasks}
        return sorted(
            number
            for number in numbers
            if all(one.state == FINISHED for one in self._of(number))
            and not any(upload.number == number for upload in self.uploads)
        )

    def release(self, number: int) -> None:
        """Say that nothing is left of it."""
        for subtask in self._of(number):
            self._drop(subtask)
        self.outbox.append(Released(self.job_id, number))
