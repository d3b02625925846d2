"""The producer's side of a world: a result partition, with a script for each channel."""

from __future__ import annotations

from flinknet.buffer.buffer import Buffer, DataType
from flinknet.buffer.builder import NO_BUILDER, BufferBuilder
from flinknet.buffer.channel_end import ChannelEnd
from flinknet.buffer.segment import MemorySegment
from flinknet.partition.result_partition import ResultPartition
from tests.model.shape import (
    BARRIER,
    BODIES,
    DATA,
    END,
    END_OF_DATA,
    EVENT,
    EVENT_TYPES,
    FLUSH,
    KINDS,
    MORE_DATA,
    OPEN_DATA,
    BrokenInvariantError,
    Shape,
    Step,
    network_config,
)
from tests.model.sides import FAIL, SEND, Account, Side
from tests.unit.arrangements import Recycler

LEGAL_IN = {
    DATA: ChannelEnd.DATA,
    END_OF_DATA: ChannelEnd.DATA,
    END: ChannelEnd.ACKNOWLEDGED,
}
"""The state in which the table permits an operation; other operations are permitted in each."""

DATA_OPERATIONS = (DATA, OPEN_DATA, MORE_DATA)


def filled_with_a_large_record() -> BufferBuilder:
    """Return a builder of a large record, so that the pool gives extra buffers to its successor."""
    builder = BufferBuilder(MemorySegment(1), Recycler())
    builder.append(memoryview(b"r"))
    builder.seal()
    return builder


LARGE = filled_with_a_large_record()


