"""The hello: what is taken, what is refused, and that a stranger costs next to nothing."""

from __future__ import annotations

from dataclasses import replace

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.config import WireLimits
from flinknet.errors import ConfigurationError, ErrorCode, HandshakeError
from flinknet.wire.handshake import Hello, Verdict, decode_hello, judge
from tests.traced_memory import traced_memory

LIMITS = WireLimits()
MINE = Hello("worker-1", "127.0.0.1:7001", "orders", 3, 32768)
THEIRS = Hello("worker-2", "127.0.0.1:7002", "orders", 3, 32768)
NAMES = st.text(max_size=25)
HELLOS = st.builds(
    Hello,
    NAMES,
    NAMES,
    NAMES,
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
    st.sampled_from(Verdict),
    NAMES,
    st.sampled_from(["credit", "off"]),
)


def refusal(data: bytes, limits: WireLimits = LIMITS) -> HandshakeError:
    with pytest.raises(HandshakeError) as refused:
        decode_hello(data, limits)
    return refused.value


def changed(offset: int, value: int) -> bytes:
    data = bytearray(MINE.encode())
    data[offset] = value
    return bytes(data)


def hello_of_strings(*strings: bytes) -> bytes:
    """A hello by hand, with strings that this side would not send."""
    encoded = b"".join(b"\xd9" + bytes([len(string)]) + string for string in strings)
    body = MINE.encode()[12:26] + encoded
    return MINE.encode()[:10] + len(body).to_bytes(2, "big") + body


# -- encoding and decoding -------------------------------------------------------------------------


@given(HELLOS, st.binary(max_size=20))
def test_what_is_said_is_understood(hello: Hello, behind: bytes) -> None:
    data = hello.encode()
    assert decode_hello(data + behind, LIMITS) == (hello, len(data))


@given(HELLOS)
def test_a_hello_is_msgpack_behind_the_preamble(hello: Hello) -> None:
    assert msgpack.unpackb(hello.encode()[12:]) == [
        127,
        hello.verdict,
        hello.attempt,
        hello.segment_bytes,
        ["credit", "off"].index(hello.flow_control),
        hello.worker_id,
        hello.address,
        hello.job,
        hello.reason,
    ]


def test_an_incomplete_hello_is_waited_for() -> None:
    data = MINE.encode()
    for end in range(len(data)):
        assert decode_hello(data[:end], LIMITS) is None


def test_the_longest_hello_is_taken() -> None:
    name = "n" * 100
    hello = Hello(name, name, name, 2**32 - 1, 2**32 - 1, Verdict.IDENTITY, "r" * 150)
    assert decode_hello(hello.encode(), LIMITS) == (hello, len(hello.encode()))
    assert len(hello.encode()) - 12 <= LIMITS.handshake_bytes_max


@pytest.mark.parametrize("field", ["worker_id", "address", "job"])
def test_a_name_that_is_too_long_is_refused_before_it_is_sent(field: str) -> None:
    for name in ("n" * 101, "é" * 51):
        names = {"worker_id": "w", "address": "a", "job": "j", field: name}
        hello = Hello(names["worker_id"], names["address"], names["job"], 0, 64)
        with pytest.raises(ConfigurationError, match=r"10[12] bytes; a handshake has room for 100"):
            hello.encode()


@pytest.mark.parametrize("attempt", [-1, 2**32])
def test_an_attempt_that_does_not_fit_is_refused_before_it_is_sent(attempt: int) -> None:
    with pytest.raises(ConfigurationError, match=f"attempt is {attempt}"):
        replace(MINE, attempt=attempt).encode()


@given(st.text(min_size=140, max_size=400))
def test_a_long_reason_is_cut_at_a_character(reason: str) -> None:
    """A reason quotes the peer, so its length must not be able to break the answer."""
    found = decode_hello(replace(MINE, reason=reason).encode(), LIMITS)
    assert found is not None
    assert reason.startswith(found[0].reason)
    assert len(found[0].reason.encode()) <= 150


@given(NAMES, NAMES)
def test_every_refusal_can_be_encoded(mine: str, theirs: str) -> None:
    """The longest names, in the widest characters, that a peer can get through."""
    wide = "𝄞" * 25
    for one in (mine, wide):
        for other in (theirs, wide, "\x00" * 100):
            hello = replace(MINE, job=one)
            verdict, reason = judge(hello, replace(THEIRS, job=other))
            assert decode_hello(replace(hello, verdict=verdict, reason=reason).encode(), LIMITS)


# -- what is no hello ------------------------------------------------------------------------------


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
    assert decode_hello(data[:wrong], LIMITS) is None
    refusal(data[: wrong + 1])


