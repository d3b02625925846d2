"""What workers have reported of themselves, and how one is asked for more.

Theory of operation (Flink's MetricStore and MetricFetcher). Workers report unasked every
``statistics_interval_ms``; of each the latest report is kept, until it is lost. Who wants to know
more, or now, asks one worker (``inquiries.py``), and the report that bears the number of the
question is the answer. What it says of single channels is for who has asked, and is not kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from flinknet.cluster.control.messages import Message, StatisticsReport, StatisticsRequest
from flinknet.cluster.coordinator.workers.inquiries import Inquiries
from flinknet.diagnosis.history import History
from flinknet.errors import RemoteProtocolError
from flinknet.metrics.worker_statistics import (
    SubtaskTotals,
    WorkerStatistics,
    unpack_statistics,
)

__all__ = ["MetricStore", "Reported"]


class Reported(NamedTuple):
    """A worker's statistics, and when they came, in the coordinator's clock."""

    statistics: WorkerStatistics
    at: float


class MetricStore:
    """The statistics of one coordinator's workers. Used from its event loop only."""

    def __init__(self, send: Callable[[str, Message], None], interval_s: float) -> None:
        """``interval_s`` is the pause between two reports of a worker."""
        self.history = History(interval_s)
        """What they have reported of late."""
        self._latest: dict[str, Reported] = {}
        self._inquiries = Inquiries[WorkerStatistics](send)

    def latest(self) -> dict[str, Reported]:
        """The latest report of each worker, by its id."""
        return dict(self._latest)

    def of_job(self, job_id: str) -> dict[str, tuple[SubtaskTotals, ...]]:
        """The subtasks of a job, by worker id, as last reported."""
        found = {
            worker_id: tuple(one for one in report.statistics.subtasks if one.job_id == job_id)
            for worker_id, report in self._latest.items()
        }
        return {worker_id: subtasks for worker_id, subtasks in found.items() if subtasks}

    def take(self, worker_id: str, report: StatisticsReport, now: float) -> None:
        """A worker reports; RemoteProtocolError if that is no report."""
        try:
            statistics = unpack_statistics(report.statistics)
        except ValueError as error:
            raise RemoteProtocolError(f"malformed statistics of {worker_id}: {error}") from error
        self._latest[worker_id] = Reported(statistics._replace(channels=()), now)
        self.history.take(worker_id, statistics, now)
        self._inquiries.take(worker_id, report.request, statistics)

    async def fetch(
        self, worker_id: str, *, channels_max: int, timeout_s: float
    ) -> WorkerStatistics | None:
        """Ask a worker; None if it is lost before it answers. Raises TimeoutError."""
        return await self._inquiries.ask(
            worker_id, lambda number: StatisticsRequest(number, channels_max), timeout_s
        )

    def forget(self, worker_id: str) -> None:
        """The worker is lost: what it was is no longer, and it answers nobody."""
        self._latest.pop(worker_id, None)
        self.history.forget(worker_id)
        self._inquiries.forget(worker_id)
