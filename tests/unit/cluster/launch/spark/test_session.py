"""The Java of Spark, the session of clusters, and the errors without them."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import flinknet.spark
from flinknet.cluster.launch.registry import launcher_of
from flinknet.cluster.launch.spark.launcher import SparkLauncher
from flinknet.cluster.launch.spark.session import (
    JAVA_VERSION_MIN,
    find_java,
    is_local,
    session_of,
)
from flinknet.config import ClusterConfig, FlinknetConfig, SparkConfig
from flinknet.errors import ConfigurationError


def java_in(home: Path, answer: str) -> Path:
    """Make a java that prints its version."""
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


def test_a_missing_java_is_reported_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    with pytest.raises(ConfigurationError, match=r"JAVA_HOME=.*/none has no bin/java: "):
        find_java()
    monkeypatch.delenv("JAVA_HOME")
    with pytest.raises(ConfigurationError, match="there is no java on the PATH: "):
        find_java()


@pytest.mark.parametrize("answer", ['java version "1.8.0_301"', "what?", ""])
def test_a_java_that_is_too_old_is_refused_with_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    java_in(tmp_path, answer)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ConfigurationError) as refused:
        find_java()
    assert f"is too old (it says: {answer or 'nothing'}): " in str(refused.value)


@pytest.mark.parametrize("master", ["local", "local[4]", "local[*]", "local-cluster[2,1,1024]"])
def test_masters_of_this_machine_are_known(master: str) -> None:
    assert is_local(master)
    assert not any(map(is_local, ("spark://local:7077", "yarn", "localhost", "sc://local")))


def test_the_session_of_the_program_goes_before_the_configuration() -> None:
    config = FlinknetConfig()
    session = object()
    flinknet.spark.use(session)  # type: ignore[arg-type]
    try:
        assert launcher_of(config.cluster) is SparkLauncher
        assert session_of(config) is session
    finally:
        flinknet.spark.use(None)
    assert launcher_of(config.cluster) is not SparkLauncher
    assert launcher_of(ClusterConfig(launcher="spark")) is SparkLauncher


@pytest.mark.parametrize("master", ["mesos://nowhere", "localhost", "local-cluster[2]", "yarn:1"])
def test_an_invalid_master_is_refused_with_the_valid_forms(master: str) -> None:
    config = replace(FlinknetConfig(), spark=SparkConfig(master=master))
    with pytest.raises(ConfigurationError) as raised:
        session_of(config)
    assert str(raised.value).startswith(f'spark.master is "{master}", which is not a master: ')


def test_nothing_imports_pyspark_until_spark_is_asked_for() -> None:
    program = (
        "import sys, flinknet.spark, flinknet.cluster, flinknet.datastream\n"
        "from flinknet.cluster.launch.registry import LAUNCHERS\n"
        "assert 'spark' in LAUNCHERS and 'pyspark' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
