"""The output flusher: sends records in partly filled buffers after the buffer timeout.

One flusher serves all writers of a worker. A writer requests a flush once, when it writes to a
buffer that is empty or fully taken. An idle writer costs nothing, and no channel has its own timer.

*Immediate* (0): records leave before anything else happens, unless there are so many that this
would cause many small writes (``write_scheduler.py``).

*Periodic* (a positive timeout): all written records leave when the timeout is over (Flink's
OutputFlusher).

*Adaptive*: at the end of each loop turn, the flusher checks for new records since the last turn. A
writer with new records is busy: its buffers fill up on their own, and a flush would only make more
and smaller frames. A writer without new records is idle for the moment, and its records leave now.
The latency under low load is thus one loop turn, and buffers under high load are full. A busy
writer is flushed after ``adaptive_flush_ms_max`` at the latest, for records in its rarely used
channels. The cost of a flush grows with the number of channels, so the limit is at least
``adaptive_flush_us_per_channel`` for each of them.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, Handle
from functools import partial

from flinknet.config import ADAPTIVE, NetworkConfig
from flinknet.net.write_scheduler import Sender
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
        """Flush the writer after its buffer timeout; called for a buffer's first untaken bytes."""
        if writer.buffer_timeout_ms == 0:
            self._flush_at_once(writer)
            return
        if writer in self._pending:
            return
        if writer.buffer_timeout_ms == ADAPTIVE:
            channels = len(writer.partition.subpartitions)
            delay_s = max(self._adaptive_s_max, channels * self._adaptive_s_per_channel)
            # No progress equals -1, so the first look does not take the writer for idle.
            self._check_later(writer, -1, self._loop.time() + delay_s)
        else:
            delay_s = float(writer.buffer_timeout_ms) / 1000
            self._pending[writer] = self._loop.call_later(delay_s, partial(self._flush, writer))

    def forget(self, writer: RecordWriter) -> None:
        """Remove a closed writer."""
        handle = self._pending.pop(writer, None)
        if handle is not None:
            handle.cancel()

    def _check_later(self, writer: RecordWriter, seen: int, deadline: float) -> None:
        self._pending[writer] = self._loop.call_soon(partial(self._check, writer, seen, deadline))

    def _check(self, writer: RecordWriter, seen: int, deadline: float) -> None:
        progress = writer.progress
        # The writer is idle for the moment, or its limit is reached.
        if progress == seen or self._loop.time() >= deadline:
            self._flush(writer)
        else:
            self._check_later(writer, progress, deadline)

    def _flush(self, writer: RecordWriter) -> None:
        self._pending.pop(writer, None)
        self._flush_at_once(writer)

    def _flush_at_once(self, writer: RecordWriter) -> None:
        self._sender.sends_at_once = True
        try:
            writer.flush()
        finally:
            self._sender.sends_at_once = False
