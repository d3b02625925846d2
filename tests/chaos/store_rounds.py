"""Rounds of one short job each, with a damaged checkpoint store or a disturbed restart.

A seed determines a round: the disturbance, the shape of the job, and its sink. The job takes a
checkpoint every tenth of a second, and its source ends only after the disturbance. The result is
"exact", a failure named in ``FAILURES`` that the damage allows, or wrong. A job that does not end
in time is stuck. Visible output has each record at most once, in any case.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import resource
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from flinknet.cluster import JobProgress, LocalCluster
from flinknet.cluster.launch.process_output import COORDINATOR
from flinknet.config import ClusterConfig, FlinknetConfig, NetworkConfig
from flinknet.datastream import (
    CheckpointedSink,
    CommitContext,
    Committer,
    GeneratorSource,
    JsonLinesSink,
    KeyedProcessFunction,
    MapFunction,
    ProcessContext,
    RateLimitedSource,
    RestartStrategies,
    RuntimeContext,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from flinknet.errors import FlinknetError
from flinknet.graph.graph import JobGraph
from tests.chaos.late_store import LateStore
from tests.integration.test_recovery import Held

__all__ = ["KINDS", "Outcome", "StoreRound", "StoreRounds", "print_summary"]

RECORDS = 3_000
PER_SECOND = 3_000.0
KEYS = 13
CHECKPOINT_MS = 100
LOOK_S = 0.01
STUCK_S = 120.0
"""Far longer than any round takes, including its restarts."""

KINDS = (
    "flipped",
    "cut",
    "gone",
    "all gone",
    "unmounted",
    "remounted",
    "slow",
    "full",
    "two regions",
    "killed in restart",
)

REFUSED = "would repeat output"
LOST = "no checkpoint left"
FAILURES = {
    REFUSED: r"had told .* that checkpoint \d+ is complete",
    LOST: r"had completed checkpoint \d+ and cannot continue without it",
    "no room": r"File too large|No space left|the storage has no space left",
    "store failed": r"could not read which checkpoint the job continues|cannot (read|list|write) ",
}
"""Names of permitted failures, and patterns for their errors."""

CONFIG = FlinknetConfig(
    network=NetworkConfig(network_memory_bytes=8 * 2**20, segment_bytes=4096),
    cluster=ClusterConfig(
        workers=2,
        slots_per_worker=1,
        metrics=False,
        heartbeat_interval_ms=200.0,
        heartbeat_timeout_ms=20_000.0,
        cause_grace_ms=200.0,
        cancel_timeout_ms=2_000.0,
        progress_interval_ms=50.0,
    ),
)


class Running(KeyedProcessFunction):
    """A function that counts the records of a key in state."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: Any, ctx: ProcessContext) -> Iterable[Any]:
        key, number = value
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        yield key, number, count


