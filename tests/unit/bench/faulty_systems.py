"""Faulty systems, to test that the harness notices; a run's processes import them from here."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from bench.harness.case import Case, Tally, Weigh
from bench.harness.system import Feed, System
from bench.peers.stream import SYSTEM, StreamConsumer, StreamProducer, open_consumer, open_producer


class LosingProducer:
    """Leaves out the last record of every block."""

    def __init__(self, producer: StreamProducer) -> None:
        self.address = producer.address
        self._producer = producer

    async def produce(self, blocks: Feed) -> None:
        await self._producer.produce(block[:-1] async for block in blocks)


class CorruptingProducer(LosingProducer):
    """Sends all records, with one float changed that only the checking round reads."""

    async def produce(self, blocks: Feed) -> None:
        await self._producer.produce(
            [(key, value, weight + 1.0) for key, value, weight in block] async for block in blocks
        )


class FailingProducer(LosingProducer):
    """Raises an error; its consumer then finds the connection closed."""

    async def produce(self, blocks: Feed) -> None:
        raise RuntimeError("out of paper")


class DyingConsumer:
    """Ends its process."""

    def __init__(self, consumer: StreamConsumer) -> None:
        self._consumer = consumer

    async def consume(self, weigh: Weigh) -> Tally:
        os._exit(3)


def _with_producer(name: str, kind: type[LosingProducer]) -> System:
    return replace(SYSTEM, name=name, open_producer=_Opening(kind))


class _Opening:
    """A picklable way to open another kind of producer."""

    def __init__(self, kind: type[LosingProducer]) -> None:
        self._kind = kind

    @asynccontextmanager
    async def __call__(self, case: Case, variant: str) -> AsyncIterator[Any]:
        async with open_producer(case, variant) as producer:
            yield self._kind(producer)


@asynccontextmanager
async def _open_dying(case: Case, variant: str, address: str) -> AsyncIterator[DyingConsumer]:
    async with open_consumer(case, variant, address) as consumer:
        yield DyingConsumer(consumer)


LOSING = _with_producer("losing", LosingProducer)
CORRUPTING = _with_producer("corrupting", CorruptingProducer)
FAILING = _with_producer("failing", FailingProducer)
DYING = replace(SYSTEM, name="dying", open_consumer=_open_dying)
