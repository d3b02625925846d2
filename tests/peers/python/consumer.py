"""A consumer: it reads subpartitions of a partition and prints their records as JSON lines.

    python -m tests.peers.python.consumer ADDRESS PARTITION [SUBPARTITION ...] [--credit N] ...

The last line is ``{"end": ...}``. Its value is ``complete`` for channels that reached their end,
the code of an error, the verdict of a refused connection, ``lost`` if the stream ended, or the
``violation`` of the other side. With ``--pause-after N`` the consumer prints ``{"paused": N}``
after N buffers; it continues, and announces the credit due, after a line on standard input. With
``--events 1`` it prints events (see events.py), and resumes the channels that they block.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from tests.peers.python import events, forms, wire

FLOATING = 4


class Channel:
    """One subpartition, from its request to its end."""

    def __init__(self, number: int, subpartition: int, credit: int) -> None:
        self.number = number
        self.subpartition = subpartition
        self.initial = self.free = credit
        self.sequence = 0
        self.state = "data"
        self.open_record = b""
        self.events = 0
        """Processed events that are not announced as event credit yet."""

    def records(self, fields: wire.BufferFields, body: bytes) -> list[Any]:
        """Return the records that end in a buffer."""
        if fields.continued + fields.unfinished > len(body):
            raise wire.PeerError("a buffer is cut outside of itself")
        if bool(self.open_record) != bool(fields.continued):
            raise wire.PeerError("a record goes on that was not begun, or does not go on")
        end = len(body) - fields.unfinished
        found = []
        if fields.continued:
            self.open_record += body[: fields.continued]
            if fields.continued < len(body) or fields.data_type == wire.DATA_WITH_CLEAR_END:
                found = [forms.unpack(self.open_record)]
                self.open_record = b""
        whole = forms.unpack_all(body[fields.continued : end])
        if len(whole) != fields.records:
            raise wire.PeerError(f"{len(whole)} records, not {fields.records}")
        if fields.unfinished:
            self.open_record = body[end:]
        return found + whole


class Consumer:
    """All channels of one connection."""

    def __init__(self, connection: wire.Wire, options: argparse.Namespace) -> None:
        self._wire = connection
        self._options = options
        self._channels: dict[int, Channel] = {}
        self._segment_bytes = options.segment_bytes
        self._buffers = 0

    def run(self) -> object:
        """Read all channels, and return the result."""
        for number, subpartition in enumerate(self._options.subpartitions):
            channel = Channel(number, subpartition, self._options.credit)
            self._channels[number] = channel
            partition = wire.partition_id(self._options.partition)
            self._wire.send(wire.REQUEST, number, partition, subpartition, channel.initial)
        end: object = "complete"
        while any(channel.state != "end of partition" for channel in self._channels.values()):
            message = self._wire.receive()
            if message.type == wire.BUFFER:
                self._on_buffer(wire.BufferFields(*message.fields), message.body)
            elif message.type == wire.BACKLOG:
                number, backlog = message.fields
                channel = self._channels[number]
                if channel.initial or not backlog:
                    raise wire.PeerError("a backlog that nobody needs")
                self._give(channel, backlog)
            elif message.type == wire.ERROR:
                number, code, text = message.fields
                end = {"code": code, "text": text}
                if number == wire.WHOLE_CONNECTION:
                    return end
                break
            elif message.type == wire.CLOSE:
                self._wire.answer_close()
                raise wire.LostError("the producer has left")
            elif message.type != wire.HEARTBEAT:
                raise wire.PeerError(f"a producer does not send message {message.type}")
        for number in self._channels:
            self._wire.send(wire.CANCEL, number)
        self._wire.leave()
        return end

    def _on_buffer(self, fields: wire.BufferFields, body: bytes) -> None:
        channel = self._channels[fields.channel]
        if fields.sequence != channel.sequence:
            raise wire.PeerError(f"buffer {fields.sequence} in place of {channel.sequence}")
        channel.sequence = (channel.sequence + 1) % 2**32
        if fields.data_type not in (wire.DATA, wire.DATA_WITH_CLEAR_END):
            channel.events += 1
        if fields.data_type in (wire.DATA, wire.DATA_WITH_CLEAR_END):
            self._on_data(channel, fields, body)
        elif len(body) > 1024 or fields.continued or fields.unfinished or fields.records:
            raise wire.PeerError("an event of the wrong form")
        elif fields.data_type == wire.END_OF_DATA and channel.state == "data":
            if body not in (b"\x91\x00", b"\x91\x01") or channel.open_record:
                raise wire.PeerError("a wrong end of the data")
            self._wire.send(wire.ACKNOWLEDGE, channel.number)
            channel.state = "acknowledged"
        elif fields.data_type == wire.END_OF_PARTITION and channel.state == "acknowledged":
            channel.state = "end of partition"
        elif self._options.events and channel.state != "end of partition":
            self._on_event(channel, fields, body)
        elif fields.data_type not in wire.EVENTS_TO_SKIP or channel.state == "end of partition":
            raise wire.PeerError(f"event {fields.data_type} in the state {channel.state}")
        if 2 * channel.events >= wire.EVENT_CREDIT:
            self._wire.send(wire.ADD_EVENT_CREDIT, channel.number, channel.events)
            channel.events = 0

    def _on_event(self, channel: Channel, fields: wire.BufferFields, body: bytes) -> None:
        if channel.open_record and fields.data_type != events.OVERTAKES:
            raise wire.PeerError("an event inside a record")
        said = events.decode(fields.data_type, body)
        if said is not None:
            print(json.dumps({"channel": channel.subpartition, "record": said}))
        if fields.data_type in events.BLOCKING:
            if channel.initial == 0:
                channel.free = 0
            self._wire.send(wire.RESUME, channel.number)
        else:
            self._give(channel, fields.backlog)

    def _on_data(self, channel: Channel, fields: wire.BufferFields, body: bytes) -> None:
        if channel.state != "data" or len(body) > self._segment_bytes or not channel.free:
            raise wire.PeerError(f"data of {len(body)} bytes in the state {channel.state}")
        channel.free -= 1
        self._pause()
        for record in channel.records(fields, body):
            print(json.dumps({"channel": channel.subpartition, "record": forms.to_json(record)}))
        self._give(channel, fields.backlog)

    def _pause(self) -> None:
        self._buffers += 1
        if self._buffers == self._options.pause_after:
            print(json.dumps({"paused": self._buffers}), flush=True)
            sys.stdin.readline()

    def _give(self, channel: Channel, backlog: int) -> None:
        """Announce the channel's own buffers, and floating ones for the backlog."""
        wanted = channel.initial + min(backlog, FLOATING)
        if wanted > channel.free:
            self._wire.send(wire.ADD_CREDIT, channel.number, wanted - channel.free)
            channel.free = wanted


def main() -> None:
    """Read, print, and report the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("partition")
    parser.add_argument("subpartitions", type=int, nargs="*", default=[0])
    parser.add_argument("--credit", type=int, default=2)
    parser.add_argument("--pause-after", type=int, default=0)
    parser.add_argument("--events", type=int, default=0)
    wire.add_identity_options(parser)
    options = parser.parse_args()
    mine = wire.identity(options)
    end: object
    try:
        with wire.dial(options.address, mine, options.secret.encode(), options) as connection:
            end = Consumer(connection, options).run()
    except wire.ENDS as error:
        end = wire.told(error)
    print(json.dumps({"end": end}))
    sys.exit(end != "complete")


if __name__ == "__main__":
    main()
