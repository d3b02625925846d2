"""A worker's part in one attempt of a job: open, run, report, release.

Theory of operation
-------------------
``live`` is the whole life, run as one task by the worker::

    fetch -> open all subtasks -> Opened -> (Run) -> a task per subtask -> all ended -> Released

Cancelling that task is how an attempt is cancelled, in any of these states. A subtask that fails is
reported and does not cancel its siblings: the coordinator decides what the cause is
(``job_execution.py``), and cancelling a sibling could silence the one that knows. ``Released`` is
always the last word, said when nothing of the attempt runs or holds a buffer here.
"""

from __future__ import annotations

import asyncio
import gc
import os

from flinknet.cluster.control.control_link import ControlLink
from flinknet.cluster.control.failure import FailureCause
from flinknet.cluster.control.messages import Failed, Opened, Progress, Released
from flinknet.cluster.control.subtask_result import encode_result
from flinknet.config import ClusterConfig
from flinknet.net.network_environment import NetworkEnvironment
from flinknet.task.deployment import SubtaskDescriptor
from flinknet.task.graph import JobGraph
from flinknet.task.subtask import Subtask
from flinknet.texts import text_of

__all__ = ["JobAttempt"]


class JobAttempt:
    """The subtasks of one attempt on this worker."""

    def __init__(
        self,
        job_id: str,
        attempt: int,
        *,
        environment: NetworkEnvironment,
        link: ControlLink,
        config: ClusterConfig,
    ) -> None:
        self._job_id = job_id
        self._attempt = attempt
        self._environment = environment
        self._link = link
        self._config = config
        self._subtasks: list[tuple[SubtaskDescriptor, Subtask]] = []
        self._run_requested = asyncio.Event()

    def run(self) -> None:
        """Every worker has opened its subtasks."""
        self._run_requested.set()

    def subtasks(self) -> list[Subtask]:
        """Those that are open or run now."""
        return [subtask for _, subtask in self._subtasks]

    def progress(self) -> Progress | None:
        """The counters of the subtasks, or None before there are any."""
        if not self._subtasks:
            return None
        rows = [
            [descriptor.vertex, descriptor.index, *subtask.io_metrics().row()]
            for descriptor, subtask in self._subtasks
        ]
        return Progress(self._job_id, self._attempt, rows)

    async def live(self) -> None:
        """The whole life of the attempt on this worker; cancel it to cancel the attempt."""
        try:
            await self._open()
            await self._link.send(Opened(self._job_id, self._attempt))
            await self._run_requested.wait()
            async with asyncio.TaskGroup() as group:
                self._start(group)
        except _OpenFailedError as failure:
            await self._report(failure.error, None)
        finally:
            self._forget()
            await self._link.send(Released(self._job_id, self._attempt))

    def _start(self, group: asyncio.TaskGroup) -> None:
        for descriptor, subtask in self._subtasks:
            group.create_task(self._run(descriptor, subtask), name=descriptor.name)

    def _forget(self) -> None:
        """Let go of everything, and collect it: operators and errors refer to each other in
        circles, and the state of several jobs would wait for the collector's own time."""
        for _, subtask in self._subtasks:
            subtask.close()
        self._subtasks.clear()
        gc.collect()

    async def _open(self) -> None:
        try:
            graph_bytes, descriptors = await self._link.fetch_deployment(
                self._job_id, self._attempt, self._environment.worker_id
            )
            graph = JobGraph.from_bytes(graph_bytes)
            for descriptor in descriptors:
                subtask = Subtask(
                    graph,
                    descriptor,
                    self._environment,
                    collect_records_max=self._config.collect_records_max,
                    mailbox_mails_max=self._config.mailbox_mails_max,
                )
                subtask.open()
                self._subtasks.append((descriptor, subtask))
        except Exception as error:
            raise _OpenFailedError(error) from error

    async def _run(self, descriptor: SubtaskDescriptor, subtask: Subtask) -> None:
        try:
            result = await subtask.run()
            body = encode_result(result, self._config.collect_bytes_max)
            await self._link.upload_result(descriptor, body)
        except BaseException as error:
            # User code may raise anything, a stray CancelledError or SystemExit included.
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            await self._report(error, descriptor)

    async def _report(self, error: BaseException, descriptor: SubtaskDescriptor | None) -> None:
        cause = FailureCause.of_exception(
            error,
            worker_id=self._environment.worker_id,
            pid=os.getpid(),
            subtask=None if descriptor is None else descriptor.name,
            text_bytes_max=self._config.failure_text_bytes_max,
        )
        vertex, index = (-1, -1) if descriptor is None else (descriptor.vertex, descriptor.index)
        await self._link.send(Failed(self._job_id, self._attempt, vertex, index, cause.to_dict()))


class _OpenFailedError(Exception):
    """Carries what went wrong before any subtask ran."""

    def __init__(self, error: Exception) -> None:
        super().__init__(text_of(error))
        self.error = error
