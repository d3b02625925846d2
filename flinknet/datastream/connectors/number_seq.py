"""What programs import from ``pyflink.datastream.connectors.number_seq``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flinknet.compatibility.pyflink_differences import not_here
from flinknet.datastream import (
    NumberSequenceSource,
)

__all__ = [
    "NumberSequenceSource",
]

if not TYPE_CHECKING:  # or every name would pass for one of its own
    __getattr__ = not_here(__name__)
