"""Every message in every state: SPEC allows it, or it breaks the connection.

The tables are written by hand, not derived: a row is a state, a column is a message, `.` is legal
and `X` a violation. After a violation the connection is closed and every buffer must come back.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from flinknet.buffer.buffer import DataType
from flinknet.consumer.input_gate import InputGate
from flinknet.errors import BufferReorderingError, RemoteProtocolError
from flinknet.wire.messages import CONNECTION_CHANNEL, MessageType
from tests.unit.arrangements import event_of, put
from tests.unit.connection.joined import Joined, Worker, messages, poll_all
from tests.unit.wire.received import about, buffer_response, error_response, partition_request

BARRIER = DataType.ALIGNED_CHECKPOINT_BARRIER
M = MessageType


class Setting:
    """A producer and a consumer with one channel, number 0, in some state."""

    def __init__(self, **options: Any) -> None:
        self.joined = Joined(**{"buffers_per_channel": 2, **options})
        self.gates: list[InputGate] = []

    def request(self) -> None:
        """Request the partition; the request waits if the partition does not exist."""
        self.gates.append(self.joined.consumer.make_gate(self.joined.produced()))
        self.joined.pump()

    def make(self) -> None:
        self.partition = self.joined.producer.make_partition()

    def write(self) -> None:
        put(self.partition, 0, b"\x01")
        self.partition.subpartitions[0].seal_open()
        self.joined.pump()

    def close(self) -> None:
        for gate in self.gates:
            gate.release()
        self.joined.close()


def nothing(_: Setting) -> None:
    """Leave everything as it is: no channel was ever requested."""


def waiting(setting: Setting) -> None:
    setting.request()


def reading(setting: Setting) -> None:
    setting.make()
    setting.request()
    setting.write()


def blocked(setting: Setting) -> None:
    reading(setting)
    setting.partition.subpartitions[0].add_event(event_of(BARRIER))
    setting.joined.pump()


def end_of_data(setting: Setting) -> None:
    reading(setting)
    setting.partition.notify_end_of_data()
    setting.joined.pump()


def acknowledged(setting: Setting) -> None:
    """Let the consumer process all data, and let the acknowledgement arrive."""
    end_of_data(setting)
    poll_all(setting.gates[0])
    setting.gates[0].acknowledge(0)
    setting.joined.pump()


def ended(setting: Setting) -> None:
    acknowledged(setting)
    setting.partition.finish()
    setting.joined.pump()


def failed(setting: Setting) -> None:
    reading(setting)
    setting.partition.fail(ValueError("boom"))
    setting.joined.pump()


def cancelled(setting: Setting) -> None:
    reading(setting)
    setting.gates.pop().release()
    setting.joined.pump()


def leaving(setting: Setting) -> None:
    """Let the goodbye of the other side arrive."""
    reading(setting)
    setting.joined.producer.link.close()
    setting.joined.consumer.link.close()
    setting.joined.pump()


TO_PRODUCER = {
    "request 0": partition_request(0),
    "request 1": partition_request(1),
    "cancel 0": about(M.CANCEL_PARTITION_REQUEST, 0),
    "credit 0": about(M.ADD_CREDIT, 0, 1),
    "no credit": about(M.ADD_CREDIT, 0, 0),
    "much credit": about(M.ADD_CREDIT, 0, 65536),
    "resume 0": about(M.RESUME_CONSUMPTION, 0),
    "acknowledge": about(M.ACKNOWLEDGE_ALL_RECORDS_PROCESSED, 0),
    "size 0": about(M.NEW_BUFFER_SIZE, 0, 64),
    "no size": about(M.NEW_BUFFER_SIZE, 0, 0),
    "large size": about(M.NEW_BUFFER_SIZE, 0, 65),
    "cancel 9": about(M.CANCEL_PARTITION_REQUEST, 9),
    "buffer 0": buffer_response(0),
    "error 0": error_response(0, 6, b"boom"),
    "backlog 0": about(M.BACKLOG_ANNOUNCEMENT, 0, 1),
    "goodbye": b"\x91\x05",
}
"""Messages that a consumer might send to a producer that has requested nothing."""

PRODUCER_STATES = """
             request-0 request-1 cancel-0 credit-0 no-credit much-credit resume-0 acknowledge size-0 no-size large-size cancel-9 buffer-0 error-0 backlog-0 goodbye
