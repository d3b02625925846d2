"""Pauses between tries: they grow up to a bound, and no two processes pause alike."""

from __future__ import annotations

from flinknet.net.backoff import CONTROL_PAUSE_S, Backoff

PROCESSES = 5_000
"""With so many processes, a third is ten standard deviations above the expected quarter."""


def test_pauses_double_up_to_the_longest_and_are_cut_by_at_most_half() -> None:
    full = [1.0, 2.0, 4.0, 5.0, 5.0, 5.0]
    for _ in range(PROCESSES):
        backoff = Backoff(1.0, 5.0)
        for longest in full:
            assert longest / 2 <= backoff.next_pause() <= longest


def test_many_processes_do_not_come_back_in_step() -> None:
    """After five tries at most a third of the processes share a tenth of the longest pause."""
    moments = []
    for _ in range(PROCESSES):
        backoff = Backoff(*CONTROL_PAUSE_S)
        moments.append(sum(backoff.next_pause() for _ in range(5)))
    assert len(set(moments)) == PROCESSES
    slots = [int(moment / (CONTROL_PAUSE_S[1] / 10)) for moment in moments]
    assert max(map(slots.count, set(slots))) < PROCESSES / 3
