"""A job of columns in worker processes, with real connections between them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from flinknet.cluster import LocalCluster
from flinknet.config import FlinknetConfig, NetworkConfig
from flinknet.datastream import FileSource, ParquetSink, StreamExecutionEnvironment

CONFIG = FlinknetConfig(network=NetworkConfig(network_memory_bytes=8 * 2**20))


def totals(batches: list[Any]) -> list[Any]:
    """Return one row for every key and batch."""
    rows = pa.Table.from_batches(batches).group_by("key").aggregate([("value", "sum")])
    return rows.to_batches()


async def test_columns_through_worker_processes(tmp_path: Path) -> None:
    rows = 100_000
    table = pa.table(
        {
            "key": [f"key {number % 101}" for number in range(rows)],
            "value": pa.array(range(rows), pa.int64()),
        }
    )
    (tmp_path / "in").mkdir()
    for part in range(2):
        pq.write_table(
            table.slice(part * rows // 2, rows // 2), tmp_path / "in" / f"{part}.parquet"
        )
    environment = StreamExecutionEnvironment().set_parallelism(2)
    source = environment.from_source(FileSource(tmp_path / "in", records="batch"))
    summed = source.key_by_columns("key").map_batch(totals)
    summed.sink_to(ParquetSink(tmp_path / "out", {"key": "string", "value_sum": "int64"}))

    async with LocalCluster(CONFIG) as cluster:
        result = await cluster.execute(environment.job_graph("columns"))

    assert set(result.workers) == {"worker-0", "worker-1"}
    files = sorted((tmp_path / "out").glob("*.parquet"))
    keys = [set(pq.read_table(file)["key"].to_pylist()) for file in files]
    assert len(keys) == 2
    assert all(keys)
    assert keys[0].isdisjoint(keys[1])
    written = pq.read_table(tmp_path / "out").group_by("key").aggregate([("value_sum", "sum")])
    expected = table.group_by("key").aggregate([("value", "sum")])
    assert sorted(map(tuple, (row.values() for row in written.to_pylist()))) == sorted(
        map(tuple, (row.values() for row in expected.to_pylist()))
    )
