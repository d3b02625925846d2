"""The link: its state table, goodbye, loss in the middle of a frame, and signs of life."""

from __future__ import annotations

import logging

import pytest

from flinknet.buffer.buffer import DataType
from flinknet.config import WireLimits
from flinknet.connection import link as module
from flinknet.connection.link import TRANSITIONS, LinkEvent, LinkState
from flinknet.connection.peer_limits import UNMET_REQUESTS_AT_ONCE, UnmetRequestPacer
from flinknet.errors import (
    CorruptedDataError,
    ErrorCode,
    RemoteError,
    RemoteProtocolError,
    RemoteTransportError,
)
from flinknet.partition.registry import wire_partition_id
from flinknet.partition.result_partition import ResultPartition
from flinknet.wire.messages import CONNECTION_CHANNEL, MessageType
from tests.unit.arrangements import make_config, put
from tests.unit.connection.joined import Joined, Worker, kinds, messages, poll_all
from tests.unit.tables import named, shown_in, way_to
from tests.unit.wire.received import (
    HEARTBEAT,
    about,
    buffer_response,
    error_response,
    golden_messages,
    partition_request,
)

M = MessageType
LOSS = RemoteTransportError("the cable")


S, E = LinkState, LinkEvent
CLOSE_REQUEST = bytes([0x91, M.CLOSE_REQUEST])


# -- the table -------------------------------------------------------------------------------------


def happens(joined: Joined, event: LinkEvent) -> None:
    """Cause an event at the producer's link, by an action of its owner or its peer."""
    worker = joined.producer
    match event:
        case E.CLOSE:
            worker.link.close()
        case E.SEND_CLOSE:
            assert kinds(worker.send()) == [M.CLOSE_REQUEST]
        case E.RECEIVE_CLOSE:
            worker.receive(CLOSE_REQUEST)
        case E.REJECT:
            hears_why = worker.link.state in (S.OPEN, S.CLOSING)
            assert bool(worker.link.reject(RemoteProtocolError("the peer lies"))) is hears_why
        case E.LOSE:
            worker.lose(LOSS)


@pytest.mark.parametrize("event", E)
@pytest.mark.parametrize("state", S)
def test_every_pair_of_state_and_event(state: LinkState, event: LinkEvent) -> None:
    joined = Joined()
    link = joined.producer.link
    for step in way_to(state, S.OPEN, TRANSITIONS):
        happens(joined, step)
    assert link.state is state
    if (state, event) in TRANSITIONS:
        happens(joined, event)
        assert link.state is TRANSITIONS[state, event]
    else:
        with pytest.raises(AssertionError, match="must not happen"):
            link._become(event)
        assert link.state is state
    joined.close()


def test_the_docstring_shows_the_table() -> None:
    assert shown_in(module.__doc__) == named(TRANSITIONS)


@pytest.mark.parametrize("state", S)
def test_states_in_which_a_side_may_send(state: LinkState) -> None:
    """Queued messages are sent as long as this side has not sent its goodbye."""
    joined = Joined()
    for step in way_to(state, S.OPEN, TRANSITIONS):
        happens(joined, step)
    link = joined.producer.link
    joined.producer.make_partition("gone").release()
    if state in (S.OPEN, S.CLOSING, S.CLOSE_SENT):
        joined.producer.receive(partition_request(0, wire_partition_id("gone")))
    leaves = [M.CLOSE_REQUEST] if state in (S.CLOSING, S.CLOSE_RECEIVED) else []
    answers = [M.ERROR_RESPONSE] if state in (S.OPEN, S.CLOSING) else []
    assert link.has_output is bool(answers + leaves)
    assert kinds(joined.producer.send()) == answers + leaves
    agreed = (S.CLOSING, S.CLOSE_SENT, S.CLOSE_RECEIVED, S.CLOSED)
    assert link.ends_in_agreement is (state in agreed)
    joined.close()


