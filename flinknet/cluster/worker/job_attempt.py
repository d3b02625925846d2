"""A worker's part in one attempt of a job: open, run, report, release.

Theory of operation
-------------------
The worker runs ``live`` as one task, which lasts from deployment to release::

    OPENING  OPEN -> OPENED, RELEASE -> RELEASED
    OPENED   RUN -> RUNNING, RELEASE -> RELEASED
    RUNNING  RELEASE -> RELEASED

- OPENING: fetch the deployment and open all its subtasks, then send ``Opened``.
- OPENED: wait until the coordinator sends ``Run``.
- RUNNING: run each subtask in its own task until all have ended.

Cancelling the task of ``live`` cancels the attempt, in any of these states. A failed subtask is
reported and does not cancel its siblings: the coordinator determines the cause
(``job_execution.py``), and cancelling a sibling could suppress its report of that cause.

``Released`` is always the last message. It is sent when the attempt runs nothing and holds no
buffer on this worker. It is sent early for subtasks that were cancelled alone, because the subtasks
with which they exchange records restart, while the rest of the attempt goes on.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from enum import Enum

from flinknet import machine
from flinknet.checkpoint.failure_reason import CheckpointFailureReason
from flinknet.checkpoint.location import open_storage
from flinknet.checkpoint.metadata import CheckpointDirectory, Label, StatePart
from flinknet.checkpoint.pending_checkpoint import SubtaskId, SubtaskReport
from flinknet.checkpoint.reader import CheckpointReader
from flinknet.checkpoint.store import CheckpointStore
from flinknet.cluster.control.control_link import ControlLink, Deployment
from flinknet.cluster.control.failure import FailureCause
from flinknet.cluster.control.job_files import FilesInUse, JobFile, unpack_job
from flinknet.cluster.control.messages import (
    AbortCheckpoint,
    AcknowledgeCheckpoint,
    AwaitCheckpoint,
    CompleteCheckpoint,
    DeclineCheckpoint,
    Failed,
    Opened,
    Printed,
    Progress,
    Released,
    TriggerCheckpoint,
)
from flinknet.cluster.control.printed_lines import PRINTING, PrintedLines, missed
from flinknet.cluster.control.subtask_result import encode_result
from flinknet.cluster.worker.result_uploads import ResultUploads
from flinknet.cluster.worker.state_backends import AttemptBackends, StateBackends
from flinknet.cluster.worker.user_exits import SubtaskTask
from flinknet.config import CheckpointingConfig, ClusterConfig, MetricsConfig, StateConfig
from flinknet.config.job_checkpointing import JobCheckpointingConfig
from flinknet.environment.cancellation import is_cancelled
from flinknet.errors import RemoteProtocolError
from flinknet.functions.archives import ARCHIVES
from flinknet.graph.deployment import SubtaskDescriptor
from flinknet.graph.graph import JobGraph
from flinknet.graph.warning_filters import take_filters
from flinknet.net.network_environment import NetworkEnvironment
from flinknet.runtime.restored_state import RestoredState
from flinknet.runtime.subtask import Subtask
from flinknet.runtime.subtask_checkpoints import SubtaskCheckpoints
from flinknet.texts import text_of
from flinknet.transitions import Transitions
from flinknet.wire.events import Alignment, CheckpointBarrier, CheckpointKind, CheckpointOptions

__all__ = [
    "TRANSITIONS",
    "AttemptEvent",
    "AttemptState",
    "CheckpointLocations",
    "CheckpointMessages",
    "JobAttempt",
]


class CheckpointLocations:
    """The stores to which the subtasks of one attempt on this worker write their parts.

    Checkpoints go to the job's store, each savepoint to its own. The coordinator tells every worker
    the store of a savepoint and triggers the barriers at the same moment. A barrier may therefore
    arrive before that message, and a part then waits for it. The store of a savepoint is forgotten
    when the savepoint ends. Use the object on one event loop only.
    """

    def __init__(self, own: CheckpointStore | None, config: CheckpointingConfig) -> None:
        """Initialize with the store of the job's checkpoints; None if the job takes none."""
        self.config = config
        self._own = own
        self._places: dict[int, asyncio.Future[CheckpointStore]] = {}

    def announce(self, checkpoint_id: int, store: CheckpointStore) -> None:
        """Set the store of a savepoint."""
        place = self._place(checkpoint_id)
        if not place.done():
            place.set_result(store)

    def forget(self, checkpoint_id: int) -> None:
        """Forget a checkpoint that has ended; unknown checkpoints are ignored."""
        place = self._places.pop(checkpoint_id, None)
        if place is not None:
            place.cancel()

    async def write_part(
        self, directory: CheckpointDirectory, name: str, blocks: Iterable[tuple[Label, bytes]]
    ) -> StatePart | None:
        """Write a part to the store of its checkpoint; see ``CheckpointStore.write_part``."""
        store = self._own
        if directory.is_savepoint:
            # Shielded: several parts wait for the same message, and each may be cancelled.
            store = await asyncio.shield(self._place(directory.checkpoint_id))
        assert store is not None, "a job without checkpoints has savepoints only"
        return await store.write_part(directory, name, blocks)

    def _place(self, checkpoint_id: int) -> asyncio.Future[CheckpointStore]:
        place = self._places.get(checkpoint_id)
        if place is None:
            place = self._places[checkpoint_id] = asyncio.get_running_loop().create_future()
        return place


