"""A subtask's report of the state that it has written."""

from __future__ import annotations

import msgpack
import pytest

from flinknet.checkpoint.metadata import Section, StateKind, StatePart
from flinknet.checkpoint.state_handle import decode_handle, encode_handle
from flinknet.errors import RemoteProtocolError


def test_a_handle_says_what_each_operator_has_written() -> None:
    keyed = StatePart((Section("keyed", 3, 7),), "0-1-0-keyed")
    own = StatePart((Section("operator", 2, 9),), None, b"ab")
    operators = [
        ("source", {StateKind.OPERATOR: own}),
        ("map", {}),
        ("sum", {StateKind.KEYED: keyed, StateKind.OPERATOR: own}),
    ]
    assert decode_handle(encode_handle(operators)) == operators


@pytest.mark.parametrize(
    "handle",
    [
        b"",
        b"\xc1",
        msgpack.packb(1),
        msgpack.packb([["uid"]]),
        msgpack.packb([["uid", [["unknown", None, b"", []]]]]),
        msgpack.packb([["uid", [["keyed", None, b"", [[1]]]]]]),
    ],
)
def test_other_bytes_are_refused(handle: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="not a handle of a subtask's state"):
        decode_handle(handle)
