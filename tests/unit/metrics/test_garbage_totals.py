"""Counts of garbage collections, and their difference over a period."""

from __future__ import annotations

from flinknet.metrics.garbage_totals import (
    SUBTASKS_KEPT_MAX,
    SUBTASKS_TOLD_MAX,
    GarbageTimes,
    GenerationTotals,
    SubtaskGarbage,
)


def test_collections_are_counted_by_generation_and_by_who_began_them() -> None:
    times = GarbageTimes()
    times.note(0, 0.25, 5)
    times.note(2, 1.0, 100, "Map (1/2)")
    times.note(0, 0.5, 7, "Map (1/2)")
    told = times.told(0.125)
    assert told.generations == (GenerationTotals(0, 2, 0.75, 12), GenerationTotals(2, 1, 1.0, 100))
    assert told.subtasks == (SubtaskGarbage("Map (1/2)", 1.5), SubtaskGarbage("", 0.25))
    assert (told.seconds, told.collections, times.seconds) == (1.75, 3, 1.75)
    assert told.seconds_per_second == 0.125


def test_what_was_there_before_is_not_in_a_stretch_of_time() -> None:
    times = GarbageTimes()
    times.note(0, 0.25, 5, "Map (1/2)")
    before = times.told()
    times.note(0, 0.5, 1)
    times.note(1, 1.0, 0)
    grown = times.told().since(before)
    assert grown.generations == (GenerationTotals(0, 1, 0.5, 1), GenerationTotals(1, 1, 1.0, 0))
    assert grown.subtasks == (SubtaskGarbage("", 1.5),)


def test_of_many_subtasks_those_with_least_are_not_told_and_in_the_end_forgotten() -> None:
    times = GarbageTimes()
    for number in range(2 * SUBTASKS_KEPT_MAX):
        times.note(0, 1.0 + number, 0, f"{number}")
    told = times.told()
    assert len(told.subtasks) == SUBTASKS_TOLD_MAX
    assert told.subtasks[0].subtask == f"{2 * SUBTASKS_KEPT_MAX - 1}"
    assert len(times._subtasks) == SUBTASKS_KEPT_MAX


def test_collectors_have_flinks_names() -> None:
    times = GarbageTimes()
    times.note(0, 0.25, 5)
    times.note(2, 1.0, 100)
    named = times.told().collectors().items()
    assert {name: (one.collections, one.seconds) for name, one in named} == {
        "All": (2, 1.25),
        "generation0": (1, 0.25),
        "generation2": (1, 1.0),
    }
