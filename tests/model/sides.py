"""The two sides of a world: real objects, and every step that each can take.

Nothing here imitates flinknet. The producer's side holds a result partition and a connection, the
consumer's side a connection and an input gate. A *step* is one call into them. The model adds a
scripted writer per channel, and an operator that processes one buffer at a time and aligns
barriers. The operator is the oracle: a channel must deliver its script once and in order.

The sides share nothing but chunks of bytes. A step depends on the side's state and on the chunk
that it receives, which the explorer relies on.
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
"""Counters of the connection and outbox that affect nothing.

Worlds that differ only in these counters are equal.
"""


class Account(NamedTuple):
    """A side's view of each channel's credit, None if unknown, and a description."""

    credit: tuple[int | None, ...]
    described: str


def no_output() -> None:
    """Ignore the call: the explorer looks at ``has_output`` itself."""


class Side(ABC):
    """One worker: it sends, receives, and takes the steps of its task."""

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
        """Whether this side receives a waiting chunk.

        Without credit a connection may be stalled; a lost connection never receives.
        """
        return not self.link.stalled and self.session.failure is None

    def steps(self) -> list[Step]:
        """Return every step that is possible now, without receiving."""
        steps = self.own_steps()
        if self.link.has_output:
            steps.append(SEND)
        if self.link.can_resume:
            steps.append(RESUME)
        return steps

    def take(self, step: Step, chunk: bytes = b"") -> bytes:
        """Do one step, check every invariant, and return the bytes sent."""
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
        """Receive a chunk.

        A lawless peer may break the rules. Then the connection is lost, and its last message
        returned.
        """
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
        """Release this side, and check that every segment is free."""
        self.release()
        statistics = self.pool.statistics()
        if statistics.free != statistics.total or statistics.exclusive:
            raise BrokenInvariantError(f"the {self.name} lost buffers: {statistics}")

    def scrub(self) -> None:
        """Blank values that affect nothing, so that states that differ only in them are equal."""
        link = self.link
        for owner in (link, self.session.outbox, self.session.channels):
            for counter in HISTORY:
                if hasattr(owner, counter):
                    setattr(owner, counter, 0)
        unread = self.link.get_buffer()
        unread[:] = bytes(len(unread))
        for segment in [*self.pool._free, *self.free_segments()]:
            segment.writer()(bytes(SEGMENT_BYTES))
            # rewind the stream: its position is part of the state
            segment.writer()

    @abstractmethod
    def own_steps(self) -> list[Step]:
        """Return the steps of this side's task."""

    @abstractmethod
    def act(self, step: Step) -> None:
        """Do one of these steps."""

    @abstractmethod
    def check(self) -> None:
        """Raise if an invariant of this side is broken."""

    @abstractmethod
    def account(self) -> Account:
        """Return this side's part of the balance of credit, and a description for reports."""

    @abstractmethod
    def ended(self) -> dict[int, str]:
        """Return the channels that this side has ended, and how."""

    @abstractmethod
    def release(self) -> None:
        """Release everything at the end of the job."""

    @abstractmethod
    def free_segments(self) -> list[MemorySegment]:
        """Return the segments that hold no data, without those of the network pool."""
