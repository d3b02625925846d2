"""The event loop of workers: uvloop, which is faster, or asyncio's own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from flinknet.config import ClusterConfig
from flinknet.errors import ConfigurationError

__all__ = ["loop_factory"]


def loop_factory(config: ClusterConfig) -> Callable[[], asyncio.AbstractEventLoop]:
    """Return the factory of the event loop; "auto" means uvloop if it is installed.

    Raises ConfigurationError if uvloop is configured by name and cannot be imported.
    """
    if config.event_loop == "asyncio":
        return asyncio.new_event_loop
    try:
        import uvloop
    except ImportError as error:
        if config.event_loop == "auto":
            return asyncio.new_event_loop
        raise ConfigurationError(
            f'cluster.event_loop is "uvloop", which cannot be imported ({error}): install it '
            '(pip install uvloop), or choose "auto" or "asyncio"'
        ) from error
    return uvloop.new_event_loop
