"""Completes the checkpoints of jobs where they are kept: the coordinator's hands in the store.

Theory of operation. The dispatcher orders, one order after the other is carried out for each job,
and the answer says how it went, whatever went wrong: the job waits for it. A job attempt claims the
job's checkpoints with its first order; from then on none before it completes any, and what they
left incomplete is removed. Before anything is completed or removed it is looked whether this
coordinator still rules (``jobs/epoch.py``). What nobody waits for, a removal, is tried and logged.
Before an attempt continues from a checkpoint its metadata is read, and looked whether the other
files are there; its subtasks read those, and each finds out whether what it reads is as it was
written. If it is not, the attempt fails, and then all files are read before the next one begins:
that continues from the last checkpoint of which none is bad.
A job that has completed a checkpoint never begins again from its start: without any that is good,
its attempts fail.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from flinknet import machine
from flinknet.checkpoint.claimed_store import Check, ClaimedStore, may_change
from flinknet.checkpoint.coordinator import Complete, Discard
from flinknet.checkpoint.failure_reason import CheckpointFailure, CheckpointFailureReason
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

__all__ = ["CheckpointKeeper", "OnFound", "OnKept"]

log = logging.getLogger("flinknet.coordinator")

OnKept = Callable[[JobRecord, AttemptRecord, int, CheckpointFailure | None], None]
"""(job, attempt, checkpoint, why it could not be completed): None if it is complete."""

OnFound = Callable[[JobRecord, RestorePoint | None, str | None, str], None]
"""(job, the newest checkpoint that can be restored, why that cannot be said, what is wrong with
later ones): without the second, and the first None, there is no such checkpoint."""


class CheckpointKeeper:
    """Carries out what the dispatcher orders; ``close`` must be awaited in the end."""

    def __init__(
        self,
        config: CheckpointingConfig,
        on_kept: OnKept,
        on_found: OnFound,
        check: Check = may_change,
    ) -> None:
        """``check`` raises if another coordinator has taken this one's place."""
        self._config = config
        self._check = check
        self._on_kept = on_kept
        self._on_found = on_found
        self._claims: dict[AttemptKey, ClaimedStore] = {}
        self._last: dict[str, asyncio.Task[None]] = {}

    def check(self, directory: str) -> None:
        """ConfigurationError unless this is a place for a job's checkpoints; empty means the
        cluster's."""
        open_storage(directory or self._config.directory, self._config)

    def savepoint_place(self, record: JobRecord, directory: str) -> str:
        """Return the place for a savepoint of a job: the whole path or URL of what was asked for,
        or, if that is empty, of where the job's checkpoints are. ConfigurationError if there is
        none."""
        settings = record.submission.shape.checkpointing
        own = (settings and settings.directory) or self._config.directory
        if not (directory or own):
            raise ConfigurationError(
                f'job "{record.submission.name}" has no place for a savepoint: name a directory or '
                "a URL"
            )
        return open_storage(directory or own, self._config).location

    def carry_out(
        self, record: JobRecord, attempt: AttemptRecord, order: Complete | Discard
    ) -> None:
        """Complete a checkpoint, or remove what is left of one, after what was ordered before."""
        if isinstance(order, Discard):
            _tell_of_failure(record, order.checkpoint_id)
        self._then(record, lambda: self._carry_out(record, attempt, order))

    def seek(self, record: JobRecord) -> None:
        """Find the last checkpoint that is good, after what was ordered before."""
        self._then(record, lambda: self._seek(record))

    def end(self, record: JobRecord) -> None:
        """Remove the checkpoints of a job that has ended, unless they are to stay, and forget it.

        The journal goes, too, if no checkpoint is left. All that was ordered before is done first.
        """
        settings, state = record.submission.shape.checkpointing, record.state
        failed, cancelled = state is JobState.FAILED, state is JobState.CANCELED
        has_claimed = any(job_id == record.job_id for job_id, _ in self._claims)
        if settings and has_claimed:
            stay = settings.stay(failed=failed, cancelled=cancelled)
            # One that has failed because the coordinator stops goes on with the next one.
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
                log.warning("the journal of an ended job stays: %s", _explain(error))

    def forget(self, job_id: str) -> None:
        """The job has ended: what was ordered is still carried out, and nothing comes after it."""
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
        """Return when what was ordered of a job's checkpoints has come to its end."""
        while (last := self._last.get(job_id)) is not None and not last.done():
            await asyncio.wait([last])

    async def close(self) -> None:
        """Let what was ordered come to its end."""
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
            # Nobody waits for that, and somebody for the checkpoint.
            retained = self._config.retained
            self._then(record, lambda: _remove_all_but(retained, claimed))
            return
        await self._check()
        path = elsewhere.path(metadata.directory, METADATA)
        file = encode_metadata(metadata, self._config.metadata_bytes_max)
        if not await elsewhere.storage.create(path, file):
            raise CheckpointStorageError(f"{elsewhere.storage.location}/{path} is there already")

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
        """Where a savepoint is that is not among the job's checkpoints: nobody claims that, since
        nothing there is ever restored or removed unless its user says so."""
        request = record.savepoints.get(checkpoint_id)
        if request is None:
            return None
        storage = open_storage(request.directory, self._config)
        if record.submission.shape.checkpointing is not None:
            own = self._store(record)
            if own.storage.location == storage.location:
                return None
        return CheckpointStore(storage, record.job_id, self._config)

    async def _claimed(self, record: JobRecord, attempt: AttemptRecord) -> ClaimedStore:
        key = record.job_id, attempt.number
        if key not in self._claims:
            claimed = await ClaimedStore.claim(
                self._store(record), attempt.number, record.completed.is_passed_over, self._check
            )
            self._claims[key] = claimed
            # Nobody waits for that, and somebody for the order that is being carried out.
            self._then(record, lambda: _remove_leftovers(claimed))
        return self._claims[key]

    async def _claim_for_next(self, record: JobRecord) -> None:
        """Claim the checkpoints for the attempt that comes next, before it is looked which is the
        last: the coordinator before this one may be at work still, and completes none after it."""
        store = self._store(record)
        files = await store.storage.files(store.path(JOURNAL))
        if not files:
            return  # Nothing is there yet, or the place is gone: nothing is to be made there.
        entries = await store.entries(files)
        record.number_from(max((entry.attempt for entry in entries.values()), default=-1) + 1)
        key = record.job_id, record.next_number
        self._claims[key] = await ClaimedStore.claim(
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
        """Return the newest checkpoint that can be restored, and what is wrong with later ones."""
        store, known = self._store(record), record.completed
        if record.is_resumed:
            # The coordinator before this one may have come no further than to the journal.
            known.note(await store.newest_claimed(known.is_passed_over))
        reads = record.doubts_checkpoints
        found = await store.latest_valid(reads=reads, is_passed_over=known.is_passed_over)
        if found.checkpoint.checkpoint_id < known.newest and not reads:
            # Output may be withdrawn for it, so it must be good.
            found = await store.latest_valid(is_passed_over=known.is_passed_over)
        return found.checkpoint, "; ".join(map(str, found.refused))


async def _remove_leftovers(claimed: ClaimedStore) -> None:
    try:
        await claimed.remove_leftovers()
    except Exception as error:
        log.warning("what earlier attempts left incomplete stays for now: %s", _explain(error))


async def _remove_all_but(number: int, claimed: ClaimedStore) -> None:
    try:
        await claimed.remove_all_but(number)
    except Exception as error:
        log.warning("old checkpoints stay for now: %s", _explain(error))


def _tell_of_failure(record: JobRecord, checkpoint_id: int) -> None:
    """The job goes on without it, so that nobody else might notice."""
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
    """What to say of it; where it came from, too, goes into the log if nobody foresaw it."""
    if isinstance(error, FlinknetError):
        return str(error)
    log.error("an order for a job's checkpoints failed unexpectedly", exc_info=error)
    return f"{type(error).__name__}: {error}"


def _metadata(
    record: JobRecord, attempt: AttemptRecord, checkpoint: PendingCheckpoint
) -> CheckpointMetadata:
    """What the checkpoint says of itself, from what its subtasks have said."""
    operators: dict[str, OperatorState] = {}
    states: dict[str, list[SubtaskState]] = {}
    for vertex in record.submission.shape.vertices:
        for operator in vertex.operators:
            operators[operator.uid] = OperatorState(
                operator.uid, vertex.parallelism, vertex.max_parallelism
            )
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
