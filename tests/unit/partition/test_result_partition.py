from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from flinknet.buffer.availability import Availability
from flinknet.buffer.buffer import DataType
from flinknet.buffer.network_pool import NetworkBufferPool
from flinknet.config import WireLimits
from flinknet.errors import (
    ClosedResourceError,
    ConsumerCancelledError,
    ConsumerNotFoundError,
    InsufficientNetworkBuffersError,
    LocalProtocolError,
    PartitionNotFoundError,
    ProducerFailedError,
    RemoteTransportError,
)
from flinknet.partition.result_partition import ResultPartition, pool_size
from flinknet.partition.timeoutable_barrier import OvertakenData
from flinknet.wire.events import (
    Alignment,
    CancelCheckpointMarker,
    CheckpointBarrier,
    CheckpointKind,
    CheckpointOptions,
    Watermark,
)
from tests.unit.arrangements import (
    Reader,
    assert_everything_returned,
    content_of,
    finish,
    make_config,
    make_partition,
    put,
    take,
    take_all,
    view_of,
)
from tests.unit.partition.blocking import BlockingSubpartition

END_OF_DATA = DataType.END_OF_DATA
END = DataType.END_OF_PARTITION
EVENT = DataType.EVENT_BUFFER


def fill_the_pool(partition: ResultPartition) -> int:
    """Write buffers until the pool has none, overdraft included; return their number."""
    taken = 0
    while (builder := partition.request_builder(0)) is not None:
        builder.append(memoryview(b"data"))
        taken += 1
    return taken


# -- memory ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("subpartitions", "required", "maximum"), [(1, 2, 10), (4, 5, 16), (100, 101, 208)]
)
def test_a_pool_is_bounded(subpartitions: int, required: int, maximum: int) -> None:
    """D3: at n + 1 and 2n + 8 buffers."""
    assert pool_size(subpartitions, make_config()) == (required, maximum)
    partition, _ = make_partition(subpartitions, segments=300)
    counts = partition.statistics().pool
    assert (counts.required, counts.maximum, counts.size) == (required, maximum, maximum)
    assert counts.owner == "partition p"


def test_the_bounds_follow_the_options() -> None:
    config = make_config(buffers_per_channel=3, floating_buffers_per_gate=5)
    assert pool_size(4, config) == (5, 17)
    config = make_config(buffers_per_channel=0, floating_buffers_per_gate=1)
    assert pool_size(4, config) == (5, 5), "never under the requirement"


def test_a_partition_that_does_not_fit_leaves_nothing_behind() -> None:
    """D15, B29: a pool with one buffer fewer than needed is refused."""
    pool = NetworkBufferPool(5, 64)
    ResultPartition("fits", 4, pool, make_config()).release()
    pool = NetworkBufferPool(4, 64)
    with pytest.raises(InsufficientNetworkBuffersError, match="partition p needs 5"):
        ResultPartition("p", 4, pool, make_config())
    assert_everything_returned(pool)


def test_a_partition_without_subpartitions_is_refused() -> None:
    pool = NetworkBufferPool(4, 64)
    with pytest.raises(LocalProtocolError, match="it needs 1 or more"):
        ResultPartition("p", 0, pool, make_config())
    assert_everything_returned(pool)


def test_a_partition_is_available_while_a_buffer_is_idle() -> None:
    """D4: with both buffers of a pool of 2 full no record can begin; reading one makes it
    available."""
    partition, _ = make_partition(1, segments=2)
    view = view_of(partition)
    assert partition.availability.available
    put(partition, 0, b"x" * 64)
    assert partition.availability.available
    put(partition, 0, b"y" * 64)
    assert not partition.availability.available
    assert partition.request_builder(0) is None
    assert take(view) == b"x" * 64
    assert partition.availability.available


def test_a_subpartition_at_its_quota_stops_the_beginning_of_records() -> None:
    """B17, row 22: the quota limits skew; a record in progress still gets buffers."""
    partition, _ = make_partition(2, buffers_per_subpartition_max=3)
    views = [view_of(partition, index) for index in range(2)]
    for _ in range(3):
        put(partition, 0, b"skewed")
    assert not partition.availability.available
    assert partition.statistics().pool.idle > 0
    put(partition, 0, b"in progress")
    put(partition, 1, b"also")
    assert take(views[0]) == b"skewed"
    assert not partition.availability.available
    assert take(views[0]) == b"skewed"
    assert partition.availability.available


def test_a_broadcast_waits_for_a_buffer_as_well() -> None:
    partition, _ = make_partition(1, segments=2)
    fill_the_pool(partition)
    assert partition.statistics().pool_usage == 1.0
    assert partition.request_broadcast_builder() is None
    partition.release()


def test_overdraft_serves_a_record_in_progress() -> None:
    """Row 8: the pool lends 5 buffers beyond its size, if the worker has them, and is unavailable
    meanwhile."""
    partition, pool = make_partition(1, segments=64)
    taken = fill_the_pool(partition)
    counts = partition.statistics().pool
    assert (taken, counts.size, counts.overdraft) == (15, 10, 5)
    assert not partition.availability.available
    partition.release()
    assert_everything_returned(pool)


# -- writing ---------------------------------------------------------------------------------------


