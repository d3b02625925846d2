"""Arrow Flight: one ``do_get`` for a round, one record batch for each block.

``columnar`` sends existing batches, and the consumer looks at the columns of each. ``bulk`` is for
records that are Python objects at both ends: it converts a block's rows to columns, sends the
batch, and converts it back to rows. A program with rows has to do the same. gRPC's threads share
the CPU of their process.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from functools import partial
from importlib import metadata
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple

from bench.harness.case import Block, Case, Tally, Weigh
from bench.harness.system import System
from bench.peers.columns import ColumnBlock, tally_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import flight

__all__ = ["SYSTEM"]

TICKET = b"round"


class BatchForm(NamedTuple):
    """The conversion of a block to batches, and the tally of a received batch."""

    to_batches: Callable[[Block], Iterable[pa.RecordBatch]]
    tally: Callable[[pa.RecordBatch, Weigh], Tally]


def send_blocks(blocks: Iterable[Block], form: BatchForm) -> Iterator[pa.RecordBatch]:
    """Yield one batch for every block of rows; existing batches are yielded as they are."""
    for block in blocks:
        yield from form.to_batches(block)


def receive_batches(reader: flight.FlightStreamReader, form: BatchForm, weigh: Weigh) -> Tally:
    """Receive every batch until the stream ends."""
    records = checksum = 0
    for chunk in reader:
        tally = form.tally(chunk.data, weigh)
        records += tally.records
        checksum += tally.checksum
    return Tally(records, checksum)


def form_of(case: Case, variant: str) -> BatchForm:
    """Return the form for the records of a case: Arrow's own conversions, column by column."""
    import pyarrow as pa

    if variant == "columnar":
        return BatchForm(ColumnBlock(case).of, partial(tally_of, case))
    if case.name == "dict":
        return BatchForm(
            lambda block: [pa.RecordBatch.from_pylist(block)], _of_rows(lambda b: b.to_pylist())
        )
    if case.name == "tuple":
        names = ("key", "value", "weight")
        return BatchForm(
            lambda block: [pa.record_batch([*map(pa.array, zip(*block, strict=True))], names)],
            _of_rows(lambda b: [*zip(*(each.to_pylist() for each in b.columns), strict=True)]),
        )
    return BatchForm(
        lambda block: [pa.record_batch([pa.array(block)], ("value",))],
        _of_rows(lambda b: b.column(0).to_pylist()),
    )


def _of_rows(
    to_rows: Callable[[pa.RecordBatch], Sequence[Any]],
) -> Callable[[pa.RecordBatch, Weigh], Tally]:
    def tally(batch: pa.RecordBatch, weigh: Weigh) -> Tally:
        rows = to_rows(batch)
        return Tally(len(rows), sum(map(weigh, rows)))

    return tally


class Stream(NamedTuple):
    """A round in progress; ``sent`` is done when its last batch has been taken."""

    blocks: Iterable[Block]
    sent: Future[None]


class FlightProducer:
    """A server that streams the next round in ``do_get``."""

    def __init__(self, case: Case, variant: str) -> None:
        from pyarrow import flight

        rounds: SimpleQueue[Stream] = SimpleQueue()
        form = form_of(case, variant)
        schema = next(iter(form.to_batches(case.make_block()))).schema

        def batches(stream: Stream) -> Iterator[pa.RecordBatch]:
            yield from send_blocks(stream.blocks, form)
            stream.sent.set_result(None)

        class Server(flight.FlightServerBase):  # type: ignore[misc]
            def do_get(self, context: Any, ticket: Any) -> flight.FlightDataStream:
                return flight.GeneratorStream(schema, batches(rounds.get()))

        self._rounds = rounds
        self._server = Server("grpc://127.0.0.1:0")
        self.address = f"grpc://127.0.0.1:{self._server.port}"

    async def produce(self, blocks: Iterable[Block]) -> None:
        """Send a round."""
        stream = Stream(blocks, Future())
        self._rounds.put(stream)
        await asyncio.wrap_future(stream.sent)

    def close(self) -> None:
        """Stop the server."""
        self._server.shutdown()


class FlightConsumer:
    """A client that makes one ``do_get`` per round."""

    def __init__(self, client: flight.FlightClient, form: BatchForm) -> None:
        self._client = client
        self._form = form

    async def consume(self, weigh: Weigh) -> Tally:
        """Receive a round; this blocks the event loop, which has nothing else to do."""
        from pyarrow import flight

        reader = self._client.do_get(flight.Ticket(TICKET))
        return receive_batches(reader, self._form, weigh)


@asynccontextmanager
async def open_producer(case: Case, variant: str) -> AsyncIterator[FlightProducer]:
    """Listen."""
    producer = FlightProducer(case, variant)
    try:
        yield producer
    finally:
        await asyncio.to_thread(producer.close)


@asynccontextmanager
async def open_consumer(case: Case, variant: str, address: str) -> AsyncIterator[FlightConsumer]:
    """Connect."""
    from pyarrow import flight

    with flight.connect(address) as client:
        yield FlightConsumer(client, form_of(case, variant))


def _version() -> str:
    return f"pyarrow {metadata.version('pyarrow')}"


def _parameters(case: Case) -> dict[str, Any]:
    return {"call": "do_get", "compression": None}


SYSTEM = System(
    name="arrow-flight",
    summary="do_get of Arrow record batches; rows become columns and rows again",
    variants=("bulk",),
    version=_version,
    parameters=_parameters,
    open_producer=open_producer,
    open_consumer=open_consumer,
)