class Raises(MapFunction):
    """A function that fails once if a file for its subtask exists, and removes the file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self, runtime_context: RuntimeContext) -> None:
        self._flag = self._folder / f"fail-{runtime_context.get_index_of_this_subtask()}"

    def map(self, value: Any) -> Any:
        with suppress(FileNotFoundError):
            self._flag.unlink()
            raise ValueError("told to fail")
        return (*value, 0)


class Kept(CheckpointedSink):
    """A sink with output that cannot be withdrawn, as if a program had consumed it."""

    def __init__(self, path: Path) -> None:
        self._files = JsonLinesSink(path)

    def open(self, runtime_context: RuntimeContext) -> Any:
        return self._files.open(runtime_context)

    def write(self, records: list[Any]) -> None:
        self._files.write(records)

    def roll(self) -> list[Any]:
        return self._files.roll()

    def persist(self, committables: list[Any]) -> None:
        self._files.persist(committables)

    def publish(self, checkpoint_id: int, committables: list[Any]) -> None:
        self._files.publish(checkpoint_id, committables)

    def discard(self, kept: Collection[Any], is_own: Callable[[int], bool]) -> None:
        self._files.discard(kept, is_own)

    def prepare_commit(self) -> Any:
        return self._files.prepare_commit()

    def create_committer(self, context: CommitContext) -> Committer:
        return self._files.create_committer(context)

    def close(self) -> None:
        self._files.close()


class _EndedError(Exception):
    """The job ended before the disturbance was over."""


@dataclass(frozen=True)
class Outcome:
    """The result of a round."""

    seed: int
    what: str
    """A description of the disturbance."""
    result: str
    """"exact", the name of a failure, or a description of the error."""
    seconds: float

    @property
    def held(self) -> bool:
        """Whether the result is permitted."""
        return self.result == "exact" or self.result in FAILURES


class StoreRound:
    """One round, determined by its seed."""

    def __init__(self, seed: int, folder: Path, store: LateStore) -> None:
        self.seed = seed
        self.kind = KINDS[seed % len(KINDS)]
        self._chance = chance = random.Random(seed)
        self._folder = folder
        self._go = folder / "go"
        self._checkpoints = folder / "checkpoints"
        self._prefix = f"{folder.name}-{seed}"
        self._keyed = self.kind != "two regions" and chance.random() < 0.5
        self._can_withdraw = chance.random() < 0.6
        self._store = store
        self._progress: JobProgress | None = None
        self.what = f"{self.kind}, {'one region' if self._keyed else 'two regions'}"
        self.what += ", files" if self._can_withdraw else ", output that is kept"

    async def run(self, cluster: LocalCluster) -> Outcome:
        """Run and disturb the job, and judge its result."""
        self._folder.mkdir(parents=True)
        began = time.monotonic()
        job = asyncio.create_task(cluster.execute(self._graph(), self._watch))
        try:
            async with asyncio.timeout(STUCK_S):
                with suppress(_EndedError):  # a job that failed early is judged, too
                    await self._disturb(cluster, job)
                self._go.touch()
                await asyncio.wait([job])
            result = self._judge(job)
        except TimeoutError:
            result = f"stuck in {self._progress and self._progress.state}"
        finally:
            self._go.touch()
            if not job.done():
                job.cancel()
            await asyncio.gather(job, return_exceptions=True)
        return Outcome(self.seed, self.what, result, time.monotonic() - began)

    def _watch(self, progress: JobProgress) -> None:
        self._progress = progress

    def _graph(self) -> JobGraph:
        environment = StreamExecutionEnvironment().set_parallelism(2)
        environment.enable_checkpointing(CHECKPOINT_MS)
        config = environment.get_checkpoint_config()
        config.set_tolerable_checkpoint_failure_number(1_000)
        place = str(self._checkpoints) if self.kind != "slow" else f"s3://bucket/{self._prefix}"
        config.set_checkpoint_storage_dir(place)
        environment.set_restart_strategy(RestartStrategies.fixed_delay_restart(30, 100))
        source = GeneratorSource(lambda number: (number % KEYS, number), RECORDS)
        stream = environment.from_source(Held(RateLimitedSource(source, PER_SECOND), self._go))
        if self._keyed:
            counted = stream.key_by(lambda record: record[0]).process(Running())
        else:
            counted = stream.map(Raises(self._folder))
        output = self._folder / "out"
        counted.sink_to(JsonLinesSink(output) if self._can_withdraw else Kept(output))
        return environment.job_graph(f"round {self.seed}")

    # -- disturbances

    async def _disturb(self, cluster: LocalCluster, job: asyncio.Task[Any]) -> None:
        chance = self._chance
        if self.kind == "slow":
            await self._be_late(cluster, job)
            return
        await self._completed(job, chance.randrange(2, 5))
        await asyncio.sleep(chance.uniform(0.0, 0.15))
        match self.kind:
            case "two regions":
                await self._fail_two_regions(cluster)
            case "killed in restart":
                await self._kill_again_and_again(cluster)
            case "unmounted" | "remounted":
                await self._swap(cluster)
            case "full":
                await self._fill(cluster)
            case _:
                await self._damage_newest(cluster)

    async def _damage_newest(self, cluster: LocalCluster) -> None:
        """Damage the newest checkpoint while no newer one can complete, and kill workers."""
        # Stopped workers acknowledge no checkpoint, so the damaged one stays the newest.
        workers = _workers(cluster)
        for pid in workers.values():
            _signal(pid, signal.SIGSTOP)
        newest = await self._settled()
        self.what += f": {self._damage(newest)}"
        victims = self._chance.sample(sorted(workers), self._chance.choice([1, 2]))
        if self._chance.random() < 0.2:
            victims.append(COORDINATOR)
        self.what += f", kill -9 {' '.join(victims)}"
        for name, pid in cluster.pids().items():
            _signal(pid, signal.SIGKILL if name in victims else signal.SIGCONT)

    def _damage(self, newest: Path) -> str:
        chance, job_folder = self._chance, newest.parent
        if self.kind == "all gone":
            for checkpoint in job_folder.glob("checkpoint-*"):
                shutil.rmtree(checkpoint)
            return "every checkpoint removed"
        file = chance.choice(sorted(newest.iterdir()))
        content = bytearray(file.read_bytes())
        if self.kind == "flipped":
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
            file.write_bytes(content)
        elif self.kind == "cut":
            file.write_bytes(content[: chance.randrange(len(content))])
        elif (how := chance.randrange(3)) == 0:
            shutil.rmtree(newest)
            return f"{newest.name} removed"
        elif how == 1:
            (newest / "metadata").unlink()
            return f"metadata of {newest.name} removed"
        else:
            entry = max((job_folder / "journal").iterdir())
            entry.unlink()
            return f"journal entry {entry.name.lstrip('0')} removed"
        return f"{file.name} of {newest.name} {self.kind}"

    async def _swap(self, cluster: LocalCluster) -> None:
        """Replace the checkpoints by an empty directory for a time, and kill a worker.

        "unmounted": the worker is killed while they are away; "remounted": when they are back.
        """
        away, time_s = self._folder / "away", self._chance.uniform(0.1, 1.2)
        self._checkpoints.rename(away)
        self._checkpoints.mkdir()
        if self.kind == "unmounted":
            self._kill_one(cluster)
        self.what += f", back after {time_s:.1f} s"
        await asyncio.sleep(time_s)
        self._checkpoints.rename(self._folder / "substitute")
        away.rename(self._checkpoints)
        if self.kind == "remounted":
            self._kill_one(cluster)

    async def _fill(self, cluster: LocalCluster) -> None:
        """Limit the size of files of all processes to some bytes, for a time."""
        room, time_s = self._chance.choice([0, 64, 512]), self._chance.uniform(0.2, 0.8)
        self.what += f", room for {room} bytes for {time_s:.1f} s"
        limited = cluster.pids()
        for pid in limited.values():
            _limit_files(pid, room)
        if self._chance.random() < 0.6:
            self._kill_one(cluster)
        await asyncio.sleep(time_s)
        for pid in limited.values():
            _limit_files(pid, None)

    async def _fail_two_regions(self, cluster: LocalCluster) -> None:
        """Make both regions fail, at once or in short succession."""
        pause_s = self._chance.choice([0.0, self._chance.uniform(0.0, 0.3)])
        first, second = self._chance.sample([0, 1], 2)
        ways = self._chance.choices(["raises", "is killed"], k=2)
        self.what += f": {ways[0]}, after {pause_s:.2f} s {ways[1]}"
        for index, way in zip((first, second), ways, strict=True):
            if way == "raises":
                (self._folder / f"fail-{index}").touch()
            elif (names := sorted(_workers(cluster))) and index < len(names):
                _signal(cluster.pids()[names[index]], signal.SIGKILL)
            await asyncio.sleep(pause_s)

    async def _kill_again_and_again(self, cluster: LocalCluster) -> None:
        """Kill processes while the job restarts after an earlier kill."""
        for _ in range(self._chance.randrange(2, 5)):
            self._kill_one(cluster, coordinator=self._chance.random() < 0.25)
            await asyncio.sleep(self._chance.uniform(0.0, 0.9))

    def _kill_one(self, cluster: LocalCluster, *, coordinator: bool = False) -> None:
        names = [COORDINATOR] if coordinator else sorted(_workers(cluster))
        if names:
            victim = self._chance.choice(names)
            self.what += f", kill -9 {victim}"
            _signal(cluster.pids().get(victim, 0), signal.SIGKILL)

    async def _be_late(self, cluster: LocalCluster, job: asyncio.Task[Any]) -> None:
        """Delay the answers of the object store, or stop them for a time, and kill a worker."""
        store, chance = self._store, self._chance
        try:
            store.late_s = chance.uniform(0.02, 0.3)
            self.what += f": answers after {store.late_s:.2f} s"
            while not any(
                key.startswith(self._prefix) and key.endswith("/metadata") for key in store.objects
            ):
                await self._look(job)
            await asyncio.sleep(chance.uniform(0.0, 0.5))
            if chance.random() < 0.4:
                store.is_away = True
                self.what += ", and for a time none"
            self._kill_one(cluster)
            await asyncio.sleep(chance.uniform(0.2, 1.0))
        finally:
            store.is_away, store.late_s = False, 0.0

    # -- observation

    async def _look(self, job: asyncio.Task[Any]) -> None:
        """Wait a moment; raise _EndedError if the job has ended."""
        if job.done():
            raise _EndedError
        await asyncio.wait([job], timeout=LOOK_S)

    def _complete(self) -> list[Path]:
        """Return the checkpoints that have metadata, the newest last."""
        found = self._checkpoints.glob("*/checkpoint-*/metadata")
        return sorted((one.parent for one in found), key=lambda one: int(one.name.split("-")[1]))

    async def _completed(self, job: asyncio.Task[Any], number: int) -> None:
        """Wait until this checkpoint, or a later one, is complete."""
        while not any(int(one.name.split("-")[1]) >= number for one in self._complete()):
            await self._look(job)

    async def _settled(self) -> Path:
        """Return the newest checkpoint once the coordinator has processed all messages."""
        before: list[Path] = []
        while not before or self._complete() != before:
            before = self._complete()
            await asyncio.sleep(0.1)
        return before[-1]

    def _judge(self, job: asyncio.Task[Any]) -> str:
        rows = [
            json.loads(line)
            for file in (self._folder / "out").glob("part-*")
            for line in file.read_text().splitlines()
        ]
        numbers = Counter(number for _, number, _ in rows)
        twice = sum(count - 1 for count in numbers.values())
        if twice:
            return f"{twice} records twice"
        error = job.exception()
        if error is None:
            missing = RECORDS - len(numbers)
            if missing:
                return f"{missing} records missing"
            counts = Counter((key, count) for key, _, count in rows)
            if self._keyed and max(counts.values()) > 1:
                return "state counted a record twice"
            return "exact"
        if not isinstance(error, FlinknetError):
            return f"unnamed: {error!r}"
        for name in self._allowed():
            if re.search(FAILURES[name], str(error), re.DOTALL):
                return name
        return f"another cause: {str(error)[:300]}"

    def _allowed(self) -> list[str]:
        """Return the failures that the damage explains.

        There are none if output can be withdrawn and an older checkpoint exists.
        """
        allowed = {
            "all gone": [LOST],
            "unmounted": [LOST],
            "full": ["no room", "store failed"],
            "slow": ["store failed"],
        }.get(self.kind, [])
        may_go_back = self.kind in ("flipped", "cut", "gone", "unmounted", "remounted")
        return allowed + [REFUSED] * (may_go_back and not self._can_withdraw)


class StoreRounds:
    """Rounds in turn, each with a cluster of its own.

    No round can affect the next one, so a round gives the same result when it runs alone.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.outcomes: list[Outcome] = []

    async def run(self, seeds: Iterable[int]) -> None:
        """Run the rounds of these seeds."""
        store = LateStore()
        async with store.served() as url:
            for seed in seeds:
                folder = self._folder / f"round-{seed}"
                with patch.dict(os.environ, _endpoint(url)):
                    outcome = await self._run(StoreRound(seed, folder, store))
                self.outcomes.append(outcome)
                print(f"  {outcome.result}: seed {seed}, {outcome.what} ({outcome.seconds:.1f} s)")
                if outcome.held:
                    shutil.rmtree(folder)

    async def _run(self, one: StoreRound) -> Outcome:
        async with LocalCluster(CONFIG, on_output=lambda process, line: None) as cluster:
            return await one.run(cluster)


