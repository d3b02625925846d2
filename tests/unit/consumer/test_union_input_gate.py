from __future__ import annotations

from collections.abc import Callable

import pytest

from flinknet.buffer.buffer import DataType
from flinknet.buffer.network_pool import NetworkBufferPool
from flinknet.consumer.end_of_data import EndOfData
from flinknet.consumer.input_channel import PartitionLocation, UnknownLocation
from flinknet.consumer.input_gate import InputGate
from flinknet.consumer.union_input_gate import UnionInputGate
from flinknet.errors import (
    ClosedResourceError,
    LocalProtocolError,
    ProducerFailedError,
    RemoteProtocolError,
    RemoteTransportError,
)
from tests.unit.arrangements import (
    HERE,
    THERE,
    Client,
    assert_everything_returned,
    content_of,
    deliver,
    end,
    end_data,
    make_config,
    make_remote_gate,
)

EVENT = DataType.EVENT_BUFFER
PRIORITY = DataType.PRIORITIZED_EVENT_BUFFER
END_OF_DATA = DataType.END_OF_DATA


class Arranged:
    """A union of remote gates with the given numbers of channels."""

    def __init__(self, *channels: int) -> None:
        self.pool = NetworkBufferPool(64, 64)
        self.client = Client()
        self.gates = [
            make_remote_gate(number, pool=self.pool, client=self.client)[0] for number in channels
        ]
        self.union = UnionInputGate(self.gates)

    def deliver(
        self, gate: int, channel: int, content: bytes = b"event", data_type: DataType = EVENT
    ) -> None:
        remote = self.gates[gate].remote_channels[channel]
        deliver(remote, remote._expected_sequence, content, data_type=data_type)

    def poll(self) -> tuple[int, bytes]:
        polled = self.union.poll()
        assert polled is not None
        index, buffer = polled
        content = content_of(buffer)
        buffer.recycle()
        return index, content

    def woken(self) -> list[bool]:
        woken: list[bool] = []
        self.union.availability.subscribe(lambda: woken.append(True))
        return woken

    def close(self) -> None:
        self.union.release()
        assert_everything_returned(self.pool)


# -- making ----------------------------------------------------------------------------------------


def test_a_union_has_two_gates_or_more_each_of_them_once() -> None:
    """Row 45."""
    gate, _ = make_remote_gate(1)
    other, _ = make_remote_gate(1)
    gates: list[InputGate]
    for gates in ([], [gate], [gate, other, gate]):
        with pytest.raises(LocalProtocolError, match="two or more different gates"):
            UnionInputGate(gates)


def test_unions_are_not_nested() -> None:
    """Row 45."""
    arranged = Arranged(1, 1)
    gate, _ = make_remote_gate(1)
    with pytest.raises(LocalProtocolError, match="gate \\+ gate is a union"):
        UnionInputGate([gate, arranged.union])  # type: ignore[list-item]


# -- polling ---------------------------------------------------------------------------------------


def test_channels_are_numbered_one_gate_behind_the_other() -> None:
    """I13: shifted indices."""
    arranged = Arranged(3, 1, 2)
    for gate, channel in ((2, 1), (0, 0), (0, 2), (1, 0), (2, 0)):
        arranged.deliver(gate, channel, f"{gate} {channel}".encode())
    seen = dict(arranged.poll() for _ in range(5))
    assert seen == {0: b"0 0", 2: b"0 2", 3: b"1 0", 4: b"2 0", 5: b"2 1"}
    assert arranged.union.poll() is None
    assert arranged.union.channels == [
        channel for gate in arranged.gates for channel in gate.channels
    ]
    arranged.close()


def test_no_gate_starves_another() -> None:
    """I13: each gate yields one buffer in turn, even if another gate has more channels with
    data."""
    arranged = Arranged(3, 1)
    for channel in range(3):
        arranged.deliver(0, channel, b"0")
        arranged.deliver(0, channel, b"0")
    for _ in range(3):
        arranged.deliver(1, 0, b"1")
    assert [arranged.poll()[1] for _ in range(9)] == [*[b"0", b"1"] * 3, b"0", b"0", b"0"]
    arranged.close()


