"""Hypothesis' settings where faults are planted: the same examples each time, none kept."""

from __future__ import annotations

import hypothesis
import pytest

__all__ = ["Examples"]


class Examples:
    """A plugin of pytest that sets them, after the tests' own ``conftest.py``.

    A failing example is not shrunk, and not kept for the run of another fault.
    """

    def __init__(self, number: int | None = None) -> None:
        self._number = number

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        usual = hypothesis.settings()
        hypothesis.settings.register_profile(
            "mutants",
            usual,
            max_examples=self._number or usual.max_examples,
            database=None,
            derandomize=True,
            phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        hypothesis.settings.load_profile("mutants")