def print_summary(outcomes: Iterable[Outcome]) -> None:
    """Print the number of rounds for each result."""
    counts = Counter(one.result for one in outcomes)
    stuck = sum(count for result, count in counts.items() if result.startswith("stuck"))
    named = {name: counts[name] for name in FAILURES if counts[name]}
    wrong = counts.total() - counts["exact"] - sum(named.values()) - stuck
    said = ", ".join(f"{name}: {count}" for name, count in named.items()) or "none"
    print(
        f"{counts.total()} rounds: {counts['exact']} exact, {sum(named.values())} named failures "
        f"({said}), {stuck} stuck, {wrong} wrong"
    )


def _endpoint(url: str) -> dict[str, str]:
    """Return the environment variables of an object store's clients."""
    return {
        "AWS_ENDPOINT": url,
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "here",
    }


def _workers(cluster: LocalCluster) -> dict[str, int]:
    return {name: pid for name, pid in cluster.pids().items() if name != COORDINATOR}


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        if pid:
            os.kill(pid, number)


def _limit_files(pid: int, size_bytes: int | None) -> None:
    """Limit the size of a process's files; None removes the limit."""
    with suppress(ProcessLookupError):
        # Only the soft limit changes: raising a hard limit again would need privileges.
        _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        soft = hard if size_bytes is None else size_bytes
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft, hard))
