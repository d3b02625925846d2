"""Windows at work: their firing, their output, and late records."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from flinknet.errors import JobFailedError
from flinknet.functions.durations import Time
from flinknet.functions.evictors import CountEvictor, EvictingContents, TimeEvictor
from flinknet.functions.triggers import (
    CountTrigger,
    EventTimeTrigger,
    NeverTrigger,
    PurgingTrigger,
    Trigger,
    TriggerResult,
)
from flinknet.functions.window_functions import (
    ElementContents,
    ProcessWindowFunction,
    ReducedContents,
    WindowContents,
    WindowContext,
)
from flinknet.functions.windows import (
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from flinknet.operators.record_slices import RECORDS_FIRST
from flinknet.operators.side_outputs import OutputTag
from flinknet.operators.window_operator import WindowOperator
from flinknet.state.checkpointed_function import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from flinknet.state.descriptors import (
    ListStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from flinknet.state.state_handler import OperatorSnapshot, StateHandler
from flinknet.wire.events import MAX_WATERMARK, Watermark
from tests.unit.operators.harness import Harness, context
from tests.unit.operators.manual_time import ManualTime

TEN = Time.milliseconds(10)
TUMBLING = TumblingEventTimeWindows(TEN)


def first(value: Any) -> Any:
    return value[0]


def told(key: Any, place: WindowContext, elements: list[Any]) -> list[Any]:
    """Return the key, the window and the elements of a window."""
    return [(key, tuple(place.window()), sorted(value for _, value in elements))]


class Windows(Harness):
    """An open window operator on pairs of a key and a value, and its clock."""

    def __init__(
        self,
        assigner: WindowAssigner = TUMBLING,
        *,
        trigger: Any = None,
        contents: WindowContents | None = None,
        function: Any = told,
        method: Any = "process",
        stamped: bool = True,
        **options: Any,
    ) -> None:
        self.time = ManualTime()
        self.windows = WindowOperator(
            assigner,
            trigger or assigner.get_default_trigger(),
            contents or ElementContents(),
            function,
            method,
            first,
            **options,
        )
        super().__init__(self.windows, context(processing_time=self.time), stamped=stamped)

    async def add(self, *stamps: int, key: str = "k") -> list[Any]:
        """Add records with their timestamps as values."""
        return await self.process(*((stamp, (key, stamp)) for stamp in stamps))

    async def advance(self, timestamp_ms: int) -> list[Any]:
        """Advance event time, and return the records emitted before the watermark was passed on."""
        before = len(self.records)
        await self.operator.process_event_time(Watermark(timestamp_ms))
        assert self.event_time[-1] == Watermark(timestamp_ms)
        return self.records[before:]

    @property
    def is_empty(self) -> bool:
        """Whether the operator keeps no state."""
        timers = len(self.windows.event_timers) + len(self.windows.processing_timers)
        return not self.windows._entries and not timers


async def test_a_window_speaks_when_event_time_has_come_to_its_end() -> None:
    async with Windows() as windows:
        assert await windows.add(3, 12, 5) == []
        assert await windows.add(4, key="j") == []
        assert await windows.advance(8) == []
        assert await windows.advance(9) == [
            (9, ("k", (0, 10), [3, 5])),
            (9, ("j", (0, 10), [4])),
        ]
        assert await windows.advance(MAX_WATERMARK) == [(19, ("k", (10, 20), [12]))]
        assert windows.is_empty


async def test_a_record_may_be_in_several_windows() -> None:
    sliding = SlidingEventTimeWindows(TEN, Time.milliseconds(5))
    async with Windows(sliding) as windows:
        await windows.add(3, 7)
        assert await windows.advance(MAX_WATERMARK) == [
            (4, ("k", (-5, 5), [3])),
            (9, ("k", (0, 10), [3, 7])),
            (14, ("k", (5, 15), [7])),
        ]


async def test_sessions_merge_when_a_record_comes_between_them() -> None:
    async with Windows(EventTimeSessionWindows(TEN)) as windows:
        await windows.add(0, 15, 3, 30)
        assert len(windows.windows._entries["k"]) == 3
        await windows.add(9)
        assert len(windows.windows._entries["k"]) == 2
        assert await windows.advance(20) == []
        assert await windows.advance(24) == [(24, ("k", (0, 25), [0, 3, 9, 15]))]
        assert await windows.advance(MAX_WATERMARK) == [(39, ("k", (30, 40), [30]))]
        assert windows.is_empty


async def test_merged_sessions_reduce_to_one_and_add_up_what_triggers_remember() -> None:
    total = ReducedContents(lambda one, other: ("k", one[1] + other[1]))
    sessions = EventTimeSessionWindows(TEN)
    trigger = PurgingTrigger(CountTrigger(4))
    async with Windows(sessions, trigger=trigger, contents=total, function=None) as windows:
        assert await windows.add(0, 15, 16) == []
        assert await windows.add(8) == [(25, ("k", 39))]
        assert await windows.add(40, 33) == []


async def test_an_empty_session_merges_too() -> None:
    trigger = PurgingTrigger(CountTrigger(1))
    async with Windows(EventTimeSessionWindows(TEN), trigger=trigger) as windows:
        assert await windows.add(0, 15) == [
            (9, ("k", (0, 10), [0])),
            (24, ("k", (15, 25), [15])),
        ]
        assert await windows.add(9) == [(24, ("k", (0, 25), [9]))]
        await windows.advance(MAX_WATERMARK)
        assert windows.is_empty


async def test_late_records_are_counted_and_dropped() -> None:
    async with Windows() as windows:
        await windows.advance(9)
        assert await windows.add(3, 9, 10) == []
        assert windows.context.metrics == {"late_records_dropped": 2}
        assert await windows.advance(19) == [(19, ("k", (10, 20), [10]))]
        assert windows.is_empty


async def test_a_record_between_windows_is_late_only_if_its_time_is_over() -> None:
    """The windows have 5 ms and start every 10 ms, so the assigner puts half of the records into
    none."""
    late = OutputTag("late")
    gaps = SlidingEventTimeWindows(Time.milliseconds(5), TEN)
    for lateness_ms in (0, 3):
        async with Windows(gaps, late_tag=late, lateness_ms=lateness_ms) as windows:
            assert await windows.add(7, 1, 8) == []
            assert await windows.advance(9) == [(4, ("k", (0, 5), [1]))]
            assert await windows.add(10, 17) == []
            over = [(one, (late, ("k", one))) for one in (3, 7)]
            expected = [one for one in over if one[0] + lateness_ms <= 9]
            assert await windows.add(3, 7) == expected
            await windows.advance(MAX_WATERMARK)
            assert windows.is_empty


async def test_a_record_between_windows_by_the_clock_is_never_late() -> None:
    gaps = SlidingProcessingTimeWindows(Time.milliseconds(5), TEN)
    async with Windows(gaps, stamped=False) as windows:
        await windows.time.advance(7)
        assert await windows.process(("k", 1)) == []
        assert windows.is_empty
        assert windows.context.metrics == {}


async def test_late_records_go_to_their_side_output() -> None:
    late = OutputTag("late")
    async with Windows(late_tag=late) as windows:
        await windows.advance(9)
        assert await windows.add(3, 10) == [(3, (late, ("k", 3)))]
        assert windows.context.metrics == {}


async def test_a_window_speaks_again_for_each_record_within_the_allowed_lateness() -> None:
    async with Windows(lateness_ms=5) as windows:
        await windows.add(3)
        assert await windows.advance(9) == [(9, ("k", (0, 10), [3]))]
        assert await windows.add(4) == [(9, ("k", (0, 10), [3, 4]))]
        assert await windows.advance(13) == []
        assert await windows.add(5) == [(9, ("k", (0, 10), [3, 4, 5]))]
        assert await windows.advance(14) == []
        assert windows.is_empty
        assert await windows.add(6) == []


async def test_lateness_without_end_keeps_windows() -> None:
    async with Windows(lateness_ms=MAX_WATERMARK) as windows:
        await windows.add(3)
        await windows.advance(MAX_WATERMARK - 1)
        assert await windows.add(4) == [(9, ("k", (0, 10), [3, 4]))]
        assert not windows.is_empty


async def test_windows_by_the_clock() -> None:
    windows = Windows(TumblingProcessingTimeWindows(TEN), stamped=False)
    async with windows:
        await windows.time.advance(3)
        await windows.process(("k", 1), ("k", 2))
        assert windows.time.due_ms == [9]
        await windows.time.advance(12)
        await windows.process(("k", 3), ("j", 4))
        assert windows.records == [("k", (0, 10), [1, 2])]
        await windows.time.advance(19)
        await windows.process(("k", 6))
        assert windows.records[1:] == [], "its last millisecond is part of a window"
        await windows.time.advance(20)
        assert windows.records[1:] == [("k", (10, 20), [3, 6]), ("j", (10, 20), [4])]
        assert windows.is_empty
        assert windows.time.due_ms == []
        await windows.process(("k", 5))
    assert windows.time.due_ms == []


async def test_sessions_by_the_clock() -> None:
    async with Windows(ProcessingTimeSessionWindows(TEN), stamped=False) as windows:
        await windows.process(("k", 1))
        await windows.time.advance(5)
        await windows.process(("k", 2), ("j", 3))
        await windows.time.advance(15)
        assert windows.records == [("k", (0, 15), [1, 2]), ("j", (5, 15), [3])]
        assert windows.is_empty


async def moved(before: Windows, after: Windows) -> None:
    """Let one operator be opened with the state of another."""
    await before.operator.open(before.context)
    await before.add(3, 12)
    await before.add(5, key="j")
    snapshot = before.context.state.snapshot(1, 0)
    await before.add(4)
    hand_over(snapshot, after)
    await before.operator.close()


def hand_over(snapshot: OperatorSnapshot, after: Windows) -> None:
    """Write the captured state, and restore it."""
    for _ in snapshot.slices():
        pass
    keyed = [b"".join(snapshot.keyed_pieces())]
    for _ in after.context.state.restore(1, keyed, [b"".join(snapshot.operator_pieces())]):
        pass


@pytest.mark.parametrize("kind", [TumblingEventTimeWindows, EventTimeSessionWindows])
async def test_windows_and_their_timers_are_state(kind: Any) -> None:
    """State in the checkpoint continues as if nothing had happened; later state is lost."""
    assigner = kind(TEN)
    after = Windows(assigner)
    await moved(Windows(assigner), after)
    async with after as windows:
        said = await windows.advance(MAX_WATERMARK)
        assert windows.is_empty
    if kind is TumblingEventTimeWindows:
        assert sorted(said) == [
            (9, ("j", (0, 10), [5])),
            (9, ("k", (0, 10), [3])),
            (19, ("k", (10, 20), [12])),
        ]
    else:
        assert sorted(said) == [(14, ("j", (5, 15), [5])), (21, ("k", (3, 22), [3, 12]))]


async def test_a_checkpoint_between_many_windows_has_those_that_have_not_spoken() -> None:
    """K23: the windows that have fired by then have emitted. The restored job fires the others."""
    keys = [str(number) for number in range(3 * RECORDS_FIRST)]
    before, after = Windows(), Windows()
    said: list[list[Any]] = []

    async def interrupted() -> None:
        assert not before.event_time, "the watermark goes on when all have spoken"
        if not said:
            hand_over(before.context.state.snapshot(1, 0), after)
        said.append(before.records)

    before.context = replace(before.context, interrupt=interrupted)
    async with before:
        for key in keys:
            await before.add(3, key=key)
        everything = await before.advance(9)
    assert len(said[0]) == RECORDS_FIRST
    async with after:
        rest = await after.advance(9)
    assert sorted(said[0] + rest) == sorted(everything)
    assert len(everything) == len(keys)


async def test_timers_of_the_clock_are_state() -> None:
    after = Windows(TumblingProcessingTimeWindows(TEN))
    await moved(Windows(TumblingProcessingTimeWindows(TEN)), after)
    async with after as windows:
        await windows.time.advance(10)
        assert sorted(value for _, value in windows.records) == [
            ("j", (0, 10), [5]),
            ("k", (0, 10), [3, 12]),
        ]


async def test_a_capture_does_not_see_what_comes_behind_it() -> None:
    async with Windows() as windows:
        await windows.add(3)
        snapshot = windows.context.state.snapshot(1, 0)
        await windows.add(4)
        assert await windows.advance(9) == [(9, ("k", (0, 10), [3, 4]))]
        for _ in snapshot.slices():
            pass
        assert await windows.add(13) == []
        assert await windows.advance(19) == [(19, ("k", (10, 20), [13]))]


async def test_an_earlier_timer_moves_the_alarm() -> None:
    async with Windows(TumblingProcessingTimeWindows(TEN), stamped=False) as windows:
        windows.windows.register_processing_timer(50, "k", TimeWindow(0, 51))
        windows.windows.register_processing_timer(20, "k", TimeWindow(0, 21))
        assert windows.time.due_ms == [20]


async def test_global_windows_by_count() -> None:
    trigger = PurgingTrigger(CountTrigger(2))
    async with Windows(GlobalWindows(), trigger=trigger, stamped=False) as windows:
        emitted = await windows.process(("k", 1), ("j", 9), ("k", 2), ("k", 3))
        assert emitted == [("k", (), [1, 2])]
        assert await windows.process(("k", 4)) == [("k", (), [3, 4])]


async def test_a_window_function_may_be_of_any_kind() -> None:
    async def awaiting(key: Any, window: Any, inputs: list[Any]) -> list[Any]:
        return [(key, tuple(window), len(inputs))]

    async def generating(key: Any, window: Any, inputs: list[Any]) -> AsyncIterator[Any]:
        for one in inputs:
            yield one

    def nothing(key: Any, window: Any, inputs: list[Any]) -> None:
        return None

    for function, expected in (
        (awaiting, [(9, ("k", (0, 10), 2))]),
        (generating, [(9, ("k", 1)), (9, ("k", 2))]),
        (nothing, []),
    ):
        async with Windows(function=function, method="apply") as windows:
            await windows.add(1, 2)
            assert await windows.advance(9) == expected


async def test_a_stream_without_keys_gives_functions_none() -> None:
    def count(place: WindowContext, elements: list[Any]) -> list[Any]:
        return [(place.current_watermark(), place.current_processing_time(), len(elements))]

    async with Windows(function=count, keyed=False) as windows:
        await windows.add(1, 2)
        assert await windows.advance(9) == [(9, (9, 0, 2))]


async def test_many_results_are_emitted_in_pieces() -> None:
    def many(key: Any, place: WindowContext, elements: list[Any]) -> Iterator[int]:
        yield from range(3000)

    async with Windows(function=many) as windows:
        await windows.add(1)
        assert len(await windows.advance(9)) == 3000
        assert max(len(batch) for batch in windows.batches) < 2100
    async with Windows(function=None) as windows:
        await windows.add(*([1] * 2000))
        assert len(await windows.advance(9)) == 2000


class Living(ProcessWindowFunction):
    """Records the calls of its life cycle."""

    def open(self, runtime_context: Any) -> None:
        self.metrics = runtime_context.metrics
        self.metrics["opened"] = True

    def process(self, key: Any, context: WindowContext, elements: list[Any]) -> list[Any]:
        return []

    def finish(self) -> list[str]:
        return ["the end"]

    def close(self) -> None:
        self.metrics["closed"] = True


class Failing(Living):
    def __init__(self, where: str) -> None:
        self.where = where

    def open(self, runtime_context: Any) -> None:
        self._fail("open")

    def process(self, key: Any, context: WindowContext, elements: list[Any]) -> list[Any]:
        self._fail("process")
        return []

    def finish(self) -> list[str]:
        self._fail("finish")
        return []

    def close(self) -> None:
        self._fail("close")

    def _fail(self, here: str) -> None:
        if here == self.where:
            raise ZeroDivisionError(here)


async def test_a_window_function_has_its_life() -> None:
    windows = Windows(function=Living())
    async with windows:
        assert await windows.end_of_input() == [(None, "the end")]
    assert windows.context.metrics == {"opened": True, "closed": True}


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("open", r"in open\(\)"),
        ("process", "on window TimeWindow.start=0, end=10. of the key 'k'"),
        ("finish", r"in finish\(\)"),
        ("close", r"in close\(\)"),
    ],
)
async def test_errors_say_where(where: str, said: str) -> None:
    with pytest.raises(JobFailedError, match=f"failed {said}: ZeroDivisionError: {where}"):
        async with Windows(function=Failing(where)) as windows:
            await windows.add(1)
            await windows.advance(9)
            await windows.end_of_input()


class Remembering(ProcessWindowFunction, CheckpointedFunction):
    """Counts how often a window has fired, and how often windows of the key have."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.calls = context.get_operator_state_store().get_list_state(CALLS)
        self.number = sum(self.calls.get())

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.calls.update([self.number])

    def process(self, key: Any, context: WindowContext, elements: list[Any]) -> list[Any]:
        self.number += 1
        mine = context.window_state().get_state(SPOKEN)
        mine.update((mine.value() or 0) + 1)
        all_of_key = context.global_state().get_state(SPOKEN)
        all_of_key.update((all_of_key.value() or 0) + 1)
        return [(key, mine.value(), all_of_key.value(), self.number)]

    async def clear(self, context: WindowContext) -> None:
        assert context.window_state().get_state(SPOKEN).value(), "it is there for the last time"
        if context.window() == (10, 20):
            raise ZeroDivisionError("clear")