def test_every_reader_gets_its_own_data() -> None:
    """D1, D13: bytes are counted per subpartition."""
    partition, _ = make_partition(3)
    views = [view_of(partition, index) for index in range(3)]
    put(partition, 0, b"to the first")
    put(partition, 2, b"to the third, longer")
    partition.broadcast_event(EVENT, b"to all")
    assert [take_all(view) for view in views] == [
        [b"to the first", EVENT],
        [EVENT],
        [b"to the third, longer", EVENT],
    ]
    counts = partition.statistics().subpartitions
    assert [part.bytes_out for part in counts] == [18, 6, 26]


def test_a_broadcast_builder_is_one_buffer_for_all() -> None:
    """A18, D13: n times its size is sent, each subpartition counts it once, and it is recycled
    after the last read."""
    partition, _ = make_partition(4)
    views = [view_of(partition, index) for index in range(4)]
    in_use = partition.statistics().pool.in_use
    builder = partition.request_broadcast_builder()
    assert builder is not None
    builder.append(memoryview(b"for everyone"))
    assert partition.statistics().pool.in_use == in_use + 1
    partition.seal_all()
    for index, view in enumerate(views):
        assert partition.statistics().pool.in_use == in_use + 1
        assert take(view) == b"for everyone"
        assert partition.statistics().subpartitions[index].bytes_out == 12
    assert partition.statistics().pool.in_use == in_use


def test_a_buffer_counts_once_however_often_it_was_flushed() -> None:
    """B19, D1: it counts once in the pool and in the quota of its subpartition."""
    partition, _ = make_partition(2, buffers_per_subpartition_max=2)
    view = view_of(partition, 0)
    builder = put(partition, 0, b"0")
    for number in range(1, 20):
        partition.flush(0)
        assert take(view) == b"%d" % (number - 1)
        builder.resume()
        builder.append(memoryview(b"%d" % number))
        assert (partition.statistics().pool.in_use, partition.availability.available) == (1, True)
    put(partition, 0, b"next")
    assert not partition.availability.available, "two buffers are the quota"
    assert take(view) == b"19"
    assert (partition.statistics().pool.in_use, partition.availability.available) == (1, True)
    partition.check_invariants()


def test_readers_of_a_broadcast_take_from_the_same_buffer_when_they_like() -> None:
    """A20, D13: the bytes produced count once, and a reader that leaves does not block the
    others."""
    partition, _ = make_partition(3)
    views = [view_of(partition, index) for index in range(3)]
    builder = partition.request_broadcast_builder()
    assert builder is not None
    builder.append(memoryview(b"first"))
    partition.flush_all()
    assert take(views[0]) == b"first"
    builder.resume()
    builder.append(memoryview(b"second"))
    partition.flush_all()
    assert [take(views[0]), take(views[1])] == [b"second", b"firstsecond"]
    assert partition.statistics().bytes_produced == len(b"firstsecond")
    views[2].release()
    assert partition.statistics().pool.in_use == 1
    put(partition, 0, b"own")
    partition.seal_all()
    assert [take_all(views[0]), take_all(views[1])] == [[b"own"], []]
    assert partition.statistics().pool.in_use == 0
    assert partition.statistics().bytes_produced == len(b"firstsecondown")
    partition.check_invariants()


def test_shared_buffers_are_produced_once_and_sent_to_each_reader() -> None:
    """D13, section 5: numBytesProduced and numBytesOut, events included."""
    partition, _ = make_partition(3)
    views = [view_of(partition, index) for index in range(3)]
    put(partition, 0, b"12345")
    for content in (b"to all!", b"again"):
        builder = partition.request_broadcast_builder()
        assert builder is not None
        builder.append(memoryview(content))
    assert (partition.statistics().bytes_produced, partition.statistics().bytes_out) == (17, 0)
    partition.broadcast_event(EVENT, b"+4++")
    for view in views:
        take_all(view)
    counts = partition.statistics()
    assert counts.bytes_produced == 21
    assert counts.bytes_out == 5 + 3 * (7 + 5 + 4)
    assert counts.buffers_out == 1 + 3 * 3
    views[0].release()
    builder = partition.request_broadcast_builder()
    assert builder is not None
    builder.append(memoryview(b"for two"))
    assert partition.statistics().bytes_produced == 28


def test_output_queues_and_pool_in_use() -> None:
    """Section 5: outputQueueLength, outputQueueSize, outPoolUsage, total/min/max/avgQueueLen."""
    partition, _ = make_partition(2, overdraft_buffers_per_partition=3)
    assert partition.statistics().queue_lengths == (0, 0, 0, 0)
    assert partition.statistics().pool_usage == 0
    for content in (b"one", b"two", b"three"):
        put(partition, 0, content)
    put(partition, 1, b"four")
    counts = partition.statistics()
    assert counts.queue_lengths == (4, 1, 3, 2.0)
    assert counts.queued_bytes == 15
    assert counts.pool_usage == pytest.approx(4 / 12)
    fill_the_pool(partition)
    assert partition.statistics().pool_usage == pytest.approx(15 / 12), "overdraft is in use"


def test_a_broadcast_builder_that_one_reader_took_is_closed_for_all() -> None:
    partition, _ = make_partition(2)
    views = [view_of(partition, index) for index in range(2)]
    builder = partition.request_broadcast_builder()
    assert builder is not None
    builder.append(memoryview(b"early"))
    partition.flush(0)
    assert take(views[0]) == b"early"
    assert builder.remaining == 0
    assert views[1].backlog() == 0, "not flushed for the other one"
    put(partition, 1, b"late")
    partition.flush_all()
    assert take_all(views[1]) == [b"early", b"late"]
    assert take_all(views[0]) == []


