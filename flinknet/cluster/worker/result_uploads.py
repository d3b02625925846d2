"""The results of an attempt's subtasks on their way to the coordinator.

Theory of operation. Thousands of subtasks may end in the same second, and a request costs more than
a result. So one request is under way at a time, and the next one takes all results that have come
meanwhile, up to ``BATCH_BYTES_MAX``. A result that comes alone goes at once. A subtask has finished
when the coordinator has taken its result.

A request that fails fails the subtasks whose results are in it, and no other.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from flinknet.checkpoint.pending_checkpoint import SubtaskId
from flinknet.errors import JobError

__all__ = ["BATCH_BYTES_MAX", "ResultUploads"]

BATCH_BYTES_MAX = 512 * 1024
"""Size of the results that go together, unless the first one alone is larger. The coordinator takes
a body of 1 MiB more than the largest result, and a small batch that is late holds up few others."""


class _Uploads(Protocol):
    async def upload_results(
        self, job_id: str, attempt: int, worker_id: str, results: dict[SubtaskId, bytes]
    ) -> dict[SubtaskId, str]: ...


class ResultUploads:
    """The results of one attempt. ``begin`` in the task group in which its subtasks run."""

    def __init__(self, link: _Uploads, job_id: str, attempt: int, worker_id: str) -> None:
        self._link = link
        self._place = job_id, attempt, worker_id
        self._waiting: dict[SubtaskId, tuple[bytes, asyncio.Future[None]]] = {}
        self._group: asyncio.TaskGroup
        self._is_uploading = False

    def begin(self, group: asyncio.TaskGroup) -> None:
        """Make the requests in tasks of this group, which end when no result waits."""
        self._group = group

    async def hand_in(self, subtask: SubtaskId, body: bytes) -> None:
        """Return when the coordinator has taken the result of a subtask.

        Raises JobError if the coordinator refuses it, LocalTransportError if the request fails.
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
