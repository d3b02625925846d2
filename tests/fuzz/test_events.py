"""Malformed bodies of events: each is refused, or is an event that encodes to the same bytes."""

from __future__ import annotations

import msgpack
from hypothesis import given, settings
from hypothesis import strategies as st

from flinknet.buffer.buffer import DataType
from flinknet.errors import RemoteProtocolError
from flinknet.wire.events import (
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
    check_received,
    decode_event,
)

BARRIERS = [
    CheckpointBarrier(7, 1_700_000_000_000, CheckpointOptions(kind, alignment, timeout_ms))
    for kind, alignment, timeout_ms in [
        (CheckpointKind.CHECKPOINT, Alignment.ALIGNED, None),
        (CheckpointKind.CHECKPOINT, Alignment.ALIGNED, 30_000),
        (CheckpointKind.CHECKPOINT, Alignment.UNALIGNED, None),
        (CheckpointKind.CHECKPOINT, Alignment.FORCED_ALIGNED, 30_000),
        (CheckpointKind.CHECKPOINT, Alignment.AT_LEAST_ONCE, None),
        (CheckpointKind.SAVEPOINT_SUSPEND, Alignment.ALIGNED, None),
    ]
]
SAID: list[DecodedEvent] = [
    *BARRIERS,
    EventAnnouncement(BARRIERS[1]),
    CancelCheckpointMarker(7),
    Watermark(-1),
    WatermarkStatus(idle=True),
    LatencyMarker(1_700_000_000_000, "map π", 3),
    EndOfChannelState(),
    EndOfData(drain=True),
    EndOfPartition(),
]
EVENTS = [said.event() for said in SAID]
MANY = settings(max_examples=400)

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | st.binary(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=2), inner, max_size=2)
    ),
    max_leaves=10,
)
bodies = (
    st.binary(max_size=64)
    | st.lists(values, max_size=7).map(msgpack.packb)
    | st.tuples(st.integers(0, 8), values, values).map(msgpack.packb)
)


def judge(event: Event) -> None:
    """Check that an event is refused, is skipped, or encodes to its own bytes."""
    try:
        said = decode_event(event)
        check_received(*event)
    except RemoteProtocolError:
        return
    if said is not None:
        # An accepted event has one encoding, so decoding loses nothing.
        assert said.event() == event


@MANY
@given(st.sampled_from(DataType), bodies)
def test_any_body_is_an_event_or_refused(data_type: DataType, body: bytes) -> None:
    judge(Event(data_type, body))


@MANY
@given(
    st.sampled_from(EVENTS),
    st.lists(st.tuples(st.integers(0, 40), st.binary(max_size=3)), min_size=1, max_size=3),
    st.none() | st.sampled_from(DataType),
)
def test_an_event_with_other_bytes_is_an_event_or_refused(
    event: Event, changes: list[tuple[int, bytes]], data_type: DataType | None
) -> None:
    body = bytearray(event.body)
    for position, wrong in changes:
        body[position : position + len(wrong)] = wrong
    judge(Event(data_type or event.data_type, bytes(body)))


@MANY
@given(st.sampled_from(EVENTS), st.integers(0, 40), st.binary(max_size=40))
def test_an_event_that_is_cut_or_goes_on_is_an_event_or_refused(
    event: Event, kept: int, more: bytes
) -> None:
    judge(Event(event.data_type, event.body[:kept] + more))
