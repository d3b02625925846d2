"""States of jobs and subtasks in Flink's terms, and states of vertices derived from them.

Flink has no states for the deployment of a job or the commit of its sinks: both are RUNNING.
"""

from __future__ import annotations

from collections import Counter

from flinknet.cluster.control.job_state import JobState
from flinknet.cluster.control.subtask_state import SubtaskState
from flinknet.cluster.coordinator.jobs.job_record import JobRecord

__all__ = ["EXECUTION_STATES", "aggregate_state", "job_status", "status_times", "task_states"]

EXECUTION_STATES = (
    "CREATED",
    "SCHEDULED",
    "DEPLOYING",
    "RUNNING",
    "FINISHED",
    "CANCELING",
    "CANCELED",
    "FAILED",
    "RECONCILING",
    "INITIALIZING",
)
"""Flink's ExecutionState; counts name all of them."""

_JOB_STATUSES = (
    "INITIALIZING",
    "CREATED",
    "RUNNING",
    "FAILING",
    "FAILED",
    "CANCELLING",
    "CANCELED",
    "FINISHED",
    "RESTARTING",
    "SUSPENDED",
    "RECONCILING",
)
"""Flink's JobStatus."""

_RUNS = (JobState.DEPLOYING, JobState.RUNNING, JobState.FINISHING)
_STOPS = (JobState.FAILING, JobState.CANCELLING)


def job_status(state: JobState) -> str:
    """Return the name of Flink's JobStatus."""
    return "RUNNING" if state in _RUNS else state.value


def status_times(record: JobRecord) -> dict[str, int]:
    """Return when the job entered each JobStatus, in milliseconds since 1970; 0 for never."""
    times = dict.fromkeys(_JOB_STATUSES, 0)
    times["INITIALIZING"] = times["CREATED"] = record.wall_ms(record.submitted_at)
    since = record.state_since
    for state, at in since.items():
        times[job_status(state)] = record.wall_ms(at)
    # A resumed job may never have been deployed by this coordinator.
    began = next((since[state] for state in _RUNS if state in since), None)
    if began is not None:
        times["RUNNING"] = record.wall_ms(began)
    return times


def task_states(record: JobRecord) -> dict[tuple[int, int], str]:
    """Return the ExecutionState of each subtask of the present attempt, by vertex and index."""
    stops = record.execution.state in _STOPS
    return {
        subtask: _task_state(state, stops)
        for subtask, state in record.execution.subtask_states().items()
    }


def _task_state(state: SubtaskState, stops: bool) -> str:
    return "CANCELING" if stops and state.is_pending else state.value


def aggregate_state(counts: Counter[str]) -> str:
    """Return the state of a vertex with subtasks in these states.

    Flink: ExecutionJobVertex.getAggregateJobVertexState.
    """
    for state in ("FAILED", "CANCELING", "CANCELED", "RUNNING"):
        if counts[state]:
            return state
    if counts["FINISHED"]:
        return "FINISHED" if counts["FINISHED"] == counts.total() else "RUNNING"
    return "CREATED"
