"""Both sides of a world with checkpoints: scripted producers, and a subtask that takes checkpoints.

The subtask reads a real gate, with remote and local channels, through a real barrier handler. It
processes each buffer as it polls it. For each checkpoint it notes how far it had processed each
channel, and which records were persisted as in flight.
"""

from __future__ import annotations

from flinknet.buffer.buffer import Buffer, DataType
from flinknet.buffer.segment import MemorySegment
from flinknet.checkpoint.alignment_metrics import AlignmentMetrics
from flinknet.checkpoint.barrier_events import handle_event
from flinknet.checkpoint.barrier_handler import BarrierHandler
from flinknet.checkpoint.barrier_listener import AbortReason
from flinknet.consumer.input_channel import PartitionLocation
from flinknet.consumer.input_gate import InputGate
from flinknet.partition.registry import wire_partition_id
from flinknet.wire.events import CheckpointBarrier, Event, EventAnnouncement, decode_event
from tests.model.checkpoint_shape import (
    DATA_OPERATIONS,
    EVENTS,
    TIMEOUT_MS,
    CheckpointShape,
)
from tests.model.consumer_side import free_in
from tests.model.scripted_writer import ScriptedWriter
from tests.model.shape import BrokenInvariantError, Step, network_config
from tests.model.sides import POLL, Account, Side

HERE, THERE = "consumer:1", "producer:1"
SEGMENTS_PER_WRITER = 3

CLOCK = Step("sees that time has passed")
TIMER = Step("has its timer")
ABORT = Step("hears of an abort")


def no_bytes() -> int:
    """Stand for the counter of processed bytes, which the exploration ignores."""
    return 0


def steps_of(writers: dict[int, ScriptedWriter]) -> list[Step]:
    """Return the possible steps of writers."""
    steps = [Step("write", index) for index, writer in writers.items() if writer.can_write()]
    return steps + [
        Step("time out", index) for index, writer in writers.items() if writer.waiting is not None
    ]


def let_write(writer: ScriptedWriter, step: Step) -> None:
    """Take one step of a writer."""
    if step.name == "write":
        writer.write()
    else:
        writer.time_out()


def idle_in(writers: dict[int, ScriptedWriter]) -> list[MemorySegment]:
    """Return the idle segments in the pools of partitions."""
    return [segment for writer in writers.values() for segment in writer.partition._pool._idle]


class CheckpointProducerSide(Side):
    """The worker with the remote producers."""

    name = "producer"
    shape: CheckpointShape

    def __init__(self, shape: CheckpointShape) -> None:
        super().__init__(shape, SEGMENTS_PER_WRITER * len(shape.remote) or 1)
        self.writers = {
            index: ScriptedWriter(shape, index, self.pool, self.registry) for index in shape.remote
        }

    def own_steps(self) -> list[Step]:
        """Return the steps in which a producer writes, or one of its barriers times out."""
        return steps_of(self.writers)

    def act(self, step: Step) -> None:
        """Let a producer take a step."""
        let_write(self.writers[step.channel], step)

    def check(self) -> None:
        """Check the invariants of the partitions."""
        for writer in self.writers.values():
            writer.partition.check_invariants()

    def account(self) -> Account:
        """Return the credit of the readers, by channel number of the connection."""
        credit: list[int | None] = [None] * len(self.writers)
        parts = [writer.partition.subpartitions[0].statistics() for writer in self.writers.values()]
        readers = self.link.statistics().readers
        for reader in readers:
            blocked = parts[reader.channel].blocked
            if not reader.done and not (blocked and self.shape.exclusive == 0):
                credit[reader.channel] = reader.credit
        return Account(tuple(credit), "\n".join(map(str, [*parts, *readers])))

    def ended(self) -> dict[int, str]:
        """Return the channels with a completely written script, and the local ones."""
        ended = {index: "written" for index, writer in self.writers.items() if writer.done}
        return ended | dict.fromkeys(self.shape.local, "not here")

    def release(self) -> None:
        """Release the partitions."""
        for writer in self.writers.values():
            writer.partition.release()

    def free_segments(self) -> list[MemorySegment]:
        """Return the idle segments of the partitions' pools."""
        return idle_in(self.writers)


