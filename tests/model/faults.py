"""Bugs to plant: each breaks one rule of the exchange, and the exploration must find it.

A fault replaces one method of one real class. If a fault survives, the exploration has lost its
teeth: a shape or an invariant is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flinknet.connection.connection import Connection
from flinknet.connection.subpartition_reader import SubpartitionReader
from flinknet.consumer.buffer_manager import BufferManager
from flinknet.consumer.input_gate import InputGate
from flinknet.consumer.remote_channel import RemoteInputChannel
from flinknet.partition.subpartition import PipelinedSubpartition
from tests.model.world import Shape


@dataclass(frozen=True)
class Fault:
    """A planted bug, the shape that must reveal it, and what it does."""

    name: str
    shape: Shape
    owner: type
    method: str
    replace: Callable[[Callable[..., Any]], Callable[..., Any]]


ALIGNED_WITHOUT_EXCLUSIVE = Shape(("dBdE", "dBdE"), exclusive=0, floating=1)
PLAIN_WITHOUT_EXCLUSIVE = Shape(("ddE",), exclusive=0, floating=1)
PLAIN = Shape(("dddE",), exclusive=1, floating=1)
CANCELLED = Shape(("ddE", "dE"), exclusive=1, floating=1, cancel=0)
FLUSHED = Shape(("ofE",), exclusive=1, floating=0)


def _never_blocks(original: Callable[..., Any]) -> Callable[..., Any]:
    def poll(self: PipelinedSubpartition) -> Any:
        polled = original(self)
        self._blocked = False
        return polled

    return poll


def _keeps_floating(original: Callable[..., Any]) -> Callable[..., Any]:
    def release_floating(self: BufferManager) -> None:
        if self._released:
            original(self)

    return release_floating


def _keeps_credit(original: Callable[..., Any]) -> Callable[..., Any]:
    def resume_consumption(self: SubpartitionReader) -> None:
        initial, self.initial = self.initial, 1
        original(self)
        self.initial = initial

    return resume_consumption


def _says_nothing(original: Callable[..., Any]) -> Callable[..., Any]:
    def silent(self: Any, *arguments: Any) -> None:
        """Do nothing."""

    return silent


def _credit_on_receipt(original: Callable[..., Any]) -> Callable[..., Any]:
    def end_buffer(self: RemoteInputChannel) -> None:
        is_data = self._arriving_event is None
        original(self)
        if is_data:
            self._on_buffers_available(1)

    return end_buffer


def _recycles_twice(original: Callable[..., Any]) -> Callable[..., Any]:
    def frames_written(self: Connection) -> None:
        buffers = [buffer for buffer, _ in self._in_flight]
        original(self)
        for buffer in buffers:
            buffer.recycle()

    return frames_written


def _announces_twice(original: Callable[..., Any]) -> Callable[..., Any]:
    def take_unannounced_credit(self: RemoteInputChannel) -> int:
        return int(original(self)) * 2

    return take_unannounced_credit


def _one_less(original: Callable[..., Any]) -> Callable[..., Any]:
    def backlog(self: PipelinedSubpartition) -> int:
        return max(0, int(original(self)) - 1)

    return backlog


def _one_more(original: Callable[..., Any]) -> Callable[..., Any]:
    def backlog(self: PipelinedSubpartition) -> int:
        return int(original(self)) + 1

    return backlog


def _keeps_cancelled(original: Callable[..., Any]) -> Callable[..., Any]:
    def close_channel(self: Connection, channel: RemoteInputChannel) -> None:
        number = self._channel_ids.get(channel)
        original(self, channel)
        if number is not None:
            self._channels[number] = channel
            self._channel_ids[channel] = number

    return close_channel


def _floating_back_and_credit(original: Callable[..., Any]) -> Callable[..., Any]:
    def recycle(self: BufferManager, segment: Any) -> None:
        had_floating = bool(self._floating)
        original(self, segment)
        if had_floating and not self._floating:
            self._on_available(1)

    return recycle


def _forgets_one(original: Callable[..., Any]) -> Callable[..., Any]:
    def notify_channel_non_empty(self: InputGate, channel: Any, *, priority: bool = False) -> None:
        if not any(other.queued_in_gate for other in self.channels):
            original(self, channel, priority=priority)

    return notify_channel_non_empty


def _waits_for_ever(original: Callable[..., Any]) -> Callable[..., Any]:
    def notify_buffer_available(self: BufferManager, segment: Any) -> bool:
        taken = bool(original(self, segment))
        self.waiting = True
        return taken

    return notify_buffer_available


FAULTS = (
    Fault(
        "the producer does not stop behind an aligned barrier",
        ALIGNED_WITHOUT_EXCLUSIVE,
        PipelinedSubpartition,
        "poll",
        _never_blocks,
    ),
    Fault(
        "a blocked channel without exclusive buffers keeps its floating ones",
        ALIGNED_WITHOUT_EXCLUSIVE,
        BufferManager,
        "release_floating",
        _keeps_floating,
    ),
    Fault(
        "resuming a channel without exclusive buffers keeps the producer's credit",
        ALIGNED_WITHOUT_EXCLUSIVE,
        SubpartitionReader,
        "resume_consumption",
        _keeps_credit,
    ),
    Fault(
        "the backlog is not announced at zero credit",
        PLAIN_WITHOUT_EXCLUSIVE,
        Connection,
        "announce_backlog",
        _says_nothing,
    ),
    Fault(
        "credit is given on receipt", PLAIN, RemoteInputChannel, "end_buffer", _credit_on_receipt
    ),
    Fault("a buffer is recycled twice", PLAIN, Connection, "frames_written", _recycles_twice),
    Fault(
        "an announcement of credit is lost",
        PLAIN,
        Connection,
        "notify_credit_available",
        _says_nothing,
    ),
    Fault(
        "an announcement of credit is doubled",
        PLAIN,
        RemoteInputChannel,
        "take_unannounced_credit",
        _announces_twice,
    ),
    Fault("the backlog is one too low", PLAIN, PipelinedSubpartition, "backlog", _one_less),
    Fault("the backlog is one too high", PLAIN, PipelinedSubpartition, "backlog", _one_more),
    Fault(
        "a late frame of a cancelled channel is accepted",
        CANCELLED,
        Connection,
        "close_channel",
        _keeps_cancelled,
    ),
    Fault(
        "a floating buffer goes back and makes credit as well",
        Shape(("ddddE",), exclusive=1, floating=2),
        BufferManager,
        "recycle",
        _floating_back_and_credit,
    ),
    Fault(
        "the gate forgets a channel while another is queued",
        Shape(("dE", "dE"), exclusive=1, floating=1),
        InputGate,
        "notify_channel_non_empty",
        _forgets_one,
    ),
    Fault(
        "a channel that got its floating buffer still counts as waiting",
        Shape(("ddddE",), exclusive=0, floating=1),
        BufferManager,
        "notify_buffer_available",
        _waits_for_ever,
    ),
    Fault("a flush is not notified", FLUSHED, PipelinedSubpartition, "flush", _says_nothing),
)
