"""What programs import from ``pyflink.common.job_client``."""

from __future__ import annotations

from flinknet.common import (
    JobClient,
)

__all__ = [
    "JobClient",
]
