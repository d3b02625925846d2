"""A system: something that moves records from one process to another."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from bench.harness.case import Block, Case, Tally, Weigh

__all__ = ["SUBJECT", "Consumer", "Contestant", "Feed", "Observing", "Producer", "System"]

SUBJECT = "flinknet"
"""The system whose ratios to the others are shown."""


class Feed(Protocol):
    """The blocks of a round, for a plain loop or an asynchronous one. Where a block is not due yet,
    the one blocks and the other awaits: so a producer that runs on the event loop is to use the
    asynchronous one."""

    def __iter__(self) -> Iterator[Block]:
        """Return the blocks for a plain loop."""

    def __aiter__(self) -> AsyncIterator[Block]:
        """Return the blocks for an asynchronous loop."""


class Producer(Protocol):
    """The sending end. It listens, and the consumer connects to its ``address``."""

    @property
    def address(self) -> str:
        """Where the consumer finds it; any text that the system's consumer understands."""

    async def produce(self, blocks: Feed) -> None:
        """Send every record of every block, then the end of the round; called once per round."""


class Consumer(Protocol):
    """The receiving end."""

    async def consume(self, weigh: Weigh) -> Tally:
        """Receive one round: count its records and add up ``weigh(record)``."""


@runtime_checkable
class Observing(Protocol):
    """What an end may have besides: something it has seen that belongs into the row."""

    def observations(self) -> Mapping[str, Any]:
        """Return what was seen since the end was opened, under the names of parameters."""


@dataclass(frozen=True, slots=True)
class System:
    """How to run a system. Both ends are opened in processes of their own, on a uvloop event loop.

    ``open_producer`` gets the case and the variant, ``open_consumer`` the address as well. The
    functions are module-level ones, because systems are sent to processes; libraries that not every
    machine has are imported inside them. ``parameters`` describes what matters for a fair reading.
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
