"""What programs import from ``pyflink.common.completable_future``."""

from __future__ import annotations

from flinknet.common import (
    CompletableFuture,
)

__all__ = [
    "CompletableFuture",
]
