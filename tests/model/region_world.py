"""A world of regions, some of which fail during checkpoints of the whole job.

The dispatcher is the real one, with its job record, execution, regions and checkpoint coordinator.
The world adds the workers (``region_worker.py``), their connections, a store of checkpoints, and a
clock. The clock advances only to the dispatcher's deadlines, and not beyond the last checkpoint
that is to be triggered. Records, barriers and the refusal of results of an old attempt are the
world's own, unless channels are *real* (``region_channel.py``): then every sink uses a partition, a
gate and a barrier handler in the worker's network memory, all of which must be released.
``test_checkpoints.py`` covers barriers over several channels. Messages of one worker arrive in
order. Regions share one worker, have one each, or are *spread*: all sources on one worker, all
sinks on another.

There are three kinds of failure. A subtask of the right region fails. Or the worker with the sinks
of two spread regions is lost, while a third region, a source alone, continues elsewhere, and a
fourth worker is free. Or *both* regions fail, once each, beside a third one that has finished; then
sinks await their last checkpoint, as committing sinks do, and the job never ends without one.

Each completed checkpoint must be a consistent cut of every region: its source has emitted the
records that its sink has processed. A restored checkpoint must exist. No subtask runs twice at a
time. In a final state the job has finished, each record was processed once, and no checkpoint is
under way. A region that does not fail never restarts.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from enum import Enum
from functools import partial
from hashlib import blake2b
from operator import attrgetter
from types import MethodType, NoneType
from typing import Any, NamedTuple

import msgpack

from flinknet.checkpoint.checkpoint_history import CheckpointHistory
from flinknet.checkpoint.coordinator import Complete, Discard
from flinknet.checkpoint.metadata import CheckpointDirectory
from flinknet.cluster.control.job_state import JobState
from flinknet.cluster.control.messages import (
    AbortCheckpoint,
    CompleteCheckpoint,
    Deploy,
    Message,
    Register,
)
from flinknet.cluster.control.submission import Submission
from flinknet.cluster.control.subtask_state import SubtaskState
from flinknet.cluster.control.wall_clock import WallClock
from flinknet.cluster.coordinator.jobs.attempt_record import AttemptRecord
from flinknet.cluster.coordinator.jobs.dispatcher import Dispatcher
from flinknet.cluster.coordinator.jobs.job_record import JobRecord
from flinknet.cluster.coordinator.jobs.pipelined_region import PipelinedRegion
from flinknet.config import ClusterConfig
from flinknet.config.job_checkpointing import JobCheckpointingConfig
from flinknet.config.restart_strategy import FixedDelayRestart
from flinknet.datastream import GeneratorSource, StreamExecutionEnvironment
from flinknet.errors import FlinknetError
from flinknet.graph.graph import JobGraph
from flinknet.metrics.io_metrics import IOMetrics
from tests.model.explorer import REDUCTIONS, ViolationFoundError, pickled
from tests.model.region_channel import NetworkMemory, RegionChannel
from tests.model.region_worker import FINISHED, RegionWorker, SubtaskKey
from tests.model.shape import BrokenInvariantError

JOB = "job"
NEVER_MS = 1e10
INTERVAL_S = 1.0
RESULT: dict[str, Any] = {
    **asdict(IOMetrics(0, 0, 0, 0, 0, 0, 0)),
    "metrics": {},
    "committables": b"",
    "collected": b"",
}
LEFT, RIGHT, ALONE = (0, 1), (2, 3), (4,)
"""The vertices of each region."""

SOURCES, SINKS, OTHER, SPARE = "a", "b", "c", "d"
"""The workers of a spread world; slots are filled in the order of their names."""


@dataclass(frozen=True)
class RegionShape:
    """The size of a world, and the failures in it."""

    records: int = 1
    """Records of each region."""
    checkpoints: int = 1
    """Checkpoints that can be triggered without a failure."""
    failures: int = 1
    """Failures of the subtasks or the worker that can fail."""
    apart: bool = False
    """Whether each region has a worker of its own."""
    spread: bool = False
    """Whether all sources are on one worker, and all sinks on another."""
    loses: bool = False
    """Whether the worker with the sinks of spread regions is lost; then no subtask fails."""
    real: bool = False
    """Whether channels are real objects; then no region is spread."""
    unaligned: bool = False
    """Whether barriers of real channels are unaligned."""
    concurrent: int = 1
    """Checkpoints that may be under way at a time."""
    ended: bool = False
    """Whether the left region has finished before; if not, it finishes after the right one."""
    both: bool = False
    """Whether each of two regions fails once, and their sinks await their last checkpoint."""

    def __str__(self) -> str:
        where = "a worker each" if self.apart else "spread" if self.spread else "one worker"
        fails = "lost" if self.loses else "fail"
        return (
            f"{self.records}r {self.checkpoints}c {self.failures} {fails} {self.concurrent} at a "
            f"time, {where}{', left has ended' if self.ended else ''}"
            f"{', real channels' if self.real else ''}{', unaligned' if self.unaligned else ''}"
            f"{', both regions' if self.both else ''}"
        )

    @property
    def workers(self) -> tuple[str, ...]:
        """The first workers, with one slot each; the spare worker has two."""
        if self.spread:
            return (SOURCES, SINKS, OTHER, SPARE) if self.loses else (SOURCES, SINKS)
        return ("left", "right") if self.apart else ("both",)

    @property
    def goes_on(self) -> tuple[int, ...]:
        """The vertices of the region that never fails."""
        return ALONE if self.has_third else LEFT

    @property
    def has_third(self) -> bool:
        """Whether there is a region beside the two that fail."""
        return self.loses or self.both

    @property
    def ends_first(self) -> tuple[int, ...]:
        """The vertices of the region that finishes before the exploration begins."""
        return LEFT if self.ended else ALONE if self.both else ()

    @property
    def fails(self) -> tuple[int, ...]:
        """The vertices of subtasks that can fail; with ``both``, the sinks: they run to the end."""
        return (LEFT[1], RIGHT[1]) if self.both else RIGHT


class RegionStep(NamedTuple):
    """A step that is possible next."""

    name: str
    worker: str = ""
    number: int = -1
    key: SubtaskKey = (-1, -1)

    def __str__(self) -> str:
        where = f" {self.key} under {self.number}" if self.number >= 0 else ""
        return f"{self.worker or 'coordinator'} {self.name}{where}"


def regions(shape: RegionShape) -> JobGraph:
    """Return a job of two independent pipelines, and a third one if a shape has it."""
    environment = StreamExecutionEnvironment().set_parallelism(1)
    for side in ("left", "right"):
        stream = environment.from_source(GeneratorSource(lambda number: (number % 7, number)))
        if shape.apart:
            stream = stream.slot_sharing_group(side)
        if shape.spread:
            stream = stream.slot_sharing_group("sources")
        read = stream.key_by(lambda record: record[0]).map(lambda record: None)
        if shape.spread:
            read = read.slot_sharing_group("sinks")
        read.sink_to(lambda record: None).name(side)
    if shape.has_third:
        alone = environment.from_source(GeneratorSource(lambda number: number))
        if shape.loses:
            alone = alone.slot_sharing_group("alone")
        alone.sink_to(lambda record: None)
    checkpointing = JobCheckpointingConfig(
        interval_ms=INTERVAL_S * 1000,
        timeout_ms=NEVER_MS,
        max_concurrent=shape.concurrent,
    )
    restart = FixedDelayRestart(attempts=shape.failures, delay_ms=0.0)
    return replace(environment.job_graph("regions"), checkpointing=checkpointing, restart=restart)


CONFIG = ClusterConfig(
    heartbeat_interval_ms=NEVER_MS,
    heartbeat_timeout_ms=2 * NEVER_MS,
    coordinator_timeout_ms=2 * NEVER_MS,
    cancel_timeout_ms=NEVER_MS,
    commit_timeout_ms=NEVER_MS,
    restart_slots_timeout_ms=NEVER_MS,
    failover_strategy="region",
)


class RegionWorld:
    """All parts of the world. A step changes it, and states are kept as bytes."""

    def __init__(self, shape: RegionShape) -> None:
        self.shape = shape
        self.now = 0.0
        self.failures = 0
        self.failed: set[int] = set()
        """The sources of the regions that have failed."""
        self.keeping: list[tuple[int, str]] = []
        """Checkpoints that are being stored or removed."""
        self.seeks = False
        self.stored: dict[str, dict[SubtaskKey, int]] = {}
        """For each stored checkpoint, the position of every subtask."""
        self.newest = ""
        """The directory of the checkpoint that was completed last."""
        self.seen: set[str] = set()
        """Outcomes on the path to this state."""
        self.dispatcher = Dispatcher(
            CONFIG, now=0.0, send=self.send, keep=self.keep, seek=self.seek, wall=WallClock()
        )
        prompt = frozenset((*LEFT, *RIGHT) if shape.has_third else LEFT)
        self.workers = {
            name: RegionWorker(
                name,
                JOB,
                shape.records,
                prompt,
                real=shape.real,
                unaligned=shape.unaligned,
                awaits=shape.both,
            )
            for name in shape.workers
        }
        for place, name in enumerate(self.workers):
            self.dispatcher.register(
                Register(name, 100 + place, f"127.0.0.1:{place + 1}", 1 + (name == SPARE)), 0.0
            )
        submission = Submission.from_bytes(Submission.of_graph(regions(shape)).to_bytes())
        self.dispatcher.submit(submission.without_graph(), 0.0, job_id=JOB)
        while not self.record.execution.all_run or any(map(_was_told, self.workers.values())):
            # Let the job reach RUNNING before the exploration begins.
            step = next(step for step in self._steps() if step.name == "is told")
            self.take(step)
        while early := [step for step in self._steps() if self._ends_first(step)]:
            self.take(early[0])

    @property
    def record(self) -> JobRecord:
        """The only job. As an attribute it would be serialised a second time in each state."""
        record = self.dispatcher.job(JOB)
        assert record is not None
        return record

    def _ends_first(self, step: RegionStep) -> bool:
        return step.key[0] in self.shape.ends_first and step.name != "fails"

    # -- requests of the dispatcher

    def send(self, worker_id: str, message: Message) -> None:
        """Deliver a message to a worker, unless the worker would ignore it."""
        if isinstance(message, AbortCheckpoint):
            return
        if isinstance(message, CompleteCheckpoint) and not self.shape.both:
            return
        if worker_id in self.workers:
            self.workers[worker_id].inbox.append(message)

    def keep(self, record: JobRecord, attempt: AttemptRecord, order: Complete | Discard) -> None:
        """Queue the storing or the removal of a checkpoint."""
        if isinstance(order, Complete):
            self.keeping.append((order.checkpoint.checkpoint_id, "complete"))
        else:
            self.keeping.append((order.checkpoint_id, "discard"))

    def seek(self, record: JobRecord) -> None:
        """Note that the dispatcher asks which checkpoint can be restored."""
        self.seeks = True

    # -- steps

    def steps(self) -> list[RegionStep]:
        """Return every step that is possible next, or one eager step alone.

        Eager steps exist in shapes with a third region. They reduce the number of states. Eager are
        the steps of the third region and of the left one, except failures, and uploads of results.
        With ``both``, the store's steps are eager, too, except the writing of a checkpoint.
        """
        every = [*self._steps()]
        eager = [step for step in every if self.shape.has_third and self._is_eager(step)]
        return eager[:1] or every

    def _is_eager(self, step: RegionStep) -> bool:
        if self.shape.both and step.name in ("has removed", "has found"):
            return True
        goes_on = step.worker == OTHER or step.key[0] in LEFT or step.name == "uploads"
        return goes_on and step.name != "fails"

    def _steps(self) -> Iterator[RegionStep]:
        for name, worker in self.workers.items():
            if worker.inbox:
                yield RegionStep("is told", name)
            for upload in worker.uploads:
                yield RegionStep("uploads", name, upload.number, upload.key)
            for what, number, key in worker.steps():
                if self._may_go_on(key):
                    yield RegionStep(what, name, number, key)
            if self.failures < self.shape.failures:
                yield from self._failing(name, worker)
            for number in worker.done():
                yield RegionStep("releases", name, number)
        if self.keeping:
            yield RegionStep("has written" if self.keeping[0][1] == "complete" else "has removed")
        if self.seeks:
            yield RegionStep("has found")
        if self.dispatcher.deadline <= INTERVAL_S * self.shape.checkpoints:
            yield RegionStep("looks at the clock")

    def _failing(self, name: str, worker: RegionWorker) -> Iterator[RegionStep]:
        if not self.shape.loses:
            for what, number, key in worker.failing():
                if key[0] in self.shape.fails and _source_of(key) not in self.failed:
                    yield RegionStep(what, name, number, key)
        elif name == SINKS:
            yield RegionStep("is lost", name)

    def take(self, step: RegionStep) -> None:
        """Do one step, and check the invariants."""
        worker = self.workers.get(step.worker)
        if worker is None:
            self._coordinate(step.name)
        elif step.name == "is lost":
            self._lose(step.worker)
        elif step.name == "is told":
            self._tell(worker, worker.inbox.pop(0))
        elif step.name == "uploads":
            self._take_result(worker, step.number, step.key)
        elif step.name == "goes on":
            worker.go_on(step.number, step.key)
        elif step.name == "fails":
            self.failures += 1
            self.seen.add("failed" if self.record.execution.all_run else "failed together")
            if self.shape.both:
                self.failed.add(_source_of(step.key))
            worker.fail(step.number, step.key)
        else:
            worker.release(step.number)
        self._carry()
        self.record.checkpoints.check_invariants()
        if self.record.execution.state in (JobState.FAILING, JobState.FAILED):
            raise BrokenInvariantError(f"all of the job fails: {self.record.execution.cause}")

    def _carry(self) -> None:
        """Deliver emitted items and messages at once.

        A delay of an item or a message equals a later step, or a longer stay in the channel.
        """
        for worker in self.workers.values():
            for emitted in worker.emitted:
                for other in self.workers.values():
                    if other.has(emitted.number, emitted.sink):
                        other.arrive(emitted)
            worker.emitted.clear()
        for worker in self.workers.values():
            while worker.outbox:
                self.dispatcher.receive(worker.worker_id, worker.outbox.pop(0), self.now)

    def _lose(self, name: str) -> None:
        """End a worker's process; its undelivered messages are lost."""
        self.failures += 1
        lost = self.workers.pop(name)
        runs = any(
            self.record.execution.number_of(key) == number and subtask.state != FINISHED
            for (number, key), subtask in lost.subtasks.items()
        )
        self.seen.add("failed" if runs else "lost in vain")
        self.dispatcher.worker_exited(name, "exit status 1", self.now)

    def _coordinate(self, what: str) -> None:
        match what:
            case "has found":
                self.seeks = False
                point = self.record.latest_checkpoint
                if point.directory not in self.stored:
                    raise BrokenInvariantError(f"{point.directory!r} is to be restored, and gone")
                self.dispatcher.checkpoint_found(self.record, point, None, self.now)
            case "looks at the clock":
                self.now = max(self.now, self.dispatcher.deadline)
                self.dispatcher.tick(self.now)
            case _:
                checkpoint_id, order = self.keeping.pop(0)
                if order == "complete":
                    self._complete(checkpoint_id)
                else:
                    self.stored.pop(self._directory(checkpoint_id), None)

    def _directory(self, checkpoint_id: int) -> str:
        return str(CheckpointDirectory(False, checkpoint_id, self.record.present.number))

    def _complete(self, checkpoint_id: int) -> None:
        """Store a checkpoint and report it; check that it is a consistent cut if it completes."""
        pending = [
            one for one in self.record.checkpoints.pending if one.checkpoint_id == checkpoint_id
        ]
        for one in pending:
            places = {key: int(report.handle) for key, report in one.reports.items()}
            places |= dict.fromkeys(one.finished, self.shape.records)
            self.stored[self._directory(checkpoint_id)] = places
        self.dispatcher.checkpoint_kept(
            self.record, self.record.present, checkpoint_id, None, self.now
        )
        latest = self.record.checkpoints.latest
        if latest is None or latest.checkpoint_id != checkpoint_id:
            self.seen.add("completed too late")
            return
        self.seen.add("completed behind a restart" if self._has_restarted else "completed")
        self.newest = self._directory(checkpoint_id)
        places = self.stored[self.newest]
        for source, sink in (LEFT, RIGHT):
            if (source, 0) not in places or places[source, 0] != places.get((sink, 0)):
                raise BrokenInvariantError(f"checkpoint {checkpoint_id} is no cut: {places}")

    def _may_go_on(self, key: SubtaskKey) -> bool:
        """Return whether a subtask may take a step.

        This reduces the number of states: the region that does not fail ends last, and of two
        regions that are lost together, the left one continues after the right one.
        """
        states = self.record.execution.subtask_states()
        first: set[int] = set()
        if key[0] in self.shape.goes_on and not self.shape.ends_first:
            first = {vertex for vertex, _ in states} - {*self.shape.goes_on}
        elif self.shape.loses and key[0] in LEFT:
            first = {*RIGHT}
        return all(states[vertex, 0] is SubtaskState.FINISHED for vertex in first)

    @property
    def _has_restarted(self) -> bool:
        return bool(self.record.present.restarts)

    def _tell(self, worker: RegionWorker, message: Message) -> None:
        if not isinstance(message, Deploy):
            worker.receive(message)
            return
        # A worker asks the coordinator for this data when it deploys.
        attempt, number = self.record.present, message.attempt
        placed = attempt.placement.deployed(worker.worker_id, number)
        if number > 0 and any(one.vertex in self.shape.goes_on for one in placed):
            raise BrokenInvariantError("the region that goes on begins again")
        keys = {(one.vertex, one.index) for one in placed}
        if twice := keys & {key for other in self.workers.values() for key in other.running}:
            raise BrokenInvariantError(f"{twice} run, and are to begin again")
        directory = attempt.restored_for(number).directory
        if number > 0:
            if directory != self.newest:
                raise BrokenInvariantError(f"{directory!r} is restored, and not {self.newest!r}")
            self.seen.add("restored" if directory else "from the start")
        places = self.stored[directory] if directory else {}
        worker.deploy(
            number,
            {key: places.get(key, 0) for key in sorted(keys)},
        )

    def _take_result(self, worker: RegionWorker, number: int, key: SubtaskKey) -> None:
        """Take a result as the coordinator's route does, which refuses one of an old attempt."""
        (upload,) = (one for one in worker.uploads if (one.number, one.key) == (number, key))
        worker.uploads.remove(upload)
        present = self.record.present
        if present.ended_at is not None or present.execution.number_of(key) != number:
            self.seen.add("a late result")
            return
        result = {**RESULT, "checkpoint_taken": upload.taken}
        self.dispatcher.take_result(self.record, present, key, result, self.now)

    def check_end(self) -> None:
        """Check a state without steps: the job has finished, and nothing is left."""
        if self.record.state is not JobState.FINISHED:
            raise BrokenInvariantError(
                f"deadlock: the job is {self.record.state}, "
                f"{self.record.execution.subtask_states()}"
            )
        if self.record.checkpoints.pending or self.keeping:
            raise BrokenInvariantError("a checkpoint is under way for ever")
        if any(worker.subtasks for worker in self.workers.values()):
            raise BrokenInvariantError("a worker has kept subtasks")
        memories = [worker.memory for worker in self.workers.values() if worker.memory is not None]
        if not all(memory.is_unused for memory in memories):
            raise BrokenInvariantError("a worker has kept network memory, or partitions")


