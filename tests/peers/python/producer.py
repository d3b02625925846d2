"""A producer: it serves partitions on one connection.

    python -m tests.peers.python.producer [--dial ADDRESS] [--buffer-bytes N] [--secret TEXT] ...

Standard input is one JSON object. ``partitions`` has, by name, a list of subpartitions, each a list
of records (see forms.py) with events between them (see events.py). ``errors`` has, by name, the
code and text of the answer to a request. The first line of output is ``{"address": "host:port"}``.
With ``--dial`` the producer writes it after dialling the other side, and accepts no connections.
The last line is ``{"end": ...}``: ``complete`` if every subpartition was read to its end and
cancelled.
"""

from __future__ import annotations

import argparse
import bisect
import itertools
import json
import socket
import sys
from typing import Any

from tests.peers.python import events, forms, wire

TAKEN, NOT_FOUND = 8, 4


class Subpartition:
    """The records of one subpartition as a stream of bytes that is cut into buffers."""

    def __init__(self, records: list[Any]) -> None:
        packed = []
        size = 0
        self._events: list[tuple[int, int, bytes]] = []
        """For each event, the number of bytes before it, its data type, and its body."""
        for record in records:
            if isinstance(record, dict) and "event" in record:
                self._events.append((size, *events.encode(record)))
                continue
            packed.append(forms.pack(forms.from_json(record)))
            size += len(packed[-1])
        self._bytes = b"".join(packed)
        self._ends = list(itertools.accumulate(map(len, packed)))
        self._at = 0
        self.taken = False
        self.settled = False
        """Whether the consumer has acknowledged or cancelled."""

    def backlog(self, buffer_bytes: int) -> int:
        """Return the number of buffers up to the next event that blocks."""
        number, at = 0, self._at
        for end, data_type, _ in [*self._events, (len(self._bytes), 0, b"")]:
            number += -(-(end - at) // buffer_bytes)
            at = end
            if data_type in events.BLOCKING:
                break
        return number

    def event(self) -> tuple[int, bytes] | None:
        """Return and remove the next event; None if data comes first."""
        if self.is_event_next():
            return self._events.pop(0)[1:]
        return None

    def is_event_next(self) -> bool:
        """Return whether an event comes next."""
        return bool(self._events) and self._events[0][0] == self._at

    def cut(self, buffer_bytes: int) -> tuple[int, int, int, int, bytes]:
        """Return the next buffer: its data type, continued, unfinished, records, and its body."""
        until = self._events[0][0] if self._events else len(self._bytes)
        begin, end = self._at, min(self._at + buffer_bytes, until)
        self._at = end
        first = bisect.bisect_right(self._ends, begin)  # the record that continues or begins here
        is_inside = begin > (self._ends[first - 1] if first else 0)
        continued = min(self._ends[first], end) - begin if is_inside else 0
        after = bisect.bisect_right(self._ends, end)  # the first record that ends after this buffer
        ended = max(after - first - (1 if is_inside else 0), 0)
        last_end = self._ends[after - 1] if after else 0
        unfinished = end - max(last_end, begin) if begin + continued < end else 0
        kind = wire.DATA_WITH_CLEAR_END if last_end == end else wire.DATA
        return kind, continued, unfinished, ended, self._bytes[begin:end]


class Channel:
    """A request for a subpartition, and the state of its channel."""

    def __init__(
        self, siblings: list[Subpartition], subpartition: Subpartition, credit: int
    ) -> None:
        self.siblings = siblings
        self.subpartition = subpartition
        self.initial = self.credit = credit
        self.event_credit = wire.EVENT_CREDIT
        self.is_blocked = False
        self.is_announced = credit > 0
        self.sequence = 0
        self.state = "data"
        self.buffer_bytes = 0


class Producer:
    """All channels of one connection."""

    def __init__(self, connection: wire.Wire, work: dict[str, Any], buffer_bytes: int) -> None:
        self._wire = connection
        self._partitions = {
            wire.partition_id(name): [Subpartition(records) for records in subpartitions]
            for name, subpartitions in work["partitions"].items()
        }
        self._errors = {
            wire.partition_id(name): error for name, error in work.get("errors", {}).items()
        }
        self._buffer_bytes = buffer_bytes
        self._channels: dict[int, Channel] = {}
        self._done: list[Subpartition] = []

    def run(self) -> object:
        """Serve until the other side closes; return the result."""
        while True:
            try:
                message = self._wire.receive()
            except wire.LostError as error:
                return self._end(str(error))
            if message.type == wire.CLOSE:
                self._wire.answer_close()
                return self._end("the consumer has left")
            self._handle(message)
            while self._send_round():
                pass

    def _end(self, loss: str) -> object:
        wanted = sum(map(len, self._partitions.values()))
        is_complete = len(self._done) == wanted and not self._channels
        return "complete" if is_complete else {"lost": loss}

    def _handle(self, message: wire.Message) -> None:
        fields = message.fields
        if message.type == wire.REQUEST:
            self._on_request(*fields)
        elif message.type == wire.ERROR:
            raise wire.PeerError(f"error {fields[1]}: {fields[2]}")
        elif message.type == wire.HEARTBEAT:
            pass
        elif fields[0] not in self._channels:
            if message.type != wire.CANCEL:  # its request was answered with an error
                raise wire.PeerError(f"message {message.type} for channel {fields[0]}")
        elif message.type == wire.ADD_CREDIT:
            self._channels[fields[0]].credit += fields[1]
        elif message.type == wire.ADD_EVENT_CREDIT:
            self._channels[fields[0]].event_credit += fields[1]
        elif message.type == wire.BUFFER_SIZE:
            self._channels[fields[0]].buffer_bytes = min(fields[1], self._buffer_bytes)
        elif message.type == wire.ACKNOWLEDGE:
            channel = self._channels[fields[0]]
            if channel.state != "end of data":
                raise wire.PeerError(f"an acknowledgement in the state {channel.state}")
            channel.state, channel.subpartition.settled = "acknowledged", True
        elif message.type == wire.RESUME:
            channel = self._channels[fields[0]]
            if not channel.is_blocked:
                raise wire.PeerError("a channel was resumed that is not blocked")
            channel.is_blocked = False
            # A blocked channel without exclusive buffers releases its buffers, and so its credit.
            if channel.initial == 0:
                channel.credit, channel.is_announced = 0, False
        elif message.type == wire.CANCEL:
            self._channels.pop(fields[0]).subpartition.settled = True
        else:
            raise wire.PeerError(f"a consumer does not send message {message.type}")

    def _on_request(self, number: int, partition: bytes, index: int, credit: int) -> None:
        if partition in self._errors:
            self._wire.send(wire.ERROR, number, *self._errors[partition])
            return
        subpartitions = self._partitions.get(partition, [])
        if index >= len(subpartitions):
            self._wire.send(wire.ERROR, number, NOT_FOUND, "there is no such subpartition")
        elif subpartitions[index].taken:
            self._wire.send(wire.ERROR, number, TAKEN, "the subpartition is taken")
        else:
            subpartitions[index].taken = True
            channel = Channel(subpartitions, subpartitions[index], credit)
            channel.buffer_bytes = self._buffer_bytes
            self._channels[number] = channel

    def _send_round(self) -> bool:
        """Send one buffer on each channel that may send; return whether there was any."""
        sent = [self._send_next(*item) for item in self._channels.items()]
        return any(sent)

    def _send_next(self, number: int, channel: Channel) -> bool:
        """Send the next buffer or event of a channel, if it may be sent.

        Data behind an event waits for event credit, too.
        """
        if channel.is_blocked:
            return False
        event = None
        if channel.state == "data" and channel.subpartition.is_event_next():
            if not channel.event_credit:
                return False
            event = channel.subpartition.event()
        if event is not None:
            channel.is_blocked = event[0] in events.BLOCKING
            self._send_buffer(number, channel, event[0], [0, 0, 0], event[1])
            return True
        backlog = channel.subpartition.backlog(channel.buffer_bytes)
        if channel.state == "data" and backlog and not channel.credit:
            if not channel.is_announced:
                channel.is_announced = True
                self._wire.send(wire.BACKLOG, number, backlog)
            return False
        if channel.state == "data" and backlog:
            channel.credit -= 1
            kind, *cuts, body = channel.subpartition.cut(channel.buffer_bytes)
        elif not channel.event_credit:
            return False
        elif channel.state == "data":
            channel.state = "end of data"
            kind, cuts, body = wire.END_OF_DATA, [0, 0, 0], b"\x91\x01"
        elif channel.state == "acknowledged" and all(other.settled for other in channel.siblings):
            channel.state = "end of partition"
            self._done.append(channel.subpartition)
            kind, cuts, body = wire.END_OF_PARTITION, [0, 0, 0], b"\x90"
        else:
            return False
        self._send_buffer(number, channel, kind, cuts, body)
        return True

    def _send_buffer(
        self, number: int, channel: Channel, kind: int, cuts: list[int], body: bytes
    ) -> None:
        backlog = 0
        if kind not in (wire.DATA, wire.DATA_WITH_CLEAR_END):
            channel.event_credit -= 1
        if not channel.is_blocked:
            backlog = channel.subpartition.backlog(channel.buffer_bytes)
        self._wire.send(wire.BUFFER, number, channel.sequence, backlog, kind, *cuts, body=body)
        channel.sequence = (channel.sequence + 1) % 2**32


def main() -> None:
    """Listen or dial, serve, and report the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--dial", default="")
    parser.add_argument("--buffer-bytes", type=int, default=0)
    wire.add_identity_options(parser)
    options = parser.parse_args()
    work = json.load(sys.stdin)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        mine = wire.identity(options, address)
        end: object
        try:
            with _connect(listener, mine, address, options) as connection:
                buffer_bytes = options.buffer_bytes or options.segment_bytes
                end = Producer(connection, work, buffer_bytes).run()
        except wire.ENDS as error:
            end = wire.told(error)
    print(json.dumps({"end": end}))
    sys.exit(end != "complete")


def _connect(
    listener: socket.socket, mine: wire.Identity, address: str, options: argparse.Namespace
) -> wire.Wire:
    secret = options.secret.encode()
    if options.dial:
        connection = wire.dial(options.dial, mine, secret, options)
        print(json.dumps({"address": address}), flush=True)
        return connection
    print(json.dumps({"address": address}), flush=True)
    peer, _ = listener.accept()
    connection = wire.Wire(peer, options.heartbeat_ms / 1000)
    try:
        connection.accept(mine, secret)
    except wire.ENDS:
        connection.close()
        raise
    return connection


if __name__ == "__main__":
    main()
