"""Alignment metrics, in milliseconds and bytes."""

from __future__ import annotations

from flinknet.checkpoint.alignment_metrics import AlignmentAccount, AlignmentMetrics


def test_delay_and_duration() -> None:
    """Row 68: the delay runs from the creation to the first sign, the duration from the first
    barrier to the last."""
    account = AlignmentAccount(100, 107)
    account.barrier(110, 20)
    account.barrier(114, 22)
    account.persisted_bytes += 3
    assert account.ended(116, 25) == AlignmentMetrics(
        start_delay_ms=7, alignment_ms=6, processed_bytes=5, persisted_bytes=3
    )


def test_a_checkpoint_without_a_barrier_takes_no_time() -> None:
    assert AlignmentAccount(100, 107).ended(200, 9) == AlignmentMetrics(start_delay_ms=7)


def test_clocks_of_two_machines_never_make_a_time_negative() -> None:
    account = AlignmentAccount(100, 90)
    account.barrier(90, 7)
    assert account.ended(80, 7) == AlignmentMetrics()
