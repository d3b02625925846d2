"""Errors of the benchmarks."""

from __future__ import annotations

__all__ = ["BenchError", "UnavailableError", "UsageError"]


class BenchError(Exception):
    """Raised if a run fails; the message names the system, the side and the cause."""


class UsageError(BenchError):
    """Raised if a command asks for something unknown or impossible; nothing was run."""


class UnavailableError(BenchError):
    """Raised if a system cannot run here; the message names the missing part and its source."""
