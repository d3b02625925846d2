"""Every event round-trips in its only encoding, and no other body is accepted."""

from __future__ import annotations

from collections.abc import Iterator

import msgpack
import pytest

from flinknet.buffer.buffer import DataType
from flinknet.errors import LocalProtocolError, RemoteProtocolError
from flinknet.wire import events
from flinknet.wire.events import (
    END_OF_PARTITION,
    MAX_WATERMARK,
    MIN_WATERMARK,
    Alignment,
    CancelCheckpointMarker,
    CheckpointBarrier,
    CheckpointKind,
    CheckpointOptions,
    DecodedEvent,
    EndOfChannelState,
    EndOfData,
    EndOfPartition,
    Event,
    EventAnnouncement,
    LatencyMarker,
    Watermark,
    WatermarkStatus,
    announcement_of,
    barrier_in,
    check_end_of_partition,
    check_received,
    decode_end_of_data,
    decode_event,
    encode_end_of_data,
    is_announcement,
    is_cancel_marker,
)

INT64_MAX = 2**63 - 1
WITH_TIMEOUT = CheckpointOptions(aligned_timeout_ms=100)
UNALIGNED = CheckpointOptions(alignment=Alignment.UNALIGNED)

EVENTS: list[tuple[DecodedEvent, DataType, list[object]]] = [
    (
        CheckpointBarrier(7, 1_700_000_000_000),
        DataType.ALIGNED_CHECKPOINT_BARRIER,
        [1, 7, 1_700_000_000_000, 0, 0, 0],
    ),
    (
        CheckpointBarrier(0, -(2**63), CheckpointOptions(CheckpointKind.SAVEPOINT_TERMINATE)),
        DataType.ALIGNED_CHECKPOINT_BARRIER,
        [1, 0, -(2**63), 3, 0, 0],
    ),
    (
        CheckpointBarrier(INT64_MAX, INT64_MAX, WITH_TIMEOUT),
        DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER,
        [1, INT64_MAX, INT64_MAX, 0, 0, 100],
    ),
    (
        CheckpointBarrier(1, 2, UNALIGNED),
        DataType.PRIORITIZED_EVENT_BUFFER,
        [1, 1, 2, 0, 1, 0],
    ),
    (
        CheckpointBarrier(1, 2, CheckpointOptions(CheckpointKind(0), Alignment.FORCED_ALIGNED, 3)),
        DataType.ALIGNED_CHECKPOINT_BARRIER,
        [1, 1, 2, 0, 2, 3],
    ),
    (
        CheckpointBarrier(1, 2, CheckpointOptions(alignment=Alignment.AT_LEAST_ONCE)),
        DataType.EVENT_BUFFER,
        [1, 1, 2, 0, 3, 0],
    ),
    (
        EventAnnouncement(CheckpointBarrier(1, 2, WITH_TIMEOUT)),
        DataType.PRIORITIZED_EVENT_BUFFER,
        [0, [1, 1, 2, 0, 0, 100]],
    ),
    (CancelCheckpointMarker(INT64_MAX), DataType.EVENT_BUFFER, [2, INT64_MAX]),
    (Watermark(-(2**63)), DataType.EVENT_BUFFER, [3, -(2**63)]),
    (Watermark(INT64_MAX), DataType.EVENT_BUFFER, [3, INT64_MAX]),
    (WatermarkStatus(idle=False), DataType.EVENT_BUFFER, [4, 0]),
    (WatermarkStatus(idle=True), DataType.EVENT_BUFFER, [4, 1]),
    (LatencyMarker(5, "", 0), DataType.EVENT_BUFFER, [5, 5, "", 0]),
    (LatencyMarker(-5, "π" * 127, 2**32 - 1), DataType.EVENT_BUFFER, [5, -5, "π" * 127, 2**32 - 1]),
    (EndOfChannelState(), DataType.RECOVERY_COMPLETION, []),
    (EndOfData(drain=True), DataType.END_OF_DATA, [1]),
    (EndOfData(drain=False), DataType.END_OF_DATA, [0]),
    (EndOfPartition(), DataType.END_OF_PARTITION, []),
]

every_event = pytest.mark.parametrize(
    ("said", "data_type", "array"), EVENTS, ids=[str(row[2])[:40] for row in EVENTS]
)


@every_event
def test_an_event_is_one_array_that_any_unpacker_reads(
    said: DecodedEvent, data_type: DataType, array: list[object]
) -> None:
    """A14: every kind of event round-trips."""
    event = said.event()
    assert event.data_type is data_type
    assert msgpack.unpackb(event.body) == array
    assert len(event.body) <= 1024
    assert decode_event(event) == said


@every_event
def test_no_byte_of_a_body_can_change_unnoticed(
    said: DecodedEvent, data_type: DataType, array: list[object]
) -> None:
    body = said.event().body
    for position in range(len(body)):
        for flip in (0x01, 0x80, 0xFF):
            changed = bytearray(body)
            changed[position] ^= flip
            try:
                assert decode_event(Event(data_type, bytes(changed))) != said
            except RemoteProtocolError:
                continue


