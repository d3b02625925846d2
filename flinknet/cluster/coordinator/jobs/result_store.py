"""Stores the uploaded results of finished subtasks for the coordinator that succeeds this one.

A result is in the store before it is taken, because its worker drops it then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from flinknet.cluster.coordinator.jobs.attempt_record import AttemptRecord
from flinknet.cluster.coordinator.jobs.job_execution import SubtaskKey
from flinknet.cluster.coordinator.jobs.job_record import JobRecord
from flinknet.cluster.coordinator.jobs.job_store import JobStore
from flinknet.errors import CoordinatorSupersededError, JobError

__all__ = ["ResultNotStoredError", "ResultStore"]


class ResultNotStoredError(JobError):
    """A result cannot be stored; the message names the file and the reason."""


class ResultStore:
    """The results of all jobs, in the files of a ``JobStore``."""

    def __init__(self, store: JobStore | None) -> None:
        """Without a ``store``, for a coordinator without a successor, store nothing."""
        self._store = store

    async def keep(
        self, record: JobRecord, attempt: AttemptRecord, results: Mapping[SubtaskKey, bytes]
    ) -> None:
        """Store the uploaded results of finished subtasks, before they are taken.

        A subtask that had finished in an earlier attempt is left out, because the result of that
        attempt counts. Raises ResultNotStoredError if the results cannot be written.
        """
        kept = {
            subtask: body
            for subtask, body in results.items()
            if record.result_before(subtask) is None
        }
        if self._store is None or not kept:
            return
        try:
            await asyncio.to_thread(self._store.write_results, record.job_id, attempt.number, kept)
        except (OSError, CoordinatorSupersededError) as error:
            raise ResultNotStoredError(
                f"the coordinator cannot store the results of subtasks: {_explain(error)}"
            ) from error

    def forget(self, record: JobRecord) -> None:
        """Drop the collected records of a job, after the client has fetched them."""
        record.present.forget_collected()
        if self._store is not None:
            # The files belong to the coordinator that has taken over.
            with suppress(CoordinatorSupersededError):
                self._store.remove_results(record.job_id)


def _explain(error: OSError | CoordinatorSupersededError) -> str:
    if isinstance(error, CoordinatorSupersededError):
        return str(error)
    return (
        f"{error.filename}: {error.strerror}; make it possible to write in the state directory "
        "(cluster.state_directory)"
    )
