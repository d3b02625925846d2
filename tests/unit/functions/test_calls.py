"""Functions of any kind can be called; their results come in pieces, detached."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from flinknet.errors import ConfigurationError
from flinknet.functions.calls import (
    BATCH_RECORDS,
    are_serialised_next,
    bound_function,
    in_pieces,
    is_awaiting,
    pieces_of,
    results_of,
    value_of,
)
from flinknet.records.detached import Detachment


def plain(number: int) -> list[int]:
    return [number, number + 1]


async def later(number: int) -> list[int]:
    return [number, number + 1]


def generated(number: int) -> Iterator[int]:
    yield number
    yield number + 1


async def generated_later(number: int) -> AsyncGenerator[int, None]:
    yield number
    yield number + 1


KINDS = [plain, later, generated, generated_later]


@pytest.mark.parametrize("call", KINDS)
async def test_each_kind_of_function_has_the_same_results(call: Callable[[int], Any]) -> None:
    assert await results_of(call(3), Detachment.ALWAYS) == [3, 4]
    assert [piece async for piece in pieces_of(Detachment.ALWAYS, call, 3)] == [[3, 4]]


@pytest.mark.parametrize("call", KINDS[2:])
async def test_a_result_is_detached_before_the_function_goes_on(
    call: Callable[[int], Any],
) -> None:
    def reuses() -> Iterator[dict[str, int]]:
        row = {"n": 0}
        for row["n"] in call_numbers:
            yield row

    async def reuses_later() -> AsyncGenerator[dict[str, int], None]:
        row = {"n": 0}
        for row["n"] in call_numbers:
            yield row

    call_numbers = (1, 2, 3)
    rows = reuses_later if is_awaiting(call) else reuses
    expected = [{"n": 1}, {"n": 2}, {"n": 3}]
    assert await results_of(rows(), Detachment.ALWAYS) == expected
    (piece,) = [piece async for piece in pieces_of(Detachment.ALWAYS, rows)]
    assert piece == expected


async def test_nothing_is_no_result() -> None:
    async def none_later() -> None:
        return None

    assert await results_of(None, Detachment.ALWAYS) == []
    assert [piece async for piece in pieces_of(Detachment.ALWAYS, lambda: None)] == []
    assert [piece async for piece in pieces_of(Detachment.ALWAYS, none_later)] == []


@pytest.mark.parametrize(
    ("record", "instead"),
    [
        ("text", r"\[record\] for a single one"),
        (b"bytes", r"\[record\] for a single one"),
        ({"a": 1}, r"\[record\] for a single one"),
        (pa.record_batch({"a": [1]}), r"\[record\] for a single one"),
        (pa.table({"a": [1]}), r"table\.to_batches\(\)"),
    ],
)
async def test_one_record_is_not_taken_for_several(record: Any, instead: str) -> None:
    kind = type(record).__name__
    with pytest.raises(TypeError, match=f"it returned a {kind}, not an iterable.*{instead}"):
        async for _ in pieces_of(Detachment.ALWAYS, lambda: record):
            pass


async def test_many_results_come_in_pieces() -> None:
    many = 2 * BATCH_RECORDS + 1
    sizes = [BATCH_RECORDS, BATCH_RECORDS, 1]

    async def numbers_later() -> AsyncGenerator[int, None]:
        for number in range(many):
            yield number

    for call in (lambda: list(range(many)), lambda: iter(range(many)), numbers_later):
        pieces = [piece async for piece in pieces_of(Detachment.ALWAYS, call)]
        assert [len(piece) for piece in pieces] == sizes
        assert [number for piece in pieces for number in piece] == list(range(many))
    assert [len(piece) for piece in in_pieces(tuple(range(many)))] == sizes


async def test_record_batches_come_one_by_one() -> None:
    batches = [pa.record_batch({"a": [number]}) for number in range(3)]

    async def batches_later() -> AsyncGenerator[pa.RecordBatch, None]:
        for batch in batches:
            yield batch

    for call in (lambda: batches, lambda: iter(batches), batches_later):
        assert [piece async for piece in pieces_of(Detachment.ALWAYS, call)] == [
            [batch] for batch in batches
        ]


async def test_an_emitted_list_is_serialised_before_the_function_runs_again() -> None:
    row = {"n": 1}
    if_possible = Detachment.IF_POSSIBLE
    assert are_serialised_next([row], if_possible)
    assert not are_serialised_next((row,), if_possible)
    assert not are_serialised_next([row], Detachment.ALWAYS)

    ((same,),) = [piece async for piece in pieces_of(if_possible, lambda: [row], are_emitted=True)]
    assert same is row
    ((copied,),) = [piece async for piece in pieces_of(Detachment.ALWAYS, lambda: [row])]
    assert (copied, copied is row) == (row, False)


async def test_a_value_is_awaited_if_it_can_be() -> None:
    assert await value_of(1) == 1
    assert await value_of(later(1)) == [1, 2]


class Doubling:
    def map(self, number: int) -> int:
        return 2 * number

    async def __call__(self) -> None: ...


def test_the_method_of_an_object_is_called_or_the_callable_itself() -> None:
    assert bound_function(Doubling(), "map")(2) == 4
    assert bound_function(plain, "map") is plain
    with pytest.raises(ConfigurationError, match=r"Doubling is a class: pass an instance, Doubl"):
        bound_function(Doubling, "map")
    with pytest.raises(ConfigurationError, match="map needs a callable or an object with a map m"):
        bound_function(3, "map")


def test_coroutine_functions_and_async_generators_are_awaited() -> None:
    assert [is_awaiting(call) for call in KINDS] == [False, True, False, True]
    assert is_awaiting(Doubling())
    assert not is_awaiting(Doubling().map)
