"""``flinknet stop``: the coordinator of its request."""

from __future__ import annotations

import pytest

from flinknet.cli.main import main
from flinknet.cluster.control.credentials import TOKEN_VARIABLE


def test_without_a_cluster_nothing_is_stopped(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "a-secret-of-the-tests")
    with pytest.raises(SystemExit) as ended:
        main(["stop", "sums", "--drain", "--coordinator=127.0.0.1:1"])
    assert ended.value.code == 2
    assert "the coordinator at 127.0.0.1:1 cannot be reached" in capsys.readouterr().err
