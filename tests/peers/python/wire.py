"""The wire protocol, version 5: the bytes of messages, and a socket with its handshake.

It is written from the specification with the standard library and msgpack only. It imports nothing
of flinknet, so that it is an independent implementation.
"""

from __future__ import annotations

import argparse
import hashlib
import hmac
import os
import select
import socket
import time
from contextlib import suppress
from struct import Struct, pack, unpack
from typing import Any, NamedTuple, Self

from tests.peers.python.forms import unpack_all

MAGIC, VERSION = b"flinknet", 5
VERDICTS = {1: "WELCOME", 2: "VERSION", 3: "IDENTITY", 4: "DUPLICATE", 5: "FULL", 6: "REFUSED"}
WHOLE_CONNECTION = 0xFFFFFFFF

DATA, DATA_WITH_CLEAR_END, END_OF_DATA, END_OF_PARTITION = 1, 8, 9, 10
EVENTS_TO_SKIP = (2, 3, 7, 11)

BUFFER, ERROR, REQUEST, CANCEL, CLOSE = 0, 1, 2, 4, 5
ADD_CREDIT, RESUME, ACKNOWLEDGE, BACKLOG, BUFFER_SIZE, HEARTBEAT = 6, 7, 8, 9, 10, 12
ADD_EVENT_CREDIT = 13

EVENT_CREDIT = 1000
"""The initial event credit of each channel."""

_UINT32 = 0xCE
_FORMS = {  # number of elements, and their forms behind the two bytes of array and type
    BUFFER: (8, "iii1iii"),
    ERROR: (4, "i1t"),
    REQUEST: (5, "ipii"),
    CANCEL: (2, "i"),
    CLOSE: (1, ""),
    ADD_CREDIT: (3, "ii"),
    RESUME: (2, "i"),
    ACKNOWLEDGE: (2, "i"),
    BACKLOG: (3, "ii"),
    BUFFER_SIZE: (3, "ii"),
    HEARTBEAT: (1, ""),
    ADD_EVENT_CREDIT: (3, "ii"),
}


class PeerError(Exception):
    """The other side broke the specification."""


class RefusedError(Exception):
    """The handshake ended with a verdict other than WELCOME."""

    def __init__(self, verdict: int, reason: str = "") -> None:
        super().__init__(reason)
        self.verdict = VERDICTS.get(verdict, str(verdict))
        self.reason = reason


class LostError(Exception):
    """The stream ended."""


ENDS = (PeerError, RefusedError, LostError, ValueError)
"""Errors that end a connection early; ValueError if records cannot be unpacked."""


def told(error: Exception) -> object:
    """Return the result that a program prints for an error."""
    if isinstance(error, RefusedError):
        return {"verdict": error.verdict, "reason": error.reason}
    return {"lost" if isinstance(error, LostError) else "violation": str(error)}


def _make_crc_table() -> list[int]:
    table = []
    for number in range(256):
        for _ in range(8):
            number = number >> 1 ^ (0x82F63B78 if number & 1 else 0)
        table.append(number)
    return table


_CRC_TABLE = _make_crc_table()


def crc32c(data: bytes) -> int:
    """Return the CRC32C (Castagnoli) of data."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _CRC_TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def partition_id(name: str) -> bytes:
    """Return the 16 bytes that name a partition in a request."""
    return hashlib.sha256(name.encode()).digest()[:16]


class Identity(NamedTuple):
    """A worker's identity in the handshake, in the order of the specification."""

    attempt: int = 0
    segment_bytes: int = 33024
    flow_control: int = 0
    checksums: int = 0
    worker_id: str = "foreign"
    address: str = ""
    job: str = "embedded"

    def encode(self) -> bytes:
        """Return the seven encoded elements."""
        head = pack(">BIBIBB", _UINT32, self.attempt, _UINT32, *self[1:4])
        return head + b"".join(map(_text8, self[4:]))


def _text8(text: str) -> bytes:
    raw = text.encode()
    return b"\xd9" + bytes([len(raw)]) + raw


class Message(NamedTuple):
    """One message: its type, the fields in order, and the body of a BufferResponse."""

    type: int
    fields: tuple[Any, ...]
    body: bytes = b""


class BufferFields(NamedTuple):
    """The fields of a BufferResponse."""

    channel: int
    sequence: int
    backlog: int
    data_type: int
    continued: int
    unfinished: int
    records: int


