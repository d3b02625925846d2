"""The result partition: the output of one producing subtask, with a subpartition per consumer.

This is Flink's ResultPartition. Its states are *open* -> *ended* (the end of data is queued in
every subpartition) -> *finished* (the end of the partition is queued too) -> *released*. A
partition can become *failed* at any time, which releases it and reports the first cause to every
reader. ``notify_end_of_data`` queues the end of data. Each reader acknowledges after its operator
has processed everything, or leaves. The last acknowledgement makes ``all_data_processed``
available, and the partition may finish.

If the data goes with its readers, a finished partition releases itself when all readers are done.
If all readers leave before the end, ``cancelled`` is set, and the writer raises at its next buffer.
Readers may attach late. A writer that only waits for a reader that never attached is given up
(``give_up_readers``; the shell decides when).

The partition owns its local buffer pool, which is destroyed with it; buffers that are still being
sent return one by one. Events use no network memory, so each subpartition limits their number. A
writer checks ``has_room_for_event`` and waits for ``room_for_events``; without the wait it gets an
error.
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
    "failure_for_consumers",
    "pool_size",
    "released_error",
]

_OPEN = ChannelEnd.DATA
_ENDS = (DataType.END_OF_DATA, DataType.END_OF_PARTITION)
_UNREAD_NAMED_MAX = 8
"""Number of subpartitions that an error names; there may be thousands."""


class ResultPartitionStatistics(NamedTuple):
    """Current state of a partition, its pool and its subpartitions."""

    partition_id: str
    finished: bool
    released: bool
    bytes_produced: int
    """Bytes written, including bytes not polled yet; bytes that all subpartitions share count
    once."""
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
        """Buffers taken as a fraction of the pool's size; over 1 with overdraft (outPoolUsage)."""
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
    """Subpartitions over one bounded buffer pool.

    ``create_subpartition`` creates them and thus determines their kind (``exchange_mode.py``).
    """

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
        """Set when there is room for an event again after ``has_room_for_event`` returned False. A
        waiter clears it first."""
        self.all_consumed = Availability()
        """Set when no reader needs the producer any more."""
        self._end_of_data = False
        self.readers_missing = subpartitions
        """Number of subpartitions that no reader has requested yet."""
        self._unfinished = subpartitions
        self._unacknowledged = subpartitions
        self._broadcast_builder: BufferBuilder | None = None
        self._repeated_bytes = 0
        self._on_released: list[Callable[[ResultPartition], None]] = []
        # A barrier that can time out, until every reader has taken it or its time is over. There is
        # only one at a time, because the next barrier ends the previous checkpoint.
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
        """Whether a record may begin: a buffer is idle and each subpartition is below its quota."""
        return self._pool.availability

    def check_writable(self) -> None:
        """Raise the reason why the partition is not ``writable``, if so.

        Raises:
            ClosedResourceError: If the partition was closed or released.
            ConsumerCancelledError: If all readers have left before the end.

        A lost or missing consumer raises its own cause, and a failed producer its error.
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
        """Open a new builder at the end of a subpartition; None if no buffer is available now.

        ``filled`` is the subpartition's previous builder. If it holds large records, the
        subpartition may use more buffers.
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
        """Open one builder shared by all live subpartitions; None if no buffer is available now."""
        self._check_not_finished()
        if self._end_of_data:
            self.subpartitions[0].check_open()
        segment = self._pool.request()
        if segment is None:
            return None
        live = [subpartition for subpartition in self.subpartitions if not subpartition.released]
        # A shared segment counts against no subpartition's quota.
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
        """Return the bytes that more than one subpartition counts, beyond the first count."""
        last = self._broadcast_builder
        return self._repeated_bytes + (last.size * (last.sharers - 1) if last is not None else 0)

    def broadcast_event(self, data_type: DataType, payload: bytes) -> None:
        """Queue an event in every subpartition, as one shared buffer.

        Raises:
            LocalProtocolError: If a subpartition's state does not allow the event, the event is too
                long, or a subpartition has no room for it (see ``has_room_for_event``). The event
                is then queued nowhere.
        """
        # All checks come first, so that a refused event is queued nowhere.
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
        # The ends and cancel markers need no room, because at most one of each is queued.
        if full is None or data_type in _ENDS or is_cancel_marker(Event(data_type, payload)):
            return
        raise LocalProtocolError(
            f"{full.events_queued} events wait for the reader of {full}, which is the limit "
            "(wire.events_per_channel_max): emit more when it has read some"
        )

    def has_room_for_event(self, index: int | None = None) -> bool:
        """Whether one more event can be queued, in one subpartition or in all of them."""
        targets = self.subpartitions if index is None else (self.subpartitions[index],)
        return not any(subpartition.is_full_of_events for subpartition in targets)

    def on_room_for_events(self) -> None:
        """Handle that a reader has taken an event from a full queue; see SubpartitionOwner."""
        self.room_for_events.set(True)

    def emit_event(self, data_type: DataType, payload: bytes, index: int) -> None:
        """Queue an event in one subpartition.

        Raises:
            LocalProtocolError: As for ``broadcast_event``.
        """
        self._check_not_finished()
        self._check_room(data_type, payload, (self.subpartitions[index],))
        self.subpartitions[index].add_event(Buffer.event(data_type, payload))

    def broadcast_barrier(self, barrier: CheckpointBarrier, on_overtaken: OnOvertakenData) -> None:
        """Queue a barrier in every subpartition, and pass on the data that it overtakes.

        An unaligned checkpoint stores this data as the state of the producer's output.
        ``on_overtaken`` is called once. It is called immediately if the barrier is unaligned or
        cannot become so. Otherwise it is called when the last reader has taken the barrier or the
        barrier has timed out. It gets None if the checkpoint is aborted, the next one begins, or
        the partition is released first.

        Raises:
            LocalProtocolError: As for ``broadcast_event``; ``on_overtaken`` is not called.
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
        """Let a checkpoint's barrier overtake the queue of each reader that has not taken it.

        Does nothing if the barrier waits in no subpartition.
        """
        if self._barrier is not None and self._barrier.checkpoint_id == checkpoint_id:
            self._barrier.time_out_everywhere()

    def time_out_barrier_of(self, subpartition: ResultSubpartition, checkpoint_id: int) -> bool:
        """Time out a barrier in one subpartition for its local reader; see SubpartitionOwner."""
        barrier = self._barrier
        if barrier is None or barrier.checkpoint_id != checkpoint_id:
            return False
        return barrier.time_out(subpartition.index)

    def abort_barrier(self, checkpoint_id: int) -> None:
        """Stop tracking an aborted checkpoint's barrier, which stays and overtakes nothing."""
        if self._barrier is not None and self._barrier.checkpoint_id == checkpoint_id:
            self._abort_barrier()

    def _abort_barrier(self) -> None:
        barrier, self._barrier = self._barrier, None
        if barrier is not None:
            barrier.abort()

    def on_barrier_taken(self, subpartition: ResultSubpartition, event: Buffer) -> None:
        """Handle that a reader has taken a barrier in time; see SubpartitionOwner."""
        barrier = self._barrier
        if barrier is not None and event is barrier.event:
            barrier.settle(subpartition.index, [])

    def overtaken_data(self) -> list[list[Buffer]]:
        """Return the data that a priority event broadcast now overtakes, by subpartition.

        An unaligned checkpoint stores it and then recycles the buffers (Flink's in-flight buffers).
        """
        return [subpartition.overtaken_data() for subpartition in self.subpartitions]

    def flush(self, index: int) -> None:
        """Let the reader of one subpartition take the bytes written so far."""
        self.subpartitions[index].flush()

    def seal_all(self) -> None:
        """Seal the open builder of every subpartition."""
        for subpartition in self.subpartitions:
            subpartition.seal_open()

    def flush_all(self) -> None:
        """Let every reader take the bytes written so far."""
        for subpartition in self.subpartitions:
            subpartition.flush()

    def notify_end_of_data(self, *, drain: bool = True) -> None:
        """Queue the end of data; ``all_data_processed`` follows when all readers have acknowledged.

        A second call does nothing. ``drain`` tells whether all input has been read; False means
        that the job is stopped before its end.
        """
        if not self._end_of_data:
            self.broadcast_event(DataType.END_OF_DATA, encode_end_of_data(drain=drain))

    def finish(self) -> None:
        """Queue the end of the partition.

        Raises:
            LocalProtocolError: On the second call, and before ``all_data_processed``.
        """
        self.broadcast_event(DataType.END_OF_PARTITION, END_OF_PARTITION)
        self.finished = True
        # Kept data does not need its producer.
        if not any(part.released_on_consumption for part in self.subpartitions):
            self.all_consumed.set(True)

    # -- the readers' side ------------------------------------------------------------------------

    def create_view(self, index: int, listener: AvailabilityListener) -> SubpartitionView:
        """Attach the reader of one subpartition.

        Raises:
            PartitionNotFoundError: If the subpartition does not exist or has been released.
            LocalProtocolError: If the subpartition has already had its reader.

        A failed partition raises the producer's error.
        """
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
        """Indexes of the subpartitions that no reader has requested yet."""
        return [part.index for part in self.subpartitions if not part.has_had_reader]

    def give_up_readers(self, waited_s: float) -> None:
        """Fail the partition after its writer has only waited for missing readers for ``waited_s``.

        The writer gets ConsumerNotFoundError. Readers that are attached, or come later, get a
        ProducerFailedError with its text.
        """
        if self.readers_missing == 0 or self.released:
            return
        self.lost = ConsumerNotFoundError(
            f"no consumer requested {self.describe_unread()} in the {waited_s:g} s that its writer "
            "waited (rendezvous_timeout_ms): start its consumer in time, and check the address "
            "and the name that it requests"
        )
        self.fail(self.lost)

    def describe_unread(self) -> str:
        """Name the subpartitions that no reader has requested, up to a limit."""
        unread = self.unread
        named = ", ".join(map(str, unread[:_UNREAD_NAMED_MAX]))
        more = " and others" if len(unread) > _UNREAD_NAMED_MAX else ""
        return (
            f"subpartition {named}{more} of partition {self.partition_id}, which has "
            f"{len(self.subpartitions)},"
        )

    def on_all_data_processed(self) -> None:
        """Count one acknowledgement.

        A reader that leaves counts too, or the partition could never finish.
        """
        self._unacknowledged -= 1
        if self._unacknowledged == 0:
            self.all_data_processed.set(True)

    def on_released(self, subpartition: ResultSubpartition, cause: BaseException | None) -> None:
        """Count one reader that is done, cancelled or lost."""
        # The loss of a reader that has taken everything is no error.
        if cause is not None and self.lost is None and not subpartition.consumed:
            self.lost = cause
        # No reader will take the barrier there, and it has overtaken nothing.
        if self._barrier is not None and self._barrier.is_waiting(subpartition.index):
            self._barrier.settle(subpartition.index, [])
        if not subpartition.acknowledged:
            self.on_all_data_processed()
        self._unfinished -= 1
        if self._unfinished == 0:
            self.all_consumed.set(True)
            if self.finished:
                self._release()
        # A released subpartition is empty.
        self.room_for_events.set(True)
        if self._unfinished == 0 or self.lost is not None:
            self.writable = False
            # Wake a writer that waits for a buffer, so that it raises.
            self._pool.wake()

    @property
    def cancelled(self) -> bool:
        """Whether all readers have left before the end."""
        return self._unfinished == 0 and not self.finished

    def failure_cause(self) -> RemoteError | None:
        """Return a new copy of the producer's error, or None if the producer has not failed."""
        return None if self.kept_failure is None else self.kept_failure.error()

    # -- life cycle -------------------------------------------------------------------------------

    def when_released(self, callback: Callable[[ResultPartition], None]) -> None:
        """Call ``callback`` once, when the partition is released."""
        self._on_released.append(callback)

    def fail(self, cause: BaseException) -> None:
        """Drop all data of a failed producer, and report the first cause to every reader."""
        if not self.released:
            self._drop_everything(failure_for_consumers(cause))

    def _drop_everything(self, told: RemoteError) -> None:
        """Release the partition; readers that have not read to the end get the error."""
        self.kept_failure = KeptError.of(told)
        for subpartition in self.subpartitions:
            subpartition.fail()
        self._release()

    def close(self) -> None:
        """Close the producer's side.

        A finished partition stays until it is read. Readers of an unfinished one get an error,
        because its end will not come.
        """
        if not self.finished and not self.released:
            self.closed = True
            self.fail(
                ClosedResourceError(f"partition {self.partition_id} was closed before its end")
            )

    def release(self) -> None:
        """Drop all data in any state; readers get PartitionNotFoundError. Idempotent."""
        if not self.released:
            self.closed = True
            self._drop_everything(released_error(f"partition {self.partition_id}"))

    def _release(self) -> None:
        self.released = True
        self.writable = False
        self._abort_barrier()
        self._pool.destroy()
        # Wake all waiters: a released partition reaches none of these states.
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
        """Return the pool's segment counts."""
        return self._pool.statistics()

    def statistics(self) -> ResultPartitionStatistics:
        """Return the totals so far and the state of the pool and the subpartitions.

        This takes milliseconds for thousands of subpartitions.
        """
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
        """Raise AssertionError if the accounts are inconsistent."""
        self._pool.check_invariants()
        for subpartition in self.subpartitions:
            subpartition.check_invariants()
        assert self.writable or self.released or self.lost is not None or self._unfinished == 0, (
            "the availability of a writable partition is stale"
        )
        if self._barrier is not None:
            self._barrier.check_invariants()
        assert self.readers_missing == len(self.unread), "missing readers are miscounted"
        if not self.released:
            assert self._unacknowledged == sum(
                not (part.acknowledged or part.released) for part in self.subpartitions
            )
            assert self._unfinished == sum(not part.released for part in self.subpartitions)