nothing      .         .         X        X        X         X           X        X           X      X       X          X        X        X       X         .
waiting      X         .         .        .        X         X           X        X           .      X       X          X        X        X       X         .
reading      X         .         .        .        X         X           X        X           .      X       X          X        X        X       X         .
blocked      X         .         .        .        X         X           .        X           .      X       X          X        X        X       X         .
end_of_data  X         .         .        .        X         X           X        .           .      X       X          X        X        X       X         .
acknowledged X         .         .        .        X         X           X        X           .      X       X          X        X        X       X         .
ended        X         .         .        .        X         X           X        X           .      X       X          X        X        X       X         .
failed       X         .         .        .        X         X           X        X           .      X       X          X        X        X       X         .
cancelled    X         .         X        X        X         X           X        X           X      X       X          X        X        X       X         .
leaving      X         X         X        X        X         X           X        X           X      X       X          X        X        X       X         X
"""  # noqa: E501

TO_CONSUMER = {
    "next data": lambda sequence: buffer_response(0, sequence),
    "next event": lambda sequence: buffer_response(0, sequence, data_type=2, body=b"\x90"),
    "end of data": lambda sequence: buffer_response(0, sequence, data_type=9, body=b"\x91\x01"),
    "odd end": lambda sequence: buffer_response(0, sequence, data_type=9, body=b"\x90"),
    "partition end": lambda sequence: buffer_response(0, sequence, data_type=10, body=b"\x90"),
    "the same again": lambda sequence: buffer_response(0, (sequence - 1) % 2**32),
    "one left out": lambda sequence: buffer_response(0, sequence + 1),
    "data 9": lambda _: buffer_response(9, 0),
    "error 0": lambda _: error_response(0, 6, b"boom"),
    "error 9": lambda _: error_response(9, 6, b"boom"),
    "error for all": lambda _: error_response(CONNECTION_CHANNEL, 1, b"you broke it"),
    "backlog": lambda _: about(M.BACKLOG_ANNOUNCEMENT, 0, 1),
    "backlog 9": lambda _: about(M.BACKLOG_ANNOUNCEMENT, 9, 1),
    "credit": lambda _: about(M.ADD_CREDIT, 0, 1),
    "resume": lambda _: about(M.RESUME_CONSUMPTION, 0),
    "acknowledge": lambda _: about(M.ACKNOWLEDGE_ALL_RECORDS_PROCESSED, 0),
    "goodbye": lambda _: b"\x91\x05",
}
"""Messages that a producer might send to a consumer that produces nothing."""

CONSUMER_STATES = """
             next-data next-event end-of-data odd-end partition-end the-same-again one-left-out data-9 error-0 error-9 error-for-all backlog backlog-9 credit resume acknowledge goodbye
