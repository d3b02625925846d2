"""Operators get their batches both as lists and as they arrive over the network."""

from __future__ import annotations

import pytest

from tests.unit.operators.harness import Harness


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a module's tests twice if they run operators."""
    if getattr(metafunc.module, "Harness", None) is Harness:
        metafunc.fixturenames.append("batches_have_arrived")
        metafunc.parametrize("batches_have_arrived", [False, True], ids=["list", "arrived"])


@pytest.fixture
def batches_have_arrived(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set whether batches come as over the network, where the operator accepts that, or as
    lists."""
    monkeypatch.setattr(Harness, "have_arrived", request.param)
