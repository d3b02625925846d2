"""Restore points, and whether a job can continue from one.

A job that is submitted with a checkpoint of another job must have a place for all of it. The state
of each operator (by uid) must fit, unless the client allows state to be left behind. The number of
key groups must be the same. If some subtasks of an operator had finished with output left to
commit, the parallelism must be the same too: at another one no subtask counts as finished, and its
work would be repeated. Flink: Checkpoints.loadAndValidateCheckpoint, VertexFinishedStateChecker.
"""

from __future__ import annotations

from typing import NamedTuple

from flinknet.checkpoint.metadata import CheckpointMetadata, OperatorState
from flinknet.checkpoint.reader import CheckpointReader
from flinknet.cluster.control.submission import RestoreSettings
from flinknet.cluster.coordinator.jobs.job_execution import SubtaskKey
from flinknet.config import CheckpointingConfig
from flinknet.errors import StateError
from flinknet.graph.graph import JobGraph, JobVertex

__all__ = ["RestorePoint", "find_restore_point", "finished_subtasks"]


class RestorePoint(NamedTuple):
    """The point from which an attempt continues."""

    directory: str = ""
    """Name of one of the job's own checkpoints, or full path of another checkpoint; empty for the
    start."""
    finished: frozenset[SubtaskKey] = frozenset()
    """Subtasks that had finished in it."""


async def find_restore_point(
    shape: JobGraph, settings: RestoreSettings, config: CheckpointingConfig
) -> RestorePoint:
    """Read every file of the checkpoint with which a job was submitted.

    Raises CheckpointError, with the file's name, if it is missing or damaged, and StateError if the
    job cannot continue from it.
    """
    reader = await CheckpointReader.open(settings.path, config)
    for error in await reader.verify():
        raise error
    _check(shape, reader.metadata, reader.place, settings.allow_non_restored_state)
    return RestorePoint(reader.place, finished_subtasks(shape, reader.metadata))


def finished_subtasks(shape: JobGraph, metadata: CheckpointMetadata) -> frozenset[SubtaskKey]:
    """Return the subtasks of the job that had finished in a checkpoint from which it can continue.

    Subtasks with state left are not included. Their state is output to commit, which a subtask does
    when it is restored.
    """
    operators = {operator.uid: operator for operator in metadata.operators}
    finished: set[SubtaskKey] = set()
    for vertex in shape.vertices:
        chain = [operators[one.uid] for one in vertex.operators if one.uid in operators]
        ended = {index for one in chain for index in one.finished_at(vertex.parallelism)}
        left = {index for one in chain for index in _with_state(one, vertex.parallelism)}
        finished.update((vertex.id, index) for index in ended - left)
    return frozenset(finished)


def _with_state(operator: OperatorState, parallelism: int) -> set[int]:
    """Return the subtasks that have state left; at another parallelism any subtask may get it."""
    left = {subtask.subtask_index for subtask in operator.subtasks if subtask.has_own_state}
    return set(range(parallelism)) if left and operator.parallelism != parallelism else left


def _check(shape: JobGraph, metadata: CheckpointMetadata, location: str, allow: bool) -> None:
    vertices: dict[str, JobVertex] = {
        operator.uid: vertex for vertex in shape.vertices for operator in vertex.operators
    }
    left_behind = [
        operator.uid
        for operator in metadata.operators
        if operator.uid not in vertices and any(subtask.parts for subtask in operator.subtasks)
    ]
    if left_behind and not allow:
        raise StateError(
            f'{location} has state of operators that job "{shape.name}" does not have: '
            f"{', '.join(left_behind)}; give its operators the same uids, or allow that this state "
            "is left behind (--allow-non-restored-state)"
        )
    for operator in metadata.operators:
        vertex = vertices.get(operator.uid)
        if vertex is not None:
            _check_operator(vertex, operator, location)


def _check_operator(vertex: JobVertex, operator: OperatorState, location: str) -> None:
    if operator.max_parallelism != vertex.max_parallelism:
        raise StateError(
            f"{location} has {operator.max_parallelism} key groups of operator {operator.uid}, and "
            f'"{vertex.name}" has {vertex.max_parallelism}: set_max_parallelism('
            f"{operator.max_parallelism}), which cannot change"
        )
    finished = [subtask for subtask in operator.subtasks if subtask.finished]
    some = any(subtask.has_own_state for subtask in finished)
    if some and len(finished) < operator.parallelism != vertex.parallelism:
        raise StateError(
            f"{len(finished)} of the {operator.parallelism} subtasks of operator {operator.uid} "
            f"had finished in {location}, with something left to commit: "
            f'"{vertex.name}" must have that parallelism, not {vertex.parallelism}'
        )
