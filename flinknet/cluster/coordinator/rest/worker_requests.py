"""Requests of workers to the coordinator, other than control messages, over any transport.

A request is late if its attempt is not the present one of the job. An answer is late if no inquiry
waits for it any more. Regions that were restarted alone belong to the present attempt, under
numbers of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgpack

from flinknet.cluster.control.subtask_result import decode_result, unpack_results
from flinknet.cluster.coordinator.jobs.attempt_record import AttemptRecord
from flinknet.cluster.coordinator.jobs.dispatcher import Dispatcher
from flinknet.cluster.coordinator.jobs.job_execution import SubtaskKey
from flinknet.cluster.coordinator.jobs.job_record import JobRecord
from flinknet.cluster.coordinator.jobs.result_store import ResultStore
from flinknet.cluster.coordinator.workers.inquiries import Inquiries
from flinknet.cluster.coordinator.workers.worker_connection import Workers
from flinknet.errors import JobError
from flinknet.graph.deployment import descriptors_to_fields
from flinknet.texts import printable

__all__ = ["AnsweredRequests", "Attempts", "LateRequestError"]


class LateRequestError(JobError):
    """Error of a request for an attempt or inquiry that does not exist any more."""


class Attempts(Workers, Protocol):
    """The coordinator as these requests use it."""

    dispatcher: Dispatcher
    answers: Inquiries[bytes]
    results: ResultStore

    def take_results(
        self,
        record: JobRecord,
        attempt: AttemptRecord,
        number: int,
        results: Mapping[SubtaskKey, dict[str, Any]],
    ) -> dict[SubtaskKey, str]: ...
    def take_pulse(self, worker_id: str) -> None: ...


class AnsweredRequests:
    """The coordinator's side of ``WorkerRequests``."""

    def __init__(self, coordinator: Attempts) -> None:
        self._coordinator = coordinator

    def check(self, job_id: str, attempt: int) -> None:
        """Raise LateRequestError unless the attempt is the present one of the job."""
        self._named_attempt(job_id, attempt)

    async def deployment(self, job_id: str, attempt: int, worker_id: str) -> bytes:
        record, present = self._named_attempt(job_id, attempt)
        restored = present.restored_for(attempt)
        return _packed(
            {
                "graph": record.submission.graph,
                "subtasks": descriptors_to_fields(present.placement.deployed(worker_id, attempt)),
                "restored_from": restored.directory,
                "restored_finished": [list(subtask) for subtask in restored.finished],
                "checkpoints_as": present.number,
                "passes_printed_on": record.submission.wants_printed,
            }
        )

    async def committables(self, job_id: str, attempt: int) -> bytes:
        record, present = self._named_attempt(job_id, attempt)
        return _packed({"graph": record.submission.graph, "committables": present.prepared()})

    async def take_results(self, job_id: str, attempt: int, worker_id: str, body: bytes) -> bytes:
        record, present = self._named_attempt(job_id, attempt)
        bodies = unpack_results(body)
        results = {subtask: decode_result(body) for subtask, body in bodies.items()}
        # A subtask that was restarted since has another number, and its late result is not kept.
        deployed = {
            subtask: body
            for subtask, body in bodies.items()
            if present.execution.number_of(subtask) == attempt
        }
        if present.ended_at is None:
            await self._coordinator.results.keep(record, present, deployed)
        # The attempt may have ended while the results were written.
        if present.ended_at is not None:
            raise LateRequestError(f"attempt {present.number} of the job has ended")
        refused = self._coordinator.take_results(record, present, attempt, results)
        return _packed([[*subtask, reason] for subtask, reason in refused.items()])

    async def take_answer(self, worker_id: str, request: int, body: bytes) -> None:
        if not self._coordinator.answers.take(worker_id, request, body):
            raise LateRequestError(f"no request waits for answer {request}")

    def _named_attempt(self, job_id: str, attempt: int) -> tuple[JobRecord, AttemptRecord]:
        record = self._coordinator.dispatcher.job(job_id)
        if record is None:
            raise LateRequestError(printable(f"no job {job_id}"))
        if not record.present.has(attempt):
            raise LateRequestError(f"job {record.job_id} is at another attempt")
        return record, record.present


def _packed(value: object) -> bytes:
    packed: bytes = msgpack.packb(value)
    return packed
