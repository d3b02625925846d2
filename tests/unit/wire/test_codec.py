"""The decoder accepts every valid stream, in any pieces, and refuses others before they cost
much."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.buffer.buffer import DataType
from flinknet.config import WireLimits
from flinknet.errors import RemoteProtocolError
from flinknet.texts import printable
from flinknet.wire.buffer_header import BufferHeader, encode_buffer_header, encode_credit
from flinknet.wire.codec import (
    FrameDecoder,
    Stall,
    encode,
    encode_error,
)
from flinknet.wire.messages import (
    CONNECTION_CHANNEL,
    LAYOUTS,
    MessageType,
)
from tests.traced_memory import traced_memory
from tests.unit.wire.received import (
    SEGMENT_BYTES,
    Received,
    about,
    buffer_event,
    buffer_response,
    decode,
    error_response,
    make_decoder,
    partition_request,
)

LIMITS = WireLimits()
DATA_TYPES = [data_type for data_type in DataType if data_type is not DataType.NONE]
U32 = st.integers(0, 2**32 - 1)


@st.composite
def buffers(draw: st.DrawFn) -> tuple[Any, ...]:
    """A valid BufferResponse, as ``Received`` records it."""
    data_type = draw(st.sampled_from(DATA_TYPES))
    body = draw(st.binary(min_size=1, max_size=SEGMENT_BYTES))
    continued = unfinished = 0
    if data_type.is_buffer:
        continued = draw(st.integers(0, len(body)))
    if data_type is DataType.DATA_BUFFER and continued < len(body):
        unfinished = draw(st.integers(1, len(body) - continued))
    whole = len(body) - continued - unfinished if data_type.is_buffer else 0
    records = draw(st.integers(0, whole))
    channel, sequence, backlog = draw(U32), draw(U32), draw(U32)
    header = BufferHeader(channel, sequence, backlog, data_type, 0, continued, unfinished, records)
    return buffer_event(header, body)


BUFFERS = buffers()
ERRORS = st.tuples(
    st.just(MessageType.ERROR_RESPONSE),
    U32,
    st.integers(1, 127),
    st.text(max_size=40).map(printable),
)
OTHERS = st.one_of(
    st.tuples(
        st.just(MessageType.PARTITION_REQUEST), U32, st.binary(min_size=16, max_size=16), U32, U32
    ),
    st.just((MessageType.CLOSE_REQUEST,)),
    *[
        st.tuples(st.just(message_type), *[U32] * len(LAYOUTS[message_type].fields))
        for message_type in MessageType
        if message_type not in (0, 1, MessageType.PARTITION_REQUEST, MessageType.CLOSE_REQUEST)
    ],
)
EVENTS = st.one_of(BUFFERS, ERRORS, OTHERS)


def encoded(event: tuple[Any, ...]) -> bytes:
    """Encode a message from the tuple that ``Received`` would record."""
    message_type, *fields = event
    if message_type is MessageType.BUFFER_RESPONSE:
        _, channel, sequence, backlog, data_type, body, *cut = event
        header = encode_buffer_header(channel, sequence, backlog, data_type, len(body), *cut)
        return header + bytes(body)
    if message_type is MessageType.ERROR_RESPONSE:
        channel, code, text = fields
        return encode_error(channel, code, text, LIMITS)
    return encode(message_type, *fields)


def refusal(data: bytes, **options: Any) -> tuple[str, list[tuple[Any, ...]]]:
    """Feed invalid data; return the error's text and the events before it."""
    received = Received()
    decoder = make_decoder(received, **options)
    with pytest.raises(RemoteProtocolError) as refused:
        decoder.feed(data)
    return str(refused.value), received.events


# -- pieces ----------------------------------------------------------------------------------------


@given(st.lists(EVENTS, max_size=8))
def test_whatever_is_encoded_is_decoded(events: list[tuple[Any, ...]]) -> None:
    """E16, F1."""
    assert decode(b"".join(map(encoded, events))) == events


@given(st.lists(EVENTS, min_size=1, max_size=6), st.data())
def test_pieces_do_not_matter(events: list[tuple[Any, ...]], data: st.DataObject) -> None:
    """F2, F3: data cut byte by byte or anywhere else gives the same events as data in one piece."""
    stream = b"".join(map(encoded, events))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)))) | {0, len(stream)})
    received = Received()
    decoder = make_decoder(received)
    for start, end in pairwise(cuts):
        decoder.feed(stream[start:end])
    assert received.events == events
    byte_by_byte = Received()
    decoder = make_decoder(byte_by_byte)
    for position in range(len(stream)):
        decoder.feed(stream[position : position + 1])
    assert byte_by_byte.events == events


