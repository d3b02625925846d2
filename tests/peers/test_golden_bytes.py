"""The Python peer and the golden bytes, which flinknet is held against too, agree."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.peers.python import wire
from tests.peers.python.consumer import Channel

GOLDEN = Path(__file__).parents[1] / "unit" / "wire" / "golden"


def golden(name: str) -> bytes:
    return (GOLDEN / f"{name}.bin").read_bytes()


MESSAGES: dict[str, bytes] = {
    "acknowledge_all_records_processed": wire.encode(wire.ACKNOWLEDGE, 12),
    "add_credit": wire.encode(wire.ADD_CREDIT, 10, 65535),
    "backlog_announcement": wire.encode(wire.BACKLOG, 13, 4),
    "cancel_partition_request": wire.encode(wire.CANCEL, 0x80000000),
    "close_request": wire.encode(wire.CLOSE),
    "error_response": wire.encode(wire.ERROR, 7, 6, "the producer failed: ValueError: π"),
    "heartbeat": wire.encode(wire.HEARTBEAT),
    "new_buffer_size": wire.encode(wire.BUFFER_SIZE, 14, 256),
    "resume_consumption": wire.encode(wire.RESUME, 11),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_has_the_golden_bytes(name: str) -> None:
    assert MESSAGES[name] == golden(name)


@pytest.mark.parametrize("name", ["add_credit", "buffer_response"])
def test_a_checksum_has_the_golden_bytes(name: str) -> None:
    sealed = golden(name) + b"\xce" + wire.crc32c(golden(name)).to_bytes(4, "big")
    assert sealed == golden(f"sealed_{name}")


def test_a_record_over_three_golden_buffers_is_read() -> None:
    data, records = golden("buffers"), []
    channel = Channel(0, 0, 0)
    for kind, continued, unfinished, count, size in (
        (wire.DATA, 0, 7, 1, 8),
        (wire.DATA, 8, 0, 0, 8),
        (wire.DATA_WITH_CLEAR_END, 3, 0, 1, 4),
    ):
        head, body = data[:38], data[38 : 38 + size]
        data = data[38 + size :]
        assert head[17] == kind
        fields = wire.BufferFields(0, 0, 0, kind, continued, unfinished, count)
        records += channel.records(fields, body)
    assert not data
    first, (text, date, number), last = records
    assert (first, text, date.code, date.data, number, last) == (1, "a", 1, b"\xcd\x47\x56", 1.5, 2)
