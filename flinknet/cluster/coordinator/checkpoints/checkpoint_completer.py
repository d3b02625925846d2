"""Completes and removes the checkpoints of jobs in their storage.

Theory of operation. The dispatcher gives orders, which are carried out one after the other for each
job. The job waits for the completion of a checkpoint, so a result is reported after every error.
Removals are not waited for: their errors are only logged.

An attempt claims the checkpoints of its job with its first order. After that no earlier attempt can
complete a checkpoint, and incomplete remains of earlier attempts are removed. Before each
completion or removal it is checked that no other coordinator has taken over (``jobs/epoch.py``).

Before an attempt continues from a checkpoint, its metadata is read, and the presence of its other
files is checked. The subtasks read those files and detect damage. In that case the attempt fails,
and all files are read before the next attempt, which continues from the last intact checkpoint. A
job that has completed a checkpoint never restarts from the beginning: without an intact checkpoint
its attempts fail.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from flinknet import machine
from flinknet.checkpoint.coordinator import Complete, Discard
from flinknet.checkpoint.failure_reason import CheckpointFailure, CheckpointFailureReason
from flinknet.checkpoint.fenced_store import Check, FencedStore, may_change
from flinknet.checkpoint.journal import JOURNAL
from flinknet.checkpoint.location import open_storage
from flinknet.checkpoint.metadata import (
    METADATA,
    CheckpointDirectory,
    CheckpointMetadata,
    OperatorState,
    StateKind,
    SubtaskState,
    encode_metadata,
)
from flinknet.checkpoint.pending_checkpoint import PendingCheckpoint
from flinknet.checkpoint.state_handle import decode_handle
from flinknet.checkpoint.store import CheckpointStore
from flinknet.cluster.control.job_state import AttemptKey, JobState
from flinknet.cluster.coordinator.jobs.attempt_record import AttemptRecord
from flinknet.cluster.coordinator.jobs.job_record import JobRecord
from flinknet.cluster.coordinator.jobs.restore_point import RestorePoint, finished_subtasks
from flinknet.config import CheckpointingConfig
from flinknet.errors import (
    CheckpointNotFoundError,
    CheckpointStorageError,
    CheckpointStorageFullError,
    ConfigurationError,
    FlinknetError,
)
from flinknet.graph.exchanges import exchanges_of
from flinknet.version import __version__

__all__ = ["CheckpointCompleter", "OnFound", "OnKept"]

log = logging.getLogger("flinknet.coordinator")

OnKept = Callable[[JobRecord, AttemptRecord, int, CheckpointFailure | None], None]
"""Arguments: job, attempt, checkpoint number, reason for a failure or None if it is complete."""

OnFound = Callable[[JobRecord, RestorePoint | None, str | None, str], None]
"""Arguments: job, newest checkpoint that can be restored, reason for a failed search, defects of
later checkpoints. If neither a checkpoint nor a reason is given, there is no such checkpoint."""


class CheckpointCompleter:
    """The executor of checkpoint orders; ``close`` must be awaited in the end."""

    def __init__(
        self,
        config: CheckpointingConfig,
        on_kept: OnKept,
        on_found: OnFound,
        check: Check = may_change,
    ) -> None:
        """``check`` raises if another coordinator has taken over."""
        self._config = config
        self._check = check
        self._on_kept = on_kept
        self._on_found = on_found
        self._claims: dict[AttemptKey, FencedStore] = {}
        """The claimed store of each attempt."""
        self._last: dict[str, asyncio.Task[None]] = {}
        """The task of the last order of each job; it waits for the task before."""

    def check(self, directory: str) -> None:
        """Raise ConfigurationError unless checkpoints can be stored in ``directory``.

        An empty ``directory`` means the directory of the cluster.
        """
        open_storage(directory or self._config.directory, self._config)

    def savepoint_place(self, record: JobRecord, directory: str) -> str:
        """Return the absolute path or URL of the directory for a savepoint.

        If ``directory`` is empty, it is that of the job's checkpoints. Raises ConfigurationError if
        there is none.
        """
        settings = record.submission.shape.checkpointing
        own = (settings and settings.directory) or self._config.directory
        if not (directory or own):
            raise ConfigurationError(
                f'job "{record.submission.name}" has no directory for a savepoint: name a '
                "directory or a URL"
            )
        return open_storage(directory or own, self._config).location

    def carry_out(
        self, record: JobRecord, attempt: AttemptRecord, order: Complete | Discard
    ) -> None:
        """Complete a checkpoint, or remove an incomplete one, after all earlier orders."""
        if isinstance(order, Discard):
            _tell_of_failure(record, order.checkpoint_id)
        self._then(record, lambda: self._carry_out(record, attempt, order))

    def seek(self, record: JobRecord) -> None:
        """Find the newest intact checkpoint, after all earlier orders."""
        self._then(record, lambda: self._seek(record))

    def end(self, record: JobRecord) -> None:
        """Remove the checkpoints of an ended job unless they are retained, and forget the job.

        The journal is removed as well if no checkpoint is left. All earlier orders are carried out
        first.
        """
        settings, state = record.submission.shape.checkpointing, record.state
        failed, cancelled = state is JobState.FAILED, state is JobState.CANCELED
        has_claimed = any(job_id == record.job_id for job_id, _ in self._claims)
        if settings and has_claimed:
            stay = settings.are_retained(failed=failed, cancelled=cancelled)
            # A job that failed because the coordinator stops continues under the next coordinator.
            self._then(record, lambda: self._remove(record, stay=stay, is_over=not failed))
        self.forget(record.job_id)

    async def _remove(self, record: JobRecord, *, stay: bool, is_over: bool) -> None:
        last = self._claims[max(key for key in self._claims if key[0] == record.job_id)]
        if not stay:
            await _remove_all_but(0, last)
        if is_over:
            try:
                await last.remove_journal()
            except Exception as error:
                log.warning("could not remove the journal of an ended job: %s", _explain(error))

    def forget(self, job_id: str) -> None:
        """Forget a job that has ended, once all orders for it have been carried out."""
        last = self._last.get(job_id)
        if last is None:
            return
        if not last.done():
            last.add_done_callback(lambda _: self.forget(job_id))
            return
        del self._last[job_id]
        for key in [key for key in self._claims if key[0] == job_id]:
            del self._claims[key]

    async def settled(self, job_id: str) -> None:
        """Wait until all orders for a job have been carried out."""
        while (last := self._last.get(job_id)) is not None and not last.done():
            await asyncio.wait([last])

    async def close(self) -> None:
        """Wait until all orders have been carried out."""
        while under_way := [task for task in self._last.values() if not task.done()]:
            await asyncio.wait(under_way)

    def _then(self, record: JobRecord, work: Callable[[], Awaitable[None]]) -> None:
        before = self._last.get(record.job_id)

        async def after() -> None:
            if before is not None:
                await asyncio.wait([before])
            await work()

        name = f"checkpoint of {record.job_id}"
        self._last[record.job_id] = asyncio.create_task(after(), name=name)

    async def _carry_out(
        self, record: JobRecord, attempt: AttemptRecord, order: Complete | Discard
    ) -> None:
        try:
            if isinstance(order, Discard):
                await self._discard(record, attempt, order.checkpoint_id)
                return
            await self._complete(record, attempt, _metadata(record, attempt, order.checkpoint))
        except Exception as error:
            why = _explain(error)
            if isinstance(order, Discard):
                log.warning("checkpoint %d was not removed: %s", order.checkpoint_id, why)
                return
            failure = CheckpointFailure(_reason_of(error), why)
            self._on_kept(record, attempt, order.checkpoint.checkpoint_id, failure)
        else:
            self._on_kept(record, attempt, order.checkpoint.checkpoint_id, None)

    async def _complete(
        self, record: JobRecord, attempt: AttemptRecord, metadata: CheckpointMetadata
    ) -> None:
        elsewhere = self._elsewhere(record, metadata.checkpoint_id)
        if elsewhere is None:
            claimed = await self._claimed(record, attempt)
            await claimed.complete(metadata)
            # Old checkpoints are removed in a separate step, because the job waits for the
            # completion only.
            retained = self._config.retained
            self._then(record, lambda: _remove_all_but(retained, claimed))
            return
        await self._check()
        path = elsewhere.path(metadata.directory, METADATA)
        file = encode_metadata(metadata, self._config.metadata_bytes_max)
        if not await elsewhere.storage.create(path, file):
            raise CheckpointStorageError(f"{elsewhere.storage.location}/{path} exists already")

    async def _discard(self, record: JobRecord, attempt: AttemptRecord, checkpoint_id: int) -> None:
        is_savepoint = checkpoint_id in record.savepoints
        directory = CheckpointDirectory(is_savepoint, checkpoint_id, attempt.number)
        elsewhere = self._elsewhere(record, checkpoint_id)
        if elsewhere is None:
            await (await self._claimed(record, attempt)).discard(directory)
        else:
            await self._check()
            await elsewhere.storage.delete_directory(elsewhere.path(directory))

    def _elsewhere(self, record: JobRecord, checkpoint_id: int) -> CheckpointStore | None:
        """Return the store of a savepoint outside the job's checkpoint directory, else None.

        Such a place is not claimed, since nothing there is restored or removed unless the user says
        so.
        """
        request = record.savepoints.get(checkpoint_id)
        if request is None:
            return None
        storage = open_storage(request.directory, self._config)
        if record.submission.shape.checkpointing is not None:
            own = self._store(record)
            if own.storage.location == storage.location:
                return None
        return CheckpointStore(storage, record.job_id, self._config)

    async def _claimed(self, record: JobRecord, attempt: AttemptRecord) -> FencedStore:
        key = record.job_id, attempt.number
        if key not in self._claims:
            claimed = await FencedStore.claim(
                self._store(record), attempt.number, record.completed.is_passed_over, self._check
            )
            self._claims[key] = claimed
            # Leftovers are removed in a separate step, because the job waits for the current order.
            self._then(record, lambda: _remove_leftovers(claimed))
        return self._claims[key]

    async def _claim_for_next(self, record: JobRecord) -> None:
        """Claim the checkpoints for the next attempt, before the newest checkpoint is determined.

        The previous coordinator may still be running. After the claim it can complete no
        checkpoint.
        """
        store = self._store(record)
        files = await store.storage.files(store.path(JOURNAL))
        if not files:
            # The directory is empty or gone. Nothing may be created in it.
            return
        entries = await store.entries(files)
        record.number_from(max((entry.attempt for entry in entries.values()), default=-1) + 1)
        key = record.job_id, record.next_number
        self._claims[key] = await FencedStore.claim(
            store, record.next_number, record.completed.is_passed_over, self._check
        )

    def _store(self, record: JobRecord) -> CheckpointStore:
        settings = record.submission.shape.checkpointing
        assert settings is not None, "a job without checkpoints orders none"
        storage = open_storage(settings.directory or self._config.directory, self._config)
        return CheckpointStore(storage, record.job_id, self._config)

    async def _seek(self, record: JobRecord) -> None:
        if record.submission.shape.checkpointing is None:
            self._on_found(record, None, None, "")
            return
        try:
            if record.is_resumed:
                await self._claim_for_next(record)
            metadata, damage = await self._latest_valid(record)
            finished = finished_subtasks(record.submission.shape, metadata)
        except CheckpointNotFoundError as error:
            self._on_found(record, None, None, str(error))
        except Exception as error:
            why = f"could not read which checkpoint the job continues from: {_explain(error)}"
            self._on_found(record, None, why, "")
        else:
            self._on_found(record, RestorePoint(str(metadata.directory), finished), None, damage)

    async def _latest_valid(self, record: JobRecord) -> tuple[CheckpointMetadata, str]:
        """Return the newest checkpoint that can be restored, and the defects of later ones."""
        store, known = self._store(record), record.completed
        if record.is_resumed:
            # The previous coordinator may have written the journal, but not its own record.
            known.note(await store.newest_claimed(known.is_passed_over))
        reads = record.doubts_checkpoints
        # Unless ``reads``, the metadata is read, and the other files need only exist.
        found = await store.latest_valid(reads=reads, is_passed_over=known.is_passed_over)
        if found.checkpoint.checkpoint_id < known.newest and not reads:
            # Output may be withdrawn for this older checkpoint, so all of its files must be
            # verified first.
            found = await store.latest_valid(is_passed_over=known.is_passed_over)
        return found.checkpoint, "; ".join(map(str, found.refused))


async def _remove_leftovers(claimed: FencedStore) -> None:
    try:
        await claimed.remove_leftovers()
    except Exception as error:
        log.warning(
            "could not remove incomplete checkpoints of earlier attempts: %s", _explain(error)
        )


async def _remove_all_but(number: int, claimed: FencedStore) -> None:
    try:
        await claimed.remove_all_but(number)
    except Exception as error:
        log.warning("could not remove old checkpoints: %s", _explain(error))


def _tell_of_failure(record: JobRecord, checkpoint_id: int) -> None:
    """Log a failed checkpoint.

    The job goes on without it, so nothing else would show the failure.
    """
    history = record.checkpoints.history
    reason = history.reason_of(checkpoint_id)
    if reason is not None and reason.is_failure:
        name, why = record.submission.name, history.why_failed(checkpoint_id)
        log.warning('job "%s": checkpoint %d failed: %s', name, checkpoint_id, why)


def _reason_of(error: Exception) -> CheckpointFailureReason:
    if isinstance(error, CheckpointStorageFullError):
        return CheckpointFailureReason.STORAGE_FULL
    return CheckpointFailureReason.COMPLETION_FAILURE


def _explain(error: Exception) -> str:
    """Return an explanation of an error; log unexpected errors with their traceback."""
    if isinstance(error, FlinknetError):
        return str(error)
    log.error("an order for a job's checkpoints failed unexpectedly", exc_info=error)
    return f"{type(error).__name__}: {error}"


def _metadata(
    record: JobRecord, attempt: AttemptRecord, checkpoint: PendingCheckpoint
) -> CheckpointMetadata:
    """Build the metadata of a checkpoint from the reports of its subtasks."""
    operators: dict[str, OperatorState] = {}
    states: dict[str, list[SubtaskState]] = {}
    for vertex in record.submission.shape.vertices:
        for operator in vertex.operators:
            operators[operator.uid] = OperatorState(
                operator.uid, vertex.parallelism, vertex.max_parallelism
            )
            # Subtasks that had finished before this checkpoint have sent no report.
            states[operator.uid] = [
                SubtaskState(index, {}, finished=True)
                for index in range(vertex.parallelism)
                if (vertex.id, index) in checkpoint.finished
            ]
    for (_, index), report in checkpoint.reports.items():
        for uid, parts in decode_handle(report.handle):
            if parts or report.finished:
                states[uid].append(SubtaskState(index, parts, finished=report.finished))
    metadata = CheckpointMetadata(
        job_id=record.job_id,
        job=record.submission.name,
        attempt=attempt.number,
        checkpoint_id=checkpoint.checkpoint_id,
        kind=checkpoint.kind,
        triggered_ms=checkpoint.timestamp_ms,
        completed_ms=machine.wall_time_ns() // 1_000_000,
        operators=tuple(
            operators[uid]._replace(subtasks=tuple(sorted(states[uid], key=_index)))
            for uid in operators
        ),
        written_by=__version__,
    )
    if any(kind in (StateKind.INPUT, StateKind.OUTPUT) for *_, kind, _ in metadata.parts()):
        return metadata._replace(exchanges=exchanges_of(record.submission.shape))
    return metadata


def _index(state: SubtaskState) -> int:
    return state.subtask_index