def encode(message_type: int, *fields: Any, body: bytes = b"") -> bytes:
    """Return the bytes of a message."""
    arity, kinds = _FORMS[message_type]
    parts = [bytes([0x90 | arity, message_type])]
    for kind, field in zip(kinds, fields, strict=True):
        if kind == "i":
            parts.append(pack(">BI", _UINT32, field))
        elif kind == "1":
            parts.append(bytes([field]))
        elif kind == "p":
            parts.append(b"\xc4\x10" + field)
        else:
            raw = field.encode()
            parts.append(pack(">BH", 0xDA, len(raw)) + raw)
    if message_type == BUFFER:
        parts.append(pack(">BI", 0xC6, len(body)) + body)
    return b"".join(parts)


class Wire:
    """A socket with its handshake and messages."""

    def __init__(self, peer: socket.socket, heartbeat_s: float = 10.0) -> None:
        self.socket = peer
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._heartbeat_s = heartbeat_s
        self._sent_at = time.monotonic()
        self._stands = False
        self.checksums = False
        """Whether messages have trailers."""
        self.theirs = Identity()
        self._input = bytearray()
        self._raw = bytearray()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()

    # -- the handshake

    def dial(self, mine: Identity, secret: bytes, version: int = VERSION) -> None:
        """Perform the handshake as the dialling side.

        Raises RefusedError if the verdict is not WELCOME.
        """
        said = _framed(b"\x92\x01\xc4\x10" + os.urandom(16), version)
        self.socket.sendall(said)
        said += self._hear(2)
        _check_proof(said, b"flinknet accepting challenge", secret)
        hello = _proved(b"\x99\x03" + mine.encode(), b"flinknet dialling hello", secret, said)
        self.socket.sendall(hello)
        answer = self._hear(4)
        _check_proof(said + hello + answer, b"flinknet accepting answer", secret)
        # 12 bytes of header and 2 of array and type; the proof takes 34 at the end.
        verdict, (*theirs, reason) = answer[14], unpack_all(answer[15:-34])
        if verdict != 1:
            raise RefusedError(verdict, reason)
        self._agree(mine, Identity(*theirs))

    def accept(self, mine: Identity, secret: bytes, verdict: int = 1) -> None:
        """Perform the handshake as the accepting side."""
        said = self._hear(1)
        challenge = b"\x93\x02\xc4\x10" + os.urandom(16)
        challenge = _proved(challenge, b"flinknet accepting challenge", secret, said)
        self.socket.sendall(challenge)
        hello = self._hear(3)
        said += challenge + hello
        try:
            _check_proof(said, b"flinknet dialling hello", secret)
        except PeerError:
            self.socket.sendall(_framed(b"\x92\x05\x06", VERSION))
            raise
        answer = b"\x9b\x04" + bytes([verdict]) + mine.encode() + _text8("")
        self.socket.sendall(_proved(answer, b"flinknet accepting answer", secret, said))
        self._agree(mine, Identity(*unpack_all(hello[14:-34])))

    def _agree(self, mine: Identity, theirs: Identity) -> None:
        for field in ("job", "attempt", "segment_bytes", "flow_control"):
            if getattr(mine, field) != getattr(theirs, field):
                raise PeerError(f"the peer has another {field}")
        if mine.worker_id == theirs.worker_id:
            raise PeerError("both have one name")
        if theirs.address:
            host, _, port = theirs.address.rpartition(":")
            is_port = port.isascii() and port.isdigit() and 1 <= int(port) <= 65535
            if not host or not host.isprintable() or " " in host or not is_port:
                raise PeerError("the peer has an address that is none")
            if theirs.address == mine.address:
                raise PeerError("both have one address")
        self.theirs = theirs
        self.checksums = bool(mine.checksums or theirs.checksums)
        self._stands = True

    def _hear(self, expected: int) -> bytes:
        """Read one message of the handshake."""
        head = self._take(12)
        if head[:8] != MAGIC:
            raise PeerError("that is no flinknet")
        size = unpack(">H", head[10:])[0]
        if not 3 <= size <= 512:
            raise PeerError(f"a message of the handshake has {size} bytes")
        body = self._take(size)
        if body[:2] == b"\x92\x05":
            raise RefusedError(body[2])
        if head[8:10] != pack(">H", VERSION):
            raise PeerError("another version")
        if body[1] != expected:
            raise PeerError(f"message {body[1]} of the handshake in place of {expected}")
        return head + body

    # -- messages

    def send(self, message_type: int, *fields: Any, body: bytes = b"") -> None:
        """Send a message, with its checksum if the connection has checksums."""
        self.send_raw(encode(message_type, *fields, body=body))

    def sealed(self, message: bytes) -> bytes:
        """Return a message with its checksum if the connection has checksums."""
        return message + (pack(">BI", _UINT32, crc32c(message)) if self.checksums else b"")

    def send_raw(self, message: bytes) -> None:
        """Send the bytes of a message."""
        self._sent_at = time.monotonic()
        try:
            self.socket.sendall(self.sealed(message))
        except ConnectionError as error:
            raise LostError(str(error)) from error

    def receive(self) -> Message:
        """Return the next message; raises LostError at the end of the stream."""
        self._raw.clear()
        array, message_type = self._take(2)
        if message_type not in _FORMS or array != 0x90 | _FORMS[message_type][0]:
            raise PeerError(f"message {array:02x} {message_type:02x} is not known")
        fields = [self._field(kind) for kind in _FORMS[message_type][1]]
        body = b""
        if message_type == BUFFER:
            body = self._take(self._number(0xC6, ">I"))
        if self.checksums:
            crc = crc32c(bytes(self._raw))
            if self._number(_UINT32, ">I") != crc:
                raise PeerError("a wrong checksum")
        return Message(message_type, tuple(fields), body)

    def _field(self, kind: str) -> Any:
        if kind == "i":
            return self._number(_UINT32, ">I")
        if kind == "1":
            return self._take(1)[0]
        if kind == "p":
            if self._take(2) != b"\xc4\x10":
                raise PeerError("a partition of the wrong form")
            return self._take(16)
        return self._take(self._number(0xDA, ">H")).decode()

    def _number(self, marker: int, form: str) -> int:
        layout = Struct(form)
        if self._take(1)[0] != marker:
            raise PeerError("a field of the wrong form")
        number: int = layout.unpack(self._take(layout.size))[0]
        return number

    def _take(self, size: int) -> bytes:
        while len(self._input) < size:
            self._wait()
            try:
                data = self.socket.recv(262_144)
            except ConnectionError as error:
                raise LostError(str(error)) from error
            if not data:
                raise LostError("the stream ended" + (" in a message" if self._input else ""))
            self._input += data
        taken = bytes(self._input[:size])
        del self._input[:size]
        self._raw += taken
        return taken

    def _wait(self) -> None:
        """Wait until there is something to read, and send Heartbeats meanwhile."""
        while True:
            due = self._sent_at + self._heartbeat_s - time.monotonic() if self._stands else None
            if due is not None and due <= 0:
                self.send(HEARTBEAT)
            elif select.select([self.socket], [], [], due)[0]:
                return

    def leave(self) -> None:
        """Send CloseRequest, read until the other side has answered or closed, and close."""
        self.send(CLOSE)
        with suppress(LostError):
            while self.receive().type != CLOSE:
                pass
        self.close()

    def answer_close(self) -> None:
        """Answer a CloseRequest, and close."""
        with suppress(LostError):
            self.send(CLOSE)
        self.close()


