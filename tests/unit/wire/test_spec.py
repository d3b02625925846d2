"""SPEC.md agrees with the code."""

from __future__ import annotations

import hmac
import re
from itertools import product

import msgpack
import pytest

from flinknet.buffer.buffer import DataType
from flinknet.config import NetworkConfig, WireLimits
from flinknet.errors import ErrorCode
from flinknet.records.serialization.extension_types import READERS
from flinknet.wire.events import Alignment, CheckpointKind
from flinknet.wire.handshake_messages import (
    PROTOCOL_VERSION,
    Answer,
    HandshakeKind,
    Hello,
    Verdict,
    WorkerIdentity,
    decode_handshake,
    prove,
)
from flinknet.wire.messages import BODY_BIN32, BODY_STR16, LAYOUTS, Layout
from tests.unit.wire.received import GOLDEN, SPEC, decode
from tests.unit.wire.test_golden import EVENTS

TEXT = SPEC.read_text(encoding="utf-8")
SIDES = ("consumer", "producer")
DECIMAL = 5
OTHERS = (
    "duplicate",
    "refusal",
    "error_response",
    "add_event_credit",
    "backlog_announcement",
    "buffers",
    "events",
    "sealed_add_credit",
    "sealed_buffer_response",
)


def example(name: str) -> bytes:
    """Return the bytes of one side of the example, or of one message, without the comments."""
    blocks = re.findall(rf"^```{name}\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
    assert blocks, name
    return b"".join(bytes.fromhex(line[:48]) for block in blocks for line in block.splitlines())


def split_handshake(data: bytes) -> tuple[list[bytes], bytes]:
    """Return the two handshake messages of a side, and the remaining bytes."""
    said = []
    for _ in range(2):
        found = decode_handshake(data, WireLimits())
        assert found is not None
        said.append(data[: found[1]])
        data = data[found[1] :]
    return said, data


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
    """Return the first bytes of a message as SPEC shows them."""
    return " ".join(f"{constant:02x}" for _, constant in layout.constants[:2])


@pytest.mark.parametrize("side", SIDES)
def test_the_example_is_the_golden_conversation(side: str) -> None:
    assert example(side) == (GOLDEN / f"conversation-{side}.bin").read_bytes()


@pytest.mark.parametrize("name", OTHERS)
def test_the_other_messages_are_the_golden_ones(name: str) -> None:
    assert example(name) == (GOLDEN / f"{name}.bin").read_bytes()


@pytest.mark.parametrize("side", SIDES)
def test_the_example_is_valid(side: str) -> None:
    said, messages = split_handshake(example(side))
    assert [message[13] for message in said] == ([1, 3] if side == "consumer" else [2, 4])
    assert decode(messages)


def test_the_handshake_of_the_example_agrees() -> None:
    """Each side of the code produces exactly the bytes of the example."""
    theirs = {
        "consumer": WorkerIdentity("consumer", "127.0.0.1:7002", "orders", 0, 64),
        "producer": WorkerIdentity("producer", "127.0.0.1:7001", "orders", 0, 64),
    }
    opening, hello = split_handshake(example("consumer"))[0]
    challenge, answer = split_handshake(example("producer"))[0]
    found = decode_handshake(hello, WireLimits())
    assert found is not None
    assert found[0] == Hello(theirs["consumer"], hello[-32:])
    assert Hello.encode(theirs["consumer"], b"secret", opening + challenge) == hello
    transcript = opening + challenge + hello
    for verdict, reason, data in (
        (Verdict.WELCOME, "", answer),
        (Verdict.DUPLICATE, "connected already", example("duplicate")),
    ):
        said = Answer.encode(verdict, theirs["producer"], reason, b"secret", transcript)
        assert said == data


def test_the_worked_proof_is_right() -> None:
    """The proof is computed with Python's standard library alone."""
    text, proof = example("text"), example("proof")
    assert hmac.digest(b"secret", text, "sha256") == proof
    challenge = split_handshake(example("producer"))[0][0]
    opening = split_handshake(example("consumer"))[0][0]
    assert text == b"flinknet accepting challenge" + opening + challenge[:-32]
    assert challenge[-32:] == proof


@pytest.mark.parametrize("side", SIDES)
def test_the_bytes_behind_a_preamble_are_msgpack(side: str) -> None:
    said, data = split_handshake(example(side))
    for message in said:
        assert msgpack.unpackb(message[12:])[0] == message[13]
    unpacker = msgpack.Unpacker()
    unpacker.feed(data)
    list(unpacker)
    assert unpacker.tell() == len(data)


def test_the_labels_are_the_documented_ones() -> None:
    listed = {row[0]: row[1].strip("`") for row in rows("| message | label |")}
    for name, label in listed.items():
        before = b"before"
        expected = hmac.digest(b"secret", label.encode() + before, "sha256")
        assert prove(HandshakeKind[name], b"secret", before) == expected
    assert len(listed) == 3


def test_the_messages_of_the_handshake_are_the_documented_ones() -> None:
    listed = {row[0]: row[1].strip("`") for row in rows("| message | array | elements |")}
    assert listed == {
        kind.name: (GOLDEN / f"{golden}.bin").read_bytes()[12:14].hex(" ")
        for kind, golden in zip(
            HandshakeKind, ("opening", "challenge", "hello", "welcome", "refusal"), strict=True
        )
    }
    said = [row[0] for row in rows("| message | from | says |")]
    assert said == [f"{kind.value} {kind.name}" for kind in HandshakeKind]


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


def test_the_events_are_the_documented_ones() -> None:
    """This covers types, arrays, and which events overtake or block."""
    listed = rows("| event | data type | array | overtakes | blocks |")
    named = {row[0].partition(",")[0] for row in listed}
    assert named == {type(said).__name__ for said in EVENTS}
    for name, number, array, overtakes, blocks in listed:
        data_type = list(DataType)[int(number)]
        assert (overtakes == "yes", blocks == "yes") == (
            data_type.has_priority,
            data_type.is_blocking_upstream,
        )
        if array != "the same":
            begin = bytes.fromhex(re.match(r"`([0-9a-f ]+)`", array).group(1))  # type: ignore[union-attr]
            said = [each for each in EVENTS if type(each).__name__ == name.partition(",")[0]]
            assert {each.event().body[: len(begin)] for each in said} == {begin}


def test_kinds_and_alignments_are_the_documented_ones() -> None:
    listed = {
        row[0]: row[2]
        for row in rows("| element | encoding | content |\n|---|---|---|\n| checkpoint")
    }
    for name, numbers in (("kind", CheckpointKind), ("alignment", Alignment)):
        said = ", ".join(f"{each.value} {each.name}" for each in numbers)
        assert listed[name].startswith(said)


def test_the_verdicts_are_the_documented_ones() -> None:
    listed = [row[0] for row in rows("| verdict | in | meaning |")]
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
        wire.channels_per_worker_max,
        wire.unmet_requests_per_second_max,
        wire.unused_requests_per_minute_max,
        wire.heartbeats_per_minute_max,
        wire.credit_per_channel_max,
        wire.control_bytes_max // 2**20,
        network.record_keys_max,
        wire.pending_handshakes_max,
        wire.accepted_connections_max,
        wire.farewell_bytes_max // 2**20,
    ]


