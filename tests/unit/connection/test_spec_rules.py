"""Rules of SPEC about rare moments, one test each. A peer may rely on them."""

from __future__ import annotations

from typing import Any

import pytest

from flinknet.buffer.buffer import DataType
from flinknet.config import WireLimits
from flinknet.consumer.input_gate import InputGate
from flinknet.errors import (
    CorruptedDataError,
    ErrorCode,
    RemoteError,
    RemoteProtocolError,
)
from flinknet.partition.registry import wire_partition_id
from flinknet.wire.events import CheckpointBarrier
from flinknet.wire.messages import CONNECTION_CHANNEL, MessageType
from tests.unit.arrangements import put
from tests.unit.connection.joined import Joined, messages, poll, poll_all
from tests.unit.wire.received import about, buffer_response, error_response, partition_request

M = MessageType
P = wire_partition_id("p")
EVENT = (DataType.EVENT_BUFFER, b"\x91\x7f")
BARRIER = CheckpointBarrier(1, 0).event()


def said(joined: Joined) -> list[tuple[object, ...]]:
    """Return the messages that the consumer sends now."""
    return messages(joined.consumer.send())


# -- 6: credit -------------------------------------------------------------------------------------


def reading(**options: Any) -> tuple[Joined, InputGate]:
    """Return a consumer; the test plays its producer."""
    joined = Joined(**options)
    gate = joined.consumer.make_gate(joined.produced())
    joined.gates.append(gate)
    joined.consumer.send()
    return joined, gate


@pytest.mark.parametrize("free", ["no buffer", "one that is not announced", "one that is"])
def test_data_without_credit_is_a_violation_whatever_is_free(free: str) -> None:
    """Credit counts only once it was announced.

    The consumer cannot know when the announcement arrives.
    """
    joined, gate = reading(buffers_per_channel=2, floating_buffers_per_gate=0)
    joined.consumer.receive(buffer_response(0, 0, 9) + buffer_response(0, 1, 9))
    if free != "no buffer":
        assert poll(gate) == (0, b"\x01")
    if free == "one that is":
        assert said(joined) == [(M.ADD_CREDIT, 0, 1)]
        joined.consumer.receive(buffer_response(0, 2))
        assert poll_all(gate) == [(0, b"\x01")] * 2
    else:
        with pytest.raises(RemoteProtocolError, match="the producer sent without credit"):
            joined.consumer.receive(buffer_response(0, 2))
    joined.close()


@pytest.mark.parametrize("initial", [1, 3])
def test_too_much_credit_is_a_violation_and_not_cut_off(initial: int) -> None:
    joined = Joined(wire=WireLimits(credit_per_channel_max=64))
    joined.producer.make_partition()
    left = 64 - initial
    request = partition_request(0, P, credit=initial)
    joined.producer.receive(request + about(M.ADD_CREDIT, 0, left))
    with pytest.raises(RemoteProtocolError, match="credit_per_channel_max"):
        joined.producer.receive(about(M.ADD_CREDIT, 0, 1))
    joined.close()


@pytest.mark.parametrize("state", ["waiting", "done"])
def test_a_channel_that_sends_nothing_still_counts_its_credit(state: str) -> None:
    joined = Joined(wire=WireLimits(credit_per_channel_max=64))
    if state == "done":
        joined.producer.make_partition().release()
    joined.producer.receive(partition_request(0, P, credit=1) + about(M.ADD_CREDIT, 0, 63))
    with pytest.raises(RemoteProtocolError, match="credit_per_channel_max"):
        joined.producer.receive(about(M.ADD_CREDIT, 0, 1))
    joined.close()


def test_event_credit_while_a_request_waits_is_a_violation() -> None:
    joined = Joined()
    joined.producer.receive(partition_request(0, P))
    with pytest.raises(RemoteProtocolError, match="not yet acknowledged is 0"):
        joined.producer.receive(about(M.ADD_EVENT_CREDIT, 0, 1))
    joined.close()


# -- 6, rule 6: a blocking event and an initial credit of 0 ----------------------------------------


def blocking(sequence: int, backlog: int = 0) -> bytes:
    return buffer_response(0, sequence, backlog, *BARRIER)


def test_without_initial_credit_a_blocking_event_takes_the_floating_buffers_away() -> None:
    """Free buffers are returned at once, the others as they are processed.

    No buffer is requested before the resume, for any backlog, and the resume resets all credit.
    """
    joined, gate = reading(buffers_per_channel=0, floating_buffers_per_gate=4)
    worker = joined.consumer
    [channel] = gate.remote_channels
    worker.receive(about(M.BACKLOG_ANNOUNCEMENT, 0, 4))
    assert said(joined) == [(M.ADD_CREDIT, 0, 4)]
    worker.receive(buffer_response(0, 0, 3) + buffer_response(0, 1, 2) + blocking(2, 2))
    assert channel.statistics().floating_free == 0
    assert gate.statistics().floating_buffers_in_use == 2, "what is queued, and not processed"
    assert poll_all(gate)[:2] == [(0, b"\x01")] * 2
    assert gate.statistics().floating_buffers_in_use == 0
    assert [message[0] for message in said(joined)] in ([], [M.ADD_CREDIT])
    channel.resume_consumption()
    [resumed] = said(joined)
    assert resumed == (M.RESUME_CONSUMPTION, 0)
    worker.receive(about(M.BACKLOG_ANNOUNCEMENT, 0, 1))
    assert said(joined) == [(M.ADD_CREDIT, 0, 1)]
    joined.close()


