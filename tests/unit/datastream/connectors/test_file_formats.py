"""PyFlink's builder of file sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from flinknet.datastream import FileSource, StreamFormat, TextFileSource
from flinknet.errors import ConfigurationError
from tests.unit.operators.harness import context


def test_lines_of_files(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("é".encode("latin-1"))
    (tmp_path / "b.txt").write_text("b")
    builder = FileSource.for_record_stream_format(
        StreamFormat.text_line_format("latin-1"), str(tmp_path / "b.txt"), str(tmp_path / "a.txt")
    )
    source = builder.process_static_file_set().build()
    assert isinstance(source, TextFileSource)
    assert [record for batch in source.read_share(context()) for record in batch] == ["b", "é"]


def test_a_source_of_files_has_a_path() -> None:
    with pytest.raises(ConfigurationError, match="has no path: name at least one"):
        FileSource.for_record_stream_format(StreamFormat.text_line_format())