def test_the_version_is_the_documented_one() -> None:
    assert TEXT.startswith(f"# The wire, version {PROTOCOL_VERSION}\n")


def test_decimals_have_the_documented_grammar() -> None:
    """The regular expression built from the grammar of SPEC and the reader accept the same
    texts."""
    block = TEXT.partition("```abnf\n")[2].partition("```")[0]
    rules = dict(re.findall(r"^(\w+)\s+= (.*)$", block, re.MULTILINE))
    form = (
        rules["decimal"]
        .replace("number", f"({rules['number']})")
        .replace("nan)", f"({rules['nan']}))")
    )
    for abnf, regular in (
        ("[", "(?:"),
        ("]", ")?"),
        ("1*DIGIT", "[0-9]+"),
        ("*DIGIT", "[0-9]*"),
        (" / ", "|"),
        (" ", ""),
    ):
        form = form.replace(abnf, regular)
    form = re.sub(r'"([^"]*)"', lambda text: re.escape(text[1]), form)
    grammar = re.compile(form)
    pieces = ["", "-", "+", "1", "01", ".", "5", "e", "E", "s", "NaN", "Infinity", "nan", "_", " "]
    texts = {"".join(some) for some in product(pieces, repeat=4)}
    assert {text for text in texts if grammar.fullmatch(text)} == set(filter(is_read, texts))


def is_read(text: str) -> bool:
    """Return whether the reader of records accepts this text as a decimal number."""
    try:
        READERS[DECIMAL](text)
    except ValueError:
        return False
    return True
