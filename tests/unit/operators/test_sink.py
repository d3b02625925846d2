"""Sinks: collecting, printing and refusing records, and the time of commits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection
from typing import Any

import pytest

from flinknet.datastream import (
    CheckpointedSink,
    CheckpointListener,
    CommitContext,
    Committer,
    RuntimeContext,
    Sink,
    SinkFunction,
    WithdrawableOutput,
)
from flinknet.errors import JobFailedError
from flinknet.operators.operators import CallableSinkOperator
from flinknet.operators.sink import ConfirmedSink, SinkOperator
from flinknet.state.state_handler import StateHandler
from tests.unit.operators.harness import Harness, context


class Diary(Sink):
    """A sink function that records its calls, in coroutines."""

    def __init__(self) -> None:
        self.entries: list[Any] = []

    async def open(self, runtime_context: RuntimeContext) -> None:
        await asyncio.sleep(0)
        self.entries.append("open")

    async def write(self, records: list[Any]) -> None:
        await asyncio.sleep(0)
        self.entries.append(records)

    async def finish(self) -> None:
        await asyncio.sleep(0)
        self.entries.append("finish")

    async def close(self) -> None:
        await asyncio.sleep(0)
        self.entries.append("close")


async def test_life_of_a_sink() -> None:
    diary = Diary()
    async with Harness(SinkOperator(diary)) as harness:
        await harness.process(1, 2)
        await harness.process(3)
        await harness.end_of_input()

    assert diary.entries == ["open", [1, 2], [3], "finish", "close"]


@pytest.mark.parametrize("method", ["open", "write", "finish", "close"])
async def test_failing_sink(method: str) -> None:
    class Broken(Diary):
        pass

    async def fail(self: Sink, *arguments: Any) -> None:
        raise OSError("disk full")

    setattr(Broken, method, fail)
    where = r"on 2 records of type int, str" if method == "write" else rf"in {method}\(\)"

    async def whole_life() -> None:
        async with Harness(SinkOperator(Broken())) as harness:
            await harness.process(1, "a")
            await harness.end_of_input()

    with pytest.raises(
        JobFailedError, match=rf'"tested" \(1/1\) failed {where}: OSError: disk full'
    ):
        await whole_life()


class Plain(CheckpointedSink):
    """A two-phase sink that records its calls."""

    def __init__(self) -> None:
        self.records: list[Any] = []
        self.asked: list[tuple[Any, ...]] = []
        self.refuses: str | None = None

    def write(self, records: list[Any]) -> None:
        self.records += records

    def roll(self) -> list[Any]:
        if self.refuses == "roll":
            raise OSError("disk full")
        records, self.records = self.records, []
        return ["".join(records)] if records else []

    def persist(self, committables: list[Any]) -> None:
        self._ask("persist", committables)

    def publish(self, checkpoint_id: int, committables: list[Any]) -> None:
        self._ask("publish", committables, checkpoint_id)

    def discard(self, kept: Collection[Any], is_own: Callable[[int], bool]) -> None:
        own = [index for index in range(4) if is_own(index)]
        self.asked.append(("discard", (list(kept), own)))

    def prepare_commit(self) -> None:
        raise AssertionError("a job with checkpoints does not ask")

    def create_committer(self, context: CommitContext) -> Committer:
        raise AssertionError("a worker asks, in the end")

    def _ask(self, what: str, committables: list[Any], *checkpoint_id: int) -> None:
        if self.refuses == what:
            raise OSError("disk full")
        if committables:
            self.asked.append((what, *checkpoint_id, list(committables)))


class Ledger(Plain, CheckpointListener):
    """A two-phase sink that also records the notifications of complete checkpoints."""

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.asked.append(("notify", checkpoint_id))


def ledger(
    index: int = 0, parallelism: int = 1, sink: Plain | None = None
) -> tuple[Plain, Harness]:
    sink = sink or Ledger()
    place = context(
        checkpointed=True,
        index=index,
        parallelism=parallelism,
        state=StateHandler(
            operator="tested",
            uid="tested",
            index=index,
            parallelism=parallelism,
            max_parallelism=128,
            types=None,
            now_ms=lambda: 0,
        ),
    )
    return sink, Harness(SinkOperator(sink), place)


def taken(harness: Harness, checkpoint_id: int) -> bytes:
    """Take a checkpoint, and return the operator's state in it."""
    harness.operator.prepare_snapshot(checkpoint_id)
    snapshot = harness.context.state.snapshot(checkpoint_id, 0)
    for _ in snapshot.slices():
        pass
    return b"".join(map(bytes, snapshot.operator_pieces()))


