"""The bytes of the handshake messages; ``connection/handshake.py`` has their order.

Each message has 12 fixed bytes (magic, version, length) and a msgpack array of fixed shape. No
general unpacker is involved, and nothing is allocated per peer before a message is complete. The
fixed bytes are the same in every version, so different versions can detect each other. The version
is checked before the length, and the length before the rest arrives.

A *proof* is the last element of its message. It is an HMAC-SHA256, with the secret as its key, over
a label and all bytes of the handshake before the proof, in both directions. It therefore covers the
nonces of both sides, the role of the proving side, and all claims of either side about itself.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import TypeAlias

from flinknet.config import FlowControl, WireLimits
from flinknet.errors import ConfigurationError, ErrorCode, HandshakeError

__all__ = [
    "MAGIC",
    "NONCE_BYTES",
    "PROOF_BYTES",
    "PROTOCOL_VERSION",
    "SAID_TO_STRANGERS",
    "Answer",
    "Challenge",
    "HandshakeKind",
    "HandshakeMessage",
    "Hello",
    "Opening",
    "Refusal",
    "Verdict",
    "WorkerIdentity",
    "decode_handshake",
    "prove",
]

MAGIC = b"flinknet"
PROTOCOL_VERSION = 5
_TLS = b"\x16"
"""First byte of a connection over TLS."""
NONCE_BYTES = 16
PROOF_BYTES = 32

_PREAMBLE = Struct(">8sHH")
_IDENTITY = Struct(">BIBIBB")
_UINT32 = 0xCE
_STR8 = b"\xd9"
_NONCE_HEADER = b"\xc4\x10"
_PROOF_HEADER = b"\xc4\x20"
_NAME_BYTES_MAX = 100
_REASON_BYTES_MAX = 150
_UINT32_MAX = 0xFFFFFFFF
_FLOW_CONTROLS: tuple[FlowControl, ...] = ("credit", "off")
_WRONG_FORM = "the peer sent a handshake of the wrong form"


class HandshakeKind(IntEnum):
    """First element of a message's array.

    The kinds come in this order. REFUSAL replaces any message of the accepting side.
    """

    OPENING = 1
    CHALLENGE = 2
    HELLO = 3
    ANSWER = 4
    REFUSAL = 5


_HEADS: dict[HandshakeKind, bytes] = {
    HandshakeKind.OPENING: b"\x92\x01",
    HandshakeKind.CHALLENGE: b"\x93\x02",
    HandshakeKind.HELLO: b"\x99\x03",
    HandshakeKind.ANSWER: b"\x9b\x04",
    HandshakeKind.REFUSAL: b"\x92\x05",
}
"""Array header and kind."""

_LABELS: dict[HandshakeKind, bytes] = {
    HandshakeKind.CHALLENGE: b"flinknet accepting challenge",
    HandshakeKind.HELLO: b"flinknet dialling hello",
    HandshakeKind.ANSWER: b"flinknet accepting answer",
}
"""Start of the proof's input. It names the role and the message, so that a peer cannot send a
proof back as its own."""


class Verdict(IntEnum):
    """Final decision of the accepting side."""

    WELCOME = 1
    VERSION = 2
    IDENTITY = 3
    DUPLICATE = 4
    FULL = 5
    REFUSED = 6


SAID_TO_STRANGERS = frozenset((Verdict.VERSION, Verdict.FULL, Verdict.REFUSED))
"""Verdicts for peers that have not proved that they know the secret."""
_SAID_TO_PEERS = frozenset((Verdict.WELCOME, Verdict.IDENTITY, Verdict.DUPLICATE, Verdict.FULL))


@dataclass(frozen=True, slots=True)
class WorkerIdentity:
    """Identity of a worker.

    ``address`` is where it accepts connections, empty if nowhere. ``flow_control`` is its mode for
    data, and ``checksums`` tells whether it requests them.
    """

    worker_id: str
    address: str
    job: str
    attempt: int
    segment_bytes: int
    flow_control: FlowControl = "credit"
    checksums: bool = False

    def encode(self) -> bytes:
        """Encode as elements of a message's array.

        Raises:
            ConfigurationError: If a name or number does not fit.
        """
        if not 0 <= self.attempt <= _UINT32_MAX:
            raise ConfigurationError(f"attempt is {self.attempt}: choose 0 to {_UINT32_MAX}")
        flow = _FLOW_CONTROLS.index(self.flow_control)
        numbers = (_UINT32, self.attempt, _UINT32, self.segment_bytes, flow, self.checksums)
        parts = [_IDENTITY.pack(*numbers)]
        for name in (self.worker_id, self.address, self.job):
            raw = name.encode()
            if len(raw) > _NAME_BYTES_MAX:
                raise ConfigurationError(
                    f"{name!r} has {len(raw)} bytes; a handshake has room for {_NAME_BYTES_MAX}: "
                    f"choose a shorter name"
                )
            parts.append(_string(raw))
        return b"".join(parts)


@dataclass(frozen=True, slots=True)
class Opening:
    """Message 1, from the dialling side: a fresh nonce for the other side's proof."""

    nonce: bytes

    def encode(self) -> bytes:
        """Encode with its preamble."""
        return _with_preamble(_HEADS[HandshakeKind.OPENING] + _NONCE_HEADER + self.nonce)