@pytest.mark.parametrize("first", ["unicast", "broadcast"])
def test_changing_between_one_and_all_keeps_the_order(first: str) -> None:
    """A17, A20, D14: a new builder seals the builder before it, shared or not."""
    partition, _ = make_partition(2)
    views = [view_of(partition, index) for index in range(2)]
    order = ["unicast", "broadcast"] if first == "unicast" else ["broadcast", "unicast"]
    for number in range(3):
        for mode in order:
            builder = (
                partition.request_builder(0)
                if mode == "unicast"
                else partition.request_broadcast_builder()
            )
            assert builder is not None
            builder.append(memoryview(f"{mode} {number}".encode()))
    partition.flush_all()
    to_first = [f"{mode} {number}".encode() for number in range(3) for mode in order]
    assert take_all(views[0]) == to_first
    assert take_all(views[1]) == [content for content in to_first if b"broadcast" in content]


def test_an_event_is_shared_and_finishes_open_buffers() -> None:
    """A17, A18."""
    partition, _ = make_partition(4)
    views = [view_of(partition, index) for index in range(4)]
    put(partition, 1, b"open")
    partition.broadcast_event(EVENT, b"event")
    buffers = []
    for index, view in enumerate(views):
        if index == 1:
            assert take(view) == b"open"
        polled = view.poll()
        assert polled is not None
        buffers.append(polled.buffer)
    assert all(buffer is buffers[0] for buffer in buffers)
    assert buffers[0].references == 4
    for buffer in buffers:
        assert content_of(buffer) == b"event"
        buffer.recycle()
    assert buffers[0].references == 0


def test_a_record_over_several_buffers_is_marked() -> None:
    """D6, by meaning: only the last of its buffers ends with a record."""
    partition, _ = make_partition(1)
    view = view_of(partition)
    rest = memoryview(b"r" * 150)
    while rest:
        builder = partition.request_builder(0)
        assert builder is not None
        rest = rest[builder.append(rest) :]
    partition.flush(0)
    types = []
    while (polled := view.poll()) is not None:
        types.append((polled.buffer.size, polled.buffer.data_type))
        polled.buffer.recycle()
    assert types == [
        (64, DataType.DATA_BUFFER),
        (64, DataType.DATA_BUFFER),
        (22, DataType.DATA_BUFFER_WITH_CLEAR_END),
    ]


# -- buffer sizes ----------------------------------------------------------------------------------


def test_new_builders_have_the_size_that_the_reader_wants() -> None:
    """C14, E6, D9: by default the whole segment, then the requested size, and never more than the
    segment."""
    partition, _ = make_partition(2)
    view = view_of(partition)

    def room(index: int) -> int:
        builder = partition.request_builder(index)
        assert builder is not None
        return builder.remaining

    assert room(0) == 64
    view.notify_new_buffer_size(42)
    assert (room(0), room(1)) == (42, 64)
    view.notify_new_buffer_size(1_000)
    assert room(0) == 64


@pytest.mark.parametrize(("hints", "capacity"), [((6, 10), 6), ((4, 12), 4), ((8, 5), 5)])
def test_a_broadcast_builder_has_the_least_of_the_sizes(
    hints: tuple[int, int], capacity: int
) -> None:
    """D10."""
    partition, _ = make_partition(2)
    views = [view_of(partition, index) for index in range(2)]
    for view, hint in zip(views, hints, strict=True):
        view.notify_new_buffer_size(hint)
    builder = partition.request_broadcast_builder()
    assert builder is not None
    assert builder.remaining == capacity
    views[hints.index(min(hints))].release()
    builder = partition.request_broadcast_builder()
    assert builder is not None
    assert builder.remaining == max(hints), "who has left does not count"


# -- the end ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("drain", "body"), [(True, b"\x91\x01"), (False, b"\x91\x00")])
def test_an_end_of_data_says_whether_all_input_was_read(drain: bool, body: bytes) -> None:
    """I2, D12: DRAIN or NO_DRAIN; the first call counts."""
    partition, _ = make_partition(2)
    views = [view_of(partition, index) for index in range(2)]
    partition.notify_end_of_data(drain=drain)
    partition.notify_end_of_data(drain=not drain)
    for view in views:
        polled = view.poll()
        assert polled is not None
        assert (polled.buffer.data_type, content_of(polled.buffer)) == (END_OF_DATA, body)
        assert view.poll() is None
    partition.release()


def test_an_event_may_be_for_one_reader() -> None:
    partition, _ = make_partition(2)
    views = [view_of(partition, index) for index in range(2)]
    put(partition, 1, b"data")
    partition.emit_event(EVENT, b"event", 1)
    assert [take_all(view) for view in views] == [[], [b"data", EVENT]]
    finish(partition)
    with pytest.raises(LocalProtocolError, match="has been finished: nothing can be written"):
        partition.emit_event(EVENT, b"event", 1)


