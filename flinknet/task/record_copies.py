"""Copies of records between two operators of one task, so that a function may change what it gets.

Theory of operation. An operator that hands records to the next one in its chain may keep them (a
collection does, state does), and several operators may read the same ones. Flink therefore copies
records between chained operators unless ``enable_object_reuse`` says that functions leave alone
what they get; so does a chain here, of records that can be changed. Records of a stream are of one
type (Flink's definition of a stream), so it is the first record of a batch that says whether its
records can be: numbers, texts, times, and tuples of them cost one look per batch. Where the type of
a stream is declared, that says it.

What a copy costs between two operators, compiled (as plain Python five times as much): a tuple of
numbers and text nothing but that look; a dict of three values 0.3 us, a tuple with a list in it
0.8 us, a dataclass that is not frozen 0.9 us, a Row of three 1.3 us (``python -m bench run micro
--case copies``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, TypeVar

from flinknet.records.serialization.value_forms import is_arrow_batch
from flinknet.task.state.value_copy import UNCHANGING, copied

__all__ = ["may_change", "with_copies"]

T = TypeVar("T")


def may_change(value: Any) -> bool:
    """Whether a record, or something in it, can be changed."""
    kind = type(value)
    if kind in UNCHANGING:
        return False
    if issubclass(kind, tuple | frozenset):
        return any(map(may_change, value))
    if issubclass(kind, Enum) or is_arrow_batch(value):
        return False
    if is_dataclass(kind) and kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        return any(may_change(getattr(value, field.name)) for field in fields(kind))
    return True


def with_copies(
    process: Callable[[list[Any]], T], fail: Callable[[Exception], Any], *, stamped: bool
) -> Callable[[list[Any]], T]:
    """Return what has ``process`` work on copies of records that can be changed; ``fail`` gets the
    error of one that cannot be copied."""

    def process_copies(records: list[Any]) -> T:
        first = records[0][1] if stamped else records[0]
        if may_change(first):
            try:
                if stamped:
                    records = [(stamp, copied(value)) for stamp, value in records]
                else:
                    records = [copied(value) for value in records]
            except Exception as error:
                fail(error)
        return process(records)

    return process_copies