async def test_output_of_a_checkpoint_is_published_on_its_completion() -> None:
    """It is made durable before the checkpoint is acknowledged.

    It is not published before the checkpoint is complete, even if the next one was taken meanwhile.
    """
    sink, harness = ledger()
    async with harness:
        await harness.process("a", "b")
        taken(harness, 1)
        await harness.process("c")
        taken(harness, 2)
        await harness.operator.persist()
        await harness.operator.persist()
        await harness.operator.notify_checkpoint_complete(1)
        await harness.process("d")
        taken(harness, 3)
        await harness.operator.persist()
        await harness.operator.notify_checkpoint_complete(3)
        await harness.process("e")
        await harness.end_of_input()
        assert harness.operator.awaits_checkpoint()
        taken(harness, 4)
        await harness.operator.persist()
        await harness.operator.notify_checkpoint_complete(4)
    assert sink.asked == [
        ("discard", ([], [0, 1, 2, 3])),
        ("persist", ["ab", "c"]),
        ("notify", 1),
        ("publish", 1, ["ab"]),
        ("persist", ["d"]),
        ("notify", 3),
        ("publish", 2, ["c"]),
        ("publish", 3, ["d"]),
        ("persist", ["e"]),
        ("notify", 4),
        ("publish", 4, ["e"]),
    ]
    assert harness.context.committables == []


async def test_unpublished_output_awaits_a_last_checkpoint() -> None:
    """O2: it is in no result, which only this attempt of this job would have."""
    sink, harness = ledger()
    async with harness:
        await harness.process("a")
        taken(harness, 1)
        await harness.operator.persist()
        await harness.end_of_input()
        await harness.operator.notify_checkpoint_complete(1)
    assert ("publish", 1, ["a"]) in sink.asked
    assert harness.context.committables == []