def _source_of(key: SubtaskKey) -> int:
    return key[0] - key[0] % 2


def _was_told(worker: RegionWorker) -> bool:
    return bool(worker.inbox)


class Explored(NamedTuple):
    """The result of a search."""

    states: int
    steps: int
    seen: frozenset[str]


def explore_regions(shape: RegionShape, states_max: int) -> Explored:
    """Visit every reachable state, breadth first.

    Raises ViolationFoundError with the shortest path to the first violation.
    """
    world = RegionWorld(shape)
    known: dict[bytes, tuple[bytes, RegionStep] | None] = {_digest(world): None}
    waiting = deque([(_digest(world), _freeze(world))])
    steps = 0
    seen: set[str] = set()
    while waiting:
        digest, frozen = waiting.popleft()
        here: RegionWorld = _thaw(frozen)
        possible = here.steps()
        if not possible:
            seen |= here.seen
            _checked(here.check_end, known, digest, RegionStep("has nothing to do"))
        for place, step in enumerate(possible):
            world = _thaw(frozen) if place + 1 < len(possible) else here
            _checked(partial(world.take, step), known, digest, step)
            steps += 1
            reached = _digest(world)
            if reached not in known:
                known[reached] = digest, step
                waiting.append((reached, _freeze(world)))
        if len(known) > states_max:
            raise ViolationFoundError(f"more than {states_max} states", len(known))
    return Explored(len(known), steps, frozenset(seen))


