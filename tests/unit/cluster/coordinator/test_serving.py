"""The process of a coordinator; the integration tests run it to its end."""

from __future__ import annotations

import sys

import pytest

from flinknet.cluster.control.credentials import TOKEN_VARIABLE
from flinknet.cluster.control.exit_status import ExitStatus
from flinknet.cluster.coordinator.serving import main


def test_without_a_token_it_does_not_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["coordinator"])
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    assert main() == ExitStatus.REFUSED
    assert capsys.readouterr().err.startswith("coordinator: no cluster token: set ")
