"""A chain: the order in which its operators open, end and close, and its errors."""

from __future__ import annotations

from typing import Any

import pytest

from flinknet.environment.processing_time import wall_clock_ms
from flinknet.errors import StateError
from flinknet.functions.context import RuntimeContext
from flinknet.graph.graph import ChainedOperator, JobVertex
from flinknet.operators.operators import Operator
from flinknet.operators.side_outputs import OutputTag
from flinknet.operators.timestamped_batch import Batch, TimestampedBatch, on_wire, values_of
from flinknet.runtime.chain import (
    MARKERS_QUEUED_MAX,
    OperatorChain,
    RecordWriterOutput,
    with_copies,
)
from flinknet.state.descriptors import ListStateDescriptor, StateKind
from flinknet.wire.events import LatencyMarker, Watermark, WatermarkStatus
from tests.unit.arrangements import content_of
from tests.unit.operators.harness import context
from tests.unit.records.writing import Arranged

DIARY: list[Any] = []
"""The calls of the operators of a chain, which are copies of the given ones."""


class Noting(Operator):
    """An operator that passes records on and records its calls.

    It fails to close if its name says so.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    async def open(self, context: RuntimeContext) -> None:
        await super().open(context)
        DIARY.append(f"{self.name} opens as {context.operator_name}")
        context.metrics["opened"] = self.name
        context.committables.append(self.name)
        self.context = context

    async def process(self, records: list[Any]) -> None:
        DIARY.append((self.name, self.context.process_context.channel, records))
        await self._emit(records)

    async def process_watermark(self, watermark: Watermark) -> None:
        DIARY.append((self.name, watermark.timestamp_ms))
        await self._pass_on(watermark)

    async def end_of_input(self) -> None:
        DIARY.append(f"{self.name} ends")

    def awaits_checkpoint(self) -> bool:
        return "committing" in self.name

    async def close(self) -> None:
        DIARY.append(f"{self.name} closes")
        if "broken" in self.name:
            raise OSError(self.name)


class Made:
    """A factory that can be copied."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self) -> Operator:
        return Noting(self._name)


def chain_of(*inputs: tuple[str, int | None]) -> OperatorChain:
    """Make a chain of operators, each with its name and the index of the one before it."""
    DIARY.clear()
    operators = tuple(
        ChainedOperator(name, f"uid of {name}", Made(name), input_) for name, input_ in inputs
    )
    return OperatorChain(JobVertex(0, "v", 1, 128, "default", operators), context(), {})


async def test_operators_open_from_the_end_and_end_from_the_start() -> None:
    chain = chain_of(("a", None), ("b", 0), ("c", 1))
    await chain.open()
    assert DIARY == ["c opens as c", "b opens as b", "a opens as a"]
    DIARY.clear()
    await chain.end_of_input()
    await chain.close()
    assert DIARY == ["a ends", "b ends", "c ends", "a closes", "b closes", "c closes"]
    await chain.close()
    assert len(DIARY) == 6, "once"


async def test_records_go_down_every_branch() -> None:
    chain = chain_of(("a", None), ("b", 0), ("c", 0))
    await chain.open()
    DIARY.clear()
    chain.set_channel(3)
    await chain.head.process([1, 2])
    assert DIARY == [("a", 3, [1, 2]), ("b", 3, [1, 2]), ("c", 3, [1, 2])]
    await chain.close()


async def test_each_operator_counts_what_it_takes_and_emits() -> None:
    chain = chain_of(("a", None), ("b", 0), ("c", 0))
    await chain.open()
    await chain.head.process([1, 2])
    await chain.head.process_event_time(Watermark(7))
    totals = {one.name: one for one in chain.operator_totals(5, 3)}
    assert [(one.records_in, one.records_out) for one in totals.values()] == [
        (5, 2),
        (2, 2),
        (2, 2),
    ]
    assert [one.uid for one in totals.values()] == chain.uids
    assert [one.input_watermark for one in totals.values()] == [3, 7, 7]
    assert {one.output_watermark for one in totals.values()} == {7}
    assert {one.late_records_dropped for one in totals.values()} == {None}
    await chain.close()


