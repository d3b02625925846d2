"""What programs import from ``pyflink.common.types``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flinknet.common import (
    Row,
    RowKind,
)
from flinknet.compatibility.pyflink_differences import not_here

__all__ = [
    "Row",
    "RowKind",
]

if not TYPE_CHECKING:  # or every name would pass for one of its own
    __getattr__ = not_here(__name__)