def test_nothing_is_sent_behind_a_goodbye() -> None:
    """The socket has not taken the goodbye yet when a reader gets more data."""
    joined = arranged()
    joined.producer.link.close()
    assert kinds(joined.producer.send()) == [M.CLOSE_REQUEST]
    write(joined)
    assert not joined.producer.link.has_output
    assert joined.producer.send() == b""
    joined.close()


def arranged() -> Joined:
    """Join a partition to a gate of one channel, with credit for all data of the test."""
    joined = Joined(
        buffers_per_channel=50, buffers_per_subpartition_max=60, network_memory_bytes=200 * 64
    )
    joined.producer.make_partition()
    joined.gates.append(joined.consumer.make_gate(joined.produced()))
    joined.pump()
    return joined


def write(joined: Joined, content: bytes = b"\x01") -> None:
    [partition] = joined.producer.registry.partitions()
    put(partition, 0, content)
    partition.subpartitions[0].seal_open()


# -- goodbye ---------------------------------------------------------------------------------------


def test_goodbye_is_the_last_message() -> None:
    """It follows errors, credit and the buffers that may still be sent."""
    joined = Joined(buffers_per_channel=4)
    partition = joined.producer.make_partition("p", 2)
    gate = joined.consumer.make_gate(joined.produced(0), joined.produced(1))
    joined.pump()
    for index in range(2):
        put(partition, index, b"\x01")
        partition.subpartitions[index].seal_open()
    joined.producer.link.close()
    sent = b""
    while joined.producer.link.has_output:
        sent += joined.producer.send(budget_bytes=1)
    assert kinds(sent) == [M.BUFFER_RESPONSE, M.BUFFER_RESPONSE, M.CLOSE_REQUEST]
    gate.release()
    joined.close()


def test_goodbye_is_said_once_and_nothing_follows() -> None:
    joined = Joined()
    gate = joined.consumer.make_gate(joined.produced())
    joined.pump()
    link = joined.consumer.link
    link.close()
    link.close()
    assert kinds(joined.consumer.send()) == [M.CLOSE_REQUEST]
    gate.release()
    link.close()
    assert not link.has_output
    assert joined.consumer.send() == b""
    joined.close()


def test_goodbye_has_something_to_send() -> None:
    """F14: the owner of the link is notified."""
    told = []
    joined = Joined(on_output=lambda: told.append(True))
    joined.consumer.link.close()
    assert told
    assert joined.consumer.link.has_output
    joined.close()


@pytest.mark.parametrize(
    "message",
    [
        buffer_response(),
        about(M.ADD_CREDIT, 0, 1),
        about(M.RESUME_CONSUMPTION, 0),
        bytes([0x91, M.HEARTBEAT]),
        error_response(0, 1, b"why"),
    ],
    ids=["data", "credit", "resume", "heartbeat", "error"],
)
def test_nothing_may_follow_a_goodbye(message: bytes) -> None:
    joined = Joined()
    gate = joined.consumer.make_gate(joined.produced())
    partition = joined.producer.make_partition("p", 1)
    joined.pump()
    joined.consumer.link.close()
    joined.pump()
    with pytest.raises(RemoteProtocolError, match="after its CLOSE_REQUEST"):
        joined.producer.receive(message)
    gate.release()
    partition.release()
    joined.close()


def test_a_goodbye_is_answered_behind_what_waits() -> None:
    told = []
    joined = Joined(on_output=lambda: told.append(True))
    joined.producer.make_partition("gone").release()
    joined.producer.receive(partition_request(0, wire_partition_id("gone")))
    joined.consumer.link.close()
    goodbye = joined.consumer.send()
    told.clear()
    joined.producer.receive(goodbye)
    assert told
    answer = joined.producer.send()
    assert kinds(answer) == [M.ERROR_RESPONSE, M.CLOSE_REQUEST]
    joined.close()


