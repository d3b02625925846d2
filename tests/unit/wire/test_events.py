from __future__ import annotations

import msgpack
import pytest

from flinknet.buffer.buffer import DataType
from flinknet.errors import RemoteProtocolError
from flinknet.wire.events import (
    END_OF_PARTITION,
    Event,
    check_end_of_partition,
    decode_end_of_data,
    encode_end_of_data,
)


@pytest.mark.parametrize("drain", [True, False])
def test_an_end_of_data_says_how_it_ended(drain: bool) -> None:
    """A14: both kinds round-trip, and any unpacker can read them."""
    body = encode_end_of_data(drain=drain)
    assert msgpack.unpackb(body) == [int(drain)]
    assert decode_end_of_data(body) is drain


def test_an_end_of_partition_is_an_empty_array() -> None:
    assert msgpack.unpackb(END_OF_PARTITION) == []


@pytest.mark.parametrize("body", [b"", b"\x91\x01", b"\x90\x90", b"\xff" * 1000])
def test_an_end_of_partition_with_anything_else_is_refused(body: bytes) -> None:
    check_end_of_partition(END_OF_PARTITION)
    with pytest.raises(RemoteProtocolError, match="END_OF_PARTITION is .{0,16}, not 90"):
        check_end_of_partition(body)


@pytest.mark.parametrize("body", [b"", b"\x90", b"\x91\x02", b"\x91\x01\x00", b"\xff" * 1000])
def test_an_end_of_data_with_anything_else_is_refused(body: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="END_OF_DATA"):
        decode_end_of_data(body)


def test_an_event_is_its_type_and_its_body() -> None:
    event = Event(DataType.EVENT_BUFFER, b"\x90")
    assert tuple(event) == (DataType.EVENT_BUFFER, b"\x90")
