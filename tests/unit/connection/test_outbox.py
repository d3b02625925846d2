"""The order of a connection's output: control, credit, then readers by quanta of bytes."""

from __future__ import annotations

from collections import Counter
from typing import Any

from flinknet.connection.outbox import Outbox
from flinknet.consumer.credit import ChannelCredit
from flinknet.wire.codec import encode
from flinknet.wire.messages import MessageType as M
from tests.unit.arrangements import put
from tests.unit.connection.joined import Joined, messages

SEGMENT_BYTES = 640
HEADER_BYTES = 35


def arranged(channels: int, **options: Any) -> Joined:
    """Join a pair whose consumer reads every subpartition of ``p``, with plenty of credit."""
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
    """Queue data buffers in a subpartition, even beyond its quota."""
    [partition] = joined.producer.registry.partitions()
    for _ in range(buffers):
        builder = None
        while builder is None:
            builder = partition.request_builder(index)
        builder.append(memoryview(bytes(size)))
        partition.subpartitions[index].seal_open()


def sent_by_channel(joined: Joined, budget_bytes: int) -> Counter[int]:
    """Return the bytes of frames per channel in one write."""
    found: Counter[int] = Counter()
    for message in messages(joined.producer.send(budget_bytes)):
        if message[0] is M.BUFFER_RESPONSE:
            found[message[1]] += HEADER_BYTES + len(message[5])
    return found


def test_small_buffers_get_as_many_bytes_as_large_ones() -> None:
    """Row 34, by bytes: a channel with full buffers does not starve a flushed or debloated
    channel."""
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


def test_bytes_over_the_quantum_are_deducted_later() -> None:
    """Frames of full buffers exceed a quantum by a header.

    In the long run that gives no channel more.
    """
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
    """E7: both readers are queued before a write.

    The write serves the full one and leaves no output, so the owner does not ask again.
    """
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


# -- messages without a body -----------------------------------------------------------------------


class Told:
    """An outbox, with a count of its calls for a write."""

    def __init__(self) -> None:
        self.times = 0
        self.outbox = Outbox(SEGMENT_BYTES, self.tell)

    def tell(self) -> None:
        self.times += 1

    def sent(self) -> bytes:
        frames = b"".join(self.outbox.next_frames(1 << 20))
        self.outbox.forget_in_flight()
        self.outbox.check_invariants()
        return frames


def credit_of(number: int, *, is_due: bool = True) -> ChannelCredit:
    credit = ChannelCredit()
    credit.settle(number, free=2 * number, queued=0, backlog=int(is_due), is_busy=False)
    return credit


def test_credit_is_taken_when_it_is_written_and_offers_ask_for_nothing() -> None:
    told = Told()
    offered, due = credit_of(1, is_due=False), credit_of(2)
    told.outbox.offer_credit(3, offered)
    assert (bool(told.outbox), told.times) == (False, 0)
    told.outbox.add_credit(5, due)
    assert (bool(told.outbox), told.times) == (True, 1)
    due.add(4)
    assert messages(told.sent()) == [(M.ADD_CREDIT, 3, 1), (M.ADD_CREDIT, 5, 6)]
    assert (offered.unannounced, due.unannounced) == (0, 0)
    assert told.outbox.credit_messages_out == 2
    assert told.sent() == b""


def test_credit_that_was_dropped_is_not_sent() -> None:
    told = Told()
    credit = credit_of(2)
    told.outbox.add_credit(5, credit)
    credit.drop()
    assert told.sent() == b""
    assert not told.outbox


def test_of_several_buffer_sizes_the_last_is_sent() -> None:
    told = Told()
    for size in (32, 16):
        told.outbox.add_buffer_size(7, size)
    assert messages(told.sent()) == [(M.NEW_BUFFER_SIZE, 7, 16)]


def test_a_channel_that_is_closed_is_forgotten() -> None:
    told = Told()
    credit = credit_of(2)
    told.outbox.add_credit(5, credit)
    told.outbox.add_buffer_size(5, 32)
    for _ in range(2):
        told.outbox.remove_channel(5)
    assert told.sent() == b""
    assert credit.unannounced == 2


def test_a_cancelled_reader_is_forgotten() -> None:
    joined = arranged(2)
    for index in range(2):
        fill(joined, index, 1, 10)
    outbox = joined.producer.session.outbox
    first, _ = joined.producer.session.readers
    outbox.add_reader(first)  # a second call does not queue it twice
    for _ in range(2):
        outbox.remove_reader(first)
    assert outbox.readers == 1
    assert sent_by_channel(joined, 1 << 20).keys() == {1}
    joined.close()


def test_cleared_output_is_not_sent() -> None:
    joined = arranged(1)
    fill(joined, 0, 2, 10)
    outbox = joined.producer.session.outbox
    assert len(outbox.next_frames(1)) == 2
    assert outbox.in_flight == 1
    outbox.add_message(encode(M.HEARTBEAT))
    outbox.add_credit(5, credit_of(2))
    outbox.add_buffer_size(5, 32)
    outbox.clear()
    outbox.check_invariants()
    assert (bool(outbox), outbox.messages, outbox.control_bytes, outbox.readers) == (False, 0, 0, 0)
    assert outbox.in_flight == 0
    joined.close()


def test_a_slice_of_a_buffer_that_is_written_on_is_sent_as_a_copy() -> None:
    joined = arranged(1)
    [partition] = joined.producer.registry.partitions()
    put(partition, 0, b"part")
    partition.flush(0)
    outbox = joined.producer.session.outbox
    _, body = outbox.next_frames(1 << 20)
    assert body == b"part"
    outbox.forget_in_flight()
    assert outbox.in_flight == 0
    joined.close()
