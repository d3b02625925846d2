"""Garbage collections of this process, counted while it is watched."""

from __future__ import annotations

import contextvars
import gc
import threading
from itertools import count

from flinknet.cluster.worker.collection_watch import CollectionWatch
from flinknet.graph.deployment import SubtaskDescriptor
from flinknet.metrics.garbage_totals import GarbageTotals
from flinknet.runtime.running_subtask import RUNNING_SUBTASK


def circle() -> None:
    one: list[object] = []
    one.append(one)


def seconds_of(told: GarbageTotals, subtask: str) -> float:
    return sum(one.seconds for one in told.subtasks if one.subtask == subtask)


def test_a_collection_counts_for_the_subtask_that_began_it_in_any_thread() -> None:
    ticks = count()
    watch = CollectionWatch(lambda: float(next(ticks)))
    context = contextvars.copy_context()
    context.run(RUNNING_SUBTASK.set, SubtaskDescriptor("job", 0, 1, 2, 4, "Map (3/4)", (), ()))
    with watch.counting():
        circle()
        thread = threading.Thread(target=context.run, args=(gc.collect,))
        thread.start()
        thread.join()
        gc.collect(0)
    told = watch.times.told()
    assert seconds_of(told, "Map (3/4)") >= 1.0
    assert seconds_of(told, "") >= 1.0
    assert {0, 2} <= {one.generation for one in told.generations}
    assert sum(one.objects for one in told.generations) >= 1
    gc.collect()
    assert watch.times.told() == told, "nothing counts any more"


def test_a_collection_that_had_begun_before_is_not_counted() -> None:
    watch = CollectionWatch(lambda: 1.0)
    watch._on_collection("stop", {"generation": 0, "collected": 0, "uncollectable": 0})
    assert watch.times.told().collections == 0
