"""Declared types hold where records leave an operator, and where they come in."""

from __future__ import annotations

from typing import Any

import pytest

from flinknet.errors import JobFailedError
from flinknet.task.operators import MapOperator
from flinknet.task.type_information import Types
from flinknet.task.typed_records import InputType, restored, typed
from tests.unit.task.harness import Harness, context

LISTS = Types.LIST(Types.INT())


@pytest.mark.parametrize("stamped", [False, True])
async def test_results_are_made_what_is_declared(stamped: bool) -> None:
    operator, kept = MapOperator(lambda value: value), []

    async def keep(records: list[Any]) -> None:
        kept.extend(records)

    async with Harness(operator):
        emit = typed(keep, operator, LISTS, stamped=stamped)
        await emit([(5, (1, 2))] if stamped else [(1, 2)])
        assert kept == ([(5, [1, 2])] if stamped else [[1, 2]])
        with pytest.raises(
            JobFailedError, match=r'"tested" \(1/1\) failed to make its result what'
        ):
            await emit([(5, "a")] if stamped else ["a"])
        assert typed(keep, operator, Types.PICKLED_BYTE_ARRAY(), stamped=stamped) is keep


async def test_lists_come_in_as_lists_by_input() -> None:
    operator, view = MapOperator(lambda value: value), context(channels_of_first_input=1)
    async with Harness(operator, view) as harness:
        inputs = [InputType(LISTS, stamped=False), InputType(LISTS, stamped=True)]
        operator.process = restored(operator, view, inputs)
        assert await harness.process((1,)) == [[1]]
        view.process_context.channel = 1
        assert await harness.process((7, (1,))) == [(7, [1])]


async def test_other_types_come_in_as_they_are() -> None:
    operator = MapOperator(lambda value: value)
    async with Harness(operator) as harness:
        operator.process = restored(operator, harness.context, [InputType(None, stamped=False)])
        assert await harness.process((1,)) == [(1,)]
