"""Jobs that read from an embedded producer, and jobs that write for an embedded reader."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from flinknet import HashPartitioner, NetworkEnvironment
from flinknet.datastream import (
    CollectSink,
    NetworkSink,
    NetworkSource,
    StreamExecutionEnvironment,
)
from flinknet.errors import ConfigurationError, FlinknetError
from flinknet.net.network_environment import NetworkEnvironment as Environment
from flinknet.operators.sink import SinkOperator
from tests.unit.operators.harness import Harness, context
from tests.unit.runtime.running import run_job

MORE_THAN_BUFFERS_HOLD = 2_000_000


async def produce(environment: Environment, records: int, subpartitions: int = 1) -> None:
    partitioner = HashPartitioner(lambda record: record) if subpartitions > 1 else None
    async with environment.open_writer(
        "numbers", subpartitions=subpartitions, partitioner=partitioner
    ) as writer:
        await writer.emit_many(range(records))


@pytest.mark.parametrize("by_name", [True, False])
async def test_a_job_reads_what_a_program_writes(tmp_path: Path, by_name: bool) -> None:
    program = NetworkEnvironment(directory=tmp_path if by_name else None)
    async with program:
        place: dict[str, Any] = {"addresses": program.address}
        if by_name:
            place = {"directory": tmp_path}
        job = StreamExecutionEnvironment().set_parallelism(2)
        source = NetworkSource("numbers", subpartitions=2, **place)
        job.from_source(source).sink_to(CollectSink()).name("all")
        produced = asyncio.create_task(produce(program, 20_000, 2))
        collected = (await run_job(job)).collected["all"]
        await produced
    assert sorted(collected) == list(range(20_000))


async def test_a_program_reads_what_a_job_writes(tmp_path: Path) -> None:
    async with NetworkEnvironment(directory=tmp_path) as program:
        job = StreamExecutionEnvironment().set_parallelism(2)
        numbers = job.from_collection(range(20_000)).rebalance().map(lambda number: number * 2)
        numbers.sink_to(NetworkSink("doubled", directory=tmp_path))
        running = asyncio.create_task(run_job(job))
        async with program.open_reader("doubled", producers=2) as reader:
            read = [record async for record in reader]
        await running
    assert sorted(read) == list(range(0, 40_000, 2))


async def test_a_reader_finds_subtasks_by_port() -> None:
    async with Environment() as placeholder:
        port = int(placeholder.address.rpartition(":")[2])
    made = Harness(SinkOperator(NetworkSink("out", port=port)), context())
    async with Environment() as program, made as harness:
        await harness.process("a", "b")
        async with program.open_reader(f"127.0.0.1:{port}", "out") as reader:
            ended = asyncio.create_task(harness.end_of_input())
            assert [record async for record in reader] == ["a", "b"]
        await ended


async def test_a_reader_is_told_that_the_job_has_failed(tmp_path: Path) -> None:
    made = Harness(SinkOperator(NetworkSink("out", directory=tmp_path)), context())
    async with Environment(directory=tmp_path) as program:
        await made.operator.open(made.context)
        await made.process("a")
        async with program.open_reader("out") as reader:
            assert await anext(reader) == "a"
            await made.operator.close()
            with pytest.raises(FlinknetError, match='that writes "out" has ended before its input'):
                await anext(reader)
        await made.operator.close()


async def test_the_job_is_told_that_the_producer_has_failed(tmp_path: Path) -> None:
    async with NetworkEnvironment(directory=tmp_path) as program:
        job = StreamExecutionEnvironment()
        job.from_source(NetworkSource("numbers", directory=tmp_path)).sink_to(CollectSink())

        async def failing() -> None:
            async with program.open_writer("numbers") as writer:
                await writer.emit_many(range(MORE_THAN_BUFFERS_HOLD))  # so the job reads
                raise ValueError("no more numbers")

        running = asyncio.create_task(run_job(job))
        with pytest.raises(ValueError, match="no more numbers"):
            await failing()
        with pytest.raises(FlinknetError, match="no more numbers"):
            (await running).collected  # noqa: B018


async def test_no_checkpoint_could_go_on_from_there(tmp_path: Path) -> None:
    job = StreamExecutionEnvironment().enable_checkpointing(1000)
    job.from_source(NetworkSource("numbers", directory=tmp_path)).print()
    with pytest.raises(FlinknetError, match="cannot be read again from a position in a checkpoint"):
        (await run_job(job)).collected  # noqa: B018
    made = Harness(SinkOperator(NetworkSink("out", directory=tmp_path)), context(checkpointed=True))
    with pytest.raises(
        FlinknetError, match="does not know which records its readers have processed"
    ):
        await made.operator.open(made.context)
    await made.operator.close()


async def test_each_subpartition_has_its_subtask(tmp_path: Path) -> None:
    job = StreamExecutionEnvironment()
    source = NetworkSource("numbers", directory=tmp_path)
    job.from_source(source).set_parallelism(2).print()
    with pytest.raises(FlinknetError, match='"numbers" has 1 subpartitions, and 2 subtasks'):
        (await run_job(job)).collected  # noqa: B018


def test_a_source_and_a_sink_need_an_address_or_a_directory(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="either the addresses .* or the directory"):
        NetworkSource("numbers")
    with pytest.raises(ConfigurationError, match="either the addresses .* or the directory"):
        NetworkSource("numbers", addresses="127.0.0.1:1", directory=tmp_path)
    with pytest.raises(ConfigurationError, match="needs a port or a directory"):
        NetworkSink("out")
