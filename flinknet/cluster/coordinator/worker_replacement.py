"""Asks the launcher to replace lost workers, and counts the slots that replacements will bring.

A worker that never registered is replaced only if a job waits to be restarted: its replacement
might fail to start as well, again and again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from flinknet.cluster.coordinator.jobs.dispatcher import Dispatcher
from flinknet.config import ClusterConfig

__all__ = ["WorkerReplacement"]


class WorkerReplacement:
    """The lost workers, as the launcher is asked to replace them."""

    def __init__(
        self, config: ClusterConfig, dispatcher: Dispatcher, want_worker: Callable[[str], None]
    ) -> None:
        """``want_worker`` is called once with the id of each lost worker to be replaced."""
        self._config = config
        self._dispatcher = dispatcher
        self._want_worker = want_worker
        self._wanted: set[str] = set()
        """Lost workers that the launcher was asked to replace."""
        self._never_came: deque[str] = deque(maxlen=config.lost_workers_remembered)
        """Ids of workers that ended before they registered."""
        self._expected_by = 0.0

    @property
    def expected_by(self) -> float | None:
        """Time by which the last replacement should have registered; None if none is expected."""
        return self._expected_by or None

    def worker_exited(self, worker_id: str) -> None:
        """Note that a worker's process has ended."""
        if self._dispatcher.workers.get(worker_id) is None:
            self._never_came.append(worker_id)

    def slots_coming(self, now: float) -> int:
        """Return the number of slots of replacement workers that have yet to register."""
        if now >= self._expected_by:
            self._expected_by = 0.0
            return 0
        missing = self._config.workers - len(self._dispatcher.workers.registered())
        return max(0, missing) * self._config.slots_per_worker

    def request(self, now: float) -> None:
        """Ask the launcher once to replace each lost worker."""
        workers = self._dispatcher.workers.workers()
        lost = [worker.worker_id for worker in workers if worker.is_lost]
        waits = self._dispatcher.starts.waits_to_restart
        for worker_id in [*self._never_came, *lost] if waits else lost:
            if worker_id not in self._wanted:
                self._wanted.add(worker_id)
                self._expected_by = now + self._config.start_timeout_ms / 1000
                self._want_worker(worker_id)
        self._wanted &= {*self._never_came, *lost}
