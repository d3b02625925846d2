"""The consumer's side of a world: an input gate, and an operator that is also the oracle."""

from __future__ import annotations

import msgpack

from flinknet.buffer.buffer import Buffer, DataType
from flinknet.buffer.segment import MemorySegment
from flinknet.consumer.buffer_manager import BufferManager
from flinknet.consumer.channel_buffers import ChannelBuffers
from flinknet.consumer.input_channel import PartitionLocation
from flinknet.consumer.input_gate import InputGate
from flinknet.consumer.shared_buffers import SharedBuffers
from flinknet.errors import ProducerFailedError, RemoteProtocolError
from flinknet.wire.messages import MessageType
from tests.model.shape import (
    BODIES,
    DATA,
    END,
    END_OF_DATA,
    EVENT,
    FLUSH,
    KINDS,
    BrokenInvariantError,
    Shape,
    Step,
    network_config,
)
from tests.model.sides import POLL, RELEASE, Account, Side


def free_in(manager: ChannelBuffers) -> list[MemorySegment]:
    """Return the segments that a channel holds without data in them."""
    if isinstance(manager, SharedBuffers):
        return [manager._kept] if manager._kept is not None else []
    assert isinstance(manager, BufferManager)
    return [*manager._exclusive, *manager._floating]


def kinds_of_buffers(chunk: bytes) -> list[tuple[int, str]]:
    """Return channel and kind of each buffer in a chunk, decoded with a stock unpacker."""
    unpacker = msgpack.Unpacker()
    unpacker.feed(chunk)
    return [
        (message[1], KINDS.get(message[4], EVENT))
        for message in unpacker
        if isinstance(message, list) and message[0] == MessageType.BUFFER_RESPONSE
    ]


