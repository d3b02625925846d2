"""Files that name their kind: any other file is refused, with its name."""

from __future__ import annotations

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.checkpoint.envelope import ENVELOPE_BYTES, VERSION, open_envelope, put_in_envelope
from flinknet.errors import CheckpointCorruptedError, CheckpointError
from flinknet.wire.checksum import crc32c

CONTENT = {"what": "test", "number": 7}
FILE = put_in_envelope(CONTENT, 1024)


def sealed(head: bytes, body: bytes) -> bytes:
    file = head + len(body).to_bytes(4, "big") + body
    return file + crc32c(file).to_bytes(4, "big")


def refusal(file: bytes) -> str:
    with pytest.raises(CheckpointCorruptedError) as raised:
        open_envelope(file, "/jobs/1/metadata")
    return str(raised.value)


def test_content_comes_back() -> None:
    assert open_envelope(FILE, "f") == CONTENT
    assert len(FILE) == ENVELOPE_BYTES + len(msgpack.packb(CONTENT))


def test_it_is_bounded() -> None:
    assert put_in_envelope(CONTENT, len(FILE)) == FILE
    with pytest.raises(CheckpointError, match=f"takes {len(FILE)} bytes, but only"):
        put_in_envelope(CONTENT, len(FILE) - 1)


@pytest.mark.parametrize("length", range(len(FILE)))
def test_a_torn_file_is_refused_wherever_it_ends(length: int) -> None:
    assert refusal(FILE[:length]).startswith("/jobs/1/metadata is torn: it ")


@given(st.integers(0, len(FILE) * 8 - 1))
def test_one_bit_that_is_flipped_is_found(bit: int) -> None:
    damaged = bytearray(FILE)
    damaged[bit // 8] ^= 1 << bit % 8
    assert "/jobs/1/metadata" in refusal(bytes(damaged))


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        (b"PAR1" + bytes(40), "is not a file of flinknet: it does not begin with b'flinkchk'"),
        (b"P", "is not a file of flinknet"),
        (sealed(b"flinkchk\0\2", b"\x80"), "has version 2, but this flinknet reads version 1"),
        (FILE + b"\0", f"is torn: it has {len(FILE) + 1} bytes and should have {len(FILE)}"),
        (FILE[:-1] + bytes([FILE[-1] ^ 1]), "is damaged: its checksum is wrong"),
        (sealed(b"flinkchk\0\1", b"\x81"), "does not contain msgpack"),
        (sealed(b"flinkchk\0\1", b"\x90"), "does not contain a map"),
    ],
)
def test_a_refused_file_names_the_reason(file: bytes, reason: str) -> None:
    assert VERSION == 1
    assert refusal(file).startswith(f"/jobs/1/metadata {reason}")