def test_two_that_leave_at_once_have_answered_each_other() -> None:
    joined = Joined()
    workers = (joined.consumer, joined.producer)
    for worker in workers:
        worker.link.close()
    said = [worker.send() for worker in workers]
    for worker, heard in zip(workers, reversed(said), strict=True):
        worker.receive(heard)
        assert worker.link.state is S.CLOSED
        assert not worker.link.has_output
    joined.close()


@pytest.mark.parametrize("cut", [1, 37, 38, 39, 77, 78])
def test_a_loss_in_the_middle_of_a_frame_returns_its_buffer(cut: int) -> None:
    """Reliability 7: a truncated frame is never delivered."""
    joined = Joined()
    joined.producer.make_partition()
    gate = joined.consumer.make_gate(joined.produced())
    joined.pump()
    write(joined, bytes(range(40)))
    joined.consumer.receive(joined.producer.send()[:cut])
    joined.consumer.lose(LOSS)
    with pytest.raises(RemoteTransportError):
        gate.poll()
    gate.release()
    joined.close()


# -- signs of life ---------------------------------------------------------------------------------


def test_a_heartbeat_goes_out_when_nothing_else_does() -> None:
    joined = arranged()
    link = joined.producer.link
    for tick in range(3):
        link.tick(tick * 10.0, 0)
        assert kinds(joined.producer.send()) == [M.HEARTBEAT]
    write(joined)
    assert kinds(joined.producer.send()) == [M.BUFFER_RESPONSE]
    link.tick(30.0, 0)
    assert kinds(joined.producer.send()) == []
    joined.close()


def test_a_heartbeat_goes_ahead_of_data() -> None:
    """This holds for any amount of queued data. Only bytes that the socket has already go first."""
    joined = arranged()
    for _ in range(50):
        write(joined)
    joined.producer.link.tick(0.0, 0)
    found = kinds(joined.producer.send())
    assert found[0] is M.HEARTBEAT
    assert len(found) == 51
    joined.close()


def test_idle_workers_that_hear_each_other_stay_connected() -> None:
    joined = arranged()
    for tick in range(12):
        now = joined.producer.now = joined.consumer.now = tick * 10.0
        joined.producer.link.tick(now, 0)
        joined.consumer.link.tick(now, 0)
        joined.pump()
        assert joined.producer.session.failure is None
        assert joined.consumer.session.failure is None
    joined.close()


def test_a_silent_peer_loses_its_link() -> None:
    joined = arranged()
    link = joined.consumer.link
    for tick in range(6):
        link.tick(tick * 10.0, 0)
        assert link.session.failure is None
    link.tick(60.0, 0)
    assert link.state is S.LOST
    assert isinstance(link.session.failure, RemoteTransportError)
    assert str(link.session.failure).startswith(
        "the producer has sent nothing for 60 s (heartbeat_timeout_ms)"
    )
    joined.close()


def test_a_peer_that_takes_nothing_loses_its_link() -> None:
    joined = arranged()
    link = joined.producer.link
    for tick in range(7):
        joined.producer.now = tick * 10.0
        joined.producer.receive(b"\x91\x0c")
        link.tick(tick * 10.0, 4096)
    assert str(link.session.failure).startswith(
        "the consumer has taken none of 4096 bytes for 60 s"
    )
    joined.close()


# -- the golden conversation -----------------------------------------------------------------------


def put_cut(partition: ResultPartition, *records: bytes, cut: int) -> None:
    """Write records, the first ``cut`` bytes in a buffer of their own."""
    subpartition = partition.subpartitions[0]
    subpartition.buffer_bytes = cut
    builder = partition.request_builder(0)
    subpartition.buffer_bytes = cut * 16
    for record in records:
        assert builder is not None
        written = builder.append(memoryview(record))
        if written < len(record):
            builder = partition.request_builder(0)
            assert builder is not None
            builder.append(memoryview(record)[written:], continues=True)


