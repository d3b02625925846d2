"""Upload of the results of an attempt's subtasks to the coordinator.

Theory of operation. Thousands of subtasks may end in the same second, and a request costs more than
a result. Only one request is in flight at a time. The next request takes all results that have
arrived meanwhile, up to ``BATCH_BYTES_MAX``. A single result goes at once. A subtask has finished
when the coordinator has accepted its result.

A failed request fails the subtasks of the results that it carries, and no others.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from flinknet.checkpoint.pending_checkpoint import SubtaskId
from flinknet.errors import JobError

__all__ = ["BATCH_BYTES_MAX", "ResultUploads"]

BATCH_BYTES_MAX = 512 * 1024
"""Size of the results in one request, unless the first one alone is larger.

The coordinator accepts a body of 1 MiB more than the largest result. A small batch that is late
delays few other results.
"""


class _Uploads(Protocol):
    async def upload_results(
        self, job_id: str, attempt: int, worker_id: str, results: dict[SubtaskId, bytes]
    ) -> dict[SubtaskId, str]: ...


class ResultUploads:
    """Uploads the results of one attempt."""

    def __init__(self, link: _Uploads, job_id: str, attempt: int, worker_id: str) -> None:
        self._link = link
        self._place = job_id, attempt, worker_id
        self._waiting: dict[SubtaskId, tuple[bytes, asyncio.Future[None]]] = {}
        """Results that wait for a request, with the futures of their uploads."""
        self._group: asyncio.TaskGroup
        self._is_uploading = False

    def begin(self, group: asyncio.TaskGroup) -> None:
        """Make the requests in tasks of ``group``, in which the subtasks run."""
        self._group = group

    async def hand_in(self, subtask: SubtaskId, body: bytes) -> None:
        """Upload the result of a subtask, and return when the coordinator has accepted it.

        Raises JobError if the coordinator refuses the result, and LocalTransportError if the
        request fails.
        """
        taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[subtask] = body, taken
        if not self._is_uploading:
            self._is_uploading = True
            self._group.create_task(self._upload())
        try:
            await taken
        finally:
            self._waiting.pop(subtask, None)

    async def _upload(self) -> None:
        try:
            while batch := self._next_batch():
                await self._upload_batch(batch)
        finally:
            self._is_uploading = False

    def _next_batch(self) -> dict[SubtaskId, tuple[bytes, asyncio.Future[None]]]:
        batch: dict[SubtaskId, tuple[bytes, asyncio.Future[None]]] = {}
        size = 0
        for subtask, (body, taken) in self._waiting.items():
            size += len(body)
            if batch and size > BATCH_BYTES_MAX:
                break
            batch[subtask] = body, taken
        for subtask in batch:
            del self._waiting[subtask]
        return batch

    async def _upload_batch(
        self, batch: dict[SubtaskId, tuple[bytes, asyncio.Future[None]]]
    ) -> None:
        bodies = {subtask: body for subtask, (body, _) in batch.items()}
        failure: Exception | None = None
        refused: dict[SubtaskId, str] = {}
        try:
            refused = await self._link.upload_results(*self._place, bodies)
        except Exception as error:
            failure = error
        for subtask, (_, taken) in batch.items():
            if taken.done():  # the subtask was cancelled meanwhile
                continue
            if failure is not None:
                taken.set_exception(failure)
            elif subtask in refused:
                taken.set_exception(JobError(refused[subtask]))
            else:
                taken.set_result(None)