class CheckpointMessages:
    """Sends the checkpoint messages of subtasks on the worker's control link."""

    def __init__(self, job_id: str, attempt: int, link: ControlLink) -> None:
        self._job_id = job_id
        self._attempt = attempt
        self._link = link

    async def acknowledge(
        self, checkpoint_id: int, subtask: SubtaskId, report: SubtaskReport
    ) -> None:
        """Report that a subtask has written its state."""
        handle, *metrics = report
        await self._link.send(
            AcknowledgeCheckpoint(
                self._job_id, self._attempt, checkpoint_id, *subtask, handle, metrics
            )
        )

    async def decline(
        self,
        checkpoint_id: int,
        subtask: SubtaskId,
        reason: CheckpointFailureReason,
        explanation: str,
    ) -> None:
        """Report that a subtask could not take part in a checkpoint."""
        await self._link.send(
            DeclineCheckpoint(
                self._job_id, self._attempt, checkpoint_id, *subtask, reason.name, explanation
            )
        )

    async def await_checkpoint(self, subtask: SubtaskId, taken: int) -> None:
        """Report that a subtask waits for a checkpoint after ``taken``, and for nothing else."""
        await self._link.send(AwaitCheckpoint(self._job_id, self._attempt, *subtask, taken))


class AttemptEvent(Enum):
    """An event in the life of an attempt."""

    OPEN = "all its subtasks are open"
    RUN = "all workers have opened theirs"
    RELEASE = "its subtasks and buffers are gone"


class AttemptState(Enum):
    """The states of an attempt on this worker."""

    OPENING = "its subtasks are being opened"
    OPENED = "its subtasks are open"
    RUNNING = "its subtasks run"
    RELEASED = "its subtasks and buffers are gone"


_S, _E = AttemptState, AttemptEvent

