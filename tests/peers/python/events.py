"""Conversion of events between bodies and JSON: ``{"event": "Watermark", "moment": 5}``.

The names of events and of their elements are those of the specification.
"""

from __future__ import annotations

from struct import pack, unpack
from typing import Any

from tests.peers.python import wire

_FORMS = {  # kind, and its elements: i64, byte, u32 or text
    "CheckpointBarrier": (1, "checkpoint:l moment:l kind:b alignment:b time-out:u"),
    "CancelCheckpointMarker": (2, "checkpoint:l"),
    "Watermark": (3, "moment:l"),
    "WatermarkStatus": (4, "status:b"),
    "LatencyMarker": (5, "moment:l operator:t subtask:u"),
}
_NAMES = {kind: name for name, (kind, _) in _FORMS.items()}
_MOST = {"kind": 3, "alignment": 3, "status": 1}
_ALIGNED, _UNALIGNED, _FORCED_ALIGNED, _AT_LEAST_ONCE = range(4)
EVENT, OVERTAKES, BARRIER, TIMEOUTABLE, END_OF_STATE = 2, 3, 4, 5, 6
BLOCKING = (BARRIER, TIMEOUTABLE, END_OF_STATE)


def encode(event: dict[str, Any]) -> tuple[int, bytes]:
    """Return the data type and the body of an event."""
    if event["event"] == "EndOfChannelState":
        return END_OF_STATE, b"\x90"
    number, elements = _FORMS[event["event"]]
    parts = []
    for element in elements.split():
        name, form = element.split(":")
        value = event[name]
        if form == "l":
            parts.append(pack(">Bq", 0xD3, value))
        elif form == "b":
            parts.append(bytes([value]))
        elif form == "u":
            parts.append(pack(">BI", 0xCE, value))
        else:
            raw = value.encode()
            parts.append(bytes([0xD9, len(raw)]) + raw)
    body = bytes([0x91 + len(parts), number]) + b"".join(parts)
    return _data_type(event), body


def _data_type(event: dict[str, Any]) -> int:
    if event["event"] != "CheckpointBarrier" or event["alignment"] == _AT_LEAST_ONCE:
        return EVENT
    if event["alignment"] == _UNALIGNED:
        return OVERTAKES
    times_out = event["alignment"] == _ALIGNED and event["time-out"]
    return TIMEOUTABLE if times_out else BARRIER


def decode(data_type: int, body: bytes) -> dict[str, Any] | None:
    """Return the event of a body, or None for an unknown kind.

    Raises PeerError if the body is malformed.
    """
    if data_type == END_OF_STATE:
        if body != b"\x90":
            raise wire.PeerError("a wrong end of a channel's state")
        return {"event": "EndOfChannelState"}
    if len(body) < 2 or not 0x91 <= body[0] <= 0x9F or body[1] > 127:
        raise wire.PeerError("an event without a kind")
    name = _NAMES.get(body[1])
    if body[1] == 0 and data_type == OVERTAKES:
        raise wire.PeerError("an announcement")
    if name is None and data_type in (EVENT, OVERTAKES):
        return None
    event: dict[str, Any] = {"event": name}
    rest = body[2:]
    try:
        for element in _FORMS[name or ""][1].split():
            key, form = element.split(":")
            event[key], rest = _take(form, rest)
        is_right = (data_type, body) == encode(event) and not rest
    except (LookupError, ValueError) as error:
        raise wire.PeerError(f"an event of the wrong form: {body.hex()}") from error
    savepoint_overtakes = event.get("kind") and (event["time-out"] or event["alignment"] == 1)
    times_out_wrongly = event.get("time-out") and event["alignment"] in (1, 3)
    beyond = any(event.get(key, 0) > most for key, most in _MOST.items())
    if not is_right or savepoint_overtakes or times_out_wrongly or beyond:
        raise wire.PeerError(f"an event of the wrong form: {body.hex()}")
    if event.get("checkpoint", 0) < 0:
        raise wire.PeerError("a checkpoint below 0")
    return event


def _take(form: str, data: bytes) -> tuple[Any, bytes]:
    """Split off one element, and return it with the remaining bytes."""
    if form == "b":
        return data[0], data[1:]
    if form == "t":
        end = 2 + data[1]
        return data[2:end].decode(), data[end:]
    layout, size = (">xq", 9) if form == "l" else (">xI", 5)
    if len(data) < size:
        raise ValueError("it is cut off")
    return unpack(layout, data[:size])[0], data[size:]
