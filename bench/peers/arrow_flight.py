"""Arrow Flight: one ``do_get`` for a round, one record batch for each block.

``columnar`` sends the batches that it is given and looks at the ones that arrive. ``bulk`` is for
records that are Python objects at both ends: it makes columns of a block's rows, sends the batch,
and makes rows again; that is what a program with rows has to do. gRPC's threads share the CPU of
their process.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from importlib import metadata
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple

from bench.harness.case import Block, Case, Tally, Weigh
from bench.harness.system import System

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import flight

__all__ = ["SYSTEM"]

TICKET = b"round"


class RowForm(NamedTuple):
    """How rows become batches and batches rows again."""

    to_batches: Callable[[Block], Iterable[pa.RecordBatch]]
    to_rows: Callable[[pa.RecordBatch], Sequence[Any]]


def send_blocks(blocks: Iterable[Block], form: RowForm) -> Iterator[pa.RecordBatch]:
    """One batch for every block of rows; the batches themselves where they are the records."""
    for block in blocks:
        yield from form.to_batches(block)


def receive_batches(reader: flight.FlightStreamReader, form: RowForm, weigh: Weigh) -> Tally:
    """Take every batch until the stream ends."""
    records = checksum = 0
    for chunk in reader:
        rows = form.to_rows(chunk.data)
        checksum += sum(map(weigh, rows))
        records += len(rows)
    return Tally(records, checksum)


def form_of(case: Case) -> RowForm:
    """Return the way that suits the records: Arrow's own conversions, column by column."""
    import pyarrow as pa

    if case.name == "columnar":
        return RowForm(iter, lambda batch: (batch,))
    if case.name == "dict":
        return RowForm(
            lambda block: [pa.RecordBatch.from_pylist(block)], lambda batch: batch.to_pylist()
        )
    if case.name == "tuple":
        names = ("key", "value", "weight")
        return RowForm(
            lambda block: [pa.record_batch([*map(pa.array, zip(*block, strict=True))], names)],
            lambda batch: [*zip(*(column.to_pylist() for column in batch.columns), strict=True)],
        )
    return RowForm(
        lambda block: [pa.record_batch([pa.array(block)], ("value",))],
        lambda batch: batch.column(0).to_pylist(),
    )


class Stream(NamedTuple):
    """A round on its way; ``sent`` is done when its last batch has been taken from it."""

    blocks: Iterable[Block]
    sent: Future[None]


class FlightProducer:
    """A server whose ``do_get`` streams the next round."""

    def __init__(self, case: Case) -> None:
        from pyarrow import flight

        rounds: SimpleQueue[Stream] = SimpleQueue()
        form = form_of(case)
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
    """A client."""

    def __init__(self, client: flight.FlightClient, case: Case) -> None:
        self._client = client
        self._form = form_of(case)

    async def consume(self, weigh: Weigh) -> Tally:
        """Receive a round; nothing else runs in this process."""
        from pyarrow import flight

        reader = self._client.do_get(flight.Ticket(TICKET))
        return receive_batches(reader, self._form, weigh)


@asynccontextmanager
async def open_producer(case: Case, variant: str) -> AsyncIterator[FlightProducer]:
    """Listen."""
    producer = FlightProducer(case)
    try:
        yield producer
    finally:
        await asyncio.to_thread(producer.close)


@asynccontextmanager
async def open_consumer(case: Case, variant: str, address: str) -> AsyncIterator[FlightConsumer]:
    """Connect."""
    from pyarrow import flight

    with flight.connect(address) as client:
        yield FlightConsumer(client, case)


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