@dataclass(frozen=True, slots=True)
class Challenge:
    """Message 2, from the accepting side: its own nonce, and its proof."""

    nonce: bytes
    proof: bytes

    @classmethod
    def encode(cls, nonce: bytes, secret: bytes, transcript: bytes) -> bytes:
        """Encode with its preamble, and a proof over ``transcript`` and the message."""
        body = _HEADS[HandshakeKind.CHALLENGE] + _NONCE_HEADER + nonce
        return _with_proof(HandshakeKind.CHALLENGE, body, secret, transcript)


@dataclass(frozen=True, slots=True)
class Hello:
    """Message 3, from the dialling side: its identity and its proof."""

    identity: WorkerIdentity
    proof: bytes

    @classmethod
    def encode(cls, identity: WorkerIdentity, secret: bytes, transcript: bytes) -> bytes:
        """Encode with its preamble, and a proof over ``transcript`` and the message."""
        body = _HEADS[HandshakeKind.HELLO] + identity.encode()
        return _with_proof(HandshakeKind.HELLO, body, secret, transcript)


@dataclass(frozen=True, slots=True)
class Answer:
    """Message 4, from the accepting side to a proven peer: verdict, identity, reason, proof."""

    verdict: Verdict
    identity: WorkerIdentity
    reason: str
    proof: bytes

    @classmethod
    def encode(
        cls,
        verdict: Verdict,
        identity: WorkerIdentity,
        reason: str,
        secret: bytes,
        transcript: bytes,
    ) -> bytes:
        """Encode with its preamble and proof; a long reason is cut."""
        encoded = reason.encode(errors="replace")[:_REASON_BYTES_MAX]
        body = _HEADS[HandshakeKind.ANSWER] + bytes((verdict,)) + identity.encode()
        # The cut may have left a part of a character.
        body += _string(encoded.decode(errors="ignore").encode())
        return _with_proof(HandshakeKind.ANSWER, body, secret, transcript)


@dataclass(frozen=True, slots=True)
class Refusal:
    """The accepting side's message to a peer that has proved nothing: only a verdict."""

    verdict: Verdict

    def encode(self) -> bytes:
        """Encode with its preamble."""
        return _with_preamble(_HEADS[HandshakeKind.REFUSAL] + bytes((self.verdict,)))


HandshakeMessage: TypeAlias = Opening | Challenge | Hello | Answer | Refusal


def prove(kind: HandshakeKind, secret: bytes, before: bytes) -> bytes:
    """Return the proof of a message; ``before`` is the whole handshake in front of the proof."""
    return hmac.digest(secret, _LABELS[kind] + before, "sha256")


def _with_proof(kind: HandshakeKind, body: bytes, secret: bytes, transcript: bytes) -> bytes:
    size = len(body) + len(_PROOF_HEADER) + PROOF_BYTES
    encoded = _PREAMBLE.pack(MAGIC, PROTOCOL_VERSION, size) + body + _PROOF_HEADER
    return encoded + prove(kind, secret, transcript + encoded)


def _with_preamble(body: bytes) -> bytes:
    return _PREAMBLE.pack(MAGIC, PROTOCOL_VERSION, len(body)) + body


def _string(raw: bytes) -> bytes:
    return _STR8 + bytes((len(raw),)) + raw


# -- decoding --------------------------------------------------------------------------------------


