"""Check the core's invariants after every call from a test."""

from tests.unit.arrangements import checked_invariants

__all__ = ["checked_invariants"]
