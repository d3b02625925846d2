"""A place for temporary files, or what to do without one."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from flinknet.config.temporary_directory import temporary_directory
from flinknet.errors import ConfigurationError


def test_it_is_the_systems_own() -> None:
    assert temporary_directory() == tempfile.gettempdir()


def test_without_one_it_is_said_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(ConfigurationError, match=r"No usable temporary .*variable TMPDIR"):
        temporary_directory()
