"""The output flusher: lets records leave part-filled buffers after the buffer timeout.

One flusher serves all writers of a worker; a writer asks once when something stands in a buffer
that was empty, or of which all had been taken, so an idle writer costs nothing and there is no
timer per channel.

*At once* (0): what is written leaves before anything else happens, unless there is so much of it
that this would make many small writes (``write_turn.py``).

*Periodic* (a positive timeout): everything the writer has written leaves when the timeout is over
(Flink's OutputFlusher).

*Adaptive*: at the end of each loop turn the flusher looks whether the writer has written anything
since the turn before. If it has, it is busy: its buffers fill up by themselves, and flushing them
would only make more and smaller frames. If it has not, it has nothing more to say at the moment,
and what it wrote leaves now. So low load gets the latency of a loop turn and high load gets full
buffers; a record in a cold channel of a busy writer leaves after ``adaptive_flush_ms_max`` at the
latest, or after ``adaptive_flush_us_per_channel`` for each of its channels if that is longer: what
a flush costs grows with their number.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, Handle
from functools import partial

from flinknet.config import ADAPTIVE, NetworkConfig
from flinknet.net.write_turn import Sender
from flinknet.records.writer import RecordWriter

__all__ = ["EventLoopFlusher"]


class EventLoopFlusher:
    """Flushes writers from the event loop."""

    def __init__(self, loop: AbstractEventLoop, config: NetworkConfig, sender: Sender) -> None:
        self._loop = loop
        self._sender = sender
        self._adaptive_s_max = config.adaptive_flush_ms_max / 1000
        self._adaptive_s_per_channel = config.adaptive_flush_us_per_channel / 1_000_000
        self._pending: dict[RecordWriter, Handle] = {}

    def request_flush(self, writer: RecordWriter) -> None:
        """Flush the writer when its buffer timeout says so; called once per need."""
        if writer.buffer_timeout_ms == 0:
            self._flush_at_once(writer)
            return
        if writer in self._pending:
            return
        if writer.buffer_timeout_ms == ADAPTIVE:
            channels = len(writer.partition.subpartitions)
            delay_s = max(self._adaptive_s_max, channels * self._adaptive_s_per_channel)
            self._look_again(writer, -1, self._loop.time() + delay_s)
        else:
            delay_s = float(writer.buffer_timeout_ms) / 1000
            self._pending[writer] = self._loop.call_later(delay_s, partial(self._flush, writer))

    def forget(self, writer: RecordWriter) -> None:
        """Stop looking at a writer that is closed."""
        handle = self._pending.pop(writer, None)
        if handle is not None:
            handle.cancel()

    def _look_again(self, writer: RecordWriter, seen: int, deadline: float) -> None:
        self._pending[writer] = self._loop.call_soon(partial(self._look, writer, seen, deadline))

    def _look(self, writer: RecordWriter, seen: int, deadline: float) -> None:
        progress = writer.progress
        if progress == seen or self._loop.time() >= deadline:
            self._flush(writer)
        else:
            self._look_again(writer, progress, deadline)

    def _flush(self, writer: RecordWriter) -> None:
        self._pending.pop(writer, None)
        self._flush_at_once(writer)

    def _flush_at_once(self, writer: RecordWriter) -> None:
        self._sender.sends_at_once = True
        try:
            writer.flush()
        finally:
            self._sender.sends_at_once = False