@every_event
def test_a_body_that_is_longer_or_shorter_is_refused(
    said: DecodedEvent, data_type: DataType, array: list[object]
) -> None:
    body = said.event().body
    for wrong in (body[:-1], body + b"\x00"):
        with pytest.raises(RemoteProtocolError, match="the body of"):
            decode_event(Event(data_type, wrong))


@every_event
def test_an_event_belongs_to_its_data_type(
    said: DecodedEvent, data_type: DataType, array: list[object]
) -> None:
    """Only the events with an empty array share their encoding, and END_OF_DATA shares it with
    none."""
    body = said.event().body
    for other in DataType:
        if other is not data_type:
            try:
                assert decode_event(Event(other, body)) in (
                    None,
                    EndOfChannelState(),
                    EndOfPartition(),
                )
            except RemoteProtocolError:
                continue


def refused() -> Iterator[tuple[str, Event]]:
    """Yield error texts, each with an event that has only this error."""
    event_buffer = DataType.EVENT_BUFFER
    plain = CheckpointBarrier(1, 2).event()
    barrier, aligned = plain.body, plain.data_type
    below = b"\xd3" + (-1).to_bytes(8, "big", signed=True)
    yield "too short or too long", Event(aligned, barrier[:20])
    yield "which is below 0", Event(aligned, barrier[:2] + below + barrier[11:])
    timeout = barrier[22:]
    yield "options that do not exist", Event(aligned, barrier[:20] + b"\x04\x00" + timeout)
    yield "options that do not exist", Event(aligned, barrier[:20] + b"\x00\x04" + timeout)
    yield "SAVEPOINT cannot be unaligned", Event(aligned, barrier[:20] + b"\x01\x01" + timeout)
    yield "does not belong in data type ALIGNED", Event(aligned, barrier[:-1] + b"\x01")
    yield "not have the elements", Event(aligned, barrier[:-5] + b"\xd2\x00\x00\x00\x01")
    yield "does not belong in", Event(DataType.PRIORITIZED_EVENT_BUFFER, barrier)
    yield "which is below 0", Event(event_buffer, b"\x92\x02" + below)
    yield "not have the elements", Event(event_buffer, b"\x93\x02" + below)
    yield "neither 0 .active. nor 1", Event(event_buffer, b"\x92\x04\x02")
    marker = LatencyMarker(0, "u", 0).event().body
    yield "not in UTF-8", Event(event_buffer, marker.replace(b"u", b"\xff"))
    yield "not have the elements", Event(DataType.PRIORITIZED_EVENT_BUFFER, b"\x93\x00" + barrier)
    for body in (b"", b"\x90", b"\x91", b"\x92\x80\x00", b"\x01\x01", b"\xdc\x00\x01\x01"):
        yield "not an array that begins with its kind", Event(event_buffer, body)
    yield "is not 90", Event(DataType.RECOVERY_COMPLETION, b"\x91\x00")


@pytest.mark.parametrize(("what", "event"), list(refused()))
def test_the_fault_of_a_body_is_named(what: str, event: Event) -> None:
    with pytest.raises(RemoteProtocolError, match=what) as refusal:
        decode_event(event)
    assert event.body[:16].hex() in str(refusal.value)


@pytest.mark.parametrize("kind", [6, 0x7F])
@pytest.mark.parametrize("data_type", [DataType.EVENT_BUFFER, DataType.PRIORITIZED_EVENT_BUFFER])
def test_a_kind_that_is_not_known_is_to_be_skipped(kind: int, data_type: DataType) -> None:
    assert decode_event(Event(data_type, bytes((0x91, kind)))) is None


@pytest.mark.parametrize("data_type", [DataType.END_OF_SEGMENT, DataType.RECOVERY_METADATA])
def test_types_without_events_are_to_be_skipped(data_type: DataType) -> None:
    assert decode_event(Event(data_type, b"\xc1")) is None


@pytest.mark.parametrize(
    "said",
    [
        CheckpointBarrier(-1, 0),
        CheckpointBarrier(2**63, 0),
        CheckpointBarrier(0, 2**63),
        CancelCheckpointMarker(-1),
        CancelCheckpointMarker(2**63),
        Watermark(2**63),
        Watermark(-(2**63) - 1),
        Watermark(1.5),  # type: ignore[arg-type]
        LatencyMarker(2**63, "", 0),
        LatencyMarker(0, "", -1),
        LatencyMarker(0, "π" * 128, 0),
        LatencyMarker(0, "\ud800", 0),
    ],
    ids=str,
)
def test_events_that_cannot_be_encoded_are_refused_by_the_sender(said: DecodedEvent) -> None:
    with pytest.raises(LocalProtocolError):
        said.event()


def test_a_barrier_whose_time_is_over_is_unaligned() -> None:
    barrier = CheckpointBarrier(1, 2, WITH_TIMEOUT)
    assert barrier.to_unaligned() == CheckpointBarrier(1, 2, UNALIGNED)
    with pytest.raises(LocalProtocolError, match="does not time out"):
        CheckpointBarrier(1, 2).to_unaligned()


