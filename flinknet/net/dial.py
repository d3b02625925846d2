"""The dial: one address that is being connected to, for all tasks that need its worker.

Each waiter has its own deadline, ``rendezvous_timeout_ms`` after it began to wait. The dial itself
ends with a connection, a permanent refusal (another job, another secret), or its last waiter. With
a ``heartbeat_timeout_ms`` of 0, a worker that accepts connections but does not answer is waited for
beyond the deadline.

A worker that is not up yet, is full, hangs up or does not answer is tried again, after a pause that
grows up to ``connect_backoff_max_ms`` (``backoff.py``). A pause ends early when the peer connects
to this side.

Without waiters there is no further attempt, but the current one is completed. The peer may rely on
the connection before this side knows that it is established, and the next request for the peer can
use it. Otherwise jobs that fail early would dial again each time.

After ``rendezvous_notice_ms`` of waiting, one log line names a waiter, the address and the reason.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from flinknet.config import NetworkConfig
from flinknet.connection.session import Session
from flinknet.errors import HandshakeError, RemoteTransportError
from flinknet.net.backoff import Backoff
from flinknet.net.stall_tolerant_timer import stall_tolerant_timeout

__all__ = ["Dial"]

log = logging.getLogger("flinknet.rendezvous")


class Dial:
    """Tries an address until there is a connection.

    Args:
        address: Address to dial.
        try_once: Makes a connection, or raises HandshakeError, RemoteTransportError or OSError.
        pause: Waits for a number of seconds, or until the peer has made a connection.
        on_over: Called when no attempt is in progress any more.
    """

    def __init__(
        self,
        address: str,
        try_once: Callable[[], Awaitable[Session]],
        pause: Callable[[float], Awaitable[Session | None]],
        on_over: Callable[[Dial], None],
        loop: asyncio.AbstractEventLoop,
        config: NetworkConfig,
    ) -> None:
        self.address = address
        self._try_once = try_once
        self._pause = pause
        self._loop = loop
        self._timeout_s = config.rendezvous_timeout_ms / 1000
        self._notice_s = config.rendezvous_notice_ms / 1000
        self._never_gives_up = not config.heartbeat_timeout_ms
        self._backoff = Backoff(
            config.connect_backoff_ms / 1000, config.connect_backoff_max_ms / 1000
        )
        self._tries = 0
        self._failure: Exception | None = None
        self._waiting: list[str] = []
        self._pausing = False
        self._notice: asyncio.TimerHandle | None = None
        self._task = loop.create_task(self._run(), name=f"flinknet dial {address}")
        self._task.add_done_callback(lambda _: self._on_task_done(on_over))

    async def wait(self, waiter: str) -> Session:
        """Wait for the connection, on behalf of ``waiter``.

        A cancelled waiter does not stop the dial for others; the last one ends its attempts.

        Raises:
            RemoteTransportError: At the deadline.
            HandshakeError: If the peer will never agree.
        """
        if self._notice_s and not self._waiting:
            self._notice = self._loop.call_later(self._notice_s, self._log_waiting)
        self._waiting.append(waiter)
        try:
            # The shield keeps a cancelled waiter from cancelling the dial for others.
            async with stall_tolerant_timeout(self._timeout_s or None, self._waits_for_answer):
                return await asyncio.shield(self._task)
        except TimeoutError:
            raise RemoteTransportError(
                f"cannot connect to {self.address} within {self._timeout_s:g} s "
                f"(rendezvous_timeout_ms), in {self._tries} tries: {self._reason()}"
            ) from self._failure
        finally:
            self._waiting.remove(waiter)
            if not self._waiting:
                self._on_last_waiter_gone()

    def _waits_for_answer(self) -> bool:
        """Whether the peer accepts connections in silence, and this side never gives it up."""
        failure = self._failure
        return self._never_gives_up and isinstance(failure, HandshakeError) and failure.unanswered

    def _on_last_waiter_gone(self) -> None:
        if self._notice is not None:
            self._notice.cancel()
        # An attempt in progress is completed, because the peer may rely on its connection.
        if self._pausing:
            self._task.cancel()

    @property
    def ends(self) -> bool:
        """Whether no new waiter may join."""
        return self._task.done() or self._task.cancelling() > 0

    def cancel(self) -> asyncio.Task[Session]:
        """Cancel the dial for all waiters; return the task, which the caller must await."""
        self._task.cancel()
        return self._task

    async def _run(self) -> Session:
        while True:
            self._tries += 1
            try:
                return await self._try_once()
            except HandshakeError as error:
                if not error.may_pass:
                    raise
                self._failure = error
            except (RemoteTransportError, OSError) as error:
                self._failure = error
            # Without waiters there is no further attempt.
            if not self._waiting:
                raise self._failure
            self._pausing = True
            arrived = await self._pause(self._backoff.next_pause())
            self._pausing = False
            if arrived is not None:
                return arrived

    def _on_task_done(self, on_over: Callable[[Dial], None]) -> None:
        if not self._task.cancelled():
            self._task.exception()  # retrieved here in case there is no waiter
        on_over(self)

    def _reason(self) -> str:
        if self._failure is None:
            return "the first attempt has not ended"
        if isinstance(self._failure, OSError):
            return f"{self._failure}; is a worker listening there?"
        return str(self._failure)

    def _log_waiting(self) -> None:
        others = f" and {len(self._waiting) - 1} more" if len(self._waiting) > 1 else ""
        log.warning(
            "%s%s: still waiting for a worker at %s, tried %d times: %s",
            self._waiting[0],
            others,
            self.address,
            self._tries,
            self._reason(),
        )
