"""Commands to a coordinator that runs in the test's own event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from flinknet.cli.main import main
from flinknet.cluster.control.credentials import TOKEN_VARIABLE
from flinknet.cluster.control.submission import Submission
from flinknet.cluster.coordinator.jobs.job_record import JobRecord
from flinknet.metrics.worker_statistics import SubtaskTotals
from tests.unit.cluster.control_plane import ServedCoordinator
from tests.unit.cluster.graphs import endless_graph
from tests.unit.cluster.running_cluster import Cluster

__all__ = ["Terminal", "run_endless_job"]


class Terminal:
    """A terminal for commands to one coordinator; wide enough for all columns."""

    def __init__(
        self,
        served: ServedCoordinator,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        self.token = served.token
        monkeypatch.setenv("COLUMNS", "200")
        self._environment = monkeypatch
        self._coordinator = f"--coordinator={served.address}"
        self._capsys = capsys

    async def type(self, *arguments: str) -> tuple[object, str, str]:
        """Run a command; return its exit status, standard output and standard error."""
        self._environment.setenv(TOKEN_VARIABLE, self.token)
        status = await asyncio.to_thread(self._run, arguments)
        return status, *self._capsys.readouterr()

    async def print(self, *arguments: str) -> str:
        """Run a command that must succeed; return its standard output."""
        status, printed, error = await self.type(*arguments)
        assert status == 0, error
        return printed

    def _run(self, arguments: tuple[str, ...]) -> object:
        with pytest.raises(SystemExit) as ended:
            main([*arguments, self._coordinator])
        return ended.value.code


async def run_endless_job(cluster: Cluster) -> JobRecord:
    """Run a job until every worker has reported that its sources have emitted records."""
    coordinator = cluster.served.coordinator
    record = coordinator.submit(Submission.of_graph(endless_graph()))
    while not record.checkpoints.is_running:
        await asyncio.sleep(0)
    for worker in record.execution.workers:
        while not _sources_have_moved(coordinator.metrics.of_job(record.job_id).get(worker, ())):
            await coordinator.metrics.fetch(worker, channels_max=0, timeout_s=60.0)
    return record


def _sources_have_moved(subtasks: Sequence[SubtaskTotals]) -> bool:
    moved = [one.io_metrics.records_out for one in subtasks if not one.gates]
    return bool(moved) and min(moved) > 0
