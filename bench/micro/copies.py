"""What a record costs between two operators of one task: copied, or not.

A function may change what it gets, so a chain hands on copies of what can be changed, unless the
job says ``enable_object_reuse``: the variant *reuse*. A record that cannot be changed is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from bench.micro.workload import Workload
from flinknet.datastream import Row
from flinknet.task.record_copies import with_copies

__all__ = ["COPIES"]

BATCH_RECORDS = 1024


@dataclass
class Reading:
    """A record of the user's."""

    sensor: str
    number: int
    values: list[float]


Make = Callable[[int], Any]


def make_copies(make: Make, reuses: bool, operations: int) -> Workload:
    """Hand on records, a batch at a time, to an operator that keeps them."""
    records = [make(number) for number in range(operations)]
    batches = [records[at : at + BATCH_RECORDS] for at in range(0, operations, BATCH_RECORDS)]
    kept: list[Any] = []

    def fail(error: Exception) -> None:
        raise error

    process = kept.extend if reuses else with_copies(kept.extend, fail, stamped=False)

    def run() -> None:
        kept.clear()
        for batch in batches:
            process(batch)

    def verify() -> bool:
        return kept == records

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


COPIES: Mapping[str, Callable[[int], Workload]] = {
    "reuse": partial(make_copies, _dataclass, True),
    "tuple": partial(make_copies, _tuple, False),
    "tuple with list": partial(make_copies, _tuple_with_list, False),
    "dict": partial(make_copies, _dict, False),
    "dataclass": partial(make_copies, _dataclass, False),
    "Row": partial(make_copies, _row, False),
}