def test_events_that_one_reader_does_not_take_are_refused_for_all() -> None:
    """The ends and a cancel marker are exempt, as each exists at most once in a queue.

    A waiting writer is told when there is room.
    """
    partition, _ = make_partition(2, wire=WireLimits(events_per_channel_max=2))
    views = [view_of(partition, index) for index in range(2)]
    for _ in range(2):
        partition.broadcast_event(EVENT, b"event")
    assert take_all(views[0]) == [EVENT] * 2
    assert [partition.has_room_for_event(index) for index in (None, 0, 1)] == [False, True, False]
    refused = "2 events wait for the reader of subpartition 1 of partition p"
    barriers = (barrier(1, Alignment.UNALIGNED), barrier(1, Alignment.ALIGNED, 10))
    writes: list[Callable[[], None]] = [
        lambda: partition.broadcast_event(EVENT, b"event"),
        lambda: partition.emit_event(EVENT, b"event", 1),
        *(partial(partition.broadcast_barrier, each, OnOvertaken()) for each in barriers),
    ]
    for write in writes:
        with pytest.raises(LocalProtocolError, match=refused):
            write()
    partition.emit_event(EVENT, b"event", 0)
    for number in range(5):
        partition.broadcast_event(*CancelCheckpointMarker(number).event())
    partition.notify_end_of_data()
    assert take_all(views[0]) == [EVENT, EVENT, END_OF_DATA]
    waiting = Notified(partition.room_for_events)
    polled = views[1].poll()
    assert polled is not None
    assert not waiting.told, "the end and the marker are more than may wait"
    assert take_all(views[1]) == [EVENT, EVENT, END_OF_DATA]
    assert waiting.told
    finish(partition)
    for view in views:
        assert take_all(view) == [END]
        view.release()
    assert partition.released


class Notified:
    """A reader that records its notices."""

    def __init__(self, availability: Availability) -> None:
        self.told = False
        availability.set(False)
        availability.subscribe(self.note)

    def note(self) -> None:
        self.told = True


@pytest.mark.parametrize("end", ["reader gone", "partition failed"])
def test_a_writer_that_waits_for_room_learns_of_the_failure(end: str) -> None:
    partition, _ = make_partition(2, wire=WireLimits(events_per_channel_max=1))
    views = [view_of(partition, index) for index in range(2)]
    partition.broadcast_event(EVENT, b"event")
    waiting = Notified(partition.room_for_events)
    if end == "reader gone":
        views[0].release()
    else:
        partition.fail(RuntimeError("planned"))
    assert waiting.told
    partition.release()


def test_bytes_add_up_where_events_are_superseded() -> None:
    partition, _ = make_partition(2)
    views = [view_of(partition, index) for index in range(2)]
    for number in range(10):
        partition.broadcast_event(*Watermark(number).event())
        if number % 3 == 0:
            assert take_all(views[0]) == [EVENT]
    assert partition.statistics().bytes_produced == 10 * len(Watermark(0).event().body)
    partition.check_invariants()
    finish(partition)
    assert take_all(views[0])[-2:] == take_all(views[1])[-2:] == [END_OF_DATA, END]
    assert all(subpartition.consumed for subpartition in partition.subpartitions)
    partition.release()


def test_a_reader_that_has_left_does_not_bound_events() -> None:
    partition, _ = make_partition(2, wire=WireLimits(events_per_channel_max=1))
    gone, view = view_of(partition, 0), view_of(partition, 1)
    partition.broadcast_event(EVENT, b"event")
    gone.release()
    assert take_all(view) == [EVENT]
    partition.broadcast_event(EVENT, b"event")
    assert take_all(view) == [EVENT]
    partition.release()


def test_the_end_of_data_is_told_once_and_acknowledged_by_all() -> None:
    """D12."""
    partition, _ = make_partition(3)
    views = [view_of(partition, index) for index in range(3)]
    partition.notify_end_of_data()
    partition.notify_end_of_data()
    assert [take_all(view) for view in views] == [[END_OF_DATA]] * 3
    for view in views[:2]:
        view.acknowledge_all_data_processed()
        with pytest.raises(LocalProtocolError, match="has been acknowledged"):
            view.acknowledge_all_data_processed()
    assert not partition.all_data_processed.available
    views[2].acknowledge_all_data_processed()
    assert partition.all_data_processed.available


def test_a_reader_that_leaves_counts_as_acknowledged() -> None:
    partition, _ = make_partition(2)
    views = [view_of(partition, index) for index in range(2)]
    partition.notify_end_of_data()
    views[0].acknowledge_all_data_processed()
    views[0].release()
    assert not partition.all_data_processed.available
    views[1].release()
    assert partition.all_data_processed.available


def test_finishing_ends_every_subpartition_once() -> None:
    """D1, row 20: nothing can be written afterwards."""
    partition, _ = make_partition(2)
    views = [view_of(partition, index) for index in range(2)]
    put(partition, 0, b"last")
    finish(partition)
    for write in (
        partition.finish,
        lambda: partition.request_builder(0),
        partition.request_broadcast_builder,
        lambda: partition.broadcast_event(EVENT, b"late"),
    ):
        with pytest.raises(LocalProtocolError, match="partition p has been finished"):
            write()
    assert [take_all(view) for view in views] == [[b"last", END_OF_DATA, END], [END_OF_DATA, END]]


def test_a_partition_is_not_finished_before_all_data_is_processed() -> None:
    """An event that one subpartition refuses is queued in none."""
    partition, _ = make_partition(2)
    views = [view_of(partition, index) for index in range(2)]
    with pytest.raises(LocalProtocolError, match="subpartition 0 of .*: its data has not ended"):
        partition.finish()
    partition.notify_end_of_data()
    views[0].acknowledge_all_data_processed()
    with pytest.raises(LocalProtocolError, match="subpartition 1 .* has not been acknowledged"):
        partition.finish()
    assert not partition.finished
    assert [take_all(view) for view in views] == [[END_OF_DATA]] * 2
    views[1].release()
    partition.finish()
    assert take_all(views[0]) == [END]


