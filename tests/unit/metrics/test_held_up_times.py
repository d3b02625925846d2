"""The tasks that held an event loop up: looks at the loop, and the times computed from them."""

from __future__ import annotations

from flinknet.metrics.held_up_times import TASKS_TOLD_MAX, HeldUpTimes
from flinknet.metrics.worker_statistics import HeldUp


def test_a_loop_that_turns_is_held_up_by_nobody() -> None:
    times = HeldUpTimes(1.0, 0.0)
    times.look(1.0, has_turned=True)
    times.look(2.0, has_turned=False, task="A", stack="f")
    times.look(3.0, has_turned=True)
    times.look(4.0, has_turned=False, task="A", stack="f")
    assert times.told() == ()


def test_who_runs_at_two_looks_without_a_turn_holds_it_up() -> None:
    times = HeldUpTimes(1.0, 0.0)
    for at in range(1, 4):
        times.look(float(at), has_turned=False, task="A", stack=f"line {at}")
    assert times.told() == (HeldUp("A", 2.0, "line 3"),)


def test_tasks_that_take_turns_keep_it_busy_and_do_not_hold_it_up() -> None:
    times = HeldUpTimes(1.0, 0.0)
    for at in range(1, 10):
        times.look(float(at), has_turned=False, task="AB"[at % 2])
    assert times.told() == ()


def test_callbacks_are_no_task() -> None:
    times = HeldUpTimes(1.0, 0.0)
    times.look(1.0, has_turned=False)
    times.look(2.0, has_turned=False)
    assert times.told() == ()


def test_a_look_that_is_late_means_that_all_stood_still() -> None:
    times = HeldUpTimes(1.0, 0.0)
    times.look(1.0, has_turned=False, task="A")
    times.look(6.0, has_turned=False, task="A")
    times.look(7.0, has_turned=False, task="A")
    assert times.told() == (HeldUp("", 4.0, ""),)


def test_collections_of_garbage_are_no_time_in_which_all_stood_still_for_no_reason() -> None:
    collected = [0.0]
    times = HeldUpTimes(1.0, 0.0, lambda: collected[0])
    times.look(1.0, has_turned=False, task="A")
    collected[0] = 4.5
    times.look(6.0, has_turned=False, task="A", stack="f")
    assert times.told() == (HeldUp("A", 0.5, "f"),)
    collected[0] = 5.0
    times.look(16.0, has_turned=False, task="A")
    assert times.told()[0] == HeldUp("", 8.5, "")


def test_of_many_tasks_those_with_least_are_forgotten() -> None:
    times = HeldUpTimes(1.0, 0.0)
    now = 0.0
    for number in range(3 * TASKS_TOLD_MAX):
        for _ in range(2 + (number == 0)):
            now += 1.0
            times.look(now, has_turned=False, task=f"{number}")
    told = times.told()
    assert len(told) == TASKS_TOLD_MAX
    assert told[0] == HeldUp("0", 2.0, "")
    assert f"{3 * TASKS_TOLD_MAX - 1}" in times._seconds, "the last one is not forgotten at once"
    assert len(times._seconds) == 2 * TASKS_TOLD_MAX
