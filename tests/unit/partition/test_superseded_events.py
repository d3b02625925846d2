"""Events that a newer event makes superfluous; nothing else may move."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.buffer.buffer import Buffer, DataType
from flinknet.operators.watermark_valve import StatusWatermarkValve
from flinknet.partition.superseded_events import supersede
from flinknet.wire.events import (
    CancelCheckpointMarker,
    CheckpointBarrier,
    DecodedEvent,
    Event,
    LatencyMarker,
    Watermark,
    WatermarkStatus,
    decode_if_valid,
)

IDLE, ACTIVE = WatermarkStatus(idle=True), WatermarkStatus(idle=False)
MARKER = LatencyMarker(1, "source", 0)
DATA = "data"
UNKNOWN = "an event of a kind that nobody knows"
BARRIER = CheckpointBarrier(1, 0)

Said = DecodedEvent | str


def buffer_of(said: Said) -> Buffer:
    if said == DATA:
        return Buffer.event(DataType.DATA_BUFFER_WITH_CLEAR_END, b"\x01")
    if isinstance(said, str):
        return Buffer.event(DataType.EVENT_BUFFER, b"\x92\x7f\xc0")
    return Buffer.event(*said.event())


def queued(written: Sequence[Said]) -> list[Said]:
    """Append these to a queue that is not read, and return the remaining ones."""
    queue: deque[Buffer] = deque()
    said_by = {}
    for said in written:
        buffer = buffer_of(said)
        said_by[id(buffer)] = said
        before = list(queue)
        gone = supersede(queue, buffer) if buffer.data_type is DataType.EVENT_BUFFER else []
        assert all(any(one is other for other in (*before, buffer)) for one in gone)
        if not gone:
            assert list(queue) == before
            queue.append(buffer)
    return [said_by[id(buffer)] for buffer in queue]


W1, W2, W3 = Watermark(1), Watermark(2), Watermark(3)


@pytest.mark.parametrize(
    ("written", "left"),
    [
        ([W1, W2, W3], [W3]),
        ([W2, W1, W2], [W2]),
        ([IDLE, ACTIVE], [ACTIVE]),
        ([ACTIVE, IDLE, ACTIVE, IDLE], [IDLE]),
        ([W1, ACTIVE, W2], [W2]),
        ([W1, IDLE, ACTIVE, W2, IDLE], [W2, IDLE]),
        ([ACTIVE, W1, IDLE, ACTIVE, W2, IDLE], [ACTIVE, W2, IDLE]),
        ([W1, DATA, W2], [W1, DATA, W2]),
        ([W1, BARRIER, W2, W3], [W1, BARRIER, W3]),
        ([W1, MARKER, W2], [W1, MARKER, W2]),
        ([MARKER, MARKER], [MARKER, MARKER]),
        ([W1, UNKNOWN, W2, UNKNOWN], [W1, UNKNOWN, W2, UNKNOWN]),
        ([IDLE, DATA, ACTIVE], [IDLE, DATA, ACTIVE]),
    ],
)
def test_time_that_is_said_better_is_not_sent(written: list[Said], left: list[Said]) -> None:
    assert queued(written) == left


def test_a_cancel_marker_takes_the_place_of_the_one_before() -> None:
    """Its place does not matter: the newer marker covers all checkpoints of the older one."""
    one, two, three = map(CancelCheckpointMarker, (1, 2, 3))
    assert queued([DATA, one, DATA, BARRIER, W1, two]) == [DATA, two, DATA, BARRIER, W1]
    assert queued([two, DATA, one, two, three]) == [three, DATA]
    assert queued([W1, one, W2]) == [W1, one, W2]


TIMES = st.lists(
    st.one_of(
        st.integers(0, 9).map(Watermark), st.sampled_from([IDLE, ACTIVE, DATA, MARKER, BARRIER])
    ),
    max_size=30,
)


def seen(written: Sequence[Said]) -> list[tuple[int, bool]]:
    """Return the event time and the idleness before each other element, and at the end, as a task
    sees them. For an idle channel the time is the one before it became idle."""
    valve = StatusWatermarkValve(1)
    idle, found = False, []
    for said in [*written, DATA]:
        if isinstance(said, Watermark):
            valve.input_watermark(0, said.timestamp_ms)
        elif isinstance(said, WatermarkStatus):
            valve.input_status(0, idle=said.idle)
            idle = said.idle
        else:
            found.append((valve.watermark, idle))
    return found


def lawful(written: Sequence[Said]) -> list[Said]:
    """Return a sequence that a channel may send: without watermarks while it is idle."""
    idle, kept = False, []
    for said in written:
        if isinstance(said, WatermarkStatus):
            idle = said.idle
        if not (idle and isinstance(said, Watermark)):
            kept.append(said)
    return kept


@given(TIMES)
def test_a_reader_knows_the_same_at_every_record(written: list[Said]) -> None:
    """Superseding changes nothing that a record's reader knows, and few such events wait in a
    row."""
    said = lawful(written)
    left = queued(said)
    assert [one for one in left if not isinstance(one, Watermark | WatermarkStatus)] == [
        one for one in said if not isinstance(one, Watermark | WatermarkStatus)
    ]
    assert seen(left) == seen(said)
    run = 0
    for one in left:
        run = run + 1 if isinstance(one, Watermark | WatermarkStatus) else 0
        assert run <= 3


def test_a_malformed_event_stays_in_the_queue() -> None:
    """The reader of the channel reports the error."""
    broken = Buffer.event(DataType.EVENT_BUFFER, b"\x92\x03\xc0")
    assert decode_if_valid(Event(DataType.EVENT_BUFFER, b"\x92\x03\xc0")) is None
    queue = deque([buffer_of(W1)])
    assert supersede(queue, broken) == []
    assert len(queue) == 1