def test_two_connections_have_the_conversation_that_spec_shows() -> None:
    """The bytes are the same in both directions, from the request to the goodbye."""
    joined = Joined(buffers_per_channel=1, floating_buffers_per_gate=1)
    partition = joined.producer.make_partition("numbers")
    gate = joined.consumer.make_gate(joined.produced(partition_id="numbers"))
    put_cut(partition, b"\x01", b"\xa3two", b"\x92\x03\xcb\x40\x12\0\0\0\0\0\0", cut=4)
    partition.notify_end_of_data()
    joined.pump()
    polled = [gate.poll(), gate.poll(), gate.poll()]
    gate.acknowledge(0)
    for taken in polled:
        assert taken is not None
        taken[1].recycle()
    joined.pump()
    partition.finish()
    joined.pump()
    assert poll_all(gate) == [(0, DataType.END_OF_PARTITION)]
    gate.release()
    joined.consumer.link.close()
    joined.pump()
    joined.producer.link.close()
    joined.pump()
    assert messages(joined.to_consumer) == messages(golden_messages("producer"))
    assert messages(joined.to_producer) == messages(golden_messages("consumer"))
    assert joined.to_consumer == golden_messages("producer")
    assert joined.to_producer == golden_messages("consumer")
    joined.close()


# -- log -------------------------------------------------------------------------------------------


def test_the_life_of_a_link_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    joined = Joined()
    caplog.set_level(logging.DEBUG, "flinknet.connection")
    joined.producer.link.close()
    joined.pump()
    joined.producer.lose(LOSS)
    assert [line for line in caplog.messages if "link" in line] == [
        "the consumer: link OPEN -> CLOSING",
        "the consumer: link CLOSING -> CLOSE_SENT",
        "the producer: link OPEN -> CLOSE_RECEIVED",
        "the producer: link CLOSE_RECEIVED -> CLOSED",
        "the consumer: link CLOSE_SENT -> CLOSED",
        "the consumer: link CLOSED -> LOST",
    ]
    joined.close()


def test_a_violation_is_told_with_a_printable_reason(caplog: pytest.LogCaptureFixture) -> None:
    joined = Joined()
    with caplog.at_level(logging.DEBUG, "flinknet.connection"):
        joined.producer.link.reject(RemoteProtocolError("the peer said \x1b[2J"))
    assert "the consumer broke the protocol: the peer said \\x1b[2J" in caplog.messages
    joined.close()


def test_the_loss_of_a_peer_in_use_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "flinknet.connection")
    joined = arranged()
    joined.consumer.lose(LOSS)
    joined.consumer.lose(LOSS)
    assert caplog.record_tuples == [
        (
            "flinknet.connection",
            logging.INFO,
            "the producer: lost while channels were in use: the cable",
        )
    ]
    joined.close()


def test_messages_sent_with_every_buffer_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    joined = arranged()
    caplog.set_level(logging.DEBUG, "flinknet")
    for _ in range(3):
        write(joined)
    joined.pump()
    assert len(poll_all(joined.gates[0])) == 3
    joined.pump()
    assert caplog.messages == []
    joined.close()


# -- messages of the link --------------------------------------------------------------------------


def test_an_error_of_one_channel_goes_to_the_session() -> None:
    joined = arranged()
    joined.consumer.receive(error_response(0, 1, b"boom"))
    with pytest.raises(RemoteError, match="boom"):
        joined.gates[0].poll()
    assert joined.consumer.link.state is S.OPEN
    joined.close()


@pytest.mark.parametrize(
    ("code", "error"),
    [(ErrorCode.PROTOCOL, RemoteProtocolError), (ErrorCode.CORRUPTED, CorruptedDataError)],
)
def test_an_error_of_the_connection_is_the_peers_goodbye(
    code: ErrorCode, error: type[Exception]
) -> None:
    joined = arranged()
    with pytest.raises(error, match="the peer closes the connection: boom"):
        joined.consumer.receive(error_response(CONNECTION_CHANNEL, code, b"boom"))
    assert joined.consumer.link.state is S.CLOSE_RECEIVED
    joined.close()


