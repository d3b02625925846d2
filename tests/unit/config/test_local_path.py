"""Paths, and URLs that mean local paths."""

from __future__ import annotations

from pathlib import Path

import pytest

from flinknet.config.local_path import is_process_local, local_path
from flinknet.errors import ConfigurationError


def test_a_path_and_a_url_of_this_machine_are_paths() -> None:
    assert local_path("tmp/out") == Path("tmp/out")
    assert local_path("file:///tmp/my%20out") == Path("/tmp/my out")
    assert local_path("file://localhost/tmp") == Path("/tmp")


def test_another_url_is_none() -> None:
    assert local_path("s3://bucket/out") is None


def test_a_file_of_another_machine_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"on another machine, tmp: .* file:///tmp"):
        local_path("file://tmp/out")


def test_a_location_in_memory_is_process_local() -> None:
    assert is_process_local("memory://out")
    assert not any(map(is_process_local, ("memory", "/memory/x", "s3://memory/x", "file:///x")))