def test_a_union_is_available_when_a_gate_is() -> None:
    """I13: with data in either gate; not after a poll that found nothing."""
    arranged = Arranged(1, 1)
    for gate in (0, 1, 0):
        assert arranged.union.poll() is None
        assert not arranged.union.availability.available
        woken = arranged.woken()
        arranged.deliver(gate, 0)
        assert woken
        assert arranged.poll() == (gate, b"event")
    arranged.close()


def test_data_present_before_the_union_is_found() -> None:
    gates = [make_remote_gate(1)[0], make_remote_gate(1)[0]]
    deliver(gates[1].remote_channels[0], 0, b"early", data_type=PRIORITY)
    union = UnionInputGate(gates)
    assert union.availability.available
    assert union.priority_availability.available
    polled = union.poll()
    assert polled is not None
    assert polled[0] == 1
    union.release()


def test_a_priority_event_overtakes_other_gates() -> None:
    """Row 44."""
    arranged = Arranged(1, 2)
    arranged.deliver(0, 0, b"ordinary")
    arranged.deliver(1, 0, b"ordinary")
    assert not arranged.union.priority_availability.available
    for turn in range(2):
        arranged.deliver(1, 1, b"priority", PRIORITY)
        assert arranged.union.priority_availability.available, turn
        assert arranged.poll() == (2, b"priority")
        assert not arranged.union.priority_availability.available
    assert {arranged.poll(), arranged.poll()} == {(0, b"ordinary"), (1, b"ordinary")}
    arranged.deliver(0, 0, b"alone", PRIORITY)
    arranged.deliver(0, 0, b"and again", PRIORITY)
    assert arranged.poll() == (0, b"alone")
    assert arranged.union.priority_availability.available
    assert arranged.poll() == (0, b"and again")
    arranged.close()


def test_a_channel_of_a_united_gate_can_be_placed() -> None:
    """I13: channel update."""
    pool = NetworkBufferPool(64, 64)
    first, _ = make_remote_gate(2, pool=pool)
    second = InputGate("second", [UnknownLocation("p", 0)], HERE, pool, make_config())
    second.setup(lambda: None)
    union = UnionInputGate([first, second])
    assert union.poll() is None
    second.update_channel(0, PartitionLocation(THERE, "p", 0))
    second.remote_channels[0].request(Client())
    deliver(second.remote_channels[0], 0, b"event", data_type=EVENT)
    polled = union.poll()
    assert polled is not None
    assert polled[0] == 2
    assert union.channels[2] is second.channels[0]
    union.release()
    assert_everything_returned(pool)


# -- the end ---------------------------------------------------------------------------------------


def test_a_union_is_finished_when_every_gate_is() -> None:
    """I1, I13: then it stays available, and polling yields nothing."""
    arranged = Arranged(1, 2)
    for index in (1, 0):
        end(arranged.union, index)
        arranged.poll()
    assert (arranged.gates[0].finished, arranged.union.finished) == (True, False)
    assert arranged.union.poll() is None
    assert not arranged.union.availability.available
    end(arranged.union, 2)
    arranged.poll()
    assert arranged.union.finished
    for _ in range(2):
        assert arranged.union.poll() is None
        assert arranged.union.availability.available
    arranged.close()


@pytest.mark.parametrize(
    ("bodies", "expected"),
    [
        ((b"\x91\x01", b"\x91\x01", b"\x91\x01"), EndOfData.DRAINED),
        ((b"\x91\x01", b"\x91\x00", b"\x91\x01"), EndOfData.STOPPED),
        ((b"\x91\x01", b"\x91\x00"), EndOfData.NOT_END_OF_DATA),
    ],
)
def test_the_end_of_data_is_that_of_all_channels(
    bodies: tuple[bytes, ...], expected: EndOfData
) -> None:
    """I2, over two gates."""
    arranged = Arranged(2, 1)
    for (gate, channel), body in zip(((0, 0), (1, 0), (0, 1)), bodies, strict=False):
        arranged.deliver(gate, channel, body, END_OF_DATA)
        index, _ = arranged.poll()
        arranged.union.acknowledge(index)
    assert arranged.union.end_of_data is expected
    assert arranged.union.statistics().end_of_data is expected
    acknowledged = [channel for name, channel in arranged.client.sent if name == "acknowledge"]
    assert acknowledged == [0, 0, 1][: len(bodies)]
    arranged.close()


