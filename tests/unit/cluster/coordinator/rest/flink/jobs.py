"""Jobs of a dispatcher, with workers that the test plays."""

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
"""The wall clock's time when the dispatcher's clock shows 0."""


def ms(at: float) -> int:
    """Convert a time of the dispatcher to milliseconds of the wall clock."""
    return round((EPOCH_S + at) * 1000)


def submitted(now: float = 1.0) -> tuple[Dispatcher, JobRecord]:
    """Return a worker with four slots and a job on it: one source and two summing subtasks."""

    def send(worker_id: str, message: Message) -> None:
        """Do nothing: the test ignores the messages."""

    dispatcher = Dispatcher(ClusterConfig(), now=0.0, send=send, wall=WallClock(EPOCH_S))
    dispatcher.register(Register("worker-0", 1, "127.0.0.1:1000", 4), 0.5)
    return dispatcher, dispatcher.submit(Submission.of_graph(keyed_graph()), now)


def open_all(dispatcher: Dispatcher, record: JobRecord, now: float) -> None:
    """Let all subtasks run."""
    dispatcher.receive("worker-0", Opened(record.job_id, record.present.number), now)


def release(dispatcher: Dispatcher, record: JobRecord, now: float) -> None:
    """Let the worker release everything of the job."""
    dispatcher.receive("worker-0", Released(record.job_id, record.present.number), now)


def result(first: int = 1) -> dict[str, Any]:
    """Return the upload of a finished subtask."""
    counters = dict(zip(IO_METRICS, range(first, first + len(IO_METRICS)), strict=True))
    return {
        **counters,
        "metrics": {},
        "collected": b"",
        "committables": b"",
        "checkpoint_taken": 0,
    }
