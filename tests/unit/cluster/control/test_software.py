"""Versions that do not fit are refused, and both are named."""

from __future__ import annotations

import pytest

from flinknet.cluster.control.software import SOFTWARE, check_software
from flinknet.errors import ConfigurationError


def test_both_versions_are_named() -> None:
    check_software("worker a", SOFTWARE)
    with pytest.raises(ConfigurationError) as refused:
        check_software("worker a", "flinknet 0.0.1 on Python 3.9")
    assert "worker a has flinknet 0.0.1 on Python 3.9, but" in str(refused.value)
    assert f"coordinator has {SOFTWARE}" in str(refused.value)
