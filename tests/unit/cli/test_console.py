"""The width of the output of commands."""

from __future__ import annotations

import pytest
from rich.table import Table

from flinknet.cli.console import table_console


@pytest.mark.parametrize("columns", [None, "60"])
def test_a_row_is_wrapped_where_there_is_a_width(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: str | None
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    table = Table("name", "text")
    table.add_row("a row", "word " * 100)
    table_console().print(table)
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if "word" in line]) == (1 if columns is None else 12)
