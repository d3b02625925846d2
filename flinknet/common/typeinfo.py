"""What programs import from ``pyflink.common.typeinfo``."""

from __future__ import annotations

from flinknet.common import (
    TypeInformation,
    Types,
)

__all__ = [
    "TypeInformation",
    "Types",
]