def test_no_data_follows_its_end() -> None:
    """Neither for one subpartition nor for all, and no buffer is taken for it."""
    partition, pool = make_partition(2)
    views = [view_of(partition, index) for index in range(2)]
    partition.notify_end_of_data()
    for write in (lambda: partition.request_builder(1), partition.request_broadcast_builder):
        with pytest.raises(LocalProtocolError, match="data must not arrive on subpartition"):
            write()
    with pytest.raises(LocalProtocolError, match="END_OF_DATA must not arrive on subpartition 0"):
        partition.broadcast_event(END_OF_DATA, b"\x91\x01")
    assert partition.statistics().pool.in_use == 0
    partition.broadcast_event(EVENT, b"event")
    assert [take_all(view) for view in views] == [[END_OF_DATA, EVENT]] * 2
    partition.release()
    assert_everything_returned(pool)


def test_nothing_can_be_written_after_the_release() -> None:
    """D1: no reader is notified."""
    partition, pool = make_partition(1)
    reader = Reader()
    view_of(partition, reader=reader)
    partition.release()
    assert reader.notices == 1, "of the release itself"
    for write in (
        partition.finish,
        lambda: partition.request_builder(0),
        partition.request_broadcast_builder,
        partition.notify_end_of_data,
    ):
        with pytest.raises(LocalProtocolError, match="partition p has been released"):
            write()
    assert reader.notices == 1
    assert_everything_returned(pool)


def test_a_partition_is_released_when_it_is_finished_and_everybody_has_read_it() -> None:
    """C22, row 21: not before, and only once."""
    partition, pool = make_partition(2)
    released: list[ResultPartition] = []
    partition.when_released(released.append)
    views = [view_of(partition, index) for index in range(2)]
    put(partition, 0, b"data")
    finish(partition)
    partition.close()
    assert not partition.released, "it is still being read"
    for view in views:
        assert not partition.released
        take_all(view)
        view.release()
        view.release()
    assert partition.released
    assert released == [partition]
    assert partition.all_consumed.available
    assert partition.lost is None
    partition.release()
    partition.close()
    assert released == [partition]
    assert_everything_returned(pool)


def test_readers_that_leave_before_the_end_do_not_release_the_partition() -> None:
    """C22: the producer notices that they left and then closes the partition."""
    partition, pool = make_partition(2)
    views = [view_of(partition, index) for index in range(2)]
    views[0].release()
    assert not partition.cancelled
    views[1].release()
    assert partition.cancelled
    assert not partition.released
    partition.close()
    assert partition.released
    assert_everything_returned(pool)


def test_readers_that_leave_wake_a_producer_that_waits() -> None:
    """C21: it wakes although no buffer is idle, as the readers hold them all."""
    partition, _ = make_partition(1, segments=2)
    view = view_of(partition)
    buffers = []
    for _ in range(2):
        put(partition, 0, b"data")
        polled = view.poll()
        assert polled is not None
        buffers.append(polled.buffer)
    woken: list[bool] = []
    partition.availability.subscribe(lambda: woken.append(True))
    view.release()
    assert woken
    assert partition.cancelled
    assert not partition.availability.available
    for buffer in buffers:
        buffer.recycle()
    assert partition.availability.available


def test_a_lost_reader_leaves_its_cause() -> None:
    """C21: the first cause is kept; a reader that leaves by itself gives none."""
    partition, _ = make_partition(3)
    views = [view_of(partition, index) for index in range(3)]
    woken: list[bool] = []
    fill_the_pool(partition)
    partition.availability.subscribe(lambda: woken.append(True))
    views[1].release()
    assert partition.lost is None
    first, second = RemoteTransportError("first"), RemoteTransportError("second")
    views[0].release(first)
    views[2].release(second)
    assert partition.lost is first
    assert woken


def test_a_reader_lost_after_it_read_everything_is_no_loss() -> None:
    partition, pool = make_partition(1)
    view = view_of(partition)
    finish(partition)
    assert take_all(view) == [END_OF_DATA, END]
    view.release(RemoteTransportError("connection closed"))
    assert partition.lost is None
    assert_everything_returned(pool)


def test_a_reader_lost_before_it_read_the_end_is_a_loss() -> None:
    partition, pool = make_partition(1)
    view = view_of(partition)
    finish(partition)
    cause = RemoteTransportError("connection closed")
    view.release(cause)
    assert partition.lost is cause
    assert_everything_returned(pool)


def test_a_partition_whose_data_is_kept_needs_its_producer_no_more_once_it_is_finished() -> None:
    """The producer is done, whichever reader reads the data later."""
    pool = NetworkBufferPool(4, 64)
    partition = ResultPartition("p", 1, pool, make_config(), BlockingSubpartition)
    partition.notify_end_of_data()
    assert not partition.all_consumed.available
    partition.finish()
    assert partition.all_consumed.available
    assert not partition.released
    partition.release()
    assert_everything_returned(pool)


# # -- notices to the writer
# -------------------------------------------------------------------------


def read_to_the_end(partition: ResultPartition) -> None:
    finish(partition)
    view = view_of(partition)
    take_all(view)
    view.release()


def test_a_writer_of_an_open_partition_may_write() -> None:
    partition, _ = make_partition(1)
    assert partition.writable
    partition.check_writable()
    partition.release()