class ConsumerSide(Side):
    """An input gate and the operator that reads it."""

    name = "consumer"

    def __init__(self, shape: Shape) -> None:
        segments = shape.channels * shape.exclusive + shape.floating
        segments += network_config(shape).large_record_extra_buffers
        super().__init__(shape, segments if shape.credit else max(segments, shape.channels))
        locations = [PartitionLocation("producer:1", "p", index) for index in range(shape.channels)]
        self.gate = InputGate("g", locations, "consumer:1", self.pool, network_config(shape))
        self.gate.reader_is_slow = True
        self.processed = [0] * shape.channels
        self.aligned: list[int] = []
        self.arrived = [""] * shape.channels
        self.acknowledged: list[int] = []
        self.finished: dict[int, str] = {}
        self.operator: tuple[int, Buffer] | None = None
        self.gate.setup(self.request_partitions)

    def request_partitions(self) -> None:
        """Request the subpartition of every channel."""
        for channel in self.gate.remote_channels:
            channel.request(self.session)

    def own_steps(self) -> list[Step]:
        """Return the steps that poll a buffer, recycle it, or cancel a channel."""
        steps = []
        if self.operator is not None:
            steps.append(RELEASE)
        elif self.gate.availability.available and not (self.gate.finished or self.gate.released):
            steps.append(POLL)
        cancel = self.shape.cancel
        if cancel is not None and cancel not in self.finished:
            steps.append(Step("cancel", cancel))
        return steps

    def act(self, step: Step) -> None:
        """Take one of these steps."""
        if step == POLL:
            self.poll()
        elif step == RELEASE:
            assert self.operator is not None
            (_, buffer), self.operator = self.operator, None
            buffer.recycle()
        else:
            self.finished[step.channel] = "cancelled"
            if step.channel in self.aligned:
                self.aligned.remove(step.channel)
            self.gate.channels[step.channel].release()
            self.resume_if_aligned()

    def receive(self, chunk: bytes) -> bytes:
        """Receive a chunk; the connection must fail if and only if the chunk breaks a rule."""
        unlawful = [str(kind) for kind in map(self.breach, kinds_of_buffers(chunk)) if kind]
        sent = super().receive(chunk)
        refused = self.session.failure is not None
        if refused != bool(unlawful):
            what = f"took {unlawful[0]}" if unlawful else f"refused {self.session.failure}"
            raise BrokenInvariantError(f"the consumer {what}")
        return sent

    def breach(self, arriving: tuple[int, str]) -> str:
        """Return the rule of SPEC that an arriving buffer breaks, or an empty text.

        The rules are written here a second time, independently of the code under test.
        """
        index, kind = arriving
        before = self.arrived[index]
        self.arrived[index] = kind if kind in (END_OF_DATA, END) else before
        if self.finished.get(index) == "cancelled" or (before != END and kind == EVENT):
            return ""
        if before == END:
            return "something behind the end of the partition"
        if kind == END and before != END_OF_DATA:
            return "the end of a partition without the end of its data"
        if kind == END and index not in self.acknowledged:
            return "the end of a partition before the acknowledgement"
        if kind != END and before == END_OF_DATA:
            return "data behind its end" if kind == DATA else "a second end of the data"
        return ""

    def poll(self) -> None:
        """Poll one buffer: handle an event at once, and keep data for the operator."""
        try:
            polled = self.gate.poll()
        except (ProducerFailedError, RemoteProtocolError):
            if not (self.shape.fails or self.shape.lawless):
                raise
            self.finished = dict.fromkeys(range(self.shape.channels), "failed")
            self.gate.release()
            return
        if polled is None:
            return
        index, buffer = polled
        self.judge(index, bytes(buffer.view()), buffer.data_type)
        if buffer.data_type.is_buffer:
            self.operator = polled
            return
        buffer.recycle()
        if buffer.data_type is DataType.ALIGNED_CHECKPOINT_BARRIER:
            self.aligned.append(index)
        elif buffer.data_type is DataType.END_OF_DATA:
            self.acknowledged.append(index)
            self.gate.acknowledge(index)
        elif buffer.data_type is DataType.END_OF_PARTITION:
            self.finished[index] = "read"
        self.resume_if_aligned()

    def resume_if_aligned(self) -> None:
        """Resume all channels, in the order of arrival, if every live one has had its barrier."""
        live = self.shape.channels - len(self.finished)
        if self.aligned and len(self.aligned) == live:
            aligned, self.aligned = self.aligned, []
            for index in aligned:
                self.gate.channels[index].resume_consumption()

    def judge(self, index: int, payload: bytes, data_type: DataType) -> None:
        """Check that a buffer of a channel is the next operation of its script."""
        script = self.shape.scripts[index]
        if index in self.aligned:
            raise BrokenInvariantError(
                f"channel {index} delivered {data_type.name} behind its own barrier"
            )
        expected = [
            number
            for number, operation in enumerate(script)
            if number >= self.processed[index] and operation != FLUSH
        ][: max(1, len(payload))]
        operation = script[expected[0]] if expected else ""
        if operation in BODIES:
            del expected[1:]
        if not expected or payload != BODIES.get(operation, bytes(expected)):
            raise BrokenInvariantError(
                f"channel {index} delivered {payload!r}, expected numbers {expected}"
            )
        self.processed[index] = expected[-1] + 1

    def check(self) -> None:
        """Check the invariants of the gate."""
        self.gate.check_invariants()

    def account(self) -> Account:
        """Return the free buffers that have been announced, by channel."""
        channels = [channel.statistics() for channel in self.gate.channels]
        announced = (
            None
            if channel.released or self.session.failure is not None
            else channel.exclusive_free + channel.floating_free - channel.unannounced_credit
            for channel in channels
        )
        operator = f"processed {self.processed}, aligned {self.aligned}"
        return Account(tuple(announced), "\n".join(map(str, [operator, *channels])))

    def ended(self) -> dict[int, str]:
        """Return the channels that were read to their end, were cancelled, or failed."""
        return self.finished

    def release(self) -> None:
        """Release the gate."""
        if not any(end != "read" for end in self.finished.values()) and not self.gate.finished:
            raise BrokenInvariantError("every channel ended but the gate did not finish")
        self.gate.release()

    def free_segments(self) -> list[MemorySegment]:
        """Return the idle segments of the floating pool and the free segments of channels."""
        managers = [channel.manager for channel in self.gate.remote_channels]
        return [
            *self.gate._floating_pool._idle,
            *(segment for manager in managers for segment in free_in(manager)),
        ]