nothing      X         X          X           X       X             X              X            X      X       X       X             X       X         X      X      X           .
waiting      .         .          .           X       X             X              X            X      .       X       X             X       X         X      X      X           .
reading      .         .          .           X       X             X              X            X      .       X       X             X       X         X      X      X           .
end_of_data  X         .          X           X       X             X              X            X      .       X       X             X       X         X      X      X           .
acknowledged X         .          X           X       .             X              X            X      .       X       X             X       X         X      X      X           .
ended        X         X          X           X       X             X              X            X      X       X       X             X       X         X      X      X           .
failed       X         X          X           X       X             X              X            X      X       X       X             X       X         X      X      X           .
cancelled    .         .          .           .       .             .              .            X      .       X       X             .       X         X      X      X           .
leaving      X         X          X           X       X             X              X            X      X       X       X             X       X         X      X      X           X
"""  # noqa: E501

STATES: dict[str, Callable[[Setting], None]] = {
    state.__name__: state
    for state in (
        nothing,
        waiting,
        reading,
        blocked,
        end_of_data,
        acknowledged,
        ended,
        failed,
        cancelled,
        leaving,
    )
}


def pairs(table: str) -> list[tuple[str, str, bool]]:
    head, *lines = table.strip().splitlines()
    columns = [column.replace("-", " ") for column in head.split()]
    found = []
    for line in lines:
        state, *cells = line.split()
        found += [(state, column, cell == ".") for column, cell in zip(columns, cells, strict=True)]
    return found


def states(table: str) -> list[str]:
    return list(dict.fromkeys(state for state, _, _ in pairs(table)))


def test_the_tables_are_complete() -> None:
    assert {message for _, message, _ in pairs(PRODUCER_STATES)} == set(TO_PRODUCER)
    assert {message for _, message, _ in pairs(CONSUMER_STATES)} == set(TO_CONSUMER)
    assert {*states(PRODUCER_STATES), *states(CONSUMER_STATES)} == set(STATES)


def is_taken(worker: Worker, data: bytes) -> bool:
    try:
        worker.receive(data)
    except RemoteProtocolError:
        return False
    return True


@pytest.mark.parametrize("state", states(PRODUCER_STATES))
def test_messages_that_a_consumer_may_send(state: str) -> None:
    """E12, E15, E16; reliability 7: every (state, message) pair."""
    for name, message, legal in pairs(PRODUCER_STATES):
        if name == state:
            setting = Setting()
            STATES[state](setting)
            assert is_taken(setting.joined.producer, TO_PRODUCER[message]) == legal, message
            setting.close()


@pytest.mark.parametrize("state", states(CONSUMER_STATES))
def test_messages_that_a_producer_may_send(state: str) -> None:
    """F4-F6, F10; reliability 7: every (state, message) pair."""
    for name, message, legal in pairs(CONSUMER_STATES):
        if name == state:
            setting = Setting()
            STATES[state](setting)
            sent = [m for m in messages(setting.joined.to_consumer) if m[0] is M.BUFFER_RESPONSE]
            data = TO_CONSUMER[message](len(sent))
            assert is_taken(setting.joined.consumer, data) == legal, message
            setting.close()


# -- one by one: the reasons -----------------------------------------------------------------------


def violation(setting: Setting, data: bytes) -> RemoteProtocolError:
    with pytest.raises(RemoteProtocolError) as refused:
        setting.joined.consumer.receive(data)
    return refused.value


def test_a_wrong_sequence_names_both_numbers() -> None:
    """G11, invariant I2."""
    setting = Setting()
    reading(setting)
    error = violation(setting, buffer_response(0, 5))
    assert isinstance(error, BufferReorderingError)
    assert "received buffer 5, expected 1" in str(error)
    setting.close()


def test_data_without_credit_is_refused_and_events_are_not() -> None:
    """F4, invariant I5: the third buffer finds no credit after two."""
    setting = Setting(floating_buffers_per_gate=0)
    setting.make()
    setting.request()
    data = b"".join(buffer_response(0, sequence) for sequence in range(2))
    data += buffer_response(0, 2, data_type=DataType.EVENT_BUFFER, body=b"\x90")
    setting.joined.consumer.receive(data)
    error = violation(setting, buffer_response(0, 3))
    assert str(error).startswith("no buffer available for data on channel 0")
    setting.close()


def end_of_data_at(sequence: int) -> bytes:
    return buffer_response(0, sequence, data_type=9, body=b"\x91\x01")


def end_of_partition_at(sequence: int) -> bytes:
    return buffer_response(0, sequence, data_type=10, body=b"\x90")


CUT_SHORT = {
    "END_OF_PARTITION without END_OF_DATA": (
        buffer_response(0, 0),
        end_of_partition_at(1),
        "END_OF_PARTITION must not arrive on channel 0.*: its data has not ended",
    ),
    "data behind END_OF_DATA": (
        end_of_data_at(0),
        buffer_response(0, 1),
        "data must not arrive on channel 0.*: its data has ended",
    ),
    "END_OF_DATA twice": (
        end_of_data_at(0),
        end_of_data_at(1),
        "END_OF_DATA must not arrive on channel 0.*: its data has ended",
    ),
    "END_OF_PARTITION before the acknowledgement": (
        end_of_data_at(0),
        end_of_partition_at(1),
        "END_OF_PARTITION must not arrive on channel 0.*: its data has ended and has not been ack",
    ),
}
"""The first messages of a hostile producer, the forbidden message after them, and the error."""


@pytest.mark.parametrize("progress", ["received", "read", "acknowledged"])
@pytest.mark.parametrize("name", CUT_SHORT)
def test_a_stream_that_does_not_end_as_it_should_breaks_the_connection(
    name: str, progress: str
) -> None:
    """The reader never treats such a stream as complete, and acknowledges its end at most once."""
    first, forbidden, reason = CUT_SHORT[name]
    setting = Setting()
    setting.request()
    (gate,) = setting.gates
    setting.joined.consumer.receive(first)
    if progress != "received":
        poll_all(gate)
    if progress == "acknowledged" and first == end_of_data_at(0) and "before" not in name:
        gate.acknowledge(0)
    error = violation(setting, forbidden)
    assert re.search(reason, str(error))
    setting.joined.consumer.lose(error)
    with pytest.raises(RemoteProtocolError, match=reason):
        gate.poll()
    assert not gate.finished
    setting.close()


def test_unread_events_are_limited() -> None:
    """An event costs no credit. Without a limit, events could use memory without bound."""
    limit = 1_000
    setting = Setting()
    setting.make()
    setting.request()
    event = DataType.EVENT_BUFFER
    for sequence in range(limit):
        setting.joined.consumer.receive(buffer_response(0, sequence, data_type=event, body=b"\x90"))
    error = violation(setting, buffer_response(0, limit, data_type=event, body=b"\x90"))
    assert "without event credit on channel 0: 1000 events have arrived" in str(error)
    setting.close()


def test_events_that_are_taken_are_not_limited() -> None:
    setting = Setting()
    setting.make()
    setting.request()
    event = DataType.EVENT_BUFFER
    for sequence in range(2_500):
        setting.joined.consumer.receive(buffer_response(0, sequence, data_type=event, body=b"\x90"))
        polled = setting.gates[0].poll()
        assert polled is not None
        polled[1].recycle()
    setting.close()


@pytest.mark.parametrize(
    ("exclusive", "backlog", "legal"),
    [(0, 1, True), (0, 0, False), (1, 1, False)],
)
def test_only_a_channel_that_began_without_credit_is_announced_a_backlog(
    exclusive: int, backlog: int, legal: bool
) -> None:
    """1.6 rule 7."""
    setting = Setting(buffers_per_channel=exclusive, floating_buffers_per_gate=1)
    setting.make()
    setting.request()
    announcement = about(M.BACKLOG_ANNOUNCEMENT, 0, backlog)
    if legal:
        setting.joined.consumer.receive(announcement)
        assert messages(setting.joined.consumer.send()) == [(M.ADD_CREDIT, 0, 1)]
    else:
        assert f"a backlog of {backlog}" in str(violation(setting, announcement))
    setting.close()


@pytest.mark.parametrize(("large", "most"), [(0, 3), (12, 3 + 2)])
def test_a_huge_backlog_takes_no_more_than_the_gate_may_have(large: int, most: int) -> None:
    """This includes the further buffers that large records may use."""
    setting = Setting(
        buffers_per_channel=0,
        floating_buffers_per_gate=3,
        buffers_per_subpartition_max=10,
        large_record_buffers_max=large,
    )
    setting.make()
    setting.request()
    setting.joined.consumer.receive(about(M.BACKLOG_ANNOUNCEMENT, 0, 2**32 - 1))
    assert messages(setting.joined.consumer.send()) == [(M.ADD_CREDIT, 0, most)]
    setting.close()


def test_an_error_that_concerns_the_connection_is_not_answered() -> None:
    """The peer has left; the error keeps its text."""
    setting = Setting()
    reading(setting)
    error = violation(setting, error_response(CONNECTION_CHANNEL, 1, b"you broke it"))
    assert str(error) == "the peer closes the connection: you broke it"
    assert setting.joined.consumer.link.reject(error) == b""
    setting.close()


def test_a_violation_is_answered_with_its_reason() -> None:
    setting = Setting()
    reading(setting)
    error = violation(setting, buffer_response(9))
    assert messages(setting.joined.consumer.link.reject(error)) == [
        (M.ERROR_RESPONSE, CONNECTION_CHANNEL, 1, str(error))
    ]
    setting.close()
