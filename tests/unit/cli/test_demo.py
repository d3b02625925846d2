"""``flinknet demo``: its refusals. The demo itself runs in the integration tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flinknet.cli.demo import demo
from flinknet.errors import ConfigurationError


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 1}, "workers is 1: choose 2"),
        ({"slots": 0}, "slots is 0"),
        ({"load": 2.0}, "load is 2.0"),
        ({"scale": 0}, "scale is 0"),
    ],
)
def test_invalid_options_are_refused_before_anything_is_written(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    output = tmp_path / "demo"
    with pytest.raises(ConfigurationError, match=message):
        demo(output, **options)
    assert not output.exists()
