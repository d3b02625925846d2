"""The union gate: several input gates read as one, with fairness between them.

This is Flink's UnionInputGate. Available gates are in a FIFO queue, each at most once. ``poll``
takes one buffer of the first gate, and puts the gate last if it may have more. A gate with many
channels therefore gets no more turns than one with few. Gates with a priority event are in front. A
gate without data leaves the queue and is watched: its availability queues it again. The channels of
each gate are numbered behind those of the previous gate.

The union is finished when every gate is. The first error of a gate becomes the union's, ahead of
other gates' data. The union owns its gates and releases them.

Invariant: every gate is queued, watched or finished.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple

from flinknet.buffer.availability import Availability
from flinknet.buffer.buffer import Buffer
from flinknet.consumer.end_of_data import EndOfData
from flinknet.consumer.gate_statistics import InputGateStatistics
from flinknet.consumer.input_channel import InputChannel
from flinknet.consumer.input_gate import InputGate
from flinknet.consumer.prioritized_deque import PrioritizedDeque
from flinknet.errors import ClosedResourceError, LocalProtocolError

__all__ = ["UnionInputGate", "UnionInputGateStatistics"]


class UnionInputGateStatistics(NamedTuple):
    """Current state of a union and its gates."""

    name: str
    gates_queued: int
    finished: bool
    released: bool
    end_of_data: EndOfData
    gates: tuple[InputGateStatistics, ...]


class _Member:
    """One gate of a union, with its availability callbacks."""

    __slots__ = ("_union", "first_channel", "gate", "queued")

    def __init__(self, union: UnionInputGate, gate: InputGate, first_channel: int) -> None:
        self._union = union
        self.gate = gate
        self.first_channel = first_channel
        self.queued = False

    def on_available(self) -> None:
        self._union.notify_gate_available(self, priority=False)

    def on_priority(self) -> None:
        self._union.notify_gate_available(self, priority=True)


class UnionInputGate:
    """Union of at least two different input gates; see ``Gate`` for the shared contract.

    A gate that waits for the data of other gates counts as busy for its throughput, as in Flink.
    The reader is idle only while the whole union has no data.
    """

    def __init__(self, gates: Sequence[InputGate]) -> None:
        if len(gates) < 2 or len(set(gates)) < len(gates):
            raise LocalProtocolError(
                f"a union has {len(gates)} gates: give it two or more different gates"
            )
        nested = [gate.name for gate in gates if not isinstance(gate, InputGate)]
        if nested:
            raise LocalProtocolError(f"{nested[0]} is a union: unite its gates instead")
        self.name = " + ".join(gate.name for gate in gates)
        self.finished = False
        self.released = False
        self.availability = Availability()
        self.priority_availability = Availability()
        self._failure: BaseException | None = None
        self._queue: PrioritizedDeque[_Member] = PrioritizedDeque()
        self._on_released: list[Callable[[UnionInputGate], None]] = []
        self._members: list[_Member] = []
        first_channel = 0
        for gate in gates:
            self._members.append(_Member(self, gate, first_channel))
            first_channel += len(gate.channels)
        for member in self._members:
            self._put_back(member)
        for gate in gates:
            gate.when_failed(self.fail)

    @property
    def gates(self) -> list[InputGate]:
        """The gates, in order."""
        return [member.gate for member in self._members]

    @property
    def channels(self) -> list[InputChannel]:
        """The channels of all gates, in the order of the gates."""
        return [channel for gate in self.gates for channel in gate.channels]

    @property
    def end_of_data(self) -> EndOfData:
        """Whether the data of every channel has been polled, and how it ended."""
        return EndOfData.of([channel.drained for channel in self.channels])

    # -- polling ----------------------------------------------------------------------------------

    def notify_gate_available(self, member: _Member, *, priority: bool) -> None:
        """Queue a gate that has a buffer to poll."""
        if self.released:
            return
        if not member.queued:
            member.queued = True
            if priority:
                self._queue.append_prioritized(member)
            else:
                self._queue.append(member)
        elif priority:
            self._queue.prioritize(member)
        if priority and not self.priority_availability.available:
            self.priority_availability.set(True)
        self._wake()

    def _wake(self) -> None:
        if not self.availability.available:
            self.availability.set(True)

    def _put_back(self, member: _Member) -> None:
        """Queue a gate for its next turn, or watch it, unless it is finished."""
        gate = member.gate
        if gate.finished:
            return
        if gate.priority_availability.available:
            self.notify_gate_available(member, priority=True)
            return
        # This subscription may be left from the last time, if only ordinary data came.
        gate.priority_availability.unsubscribe(member.on_priority)
        gate.priority_availability.subscribe(member.on_priority)
        # Queues the gate now if it may have more.
        gate.availability.subscribe(member.on_available)

    def poll(self) -> tuple[int, Buffer] | None:
        """Take the next buffer and its channel's index; see Gate."""
        if self.released:
            raise ClosedResourceError(f"the union of gates {self.name} has been closed")
        if self._failure is not None:
            raise self._failure
        queue = self._queue
        while queue:
            member = queue.pop_prioritized() if queue.prioritized else queue.popleft()
            member.queued = False
            try:
                polled = member.gate.poll()
            finally:
                self._put_back(member)
            if self.priority_availability.available and not queue.prioritized:
                self.priority_availability.set(False)
            if polled is not None:
                index, buffer = polled
                if member.gate.finished:
                    self._check_finished()
                return member.first_channel + index, buffer
        self.availability.set(self.finished)
        return None

    def _check_finished(self) -> None:
        if all(gate.finished for gate in self.gates):
            self.finished = True
            self._wake()

    def acknowledge(self, index: int) -> None:
        """Report that a channel's records up to its end of data are processed; see Gate."""
        place = bisect_right(self._members, index, key=lambda member: member.first_channel) - 1
        member = self._members[place]
        member.gate.acknowledge(index - member.first_channel)

    def fail(self, cause: BaseException) -> None:
        """End the reading with an error that every poll raises; the first error counts."""
        if self._failure is None:
            self._failure = cause
        self._wake()

    # -- life cycle -------------------------------------------------------------------------------

    def when_released(self, callback: Callable[[UnionInputGate], None]) -> None:
        """Call ``callback`` once, when the union is released."""
        self._on_released.append(callback)

    def release(self) -> None:
        """Release every gate; idempotent."""
        if self.released:
            return
        self.released = True
        for member in self._members:
            member.gate.release()
            member.queued = False
        self._queue.clear()
        self.priority_availability.set(False)
        self.availability.set(True)
        callbacks, self._on_released = self._on_released, []
        for callback in callbacks:
            callback(self)

    def statistics(self) -> UnionInputGateStatistics:
        """Return the progress of the union and the statistics of its gates."""
        return UnionInputGateStatistics(
            name=self.name,
            gates_queued=len(self._queue),
            finished=self.finished,
            released=self.released,
            end_of_data=self.end_of_data,
            gates=tuple(gate.statistics() for gate in self.gates),
        )

    def check_invariants(self) -> None:
        """Raise AssertionError if the accounts are inconsistent."""
        for gate in self.gates:
            gate.check_invariants()
        assert all(member.queued for member in self._queue), "a queued gate is unmarked"
        assert len(self._queue) == sum(member.queued for member in self._members), (
            "a marked gate is not queued"
        )
        assert self.priority_availability.available == bool(self._queue.prioritized), (
            "priority availability is stale"
        )
        if not self.released:
            assert all(
                member.queued or member.gate.finished or not member.gate.availability.available
                for member in self._members
            ), "a gate with data is neither queued nor finished"