@given(st.lists(BUFFERS, min_size=1, max_size=6), st.integers(1, 40))
def test_the_bodies_of_unwanted_channels_are_skipped(
    events: list[tuple[Any, ...]], piece: int
) -> None:
    """F2: messages to a released channel are discarded, and the others are intact."""
    stream = b"".join(map(encoded, events))
    unwanted = {events[0][1]}
    received = Received(skipped=unwanted)
    decoder = make_decoder(received)
    for position in range(0, len(stream), piece):
        decoder.feed(stream[position : position + piece])
    assert received.events == [event for event in events if event[1] not in unwanted]
    assert received.bodies_begun == len(events)


def test_a_read_that_fills_the_whole_buffer_is_taken() -> None:
    message = about(MessageType.ADD_CREDIT, 1, 2)
    received = Received()
    decoder = make_decoder(received)
    stream = message * 2000
    while stream:
        memory = decoder.get_buffer()
        size = min(len(memory), len(stream))
        memory[:size] = stream[:size]
        decoder.received(size)
        stream = stream[size:]
    assert received.events == [(MessageType.ADD_CREDIT, 1, 2)] * 2000


def test_a_turn_has_a_number_of_messages_and_the_next_one_goes_on() -> None:
    """This includes bodies and messages cut in two. Every message is decoded once and in order."""
    credit, data = about(MessageType.ADD_CREDIT, 1, 2), buffer_response(body=b"body")
    stream = (credit + b"\x91\x0c" + data) * 7
    for cut in range(1, len(stream)):
        received = Received()
        decoder = make_decoder(received, turn_messages_max=4)
        handled = 0
        for part in (stream[:cut], stream[cut:]):
            decoder.get_buffer()[: len(part)] = part
            decoder.received(len(part))
            while True:
                assert len(received.events) - handled <= 5, "four, and a body begun before"
                handled = len(received.events)
                if not decoder.has_more:
                    break
                decoder.received(0)
        assert received.events == decode(stream)


def test_a_frame_that_waits_for_memory_is_not_gone_on_with_in_the_next_turn() -> None:
    """This holds even if it was the last frame of its turn.

    Only the owner of the memory resumes it.
    """

    class Full(Received):
        def begin_buffer(self, header: BufferHeader) -> Any:
            return Stall.FOR_MEMORY

    decoder = make_decoder(Full(), turn_messages_max=1)
    data = buffer_response(body=b"body")
    decoder.get_buffer()[: len(data)] = data
    decoder.received(len(data))
    assert not decoder.has_more


def test_a_receiver_may_end_the_turn_and_what_is_behind_comes_in_the_next() -> None:
    class Ending(Received):
        def on_message(self, message_type: MessageType, fields: tuple[int | bytes, ...]) -> None:
            super().on_message(message_type, fields)
            decoder.end_turn()

    received = Ending()
    decoder = make_decoder(received)
    message = partition_request(7)
    decoder.get_buffer()[: 2 * len(message)] = message * 2
    decoder.received(2 * len(message))
    assert (len(received.events), decoder.has_more) == (1, True)
    decoder.received(0)
    assert (len(received.events), decoder.has_more) == (2, False)


def test_fed_bytes_are_handled_over_several_turns() -> None:
    received = Received()
    decoder = make_decoder(received, turn_messages_max=2)
    decoder.feed(about(MessageType.ADD_CREDIT, 1, 2) * 5)
    assert received.events == [(MessageType.ADD_CREDIT, 1, 2)] * 5


def test_how_much_of_a_body_is_missing_can_be_asked() -> None:
    decoder = make_decoder(Received())
    data = buffer_response(body=bytes(20))
    decoder.feed(data[:-5])
    assert decoder.body_missing == 5
    decoder.feed(data[-5:])
    assert decoder.body_missing == 0


def test_there_is_always_room_to_read_into() -> None:
    """The longest message that is kept until it is complete fits the receive buffer."""
    text = "x" * LIMITS.error_text_bytes_max
    decoder = make_decoder(Received(), receive_buffer_bytes=4096)
    decoder.feed(error_response(0, 8, text.encode())[:-1])
    assert len(decoder.get_buffer()) > 1024


