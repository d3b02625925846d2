"""A few flights, and a runtime context for the demo's operators."""

from __future__ import annotations

from flinknet.environment.processing_time import ProcessingTimeService
from flinknet.functions.context import RuntimeContext

FLIGHTS = [
    (0, "EWR", "IAH", 1_400, 11),
    (1, "LGA", "IAH", 1_416, -20),
    (2, "EWR", "IAH", 1_400, None),
    (3, "EWR", "LGA", 17, None),
    (4, "EWR", "IAH", 1_400, -3),
]


def context(index: int = 0) -> RuntimeContext:
    """Return the context of one of two subtasks."""
    return RuntimeContext(
        operator_name="flight totals",
        task_name="flight totals",
        index=index,
        parallelism=2,
        max_parallelism=128,
        processing_time=ProcessingTimeService(lambda action: None),
    )