@pytest.mark.parametrize(
    ("end", "error", "text"),
    [
        (
            lambda partition: partition.close(),
            ClosedResourceError,
            "partition p has been closed",
        ),
        (
            lambda partition: view_of(partition).release(RemoteTransportError("the cable")),
            RemoteTransportError,
            "the cable",
        ),
        (
            lambda partition: partition.fail(ValueError("in another subtask")),
            ProducerFailedError,
            "the producer failed: ValueError: in another subtask",
        ),
        (
            lambda partition: view_of(partition).release(),
            ConsumerCancelledError,
            "every consumer of partition p has gone away before its end",
        ),
        (
            lambda partition: partition.give_up_readers(2.5),
            ConsumerNotFoundError,
            "no consumer requested subpartition 0 of partition p, which has 1, in the 2.5 s that ",
        ),
        (
            read_to_the_end,
            ClosedResourceError,
            "partition p has been closed",
        ),
    ],
    ids=["closed", "lost", "failed", "cancelled", "not found", "read to the end"],
)
def test_a_writer_is_told_why_it_cannot_write(
    end: Callable[[ResultPartition], object], error: type[Exception], text: str
) -> None:
    partition, pool = make_partition(1)
    end(partition)
    assert not partition.writable
    with pytest.raises(error) as told:
        partition.check_writable()
    assert str(told.value).startswith(text)
    partition.release()
    assert_everything_returned(pool)


def test_readers_that_never_came_are_given_up_and_those_that_came_are_told() -> None:
    partition, pool = make_partition(12)
    reader = Reader()
    view = view_of(partition, 3, reader)
    partition.give_up_readers(60.0)
    error = partition.lost
    assert isinstance(error, ConsumerNotFoundError)
    assert str(error).startswith(
        "no consumer requested subpartition 0, 1, 2, 4, 5, 6, 7, 8 and others of partition p, "
        "which has 12, in the 60 s"
    )
    assert reader.notices == 1
    assert "no consumer requested" in str(view.failure_cause())
    with pytest.raises(ProducerFailedError, match="no consumer requested"):
        view_of(partition, 0)
    partition.give_up_readers(60.0)
    assert partition.lost is error
    view.release()
    assert_everything_returned(pool)


def test_readers_that_have_all_come_are_not_given_up() -> None:
    partition, _ = make_partition(2)
    views = [view_of(partition, index) for index in range(2)]
    partition.give_up_readers(60.0)
    assert partition.lost is None
    assert not partition.released
    for view in views:
        view.release()
    partition.close()


# -- failure ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cause", "text"),
    [
        (ValueError("first cause"), "the producer failed: ValueError: first cause"),
        (LocalProtocolError("first cause"), "the producer failed: first cause"),
        (KeyboardInterrupt(), "the producer failed: KeyboardInterrupt: "),
    ],
    ids=["user", "flinknet", "not an Exception"],
)
def test_a_failed_producer_gives_its_readers_the_first_cause(
    cause: BaseException, text: str
) -> None:
    """C15: as text, so that it can be serialized and keeps no other objects alive."""
    partition, pool = make_partition(2)
    readers = [Reader(), Reader()]
    views = [view_of(partition, index, reader) for index, reader in enumerate(readers)]
    put(partition, 0, b"dropped")
    partition.fail(cause)
    partition.fail(ValueError("second"))
    for view, reader in zip(views, readers, strict=True):
        failure = view.failure_cause()
        assert isinstance(failure, ProducerFailedError)
        assert str(failure) == text
        assert failure.__cause__ is None
        assert reader.notices > 0
        assert take(view) is None
    assert partition.released
    assert partition.all_data_processed.available, "nobody waits for ever"
    assert partition.all_consumed.available
    for view in views:
        view.release()
    assert_everything_returned(pool)


def test_a_cause_from_further_up_stays_what_it_is() -> None:
    partition, _ = make_partition(1)
    view = view_of(partition)
    cause = ProducerFailedError("the producer failed: ValueError: far away")
    partition.fail(cause)
    told = view.failure_cause()
    assert (type(told), str(told)) == (type(cause), str(cause))


def test_a_failure_from_a_channel_is_passed_on_with_its_first_cause() -> None:
    """The message names the channel where that explains the error, and only there."""
    for cause, text in (
        (ProducerFailedError("boom"), "boom"),
        (PartitionNotFoundError("not there"), "channel 0: not there"),
        (RemoteTransportError("lost"), "the producer failed: channel 0: lost"),
    ):
        partition, _ = make_partition(1)
        view = view_of(partition)
        partition.fail(cause.of_channel("channel 0"))
        assert str(view.failure_cause()) == text


def test_readers_are_told_of_a_release_before_the_end() -> None:
    """D2, H3: readers that have read to the end or left get no notice."""
    partition, pool = make_partition(3)
    readers = [Reader() for _ in range(3)]
    views = [view_of(partition, index, reader) for index, reader in enumerate(readers)]
    put(partition, 1, b"never read")
    finish(partition)
    assert take_all(views[0]) == [END_OF_DATA, END]
    views[0].release()
    views[2].release()
    before = [reader.notices for reader in readers]
    partition.release()
    partition.release()
    assert [reader.notices for reader in readers] == [before[0], before[1] + 1, before[2]]
    cause = views[1].failure_cause()
    assert isinstance(cause, PartitionNotFoundError)
    assert str(cause).startswith("partition p has been released by its producer")
    assert views[1].poll() is None
    views[1].release()
    assert_everything_returned(pool)


