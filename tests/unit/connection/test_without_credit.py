"""Flow control off: a consumer without buffers stops reading the whole connection (Flink 1.4)."""

from __future__ import annotations

import pytest

from flinknet.consumer.input_gate import InputGate
from flinknet.errors import RemoteProtocolError
from flinknet.partition.result_partition import ResultPartition
from flinknet.wire.messages import MessageType as M
from tests.unit.arrangements import content_of, put
from tests.unit.connection.joined import Joined, kinds
from tests.unit.wire.received import about, partition_request

POOL = 3
"""Buffers of a gate with one channel: 1 x 1 + 2."""


def arranged(gates: int = 1) -> tuple[Joined, list[ResultPartition], list[InputGate]]:
    """Join partitions of one subpartition, each read by a gate of its own, over one connection."""
    joined = Joined(
        flow_control="off",
        buffers_per_channel=1,
        floating_buffers_per_gate=POOL - 1,
        network_memory_bytes=64 * 400,
        buffers_per_subpartition_max=100,
    )
    partitions = [joined.producer.make_partition(f"p{number}") for number in range(gates)]
    made = [
        joined.consumer.make_gate(joined.produced(partition_id=f"p{number}"))
        for number in range(gates)
    ]
    joined.pump()
    return joined, partitions, made


def write(partition: ResultPartition, content: bytes) -> None:
    put(partition, 0, content)
    partition.subpartitions[0].seal_open()


def deliver(joined: Joined, piece: int | None = None) -> None:
    """Deliver one write of the producer, unless the consumer has stopped reading."""
    data = joined.producer.send()
    if data:
        joined.consumer.receive(data, piece)


def take(gate: InputGate) -> list[bytes]:
    """Poll and recycle all buffers that have arrived; return their contents."""
    taken = []
    while (polled := gate.poll()) is not None:
        taken.append(content_of(polled[1]))
        polled[1].recycle()
    return taken


def content(number: int) -> bytes:
    return bytes([number]) * 8


def go_on(joined: Joined) -> None:
    """Resume the stalled link, as the shell does after a notice."""
    link = joined.consumer.link
    while link.can_resume:
        link.resume(0.0)
        link.check_invariants()


def test_data_is_sent_without_any_credit() -> None:
    joined, [partition], [gate] = arranged()
    for number in range(POOL):
        write(partition, content(number))
    deliver(joined)
    assert take(gate) == [content(number) for number in range(POOL)]
    assert kinds(joined.consumer.send()) == []  # nor is any given back
    gate.release()
    joined.close()


@pytest.mark.parametrize("piece", [None, 1, 50])
def test_a_consumer_without_buffers_stops_reading_and_loses_nothing(piece: int | None) -> None:
    """2.2: the frame is staged and reading stops until a buffer is free."""
    joined, [partition], [gate] = arranged()
    link = joined.consumer.link
    for number in range(8):
        write(partition, content(number))
    taken: list[bytes] = []
    data = joined.producer.send()
    while data or link.stalled:
        while data and not link.stalled:
            step = piece or len(data)
            joined.consumer.receive(data[:step])
            data = data[step:]
        taken += take(gate)
        go_on(joined)
    assert taken + take(gate) == [content(number) for number in range(8)]
    gate.release()
    joined.close()


def test_one_slow_gate_stops_the_others_too() -> None:
    """Credit exists to prevent this head-of-line blocking."""
    joined, [slow, fast], [slow_gate, fast_gate] = arranged(gates=2)
    for number in range(POOL + 1):
        write(slow, content(number))
    deliver(joined)
    assert joined.consumer.link.stalled
    assert joined.consumer.link.statistics().stalled
    write(fast, b"f")
    waiting = joined.producer.send()
    assert take(fast_gate) == []
    assert take(slow_gate) == [content(number) for number in range(POOL)]
    go_on(joined)
    joined.consumer.receive(waiting)
    assert take(fast_gate) == [b"f"]
    assert take(slow_gate) == [content(POOL)]
    for gate in (slow_gate, fast_gate):
        gate.release()
    joined.close()


def test_leaving_the_gate_that_blocks_lets_the_others_go_on() -> None:
    joined, [slow, fast], [slow_gate, fast_gate] = arranged(gates=2)
    for number in range(POOL + 2):
        write(slow, content(number))
    write(fast, b"f")
    deliver(joined)
    assert joined.consumer.link.stalled
    slow_gate.release()
    assert joined.consumer.link.can_resume
    go_on(joined)
    assert not joined.consumer.link.stalled
    assert take(fast_gate) == [b"f"]
    fast_gate.release()
    joined.pump()
    joined.close()


def test_a_stalled_connection_that_is_lost_gives_everything_back() -> None:
    joined, [partition], [gate] = arranged()
    for number in range(POOL + 2):
        write(partition, content(number))
    deliver(joined)
    assert joined.consumer.link.stalled
    joined.consumer.lose(RemoteProtocolError("gone"))
    assert not joined.consumer.link.stalled
    gate.release()
    joined.close()


def test_the_end_arrives_behind_the_data() -> None:
    joined, [partition], [gate] = arranged()
    for number in range(6):
        write(partition, content(number))
    partition.notify_end_of_data()
    taken: list[bytes] = []
    deliver(joined)
    while gate.channels[0].drained is None:
        taken += take(gate)
        go_on(joined)
    gate.acknowledge(0)
    joined.pump()
    partition.finish()
    joined.pump()
    take(gate)
    assert gate.finished
    assert taken[:6] == [content(number) for number in range(6)]
    gate.release()
    joined.pump()
    joined.close()


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (partition_request(7, credit=2), "with a credit of 2, though flow control is off"),
        (about(M.ADD_CREDIT, 0, 1), "sent ADD_CREDIT, though flow control is off"),
    ],
)
def test_credit_breaks_the_protocol(message: bytes, reason: str) -> None:
    joined, _, [gate] = arranged()
    with pytest.raises(RemoteProtocolError, match=reason):
        joined.producer.receive(message)
    gate.release()
    joined.close()


def test_an_announced_backlog_breaks_the_protocol() -> None:
    joined, _, [gate] = arranged()
    with pytest.raises(RemoteProtocolError, match="only a channel without any needs it"):
        joined.consumer.receive(about(M.BACKLOG_ANNOUNCEMENT, 0, 1))
    gate.release()
    joined.close()
