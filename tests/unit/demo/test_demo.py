"""What a demo refuses before anything starts; that it runs is for the integration tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from flinknet.config import FlinknetConfig
from flinknet.demo.demo import run_demo
from flinknet.demo.progress import DemoProgress
from flinknet.demo.result import DemoParameters
from flinknet.errors import ConfigurationError


def refused(output: Path) -> str:
    progress = DemoProgress(Console(quiet=True))
    with pytest.raises(ConfigurationError) as raised:
        run_demo(DemoParameters(output), FlinknetConfig(), progress)
    assert progress.phases == {}, "nothing was begun"
    return str(raised.value)


def test_without_java_nothing_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    assert "Spark needs Java" in refused(tmp_path / "demo")
    assert not (tmp_path / "demo").exists()


def test_a_place_that_cannot_be_used_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"21.0.1\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    (tmp_path / "a file").write_text("of somebody's")
    assert "a file" in refused(tmp_path / "a file")