def test_a_completely_read_partition_reports_nothing() -> None:
    partition, _ = make_partition(1)
    view = view_of(partition)
    finish(partition)
    assert take_all(view) == [END_OF_DATA, END]
    view.release()
    assert partition.released
    partition.release()
    assert partition.failure_cause() is None
    assert not partition.closed


def test_a_failed_or_released_partition_cannot_be_read() -> None:
    """D2."""
    partition, _ = make_partition(1)
    partition.fail(ValueError("first cause"))
    with pytest.raises(ProducerFailedError, match="first cause"):
        view_of(partition)
    partition, _ = make_partition(1)
    partition.release()
    with pytest.raises(PartitionNotFoundError, match="has been released"):
        view_of(partition)


@pytest.mark.parametrize("index", [-1, 2, 100])
def test_a_subpartition_that_does_not_exist_cannot_be_read(index: int) -> None:
    """Flink checks `index > length`, which is off by one."""
    partition, _ = make_partition(2)
    with pytest.raises(PartitionNotFoundError, match=f"no subpartition {index}"):
        view_of(partition, index)


def test_a_partition_that_was_read_cannot_be_read_again() -> None:
    partition, _ = make_partition(1)
    view = view_of(partition)
    finish(partition)
    take_all(view)
    view.release()
    with pytest.raises(PartitionNotFoundError, match="it can be read only once"):
        view_of(partition)


def test_a_reader_that_leaves_as_it_is_told_releases_the_partition_once() -> None:
    partition, pool = make_partition(1)
    released: list[ResultPartition] = []
    partition.when_released(released.append)

    class Leaving(Reader):
        def notify_data_available(self) -> None:
            if partition.kept_failure is not None:
                view.release()

    view = view_of(partition, 0, Leaving())
    finish(partition)
    partition.release()
    assert released == [partition]
    assert_everything_returned(pool)


def test_buffers_that_are_being_sent_come_back_after_the_release() -> None:
    partition, pool = make_partition(1)
    view = view_of(partition)
    put(partition, 0, b"on its way")
    polled = view.poll()
    assert polled is not None
    partition.release()
    assert content_of(polled.buffer) == b"on its way"
    assert pool.statistics().free == pool.statistics().total - 1
    polled.buffer.recycle()
    assert_everything_returned(pool)


# -- overtaken data --------------------------------------------------------------------------------


def test_data_overtaken_by_a_broadcast_event_is_reported_by_subpartition() -> None:
    """Row 17: the shared buffers too, with one reference for each subpartition."""
    partition, pool = make_partition(2)
    views = [view_of(partition, index) for index in range(2)]
    put(partition, 0, b"own")
    shared = partition.request_broadcast_builder()
    assert shared is not None
    shared.append(memoryview(b"shared"))
    partition.broadcast_event(DataType.PRIORITIZED_EVENT_BUFFER, b"barrier")
    overtaken = partition.overtaken_data()
    partition.release()
    assert [[content_of(buffer) for buffer in data] for data in overtaken] == [
        [b"own", b"shared"],
        [b"shared"],
    ]
    assert all(view.failure_cause() is not None for view in views)
    for data in overtaken:
        for buffer in data:
            buffer.recycle()
    assert_everything_returned(pool)


# -- barriers --------------------------------------------------------------------------------------


class OnOvertaken:
    """Records the data that a barrier has overtaken, by subpartition, and recycles the buffers."""

    def __init__(self) -> None:
        self.told: list[list[list[bytes]] | None] = []

    def __call__(self, overtaken: OvertakenData | None) -> None:
        if overtaken is None:
            self.told.append(None)
            return
        self.told.append([[content_of(buffer) for buffer in part] for part in overtaken])
        for part in overtaken:
            for buffer in part:
                buffer.recycle()


def barrier(
    checkpoint_id: int, alignment: Alignment, timeout_ms: int | None = None
) -> CheckpointBarrier:
    options = CheckpointOptions(CheckpointKind.CHECKPOINT, alignment, timeout_ms)
    return CheckpointBarrier(checkpoint_id, 0, options)


class Barred:
    """A partition with data in both of its subpartitions, then a barrier, then more data."""

    def __init__(self, sent: CheckpointBarrier) -> None:
        self.partition, self.pool = make_partition(2)
        self.views = [view_of(self.partition, index) for index in range(2)]
        self.on_overtaken = OnOvertaken()
        for index, content in enumerate((b"first", b"second")):
            put(self.partition, index, content)
        self.partition.broadcast_barrier(sent, self.on_overtaken)
        for index in range(2):
            put(self.partition, index, b"behind")

    @property
    def told(self) -> list[list[list[bytes]] | None]:
        self.partition.check_invariants()
        return self.on_overtaken.told

    def close(self) -> None:
        """Release everything; check that no callback is called again and that no buffer is
        missing."""
        told = list(self.told)
        self.partition.release()
        assert self.told == told
        assert_everything_returned(self.pool)


TIMEOUTABLE = barrier(1, Alignment.ALIGNED, 10)


def test_an_unaligned_barrier_says_at_once_what_it_has_overtaken() -> None:
    """Row 17."""
    barred = Barred(barrier(1, Alignment.UNALIGNED))
    assert barred.told == [[[b"first"], [b"second"]]]
    assert take(barred.views[0]) is DataType.PRIORITIZED_EVENT_BUFFER
    barred.close()


