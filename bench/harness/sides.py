"""The processes of a run in their parent, which starts, asks and reliably ends them."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import connection
from time import monotonic
from typing import Any

from bench.errors import BenchError
from bench.harness.process import Part, SideFailure, run_part

__all__ = ["Side", "answers", "open_sides"]

ANSWER_S_MAX = 30.0
"""Seconds that a side may take beyond the length of a round to start, drain or close."""

EXIT_S_MAX = 5.0
"""Seconds that a process may take to end before it is killed."""

SECOND_FAILURE_S = 1.0
"""Seconds to wait for the other side's message after one side has failed."""

_SPAWN = multiprocessing.get_context("spawn")


class Side:
    """A process that plays a part, and the pipe to it."""

    def __init__(self, part: Part) -> None:
        self.name = part.name
        self.pipe, theirs = _SPAWN.Pipe()
        self.process = _SPAWN.Process(target=run_part, args=(part, theirs), daemon=True)
        self.process.start()
        theirs.close()

    def tell(self, message: Any) -> None:
        """Send the next message to the play; ignore an ended process, which ``answer`` reports."""
        with suppress(BrokenPipeError):
            self.pipe.send(message)

    def answer(self) -> Any:
        """Return the next message of the process; a SideFailure if it has ended instead."""
        try:
            return self.pipe.recv()
        except EOFError:
            self.process.join(EXIT_S_MAX)
            return SideFailure(f"the process ended with exit code {self.process.exitcode}\n")

    def end(self, wait_s: float) -> None:
        """Close the pipe, and kill the process if it does not end by itself."""
        self.pipe.close()
        self.process.join(wait_s)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.process.close()


@contextmanager
def open_sides(*parts: Part) -> Iterator[list[Side]]:
    """Start a process for each part, and end them all when the block ends."""
    sides: list[Side] = []
    wait_s = 0.0
    try:
        sides += [Side(part) for part in parts]
        yield sides
        wait_s = EXIT_S_MAX
    finally:
        for side in sides:
            side.end(wait_s)


def answers(sides: Sequence[Side], within_s: float = 0.0) -> list[Any]:
    """Return the next answer of each side, given ``ANSWER_S_MAX`` more than ``within_s``.

    Raises BenchError with all failures.
    """
    deadline = monotonic() + within_s + ANSWER_S_MAX
    waiting = {side.pipe: side for side in sides}
    heard: dict[Side, Any] = {}
    failures: list[str] = []
    while waiting:
        ready = connection.wait(list(waiting), max(deadline - monotonic(), 0.0))
        if not ready:
            break
        for pipe in ready:
            assert isinstance(pipe, connection.Connection)
            side = waiting.pop(pipe)
            answer = heard[side] = side.answer()
            if isinstance(answer, SideFailure):
                failures.append(f"{side.name} failed:\n{answer.traceback}")
                # the first failure received need not be the cause
                deadline = monotonic() + SECOND_FAILURE_S
    if failures:
        raise BenchError("\n".join(failures))
    if waiting:
        names = " and ".join(side.name for side in waiting.values())
        raise BenchError(f"{names} did not answer within {within_s + ANSWER_S_MAX:.0f} s")
    return [heard[side] for side in sides]
