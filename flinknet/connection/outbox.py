"""The outbox: a connection's output, and its order.

This is Flink's PartitionRequestQueue. It holds three kinds of output:

- *Control messages* go first, in the order in which they were added.
- *Credit* and *buffer sizes* go next. A channel's account is here once. Its number is taken when
  the message is written, so many recycled buffers become one AddCredit. Credit that is only
  *offered* does not cause a write (``consumer/credit.py``). Only a channel's last buffer size is
  sent.
- *Readers* that may send go last, in turn. Each has a quantum of bytes per round, and any excess is
  deducted from its next round (deficit round robin, Shreedhar and Varghese 1995). Channels with
  small buffers and channels with large ones thus get equal shares of the connection. A reader with
  nothing left to send keeps its debt and loses the rest of its quantum.

``next_frames`` returns views of the buffers' own memory. The slices of a buffer that its writer
still fills may be copies (``buffer/buffer.py``). The buffers are then in flight until
``forget_in_flight`` recycles them; the session decides when. ``on_output`` is called each time
output is added, and when the budget holds some back. The session sets it again with each link.

Counters: control bytes, buffers in flight, and totals sent. Invariants: a reader is marked as
queued iff it is here; control bytes are 0 iff no control message is here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from flinknet.buffer.buffer import Buffer, DataType
from flinknet.connection.subpartition_reader import SubpartitionReader
from flinknet.consumer.credit import ChannelCredit
from flinknet.wire.buffer_header import encode_buffer_header, encode_credit
from flinknet.wire.codec import encode
from flinknet.wire.messages import MessageType

__all__ = ["PIECES_PER_WRITE_MAX", "Outbox"]

PIECES_PER_WRITE_MAX = 1000
"""Headers and bodies of 500 buffers; the system accepts 1,024 pieces per call (IOV_MAX)."""

_NONE = DataType.NONE
_MESSAGE_OVERHEAD_BYTES = 64
"""Cost of a queued message beyond its bytes: its object and its place in the queue."""


class Outbox:
    """Control messages, credit and sending readers of one connection."""

    def __init__(self, quantum_bytes: int, on_output: Callable[[], None]) -> None:
        self.control_bytes = 0
        self.buffers_out = 0
        self.bytes_out = 0
        self.credit_messages_out = 0
        self._quantum_bytes = quantum_bytes
        self.on_output = on_output
        self._control: list[bytes] = []
        self._credit: dict[int, ChannelCredit] = {}
        self._credit_is_due = False
        self._buffer_sizes: dict[int, bytes] = {}
        self._readers: deque[SubpartitionReader] = deque()
        self._in_flight: list[tuple[Buffer, memoryview | bytes]] = []

    def __bool__(self) -> bool:
        return bool(self._control or self._credit_is_due or self._buffer_sizes or self._readers)

    # -- in ---------------------------------------------------------------------------------------

    def add_message(self, message: bytes) -> None:
        """Queue a control message."""
        self._control.append(message)
        self.control_bytes += len(message) + _MESSAGE_OVERHEAD_BYTES
        self.on_output()

    def offer_credit(self, channel: int, credit: ChannelCredit) -> None:
        """Add a channel's account; its AddCredit is sent with other output only."""
        self._credit[channel] = credit

    def add_credit(self, channel: int, credit: ChannelCredit) -> None:
        """Queue a channel's account for its AddCredit."""
        self._credit[channel] = credit
        self._credit_is_due = True
        self.on_output()

    def add_buffer_size(self, channel: int, size_bytes: int) -> None:
        """Queue a channel's NewBufferSize, replacing a waiting one."""
        self._buffer_sizes[channel] = encode(MessageType.NEW_BUFFER_SIZE, channel, size_bytes)
        self.on_output()

    def add_reader(self, reader: SubpartitionReader) -> None:
        """Queue a reader that may send, at the end of the round."""
        if not reader.queued:
            reader.queued = True
            self._readers.append(reader)
            self.on_output()

    def remove_channel(self, channel: int) -> None:
        """Remove a closed channel; do nothing if it is not queued."""
        self._credit.pop(channel, None)
        self._buffer_sizes.pop(channel, None)

    def remove_reader(self, reader: SubpartitionReader) -> None:
        """Remove a cancelled reader; do nothing if it is not queued."""
        if reader.queued:
            reader.queued = False
            self._readers.remove(reader)

    def clear(self) -> None:
        """Remove all output at the end of the session, and recycle the buffers in flight."""
        self._control.clear()
        self.control_bytes = 0
        self._credit.clear()
        self._credit_is_due = False
        self._buffer_sizes.clear()
        for reader in self._readers:
            reader.queued = False
        self._readers.clear()
        in_flight, self._in_flight = self._in_flight, []
        for buffer, _ in in_flight:
            buffer.recycle_sent()

    # -- out --------------------------------------------------------------------------------------

    def next_frames(self, budget_bytes: int) -> list[bytes | memoryview]:
        """Return frames of about ``budget_bytes`` for one ``writelines`` call.

        Buffers exceed the budget by at most one. Control messages are sent regardless of it.
        """
        frames: list[bytes | memoryview] = []
        if self._control or self._credit or self._buffer_sizes:
            control = self._take_control()
            if control:
                frames.append(control)
                self.bytes_out += len(control)
        left = budget_bytes
        while self._readers and left > 0 and len(frames) < PIECES_PER_WRITE_MAX:
            left -= self._take_turn(self._readers.popleft(), left, frames)
        self.bytes_out += budget_bytes - left
        if self._readers:
            # The budget held some output back.
            self.on_output()
        return frames

    def _take_turn(
        self, reader: SubpartitionReader, budget_bytes: int, frames: list[bytes | memoryview]
    ) -> int:
        """Let one reader send its quantum; return the number of bytes."""
        reader.queued = False
        # A debt from the last round is deducted from this quantum.
        if reader.allowance_bytes <= 0:
            reader.allowance_bytes += self._quantum_bytes
        sent = 0
        more = True
        while more and reader.allowance_bytes > 0 and sent < budget_bytes:
            if len(frames) >= PIECES_PER_WRITE_MAX:
                break
            polled = reader.poll()
            if polled is None:
                more = False
                break
            buffer, backlog, following, sequence = polled
            view = buffer.view()
            header = encode_buffer_header(
                reader.channel,
                sequence,
                backlog,
                buffer.data_type,
                buffer.size,
                buffer.continued,
                buffer.unfinished,
                buffer.records,
            )
            frames += (header, view)
            self._in_flight.append((buffer, view))
            self.buffers_out += 1
            size = len(header) + buffer.size
            sent += size
            reader.allowance_bytes -= size
            more = following is not _NONE and reader.may_send(following)
        if more:
            reader.queued = True
            self._requeue(reader)
        else:
            # With nothing left to send, it keeps its debt and loses the rest of its quantum.
            reader.allowance_bytes = min(reader.allowance_bytes, 0)
        return sent

    def _requeue(self, reader: SubpartitionReader) -> None:
        """Queue a reader first if the budget cut its turn short, or else for the next round."""
        if reader.allowance_bytes > 0:
            self._readers.appendleft(reader)
        else:
            self._readers.append(reader)

    def _take_control(self) -> bytes:
        """Return all queued messages, one AddCredit per channel with credit, and buffer sizes."""
        messages, self._control, self.control_bytes = self._control, [], 0
        accounts, self._credit, self._credit_is_due = self._credit, {}, False
        for channel, account in accounts.items():
            # The number is taken only now, so many recycled buffers become one message.
            credit = account.take()
            if credit:
                messages.append(encode_credit(channel, credit))
                self.credit_messages_out += 1
        if self._buffer_sizes:
            messages += self._buffer_sizes.values()
            self._buffer_sizes.clear()
        return self._join(messages)

    def _join(self, messages: Iterable[bytes]) -> bytes:
        """Join messages into one piece."""
        return b"".join(messages)

    def forget_in_flight(self) -> None:
        """Recycle the buffers of all frames that ``next_frames`` has returned.

        A transport may drop its views of them slightly later, which ``recycle_sent`` handles.
        """
        if not self._in_flight:
            return
        in_flight, self._in_flight = self._in_flight, []
        for buffer, view in in_flight:
            if isinstance(view, memoryview):
                view.release()
            buffer.recycle_sent()

    # -- accounts ---------------------------------------------------------------------------------

    @property
    def messages(self) -> int:
        """Number of waiting control messages."""
        return len(self._control)

    @property
    def readers(self) -> int:
        """Number of readers that may send."""
        return len(self._readers)

    @property
    def in_flight(self) -> int:
        """Number of buffers handed out and not recycled yet."""
        return len(self._in_flight)

    def check_invariants(self) -> None:
        """Raise AssertionError if the accounts are inconsistent."""
        assert all(reader.queued for reader in self._readers), "a queued reader is unmarked"
        assert len(set(map(id, self._readers))) == len(self._readers), "a reader is queued twice"
        assert (self.control_bytes > 0) == bool(self._control), "control bytes are miscounted"
