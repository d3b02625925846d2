"""One run with some number of channels: two processes, and the combination of their accounts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from bench.harness.pinning import Pinning
from bench.harness.process import Part
from bench.harness.sides import answers, open_sides
from bench.scale.consumer import consume
from bench.scale.producer import produce
from bench.scale.setting import Account, Setting

__all__ = ["MACHINERY", "MACHINERY_MAX", "Outcome", "measure"]

CARRY_S_MAX = 60.0
"""Seconds that the records may take."""

MACHINERY = ("tasks", "timers", "sockets")

MACHINERY_MAX = 4
"""Limit of the tasks, timers or sockets that a partition and a gate may add, for any channel count.

They are the task that requests partitions, and a timeout of waiting requests.
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The accounts of both processes of a run."""

    setting: Setting
    producer: Account
    consumer: Account

    @property
    def records_per_s(self) -> float:
        """Records that arrived per second, on the consumer's clock."""
        return self.consumer.records / self.consumer.time.wall

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds of both processes for transferring all records."""
        return self.producer.time.cpu + self.consumer.time.cpu

    @property
    def idle_bytes(self) -> int:
        """Growth of both processes when the channels were opened."""
        return sum(
            account.idle.resident_bytes - account.before.resident_bytes
            for account in (self.producer, self.consumer)
        )

    @property
    def machinery(self) -> dict[str, list[int]]:
        """Tasks, timers and sockets of both processes together, at three moments.

        The moments are: before there were channels, idle, and while they carried records.
        """
        accounts = (self.producer, self.consumer)
        moments = [
            [getattr(account, moment).machinery for account in accounts]
            for moment in ("before", "idle", "carrying")
        ]
        return {
            kind: [sum(machinery[index] for machinery in moment) for moment in moments]
            for index, kind in enumerate(MACHINERY)
        }

    @property
    def verified(self) -> bool:
        """Whether every record arrived in order in its channel, without machinery per channel."""
        everything = self.setting.records
        return (
            self.consumer.in_order
            and self.producer.records == self.consumer.records == everything
            and all(max(counts) <= counts[0] + MACHINERY_MAX for counts in self.machinery.values())
        )


def measure(name: str, setting: Setting, pinning: Pinning) -> Outcome:
    """Run once. Raises BenchError if a process fails or does not answer."""
    parts = (
        Part(f"{name}: the producer", partial(produce, setting), pinning.producer),
        Part(f"{name}: the consumer", partial(consume, setting), pinning.consumer),
    )
    with open_sides(*parts) as sides:
        producer, consumer = sides
        consumer.tell(answers([producer])[0])
        answers([consumer])
        producer.tell(None)
        answers([producer])
        consumer.tell(None)
        answers([consumer])
        producer.tell(None)
        answers([producer])
        for side in sides:
            side.tell(None)
        accounts = answers(sides, CARRY_S_MAX)
        answers(sides)
    return Outcome(setting, *accounts)
