"""A workload: some operations of one kind, made ready, to be run once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["Step", "Workload"]


class Workload(NamedTuple):
    """``run`` does ``operations`` operations, once; ``verify`` says afterwards whether what came
    out is right. ``records_per_buffer`` is given where it says what an operation is."""

    operations: int
    run: Callable[[], None]
    verify: Callable[[], bool]
    records_per_buffer: float | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """A part of the way. ``make`` gets the name of a variant and about how many operations there
    shall be; ``unit`` is what an operation handles."""

    name: str
    summary: str
    unit: str
    variants: Mapping[str, Callable[[int], Workload]]
