"""Log records of a process are written as printable lines, or as JSON."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator

import pytest

from flinknet.cluster.control.logs import JsonFormatter, PrintableFormatter, configure_logging
from flinknet.config import ClusterConfig


def record(message: str, *arguments: object, error: Exception | None = None) -> logging.LogRecord:
    made = (type(error), error, error.__traceback__) if error is not None else None
    return logging.LogRecord("mine", logging.INFO, "file", 1, message, arguments, made)


def test_a_line_of_text_is_no_command_to_a_terminal() -> None:
    assert PrintableFormatter().format(record("red \x1b[31m %d", 3)) == "INFO mine: red \\x1b[31m 3"


def test_json_logs_have_the_fields_for_programs() -> None:
    made = record("two\nlines %s", "\ud800", error=ValueError("bad"))
    made.created = 0.5
    line = JsonFormatter("worker-3").format(made)
    assert "\n" not in line
    assert json.loads(line) == {
        "time": "1970-01-01T00:00:00.500+00:00",
        "level": "INFO",
        "logger": "mine",
        "process": "worker-3",
        "message": "two\nlines \ud800",
        "exception": "ValueError: bad",
    }
    assert "exception" not in json.loads(JsonFormatter("worker-3").format(record("fine")))


@pytest.fixture
def root_is_restored() -> Iterator[None]:
    """Restore the levels and handlers, which belong to the whole process."""
    streams = sys.stdout, sys.stderr
    root, own = logging.getLogger(), logging.getLogger("flinknet")
    levels, handlers = (root.level, own.level), root.handlers.copy()
    yield
    sys.stdout, sys.stderr = streams
    for handler in set(root.handlers) - set(handlers):
        root.removeHandler(handler)
    root.setLevel(levels[0])
    own.setLevel(levels[1])


@pytest.mark.parametrize(
    ("level", "user", "own"),
    [
        ("debug", logging.DEBUG, logging.DEBUG),
        ("info", logging.INFO, logging.WARNING),
        ("error", logging.ERROR, logging.ERROR),
    ],
)
def test_levels(root_is_restored: None, level: str, user: int, own: int) -> None:
    """User code is logged from the level on. flinknet logs only problems, except at "debug"."""
    config = ClusterConfig(log_level=level)  # type: ignore[arg-type]
    configure_logging(config, "worker-0")
    assert logging.getLogger("a.module").getEffectiveLevel() == user
    assert logging.getLogger("flinknet.net").getEffectiveLevel() == own


@pytest.mark.parametrize(
    ("form", "formatter"), [("text", PrintableFormatter), ("json", JsonFormatter)]
)
def test_forms(root_is_restored: None, form: str, formatter: type[logging.Formatter]) -> None:
    configure_logging(ClusterConfig(log_format=form), "worker-0")  # type: ignore[arg-type]
    *_, handler = logging.getLogger().handlers
    assert type(handler.formatter) is formatter
