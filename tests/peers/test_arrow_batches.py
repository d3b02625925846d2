"""A record batch crosses as the beginning of a stream that any Arrow library can read."""

from __future__ import annotations

import pyarrow as pa

from flinknet import NetworkEnvironment
from tests.peers.programs import Language, consumer, producer

BATCH = pa.record_batch(
    {
        "number": [1, None, 3],
        "city": pa.array(["Oslo", "Rome", "Oslo"]).dictionary_encode(),
        "parts": [[1.5], [], None],
    }
)


async def test_a_foreign_consumer_reads_batches(
    language: Language, environment: NetworkEnvironment
) -> None:
    async with consumer(language, environment.address, "p") as foreigner:
        async with environment.open_writer("p") as writer:
            await writer.emit(BATCH)
        found, end = await foreigner.records()
    assert end == "complete"
    (record,) = found[0]
    assert record["type"] == 127
    with pa.ipc.open_stream(bytes.fromhex(record["content"]["bytes"])) as stream:
        assert stream.read_next_batch() == BATCH


async def test_flinknet_reads_foreign_batches(
    language: Language, environment: NetworkEnvironment
) -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, BATCH.schema) as stream:
        stream.write_batch(BATCH)
    content = sink.getvalue().to_pybytes()  # including the end-of-stream marker
    record = {"type": 127, "content": {"bytes": content.hex()}}
    async with (
        producer(language, {"p": [[record, 7]]}) as (_, address),
        environment.open_reader(address, "p") as reader,
    ):
        batch, seven = [found async for found in reader]
    assert batch == BATCH
    assert seven == 7
