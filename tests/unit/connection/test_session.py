"""Two joined sessions: many channels, fair turns, credit, and buffers that are recycled once."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinknet.buffer.buffer import Buffer, DataType
from flinknet.config import WireLimits
from flinknet.connection import session as module
from flinknet.connection.link import Link
from flinknet.connection.peer_limits import ReaderQuota, UnmetRequestPacer
from flinknet.connection.session import TRANSITIONS, Session, SessionEvent, SessionState
from flinknet.consumer.input_channel import PartitionLocation
from flinknet.consumer.input_gate import InputGate
from flinknet.errors import (
    PartitionNotFoundError,
    PartitionRequestTimeoutError,
    ProducerFailedError,
    RemoteError,
    RemoteProtocolError,
    RemoteTransportError,
)
from flinknet.partition.registry import wire_partition_id
from flinknet.partition.result_partition import ResultPartition
from flinknet.wire.codec import encode
from flinknet.wire.messages import MessageType
from tests.unit.arrangements import event_of, put
from tests.unit.connection.joined import Joined, kinds, messages, poll, poll_all
from tests.unit.tables import named, shown_in, way_to
from tests.unit.wire.received import partition_request

DATA = DataType.DATA_BUFFER_WITH_CLEAR_END
BARRIER = DataType.ALIGNED_CHECKPOINT_BARRIER
M = MessageType


S, E = SessionState, SessionEvent
LOSS = RemoteTransportError("the cable")


# -- the table -------------------------------------------------------------------------------------

HAPPENS: dict[SessionEvent, Callable[[Session], None]] = {
    E.END: Session.end,
    E.FAIL: lambda session: session.fail(ValueError("boom")),
    E.DETACH: lambda session: session.detach(LOSS),
}


@pytest.mark.parametrize("event", E)
@pytest.mark.parametrize("state", S)
def test_every_pair_of_state_and_event(state: SessionState, event: SessionEvent) -> None:
    joined = Joined()
    session = joined.producer.session
    for step in way_to(state, S.OPEN, TRANSITIONS):
        HAPPENS[step](session)
    assert session.state is state
    if (state, event) in TRANSITIONS:
        HAPPENS[event](session)
        assert session.state is TRANSITIONS[state, event]
    else:
        with pytest.raises(AssertionError, match="must not happen"):
            HAPPENS[event](session)
        assert session.state is state
    session.check_invariants()
    session.detach(LOSS)
    joined.close()


def test_the_docstring_shows_the_table() -> None:
    assert shown_in(module.__doc__) == named(TRANSITIONS)


@pytest.mark.parametrize("state", S)
def test_only_an_open_session_has_anything_to_say(state: SessionState) -> None:
    joined = Joined()
    session = joined.producer.session
    for step in way_to(state, S.OPEN, TRANSITIONS):
        HAPPENS[step](session)
    session.on_channel_failed(3, ValueError("boom"))
    assert bool(session.outbox) is (state is S.OPEN)
    session.detach(LOSS)
    joined.close()


def test_messages_without_a_link_wait_for_one() -> None:
    joined = Joined()
    registry, config = joined.producer.registry, joined.producer.config
    session = Session("the peer", registry, config)
    session.send_heartbeat()
    assert not session.is_attached
    told: list[bool] = []
    link = Link(session, config, lambda: told.append(True))
    assert session.is_attached
    assert kinds(b"".join(link.next_frames(100))) == [M.HEARTBEAT]
    session.send_heartbeat()
    assert told == [True]
    with pytest.raises(AssertionError, match="a second link"):
        Link(session, config, lambda: None)
    link.lost(LOSS)
    assert not session.is_attached
    with pytest.raises(AssertionError, match="a session that is LOST"):
        Link(session, config, lambda: None)
    joined.close()


def test_a_lost_link_ends_its_session_once() -> None:
    joined = Joined()
    registry, config = joined.producer.registry, joined.producer.config
    lost: list[Session] = []
    session = Session("the peer", registry, config, on_lost=lost.append)
    session.attach(lambda: None)
    session.detach(LOSS)
    session.detach(ConnectionError("again"))
    assert lost == [session]
    assert (session.state, session.failure) == (S.LOST, LOSS)
    joined.close()


def test_a_lost_session_ends_whole_although_a_subscriber_raises() -> None:
    """The error of one subscriber leaves no reader behind, and no session in the directory."""
    joined = Joined()
    both = joined.consumer
    joined.producer.make_partition()
    both.make_partition()
    gate = both.make_gate(joined.produced())
    theirs = joined.producer.make_gate(PartitionLocation("127.0.0.1:2", "p", 0))
    joined.pump()
    lost: list[Session] = []
    both.session._on_lost = lost.append
    assert len(both.session.readers) == 1

    def fail() -> None:
        raise RuntimeError("a subscriber failed")

    gate.availability.subscribe(fail)
    with pytest.raises(RuntimeError, match="a subscriber failed"):
        both.session.detach(LOSS)
    assert lost == [both.session]
    assert len(both.session.readers) == 0
    theirs.release()
    gate.release()
    joined.close()


def write_first(joined: Joined, content: bytes = b"\x01") -> None:
    [partition] = joined.producer.registry.partitions()
    write(partition, 0, content)


def write(partition: ResultPartition, index: int, content: bytes) -> None:
    put(partition, index, content)
    partition.subpartitions[index].seal_open()


def exchange(
    joined: Joined, subpartitions: int = 1, *, pump: bool = True
) -> tuple[ResultPartition, InputGate]:
    """Make a partition, and a gate that reads all of it."""
    partition = joined.producer.make_partition("p", subpartitions)
    gate = joined.consumer.make_gate(*[joined.produced(index) for index in range(subpartitions)])
    if pump:
        joined.pump()
        joined.to_consumer.clear()
        joined.to_producer.clear()
    return partition, gate


def buffers(data: bytes | bytearray) -> list[tuple[int, bytes]]:
    """Return channel and body of every data buffer in a stream."""
    return [
        (message[1], message[5])
        for message in messages(data)
        if message[0] is M.BUFFER_RESPONSE and message[4].is_buffer
    ]


def acknowledged(partition: ResultPartition) -> bool:
    return partition.all_data_processed.available


# -- requests --------------------------------------------------------------------------------------


def test_requests_carry_the_initial_credit_and_count_up() -> None:
    """F14, 1.6 rule 1."""
    joined = Joined(buffers_per_channel=3)
    _, gate = exchange(joined, 4, pump=False)
    sent = messages(joined.consumer.send())
    assert [(message[0], message[1], message[3:]) for message in sent] == [
        (M.PARTITION_REQUEST, index, (index, 3)) for index in range(4)
    ]
    gate.release()
    joined.close()


def test_a_partition_may_be_there_before_or_after_its_request() -> None:
    """E13."""
    joined = Joined()
    gate = joined.consumer.make_gate(joined.produced(partition_id="early"), joined.produced())
    early = joined.producer.make_partition("early")
    write(early, 0, b"\x01")
    joined.pump()
    assert poll_all(gate) == [(0, b"\x01")]
    assert joined.producer.registry.waiting == 1
    late = joined.producer.make_partition("p")
    write(late, 0, b"\x02")
    joined.pump()
    assert poll_all(gate) == [(1, b"\x02")]
    gate.release()
    joined.close()


def test_a_request_for_a_partition_that_never_comes_times_out() -> None:
    """E9, E13, F5."""
    joined = Joined()
    joined.producer.now = 100.0
    gate = joined.consumer.make_gate(joined.produced())
    joined.pump()
    deadline = joined.producer.registry.next_deadline()
    assert deadline is not None
    joined.producer.registry.expire(deadline - 0.001)
    joined.pump()
    assert gate.poll() is None
    joined.producer.registry.expire(deadline)
    joined.pump()
    with pytest.raises(PartitionRequestTimeoutError, match="not registered within 10 s"):
        gate.poll()
    gate.release()
    joined.close()


@pytest.mark.parametrize(
    ("location", "error", "text"),
    [
        (("p", 7), PartitionNotFoundError, "has 1 subpartitions, there is no subpartition 7"),
        (("released", 0), PartitionNotFoundError, "released"),
        (("failed", 0), ProducerFailedError, "the producer failed: ValueError: boom"),
        (("taken", 0), RemoteError, "already has, or has had, a reader"),
    ],
)
def test_a_request_that_cannot_be_met_fails_its_channel_only(
    location: tuple[str, int], error: type[RemoteError], text: str
) -> None:
    """F5, F10."""
    joined = Joined()
    partition = joined.producer.make_partition()
    joined.producer.make_partition("released").release()
    joined.producer.make_partition("failed").fail(ValueError("boom"))
    joined.producer.make_partition("taken")
    taken = joined.consumer.make_gate(joined.produced(partition_id="taken"))
    gate = joined.consumer.make_gate(joined.produced())
    failing = joined.consumer.make_gate(PartitionLocation(joined.producer.address, *location))
    joined.pump()
    with pytest.raises(error, match=text) as raised:
        failing.poll()
    assert type(raised.value) is error
    write(partition, 0, b"\x01")
    joined.pump()
    assert poll_all(gate) == [(0, b"\x01")]
    for one in (gate, failing, taken):
        one.release()
    joined.close()


def test_a_cancelled_request_that_waits_is_forgotten() -> None:
    """E13, E15, F9."""
    joined = Joined()
    gate = joined.consumer.make_gate(joined.produced())
    joined.pump()
    gate.release()
    joined.pump()
    assert joined.producer.registry.waiting == 0
    partition = joined.producer.make_partition()
    assert not partition.cancelled
    joined.close()


def test_both_directions_share_the_numbers_and_nothing_else() -> None:
    joined = Joined()
    there = joined.producer.make_partition("there")
    back = joined.consumer.make_partition("back")
    gate = joined.consumer.make_gate(joined.produced(partition_id="there"))
    other = joined.producer.make_gate(PartitionLocation(joined.consumer.address, "back", 0))
    write(there, 0, b"\x01")
    write(back, 0, b"\x02")
    joined.pump()
    assert (poll_all(gate), poll_all(other)) == ([(0, b"\x01")], [(0, b"\x02")])
    assert buffers(joined.to_consumer) == [(0, b"\x01")]
    assert buffers(joined.to_producer) == [(0, b"\x02")]
    gate.release()
    other.release()
    joined.close()


# -- order and fairness ----------------------------------------------------------------------------


def test_ready_channels_take_turns_of_one_buffer() -> None:
    """Census row 34, for full buffers."""
    joined = Joined(buffers_per_channel=3)
    partition, gate = exchange(joined, 3)
    for number in range(3):
        for index in range(3):
            write(partition, index, bytes([number]) * 64)
    sent = buffers(joined.producer.send())
    assert sent == [(index, bytes([number]) * 64) for number in range(3) for index in range(3)]
    gate.release()
    joined.close()


def test_a_channel_that_becomes_ready_waits_for_its_turn() -> None:
    """Invariant L2: it is served after the channels that were ready before it."""
    joined = Joined(buffers_per_channel=4)
    partition, gate = exchange(joined, 2)
    for number in range(3):
        write(partition, 0, bytes([number]) * 64)
    assert buffers(joined.producer.send(budget_bytes=1)) == [(0, b"\x00" * 64)]
    write(partition, 1, b"\x09")
    assert buffers(joined.producer.send(budget_bytes=200)) == [
        (0, b"\x01" * 64),
        (1, b"\x09"),
        (0, b"\x02" * 64),
    ]
    gate.release()
    joined.close()


def test_the_budget_is_exceeded_by_one_buffer_at_most() -> None:
    joined = Joined(buffers_per_channel=20)
    partition, gate = exchange(joined)
    for _ in range(9):
        write(partition, 0, bytes(60))
    sizes = []
    while joined.producer.link.has_output:
        sizes.append(len(joined.producer.send(budget_bytes=200)))
    assert sizes == [3 * 98, 3 * 98, 3 * 98]
    gate.release()
    joined.close()


def test_one_write_has_no_more_pieces_than_a_system_call_takes() -> None:
    """IOV_MAX is 1024; the remaining pieces follow with the next write."""
    joined = Joined(network_memory_bytes=64 * 4000)
    partition, gate = exchange(joined, 501)
    for index in range(501):
        write(partition, index, b"\x01")
    pieces = []
    while joined.producer.link.has_output:
        pieces.append(len(joined.producer.link.next_frames(2**20)))
        joined.producer.link.frames_written()
    assert pieces == [1000, 2]
    gate.release()
    joined.close()


def test_messages_without_body_go_ahead_of_buffers() -> None:
    joined = Joined()
    partition, gate = exchange(joined)
    back = joined.producer.make_gate(PartitionLocation(joined.consumer.address, "back", 0))
    write(partition, 0, b"\x01")
    assert kinds(joined.producer.send()) == [M.PARTITION_REQUEST, M.BUFFER_RESPONSE]
    gate.release()
    back.release()
    joined.close()


@settings(max_examples=40)
@given(st.integers(1, 90), st.lists(st.binary(min_size=1, max_size=64), max_size=30))
def test_pieces_do_not_matter(piece: int, written: list[bytes]) -> None:
    """F2, F3: both complete streams, cut anywhere."""
    joined = Joined()
    partition, gate = exchange(joined, 3)
    taken = {0: b"", 1: b"", 2: b""}
    expected = dict(taken)

    def take() -> None:
        joined.pump(piece)
        for channel, body in poll_all(gate):
            assert isinstance(body, bytes)
            taken[channel] += body

    for number, content in enumerate(written):
        while not partition.availability.available:
            take()
        write(partition, number % 3, content)
        expected[number % 3] += content
    while taken != expected:
        take()
    gate.release()
    joined.close()


# -- credit ----------------------------------------------------------------------------------------


def test_without_credit_nothing_is_sent_and_one_credit_sends_one() -> None:
    """E2: the reader is queued only once, and leaves the queue with data left."""
    joined = Joined(
        buffers_per_channel=1, floating_buffers_per_gate=0, buffers_per_subpartition_max=20
    )
    partition = joined.producer.make_partition()
    held = joined.consumer.make_gate(joined.produced())
    joined.pump()
    for number in range(5):
        write(partition, 0, bytes([number]))
    joined.pump()
    assert buffers(joined.to_consumer) == [(0, b"\x00")]
    assert joined.producer.link.statistics().readers_available == 0
    for number in range(1, 4):
        assert poll(held) == (0, bytes([number - 1]))
        joined.pump()
        assert len(buffers(joined.to_consumer)) == number + 1
    held.release()
    joined.close()


def test_three_credits_send_three_of_ten_buffers() -> None:
    """E2: with 10 buffers and no credit the reader is not queued.

    Each AddCredit of 1 queues it, only once. After 3 responses it leaves the queue with 7 buffers
    left.
    """
    joined = Joined(
        buffers_per_channel=0, floating_buffers_per_gate=8, buffers_per_subpartition_max=20
    )
    partition, gate = exchange(joined)
    producer = joined.producer.link
    for number in range(10):
        builder = partition.request_builder(0)
        assert builder is not None
        builder.append(memoryview(bytes([number])))
        partition.subpartitions[0].seal_open()
    assert producer.statistics().readers_available == 0
    assert buffers(joined.producer.send()) == []
    for _ in range(3):
        joined.producer.receive(encode(M.ADD_CREDIT, 0, 1))
        assert producer.statistics().readers_available == 1
    assert [body for _, body in buffers(joined.producer.send())] == [b"\x00", b"\x01", b"\x02"]
    assert producer.statistics().readers_available == 0
    assert partition.statistics().subpartitions[0].backlog == 7
    gate.release()
    joined.close()


def test_credit_that_gathers_while_nothing_can_be_written_becomes_one_message() -> None:
    """F8, 1.6 rule 6: each channel gets one AddCredit with the total, in the order in which they
    needed it."""
    joined = Joined(buffers_per_channel=3, floating_buffers_per_gate=0)
    partition, gate = exchange(joined, 2)
    for number in range(3):
        for index in (1, 0):
            write(partition, index, bytes([number]))
    joined.consumer.receive(joined.producer.send())
    joined.consumer.send()
    assert [index for index, _ in poll_all(gate)] == [1, 0, 1, 0, 1, 0]
    sent = [message for message in messages(joined.consumer.send()) if message[0] is M.ADD_CREDIT]
    assert [(channel, credit) for _, channel, credit in sent] == [(1, 3), (0, 3)]
    assert joined.consumer.link.statistics().credit_messages_out == 2
    assert not joined.consumer.link.has_output
    gate.release()
    joined.close()


def test_credit_that_is_not_urgent_is_sent_with_other_output() -> None:
    """F8: such credit does not cause a write of its own.

    As part of another write it costs next to nothing.
    """
    joined = Joined(buffers_per_channel=4, floating_buffers_per_gate=0)
    partition, gate = exchange(joined, 2)
    write(partition, 0, b"\x01")
    joined.consumer.receive(joined.producer.send())
    assert poll_all(gate) == [(0, b"\x01")]
    assert not joined.consumer.link.has_output
    gate.channels[1].announce_buffer_size(32)
    assert messages(joined.consumer.send()) == [
        (M.ADD_CREDIT, 0, 1),
        (M.NEW_BUFFER_SIZE, 1, 32),
    ]
    assert not joined.consumer.link.has_output
    gate.release()
    joined.close()


@pytest.mark.parametrize(("limit", "told"), [(1, 1), (4, 2), (5, 3)])
def test_half_of_the_events_a_channel_may_hold_are_told_at_once(limit: int, told: int) -> None:
    """The producer has more events and sends as many again."""
    joined = Joined(wire=WireLimits(events_per_channel_max=limit))
    partition, gate = exchange(joined)
    for _ in range(2 * limit):
        partition.subpartitions[0].add_event(event_of())
    joined.pump()
    assert kinds(joined.to_consumer) == [M.BUFFER_RESPONSE] * limit
    joined.to_consumer.clear()
    for _ in range(told - 1):
        assert poll(gate) == (0, DataType.EVENT_BUFFER)
    assert not joined.consumer.link.has_output
    assert poll(gate) == (0, DataType.EVENT_BUFFER)
    joined.pump()
    assert messages(joined.to_producer) == [(M.ADD_EVENT_CREDIT, 0, told)]
    assert kinds(joined.to_consumer) == [M.BUFFER_RESPONSE] * told
    gate.release()
    joined.close()


def test_no_credit_is_announced_for_a_released_channel() -> None:
    """F8: not even the credit that had accumulated before."""
    joined = Joined()
    partition, gate = exchange(joined)
    write(partition, 0, b"\x01")
    joined.consumer.receive(joined.producer.send())
    assert poll(gate) == (0, b"\x01")
    gate.release()
    assert kinds(joined.consumer.send()) == [M.CANCEL_PARTITION_REQUEST]
    joined.close()


def test_credit_comes_back_when_the_buffer_is_processed_not_when_it_arrives() -> None:
    """1.6 rule 5."""
    joined = Joined(buffers_per_channel=1, floating_buffers_per_gate=0)
    partition, gate = exchange(joined)
    write(partition, 0, b"\x01")
    joined.consumer.receive(joined.producer.send())
    polled = gate.poll()
    assert polled is not None
    assert not joined.consumer.link.has_output
    polled[1].recycle()
    assert messages(joined.consumer.send()) == [(M.ADD_CREDIT, 0, 1)]
    gate.release()
    joined.close()


def test_a_backlog_gets_the_channel_floating_buffers() -> None:
    """1.6 rule 3."""
    joined = Joined(buffers_per_channel=1, floating_buffers_per_gate=4)
    partition, gate = exchange(joined)
    for number in range(4):
        write(partition, 0, bytes([number]))
    first = joined.producer.send()
    assert messages(first)[0][3] == 3
    joined.consumer.receive(first)
    assert messages(joined.consumer.send()) == [(M.ADD_CREDIT, 0, 4)]
    gate.release()
    joined.close()


def test_an_empty_buffer_takes_a_buffer_and_gives_it_back() -> None:
    """F2, F7, 1.6 rule 9."""
    joined = Joined(buffers_per_channel=1, floating_buffers_per_gate=0)
    _, gate = exchange(joined)
    frame = bytes.fromhex(
        "9800 ce00000000 ce00000000 ce00000000 08 ce00000000 ce00000000 ce00000000 c600000000"
    )
    joined.consumer.receive(frame)
    assert poll_all(gate) == [(0, b"")]
    assert messages(joined.consumer.send()) == [(M.ADD_CREDIT, 0, 1)]
    gate.release()
    joined.close()


def test_a_channel_without_exclusive_buffers_lives_on_announcements() -> None:
    """E4, 1.6 rule 7."""
    joined = Joined(buffers_per_channel=0, floating_buffers_per_gate=1)
    partition, gate = exchange(joined)
    for number in range(3):
        write(partition, 0, bytes([number]))
    assert messages(joined.producer.send()) == [(M.BACKLOG_ANNOUNCEMENT, 0, 1)]
    taken = []
    joined.consumer.receive(bytes.fromhex("9309 ce00000000 ce00000001"))
    for _ in range(3):
        joined.pump()
        taken += poll_all(gate)
    assert taken == [(0, b"\x00"), (0, b"\x01"), (0, b"\x02")]
    gate.release()
    joined.close()


def test_a_resume_lets_the_data_behind_a_barrier_pass() -> None:
    """E3, E12, F14."""
    joined = Joined(buffers_per_channel=2)
    partition, gate = exchange(joined)
    partition.subpartitions[0].add_event(event_of(BARRIER))
    write(partition, 0, b"\x01")
    joined.pump()
    assert poll_all(gate) == [(0, BARRIER)]
    gate.remote_channels[0].resume_consumption()
    joined.pump()
    assert M.RESUME_CONSUMPTION in kinds(joined.to_producer)
    assert poll_all(gate) == [(0, b"\x01")]
    gate.release()
    joined.close()


@pytest.mark.parametrize("exclusive", [0, 1])
def test_a_barrier_without_exclusive_buffers_starts_credit_anew(exclusive: int) -> None:
    """E11, 1.6 rule 8: both sides forget the credit and agree afterwards."""
    joined = Joined(buffers_per_channel=exclusive, floating_buffers_per_gate=3)
    partition, gate = exchange(joined)
    for number in range(2):
        write(partition, 0, bytes([number]))
    partition.subpartitions[0].add_event(event_of(BARRIER))
    joined.pump()
    taken = poll_all(gate)
    joined.pump()
    taken += poll_all(gate)
    assert taken == [(0, b"\x00"), (0, b"\x01"), (0, BARRIER)]
    channel = gate.remote_channels[0]
    if exclusive == 0:
        assert channel.statistics().floating_free == 0
    write(partition, 0, b"\x02")
    channel.resume_consumption()
    joined.pump()
    [reader] = joined.producer.link.statistics().readers
    counts = channel.statistics()
    assert reader.credit + channel.credit.unannounced == (
        counts.exclusive_free + counts.floating_free
    )
    assert poll_all(gate) == [(0, b"\x02")]
    gate.release()
    joined.close()


# -- other messages --------------------------------------------------------------------------------


def test_a_new_buffer_size_reaches_the_partition() -> None:
    """E6, E12, F11."""
    joined = Joined()
    partition = joined.producer.make_partition()
    gate = joined.consumer.make_gate(joined.produced())
    joined.producer.receive(joined.consumer.send())
    joined.producer.receive(bytes.fromhex("930a ce00000000 ce00000014"))
    assert partition.subpartitions[0].buffer_bytes == 20
    gate.release()
    joined.close()


def test_of_several_buffer_sizes_the_last_is_sent() -> None:
    """F11: a newer size replaces a queued one; for a closed channel none is sent."""
    joined = Joined()
    partition, gate = exchange(joined, 2)
    for size in (30, 20):
        for channel in gate.channels:
            channel.announce_buffer_size(size)
    gate.channels[1].release()
    sent = joined.consumer.send()
    assert messages(sent) == [(M.CANCEL_PARTITION_REQUEST, 1), (M.NEW_BUFFER_SIZE, 0, 20)]
    joined.producer.receive(sent)
    assert [part.buffer_bytes for part in partition.subpartitions] == [20, 64]
    joined.consumer.lose(ConnectionError("lost"))
    gate.channels[0].announce_buffer_size(30)
    assert not joined.consumer.link.has_output
    gate.release()
    joined.close()


def test_a_new_buffer_size_before_there_is_a_partition_is_kept_for_it() -> None:
    """E12, which Flink ignores: a consumer sends a size only when it changes, so it would be lost.

    The last size counts.
    """
    joined = Joined()
    gate = joined.consumer.make_gate(joined.produced())
    joined.producer.receive(joined.consumer.send())
    joined.producer.receive(bytes.fromhex("930a ce00000000 ce0000001e"))
    joined.producer.receive(bytes.fromhex("930a ce00000000 ce00000014"))
    assert joined.producer.make_partition().subpartitions[0].buffer_bytes == 20
    gate.release()
    joined.close()


def test_a_whole_partition_is_read_and_acknowledged() -> None:
    """Row 19: end of data, acknowledgement, end of partition, cancel."""
    joined = Joined()
    partition, gate = exchange(joined)
    write(partition, 0, b"\x01")
    partition.notify_end_of_data()
    joined.pump()
    assert poll_all(gate) == [(0, b"\x01"), (0, DataType.END_OF_DATA)]
    assert not acknowledged(partition)
    gate.acknowledge(0)
    joined.pump()
    assert acknowledged(partition)
    partition.finish()
    joined.pump()
    assert poll_all(gate) == [(0, DataType.END_OF_PARTITION)]
    joined.pump()
    assert gate.finished
    assert partition.released
    assert not joined.producer.session.in_use
    assert not joined.consumer.session.in_use
    gate.release()
    joined.close()


def test_a_producers_failure_reaches_its_consumers_and_no_one_else() -> None:
    """F5, F10."""
    joined = Joined()
    partition = joined.producer.make_partition("p", 2)
    other = joined.producer.make_partition("other")
    gates = [joined.consumer.make_gate(joined.produced(index)) for index in range(2)]
    unharmed = joined.consumer.make_gate(joined.produced(partition_id="other"))
    joined.pump()
    write(partition, 0, b"\x01")
    write(other, 0, b"\x02")
    partition.fail(ValueError("boom"))
    joined.pump()
    for gate in gates:
        with pytest.raises(ProducerFailedError, match=r": the producer failed: ValueError: boom$"):
            gate.poll()
        gate.release()
    assert poll_all(unharmed) == [(0, b"\x02")]
    unharmed.release()
    joined.close()


def test_an_unknown_error_code_is_an_error() -> None:
    joined = Joined()
    _, gate = exchange(joined)
    joined.consumer.receive(bytes.fromhex("9401 ce00000000 7f da0003") + b"why")
    with pytest.raises(RemoteError, match=r": why$"):
        gate.poll()
    gate.release()
    joined.close()


# -- cancelling ------------------------------------------------------------------------------------


@pytest.mark.parametrize("queued", [False, True])
def test_a_cancel_releases_the_reader_and_keeps_the_partition(queued: bool) -> None:
    """E5."""
    joined = Joined()
    partition, gate = exchange(joined, 2)
    if queued:
        write(partition, 0, b"\x01")
    gate.channels[0].release()
    joined.producer.receive(joined.consumer.send())
    statistics = joined.producer.link.statistics()
    assert (len(statistics.readers), statistics.readers_available) == (1, 0)
    assert not partition.released
    write(partition, 1, b"\x02")
    joined.pump()
    assert poll_all(gate) == [(1, b"\x02")]
    gate.release()
    joined.close()


def test_messages_in_transit_to_a_cancelled_channel_are_skipped() -> None:
    """E15, F2, F6: this applies to data, backlogs and errors; the messages behind them are
    intact."""
    joined = Joined()
    partition, gate = exchange(joined, 2)
    write(partition, 0, b"\x01")
    write(partition, 1, b"\x02")
    on_its_way = joined.producer.send()
    on_its_way += bytes.fromhex("9309 ce00000000 ce00000001 9401 ce00000000 06 da0000")
    gate.channels[0].release()
    joined.consumer.receive(on_its_way)
    assert poll_all(gate) == [(1, b"\x02")]
    statistics = joined.consumer.link.statistics()
    assert (statistics.buffers_dropped, statistics.messages_dropped) == (1, 2)
    joined.pump()
    assert kinds(joined.to_producer).count(M.CANCEL_PARTITION_REQUEST) == 1
    gate.release()
    joined.close()


@pytest.mark.parametrize("cut", [1, 37, 38, 39, 45])
def test_a_channel_cancelled_in_the_middle_of_a_frame_gets_its_buffer_back(cut: int) -> None:
    """F6: the frame is completed or skipped, and its buffer is returned."""
    joined = Joined()
    partition, gate = exchange(joined)
    write(partition, 0, bytes(range(40)))
    frame = joined.producer.send()
    joined.consumer.receive(frame[:cut])
    gate.release()
    joined.consumer.receive(frame[cut:])
    joined.pump()
    joined.close()


def test_cancelling_twice_sends_one_cancel() -> None:
    """E15, F9."""
    joined = Joined()
    _, gate = exchange(joined)
    gate.channels[0].release()
    gate.channels[0].release()
    gate.release()
    assert kinds(joined.consumer.send()) == [M.CANCEL_PARTITION_REQUEST]
    joined.close()


# -- buffers in the socket -------------------------------------------------------------------------


def test_buffers_come_back_when_the_socket_has_taken_them_and_once() -> None:
    """E8."""
    joined = Joined()
    partition, gate = exchange(joined)
    write(partition, 0, b"\x01")
    frames = joined.producer.link.next_frames(2**20)
    in_use = partition.statistics().pool.in_use
    assert (in_use, joined.producer.link.statistics().buffers_in_flight) == (1, 1)
    del frames
    joined.producer.link.frames_written()
    assert partition.statistics().pool.in_use == 0
    joined.producer.link.frames_written()
    assert partition.statistics().pool.in_use == 0
    gate.release()
    joined.close()


def test_a_buffer_that_the_socket_still_looks_at_gets_new_memory() -> None:
    """A transport may report that all bytes are written before it releases its views."""
    joined = Joined()
    partition, gate = exchange(joined)
    write(partition, 0, b"\x01\x02\x03")
    frames = joined.producer.link.next_frames(2**20)
    still = [memoryview(frame) for frame in frames]
    del frames
    joined.producer.link.frames_written()
    for _ in range(partition.statistics().pool.size):
        if partition.availability.available:
            write(partition, 0, b"\xff" * 64)
    assert bytes(still[-1]) == b"\x01\x02\x03"
    still.clear()
    gate.release()
    joined.close()


def test_buffers_of_a_lost_socket_are_abandoned() -> None:
    """The socket may hold the memory for any time, so nothing else is written to it."""
    joined = Joined()
    partition, gate = exchange(joined)
    write(partition, 0, b"\x01\x02\x03")
    frames = joined.producer.link.next_frames(2**20)
    joined.producer.lose(RemoteTransportError("reset"))
    other = joined.producer.make_partition("other")
    while other.availability.available:
        put(other, 0, b"\xff" * 64)
    assert bytes(frames[-1]) == b"\x01\x02\x03"
    gate.release()
    joined.close()
    assert bytes(frames[-1]) == b"\x01\x02\x03"


def test_a_broadcast_buffer_comes_back_with_its_last_reader() -> None:
    """E8: two channels of one connection send the same memory."""
    joined = Joined()
    partition, gate = exchange(joined, 2)
    builder = partition.request_broadcast_builder()
    assert builder is not None
    builder.append(memoryview(b"\x01"))
    partition.seal_all()
    joined.producer.send(budget_bytes=1)
    assert partition.statistics().pool.in_use == 1
    joined.producer.send(budget_bytes=1)
    assert partition.statistics().pool.in_use == 0
    gate.release()
    joined.close()


def test_read_only_memory_is_sent_as_well() -> None:
    """E8: events are bytes, not segments."""
    joined = Joined()
    partition, gate = exchange(joined)
    partition.subpartitions[0].add_event(Buffer.event(DataType.EVENT_BUFFER, b"\x90"))
    joined.pump()
    assert poll_all(gate) == [(0, DataType.EVENT_BUFFER)]
    gate.release()
    joined.close()


def test_statistics_count_what_went_through() -> None:
    joined = Joined()
    partition, gate = exchange(joined, pump=False)
    write(partition, 0, b"\x01\x02")
    joined.pump()
    out, into = joined.producer.link.statistics(), joined.consumer.link.statistics()
    assert (out.buffers_out, into.buffers_in) == (1, 1)
    assert out.bytes_out == into.bytes_in == len(joined.to_consumer)
    assert into.bytes_out == out.bytes_in == len(joined.to_producer)
    assert (out.peer, into.peer) == ("the consumer", "the producer")
    gate.release()
    joined.close()


# -- loss ------------------------------------------------------------------------------------------


def test_a_loss_reaches_every_channel_and_every_reader() -> None:
    """E14, F12: in both directions and in any state."""
    joined = Joined()
    partition = joined.producer.make_partition("p", 3)
    waiting = joined.consumer.make_gate(joined.produced(partition_id="not there"))
    gates = [joined.consumer.make_gate(joined.produced(index)) for index in range(3)]
    joined.pump()
    put(partition, 0, b"\x01")
    partition.flush(0)
    for worker in (joined.producer, joined.consumer):
        worker.lose(LOSS)
    for gate in (waiting, *gates):
        with pytest.raises(RemoteTransportError) as raised:
            gate.poll()
        assert str(raised.value) == f"{gate.channels[0]}: the cable"
        gate.release()
    assert partition.lost is LOSS
    assert joined.producer.registry.waiting == 0
    joined.close()


def test_the_first_cause_stays() -> None:
    joined = Joined()
    gate = joined.consumer.make_gate(joined.produced())
    joined.consumer.session.fail(RemoteProtocolError("first"))
    joined.consumer.lose(LOSS)
    joined.consumer.lose(RemoteTransportError("third"))
    with pytest.raises(RemoteProtocolError, match="first"):
        gate.poll()
    gate.release()
    joined.close()


def test_an_error_drops_the_received_data() -> None:
    """The error precedes data, as a failed task must not go on processing."""
    joined = Joined()
    joined.producer.make_partition()
    gate = joined.consumer.make_gate(joined.produced())
    joined.pump()
    write_first(joined)
    joined.pump()
    joined.consumer.lose(LOSS)
    with pytest.raises(RemoteTransportError):
        gate.poll()
    gate.release()
    joined.close()


def test_a_channel_that_has_everything_is_not_harmed() -> None:
    """The producer is done and leaves while the consumer is still busy."""
    joined = Joined()
    partition = joined.producer.make_partition()
    gate = joined.consumer.make_gate(joined.produced())
    joined.pump()
    write_first(joined)
    partition.notify_end_of_data()
    joined.pump()
    assert [what for _, what in poll_all(gate)] == [b"\x01", DataType.END_OF_DATA]
    gate.acknowledge(0)
    joined.pump()
    partition.finish()
    joined.pump()
    joined.consumer.lose(LOSS)
    assert poll_all(gate) == [(0, DataType.END_OF_PARTITION)]
    assert gate.finished
    gate.release()
    joined.close()


def test_after_a_loss_nothing_is_sent_and_nothing_is_promised() -> None:
    joined = Joined()
    joined.producer.make_partition()
    gate = joined.consumer.make_gate(joined.produced())
    joined.pump()
    write_first(joined)
    joined.pump()
    polled = gate.poll()
    assert polled is not None
    joined.consumer.lose(LOSS)
    polled[1].recycle()
    gate.release()
    late = joined.consumer.make_gate(joined.produced(partition_id="late"))
    with pytest.raises(RemoteTransportError):
        late.poll()
    late.release()
    assert not joined.consumer.link.has_output
    assert joined.consumer.send() == b""
    joined.close()


# -- a peer that does not read ---------------------------------------------------------------------


def test_messages_for_a_peer_that_does_not_read_are_limited() -> None:
    """Reliability 2 and 7: this covers answers that a peer provokes and never reads."""
    told = []
    joined = Joined(
        wire=WireLimits(control_bytes_max=64 * 1024), on_output=lambda: told.append(True)
    )
    joined.producer.make_partition("gone").release()
    link, channel = joined.producer.link, 0
    while link.session.failure is None:
        told.clear()
        joined.producer.receive(partition_request(channel, wire_partition_id("gone")))
        channel += 1
    assert told, "the shell must hear of the failure"
    assert isinstance(link.session.failure, RemoteTransportError)
    assert "the consumer does not read" in str(link.session.failure)
    queued = link.statistics().control_bytes_queued
    assert 64 * 1024 < queued < 65 * 1024
    for number in range(channel, channel + 100):
        joined.producer.receive(partition_request(number, wire_partition_id("gone")))
    assert link.statistics().control_bytes_queued == queued
    joined.close()


def test_messages_that_are_written_no_longer_count() -> None:
    joined = Joined(wire=WireLimits(control_bytes_max=4096))
    for round_number in range(10):
        gates = [joined.consumer.make_gate(joined.produced()) for _ in range(8)]
        for gate in gates:
            gate.release()
        joined.pump()
        assert joined.consumer.link.statistics().control_bytes_queued == 0
        assert joined.consumer.session.failure is None, f"in round {round_number}"
    joined.close()


# -- log -------------------------------------------------------------------------------------------


def test_requests_and_cancels_are_logged_on_both_sides(caplog: pytest.LogCaptureFixture) -> None:
    joined = Joined()
    caplog.set_level(logging.DEBUG, "flinknet.connection")
    partition, gate = exchange(joined)
    here = f"channel 0 (p[0] at {joined.producer.address}) of gate gate"
    assert caplog.messages == [
        f"the producer: channel 0 requested for {here}",
        "channel 0 of the consumer: subpartition 0 requested",
        "channel 0 of the consumer: reader WAITING -> READING",
    ]
    caplog.clear()
    gate.release()
    joined.pump()
    assert caplog.messages == [
        f"the producer: channel 0 cancelled, which was {here}",
        "channel 0 of the consumer: reader READING -> RELEASED",
    ]
    partition.release()
    joined.close()


def test_the_failure_of_a_channel_is_logged_on_both_sides(caplog: pytest.LogCaptureFixture) -> None:
    joined = Joined()
    partition, gate = exchange(joined)
    caplog.set_level(logging.DEBUG, "flinknet.connection")
    partition.fail(ValueError("boom\x07"))
    joined.pump()
    assert caplog.messages == [
        "channel 0 of the consumer: reader READING -> DONE",
        "the consumer: channel 0 failed: the producer failed: ValueError: boom\\x07",
        (
            "the producer: channel 0 failed at the producer: the producer failed: ValueError: "
            "boom\\x07"
        ),
    ]
    gate.release()
    joined.close()


def test_the_life_of_a_session_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    joined = Joined()
    caplog.set_level(logging.DEBUG, "flinknet.connection")
    for happens in HAPPENS.values():
        happens(joined.producer.session)
    assert caplog.messages == [
        "the consumer: session OPEN -> ENDED",
        "the consumer: session ENDED -> FAILED",
        "the consumer: session FAILED -> LOST",
    ]
    joined.close()


# -- messages without an addressee -----------------------------------------------------------------


def test_a_channel_that_the_session_has_forgotten_has_nothing_to_say() -> None:
    joined = Joined()
    _, gate = exchange(joined)
    [channel] = gate.remote_channels
    session = joined.consumer.session
    gate.release()
    joined.pump()
    session.offer_credit(channel)
    session.notify_credit_available(channel)
    session.announce_buffer_size(channel, 32)
    session.resume_consumption(channel)
    session.resume_reading(channel)
    session.close_channel(channel)
    assert not session.outbox
    assert joined.consumer.send() == b""
    joined.producer.registry.partitions()[0].release()
    joined.close()


def test_a_heartbeat_is_a_message() -> None:
    joined = Joined()
    joined.producer.session.send_heartbeat()
    assert kinds(joined.producer.send()) == [M.HEARTBEAT]
    joined.close()


def test_the_sessions_of_a_worker_share_its_quota() -> None:
    joined = Joined()
    registry, config = joined.producer.registry, joined.producer.config
    quota, unmet = ReaderQuota(1), UnmetRequestPacer(config.wire.unmet_requests_per_second_max)
    sessions = [Session(name, registry, config, quota, unmet) for name in ("one", "other")]
    for session in sessions:
        session.on_message(M.PARTITION_REQUEST, (0, bytes(16), 0, 1), 0.0)
    assert quota.taken == 1
    assert [bool(session.outbox) for session in sessions] == [False, True]
    for session in sessions:
        session.detach(LOSS)
    assert quota.taken == 0
    joined.close()


def test_a_buffer_that_has_come_lets_a_stalled_session_go_on() -> None:
    told: list[bool] = []
    joined = Joined(
        flow_control="off",
        buffers_per_channel=1,
        floating_buffers_per_gate=0,
        on_output=lambda: told.append(True),
    )
    partition, gate = exchange(joined)
    write(partition, 0, b"1")
    write(partition, 0, b"2")
    joined.pump()
    told.clear()
    polled = gate.poll()
    assert polled is not None
    polled[1].recycle()
    assert told == [True]
    assert joined.consumer.session.channels.can_resume
    gate.release()
    joined.close()
