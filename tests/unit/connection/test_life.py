"""The end of a connection: goodbye, loss, and a peer that does not read."""

from __future__ import annotations

import pytest

from flinknet.buffer.buffer import DataType
from flinknet.config import WireLimits
from flinknet.errors import RemoteProtocolError, RemoteTransportError
from flinknet.partition.registry import wire_partition_id
from flinknet.partition.result_partition import ResultPartition
from flinknet.wire.messages import MessageType
from tests.unit.arrangements import put
from tests.unit.connection.joined import Joined, kinds, messages, poll_all
from tests.unit.wire.received import (
    about,
    buffer_response,
    error_response,
    golden_messages,
    partition_request,
)

M = MessageType
LOSS = RemoteTransportError("the cable")


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
    joined.producer.connection.close()
    sent = b""
    while joined.producer.connection.has_output:
        sent += joined.producer.send(budget_bytes=1)
    assert kinds(sent) == [M.BUFFER_RESPONSE, M.BUFFER_RESPONSE, M.CLOSE_REQUEST]
    gate.release()
    joined.close()


def test_goodbye_is_said_once_and_nothing_follows() -> None:
    joined = Joined()
    gate = joined.consumer.make_gate(joined.produced())
    joined.pump()
    connection = joined.consumer.connection
    connection.close()
    connection.close()
    assert kinds(joined.consumer.send()) == [M.CLOSE_REQUEST]
    gate.release()
    connection.close()
    assert not connection.has_output
    assert joined.consumer.send() == b""
    joined.close()


def test_goodbye_has_something_to_send() -> None:
    """F14: the shell is told."""
    told = []
    joined = Joined(on_output=lambda: told.append(True))
    joined.consumer.connection.close()
    assert told
    assert joined.consumer.connection.has_output
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
    joined.consumer.connection.close()
    joined.pump()
    with pytest.raises(RemoteProtocolError, match="after its CLOSE_REQUEST"):
        joined.producer.receive(message)
    gate.release()
    partition.release()
    joined.close()


def test_a_peers_goodbye_is_known() -> None:
    joined = Joined()
    joined.consumer.connection.close()
    joined.pump()
    assert joined.producer.connection.peer_closing
    joined.close()


# -- loss ------------------------------------------------------------------------------------------


def test_a_loss_reaches_every_channel_and_every_reader() -> None:
    """E14, F12: both directions, whatever they were doing."""
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
    joined.consumer.connection.failure = RemoteProtocolError("first")
    joined.consumer.lose(LOSS)
    joined.consumer.lose(RemoteTransportError("third"))
    with pytest.raises(RemoteProtocolError, match="first"):
        gate.poll()
    gate.release()
    joined.close()


def test_what_was_received_is_gone_with_the_error() -> None:
    """The error comes ahead of data: a task that has failed must not go on processing."""
    joined = Joined()
    joined.producer.make_partition()
    gate = joined.consumer.make_gate(joined.produced())
    joined.pump()
    write(joined)
    joined.pump()
    joined.consumer.lose(LOSS)
    with pytest.raises(RemoteTransportError):
        gate.poll()
    gate.release()
    joined.close()


def test_a_channel_that_has_everything_is_not_harmed() -> None:
    """The producer is done and leaves; the consumer is still busy with something else."""
    joined = Joined()
    partition = joined.producer.make_partition()
    gate = joined.consumer.make_gate(joined.produced())
    joined.pump()
    write(joined)
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


@pytest.mark.parametrize("cut", [1, 37, 38, 39, 77, 78])
def test_a_loss_in_the_middle_of_a_frame_returns_its_buffer(cut: int) -> None:
    """Reliability 7: a truncated frame is never taken."""
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


def test_after_a_loss_nothing_is_sent_and_nothing_is_promised() -> None:
    joined = Joined()
    joined.producer.make_partition()
    gate = joined.consumer.make_gate(joined.produced())
    joined.pump()
    write(joined)
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
    assert not joined.consumer.connection.has_output
    assert joined.consumer.send() == b""
    joined.close()


# -- a peer that does not read ---------------------------------------------------------------------


def test_messages_for_a_peer_that_does_not_read_are_limited() -> None:
    """Reliability 2 and 7: answers provoked by a peer that never takes them."""
    told = []
    joined = Joined(
        wire=WireLimits(control_bytes_max=64 * 1024), on_output=lambda: told.append(True)
    )
    joined.producer.make_partition("gone").release()
    connection, channel = joined.producer.connection, 0
    while connection.failure is None:
        told.clear()
        joined.producer.receive(partition_request(channel, wire_partition_id("gone")))
        channel += 1
    assert told, "the shell must hear of the failure"
    assert isinstance(connection.failure, RemoteTransportError)
    assert "the consumer does not read" in str(connection.failure)
    queued = connection.statistics().control_bytes_queued
    assert 64 * 1024 < queued < 65 * 1024
    for number in range(channel, channel + 100):
        joined.producer.receive(partition_request(number, wire_partition_id("gone")))
    assert connection.statistics().control_bytes_queued == queued
    joined.close()


def test_messages_that_are_written_no_longer_count() -> None:
    joined = Joined(wire=WireLimits(control_bytes_max=4096))
    for round_number in range(10):
        gates = [joined.consumer.make_gate(joined.produced()) for _ in range(8)]
        for gate in gates:
            gate.release()
        joined.pump()
        assert joined.consumer.connection.statistics().control_bytes_queued == 0
        assert joined.consumer.connection.failure is None, f"in round {round_number}"
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
    """The same bytes, both ways, from request to goodbye."""
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
    joined.consumer.connection.close()
    joined.pump()
    joined.producer.connection.close()
    joined.pump()
    assert messages(joined.to_consumer) == messages(golden_messages("producer"))
    assert messages(joined.to_producer) == messages(golden_messages("consumer"))
    assert joined.to_consumer == golden_messages("producer")
    assert joined.to_producer == golden_messages("consumer")
    joined.close()
