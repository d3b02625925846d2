"""The number of a coordinator among all that have had its state directory, which fences old ones.

Theory of operation
-------------------
::

    epochs/NUMBER       created if absent, by the coordinator that takes this number; its content
                        names the state directory, the same in all of them

A coordinator takes the number after the highest. It holds the directory for as long as its own file
is there and the next one is not: a successor creates that, and then removes all before its own. So
the order of two coordinators does not depend on a lock, which a shared file system may lose, or an
operator may remove with its file, while the first of them is stopped.

``check`` is called before each file of the directory is written, before a checkpoint is completed
or removed, and before anything is done because time has passed. Workers are told the number, and
say the highest that they have heard: one that has served the successor tells the old coordinator of
it (``Coordinator.join``).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from flinknet import machine
from flinknet.errors import CoordinatorSupersededError

__all__ = ["Epoch"]


class Epoch:
    """The number that one coordinator has taken. Each of its methods may run in any thread."""

    def __init__(self, directory: Path, number: int, state_id: str) -> None:
        self.number = number
        self.state_id = state_id
        """Of the state directory: numbers of two directories do not compare."""
        self.on_superseded: Callable[[CoordinatorSupersededError], None] = lambda error: None
        """Called each time that ``check`` raises that."""
        self._directory = directory

    @classmethod
    def take(cls, state_directory: Path, *, durable: bool = True) -> Epoch:
        """Take the next number; OSError if it cannot be written down."""
        directory = state_directory / "epochs"
        directory.mkdir(mode=0o700, exist_ok=True)
        while True:
            highest, state_id = _highest(directory)
            number = highest + 1
            if not _create(directory / str(number), state_id, durable=durable):
                continue
            if max(_numbers(directory), default=number) <= number:
                break
            # It was held up meanwhile: others have taken this number and later ones, and have
            # removed it. One that is later is there at any moment from then on.
            (directory / str(number)).unlink(missing_ok=True)
        for before in _numbers(directory):
            if before < number:
                (directory / str(before)).unlink(missing_ok=True)
        return cls(directory, number, state_id)

    def check(self) -> None:
        """CoordinatorSupersededError if another coordinator has taken the directory over, OSError
        if that cannot be said."""
        own, following = (self._directory / str(self.number + step) for step in (0, 1))
        if _is_there(own) and not _is_there(following):
            return
        newest = max(_numbers(self._directory), default=None)
        other = "is gone" if newest is None else f"has been taken by one of epoch {newest}"
        raise self._superseded(f"{self._directory.parent} (cluster.state_directory) {other}")

    def hear(self, state_id: str, number: int) -> None:
        """A worker has served a coordinator of that number; CoordinatorSupersededError if this is
        a successor."""
        if state_id == self.state_id and number > self.number:
            raise self._superseded(f"a worker has served one of epoch {number}")

    def _superseded(self, why: str) -> CoordinatorSupersededError:
        error = CoordinatorSupersededError(
            f"this coordinator, of epoch {self.number}, is superseded: {why}; it ends, and changes "
            "nothing more"
        )
        self.on_superseded(error)
        return error


def _highest(directory: Path) -> tuple[int, str]:
    """Return the highest number that is taken, 0 for none, and the name of the state directory."""
    while taken := _numbers(directory):
        with suppress(FileNotFoundError):  # a successor takes its number just now
            return max(taken), (directory / str(max(taken))).read_text()
    return 0, machine.unique_id()


def _numbers(directory: Path) -> list[int]:
    with suppress(FileNotFoundError):
        return [int(entry.name) for entry in directory.iterdir() if entry.name.isdecimal()]
    return []


def _is_there(path: Path) -> bool:
    """``Path.exists``, which says no to a file system that does not answer."""
    try:
        path.stat()
    except FileNotFoundError:
        return False
    return True


def _create(path: Path, content: str, *, durable: bool) -> bool:
    """Return whether the file is this process's: with its content, or not at all."""
    unfinished = path.with_name(f".{machine.unique_id()}")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(content)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        os.link(unfinished, path)  # Of two processes one succeeds, on NFS, too.
    except FileExistsError:
        return False
    finally:
        unfinished.unlink()
    return True
