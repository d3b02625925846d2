"""Predicates for retries of asynchronous requests: PyFlink's module of this name."""

from __future__ import annotations

from typing import Any

__all__ = ["empty_result_predicate", "exception_type_predicate", "has_exception_predicate"]


def empty_result_predicate(result: list[Any] | None) -> bool:
    """Return whether a request had no results."""
    return result is None or len(result) == 0


def has_exception_predicate(error: Exception | None) -> bool:
    """Return whether a request failed."""
    return error is not None


def exception_type_predicate(error: Exception, expected_error_type: type[Exception]) -> bool:
    """Return whether a request failed with an error of this type."""
    return isinstance(error, expected_error_type)
