"""Spoiled byte streams: each causes one typed error, holds no memory, and affects nothing else.

The streams are captured from an exchange between two joined workers, and then spoiled by
hypothesis, which shrinks a failing example and keeps it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from flinknet.buffer.buffer import DataType
from flinknet.config import WireLimits
from flinknet.connection.handshake import Handshake
from flinknet.errors import RemoteError, RemoteProtocolError
from flinknet.wire.handshake_messages import WorkerIdentity
from tests.unit.arrangements import make_config
from tests.unit.connection.joined import Joined, Worker, poll

CONFIG = make_config(receive_buffer_bytes=4096)


def captured() -> tuple[bytes, bytes]:
    """Exchange some records, and return the bytes to the producer and to the consumer."""
    joined = Joined()
    partition = joined.producer.make_partition()
    gate = joined.consumer.make_gate(joined.produced())
    joined.pump()
    for number in range(6):
        builder = partition.request_builder(0)
        assert builder is not None
        builder.append(memoryview(bytes([number]) * (number + 1)))
        joined.pump()
        while poll(gate) is not None:
            joined.pump()
    partition.notify_end_of_data()
    joined.pump()
    while poll(gate) is not None:
        joined.pump()
    gate.acknowledge(0)
    joined.pump()
    partition.finish()
    joined.pump()
    poll(gate)
    gate.release()
    joined.pump()
    joined.close()
    return bytes(joined.to_producer), bytes(joined.to_consumer)


TO_PRODUCER, TO_CONSUMER = captured()


@st.composite
def spoiled(draw: st.DrawFn, stream: bytes) -> bytes:
    """Return a stream with a few bytes changed, removed, inserted or repeated."""
    data = bytearray(stream)
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(len(data), start + 24)))
        replacement = draw(
            st.one_of(st.binary(max_size=8), st.just(bytes(data[start:end]) * 2), st.just(b""))
        )
        data[start:end] = replacement
    return bytes(data)


def feed(worker: Worker, data: bytes, piece: int, task: Callable[[], None] = lambda: None) -> None:
    """Feed bytes in pieces, with a step of the task after each.

    Only a protocol error may be raised, and everything must be released.
    """
    try:
        for start in range(0, len(data), piece):
            worker.receive(data[start : start + piece])
            task()
    except RemoteProtocolError:
        with pytest.raises(RemoteProtocolError):
            # A failed connection refuses all further bytes.
            worker.receive(b"\x91\x05")
    worker.send()
    worker.lose(ConnectionError("the test is over"))
    for partition in worker.registry.partitions():
        partition.release()


@settings(max_examples=400)
@given(spoiled(TO_PRODUCER), st.integers(1, 64))
def test_a_producer_takes_any_bytes(data: bytes, piece: int) -> None:
    worker = Worker("127.0.0.1:1", "a stranger", CONFIG, lambda: None)
    partition = worker.make_partition()
    builder = partition.request_builder(0)
    assert builder is not None
    builder.append(memoryview(b"some data"))
    feed(worker, data, piece)
    worker.assert_nothing_is_left()


@settings(max_examples=400)
@given(spoiled(TO_CONSUMER), st.integers(1, 64))
def test_a_consumer_takes_any_bytes(data: bytes, piece: int) -> None:
    joined = Joined()
    gate = joined.consumer.make_gate(joined.produced())
    joined.consumer.send()

    def consume() -> None:
        with suppress(RemoteError):
            while (polled := poll(gate)) is not None:
                if polled[1] is DataType.END_OF_DATA:
                    gate.acknowledge(0)

    feed(joined.consumer, data, piece, consume)
    with pytest.raises((RemoteError, ConnectionError)):
        while not gate.finished:
            assert poll(gate) is not None
        raise ConnectionError("the stream was not spoiled enough to matter")
    gate.release()
    joined.consumer.assert_nothing_is_left()


@settings(max_examples=400)
@given(st.binary(max_size=200), st.booleans())
@example(b"", True)
def test_noise_is_refused(data: bytes, consumes: bool) -> None:
    worker = Worker("127.0.0.1:1", "a stranger", CONFIG, lambda: None)
    worker.make_partition()
    feed(worker, data, 7 if consumes else 200)
    worker.assert_nothing_is_left()


@settings(max_examples=600)
@given(st.data())
def test_a_handshake_is_understood_or_refused(data: st.DataObject) -> None:
    """A handshake is decided before more bytes arrive than a message may have.

    The accepting side refuses every message that was changed in transit.
    """
    limits = WireLimits()
    dialler = WorkerIdentity("worker-1", "127.0.0.1:7001", "job", 0, 1024)
    accepter = WorkerIdentity("worker-2", "127.0.0.1:7002", "job", 0, 1024)
    one, other = (
        Handshake(mine, dials=dials, secret=b"secret", nonce=bytes(16), limits=limits, now=0.0)
        for mine, dials in ((dialler, True), (accepter, False))
    )
    said = one.start()
    if data.draw(st.booleans()):
        said = one.received(other.received(said))
    received = data.draw(st.one_of(spoiled(said), st.binary(max_size=600)))
    other.received(received)
    if other.state.is_open:
        assert len(received) < len(said) + 12 + limits.handshake_bytes_max
    assert other.agreed == (other.theirs is not None and received[: len(said)] == said)
