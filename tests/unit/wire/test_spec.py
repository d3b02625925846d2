"""SPEC.md says what the code does."""

from __future__ import annotations

import re

import msgpack
import pytest

from flinknet.buffer.buffer import DataType
from flinknet.config import NetworkConfig, WireLimits
from flinknet.errors import ErrorCode
from flinknet.wire.handshake import PROTOCOL_VERSION, Verdict, decode_hello
from flinknet.wire.messages import BODY_BIN32, BODY_STR16, LAYOUTS, Layout
from tests.unit.wire.received import GOLDEN, SPEC, decode

TEXT = SPEC.read_text(encoding="utf-8")
SIDES = ("consumer", "producer")


def example(side: str) -> bytes:
    """Return the bytes of one side of the example, without the comments."""
    blocks = re.findall(rf"^```{side}\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
    return b"".join(bytes.fromhex(line[:48]) for block in blocks for line in block.splitlines())


def rows(table_head: str) -> list[list[str]]:
    """Return the cells of the table that begins with ``table_head``."""
    lines = TEXT[TEXT.index(table_head) :].splitlines()[2:]
    found = []
    for line in lines:
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in line.strip("|").split("|")])
    return found


def documented(layout: Layout) -> str:
    """The first bytes of a message as SPEC writes them."""
    return " ".join(f"{constant:02x}" for _, constant in layout.constants[:2])


@pytest.mark.parametrize("side", SIDES)
def test_the_example_is_the_golden_conversation(side: str) -> None:
    assert example(side) == (GOLDEN / f"conversation-{side}.bin").read_bytes()


@pytest.mark.parametrize("side", SIDES)
def test_the_example_is_valid(side: str) -> None:
    data = example(side)
    hello = decode_hello(data, WireLimits())
    assert hello is not None
    assert hello[0].worker_id == side
    assert decode(data[hello[1] :])


@pytest.mark.parametrize("side", SIDES)
def test_what_follows_the_hello_is_msgpack(side: str) -> None:
    data = example(side)
    unpacker = msgpack.Unpacker()
    unpacker.feed(data[12:])
    values = list(unpacker)
    assert values[0][0] == 127
    assert unpacker.tell() == len(data) - 12


def test_the_table_lists_every_message_with_its_bytes() -> None:
    listed = {}
    for name, content, _ in rows("| message | bytes | from |"):
        spoken = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()
        listed[spoken] = re.match(r"`([0-9a-f ]+)`", content).group(1)  # type: ignore[union-attr]
    assert listed == {layout.message_type.name: documented(layout) for layout in LAYOUTS.values()}


def test_the_markers_of_bodies_are_the_documented_ones() -> None:
    assert (BODY_BIN32, BODY_STR16) == (0xC6, 0xDA)


def test_the_data_types_are_the_documented_ones() -> None:
    listed = {
        int(number): (kind.split(",")[0], "blocking" in kind)
        for numbers, kind, _ in rows("| data type | kind | body |")
        for number in re.findall(r"\d+", numbers)
    }
    assert listed == {
        int(data_type): ("data" if data_type.is_buffer else "event", data_type.is_blocking_upstream)
        for data_type in DataType
        if data_type is not DataType.NONE
    }


def test_the_verdicts_are_the_documented_ones() -> None:
    listed = [row[0] for row in rows("| verdict | sent by | meaning |")]
    assert listed == [f"{verdict.value} {verdict.name}" for verdict in Verdict]


def test_the_error_codes_are_the_documented_ones() -> None:
    listed = {int(code): name for code, name, _ in rows("| code | name | meaning |")}
    verdicts = {ErrorCode.VERSION, ErrorCode.IDENTITY}
    assert listed == {code.value: code.name for code in ErrorCode if code not in verdicts}


def test_the_limits_are_the_defaults() -> None:
    wire, network = WireLimits(), NetworkConfig()
    listed = [int(row[1].replace("the segment size, ", "").split()[0]) for row in rows("| limit |")]
    assert listed == [
        wire.handshake_bytes_max,
        network.segment_bytes,
        wire.event_bytes_max,
        wire.events_per_channel_max,
        wire.error_text_bytes_max,
        wire.channels_per_connection_max,
        wire.credit_per_channel_max,
        wire.control_bytes_max // 2**20,
        wire.pending_handshakes_max,
        wire.accepted_connections_max,
    ]


def test_the_version_is_the_documented_one() -> None:
    assert TEXT.startswith(f"# The wire, version {PROTOCOL_VERSION}\n")
