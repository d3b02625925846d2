"""Jobs in the dispatcher's books, whose workers the test plays."""

from __future__ import annotations

from typing import Any

from flinknet.cluster.control.messages import Message, Opened, Register, Released
from flinknet.cluster.control.submission import Submission
from flinknet.cluster.control.wall_clock import WallClock
from flinknet.cluster.coordinator.jobs.dispatcher import Dispatcher
from flinknet.cluster.coordinator.jobs.job_record import JobRecord
from flinknet.config import ClusterConfig
from flinknet.metrics.io_metrics import IO_METRICS
from tests.unit.cluster.graphs import keyed_graph

__all__ = ["EPOCH_S", "ms", "open_all", "release", "result", "submitted"]

EPOCH_S = 1000.0
"""What the clock on the wall shows when the dispatcher's shows 0."""


def ms(at: float) -> int:
    """A time of the dispatcher's as everybody is told it."""
    return round((EPOCH_S + at) * 1000)


def submitted(now: float = 1.0) -> tuple[Dispatcher, JobRecord]:
    """A worker with four slots, and a job on it: one source, two subtasks that sum up."""

    def send(worker_id: str, message: Message) -> None:
        """Nobody listens."""

    dispatcher = Dispatcher(ClusterConfig(), now=0.0, send=send, wall=WallClock(EPOCH_S))
    dispatcher.register(Register("worker-0", 1, "127.0.0.1:1000", 4), 0.5)
    return dispatcher, dispatcher.submit(Submission.of_graph(keyed_graph()), now)


def open_all(dispatcher: Dispatcher, record: JobRecord, now: float) -> None:
    """All subtasks run."""
    dispatcher.receive("worker-0", Opened(record.job_id, record.present.number), now)


def release(dispatcher: Dispatcher, record: JobRecord, now: float) -> None:
    """The worker holds nothing of the job any more."""
    dispatcher.receive("worker-0", Released(record.job_id, record.present.number), now)


def result(first: int = 1) -> dict[str, Any]:
    """What a finished subtask uploads."""
    counters = dict(zip(IO_METRICS, range(first, first + len(IO_METRICS)), strict=True))
    return {
        **counters,
        "metrics": {},
        "collected": b"",
        "committables": b"",
        "checkpoint_taken": 0,
    }
