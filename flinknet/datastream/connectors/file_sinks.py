"""Sinks for files of lines: text, JSON lines, CSV."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from flinknet import machine
from flinknet.datastream.connectors.directory_sink import DirectorySink
from flinknet.datastream.connectors.encoders import (
    CsvEncoder,
    Encoder,
    JsonLinesEncoder,
    TextEncoder,
)
from flinknet.datastream.connectors.part_names import PartNames
from flinknet.datastream.connectors.rolling_policies import (
    OnCheckpointRollingPolicy,
    RollingPolicy,
)
from flinknet.operators.operators import on_records
from flinknet.texts import text_of

__all__ = ["CsvSink", "FileSink", "JsonLinesSink", "OutputFileConfig", "TextFileSink"]


@dataclass(frozen=True, slots=True)
class OutputFileConfig:
    """The prefix and suffix of file names (PyFlink's OutputFileConfig)."""

    part_prefix: str
    part_suffix: str

    @staticmethod
    def builder() -> OutputFileConfig.OutputFileConfigBuilder:
        """Return a builder."""
        return OutputFileConfig.OutputFileConfigBuilder()

    def get_part_prefix(self) -> str:
        """Return the prefix of file names."""
        return self.part_prefix

    def get_part_suffix(self) -> str:
        """Return the suffix of file names."""
        return self.part_suffix

    class OutputFileConfigBuilder:
        """Builds an OutputFileConfig step by step."""

        def __init__(self) -> None:
            self._prefix, self._suffix = "part", ""

        def with_part_prefix(self, prefix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            """Set the prefix of file names."""
            self._prefix = prefix
            return self

        def with_part_suffix(self, suffix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            """Set the suffix of file names."""
            self._suffix = suffix
            return self

        def build(self) -> OutputFileConfig:
            """Return the configuration."""
            return OutputFileConfig(self._prefix, self._suffix)


class FileSink(DirectorySink):
    """Writes encoded records to files; ``DirectorySink`` tells when files become visible.

    PyFlink's builder works, too: ``FileSink.for_row_format(path, encoder).build()``. All files are
    in the directory itself; there are no buckets.
    """

    def __init__(
        self,
        path: str | Path,
        encoder: Encoder,
        *,
        prefix: str = "part",
        suffix: str = "",
        rolling_policy: RollingPolicy | None = None,
    ) -> None:
        super().__init__(path, PartNames(prefix, suffix))
        self._encoder = encoder
        self._rolling_policy = rolling_policy or OnCheckpointRollingPolicy()
        self._file: BinaryIO | None = None
        self._begun_at = self._written_at = 0.0

    @staticmethod
    def for_row_format(base_path: str, encoder: Encoder) -> FileSink.RowFormatBuilder:
        """Return a builder for a sink that writes records one by one."""
        return FileSink.RowFormatBuilder(base_path, encoder)

    class RowFormatBuilder:
        """Builds a FileSink step by step."""

        def __init__(self, base_path: str, encoder: Encoder) -> None:
            self._path = base_path
            self._encoder = encoder
            self._config = OutputFileConfig("part", "")
            self._rolling_policy = RollingPolicy.default_rolling_policy()

        def with_rolling_policy(self, rolling_policy: RollingPolicy) -> FileSink.RowFormatBuilder:
            """Set the policy that decides when a file ends."""
            self._rolling_policy = rolling_policy
            return self

        def with_output_file_config(
            self, output_file_config: OutputFileConfig
        ) -> FileSink.RowFormatBuilder:
            """Set the prefix and suffix of file names."""
            self._config = output_file_config
            return self

        def build(self) -> FileSink:
            """Return the sink."""
            return FileSink(
                self._path,
                self._encoder,
                prefix=self._config.part_prefix,
                suffix=self._config.part_suffix,
                rolling_policy=self._rolling_policy,
            )

    def write(self, records: list[Any]) -> None:
        now = machine.monotonic()
        if self._file is not None and self._rolling_policy.should_roll(
            self._file.tell(), (now - self._begun_at) * 1000, (now - self._written_at) * 1000
        ):
            self._end()
        encoded = self._encoded(records)
        self._open_file(now).write(encoded)
        self._written_at = now

    def end_file(self, *, is_last: bool) -> None:
        """Write buffered records and close the file.

        The last file is written even if it holds only a header.
        """
        if is_last and not self._number and self._encoder.header():
            self._open_file(machine.monotonic())
        self._end()

    def abandon_file(self) -> None:
        """Close the file that is being written."""
        if self._file is not None:
            self._file.close()

    def _encoded(self, records: list[Any]) -> bytes:
        try:
            return self._encoder.encode(records)
        except Exception:
            # Find the record that fails, for the message.
            for record in records:
                try:
                    self._encoder.encode([record])
                except Exception as error:
                    problem = f"{type(error).__name__}: {text_of(error)}"
                    raise ValueError(f"failed {on_records([record])}: {problem}") from error
            raise

    def _open_file(self, now: float) -> BinaryIO:
        if self._file is None:
            self._file = self.begin_file().open("wb")
            self._file.write(self._encoder.header())
            self._begun_at = self._written_at = now
        return self._file

    def _end(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            file.close()
            self.file_ended()


class TextFileSink(FileSink):
    """Writes each record as a line of text, by ``str``."""

    def __init__(self, path: str | Path, *, encoding: str = "utf-8") -> None:
        super().__init__(path, TextEncoder(encoding), suffix=".txt")


class JsonLinesSink(FileSink):
    """Writes each record as a line of JSON.

    ``default`` converts objects without a JSON form, as in ``json.dumps``.
    """

    def __init__(self, path: str | Path, *, default: Callable[[Any], Any] | None = None) -> None:
        super().__init__(path, JsonLinesEncoder(default), suffix=".jsonl")


class CsvSink(FileSink):
    """Writes records as CSV rows: tuples with one value per column, or dicts.

    Each file begins with the names of the columns, unless ``header`` is False.
    """

    def __init__(
        self,
        path: str | Path,
        columns: Sequence[str],
        *,
        header: bool = True,
        delimiter: str = ",",
        encoding: str = "utf-8",
    ) -> None:
        encoder = CsvEncoder(columns, header=header, delimiter=delimiter, encoding=encoding)
        super().__init__(path, encoder, suffix=".csv")
