"""A workload: a prepared number of operations of one kind, to be run once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["Step", "Workload"]


class Workload(NamedTuple):
    """A workload of ``operations`` operations.

    ``run`` carries them out, once. ``verify`` then checks the result. ``records_per_buffer`` is set
    where an operation is a record of a buffer.
    """

    operations: int
    run: Callable[[], None]
    verify: Callable[[], bool]
    records_per_buffer: float | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """A part of the path of a record.

    ``make`` gets the name of a variant and the approximate number of operations. ``unit`` names the
    object that an operation handles.
    """

    name: str
    summary: str
    unit: str
    variants: Mapping[str, Callable[[int], Workload]]