class CheckpointTask:
    """The subtask's record of its own position and of the content of each checkpoint."""

    def __init__(self, shape: CheckpointShape) -> None:
        self.shape = shape
        self.processed = [0] * shape.channels
        """For each channel, the position in its script behind the last record processed."""
        self.events = [0] * shape.channels
        self.taken: dict[int, tuple[int, ...]] = {}
        self.in_flight: dict[int, list[tuple[int, ...]]] = {}
        self.begun: list[int] = []
        self.completed: list[int] = []
        self.aborted: list[int] = []

    def process(self, index: int, content: bytes) -> None:
        """Check that records arrive in the order of the script without a gap, and note them."""
        script = self.shape.scripts[index]
        places = [
            place
            for place in range(self.processed[index], len(script))
            if script[place] in DATA_OPERATIONS
        ]
        if list(content) != places[: len(content)]:
            raise BrokenInvariantError(
                f"channel {index} delivered records {list(content)}, expected those of {places}"
            )
        self.processed[index] = content[-1] + 1

    def all_read(self, index: int) -> bool:
        """Return whether the subtask has read a channel completely."""
        script = self.shape.scripts[index]
        data = [place for place, operation in enumerate(script) if operation in DATA_OPERATIONS]
        events = sum(operation in EVENTS for operation in script)
        return self.events[index] == events and self.processed[index] == (
            data[-1] + 1 if data else 0
        )

    # -- the calls of the barrier handler ----------------------------------------------------------

    def trigger(self, barrier: CheckpointBarrier) -> None:
        """Note the subtask's position as the state of a checkpoint that begins."""
        number = barrier.checkpoint_id
        if number in self.taken or number in self.aborted:
            raise BrokenInvariantError(f"checkpoint {number} is taken twice, or after its abort")
        self.taken[number] = tuple(self.processed)
        self.in_flight[number] = [()] * self.shape.channels

    def persist(self, checkpoint_id: int, channel: int, buffer: Buffer) -> None:
        """Note a buffer as in flight in a checkpoint that is not over."""
        if checkpoint_id in self.completed or checkpoint_id in self.aborted:
            raise BrokenInvariantError(
                f"something is stored for checkpoint {checkpoint_id} that is over"
            )
        self.in_flight[checkpoint_id][channel] += tuple(bytes(buffer.view()))
        buffer.recycle()

    def complete(self, checkpoint_id: int, metrics: AlignmentMetrics) -> None:
        """Check that a checkpoint has no record twice, and none from behind a barrier."""
        if checkpoint_id in self.completed or checkpoint_id in self.aborted:
            raise BrokenInvariantError(f"checkpoint {checkpoint_id} ends twice")
        self.completed.append(checkpoint_id)
        for index in range(self.shape.channels):
            in_front = self.shape.in_front(index, checkpoint_id)
            if in_front is None:
                raise BrokenInvariantError(
                    f"checkpoint {checkpoint_id} is complete though channel {index} has no barrier"
                )
            stored = self.stored(index, checkpoint_id)
            if len(set(stored)) < len(stored):
                raise BrokenInvariantError(
                    f"checkpoint {checkpoint_id} has a record of channel {index} twice: {stored}"
                )
            if not set(stored) <= set(in_front):
                raise BrokenInvariantError(
                    f"checkpoint {checkpoint_id} has records of channel {index} from behind its "
                    f"barrier: {stored} of {in_front}"
                )

    def abort(self, checkpoint_id: int, reason: AbortReason) -> None:
        """Note that a checkpoint is aborted, and that it had not ended before."""
        if checkpoint_id in self.completed or checkpoint_id in self.aborted:
            raise BrokenInvariantError(f"checkpoint {checkpoint_id} ends twice")
        self.aborted.append(checkpoint_id)

    def stored(self, index: int, checkpoint_id: int) -> tuple[int, ...]:
        """Return a channel's records in a checkpoint: processed ones, then those in flight."""
        script, processed = self.shape.scripts[index], self.taken[checkpoint_id][index]
        before = tuple(place for place in range(processed) if script[place] in DATA_OPERATIONS)
        return before + self.in_flight[checkpoint_id][index]


