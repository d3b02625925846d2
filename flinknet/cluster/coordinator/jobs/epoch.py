"""The epoch of a coordinator, which fences earlier coordinators of the same state directory.

Theory of operation
-------------------
::

    epochs/NUMBER       created if absent, by the coordinator that takes this number; its content
                        names the state directory, the same in all of them

A coordinator takes the number after the highest. It owns the directory for as long as its own file
exists and the next one does not. A successor creates the next file, and then removes all earlier
ones. The order of two coordinators thus does not depend on a lock. A shared file system may lose a
lock, and an operator may remove a lock with its file while the first coordinator is stopped.

``check`` runs before each write to the directory, before a checkpoint is completed or removed, and
before the coordinator acts on a deadline. Workers are told the epoch, and report the highest one
that they know. A worker that has served the successor thus informs the old coordinator
(``Coordinator.join``).
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
    """The epoch that one coordinator has taken. All methods may run in any thread."""

    def __init__(self, directory: Path, number: int, state_id: str) -> None:
        self.number = number
        self.state_id = state_id
        """Id of the state directory. Epochs of two directories cannot be compared."""
        self.on_superseded: Callable[[CoordinatorSupersededError], None] = lambda error: None
        """Called each time that ``check`` or ``hear`` raises this error."""
        self._directory = directory

    @classmethod
    def take(cls, state_directory: Path, *, durable: bool = True) -> Epoch:
        """Take the next epoch; raise OSError if it cannot be written."""
        directory = state_directory / "epochs"
        directory.mkdir(mode=0o700, exist_ok=True)
        while True:
            highest, state_id = _highest(directory)
            number = highest + 1
            if not _create(directory / str(number), state_id, durable=durable):
                continue
            if max(_numbers(directory), default=number) <= number:
                break
            # This process was held up: successors have taken this number and later ones, and have
            # removed this number's file before it was created again. The file of the last successor
            # exists, so the next round takes a higher number.
            (directory / str(number)).unlink(missing_ok=True)
        for before in _numbers(directory):
            if before < number:
                (directory / str(before)).unlink(missing_ok=True)
        return cls(directory, number, state_id)

    def check(self) -> None:
        """Raise CoordinatorSupersededError if another coordinator has taken the directory over.

        Raises OSError if that cannot be determined.
        """
        own, following = (self._directory / str(self.number + step) for step in (0, 1))
        if _is_there(own) and not _is_there(following):
            return
        newest = max(_numbers(self._directory), default=None)
        other = (
            "is gone" if newest is None else f"was taken over by the coordinator of epoch {newest}"
        )
        raise self._superseded(f"{self._directory.parent} (cluster.state_directory) {other}")

    def hear(self, state_id: str, number: int) -> None:
        """Take the epoch that a worker has reported.

        Raises CoordinatorSupersededError if it is the epoch of a successor.
        """
        if state_id == self.state_id and number > self.number:
            raise self._superseded(f"a worker has served the coordinator of epoch {number}")

    def _superseded(self, why: str) -> CoordinatorSupersededError:
        error = CoordinatorSupersededError(
            f"this coordinator, of epoch {self.number}, is superseded: {why}; it ends, and changes "
            "nothing more"
        )
        self.on_superseded(error)
        return error


def _highest(directory: Path) -> tuple[int, str]:
    """Return the highest number that is taken, 0 for none, and the id of the state directory."""
    while taken := _numbers(directory):
        # A successor may remove the file just now.
        with suppress(FileNotFoundError):
            return max(taken), (directory / str(max(taken))).read_text()
    return 0, machine.unique_id()


def _numbers(directory: Path) -> list[int]:
    with suppress(FileNotFoundError):
        return [int(entry.name) for entry in directory.iterdir() if entry.name.isdecimal()]
    return []


def _is_there(path: Path) -> bool:
    """Return whether a path exists; unlike ``Path.exists``, raise if the file system fails."""
    try:
        path.stat()
    except FileNotFoundError:
        return False
    return True


def _create(path: Path, content: str, *, durable: bool) -> bool:
    """Create a file with its content atomically; return False if it exists already."""
    unfinished = path.with_name(f".{machine.unique_id()}")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(content)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        # Of two processes only one succeeds, on NFS as well.
        os.link(unfinished, path)
    except FileExistsError:
        return False
    finally:
        unfinished.unlink()
    return True
