from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from flinknet.config import NetworkConfig
from flinknet.errors import LocalProtocolError, SerializationError
from flinknet.records.serialization.packer import RecordPacker
from flinknet.records.serialization.spanning_record import ReassemblyMemory, SpanningRecord
from tests.unit.records.columns.cutting import KIB, Content, make_memory


def append(record: SpanningRecord, piece: bytes) -> None:
    """Append a piece from the middle of a buffer."""
    record.append(memoryview(b"before" + piece + b"behind"), 6, 6 + len(piece))


def complete(record: SpanningRecord, piece: bytes) -> bytes:
    content: bytes = record.complete(memoryview(piece + b"behind"), len(piece), Content())
    return content


def counts(memory: ReassemblyMemory) -> tuple[int, int, int, int]:
    memory.check_invariants()
    has = memory.statistics()
    return has.records, has.memory_bytes, has.spilled_records, has.spilled_bytes


def test_pieces_come_together_in_memory() -> None:
    memory = make_memory()
    record = SpanningRecord(memory)
    for piece in (b"one ", b"two ", b"three "):
        append(record, piece)
    assert counts(memory) == (1, 14, 0, 0)
    assert complete(record, b"four") == b"one two three four"
    assert (record.size, counts(memory)) == (0, (0, 0, 0, 0))
    append(record, b"next ")
    assert complete(record, b"record") == b"next record"


def test_a_record_over_the_threshold_goes_to_disk_and_back() -> None:
    """A5, A6: all its bytes go there, and the next record begins in memory again."""
    memory = make_memory(record_spill_bytes=10)
    record = SpanningRecord(memory)
    append(record, b"0123456789")
    assert counts(memory) == (1, 10, 0, 0)
    append(record, b"a")
    assert counts(memory) == (1, 0, 1, 11)
    append(record, b"b" * 30_000)
    assert complete(record, b"c") == b"0123456789a" + b"b" * 30_000 + b"c"
    assert counts(memory) == (0, 0, 0, 0)
    append(record, b"next")
    assert counts(memory) == (1, 4, 0, 0)
    assert memory.statistics().records_spilled_before == 1


def test_many_records_take_no_more_than_the_bound() -> None:
    """A record goes to disk, at any size, if its next piece would exceed the bound."""
    memory = make_memory(reassembly_memory_bytes=1_000, record_spill_bytes=500)
    records = [SpanningRecord(memory) for _ in range(200)]
    for turn in range(3):
        for number, record in enumerate(records):
            append(record, bytes([number]) * 30)
            memory.check_invariants()
        assert memory.statistics().memory_bytes <= 1_000, turn
    has = memory.statistics()
    assert has.memory_bytes == 90 * (200 - has.spilled_records)
    assert has.spilled_bytes == 90 * has.spilled_records
    assert has.spilled_records >= 188
    for number, record in enumerate(records):
        assert complete(record, b"end") == bytes([number]) * 90 + b"end"
    assert counts(memory) == (0, 0, 0, 0)


@pytest.mark.parametrize("spill", [5, 1_000], ids=["on disk", "in memory"])
def test_a_record_over_the_limit_is_refused(spill: int) -> None:
    """The piece that exceeds it may be the last one or not. The owner drops the existing bytes."""
    memory = make_memory(record_bytes_max=20, record_spill_bytes=spill)
    record = SpanningRecord(memory)
    append(record, b"x" * 20)
    with pytest.raises(ValueError, match="more than 20 bytes"):
        append(record, b"y")
    assert record.size == 20
    with pytest.raises(ValueError, match="more than 20 bytes"):
        complete(record, b"y")
    assert counts(memory) == (0, 0, 0, 0)


@pytest.mark.parametrize("spill", [5, 1_000], ids=["on disk", "in memory"])
def test_a_record_that_cannot_be_unpacked_is_dropped(spill: int) -> None:
    memory = make_memory(record_spill_bytes=spill)
    record = SpanningRecord(memory)
    append(record, b"x" * 10)
    with pytest.raises(ZeroDivisionError, match="12"):
        record.complete(memoryview(b"yz"), 2, Content(refuses=True))
    assert counts(memory) == (0, 0, 0, 0)


def test_closing_drops_everything() -> None:
    """This includes the records of a reader that was not closed."""
    memory = make_memory(record_spill_bytes=10)
    records = [SpanningRecord(memory) for _ in range(4)]
    for number, record in enumerate(records):
        append(record, b"x" * (number * 5 + 1))
    assert counts(memory) == (4, 7, 2, 27)
    memory.close()
    memory.close()
    assert counts(memory) == (0, 0, 0, 0)
    assert [record.size for record in records] == [0] * 4


