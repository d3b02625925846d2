"""The result partition: everything one producing subtask writes, one subpartition per consumer.

Theory of operation (Flink's ResultPartition). States: *open* -> *ended* (the end of data is queued
in every subpartition) -> *finished* (so is the end of the partition, which every reader has to
acknowledge the data for, or to leave) -> *released*; or *failed* at any time, which releases it and
hands the first cause to every reader. It is released by itself when every subpartition's reader is
done and the producer has closed it, unless what is written outlives its readers; one that is
released before that tells its readers so. If all readers go away before the end, there is nobody to
write for: ``cancelled`` is set and the writer raises at its next buffer. Readers may come late, but
a writer that can do nothing but wait for one that never came is given up (``give_up_readers``; the
shell says when).

The partition owns its local buffer pool: required is one buffer per subpartition and one more (the
writer never deadlocks at the minimum), the maximum is bounded, so that a slow consumer holds the
producer back instead of filling the worker. The pool is destroyed with the partition; buffers
still being sent come back one by one.

Events cost no buffer, so each subpartition holds a bounded number of them. A writer asks
``has_room_for_event`` and waits for ``room_for_events``; one that does not wait gets an error. The
ends of a partition and cancel markers need no room: at most one of each is queued.

A barrier that can time out is followed until every reader has taken it, or its time is over
(``timeoutable_barrier.py``): one at a time, since the next one ends the checkpoint before.

End of data: ``notify_end_of_data`` queues the event once per subpartition; each reader
acknowledges after its operator has processed everything, and ``all_data_processed`` becomes
available with the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from flinknet.buffer.availability import Availability
from flinknet.buffer.buffer import Buffer, DataType
from flinknet.buffer.builder import NO_BUILDER, BufferBuilder
from flinknet.buffer.channel_end import ChannelEnd
from flinknet.buffer.local_pool import (
    LargeRecordLimits,
    LocalBufferPool,
    LocalBufferPoolStatistics,
)
from flinknet.buffer.network_pool import NetworkBufferPool
from flinknet.buffer.queue_lengths import QueueLengths
from flinknet.buffer.view import AvailabilityListener, SubpartitionView
from flinknet.config import NetworkConfig
from flinknet.errors import (
    ClosedResourceError,
    ConsumerCancelledError,
    ConsumerNotFoundError,
    FlinknetError,
    KeptError,
    LocalProtocolError,
    PartitionNotFoundError,
    ProducerFailedError,
    RemoteError,
)
from flinknet.partition.pipelined_subpartition import PipelinedSubpartition
from flinknet.partition.subpartition import (
    ResultSubpartition,
    SubpartitionFactory,
    SubpartitionStatistics,
)
from flinknet.partition.timeoutable_barrier import OnOvertakenData, TimeoutableBarrier
from flinknet.texts import text_of
from flinknet.wire.events import (
    END_OF_PARTITION,
    CheckpointBarrier,
    Event,
    encode_end_of_data,
    is_cancel_marker,
)

__all__ = [
    "ResultPartition",
    "ResultPartitionStatistics",
    "as_consumers_get_it",
    "pool_size",
    "released_error",
]

_OPEN = ChannelEnd.DATA
_ENDS = (DataType.END_OF_DATA, DataType.END_OF_PARTITION)
_UNREAD_NAMED_MAX = 8
"""Subpartitions that an error names: there may be thousands."""


class ResultPartitionStatistics(NamedTuple):
    """Present state of a partition, its pool and its subpartitions."""

    partition_id: str
    finished: bool
    released: bool
    bytes_produced: int
    """Bytes written, not yet polled ones included; what all subpartitions share counts once."""
    pool: LocalBufferPoolStatistics
    subpartitions: tuple[SubpartitionStatistics, ...]

    @property
    def queue_lengths(self) -> QueueLengths:
        """Buffers queued; the total is Flink's outputQueueLength."""
        return QueueLengths.of([part.queued_buffers for part in self.subpartitions])

    @property
    def queued_bytes(self) -> int:
        """Bytes queued (Flink's outputQueueSize)."""
        return sum(part.queued_bytes for part in self.subpartitions)

    @property
    def pool_usage(self) -> float:
        """Buffers taken for each one of the pool's size; over 1 with overdraft (outPoolUsage)."""
        return self.pool.usage

    @property
    def buffers_out(self) -> int:
        """Buffers that readers have taken, over all subpartitions (numBuffersOut)."""
        return sum(part.buffers_out for part in self.subpartitions)

    @property
    def bytes_out(self) -> int:
        """Bytes that readers have taken, over all subpartitions (numBytesOut)."""
        return sum(part.bytes_out for part in self.subpartitions)


