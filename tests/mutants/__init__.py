"""Measure whether the tests find small seeded faults in the package."""
