"""The dial: one address that is being connected to, for all who need the worker there.

Theory of operation. Whoever waits has its own deadline, ``rendezvous_timeout_ms`` from when it
began to; the dial itself goes on until it has a connection, is refused for a reason that will not
pass (another job, another secret), or nobody waits for it any more. With a ``heartbeat_timeout_ms``
of 0 a worker that is there and does not answer is waited for beyond the deadline.

A worker that is not there yet, that is full, that hangs up or does not answer is tried again, after
a pause that grows up to ``connect_backoff_max_ms`` (``backoff.py``). A pause ends early when the
peer has connected to this side.

Once nobody waits there is no further try, but the one that has begun goes on to its end: the peer
may count on the connection before this side has heard that it stands, and whoever needs the peer
next finds it made. Without that, jobs that fail early would dial anew each time.

Once while anybody waits, after ``rendezvous_notice_ms``, a line in the log says who waits for
whom, and why.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from flinknet.config import NetworkConfig
from flinknet.connection.session import Session
from flinknet.errors import HandshakeError, RemoteTransportError
from flinknet.net.backoff import Backoff
from flinknet.net.patience import patient_timeout

__all__ = ["Dial"]

log = logging.getLogger("flinknet.rendezvous")


class Dial:
    """Tries an address until there is a connection.

    Args: address: what is dialled. try_once: makes a connection, or raises HandshakeError,
        RemoteTransportError or OSError. pause: waits for so many seconds, or for a connection that
        the peer makes meanwhile. on_over: called when nothing is being tried any more.
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
        self._task.add_done_callback(lambda _: self._over(on_over))

    async def wait(self, who: str) -> Session:
        """Wait for the connection, on behalf of ``who``.

        Raises RemoteTransportError at the deadline, HandshakeError if the peer will never agree. A
        cancelled waiter does not stop the dial for the others; the last one ends its tries.
        """
        if self._notice_s and not self._waiting:
            self._notice = self._loop.call_later(self._notice_s, self._tell)
        self._waiting.append(who)
        try:
            async with patient_timeout(self._timeout_s or None, self._waits_for_answer):
                return await asyncio.shield(self._task)
        except TimeoutError:
            raise RemoteTransportError(
                f"cannot connect to {self.address} within {self._timeout_s:g} s "
                f"(rendezvous_timeout_ms), in {self._tries} tries: {self._reason()}"
            ) from self._failure
        finally:
            self._waiting.remove(who)
            if not self._waiting:
                self._nobody_waits()

    def _waits_for_answer(self) -> bool:
        """Whether the peer is there and silent, and this side never gives such a peer up."""
        failure = self._failure
        return self._never_gives_up and isinstance(failure, HandshakeError) and failure.unanswered

    def _nobody_waits(self) -> None:
        if self._notice is not None:
            self._notice.cancel()
        if self._pausing:
            self._task.cancel()

    @property
    def ends(self) -> bool:
        """Whether nobody should begin to wait any more."""
        return self._task.done() or self._task.cancelling() > 0

    def cancel(self) -> asyncio.Task[Session]:
        """Stop for everybody; returns the task that is being cancelled, to be awaited."""
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
            if not self._waiting:
                raise self._failure
            self._pausing = True
            arrived = await self._pause(self._backoff.next_pause())
            self._pausing = False
            if arrived is not None:
                return arrived

    def _over(self, on_over: Callable[[Dial], None]) -> None:
        if not self._task.cancelled():
            self._task.exception()  # its waiters have it; without waiters nobody needs it
        on_over(self)

    def _reason(self) -> str:
        if self._failure is None:
            return "the first one has not ended"
        if isinstance(self._failure, OSError):
            return f"{self._failure}; is a worker listening there?"
        return str(self._failure)

    def _tell(self) -> None:
        others = f" and {len(self._waiting) - 1} more" if len(self._waiting) > 1 else ""
        log.warning(
            "%s%s: still waiting for a worker at %s, tried %d times: %s",
            self._waiting[0],
            others,
            self.address,
            self._tries,
            self._reason(),
        )
