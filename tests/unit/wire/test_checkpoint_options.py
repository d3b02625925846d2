"""Checkpoint options: the allowed ones, and their encoding."""

from __future__ import annotations

import itertools

import pytest

from flinknet.buffer.buffer import DataType
from flinknet.errors import LocalProtocolError
from flinknet.wire.checkpoint_options import (
    ALIGNED_TIMEOUT_MS_MAX,
    Alignment,
    CheckpointKind,
    CheckpointOptions,
)

A, K = Alignment, CheckpointKind


@pytest.mark.parametrize(
    ("alignment", "timeout_ms", "data_type", "is_timeoutable"),
    [
        (A.ALIGNED, None, DataType.ALIGNED_CHECKPOINT_BARRIER, False),
        (A.ALIGNED, 1, DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER, True),
        (A.UNALIGNED, None, DataType.PRIORITIZED_EVENT_BUFFER, False),
        (A.FORCED_ALIGNED, None, DataType.ALIGNED_CHECKPOINT_BARRIER, False),
        (A.FORCED_ALIGNED, 1, DataType.ALIGNED_CHECKPOINT_BARRIER, False),
        (A.AT_LEAST_ONCE, None, DataType.EVENT_BUFFER, False),
    ],
)
def test_the_alignment_says_how_a_barrier_travels(
    alignment: Alignment, timeout_ms: int | None, data_type: DataType, is_timeoutable: bool
) -> None:
    options = CheckpointOptions(K.CHECKPOINT, alignment, timeout_ms)
    assert options.data_type is data_type
    assert options.is_timeoutable is is_timeoutable


def test_a_job_stops_with_two_kinds_of_savepoints() -> None:
    assert {kind for kind in K if kind.stops} == {K.SAVEPOINT_SUSPEND, K.SAVEPOINT_TERMINATE}


def test_only_savepoints_are_savepoints() -> None:
    assert [kind for kind in K if not kind.is_savepoint] == [K.CHECKPOINT]


@pytest.mark.parametrize("kind", [kind for kind in K if kind.is_savepoint])
def test_a_savepoint_neither_overtakes_nor_times_out(kind: CheckpointKind) -> None:
    """A savepoint never sends priority barriers."""
    for alignment, timeout_ms in ((A.UNALIGNED, None), (A.ALIGNED, 1), (A.FORCED_ALIGNED, 1)):
        with pytest.raises(LocalProtocolError, match=kind.name):
            CheckpointOptions(kind, alignment, timeout_ms)
    for alignment in (A.ALIGNED, A.FORCED_ALIGNED, A.AT_LEAST_ONCE):
        assert CheckpointOptions(kind, alignment).alignment is alignment


@pytest.mark.parametrize("alignment", [A.UNALIGNED, A.AT_LEAST_ONCE])
def test_only_what_is_aligned_times_out(alignment: Alignment) -> None:
    with pytest.raises(LocalProtocolError, match=f"{alignment.name} has an alignment time-out"):
        CheckpointOptions(K.CHECKPOINT, alignment, 1)


@pytest.mark.parametrize("timeout_ms", [-1, 0, ALIGNED_TIMEOUT_MS_MAX + 1])
def test_a_time_out_has_a_range(timeout_ms: int) -> None:
    with pytest.raises(LocalProtocolError, match=f"is {timeout_ms} ms: choose 1 to"):
        CheckpointOptions(aligned_timeout_ms=timeout_ms)
    CheckpointOptions(aligned_timeout_ms=ALIGNED_TIMEOUT_MS_MAX)


def test_only_timeoutable_options_become_unaligned() -> None:
    for alignment, timeout_ms in itertools.product(A, (None, 5)):
        try:
            options = CheckpointOptions(K.CHECKPOINT, alignment, timeout_ms)
        except LocalProtocolError:
            continue
        if options.is_timeoutable:
            assert options.to_unaligned() == CheckpointOptions(K.CHECKPOINT, A.UNALIGNED)
        else:
            with pytest.raises(LocalProtocolError, match="does not time out"):
                options.to_unaligned()