def _checked(what: Any, known: dict[bytes, Any], origin: bytes, step: RegionStep) -> None:
    try:
        what()
    except (AssertionError, FlinknetError, LookupError) as violation:
        path = [str(step)]
        while (arrival := known[origin]) is not None:
            origin, taken = arrival
            path.append(str(taken))
        story = " -> ".join(reversed(path))
        raise ViolationFoundError(f"{violation}\nafter: {story}", len(known)) from violation


_CONSTANT = (Submission, ClusterConfig, JobCheckpointingConfig)
_CONSTANTS: dict[int, Any] = {}
_LEFT_OUT = (MethodType, CheckpointHistory, NetworkMemory, *_CONSTANT)
"""Types of objects that never change, or that affect nothing."""


def _referred_to(value: Any) -> tuple[Callable[[int], Any], tuple[int]]:
    """Refer to a constant by its id, which saves half of the time."""
    _CONSTANTS[id(value)] = value
    return _constant, (id(value),)


def _constant(identity: int) -> Any:
    return _CONSTANTS[identity]


_freeze = partial(
    pickled,
    reductions={**REDUCTIONS, **dict.fromkeys((*_CONSTANT, PipelinedRegion), _referred_to)},
)


def _thaw(frozen: bytes) -> RegionWorld:
    world: RegionWorld = pickle.loads(frozen)
    return world


