"""In-flight data is copied, bounded and handed over once; buffers are always recycled."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from flinknet.buffer.buffer import Buffer, DataType
from flinknet.buffer.segment import MemorySegment
from flinknet.checkpoint import channel_state
from flinknet.checkpoint.channel_state import (
    TRANSITIONS,
    ChannelState,
    ChannelStateWriter,
    CollectionEvent,
    CollectionState,
    chunks_of,
)
from flinknet.checkpoint.file_storage import FileStorage
from flinknet.checkpoint.state_parts import read_sections, write_part
from flinknet.config import CheckpointingConfig
from flinknet.config.checks import MIB
from flinknet.errors import (
    CheckpointCorruptedError,
    CheckpointError,
    ClosedResourceError,
    FlinknetError,
    LocalProtocolError,
    SerializationError,
)
from tests.unit.tables import named, shown_in, way_to

CONFIG = CheckpointingConfig(channel_state_bytes_max=MIB, aborted_checkpoints_max=3)
EVENT = DataType.EVENT_BUFFER


class Memory:
    """Lends segments and counts the returned ones."""

    def __init__(self) -> None:
        self.lent = 0

    def recycle(self, segment: MemorySegment) -> None:
        self.lent -= 1

    def buffer(self, content: bytes) -> Buffer:
        segment = MemorySegment(max(len(content), 1))
        segment.view(len(content))[:] = content
        self.lent += 1
        return Buffer(DataType.DATA_BUFFER, segment, self, len(content))


class Ends:
    """Records how collections end."""

    def __init__(self) -> None:
        self.seen: list[ChannelState | FlinknetError] = []

    def __call__(self, end: ChannelState | FlinknetError) -> None:
        self.seen.append(end)

    @property
    def state(self) -> ChannelState:
        (end,) = self.seen
        assert isinstance(end, ChannelState)
        return end

    @property
    def error(self) -> str:
        (end,) = self.seen
        assert isinstance(end, CheckpointError)
        return str(end)


@pytest.fixture
def memory() -> Iterator[Memory]:
    memory = Memory()
    yield memory
    assert memory.lent == 0, "a buffer has not gone back"


@pytest.fixture
def writer() -> Iterator[ChannelStateWriter]:
    writer = ChannelStateWriter("map[0]", CONFIG)
    yield writer
    writer.check_invariants()


def test_both_halves_make_the_state(writer: ChannelStateWriter, memory: Memory) -> None:
    """M2: the result exists only when input and output are finished."""
    ends = Ends()
    writer.start(1, ends)
    writer.add_input(1, (0, 1), [b"part of a record", memory.buffer(b"one"), memory.buffer(b"")])
    writer.add_output(1, (0, 0), [memory.buffer(b"out")])
    writer.add_input(1, (0, 1), [memory.buffer(b"two")])
    assert memory.lent == 0
    writer.check_invariants()
    assert writer.size_bytes == 25
    writer.finish_input(1)
    writer.add_output(1, (1, 0), [memory.buffer(b"more")])
    assert ends.seen == []
    writer.finish_output(1)
    assert ends.state == ChannelState(
        {(0, 1): [b"part of a record", b"one", b"two"]}, {(0, 0): [b"out"], (1, 0): [b"more"]}
    )
    assert writer.size_bytes == 0


@pytest.mark.parametrize("first", ["input", "output"])
def test_only_one_half_need_hold_something(
    writer: ChannelStateWriter, memory: Memory, first: str
) -> None:
    """M3: only input or only output is written."""
    ends = Ends()
    writer.start(1, ends)
    if first == "input":
        writer.add_input(1, (0, 0), [memory.buffer(b"1")])
        writer.finish_input(1)
        writer.finish_output(1)
        assert (dict(ends.state.input), dict(ends.state.output)) == ({(0, 0): [b"1"]}, {})
    else:
        writer.add_output(1, (0, 0), [memory.buffer(b"1")])
        writer.finish_output(1)
        writer.finish_input(1)
        assert (dict(ends.state.input), dict(ends.state.output)) == ({}, {(0, 0): [b"1"]})


def test_nothing_in_flight_is_no_block(writer: ChannelStateWriter) -> None:
    """M2: empty state gives no handle."""
    ends = Ends()
    writer.start(1, ends)
    writer.add_input(1, (0, 0), [])
    writer.finish_input(1)
    writer.finish_output(1)
    assert [*ends.state.input_blocks(), *ends.state.output_blocks()] == []


def test_an_event_is_refused_and_what_came_with_it_goes_back(
    writer: ChannelStateWriter, memory: Memory
) -> None:
    """M1: an event buffer is rejected, and the buffers of the call are recycled."""
    ends = Ends()
    writer.start(1, ends)
    with pytest.raises(
        LocalProtocolError, match="an event, EVENT_BUFFER, cannot be in-flight data"
    ):
        writer.add_input(1, (0, 0), [Buffer.event(EVENT, b"e"), memory.buffer(b"1"), b"2"])
    assert ends.seen == []


def test_calls_in_the_wrong_order_are_refused(writer: ChannelStateWriter, memory: Memory) -> None:
    """M1: adding or finishing before the start, or adding after the finish, is an error."""
    with pytest.raises(LocalProtocolError, match=r"of map\[0\] for checkpoint 1 was not started"):
        writer.add_input(1, (0, 0), [memory.buffer(b"1")])
    for finish in (writer.finish_input, writer.finish_output):
        with pytest.raises(LocalProtocolError, match="was not started"):
            finish(1)
    writer.start(1, Ends())
    with pytest.raises(LocalProtocolError, match="has already been started"):
        writer.start(1, Ends())
    writer.finish_input(1)
    for refused in (lambda: writer.add_input(1, (0, 0), [b"1"]), lambda: writer.finish_input(1)):
        with pytest.raises(LocalProtocolError, match="is finished: outputs may still grow"):
            refused()
    writer.finish_output(1)
    with pytest.raises(LocalProtocolError, match="checkpoint 1 is complete"):
        writer.add_output(1, (0, 0), [memory.buffer(b"1")])


def test_an_abort_drops_all_and_what_comes_later_goes_back(
    writer: ChannelStateWriter, memory: Memory
) -> None:
    """M1, M3: unknown ids are ignored; calls for an aborted id fail and recycle their buffers."""
    ends, later = Ends(), Ends()
    writer.start(1, ends)
    writer.add_input(1, (0, 0), [memory.buffer(b"1")])
    writer.abort(0, "unknown")
    writer.abort(1, "it took too long")
    assert "checkpoint 1 is aborted: it took too long" in ends.error
    writer.abort(1, "again")
    writer.add_input(1, (0, 0), [memory.buffer(b"2")])
    writer.finish_input(1)
    writer.start(2, later)
    writer.finish_input(2)
    writer.finish_output(2)
    assert later.state == ChannelState({}, {})


def test_a_checkpoint_that_is_aborted_before_it_begins_never_does(
    writer: ChannelStateWriter, memory: Memory
) -> None:
    """M1: an old checkpoint is aborted, and a new one starts."""
    present, aborted, after = Ends(), Ends(), Ends()
    writer.start(1, present)
    writer.abort(2, "early")
    writer.add_output(2, (0, 0), [memory.buffer(b"1")])
    writer.start(2, aborted)
    assert "checkpoint 2 was aborted or subsumed before" in aborted.error
    assert present.seen == []
    writer.start(3, after)
    assert "checkpoint 1 is subsumed by that of checkpoint 3" in present.error
    assert after.seen == []


def test_few_aborted_ones_are_remembered(writer: ChannelStateWriter) -> None:
    """M1: pending checkpoints are bounded."""
    for checkpoint_id in (9, 8, 7, 6):
        writer.abort(checkpoint_id, "early")
        writer.check_invariants()
    ends = {checkpoint_id: Ends() for checkpoint_id in (6, 7)}
    for checkpoint_id, end in ends.items():
        writer.start(checkpoint_id, end)
    assert ends[6].seen == []
    assert "was aborted" in ends[7].error


def test_an_older_one_is_subsumed(writer: ChannelStateWriter, memory: Memory) -> None:
    """M3: an old id after a newer one is subsumed."""
    newer, older = Ends(), Ends()
    writer.start(5, newer)
    writer.start(4, older)
    assert "checkpoint 4 was aborted or subsumed before" in older.error
    writer.add_input(4, (0, 0), [memory.buffer(b"1")])
    writer.finish_input(4)
    assert newer.seen == []


def test_the_bytes_are_bounded(writer: ChannelStateWriter, memory: Memory) -> None:
    ends = Ends()
    writer.start(1, ends)
    writer.add_input(1, (0, 0), [memory.buffer(bytes(MIB))])
    assert ends.seen == []
    writer.add_output(1, (0, 0), [memory.buffer(b"1"), memory.buffer(b"2")])
    assert "checkpoint 1 takes more than 1048576 bytes: raise" in ends.error
    assert writer.size_bytes == 0
    writer.add_output(1, (0, 0), [memory.buffer(b"3")])


def test_data_that_cannot_be_read_fails_the_checkpoint_alone(
    writer: ChannelStateWriter, memory: Memory
) -> None:
    """N9: state that cannot be written fails the checkpoint and nothing else."""

    def spilled() -> Iterator[Buffer | bytes]:
        yield memory.buffer(b"1")
        raise SerializationError("the disk is gone")

    ends = Ends()
    writer.start(1, ends)
    writer.add_input(1, (0, 0), spilled())
    assert ends.error == "in-flight data cannot be read: the disk is gone"


def test_another_error_is_raised_to_the_caller_of_add(writer: ChannelStateWriter) -> None:
    def broken() -> Iterator[bytes]:
        raise ValueError("a bug")
        yield b""

    writer.start(1, Ends())
    with pytest.raises(ValueError, match="a bug"):
        writer.add_input(1, (0, 0), broken())


def test_closing_ends_what_is_under_way(writer: ChannelStateWriter, memory: Memory) -> None:
    """M1, M4: after the close nothing is accepted, and buffers are recycled."""
    ends = Ends()
    writer.start(1, ends)
    writer.add_input(1, (0, 0), [memory.buffer(b"1")])
    writer.close()
    writer.close()
    assert ends.error == "map[0] has ended"
    writer.abort(1, "too late")
    with pytest.raises(ClosedResourceError, match=r"map\[0\] has ended: it cannot collect channel"):
        writer.add_input(1, (0, 0), [memory.buffer(b"2")])
    with pytest.raises(ClosedResourceError):
        writer.start(2, Ends())


def test_closing_an_idle_writer_notifies_no_caller(writer: ChannelStateWriter) -> None:
    writer.close()
    assert writer.size_bytes == 0


def test_a_collection_may_begin_where_another_ends(writer: ChannelStateWriter) -> None:
    second = Ends()
    writer.start(1, lambda _end: writer.start(2, second))
    writer.finish_input(1)
    writer.finish_output(1)
    writer.finish_input(2)
    writer.finish_output(2)
    assert second.state == ChannelState({}, {})


def test_the_docstring_shows_the_table() -> None:
    assert shown_in(channel_state.__doc__) == named(TRANSITIONS)


@pytest.mark.parametrize("event", CollectionEvent)
@pytest.mark.parametrize("state", CollectionState)
def test_every_row_of_the_table(state: CollectionState, event: CollectionEvent) -> None:
    """A step that a state does not allow is a misuse, or does nothing if the collection has
    ended."""
    writer = ChannelStateWriter("map[0]", CONFIG)
    calls = {
        CollectionEvent.FINISH_INPUT: lambda: writer.finish_input(1),
        CollectionEvent.FINISH_OUTPUT: lambda: writer.finish_output(1),
        CollectionEvent.ABORT: lambda: writer.abort(1, "row"),
    }
    ends = Ends()
    writer.start(1, ends)
    for before in way_to(state, CollectionState.COLLECTING, TRANSITIONS):
        calls[before]()
    told = len(ends.seen)
    if (state, event) in TRANSITIONS:
        calls[event]()
        following = TRANSITIONS[state, event]
        has_ended = following in (CollectionState.COMPLETED, CollectionState.ABORTED)
        assert len(ends.seen) == told + has_ended
    elif state is CollectionState.ABORTED or event is CollectionEvent.ABORT:
        calls[event]()
        assert len(ends.seen) == told
    else:
        with pytest.raises(LocalProtocolError):
            calls[event]()


# -- the bytes


@pytest.mark.parametrize("length", range(1, 11))
def test_a_torn_row_of_chunks_is_refused(length: int) -> None:
    whole = ChannelState({(0, 0): [b"abc", b"defg"]}, {})
    section = b"".join(block for _, block in whole.input_blocks())
    assert [*chunks_of(section, "f")] == [b"abc", b"defg"]
    if length != 7:
        with pytest.raises(
            CheckpointCorruptedError, match="^f does not contain a list of in-flight data"
        ):
            assert [*chunks_of(section[:length], "f")]
    assert [*chunks_of(b"", "f")] == []


def test_an_empty_chunk_is_refused() -> None:
    with pytest.raises(CheckpointCorruptedError):
        assert [*chunks_of(bytes(4), "f")]


@pytest.mark.parametrize("channels", [1, 3, 10])
@pytest.mark.parametrize("buffer_bytes", [1, 7, 4096])
@pytest.mark.parametrize("elements", [0, 1, 2, 10, 100])
async def test_state_comes_back_byte_by_byte(
    tmp_path: Path, memory: Memory, elements: int, buffer_bytes: int, channels: int
) -> None:
    """N1, M5: all written state is read, for any order of the requested channels."""
    chance = random.Random(f"{elements} {buffer_bytes} {channels}")
    config = CheckpointingConfig(inline_bytes_max=1000)
    storage = FileStorage(tmp_path, config)
    writer = ChannelStateWriter("map[0]", config)
    ends = Ends()
    writer.start(1, ends)
    sent = {(gate, channel): b"" for gate in range(2) for channel in range(channels)}
    for _ in range(elements):
        label = chance.choice([*sent])
        content = chance.randbytes(buffer_bytes)
        writer.add_input(1, label, [memory.buffer(content)])
        sent[label] += content
    writer.finish_output(1)
    writer.finish_input(1)
    part = await write_part(storage, "c/input-0", ends.state.input_blocks(), config)
    assert (part is None) == (elements == 0)
    if part is not None:
        assert part.size_bytes == sum(map(len, sent.values())) + 4 * elements
        for label in chance.sample([*sent], len(sent)):
            async for _, section in read_sections(storage, "c", part, {label}):
                assert b"".join(chunks_of(section, "c/input-0")) == sent.pop(label)
    assert b"".join(sent.values()) == b""