# -- invalid messages ------------------------------------------------------------------------------

EXAMPLES = {
    MessageType.BUFFER_RESPONSE: buffer_response(),
    MessageType.ERROR_RESPONSE: error_response(1, 8, b"text"),
    MessageType.PARTITION_REQUEST: partition_request(),
    MessageType.CANCEL_PARTITION_REQUEST: about(MessageType.CANCEL_PARTITION_REQUEST, 1),
    MessageType.CLOSE_REQUEST: b"\x91\x05",
    MessageType.ADD_CREDIT: about(MessageType.ADD_CREDIT, 1, 1),
    MessageType.ADD_EVENT_CREDIT: about(MessageType.ADD_EVENT_CREDIT, 1, 1),
    MessageType.RESUME_CONSUMPTION: about(MessageType.RESUME_CONSUMPTION, 1),
    MessageType.ACKNOWLEDGE_ALL_RECORDS_PROCESSED: about(
        MessageType.ACKNOWLEDGE_ALL_RECORDS_PROCESSED, 1
    ),
    MessageType.BACKLOG_ANNOUNCEMENT: about(MessageType.BACKLOG_ANNOUNCEMENT, 1, 1),
    MessageType.NEW_BUFFER_SIZE: about(MessageType.NEW_BUFFER_SIZE, 1, 1),
    MessageType.HEARTBEAT: b"\x91\x0c",
}
every_message = pytest.mark.parametrize("message_type", MessageType, ids=lambda t: t.name)
GOOD = about(MessageType.ADD_CREDIT, 3, 4)


def markers(message_type: MessageType) -> list[int]:
    """Return the offsets of the constant bytes of a message, except its first two."""
    layout = LAYOUTS[message_type]
    sizes = {"B": 1, "H": 2, "I": 4, "16s": 16}
    tokens = layout.struct.format[1:].replace("16s", "S")
    offsets, position = [], 0
    for token in tokens:
        offsets.append(position)
        position += 16 if token == "S" else sizes[token]
    return [offsets[index] for index, _ in layout.constants if index > 1]


@every_message
def test_the_examples_are_valid(message_type: MessageType) -> None:
    assert decode(EXAMPLES[message_type])[0][0] is message_type


@every_message
def test_only_the_right_array_header_is_taken(message_type: MessageType) -> None:
    example = EXAMPLES[message_type]
    for header in range(256):
        if header != example[0]:
            _, taken = refusal(GOOD + bytes([header]) + example[1:])
            assert taken == [(MessageType.ADD_CREDIT, 3, 4)]


def test_an_unknown_type_is_refused_at_its_second_byte() -> None:
    for type_id in set(range(256)) - set(MessageType):
        reason, _ = refusal(bytes([0x92, type_id]))
        assert reason == f"the peer sent a message of unknown type {type_id}"


@every_message
def test_only_the_fixed_markers_are_taken(message_type: MessageType) -> None:
    """Another encoding of the same number, a wrong type or a wrong width is refused."""
    example = EXAMPLES[message_type]
    for offset in markers(message_type):
        for marker in range(256):
            if marker != example[offset]:
                changed = example[:offset] + bytes([marker]) + example[offset + 1 :]
                reason, taken = refusal(changed + bytes(64))
                assert f"{message_type.name} header of the wrong form" in reason
                assert taken == []


def test_an_unknown_data_type_is_refused() -> None:
    for ordinal in [0, *range(len(DataType), 256)]:
        reason, _ = refusal(buffer_response(data_type=ordinal))
        assert reason == f"the peer sent a buffer of unknown data type {ordinal}"


@pytest.mark.parametrize("code", [0, 0x80, 0xC0, 0xCC, 0xFF])
def test_an_error_code_that_is_no_small_integer_is_refused(code: int) -> None:
    """An unpacker would read another value there and misread the rest of the stream."""
    reason, _ = refusal(error_response(1, code, b""))
    assert reason == "the peer sent an ERROR_RESPONSE header of the wrong form"


