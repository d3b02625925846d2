"""Emissions: what ``emit`` is, which stands in the way of every record.

Theory of operation. An emission serialises a record, chooses its output and writes to the output's
builder, if the record fits; if it does not, ``append`` takes over, and records that are large once
are written by ``append_large`` without being packed, as long as they are.

All that is done by the call itself, not when what it returns is awaited: for most records that is
the one object WRITTEN, which is over at once, where a coroutine would take an eighth of the time.
Who forgets to await writes those records all the same; the first record that finds its buffer full
is a coroutine, and Python's warning that nobody awaited it finds the mistake.

They are written out twice, as closures, because a record costs a fifth less than with a method;
once more for one output, where a record costs a twelfth less again without the choice, and a
twentieth less as the builder need not count.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple

from flinknet.records.output import Output
from flinknet.records.serialization.packer import RecordPacker
from flinknet.records.serialization.serializer import LARGE_RECORD_BYTES, large_form
from flinknet.records.written import WRITTEN

__all__ = ["Emission", "Writing", "emission_to", "emission_to_chosen"]


class Writing(NamedTuple):
    """What a writer's emissions have in common.

    ``append(output, data)`` writes what does not fit the output's builder, ``append_large(output,
    head, content)`` a record in two pieces, whether it fits or not. Both count the record.
    """

    packer: RecordPacker
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
    packer, append, append_large = writing
    encode, form, options = packer.encode, packer.form, packer.options
    pack_otherwise = packer.pack_otherwise
    written = WRITTEN
    count = 0
    large = False

    def emit(record: Any) -> Coroutine[Any, Any, None]:
        nonlocal count, large
        if large and (pieces := large_form(record)) is not None:
            return append_large(outputs[select(record)], *pieces)
        try:
            data = encode(record, form, options)
        except TypeError:
            data = pack_otherwise(record)
        output = outputs[select(record)]
        builder = output.builder
        remaining = builder.remaining - len(data)
        if remaining < 0:
            large = len(data) >= LARGE_RECORD_BYTES
            return append(output, data)
        builder.remaining = remaining
        write = builder.write
        write(data)
        builder.records += 1
        count += 1
        return written

    return Emission(emit, lambda: count)


def emission_to(output: Output, writing: Writing) -> Emission:
    """Emit each record to one output."""
    packer, append, append_large = writing
    encode, form, options = packer.encode, packer.form, packer.options
    pack_otherwise = packer.pack_otherwise
    written = WRITTEN
    count = 0
    large = False

    def emit(record: Any) -> Coroutine[Any, Any, None]:
        nonlocal count, large
        if large and (pieces := large_form(record)) is not None:
            return append_large(output, *pieces)
        try:
            data = encode(record, form, options)
        except TypeError:
            data = pack_otherwise(record)
        builder = output.builder
        remaining = builder.remaining - len(data)
        if remaining < 0:
            large = len(data) >= LARGE_RECORD_BYTES
            return append(output, data)
        builder.remaining = remaining
        write = builder.write
        write(data)
        count += 1
        return written

    taken = 0

    def take_emitted() -> int:
        nonlocal taken
        since, taken = count - taken, count
        return since

    output.count_with(take_emitted)
    return Emission(emit, lambda: count)
