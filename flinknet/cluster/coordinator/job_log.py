"""Logs the restarts and the ends of jobs, each of them once."""

from __future__ import annotations

import logging
from collections import defaultdict

from flinknet.cluster.coordinator.jobs.job_record import JobRecord

__all__ = ["JobLog"]

log = logging.getLogger("flinknet.coordinator")


class JobLog:
    """The log lines about jobs that have not ended."""

    def __init__(self) -> None:
        self._logged: defaultdict[str, set[tuple[int, float]]] = defaultdict(set)
        """Failures already logged, per live job: (attempt, time of failed regions or 0)."""

    def forget(self, job_id: str) -> None:
        """Forget a job that the dispatcher has forgotten."""
        self._logged.pop(job_id, None)

    def end(self, record: JobRecord) -> None:
        """Log the end of a job, and the workers that still hold slots of it."""
        self.forget(record.job_id)
        name, execution = record.submission.name, record.execution
        log.info('job "%s": %s', name, record.state.value)
        for worker_id in execution.holders:
            log.warning(
                'job "%s" has ended, but worker %s has not released its slots', name, worker_id
            )

    def restarts(self, record: JobRecord) -> None:
        """Log each restart of an attempt, or of some of its regions, once."""
        logged = self._logged[record.job_id]
        for attempt in record.attempts:
            for failure in attempt.failures:
                if (attempt.number, failure.at) not in logged:
                    logged.add((attempt.number, failure.at))
                    log.warning(
                        'job "%s": regions %s failed and restart, the others go on: %s',
                        record.submission.name,
                        ", ".join(sorted(failure.regions)),
                        failure.cause.message,
                    )
            if attempt.ended_at is not None and (attempt.number, 0.0) not in logged:
                logged.add((attempt.number, 0.0))
                cause = attempt.execution.cause
                is_drain = cause is not None and cause.is_drain
                log.warning(
                    'job "%s": attempt %d %s, and the job restarts: %s',
                    record.submission.name,
                    attempt.number,
                    "ends" if is_drain else "failed",
                    "" if cause is None else cause.describe(),
                )
