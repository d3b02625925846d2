"""The unfinished subtasks, compared with the definition of a root on random graphs."""

from __future__ import annotations

from random import Random

import pytest

from flinknet.checkpoint.pending_checkpoint import SubtaskId
from flinknet.checkpoint.unfinished_subtasks import UnfinishedSubtasks

INPUTS = {0: (), 1: (0,), 2: (0, 1), 3: ()}
SUBTASKS = [(vertex, index) for vertex in INPUTS for index in range(3)]


def roots_of(finished: set[SubtaskId], awaiting: dict[SubtaskId, int]) -> list[SubtaskId]:
    """Return the roots by their definition, computed over all subtasks."""
    emitting = {one[0] for one in SUBTASKS if one not in finished and one not in awaiting}
    return [
        one
        for one in SUBTASKS
        if one not in finished and (one in awaiting or not emitting & set(INPUTS[one[0]]))
    ]


@pytest.mark.parametrize("seed", range(20))
def test_the_counts_say_what_a_look_at_every_subtask_says(seed: int) -> None:
    """This holds after restarts of subtasks, too. Each change returns the new roots."""
    random = Random(seed)
    finished: set[SubtaskId] = set(random.sample(SUBTASKS, seed % 5))
    awaiting: dict[SubtaskId, int] = {}
    books = UnfinishedSubtasks(INPUTS)
    books.begin(SUBTASKS, finished)
    for _ in range(40):
        known = set(roots_of(finished, awaiting))
        subtask = random.choice(SUBTASKS)
        event = random.choice(["finish", "finish", "await", "await", "restart"])
        new: list[SubtaskId] | None = None
        if event == "finish":
            finished.add(subtask)
            awaiting.pop(subtask, None)
            new = books.finish(subtask)
        elif event == "await":
            if subtask not in finished:
                awaiting[subtask] = random.randrange(3)
            new = books.await_final(subtask, awaiting.get(subtask, 0))
        else:
            again = set(random.sample(SUBTASKS, 4))
            restored = set(random.sample(SUBTASKS, 4))
            finished = (finished - again) | (again & restored)
            awaiting = {one: taken for one, taken in awaiting.items() if one not in again}
            books.restart(again, restored)
        books.check_invariants()
        roots = roots_of(finished, awaiting)
        assert list(books.roots()) == roots
        assert new is None or set(roots) - known <= set(new) <= set(roots)
        assert list(books) == [one for one in SUBTASKS if one not in finished]
        assert books.finished == finished
        assert books.is_empty == (len(finished) == len(SUBTASKS))
        all_await = bool(awaiting) and len(awaiting) + len(finished) == len(SUBTASKS)
        assert books.newest_awaited == (max(awaiting.values()) if all_await else None)


def test_a_subtask_may_finish_before_the_attempt_runs() -> None:
    books = UnfinishedSubtasks(INPUTS)
    assert books.finish((0, 0)) == []
    books.check_invariants()
