"""The handshake: both sides say who they are before the first message.

Each side sends one *hello*: 12 fixed bytes (magic, version, length) and then a msgpack array of
fixed shape. The dialling side speaks first; the accepting side judges what it got and answers with
its own hello, whose verdict is WELCOME or the reason why not, after which it closes. Nothing is
parsed by a general unpacker and nothing is allocated per peer before the hello is complete; its
length is judged on the fixed bytes alone. Bytes behind a hello belong to the message stream. The
fixed bytes are the same in every version, so that two versions can tell each other apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from struct import Struct

from flinknet.config import FlowControl, WireLimits
from flinknet.errors import ConfigurationError, ErrorCode, HandshakeError

__all__ = ["MAGIC", "PROTOCOL_VERSION", "Hello", "Verdict", "decode_hello", "judge"]

MAGIC = b"flinknet"
PROTOCOL_VERSION = 3

_PREAMBLE = Struct(">8sHH")
_FIXED = Struct(">BBBBIBIB")
_HELLO_TYPE = 0x7F
_ARRAY_OF_9 = 0x99
_UINT32 = 0xCE
_STR8 = b"\xd9"
_NAME_BYTES_MAX = 100
_REASON_BYTES_MAX = 150
_STRINGS = (_NAME_BYTES_MAX, _NAME_BYTES_MAX, _NAME_BYTES_MAX, _REASON_BYTES_MAX)
_UINT32_MAX = 0xFFFFFFFF
_FLOW_CONTROLS: tuple[FlowControl, ...] = ("credit", "off")
_WRONG_FORM = "the peer sent a hello of the wrong form"


class Verdict(IntEnum):
    """HELLO is what the dialling side says; the others are the accepting side's answers."""

    HELLO = 0
    WELCOME = 1
    VERSION = 2
    IDENTITY = 3
    DUPLICATE = 4
    FULL = 5


@dataclass(frozen=True, slots=True)
class Hello:
    """Who a worker is: name, where it accepts connections, job, attempt, size of its buffers, and
    how it controls the flow of data."""

    worker_id: str
    address: str
    job: str
    attempt: int
    segment_bytes: int
    verdict: Verdict = Verdict.HELLO
    reason: str = ""
    flow_control: FlowControl = "credit"

    def encode(self) -> bytes:
        """Encode as preamble and msgpack array; a long reason is cut.

        Raises ConfigurationError for a name or number that does not fit.
        """
        if not 0 <= self.attempt <= _UINT32_MAX:
            raise ConfigurationError(f"attempt is {self.attempt}: choose 0 to {_UINT32_MAX}")
        fixed = _FIXED.pack(
            _ARRAY_OF_9,
            _HELLO_TYPE,
            self.verdict,
            _UINT32,
            self.attempt,
            _UINT32,
            self.segment_bytes,
            _FLOW_CONTROLS.index(self.flow_control),
        )
        parts = [fixed]
        for name in (self.worker_id, self.address, self.job):
            raw = name.encode()
            if len(raw) > _NAME_BYTES_MAX:
                raise ConfigurationError(
                    f"{name!r} has {len(raw)} bytes; a handshake has room for {_NAME_BYTES_MAX}: "
                    f"choose a shorter name"
                )
            parts.append(_STR8 + bytes((len(raw),)) + raw)
        reason = self.reason.encode()[:_REASON_BYTES_MAX].decode(errors="ignore").encode()
        parts.append(_STR8 + bytes((len(reason),)) + reason)
        body = b"".join(parts)
        return _PREAMBLE.pack(MAGIC, PROTOCOL_VERSION, len(body)) + body


def decode_hello(data: bytes | bytearray, limits: WireLimits) -> tuple[Hello, int] | None:
    """Return the hello at the start of ``data`` and its length, None while it is incomplete.

    Raises HandshakeError as soon as the bytes cannot become a valid hello; its code is VERSION if
    only the version differs.
    """
    start = bytes(data[: len(MAGIC)])
    if start != MAGIC[: len(start)]:
        raise HandshakeError("the peer does not speak this protocol: its first bytes are wrong")
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
    if not _FIXED.size + 2 * len(_STRINGS) <= size <= limits.handshake_bytes_max:
        raise HandshakeError(
            f"the peer announced a hello of {size} bytes; the limit is {limits.handshake_bytes_max}"
        )
    if len(data) < _PREAMBLE.size + size:
        return None
    return _decode_body(bytes(data[_PREAMBLE.size : _PREAMBLE.size + size])), _PREAMBLE.size + size


def _decode_body(body: bytes) -> Hello:
    array, kind, verdict, mark1, attempt, mark2, segment_bytes, flow = _FIXED.unpack_from(body)
    constants = (array, kind, mark1, mark2)
    if constants != (_ARRAY_OF_9, _HELLO_TYPE, _UINT32, _UINT32):
        raise HandshakeError(_WRONG_FORM)
    if verdict not in set(Verdict) or flow >= len(_FLOW_CONTROLS):
        raise HandshakeError(_WRONG_FORM)
    strings = []
    rest = body[_FIXED.size :]
    for limit in _STRINGS:
        size = rest[1] if rest[:1] == _STR8 and len(rest) > 1 else limit + 1
        raw, rest = rest[2 : 2 + size], rest[2 + size :]
        if size > limit or len(raw) < size:
            raise HandshakeError(_WRONG_FORM)
        try:
            strings.append(raw.decode())
        except UnicodeDecodeError:
            raise HandshakeError(_WRONG_FORM) from None
    if rest:
        raise HandshakeError(_WRONG_FORM)
    worker_id, address, job, reason = strings
    return Hello(
        worker_id,
        address,
        job,
        attempt,
        segment_bytes,
        Verdict(verdict),
        reason,
        _FLOW_CONTROLS[flow],
    )


def judge(mine: Hello, theirs: Hello) -> tuple[Verdict, str]:
    """Decide whether two workers may exchange data: WELCOME, or IDENTITY and a reason."""
    if theirs.job != mine.job:
        return (
            Verdict.IDENTITY,
            f"this worker serves job {mine.job[:60]!r}, not {theirs.job[:60]!r}",
        )
    if theirs.attempt != mine.attempt:
        return Verdict.IDENTITY, f"this worker is at attempt {mine.attempt}, not {theirs.attempt}"
    if theirs.segment_bytes != mine.segment_bytes:
        sizes = f"{mine.segment_bytes} here, {theirs.segment_bytes} at the peer"
        return Verdict.IDENTITY, f"segment_bytes is {sizes}: set the same"
    if theirs.flow_control != mine.flow_control:
        modes = f"{mine.flow_control!r} here, {theirs.flow_control!r} at the peer"
        return Verdict.IDENTITY, f"flow_control is {modes}: set the same"
    if theirs.worker_id == mine.worker_id:
        return Verdict.IDENTITY, f"both sides are called {mine.worker_id[:60]!r}"
    return Verdict.WELCOME, ""
