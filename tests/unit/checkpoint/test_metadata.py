"""Metadata: it round-trips, its bytes are pinned, and any other content is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import pytest

import flinknet.checkpoint
from flinknet.checkpoint.envelope import put_in_envelope
from flinknet.checkpoint.metadata import (
    CheckpointDirectory,
    CheckpointMetadata,
    Exchange,
    OperatorState,
    Section,
    StateKind,
    StatePart,
    SubtaskState,
    decode_metadata,
    encode_metadata,
)
from flinknet.errors import CheckpointCorruptedError, CheckpointError
from flinknet.wire.checkpoint_options import CheckpointKind
from tests.unit.checkpoint.checkpoints import inline, metadata

GOLDEN = Path(__file__).parent / "golden"
FORMAT = Path(flinknet.checkpoint.__path__[0], "FORMAT.md").read_text(encoding="utf-8")

EXAMPLE = metadata(
    operators=(
        OperatorState(
            "counts",
            2,
            128,
            (
                SubtaskState(
                    0,
                    {
                        StateKind.KEYED: StatePart(
                            (Section(0, 30_000, 0xDEADBEEF), Section(5, 10, 1)), "keyed-0"
                        )
                    },
                ),
                SubtaskState(
                    1,
                    {
                        StateKind.OPERATOR: inline(("offsets", b"\x93\x01\x02\x03")),
                        StateKind.INPUT: inline(((0, 1), b"\0\0\0\x02ab"), ((1, 0), b"\0\0\0\1c")),
                    },
                    finished=True,
                ),
            ),
        ),
    )
)


def test_metadata_comes_back() -> None:
    assert decode_metadata(encode_metadata(EXAMPLE, 4096), "m") == EXAMPLE


EXCHANGES = (
    Exchange("map", None, "source", 0, "counts", 0, 0, "HASH", False, False),
    Exchange("map", "late", "source", 1, "counts", 1, 1, "FORWARD", True, True),
)


def test_exchanges_come_back_and_are_not_there_if_nothing_was_in_flight() -> None:
    made = EXAMPLE._replace(exchanges=EXCHANGES)
    assert decode_metadata(encode_metadata(made, 4096), "m") == made
    assert "exchanges" not in content()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"partition": 0}, "two exchanges have one number"),
        ({"gate": 0}, "two exchanges have one number"),
        ({"gate": -1}, "-1 is not a count"),
        ({"tag": 1}, "tag is a int"),
        ({"pointwise": None}, "pointwise is a NoneType"),
    ],
)
def test_invalid_exchanges_are_refused(change: dict[str, Any], message: str) -> None:
    changed = content()
    changed["exchanges"] = [EXCHANGES[0]._asdict(), EXCHANGES[1]._asdict() | change]
    with pytest.raises(CheckpointCorruptedError, match=message):
        decode_metadata(put_in_envelope(changed, 4096), "m")


@pytest.mark.parametrize("kind", CheckpointKind)
def test_every_kind_comes_back(kind: CheckpointKind) -> None:
    made = metadata(kind=kind)
    assert decode_metadata(encode_metadata(made, 4096), "m") == made
    assert str(made.directory).startswith("savepoint-7" if kind.is_savepoint else "checkpoint-7")


def test_its_bytes_are_the_golden_ones() -> None:
    assert encode_metadata(EXAMPLE, 4096) == (GOLDEN / "metadata.bin").read_bytes()


def test_the_example_of_the_format_is_the_golden_one() -> None:
    (block,) = re.findall(r"^```metadata\n(.*?)^```", FORMAT, re.DOTALL | re.MULTILINE)
    written = b"".join(bytes.fromhex(line[:48]) for line in block.splitlines())
    assert written == (GOLDEN / "metadata.bin").read_bytes()


def test_sizes_and_durations_are_totals() -> None:
    assert EXAMPLE.size_bytes == 30_010 + 4 + 6 + 5
    assert EXAMPLE.duration_ms == 250
    assert EXAMPLE._replace(completed_ms=0).duration_ms == 0
    assert list(EXAMPLE.files()) == ["keyed-0"]
    assert [(subtask.subtask_index, kind) for _, subtask, kind, _ in EXAMPLE.parts()] == [
        (0, StateKind.KEYED),
        (1, StateKind.OPERATOR),
        (1, StateKind.INPUT),
    ]
    keyed = EXAMPLE.files()["keyed-0"]
    assert keyed.labels == (0, 5)
    assert [offset for _, offset in keyed.offsets()] == [0, 30_000]


@pytest.mark.parametrize("kind", StateKind)
def test_in_flight_data_is_not_own_state_of_the_operator(kind: StateKind) -> None:
    state = SubtaskState(0, {kind: inline((0, b"x"))})
    assert state.has_own_state == (kind in (StateKind.KEYED, StateKind.OPERATOR))
    assert not SubtaskState(0, {}, finished=True).has_own_state


def test_it_is_bounded() -> None:
    with pytest.raises(CheckpointError, match="bytes, but only 64 are allowed"):
        encode_metadata(EXAMPLE, 64)


@pytest.mark.parametrize(
    "directory",
    [CheckpointDirectory(False, 0, 0), CheckpointDirectory(True, 12, 3)],
    ids=str,
)
def test_a_directory_is_found_by_its_name(directory: CheckpointDirectory) -> None:
    assert CheckpointDirectory.parse(str(directory)) == directory


@pytest.mark.parametrize("name", ["checkpoint-07-attempt-1", "checkpoint-7", "journal", ""])
def test_another_name_is_no_checkpoint_s(name: str) -> None:
    assert CheckpointDirectory.parse(name) is None


def content() -> dict[str, Any]:
    file = encode_metadata(EXAMPLE, 4096)
    unpacked: dict[str, Any] = msgpack.unpackb(file[14:-4])
    return unpacked


def keyed(content: dict[str, Any]) -> dict[str, Any]:
    part: dict[str, Any] = content["operators"][0]["subtasks"][0]["parts"]["keyed"]
    return part


def operator_part(content: dict[str, Any]) -> dict[str, Any]:
    part: dict[str, Any] = content["operators"][0]["subtasks"][1]["parts"]["operator"]
    return part


def test_keys_of_later_writers_are_passed_over() -> None:
    later = content()
    later["new"] = keyed(later)["new"] = 1
    assert decode_metadata(put_in_envelope(later, 4096), "m") == EXAMPLE


BREAKS: dict[str, Callable[[dict[str, Any]], object]] = {
    "something else": lambda made: made.update(what="entry"),
    "unknown kind": lambda made: made.update(kind="copy"),
    "no job": lambda made: made.pop("job"),
    "job is a number": lambda made: made.update(job=1),
    "negative id": lambda made: made.update(checkpoint_id=-1),
    "id is true": lambda made: made.update(checkpoint_id=True),
    "operators is a map": lambda made: made.update(operators={}),
    "an operator is a number": lambda made: made.update(operators=[1]),
    "subtask beyond parallelism": lambda made: made["operators"][0].update(parallelism=1),
    "a subtask twice": lambda made: made["operators"][0]["subtasks"][1].update(subtask_index=0),
    "finished is a number": lambda made: made["operators"][0]["subtasks"][1].update(finished=1),
    "unknown kind of state": lambda made: made["operators"][0]["subtasks"][0].update(
        parts={"timers": keyed(made)}
    ),
    "a part elsewhere": lambda made: keyed(made).update(name="../../secret"),
    "a part that is hidden": lambda made: keyed(made).update(name=".keyed"),
    "a part in the metadata's place": lambda made: keyed(made).update(name="metadata"),
    "neither name nor inline": lambda made: keyed(made).pop("name"),
    "inline is shorter": lambda made: operator_part(made).update(inline=b"123"),
    "one name twice": lambda made: made["operators"].append(made["operators"][0]),
    "a section without checksum": lambda made: keyed(made).update(sections=[[0, 1]]),
    "a label of three": lambda made: keyed(made).update(sections=[[[0, 1, 2], 1, 2]]),
    "a label is nil": lambda made: keyed(made).update(sections=[[None, 1, 2]]),
    "a negative length": lambda made: keyed(made).update(sections=[[0, -1, 2]]),
}


@pytest.mark.parametrize("break_it", BREAKS.values(), ids=BREAKS)
def test_invalid_metadata_is_refused_with_its_name(
    break_it: Callable[[dict[str, Any]], object],
) -> None:
    broken = content()
    break_it(broken)
    with pytest.raises(
        CheckpointCorruptedError, match=r"^/jobs/1/metadata is not the metadata of a"
    ):
        decode_metadata(put_in_envelope(broken, 8192), "/jobs/1/metadata")


def test_metadata_without_state_is_metadata() -> None:
    empty: CheckpointMetadata = metadata()
    assert empty.size_bytes == 0
    assert decode_metadata(encode_metadata(empty, 4096), "m") == empty


@pytest.mark.parametrize(
    ("finished", "parallelism", "expected"),
    [((), 3, set()), ((1,), 3, {1}), ((1,), 2, set()), ((0, 1, 2), 2, {0, 1})],
)
def test_finished_subtasks_at_a_parallelism(
    finished: tuple[int, ...], parallelism: int, expected: set[int]
) -> None:
    """O2."""
    subtasks = tuple(SubtaskState(index, {}, index in finished) for index in range(3))
    assert OperatorState("one", 3, 128, subtasks).finished_at(parallelism) == expected
