"""What programs import from ``pyflink.datastream.externalized_checkpoint_retention``."""

from __future__ import annotations

from flinknet.datastream import (
    ExternalizedCheckpointRetention,
)

__all__ = [
    "ExternalizedCheckpointRetention",
]
