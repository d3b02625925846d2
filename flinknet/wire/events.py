"""Events: the buffers between records, and their bodies as defined in ``SPEC.md``.

| event | data type | priority | blocks | credit |
|---|---|---|---|---|
| CheckpointBarrier, aligned or forced to be | ALIGNED_CHECKPOINT_BARRIER | no | yes | none |
| CheckpointBarrier, with a time-out | TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER | no | yes | none |
| CheckpointBarrier, unaligned | PRIORITIZED_EVENT_BUFFER | yes | no | none |
| CheckpointBarrier, at least once | EVENT_BUFFER | no | no | none |
| CancelCheckpointMarker | EVENT_BUFFER | no | no | none |
| Watermark | EVENT_BUFFER | no | no | none |
| WatermarkStatus | EVENT_BUFFER | no | no | none |
| LatencyMarker | EVENT_BUFFER | no | no | none |
| EventAnnouncement, never on the wire | PRIORITIZED_EVENT_BUFFER | yes | no | none |
| EndOfChannelState | RECOVERY_COMPLETION | no | yes | none |
| EndOfData | END_OF_DATA | no | no | none |
| EndOfPartition | END_OF_PARTITION | no | no | none |

A body is one msgpack array. Where a data type carries several kinds of events, the first element is
the kind. Readers skip unknown kinds (``decode_event`` returns None), so kinds can be added later.
Integers behind the kind have a fixed width. Each body has exactly one valid form, and any other
encoding of the same values is rejected.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple, TypeAlias

from flinknet.buffer.buffer import DataType
from flinknet.errors import LocalProtocolError, RemoteProtocolError
from flinknet.wire.checkpoint_options import Alignment, CheckpointKind, CheckpointOptions

__all__ = [
    "END_OF_PARTITION",
    "MAX_WATERMARK",
    "MIN_WATERMARK",
    "Alignment",
    "CancelCheckpointMarker",
    "CheckpointBarrier",
    "CheckpointKind",
    "CheckpointOptions",
    "DecodedEvent",
    "EndOfChannelState",
    "EndOfData",
    "EndOfPartition",
    "Event",
    "EventAnnouncement",
    "LatencyMarker",
    "Watermark",
    "WatermarkElement",
    "WatermarkStatus",
    "announcement_of",
    "barrier_in",
    "check_end_of_partition",
    "check_received",
    "decode_end_of_data",
    "decode_event",
    "decode_if_valid",
    "encode_end_of_data",
    "is_announcement",
    "is_cancel_marker",
]


class Event(NamedTuple):
    """An event between two records: its data type, and its body, which is one msgpack array.

    The data type decides whether the event overtakes the queue before it (``has_priority``), and
    whether its channel stops until the reader resumes the consumption (``is_blocking_upstream``).
    """

    data_type: DataType
    body: bytes


# -- forms -----------------------------------------------------------------------------------------

_ANNOUNCEMENT = 0
_BARRIER = 1
_CANCEL = 2
_WATERMARK = 3
_STATUS = 4
_LATENCY = 5

_INT64 = 0xD3
_UINT32 = 0xCE
_STR8 = 0xD9
_UID_BYTES_MAX = 255

_MOMENT = Struct(">BBBq")
"""Array of two: kind and a 64-bit integer. Used by cancel markers and watermarks."""
_STATUS_FORM = Struct(">BBB")
_BARRIER_FORM = Struct(">BBBqBqBBBI")
"""Array of six: kind, checkpoint, moment, kind of checkpoint, alignment, and timeout (0 for none).
The barrier therefore keeps its length when it times out."""
_LATENCY_HEAD = Struct(">BBBqBB")
"""Array of four: kind, moment, and the length of the name that follows."""
_LATENCY_TAIL = Struct(">BI")  # subtask index, behind the name
_ANNOUNCEMENT_HEAD = bytes((0x92, _ANNOUNCEMENT))

_WHOLE = slice(None)

_BARRIER_TYPES = (
    DataType.ALIGNED_CHECKPOINT_BARRIER,
    DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER,
)
_ALIGNED = CheckpointOptions()
_EMPTY = b"\x90"
_DRAIN = b"\x91\x01"
_NO_DRAIN = b"\x91\x00"
END_OF_PARTITION = _EMPTY
"""``[]``."""


def _pack(noun: str, form: Struct, *values: int) -> bytes:
    try:
        return form.pack(*values)
    except struct.error as error:
        raise LocalProtocolError(f"{noun} does not fit its form on the wire: {error}") from error


def _refuse(noun: str, what: str, body: bytes) -> RemoteProtocolError:
    shown = body[:16].hex() + ("..." if len(body) > 16 else "")
    return RemoteProtocolError(f"the body of {noun} {what}: it is {shown}, {len(body)} bytes")


def _unpack(
    noun: str, form: Struct, body: bytes, constants: tuple[int | None, ...], part: slice = _WHOLE
) -> tuple[int, ...]:
    """Return the variable values of a body, or of a part of it, in order.

    ``constants`` lists the required elements, with None for a variable value.

    Raises:
        RemoteProtocolError: If the form or a constant differs.
    """
    data = body[part]
    if len(data) != form.size:
        raise _refuse(noun, "is too short or too long", body)
    values = []
    for item, constant in zip(form.unpack(data), constants, strict=True):
        if constant is None:
            values.append(item)
        elif item != constant:
            raise _refuse(noun, "does not have the elements of its form", body)
    return tuple(values)


def _checkpoint_id(noun: str, checkpoint_id: int, body: bytes) -> int:
    if checkpoint_id < 0:
        raise _refuse(noun, f"names checkpoint {checkpoint_id}, which is below 0", body)
    return checkpoint_id


def _check_checkpoint_id(noun: str, checkpoint_id: int) -> None:
    if checkpoint_id < 0:
        raise LocalProtocolError(f"{noun} names checkpoint {checkpoint_id}: ids begin with 0")


# -- checkpoints -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CheckpointBarrier:
    """Separates the records of a checkpoint from later ones.

    ``timestamp_ms`` is the time of its creation at the coordinator, in milliseconds since 1970. The
    alignment timeout counts from there.
    """

    checkpoint_id: int
    timestamp_ms: int
    options: CheckpointOptions = _ALIGNED

    def event(self) -> Event:
        """Return the event for this barrier; its data type depends on the alignment.

        Raises:
            LocalProtocolError: If a number is out of range.
        """
        options = self.options
        noun = "a checkpoint barrier"
        _check_checkpoint_id(noun, self.checkpoint_id)
        body = _pack(
            noun,
            _BARRIER_FORM,
            *(0x96, _BARRIER, _INT64, self.checkpoint_id, _INT64, self.timestamp_ms),
            *(options.kind, options.alignment, _UINT32, options.aligned_timeout_ms or 0),
        )
        return Event(options.data_type, body)

    def to_unaligned(self) -> CheckpointBarrier:
        """Return the barrier after its timeout.

        Raises:
            LocalProtocolError: If it has no timeout.
        """
        return CheckpointBarrier(self.checkpoint_id, self.timestamp_ms, self.options.to_unaligned())


def _decode_barrier(event: Event) -> CheckpointBarrier:
    noun, body = "a checkpoint barrier", event.body
    constants = (0x96, _BARRIER, _INT64, None, _INT64, None, None, None, _UINT32, None)
    values = _unpack(noun, _BARRIER_FORM, body, constants)
    checkpoint_id, timestamp_ms, kind, alignment, timeout_ms = values
    try:
        options = CheckpointOptions(CheckpointKind(kind), Alignment(alignment), timeout_ms or None)
    except (ValueError, LocalProtocolError) as error:
        raise _refuse(noun, f"has options that do not exist ({error})", body) from error
    if options.data_type is not event.data_type:
        raise _refuse(noun, f"does not belong in data type {event.data_type.name}", body)
    return CheckpointBarrier(_checkpoint_id(noun, checkpoint_id, body), timestamp_ms, options)


@dataclass(frozen=True, slots=True)
class EventAnnouncement:
    """Announces a barrier that can time out and waits behind data (Flink's EventAnnouncement).

    The receiver creates it in front of the data that has arrived; it never travels.
    """

    barrier: CheckpointBarrier

    def event(self) -> Event:
        """Return the event that is polled before all other buffers."""
        return announcement_of(self.barrier.event().body)


def _decode_announcement(event: Event) -> EventAnnouncement:
    if event.body[:2] != _ANNOUNCEMENT_HEAD:
        raise _refuse("an announcement", "does not have the elements of its form", event.body)
    announced = DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER
    return EventAnnouncement(_decode_barrier(Event(announced, event.body[2:])))


@dataclass(frozen=True, slots=True)
class CancelCheckpointMarker:
    """Reports that a checkpoint failed upstream: its missing barriers will not come."""

    checkpoint_id: int

    def event(self) -> Event:
        """Return the event for this marker.

        Raises:
            LocalProtocolError: If the number is out of range.
        """
        noun = "a cancel marker"
        _check_checkpoint_id(noun, self.checkpoint_id)
        body = _pack(noun, _MOMENT, 0x92, _CANCEL, _INT64, self.checkpoint_id)
        return Event(DataType.EVENT_BUFFER, body)


def _decode_cancel(event: Event) -> CancelCheckpointMarker:
    noun, body = "a cancel marker", event.body
    (checkpoint_id,) = _unpack(noun, _MOMENT, body, (0x92, _CANCEL, _INT64, None))
    return CancelCheckpointMarker(_checkpoint_id(noun, checkpoint_id, body))


@dataclass(frozen=True, slots=True)
class EndOfChannelState:
    """Separates a restored checkpoint's in-flight data from the task's new output.

    This is Flink's EndOfChannelStateEvent.
    """

    def event(self) -> Event:
        """Return the event for this marker."""
        return Event(DataType.RECOVERY_COMPLETION, _EMPTY)


# -- event time, latency ---------------------------------------------------------------------------


MIN_WATERMARK = -(1 << 63)
"""The watermark before any event time."""
MAX_WATERMARK = (1 << 63) - 1
"""The watermark after all event time; a source sends it at its end."""


@dataclass(frozen=True, slots=True)
class Watermark:
    """Promises that no later record has this event time or an earlier one."""

    timestamp_ms: int

    def event(self) -> Event:
        """Return the event for this watermark.

        Raises:
            LocalProtocolError: If the number is out of range.
        """
        body = _pack("a watermark", _MOMENT, 0x92, _WATERMARK, _INT64, self.timestamp_ms)
        return Event(DataType.EVENT_BUFFER, body)


def _decode_watermark(event: Event) -> Watermark:
    constants = (0x92, _WATERMARK, _INT64, None)
    (timestamp_ms,) = _unpack("a watermark", _MOMENT, event.body, constants)
    return Watermark(timestamp_ms)


@dataclass(frozen=True, slots=True)
class WatermarkStatus:
    """Tells whether to wait for a channel's watermarks; an idle channel is not waited for."""

    idle: bool

    def event(self) -> Event:
        """Return the event for this status."""
        return Event(DataType.EVENT_BUFFER, _STATUS_FORM.pack(0x92, _STATUS, self.idle))


WatermarkElement = Watermark | WatermarkStatus
"""An event about event time."""


def _decode_status(event: Event) -> WatermarkStatus:
    noun = "a watermark status"
    (idle,) = _unpack(noun, _STATUS_FORM, event.body, (0x92, _STATUS, None))
    if idle > 1:
        raise _refuse(noun, "is neither 0 (active) nor 1 (idle)", event.body)
    return WatermarkStatus(bool(idle))


@dataclass(frozen=True, slots=True)
class LatencyMarker:
    """Carries the time of its creation, on the clock of its source's worker.

    It travels with the records and overtakes none. ``operator_uid`` is at most 255 bytes of UTF-8.
    """

    marked_time_ms: int
    operator_uid: str
    subtask_index: int

    def event(self) -> Event:
        """Return the event for this marker.

        Raises:
            LocalProtocolError: If a value does not fit.
        """
        noun = "a latency marker"
        try:
            uid = self.operator_uid.encode()
        except UnicodeEncodeError as error:
            raise LocalProtocolError(f"{noun} names an operator not in Unicode: {error}") from error
        if len(uid) > _UID_BYTES_MAX:
            raise LocalProtocolError(
                f"{noun} has room for {_UID_BYTES_MAX} bytes of an operator's uid, and "
                f"{self.operator_uid!r} has {len(uid)}: choose a shorter one"
            )
        head = (0x94, _LATENCY, _INT64, self.marked_time_ms, _STR8, len(uid))
        body = _pack(noun, _LATENCY_HEAD, *head) + uid
        body += _pack(noun, _LATENCY_TAIL, _UINT32, self.subtask_index)
        return Event(DataType.EVENT_BUFFER, body)


def _decode_latency(event: Event) -> LatencyMarker:
    noun, body = "a latency marker", event.body
    start = _LATENCY_HEAD.size
    constants = (0x94, _LATENCY, _INT64, None, _STR8, None)
    values = _unpack(noun, _LATENCY_HEAD, body, constants, slice(start))
    marked_time_ms, uid_bytes = values
    end = start + uid_bytes
    (subtask_index,) = _unpack(noun, _LATENCY_TAIL, body, (_UINT32, None), slice(end, None))
    try:
        uid = body[start:end].decode()
    except UnicodeDecodeError as error:
        raise _refuse(noun, f"names an operator not in UTF-8 ({error.reason})", body) from error
    return LatencyMarker(marked_time_ms, uid, subtask_index)


# -- ends ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EndOfData:
    """Marks the end of the records: all input was read (``drain``), or the job was stopped."""

    drain: bool

    def event(self) -> Event:
        """Return the event for this mark."""
        return Event(DataType.END_OF_DATA, encode_end_of_data(drain=self.drain))


@dataclass(frozen=True, slots=True)
class EndOfPartition:
    """Marks the end of the partition; nothing follows."""

    def event(self) -> Event:
        """Return the event for this mark."""
        return Event(DataType.END_OF_PARTITION, END_OF_PARTITION)


def encode_end_of_data(*, drain: bool) -> bytes:
    """Encode ``[1]`` if all input was read (Flink's StopMode.DRAIN), ``[0]`` if stopped before."""
    return _DRAIN if drain else _NO_DRAIN


def decode_end_of_data(body: bytes) -> bool:
    """Return ``drain``; raise RemoteProtocolError for any other body."""
    if body not in (_DRAIN, _NO_DRAIN):
        raise RemoteProtocolError(
            f"the body of an END_OF_DATA is {body[:8].hex()}, not 9100 or 9101"
        )
    return body == _DRAIN


def check_end_of_partition(body: bytes) -> None:
    """Raise RemoteProtocolError for any body but ``[]``."""
    if body != END_OF_PARTITION:
        raise RemoteProtocolError(f"the body of an END_OF_PARTITION is {body[:8].hex()}, not 90")


def check_received(data_type: DataType, body: bytes) -> None:
    """Raise RemoteProtocolError for an event that no peer may send.

    These are an end of data or of the partition in another form, and an announcement. The reader of
    the events checks the rest.
    """
    if data_type is DataType.END_OF_DATA:
        decode_end_of_data(body)
    elif data_type is DataType.END_OF_PARTITION:
        check_end_of_partition(body)
    elif is_announcement(Event(data_type, body)):
        raise _refuse("a PRIORITIZED_EVENT_BUFFER", "is an announcement, which never travels", body)


def is_announcement(event: Event) -> bool:
    """Whether an event is an announcement, well formed or not, which only receivers create."""
    data_type, body = event
    return (
        data_type is DataType.PRIORITIZED_EVENT_BUFFER
        and _has_kind(body)
        and body[1] == _ANNOUNCEMENT
    )


# -- decoding of any event -------------------------------------------------------------------------

DecodedEvent: TypeAlias = (
    CheckpointBarrier
    | EventAnnouncement
    | CancelCheckpointMarker
    | EndOfChannelState
    | Watermark
    | WatermarkStatus
    | LatencyMarker
    | EndOfData
    | EndOfPartition
)

_KINDS: dict[DataType, dict[int, Callable[[Event], DecodedEvent]]] = {
    DataType.EVENT_BUFFER: {
        _BARRIER: _decode_barrier,
        _CANCEL: _decode_cancel,
        _WATERMARK: _decode_watermark,
        _STATUS: _decode_status,
        _LATENCY: _decode_latency,
    },
    DataType.PRIORITIZED_EVENT_BUFFER: {
        _ANNOUNCEMENT: _decode_announcement,
        _BARRIER: _decode_barrier,
    },
}


def decode_event(event: Event) -> DecodedEvent | None:
    """Decode an event; None for an unknown kind, which the reader must skip.

    Raises:
        RemoteProtocolError: If the body does not fit the data type.
    """
    data_type, body = event
    kinds = _KINDS.get(data_type)
    if kinds is not None:
        if not _has_kind(body):
            raise _refuse(
                f"an event of type {data_type.name}",
                "is not an array that begins with its kind",
                body,
            )
        decode = kinds.get(body[1])
        return None if decode is None else decode(event)
    if data_type in _BARRIER_TYPES:
        return _decode_barrier(event)
    if data_type is DataType.RECOVERY_COMPLETION:
        if body != _EMPTY:
            raise _refuse("the end of a channel's state", "is not 90", body)
        return EndOfChannelState()
    if data_type is DataType.END_OF_DATA:
        return EndOfData(decode_end_of_data(body))
    if data_type is DataType.END_OF_PARTITION:
        check_end_of_partition(body)
        return EndOfPartition()
    return None


def decode_if_valid(event: Event) -> DecodedEvent | None:
    """Decode an event; None for an unknown kind or a malformed body.

    The reader of the channel reports a malformed body.
    """
    try:
        return decode_event(event)
    except RemoteProtocolError:
        return None


def barrier_in(event: Event) -> CheckpointBarrier | None:
    """Return the barrier in an event, or None for any other event, as ``decode_if_valid`` does."""
    decoded = decode_if_valid(event)
    return decoded if isinstance(decoded, CheckpointBarrier) else None


def is_cancel_marker(event: Event) -> bool:
    """Whether an event is a well-formed cancel marker."""
    return isinstance(decode_if_valid(event), CancelCheckpointMarker)


def announcement_of(body: bytes) -> Event:
    """Return the announcement of a barrier with this body, which its reader validates."""
    return Event(DataType.PRIORITIZED_EVENT_BUFFER, _ANNOUNCEMENT_HEAD + body)


def _has_kind(body: bytes) -> bool:
    """Whether a body begins like an array of 1 to 15 elements, the first from 0 to 127."""
    return len(body) >= 2 and 0x91 <= body[0] <= 0x9F and body[1] < 0x80