@pytest.mark.parametrize(("initial", "left"), [(0, 0), (2, 5)])
def test_a_producer_forgets_credit_at_the_resume_if_it_began_without(
    initial: int, left: int
) -> None:
    """This includes credit that was announced while the channel was blocked."""
    joined = Joined()
    partition = joined.producer.make_partition()
    joined.producer.receive(partition_request(0, P, credit=initial))
    partition.broadcast_event(*BARRIER)
    assert [message[0] for message in messages(joined.producer.send())] == [M.BUFFER_RESPONSE]
    joined.producer.receive(about(M.ADD_CREDIT, 0, 3) + about(M.RESUME_CONSUMPTION, 0))
    [reader] = joined.producer.session.readers
    assert reader.credit == left
    put(partition, 0, b"\x01")
    partition.flush_all()
    kind = M.BUFFER_RESPONSE if initial else M.BACKLOG_ANNOUNCEMENT
    assert [message[0] for message in messages(joined.producer.send())] == [kind]
    joined.close()


# -- 6.2: events -----------------------------------------------------------------------------------


def test_the_ends_of_a_channel_cost_event_credit() -> None:
    joined = Joined(wire=WireLimits(events_per_channel_max=2))
    partition = joined.producer.make_partition()
    joined.producer.receive(partition_request(0, P))
    for _ in range(2):
        partition.broadcast_event(*EVENT)
    partition.notify_end_of_data()
    kinds = [message[4] for message in messages(joined.producer.send())]
    assert kinds == [DataType.EVENT_BUFFER] * 2
    joined.producer.receive(about(M.ADD_EVENT_CREDIT, 0, 1))
    [(*_, kind, _)] = messages(joined.producer.send())
    assert kind is DataType.END_OF_DATA
    joined.producer.receive(about(M.ACKNOWLEDGE_ALL_RECORDS_PROCESSED, 0))
    partition.finish()
    assert joined.producer.send() == b""
    joined.producer.receive(about(M.ADD_EVENT_CREDIT, 0, 1))
    [(*_, kind, _)] = messages(joined.producer.send())
    assert kind is DataType.END_OF_PARTITION
    joined.close()


def test_an_end_of_data_without_event_credit_is_a_violation() -> None:
    joined, _ = reading(wire=WireLimits(events_per_channel_max=2))
    joined.consumer.receive(b"".join(buffer_response(0, n, 0, *EVENT) for n in range(2)))
    with pytest.raises(RemoteProtocolError, match="event"):
        joined.consumer.receive(buffer_response(0, 2, 0, DataType.END_OF_DATA, b"\x91\x01"))
    joined.close()


# -- 8: codes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [1, 2, 3, 8, 9, 11, 127])
def test_a_code_that_means_no_channel_ends_its_channel_alone(code: int) -> None:
    joined = Joined()
    gate = joined.consumer.make_gate(joined.produced(0), joined.produced(1))
    joined.gates.append(gate)
    joined.consumer.send()
    joined.consumer.receive(error_response(0, code, b"boom"))
    channels = gate.remote_channels
    assert type(channels[0].error) is RemoteError
    assert channels[1].error is None
    assert joined.consumer.session.failure is None
    joined.close()


@pytest.mark.parametrize("code", [1, 2, 3, 4, 6, 8, 9, 11, 127])
def test_any_code_ends_the_connection_whose_channel_it_names(code: int) -> None:
    joined = Joined()
    kind = CorruptedDataError if code == ErrorCode.CORRUPTED else RemoteProtocolError
    with pytest.raises(RemoteProtocolError, match="the peer closes the connection: boom") as raised:
        joined.consumer.receive(error_response(CONNECTION_CHANNEL, code, b"boom"))
    assert type(raised.value) is kind
    assert joined.consumer.link.reject(raised.value) == b"", "it is not answered"
    joined.close()


@pytest.mark.parametrize("code", [0, 128, 255])
def test_a_code_of_another_form_is_a_violation(code: int) -> None:
    joined = Joined()
    joined.consumer.make_gate(joined.produced())
    with pytest.raises(RemoteProtocolError, match="of the wrong form"):
        joined.consumer.receive(error_response(0, code, b"boom"))
