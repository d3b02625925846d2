"""Questions to single workers, matched with their answers.

Each question has a number, from 1, which its message and the answer carry. ``ask`` waits until the
worker answers, is lost, or exceeds the timeout. An answer that no call waits for is dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Generic, TypeVar

from flinknet.cluster.control.messages import Message

__all__ = ["Inquiries"]

T = TypeVar("T")


class Inquiries(Generic[T]):
    """The questions of one coordinator with answers of one type. Used from its loop only."""

    def __init__(self, send: Callable[[str, Message], None]) -> None:
        self._send = send
        self._numbers = count(1)
        self._asked: dict[int, tuple[str, asyncio.Future[T | None]]] = {}
        """The worker and the pending answer of each question, by number."""

    async def ask(
        self, worker_id: str, question: Callable[[int], Message], timeout_s: float
    ) -> T | None:
        """Ask a worker and return its answer, or None if the worker is lost before it answers.

        ``question`` makes the message for a given number. Raises TimeoutError.
        """
        number = next(self._numbers)
        answer: asyncio.Future[T | None] = asyncio.get_running_loop().create_future()
        self._asked[number] = worker_id, answer
        try:
            self._send(worker_id, question(number))
            async with asyncio.timeout(timeout_s):
                return await answer
        finally:
            del self._asked[number]

    def take(self, worker_id: str, number: int, answer: T) -> bool:
        """Take a worker's answer; return whether a call was waiting for it."""
        asked, waiting = self._asked.get(number, (None, None))
        if waiting is None or asked != worker_id or waiting.done():
            return False
        waiting.set_result(answer)
        return True

    def forget(self, worker_id: str) -> None:
        """End the questions to a lost worker: their answer is None."""
        for asked, waiting in self._asked.values():
            if asked == worker_id and not waiting.done():
                waiting.set_result(None)
