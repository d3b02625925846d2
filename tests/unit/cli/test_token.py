"""Tokens of roles are printed, and no other secret of the cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from flinknet.cli.main import main
from flinknet.cluster.control.credentials import (
    TOKEN_VARIABLE,
    Role,
    authorization_headers,
    new_token,
    role_of,
)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as exit_:
        main(["token", *arguments])
    assert exit_.value.code == 0
    return capsys.readouterr().out.strip()


@pytest.mark.parametrize("role", [Role.READ, Role.OPERATE, Role.SUBMIT])
def test_the_token_of_a_role_is_derived_from_the_cluster_token(
    role: Role, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    token = new_token()
    monkeypatch.setenv(TOKEN_VARIABLE, token)
    made = printed(capsys, role.name.lower())
    assert role_of(authorization_headers(made), token) is role


def test_a_new_token_in_the_token_file_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    file = tmp_path / "token"
    file.write_text(printed(capsys, "new"))
    file.chmod(0o600)
    monkeypatch.setenv("FLINKNET_CLUSTER_TOKEN_FILE", str(file))
    made = printed(capsys, "read")
    assert role_of(authorization_headers(made), file.read_text()) is Role.READ
    with pytest.raises(SystemExit) as exit_:
        monkeypatch.delenv("FLINKNET_CLUSTER_TOKEN_FILE")
        main(["token", "read"])
    assert exit_.value.code == 2
    assert "no cluster token" in capsys.readouterr().err
