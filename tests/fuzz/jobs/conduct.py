"""Rude treatment of arguments and results by the functions of random jobs.

Unless objects are reused, the API promises that a record does not change after a function has
emitted it, and that a function owns its arguments. A ``Conduct`` stands between the meaning of a
function and its treatment of objects. It changes arguments, emits one object again and again with
other contents, keeps arguments and results, and spoils them in its next call. None of this may be
visible in any output.

It also makes trouble once in a job, at a certain call: it raises, kills its worker or sleeps.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.fuzz.jobs.program import Trouble
from tests.fuzz.jobs.values import CHANGEABLE_SHAPES, parts, refill, shape_of, spoil

__all__ = ["ARGUMENT_MANNERS", "MANNERS", "Conduct", "InjectedError"]

ARGUMENT_MANNERS = ("changes arguments", "changes arguments later")
"""Manners that treat arguments only."""

MANNERS = (
    *ARGUMENT_MANNERS,
    "changes results later",
    "reuses one object",
    "gives its argument away",
)
"""Kinds of rude treatment; all of them keep objects where they can, and spoil them later."""

SLEEP_S = 0.002
"""How long a function blocks its worker: long enough to affect other subtasks, and cheap."""


class InjectedError(Exception):
    """The error that a function raises once."""


class Conduct:
    """The manner and the trouble of one function in one subtask."""

    def __init__(self, manner: str, trouble: Trouble | None, flag: str) -> None:
        """Create a conduct; the file ``flag`` exists once the trouble was made."""
        self._manner = manner
        self._trouble = trouble
        self._flag = flag
        self._calls = 0
        self._kept: list[Any] = []
        self._reused: list[Any] = []

    def begin(self) -> None:
        """Begin a call: make the trouble if it is due, and spoil the objects of the last call."""
        self._calls += 1
        if self._trouble is not None and self._calls == self._trouble.call:
            self._make_trouble(self._trouble)
        kept, self._kept = self._kept, []
        for value in kept:
            spoil(value)

    def end(self) -> None:
        """Spoil all kept objects after the last record."""
        for value in [*self._kept, *self._reused]:
            spoil(value)
        self._kept.clear()
        self._reused.clear()

    def one(self, argument: Any, result: Any) -> Any:
        """Return the treated result of a call with one result."""
        (given,) = self.many(argument, (result,))
        return given

    def many(self, argument: Any, results: Iterable[Any]) -> list[Any]:
        """Return the treated results of a call."""
        given = [self._given(index, argument, result) for index, result in enumerate(results)]
        self._after(argument, given)
        return given

    def each(self, argument: Any, results: Iterable[Any]) -> Iterator[Any]:
        """Yield the treated results of a call, in one object where possible."""
        last: list[Any] = []
        for result in results:
            last = [self._given(0, argument, result)]
            yield last[0]
            if self._manner == "changes results later":
                spoil(last[0])
        self._after(argument, last)

    def kept_argument(self, argument: Any) -> Any:
        """Return an argument that a filter passes on, and keep it if the manner is rude."""
        if self._manner != "polite":
            self._kept.append(argument)
        return argument

    def _given(self, index: int, argument: Any, result: Any) -> Any:
        if shape_of(result) not in CHANGEABLE_SHAPES:
            return result
        if self._manner == "gives its argument away":
            if index == 0 and type(argument) is type(result):
                refill(argument, *parts(result))
                return argument
        elif self._manner == "reuses one object":
            while len(self._reused) <= index:
                self._reused.append(None)
            if type(self._reused[index]) is not type(result):
                self._reused[index] = result
            else:
                refill(self._reused[index], *parts(result))
            return self._reused[index]
        return result

    def _after(self, argument: Any, given: list[Any]) -> None:
        if self._manner == "changes arguments":
            spoil(argument)
        elif self._manner == "changes arguments later":
            self._kept.append(argument)
        elif self._manner in ("changes results later", "gives its argument away"):
            self._kept.extend(given)

    def _make_trouble(self, trouble: Trouble) -> None:
        if trouble.kind == "sleep":
            time.sleep(SLEEP_S)
            return
        try:
            os.close(os.open(self._flag, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        if trouble.kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise InjectedError(f"injected at call {trouble.call}: {Path(self._flag).name}")
