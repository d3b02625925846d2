"""Subtasks with checkpoints, and the answers to them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from pathlib import Path

from flinknet.checkpoint.failure_reason import CheckpointFailureReason
from flinknet.checkpoint.file_storage import FileStorage
from flinknet.checkpoint.metadata import CheckpointMetadata, OperatorState, SubtaskState
from flinknet.checkpoint.pending_checkpoint import SubtaskId, SubtaskReport
from flinknet.checkpoint.state_handle import decode_handle
from flinknet.checkpoint.store import CheckpointStore
from flinknet.config import CheckpointingConfig
from flinknet.graph.deployment import WorkerOffer, plan_deployment
from flinknet.graph.exchanges import exchanges_of
from flinknet.graph.graph import JobGraph
from flinknet.net.network_environment import NetworkEnvironment
from flinknet.runtime.restored_state import RestoredState
from flinknet.runtime.subtask import Subtask
from flinknet.runtime.subtask_checkpoints import SubtaskCheckpoints
from flinknet.wire.events import CheckpointBarrier, CheckpointKind


def store_in(directory: Path) -> CheckpointStore:
    config = CheckpointingConfig()
    return CheckpointStore(FileStorage(directory, config), "job", config)


class Answers:
    """Records the answers of subtasks to the coordinator."""

    def __init__(self) -> None:
        self.reports: dict[SubtaskId, SubtaskReport] = {}
        self.declines: list[tuple[int, SubtaskId, CheckpointFailureReason, str]] = []
        self.awaiting: dict[SubtaskId, int] = {}
        self._more = asyncio.Event()

    async def acknowledge(
        self, checkpoint_id: int, subtask: SubtaskId, report: SubtaskReport
    ) -> None:
        self.reports[subtask] = report
        self._more.set()

    async def decline(
        self,
        checkpoint_id: int,
        subtask: SubtaskId,
        reason: CheckpointFailureReason,
        explanation: str,
    ) -> None:
        self.declines.append((checkpoint_id, subtask, reason, explanation))
        self._more.set()

    async def await_checkpoint(self, subtask: SubtaskId, taken: int) -> None:
        self.awaiting[subtask] = taken
        self._more.set()

    async def until(self, reports: int = 0, declines: int = 0, awaiting: int = 0) -> None:
        """Return when there are this many answers."""
        while (
            len(self.reports) < reports
            or len(self.declines) < declines
            or len(self.awaiting) < awaiting
        ):
            self._more.clear()
            await self._more.wait()

    def metadata(self, graph: JobGraph, finished: Collection[SubtaskId] = ()) -> CheckpointMetadata:
        """Return the metadata of the checkpoint that all subtasks have written, except those that
        had ``finished``."""
        operators = {
            operator.uid: OperatorState(
                operator.uid,
                vertex.parallelism,
                vertex.max_parallelism,
                tuple(
                    SubtaskState(index, {}, finished=True)
                    for index in range(vertex.parallelism)
                    if (vertex.id, index) in finished
                ),
            )
            for vertex in graph.vertices
            for operator in vertex.operators
        }
        for (_, index), report in sorted(self.reports.items()):
            for uid, parts in decode_handle(report.handle):
                before = operators[uid]
                state = SubtaskState(index, parts, finished=report.finished)
                subtasks = (*before.subtasks, state)
                operators[uid] = before._replace(subtasks=subtasks)
        return CheckpointMetadata(
            *("job", graph.name, 0, 1, CheckpointKind.CHECKPOINT, 1, 2, tuple(operators.values())),
            exchanges=exchanges_of(graph),
        )


def deploy(
    graph: JobGraph,
    workers: list[NetworkEnvironment],
    store: CheckpointStore,
    answers: Answers,
    *,
    attempt: int = 0,
    restored: RestoredState | None = None,
    finished: bool = False,
    some_finished: Collection[SubtaskId] = (),
) -> dict[str, Subtask]:
    """Make the subtasks of a job with checkpoints, not open yet, by name.

    All of them, or some, may have ``finished`` in the restored checkpoint.
    """
    graph = JobGraph.from_bytes(graph.to_bytes())
    by_id = {worker.worker_id: worker for worker in workers}
    offers = [WorkerOffer(worker.worker_id, worker.address, 16) for worker in workers]
    return {
        descriptor.name: Subtask(
            graph,
            descriptor,
            by_id[worker_id],
            checkpoints=SubtaskCheckpoints(
                (descriptor.vertex, descriptor.index), attempt, store, answers
            ),
            restored=restored,
            finished=finished or (descriptor.vertex, descriptor.index) in some_finished,
        )
        for worker_id, descriptors in plan_deployment(graph, "job", attempt, offers).items()
        for descriptor in descriptors
    }


def trigger(subtasks: dict[str, Subtask], barrier: CheckpointBarrier) -> None:
    """Trigger a checkpoint at the sources."""
    for name, subtask in subtasks.items():
        if name.startswith("Source"):
            subtask.trigger_checkpoint(barrier)
