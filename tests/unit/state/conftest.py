from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.state.backends import BACKENDS, Backends, made_backends


@pytest.fixture(params=BACKENDS)
def backends(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backends]:
    """Yield a maker of each kind of backend."""
    with made_backends(request.param, tmp_path / "state") as made:
        yield made