def test_heartbeats_are_limited() -> None:
    joined = Joined(wire=WireLimits(heartbeats_per_minute_max=12))
    for _ in range(12):
        joined.producer.receive(HEARTBEAT)
    with pytest.raises(RemoteProtocolError, match="more than 12 heartbeats in a minute"):
        joined.producer.receive(HEARTBEAT)
    joined.close()


def test_a_stalled_link_goes_on_when_a_buffer_has_come() -> None:
    joined = Joined(flow_control="off", buffers_per_channel=1, floating_buffers_per_gate=0)
    joined.producer.make_partition()
    gate = joined.consumer.make_gate(joined.produced())
    joined.gates.append(gate)
    joined.pump()
    for _ in range(2):
        write(joined)
    joined.pump()
    link = joined.consumer.link
    assert (link.stalled, link.can_resume, link.statistics().stalled) == (True, False, True)
    assert len(poll_all(gate)) == 1
    assert link.can_resume
    link.resume(0.0)
    assert not link.stalled
    assert len(poll_all(gate)) == 1
    joined.close()


def test_with_checksums_the_middle_of_a_body_is_no_sign_of_life() -> None:
    joined = Joined(checksums="on", heartbeat_timeout_ms=20_000.0, heartbeat_interval_ms=10_000.0)
    joined.producer.make_partition()
    joined.gates.append(joined.consumer.make_gate(joined.produced()))
    joined.pump()
    write(joined, bytes(40))
    sent = joined.producer.send()
    worker = joined.consumer
    worker.link.tick(0.0, 0)
    worker.receive(sent[:-30])
    for now in (10.0, 20.0):
        worker.now = now
        worker.receive(sent[-30:-20] if now == 10.0 else b"")
        worker.link.tick(now, 0)
    assert "has sent nothing for 20 s" in str(worker.session.failure)
    joined.close()


def test_the_readers_of_a_link_add_up_if_they_are_asked_for() -> None:
    joined = Joined()
    partition = joined.producer.make_partition(subpartitions=2)
    joined.gates += [joined.consumer.make_gate(joined.produced(index)) for index in range(2)]
    joined.pump()
    put(partition, 1, b"x")
    partition.seal_all()
    statistics = joined.producer.link.statistics()
    assert (statistics.credit, statistics.backlog) == (
        sum(gate.remote_channels[0].initial_credit for gate in joined.gates),
        1,
    )
    alone = joined.producer.link.statistics(with_readers=False)
    assert alone == statistics._replace(readers=())


def test_a_link_rests_while_its_peer_asks_for_what_is_not_here() -> None:
    """The messages that were read behind the requests wait as long as the link rests."""
    worker = Worker(
        "127.0.0.1:1",
        "the consumer",
        make_config(receive_buffer_bytes=4096),
        unmet_requests=UnmetRequestPacer(per_second=1),
    )
    requests = [partition_request(channel) for channel in range(UNMET_REQUESTS_AT_ONCE)]
    read = b"".join([*requests, HEARTBEAT, CLOSE_REQUEST])
    memory = worker.link.get_buffer()
    memory[: len(read)] = read
    memory.release()
    assert not worker.link.must_pause
    worker.link.received(len(read), 100.0)
    assert (worker.link.must_pause, worker.link.has_more) == (True, True)
    assert worker.link.state is S.OPEN, "the goodbye has not been handled"
    rest = worker.link.take_pause()
    assert 100.0 < rest < 100.0 + UNMET_REQUESTS_AT_ONCE
    assert (worker.link.must_pause, worker.link.take_pause()) == (False, 0.0), "it is taken once"
    worker.link.received(0, rest)
    assert (worker.link.has_more, worker.link.state) == (False, S.CLOSE_RECEIVED)
    worker.lose(LOSS)
    worker.assert_nothing_is_left()
