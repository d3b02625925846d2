"""Decides when a job must be persisted for the coordinator that succeeds this one.

A job is persisted when its phase has changed (``JobRecord.phase``), before anything depends on the
new phase. Failures that the shutdown of this coordinator causes are not persisted.

Flink: JobGraphStore, JobResultStore.
"""

from __future__ import annotations

from typing import Protocol

from flinknet.cluster.coordinator.jobs.job_record import JobRecord

__all__ = ["JobPersistence", "Repository"]


class Repository(Protocol):
    """Persistent storage of jobs, for the coordinator that succeeds this one."""

    def save(self, record: JobRecord) -> str | None:
        """Persist the state of a job; return the reason for a failure, or None."""

    def forget(self, job_id: str) -> None:
        """Drop a job that clients no longer ask for."""


class JobPersistence:
    """The phases of all jobs that the repository knows."""

    def __init__(self, repository: Repository | None) -> None:
        """Without a ``repository``, for a coordinator without a successor, persist nothing."""
        self._repository = repository
        self._phases: dict[str, tuple[object, ...]] = {}
        """The phase of each job that was persisted last."""
        self.is_closed = False
        """Whether this coordinator ends, so that later failures are not those of the jobs."""

    def close(self) -> None:
        """Persist nothing more."""
        self.is_closed = True

    def note_saved(self, record: JobRecord) -> None:
        """Note that the repository has the present phase of a job already."""
        self._phases[record.job_id] = record.phase

    def save(self, record: JobRecord) -> str | None:
        """Persist a job if a successor needs its new state; return the reason for a failure."""
        phase = record.phase
        if self.is_closed or self._phases.get(record.job_id) == phase:
            return None
        self._phases[record.job_id] = phase
        return None if self._repository is None else self._repository.save(record)

    def forget(self, job_id: str) -> None:
        """Drop a job that clients no longer ask for."""
        self._phases.pop(job_id, None)
        if self._repository is not None:
            self._repository.forget(job_id)
