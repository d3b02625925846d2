"""Work in forks of a warm process, each of which is ended when it says nothing for too long."""

from __future__ import annotations

import json
import os
import resource
import selectors
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

__all__ = ["Ended", "Tell", "run_in_forks"]

Tell = Callable[..., None]
"""Sends a message, which consists of keywords. ``limit_s`` is the time until the next message."""
Key = TypeVar("Key")

FIRST_LIMIT_S = 120.0
"""Time until the first message."""
MEMORY_MAX = 4 << 30
"""Bytes of data of a fork, so that an endless loop that collects something ends as an error."""
TOOL_FAILED = 70
"""Exit status of a fork whose work itself raised, rather than a test."""


@dataclass
class Ended:
    """What a fork said, and how it ended."""

    said: dict[str, Any] = field(default_factory=dict)
    """All messages in one; a later message replaces what an earlier one said."""
    timed_out: bool = False
    status: int = 0
    seconds: float = 0.0


@dataclass
class _Fork(Generic[Key]):
    key: Key
    pid: int
    pipe: int
    began: float
    deadline: float
    log: Path
    ended: Ended = field(default_factory=Ended)
    unread: bytes = b""

    def read(self) -> bool:
        """Read what there is; return whether the fork has no more to say."""
        data = os.read(self.pipe, 1 << 16)
        *lines, self.unread = (self.unread + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            self.deadline = time.monotonic() + message.pop("limit_s", FIRST_LIMIT_S)
            self.ended.said.update(message)
        return not data or "end" in self.ended.said

    def end(self) -> None:
        """End the fork and all that it started."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        os.close(self.pipe)
        self.ended.seconds = time.monotonic() - self.began
        if "end" not in self.ended.said:
            self.ended.status = os.waitstatus_to_exitcode(status)
        if self.ended.status == TOOL_FAILED:
            raise RuntimeError(f"{self.key}: {self.log.read_text(errors='replace')[-3000:]}")


def run_in_forks(
    works: Iterable[tuple[Key, Callable[[Tell], None]]], processes: int, logs: Path
) -> Iterator[tuple[Key, Ended]]:
    """Run each work in a fork of this process, at most ``processes`` at a time.

    What a fork prints is in a file of ``logs``, which the next fork in its place overwrites.
    """
    logs.mkdir(parents=True, exist_ok=True)
    waiting = iter(works)
    places = list(range(processes))
    running: dict[int, tuple[int, _Fork[Key]]] = {}
    selector = selectors.DefaultSelector()
    try:
        while True:
            while places and (work := next(waiting, None)) is not None:
                place = places.pop()
                fork = _started(*work, logs / f"{place}.log")
                selector.register(fork.pipe, selectors.EVENT_READ)
                running[fork.pipe] = (place, fork)
            if not running:
                return
            soonest = min(fork.deadline for _, fork in running.values())
            ready = selector.select(max(0.0, soonest - time.monotonic()))
            done = [pipe for key, _ in ready if running[pipe := key.fd][1].read()]
            for pipe, (place, fork) in list(running.items()):
                late = pipe not in done and fork.deadline <= time.monotonic()
                if late or pipe in done:
                    fork.ended.timed_out = late
                    selector.unregister(pipe)
                    del running[pipe]
                    places.append(place)
                    fork.end()
                    yield fork.key, fork.ended
    finally:
        for _, fork in running.values():
            with suppress(RuntimeError):
                fork.end()
        selector.close()


def _started(key: Key, work: Callable[[Tell], None], log: Path) -> _Fork[Key]:
    read, write = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        os.close(write)
        # The fork does the same; the first of the two to do it counts.
        with suppress(OSError):
            os.setpgid(pid, pid)
        now = time.monotonic()
        return _Fork(key, pid, read, now, now + FIRST_LIMIT_S, log)
    status = TOOL_FAILED
    try:
        os.close(read)
        os.setpgid(0, 0)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDONLY)
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(nothing, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(nothing)
        os.close(output)
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_MAX, MEMORY_MAX))

        def tell(**message: object) -> None:
            unsent = json.dumps(message).encode() + b"\n"
            while unsent:
                unsent = unsent[os.write(write, unsent) :]

        work(tell)
        tell(end=True)
        status = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(status)