class ProducerSide(Side):
    """A result partition, and the scripts that write its channels."""

    name = "producer"

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, 2 * shape.channels + 2)
        self.partition = ResultPartition("p", shape.channels, self.pool, network_config(shape))
        self.registry.register(self.partition)
        self.written = [0] * shape.channels
        self.builders: list[BufferBuilder] = [NO_BUILDER] * shape.channels
        self.begun: list[list[int]] = [[] for _ in range(shape.channels)]

    def own_steps(self) -> list[Step]:
        """Return the steps that write the next operation of each script, and the failure."""
        if self.partition.kept_failure is not None:
            return []
        steps = [
            Step("write", index)
            for index, script in enumerate(self.shape.scripts)
            if self.written[index] < len(script)
            and self.can_write(index, script[self.written[index]])
            and not self.mirrors_another(index)
        ]
        unfinished = any(not part.released for part in self.partition.subpartitions)
        return [*steps, FAIL] if self.shape.fails and unfinished else steps

    def can_write(self, index: int, operation: str) -> bool:
        """Return whether an operation need not wait.

        Data that begins a buffer needs a buffer, and an event needs room in the queue. The end of a
        partition waits for the acknowledgement of its data, or the cancellation by its reader.
        """
        if operation == END and not self.shape.lawless:
            subpartition = self.partition.subpartitions[index]
            return subpartition.acknowledged or subpartition.released
        if operation in (EVENT, BARRIER):
            return self.partition.has_room_for_event(index)
        begins = operation in (DATA, OPEN_DATA) or (
            operation == MORE_DATA and self.builders[index].sealed
        )
        return not begins or self.partition.availability.available

    def mirrors_another(self, index: int) -> bool:
        """Whether beginning this channel mirrors beginning an earlier one.

        Untouched channels with the same script differ only in their number, so it is enough that
        the first of them begins first.
        """
        scripts, cancel = self.shape.scripts, self.shape.cancel
        return self.written[index] == 0 and any(
            self.written[other] == 0 and scripts[other] == scripts[index]
            for other in range(index)
            if cancel not in (other, index)
        )

    def act(self, step: Step) -> None:
        """Write the next operation of a channel's script, or fail."""
        if step == FAIL:
            self.partition.fail(RuntimeError("planned"))
            return
        index = step.channel
        operation = self.shape.scripts[index][self.written[index]]
        subpartition = self.partition.subpartitions[index]
        if self.shape.lawless:
            subpartition.end = LEGAL_IN.get(operation, subpartition.end)
        if operation in DATA_OPERATIONS:
            self.write_data(index, operation)
        elif operation == FLUSH:
            subpartition.flush()
        else:
            payload = BODIES.get(operation, bytes([self.written[index]]))
            subpartition.add_event(Buffer.event(EVENT_TYPES[operation], payload))
        self.written[index] += 1
        if self.shape.lawless:
            subpartition.end = ChannelEnd.END_OF_DATA  # accept any message

    def take(self, step: Step, chunk: bytes = b"") -> bytes:
        """Do one step; a lawless producer sends and accepts any message in any state."""
        if self.shape.lawless:
            for reader in self.session.readers:
                view = reader._view
                following = view.next_data_type() if view is not None else DataType.NONE
                reader._end = ChannelEnd.END_OF_DATA
                if step == SEND:
                    reader._end = LEGAL_IN.get(KINDS.get(following, EVENT), ChannelEnd.DATA)
        return super().take(step, chunk)

    def write_data(self, index: int, operation: str) -> None:
        """Write the operation's number to a new builder, or append it to the open one."""
        subpartition = self.partition.subpartitions[index]
        builder = self.builders[index]
        if operation != MORE_DATA or builder.sealed:
            opened = self.partition.request_builder(
                index, LARGE if self.shape.widens else NO_BUILDER
            )
            assert opened is not None
            builder = self.builders[index] = opened
            self.begun[index].append(self.written[index])
        builder.resume()
        if not subpartition.released:
            assert builder.append(memoryview(bytes([self.written[index]]))) == 1
            if operation == DATA:
                subpartition.seal_open()

    def check(self) -> None:
        """Check the backlog against the pollable data buffers, counted from the scripts (C10)."""
        if self.shape.lawless:
            return
        self.partition.check_invariants()
        for index, subpartition in enumerate(self.partition.subpartitions):
            statistics = subpartition.statistics()
            if statistics.blocked or statistics.released:
                continue
            promised = self.promised(index, statistics.bytes_out)
            if statistics.backlog != promised:
                raise BrokenInvariantError(
                    f"subpartition {index} tells backlog {statistics.backlog}, {promised} can be "
                    f"polled"
                )

    def promised(self, index: int, taken: int) -> int:
        """Return how many buffers hold data that can be polled.

        Each operation is one byte. Data in the open buffer can be polled once a flush follows some
        of it.
        """
        script = self.shape.scripts[index][: self.written[index]]
        numbers = [number for number, operation in enumerate(script) if operation != FLUSH]
        left = [number for number in numbers[taken:] if script[number] in DATA_OPERATIONS]
        buffers = {
            max(first for first in self.begun[index] if first <= number): number
            for number in reversed(left)
        }
        is_open = script.rstrip(FLUSH).endswith((OPEN_DATA, MORE_DATA))
        if buffers and is_open and buffers[max(buffers)] > script.rfind(FLUSH):
            del buffers[max(buffers)]
        return len(buffers)

    def account(self) -> Account:
        """Return the credit of the readers; None for a blocked reader without exclusive buffers."""
        credit: list[int | None] = [None] * self.shape.channels
        readers = self.link.statistics().readers
        for reader in readers if self.shape.credit else ():
            blocked = self.partition.subpartitions[reader.channel].statistics().blocked
            if not reader.done and not (blocked and self.shape.exclusive == 0):
                credit[reader.channel] = reader.credit
        parts = [part.statistics() for part in self.partition.subpartitions]
        return Account(tuple(credit), "\n".join(map(str, [self.written, *parts, *readers])))

    def ended(self) -> dict[int, str]:
        """Return the channels with a completely written script, or all after a failure."""
        failed = self.partition.kept_failure is not None
        return {
            index: "failed" if failed else "written"
            for index, script in enumerate(self.shape.scripts)
            if failed or self.written[index] == len(script)
        }

    def release(self) -> None:
        """Release the partition."""
        self.partition.release()

    def free_segments(self) -> list[MemorySegment]:
        """Return the idle segments of the partition's pool."""
        return list(self.partition._pool._idle)