class Slow(Plain):
    """A sink that takes its time to make data durable."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = threading.Event()
        self.under_way = 0
        self.began = 0

    def persist(self, committables: list[Any]) -> None:
        self.began += 1
        self.under_way += 1
        assert self.under_way == 1, "one call at a time"
        assert committables, "never for nothing"
        assert self.goes_on.wait(30)
        self.under_way -= 1
        super().persist(committables)


@pytest.mark.parametrize("more", ["", "b"])
async def test_a_checkpoint_and_a_savepoint_may_be_made_durable_at_a_time(more: str) -> None:
    """Each is acknowledged when everything that it refers to is durable, and neither fails."""
    sink = Slow()
    _, harness = ledger(sink=sink)
    async with harness:
        await harness.process("a")
        taken(harness, 1)
        first = asyncio.create_task(harness.operator.persist())
        while not sink.began:
            await asyncio.sleep(0)
        if more:
            await harness.process(more)
        taken(harness, 2)
        second = asyncio.create_task(harness.operator.persist())
        await asyncio.sleep(0)
        assert not second.done(), "what it refers to is not durable yet"
        sink.goes_on.set()
        await asyncio.gather(first, second)
        assert {one for ask in sink.asked if ask[0] == "persist" for one in ask[1]} == {"a", *more}
        await harness.process("c")
        taken(harness, 3)
        await harness.operator.persist()
        assert sink.asked[-1] == ("persist", ["c"])


async def test_making_output_durable_continues_after_an_abort() -> None:
    """The next checkpoint waits for it, and does not send the same files a second time."""
    sink = Slow()
    _, harness = ledger(sink=sink)
    async with harness:
        await harness.process("a")
        taken(harness, 1)
        given_up = asyncio.create_task(harness.operator.persist())
        while not sink.began:
            await asyncio.sleep(0)
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        await harness.process("b")
        taken(harness, 2)
        later = asyncio.create_task(harness.operator.persist())
        for _ in range(10):
            await asyncio.sleep(0)
        assert sink.began == 1
        sink.goes_on.set()
        await later
    assert [ask[1] for ask in sink.asked if ask[0] == "persist"] == [["a"], ["b"]]


async def test_a_sink_with_nothing_left_awaits_no_checkpoint() -> None:
    made = Plain()
    _, harness = ledger(sink=made)
    async with harness:
        await harness.process("a")
        assert harness.operator.awaits_checkpoint() is False
        taken(harness, 1)
        assert harness.operator.awaits_checkpoint() is True
        await harness.operator.notify_checkpoint_complete(1)
        await harness.end_of_input()
        assert harness.operator.awaits_checkpoint() is False


@pytest.mark.parametrize("parallelism", [1, 2, 3])
async def test_a_restored_job_publishes_what_its_checkpoint_has(parallelism: int) -> None:
    """Each committable is published by one subtask, at any parallelism, and no subtask removes one.

    The checkpoint is another job's, so its number means nothing here.
    """
    parts = []
    for index in range(2):
        _, harness = ledger(index, 2)
        async with harness:
            await harness.process(f"from {index}")
            parts.append(taken(harness, 1))
    published: list[Any] = []
    for index in range(parallelism):
        sink, harness = ledger(index, parallelism)
        for _ in harness.context.state.restore(1, [b"", b""], parts):
            pass
        async with harness:
            (_, (kept, own)), *rest = sink.asked
        for _, number, committables in rest:
            assert number == 0
            published += committables
        assert kept == ["from 0", "from 1"]
        assert own == [one for one in range(4) if one % parallelism == index]
    assert sorted(published) == ["from 0", "from 1"]


class Erasable(Ledger, WithdrawableOutput):
    """A sink that can take back its published records."""

    def withdraw_after(self, checkpoint_id: int) -> None:
        self.asked.append(("withdraw", checkpoint_id))


class Told(SinkFunction, CheckpointListener, WithdrawableOutput):
    """A sink function that is notified of checkpoints and can take back its effects, without two
    phases."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    def open(self, runtime_context: RuntimeContext) -> None:
        self.asked.append(("open",))

    def invoke(self, value: Any) -> None:
        self.asked.append(("invoke", value))

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.asked.append(("notify", checkpoint_id))

    async def withdraw_after(self, checkpoint_id: int) -> None:
        self.asked.append(("withdraw", checkpoint_id))


async def test_a_sink_takes_back_what_came_behind_the_checkpoint_before_it_publishes() -> None:
    """Data that an earlier attempt may still publish is discarded first, so that no attempt
    publishes it."""
    first, harness = ledger(sink=Erasable())
    async with harness:
        await harness.process("a")
        taken(harness, 1)
        await harness.process("b")
        state = taken(harness, 2)
    assert [what for what, *_ in first.asked] == ["discard"], "a job that begins withdraws nothing"
    sink, harness = ledger(sink=Erasable())
    list(harness.context.state.restore(2, [b""], [state], harness.context.job_id))
    async with harness:
        assert sink.asked == [
            ("discard", (["a", "b"], [0, 1, 2, 3])),
            ("withdraw", 2),
            ("publish", 1, ["a"]),
            ("publish", 2, ["b"]),
        ]
    sink, harness = ledger(sink=Erasable())
    list(harness.context.state.restore(2, [b""], [state], "another job"))
    async with harness:
        assert [what for what, *_ in sink.asked] == ["discard", "publish"]


