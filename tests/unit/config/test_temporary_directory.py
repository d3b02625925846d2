"""A place for temporary files, or an error with a remedy."""

from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path

import pytest

from flinknet.config import temporary_directory as chosen
from flinknet.config.temporary_directory import make_socket_directory, temporary_directory
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


@pytest.fixture
def long_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a directory for temporary files that is longer than the path of a socket may be."""
    directory = tmp_path / ("d" * 120)
    directory.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    return directory


def bind(directory: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(directory / "records"))


def test_a_socket_has_a_directory_of_its_own() -> None:
    directory = make_socket_directory("flinknet-test-", "records")
    try:
        assert str(directory.path).startswith(tempfile.gettempdir())
        assert directory.path.stat().st_mode & 0o777 == 0o700
        bind(directory.path)
    finally:
        directory.close()


def test_a_socket_is_elsewhere_if_the_directory_is_too_long(
    long_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other users may write to that place, so only this user may enter. Nothing is left behind."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/nowhere")
    directory = make_socket_directory("flinknet-test-", "records")
    try:
        assert directory.path.stat().st_mode & 0o777 == 0o700
        bind(directory.path)
    finally:
        directory.close()
    assert list(long_directory.iterdir()) == []


def test_without_a_short_directory_it_is_said_what_to_do(
    long_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(chosen, "_SHORT_DIRECTORIES", ("/nowhere",))
    with pytest.raises(ConfigurationError, match=r"103 bytes: .*ddd, and none of /nowhere.*TMPDIR"):
        make_socket_directory("flinknet-test-", "records")