class ResultPartition:
    """``subpartitions`` subpartitions over one bounded pool; ``create_subpartition`` makes them, so
    it says what kind they are (``exchange_mode.py``)."""

    def __init__(
        self,
        partition_id: str,
        subpartitions: int,
        network_pool: NetworkBufferPool,
        config: NetworkConfig,
        create_subpartition: SubpartitionFactory = PipelinedSubpartition,
    ) -> None:
        if subpartitions < 1:
            raise LocalProtocolError(
                f"partition {partition_id} has {subpartitions} subpartitions: it needs 1 or more"
            )
        self.partition_id = partition_id
        self.segment_bytes = network_pool.segment_bytes
        self.finished = False
        self.released = False
        self.closed = False
        self.writable = True
        self.kept_failure: KeptError | None = None
        self.lost: BaseException | None = None
        self.all_data_processed = Availability()
        self.room_for_events = Availability()
        """Set when there is room for an event again, where ``has_room_for_event`` said no; whoever
        waits for it clears it first."""
        self.all_consumed = Availability()
        """Nobody needs the producer any more."""
        self._end_of_data = False
        self.readers_missing = subpartitions
        """Subpartitions that nobody has asked for so far."""
        self._unfinished = subpartitions
        self._unacknowledged = subpartitions
        self._broadcast_builder: BufferBuilder | None = None
        self._repeated_bytes = 0
        self._on_released: list[Callable[[ResultPartition], None]] = []
        self._barrier: TimeoutableBarrier | None = None
        required, maximum = pool_size(subpartitions, config)
        self._pool: LocalBufferPool = network_pool.create_local_pool(
            required,
            maximum,
            owner=f"partition {partition_id}",
            subpartitions=subpartitions,
            buffers_per_subpartition_max=config.buffers_per_subpartition_max,
            overdraft_max=config.overdraft_buffers_per_partition,
            large=LargeRecordLimits(
                config.large_record_buffers_max, config.large_record_extra_buffers
            ),
        )
        self.subpartitions: list[ResultSubpartition] = [
            create_subpartition(self, index, self.segment_bytes, config.wire)
            for index in range(subpartitions)
        ]

    # -- the writer's side ------------------------------------------------------------------------

    @property
    def availability(self) -> Availability:
        """Available iff a record may be begun: a buffer is idle and nobody is over quota."""
        return self._pool.availability

    def check_writable(self) -> None:
        """Raise why a record cannot be written any more, if it cannot: unless ``writable``.

        ClosedResourceError, the cause with which a consumer was lost or did not come, the error
        with which the producer failed, or ConsumerCancelledError.
        """
        if self.closed:
            raise ClosedResourceError(f"partition {self.partition_id} has been closed")
        if self.lost is not None:
            raise self.lost
        if self.kept_failure is not None:
            raise self.kept_failure.error()
        if self.released:
            raise ClosedResourceError(f"partition {self.partition_id} has been closed")
        if self.cancelled:
            raise ConsumerCancelledError(
                f"every consumer of partition {self.partition_id} has gone away before its end"
            )

    def request_builder(
        self, index: int, filled: BufferBuilder = NO_BUILDER
    ) -> BufferBuilder | None:
        """Open a new builder at the end of a subpartition, None if there is no buffer now.

        ``filled`` is the writer's builder before this one: with large records in it the
        subpartition may hold more buffers.
        """
        subpartition = self.subpartitions[index]
        if self.released or subpartition.end is not _OPEN:
            self._check_not_finished()
            subpartition.check_open()
        self._pool.expect(index, filled.has_large_records())
        segment = self._pool.request(index)
        if segment is None:
            return None
        builder = BufferBuilder(segment, self._pool.recyclers[index], subpartition.buffer_bytes)
        subpartition.add_builder(builder)
        return builder

    def request_broadcast_builder(self) -> BufferBuilder | None:
        """Open one builder that every live subpartition shares, None if there is no buffer now."""
        self._check_not_finished()
        if self._end_of_data:
            self.subpartitions[0].check_open()
        segment = self._pool.request()
        if segment is None:
            return None
        live = [subpartition for subpartition in self.subpartitions if not subpartition.released]
        builder = BufferBuilder(
            segment,
            self._pool,
            capacity=min((subpartition.buffer_bytes for subpartition in live), default=None),
            sharers=max(1, len(live)),
        )
        for subpartition in live:
            subpartition.add_builder(builder)
        self._repeated_bytes = self._count_repeated_bytes()
        self._broadcast_builder = builder
        return builder

    def _count_repeated_bytes(self) -> int:
        """Bytes that subpartitions count though another one counts them too."""
        last = self._broadcast_builder
        return self._repeated_bytes + (last.size * (last.sharers - 1) if last is not None else 0)

    def broadcast_event(self, data_type: DataType, payload: bytes) -> None:
        """Queue an event in every subpartition, as one shared buffer.

        Raises LocalProtocolError, and queues it nowhere, if one subpartition has no room for it
        (see ``has_room_for_event``), or its end is not so far, or further.
        """
        self._check_event(data_type, payload)
        buffer = Buffer.event(data_type, payload, references=len(self.subpartitions))
        for subpartition in self.subpartitions:
            subpartition.add_event(buffer)
        self._end_of_data = self._end_of_data or data_type is DataType.END_OF_DATA
        self._repeated_bytes += len(payload) * (len(self.subpartitions) - 1)

    def _check_event(self, data_type: DataType, payload: bytes) -> None:
        self._check_not_finished()
        for subpartition in self.subpartitions:
            subpartition.check_event(data_type, len(payload))
        self._check_room(data_type, payload, self.subpartitions)

    def _check_room(
        self, data_type: DataType, payload: bytes, subpartitions: Sequence[ResultSubpartition]
    ) -> None:
        full = next((part for part in subpartitions if part.is_full_of_events), None)
        if full is None or data_type in _ENDS or is_cancel_marker(Event(data_type, payload)):
            return
        raise LocalProtocolError(
            f"{full.events_queued} events wait for the reader of {full}, as many as may "
            f"(wire.events_per_channel_max): queue more when it has read some"
        )

    def has_room_for_event(self, index: int | None = None) -> bool:
        """Whether one more event can be queued, in one subpartition or in all."""
        targets = self.subpartitions if index is None else (self.subpartitions[index],)
        return not any(subpartition.is_full_of_events for subpartition in targets)

    def on_room_for_events(self) -> None:
        """A reader has taken an event from a full queue; see SubpartitionOwner."""
        self.room_for_events.set(True)

    def emit_event(self, data_type: DataType, payload: bytes, index: int) -> None:
        """Queue an event in one subpartition. Raises LocalProtocolError as ``broadcast_event``."""
        self._check_not_finished()
        self._check_room(data_type, payload, (self.subpartitions[index],))
        self.subpartitions[index].add_event(Buffer.event(data_type, payload))

    def broadcast_barrier(self, barrier: CheckpointBarrier, on_overtaken: OnOvertakenData) -> None:
        """Queue a barrier in every subpartition, and hand out what it overtakes: the state of this
        side's output, which an unaligned checkpoint stores.

        ``on_overtaken`` is called once: at once, if the barrier is unaligned or cannot become so;
        otherwise inside the call with which the last reader has taken it, or its time is over. It
        gets None if the checkpoint is aborted before, the next one begins, or the partition is
        released. Raises LocalProtocolError as ``broadcast_event``; nothing is called then.
        """
        data_type, payload = barrier.event()
        self._check_event(data_type, payload)
        self._abort_barrier()
        if barrier.options.is_timeoutable:
            self._barrier = TimeoutableBarrier(barrier, self.subpartitions, on_overtaken)
            self._repeated_bytes += len(payload) * (len(self.subpartitions) - 1)
            self._barrier.queue()
            return
        self.broadcast_event(data_type, payload)
        if data_type.has_priority:
            on_overtaken(self.overtaken_data())
        else:
            on_overtaken([[] for _ in self.subpartitions])

    def time_out_barrier(self, checkpoint_id: int) -> None:
        """The time of a checkpoint's barrier is over: it overtakes what is queued, wherever it has
        not been taken. Nothing happens if it waits nowhere any more."""
        if self._barrier is not None and self._barrier.checkpoint_id == checkpoint_id:
            self._barrier.time_out_everywhere()

    def time_out_barrier_of(self, subpartition: ResultSubpartition, checkpoint_id: int) -> bool:
        """The same for one subpartition, as its local reader says; see SubpartitionOwner."""
        barrier = self._barrier
        if barrier is None or barrier.checkpoint_id != checkpoint_id:
            return False
        return barrier.time_out(subpartition.index)

    def abort_barrier(self, checkpoint_id: int) -> None:
        """A checkpoint is over: its barrier never overtakes anything, and stays where it is."""
        if self._barrier is not None and self._barrier.checkpoint_id == checkpoint_id:
            self._abort_barrier()

    def _abort_barrier(self) -> None:
        barrier, self._barrier = self._barrier, None
        if barrier is not None:
            barrier.abort()

    def on_barrier_taken(self, subpartition: ResultSubpartition, event: Buffer) -> None:
        """A reader has taken a barrier in time; see SubpartitionOwner."""
        barrier = self._barrier
        if barrier is not None and event is barrier.event:
            barrier.settle(subpartition.index, [])

    def overtaken_data(self) -> list[list[Buffer]]:
        """What a priority event overtakes that is broadcast now, by subpartition: what an unaligned
        checkpoint stores of this side, and recycles when it has (Flink's in-flight buffers)."""
        return [subpartition.overtaken_data() for subpartition in self.subpartitions]

    def flush(self, index: int) -> None:
        """Let the reader of one subpartition have what is written so far."""
        self.subpartitions[index].flush()

    def seal_all(self) -> None:
        """Close the open builder of every subpartition."""
        for subpartition in self.subpartitions:
            subpartition.seal_open()

    def flush_all(self) -> None:
        """Let every reader have what is written so far."""
        for subpartition in self.subpartitions:
            subpartition.flush()

    def notify_end_of_data(self, *, drain: bool = True) -> None:
        """Queue the end of data, once; ``all_data_processed`` follows when all have acknowledged.

        ``drain`` says that all input has been read; False that the job is stopped before its end.
        """
        if not self._end_of_data:
            self.broadcast_event(DataType.END_OF_DATA, encode_end_of_data(drain=drain))

    def finish(self) -> None:
        """Queue the end of the partition. Raises LocalProtocolError the second time, and before
        ``all_data_processed``."""
        self.broadcast_event(DataType.END_OF_PARTITION, END_OF_PARTITION)
        self.finished = True
        if not any(part.released_on_consumption for part in self.subpartitions):
            self.all_consumed.set(True)

    # -- the readers' side ------------------------------------------------------------------------

    def create_view(self, index: int, listener: AvailabilityListener) -> SubpartitionView:
        """Attach the reader of one subpartition. Raises PartitionNotFoundError if it cannot be
        read."""
        if not 0 <= index < len(self.subpartitions):
            raise PartitionNotFoundError(
                f"partition {self.partition_id} has {len(self.subpartitions)} subpartitions, there "
                f"is no subpartition {index}"
            )
        if self.kept_failure is not None:
            raise self.kept_failure.error()
        if self.released:
            raise released_error(f"partition {self.partition_id}")
        subpartition = self.subpartitions[index]
        was_missing = not subpartition.has_had_reader
        view = subpartition.create_view(listener)
        self.readers_missing -= was_missing
        return view

    @property
    def unread(self) -> list[int]:
        """The subpartitions that nobody has asked for so far."""
        return [part.index for part in self.subpartitions if not part.has_had_reader]

    def give_up_readers(self, waited_s: float) -> None:
        """The writer has done nothing for so long but wait for readers that never came: it gets
        ConsumerNotFoundError, and the readers that are there, or come later, the same as cause."""
        if self.readers_missing == 0 or self.released:
            return
        self.lost = ConsumerNotFoundError(
            f"nobody asked for {self.describe_unread()} in the {waited_s:g} s that its writer "
            f"waited (rendezvous_timeout_ms): start its consumer, in time, and check the address "
            f"and the name that it asks for"
        )
        self.fail(self.lost)

    def describe_unread(self) -> str:
        """Name the subpartitions that nobody has asked for, the first of them."""
        unread = self.unread
        named = ", ".join(map(str, unread[:_UNREAD_NAMED_MAX]))
        more = " and others" if len(unread) > _UNREAD_NAMED_MAX else ""
        return (
            f"subpartition {named}{more} of partition {self.partition_id}, which has "
            f"{len(self.subpartitions)},"
        )

    def on_all_data_processed(self) -> None:
        """Count one acknowledgement; a reader that left counts as well, or nobody would ever
        finish."""
        self._unacknowledged -= 1
        if self._unacknowledged == 0:
            self.all_data_processed.set(True)

    def on_released(self, subpartition: ResultSubpartition, cause: BaseException | None) -> None:
        """Count one reader that is done, cancelled or lost."""
        if cause is not None and self.lost is None and not subpartition.consumed:
            self.lost = cause
        if self._barrier is not None and self._barrier.is_waiting(subpartition.index):
            self._barrier.settle(subpartition.index, [])
        if not subpartition.acknowledged:
            self.on_all_data_processed()
        self._unfinished -= 1
        if self._unfinished == 0:
            self.all_consumed.set(True)
            if self.finished:
                self._release()
        self.room_for_events.set(True)
        if self._unfinished == 0 or self.lost is not None:
            self.writable = False
            self._pool.wake()

    @property
    def cancelled(self) -> bool:
        """Whether every reader has gone, so that nobody will read what is written."""
        return self._unfinished == 0 and not self.finished

    def failure_cause(self) -> RemoteError | None:
        """Why the producer failed, made anew for each who asks; None if it did not."""
        return None if self.kept_failure is None else self.kept_failure.error()

    # -- life -------------------------------------------------------------------------------------

    def when_released(self, callback: Callable[[ResultPartition], None]) -> None:
        """Call back once, when the partition is released."""
        self._on_released.append(callback)

    def fail(self, cause: BaseException) -> None:
        """The producer failed: drop everything and tell every reader the first cause."""
        if not self.released:
            self._drop_everything(as_consumers_get_it(cause))

    def _drop_everything(self, told: RemoteError) -> None:
        """Release the partition; readers that have not read to the end are told why."""
        self.kept_failure = KeptError.of(told)
        for subpartition in self.subpartitions:
            subpartition.fail()
        self._release()

    def close(self) -> None:
        """The producer is done. A finished partition stays until it is read; the readers of another
        one are told that its end will not come."""
        if not self.finished and not self.released:
            self.closed = True
            self.fail(
                ClosedResourceError(f"partition {self.partition_id} was closed before its end")
            )

    def release(self) -> None:
        """Drop everything, whatever the state; readers get PartitionNotFoundError. Idempotent."""
        if not self.released:
            self.closed = True
            self._drop_everything(released_error(f"partition {self.partition_id}"))

    def _release(self) -> None:
        self.released = True
        self.writable = False
        self._abort_barrier()
        self._pool.destroy()
        self.all_data_processed.set(True)
        self.all_consumed.set(True)
        self.room_for_events.set(True)
        callbacks, self._on_released = self._on_released, []
        for callback in callbacks:
            callback(self)

    def _check_not_finished(self) -> None:
        if self.finished or self.released:
            state = "finished" if self.finished else "released"
            raise LocalProtocolError(
                f"partition {self.partition_id} has been {state}: nothing can be written to it"
            )

    def pool_statistics(self) -> LocalBufferPoolStatistics:
        """Say what the pool holds."""
        return self._pool.statistics()

    def statistics(self) -> ResultPartitionStatistics:
        """Say what was produced so far, and what the pool and the subpartitions hold. Thousands of
        them take milliseconds."""
        parts = tuple(subpartition.statistics() for subpartition in self.subpartitions)
        written = sum(part.bytes_out + part.queued_bytes + part.bytes_dropped for part in parts)
        return ResultPartitionStatistics(
            partition_id=self.partition_id,
            finished=self.finished,
            released=self.released,
            bytes_produced=written - self._count_repeated_bytes(),
            pool=self.pool_statistics(),
            subpartitions=parts,
        )

    def check_invariants(self) -> None:
        """Raise AssertionError if the accounts do not add up."""
        self._pool.check_invariants()
        for subpartition in self.subpartitions:
            subpartition.check_invariants()
        assert self.writable or self.released or self.lost is not None or self._unfinished == 0, (
            "a partition that can be written says that it cannot"
        )
        if self._barrier is not None:
            self._barrier.check_invariants()
        assert self.readers_missing == len(self.unread), "readers that are missing are miscounted"
        if not self.released:
            assert self._unacknowledged == sum(
                not (part.acknowledged or part.released) for part in self.subpartitions
            )
            assert self._unfinished == sum(not part.released for part in self.subpartitions)


def released_error(partition: str) -> PartitionNotFoundError:
    """What the readers of a released partition get."""
    return PartitionNotFoundError(
        f"{partition} has been released by its producer: it can be read once and only while it is "
        f"there, have the producer make it anew"
    )


def as_consumers_get_it(cause: BaseException) -> RemoteError:
    """Make the same error for local and remote consumers; what came from further up stays, if it
    has a code on the wire that means it. A failed producer is a cause in itself: through which
    channels it was heard of would only hide it."""
    if isinstance(cause, ProducerFailedError):
        return cause.of_channel(None)
    if isinstance(cause, ConsumerCancelledError | PartitionNotFoundError):
        return cause
    text = text_of(cause)
    if not isinstance(cause, FlinknetError):
        text = f"{type(cause).__name__}: {text}"
    return ProducerFailedError(f"the producer failed: {text}")


def pool_size(subpartitions: int, config: NetworkConfig) -> tuple[int, int]:
    """Buffers that a partition requires, and the most it uses: n + 1 and n x exclusive +
    floating."""
    required = subpartitions + 1
    maximum = subpartitions * config.buffers_per_channel + config.floating_buffers_per_gate
    return required, max(required, maximum)
