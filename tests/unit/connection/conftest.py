"""Every call from a test into the core is followed by a check of its invariants."""

from tests.unit.arrangements import checked_invariants

__all__ = ["checked_invariants"]
