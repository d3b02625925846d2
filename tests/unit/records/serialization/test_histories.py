"""The whole way of a record, in any history: writer, subpartition, reader's poll, deserializer.

The machine plays two tasks that share a writer, the consumers and the clock. It knows nothing of
buffers. It checks that each channel delivers its emitted records once, whole and in order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from flinknet.buffer.buffer import Buffer, DataType
from flinknet.errors import LocalProtocolError
from flinknet.partition.pipelined_subpartition import PipelinedSubpartition
from flinknet.records.partitioner import CustomPartitioner
from flinknet.records.serialization.packer import RecordPacker
from flinknet.records.serialization.serializer import RecordDeserializer
from flinknet.records.writer import RecordWriter
from tests.unit.arrangements import (
    Flusher,
    Running,
    assert_everything_returned,
    make_partition,
    view_of,
    wait,
)
from tests.unit.records.columns.cutting import make_memory, make_unpacker, records_of

EVERYONE = -1
TASKS = (0, 1)
PATIENCE = 2_000
"""A task that still waits after this many turns of all others waits forever."""


class Record(NamedTuple):
    """An emitted record; ``filling`` gives it its length."""

    channel: int
    task: int
    number: int
    filling: bytes


tasks = st.sampled_from(TASKS)
channels = st.integers(0, 2)
choices = st.integers(0, 1_000)


class RecordHistories(RuleBasedStateMachine):
    """C13, invariants I1, I2, L1."""

    @initialize(
        subpartitions=st.integers(1, 3),
        segment_bytes=st.sampled_from([64, 65, 100, 257]),
        more_segments=st.integers(0, 8),
        overdraft_max=st.integers(0, 2),
        quota=st.integers(2, 6),
        timeout=st.sampled_from([-1, 0, "adaptive"]),
    )
    def make(
        self,
        subpartitions: int,
        segment_bytes: int,
        more_segments: int,
        overdraft_max: int,
        quota: int,
        timeout: Any,
    ) -> None:
        self.segment_bytes = segment_bytes
        self.partition, self.pool = make_partition(
            subpartitions,
            segments=subpartitions + 1 + more_segments,
            segment_bytes=segment_bytes,
            overdraft_buffers_per_partition=overdraft_max,
            buffers_per_subpartition_max=quota,
        )
        self.writer = RecordWriter(
            self.partition,
            CustomPartitioner(lambda channel, _: int(channel), lambda record: record[0]),
            wait=wait,
            flusher=Flusher(),
            buffer_timeout_ms=timeout,
            record_bytes_max=1 << 20,
            record_elements_max=1 << 16,
        )
        self.views = [view_of(self.partition, index) for index in range(subpartitions)]
        unpacker = make_unpacker()
        self.memory = make_memory(reassembly_memory_bytes=300, record_spill_bytes=200)
        self.deserializers = [RecordDeserializer(unpacker, self.memory) for _ in self.views]
        self.readers = set(range(subpartitions))
        self.running: dict[int, Running[None]] = {}
        self.began: dict[int, list[Record]] = {task: [] for task in TASKS}
        self.may_be_missing: set[Record] = set()
        self.received: list[list[Record]] = [[] for _ in self.views]
        self.held: list[Buffer] = []
        self.torn = False
        self.may_be_torn = False

    # -- the tasks ---------------------------------------------------------------------------------

    def record(self, task: int, channel: int, size: int) -> Record:
        channel = channel if channel == EVERYONE else channel % len(self.views)
        made = Record(
            channel, task, len(self.began[task]), b"x" * (size % (3 * self.segment_bytes))
        )
        self.began[task].append(made)
        return made

    def advance(self, task: int, *, start: bool = False) -> None:
        """Let a task go on; a torn record of the other task stops it."""
        running = self.running.pop(task)
        before = self.writer.records_out
        try:
            running.go_on()
        except LocalProtocolError:
            assert self.may_be_torn, "a record no longer than a buffer was torn"
            self.torn = True
            self.may_be_missing.update(self.began[task][-3:])
        else:
            if not running.done:
                self.running[task] = running
        assert self.writer.records_out >= before

    @rule(task=tasks, channel=channels, size=st.integers(0, 800))
    def emit(self, task: int, channel: int, size: int) -> None:
        if task not in self.running:
            record = self.record(task, channel, size)
            self.running[task] = Running(self.writer.emit(tuple(record)), start=False)
            self.advance(task)

    @rule(task=tasks, size=st.integers(0, 800))
    def broadcast(self, task: int, size: int) -> None:
        if task not in self.running:
            record = self.record(task, EVERYONE, size)
            self.running[task] = Running(self.writer.broadcast_emit(tuple(record)), start=False)
            self.advance(task)

    @rule(task=tasks, shapes=st.lists(st.tuples(channels, st.integers(0, 300)), max_size=3))
    def emit_many(self, task: int, shapes: list[tuple[int, int]]) -> None:
        if task not in self.running:
            records = [self.record(task, channel, size) for channel, size in shapes]
            self.running[task] = Running(
                self.writer.emit_many(list(map(tuple, records))), start=False
            )
            self.advance(task)

    @precondition(lambda self: self.running)
    @rule(task=tasks)
    def go_on(self, task: int) -> None:
        if task in self.running:
            self.advance(task)

    @precondition(lambda self: self.running)
    @rule(task=tasks)
    def cancel(self, task: int) -> None:
        if task in self.running:
            self.running.pop(task).cancel()
            cancelled = self.began[task][-3:]
            self.may_be_missing.update(cancelled)
            longest = max(len(RecordPacker().pack(tuple(record))) for record in cancelled)
            self.may_be_torn |= longest > self.segment_bytes

    @rule()
    def flush(self) -> None:
        self.writer.flush()

    # -- the consumers -----------------------------------------------------------------------------

    @rule(channel=channels, keep=st.booleans())
    def poll(self, channel: int, keep: bool) -> None:
        channel %= len(self.views)
        polled = self.views[channel].poll()
        if polled is None:
            return
        buffer = polled.buffer
        if buffer.data_type.is_buffer:
            clear_end = buffer.data_type is DataType.DATA_BUFFER_WITH_CLEAR_END
            with buffer.view_with_room() as view:
                records = records_of(
                    self.deserializers[channel],
                    view,
                    buffer.continued,
                    buffer.unfinished,
                    buffer.records,
                    clear_end=clear_end,
                )
            self.received[channel] += [Record(*record) for record in records]
        elif buffer.data_type is DataType.END_OF_DATA:
            self.views[channel].acknowledge_all_data_processed()
        else:
            self.views[channel].release()
        if keep:
            self.held.append(buffer)
        else:
            buffer.recycle()

    @precondition(lambda self: self.held)
    @rule(choice=choices)
    def recycle(self, choice: int) -> None:
        self.held.pop(choice % len(self.held)).recycle()

    @rule(channel=channels, size=st.integers(1, 300))
    def want_buffers_of(self, channel: int, size: int) -> None:
        self.views[channel % len(self.views)].notify_new_buffer_size(size)

    @precondition(lambda self: len(self.readers) > 1)
    @rule(choice=choices)
    def leave(self, choice: int) -> None:
        if choice % 5 == 0:
            channel = sorted(self.readers)[choice % len(self.readers)]
            self.readers.remove(channel)
            self.views[channel].release()

    # -- invariants --------------------------------------------------------------------------------

    @invariant()
    def no_memory_is_lost(self) -> None:
        counts = self.pool.statistics()
        pool = self.partition.statistics().pool
        assert counts.free + pool.idle + pool.in_use == counts.total
        queued = sum(part.queued_buffers for part in self.partition.statistics().subpartitions)
        taken_from = sum(
            part._open is not None and part._taken_bytes == part._open.size
            for part in self.partition.subpartitions
            if isinstance(part, PipelinedSubpartition)
        )
        assert pool.in_use <= queued + taken_from + len(self.held)

    @invariant()
    def what_is_put_together_is_accounted_for(self) -> None:
        self.memory.check_invariants()
        inside = sum(deserializer.inside_record for deserializer in self.deserializers)
        assert self.memory.statistics().records == inside

    @invariant()
    def what_has_come_is_in_order(self) -> None:
        for channel, received in enumerate(self.received):
            assert all(record.channel in (channel, EVERYONE) for record in received)
            for task in TASKS:
                numbers = [record.number for record in received if record.task == task]
                assert numbers == sorted(set(numbers)), "twice, or out of order"

    def consume_what_is_offered(self) -> None:
        """Poll all announced buffers, as a reader does, and recycle all held ones."""
        for channel in self.readers:
            while self.views[channel].next_data_type() is not DataType.NONE:
                self.poll(channel, keep=False)
        while self.held:
            self.recycle(0)

    def complete(self, running: Running[None]) -> None:
        for _ in range(PATIENCE):
            if running.done:
                return
            self.consume_what_is_offered()
            running.go_on()
        raise AssertionError("it waits for ever")

    def teardown(self) -> None:
        if not hasattr(self, "partition"):
            return
        turns = 0
        while self.running:
            self.consume_what_is_offered()
            self.advance(min(self.running) if turns % 2 else max(self.running))
            turns += 1
            assert turns < PATIENCE, "a task waits for ever"
        self.writer.flush()
        self.consume_what_is_offered()
        if not self.torn:
            try:
                self.complete(Running(self.writer.finish()))
            except LocalProtocolError:
                assert self.may_be_torn
                self.torn = True
            else:
                assert not any(self.deserializers[index].inside_record for index in self.readers)
        self.check_nothing_is_missing()
        self.writer.close()
        self.memory.close()
        self.memory.check_invariants()
        assert_everything_returned(self.pool)

    def check_nothing_is_missing(self) -> None:
        came: set[Record] = set()
        for channel in self.readers:
            received = set(self.received[channel])
            came |= received
            for record in [*self.began[0], *self.began[1]]:
                if record.channel in (channel, EVERYONE) and record not in self.may_be_missing:
                    assert record in received
        if len(self.readers) == len(self.views) and not self.torn:
            assert self.writer.records_out == len(came)


RecordHistories.TestCase.settings = settings(max_examples=120, stateful_step_count=40)
TestRecordHistories = RecordHistories.TestCase
