"""Each test runs in a process of its own, as the collector belongs to the whole process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]
PRELUDE = """
import asyncio, gc, weakref
from flinknet.cluster.worker.garbage_collection import YOUNG, GarbageCollection

class Node:
    pass

def circle():
    one = Node()
    one.itself = one
    return weakref.ref(one)

def is_looked_at(thing):
    return any(found is thing for found in gc.get_objects())

def clock():
    return now

now = 0.0
gc.collect()
gc.freeze()
gc.disable()
collection = GarbageCollection(clock)

def look(seconds):
    def pass_time(phase, info):
        global now
        now += seconds if phase == "start" else 0.0
    gc.callbacks.append(pass_time)
    gc.collect(YOUNG)
    gc.callbacks.remove(pass_time)
"""


def run(program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_short_collections_freeze_nothing_and_find_every_cycle() -> None:
    run("""
with collection.kept_short():
    kept = [1]
    for _ in range(1000):
        lost = circle()
        look(0.0002)
        assert lost() is None
    assert collection.freezes == 0
    assert is_looked_at(kept)
""")


def test_objects_that_were_looked_at_for_long_are_frozen() -> None:
    """Freezing is done at once, or in small steps. Reference counts still free such objects."""
    run("""
with collection.kept_short():
    for seconds, looks in ((0.0023, 1), (0.0009, 3)):
        node = Node()
        gone = weakref.ref(node)
        for number in range(looks):
            assert is_looked_at(node)
            look(seconds)
        assert not is_looked_at(node)
        del node
        assert gone() is None
assert collection.freezes == 2
assert not gc.callbacks
""")


def test_a_full_collection_finds_a_frozen_cycle() -> None:
    run("""
with collection.kept_short():
    node = Node()
    node.itself = node
    lost = weakref.ref(node)
    look(0.01)
    del node
    gc.collect()
    assert lost() is not None
    kept = [1]
    collection.collect_all()
    assert lost() is None
    assert collection.freezes == 0
    assert not is_looked_at(kept), "what was loaded is spared again"
    more = [1]
    lost = circle()
    collection.collect_all()
    assert lost() is None
    assert is_looked_at(more), "nothing was frozen, so nothing is"
""")


def test_young_objects_are_collected_by_the_clock_on_demand() -> None:
    """A program that only replaces its objects makes as many as it frees, and Python never
    collects."""
    run("""
asked = 0
looks_before = []

def is_needed():
    global asked
    asked += 1
    return asked > 2

async def main():
    gc.callbacks.append(lambda phase, info: looks_before.append(asked))
    lost = circle()
    looks = asyncio.create_task(collection.look_after(is_needed))
    while lost() is not None:
        await asyncio.sleep(0)
    assert min(looks_before) == 3
    looks.cancel()
    await asyncio.gather(looks, return_exceptions=True)

asyncio.run(main())
""")


def test_python_itself_collects_cycles_among_many_objects() -> None:
    run("""
from flinknet.cluster.worker.garbage_collection import YOUNG_MAX
looks = []
gc.callbacks.append(lambda phase, info: looks.append(phase))
before = gc.get_threshold()
gc.enable()
with collection.kept_short():
    lost = circle()
    records = [(number, number) for number in range(YOUNG_MAX - 100)]
    assert looks == [] and lost() is not None
    more = [(number, number) for number in range(1000)]
    assert looks == ["start", "stop"] and lost() is None
assert gc.get_threshold() == before
""")
