"""``flinknet top`` before it shows anything."""

from __future__ import annotations

import sys

import pytest

from flinknet.cli.top import top
from flinknet.errors import ConfigurationError


def test_without_its_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flinknet.cli.top_screen", None)
    with pytest.raises(ConfigurationError, match=r"flinknet\[top\]"):
        top(cluster="127.0.0.1:1")