def _framed(body: bytes, version: int = VERSION) -> bytes:
    """Put the twelve bytes of the header before a message of the handshake."""
    return MAGIC + pack(">HH", version, len(body)) + body


def proof(secret: bytes, said: bytes) -> bytes:
    """Return the proof of a label and the bytes of the handshake so far."""
    return hmac.digest(secret, said, "sha256")


def _proved(body: bytes, label: bytes, secret: bytes, said: bytes) -> bytes:
    """Return a message of the handshake that ends with a proof of all bytes so far."""
    # The length in the header includes the proof, which is appended below.
    message = _framed(body + b"\xc4\x20" + bytes(32))[:-32]
    return message + proof(secret, label + said + message)


def _check_proof(said: bytes, label: bytes, secret: bytes) -> None:
    if not hmac.compare_digest(proof(secret, label + said[:-32]), said[-32:]):
        raise PeerError("the peer does not know the secret")


def add_identity_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the identity to a command line."""
    parser.add_argument("--secret", default="")
    parser.add_argument("--worker-id", default="foreign")
    parser.add_argument("--job", default="embedded")
    parser.add_argument("--attempt", type=int, default=0)
    parser.add_argument("--segment-bytes", type=int, default=33024)
    parser.add_argument("--checksums", type=int, default=0)
    parser.add_argument("--version", type=int, default=VERSION)
    parser.add_argument("--heartbeat-ms", type=int, default=10_000)


def dial(address: str, mine: Identity, secret: bytes, options: argparse.Namespace) -> Wire:
    """Connect to a worker; raises RefusedError if the verdict is not WELCOME."""
    host, port = address.rsplit(":", 1)
    connection = Wire(socket.create_connection((host, int(port))), options.heartbeat_ms / 1000)
    try:
        connection.dial(mine, secret, options.version)
    except ENDS:
        connection.close()
        raise
    return connection


def identity(options: argparse.Namespace, address: str = "") -> Identity:
    """Return the identity from the command line."""
    return Identity(
        options.attempt,
        options.segment_bytes,
        0,
        options.checksums,
        options.worker_id,
        address,
        options.job,
    )
