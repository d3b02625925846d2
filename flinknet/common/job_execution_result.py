"""What programs import from ``pyflink.common.job_execution_result``."""

from __future__ import annotations

from flinknet.common import (
    JobExecutionResult,
)

__all__ = [
    "JobExecutionResult",
]
