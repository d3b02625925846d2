"""Jobs with possible readings, built from how each task spent its time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flinknet.diagnosis.pool_usage import PoolUsage
from flinknet.diagnosis.reading import Readings, TaskReading, WorkerReading
from flinknet.diagnosis.topology import Exchange, TaskKey, Topology, Vertex
from flinknet.metrics.garbage_totals import GarbageTotals, GenerationTotals, SubtaskGarbage
from flinknet.metrics.worker_statistics import HeldUp, KeyGroupCount
from tests.unit.metrics.samples import channel, connection, gate, partition, pool, subtask, times

__all__ = ["Job", "pipeline"]

SECONDS = 10.0


def pipeline(*parallelism: int, names: str = "HASH", pointwise: bool = False) -> Topology:
    """Return a topology of Source, Map 1, Map 2, ... and Sink, with these numbers of subtasks."""
    last = len(parallelism) - 1
    vertices = [
        Vertex(
            number,
            "Source" if number == 0 else "Sink" if number == last else f"Map {number}",
            subtasks,
            f"{number:032x}",
        )
        for number, subtasks in enumerate(parallelism)
    ]
    exchanges = [
        Exchange(
            number,
            number + 1,
            names,
            tuple(
                range(producer, producer + 1) if pointwise else range(parallelism[number + 1])
                for producer in range(parallelism[number])
            ),
        )
        for number in range(last)
    ]
    return Topology(vertices, exchanges)


class Job:
    """A builder of readings; a task is idle for the time that is not given."""

    def __init__(self, topology: Topology, refresh_s: float = 1.0) -> None:
        self.topology = topology
        self.refresh_s = refresh_s
        self._tasks: dict[TaskKey, TaskReading] = {}
        self._workers: dict[str, WorkerReading] = {}

    def task(
        self,
        vertex: int,
        index: int = 0,
        *,
        busy: float = 0.0,
        waits: float = 0.0,
        queues: Mapping[int, float] | None = None,
        records: tuple[int, int] = (1000, 1000),
        worker: str = "worker-0",
        key_groups: Mapping[int, int] | None = None,
        starved: bool = False,
        credit: int = 4,
        backlog: int = 0,
        held: int = 0,
        seconds: float = SECONDS,
    ) -> Job:
        """Add a task.

        ``busy`` and ``waits`` are shares of its time. ``queues`` gives the number of buffers in
        each subpartition of its one partition.
        """
        channels = [
            channel(
                0,
                backlog=backlog,
                exclusive_total=credit,
                exclusive_free=credit,
                unannounced_credit=held,
                held_credit=held,
                is_short=backlog > credit - held,
            )
        ]
        own_pool = pool("its partition", size=8)
        if starved:
            own_pool = own_pool._replace(size=3)
        totals = partition({})._replace(pool=own_pool)
        counts = (key_groups or {}).items()
        latest = subtask(
            index,
            vertex=vertex,
            times=times(is_backpressured=waits > 0.5),
            gates=(gate(*channels),) if vertex else (),
            partitions=(totals,),
            key_groups=tuple(KeyGroupCount(*count) for count in counts),
        )
        self._tasks[vertex, index] = TaskReading(
            worker_id=worker,
            idle_s=seconds * (1 - busy - waits),
            busy_s=seconds * busy,
            backpressured_s=seconds * waits,
            records_in=records[0],
            records_out=records[1],
            bytes_in=10 * records[0],
            bytes_out=10 * records[1],
            queues={(0, place): held for place, held in (queues or {}).items()},
            usage=PoolUsage.of(latest)._replace(backpressured=waits),
            latest=latest,
        )
        self.worker(worker) if worker not in self._workers else None
        return self

    def worker(self, worker_id: str, **fields: Any) -> Job:
        """Add a worker that is healthy except for the given fields."""
        number = int(worker_id[-1])
        peers = [f"127.0.0.1:{other}" for other in range(3) if other != number]
        self._workers[worker_id] = WorkerReading(
            **{
                "worker_id": worker_id,
                "address": f"127.0.0.1:{number}",
                "silent_s": 0.0,
                "held_up": (),
                "segments_free": 10,
                "segments": 100,
                "connections": tuple(connection(peer, 5) for peer in peers),
                **fields,
            }
        )
        return self

    def collecting(self, worker_id: str, share: float, subtask: str = "") -> Job:
        """Let its garbage collector run for a share of the time."""
        seconds = SECONDS * share
        generations = (GenerationTotals(0, 9, 0.0, 90), GenerationTotals(2, 3, seconds, 4_000))
        begun = (SubtaskGarbage(subtask, seconds),)
        return self.worker(worker_id, garbage=GarbageTotals(generations, begun))

    def held_up(self, worker_id: str, task: str, share: float, stack: str = "") -> Job:
        """Let its loop stand still for a share of the time."""
        return self.worker(worker_id, held_up=(HeldUp(task, SECONDS * share, stack),))

    def readings(self) -> Readings:
        return Readings(self._tasks, self._workers, self.refresh_s)
