"""Hypothesis' settings where faults are planted: the same examples each time, none kept."""

from __future__ import annotations

import hypothesis
import pytest

__all__ = ["Examples"]


class Examples:
    """A plugin of pytest that sets them, after the tests' own ``conftest.py``.

    A failing example is not shrunk, and not kept for the run of another fault.
    """

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        hypothesis.settings.register_profile(
            "mutants",
            hypothesis.settings(),
            database=None,
            derandomize=True,
            phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        hypothesis.settings.load_profile("mutants")