def decode_handshake(
    data: bytes | bytearray, limits: WireLimits
) -> tuple[HandshakeMessage, int] | None:
    """Return the message at the start of ``data`` and its length; None if it is incomplete.

    The proof is not checked.

    Raises:
        HandshakeError: As soon as the bytes cannot become a valid message. Its code is VERSION if
            only the version differs.
    """
    start = bytes(data[: len(MAGIC)])
    if start != MAGIC[: len(start)]:
        what = "those of TLS, which is not set here" if start[:1] == _TLS else "wrong"
        raise HandshakeError(f"the peer does not speak this protocol: its first bytes are {what}")
    if len(data) < _PREAMBLE.size:
        return None
    _, version, size = _PREAMBLE.unpack_from(data)
    if version != PROTOCOL_VERSION:
        refusal = HandshakeError(
            f"the peer speaks version {version} of the protocol, this side version "
            f"{PROTOCOL_VERSION}: run the same release on both sides"
        )
        refusal.code = ErrorCode.VERSION
        raise refusal
    if not _BODY_BYTES_MIN <= size <= limits.handshake_bytes_max:
        raise HandshakeError(
            f"the peer announced a handshake of {size} bytes; the limit is "
            f"{limits.handshake_bytes_max}"
        )
    end = _PREAMBLE.size + size
    if len(data) < end:
        return None
    return _decode_body(bytes(data[_PREAMBLE.size : end])), end


_BODY_BYTES_MIN = 3
"""Length of a refusal."""


def _decode_body(body: bytes) -> HandshakeMessage:
    head = body[:2]
    for kind, expected in _HEADS.items():
        if head == expected:
            fields = _Fields(body[2:])
            message = _FORMS[kind](fields)
            fields.end()
            return message
    raise HandshakeError(_WRONG_FORM)


class _Fields:
    """Reads the fields of a body in order; raises HandshakeError if the form differs."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def _take(self, size: int) -> bytes:
        taken, self._data = self._data[:size], self._data[size:]
        if len(taken) < size:
            raise HandshakeError(_WRONG_FORM)
        return taken

    def end(self) -> None:
        """Check that no bytes are left."""
        if self._data:
            raise HandshakeError(_WRONG_FORM)

    def binary(self, header: bytes) -> bytes:
        """Read a byte string; the second byte of its header is its length."""
        if self._take(len(header)) != header:
            raise HandshakeError(_WRONG_FORM)
        return self._take(header[1])

    def verdict(self, possible: frozenset[Verdict]) -> Verdict:
        """Read one of the possible verdicts."""
        encoded = self._take(1)[0]
        if encoded not in possible:
            raise HandshakeError(_WRONG_FORM)
        return Verdict(encoded)

    def string(self, limit: int) -> str:
        """Read a short string."""
        marker, size = self._take(1), self._take(1)[0]
        if marker != _STR8 or size > limit:
            raise HandshakeError(_WRONG_FORM)
        try:
            return self._take(size).decode()
        except UnicodeDecodeError:
            raise HandshakeError(_WRONG_FORM) from None

    def identity(self) -> WorkerIdentity:
        """Read the identity that the peer claims."""
        mark1, attempt, mark2, segment_bytes, flow, checksums = _IDENTITY.unpack(
            self._take(_IDENTITY.size)
        )
        if not mark1 == mark2 == _UINT32 or flow >= len(_FLOW_CONTROLS) or checksums > 1:
            raise HandshakeError(_WRONG_FORM)
        return WorkerIdentity(
            self.string(_NAME_BYTES_MAX),
            self.string(_NAME_BYTES_MAX),
            self.string(_NAME_BYTES_MAX),
            attempt,
            segment_bytes,
            _FLOW_CONTROLS[flow],
            bool(checksums),
        )


def _opening(fields: _Fields) -> Opening:
    return Opening(fields.binary(_NONCE_HEADER))


def _challenge(fields: _Fields) -> Challenge:
    return Challenge(fields.binary(_NONCE_HEADER), fields.binary(_PROOF_HEADER))


def _hello(fields: _Fields) -> Hello:
    return Hello(fields.identity(), fields.binary(_PROOF_HEADER))


def _answer(fields: _Fields) -> Answer:
    verdict = fields.verdict(_SAID_TO_PEERS)
    identity, reason = fields.identity(), fields.string(_REASON_BYTES_MAX)
    if reason and verdict is Verdict.WELCOME:
        raise HandshakeError(_WRONG_FORM)
    return Answer(verdict, identity, reason, fields.binary(_PROOF_HEADER))


def _refusal(fields: _Fields) -> Refusal:
    return Refusal(fields.verdict(SAID_TO_STRANGERS))


_FORMS: dict[HandshakeKind, Callable[[_Fields], HandshakeMessage]] = {
    HandshakeKind.OPENING: _opening,
    HandshakeKind.CHALLENGE: _challenge,
    HandshakeKind.HELLO: _hello,
    HandshakeKind.ANSWER: _answer,
    HandshakeKind.REFUSAL: _refusal,
}