async def test_each_operator_leaves_its_own_metrics_and_committables() -> None:
    chain = chain_of(("a", None), ("b", 0))
    await chain.open()
    assert chain.metrics() == {"a": {"opened": "a"}, "b": {"opened": "b"}}
    assert chain.committables() == {"uid of a": ["a"], "uid of b": ["b"]}
    await chain.close()


async def test_all_are_closed_before_the_first_error_is_raised() -> None:
    chain = chain_of(("a", None), ("broken b", 0), ("broken c", 1))
    await chain.open()
    DIARY.clear()
    with pytest.raises(OSError, match="broken b"):
        await chain.close()
    assert DIARY == ["a closes", "broken b closes", "broken c closes"]


async def test_an_error_of_closing_does_not_hide_why_the_chain_is_closed() -> None:
    chain = chain_of(("broken a", None))
    await chain.open()
    cause = ValueError("first")
    await chain.close(cause)
    assert cause.__notes__ == ["closing failed too: broken a"]


async def test_operators_that_were_not_opened_are_not_closed() -> None:
    chain = chain_of(("a", None))
    await chain.close()
    assert DIARY == []


async def test_watermarks_go_down_every_branch() -> None:
    chain = chain_of(("a", None), ("b", 0), ("c", 0), ("d", 1))
    await chain.head.process_event_time(Watermark(7))
    await chain.head.process_event_time(WatermarkStatus(idle=True))
    assert DIARY == [("a", 7), ("b", 7), ("d", 7), ("c", 7)]


async def test_an_operator_in_the_task_may_read_a_side_output() -> None:
    DIARY.clear()
    operators = (
        ChainedOperator("a", "a", Made("a"), None, splits_outputs=True),
        ChainedOperator("b", "b", Made("b"), 0, "odd"),
        ChainedOperator("c", "c", Made("c"), 0),
    )
    chain = OperatorChain(JobVertex(0, "v", 1, 128, "default", operators), context(), {})
    await chain.open()
    DIARY.clear()
    await chain.head.process([1, (OutputTag("odd"), 2)])
    assert DIARY[1:] == [("c", 0, [1]), ("b", 0, [2])]


async def test_a_latency_marker_goes_to_one_of_those_behind() -> None:
    """V6: each operator that it passes records its age."""
    chain = chain_of(("a", None), ("b", 0), ("c", 0), ("d", 1))
    await chain.open()
    marker = LatencyMarker(wall_clock_ms() - 5_000, "source", 0)
    for _ in range(100):
        await chain.head.process_stream_element(marker)
    told = {one.operator_uid: one for one in chain.latency_histograms()}
    markers = [told[f"uid of {name}"].markers for name in "abcd"]
    assert markers[0] == 100
    assert markers[1] + markers[2] == 100
    assert 0 < markers[1] == markers[3] < 100
    assert told["uid of a"].min >= 5_000
    await chain.close()


async def test_a_latency_marker_goes_to_one_consumer_which_has_few_unread() -> None:
    """V6."""
    arranged = Arranged(2)
    output = RecordWriterOutput(arranged.writer, "REBALANCE", "a")
    marker = LatencyMarker(5, "source", 0)
    for _ in range(20 * MARKERS_QUEUED_MAX):
        await output.pass_on(marker)
    for index in (0, 1):
        assert len(arranged.take(index)) == MARKERS_QUEUED_MAX
    await output.pass_on(marker)
    assert [len(arranged.take(index)) for index in (0, 1)] in ([0, 1], [1, 0])
    arranged.close()


