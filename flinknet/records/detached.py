"""Values as they are when a function gives them away, whatever it does with them later.

Theory of operation. A function may return, yield or hand over an object that it goes on using: its
own attribute, what it keeps in state, a dict that a generator fills again. Such values are gathered
before they are copied or serialised, so each is *detached* when it is given away, before any code
of the function runs again: from then on nothing that can be changed is in it that another object
refers to. A value that cannot be changed, which is found out for each value, is detached as it is;
any other is copied.

Compiled (``detached.pyx``) that check takes some nanoseconds, and a value to which nothing else
refers is not copied either: a dict that was made for one record has one reference, which has been
given away with it.

A ``Detachment`` says what becomes of a value that cannot be copied. Where only a writer takes it,
it goes on as it is: the writer refuses it, with a better reason.
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
    """Return a value in which nothing that can be changed has another reference.

    Raises TypeError if it cannot be copied and has to be.
    """
    return copied_as(detachment, value) if detachment else value


def each_detached(values: Iterable[Any], detachment: int = Detachment.ALWAYS) -> Iterator[Any]:
    """Generate values, each detached before the next is asked for."""
    for value in values:
        yield detached(value, detachment)


def all_detached(values: Iterable[Any], detachment: int = Detachment.ALWAYS) -> Iterable[Any]:
    """Return the values of ``each_detached``, or the very list if nothing in it can be changed."""
    if type(values) is list and (not detachment or are_unchanging(values)):
        return values
    return each_detached(values, detachment)


def each_result(results: Iterator[Any], detachment: int = Detachment.ALWAYS) -> Iterator[Any]:
    """Generate the values in one iterable after the other; None counts as an empty one."""
    return each_detached(chain.from_iterable(one for one in results if one is not None), detachment)


def each_returned(
    call: Callable[[Any], Any], records: Iterator[Any], detachment: int = Detachment.ALWAYS
) -> Iterator[Any]:
    """Call a function on each record and generate what it returns."""
    for record in records:
        value = call(record)
        # A record that cannot be changed takes no further call.
        kind = type(value)
        if kind in UNCHANGING or (kind is tuple and UNCHANGING.issuperset(map(type, value))):
            yield value
        else:
            yield detached(value, detachment)


def each_passed(
    call: Callable[[Any], Any], records: Iterator[Any], detachment: int = Detachment.ALWAYS
) -> Iterator[Any]:
    """Call a function on each record and generate those for which it is true."""
    for record in records:
        if call(record):
            yield detached(record, detachment)
