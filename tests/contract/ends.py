"""A producing and a consuming task for every kind of channel."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flinknet.records.reader import RecordReader
from flinknet.records.writer import RecordWriter


async def produce(writer: RecordWriter, records: Iterable[Any], *, many: bool = False) -> None:
    if many:
        await writer.emit_many(records)
    else:
        for record in records:
            await writer.emit(record)
    await writer.finish()
    writer.close()


async def consume(reader: RecordReader) -> list[Any]:
    records = [record async for record in reader]
    reader.close()
    return records
