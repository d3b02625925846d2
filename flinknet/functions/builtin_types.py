"""The record classes that every job knows: its own, and flinknet's rows and instants."""

from __future__ import annotations

from collections.abc import Sequence

from flinknet.functions.durations import Instant
from flinknet.functions.row import Row
from flinknet.records.serialization.record_types import RecordTypes

__all__ = ["BUILTIN_TYPES", "record_types"]

BUILTIN_TYPES: dict[int, type] = {2**31: Row, 2**31 + 1: Instant}
"""Classes by number, beyond the numbers that a job's registered classes get."""


def record_types(types: Sequence[type]) -> RecordTypes:
    """Return the job's registered classes together with flinknet's.

    Raises ConfigurationError for a class that cannot be registered.
    """
    own = BUILTIN_TYPES.values()
    return RecordTypes(
        {**dict(enumerate(kind for kind in types if kind not in own)), **BUILTIN_TYPES}
    )
