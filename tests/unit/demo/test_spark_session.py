"""Which Java Spark gets, and what is said if there is none that will do."""

from __future__ import annotations

from pathlib import Path

import pytest

from flinknet.demo.spark_session import JAVA_VERSION_MIN, find_java, require_extra
from flinknet.errors import ConfigurationError


def java_in(home: Path, answer: str) -> Path:
    """Make a java that answers the question for its version."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{answer}' >&2\n")
    program.chmod(0o755)
    return program


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_home = java_in(tmp_path / "home", f'openjdk version "{JAVA_VERSION_MIN}.0.1" 2026-01-01')
    on_path = java_in(tmp_path / "other", 'openjdk version "99.0.1"')
    monkeypatch.setenv("PATH", str(on_path.parent))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert find_java() == at_home
    monkeypatch.delenv("JAVA_HOME")
    assert find_java() == on_path


def test_no_java_is_said_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    with pytest.raises(ConfigurationError, match=r"JAVA_HOME=.*/none has no bin/java: "):
        find_java()
    monkeypatch.delenv("JAVA_HOME")
    with pytest.raises(ConfigurationError, match="there is no java on the PATH: "):
        find_java()


@pytest.mark.parametrize("answer", ['java version "1.8.0_301"', "what?", ""])
def test_a_java_that_is_too_old_is_refused_with_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    java_in(tmp_path, answer)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ConfigurationError) as refused:
        find_java()
    assert f"is too old (it says: {answer or 'nothing'}): " in str(refused.value)


def test_the_extra_is_there() -> None:
    """A demo without it says what to install."""
    require_extra()
