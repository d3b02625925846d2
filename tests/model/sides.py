"""The two sides of a world: real objects, and every step that each can take.

Nothing here imitates flinknet. The producer's side holds a result partition and a connection, the
consumer's side a connection and an input gate; a *step* is one call into them. What is added is a
scripted writer per channel, and an operator that processes one buffer at a time, aligns barriers
and is the oracle: what was written on a channel must come out of it once and in order.

Between the sides there is nothing but chunks of bytes, so each side is a machine of its own: a
step depends on its state and on the chunk it receives. That is what the explorer builds on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

from flinknet.buffer.network_pool import NetworkBufferPool
from flinknet.buffer.segment import MemorySegment
from flinknet.connection.link import Link
from flinknet.connection.session import Session
from flinknet.errors import RemoteProtocolError
from flinknet.partition.registry import PartitionRegistry
from tests.model.shape import (
    SEGMENT_BYTES,
    BrokenInvariantError,
    Shape,
    Step,
    network_config,
)

SEND = Step("sends")
RECEIVE = Step("receives")
RESUME = Step("reads on")
FAIL = Step("fails")
POLL = Step("polls")
RELEASE = Step("releases")

HISTORY = {
    "buffers_in",
    "_bytes_in",
    "buffers_dropped",
    "messages_dropped",
    "buffers_out",
    "bytes_out",
    "credit_messages_out",
}
"""Counters of connection and outbox that nothing depends on: worlds that differ only there are the
same."""


class Account(NamedTuple):
    """What one side knows of the credit of each channel; None where nothing can be said."""

    credit: tuple[int | None, ...]
    described: str


def no_output() -> None:
    """The explorer looks at ``has_output`` itself."""


class Side(ABC):
    """One worker: it sends, receives, and does what its task wants."""

    name: str

    def __init__(self, shape: Shape, segments: int) -> None:
        self.shape = shape
        self.pool = NetworkBufferPool(segments, SEGMENT_BYTES)
        self.registry = PartitionRegistry(10.0)
        config = network_config(shape)
        self.session = Session("peer", self.registry, config)
        self.link = Link(self.session, config, no_output)

    @property
    def reads(self) -> bool:
        """Whether this side takes a chunk that waits for it; without credit it may have to wait,
        and one whose connection is lost never will."""
        return not self.link.stalled and self.session.failure is None

    def steps(self) -> list[Step]:
        """Return every step that is possible now, but to receive."""
        steps = self.own_steps()
        if self.link.has_output:
            steps.append(SEND)
        if self.link.can_resume:
            steps.append(RESUME)
        return steps

    def take(self, step: Step, chunk: bytes = b"") -> bytes:
        """Do one step, check every invariant, and return what is sent."""
        sent = b""
        if step == SEND:
            sent = b"".join(self.link.next_frames(1))
            self.link.frames_written()
        elif step == RECEIVE:
            sent = self.receive(chunk)
        elif step == RESUME:
            self.link.resume(0.0)
        else:
            self.act(step)
        self.pool.check_invariants()
        self.link.check_invariants()
        self.check()
        return sent

    def receive(self, chunk: bytes) -> bytes:
        """Let a chunk arrive. A peer that is lawless may break the rules: the connection is lost
        then, and its last message returned."""
        memory = self.link.get_buffer()
        memory[: len(chunk)] = chunk
        try:
            self.link.received(len(chunk), 0.0)
        except RemoteProtocolError as violation:
            if not self.shape.lawless:
                raise
            farewell = self.link.reject(violation)
            self.link.lost(violation)
            return farewell
        return b""

    def check_all_back(self) -> None:
        """After the end every segment must be free."""
        self.release()
        statistics = self.pool.statistics()
        if statistics.free != statistics.total or statistics.exclusive:
            raise BrokenInvariantError(f"the {self.name} lost buffers: {statistics}")

    def scrub(self) -> None:
        """Blank what nothing depends on, so that states that differ only there are the same."""
        link = self.link
        for owner in (link, self.session.outbox, self.session.channels):
            for counter in HISTORY:
                if hasattr(owner, counter):
                    setattr(owner, counter, 0)
        unread = self.link.get_buffer()
        unread[:] = bytes(len(unread))
        for segment in [*self.pool._free, *self.free_segments()]:
            segment.writer()(bytes(SEGMENT_BYTES))
            segment.writer()

    @abstractmethod
    def own_steps(self) -> list[Step]:
        """What the task of this side can do."""

    @abstractmethod
    def act(self, step: Step) -> None:
        """Do one of the own steps."""

    @abstractmethod
    def check(self) -> None:
        """Raise if an invariant of this side is broken."""

    @abstractmethod
    def account(self) -> Account:
        """What this side adds to the balance of credit, and how it looks to an engineer."""

    @abstractmethod
    def ended(self) -> dict[int, str]:
        """Channels that this side has ended, and how."""

    @abstractmethod
    def release(self) -> None:
        """The job is over."""

    @abstractmethod
    def free_segments(self) -> list[MemorySegment]:
        """Segments that hold no data, beside those of the network pool."""
