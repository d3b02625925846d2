"""A process that takes checkpoints is killed before each of its changes to the file system.

Complete checkpoints stay, and incomplete ones do not appear.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from flinknet.checkpoint.fenced_store import FencedStore
from flinknet.checkpoint.file_storage import FileStorage
from flinknet.checkpoint.store import CheckpointStore
from flinknet.config import CheckpointingConfig
from tests.unit.checkpoint.checkpoints import files_below, made

ROOT = Path(__file__).parents[2]
CONFIG = CheckpointingConfig(retained=1)
CHECKPOINTS = 3
CHANGES = frozenset(("os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir"))


def test_a_kill_at_any_moment_leaves_complete_checkpoints(tmp_path: Path) -> None:
    """Invariant I8: the job restarts from the last complete checkpoint."""
    program = f"from tests.integration.test_checkpoint_kills import drive; drive({str(tmp_path)!r})"
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) > 10 * CHECKPOINTS


def drive(folder: str) -> None:
    """Kill one child before its first change, the next before its second, until one finishes.

    Check the store after each child, and print the number of changes. This process has no threads,
    so it may fork.
    """
    changes = 0
    while True:
        store = store_in(Path(folder, str(changes)))
        told, end = in_a_child(store, changes)
        asyncio.run(check(store, told))
        if end == 0:
            print(changes)
            return
        assert os.WTERMSIG(end) == signal.SIGKILL
        changes += 1


def store_in(folder: Path) -> CheckpointStore:
    return CheckpointStore(FileStorage(folder, CONFIG), "job-1", CONFIG)


def in_a_child(store: CheckpointStore, changes: int) -> tuple[int, int]:
    """Return the last checkpoint that a child reported as complete, and its wait status."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        # An error must not unwind into the test's own code in the child.
        with suppress(BaseException):
            kill_after(changes)
            asyncio.run(make(store, writing))
            status = 0
        # Skip the exit handlers, which the fork has copied from the parent.
        os._exit(status)
    os.close(writing)
    with open(reading, "rb") as pipe:  # noqa: PTH123 - no path
        told = pipe.read()
    return (told[-1] if told else 0), os.waitpid(child, 0)[1]


def kill_after(changes: int) -> None:
    left = changes

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal left
        begins = event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_CREAT
        if event in CHANGES or begins:
            if left == 0:
                # An audit hook runs before the change that it reports.
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1

    sys.addaudithook(hook)


async def make(store: CheckpointStore, telling: int) -> None:
    claimed = await FencedStore.claim(store, 1)
    for checkpoint_id in range(1, CHECKPOINTS + 1):
        await made(claimed, checkpoint_id)
        os.write(telling, bytes([checkpoint_id]))


async def check(store: CheckpointStore, told: int) -> None:
    completed = [one.directory for one in await store.completed()]
    for directory in completed:
        assert await store.verify(directory) == [], directory
    last = completed[-1].checkpoint_id if completed else 0
    # one more may be complete that the child could not report
    assert told <= last <= told + 1, (told, last)
    if last:
        assert (await store.latest_valid()).checkpoint.checkpoint_id == last

    after = await FencedStore.claim(store, 2)
    await after.remove_leftovers()
    done = await made(after, 9)
    assert [one.directory for one in await store.completed()] == [done.directory]
    left = files_below(Path(store.storage.location) / "job-1")
    assert {path.partition("/")[0] for path in left} == {"journal", str(done.directory)}
