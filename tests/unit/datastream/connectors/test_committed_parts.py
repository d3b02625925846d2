"""When a job may add to committed files, for every kind of job that wrote them."""

from __future__ import annotations

import pytest

from flinknet.datastream.connectors.committed_parts import check_may_add, is_behind
from flinknet.datastream.connectors.part_names import CommittedPart, PartNames
from flinknet.errors import ConfigurationError
from flinknet.state.state_handler import RestoredCheckpoint

NAMES = PartNames(suffix=".csv")
FOUND = [
    NAMES.with_checkpoint(NAMES.of_checkpoint(0, 2, "before", 0, number), 10 * number)
    for number in (1, 2, 10)
]


@pytest.mark.parametrize("may_repeat", [False, True])
@pytest.mark.parametrize(
    ("job_id", "restored", "refusal"),
    [
        ("before", None, None),
        ("before", RestoredCheckpoint("before", 10), None),
        ("job", None, "holds .*, which is not from this job"),
        ("job", RestoredCheckpoint("before", 100), None),
        ("job", RestoredCheckpoint("before", 10), "holds 2 files, .*-20.csv for example"),
        ("job", RestoredCheckpoint("another", 10), None),
    ],
)
def test_a_job_adds_to_what_it_continues_and_to_nothing_else(
    job_id: str, restored: RestoredCheckpoint | None, refusal: str | None, may_repeat: bool
) -> None:
    """``may_repeat`` allows repeated records, not files of other jobs."""
    arguments = "/out", [*FOUND, ".part-hidden"], NAMES, job_id, restored
    if refusal is None or (may_repeat and restored is not None):
        check_may_add(*arguments, may_repeat=may_repeat)
        return
    with pytest.raises(ConfigurationError, match=rf"^/out {refusal}"):
        check_may_add(*arguments, may_repeat=may_repeat)


@pytest.mark.parametrize(
    ("part", "behind"),
    [
        (CommittedPart(1, "job", 8, ""), True),
        (CommittedPart(1, "job", 7, ""), False),
        (CommittedPart(0, "job", 8, ""), False),
        (CommittedPart(1, "other", 8, ""), False),
    ],
)
def test_a_subtask_removes_its_own_files_of_later_checkpoints(
    part: CommittedPart, behind: bool
) -> None:
    assert is_behind(part, "job", 7, 1) is behind