@pytest.mark.parametrize("text", [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80"])
def test_an_error_text_that_is_not_utf8_is_refused(text: bytes) -> None:
    assert refusal(error_response(1, 8, text))[0] == "the peer sent an error text that is not UTF-8"


# -- lengths ---------------------------------------------------------------------------------------

EVENTS_TOO_LONG = [
    (data_type, size)
    for data_type in DATA_TYPES
    if data_type.is_event
    for size in (LIMITS.event_bytes_max + 1, 2**31, 2**32 - 1)
]
BUFFERS_TOO_LONG = [
    (data_type, size)
    for data_type in DATA_TYPES
    if data_type.is_buffer
    for size in (SEGMENT_BYTES + 1, 2**16, 2**31, 2**32 - 1)
]


@pytest.mark.parametrize(("data_type", "size"), EVENTS_TOO_LONG + BUFFERS_TOO_LONG)
def test_a_body_too_long_is_refused_on_its_header_alone(data_type: DataType, size: int) -> None:
    received = Received()
    decoder = make_decoder(received)
    header = buffer_response(9, 0, 0, data_type, b"", size=size)
    decoder.feed(header[:-1])
    with pytest.raises(RemoteProtocolError) as refused:
        decoder.feed(header[-1:])
    limit = SEGMENT_BYTES if data_type.is_buffer else LIMITS.event_bytes_max
    assert str(refused.value) == (
        f"the peer announced {data_type.name} of {size} bytes on channel 9; the limit is {limit} "
        f"bytes"
    )
    assert received.bodies_begun == 0


@pytest.mark.parametrize(
    ("data_type", "continued", "unfinished", "records"),
    [
        (DataType.DATA_BUFFER_WITH_CLEAR_END, 0, 0, 9),
        (DataType.DATA_BUFFER_WITH_CLEAR_END, 3, 0, 6),
        (DataType.DATA_BUFFER, 3, 4, 2),
        (DataType.DATA_BUFFER, 8, 0, 1),
        (DataType.DATA_BUFFER, 0, 8, 2**32 - 1),
        (DataType.END_OF_DATA, 0, 0, 1),
    ],
)
def test_more_records_than_bytes_are_refused_on_the_header_alone(
    data_type: DataType, continued: int, unfinished: int, records: int
) -> None:
    """An event has no records."""
    received = Received()
    decoder = make_decoder(received)
    marks = {"continued": continued, "unfinished": unfinished}
    decoder.feed(buffer_response(9, 0, 0, data_type, bytes(8), **marks))
    assert received.bodies_begun == 1
    header = buffer_response(9, 1, 0, data_type, b"", size=8, **marks, records=records)
    decoder.feed(header[:-1])
    with pytest.raises(RemoteProtocolError, match=f"channel 9, where {records} records have no"):
        decoder.feed(header[-1:])
    assert received.bodies_begun == 1


@pytest.mark.parametrize("size", [LIMITS.error_text_bytes_max + 1, 2**16 - 1])
def test_a_text_too_long_is_refused_on_its_header_alone(size: int) -> None:
    decoder = make_decoder(Received())
    header = error_response(1, 8, b"", size=size)
    decoder.feed(header[:-1])
    with pytest.raises(RemoteProtocolError, match=f"an error text of {size} bytes"):
        decoder.feed(header[-1:])


@pytest.mark.parametrize(
    ("data_type", "continued", "unfinished"),
    [
        (DataType.DATA_BUFFER, 9, 0),
        (DataType.DATA_BUFFER, 5, 4),
        (DataType.DATA_BUFFER, 3, 0),
        (DataType.DATA_BUFFER_WITH_CLEAR_END, 9, 0),
        (DataType.DATA_BUFFER_WITH_CLEAR_END, 0, 1),
        (DataType.END_OF_DATA, 1, 0),
        (DataType.END_OF_DATA, 0, 1),
    ],
)
def test_parts_of_records_that_a_body_cannot_have_are_refused(
    data_type: DataType, continued: int, unfinished: int
) -> None:
    header = buffer_response(
        9, 0, 0, data_type, b"", size=8, continued=continued, unfinished=unfinished
    )
    reason, taken = refusal(GOOD + header)
    assert reason == (
        f"the peer announced {data_type.name} of 8 bytes on channel 9, which cannot be cut after "
        f"{continued} and before the last {unfinished} bytes"
    )
    assert taken == [(MessageType.ADD_CREDIT, 3, 4)]


@pytest.mark.parametrize("data_type", DATA_TYPES, ids=lambda data_type: data_type.name)
def test_a_body_of_exactly_the_limit_is_taken(data_type: DataType) -> None:
    limit = SEGMENT_BYTES if data_type.is_buffer else LIMITS.event_bytes_max
    body = bytes(limit)
    [event] = decode(buffer_response(1, 2, 3, data_type, body))
    assert event[:6] == (MessageType.BUFFER_RESPONSE, 1, 2, 3, data_type, body)


@pytest.mark.parametrize("data_type", DATA_TYPES, ids=lambda data_type: data_type.name)
def test_an_empty_body_is_a_body(data_type: DataType) -> None:
    """F7."""
    [event] = decode(buffer_response(1, 2, 3, data_type, b""))
    assert event == (MessageType.BUFFER_RESPONSE, 1, 2, 3, data_type, b"")


def test_refused_lengths_allocate_nothing() -> None:
    """Four claims of up to 4 GiB cost only the exception and its text."""
    claims = [
        buffer_response(1, 0, 0, 1, b"", size=2**32 - 1),
        buffer_response(1, 0, 0, DataType.END_OF_DATA, b"", size=2**31),
        error_response(1, 8, b"", size=2**16 - 1),
        partition_request(2**32 - 1, bytes(16), 2**32 - 1, 2**32 - 1),
    ]
    decoders = [make_decoder(Received(), segment_bytes=32768) for _ in claims]
    with traced_memory() as memory:
        for decoder, claim in zip(decoders, claims, strict=True):
            try:
                decoder.feed(claim)
            except RemoteProtocolError:
                continue
        peak = memory.peak
    assert peak < 16 * 1024


# -- after an error --------------------------------------------------------------------------------


def poisoned() -> tuple[FrameDecoder, RemoteProtocolError]:
    decoder = make_decoder(Received())
    with pytest.raises(RemoteProtocolError) as refused:
        decoder.feed(b"\x92\xff")
    return decoder, refused.value


def test_a_decoder_that_refused_once_refuses_everything() -> None:
    """The position in the stream is lost, so later bytes are not examined."""
    decoder, first = poisoned()
    for data in (GOOD, b"\xc1", b"\x92\x03"):
        with pytest.raises(RemoteProtocolError) as again:
            decoder.feed(data)
        assert again.value is first


def test_messages_before_the_error_are_delivered_once() -> None:
    _, taken = refusal(GOOD + buffer_response(1, 0, 0) + b"\x92\x03" + GOOD)
    assert [event[0] for event in taken] == [MessageType.ADD_CREDIT, MessageType.BUFFER_RESPONSE]


def test_a_part_of_a_body_is_let_go_of() -> None:
    """The memory that the receiver gave for it can be reused."""
    memory = bytearray(SEGMENT_BYTES)

    class Segment(Received):
        def begin_buffer(self, header: BufferHeader) -> memoryview:
            return memoryview(memory)[: header.size]

    decoder = make_decoder(Segment())
    decoder.feed(buffer_response(body=bytes(20))[:-5])
    with pytest.raises(BufferError):
        memory.append(0)
    decoder.release()
    memory.append(0)


# -- encoding --------------------------------------------------------------------------------------


@given(st.text(max_size=2000))
def test_an_error_text_is_cut_to_the_limit_at_a_character(text: str) -> None:
    [(_, _, _, arrived)] = decode(encode_error(CONNECTION_CHANNEL, 8, text, LIMITS))
    shown = printable(text)
    assert shown.startswith(arrived)
    assert len(arrived.encode()) <= LIMITS.error_text_bytes_max
    if arrived != shown:
        assert len(shown[: len(arrived) + 1].encode()) > LIMITS.error_text_bytes_max


def test_an_error_text_that_no_encoder_takes_is_sent_printable() -> None:
    [(_, _, _, arrived)] = decode(encode_error(CONNECTION_CHANNEL, 8, "\ud800 \x1b[2J", LIMITS))
    assert arrived == r"\ud800 \x1b[2J"


def test_a_peers_error_text_does_not_rule_a_terminal() -> None:
    """Escape sequences in the text of a foreign peer are quoted."""
    message = encode_error(CONNECTION_CHANNEL, 8, "tell me", LIMITS).replace(b"tell", b"\x1b[2J")
    [(_, _, _, arrived)] = decode(message)
    assert arrived == r"\x1b[2J me"


def test_credit_is_encoded_as_any_message_is() -> None:
    for channel, credit in ((0, 1), (2**32 - 1, 2**32 - 1)):
        assert encode_credit(channel, credit) == encode(MessageType.ADD_CREDIT, channel, credit)