def released_error(partition: str) -> PartitionNotFoundError:
    """Return the error for readers of a released partition."""
    return PartitionNotFoundError(
        f"{partition} has been released by its producer: it can be read only once and before its "
        "release, so the producer must create it again"
    )


def failure_for_consumers(cause: BaseException) -> RemoteError:
    """Convert an error to the one that local and remote consumers get.

    Errors from further upstream stay as they are if a wire code exists for them. A failed producer
    is a cause in itself, so the channels that reported it are left out.
    """
    if isinstance(cause, ProducerFailedError):
        return cause.of_channel(None)
    if isinstance(cause, ConsumerCancelledError | PartitionNotFoundError):
        return cause
    text = text_of(cause)
    if not isinstance(cause, FlinknetError):
        text = f"{type(cause).__name__}: {text}"
    return ProducerFailedError(f"the producer failed: {text}")


def pool_size(subpartitions: int, config: NetworkConfig) -> tuple[int, int]:
    """Return the required and the maximum number of buffers of a partition.

    These are n + 1 and n x exclusive + floating, for n subpartitions. With n + 1 buffers the writer
    never deadlocks. The maximum lets a slow consumer block the producer, before the producer fills
    the worker's memory.
    """
    required = subpartitions + 1
    maximum = subpartitions * config.buffers_per_channel + config.floating_buffers_per_gate
    return required, max(required, maximum)