# -- failure and release ---------------------------------------------------------------------------


def fail_channel(arranged: Arranged) -> None:
    arranged.gates[1].channels[0].fail(ProducerFailedError("first cause"))
    arranged.gates[0].channels[0].fail(RemoteTransportError("later"))


def fail_gate(arranged: Arranged) -> None:
    arranged.gates[1].fail(ProducerFailedError("first cause"))
    arranged.union.fail(RemoteTransportError("later"))


def fail_union(arranged: Arranged) -> None:
    arranged.union.fail(ProducerFailedError("first cause"))
    arranged.gates[0].fail(RemoteTransportError("later"))


@pytest.mark.parametrize("fail", [fail_channel, fail_gate, fail_union])
def test_the_first_error_comes_before_all_data(fail: Callable[[Arranged], None]) -> None:
    """G14, I5: the gate does not matter, and every later poll raises the error again."""
    arranged = Arranged(1, 1)
    arranged.deliver(0, 0)
    arranged.deliver(1, 0)
    fail(arranged)
    for _ in range(2):
        with pytest.raises(ProducerFailedError, match="first cause"):
            arranged.union.poll()
        assert arranged.union.availability.available
    arranged.close()


def test_an_error_wakes_waiters() -> None:
    arranged = Arranged(1, 1)
    assert arranged.union.poll() is None
    woken = arranged.woken()
    arranged.gates[1].channels[0].fail(ProducerFailedError("first cause"))
    assert woken


def test_the_data_of_a_channel_is_acknowledged_once_when_it_has_ended() -> None:
    arranged = Arranged(1, 1)
    with pytest.raises(LocalProtocolError, match="its data has not ended"):
        arranged.union.acknowledge(1)
    end_data(arranged.union, 1)
    with pytest.raises(LocalProtocolError, match="has been acknowledged"):
        arranged.union.acknowledge(1)
    arranged.close()


def test_an_error_in_what_was_delivered_is_the_unions() -> None:
    arranged = Arranged(1, 1)
    arranged.union.channels[1].fail(RemoteProtocolError("no end"))
    for _ in range(2):
        with pytest.raises(RemoteProtocolError, match="no end"):
            arranged.union.poll()
    arranged.close()


def test_a_gate_that_had_failed_before_fails_the_union() -> None:
    gates = [make_remote_gate(1)[0], make_remote_gate(1)[0]]
    gates[1].fail(ProducerFailedError("first cause"))
    union = UnionInputGate(gates)
    with pytest.raises(ProducerFailedError, match="first cause"):
        union.poll()


def test_releasing_a_union_releases_its_gates() -> None:
    """I5: a second release does nothing, and the callback is called once."""
    arranged = Arranged(2, 1)
    told: list[UnionInputGate] = []
    arranged.union.when_released(told.append)
    arranged.deliver(0, 1)
    arranged.deliver(1, 0, b"priority", PRIORITY)
    arranged.close()
    arranged.close()
    assert told == [arranged.union]
    assert all(gate.released for gate in arranged.gates)
    with pytest.raises(ClosedResourceError, match="has been closed"):
        arranged.union.poll()


def test_a_gate_released_alone_ends_the_union() -> None:
    arranged = Arranged(1, 1)
    assert arranged.union.poll() is None
    woken = arranged.woken()
    arranged.gates[0].release()
    assert woken
    for _ in range(2):
        with pytest.raises(ClosedResourceError, match="gate gate has been closed"):
            arranged.union.poll()
    arranged.close()


def test_statistics() -> None:
    arranged = Arranged(1, 2)
    arranged.deliver(0, 0)
    counts = arranged.union.statistics()
    assert (counts.name, counts.gates_queued) == ("gate + gate", 1)
    assert (counts.finished, counts.released) == (False, False)
    assert [len(gate.channels) for gate in counts.gates] == [1, 2]
    arranged.close()
