"""What a connection sends, and in which order: control, credit, then readers by quanta of bytes."""

from __future__ import annotations

from collections import Counter
from typing import Any

from flinknet.wire.messages import MessageType as M
from tests.unit.arrangements import put
from tests.unit.connection.joined import Joined, messages

SEGMENT_BYTES = 640
HEADER_BYTES = 35


def arranged(channels: int, **options: Any) -> Joined:
    """A joined pair whose consumer reads every subpartition of ``p``, with a lot of credit."""
    joined = Joined(
        segment_bytes=SEGMENT_BYTES,
        network_memory_bytes=SEGMENT_BYTES * 4000,
        buffers_per_channel=200,
        **options,
    )
    joined.producer.make_partition("p", channels)
    gate = joined.consumer.make_gate(*[joined.produced(index) for index in range(channels)])
    joined.gates.append(gate)
    joined.pump()
    return joined


def fill(joined: Joined, index: int, buffers: int, size: int) -> None:
    """Queue data buffers in a subpartition, whatever its quota."""
    [partition] = joined.producer.registry.partitions()
    for _ in range(buffers):
        builder = None
        while builder is None:
            builder = partition.request_builder(index)
        builder.append(memoryview(bytes(size)))
        partition.subpartitions[index].seal_open()


def sent_by_channel(joined: Joined, budget_bytes: int) -> Counter[int]:
    """Bytes of frames per channel in one write."""
    found: Counter[int] = Counter()
    for message in messages(joined.producer.send(budget_bytes)):
        if message[0] is M.BUFFER_RESPONSE:
            found[message[1]] += HEADER_BYTES + len(message[5])
    return found


def test_small_buffers_get_as_many_bytes_as_large_ones() -> None:
    """Row 34, by bytes: a flushed or debloated channel is not starved by one with full buffers."""
    joined = arranged(2, floating_buffers_per_gate=0)
    fill(joined, 0, 20, SEGMENT_BYTES)
    fill(joined, 1, 150, 30)
    budget = 10 * SEGMENT_BYTES
    sent = sent_by_channel(joined, budget)
    assert abs(sent[0] - sent[1]) <= 2 * (SEGMENT_BYTES + HEADER_BYTES)
    joined.close()


def test_the_share_is_kept_across_writes_of_any_size() -> None:
    joined = arranged(2, floating_buffers_per_gate=0)
    fill(joined, 0, 20, SEGMENT_BYTES)
    fill(joined, 1, 150, 30)
    sent: Counter[int] = Counter()
    while sum(sent.values()) < 14 * SEGMENT_BYTES:
        sent += sent_by_channel(joined, 100)
        difference = abs(sent[0] - sent[1])
        assert difference <= 2 * (SEGMENT_BYTES + HEADER_BYTES)
    joined.close()


def test_what_was_sent_over_the_quantum_is_paid_back() -> None:
    """Full buffers are a header larger than a quantum: in the long run nobody gains by that."""
    joined = arranged(2, floating_buffers_per_gate=0)
    fill(joined, 0, 60, SEGMENT_BYTES)
    fill(joined, 1, 60, SEGMENT_BYTES // 2 - HEADER_BYTES)
    sent = sent_by_channel(joined, 50 * SEGMENT_BYTES)
    assert abs(sent[0] - sent[1]) <= 2 * (SEGMENT_BYTES + HEADER_BYTES)
    joined.close()


def test_a_reader_without_rivals_uses_the_whole_budget() -> None:
    joined = arranged(1)
    fill(joined, 0, 10, SEGMENT_BYTES)
    assert len(messages(joined.producer.send(10 * SEGMENT_BYTES))) == 10
    joined.close()


def test_a_turn_of_tiny_buffers_has_no_more_pieces_than_a_system_call_takes() -> None:
    joined = Joined(
        segment_bytes=64_000,
        network_memory_bytes=64_000 * 1400,
        buffers_per_channel=700,
        receive_buffer_bytes=1 << 20,
    )
    joined.producer.make_partition("p", 1)
    joined.gates.append(joined.consumer.make_gate(joined.produced(0)))
    joined.pump()
    fill(joined, 0, 600, 1)
    frames = joined.producer.link.next_frames(1 << 20)
    assert len(frames) == 1000
    joined.producer.link.frames_written()
    assert len(messages(joined.producer.send())) == 100
    joined.close()


def test_a_reader_that_lost_what_it_had_does_not_hold_up_the_next() -> None:
    """E7: both are queued while nothing can be written; one write serves the full one, and then
    there is nothing to ask for again and again."""
    joined = Joined()
    partitions = [joined.producer.make_partition(name) for name in ("emptied", "full")]
    locations = [joined.produced(partition_id=name) for name in ("emptied", "full")]
    joined.gates.append(joined.consumer.make_gate(*locations))
    joined.pump()
    for partition in partitions:
        put(partition, 0, b"data")
        partition.subpartitions[0].seal_open()
    assert joined.producer.link.statistics().readers_available == 2
    partitions[0].fail(ValueError("boom"))
    sent = messages(joined.producer.send())
    assert [message[:2] for message in sent] == [(M.ERROR_RESPONSE, 0), (M.BUFFER_RESPONSE, 1)]
    assert not joined.producer.link.has_output
    assert joined.producer.send() == b""
    joined.close()
