"""Launchers by name: this package's, and those that distributions install by an entry point."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from flinknet.cluster import run_job
from flinknet.cluster.launch.local.launcher import LocalLauncher
from flinknet.cluster.launch.registry import LAUNCHERS, launcher_named
from flinknet.config import ClusterConfig, FlinknetConfig
from flinknet.errors import ConfigurationError
from tests.unit.cluster.graphs import keyed_graph

OFFERED = """\
[flinknet.launchers]
broken = no_such_package:Launcher
local = no_such_package:Launcher
module = launchers_of_another_package
other = launchers_of_another_package:OtherLauncher
"""

CODE = """\
from flinknet.cluster.launch.local.launcher import LocalLauncher

class OtherLauncher(LocalLauncher):
    started = 0

    async def start_workers(self, count, coordinator):
        OtherLauncher.started += count
        return await super().start_workers(count, coordinator)
"""

MODULE = "launchers_of_another_package"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a distribution that offers launchers."""
    metadata = tmp_path / "launchers-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: launchers\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(OFFERED)
    (tmp_path / f"{MODULE}.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, MODULE, raising=False)


def config_of(launcher: str) -> FlinknetConfig:
    return FlinknetConfig(cluster=ClusterConfig(launcher=launcher, workers=1))


def test_a_name_of_this_package_cannot_be_taken(installed: None) -> None:
    assert LAUNCHERS.keys() == {"local", "spark"}
    assert launcher_named("local") is LocalLauncher


def test_an_unknown_name_is_refused_with_the_known_names(installed: None) -> None:
    with pytest.raises(
        ConfigurationError,
        match=r'cluster.launcher is "remote".*one of broken, local, module, other, spark,',
    ):
        launcher_named("remote")
    with pytest.raises(ConfigurationError, match='"remote"'):
        run_job(keyed_graph(), config_of("remote"))


def test_a_launcher_that_cannot_be_imported_is_refused_with_the_cause(installed: None) -> None:
    with pytest.raises(
        ConfigurationError, match=r'"broken", but no_such_package:Launcher cannot be imported: .*No'
    ):
        launcher_named("broken")


def test_a_launcher_that_is_not_callable_is_refused(installed: None) -> None:
    with pytest.raises(ConfigurationError, match=f"but {MODULE} is not a launcher"):
        launcher_named("module")


def test_a_named_launcher_is_imported_and_starts_the_cluster(installed: None) -> None:
    launcher_named("local")
    assert MODULE not in sys.modules
    result = run_job(keyed_graph(), config_of("other"))
    assert result.state == "FINISHED"
    assert sys.modules[MODULE].OtherLauncher.started == 1