def test_a_disk_that_refuses_leaves_the_others_alone(tmp_path: Path) -> None:
    """Records in memory stay there, and the account is right."""
    memory = make_memory(record_spill_bytes=10, spill_directory=tmp_path / "missing")
    short, long = SpanningRecord(memory), SpanningRecord(memory)
    append(short, b"short ")
    append(long, b"x" * 10)
    with pytest.raises(SerializationError, match="missing"):
        append(long, b"x")
    assert counts(memory) == (2, 16, 0, 0)
    long.release()
    assert complete(short, b"record") == b"short record"
    assert counts(memory) == (0, 0, 0, 0)


def test_the_account_has_the_configured_limits(tmp_path: Path) -> None:
    config = NetworkConfig(
        record_spill_bytes=100 * KIB,
        reassembly_memory_bytes=200 * KIB,
        spill_directory=str(tmp_path / "missing"),
    )
    memory = ReassemblyMemory.of(config)
    records = [SpanningRecord(memory) for _ in range(3)]
    for record in records[:2]:
        append(record, b"x" * 100 * KIB)
    assert counts(memory) == (2, 200 * KIB, 0, 0)
    assert memory.statistics().memory_bytes_max == 200 * KIB
    with pytest.raises(SerializationError, match="missing"):
        append(records[2], b"x")


@pytest.mark.parametrize("spill", [10, 40_000, 1 << 20], ids=["on disk", "in turn", "in memory"])
def test_a_partial_record_can_be_taken_and_restored_at_any_time(spill: int) -> None:
    """A3, A4, A5, A6: this is tested byte by byte at the beginning, in memory and on disk.

    The bytes stay where they are.
    """
    memory, other = make_memory(record_spill_bytes=spill), make_memory(record_spill_bytes=spill)
    record = SpanningRecord(memory)
    assert list(record.unconsumed()) == []
    content = bytes(range(256)) * 400
    sizes = [*range(1, 20), 32_767, 32_768, 32_769, 65_536, len(content)]
    for size in sizes:
        append(record, content[record.size : size])
        pieces = list(record.unconsumed())
        assert b"".join(pieces) == content[:size]
        assert max(map(len, pieces)) <= 32_768
        restored = SpanningRecord(other)
        restored.restore(pieces)
        assert (restored.size, restored.is_on_disk) == (size, size > spill)
        assert complete(restored, b"end") == content[:size] + b"end"
        assert counts(other) == (0, 0, 0, 0)
    assert complete(record, b"end") == content + b"end"
    assert list(record.unconsumed()) == []


def test_a_record_is_not_restored_into_another() -> None:
    record = SpanningRecord(make_memory(record_bytes_max=20))
    record.restore([])
    append(record, b"begun")
    with pytest.raises(LocalProtocolError, match="is inside a record, 5 bytes"):
        record.restore([b"other"])
    record.release()
    with pytest.raises(ValueError, match="more than 20 bytes"):
        record.restore([b"x" * 15, b"y" * 6])


