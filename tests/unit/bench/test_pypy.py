from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from bench.errors import UnavailableError
from bench.peers import pypy
from bench.peers.pypy import PYPY


def test_without_an_interpreter_it_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(pypy.VARIABLE, raising=False)
    monkeypatch.setattr(pypy, "ENVIRONMENT", Path("/nowhere"))
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UnavailableError, match=r"there is no PyPy here: make \.venv-pypy PYPY="):
        PYPY.version()


def test_an_interpreter_that_does_not_run_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(pypy.VARIABLE, "/nowhere/pypy3")
    with pytest.raises(UnavailableError, match=r"/nowhere/pypy3 does not run .* make"):
        PYPY.version()


def test_another_interpreter_is_not_taken_for_pypy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(pypy.VARIABLE, sys.executable)
    with pytest.raises(UnavailableError, match="cannot run flinknet .*pypy_version_info"):
        PYPY.version()


def test_it_has_the_nursery_that_a_cluster_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    assert PYPY.environment == {"PYPY_GC_NURSERY": os.environ.get("PYPY_GC_NURSERY", "33554432")}
