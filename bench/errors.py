"""What can go wrong with a benchmark."""

from __future__ import annotations

__all__ = ["BenchError", "UnavailableError", "UsageError"]


class BenchError(Exception):
    """A run could not be completed; says which side of which system, and what happened there."""


class UsageError(BenchError):
    """The command asks for what does not exist or cannot be; nothing was run."""


class UnavailableError(BenchError):
    """A system cannot run on this machine; says what is missing and how to get it."""
