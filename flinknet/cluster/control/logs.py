"""Logging of a process of a cluster, for user code and flinknet.

Lines go to standard error, and the last ones are kept (``kept_output.py``). They contain names and
values that others chose. A line of text is therefore made printable. In JSON, with one object per
line, such values are escaped.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

from flinknet.cluster.control.kept_output import KeptOutput, keep_output
from flinknet.config import ClusterConfig
from flinknet.texts import printable

__all__ = ["JsonFormatter", "PrintableFormatter", "configure_logging"]


class PrintableFormatter(logging.Formatter):
    """Formatter for a line of text without control characters for a terminal."""

    def __init__(self) -> None:
        super().__init__("%(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Return the formatted record, made printable."""
        return printable(super().format(record))


class JsonFormatter(logging.Formatter):
    """Formatter for one JSON object per record.

    Its fields are time (UTC), level, logger, process, message, and exception if there is one.
    """

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        """Return the object, in ASCII, without newlines."""
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "process": self._process,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields)


def configure_logging(config: ClusterConfig, process: str) -> KeptOutput:
    """Log from ``log_level`` on to standard error, and keep the last lines of log and output.

    flinknet's own loggers log warnings and errors only, unless the level is "debug".
    """
    handler = logging.StreamHandler(sys.stderr)
    kept = KeptOutput(process, config.output_kept_bytes)
    keep_output(kept)
    is_json = config.log_format == "json"
    handler.setFormatter(JsonFormatter(process) if is_json else PrintableFormatter())
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(config.log_level.upper())
    if config.log_level != "debug":
        logging.getLogger("flinknet").setLevel(max(logging.WARNING, root.level))
    return kept
