"""PyFlink's file formats, and the builder of sources for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flinknet.compatibility.pyflink_differences import PyFlinkNames
from flinknet.datastream.connectors.text_files import LineSource, TextFileSource
from flinknet.errors import ConfigurationError

__all__ = ["FileSourceBuilder", "StreamFormat"]


class StreamFormat:
    """A format for reading the records of a file in sequence (PyFlink's StreamFormat)."""

    def __init__(self, source: Callable[[Sequence[str]], LineSource]) -> None:
        """Create a format; ``source`` makes a source for the files at given paths."""
        self.source = source

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8") -> StreamFormat:
        """Return the format of text files with one record per line."""
        return StreamFormat(lambda paths: TextFileSource(paths, encoding=charset_name))


class FileSourceBuilder(PyFlinkNames):
    """Builds a source of files step by step."""

    def __init__(self, stream_format: StreamFormat, paths: Sequence[str]) -> None:
        if not paths:
            raise ConfigurationError("a source of files has no path: name at least one")
        self._format = stream_format
        self._paths = list(paths)

    def process_static_file_set(self) -> FileSourceBuilder:
        """Read the present files, then end; all file sources do this."""
        return self

    def build(self) -> LineSource:
        """Return the source."""
        return self._format.source(self._paths)
