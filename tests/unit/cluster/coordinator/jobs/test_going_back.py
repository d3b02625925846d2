"""Whether a job may go back to an older checkpoint, for every combination of conditions."""

from __future__ import annotations

import pytest

from flinknet.cluster.coordinator.jobs.going_back import (
    CompletedCheckpoints,
    Continuation,
    continuation,
    refusal,
)
from flinknet.graph.graph import CheckpointedOutput

FILES = CheckpointedOutput(1, "files", can_withdraw=True)
PROGRAM = CheckpointedOutput(2, "the program", can_withdraw=False)

START, NEWEST, OLDER = Continuation.START, Continuation.NEWEST, Continuation.OLDER
REPEAT, LOST, REFUSED = Continuation.REPEAT, Continuation.LOST, Continuation.REFUSED


@pytest.mark.parametrize("may_repeat", [False, True])
@pytest.mark.parametrize("outputs", [[], [FILES], [PROGRAM], [FILES, PROGRAM]])
@pytest.mark.parametrize("found", [None, 4, 5, 6])
@pytest.mark.parametrize("newest", [0, 5])
def test_a_job_never_goes_back_behind_output_that_it_cannot_withdraw(
    newest: int, found: int | None, outputs: list[CheckpointedOutput], may_repeat: bool
) -> None:
    expected: Continuation
    if found is None:
        expected = LOST if newest else START
    elif newest == 0 or found in (5, 6):
        expected = NEWEST
    elif PROGRAM not in outputs:
        expected = OLDER
    else:
        expected = REPEAT if may_repeat else REFUSED
    choice = continuation(newest, found, outputs, may_repeat=may_repeat)
    assert choice is expected
    assert choice.is_failure is (expected in (LOST, REFUSED))
    assert choice.goes_back is (expected in (OLDER, REPEAT))


def test_a_refusal_names_both_checkpoints_and_the_option() -> None:
    said = refusal(5, "checkpoint-4-attempt-1", [FILES, PROGRAM], "metadata is torn")
    assert 'had told "the program" that checkpoint 5 is complete' in said
    assert "found checkpoint-4-attempt-1 as the newest" in said
    assert "execution.checkpointing.allow-repeated-output" in said
    assert "metadata is torn" in said
    assert '"files"' not in said


def test_a_passed_over_checkpoint_stays_so_however_often_a_job_goes_back() -> None:
    known = CompletedCheckpoints()
    for number in range(1, 8):
        known.note(number)
    known.go_back(5, 9, all_of_it=True)
    assert known.newest == 5
    known.note(10)
    known.go_back(9, 12, all_of_it=False)
    assert known.newest == 10, "other regions are there"
    passed_over = [number for number in range(15) if known.is_passed_over(number)]
    assert passed_over == [6, 7, 8, 10, 11]
    known.go_back(3, 13, all_of_it=True)
    assert known.passed_over == [(3, 13)], "that is all of it"
    after = CompletedCheckpoints()
    after.restore(known.newest, [list(one) for one in known.passed_over])
    assert after == known
