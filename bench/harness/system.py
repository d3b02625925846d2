"""A system: software that transfers records from one process to another."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from bench.harness.case import Block, Case, Tally, Weigh

__all__ = ["SUBJECT", "Consumer", "Contestant", "Feed", "Observing", "Producer", "System"]

SUBJECT = "flinknet"
"""The system that is compared with the others."""


class Feed(Protocol):
    """The blocks of a round, for a plain or an asynchronous loop.

    If a block is not due yet, the plain loop blocks and the asynchronous one awaits. A producer on
    the event loop must therefore use the asynchronous one.
    """

    def __iter__(self) -> Iterator[Block]:
        """Return the blocks for a plain loop."""

    def __aiter__(self) -> AsyncIterator[Block]:
        """Return the blocks for an asynchronous loop."""


class Producer(Protocol):
    """The sending end. It listens, and the consumer connects to its ``address``."""

    @property
    def address(self) -> str:
        """The address of this end; any text that the system's consumer understands."""

    async def produce(self, blocks: Feed) -> None:
        """Send every record of every block, then the end of the round; called once per round."""


class Consumer(Protocol):
    """The receiving end."""

    async def consume(self, weigh: Weigh) -> Tally:
        """Receive one round: count its records and add up ``weigh(record)``."""


@runtime_checkable
class Observing(Protocol):
    """The optional interface of an end that has observations for the row."""

    def observations(self) -> Mapping[str, Any]:
        """Return the observations since the end was opened, under the names of parameters."""


@dataclass(frozen=True, slots=True)
class System:
    """A system under test; each end is opened in its own process, on a uvloop event loop.

    ``open_producer`` gets the case and the variant, ``open_consumer`` the address as well. The
    functions are module-level ones, because systems are pickled to processes. They import optional
    libraries themselves. ``parameters`` describes the settings that matter for a fair comparison.
    """

    name: str
    summary: str
    variants: tuple[str, ...]
    version: Callable[[], str]
    parameters: Callable[[Case], dict[str, Any]]
    open_producer: Callable[[Case, str], AbstractAsyncContextManager[Producer]]
    open_consumer: Callable[[Case, str, str], AbstractAsyncContextManager[Consumer]]


@dataclass(frozen=True, slots=True)
class Contestant:
    """A system in one of its variants."""

    system: System
    variant: str

    def __str__(self) -> str:
        return f"{self.system.name} {self.variant}"