TRANSITIONS: Transitions[AttemptState, AttemptEvent] = Transitions(
    {
        (_S.OPENING, _E.OPEN): _S.OPENED,
        (_S.OPENING, _E.RELEASE): _S.RELEASED,
        (_S.OPENED, _E.RUN): _S.RUNNING,
        (_S.OPENED, _E.RELEASE): _S.RELEASED,
        (_S.RUNNING, _E.RELEASE): _S.RELEASED,
    }
)


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
        checkpointing: CheckpointingConfig | None = None,
        collect_garbage: Callable[[], object] = gc.collect,
        state_backends: StateBackends | None = None,
        metrics: MetricsConfig | None = None,
        files_in_use: FilesInUse | None = None,
    ) -> None:
        self._collect_garbage = collect_garbage
        self._job_id = job_id
        self._attempt = attempt
        self._environment = environment
        self._link = link
        self._config = config
        self._checkpointing = checkpointing or CheckpointingConfig()
        self._subtasks: list[tuple[SubtaskDescriptor, Subtask]] = []
        """The subtasks that are open or running."""
        self._run_requested = asyncio.Event()
        self._tasks: dict[SubtaskId, asyncio.Task[None]] = {}
        """The tasks of the running subtasks."""
        self._group: asyncio.TaskGroup | None = None
        """The task group of the subtasks; None unless they run."""
        self._given_up: set[SubtaskId] = set()
        """Subtasks that were cancelled alone, perhaps before they run."""
        self._checkpoints_as = attempt
        """Number of the attempt under which checkpoints are written."""
        self._settings: JobCheckpointingConfig | None = None
        """The job's checkpointing; None if it takes no checkpoints."""
        self._places = CheckpointLocations(None, self._checkpointing)
        self._state_backends = state_backends or StateBackends(StateConfig())
        self._backends: AttemptBackends | None = None
        self._metrics = metrics
        self._messages = CheckpointMessages(job_id, attempt, link)
        self._files_in_use = files_in_use or FilesInUse(config)
        self._files: tuple[JobFile, ...] = ()
        """The files in use by this attempt."""
        self._printed: PrintedLines | None = None
        """Lines printed by the job's functions; None if its client has not asked for them."""
        self._printed_sent = 0
        """Number of these lines that were sent, or dropped before they could be sent."""
        self._uploads = ResultUploads(link, job_id, attempt, environment.worker_id)
        self.state = AttemptState.OPENING

    def run(self) -> None:
        """Let the subtasks run; every worker has opened its own.

        Does nothing if the attempt has been released. Raises RemoteProtocolError if this worker has
        not opened its subtasks yet, or if they run already.
        """
        if self.state is AttemptState.RELEASED:
            return
        if self.state is not AttemptState.OPENED:
            raise RemoteProtocolError(f"the coordinator sent Run, but {self.state.value}")
        self._become(AttemptEvent.RUN)
        self._run_requested.set()

    def cancel(self, subtasks: Iterable[SubtaskId]) -> None:
        """Cancel some subtasks, and send ``Released`` for them when they hold nothing any more.

        The other subtasks go on. If the whole attempt is about to end on this worker, its own
        ``Released`` covers these subtasks.
        """
        places = set(subtasks)
        self._given_up |= places
        if self._group is not None:
            self._give_up(places, self._group)

    def subtasks(self) -> list[Subtask]:
        """Return the subtasks that are open or running."""
        return [subtask for _, subtask in self._subtasks]

    def follow_checkpoint(
        self, message: TriggerCheckpoint | CompleteCheckpoint | AbortCheckpoint
    ) -> None:
        """Carry out the coordinator's message about a checkpoint."""
        match message:
            case TriggerCheckpoint():
                self._trigger_checkpoint(message)
            case CompleteCheckpoint(checkpoint_id=checkpoint_id, commits=commits):
                self._places.forget(checkpoint_id)
                # Sinks do not commit for a savepoint after which the job goes on.
                for _, subtask in self._subtasks if commits else ():
                    subtask.complete_checkpoint(checkpoint_id)
            case AbortCheckpoint(checkpoint_id=checkpoint_id):
                self._places.forget(checkpoint_id)
                for _, subtask in self._subtasks:
                    subtask.abort_checkpoint(checkpoint_id)

    def _trigger_checkpoint(self, message: TriggerCheckpoint) -> None:
        """Trigger a checkpoint in those of the requested subtasks that still run here."""
        options = _options(self._settings, CheckpointKind(message.kind))
        barrier = CheckpointBarrier(message.checkpoint_id, message.timestamp_ms, options)
        if options.kind.is_savepoint:
            self._places.announce(message.checkpoint_id, self._store_at(message.directory))
        asked = {(vertex, index) for vertex, index in message.subtasks}
        for descriptor, subtask in self._subtasks:
            if (descriptor.vertex, descriptor.index) in asked:
                subtask.trigger_checkpoint(barrier)

    def progress(self) -> Progress | None:
        """Return the counters of the subtasks, or None before there are any."""
        if not self._subtasks:
            return None
        rows = [
            [descriptor.vertex, descriptor.index, *subtask.io_metrics().row()]
            for descriptor, subtask in self._subtasks
        ]
        return Progress(self._job_id, self._attempt, rows)

    async def send_printed(self) -> None:
        """Send new lines printed by the job's functions, if its client has asked for them."""
        if self._printed is None:
            return
        sent = self._printed_sent
        start, lines = self._printed.after(sent)
        self._printed_sent = start + len(lines)
        # The buffer of printed lines is limited, so some lines may be missing.
        if start > sent:
            lines.insert(0, missed(start - sent))
        if lines:
            await self._link.send(Printed(self._job_id, lines))

    async def live(self) -> None:
        """Run the attempt on this worker from deployment to release.

        Cancel its task to cancel the attempt.
        """
        try:
            await self._open()
            self._become(AttemptEvent.OPEN)
            await self._link.send(Opened(self._job_id, self._attempt))
            await self._run_requested.wait()
            async with asyncio.TaskGroup() as group:
                self._start(group)
                self._group = group
                self._uploads.begin(group)
        except _OpenFailedError as failure:
            await self._report(failure.error, None)
        finally:
            self._group = None
            self._become(AttemptEvent.RELEASE)
            await self._forget()
            # Released is the last message of the attempt, so the printed lines go before it.
            await self.send_printed()
            await self._link.send(Released(self._job_id, self._attempt))

    def _become(self, event: AttemptEvent) -> None:
        self.state = TRANSITIONS[self.state, event]

    def _start(self, group: asyncio.TaskGroup) -> None:
        for descriptor, subtask in self._subtasks:
            place = descriptor.vertex, descriptor.index
            run = self._run(descriptor, subtask)
            self._tasks[place] = group.create_task(run, name=descriptor.name)
        if self._given_up:
            self._give_up(self._given_up, group)

    def _give_up(self, places: Iterable[SubtaskId], group: asyncio.TaskGroup) -> None:
        tasks = {place: self._tasks[place] for place in sorted(places) if place in self._tasks}
        for task in tasks.values():
            task.cancel()
        group.create_task(self._release(tasks, [list(place) for place in sorted(places)]))

    async def _release(
        self, tasks: Mapping[SubtaskId, asyncio.Task[None]], rows: list[list[int]]
    ) -> None:
        """Close subtasks once they have ended, and send ``Released`` for all requested ones."""
        if tasks:
            await asyncio.wait(tasks.values())
        goes_on = []
        for descriptor, subtask in self._subtasks:
            if (descriptor.vertex, descriptor.index) in tasks:
                subtask.close()
            else:
                goes_on.append((descriptor, subtask))
        self._subtasks = goes_on
        self._collect_garbage()
        await self._link.send(Released(self._job_id, self._attempt, rows))

    async def _forget(self) -> None:
        """Close everything and collect it.

        Operators and errors form reference cycles. Without this collection, the state of several
        jobs would pile up until the collector runs by itself.
        """
        for _, subtask in self._subtasks:
            subtask.close()
        self._subtasks.clear()
        self._tasks.clear()
        if self._backends is not None:
            self._backends.close()
        files, self._files = self._files, ()
        # The release ends even if it is cancelled, because the coordinator waits for Released.
        with suppress(asyncio.CancelledError):
            await self._files_in_use.give_back_in_thread(files)
        self._collect_garbage()

    async def _open(self) -> None:
        try:
            deployment = await self._link.fetch_deployment(
                self._job_id, self._attempt, self._environment.worker_id
            )
            if deployment.passes_printed_on:
                self._printed = PrintedLines(self._config.output_kept_bytes)
                # The tasks of the subtasks inherit this context variable, and ARCHIVES.
                PRINTING.set(self._printed)
            graph = JobGraph.from_bytes(await self._have_files(deployment.graph))
            take_filters(graph.warning_filters)
            store = self._open_store(graph)
            self._places = CheckpointLocations(store, self._checkpointing)
            self._checkpoints_as = deployment.checkpoints_as
            backends = self._backends = self._state_backends.of_attempt(
                self._job_id, self._attempt, graph.state_backend
            )
            restored = await self._restored(store, deployment)
            for descriptor in deployment.subtasks:
                place = descriptor.vertex, descriptor.index
                subtask = Subtask(
                    graph,
                    descriptor,
                    self._environment,
                    collect_records_max=self._config.collect_records_max,
                    mailbox_mails_max=self._config.mailbox_mails_max,
                    checkpoints=self._checkpoints_of(place),
                    restored=restored,
                    finished=place in deployment.restored_finished,
                    state_backends=backends.of_subtask(f"{place[0]}-{place[1]}"),
                    metrics=self._metrics,
                )
                subtask.open()
                self._subtasks.append((descriptor, subtask))
        except BaseException as error:
            # A module of the program that is imported here may also call sys.exit.
            if is_cancelled(error):
                raise
            raise _OpenFailedError(error) from error

    async def _have_files(self, job: bytes) -> bytes:
        """Take the files that come with the job, and return its graph.

        The functions of the graph may be defined in these files.
        """
        files, graph = unpack_job(job)
        if files:
            archives = await self._files_in_use.take_in_thread(files)
            self._files = files
            ARCHIVES.set(archives)
        return graph

    def _checkpoints_of(self, place: SubtaskId) -> SubtaskCheckpoints:
        return SubtaskCheckpoints(place, self._checkpoints_as, self._places, self._messages)

    def _open_store(self, graph: JobGraph) -> CheckpointStore | None:
        if graph.checkpointing is None:
            return None
        self._settings = graph.checkpointing
        return self._store_at(graph.checkpointing.directory or self._checkpointing.directory)

    def _store_at(self, location: str) -> CheckpointStore:
        storage = open_storage(location, self._checkpointing)
        return CheckpointStore(storage, self._job_id, self._checkpointing)

    async def _restored(
        self, store: CheckpointStore | None, deployment: Deployment
    ) -> RestoredState | None:
        if not deployment.restored_from:
            return None
        directory = CheckpointDirectory.parse(deployment.restored_from)
        if directory is None:
            # The restored checkpoint is not one of the job's own, so it may be in another store.
            location = deployment.restored_from
            reader = await CheckpointReader.open(location, self._checkpointing)
            return RestoredState(reader, reader.metadata)
        assert store is not None, "a job without checkpoints has none of its own"
        return RestoredState(store, await store.read_metadata(directory))

    async def _run(self, descriptor: SubtaskDescriptor, subtask: Subtask) -> None:
        try:
            # The subtask has its own task, so that only the job can cancel this one.
            result = await SubtaskTask(subtask.run(), name=descriptor.name)
            body = encode_result(result, self._config.collect_bytes_max)
            await self._uploads.hand_in((descriptor.vertex, descriptor.index), body)
        except BaseException as error:
            # User code may raise anything, including a stray CancelledError or SystemExit.
            if is_cancelled(error):
                raise
            await self._report(error, descriptor)
        finally:
            await subtask.wait_closed()

    async def _report(self, error: BaseException, descriptor: SubtaskDescriptor | None) -> None:
        cause = FailureCause.of_exception(
            error,
            worker_id=self._environment.worker_id,
            pid=machine.process_id(),
            subtask=None if descriptor is None else descriptor.name,
            text_bytes_max=self._config.failure_text_bytes_max,
        )
        # -1 stands for an error before any subtask ran.
        vertex, index = (-1, -1) if descriptor is None else (descriptor.vertex, descriptor.index)
        await self._link.send(Failed(self._job_id, self._attempt, vertex, index, cause.to_dict()))


def _options(settings: JobCheckpointingConfig | None, kind: CheckpointKind) -> CheckpointOptions:
    """Return the barrier options for a checkpoint of this kind."""
    if settings is None:
        return CheckpointOptions(kind)
    if settings.mode == "at_least_once":
        return CheckpointOptions(kind, Alignment.AT_LEAST_ONCE)
    # Savepoints are aligned, so that they contain no in-flight records.
    if not settings.unaligned or kind.is_savepoint:
        return CheckpointOptions(kind)
    timeout_ms = round(settings.aligned_timeout_ms)
    if not timeout_ms:
        return CheckpointOptions(kind, Alignment.UNALIGNED)
    return CheckpointOptions(kind, aligned_timeout_ms=timeout_ms)


class _OpenFailedError(Exception):
    """Carries an error that was raised before any subtask ran."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(text_of(error))
        self.error = error
