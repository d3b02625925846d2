"""Calls of user functions, and their results.

A user function is a plain function, a coroutine function, a generator or an async generator. Its
results are detached (``records/detached.py``) when it hands them over. Results of a generator are
consumed in pieces, so one record can expand to millions in bounded memory. If the chain runs in its
subtask's thread, awaitables run on the event loop.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import aclosing
from itertools import islice
from typing import Any

from flinknet.environment.task_thread import close_on_loop, is_in_task_thread, on_loop
from flinknet.errors import ConfigurationError
from flinknet.records.detached import Detachment, all_detached, detached, each_detached

__all__ = [
    "BATCH_RECORDS",
    "are_serialised_next",
    "bound_function",
    "in_pieces",
    "is_awaiting",
    "is_columns",
    "pieces_of",
    "records_in",
    "results_of",
    "value_of",
]

BATCH_RECORDS = 1024
"""Number of records in a batch of a source, and in a piece of a function's results.

The number is large enough to make the cost per batch negligible. It is small enough to let the
other subtasks of the worker run.
"""


async def pieces_of(
    detachment: Detachment, call: Callable[..., Any], *arguments: Any, are_emitted: bool = False
) -> AsyncGenerator[list[Any], None]:
    """Generate the results of one call of a user function, in non-empty pieces.

    ``are_emitted`` tells that each piece is emitted before the next is requested. Raises TypeError
    if the function returned a single record that would be iterated by mistake.
    """
    returned = call(*arguments)
    if not inspect.isasyncgen(returned):
        results = records_in(await value_of(returned))
        if not (are_emitted and are_serialised_next(results, detachment)):
            results = all_detached(results, detachment)
        del returned  # a second reference to the list would make the detachment copy its records
        for piece in in_pieces(results):
            yield piece
        return
    async with aclosing(_generated(returned)) as generated:
        piece = []
        async for result in generated:
            piece.append(detached(result, detachment))
            if len(piece) >= _records_of_piece(piece[0]):
                yield piece
                piece = []
        if piece:
            yield piece


def are_serialised_next(values: Iterable[Any], detachment: Detachment) -> bool:
    """Return whether emitted values need no detachment.

    The values are in a list and only writers take them, so they are serialised before the function
    runs again.
    """
    return type(values) is list and detachment is Detachment.IF_POSSIBLE


def _generated(results: Any) -> AsyncGenerator[Any, None]:
    """Return a generator of an async generator's results, usable where the chain runs."""
    if is_in_task_thread():
        return _generated_on_loop(results)
    generated: AsyncGenerator[Any, None] = results
    return generated


async def _generated_on_loop(results: AsyncGenerator[Any, None]) -> AsyncGenerator[Any, None]:
    end = object()
    try:
        while (result := await on_loop(anext, results, end)) is not end:
            yield result
    finally:
        await close_on_loop(results.aclose)


def in_pieces(records: Iterable[Any]) -> Iterator[list[Any]]:
    """Split records into lists of up to ``BATCH_RECORDS``; each Arrow batch has its own list."""
    if isinstance(records, list | tuple):
        there = list(records) if isinstance(records, tuple) else records
        start = 0
        while start < len(there):
            end = start + _records_of_piece(there[start])
            yield there[start:end]
            start = end
        return
    rest = iter(records)
    # On one line: a sampled stack must not distinguish the first record of a piece from the others.
    yield from ([first, *islice(rest, _records_of_piece(first) - 1)] for first in rest)


def _records_of_piece(first: Any) -> int:
    return 1 if is_columns(first) else BATCH_RECORDS


def is_columns(value: Any) -> bool:
    """Return whether the value is an Arrow record batch or table, without importing Arrow."""
    return hasattr(value, "num_rows")


def records_in(returned: Any) -> Iterable[Any]:
    """Return the results that a function returned as an iterable; None means no results.

    Raises TypeError for a single record that would be iterated by mistake.
    """
    if returned is None:
        return ()
    if isinstance(returned, str | bytes | dict) or is_columns(returned):
        kind = type(returned).__name__
        instead = "table.to_batches()" if kind == "Table" else "[record] for a single one"
        raise TypeError(f"it returned a {kind}, not an iterable of records: return {instead}")
    results: Iterable[Any] = returned
    return results


async def results_of(returned: Any, detachment: Detachment) -> list[Any]:
    """Return the detached results of any kind of function; an empty list for None."""
    if inspect.isasyncgen(returned):
        return [detached(value, detachment) async for value in _generated(returned)]
    results = await value_of(returned)
    return [] if results is None else list(each_detached(results, detachment))


def bound_function(function: Any, method: str) -> Callable[..., Any]:
    """Return the callable to call per record: a function class's method, or the callable itself.

    Raises ConfigurationError for anything else.
    """
    if isinstance(function, type) and hasattr(function, method):
        raise ConfigurationError(
            f"{function.__name__} is a class: pass an instance, {function.__name__}(...)"
        )
    call = getattr(function, method, function)
    if not callable(call):
        raise ConfigurationError(
            f"{method} needs a callable or an object with a {method} method, not "
            f"{type(function).__name__}"
        )
    bound: Callable[..., Any] = call
    return bound


def is_awaiting(call: Callable[..., Any]) -> bool:
    """Return whether calling it returns an awaitable or an async generator."""
    return any(
        inspect.iscoroutinefunction(candidate) or inspect.isasyncgenfunction(candidate)
        for candidate in (call, getattr(call, "__call__", None))  # noqa: B004
    )


async def value_of(returned: Any) -> Any:
    """Return the value; if it is awaitable, await it on the event loop."""
    return await on_loop(lambda: returned) if inspect.isawaitable(returned) else returned