@pytest.mark.parametrize(
    "alignment", [Alignment.ALIGNED, Alignment.FORCED_ALIGNED, Alignment.AT_LEAST_ONCE]
)
def test_a_barrier_that_stays_in_its_place_has_overtaken_nothing(alignment: Alignment) -> None:
    """A forced aligned barrier gives no channel state."""
    barred = Barred(barrier(1, alignment))
    assert barred.told == [[[], []]]
    assert take(barred.views[0]) == b"first"
    barred.close()


def test_a_barrier_that_every_reader_takes_in_time_has_overtaken_nothing() -> None:
    """C16."""
    barred = Barred(TIMEOUTABLE)
    for view in barred.views:
        assert barred.told == []
        take(view)
        assert take(view) is TIMEOUTABLE.options.data_type
    assert barred.told == [[[], []]]
    barred.partition.time_out_barrier(1)
    barred.partition.abort_barrier(1)
    assert barred.told == [[[], []]]
    barred.close()


def test_a_barrier_whose_time_is_over_overtakes_where_it_has_not_been_taken() -> None:
    """Row 18: all overtaken data is reported together, once."""
    barred = Barred(TIMEOUTABLE)
    take(barred.views[0])
    take(barred.views[0])
    barred.partition.time_out_barrier(2)
    assert barred.told == [], "another checkpoint's time is over"
    barred.partition.time_out_barrier(1)
    assert barred.told == [[[], [b"second"]]]
    polled = barred.views[1].poll()
    assert polled is not None
    assert content_of(polled.buffer) == barrier(1, Alignment.UNALIGNED).event().body
    barred.close()


def test_a_local_reader_may_time_out_its_own_queue() -> None:
    barred = Barred(TIMEOUTABLE)
    assert not barred.views[1].convert_to_priority_event(2)
    assert barred.views[1].convert_to_priority_event(1)
    assert not barred.views[1].convert_to_priority_event(1)
    assert barred.told == []
    barred.partition.time_out_barrier(1)
    assert barred.told == [[[b"first"], [b"second"]]]
    barred.close()


def test_there_is_no_time_out_without_a_barrier() -> None:
    partition, _ = make_partition(1)
    view = view_of(partition)
    assert not view.convert_to_priority_event(1)
    partition.time_out_barrier(1)
    partition.abort_barrier(1)
    partition.emit_event(*TIMEOUTABLE.event(), 0)
    assert take(view) is TIMEOUTABLE.options.data_type
    partition.release()


def test_an_aborted_checkpoint_gets_nothing() -> None:
    """C18: the data overtaken so far is recycled, and the barrier stays as it is."""
    barred = Barred(TIMEOUTABLE)
    barred.views[0].convert_to_priority_event(1)
    barred.partition.abort_barrier(2)
    assert barred.told == []
    barred.partition.abort_barrier(1)
    barred.partition.time_out_barrier(1)
    assert barred.told == [None]
    assert [take(barred.views[1]) for _ in range(2)] == [b"second", TIMEOUTABLE.options.data_type]
    barred.close()


@pytest.mark.parametrize("alignment", [Alignment.ALIGNED, Alignment.UNALIGNED])
def test_the_next_barrier_ends_the_checkpoint_before(alignment: Alignment) -> None:
    """C18."""
    barred = Barred(TIMEOUTABLE)
    following = OnOvertaken()
    barred.partition.broadcast_barrier(barrier(2, alignment), following)
    assert barred.told == [None]
    overtaken = alignment is Alignment.UNALIGNED
    assert following.told == [
        [[b"first", b"behind"], [b"second", b"behind"]] if overtaken else [[], []]
    ]
    barred.close()


def test_a_reader_that_leaves_holds_up_no_checkpoint() -> None:
    barred = Barred(TIMEOUTABLE)
    barred.views[0].release()
    assert barred.told == []
    barred.partition.time_out_barrier(1)
    assert barred.told == [[[], [b"second"]]]
    following = OnOvertaken()
    barred.partition.broadcast_barrier(barrier(2, Alignment.ALIGNED, 10), following)
    barred.views[1].release()
    assert following.told == [[[], []]], "nobody reads it"
    barred.close()


def test_a_partition_that_fails_ends_its_checkpoint() -> None:
    barred = Barred(TIMEOUTABLE)
    barred.views[0].convert_to_priority_event(1)
    barred.partition.fail(RuntimeError("planned"))
    assert barred.told == [None]
    barred.close()


def test_a_barrier_that_has_no_place_changes_nothing() -> None:
    """The checkpoint before it goes on."""
    barred = Barred(TIMEOUTABLE)
    finish(barred.partition)
    with pytest.raises(LocalProtocolError, match="has been finished"):
        barred.partition.broadcast_barrier(barrier(2, Alignment.UNALIGNED), barred.on_overtaken)
    assert barred.told == []
    for view in barred.views:
        take_all(view)
        view.resume_consumption()
        take_all(view)
    assert barred.told == [[[], []]]
    barred.close()


def test_bytes_are_counted_once_whatever_becomes_of_a_barrier() -> None:
    barred = Barred(TIMEOUTABLE)
    _, payload = TIMEOUTABLE.event()
    written = len(b"firstsecondbehindbehind") + len(payload)
    assert barred.partition.statistics().bytes_produced == written
    barred.partition.time_out_barrier(1)
    assert barred.partition.statistics().bytes_produced == written
    for view in barred.views:
        take_all(view)
    assert barred.partition.statistics().bytes_produced == written
    barred.close()
