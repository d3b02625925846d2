"""The messages of the handshake: valid and invalid ones, and that a stranger costs next to
nothing."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import replace

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.config import WireLimits
from flinknet.errors import ConfigurationError, ErrorCode, HandshakeError
from flinknet.wire.handshake_messages import (
    Answer,
    Challenge,
    HandshakeKind,
    HandshakeMessage,
    Hello,
    Opening,
    Refusal,
    Verdict,
    WorkerIdentity,
    decode_handshake,
    prove,
)
from tests.traced_memory import traced_memory

LIMITS = WireLimits()
SECRET = b"secret"
BEFORE = b"what was said before"
NONCE = bytes(range(16))
MINE = WorkerIdentity("worker-1", "127.0.0.1:7001", "orders", 3, 32768)
OPENING = Opening(NONCE).encode()
CHALLENGE = Challenge.encode(NONCE, SECRET, BEFORE)
HELLO = Hello.encode(MINE, SECRET, BEFORE)
ANSWER = Answer.encode(Verdict.IDENTITY, MINE, "because", SECRET, BEFORE)
REFUSAL = Refusal(Verdict.FULL).encode()
ALL = (OPENING, CHALLENGE, HELLO, ANSWER, REFUSAL)
NAMES = st.text(max_size=25)
UINT32 = st.integers(0, 2**32 - 1)
FLOWS = ["credit", "off"]
IDENTITIES = st.builds(
    WorkerIdentity, NAMES, NAMES, NAMES, UINT32, UINT32, st.sampled_from(FLOWS), st.booleans()
)
TO_PEERS = [Verdict.WELCOME, Verdict.IDENTITY, Verdict.DUPLICATE, Verdict.FULL]
TO_STRANGERS = [Verdict.VERSION, Verdict.FULL, Verdict.REFUSED]


def decoded(data: bytes, limits: WireLimits = LIMITS) -> HandshakeMessage:
    found = decode_handshake(data, limits)
    assert found is not None
    assert found[1] == len(data)
    return found[0]


def refusal(data: bytes, limits: WireLimits = LIMITS) -> HandshakeError:
    with pytest.raises(HandshakeError) as refused:
        decode_handshake(data, limits)
    return refused.value


def changed(message: bytes, offset: int, value: int) -> bytes:
    data = bytearray(message)
    data[offset] = value
    return bytes(data)


def hello_of_strings(*strings: bytes) -> bytes:
    """Encode a Hello by hand, with strings that this side would not send."""
    encoded = b"".join(b"\xd9" + bytes([len(string)]) + string for string in strings)
    body = HELLO[12:26] + encoded + b"\xc4\x20" + bytes(32)
    return HELLO[:10] + len(body).to_bytes(2, "big") + body


# -- encoding and decoding -------------------------------------------------------------------------


@given(IDENTITIES, st.sampled_from(TO_PEERS), NAMES, st.binary(max_size=20))
def test_encoded_handshakes_are_decoded(
    identity: WorkerIdentity, verdict: Verdict, reason: str, behind: bytes
) -> None:
    if verdict is Verdict.WELCOME:
        reason = ""
    hello = Hello.encode(identity, SECRET, BEFORE)
    answer = Answer.encode(verdict, identity, reason, SECRET, BEFORE)
    for data, expected in (
        (hello, Hello(identity, hello[-32:])),
        (answer, Answer(verdict, identity, reason, answer[-32:])),
    ):
        assert decode_handshake(data + behind, LIMITS) == (expected, len(data))


def test_the_short_messages_are_understood() -> None:
    assert decoded(OPENING) == Opening(NONCE)
    assert decoded(CHALLENGE) == Challenge(NONCE, CHALLENGE[-32:])
    for verdict in TO_STRANGERS:
        assert decoded(Refusal(verdict).encode()) == Refusal(verdict)


@given(IDENTITIES)
def test_every_message_is_msgpack_behind_the_preamble(identity: WorkerIdentity) -> None:
    numbers = [
        identity.attempt,
        identity.segment_bytes,
        FLOWS.index(identity.flow_control),
        int(identity.checksums),
    ]
    names = [identity.worker_id, identity.address, identity.job]
    hello = Hello.encode(identity, SECRET, BEFORE)
    answer = Answer.encode(Verdict.FULL, identity, "why", SECRET, BEFORE)
    assert msgpack.unpackb(OPENING[12:]) == [1, NONCE]
    assert msgpack.unpackb(CHALLENGE[12:]) == [2, NONCE, CHALLENGE[-32:]]
    assert msgpack.unpackb(hello[12:]) == [3, *numbers, *names, hello[-32:]]
    assert msgpack.unpackb(answer[12:]) == [4, 5, *numbers, *names, "why", answer[-32:]]
    assert msgpack.unpackb(REFUSAL[12:]) == [5, 5]


def test_a_refusal_says_nothing_but_the_verdict() -> None:
    """The peer has proved nothing yet, so it must not learn about the job, the worker or the
    reason."""
    assert REFUSAL == b"flinknet\x00\x05\x00\x03\x92\x05\x05"


@pytest.mark.parametrize("message", ALL, ids=[kind.name for kind in HandshakeKind])
def test_an_incomplete_message_is_waited_for(message: bytes) -> None:
    for end in range(len(message)):
        assert decode_handshake(message[:end], LIMITS) is None


def test_the_longest_messages_are_taken() -> None:
    name = "n" * 100
    longest = WorkerIdentity(name, name, name, 2**32 - 1, 2**32 - 1)
    for data in (
        Hello.encode(longest, SECRET, BEFORE),
        Answer.encode(Verdict.IDENTITY, longest, "r" * 150, SECRET, BEFORE),
    ):
        decoded(data)
        assert len(data) - 12 <= LIMITS.handshake_bytes_max


@pytest.mark.parametrize("field", ["worker_id", "address", "job"])
def test_a_name_that_is_too_long_is_refused_before_it_is_sent(field: str) -> None:
    for name in ("n" * 101, "é" * 51):
        names = {"worker_id": "w", "address": "a", "job": "j", field: name}
        identity = WorkerIdentity(names["worker_id"], names["address"], names["job"], 0, 64)
        with pytest.raises(ConfigurationError, match=r"10[12] bytes; a handshake has room for 100"):
            identity.encode()


@pytest.mark.parametrize("attempt", [-1, 2**32])
def test_an_attempt_that_does_not_fit_is_refused_before_it_is_sent(attempt: int) -> None:
    with pytest.raises(ConfigurationError, match=f"attempt is {attempt}"):
        replace(MINE, attempt=attempt).encode()


@given(st.text(st.characters(), min_size=140, max_size=400))
def test_a_long_reason_is_cut_at_a_character(reason: str) -> None:
    """A reason quotes the peer, so neither its length nor its content may break the answer."""
    found = decoded(Answer.encode(Verdict.IDENTITY, MINE, reason, SECRET, BEFORE))
    assert isinstance(found, Answer)
    assert reason.encode(errors="replace").decode().startswith(found.reason)
    assert len(found.reason.encode()) <= 150


# -- proofs ----------------------------------------------------------------------------------------

LABELS = {
    HandshakeKind.CHALLENGE: (CHALLENGE, b"flinknet accepting challenge"),
    HandshakeKind.HELLO: (HELLO, b"flinknet dialling hello"),
    HandshakeKind.ANSWER: (ANSWER, b"flinknet accepting answer"),
}


@pytest.mark.parametrize("kind", LABELS)
def test_a_proof_is_over_the_label_and_everything_before_it(kind: HandshakeKind) -> None:
    """It is computed here with Python's hmac alone, as a peer in another language must compute
    it."""
    message, label = LABELS[kind]
    said = label + BEFORE + message[:-32]
    assert message[-32:] == hmac.new(SECRET, said, hashlib.sha256).digest()
    assert message[-34:-32] == b"\xc4\x20"


def test_no_proof_is_good_for_another_message_secret_or_conversation() -> None:
    proofs = {
        prove(kind, secret, before)
        for kind in LABELS
        for secret in (b"", b"secret", b"Secret")
        for before in (b"", BEFORE)
    }
    assert len(proofs) == 3 * 3 * 2


# -- invalid messages ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x00",
        b"Flinknet\x00\x01",
        b"flinknot",
        b"flinkneT",
    ],
)
def test_another_protocol_is_refused_at_its_first_wrong_byte(data: bytes) -> None:
    assert "does not speak this protocol" in str(refusal(data))
    wrong = next(end for end in range(len(data)) if data[end] != b"flinknet"[end])
    assert decode_handshake(data[:wrong], LIMITS) is None
    refusal(data[: wrong + 1])


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4, 6, 256, 65535])
@pytest.mark.parametrize("length", [0, 64, 513, 65535])
def test_another_version_is_refused_by_its_preamble_alone(version: int, length: int) -> None:
    """Its length is not checked, as another version may have other limits."""
    preamble = b"flinknet" + version.to_bytes(2, "big") + length.to_bytes(2, "big")
    assert decode_handshake(preamble[:11], LIMITS) is None
    error = refusal(preamble)
    assert error.code is ErrorCode.VERSION
    assert f"the peer speaks version {version} of the protocol, this side version 5" in str(error)


def test_only_another_version_is_a_matter_of_version() -> None:
    assert refusal(b"GET /").code is ErrorCode.IDENTITY
    assert HandshakeError.code is ErrorCode.IDENTITY


@pytest.mark.parametrize("size", [0, 1, 2, 513, 65535])
def test_an_impossible_length_is_refused_by_the_preamble_alone(size: int) -> None:
    error = refusal(b"flinknet\x00\x05" + size.to_bytes(2, "big"))
    assert str(error) == f"the peer announced a handshake of {size} bytes; the limit is 512"


def test_the_limit_is_the_configured_one() -> None:
    more = WireLimits(handshake_bytes_max=600)
    assert decode_handshake(b"flinknet\x00\x05" + (600).to_bytes(2, "big"), more) is None
    refusal(b"flinknet\x00\x05" + (601).to_bytes(2, "big"), more)


WRONG_FORMS = {
    "another array": changed(OPENING, 12, 0x93),
    "another kind": changed(OPENING, 13, 0x06),
    "kind 0": changed(OPENING, 13, 0x00),
    "a nonce of another width": changed(OPENING, 15, 0x0F),
    "a nonce that is text": changed(OPENING, 14, 0xD9),
    "an opening without nonce": b"flinknet\x00\x05\x00\x04\x92\x01\xc4\x10",
    "a challenge without proof": b"flinknet\x00\x05\x00\x14\x93\x02\xc4\x10" + bytes(16),
    "a proof of another width": changed(CHALLENGE, 33, 0x1F),
    "a refusal that welcomes": changed(REFUSAL, 14, Verdict.WELCOME),
    "a refusal for a reason": changed(REFUSAL, 14, Verdict.IDENTITY),
    "a refusal of nothing known": changed(REFUSAL, 14, 7),
    "verdict unknown": changed(ANSWER, 14, 7),
    "verdict of strangers": changed(ANSWER, 14, Verdict.REFUSED),
    "verdict no small integer": changed(ANSWER, 14, 0xCC),
    "a reason to be welcome": Answer.encode(Verdict.WELCOME, MINE, "why not", SECRET, BEFORE),
    "attempt of another width": changed(HELLO, 14, 0xCD),
    "attempt signed": changed(HELLO, 14, 0xD2),
    "segment size of another width": changed(HELLO, 19, 0xCF),
    "flow control unknown": changed(HELLO, 24, 2),
    "checksums neither on nor off": changed(HELLO, 25, 2),
    "worker id no string": changed(HELLO, 26, 0xC4),
    "worker id of another width": changed(HELLO, 26, 0xDA),
    "worker id too long": changed(HELLO, 27, 255),
    "worker id one too long": changed(HELLO, 27, len(MINE.worker_id) + 1),
    "worker id one too short": changed(HELLO, 27, len(MINE.worker_id) - 1),
    "worker id not UTF-8": changed(HELLO, 28, 0xFF),
    "a string is missing": hello_of_strings(b"w", b"a:1"),
    "two strings are missing": hello_of_strings(b"worker"),
    "a string too many": hello_of_strings(b"w", b"a:1", b"j", b""),
    "worker id of more than its limit": hello_of_strings(b"w" * 101, b"a:1", b"j"),
    "job of more than its limit": hello_of_strings(b"w", b"a:1", b"j" * 101),
}


@pytest.mark.parametrize("form", WRONG_FORMS)
def test_a_wrong_form_is_refused(form: str) -> None:
    error = refusal(WRONG_FORMS[form])
    assert str(error) == "the peer sent a handshake of the wrong form"
    assert error.code is ErrorCode.IDENTITY


@pytest.mark.parametrize("message", ALL, ids=[kind.name for kind in HandshakeKind])
def test_bytes_left_over_are_a_wrong_form(message: bytes) -> None:
    longer = message[:10] + (len(message) - 12 + 3).to_bytes(2, "big") + message[12:] + b"\x90" * 3
    assert str(refusal(longer)) == "the peer sent a handshake of the wrong form"


@given(st.binary(max_size=600))
def test_garbage_is_refused_or_waited_for(garbage: bytes) -> None:
    for start in (b"", b"flinknet\x00\x05", HELLO[:12], HELLO[:25], ANSWER[:12], ANSWER[:14]):
        data = start + garbage
        try:
            found = decode_handshake(data, LIMITS)
        except HandshakeError:
            continue
        if found is not None:
            assert found[1] <= 12 + LIMITS.handshake_bytes_max


def test_a_stranger_costs_next_to_nothing() -> None:
    claim = b"flinknet\x00\x05\xff\xff"
    with traced_memory() as memory:
        refusal(claim)
        peak = memory.peak
    assert peak < 8 * 1024
