"""How a worker finds and registers with its coordinator, at its start and after a loss.

Theory of operation. The processes of a cluster start in any order, and a coordinator may restart. A
worker therefore retries for a limited time, with growing pauses (``net/backoff.py``). A worker that
is told to stop meanwhile stops at once. A refusal is final.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress

from flinknet import machine
from flinknet.cluster.control.control_link import ControlLink
from flinknet.cluster.control.messages import Register, Registered
from flinknet.config import ClusterConfig
from flinknet.errors import ConfigurationError, RemoteTransportError
from flinknet.net.address import is_any_address, split_address
from flinknet.net.backoff import CONTROL_PAUSE_S, Backoff
from flinknet.net.stall_tolerant_timer import stall_tolerant_timeout
from flinknet.texts import text_of

__all__ = ["find_way", "join", "join_again", "say_that_it_waits"]


async def find_way(config: ClusterConfig, coordinator: str, stop: asyncio.Event) -> str | None:
    """Return the host, and perhaps port, at which others reach this worker; None if stopped.

    The address may depend on the route to the coordinator, and its name may not resolve yet.
    Raises RemoteTransportError if there is no route within ``coordinator_wait_ms``.
    """
    loop = asyncio.get_running_loop()
    began_at, backoff, is_told = loop.time(), Backoff(*CONTROL_PAUSE_S), False
    while not stop.is_set():
        try:
            return _advertised(config, coordinator)
        except RemoteTransportError as error:
            if loop.time() - began_at >= config.coordinator_wait_ms / 1000:
                raise
            if not is_told:
                say_that_it_waits(config.coordinator_wait_ms, error)
                is_told = True
        with suppress(TimeoutError):
            async with asyncio.timeout(backoff.next_pause()):
                await stop.wait()
    return None


def say_that_it_waits(wait_ms: float, absence: RemoteTransportError) -> None:
    """Print that there is no coordinator yet."""
    print(
        f"waiting for the coordinator for up to {wait_ms:.0f} ms (cluster.coordinator_wait_ms): "
        f"{text_of(absence)}",
        file=sys.stderr,
    )


def _advertised(config: ClusterConfig, coordinator: str) -> str:
    """Return the host, and perhaps port, under which others reach this worker."""
    if config.advertised_host or not is_any_address(config.host):
        return config.advertised_host or config.host
    try:
        return machine.address_towards(*split_address(coordinator))
    except OSError as error:
        reason = error.strerror or error
        raise RemoteTransportError(f"there is no route to {coordinator}: {reason}") from error


async def join(
    link: ControlLink,
    message: Register,
    within_ms: float,
    stop: asyncio.Event,
    on_absence: Callable[[RemoteTransportError], None] = lambda absence: None,
) -> Registered | None:
    """Register with the coordinator within a time; return None if the worker is to stop meanwhile.

    ``on_absence`` is called with the error of the first failed attempt. Raises RemoteTransportError
    if no coordinator has answered in time, and ConfigurationError if it refuses the worker.
    """
    joining = asyncio.create_task(_join(link, message, within_ms, on_absence))
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((joining, stopping), return_when=asyncio.FIRST_COMPLETED)
        return joining.result() if joining.done() else None
    finally:
        for task in (joining, stopping):
            task.cancel()
        await asyncio.gather(joining, stopping, return_exceptions=True)


async def _join(
    link: ControlLink,
    message: Register,
    within_ms: float,
    on_absence: Callable[[RemoteTransportError], None],
) -> Registered:
    if not within_ms:
        return await link.register(message)
    absence: RemoteTransportError | None = None
    backoff = Backoff(*CONTROL_PAUSE_S)
    try:
        async with stall_tolerant_timeout(within_ms / 1000):
            while True:
                try:
                    return await link.register(message)
                except RemoteTransportError as error:
                    if absence is None:
                        on_absence(error)
                    absence = error
                    await asyncio.sleep(backoff.next_pause())
    except TimeoutError:
        reason = "it does not answer" if absence is None else text_of(absence)
        raise RemoteTransportError(
            f"no coordinator has answered for {within_ms:.0f} ms: {reason}"
        ) from absence


async def join_again(
    link: ControlLink, message: Register, within_ms: float, stop: asyncio.Event
) -> Registered | None:
    """Register with the successor of a lost coordinator.

    Returns None if none answers in time, if it refuses the worker, or if the worker is to stop.
    """
    if not within_ms:
        return None
    try:
        return await join(link, message, within_ms, stop)
    except RemoteTransportError as error:
        print(f"lost the coordinator: {text_of(error)}", file=sys.stderr)
    except ConfigurationError as error:
        print(f"the coordinator refuses this worker: {error}", file=sys.stderr)
    return None