async def test_of_watermarks_that_a_reader_leaves_unread_the_last_is_written() -> None:
    arranged = Arranged()
    output = RecordWriterOutput(arranged.writer, "FORWARD", "a")
    for number in range(5_000):
        await output.pass_on(Watermark(number))
    (subpartition,) = arranged.partition.subpartitions
    assert subpartition.events_queued == 1
    polled = arranged.views[0].poll()
    assert polled is not None
    assert content_of(polled.buffer) == Watermark(4_999).event().body
    polled.buffer.recycle()
    arranged.close()


async def test_the_state_of_all_operators_is_captured_together() -> None:
    chain = chain_of(("one", None), ("two", 0))
    for uid, number in (("uid of one", 1), ("uid of two", 2)):
        chain.state_of(uid).keyed.table("count", StateKind.VALUE).live["a"] = number
    snapshots = chain.snapshot(1, 0)
    assert [snapshot.uid for snapshot in snapshots] == ["uid of one", "uid of two"]
    for snapshot in snapshots:
        list(snapshot.slices())
        assert snapshot.keyed_pieces()


def test_if_one_operator_cannot_be_captured_none_is() -> None:
    chain = chain_of(("one", None), ("two", 0))
    table = chain.state_of("uid of one").keyed.table("count", StateKind.VALUE)
    table.live["a"] = 1
    two = chain.state_of("uid of two").operator
    two.get_list_state(ListStateDescriptor("list")).add(object())
    with pytest.raises(StateError, match='of operator "two"'):
        chain.snapshot(1, 0)
    table.merge(1)
    assert type(table.live) is dict


async def test_a_chain_that_has_ended_awaits_a_checkpoint_behind_its_end() -> None:
    """O2: a checkpoint that was taken before the end, or is given up, does not end the wait."""
    chain = chain_of(("one", None), ("committing", 0))

    def take(checkpoint_id: int) -> None:
        for snapshot in chain.snapshot(checkpoint_id, 0):
            snapshot.close()

    take(1)
    assert not chain.awaits_checkpoint()
    await chain.end_of_input()
    await chain.end_of_input()
    assert DIARY == ["one ends", "committing ends"]
    assert chain.awaits_checkpoint()
    await chain.notify_checkpoint_complete(1)
    take(2)
    assert chain.awaits_checkpoint()
    take(3)
    await chain.notify_checkpoint_complete(3)
    assert not chain.awaits_checkpoint()


async def test_a_chain_with_nothing_to_commit_awaits_no_checkpoint() -> None:
    chain = chain_of(("one", None), ("two", 0))
    await chain.end_of_input()
    assert not chain.awaits_checkpoint()


def not_called(error: Exception) -> None:
    raise AssertionError from error


@pytest.mark.parametrize("stamped", [False, True])
def test_each_record_is_looked_at(stamped: bool) -> None:
    """The next records of a batch may be mutable even if the first one is not."""
    kept: list[Any] = []
    values = [("a", None), ("b", ["x"]), {"c": [1]}]
    given: Batch = TimestampedBatch(values, [7] * len(values)) if stamped else values
    with_copies(kept.append, not_called)(given)
    assert on_wire(kept[0]) == on_wire(given)
    copied = values_of(kept[0])
    copied[1][1].append("changed")
    copied[2]["c"].append("changed")
    assert values == [("a", None), ("b", ["x"]), {"c": [1]}]


def test_records_that_cannot_be_changed_are_passed_on_as_they_are() -> None:
    taken: list[Any] = []
    records = [(1, "a"), (2, "b")]
    with_copies(taken.extend, not_called)(records)
    assert list(map(id, taken)) == list(map(id, records))


def test_a_record_that_cannot_be_copied_is_an_error_of_the_operator() -> None:
    class Uncopied:
        def __deepcopy__(self, memo: Any) -> Any:
            raise TypeError("only one of me")

    failures: list[Exception] = []
    with_copies(lambda records: None, failures.append)([Uncopied()])
    assert "Uncopied, which is mutable and cannot be copied" in str(failures[0])
    assert "only one of me); get_config().enable_object_reuse()" in str(failures[0])