@pytest.mark.parametrize(("checkpointed", "job_id"), [(True, "embedded"), (True, "x"), (False, "")])
async def test_a_function_that_is_told_of_checkpoints_takes_back_output_before_any_record(
    checkpointed: bool, job_id: str
) -> None:
    function = Told()
    place = context(checkpointed=checkpointed)
    if checkpointed:
        list(place.state.restore(7, [], [], job_id))
    async with Harness(CallableSinkOperator(function), place) as harness:
        await harness.process("a")
    withdrawn = [("withdraw", 7)] if job_id == place.job_id else []
    assert function.asked == [("open",), *withdrawn, ("invoke", "a")]


async def test_output_that_cannot_be_withdrawn_fails_the_attempt() -> None:
    class Broken(Erasable):
        def withdraw_after(self, checkpoint_id: int) -> None:
            raise OSError("no connection")

    _, harness = ledger(sink=Broken())
    list(harness.context.state.restore(2, [b""], [b""], harness.context.job_id))
    with pytest.raises(JobFailedError, match=r"failed in withdraw_after\(\): OSError: no conn"):
        async with harness:
            pass


async def test_output_that_cannot_be_published_stays_pending() -> None:
    sink, harness = ledger()
    async with harness:
        await harness.process("a")
        taken(harness, 1)
        await harness.operator.persist()
        sink.refuses = "publish"
        message = "failed when a checkpoint was complete: OSError: disk full"
        with pytest.raises(JobFailedError, match=message):
            await harness.operator.notify_checkpoint_complete(1)
        sink.refuses = None
        await harness.end_of_input()
        await harness.operator.notify_checkpoint_complete(2)
    assert ("publish", 1, ["a"]) in sink.asked


@pytest.mark.parametrize("what", ["roll", "persist"])
@pytest.mark.parametrize("then", ["process", "end_of_input", "awaits_checkpoint"])
async def test_possibly_lost_output_fails_the_job_not_only_the_checkpoint(
    what: str, then: str
) -> None:
    """The disk is full when a file is ended or made durable, so its records must be processed
    again."""
    sink, harness = ledger()
    async with harness:
        await harness.process("a")
        sink.refuses = what
        with pytest.raises(OSError, match="disk full"):
            taken(harness, 1)
            await harness.operator.persist()
        sink.refuses = None
        with pytest.raises(JobFailedError, match="failed for a checkpoint: OSError: disk full"):
            match then:
                case "process":
                    await harness.process("b")
                case "end_of_input":
                    await harness.end_of_input()
                case _:
                    harness.operator.awaits_checkpoint()
    assert harness.context.committables == []


class Letters(ConfirmedSink):
    """A sink with a remote end that confirms all records when the test says so."""

    def __init__(self) -> None:
        self.taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def write(self, records: list[Any]) -> None:
        """Send the records."""

    async def confirm(self) -> None:
        await asyncio.shield(self.taken)


async def test_a_checkpoint_is_durable_when_the_other_end_has_confirmed() -> None:
    sink = Letters()
    operator = SinkOperator(sink)
    aborted, waiting = (asyncio.create_task(operator.persist()) for _ in range(2))
    await asyncio.sleep(0)
    aborted.cancel()
    await asyncio.wait([aborted])
    assert not waiting.done()
    sink.taken.set_result(None)
    await waiting
    assert not operator.awaits_checkpoint()


async def test_unconfirmed_output_fails_the_job() -> None:
    """The records may be lost and must be processed again."""
    async with Harness(SinkOperator(sink := Letters())) as harness:
        sink.taken.set_exception(ConnectionError("it is gone"))
        assert isinstance(harness.operator, SinkOperator)
        with pytest.raises(ConnectionError):
            await harness.operator.persist()
        with pytest.raises(JobFailedError, match="for a checkpoint: ConnectionError: it is gone"):
            harness.operator.awaits_checkpoint()
