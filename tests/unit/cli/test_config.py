"""``flinknet config show``: every value, and its source."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flinknet.cli.main import main
from flinknet.config import FlinknetConfig
from flinknet.config.loading import load_settings, options


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("FLINKNET_TRACEBACK", raising=False)


def exit_code(*arguments: str) -> int:
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert isinstance(exit_.value.code, int)
    return exit_.value.code


def test_config_show_lists_every_value_with_its_origin(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c.toml").write_text("[network]\nsegment_bytes = '64KiB'\n")
    monkeypatch.setenv("FLINKNET_CLUSTER_WORKERS", "3")
    assert exit_code("config", "show", "--config", "c.toml") == 0

    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert rows[0] == ["option", "value", "origin"]
    assert [row[0] for row in rows[2:]] == list(options())
    assert ["network.segment_bytes", "64KiB", "file", "c.toml"] in rows
    assert ["cluster.workers", "3", "environment", "FLINKNET_CLUSTER_WORKERS"] in rows
    assert ["cluster.stop_timeout_ms", "5s", "default"] in rows


def test_config_show_as_json(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLINKNET_CLUSTER_WORKERS", "3")
    assert exit_code("config", "show", "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert list(shown) == list(options())
    assert shown["cluster.workers"] == {
        "value": 3,
        "origin": "environment",
        "source": "FLINKNET_CLUSTER_WORKERS",
    }
    assert shown["network.segment_bytes"] == {
        "value": FlinknetConfig().network.segment_bytes,
        "origin": "default",
        "source": None,
    }


def test_config_show_refuses_an_invalid_configuration(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLINKNET_CLUSTER_WORKERS", "many")
    assert exit_code("config", "show") == 2
    assert capsys.readouterr().err == (
        "flinknet: cluster.workers is 'many' (environment FLINKNET_CLUSTER_WORKERS): "
        "write a whole number\n"
    )


def test_the_template_is_a_file_that_sets_every_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code("config", "template") == 0
    file = tmp_path / "cluster.toml"
    file.write_text(capsys.readouterr().out)
    origins = load_settings(file, {}, {}).origins
    assert {origin.kind for origin in origins.values()} == {"file"}


def test_a_value_that_is_long_is_shown_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    directory = "/state/" + "x" * 90
    monkeypatch.setenv("FLINKNET_CLUSTER_STATE_DIRECTORY", directory)
    assert exit_code("config", "show") == 0
    shown = capsys.readouterr().out
    assert "…" not in shown
    assert shown.count("x") >= 90