def test_a_barrier_is_found_among_events() -> None:
    for said, data_type, _ in EVENTS:
        found = barrier_in(Event(data_type, said.event().body))
        assert found == (said if isinstance(said, CheckpointBarrier) else None)
    assert barrier_in(Event(DataType.ALIGNED_CHECKPOINT_BARRIER, b"own")) is None


def test_a_cancel_marker_is_found_among_events() -> None:
    for said, _, _ in EVENTS:
        assert is_cancel_marker(said.event()) == isinstance(said, CancelCheckpointMarker)
    body = CancelCheckpointMarker(1).event().body
    for data_type, malformed in [
        (DataType.EVENT_BUFFER, body + b"\x00"),
        (DataType.EVENT_BUFFER, b"own"),
        (DataType.PRIORITIZED_EVENT_BUFFER, body),
    ]:
        assert not is_cancel_marker(Event(data_type, malformed))


def test_whatever_is_announced_is_judged_by_its_reader() -> None:
    barrier = CheckpointBarrier(1, 2, WITH_TIMEOUT)
    announcement = announcement_of(barrier.event().body)
    assert decode_event(announcement) == EventAnnouncement(barrier)
    with pytest.raises(RemoteProtocolError, match="a checkpoint barrier"):
        decode_event(announcement_of(b"own"))


def test_announcements_are_told_apart() -> None:
    """This includes the announcement of something other than a barrier.

    A task's own priority event is no announcement.
    """
    for said, _, _ in EVENTS:
        assert is_announcement(said.event()) == isinstance(said, EventAnnouncement)
    assert is_announcement(announcement_of(b"own"))
    assert not is_announcement(Event(DataType.PRIORITIZED_EVENT_BUFFER, b""))


def test_only_ends_and_announcements_are_checked_before_the_reader() -> None:
    """Other events may have bodies defined by a user."""
    for said, data_type, _ in EVENTS:
        if isinstance(said, EventAnnouncement):
            with pytest.raises(RemoteProtocolError, match="which never travels"):
                check_received(data_type, said.event().body)
        else:
            check_received(data_type, said.event().body)
    for data_type in (DataType.END_OF_DATA, DataType.END_OF_PARTITION):
        with pytest.raises(RemoteProtocolError, match=data_type.name):
            check_received(data_type, b"\x91\x02")
    check_received(DataType.PRIORITIZED_EVENT_BUFFER, b"")
    check_received(DataType.ALIGNED_CHECKPOINT_BARRIER, b"own")


def test_the_table_says_what_the_data_types_say() -> None:
    """Priority, blocking and credit are read from the table in the module's docstring."""
    assert events.__doc__ is not None
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in events.__doc__.splitlines()
        if line.startswith("|")
    ][2:]
    said = {(row[0].partition(",")[0], row[1]): row[2:] for row in rows}
    assert set(said) == {(type(event).__name__, data_type.name) for event, data_type, _ in EVENTS}
    for (_, name), (priority, blocks, credit) in said.items():
        data_type = DataType[name]
        assert priority == ("yes" if data_type.has_priority else "no")
        assert blocks == ("yes" if data_type.is_blocking_upstream else "no")
        assert credit == "none"
        assert data_type.is_event


@pytest.mark.parametrize("drain", [True, False])
def test_an_end_of_data_says_how_it_ended(drain: bool) -> None:
    """A14: both kinds round-trip, and any unpacker can read them."""
    body = encode_end_of_data(drain=drain)
    assert msgpack.unpackb(body) == [int(drain)]
    assert decode_end_of_data(body) is drain


def test_an_end_of_partition_is_an_empty_array() -> None:
    assert msgpack.unpackb(END_OF_PARTITION) == []


@pytest.mark.parametrize("body", [b"", b"\x91\x01", b"\x90\x90", b"\xff" * 1000])
def test_an_end_of_partition_with_anything_else_is_refused(body: bytes) -> None:
    check_end_of_partition(END_OF_PARTITION)
    with pytest.raises(RemoteProtocolError, match="END_OF_PARTITION is .{0,16}, not 90"):
        check_end_of_partition(body)


@pytest.mark.parametrize("body", [b"", b"\x90", b"\x91\x02", b"\x91\x01\x00", b"\xff" * 1000])
def test_an_end_of_data_with_anything_else_is_refused(body: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="END_OF_DATA"):
        decode_end_of_data(body)


def test_an_event_is_its_type_and_its_body() -> None:
    event = Event(DataType.EVENT_BUFFER, b"\x90")
    assert tuple(event) == (DataType.EVENT_BUFFER, b"\x90")


def test_the_last_watermarks_are_the_ends_of_the_wire_s_range() -> None:
    """Flink's are Long.MIN_VALUE and Long.MAX_VALUE; a peer takes the latter for the end."""
    assert (MIN_WATERMARK, MAX_WATERMARK) == (-INT64_MAX - 1, INT64_MAX)
    for one in (MIN_WATERMARK, MAX_WATERMARK):
        assert decode_event(Watermark(one).event()) == Watermark(one)
    for beyond in (MIN_WATERMARK - 1, MAX_WATERMARK + 1):
        with pytest.raises(LocalProtocolError):
            Watermark(beyond).event()
