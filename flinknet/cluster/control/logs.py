"""What a process of a cluster writes of what is logged in it, by user code or by flinknet itself.

Lines go to standard error, and their end is kept (``kept_output.py``). Names and values that others
chose stand in them, so that a line of text is made printable; in JSON, one object per line, they
are escaped.
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
    """A line of text, in which nothing is a command to a terminal."""

    def __init__(self) -> None:
        super().__init__("%(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """As ``logging`` does, printable."""
        return printable(super().format(record))


class JsonFormatter(logging.Formatter):
    """One JSON object: time (UTC), level, logger, process, message, and exception if there is
    one."""

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
    """Have this process write what is logged in it, from ``log_level`` on, and keep the end of that
    and of what it prints.

    flinknet's own loggers say what is wrong, and all else only with the level "debug".
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
