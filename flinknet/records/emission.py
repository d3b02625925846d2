"""Emissions: what ``emit`` is, which stands in the way of every record.

Theory of operation. An emission serialises a record, chooses its output and writes to the output's
builder, if the record fits; if it does not, ``append`` takes over, and records that are large once
are written by ``append_large`` without being packed, as long as they are.

They are written out three times. As closures, because a record costs a fifth less than with a
method; once more for one output, where a record costs a twelfth less again without the choice, and
a twentieth less as the builder need not count; and of steps, for an interpreter that compiles
Python, to which neither makes a difference.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple

from flinknet.interpreter import COMPILES_PYTHON
from flinknet.records.output import Output
from flinknet.records.serializer import (
    LARGE_RECORD_BYTES,
    PACK_ERRORS,
    explain_unserializable,
    large_form,
)
from flinknet.records.step import Rest, Step

__all__ = ["Emission", "Writing", "emission_to", "emission_to_chosen"]


class Writing(NamedTuple):
    """What a writer's emissions have in common.

    ``append(output, data)`` writes what does not fit the output's builder, ``append_large(output,
    head, content)`` a record in two pieces, whether it fits or not. Both count the record.
    """

    pack: Callable[[Any], bytes]
    append: Callable[[Output, bytes], Coroutine[Any, Any, None]]
    append_large: Callable[[Output, bytes, bytes | memoryview], Coroutine[Any, Any, None]]


class Emission(NamedTuple):
    """``emit``, and how many records it has counted."""

    emit: Callable[[Any], Coroutine[Any, Any, None]]
    counted: Callable[[], int]


def emission_to_chosen(
    select: Callable[[Any], int], outputs: Sequence[Output], writing: Writing
) -> Emission:
    """Emit each record to the output that ``select`` chooses for it."""
    return (_steps if COMPILES_PYTHON else _coroutines)(select, outputs, writing)


def emission_to(output: Output, writing: Writing) -> Emission:
    """Emit each record to one output."""
    if COMPILES_PYTHON:
        return _steps(lambda record: 0, (output,), writing)
    return _coroutines_to(output, writing)


def _coroutines(
    select: Callable[[Any], int], outputs: Sequence[Output], writing: Writing
) -> Emission:
    pack, append, append_large = writing
    count = 0
    large = False

    async def emit(record: Any) -> None:
        nonlocal count, large
        if large and (form := large_form(record)) is not None:
            await append_large(outputs[select(record)], *form)
            return
        try:
            data = pack(record)
        except PACK_ERRORS as cause:
            raise explain_unserializable(record, cause) from cause
        output = outputs[select(record)]
        builder = output.builder
        remaining = builder.remaining - len(data)
        if remaining < 0:
            large = len(data) >= LARGE_RECORD_BYTES
            await append(output, data)
        else:
            builder.remaining = remaining
            write = builder.write
            write(data)
            builder.records += 1
            count += 1

    return Emission(emit, lambda: count)


def _coroutines_to(output: Output, writing: Writing) -> Emission:
    pack, append, append_large = writing
    count = 0
    large = False

    async def emit(record: Any) -> None:
        nonlocal count, large
        if large and (form := large_form(record)) is not None:
            await append_large(output, *form)
            return
        try:
            data = pack(record)
        except PACK_ERRORS as cause:
            raise explain_unserializable(record, cause) from cause
        builder = output.builder
        remaining = builder.remaining - len(data)
        if remaining < 0:
            large = len(data) >= LARGE_RECORD_BYTES
            await append(output, data)
        else:
            builder.remaining = remaining
            write = builder.write
            write(data)
            count += 1

    taken = 0

    def take_emitted() -> int:
        nonlocal taken
        since, taken = count - taken, count
        return since

    output.count_with(take_emitted)
    return Emission(emit, lambda: count)


def _steps(select: Callable[[Any], int], outputs: Sequence[Output], writing: Writing) -> Emission:
    pack, append, append_large = writing
    count = 0
    large = False

    def begin(record: Any) -> Rest | None:
        nonlocal count, large
        if large and (form := large_form(record)) is not None:
            return Rest(append_large(outputs[select(record)], *form))
        try:
            data = pack(record)
        except PACK_ERRORS as cause:
            raise explain_unserializable(record, cause) from cause
        output = outputs[select(record)]
        builder = output.builder
        remaining = builder.remaining - len(data)
        if remaining < 0:
            large = len(data) >= LARGE_RECORD_BYTES
            return Rest(append(output, data))
        builder.remaining = remaining
        builder.write(data)
        builder.records += 1
        count += 1
        return None

    return Emission(lambda record: Step(begin, record), lambda: count)