def _digest(world: RegionWorld) -> bytes:
    for worker in world.workers.values():
        if worker.memory is not None:
            worker.memory.scrub()
    return blake2b(msgpack.packb(_contents((world,))), digest_size=16).digest()


def _contents(values: Iterable[Any]) -> list[Any]:
    """Return the content of objects without their identity; equal worlds give equal lists."""
    return [
        value if (kind := type(value)) in _ATOMS else _CONTENT_OF[kind](value) for value in values
    ]


class _ContentOf(dict[type, Callable[[Any], Any]]):
    """Functions that return the content of objects, one for each class.

    They are cached, because a world has a thousand objects.
    """

    def __missing__(self, kind: type) -> Callable[[Any], Any]:
        self[kind] = content_of = _content_of(kind)
        return content_of


def _content_of(kind: type) -> Callable[[Any], Any]:
    if issubclass(kind, (NoneType, bool, int, float, str, bytes)):
        _ATOMS.add(kind)
        return lambda value: value
    if issubclass(kind, Enum):
        return attrgetter("name")
    if issubclass(kind, dict):
        return lambda value: [_contents(value), _contents(value.values())]
    if issubclass(kind, (set, frozenset)):
        return lambda value: sorted(map(repr, _contents(value)))
    if issubclass(kind, (list, tuple, deque)):
        return _contents
    if issubclass(kind, _LEFT_OUT):
        return lambda value: None
    if issubclass(kind, RegionChannel):
        return _freeze
    if issubclass(kind, PipelinedRegion):  # regions never change
        return attrgetter("name")
    name = kind.__name__
    if any("__dict__" in vars(base) for base in kind.__mro__):
        return lambda value: [name, _contents(vars(value).values())]
    slots: tuple[str, ...] = getattr(kind, "__slots__")  # noqa: B009
    return lambda value: [name, _contents([getattr(value, slot) for slot in slots])]


_ATOMS: set[type] = set()
_CONTENT_OF = _ContentOf()
