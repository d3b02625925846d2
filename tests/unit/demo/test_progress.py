"""The demo's progress, on outputs that can and cannot overwrite lines."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from flinknet.demo import progress as module
from flinknet.demo.progress import DemoProgress


@pytest.fixture
def shown() -> io.StringIO:
    return io.StringIO()


def test_a_phase_says_when_it_begins_and_how_long_it_took(shown: io.StringIO) -> None:
    progress = DemoProgress(Console(file=shown))
    with progress.phase("exchange", "9 copies"):
        assert shown.getvalue() == "exchange, 9 copies ...\n"
    assert re.fullmatch(
        r"exchange, 9 copies ...\nexchange, 9 copies: \d+\.\d s\n", shown.getvalue()
    )
    assert list(progress.phases) == ["exchange"]


def test_a_phase_that_fails_took_no_time(shown: io.StringIO) -> None:
    progress = DemoProgress(Console(file=shown))
    with pytest.raises(ValueError, match="no flights"), progress.phase("prepare"):
        raise ValueError("no flights")
    assert progress.phases == {}
    assert shown.getvalue() == "prepare ...\n"


def test_plain_lines_are_rare(shown: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    progress = DemoProgress(Console(file=shown))
    with progress.phase("exchange"):
        progress.records(1, 4)
        assert shown.getvalue() == "exchange ...\n", "it has only just begun"
        monkeypatch.setattr(module, "PLAIN_LINE_INTERVAL_S", 0.0)
        progress.records(1000, 4000)
    assert "exchange: 1,000 of 4,000 records (25%), " in shown.getvalue()


def test_a_terminal_shows_the_phase_in_one_live_line(shown: io.StringIO) -> None:
    progress = DemoProgress(Console(file=shown, force_terminal=True, width=100))
    with progress.phase("exchange"):
        progress.records(1, 4)
    assert "exchange: 1 of 4 records (25%)" not in shown.getvalue().splitlines()[-1]
    assert re.search(r"exchange: \d+\.\d s\n$", shown.getvalue())
