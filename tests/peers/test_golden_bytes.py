"""The Python peer agrees with the golden bytes that flinknet is tested with, too."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.peers.programs import NODE, Language, require
from tests.peers.python import events, wire
from tests.peers.python.consumer import Channel

GOLDEN = Path(__file__).parents[1] / "unit" / "wire" / "golden"


def golden(name: str) -> bytes:
    return (GOLDEN / f"{name}.bin").read_bytes()


MESSAGES: dict[str, bytes] = {
    "acknowledge_all_records_processed": wire.encode(wire.ACKNOWLEDGE, 12),
    "add_event_credit": wire.encode(wire.ADD_EVENT_CREDIT, 11, 500),
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


MOMENT = 1_700_000_000_000


def barrier(number: int, kind: int, alignment: int, timeout: int = 0) -> dict[str, Any]:
    numbers = {"checkpoint": number, "moment": MOMENT, "kind": kind, "alignment": alignment}
    return {"event": "CheckpointBarrier", **numbers, "time-out": timeout}


EVENTS: list[dict[str, Any]] = [
    barrier(7, 0, 0),
    barrier(7, 0, 0, 30_000),
    barrier(7, 0, 1),
    barrier(7, 0, 2, 30_000),
    barrier(7, 0, 3),
    barrier(8, 3, 0),
    {"event": "CancelCheckpointMarker", "checkpoint": 7},
    {"event": "Watermark", "moment": MOMENT},
    {"event": "Watermark", "moment": -1},
    {"event": "WatermarkStatus", "status": 1},
    {"event": "LatencyMarker", "moment": MOMENT, "operator": "map", "subtask": 3},
    {"event": "EndOfChannelState"},
]

NODE_TRANSLATES = """
import { decode, encode } from "./events.js";
const [bodies, said] = JSON.parse(process.argv[1]);
const read = bodies.map(([type, body]) => decode(type, Buffer.from(body, "hex")));
const written = said.map(encode).map(([type, body]) => [type, body.toString("hex")]);
console.log(JSON.stringify([read, written]));
"""


def golden_events() -> list[tuple[int, bytes]]:
    """Return data types and bodies of the golden messages."""
    data, found = golden("events"), []
    while data:
        size = int.from_bytes(data[34:38], "big")
        found.append((data[17], data[38 : 38 + size]))
        data = data[38 + size :]
    return found


def test_every_golden_event_is_read_and_written(language: Language) -> None:
    require(language)
    golden_bodies = golden_events()
    if language == "python":
        read: list[Any] = [events.decode(*event) for event in golden_bodies]
        written = [events.encode(said) for said in EVENTS]
    else:
        bodies = [(data_type, body.hex()) for data_type, body in golden_bodies]
        told = subprocess.run(
            [
                "node",
                "--input-type=module",
                "--eval",
                NODE_TRANSLATES,
                json.dumps([bodies, EVENTS]),
            ],
            cwd=NODE,
            capture_output=True,
            text=True,
            check=True,
        )
        read, in_hex = json.loads(told.stdout)
        written = [(data_type, bytes.fromhex(body)) for data_type, body in in_hex]
    assert read == EVENTS
    assert written == golden_bodies


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
