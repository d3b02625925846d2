"""How rude functions treat what they get and what they give away.

Theory of operation. A record is what it was when a function gave it away, and what a function gets
is its own: so says the API unless objects are reused. A ``Conduct`` stands between what a function
means and what it does to objects. It changes arguments, gives away one object again and again with
other contents, keeps what it got and what it gave away, and spoils that in its next call. None of
this may be seen in any output.

It also makes trouble: it raises, kills its worker or sleeps, once in a job, at a certain call.
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
"""What a function does to what it got alone."""

MANNERS = (
    *ARGUMENT_MANNERS,
    "changes results later",
    "reuses one object",
    "gives its argument away",
)
"""How a function is rude; all of them keep what they can, and spoil it later."""

SLEEP_S = 0.002
"""How long a function blocks its worker: it is seen by others, and costs a run little."""


class InjectedError(Exception):
    """What a function raises once."""


class Conduct:
    """The manner of one function in one subtask, and the trouble that it makes."""

    def __init__(self, manner: str, trouble: Trouble | None, flag: str) -> None:
        """``flag`` is the path of a file that is there once the trouble was made."""
        self._manner = manner
        self._trouble = trouble
        self._flag = flag
        self._calls = 0
        self._kept: list[Any] = []
        self._reused: list[Any] = []

    def begin(self) -> None:
        """Make trouble if it is time for that, and spoil what was kept in the last call."""
        self._calls += 1
        if self._trouble is not None and self._calls == self._trouble.call:
            self._make_trouble(self._trouble)
        kept, self._kept = self._kept, []
        for value in kept:
            spoil(value)

    def end(self) -> None:
        """The function is closed, or has had its last record."""
        for value in [*self._kept, *self._reused]:
            spoil(value)
        self._kept.clear()
        self._reused.clear()

    def one(self, argument: Any, result: Any) -> Any:
        """Return what stands for the only result of a call."""
        (given,) = self.many(argument, (result,))
        return given

    def many(self, argument: Any, results: Iterable[Any]) -> list[Any]:
        """Return what stands for the results of a call, all at once."""
        given = [self._given(index, argument, result) for index, result in enumerate(results)]
        self._after(argument, given)
        return given

    def each(self, argument: Any, results: Iterable[Any]) -> Iterator[Any]:
        """Generate what stands for the results of a call, in one object wherever that can be."""
        last: list[Any] = []
        for result in results:
            last = [self._given(0, argument, result)]
            yield last[0]
            if self._manner == "changes results later":
                spoil(last[0])
        self._after(argument, last)

    def kept_argument(self, argument: Any) -> Any:
        """Treat an argument that is given away as it is, as by a filter."""
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
