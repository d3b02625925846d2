"""The outbox: what a connection has to send, and in which order.

Theory of operation (Flink's PartitionRequestQueue). Three kinds of output wait here. *Control
messages* go first, in the order in which they were said. *Credit* goes next: a channel stands here
once, with its account, from which the number is taken when the message is written, so that many
recycles become one AddCredit; what is only *offered* goes along with anything else
(``consumer/credit.py``). Of several *buffer sizes* of a channel only the last is sent. *Readers*
that may send go last, in turn: each has a quantum of bytes per round, and what it sends over that
is taken from its next round (deficit round robin, Shreedhar and Varghese 1995), so that channels of
small and of large buffers have the same share of the connection. A reader with nothing more to send
keeps its debt and loses what it has left.

``next_frames`` hands out views of the buffers' own memory, or copies of slices of buffers that the
writer goes on in (``buffer/buffer.py``). The buffers are in flight then, until ``forget_in_flight``
recycles them; the session decides when. ``on_output`` is called when something is added, as often
as that happens, and when the budget has kept something back; the session exchanges it with its
link.

Owned counters: control bytes, buffers in flight, and what was sent from the start. Invariants: a
reader is marked as queued iff it stands here; control bytes are 0 iff no control message is here.
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
"""Headers and bodies of 500 buffers; systems take 1,024 pieces in one call (IOV_MAX)."""

_NONE = DataType.NONE
_MESSAGE_OVERHEAD_BYTES = 64
"""What a queued message costs beside its bytes: the object around them and its place in the
queue."""


class Outbox:
    """Control messages, credit and readers that may send, of one connection."""

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
        """Take a channel's account for an AddCredit that need not be sent."""
        self._credit[channel] = credit

    def add_credit(self, channel: int, credit: ChannelCredit) -> None:
        """Queue a channel's account for its AddCredit."""
        self._credit[channel] = credit
        self._credit_is_due = True
        self.on_output()

    def add_buffer_size(self, channel: int, size_bytes: int) -> None:
        """Queue a channel's NewBufferSize, in place of one that waits."""
        self._buffer_sizes[channel] = encode(MessageType.NEW_BUFFER_SIZE, channel, size_bytes)
        self.on_output()

    def add_reader(self, reader: SubpartitionReader) -> None:
        """Queue a reader that may send, at the end of the round."""
        if not reader.queued:
            reader.queued = True
            self._readers.append(reader)
            self.on_output()

    def remove_channel(self, channel: int) -> None:
        """Forget a channel that is closed; harmless if it is not here."""
        self._credit.pop(channel, None)
        self._buffer_sizes.pop(channel, None)

    def remove_reader(self, reader: SubpartitionReader) -> None:
        """Forget a reader that is cancelled; harmless if it is not here."""
        if reader.queued:
            reader.queued = False
            self._readers.remove(reader)

    def clear(self) -> None:
        """The session is over: forget everything, and give the buffers in flight back."""
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
        """Return frames of about ``budget_bytes`` for one ``writelines``.

        Buffers exceed the budget by one at most; control messages are sent whatever it is.
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
            self.on_output()
        return frames

    def _take_turn(
        self, reader: SubpartitionReader, budget_bytes: int, frames: list[bytes | memoryview]
    ) -> int:
        """Let one reader send its quantum; return how many bytes that was."""
        reader.queued = False
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
            reader.allowance_bytes = min(reader.allowance_bytes, 0)
        return sent

    def _requeue(self, reader: SubpartitionReader) -> None:
        """Go on with a reader whose turn the budget cut short; others wait for the next round."""
        if reader.allowance_bytes > 0:
            self._readers.appendleft(reader)
        else:
            self._readers.append(reader)

    def _take_control(self) -> bytes:
        """Return every queued message, one AddCredit for each channel that has credit, and buffer
        sizes."""
        messages, self._control, self.control_bytes = self._control, [], 0
        accounts, self._credit, self._credit_is_due = self._credit, {}, False
        for channel, account in accounts.items():
            credit = account.take()
            if credit:
                messages.append(encode_credit(channel, credit))
                self.credit_messages_out += 1
        if self._buffer_sizes:
            messages += self._buffer_sizes.values()
            self._buffer_sizes.clear()
        return self._join(messages)

    def _join(self, messages: Iterable[bytes]) -> bytes:
        """Make one piece of messages."""
        return b"".join(messages)

    def forget_in_flight(self) -> None:
        """Recycle the buffers of all frames that ``next_frames`` has returned.

        A transport may drop its views of them a little later; ``recycle_sent`` sees to that.
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
        """Control messages that wait."""
        return len(self._control)

    @property
    def readers(self) -> int:
        """Readers that may send."""
        return len(self._readers)

    @property
    def in_flight(self) -> int:
        """Buffers that have been handed out and not been forgotten yet."""
        return len(self._in_flight)

    def check_invariants(self) -> None:
        """Raise AssertionError if the accounts do not add up."""
        assert all(reader.queued for reader in self._readers), "a queued reader is unmarked"
        assert len(set(map(id, self._readers))) == len(self._readers), "a reader is queued twice"
        assert (self.control_bytes > 0) == bool(self._control), "control bytes are miscounted"