def test_a_disk_that_is_full_gives_the_place_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes in memory stay there."""

    def refuse(*arguments: object) -> int:
        raise OSError(28, "No space left on device")

    memory = make_memory(record_spill_bytes=10)
    record = SpanningRecord(memory)
    append(record, b"x" * 10)
    with monkeypatch.context() as patch:
        patch.setattr("os.pwrite", refuse)
        with pytest.raises(SerializationError, match="No space left"):
            append(record, b"y")
    assert counts(memory) == (1, 10, 0, 0)
    append(record, b"y")
    assert complete(record, b"z") == b"x" * 10 + b"yz"


# -- large records ---------------------------------------------------------------------------------

LARGE = Random(3).randbytes(90_000)
PACKED = RecordPacker().pack(LARGE)
WHOLE = len(PACKED)


def append_all(record: SpanningRecord, content: bytes, sizes: Sequence[int]) -> None:
    for size in sizes:
        append(record, content[record.size : record.size + size])


def test_all_of_a_large_record_is_reserved_from_its_first_piece_on() -> None:
    memory = make_memory()
    record = SpanningRecord(memory)
    for size in (30_000, 1, 59_998):
        append_all(record, PACKED, [size])
        assert counts(memory) == (1, WHOLE, 0, 0)
    assert record.size == 89_999
    assert complete(record, PACKED[89_999:]) == PACKED
    assert (record.size, counts(memory)) == (0, (0, 0, 0, 0))


def test_a_large_record_may_end_with_any_piece() -> None:
    """All but its last byte may be there before, or only its first six."""
    for first in (6, 7, WHOLE - 1):
        record = SpanningRecord(make_memory())
        append_all(record, PACKED, [first])
        assert complete(record, PACKED[first:]) == PACKED


@pytest.mark.parametrize("first", [1, 5])
def test_a_large_record_that_does_not_say_so_at_once_is_gathered(first: int) -> None:
    """Its first piece is too short to contain its length."""
    memory = make_memory()
    record = SpanningRecord(memory)
    append_all(record, PACKED, [first, 50_000])
    assert counts(memory) == (1, first + 50_000, 0, 0)
    assert complete(record, PACKED[first + 50_000 :]) == PACKED


@pytest.mark.parametrize(
    "limits",
    [{"record_spill_bytes": WHOLE - 1}, {"reassembly_memory_bytes": WHOLE - 1}],
    ids=["longer than what stays in memory", "more than there is memory for"],
)
def test_a_large_record_for_which_there_is_no_memory_is_gathered(limits: dict[str, int]) -> None:
    """This holds as long as its pieces fit in memory; then it goes to disk."""
    memory = make_memory(**limits)
    record = SpanningRecord(memory)
    append_all(record, PACKED, [30_000, 30_000])
    assert counts(memory) == (1, 60_000, 0, 0)
    append_all(record, PACKED, [WHOLE - 60_001, 1])
    assert counts(memory) == (1, 0, 1, WHOLE)
    assert complete(record, b"more") == PACKED + b"more"
    assert counts(memory) == (0, 0, 0, 0)


def test_large_records_leave_what_they_have_reserved_to_no_other() -> None:
    memory = make_memory(reassembly_memory_bytes=2 * WHOLE)
    records = [SpanningRecord(memory) for _ in range(3)]
    for record in records[:2]:
        append_all(record, PACKED, [10_000])
    append_all(records[2], PACKED, [10_000])
    assert counts(memory) == (3, 2 * WHOLE, 1, 10_000)
    records[0].release()
    assert counts(memory) == (2, WHOLE, 1, 10_000)
    assert complete(records[2], PACKED[10_000:]) == PACKED
    assert complete(records[1], PACKED[10_000:]) == PACKED
    assert counts(memory) == (0, 0, 0, 0)


@pytest.mark.parametrize("first", [6, 40_000, WHOLE - 1])
def test_a_large_record_that_is_longer_than_it_says_is_gathered(first: int) -> None:
    """The unpacker finds the error. Only the existing bytes are reserved then."""
    memory = make_memory()
    record = SpanningRecord(memory)
    append_all(record, PACKED, [first])
    append(record, PACKED[first:] + b"more")
    assert counts(memory) == (1, WHOLE + 4, 0, 0)
    assert complete(record, b"end") == PACKED + b"moreend"
    assert counts(memory) == (0, 0, 0, 0)


def test_a_large_record_that_is_longer_than_it_says_from_the_beginning_is_gathered() -> None:
    memory = make_memory()
    record = SpanningRecord(memory)
    append(record, PACKED + b"more")
    assert counts(memory) == (1, WHOLE + 4, 0, 0)
    assert complete(record, b"end") == PACKED + b"moreend"


@pytest.mark.parametrize("last", [PACKED[50_000:-1], PACKED[50_000:] + b"x"])
def test_a_large_record_that_ends_elsewhere_is_unpacked_as_any_other(last: bytes) -> None:
    memory = make_memory()
    record = SpanningRecord(memory)
    append_all(record, PACKED, [50_000])
    with pytest.raises(ZeroDivisionError, match=str(50_000 + len(last))):
        record.complete(memoryview(last), len(last), Content(refuses=True))
    assert (record.size, counts(memory)) == (0, (0, 0, 0, 0))


def test_a_large_record_that_outgrows_the_limit_is_refused() -> None:
    """Its head claimed a length within the limit."""
    memory = make_memory(record_bytes_max=WHOLE)
    record = SpanningRecord(memory)
    append_all(record, PACKED, [50_000])
    with pytest.raises(ValueError, match=f"more than {WHOLE} bytes"):
        append(record, bytes(WHOLE))
    assert counts(memory) == (1, 50_000, 0, 0)
    record.release()
    assert counts(memory) == (0, 0, 0, 0)


def test_a_large_record_can_be_handed_out_at_any_time_and_taken_back() -> None:
    """A3, A4, A5, A6: its pieces are no longer than those of other records, and it stays where it
    is."""
    memory, other = make_memory(), make_memory()
    record = SpanningRecord(memory)
    for size in (6, 7, 32_768, 32_769, 65_536, WHOLE - 1, WHOLE):
        append_all(record, PACKED, [size - record.size])
        pieces = list(record.unconsumed())
        assert b"".join(pieces) == PACKED[:size]
        assert max(map(len, pieces)) <= 32_768
        restored = SpanningRecord(other)
        restored.restore(pieces)
        assert counts(other) == (1, WHOLE, 0, 0)
        assert complete(restored, PACKED[size:]) == PACKED
    assert complete(record, b"") == PACKED