SPOKEN, CALLS = ValueStateDescriptor("spoken"), ListStateDescriptor("calls")


async def test_window_functions_keep_state_of_a_window_and_of_its_key() -> None:
    """The state of a window lasts as long as late records may fire it again."""
    async with Windows(function=Remembering(), lateness_ms=5) as windows:
        await windows.add(3)
        assert await windows.advance(9) == [(9, ("k", 1, 1, 1))]
        assert await windows.add(4) == [(9, ("k", 2, 2, 2))]
        await windows.add(5, key="j")
        await windows.advance(14)
        states = windows.context.state.keyed.entries
        assert not len(states["_window_state/spoken"].table)
        assert dict(states["spoken"].table.entries()) == {"k": 2, "j": 1}
        await windows.add(25)
        assert (await windows.advance(29))[0] == (29, ("k", 1, 3, 4))


async def test_clear_may_fail() -> None:
    async with Windows(function=Remembering()) as windows:
        await windows.add(12)
        with pytest.raises(JobFailedError, match=r"in clear\(\) of window .* of the key 'k': Zero"):
            await windows.advance(19)


async def test_state_of_window_functions_is_in_snapshots() -> None:
    """This covers state of windows, of keys, and of the function itself.

    Each lies in the key group of its key.
    """
    async with Windows(function=Remembering(), lateness_ms=50) as before:
        await before.add(*range(9))
        for key in "abcdef":
            await before.add(3, key=key)
        await before.advance(9)
        snapshot = before.context.state.snapshot(1, 0)
        for _ in snapshot.slices():
            pass
    found: list[Any] = []
    for index in range(2):
        after = Windows(function=Remembering(), lateness_ms=50)
        place = context(processing_time=after.time, index=index, parallelism=2)
        state = StateHandler(uid="", index=index, parallelism=2)
        for _ in state.restore(
            1, [b"".join(snapshot.keyed_pieces())], [b"".join(snapshot.operator_pieces())]
        ):
            pass
        after.context = replace(place, state=state)
        async with after as windows:
            keys = [key for key, _ in state.keyed.entries["_windows"].table.entries()]
            await windows.advance(9)
            for key in keys:
                before_it = len(found)
                found += [said[1] for said in await windows.add(4, key=key)]
                assert [one[:3] for one in found[before_it:]] == [(key, 2, 2)]
    assert sorted(one[0] for one in found) == ["a", "b", "c", "d", "e", "f", "k"]
    assert sum(one[3] for one in found) > 7 * 2, "one of the two has the calls of before"


