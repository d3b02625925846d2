"""A subtask's calls about checkpoints."""

from __future__ import annotations

from flinknet.checkpoint.barrier_listener import AbortReason


def test_every_reason_says_something_of_its_own() -> None:
    assert len({reason.value for reason in AbortReason}) == len(AbortReason)
