"""The recent log and output of a process, kept in memory for requests over REST.

Theory of operation. A process of a cluster writes to its standard streams, and to no file, so its
log and output belong to the program that started it. To make them readable from elsewhere as well,
their last lines are kept. The *output* is standard output. The *log* is everything that is logged,
with times, and other text on standard error. Each text keeps at most ``output_kept_bytes``, in
whole lines, and drops the oldest. Data that bypasses Python's ``sys.stdout`` and ``sys.stderr``,
from C code or from processes that user code starts, is not kept. Any thread may write and read.
"""

from __future__ import annotations

import logging
import sys
from collections import deque
from typing import Any, NamedTuple, TextIO, cast

from flinknet import machine
from flinknet.cluster.control.printed_lines import PRINTING
from flinknet.texts import printable

__all__ = [
    "LINE_CHARACTERS_MAX",
    "KeptFile",
    "KeptLogHandler",
    "KeptOutput",
    "KeptText",
    "keep_output",
]


class KeptFile(NamedTuple):
    """A kept text, presented as a file."""

    name: str
    size: int
    """Bytes."""
    modified_s: float
    """Time of the last write, in seconds since 1970; 0 for never."""


class KeptText:
    """The last lines of a text, limited in bytes."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        # Reentrant, because a signal handler may log.
        self._lock = machine.RLock()
        self._lines: deque[bytes] = deque()
        self._begun = ""
        """An incomplete last line."""
        self._size = 0
        self.modified_s = 0.0

    def write(self, text: str) -> None:
        """Append to the text."""
        with self._lock:
            self.modified_s = machine.wall_time()
            *lines, begun = (self._begun + text).split("\n")
            self._begun = begun[-self._bytes_max :]
            for line in lines:
                self._append(printable(line).encode("utf-8", "backslashreplace") + b"\n")

    def _append(self, line: bytes) -> None:
        line = line[-self._bytes_max :]
        self._lines.append(line)
        self._size += len(line)
        while self._size > self._bytes_max:
            self._size -= len(self._lines.popleft())

    def read(self) -> bytes:
        """Return the kept text in UTF-8."""
        with self._lock:
            begun = printable(self._begun).encode("utf-8", "backslashreplace")
            return b"".join(self._lines) + begun


class KeptOutput:
    """The log and the standard output of one process, under file names."""

    def __init__(self, process: str, bytes_max: int) -> None:
        self.log = KeptText(bytes_max)
        self.stdout = KeptText(bytes_max)
        self._texts = {f"{process}.log": self.log, f"{process}.out": self.stdout}

    def files(self) -> list[KeptFile]:
        """Return the available texts."""
        return [
            KeptFile(name, len(text.read()), text.modified_s) for name, text in self._texts.items()
        ]

    def read(self, name: str) -> bytes | None:
        """Return the kept end of a text, in UTF-8; None if there is no text of that name."""
        text = self._texts.get(name)
        return None if text is None else text.read()


class KeptLogHandler(logging.Handler):
    """A log handler that writes records, with their times, to a kept text."""

    def __init__(self, text: KeptText) -> None:
        super().__init__()
        self._text = text
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record; errors are not raised to the code that logs, as ``logging`` demands."""
        try:
            self._text.write(self.format(record) + "\n")
        except Exception:
            self.handleError(record)


LINE_CHARACTERS_MAX = 64 * 1024
"""Limit for an incomplete line. A longer one is written in pieces, so that it does not take up
memory."""


class _Tee:
    """A text stream that delegates to another one, and keeps a copy of the text.

    Subtasks print at the same time, each in a thread of its own, and ``print`` writes a line and
    its end separately. So an incomplete line of a thread is held back until its end, or until the
    thread flushes. The rest of a thread that has ended is written with the next flush of any
    thread.
    """

    def __init__(self, stream: TextIO, text: KeptText, *, is_passed_on: bool = False) -> None:
        """Wrap ``stream``, and copy its text to ``text``.

        ``is_passed_on`` also forwards lines to the program that has submitted the job.
        """
        self._is_passed_on = is_passed_on
        self._stream = stream
        self._text = text
        self._begun: dict[int, str] = {}
        """Incomplete lines by thread, in the order in which they began."""

    def write(self, text: str) -> int:
        thread = machine.thread_id()
        begun = self._begun.pop(thread, "") + text
        end = len(begun) if len(begun) > LINE_CHARACTERS_MAX else begun.rfind("\n") + 1
        if end < len(begun):
            self._begun[thread] = begun[end:]
        if end:
            self._put(begun[:end])
            self._pass_on(begun[:end])
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        mine, running = machine.thread_id(), sys._current_frames()
        for thread in [one for one in list(self._begun) if one == mine or one not in running]:
            self._put(self._begun.pop(thread, ""))
        self._stream.flush()

    def _put(self, text: str) -> None:
        self._stream.write(text)
        self._text.write(text)

    def _pass_on(self, text: str) -> None:
        printed = PRINTING.get() if self._is_passed_on else None
        if printed is not None:
            printed.append(text.removesuffix("\n").split("\n"))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def keep_output(kept: KeptOutput) -> None:
    """Keep the log and the output of this process from now on.

    Text that a handler of ``logging`` writes to the original standard error is not kept twice.
    """
    root = logging.getLogger()
    root.addHandler(KeptLogHandler(kept.log))
    sys.stdout = cast("TextIO", _Tee(sys.stdout, kept.stdout, is_passed_on=True))
    sys.stderr = cast("TextIO", _Tee(sys.stderr, kept.log))
