"""Clusters by name: required fields of an entry, and permitted files for a token."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from flinknet.cluster.control.credentials import TOKEN_VARIABLE
from flinknet.cluster.launch.cluster_directory import ClusterDirectory, RunningCluster
from flinknet.cluster.launch.named_clusters import named_cluster
from flinknet.errors import ConfigurationError

TOKEN = "0123456789abcdef-secret"


@pytest.fixture
def environ(tmp_path: Path) -> Mapping[str, str]:
    token = tmp_path / "token"
    token.write_text(TOKEN + "\n")
    token.chmod(0o600)
    return {"XDG_STATE_HOME": str(tmp_path / "state"), "XDG_CONFIG_HOME": str(tmp_path / "config")}


def write(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config" / "flinknet" / "clusters.toml"
    path.parent.mkdir(parents=True)
    path.write_text(text)


def entry(tmp_path: Path) -> str:
    return f'[clusters.far]\ncoordinator = "far:8081"\ntoken_file = "{tmp_path / "token"}"\n'


def test_an_entry_says_all_that_a_client_needs(tmp_path: Path, environ: Mapping[str, str]) -> None:
    settings = tmp_path / "far.toml"
    settings.write_text("[cluster]\ncause_grace_ms = 7\n")
    write(tmp_path, entry(tmp_path) + f'config = "{settings}"\n')
    found = named_cluster("far", environ=environ)
    assert (found.address, found.token) == ("far:8081", TOKEN)
    assert found.config.cluster.cause_grace_ms == 7
    assert TOKEN not in repr(found)


def test_a_token_that_others_can_read_is_refused(
    tmp_path: Path, environ: Mapping[str, str]
) -> None:
    write(tmp_path, entry(tmp_path))
    (tmp_path / "token").chmod(0o640)
    with pytest.raises(ConfigurationError, match=r"has mode 0640.*chmod 600") as refused:
        named_cluster("far", environ=environ)
    assert TOKEN not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[clusters.far]\n", "lacks coordinator"),
        ('[clusters.far]\ncoordinator = "far"\ntoken_file = "{token}"\n', "write HOST:PORT"),
        ('[clusters.far]\ncoordinator = "far:0"\ntoken_file = "{token}"\n', "write HOST:PORT"),
        ("[clusters.far]\ncoordinator = 8081\n", "write a string"),
        ('[clusters.far]\ntoken = "x"\n', "unknown key token .* did you mean token_file"),
        ("[far]\n", r"beside the tables \[clusters.NAME\]"),
        ("[clusters]\nfar = 1\n", "is not a table"),
        ("[clusters\n", "is not valid TOML"),
        ('[clusters.far]\ncoordinator = "f:1"\ntoken_file = "/nowhere"\n', "/nowhere cannot be"),
    ],
)
def test_an_entry_that_cannot_work_says_why(
    tmp_path: Path, environ: Mapping[str, str], text: str, why: str
) -> None:
    write(tmp_path, text.format(token=tmp_path / "token"))
    with pytest.raises(ConfigurationError, match=why):
        named_cluster("far", environ=environ)


def test_a_cluster_of_this_machine_needs_no_entry(environ: Mapping[str, str]) -> None:
    directory = ClusterDirectory("here", environ)
    with pytest.raises(ConfigurationError, match="there is no cluster here"):
        named_cluster("here", environ=environ)
    lock = directory.lock()
    directory.keep_token(TOKEN)
    directory.write_running(RunningCluster(1, "127.0.0.1:8081", "http://127.0.0.1:8081/", ""))
    found = named_cluster("here", environ=environ)
    assert (found.address, found.token) == ("127.0.0.1:8081", TOKEN)
    os.close(lock)
    with pytest.raises(ConfigurationError, match="cluster here has died"):
        named_cluster("here", environ=environ)


def test_an_address_goes_with_the_token_of_the_environment(
    environ: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    assert named_cluster("far:8081", environ=environ).token == TOKEN
    with pytest.raises(ConfigurationError, match=TOKEN_VARIABLE):
        named_cluster("far:8081", environ=environ)


def test_a_file_that_is_named_must_be_there(environ: Mapping[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="which FLINKNET_CLUSTERS names"):
        named_cluster("far", environ={**environ, "FLINKNET_CLUSTERS": "/nowhere.toml"})
