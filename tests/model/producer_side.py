"""The producer's side of a world: a result partition whose channels are written by scripts."""

from __future__ import annotations

from flinknet.buffer.buffer import Buffer
from flinknet.buffer.segment import MemorySegment
from flinknet.partition.result_partition import ResultPartition
from tests.model.shape import (
    DATA,
    EVENT_TYPES,
    FLUSH,
    OPEN_DATA,
    BrokenInvariantError,
    Shape,
    Step,
    network_config,
)
from tests.model.sides import FAIL, Account, Side


class ProducerSide(Side):
    """A result partition whose channels are written by scripts."""

    name = "producer"

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, 2 * shape.channels + 2)
        self.partition = ResultPartition("p", shape.channels, self.pool, network_config(shape))
        self.registry.register(self.partition)
        self.written = [0] * shape.channels

    def own_steps(self) -> list[Step]:
        """The next operation of each script; a failure."""
        if self.partition.kept_failure is not None:
            return []
        steps = [
            Step("write", index)
            for index, script in enumerate(self.shape.scripts)
            if self.written[index] < len(script)
            and self.can_write(script[self.written[index]])
            and not self.mirrors_another(index)
        ]
        unfinished = any(not part.released for part in self.partition.subpartitions)
        return [*steps, FAIL] if self.shape.fails and unfinished else steps

    def can_write(self, operation: str) -> bool:
        """Data needs a buffer at the producer; nothing else does."""
        return operation not in (DATA, OPEN_DATA) or self.partition.availability.available

    def mirrors_another(self, index: int) -> bool:
        """Whether to begin this channel is the mirror image of beginning one before it.

        Channels with the same script that are untouched differ in nothing but their number, so it
        is enough that the first of them goes first.
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
        if operation in (DATA, OPEN_DATA):
            builder = self.partition.request_builder(index)
            assert builder is not None
            if not subpartition.released:
                builder.append(memoryview(bytes([self.written[index]])))
                if operation == DATA:
                    subpartition.seal_open()
        elif operation == FLUSH:
            subpartition.flush()
        else:
            payload = bytes([self.written[index]])
            subpartition.add_event(Buffer.event(EVENT_TYPES[operation], payload))
        self.written[index] += 1

    def check(self) -> None:
        """Told backlog is the data that can be polled, counted here from what was written (C10)."""
        self.partition.check_invariants()
        for index, subpartition in enumerate(self.partition.subpartitions):
            statistics = subpartition.statistics()
            if statistics.blocked or statistics.released:
                continue
            script = self.shape.scripts[index][: self.written[index]]
            left = [operation for operation in script if operation != FLUSH]
            left = left[statistics.buffers_out :]
            data = sum(operation in (DATA, OPEN_DATA) for operation in left)
            open_and_not_flushed = script.endswith(OPEN_DATA) and left[-1:] == [OPEN_DATA]
            if statistics.backlog != data - open_and_not_flushed:
                raise BrokenInvariantError(
                    f"subpartition {index} tells backlog {statistics.backlog}, {data} are queued"
                )

    def account(self) -> Account:
        """Credit at the readers; without exclusive buffers a blocked one has nothing to say."""
        credit: list[int | None] = [None] * self.shape.channels
        readers = self.connection.statistics().readers
        for reader in readers if self.shape.credit else ():
            blocked = self.partition.subpartitions[reader.channel].statistics().blocked
            if not reader.done and not (blocked and self.shape.exclusive == 0):
                credit[reader.channel] = reader.credit
        parts = [part.statistics() for part in self.partition.subpartitions]
        return Account(tuple(credit), "\n".join(map(str, [self.written, *parts, *readers])))

    def ended(self) -> dict[int, str]:
        """Channels that are written to their end, or all after a failure."""
        failed = self.partition.kept_failure is not None
        return {
            index: "failed" if failed else "written"
            for index, script in enumerate(self.shape.scripts)
            if failed or self.written[index] == len(script)
        }

    def release(self) -> None:
        """Drop the partition."""
        self.partition.release()

    def free_segments(self) -> list[MemorySegment]:
        """What is idle in the partition's pool."""
        return list(self.partition._pool._idle)