class Hasty(Remembering):
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        raise ZeroDivisionError("no")


async def test_a_function_that_cannot_be_initialized_is_named() -> None:
    with pytest.raises(JobFailedError, match=r"in initialize_state\(\): ZeroDivisionError"):
        async with Windows(function=Hasty()):
            pass


async def test_an_evictor_takes_records_from_a_window_that_speaks() -> None:
    """The window fires after every second record, with at most three elements.

    Evicted elements do not come back.
    """
    contents = EvictingContents(ElementContents(), CountEvictor(3))
    async with Windows(GlobalWindows(), trigger=CountTrigger(2), contents=contents) as windows:
        said = await windows.add(1, 2, 3, 4, 5, 6)
        assert [elements for _, (_, _, elements) in said] == [[1, 2], [2, 3, 4], [4, 5, 6]]


async def test_sessions_merge_what_evictors_look_at() -> None:
    contents = EvictingContents(ReducedContents(lambda one, other: other), TimeEvictor(11))
    async with Windows(EventTimeSessionWindows(TEN), contents=contents, function=None) as windows:
        await windows.add(0, 15, 9)
        assert await windows.advance(MAX_WATERMARK) == [(24, ("k", 9))]
        assert windows.is_empty


async def test_a_fold_of_nothing_says_nothing() -> None:
    class Everything(CountEvictor):
        def evict(self, elements: list[Any]) -> None:
            elements.clear()

    contents = EvictingContents(ReducedContents(max), Everything(1))
    async with Windows(contents=contents) as windows:
        await windows.add(1)
        assert await windows.advance(9) == []
        assert windows.is_empty


