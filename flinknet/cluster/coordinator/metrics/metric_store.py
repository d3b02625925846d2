"""The statistics that workers report, and requests for more of them.

Theory of operation (Flink's MetricStore and MetricFetcher). Each worker reports every
``statistics_interval_ms``. The latest report is kept until the worker is lost. A client that needs
more detail, or newer values, queries one worker (``inquiries.py``). The answer is the report that
carries the number of the query. Its details of single channels go to that client only, and are not
kept.
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
    """The statistics of a worker, and their time of arrival in the coordinator's clock."""

    statistics: WorkerStatistics
    at: float


class MetricStore:
    """The statistics of one coordinator's workers. Used from its event loop only."""

    def __init__(self, send: Callable[[str, Message], None], interval_s: float) -> None:
        """``interval_s`` is the time between two reports of a worker."""
        self.history = History(interval_s)
        """The recent reports of all workers."""
        self._latest: dict[str, Reported] = {}
        self._inquiries = Inquiries[WorkerStatistics](send)

    def latest(self) -> dict[str, Reported]:
        """Return the latest report of each worker, by its id."""
        return dict(self._latest)

    def of_job(self, job_id: str) -> dict[str, tuple[SubtaskTotals, ...]]:
        """Return the subtasks of a job, by worker id, as last reported."""
        found = {
            worker_id: tuple(one for one in report.statistics.subtasks if one.job_id == job_id)
            for worker_id, report in self._latest.items()
        }
        return {worker_id: subtasks for worker_id, subtasks in found.items() if subtasks}

    def take(self, worker_id: str, report: StatisticsReport, now: float) -> None:
        """Take a worker's report; raise RemoteProtocolError if it is malformed."""
        try:
            statistics = unpack_statistics(report.statistics)
        except ValueError as error:
            raise RemoteProtocolError(f"malformed statistics of {worker_id}: {error}") from error
        # The channels are only for the client that has asked.
        self._latest[worker_id] = Reported(statistics._replace(channels=()), now)
        self.history.take(worker_id, statistics, now)
        self._inquiries.take(worker_id, report.request, statistics)

    async def fetch(
        self, worker_id: str, *, channels_max: int, timeout_s: float
    ) -> WorkerStatistics | None:
        """Query a worker; return None if it is lost before it answers.

        Raises TimeoutError.
        """
        return await self._inquiries.ask(
            worker_id, lambda number: StatisticsRequest(number, channels_max), timeout_s
        )

    def forget(self, worker_id: str) -> None:
        """Drop the reports of a lost worker, and end the queries to it."""
        self._latest.pop(worker_id, None)
        self.history.forget(worker_id)
        self._inquiries.forget(worker_id)
