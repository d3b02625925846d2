"""What a process has logged and printed of late, kept in its memory for who asks over REST.

Theory of operation. A process of a cluster writes to the streams that it was given, and to no file:
whoever started it has both streams. So that they can be read from elsewhere, too, their ends are
kept: of standard output, and of the log, which is all that is logged, with the time of each line,
and what else goes to standard error. Each keeps ``output_kept_bytes`` at most, whole lines, and
forgets the oldest. What is written past Python's ``sys.stdout`` and ``sys.stderr``, by C code or by
processes that user code starts, is not in it. Any thread may write and read.
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
    """One of the texts, as if it were a file."""

    name: str
    size: int
    """Bytes."""
    modified_s: float
    """When it was last written to, in seconds since 1970; 0 for never."""


class KeptText:
    """The last lines of a text, at most so many bytes."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._lock = machine.RLock()  # A signal's handler may log.
        self._lines: deque[bytes] = deque()
        self._begun = ""
        """A line that has no end yet."""
        self._size = 0
        self.modified_s = 0.0

    def write(self, text: str) -> None:
        """Append some of the text."""
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
        """All that is kept, in UTF-8."""
        with self._lock:
            begun = printable(self._begun).encode("utf-8", "backslashreplace")
            return b"".join(self._lines) + begun


class KeptOutput:
    """The log and the standard output of one process, under the names of files."""

    def __init__(self, process: str, bytes_max: int) -> None:
        self.log = KeptText(bytes_max)
        self.stdout = KeptText(bytes_max)
        self._texts = {f"{process}.log": self.log, f"{process}.out": self.stdout}

    def files(self) -> list[KeptFile]:
        """What can be read."""
        return [
            KeptFile(name, len(text.read()), text.modified_s) for name, text in self._texts.items()
        ]

    def read(self, name: str) -> bytes | None:
        """The end of one of them, in UTF-8; None if there is none of that name."""
        text = self._texts.get(name)
        return None if text is None else text.read()


class KeptLogHandler(logging.Handler):
    """Writes what is logged to a text that is kept, with the time."""

    def __init__(self, text: KeptText) -> None:
        super().__init__()
        self._text = text
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """As ``logging`` wants it: what fails is not raised where somebody logs."""
        try:
            self._text.write(self.format(record) + "\n")
        except Exception:
            self.handleError(record)


LINE_CHARACTERS_MAX = 64 * 1024
"""Of a line that has no end yet: a longer one is written in pieces, so that it takes no memory."""


class _Tee:
    """A text stream that also keeps a copy of its text; all else is left to the stream behind it.

    Subtasks print side by side, each in a thread of its own, and ``print`` writes a line and its
    end one after the other. So the line that a thread has begun waits here for its end, or for the
    thread to flush. The rest of a thread that has ended comes with the next flush of any thread.
    """

    def __init__(self, stream: TextIO, text: KeptText, *, is_passed_on: bool = False) -> None:
        """``is_passed_on``: lines go to the program that has submitted the job, too."""
        self._is_passed_on = is_passed_on
        self._stream = stream
        self._text = text
        self._begun: dict[int, str] = {}
        """By thread, in the order in which they began."""

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
    """From now on keep what this process logs and prints. What a handler of ``logging`` writes to
    the stream that was standard error before is not kept twice."""
    root = logging.getLogger()
    root.addHandler(KeptLogHandler(kept.log))
    sys.stdout = cast("TextIO", _Tee(sys.stdout, kept.stdout, is_passed_on=True))
    sys.stderr = cast("TextIO", _Tee(sys.stderr, kept.log))