class EveryThird(Trigger):
    """A trigger written as in PyFlink's programs: it counts in a state, which it merges and
    clears."""

    def __init__(self) -> None:
        self.count = ReducingStateDescriptor("count", lambda one, other: one + other)
        self.seen = ListStateDescriptor("seen")

    def on_element(
        self, element: Any, timestamp: Any, window: Any, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        ctx.get_partitioned_state(self.seen).add(timestamp)
        count = ctx.get_partitioned_state(self.count)
        count.add(1)
        if count.get() < 3:
            return TriggerResult.CONTINUE
        count.clear()
        return TriggerResult.FIRE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(self.count)
        ctx.merge_partitioned_state(self.seen)
        self.last_seen = list(ctx.get_partitioned_state(self.seen))

    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        ctx.get_partitioned_state(self.count).clear()
        ctx.get_partitioned_state(self.seen).clear()


async def test_a_trigger_has_states_of_its_window() -> None:
    async with Windows(trigger=EveryThird()) as windows:
        assert await windows.add(1, 2, 11) == []
        assert await windows.add(3) == [(9, ("k", (0, 10), [1, 2, 3]))]
        assert await windows.add(12) == []
        assert await windows.advance(9) == []
        assert await windows.add(13) == [(19, ("k", (10, 20), [11, 12, 13]))]
        assert await windows.advance(MAX_WATERMARK) == []
        assert windows.is_empty


async def test_states_of_a_trigger_are_merged_with_their_windows() -> None:
    trigger = EveryThird()
    async with Windows(EventTimeSessionWindows(TEN), trigger=trigger) as windows:
        assert await windows.add(1, 15) == []
        assert await windows.add(8) == [(24, ("k", (1, 25), [1, 8, 15]))]
        assert sorted(trigger.last_seen) == [1, 15]
        assert await windows.advance(MAX_WATERMARK) == []
        assert windows.is_empty


async def test_a_trigger_that_fails_is_named_with_its_window() -> None:
    class Broken(EventTimeTrigger):
        def on_event_time(self, *arguments: Any) -> Any:
            raise ZeroDivisionError

    async with Windows(trigger=Broken()) as windows:
        await windows.add(1)
        with pytest.raises(JobFailedError, match="on window .* of the key 'k': ZeroDivision"):
            await windows.advance(9)


async def test_event_time_needs_timestamps() -> None:
    async with Windows() as windows:
        with pytest.raises(JobFailedError, match="it has no timestamp"):
            await windows.process((None, ("k", 1)))


async def test_a_trigger_may_never_fire() -> None:
    async with Windows(trigger=NeverTrigger()) as windows:
        await windows.add(1)
        assert await windows.advance(MAX_WATERMARK) == []
        assert windows.is_empty


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 60)), max_size=40),
    st.integers(1, 20),
    st.sampled_from(["tumbling", "sliding", "sessions"]),
)
@example([("a", 8), ("a", 14), ("a", 13)], 1, "sessions")
async def test_windows_say_what_a_batch_computation_says(
    records: list[tuple[str, int]], bound: int, kind: str
) -> None:
    """No record is late if watermarks stay behind the coming records.

    A session joins a record at its end, unless a watermark has passed its last millisecond before.
    """
    size = Time.milliseconds(10)
    assigner: WindowAssigner = {
        "tumbling": TUMBLING,
        "sliding": SlidingEventTimeWindows(size, Time.milliseconds(4)),
        "sessions": EventTimeSessionWindows(Time.milliseconds(5)),
    }[kind]
    async with Windows(assigner) as windows:
        for number, (key, stamp) in enumerate(records):
            await windows.add(stamp, key=key)
            if number % bound == 0:
                await windows.advance(min((one for _, one in records[number:]), default=0) - 2)
        await windows.advance(MAX_WATERMARK)
        assert windows.is_empty
        assert sorted(value for _, value in windows.records) == sorted(in_batch(assigner, records))


