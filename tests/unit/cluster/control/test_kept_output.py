"""The end of the log and output is kept, bounded and printable."""

from __future__ import annotations

import io
import logging
import sys
import threading
from collections.abc import Iterator

import pytest

from flinknet.cluster.control.kept_output import (
    LINE_CHARACTERS_MAX,
    KeptFile,
    KeptLogHandler,
    KeptOutput,
    KeptText,
    keep_output,
)


def test_the_last_whole_lines_of_a_long_text_are_kept() -> None:
    text = KeptText(10)
    for number in range(100):
        text.write(f"{number:03}\n")
    assert text.read() == b"098\n099\n"
    assert text.modified_s > 0


def test_a_line_that_comes_in_pieces_is_one() -> None:
    text = KeptText(100)
    for piece in ("a", "b\nc", "d"):
        text.write(piece)
    assert text.read() == b"ab\ncd"
    text.write("e\n")
    assert text.read() == b"ab\ncde\n"


def test_a_line_that_is_too_long_is_cut() -> None:
    text = KeptText(4)
    text.write("abcdef")
    assert text.read() == b"cdef"
    text.write("gh\n")
    assert text.read() == b"fgh\n"


def test_the_kept_text_is_printable() -> None:
    text = KeptText(100)
    text.write("red \x1b[31m\n\ud800")
    assert text.read() == b"red \\x1b[31m\n\\ud800"


@pytest.fixture
def handlers_are_restored() -> Iterator[None]:
    """Restore the handlers, which belong to the whole process."""
    handlers = logging.getLogger().handlers.copy()
    yield
    for handler in set(logging.getLogger().handlers) - set(handlers):
        logging.getLogger().removeHandler(handler)


def test_output_and_log_lines_are_passed_on_and_kept(
    handlers_are_restored: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, error = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", error)
    kept = KeptOutput("worker-0", 1_000)
    assert kept.files() == [KeptFile("worker-0.log", 0, 0.0), KeptFile("worker-0.out", 0, 0.0)]
    logging.getLogger().addHandler(logging.StreamHandler(error))
    keep_output(kept)
    print("printed", flush=True)
    print("wrong", file=sys.stderr)
    sys.stdout.writelines(["two\n", "lines\n"])
    logging.getLogger("mine").warning("logged %d", 3)
    assert out.getvalue() == "printed\ntwo\nlines\n"
    assert error.getvalue() == "wrong\nlogged 3\n"
    assert kept.read("worker-0.out") == b"printed\ntwo\nlines\n"
    wrong, logged = (kept.read("worker-0.log") or b"").splitlines()
    assert wrong == b"wrong"
    assert logged.endswith(b" WARNING mine: logged 3")
    assert [one.size for one in kept.files()] == [len(wrong) + len(logged) + 2, 18]
    assert kept.read("../secret") is None
    assert not sys.stdout.isatty()


def what_is_printed(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Capture the standard output that passes from now on."""
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    keep_output(KeptOutput("worker-0", 1_000))
    return out


def in_thread(text: str) -> None:
    thread = threading.Thread(target=print, args=(text,), kwargs={"end": ""})
    thread.start()
    thread.join()


def test_threads_print_line_by_line(
    handlers_are_restored: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``print`` writes a line and its end separately."""
    printed = what_is_printed(monkeypatch)
    begun, goes_on = threading.Event(), threading.Event()

    def prints() -> None:
        sys.stdout.write("1")
        begun.set()
        goes_on.wait(30)
        sys.stdout.write("\n3\n4")
        sys.stdout.flush()

    thread = threading.Thread(target=prints)
    thread.start()
    begun.wait(30)
    print("2", flush=True)
    assert printed.getvalue() == "2\n"
    goes_on.set()
    thread.join()
    assert printed.getvalue() == "2\n1\n3\n4"


def test_an_incomplete_line_is_not_lost(
    handlers_are_restored: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = what_is_printed(monkeypatch)
    in_thread("left")
    print("begun", end="")
    assert printed.getvalue() == ""
    sys.stdout.flush()
    assert printed.getvalue() == "leftbegun"
    sys.stdout.write("x" * (LINE_CHARACTERS_MAX + 1))
    assert len(printed.getvalue()) > LINE_CHARACTERS_MAX


def test_an_error_of_logging_is_not_raised(capsys: pytest.CaptureFixture[str]) -> None:
    handler = KeptLogHandler(KeptText(100))
    handler.emit(logging.LogRecord("mine", logging.INFO, "file", 1, "%d", ("no number",), None))
    assert "Logging error" in capsys.readouterr().err