@pytest.mark.parametrize("version", [0, 1, 2, 256, 65535])
def test_another_version_is_refused_by_its_preamble_alone(version: int) -> None:
    preamble = b"flinknet" + version.to_bytes(2, "big") + b"\x00\x40"
    assert decode_hello(preamble[:11], LIMITS) is None
    error = refusal(preamble)
    assert error.code is ErrorCode.VERSION
    assert f"the peer speaks version {version} of the protocol, this side version 3" in str(error)


def test_only_another_version_is_a_matter_of_version() -> None:
    assert refusal(b"GET /").code is ErrorCode.IDENTITY
    assert HandshakeError.code is ErrorCode.IDENTITY


@pytest.mark.parametrize("size", [0, 1, 21, 513, 65535])
def test_an_impossible_length_is_refused_by_the_preamble_alone(size: int) -> None:
    error = refusal(b"flinknet\x00\x03" + size.to_bytes(2, "big"))
    assert str(error) == f"the peer announced a hello of {size} bytes; the limit is 512"


def test_the_limit_is_the_configured_one() -> None:
    data = MINE.encode()
    exact = WireLimits(handshake_bytes_max=max(64, len(data) - 12))
    assert decode_hello(data, exact)
    refusal(replace(MINE, reason="r" * 20).encode(), exact)


WRONG_FORMS = {
    "another array": changed(12, 0x97),
    "not a hello": changed(13, 0x7E),
    "verdict unknown": changed(14, len(Verdict)),
    "verdict no small integer": changed(14, 0xCC),
    "attempt of another width": changed(15, 0xCD),
    "attempt signed": changed(15, 0xD2),
    "segment size of another width": changed(20, 0xCF),
    "worker id no string": changed(25, 0xC4),
    "worker id of another width": changed(25, 0xDA),
    "worker id too long": changed(26, 255),
    "worker id one too long": changed(26, len(MINE.worker_id) + 1),
    "worker id one too short": changed(26, len(MINE.worker_id) - 1),
    "worker id not UTF-8": changed(27, 0xFF),
    "a string is missing": hello_of_strings(b"w", b"a:1", b"j"),
    "two strings are missing": hello_of_strings(b"worker", b"a:1"),
    "a string too many": hello_of_strings(b"w", b"a:1", b"j", b"", b""),
    "worker id of more than its limit": hello_of_strings(b"w" * 101, b"a:1", b"j", b""),
    "reason of more than its limit": hello_of_strings(b"w", b"a:1", b"j", b"r" * 151),
    "reason longer than the hello": changed(len(MINE.encode()) - 1, 1),
}


@pytest.mark.parametrize("form", WRONG_FORMS)
def test_a_wrong_form_is_refused(form: str) -> None:
    error = refusal(WRONG_FORMS[form])
    assert str(error) == "the peer sent a hello of the wrong form"
    assert error.code is ErrorCode.IDENTITY


def test_bytes_left_over_are_a_wrong_form() -> None:
    data = MINE.encode()
    longer = data[:10] + (len(data) - 12 + 3).to_bytes(2, "big") + data[12:] + b"\x90\x90\x90"
    assert str(refusal(longer)) == "the peer sent a hello of the wrong form"


@given(st.binary(max_size=600))
def test_garbage_is_refused_or_waited_for(garbage: bytes) -> None:
    for start in (b"", b"flinknet\x00\x01", MINE.encode()[:12], MINE.encode()[:25]):
        data = start + garbage
        try:
            found = decode_hello(data, LIMITS)
        except HandshakeError:
            continue
        if found is not None:
            hello, size = found
            assert hello.encode() == data[:size]


def test_a_stranger_costs_next_to_nothing() -> None:
    claim = b"flinknet\x00\x01\xff\xff"
    with traced_memory() as memory:
        refusal(claim)
        peak = memory.peak
    assert peak < 8 * 1024


# -- who may talk to whom --------------------------------------------------------------------------


def test_workers_of_one_attempt_may_talk() -> None:
    assert judge(MINE, THEIRS) == (Verdict.WELCOME, "")


@pytest.mark.parametrize(
    ("theirs", "reason"),
    [
        (replace(THEIRS, job="invoices"), "this worker serves job 'orders', not 'invoices'"),
        (replace(THEIRS, job=""), "this worker serves job 'orders', not ''"),
        (replace(THEIRS, attempt=2), "this worker is at attempt 3, not 2"),
        (replace(THEIRS, attempt=4), "this worker is at attempt 3, not 4"),
        (replace(THEIRS, segment_bytes=64), "segment_bytes is 32768 here, 64 at the peer"),
        (
            replace(THEIRS, flow_control="off"),
            "flow_control is 'credit' here, 'off' at the peer: set the same",
        ),
        (replace(THEIRS, worker_id="worker-1"), "both sides are called 'worker-1'"),
    ],
)
def test_others_may_not(theirs: Hello, reason: str) -> None:
    verdict, said = judge(MINE, theirs)
    assert verdict is Verdict.IDENTITY
    assert said.startswith(reason)
