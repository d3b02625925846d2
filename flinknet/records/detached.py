"""Detachment: protects values from changes after a function has handed them over.

Theory of operation. A function may return, yield or pass an object that it continues to use: its
own attribute, an object in its state, a dict that a generator fills again. Several such values are
collected before they are serialised. Each value is therefore *detached* when it is handed over,
before any code of the function runs again. A detached value contains no changeable object that
another object refers to. Each value is checked: an unchangeable one is detached already, and any
other is copied.

The compiled check (``detached.pyx``) takes some nanoseconds. It also avoids copying a value without
other references: a dict that was created for one record has one reference, which was handed over
with it.

A ``Detachment`` tells how to treat a value that cannot be copied. If only a writer takes the value,
the value passes as it is: the writer refuses it with a better reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

from flinknet.records.value_copy import UNCHANGING, Detachment, are_unchanging, copied_as

__all__ = [
    "Detachment",
    "all_detached",
    "detached",
    "each_detached",
    "each_passed",
    "each_result",
    "each_returned",
]


def detached(value: Any, detachment: int = Detachment.ALWAYS) -> Any:
    """Return a value in which no changeable object has another reference.

    Raises TypeError if the value must be copied and cannot be.
    """
    return copied_as(detachment, value) if detachment else value


def each_detached(values: Iterable[Any], detachment: int = Detachment.ALWAYS) -> Iterator[Any]:
    """Generate values, each detached before the next one is requested."""
    for value in values:
        yield detached(value, detachment)


def all_detached(values: Iterable[Any], detachment: int = Detachment.ALWAYS) -> Iterable[Any]:
    """Return the values of ``each_detached``; the same list if no value in it can change."""
    if type(values) is list and (not detachment or are_unchanging(values)):
        return values
    return each_detached(values, detachment)


def each_result(results: Iterator[Any], detachment: int = Detachment.ALWAYS) -> Iterator[Any]:
    """Generate the values of one iterable after the other; None counts as empty."""
    return each_detached(chain.from_iterable(one for one in results if one is not None), detachment)


def each_returned(
    call: Callable[[Any], Any], records: Iterator[Any], detachment: int = Detachment.ALWAYS
) -> Iterator[Any]:
    """Call a function on each record and generate the results."""
    for record in records:
        value = call(record)
        # The check is inlined here: an unchangeable result takes no further call.
        kind = type(value)
        if kind in UNCHANGING or (kind is tuple and UNCHANGING.issuperset(map(type, value))):
            yield value
        else:
            yield detached(value, detachment)


def each_passed(
    call: Callable[[Any], Any], records: Iterator[Any], detachment: int = Detachment.ALWAYS
) -> Iterator[Any]:
    """Generate the records for which a function returns true."""
    for record in records:
        if call(record):
            yield detached(record, detachment)
