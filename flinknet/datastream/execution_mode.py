"""What programs import from ``pyflink.datastream.execution_mode``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flinknet.compatibility.pyflink_differences import not_here
from flinknet.datastream import (
    RuntimeExecutionMode,
)

__all__ = [
    "RuntimeExecutionMode",
]

if not TYPE_CHECKING:  # or every name would pass for one of its own
    __getattr__ = not_here(__name__)
