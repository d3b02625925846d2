"""``flinknet savepoint``: the coordinator and the secret of its request."""

from __future__ import annotations

from pathlib import Path

import pytest

from flinknet.cli.main import main
from flinknet.cluster.control.credentials import TOKEN_VARIABLE

TOKEN = "a secret of the tests"


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[object, str]:
    with pytest.raises(SystemExit) as ended:
        main(["savepoint", *arguments])
    return ended.value.code, capsys.readouterr().err


def test_no_request_is_sent_without_the_secret(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    status, said = call(capsys, "sums", "--coordinator=127.0.0.1:1")
    assert (status, TOKEN_VARIABLE in said) == (2, True)


def test_no_request_is_sent_without_an_address(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN.replace(" ", "-"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    status, said = call(capsys, "sums")
    assert (status, "--cluster HOST:PORT" in said) == (2, True)


def test_the_address_may_stand_in_the_configuration(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "cluster.toml").write_text("[cluster]\ncoordinator_port = 1\n")
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN.replace(" ", "-"))
    status, said = call(capsys, "sums", f"--config={tmp_path / 'cluster.toml'}")
    assert status == 2
    assert "the coordinator at 127.0.0.1:1 cannot be reached" in said
