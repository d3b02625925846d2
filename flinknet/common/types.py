"""What programs import from ``pyflink.common.types``."""

from __future__ import annotations

from flinknet.common import (
    Row,
    RowKind,
)

__all__ = [
    "Row",
    "RowKind",
]