def in_batch(assigner: WindowAssigner, records: list[tuple[str, int]]) -> list[Any]:
    """Return all windows of all records, with each session as one."""
    found: dict[tuple[str, tuple[int, ...]], list[int]] = {}
    last: dict[str, tuple[int, ...]] = {}
    for key, stamp in sorted(records, key=lambda record: record[1]):
        for assigned in assigner.assign_windows((key, stamp), stamp):
            window = tuple(assigned)
            if assigner.merges:
                start, end = last.get(key, (0, -1))
                values = found.pop((key, (start, end)), []) if window[0] <= end else []
                window = (start, window[1]) if values else window
                last[key] = window
                found[key, window] = [*values, stamp]
            else:
                found.setdefault((key, window), []).append(stamp)
    return [(key, window, sorted(values)) for (key, window), values in found.items()]


class TimerAt(Trigger):
    """A trigger that sets or deletes a timer at a given time."""

    def __init__(self, method: str, time: Any) -> None:
        self._method = method
        self._time = time

    def on_element(self, element: Any, timestamp: Any, window: Any, ctx: Any) -> TriggerResult:
        getattr(ctx, self._method)(self._time)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_merge(self, window: Any, ctx: Any) -> None:
        """Do nothing: the trigger has no state."""

    def clear(self, window: Any, ctx: Any) -> None:
        """Do nothing: the trigger has no state."""


@pytest.mark.parametrize(
    "what", ["register_event", "register_processing", "delete_event", "delete_processing"]
)
@pytest.mark.parametrize("time", ["10", float("inf"), 2**63])
async def test_a_trigger_asks_for_timers_by_whole_milliseconds(what: str, time: Any) -> None:
    async with Windows(trigger=TimerAt(f"{what}_time_timer", time)) as windows:
        said = f'operator "tested".* on a record .*the time of a timer is {time!r}'
        with pytest.raises(JobFailedError, match=said):
            await windows.add(1)
