from __future__ import annotations

import pytest

from bench.errors import UnavailableError
from bench.harness.pinning import choose_pinning
from bench.harness.trial import Plan
from bench.peers import pure
from bench.peers.cases import RECORD_CASES
from bench.peers.pure import PURE

TUPLE = RECORD_CASES[0]


def test_it_runs_plain_python_whatever_is_compiled_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pure, "COMPILED", True)
    monkeypatch.setenv("FLINKNET_PURE", "0")
    assert " pure, Python 3." in PURE.version()
    measured = PURE.measure("record", TUPLE, Plan(1, 0.1, 0.0), choose_pinning())
    assert measured.verified
    assert measured.records > 0


def test_where_nothing_is_compiled_there_is_nothing_to_compare(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pure, "COMPILED", False)
    with pytest.raises(UnavailableError, match="nothing is compiled, so that the other rows are"):
        PURE.version()
