"""The cost of giving a record away, by its type and by other references to it.

A function may change a record after giving it away. A mutable record is therefore copied, unless
nothing else refers to it, or the job says ``enable_object_reuse``: the variant *reuse*. An
immutable record is only inspected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from bench.micro.workload import Workload
from flinknet.datastream import Row
from flinknet.records.detached import Detachment, each_detached

__all__ = ["COPIES"]

BATCH_RECORDS = 1024


@dataclass
class Reading:
    """A record of a user-defined mutable class."""

    sensor: str
    number: int
    values: list[float]


class Place(NamedTuple):
    """A record of a user-defined immutable class."""

    sensor: str
    number: int


Make = Callable[[int], Any]


def make_copies(make: Make, is_kept: bool, reuses: bool, operations: int) -> Workload:
    """Return a workload that gives records away in batches.

    With ``is_kept``, the function that made the records keeps references to them.
    """
    batches = [
        [make(number) for number in range(at, min(at + BATCH_RECORDS, operations))]
        for at in range(0, operations, BATCH_RECORDS)
    ]
    expected = [make(number) for number in range(operations)]
    kept = [record for batch in batches for record in batch] if is_kept else []
    detachment = Detachment.NONE if reuses else Detachment.ALWAYS
    given: list[Any] = []

    def run() -> None:
        given.clear()
        for _ in range(len(batches)):
            given.extend(each_detached(batches.pop(0), detachment))

    def verify() -> bool:
        return given == expected and len(kept) == operations * is_kept

    return Workload(operations, run, verify)


def _tuple(number: int) -> Any:
    return f"sensor-{number % 7}", number, number / 7


def _tuple_with_list(number: int) -> Any:
    return f"sensor-{number % 7}", number, [number / 7, 1.0]


def _dict(number: int) -> Any:
    return {"sensor": f"sensor-{number % 7}", "number": number, "value": number / 7}


def _dataclass(number: int) -> Any:
    return Reading(f"sensor-{number % 7}", number, [number / 7, 1.0])


def _row(number: int) -> Any:
    return Row(sensor=f"sensor-{number % 7}", number=number, value=number / 7)


def _list(number: int) -> Any:
    return [f"sensor-{number % 7}", number, number / 7]


def _named_tuple(number: int) -> Any:
    return Place(f"sensor-{number % 7}", number)


_KINDS: Mapping[str, Make] = {
    "tuple": _tuple,
    "named tuple": _named_tuple,
    "list": _list,
    "tuple with list": _tuple_with_list,
    "dict": _dict,
    "dataclass": _dataclass,
    "Row": _row,
}

COPIES: Mapping[str, Callable[[int], Workload]] = {
    "reuse": partial(make_copies, _dataclass, True, True),
    **{name: partial(make_copies, make, False, False) for name, make in _KINDS.items()},
    **{f"{name}, kept": partial(make_copies, make, True, False) for name, make in _KINDS.items()},
}
