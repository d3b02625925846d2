"""Paths and URLs."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import pytest

from flinknet.datastream.connectors.locations import RemoteLocation, location_of
from flinknet.errors import ConfigurationError


def test_paths_and_urls_of_files_are_paths() -> None:
    assert location_of("some/dir") == Path("some/dir")
    assert location_of(Path("/some/dir")) == Path("/some/dir")
    assert location_of("file:///some/a%20dir") == Path("/some/a dir")
    assert location_of("file://localhost/some") == Path("/some")
    with pytest.raises(
        ConfigurationError, match="is on another machine, some: write a local path with three"
    ):
        location_of("file://some/dir")


def test_other_urls_are_for_fsspec(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("here")
    location = location_of(f"local://{tmp_path}/")
    assert isinstance(location, RemoteLocation)
    assert str(location) == f"local://{tmp_path}"
    file = pickle.loads(pickle.dumps(location / "a.txt"))
    assert (file.name, file.parent, file.path) == ("a.txt", location, str(tmp_path / "a.txt"))
    with file.open() as opened:
        assert opened.read() == b"here"


def test_an_unreachable_location_names_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match=r"nowhere://a cannot be used: Protocol not known"):
        RemoteLocation("nowhere://a").filesystem()
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(ConfigurationError, match=r"s3://a/b cannot be used: Install s3fs"):
        RemoteLocation("s3://a/b").filesystem()
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(
        ConfigurationError, match=r"s3://a/b is not a local path.* flinknet\[fsspec\]"
    ):
        RemoteLocation("s3://a/b").filesystem()
