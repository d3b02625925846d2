"""Declared types are checked where records leave an operator, and where they enter one."""

from __future__ import annotations

from typing import Any

import pytest

from flinknet.errors import JobFailedError
from flinknet.functions.type_information import Types
from flinknet.operators.operators import MapOperator
from flinknet.operators.timestamped_batch import Batch, TimestampedBatch, on_wire
from flinknet.operators.typed_records import InputType, restored, typed
from tests.unit.operators.harness import Harness, context

LISTS = Types.LIST(Types.INT())
TEXTS = Types.LIST(Types.STRING())


@pytest.mark.parametrize("stamped", [False, True])
async def test_results_are_made_what_is_declared(stamped: bool) -> None:
    operator, kept = MapOperator(lambda value: value), []

    async def keep(records: Batch) -> None:
        kept.extend(on_wire(records))

    async with Harness(operator):
        emit = typed(keep, operator, LISTS)
        await emit(TimestampedBatch([(1, 2)], [5]) if stamped else [(1, 2)])
        assert kept == ([(5, [1, 2])] if stamped else [[1, 2]])
        with pytest.raises(
            JobFailedError, match=r'"tested" \(1/1\) failed to convert its result to'
        ):
            await emit(TimestampedBatch(["a"], [5]) if stamped else ["a"])
        assert typed(keep, operator, Types.PICKLED_BYTE_ARRAY()) is keep


async def test_lists_come_in_as_lists_by_input() -> None:
    operator, view = MapOperator(lambda value: value), context(channels_of_first_input=1)
    async with Harness(operator, view) as harness:
        inputs = [InputType(LISTS, stamped=False), InputType(LISTS, stamped=True)]
        operator.process = restored(operator, view, inputs)
        assert await harness.process((1,)) == [[1]]
        view.process_context.channel, operator.is_timestamped = 1, True
        assert await harness.process((7, (1,))) == [(7, [1])]


async def test_other_types_come_in_as_they_are() -> None:
    operator = MapOperator(lambda value: value)
    async with Harness(operator) as harness:
        process = restored(operator, harness.context, [InputType(None, stamped=False)])
        assert process == operator.process
        assert await harness.process((1,)) == [(1,)]


@pytest.mark.parametrize("have_arrived", [False, True])
async def test_timestamps_come_in_beside_the_values(have_arrived: bool) -> None:
    operator = MapOperator(lambda value: value)
    async with Harness(operator) as harness:
        operator.is_timestamped, harness.have_arrived = True, have_arrived
        operator.process = restored(operator, harness.context, [InputType(None, stamped=True)])
        assert await harness.process((7, (1,)), (None, 2)) == [(7, (1,)), (None, 2)]


@pytest.mark.parametrize("stamped", [False, True])
async def test_records_that_are_unpacked_as_they_are_asked_for_become_lists_then(
    stamped: bool,
) -> None:
    def last_of(value: Any) -> Any:
        assert type(value) is list
        if "wrong" in str(value):
            raise ValueError("it is wrong")
        return value

    operator = MapOperator(last_of)
    async with Harness(operator) as harness:
        operator.process = restored(operator, harness.context, [InputType(TEXTS, stamped)])
        operator.is_timestamped, harness.have_arrived = stamped, True
        right: tuple[Any, ...] = (("a",), ("b", None), ())
        records = tuple(enumerate(right)) if stamped else right
        lists = [["a"], ["b", None], []]
        assert await harness.process(*records) == ([*enumerate(lists)] if stamped else lists)
        wrong: Any = (9, ("wrong",)) if stamped else ("wrong",)
        said = r"on a record of type list, \['wrong'\]: ValueError"
        with pytest.raises(JobFailedError, match=said):
            await harness.process(*records, wrong, *records)


async def test_a_batch_that_is_right_is_emitted_itself() -> None:
    operator, kept = MapOperator(lambda value: value), []

    async def keep(records: list[Any]) -> None:
        kept.append(records)

    async with Harness(operator):
        emit = typed(keep, operator, TEXTS)
        right = [["a"], [None]]
        await emit(right)
        assert kept[0] is right