class CheckpointConsumerSide(Side):
    """The worker with the subtask and its local producers."""

    name = "consumer"
    shape: CheckpointShape

    def __init__(self, shape: CheckpointShape) -> None:
        own = len(shape.remote) * shape.exclusive + shape.floating
        super().__init__(shape, own + SEGMENTS_PER_WRITER * len(shape.local))
        self.writers = {
            index: ScriptedWriter(shape, index, self.pool, self.registry) for index in shape.local
        }
        locations = [
            PartitionLocation(HERE if index in shape.local else THERE, f"p{index}", 0)
            for index in range(shape.channels)
        ]
        self.gate = InputGate("g", locations, HERE, self.pool, network_config(shape))
        self.gate.reader_is_slow = True
        self.task = CheckpointTask(shape)
        self.handler = BarrierHandler(self.gate, self.task, no_bytes)
        self.now_ms = 0
        self.told_of_abort = False
        self.gate.setup(self.request_partitions)

    def request_partitions(self) -> None:
        """Request the subpartition of every channel."""
        for channel in self.gate.remote_channels:
            channel.request(self.session)
        for local in self.gate.local_channels:
            partition_id = wire_partition_id(local.location.partition_id)
            self.registry.request(partition_id, 0, local, 0.0)

    def own_steps(self) -> list[Step]:
        """Return the steps of writers, reader, clock and timer, and the coordinator's abort."""
        steps = steps_of(self.writers)
        if self.gate.availability.available and not self.gate.finished:
            steps.append(POLL)
        if self.shape.times and not self.now_ms:
            steps.append(CLOCK)
        if self.handler.deadline_ms is not None and self.now_ms >= self.handler.deadline_ms:
            steps.append(TIMER)
        if self.shape.aborts is not None and not self.told_of_abort:
            steps.append(ABORT)
        return steps

    def act(self, step: Step) -> None:
        """Take one of these steps."""
        if step == POLL:
            self.poll()
        elif step == CLOCK:
            self.now_ms = 2 * TIMEOUT_MS
        elif step == TIMER:
            self.handler.on_time(self.now_ms)
        elif step == ABORT:
            assert self.shape.aborts is not None
            self.told_of_abort = True
            self.handler.abort(self.shape.aborts, AbortReason.COORDINATOR)
        else:
            let_write(self.writers[step.channel], step)

    def poll(self) -> None:
        """Process one buffer, or pass one event to the handler."""
        polled = self.gate.poll()
        if polled is None:
            return
        index, buffer = polled
        content, data_type = bytes(buffer.view()), buffer.data_type
        if data_type.is_buffer:
            self.task.process(index, content)
        buffer.recycle()
        if data_type.is_buffer:
            return
        event = decode_event(Event(data_type, content))
        self.task.events[index] += not isinstance(event, EventAnnouncement)
        before = self.handler.checkpoint_id
        handle_event(self.handler, index, event, self.now_ms)
        if self.handler.checkpoint_id > before:
            self.task.begun.append(self.handler.checkpoint_id)
        if data_type is DataType.END_OF_DATA:
            self.gate.acknowledge(index)

    def check(self) -> None:
        """Check the invariants of the gate, the handler and the local partitions."""
        self.gate.check_invariants()
        self.handler.check_invariants()
        for writer in self.writers.values():
            writer.partition.check_invariants()

    def account(self) -> Account:
        """Return the free buffers that have been announced, by channel number of the connection."""
        channels = [channel.statistics() for channel in self.gate.remote_channels]
        announced = (
            None
            if channel.released
            else channel.exclusive_free + channel.floating_free - channel.unannounced_credit
            for channel in channels
        )
        told = f"{vars(self.task)}, {self.handler.state}, blocked {self.handler._blocked}"
        return Account(tuple(announced), "\n".join(map(str, [told, *channels])))

    def ended(self) -> dict[int, str]:
        """Return the channels that the subtask has read completely."""
        return {
            index: "read"
            for index in range(self.shape.channels)
            if self.task.all_read(index) and (index not in self.writers or self.writers[index].done)
        }

    def release(self) -> None:
        """Release the gate and the partitions."""
        self.gate.release()
        for writer in self.writers.values():
            writer.partition.release()

    def free_segments(self) -> list[MemorySegment]:
        """Return the idle segments of pools and the free segments of channels."""
        managers = [channel.manager for channel in self.gate.remote_channels]
        return [
            *self.gate._floating_pool._idle,
            *(segment for manager in managers for segment in free_in(manager)),
            *idle_in(self.writers),
        ]
